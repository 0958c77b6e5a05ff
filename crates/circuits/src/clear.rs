//! Slot arithmetic without encryption: the reference for encrypted results, with counts of operations and a
//! noise model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use num_complex::Complex64;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::error::{divides, has_levels, power_of_two};
use crate::{Error, LinearTransform, SlotAlgebra};

/// [`SlotAlgebra`] on complex vectors with the levels of an encrypted engine. It counts the operations of a
/// circuit.
///
/// With a [`NoiseModel`], every encryption, rescaling and key switch adds a complex Gaussian error to every
/// slot. The rounding of plaintexts is smaller by the square root of the ring degree and is left out. So are
/// key switches whose error is rescaled at once: those of products and of giant steps.
#[derive(Debug)]
pub struct Clear {
    slots: usize,
    noise: Option<(f64, Mutex<ChaCha8Rng>)>,
    recorded: Mutex<Recorded>,
}

/// A vector of [`Clear`]: a value for each slot, and a level.
#[derive(Debug, Clone, PartialEq)]
pub struct ClearVector {
    values: Vec<Complex64>,
    level: usize,
}

/// The model of the error e of one rescaling or key switch: in each slot a complex Gaussian with `E|e|^2 =
/// sigma^2`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NoiseModel {
    /// log2 of the scale.
    pub log_scale: f64,
    /// log2 of the ring degree N.
    pub log_degree: u32,
    /// Seed of the errors. Equal seeds and equal calls give equal errors.
    pub seed: u64,
}

/// The operations of a [`Clear`] since it was created or reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Products of two vectors. A sum of products counts once, since it has one relinearisation.
    pub products: usize,
    /// Products with a plaintext or a constant, and linear combinations. Each has one rescaling.
    pub plain_products: usize,
    /// Rotations by a non-zero offset, including those of linear transforms.
    pub rotations: usize,
    /// Conjugations.
    pub conjugations: usize,
    /// Linear transforms.
    pub transforms: usize,
}

#[derive(Debug, Default)]
struct Recorded {
    counts: Counts,
    /// The highest level of each rotation.
    offsets: BTreeMap<i64, usize>,
    /// The highest level of a conjugation.
    conjugated: Option<usize>,
}

impl ClearVector {
    /// The values of the slots.
    pub fn values(&self) -> &[Complex64] {
        &self.values
    }

    /// The real parts.
    pub fn real(&self) -> Vec<f64> {
        self.values.iter().map(|v| v.re).collect()
    }
}

impl NoiseModel {
    /// The standard deviation of the error in a slot, in units of the message: `N / sqrt(18) / scale`.
    ///
    /// A rescaling adds the rounding errors `e_0 + e_1 s`. With a ternary secret of which N/3 coefficients
    /// are zero, the variance of a coefficient is `N (2/3) / 12 = N/18`, and a slot sums N coefficients.
    pub fn sigma(&self) -> f64 {
        let log_degree = f64::from(self.log_degree);
        (0.5 * (log_degree - 18f64.log2()) + 0.5 * log_degree - self.log_scale).exp2()
    }
}

impl Clear {
    /// Arithmetic in f64 without modelled errors, on `slots` slots, a power of two.
    ///
    /// # Errors
    /// [`Error::SlotCount`] if `slots` is not a power of two.
    pub fn new(slots: usize) -> Result<Self, Error> {
        power_of_two("slots", slots, 1)?;
        Ok(Self { slots, noise: None, recorded: Mutex::default() })
    }

    /// Arithmetic in f64 with the errors of `model`, on `slots` slots, a power of two.
    ///
    /// # Errors
    /// [`Error::SlotCount`] if `slots` is not a power of two.
    pub fn with_noise(slots: usize, model: NoiseModel) -> Result<Self, Error> {
        let rng = Mutex::new(ChaCha8Rng::seed_from_u64(model.seed));
        Ok(Self { noise: Some((model.sigma(), rng)), ..Self::new(slots)? })
    }

    /// A fresh vector at `level`. `values` are repeated to fill the slots.
    ///
    /// # Errors
    /// [`Error::SlotCount`] if the length does not divide the number of slots.
    pub fn fresh(&self, values: &[Complex64], level: usize) -> Result<ClearVector, Error> {
        divides("encrypt", values.len(), self.slots)?;
        let values = values.iter().copied().cycle().take(self.slots).collect();
        Ok(self.noisy(values, level))
    }

    /// [`Clear::fresh`] for real values.
    ///
    /// # Errors
    /// As [`Clear::fresh`].
    pub fn fresh_real(&self, values: &[f64], level: usize) -> Result<ClearVector, Error> {
        let values: Vec<Complex64> = values.iter().map(|&v| v.into()).collect();
        self.fresh(&values, level)
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        self.recorded().counts
    }

    /// Resets all counts, rotations and conjugations.
    pub fn reset_counts(&self) {
        *self.recorded() = Recorded::default();
    }

    /// The distinct rotations so far, modulo the number of slots, and the highest level at which each was
    /// made: the keys that an encrypted evaluation needs.
    pub fn rotation_levels(&self) -> BTreeMap<i64, usize> {
        self.recorded().offsets.clone()
    }

    /// The highest level at which a conjugation was made, if there was one.
    pub fn conjugation_level(&self) -> Option<usize> {
        self.recorded().conjugated
    }

    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        // The record is consistent even if another thread panicked while it held the lock.
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_rotations(&self, offsets: impl IntoIterator<Item = i64>, level: usize) {
        let recorded = &mut *self.recorded();
        for k in offsets {
            let highest = recorded.offsets.entry(k.rem_euclid(self.slots as i64)).or_default();
            *highest = level.max(*highest);
            recorded.counts.rotations += 1;
        }
    }

    /// A result of an encryption, a rescaling or a key switch.
    fn noisy(&self, mut values: Vec<Complex64>, level: usize) -> ClearVector {
        self.add_noise(&mut values);
        ClearVector { values, level }
    }

    fn add_noise(&self, values: &mut [Complex64]) {
        let Some((sigma, rng)) = &self.noise else { return };
        // The generator is usable even if another thread panicked while it held the lock.
        let mut rng = rng.lock().unwrap_or_else(PoisonError::into_inner);
        for v in values {
            // Box-Muller transform. 1 - u is in (0, 1], so that the logarithm is finite.
            let radius = sigma * (-(1.0 - rng.random::<f64>()).ln()).sqrt();
            *v += Complex64::from_polar(radius, std::f64::consts::TAU * rng.random::<f64>());
        }
    }

    fn rescaled(&self, op: &'static str, level: usize, values: Vec<Complex64>) -> Result<ClearVector, Error> {
        has_levels(op, level, 1)?;
        Ok(self.noisy(values, level - 1))
    }

    fn map(&self, a: &ClearVector, f: impl Fn(Complex64) -> Complex64) -> ClearVector {
        ClearVector { values: a.values.iter().map(|&v| f(v)).collect(), level: a.level }
    }
}

impl SlotAlgebra for Clear {
    type Vector = ClearVector;
    type Error = Error;
    type Target = usize;

    fn slots(&self) -> usize {
        self.slots
    }

    fn level(&self, v: &ClearVector) -> usize {
        v.level
    }

    fn add(&self, a: &ClearVector, b: &ClearVector) -> Result<ClearVector, Error> {
        Ok(ClearVector { values: zip(a, &b.values, |x, y| x + y), level: a.level.min(b.level) })
    }

    fn sub(&self, a: &ClearVector, b: &ClearVector) -> Result<ClearVector, Error> {
        Ok(ClearVector { values: zip(a, &b.values, |x, y| x - y), level: a.level.min(b.level) })
    }

    fn neg(&self, a: &ClearVector) -> ClearVector {
        self.map(a, |v| -v)
    }

    fn add_const(&self, a: &ClearVector, c: Complex64) -> Result<ClearVector, Error> {
        Ok(self.map(a, |v| v + c))
    }

    fn add_plain(&self, a: &ClearVector, p: &[Complex64]) -> Result<ClearVector, Error> {
        divides("add_plain", p.len(), self.slots)?;
        Ok(ClearVector { values: zip(a, p, |x, y| x + y), level: a.level })
    }

    fn mul_integer(&self, a: &ClearVector, k: i64) -> Result<ClearVector, Error> {
        Ok(self.map(a, |v| v * k as f64))
    }

    fn mul_i(&self, a: &ClearVector) -> Result<ClearVector, Error> {
        Ok(self.map(a, |v| Complex64::new(-v.im, v.re)))
    }

    fn mul(&self, a: &ClearVector, b: &ClearVector) -> Result<ClearVector, Error> {
        let out = self.rescaled("mul", a.level.min(b.level), zip(a, &b.values, |x, y| x * y))?;
        self.recorded().counts.products += 1;
        Ok(out)
    }

    fn mul_plain(&self, a: &ClearVector, p: &[Complex64]) -> Result<ClearVector, Error> {
        divides("mul_plain", p.len(), self.slots)?;
        let out = self.rescaled("mul_plain", a.level, zip(a, p, |x, y| x * y))?;
        self.recorded().counts.plain_products += 1;
        Ok(out)
    }

    fn mul_const(&self, a: &ClearVector, c: f64) -> Result<ClearVector, Error> {
        let out = self.rescaled("mul_const", a.level, a.values.iter().map(|v| v * c).collect())?;
        self.recorded().counts.plain_products += 1;
        Ok(out)
    }

    fn target(&self, level: usize) -> usize {
        level
    }

    fn product_target(&self, a: &ClearVector, b: &ClearVector) -> Result<usize, Error> {
        let level = a.level.min(b.level);
        has_levels("mul", level, 1)?;
        Ok(level - 1)
    }

    fn factor_target(&self, product: usize, _: &ClearVector) -> usize {
        product + 1
    }

    fn sum_of_products(
        &self,
        products: &[(i64, &ClearVector, &ClearVector)],
        terms: &[(f64, &ClearVector)],
        constant: f64,
        target: usize,
    ) -> Result<ClearVector, Error> {
        let mut values = vec![Complex64::from(constant); self.slots];
        let op = "sum of products";
        for (k, a, b) in products {
            has_levels(op, a.level.min(b.level), target + 1)?;
            for (sum, (x, y)) in values.iter_mut().zip(a.values.iter().zip(&b.values)) {
                *sum += x * y * *k as f64;
            }
        }
        for (c, v) in terms {
            has_levels(op, v.level, target + 1)?;
            for (sum, x) in values.iter_mut().zip(&v.values) {
                *sum += x * c;
            }
        }
        let counts = &mut self.recorded().counts;
        *if products.is_empty() { &mut counts.plain_products } else { &mut counts.products } += 1;
        Ok(self.noisy(values, target))
    }

    fn rotate(&self, a: &ClearVector, k: i64) -> Result<ClearVector, Error> {
        // The number of slots is below 2^63, so that the conversions are exact.
        let k = k.rem_euclid(self.slots as i64) as usize;
        if k == 0 {
            return Ok(a.clone());
        }
        let mut values = a.values.clone();
        values.rotate_left(k);
        self.count_rotations([k as i64], a.level);
        Ok(self.noisy(values, a.level))
    }

    fn conjugate(&self, a: &ClearVector) -> Result<ClearVector, Error> {
        let mut recorded = self.recorded();
        recorded.counts.conjugations += 1;
        recorded.conjugated = recorded.conjugated.max(Some(a.level));
        drop(recorded);
        Ok(self.noisy(a.values.iter().map(Complex64::conj).collect(), a.level))
    }

    fn drop_to(&self, a: &ClearVector, level: usize) -> Result<ClearVector, Error> {
        has_levels("drop_to", a.level, level)?;
        Ok(ClearVector { values: a.values.clone(), level })
    }

    fn linear_many(&self, a: &ClearVector, ts: &[&LinearTransform]) -> Result<Vec<ClearVector>, Error> {
        let op = "linear";
        ts.iter().try_for_each(|t| divides(op, t.period(), self.slots))?;
        has_levels(op, a.level, 1)?;
        let n = self.slots;
        let turned = |v: &[Complex64], k: i64| {
            let mut v = v.to_vec();
            v.rotate_left(k.rem_euclid(n as i64) as usize);
            v
        };
        // Each baby step is one key switch, which all giant steps of all transforms share.
        let babies: BTreeSet<i64> = ts.iter().flat_map(|t| t.babies()).collect();
        self.count_rotations(babies.iter().copied(), a.level);
        let babies: BTreeMap<i64, Vec<Complex64>> = babies
            .into_iter()
            .map(|b| {
                let mut v = turned(&a.values, b);
                self.add_noise(&mut v);
                (b, v)
            })
            .collect();
        let transformed = |t: &&LinearTransform| {
            let mut out = vec![Complex64::ZERO; n];
            let mut left = t.giants();
            for (steps, group) in t.groups().rev() {
                out = turned(&out, (left - steps) as i64 * t.giant());
                left = steps;
                let back = steps as i64 * t.giant();
                for (b, diagonal) in group {
                    let v = babies.get(b).unwrap_or(&a.values);
                    // The diagonal rotated by -g: entry j is diagonal[(j - g) mod its length].
                    let start = (-back).rem_euclid(diagonal.len() as i64) as usize;
                    let turned_diagonal = diagonal.iter().cycle().skip(start);
                    for ((s, x), d) in out.iter_mut().zip(v).zip(turned_diagonal) {
                        *s += x * d;
                    }
                }
            }
            let out = turned(&out, left as i64 * t.giant());
            self.recorded().counts.transforms += 1;
            self.count_rotations(std::iter::repeat_n(t.giant(), t.giants()), a.level);
            self.rescaled(op, a.level, out)
        };
        ts.iter().map(transformed).collect()
    }
}

/// Applies `f` slot by slot, with the right operand repeated to fill the slots.
fn zip(a: &ClearVector, b: &[Complex64], f: impl Fn(Complex64, Complex64) -> Complex64) -> Vec<Complex64> {
    a.values.iter().zip(b.iter().cycle()).map(|(&x, &y)| f(x, y)).collect()
}
