//! The trait between circuits and their engines, and the linear transforms that both use.

use std::collections::{BTreeMap, BTreeSet};

use num_complex::Complex64;

use crate::Error;
use crate::error::{has_levels, power_of_two};

/// Slot-wise arithmetic on vectors of `slots()` complex values.
///
/// Every vector has a level, and a vector at level 0 cannot be multiplied. An operation that takes 0 levels
/// returns a vector at the lowest level of its operands, and one that takes 1 level returns it one below.
/// Operands at different levels are first brought to the lower level. Rotations are cyclic, and `k > 0`
/// rotates to the left.
///
/// # Errors
/// Every fallible method returns [`Error::OutOfLevels`] if an operand has too few levels, and
/// [`Error::SlotCount`] if the length of a plaintext does not divide `slots()`. An engine may return further
/// errors, such as a missing key.
pub trait SlotAlgebra: Sync {
    /// An encrypted or clear vector.
    type Vector: Clone + Send + Sync;
    /// The error of the engine. The error of a circuit converts into it.
    type Error: std::error::Error + From<Error> + Send + Sync + 'static;
    /// The level of a result and, on ciphertexts, its scale.
    type Target: Copy + Send + Sync;

    /// The number of slots `n`, a power of two.
    fn slots(&self) -> usize;

    /// The level of `v`: the number of multiplications that it can still take.
    fn level(&self, v: &Self::Vector) -> usize;

    /// `a + b`. Takes 0 levels.
    fn add(&self, a: &Self::Vector, b: &Self::Vector) -> Result<Self::Vector, Self::Error>;

    /// `a - b`. Takes 0 levels.
    fn sub(&self, a: &Self::Vector, b: &Self::Vector) -> Result<Self::Vector, Self::Error>;

    /// `-a`. Takes 0 levels.
    fn neg(&self, a: &Self::Vector) -> Self::Vector;

    /// `a + c` in every slot. Takes 0 levels.
    fn add_const(&self, a: &Self::Vector, c: Complex64) -> Result<Self::Vector, Self::Error>;

    /// `a + p`, with `p` repeated to fill the slots. Takes 0 levels.
    fn add_plain(&self, a: &Self::Vector, p: &[Complex64]) -> Result<Self::Vector, Self::Error>;

    /// `k a`, without error. Takes 0 levels.
    fn mul_integer(&self, a: &Self::Vector, k: i64) -> Result<Self::Vector, Self::Error>;

    /// `i a` for the imaginary unit `i`, without error. Takes 0 levels.
    fn mul_i(&self, a: &Self::Vector) -> Result<Self::Vector, Self::Error>;

    /// `a b`, relinearised and rescaled. Takes 1 level.
    fn mul(&self, a: &Self::Vector, b: &Self::Vector) -> Result<Self::Vector, Self::Error>;

    /// `a a`. Takes 1 level.
    fn square(&self, a: &Self::Vector) -> Result<Self::Vector, Self::Error> {
        self.mul(a, a)
    }

    /// `a p`, with `p` repeated to fill the slots. Takes 1 level.
    fn mul_plain(&self, a: &Self::Vector, p: &[Complex64]) -> Result<Self::Vector, Self::Error>;

    /// `c a`. Takes 1 level.
    fn mul_const(&self, a: &Self::Vector, c: f64) -> Result<Self::Vector, Self::Error>;

    /// `constant + sum c v` over the terms `(c, v)`, with one rescaling for all. Takes 1 level.
    ///
    /// # Errors
    /// [`Error::Empty`] if there are no terms.
    fn linear_combination(
        &self,
        terms: &[(f64, &Self::Vector)],
        constant: f64,
    ) -> Result<Self::Vector, Self::Error> {
        let op = "linear combination";
        let level = terms.iter().map(|(_, v)| self.level(v)).min().ok_or(Error::Empty { op })?;
        has_levels(op, level, 1)?;
        self.sum_of_products(&[], terms, constant, self.target(level - 1))
    }

    /// The target at `level`, with the canonical scale.
    fn target(&self, level: usize) -> Self::Target;

    /// The target of `a b` that needs no correction of the scale, one level below the lower operand.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] if an operand is at level 0.
    fn product_target(&self, a: &Self::Vector, b: &Self::Vector) -> Result<Self::Target, Self::Error>;

    /// The target of a factor whose product with `other` has the target `product`.
    fn factor_target(&self, product: Self::Target, other: &Self::Vector) -> Self::Target;

    /// `sum k a b + sum c v + constant` at `target`, over products `(k, a, b)` and terms `(c, v)`, with one
    /// relinearisation and one rescaling for all. Operands may be at any level above that of the target;
    /// higher ones need no adjustment.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] if an operand is not above the level of the target. An engine also refuses a
    /// product whose scale is not that of the target; see [`Self::product_target`] and
    /// [`Self::factor_target`].
    fn sum_of_products(
        &self,
        products: &[(i64, &Self::Vector, &Self::Vector)],
        terms: &[(f64, &Self::Vector)],
        constant: f64,
        target: Self::Target,
    ) -> Result<Self::Vector, Self::Error>;

    /// The rotation `result[j] = a[(j + k) mod n]`. Takes 0 levels.
    fn rotate(&self, a: &Self::Vector, k: i64) -> Result<Self::Vector, Self::Error>;

    /// The sum of `rotate(a, k)` over the terms `(k, negative)`, each subtracted if `negative`. Takes 0
    /// levels. An engine shares work between the rotations.
    ///
    /// # Errors
    /// [`Error::Empty`] if there are no terms.
    fn sum_of_rotations(&self, a: &Self::Vector, terms: &[(i64, bool)]) -> Result<Self::Vector, Self::Error> {
        let signed = |&(k, negative): &(i64, bool)| -> Result<Self::Vector, Self::Error> {
            let rotated = self.rotate(a, k)?;
            Ok(if negative { self.neg(&rotated) } else { rotated })
        };
        let (first, rest) = terms.split_first().ok_or(Error::Empty { op: "sum of rotations" })?;
        rest.iter().try_fold(signed(first)?, |sum, term| self.add(&sum, &signed(term)?))
    }

    /// The complex conjugate of every slot. Takes 0 levels.
    fn conjugate(&self, a: &Self::Vector) -> Result<Self::Vector, Self::Error>;

    /// The same values at the lower or equal `level`.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] if `level` is above that of the vector.
    fn drop_to(&self, a: &Self::Vector, level: usize) -> Result<Self::Vector, Self::Error>;

    /// The linear transform `out[j] = sum_k diagonal_k[j] a[j + k]`. Takes 1 level.
    ///
    /// # Errors
    /// [`Error::SlotCount`] if the period of the transform does not divide `slots()`.
    fn linear(&self, a: &Self::Vector, t: &LinearTransform) -> Result<Self::Vector, Self::Error>;
}

/// A linear transform given by its non-zero diagonals: `out[j] = sum_k diagonal_k[j] a[j + k]`. It is
/// evaluated with baby steps b and giant steps g, where `k = g + b` and `0 <= b < baby_step`: `out = sum_g
/// rotate(sum_b rotate(diagonal_{g+b}, -g) * rotate(a, b), g)`.
///
/// Offsets are reduced to `[-p/2, p/2)` modulo the period p of the inputs. Every vector has the number of
/// slots as a period; with a smaller p, inputs must have that period.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearTransform {
    period: usize,
    baby_step: usize,
    diagonals: BTreeMap<i64, Vec<Complex64>>,
}

impl LinearTransform {
    /// The transform with these diagonals, given by offset. Diagonals whose offsets are equal modulo
    /// `offset_period` are added.
    ///
    /// - `period`: the period of the diagonals, a power of two. The length of each diagonal divides it.
    /// - `offset_period`: the period of the inputs, a power of two. Offsets are reduced modulo it.
    ///
    /// The baby step is the one with the fewest distinct rotations.
    ///
    /// # Errors
    /// [`Error::SlotCount`] if a period is not a power of two or a length does not divide the period,
    /// [`Error::Empty`] if there are no diagonals.
    pub fn new(
        period: usize,
        offset_period: usize,
        diagonals: impl IntoIterator<Item = (i64, Vec<Complex64>)>,
    ) -> Result<Self, Error> {
        let op = "linear transform";
        power_of_two(op, period, 1)?;
        power_of_two(op, offset_period, 1)?;
        // A power of two that fits a slot count fits an i64.
        let modulus = i64::try_from(offset_period).map_err(|_| Error::SlotCount {
            op,
            got: offset_period,
            want: 1 << 62,
        })?;
        let mut map: BTreeMap<i64, Vec<Complex64>> = BTreeMap::new();
        for (offset, diagonal) in diagonals {
            if diagonal.is_empty() || !period.is_multiple_of(diagonal.len()) {
                return Err(Error::SlotCount { op, got: diagonal.len(), want: period });
            }
            let mut k = offset.rem_euclid(modulus);
            if k >= modulus - modulus / 2 {
                k -= modulus;
            }
            let sum = map.entry(k).or_insert_with(|| vec![Complex64::ZERO; diagonal.len()]);
            if sum.len() < diagonal.len() {
                *sum = sum.iter().copied().cycle().take(diagonal.len()).collect();
            }
            for (s, d) in sum.iter_mut().zip(diagonal.iter().cycle()) {
                *s += d;
            }
        }
        if map.is_empty() {
            return Err(Error::Empty { op });
        }
        let mut out = Self { period, baby_step: 1, diagonals: map };
        out.baby_step = out.best_baby_step();
        Ok(out)
    }

    /// The same transform with the baby step `step`, so that several transforms can share their rotation
    /// keys.
    ///
    /// # Errors
    /// [`Error::Range`] if `step` is 0 or larger than the period.
    pub fn with_baby_step(mut self, step: usize) -> Result<Self, Error> {
        crate::error::in_range("baby step", step as f64, 1.0, self.period as f64)?;
        self.baby_step = step;
        Ok(self)
    }

    /// The transform followed by a multiplication by `c`.
    #[must_use]
    pub fn times(&self, c: f64) -> Self {
        let mut out = self.clone();
        out.diagonals.values_mut().flatten().for_each(|v| *v *= c);
        out
    }

    /// The period of the diagonals. It must divide the number of slots.
    pub fn period(&self) -> usize {
        self.period
    }

    /// The distance between giant steps.
    pub fn baby_step(&self) -> usize {
        self.baby_step
    }

    /// The diagonals with their offsets, in ascending order.
    pub fn diagonals(&self) -> impl Iterator<Item = (i64, &[Complex64])> {
        self.diagonals.iter().map(|(k, d)| (*k, d.as_slice()))
    }

    /// The diagonals by giant step g: pairs of a baby step b with `0 <= b < baby_step` and the diagonal with
    /// offset g + b, in ascending order.
    pub fn groups(&self) -> BTreeMap<i64, Vec<(i64, &[Complex64])>> {
        let mut groups: BTreeMap<i64, Vec<(i64, &[Complex64])>> = BTreeMap::new();
        for (offset, diagonal) in self.diagonals() {
            let b = offset.rem_euclid(self.baby_step as i64);
            groups.entry(offset - b).or_default().push((b, diagonal));
        }
        groups
    }

    /// The non-zero baby steps, which are rotations of the input.
    pub fn babies(&self) -> BTreeSet<i64> {
        split(self.diagonals.keys().copied(), self.baby_step as i64).0
    }

    /// The non-zero giant steps, which are rotations of partial sums.
    pub fn giants(&self) -> BTreeSet<i64> {
        split(self.diagonals.keys().copied(), self.baby_step as i64).1
    }

    /// All rotations that need a key: baby and giant steps.
    pub fn rotations(&self) -> BTreeSet<i64> {
        let (mut babies, giants) = split(self.diagonals.keys().copied(), self.baby_step as i64);
        babies.extend(giants);
        babies
    }

    fn best_baby_step(&self) -> usize {
        let offsets = || self.diagonals.keys().copied();
        let stride = offsets().fold(0, |g, k| gcd(g, k.unsigned_abs())).max(1);
        // There is at least one diagonal, so both ends exist.
        let span = offsets().max().unwrap_or(0).abs_diff(offsets().min().unwrap_or(0)) / stride + 1;
        // The fewest keys, and of these the fewest rotations. The best count is near the square root of the
        // span, far below the bound.
        (1..=span.min(1024))
            .map(|count| count * stride)
            .min_by_key(|&step| {
                let (babies, giants) = split(offsets(), step as i64);
                (babies.union(&giants).count(), babies.len() + giants.len())
            })
            .unwrap_or(1) as usize
    }
}

fn split(offsets: impl Iterator<Item = i64>, step: i64) -> (BTreeSet<i64>, BTreeSet<i64>) {
    let (mut babies, mut giants) = (BTreeSet::new(), BTreeSet::new());
    for k in offsets {
        let b = k.rem_euclid(step);
        babies.insert(b);
        giants.insert(k - b);
    }
    babies.remove(&0);
    giants.remove(&0);
    (babies, giants)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// `sum_{m < count} rotate(v, m step)` for a `count` that is a power of two. Takes 0 levels. The sum is
/// computed in stages of four summands, because three rotations of one vector cost little more than one.
pub fn rotate_sum<A: SlotAlgebra>(
    alg: &A,
    v: &A::Vector,
    step: i64,
    count: usize,
) -> Result<A::Vector, A::Error> {
    stages(step, count).try_fold(v.clone(), |sum, (step, radix)| {
        let terms: Vec<(i64, bool)> = (0..radix).map(|m| (m * step, false)).collect();
        alg.sum_of_rotations(&sum, &terms)
    })
}

/// The rotations of [`rotate_sum`].
pub(crate) fn sum_rotations(step: i64, count: usize) -> impl Iterator<Item = i64> {
    stages(step, count).flat_map(|(step, radix)| (1..radix).map(move |m| m * step))
}

/// The step and the number of summands of each stage.
fn stages(step: i64, count: usize) -> impl Iterator<Item = (i64, i64)> {
    let log = count.trailing_zeros();
    (0..log.div_ceil(2)).map(move |s| (step << (2 * s), if 2 * s + 1 < log { 4 } else { 2 }))
}

/// The rotations `step 2^s` of a product or sum over `count` slots that doubles its range in each step.
pub(crate) fn doublings(step: i64, count: usize) -> impl Iterator<Item = i64> {
    (0..count.trailing_zeros()).map(move |s| step << s)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ones(offsets: impl IntoIterator<Item = i64>) -> LinearTransform {
        LinearTransform::new(64, 64, offsets.into_iter().map(|k| (k, vec![Complex64::ONE; 64]))).unwrap()
    }

    #[test]
    fn offsets_are_canonical_and_add_up() {
        let t = ones([63, -1, 32, -32, 0]);
        let offsets: Vec<i64> = t.diagonals().map(|(k, _)| k).collect();
        assert_eq!(offsets, [-32, -1, 0]);
        assert!(t.diagonals().all(|(k, d)| d[0].re == if k == 0 { 1.0 } else { 2.0 }));
    }

    #[test]
    fn groups_cover_every_diagonal_once() {
        let t = ones(-15..16).with_baby_step(5).unwrap();
        let mut offsets: Vec<i64> =
            t.groups().iter().flat_map(|(g, list)| list.iter().map(move |(b, _)| g + b)).collect();
        offsets.sort_unstable();
        assert_eq!(offsets, (-15..16).collect::<Vec<_>>());
        assert_eq!(t.rotations(), t.babies().union(&t.giants()).copied().collect());
    }

    #[test]
    fn baby_step_follows_the_stride() {
        let t = ones((0..16).map(|k| 4 * k));
        assert_eq!(t.baby_step() % 4, 0);
        assert!(t.rotations().len() <= 6, "{:?}", t.rotations());
    }

    #[test]
    fn bad_shapes_are_refused() {
        assert!(LinearTransform::new(48, 64, [(0, vec![Complex64::ONE])]).is_err());
        assert!(LinearTransform::new(64, 64, [(0, vec![Complex64::ONE; 3])]).is_err());
        assert!(LinearTransform::new(64, 64, []).is_err());
        assert!(ones([0]).with_baby_step(0).is_err());
    }
}
