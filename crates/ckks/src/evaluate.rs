//! Operations on ciphertexts.
//!
//! Each operation states the number of levels that it uses. Results have the canonical scale of their level
//! unless the operation says otherwise. The error that an operation adds to a slot is given as a multiple of
//! [`Params::rounding_error`], called one rounding.

use crate::keyswitch::{self, Digits, Source};
use crate::linear::EncodedTransform;
use crate::{
    Ciphertext, Error, EvaluationKeys, GaloisElement, KeyId, Op, Params, Plaintext, PublicKey, Undivided,
};
use num_complex::Complex64;
use rns::{AccumulatorTerms, Destination, Mode, Ntt, Poly};
use std::collections::{BTreeMap, BTreeSet};

/// Computes on ciphertexts with a set of evaluation keys. Immutable and `Sync`.
#[derive(Debug, Clone)]
pub struct Evaluator {
    params: Params,
    keys: EvaluationKeys,
}

/// The public keys of a ring.
#[derive(Debug, Clone)]
pub struct RingKeys {
    /// Its evaluation keys, with the parameters.
    pub evaluator: Evaluator,
    /// The public key.
    pub public_key: PublicKey,
    /// The id of the key pair.
    pub key_id: KeyId,
}

/// The largest relative difference of two scales that count as equal. Constants are rounded to a relative
/// 2⁻³², which is far below it.
const SCALE_TOLERANCE: f64 = 1e-7;

impl Evaluator {
    /// An evaluator with these keys. An operation whose key is missing returns [`Error::MissingKey`].
    pub fn new(params: Params, keys: EvaluationKeys) -> Self {
        Evaluator { params, keys }
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The keys.
    pub fn keys(&self) -> &EvaluationKeys {
        &self.keys
    }

    pub(crate) fn same(&self, op: Op, a: (usize, f64), b: (usize, f64)) -> Result<(), Error> {
        if a.0 != b.0 {
            return Err(Error::LevelMismatch { op, left: a.0, right: b.0 });
        }
        if (a.1 / b.1 - 1.0).abs() > SCALE_TOLERANCE {
            return Err(Error::ScaleMismatch { op, left: a.1.log2(), right: b.1.log2() });
        }
        Ok(())
    }

    /// a ← a + b. Uses no level. Levels and scales must agree.
    pub fn add_assign(&self, a: &mut Ciphertext, b: &Ciphertext) -> Result<(), Error> {
        self.same(Op::Add, (a.level, a.scale), (b.level, b.scale))?;
        let basis = self.params.q_basis(a.level);
        a.c0.add_assign(basis, &b.c0);
        a.c1.add_assign(basis, &b.c1);
        Ok(())
    }

    /// a ← a − b. Uses no level. Levels and scales must agree.
    pub fn sub_assign(&self, a: &mut Ciphertext, b: &Ciphertext) -> Result<(), Error> {
        self.same(Op::Add, (a.level, a.scale), (b.level, b.scale))?;
        let basis = self.params.q_basis(a.level);
        a.c0.sub_assign(basis, &b.c0);
        a.c1.sub_assign(basis, &b.c1);
        Ok(())
    }

    /// a ← −a. Uses no level.
    pub fn neg_assign(&self, a: &mut Ciphertext) {
        let basis = self.params.q_basis(a.level);
        a.c0.neg_assign(basis);
        a.c1.neg_assign(basis);
    }

    /// a ← a + m. Uses no level. Levels and scales must agree.
    pub fn add_plain_assign(&self, a: &mut Ciphertext, m: &Plaintext) -> Result<(), Error> {
        self.same(Op::Add, (a.level, a.scale), (m.level, m.scale))?;
        a.c0.add_assign(self.params.q_basis(a.level), &m.poly);
        Ok(())
    }

    /// a ← a + z in every slot. Uses no level.
    pub fn add_constant_assign(&self, a: &mut Ciphertext, z: Complex64) -> Result<(), Error> {
        let m = Plaintext::encode_at(&self.params, &[z], a.level, a.scale)?;
        self.add_plain_assign(a, &m)
    }

    /// a ← k·a. Uses no level. The error of `a` grows by the factor |k|.
    pub fn mul_integer_assign(&self, a: &mut Ciphertext, k: i64) {
        let basis = self.params.q_basis(a.level);
        a.c0.mul_integer_assign(basis, i128::from(k));
        a.c1.mul_integer_assign(basis, i128::from(k));
    }

    /// a ← a·2^−`log_k` modulo Q. The product of the result and 2^`log_k` is a again, whether or not the
    /// coefficients of the message are multiples of it. Uses no level.
    pub fn divide_exactly_assign(&self, a: &mut Ciphertext, log_k: u32) {
        let basis = self.params.q_basis(a.level);
        a.c0.divide_exactly_assign(basis, log_k);
        a.c1.divide_exactly_assign(basis, log_k);
    }

    /// a ← √−1·a. Uses no level and adds no error.
    pub fn mul_i_assign(&self, a: &mut Ciphertext) {
        let basis = self.params.q_basis(a.level);
        a.c0.mul_assign(basis, self.params.imaginary_unit());
        a.c1.mul_assign(basis, self.params.imaginary_unit());
    }

    /// Divides the ciphertext and its scale by the last prime. Uses one level and adds one rounding.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] at level 0.
    pub fn rescale(&self, a: Ciphertext) -> Result<Ciphertext, Error> {
        let out_of_levels = Error::OutOfLevels { op: Op::Rescale, need: 1, have: 0 };
        let divider = self.params.rescale(a.level).ok_or(out_of_levels)?;
        let scale = a.scale / self.params.prime(a.level) as f64;
        let (c0, c1) = rayon::join(|| divider.divide(a.c0), || divider.divide(a.c1));
        Ok(Ciphertext { c0, c1, level: a.level - 1, scale })
    }

    /// (Σ k·t + constant)/q at `level`, where q is the prime of `level` + 1. The caller states the scale of
    /// the result.
    fn divided_sum(
        &self,
        op: Op,
        terms: &[(i128, &Ciphertext)],
        constant: i128,
        level: usize,
        scale: f64,
    ) -> Result<Ciphertext, Error> {
        let divider = self.params.rescale(level + 1).ok_or(Error::OutOfLevels { op, need: 1, have: 0 })?;
        let part = |part: fn(&Ciphertext) -> &Poly<Ntt>| {
            terms.iter().map(|(k, t)| (*k, part(t))).collect::<Vec<_>>()
        };
        let (c0, c1) = rayon::join(
            || divider.divide_sum(&part(|t| &t.c0), constant),
            || divider.divide_sum(&part(|t| &t.c1), 0),
        );
        Ok(Ciphertext { c0, c1, level, scale })
    }

    /// The first `level` + 1 limbs of the ciphertext: the same message at the same scale and a lower level.
    /// Adds no error.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] if `level` is above the level of the ciphertext.
    pub fn drop_level(&self, a: &Ciphertext, level: usize) -> Result<Ciphertext, Error> {
        if level > a.level {
            return Err(Error::OutOfLevels { op: Op::DropLevel, need: level, have: a.level });
        }
        Ok(Ciphertext { c0: a.c0.truncated(level + 1), c1: a.c1.truncated(level + 1), level, scale: a.scale })
    }

    /// The same message at a lower `level` and its canonical scale. Drops to `level` + 1, multiplies by an
    /// integer near the prime, and rescales. Adds one rounding, and changes the message by a relative error
    /// below 2^−log_scale.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] if `level` is above the level of the ciphertext.
    pub fn adjust(&self, a: &Ciphertext, level: usize) -> Result<Ciphertext, Error> {
        let canonical = self.params.scale(a.level);
        if level > a.level {
            return Err(Error::OutOfLevels { op: Op::DropLevel, need: level, have: a.level });
        }
        if level == a.level && (a.scale / canonical - 1.0).abs() < SCALE_TOLERANCE {
            return Ok(a.clone());
        }
        self.adjust_to(a, level, self.params.scale(level))
    }

    /// As [`Self::adjust`], but to any scale near the canonical one, and always to a lower level.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] if `level` is not below the level of the ciphertext.
    pub fn adjust_to(&self, a: &Ciphertext, level: usize, scale: f64) -> Result<Ciphertext, Error> {
        if level >= a.level {
            return Err(Error::OutOfLevels { op: Op::DropLevel, need: level + 1, have: a.level });
        }
        let factor = integer(scale * self.params.prime(level + 1) as f64 / a.scale, Op::DropLevel, a.scale)?;
        self.divided_sum(Op::DropLevel, &[(factor, a)], 0, level, scale)
    }

    /// The rescaled product a·m. Uses one level. The result has the canonical scale if `m` was encoded by
    /// [`Self::encode_factor`].
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] at level 0, [`Error::LevelMismatch`] if `a` and `m` are at different levels.
    pub fn mul_plain(&self, a: &Ciphertext, m: &Plaintext) -> Result<Ciphertext, Error> {
        if m.level != a.level {
            return Err(Error::LevelMismatch { op: Op::MulPlain, left: a.level, right: m.level });
        }
        let basis = self.params.q_basis(a.level);
        let out = Ciphertext {
            c0: a.c0.mul(basis, &m.poly),
            c1: a.c1.mul(basis, &m.poly),
            level: a.level,
            scale: a.scale * m.scale,
        };
        self.rescale_product(out)
    }

    /// As [`Self::rescale`], with the canonical scale where the scale is that within its tolerance.
    pub(crate) fn rescale_product(&self, a: Ciphertext) -> Result<Ciphertext, Error> {
        let mut out = self.rescale(a)?;
        let canonical = self.params.scale(out.level);
        if (out.scale / canonical - 1.0).abs() < SCALE_TOLERANCE {
            out.scale = canonical;
        }
        Ok(out)
    }

    /// Encodes a factor for [`Self::mul_plain`]. Its scale takes the canonical scale of `level` to the
    /// canonical scale of `level` − 1.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] at level 0 or above the top level; otherwise as [`Plaintext::encode`].
    pub fn encode_factor(&self, slots: &[Complex64], level: usize) -> Result<Plaintext, Error> {
        Plaintext::encode_at(&self.params, slots, level, self.factor_scale(Op::MulPlain, level)?)
    }

    /// The scale of a factor whose rescaled product takes the canonical scale of `level` to that of `level`
    /// − 1.
    pub(crate) fn factor_scale(&self, op: Op, level: usize) -> Result<f64, Error> {
        let p = &self.params;
        if level == 0 {
            return Err(Error::OutOfLevels { op, need: 1, have: 0 });
        }
        p.check_level(op, level)?;
        Ok(p.scale(level - 1) * p.prime(level) as f64 / p.scale(level))
    }

    /// Σ cᵢ·aᵢ + constant, one level below the lowest operand. Adds one rounding in all.
    ///
    /// # Errors
    /// As [`Self::sum_of_products`].
    pub fn linear_combination(
        &self,
        terms: &[(f64, &Ciphertext)],
        constant: f64,
    ) -> Result<Ciphertext, Error> {
        let level = terms.iter().map(|(_, a)| a.level).min().unwrap_or(0);
        if level == 0 {
            return Err(Error::OutOfLevels { op: Op::MulPlain, need: 1, have: 0 });
        }
        self.sum_of_products(&[], terms, constant, level - 1, self.params.scale(level - 1))
    }

    /// The product a·b, relinearised and rescaled in one division. Uses one level and adds one rounding.
    ///
    /// # Errors
    /// [`Error::LevelMismatch`] if the operands are at different levels, [`Error::OutOfLevels`] at level 0,
    /// [`Error::MissingKey`] without a relinearisation key for the level.
    pub fn mul(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, Error> {
        let level = a.level;
        if level != b.level {
            return Err(Error::LevelMismatch { op: Op::Mul, left: level, right: b.level });
        }
        if level == 0 {
            return Err(Error::OutOfLevels { op: Op::Mul, need: 1, have: 0 });
        }
        let scale = a.scale * b.scale / self.params.prime(level) as f64;
        let canonical = self.params.scale(level - 1);
        let scale = if (scale / canonical - 1.0).abs() < SCALE_TOLERANCE { canonical } else { scale };
        self.sum_of_products(&[(1, a, b)], &[], 0.0, level - 1, scale)
    }

    /// Σ kᵢ·aᵢ·bᵢ + Σ cⱼ·tⱼ + constant at `level` and `scale`, with one relinearisation, one division and one
    /// rounding in all. Operands may be at any level above `level`; their limbs above `level` + 1 are not
    /// used. Four times the number of products plus the number of terms is at most 2¹¹.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] if an operand is not above `level`; [`Error::ScaleMismatch`] if the scale of a
    /// product, divided by the prime of `level` + 1, is not `scale`; [`Error::ValueRange`] if a coefficient
    /// or the constant is not finite or exceeds 2¹⁰⁰ at its scale; [`Error::MissingKey`] without a
    /// relinearisation key for the level.
    pub fn sum_of_products(
        &self,
        products: &[(i64, &Ciphertext, &Ciphertext)],
        terms: &[(f64, &Ciphertext)],
        constant: f64,
        level: usize,
        scale: f64,
    ) -> Result<Ciphertext, Error> {
        let (p, high) = (&self.params, level + 1);
        let op = if products.is_empty() { Op::MulPlain } else { Op::Mul };
        let operands = products.iter().flat_map(|(_, a, b)| [*a, *b]).chain(terms.iter().map(|(_, t)| *t));
        let lowest = operands.map(|a| a.level).min().unwrap_or(p.max_level());
        if lowest < high {
            return Err(Error::OutOfLevels { op, need: high, have: lowest });
        }
        let target = scale * p.prime(high) as f64;
        for (_, a, b) in products {
            self.same(Op::Mul, (high, a.scale * b.scale), (high, target))?;
        }
        let factors: Vec<i128> = terms
            .iter()
            .map(|(c, a)| integer(c * target / a.scale, op, a.scale))
            .collect::<Result<_, _>>()?;
        let constant = integer(constant * target, op, target)?;

        if products.is_empty() {
            let terms: Vec<_> = factors.iter().zip(terms).map(|(&k, (_, t))| (k, *t)).collect();
            return self.divided_sum(op, &terms, constant, level, scale);
        }

        let missing = Error::OutOfLevels { op, need: 1, have: 0 };
        let divider = p.mod_down_rescale(high).ok_or(missing)?;
        let terms: Vec<_> = factors.iter().zip(terms).map(|(&k, (_, t))| (k, *t)).collect();
        let [u0, u1] = self.relinearised(products, &terms, constant, high)?;
        let (c0, c1) = rayon::join(|| divider.divide(u0), || divider.divide(u1));
        Ok(Ciphertext { c0, c1, level, scale })
    }

    /// P·(Σ k·a·b + Σ k·t + constant) modulo QP at `level`, the products relinearised.
    fn relinearised(
        &self,
        products: &[(i64, &Ciphertext, &Ciphertext)],
        terms: &[(i128, &Ciphertext)],
        constant: i128,
        level: usize,
    ) -> Result<[Poly<Ntt>; 2], Error> {
        let p = &self.params;
        let (basis, key) = (p.q_basis(level), self.keys.relin(p, level)?);
        let squares: Vec<_> = products.iter().map(|(k, a, b)| (*k, &a.c1, &b.c1)).collect();
        let digits = Digits::new(p, p.relin_gadget(), Source::Products(&squares), level);
        // All terms but the product with the key are multiplied by P, which the division removes. They are 0
        // modulo P.
        Ok(digits.multiply(key, |i| {
            if i > level {
                return AccumulatorTerms::default();
            }
            let (m, special) = (basis.modulus(i), p.p_constants()[i]);
            let times_p = |k: i128| m.constant(m.mul_constant(m.reduce_i128(k), special));
            let multiples =
                |part: usize| terms.iter().map(|&(k, t)| (times_p(k).value, t.limbs(i)[part])).collect();
            AccumulatorTerms {
                products: products
                    .iter()
                    .map(|(k, a, b)| (times_p((*k).into()), a.limbs(i), b.limbs(i)))
                    .collect(),
                multiples: [multiples(0), multiples(1)],
                constant: times_p(constant).value,
            }
        }))
    }

    /// The product a·b, relinearised and not rescaled: its scale is the product of both scales. Uses no
    /// level, and needs no level. For rings of [`Products::Unrescaled`].
    ///
    /// # Errors
    /// [`Error::LevelMismatch`] if the operands are at different levels, [`Error::MissingKey`] without a
    /// relinearisation key for the level.
    ///
    /// [`Products::Unrescaled`]: crate::Products::Unrescaled
    pub fn mul_unrescaled(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, Error> {
        Ok(self.divided(self.mul_undivided(a, b)?))
    }

    /// [`Self::mul_unrescaled`] before its division by P.
    ///
    /// # Errors
    /// As [`Self::mul_unrescaled`].
    pub fn mul_undivided(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Undivided, Error> {
        let level = a.level;
        if level != b.level {
            return Err(Error::LevelMismatch { op: Op::Mul, left: level, right: b.level });
        }
        let parts = self.relinearised(&[(1, a, b)], &[], 0, level)?;
        Ok(Undivided { parts, level, scale: a.scale * b.scale })
    }

    /// P·`a` modulo QP.
    pub fn undivided(&self, a: &Ciphertext) -> Undivided {
        let (p, level) = (&self.params, a.level);
        let part = |part: &Poly<Ntt>| {
            let mut out = Poly::zero(p.n(), p.qp_basis(level).len());
            out.for_each_limb(|i, limb| {
                // P·a is 0 modulo the special primes.
                if i <= level {
                    rns::mul_constant_add(
                        p.q_basis(level).modulus(i),
                        limb,
                        part.limb(i),
                        p.p_constants()[i],
                    );
                }
            });
            out
        };
        Undivided { parts: [part(&a.c0), part(&a.c1)], level, scale: a.scale }
    }

    /// The ciphertext of which `a` is P times. Adds one rounding.
    pub fn divided(&self, a: Undivided) -> Ciphertext {
        let Undivided { parts: [u0, u1], level, scale } = a;
        let divider = self.params.mod_down(level);
        let (c0, c1) = rayon::join(|| divider.divide(u0), || divider.divide(u1));
        Ciphertext { c0, c1, level, scale }
    }

    /// Adds the image of `a` under the automorphism of `element` to `sum`. One division by P, of the part
    /// that is decomposed, adds one rounding.
    pub(crate) fn add_image_assign(
        &self,
        op: Op,
        sum: &mut Undivided,
        a: Undivided,
        element: GaloisElement,
    ) -> Result<(), Error> {
        let (p, level) = (&self.params, a.level);
        let key = self.keys.galois(p, op, element, level)?;
        let [u0, u1] = a.parts;
        let c1 = p.mod_down(level).divide(u1);
        let digits = Digits::new(p, p.galois_gadget(), Source::Poly(&c1), level);
        let destination = Destination { permutation: Some(&p.permutation(element)), mode: Mode::Add };
        digits.for_each_limb(&mut sum.parts, |i, digits_of_limb, row| {
            if let [o0, o1] = row {
                let plus = AccumulatorTerms {
                    multiples: [vec![(1, u0.limb(i))], Vec::new()],
                    ..AccumulatorTerms::default()
                };
                digits.times_key(i, digits_of_limb, key, &plus, destination, [o0, o1]);
            }
        });
        Ok(())
    }

    /// The image of the ciphertext under an automorphism. Uses no level and adds one rounding.
    pub(crate) fn automorphism(
        &self,
        op: Op,
        a: &Ciphertext,
        element: GaloisElement,
    ) -> Result<Ciphertext, Error> {
        if element.is_identity() {
            return Ok(a.clone());
        }
        let [u0, u1] = self.rotated_sums(op, a, &[(element, false)])?;
        let divider = self.params.mod_down(a.level);
        let (c0, c1) = rayon::join(|| divider.divide(u0), || divider.divide(u1));
        Ok(Ciphertext { c0, c1, level: a.level, scale: a.scale })
    }

    /// P·Σ ± σ(a) over the automorphisms σ, modulo QP and under the secret key. One decomposition serves all
    /// of them.
    fn rotated_sums(
        &self,
        op: Op,
        a: &Ciphertext,
        terms: &[(GaloisElement, bool)],
    ) -> Result<[Poly<Ntt>; 2], Error> {
        let (p, level) = (&self.params, a.level);
        let mut terms = terms
            .iter()
            .map(|&(element, negative)| {
                let key =
                    if element.is_identity() { None } else { Some(self.keys.galois(p, op, element, level)?) };
                Ok((key, p.permutation(element), negative))
            })
            .collect::<Result<Vec<_>, Error>>()?;
        // The first term overwrites the output, if it has a key and is added. Otherwise the output is zeroed
        // first.
        if let Some(first) = terms.iter().position(|(key, _, negative)| key.is_some() && !negative) {
            terms.swap(0, first);
        }
        let digits = Digits::new(p, p.galois_gadget(), Source::Poly(&a.c1), level);
        let mut sums = keyswitch::scratch(p, level);
        digits.for_each_limb(&mut sums, |i, x, row| {
            let [sum0, sum1] = row else { return };
            let mut mode = Mode::Write;
            if terms.first().is_none_or(|(_, _, negative)| *negative) {
                sum0.fill(0);
                sum1.fill(0);
                mode = Mode::Add;
            }
            for (key, permutation, negative) in &terms {
                let mode = if *negative { Mode::Subtract } else { std::mem::replace(&mut mode, Mode::Add) };
                let destination = Destination { permutation: Some(permutation), mode };
                digits.ciphertext_times_p(i, x, *key, a, destination, [&mut *sum0, &mut *sum1]);
            }
        });
        Ok(sums)
    }

    /// Rotates the slots by `k`: slot j of the result is slot j + k of `a`, so that k > 0 rotates to the
    /// left. Uses no level and adds one rounding.
    ///
    /// # Errors
    /// [`Error::MissingKey`] without a key for this rotation and level.
    pub fn rotate(&self, a: &Ciphertext, k: i64) -> Result<Ciphertext, Error> {
        self.automorphism(Op::Rotate, a, GaloisElement::rotation(&self.params, k))
    }

    /// Conjugates every slot. Uses no level and adds one rounding.
    ///
    /// # Errors
    /// [`Error::MissingKey`] without a key for the conjugation and level.
    pub fn conjugate(&self, a: &Ciphertext) -> Result<Ciphertext, Error> {
        self.automorphism(Op::Conjugate, a, GaloisElement::conjugation(&self.params))
    }

    /// Applies the automorphism of `element`. Uses no level and adds one rounding.
    ///
    /// # Errors
    /// [`Error::MissingKey`] without a key for this element and level.
    pub fn apply(&self, a: &Ciphertext, element: GaloisElement) -> Result<Ciphertext, Error> {
        self.automorphism(Op::Rotate, a, element)
    }

    /// Several rotations of one ciphertext: it is decomposed once. No level, one rounding each.
    ///
    /// # Errors
    /// [`Error::MissingKey`].
    pub fn rotate_many(&self, a: &Ciphertext, rotations: &[i64]) -> Result<Vec<Ciphertext>, Error> {
        let divider = self.params.mod_down(a.level);
        let sums = self.baby_steps(Op::Rotate, a, rotations)?;
        let mut sums = sums.into_iter();
        let mut next = || sums.next().map(|u| divider.divide(u));
        Ok(rotations
            .iter()
            .map_while(|_| Some(Ciphertext { c0: next()?, c1: next()?, level: a.level, scale: a.scale }))
            .collect())
    }

    /// P times each rotation of `a` modulo QP, two polynomials a rotation, from one decomposition.
    fn baby_steps(&self, op: Op, a: &Ciphertext, rotations: &[i64]) -> Result<Vec<Poly<Ntt>>, Error> {
        let (p, level) = (&self.params, a.level);
        let terms = rotations
            .iter()
            .map(|&k| {
                let element = GaloisElement::rotation(p, k);
                let key =
                    if element.is_identity() { None } else { Some(self.keys.galois(p, op, element, level)?) };
                Ok((key, p.permutation(element)))
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let digits = Digits::new(p, p.galois_gadget(), Source::Poly(&a.c1), level);
        let mut out: Vec<Poly<Ntt>> = rotations.iter().flat_map(|_| keyswitch::scratch(p, level)).collect();
        digits.for_each_limb(&mut out, |i, x, row| {
            for (pair, (key, permutation)) in row.chunks_exact_mut(2).zip(&terms) {
                if let [out0, out1] = pair {
                    let destination = Destination { permutation: Some(permutation), mode: Mode::Write };
                    digits.ciphertext_times_p(i, x, *key, a, destination, [out0, out1]);
                }
            }
        });
        Ok(out)
    }

    /// The sum of rotations of `a` by k over the terms (k, negative), each subtracted if `negative`. One
    /// decomposition and one division serve all rotations. Uses no level and adds one rounding in all.
    ///
    /// # Errors
    /// [`Error::MissingKey`] without a key for one of the rotations.
    pub fn sum_of_rotations(&self, a: &Ciphertext, terms: &[(i64, bool)]) -> Result<Ciphertext, Error> {
        let terms: Vec<(GaloisElement, bool)> =
            terms.iter().map(|&(k, negative)| (GaloisElement::rotation(&self.params, k), negative)).collect();
        let [u0, u1] = self.rotated_sums(Op::Rotate, a, &terms)?;
        let divider = self.params.mod_down(a.level);
        let (c0, c1) = rayon::join(|| divider.divide(u0), || divider.divide(u1));
        Ok(Ciphertext { c0, c1, level: a.level, scale: a.scale })
    }

    /// The linear transform `out[j] = Σₖ diagonalₖ[j]·a[j + k]` of [`EncodedTransform`]. Uses one level.
    ///
    /// Double hoisting (Bossuat et al. 2021): all baby steps share one decomposition and stay modulo QP, and
    /// the last division also rescales. Giant steps follow Horner's rule, so that one key serves all: the sum
    /// so far is divided by P, rotated by one giant step, and the next group is added.
    ///
    /// # Errors
    /// [`Error::LevelMismatch`] if the transform was encoded for another level, [`Error::MissingKey`] without
    /// a key for one of its steps.
    pub fn linear(&self, a: &Ciphertext, t: &EncodedTransform) -> Result<Ciphertext, Error> {
        self.with_babies(a, &[t], |babies| self.giant_steps(a, t, babies))
    }

    /// Several linear transforms of one ciphertext, as [`Self::linear`]. They share the baby steps.
    ///
    /// # Errors
    /// As [`Self::linear`].
    pub fn linear_many(&self, a: &Ciphertext, ts: &[&EncodedTransform]) -> Result<Vec<Ciphertext>, Error> {
        self.with_babies(a, ts, |babies| ts.iter().map(|t| self.giant_steps(a, t, babies)).collect())
    }

    /// Calls `f` with P times all baby steps of `ts`, from one decomposition of `a`.
    fn with_babies<T>(
        &self,
        a: &Ciphertext,
        ts: &[&EncodedTransform],
        f: impl FnOnce(&Babies) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if let Some(t) = ts.iter().find(|t| t.level != a.level) {
            return Err(Error::LevelMismatch { op: Op::Linear, left: a.level, right: t.level });
        }
        let steps: BTreeSet<i64> = ts.iter().flat_map(|t| t.babies.iter().copied()).collect();
        let steps: Vec<i64> = steps.into_iter().collect();
        let rotated = self.baby_steps(Op::Linear, a, &steps)?;
        f(&steps.iter().copied().zip(rotated.chunks_exact(2)).collect())
    }

    /// A linear transform of `a` from P times its baby steps.
    fn giant_steps(
        &self,
        a: &Ciphertext,
        t: &EncodedTransform,
        babies: &Babies,
    ) -> Result<Ciphertext, Error> {
        let (p, level) = (&self.params, a.level);
        let divider =
            p.mod_down_rescale(level).ok_or(Error::OutOfLevels { op: Op::Linear, need: 1, have: 0 })?;
        let basis = p.qp_basis(level);
        let most = t.groups.keys().copied().max().unwrap_or(0);
        let giant = GaloisElement::rotation(p, t.giant);
        let key = match most > 0 && !giant.is_identity() {
            true => Some((self.keys.galois(p, Op::Linear, giant, level)?, p.permutation(giant))),
            false => None,
        };
        let mut sums: [Poly<Ntt>; 2] = std::array::from_fn(|_| Poly::zero(p.n(), basis.len()));
        for steps in (0..=most).rev() {
            if let Some(terms) = t.groups.get(&steps) {
                let [mut u0, mut u1] = keyswitch::scratch(p, level);
                Poly::for_each_limb_pair(&mut u0, &mut u1, |i, o0, o1| {
                    let x: Vec<&[u64]> = terms.values().map(|m| m.limb(i)).collect();
                    let y: Vec<&[u64]> = terms.keys().map(|k| babies[k][0].limb(i)).collect();
                    let z: Vec<&[u64]> = terms.keys().map(|k| babies[k][1].limb(i)).collect();
                    rns::inner_products_short(basis.modulus(i), o0, o1, &x, &y, &z);
                });
                if steps == most {
                    sums = [u0, u1];
                } else {
                    sums.iter_mut().zip([&u0, &u1]).for_each(|(sum, u)| sum.add_assign(basis, u));
                }
            }
            let Some((key, permutation)) = key.as_ref().filter(|_| steps > 0) else { continue };
            let [u0, u1] = std::mem::replace(&mut sums, keyswitch::scratch(p, level));
            let u1 = p.mod_down(level).divide(u1);
            let digits = Digits::new(p, p.galois_gadget(), Source::Poly(&u1), level);
            digits.for_each_limb(&mut sums, |i, x, row| {
                if let [sum0, sum1] = row {
                    let plus = AccumulatorTerms {
                        multiples: [vec![(1, u0.limb(i))], Vec::new()],
                        ..AccumulatorTerms::default()
                    };
                    let destination = Destination { permutation: Some(permutation), mode: Mode::Write };
                    digits.times_key(i, x, key, &plus, destination, [sum0, sum1]);
                }
            });
        }
        let [sum0, sum1] = sums;
        let (c0, c1) = rayon::join(|| divider.divide(sum0), || divider.divide(sum1));
        // The canonical scale, times the factor by which the scale of `a` differs from its canonical scale.
        let scale = a.scale / p.scale(level) * p.scale(level - 1);
        Ok(Ciphertext { c0, c1, level: level - 1, scale })
    }
}

/// P times rotations of a ciphertext, modulo QP, by their steps.
type Babies<'a> = BTreeMap<i64, &'a [Poly<Ntt>]>;

fn integer(x: f64, op: Op, scale: f64) -> Result<i128, Error> {
    if x.is_finite() && x.abs() < 2f64.powi(100) {
        Ok(x.round() as i128)
    } else {
        Err(Error::ValueRange { op, scale: scale.log2() })
    }
}
