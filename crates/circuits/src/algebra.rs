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
    fn linear(&self, a: &Self::Vector, t: &LinearTransform) -> Result<Self::Vector, Self::Error> {
        self.linear_many(a, &[t]).and_then(|mut all| all.pop().ok_or(Error::Empty { op: "linear" }.into()))
    }

    /// The transforms `ts` of one vector, as [`Self::linear`]. An engine shares the rotations of their baby
    /// steps.
    ///
    /// # Errors
    /// As [`Self::linear`].
    fn linear_many(
        &self,
        a: &Self::Vector,
        ts: &[&LinearTransform],
    ) -> Result<Vec<Self::Vector>, Self::Error>;
}

/// The rotations that a [`LinearTransform`] is evaluated with: an offset is a baby step plus a number of
/// giant steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps {
    /// The baby steps, which share one decomposition of the input. 0 is one of them, listed or not.
    pub babies: Vec<i64>,
    /// The size of a giant step.
    pub giant: i64,
}

impl Steps {
    /// All rotations that need a key.
    pub fn rotations(&self) -> BTreeSet<i64> {
        self.babies.iter().copied().chain([self.giant]).filter(|&k| k != 0).collect()
    }
}

/// A linear transform given by its non-zero diagonals: `out[j] = sum_k diagonal_k[j] a[j + k]`. It is
/// evaluated with baby steps b and n giant steps of one size g, where `k = n g + b`, by Horner's rule, so
/// that one key serves all giant steps: `out = s_0 + rotate(s_1 + rotate(s_2 + ..., g), g)` with `s_n = sum_b
/// rotate(diagonal_{n g + b}, -n g) * rotate(a, b)`.
///
/// Offsets are equal if they are equal modulo the period of the inputs. Every vector has the number of slots
/// as a period; with a smaller one, inputs must have that period.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearTransform {
    period: usize,
    steps: Steps,
    /// The diagonals by the number of giant steps and the baby step.
    groups: BTreeMap<usize, BTreeMap<i64, Vec<Complex64>>>,
}

impl LinearTransform {
    /// The transform with these diagonals, given by offset. Diagonals whose offsets are equal modulo
    /// `offset_period` are added.
    ///
    /// - `period`: the period of the diagonals, a power of two. The length of each diagonal divides it.
    /// - `offset_period`: the period of the inputs, a power of two.
    /// - `steps`: what every offset is made of, with fewer giant steps than `offset_period`.
    ///
    /// # Errors
    /// [`Error::SlotCount`] if a period is not a power of two or a length does not divide the period,
    /// [`Error::Empty`] if there are no diagonals, [`Error::Steps`] for an offset that `steps` do not reach.
    pub fn new(
        period: usize,
        offset_period: usize,
        steps: Steps,
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
        let babies = || [0].into_iter().chain(steps.babies.iter().copied());
        let parts = |offset: i64| {
            (0..offset_period).find_map(|n| {
                let giants = (n as i64).wrapping_mul(steps.giant);
                babies().find(|b| (giants + b - offset).rem_euclid(modulus) == 0).map(|b| (n, b))
            })
        };
        let mut groups: BTreeMap<usize, BTreeMap<i64, Vec<Complex64>>> = BTreeMap::new();
        for (offset, diagonal) in diagonals {
            if diagonal.is_empty() || !period.is_multiple_of(diagonal.len()) {
                return Err(Error::SlotCount { op, got: diagonal.len(), want: period });
            }
            let (n, b) = parts(offset).ok_or(Error::Steps { offset })?;
            let zeros = || vec![Complex64::ZERO; diagonal.len()];
            let sum = groups.entry(n).or_default().entry(b).or_insert_with(zeros);
            if sum.len() < diagonal.len() {
                *sum = sum.iter().copied().cycle().take(diagonal.len()).collect();
            }
            for (s, d) in sum.iter_mut().zip(diagonal.iter().cycle()) {
                *s += d;
            }
        }
        if groups.is_empty() {
            return Err(Error::Empty { op });
        }
        Ok(Self { period, steps, groups })
    }

    /// The transform followed by a multiplication by `c`.
    #[must_use]
    pub fn times(&self, c: f64) -> Self {
        let mut out = self.clone();
        out.groups.values_mut().flat_map(|group| group.values_mut()).flatten().for_each(|v| *v *= c);
        out
    }

    /// The period of the diagonals. It must divide the number of slots.
    pub fn period(&self) -> usize {
        self.period
    }

    /// The size of a giant step.
    pub fn giant(&self) -> i64 {
        self.steps.giant
    }

    /// The diagonals with their offsets.
    pub fn diagonals(&self) -> impl Iterator<Item = (i64, &[Complex64])> {
        self.groups().flat_map(move |(n, group)| {
            group.iter().map(move |(b, d)| (n as i64 * self.steps.giant + b, d.as_slice()))
        })
    }

    /// The diagonals by baby step, for each number of giant steps that there is, in ascending order.
    pub fn groups(&self) -> impl DoubleEndedIterator<Item = (usize, &BTreeMap<i64, Vec<Complex64>>)> {
        self.groups.iter().map(|(n, group)| (*n, group))
    }

    /// The non-zero baby steps that are used, which are rotations of the input.
    pub fn babies(&self) -> BTreeSet<i64> {
        self.groups.values().flat_map(|group| group.keys().copied()).filter(|&b| b != 0).collect()
    }

    /// The number of giant steps, which are rotations of partial sums.
    pub fn giants(&self) -> usize {
        self.groups.keys().copied().max().unwrap_or(0)
    }

    /// The rotations as they are made: each baby step, and the giant step as often as it is taken.
    pub fn rotations(&self) -> impl Iterator<Item = i64> {
        self.babies().into_iter().chain(std::iter::repeat_n(self.steps.giant, self.giants()))
    }
}

/// `sum_{m < count} rotate(v, m step)` for a `count` that is a power of two. Takes 0 levels. The sum is
/// computed in stages that double the number of summands.
pub fn rotate_sum<A: SlotAlgebra>(
    alg: &A,
    v: &A::Vector,
    step: i64,
    count: usize,
) -> Result<A::Vector, A::Error> {
    doublings(step, count).try_fold(v.clone(), |sum, k| alg.add(&sum, &alg.rotate(&sum, k)?))
}

/// The rotations `step 2^s` of a product or sum over `count` slots that doubles its range in each step.
pub(crate) fn doublings(step: i64, count: usize) -> impl Iterator<Item = i64> {
    (0..count.trailing_zeros()).map(move |s| step << s)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ones(steps: (&[i64], i64), offsets: impl IntoIterator<Item = i64>) -> Result<LinearTransform, Error> {
        let steps = Steps { babies: steps.0.to_vec(), giant: steps.1 };
        LinearTransform::new(64, 64, steps, offsets.into_iter().map(|k| (k, vec![Complex64::ONE; 64])))
    }

    #[test]
    fn equal_offsets_add_up() {
        let t = ones((&[-1], 32), [63, -1, 32, -32, 0]).unwrap();
        let offsets: Vec<i64> = t.diagonals().map(|(k, _)| k).collect();
        assert_eq!(offsets, [-1, 0, 32]);
        assert!(t.diagonals().all(|(k, d)| d[0].re == if k == 0 { 1.0 } else { 2.0 }));
    }

    #[test]
    fn every_diagonal_is_in_one_group() {
        let t = ones((&[-16], 1), -15..16).unwrap();
        let mut offsets: Vec<i64> = t.diagonals().map(|(k, _)| k).collect();
        offsets.sort_unstable();
        assert_eq!(offsets, (-15..16).collect::<Vec<_>>());
        assert_eq!((t.babies(), t.giants()), ([-16].into(), 15));
        assert!(t.rotations().eq([-16].into_iter().chain([1; 15])));
    }

    #[test]
    fn bad_shapes_are_refused() {
        let (steps, one) = (|| Steps { babies: vec![], giant: 1 }, || vec![Complex64::ONE]);
        assert!(LinearTransform::new(48, 64, steps(), [(0, one())]).is_err());
        assert!(LinearTransform::new(64, 64, steps(), [(0, vec![Complex64::ONE; 3])]).is_err());
        assert!(LinearTransform::new(64, 64, steps(), []).is_err());
        assert!(matches!(ones((&[2], 4), [3]), Err(Error::Steps { offset: 3 })));
    }
}
