//! Splits ciphertexts of a large ring into several of a small one, and moves their slots.
//!
//! With degrees N and N' and r = N/N', a polynomial of the large ring is m(X) = Σₖ Xᵏ·mₖ(Xʳ) for k < r, and
//! with ζ = e^(πi/N) its slot j is Σₖ ζ^(k·5ʲ)·mₖ\[j mod N'/2\], where mₖ\[i\] is slot i of mₖ in the small
//! ring. The same holds for both parts of a ciphertext under a secret t(Xʳ), whose mₖ then are ciphertexts
//! under t.
//!
//! Source: Gentry, Halevi, Peikert and Smart 2013 (ring switching). Departure: the key switch to t(Xʳ) is
//! computed in the small ring, where its keys are r key-switch keys under t.

use crate::keyswitch::{Digits, Source};
use crate::{Ciphertext, Error, Evaluator, KeySwitchKey, Op, Params, Plaintext};
use num_complex::Complex64;
use rns::{AccumulatorTerms, Coeff, Destination, Mode, Ntt, Poly};
use std::sync::Arc;

/// Splits ciphertexts of a large ring, under a secret s, into ciphertexts of a small ring under a secret t.
///
/// With s = Σⱼ Xʲ·sⱼ(Xʳ), key j takes sⱼ to t. The products c₁ₖ·sⱼ with k + j = i and, times Y = Xʳ, those
/// with k + j = i + r belong to mᵢ.
#[derive(Debug, Clone)]
pub struct RingSwitch {
    large: Params,
    small: Evaluator,
    keys: Vec<Arc<KeySwitchKey>>,
}

impl RingSwitch {
    /// The switch from `large` to the ring of `small`, whose parameters are a [`crate::PrefixSpec`] of it.
    /// The keys are for the gadget of rotations of `small` at its top level.
    ///
    /// # Errors
    /// [`Error::RingParts`] unless there are N/N' keys; [`Error::BadParams`] if the primes or scales of
    /// `small` are not the first of `large`; [`Error::MissingKey`] for a key of a lower level.
    pub fn new(large: &Params, small: Evaluator, keys: Vec<Arc<KeySwitchKey>>) -> Result<Self, Error> {
        let params = small.params();
        let (want, top) = (large.n() / params.n(), params.max_level());
        let prefix = want > 0
            && top <= large.max_level()
            && params.q_basis(top).primes().eq(large.q_basis(top).primes())
            && (0..=top).all(|level| params.scale(level) == large.scale(level));
        if !prefix {
            return Err(Error::BadParams("the small ring has primes or scales of another chain".into()));
        }
        if keys.len() != want {
            return Err(Error::RingParts { got: keys.len(), want });
        }
        let low = keys.iter().position(|key| !key.serves(params.galois_gadget(), top));
        if let Some(element) = low {
            let element = element as u64;
            return Err(Error::MissingKey { op: Op::SwitchRing, element, level: top });
        }
        Ok(RingSwitch { large: large.clone(), small, keys })
    }

    /// r = N/N', the number of ciphertexts that [`Self::split`] returns.
    pub fn parts(&self) -> usize {
        self.keys.len()
    }

    /// Bytes in memory of the keys of the switch and of the evaluator.
    pub fn bytes(&self) -> usize {
        self.keys.iter().map(|key| key.bytes()).sum::<usize>() + self.small.keys().bytes()
    }

    /// The evaluator of the small ring.
    pub fn small(&self) -> &Evaluator {
        &self.small
    }

    /// The ciphertexts of m₀, m₁, …, at the level and scale of `a`. Uses no level, and adds one rounding of
    /// the small ring to each.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] if `a` is above the top level of the small ring.
    pub fn split(&self, a: &Ciphertext) -> Result<Vec<Ciphertext>, Error> {
        let (small, level, r) = (self.small.params(), a.level, self.keys.len());
        small.check_level(Op::SwitchRing, level)?;
        let (firsts, seconds) = rayon::join(|| self.components(&a.c0), || self.components(&a.c1));
        // Entries 2i and 2i + 1 are the sum of the products with k + j = i, modulo QP and times P.
        let basis = small.qp_basis(level);
        let mut sums: Vec<Poly<Ntt>> =
            (0..2 * (2 * r - 1)).map(|_| Poly::zero(small.n(), basis.len())).collect();
        for (k, second) in seconds.iter().enumerate() {
            let digits = Digits::new(small, small.galois_gadget(), Source::Poly(second), level);
            digits.for_each_limb(&mut sums, |i, x, row| {
                let destination = Destination { permutation: None, mode: Mode::Add };
                for (key, pair) in self.keys.iter().zip(row[2 * k..].chunks_exact_mut(2)) {
                    if let [o0, o1] = pair {
                        let plus = AccumulatorTerms::default();
                        digits.times_key(i, x, key, &plus, destination, [&mut **o0, &mut **o1]);
                    }
                }
            });
        }
        let y = Poly::from_signed(basis, &[0, 1]).into_ntt(basis);
        let (low, high) = sums.split_at_mut(2 * r);
        for (low, high) in low.iter_mut().zip(high) {
            low.mul_add_assign(basis, high, &y);
        }
        for (first, sum) in firsts.iter().zip(low.iter_mut().step_by(2)) {
            sum.for_each_limb(|i, limb| {
                // P·c₀ is 0 modulo the special primes.
                if i <= level {
                    rns::mul_constant_add(basis.modulus(i), limb, first.limb(i), small.p_constants()[i]);
                }
            });
        }
        sums.truncate(2 * r);
        let divider = small.mod_down(level);
        let mut parts = sums.into_iter().map(|sum| divider.divide(sum));
        let mut next = || parts.next();
        Ok(std::iter::from_fn(|| Some((next()?, next()?)))
            .map(|(c0, c1)| Ciphertext { c0, c1, level, scale: a.scale })
            .collect())
    }

    /// The polynomials aₖ of the small ring with a = Σₖ Xᵏ·aₖ(Xʳ).
    fn components(&self, a: &Poly<Ntt>) -> Vec<Poly<Ntt>> {
        let (large, small, r) = (&self.large, self.small.params(), self.keys.len());
        let a = a.clone().into_coeff(large.q_basis(a.limbs() - 1));
        let component = |k: usize| {
            let mut out = Poly::<Coeff>::scratch(small.n(), a.limbs());
            out.for_each_limb(|i, limb| {
                limb.iter_mut().zip(a.limb(i)[k..].iter().step_by(r)).for_each(|(out, x)| *out = *x);
            });
            out.into_ntt(small.q_basis(a.limbs() - 1))
        };
        (0..r).map(component).collect()
    }
}

/// Slots of the large ring, and the rotation that they take in the small one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// The slots, no two of them with the same residue modulo N'/2.
    pub slots: Vec<usize>,
    /// k: slot j of the large ring becomes slot (j − k) mod N'/2 of the small one.
    pub rotation: i64,
}

/// Moves slots of a ciphertext that a [`RingSwitch`] has split into one ciphertext of the small ring. All
/// slots that are not moved become 0, as far as plaintexts at the scale of a level encode it: what they hold
/// is multiplied by some 2⁻²⁷ in the mean.
#[derive(Debug, Clone)]
pub struct Fold {
    level: usize,
    /// For each move the factor of each mₖ, and the rotation.
    moves: Vec<(Vec<Plaintext>, i64)>,
}

impl Fold {
    /// The fold of ciphertexts at `level` of the small ring. To apply it takes keys for the rotations of
    /// `moves`.
    ///
    /// # Errors
    /// [`Error::SlotCount`] for a slot that the large ring does not have, and for two slots of a move with
    /// one residue; [`Error::OutOfLevels`] at level 0 or above the top level.
    pub fn new(switch: &RingSwitch, level: usize, moves: &[Move]) -> Result<Self, Error> {
        let (large, small) = (&switch.large, &switch.small);
        let half = small.params().max_slots();
        // Entry j is 5ʲ mod 2N.
        let powers: Vec<usize> = std::iter::successors(Some(1usize), |p| Some(p * 5 % (2 * large.n())))
            .take(large.max_slots())
            .collect();
        let factors = |slots: &[usize]| {
            let mut taken = vec![None; half];
            for &slot in slots {
                if slot >= large.max_slots() || taken[slot % half].replace(slot).is_some() {
                    return Err(Error::SlotCount { op: Op::SwitchRing, got: slot, max: large.max_slots() });
                }
            }
            let factor = |k: usize| {
                let root = |slot: usize| {
                    let exponent = k * powers[slot] % (2 * large.n());
                    Complex64::from_polar(1.0, std::f64::consts::PI * exponent as f64 / large.n() as f64)
                };
                let slots: Vec<_> = taken.iter().map(|slot| slot.map_or(Complex64::ZERO, root)).collect();
                small.encode_factor(&slots, level)
            };
            (0..switch.parts()).map(factor).collect::<Result<Vec<_>, _>>()
        };
        let moves =
            moves.iter().map(|m| Ok((factors(&m.slots)?, m.rotation))).collect::<Result<_, Error>>()?;
        Ok(Fold { level, moves })
    }

    /// The level of the ciphertexts that are folded.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Folds what [`RingSwitch::split`] returns. Uses one level; one rounding in all, and one for each
    /// rotation at the scale before the division.
    ///
    /// # Errors
    /// [`Error::RingParts`] for another number of ciphertexts, [`Error::LevelMismatch`] for another level,
    /// [`Error::MissingKey`] without a key for a rotation.
    pub fn apply(&self, switch: &RingSwitch, parts: &[Ciphertext]) -> Result<Ciphertext, Error> {
        let evaluator = &switch.small;
        let basis = evaluator.params().q_basis(self.level);
        let mut out: Option<Ciphertext> = None;
        for (factors, rotation) in &self.moves {
            if parts.len() != factors.len() {
                return Err(Error::RingParts { got: parts.len(), want: factors.len() });
            }
            let mut sum: Option<Ciphertext> = None;
            for (part, factor) in parts.iter().zip(factors) {
                if part.level != self.level {
                    let (left, right) = (part.level, self.level);
                    return Err(Error::LevelMismatch { op: Op::SwitchRing, left, right });
                }
                match &mut sum {
                    None => {
                        let (c0, c1) = (part.c0.mul(basis, &factor.poly), part.c1.mul(basis, &factor.poly));
                        let scale = part.scale * factor.scale;
                        sum = Some(Ciphertext { c0, c1, level: self.level, scale });
                    }
                    Some(sum) => {
                        sum.c0.mul_add_assign(basis, &part.c0, &factor.poly);
                        sum.c1.mul_add_assign(basis, &part.c1, &factor.poly);
                    }
                }
            }
            let Some(sum) = sum else { continue };
            let moved = evaluator.rotate(&sum, *rotation)?;
            match &mut out {
                None => out = Some(moved),
                Some(out) => evaluator.add_assign(out, &moved)?,
            }
        }
        let nothing = Error::RingParts { got: 0, want: 1 };
        evaluator.rescale_product(out.ok_or(nothing)?)
    }
}
