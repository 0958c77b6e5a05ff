//! The slot algebra on CKKS ciphertexts.

use crate::error::{divides, has_levels, power_of_two};
use crate::{Error, LinearTransform, SlotAlgebra};
use ckks::{Ciphertext, DiagonalTransform, Evaluator, Plaintext};
use num_complex::Complex64;
use std::borrow::Cow;

/// [`SlotAlgebra`] on ciphertexts: an evaluator and the period of the vectors. Vectors have the canonical
/// scale of their level, except the intermediate results of a polynomial.
#[derive(Debug, Clone)]
pub struct Encrypted {
    evaluator: Evaluator,
    slots: usize,
}

impl Encrypted {
    /// The algebra of vectors with period `slots`.
    ///
    /// # Errors
    /// [`Error::SlotCount`] unless it is a power of two of at most N/2.
    pub fn new(evaluator: Evaluator, slots: usize) -> Result<Self, Error> {
        power_of_two("encrypted vectors", slots, 1)?;
        let max = evaluator.params().max_slots();
        if slots > max {
            return Err(Error::SlotCount { op: "encrypted vectors", got: slots, want: max });
        }
        Ok(Encrypted { evaluator, slots })
    }

    /// The evaluator.
    pub fn evaluator(&self) -> &Evaluator {
        &self.evaluator
    }

    fn canonical(&self, k: i64) -> i64 {
        k.rem_euclid(self.slots as i64)
    }

    /// `a` at `level`; it is copied only if its level changes.
    fn at<'a>(&self, a: &'a Ciphertext, level: usize) -> Result<Cow<'a, Ciphertext>, ckks::Error> {
        if a.level() == level {
            Ok(Cow::Borrowed(a))
        } else {
            self.evaluator.adjust(a, level).map(Cow::Owned)
        }
    }
}

impl SlotAlgebra for Encrypted {
    type Vector = Ciphertext;
    type Error = Error;
    /// The level and the scale of a result.
    type Target = (usize, f64);

    fn slots(&self) -> usize {
        self.slots
    }

    fn level(&self, v: &Ciphertext) -> usize {
        v.level()
    }

    fn add(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, Error> {
        let level = a.level().min(b.level());
        let (mut a, b) = (self.at(a, level)?.into_owned(), self.at(b, level)?);
        self.evaluator.add_assign(&mut a, &b)?;
        Ok(a)
    }

    fn sub(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, Error> {
        let level = a.level().min(b.level());
        let (mut a, b) = (self.at(a, level)?.into_owned(), self.at(b, level)?);
        self.evaluator.sub_assign(&mut a, &b)?;
        Ok(a)
    }

    fn neg(&self, a: &Ciphertext) -> Ciphertext {
        let mut a = a.clone();
        self.evaluator.neg_assign(&mut a);
        a
    }

    fn add_const(&self, a: &Ciphertext, c: Complex64) -> Result<Ciphertext, Error> {
        let mut a = a.clone();
        self.evaluator.add_constant_assign(&mut a, c)?;
        Ok(a)
    }

    fn add_plain(&self, a: &Ciphertext, p: &[Complex64]) -> Result<Ciphertext, Error> {
        divides("add_plain", p.len(), self.slots)?;
        let m = Plaintext::encode_at(self.evaluator.params(), p, a.level(), a.scale())?;
        let mut a = a.clone();
        self.evaluator.add_plain_assign(&mut a, &m)?;
        Ok(a)
    }

    fn mul_integer(&self, a: &Ciphertext, k: i64) -> Result<Ciphertext, Error> {
        let mut a = a.clone();
        self.evaluator.mul_integer_assign(&mut a, k);
        Ok(a)
    }

    fn mul_i(&self, a: &Ciphertext) -> Result<Ciphertext, Error> {
        let mut a = a.clone();
        self.evaluator.mul_i_assign(&mut a);
        Ok(a)
    }

    fn mul(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, Error> {
        let level = a.level().min(b.level());
        let (a, b) = (self.at(a, level)?, self.at(b, level)?);
        Ok(self.evaluator.mul(&a, &b)?)
    }

    fn mul_plain(&self, a: &Ciphertext, p: &[Complex64]) -> Result<Ciphertext, Error> {
        divides("mul_plain", p.len(), self.slots)?;
        let m = self.evaluator.encode_factor(p, a.level())?;
        Ok(self.evaluator.mul_plain(a, &m)?)
    }

    fn mul_const(&self, a: &Ciphertext, c: f64) -> Result<Ciphertext, Error> {
        self.linear_combination(&[(c, a)], 0.0)
    }

    fn target(&self, level: usize) -> (usize, f64) {
        (level, self.evaluator.params().scale(level))
    }

    fn product_target(&self, a: &Ciphertext, b: &Ciphertext) -> Result<(usize, f64), Error> {
        let level = a.level().min(b.level());
        has_levels("mul", level, 1)?;
        let prime = self.evaluator.params().prime(level) as f64;
        Ok((level - 1, a.scale() * b.scale() / prime))
    }

    fn factor_target(&self, (level, scale): (usize, f64), other: &Ciphertext) -> (usize, f64) {
        // No operand is above the top level; the operation that takes this target returns the error.
        let top = self.evaluator.params().max_level();
        let prime = self.evaluator.params().prime((level + 1).min(top)) as f64;
        (level + 1, scale * prime / other.scale())
    }

    fn sum_of_products(
        &self,
        products: &[(i64, &Ciphertext, &Ciphertext)],
        terms: &[(f64, &Ciphertext)],
        constant: f64,
        (level, scale): (usize, f64),
    ) -> Result<Ciphertext, Error> {
        Ok(self.evaluator.sum_of_products(products, terms, constant, level, scale)?)
    }

    fn rotate(&self, a: &Ciphertext, k: i64) -> Result<Ciphertext, Error> {
        Ok(self.evaluator.rotate(a, self.canonical(k))?)
    }

    fn sum_of_rotations(&self, a: &Ciphertext, terms: &[(i64, bool)]) -> Result<Ciphertext, Error> {
        if terms.is_empty() {
            return Err(Error::Empty { op: "sum of rotations" });
        }
        let terms: Vec<(i64, bool)> =
            terms.iter().map(|&(k, negative)| (self.canonical(k), negative)).collect();
        Ok(self.evaluator.sum_of_rotations(a, &terms)?)
    }

    fn conjugate(&self, a: &Ciphertext) -> Result<Ciphertext, Error> {
        Ok(self.evaluator.conjugate(a)?)
    }

    fn drop_to(&self, a: &Ciphertext, level: usize) -> Result<Ciphertext, Error> {
        Ok(self.evaluator.adjust(a, level)?)
    }

    fn linear_many(&self, a: &Ciphertext, ts: &[&LinearTransform]) -> Result<Vec<Ciphertext>, Error> {
        let encoded = |t: &&LinearTransform| -> Result<_, Error> {
            divides("linear", t.period(), self.slots)?;
            let terms = t.groups().flat_map(|(n, group)| {
                group.iter().map(move |(&b, diagonal)| (n, self.canonical(b), diagonal.clone()))
            });
            let transform = DiagonalTransform { giant: self.canonical(t.giant()), terms: terms.collect() };
            Ok(self.evaluator.encode_transform(&transform, a.level())?)
        };
        let encoded: Vec<_> = ts.iter().map(encoded).collect::<Result<_, _>>()?;
        Ok(self.evaluator.linear_many(a, &encoded.iter().collect::<Vec<_>>())?)
    }
}
