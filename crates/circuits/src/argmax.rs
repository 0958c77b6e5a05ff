//! The largest of several scores: all pairs at once, and the paper's chain.
//!
//! Layout, with K arms (padded to a power of two) and blocks of F slots (a power of two): the score of arm a is at
//! slot a F, one further value T may be at slot `spare` of block 0, every other slot is 0. The vector's period is
//! exactly K F, so that rotations wrap from the last arm to the first.

use std::collections::BTreeSet;

use num_complex::Complex64;

use crate::algebra::{doublings, rotate_sum, sum_rotations};
use crate::error::{has_levels, in_range, power_of_two};
use crate::{Comparison, Error, SlotAlgebra};

/// Argmax by K^2 comparisons in one evaluation of the comparison polynomial, and one comparison of T beside them.
///
/// Ranges: scores in [-1/2, 1/2 - [`tie_bonus`]] (empty arms hold -1/2), T and its threshold in [0, 1/2]. Then every slot of
/// every step, unused ones included, is in [-1, 1]; leave room for the noise of the scores.
///
/// An arm is compared with others a little above its own score: a tie is then nearly won by both, where it would be half won. The
/// product over a row of m equal arms would be 2^(1 - m), and drown in noise from five of them on.
///
/// | step | what | levels |
/// |---|---|---|
/// | [`Argmax::pairwise_differences`] | slot a F + m: score a less score a + m | 0 |
/// | [`Argmax::indicator`] | about 1 where the difference is positive | comparison |
/// | [`Argmax::row_product`] | slot a F: product over m | log2 K |
/// | [`Argmax::action`], [`Argmax::spare_answer`] | everything else to 0 | 1 |
#[derive(Debug, Clone)]
pub struct Argmax {
    layout: Layout,
    spare: usize,
    comparison: Comparison,
}

/// The paper's argmax: a chain of NewMax, then one NewComp.
///
/// Scores in [0, 1], padded arms 0; no spare value. Slot a F starts its chain at arm a and goes around, which needs no
/// mask and no broadcast.
#[derive(Debug, Clone)]
pub struct PaperArgmax {
    layout: Layout,
    maximum: Comparison,
    comparison: Comparison,
}

/// What an arm is compared above its own score, for a comparison of this resolution: an indicator is 0.92 or more there, and still
/// grows, so that near ties are told apart beyond the resolution.
pub fn tie_bonus(resolution: f64) -> f64 {
    0.75 * resolution
}

#[derive(Debug, Clone, Copy)]
struct Layout {
    arms: usize,
    block: usize,
}

impl Argmax {
    /// For `arms` (K, padded to a power of two, at least 2) in blocks of `block` (F) slots, T at slot `spare`.
    ///
    /// # Errors
    /// [`Error::SlotCount`] for counts that are not powers of two; [`Error::Range`] unless
    /// `arms <= spare <= block - arms`: the rows of arm 0 and of T must not meet.
    pub fn new(arms: usize, block: usize, spare: usize, comparison: Comparison) -> Result<Self, Error> {
        let layout = Layout::new(arms, block)?;
        in_range("spare slot", spare as f64, arms as f64, block as f64 - arms as f64)?;
        Ok(Self { layout, spare, comparison })
    }

    /// Period of every vector: K F.
    pub fn slots(&self) -> usize {
        self.layout.slots()
    }

    /// The comparison in use.
    pub fn comparison(&self) -> &Comparison {
        &self.comparison
    }

    /// Levels from scores to action: comparison, log2 K for the product, 1 for the mask.
    pub fn depth(&self) -> usize {
        self.comparison.depth() + self.layout.log_arms() + 1
    }

    /// Rotations of [`Argmax::pairwise_differences`].
    pub fn difference_rotations(&self) -> BTreeSet<i64> {
        let Layout { arms, block } = self.layout;
        sum_rotations(-1, arms).chain(sum_rotations(block as i64 - 1, arms)).collect()
    }

    /// Rotations of [`Argmax::row_product`].
    pub fn product_rotations(&self) -> BTreeSet<i64> {
        doublings(1, self.layout.arms).collect()
    }

    /// Every rotation that needs a key.
    pub fn rotations(&self) -> BTreeSet<i64> {
        self.difference_rotations().union(&self.product_rotations()).copied().collect()
    }

    /// From scores (and T) to the arguments of the comparison. 0 levels, 2 log2 K rotations.
    ///
    /// Slot a F holds 1 (an arm does not compete with itself), slot a F + m holds score a less score (a + m) mod K, and the bonus;
    /// slot `spare + 1` holds T - `threshold`, the other slots of its row are positive whatever T is.
    ///
    /// # Errors
    /// [`Error::Range`] for a threshold outside [0, 1/2], [`Error::SlotCount`] if the algebra's period is not K F.
    pub fn pairwise_differences<A: SlotAlgebra>(
        &self,
        alg: &A,
        scores: &A::Vector,
        threshold: f64,
    ) -> Result<A::Vector, A::Error> {
        self.layout.check(alg)?;
        in_range("threshold", threshold, 0.0, 0.5)?;
        let Layout { arms, block } = self.layout;
        // own[a F + m] = score a; other[a F + m] = score a + m, since (a F + m) + m (F - 1) = (a + m) F. The spare
        // value reaches own at spare + m and other at block -m, spare + m: they cancel at m = 0 only.
        let step = block as i64 - 1;
        let differences = if arms <= 4 {
            let terms: Vec<(i64, bool)> =
                (1..arms as i64).flat_map(|m| [(-m, false), (m * step, true)]).collect();
            alg.sum_of_rotations(scores, &terms)?
        } else {
            alg.sub(&rotate_sum(alg, scores, -1, arms)?, &rotate_sum(alg, scores, step, arms)?)?
        };
        let mut constants = vec![Complex64::ZERO; self.slots()];
        let bonus = self.comparison.resolution().map_or(0.0, tie_bonus);
        for row in constants.chunks_exact_mut(block) {
            row[..arms].fill(bonus.into());
            row[0] = Complex64::ONE;
        }
        let row = &mut constants[self.spare..self.spare + arms];
        // T is in [0, 1/2]: a half more is at least a half, far above any resolution.
        row.fill(0.5.into());
        row[0] = Complex64::ONE;
        row[1] = (-threshold).into();
        alg.add_plain(&differences, &constants)
    }

    /// About 1 where a difference is positive, 0 where it is negative.
    ///
    /// # Errors
    /// As [`Comparison::indicator`].
    pub fn indicator<A: SlotAlgebra>(&self, alg: &A, differences: &A::Vector) -> Result<A::Vector, A::Error> {
        self.comparison.indicator(alg, differences)
    }

    /// Slot a F: the product of slots a F .. a F + K - 1, near 1 for the largest score only; slot `spare`: the same for
    /// T. log2 K levels, products and rotations; other slots hold products of neighbours.
    ///
    /// # Errors
    /// The algebra's.
    pub fn row_product<A: SlotAlgebra>(
        &self,
        alg: &A,
        indicators: &A::Vector,
    ) -> Result<A::Vector, A::Error> {
        doublings(1, self.layout.arms)
            .try_fold(indicators.clone(), |row, k| alg.mul(&row, &alg.rotate(&row, k)?))
    }

    /// The action vector: slot a F near 1 for the arm to play, every other slot 0. 1 level.
    ///
    /// # Errors
    /// The algebra's.
    pub fn action<A: SlotAlgebra>(&self, alg: &A, products: &A::Vector) -> Result<A::Vector, A::Error> {
        self.layout.keep_arms(alg, products)
    }

    /// Slot `spare`: near 1 if T is above the threshold; every other slot 0. 1 level.
    ///
    /// # Errors
    /// The algebra's.
    pub fn spare_answer<A: SlotAlgebra>(&self, alg: &A, products: &A::Vector) -> Result<A::Vector, A::Error> {
        let mut mask = vec![Complex64::ZERO; self.slots()];
        mask[self.spare] = Complex64::ONE;
        alg.mul_plain(products, &mask)
    }

    /// All steps: the action vector and the answer about T.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] before anything is computed; otherwise those of the steps.
    pub fn evaluate<A: SlotAlgebra>(
        &self,
        alg: &A,
        scores: &A::Vector,
        threshold: f64,
    ) -> Result<(A::Vector, A::Vector), A::Error> {
        has_levels("argmax", alg.level(scores), self.depth())?;
        let differences = self.pairwise_differences(alg, scores, threshold)?;
        let products = self.row_product(alg, &self.indicator(alg, &differences)?)?;
        Ok((self.action(alg, &products)?, self.spare_answer(alg, &products)?))
    }
}

impl PaperArgmax {
    /// For `arms` (padded) in blocks of `block` slots, with the comparisons of NewMax and NewComp.
    ///
    /// # Errors
    /// [`Error::SlotCount`] for counts that are not powers of two, or fewer than two arms.
    pub fn new(
        arms: usize,
        block: usize,
        maximum: Comparison,
        comparison: Comparison,
    ) -> Result<Self, Error> {
        Ok(Self { layout: Layout::new(arms, block)?, maximum, comparison })
    }

    /// Period of every vector: K F.
    pub fn slots(&self) -> usize {
        self.layout.slots()
    }

    /// Levels from scores to action: `(K - 1)(maximum + 1) + comparison + 1`.
    pub fn depth(&self) -> usize {
        (self.layout.arms - 1) * (self.maximum.depth() + 1) + self.comparison.depth() + 1
    }

    /// Every rotation that needs a key.
    pub fn rotations(&self) -> BTreeSet<i64> {
        (1..self.layout.arms).map(|a| (a * self.layout.block) as i64).collect()
    }

    /// `max(a, b)` about: `(a + b)/2 + (a - b)/2 s(a - b)`, for |a - b| <= 1. One level more than the comparison.
    ///
    /// # Errors
    /// The algebra's.
    pub fn maximum<A: SlotAlgebra>(
        &self,
        alg: &A,
        a: &A::Vector,
        b: &A::Vector,
    ) -> Result<A::Vector, A::Error> {
        let difference = alg.sub(a, b)?;
        let half_sign = self.maximum.affine(alg, &difference, 0.5, 0.0)?;
        let mean = alg.mul_const(&alg.add(a, b)?, 0.5)?;
        alg.add(&mean, &alg.mul(&difference, &half_sign)?)
    }

    /// Slot a F: NewComp(score a, largest score), near 0 or 1/2 (the largest compared with about itself); every other
    /// slot 0.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] before anything is computed, [`Error::SlotCount`] if the algebra's period is not K F;
    /// otherwise the algebra's.
    ///
    /// # Source
    /// Encrypted Linear Contextual Bandit, amax and acomp. Departure: the order in which a slot's chain meets the arms.
    pub fn evaluate<A: SlotAlgebra>(&self, alg: &A, scores: &A::Vector) -> Result<A::Vector, A::Error> {
        self.layout.check(alg)?;
        has_levels("argmax", alg.level(scores), self.depth())?;
        let largest = self.rotations().into_iter().try_fold(scores.clone(), |largest, k| {
            let next = alg.rotate(scores, k)?;
            self.maximum(alg, &largest, &next)
        })?;
        let answer = self.comparison.indicator(alg, &alg.sub(scores, &largest)?)?;
        self.layout.keep_arms(alg, &answer)
    }
}

impl Layout {
    fn new(arms: usize, block: usize) -> Result<Self, Error> {
        power_of_two("arms", arms, 2)?;
        power_of_two("block", block, 1)?;
        if arms.checked_mul(block).is_none_or(|n| n > 1 << 40) {
            return Err(Error::SlotCount {
                op: "arms and block",
                got: block,
                want: (1 << 40) / arms.min(1 << 40),
            });
        }
        Ok(Self { arms, block })
    }

    fn slots(&self) -> usize {
        self.arms * self.block
    }

    fn log_arms(&self) -> usize {
        self.arms.trailing_zeros() as usize
    }

    fn check<A: SlotAlgebra>(&self, alg: &A) -> Result<(), Error> {
        if alg.slots() == self.slots() {
            Ok(())
        } else {
            Err(Error::SlotCount { op: "argmax", got: alg.slots(), want: self.slots() })
        }
    }

    fn keep_arms<A: SlotAlgebra>(&self, alg: &A, v: &A::Vector) -> Result<A::Vector, A::Error> {
        let mut mask = vec![Complex64::ZERO; self.block];
        mask[0] = Complex64::ONE;
        alg.mul_plain(v, &mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clear;
    use rand::{RngExt, SeedableRng};

    fn place(scores: &[f64], block: usize, spare: Option<(usize, f64)>) -> Vec<f64> {
        let mut v = vec![0.0; scores.len() * block];
        for (a, &s) in scores.iter().enumerate() {
            v[a * block] = s;
        }
        if let Some((slot, t)) = spare {
            v[slot] = t;
        }
        v
    }

    /// Any number of equal arms come out above every other, and the best of near ones ahead of the next.
    #[test]
    fn equal_arms_stand_out() {
        for (comparison, arms) in [
            (Comparison::composite(1.0 / 64.0, &[15, 15]).unwrap(), 32),
            (Comparison::minimax(6).unwrap(), 64),
            (Comparison::minimax(8).unwrap(), 32),
            (Comparison::minimax(10).unwrap(), 32),
        ] {
            let resolution = comparison.resolution().unwrap();
            let argmax = Argmax::new(arms, 128, 64, comparison).unwrap();
            let alg = Clear::new(arms * 128).unwrap();
            let wins = |scores: &[f64]| {
                let v = alg.fresh_real(&place(scores, 128, None), argmax.depth()).unwrap();
                let action = argmax.evaluate(&alg, &v, 0.5).unwrap().0.real();
                action.iter().step_by(128).copied().collect::<Vec<f64>>()
            };
            for equal in [2, 4, 8, 16, 31, 63].into_iter().filter(|&n| n < arms) {
                let mut scores = vec![-0.2; equal];
                scores.resize(arms, -0.25);
                let won = wins(&scores);
                assert!(won[..equal].iter().all(|&w| w > 0.085), "{equal} of {arms}: {won:?}");
                assert!(won[equal..].iter().all(|w| w.abs() < 0.02), "{equal} of {arms}: {won:?}");
            }
            let mut scores = vec![0.1, 0.1 - resolution / 2.0];
            scores.resize(arms, -0.45);
            let won = wins(&scores);
            assert!(won[0] > won[1] + 0.2, "{won:?}");
        }
    }

    /// Differences are where they belong, every slot stays in [-1, 1], and each step's slots equal the twin in f64.
    #[test]
    fn every_step_equals_the_twin() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        for (arms, block) in [(2, 16), (4, 16), (8, 64), (16, 64)] {
            let spare = block / 2;
            let argmax = Argmax::new(arms, block, spare, Comparison::minimax(8).unwrap()).unwrap();
            let alg = Clear::new(arms * block).unwrap();
            for _ in 0..20 {
                let bonus = tie_bonus(1.0 / 256.0);
                let scores: Vec<f64> = (0..arms).map(|_| rng.random::<f64>() * (1.0 - bonus) - 0.5).collect();
                let (t, threshold) = (0.5 * rng.random::<f64>(), 0.5 * rng.random::<f64>());
                let v = alg.fresh_real(&place(&scores, block, Some((spare, t))), argmax.depth()).unwrap();
                let d = argmax.pairwise_differences(&alg, &v, threshold).unwrap();
                assert_eq!(alg.level(&d), argmax.depth());
                let d_real = d.real();
                assert!(d_real.iter().all(|x| x.abs() <= 1.0));
                let c = argmax.comparison();
                let (action, answer) = argmax.evaluate(&alg, &v, threshold).unwrap();
                assert_eq!((alg.level(&action), alg.level(&answer)), (0, 0));
                let t_of = |x: f64| 0.5 + 0.5 * c.eval(x);
                for (a, &score) in scores.iter().enumerate() {
                    let mut product = t_of(1.0);
                    assert_eq!(d_real[a * block], 1.0);
                    for m in 1..arms {
                        let want = score - scores[(a + m) % arms] + bonus;
                        assert!((d_real[a * block + m] - want).abs() < 1e-12);
                        product *= t_of(want);
                    }
                    assert!((action.real()[a * block] - product).abs() < 1e-9);
                }
                let want = t_of(t - threshold) * t_of(1.0) * t_of(t + 0.5).powi(arms as i32 - 2);
                assert!((answer.real()[spare] - want).abs() < 1e-9);
                let others = action.real().iter().enumerate().all(|(j, x)| j % block == 0 || *x == 0.0);
                assert!(others && answer.real().iter().enumerate().all(|(j, x)| j == spare || *x == 0.0));
            }
        }
    }

    /// Scores further apart than the resolution give one clear winner.
    #[test]
    fn the_largest_wins() {
        let argmax = Argmax::new(8, 64, 32, Comparison::minimax(8).unwrap()).unwrap();
        let alg = Clear::new(512).unwrap();
        let scores = [-0.5, 0.1, 0.104, 0.497, 0.488, -0.2, 0.3, -0.5];
        let v = alg.fresh_real(&place(&scores, 64, Some((32, 0.3))), 30).unwrap();
        let (action, answer) = argmax.evaluate(&alg, &v, 0.29).unwrap();
        for a in 0..8 {
            let want = if a == 3 { 1.0 } else { 0.0 };
            assert!((action.real()[64 * a] - want).abs() < 0.03, "arm {a}");
        }
        assert!((answer.real()[32] - 1.0).abs() < 0.03);
        // Two sums of eight (radix four, then two) and three rotations of the product.
        assert_eq!(alg.counts().rotations, 2 * (3 + 1) + 3);
        assert_eq!(alg.counts().products, argmax.comparison().products() + 3);
        let published: BTreeSet<i64> = argmax.rotations().iter().map(|k| k.rem_euclid(512)).collect();
        assert_eq!(alg.rotations_used(), published);
    }

    #[test]
    fn the_papers_chain_finds_the_largest() {
        let comparison = Comparison::paper(1, 14).unwrap();
        let paper = PaperArgmax::new(4, 8, comparison.clone(), comparison).unwrap();
        let alg = Clear::new(32).unwrap();
        let scores = [0.2, 0.9, 0.1, 0.7];
        let v = alg.fresh_real(&place(&scores, 8, None), paper.depth()).unwrap();
        let b = paper.evaluate(&alg, &v).unwrap();
        assert_eq!(alg.level(&b), 0);
        let b = b.real();
        assert_eq!(alg.rotations_used(), paper.rotations());
        assert!(b[8] > 0.4 && [0, 16, 24].iter().all(|&j| b[j] < 1e-3), "{b:?}");
        assert!(b.iter().enumerate().all(|(j, x)| j % 8 == 0 || *x == 0.0));
    }

    #[test]
    fn bad_layouts_are_refused() {
        let c = || Comparison::minimax(6).unwrap();
        assert!(Argmax::new(3, 16, 8, c()).is_err());
        assert!(Argmax::new(1, 16, 8, c()).is_err());
        assert!(Argmax::new(8, 16, 9, c()).is_err());
        assert!(Argmax::new(8, 16, 7, c()).is_err());
        let argmax = Argmax::new(4, 16, 8, c()).unwrap();
        let wide = Clear::new(128).unwrap();
        let v = wide.fresh_real(&[0.0], 30).unwrap();
        assert!(matches!(argmax.evaluate(&wide, &v, 0.1), Err(Error::SlotCount { .. })));
        let alg = Clear::new(64).unwrap();
        let v = alg.fresh_real(&[0.0], argmax.depth() - 1).unwrap();
        assert!(matches!(argmax.evaluate(&alg, &v, 0.1), Err(Error::OutOfLevels { .. })));
        assert!(argmax.pairwise_differences(&alg, &v, 0.6).is_err());
    }
}
