//! The argmax of K scores, by one comparison of all pairs.
//!
//! Layout: K is a power of two (the number of scores is padded), and each score has a block of F slots, also
//! a power of two. The blocks of B users stand side by side, arms outermost: score a of user b is in slot (a
//! B + b) F + K - 1, the last of the row of pairs in its block. All other slots are 0. The period of the
//! vector is exactly K B F, so that rotations wrap from the last score to the first, and never to a score of
//! another user. Whoever has the differences of the scores in their slots begins with the comparison
//! ([`Argmax::winners`]).

use std::collections::BTreeSet;

use num_complex::Complex64;

use crate::algebra::{doublings, rotate_sum};
use crate::error::{has_levels, in_range, power_of_two};
use crate::{Comparison, Error, SlotAlgebra};

/// Computes the one-hot vector of the largest score of each user: near 1 in the slot of the largest of K
/// scores in [-1/2, 1/2 - [`tie_bonus`]], and near 0 in the slots of the others. Padded scores are -1/2. If
/// the scores leave room for their noise, every slot of every step is in [-1, 1], including unused ones.
///
/// | step | result | levels |
/// |---|---|---|
/// | 1. [`Argmax::pairwise_differences`] | slot (a B + b) F + m: score a - score (a + K - 1 - m) + tie bonus | 0 |
/// | 2. [`Comparison::indicator`] | near 1 where that is positive, near 0 where it is negative | comparison |
/// | 3. [`Argmax::row_product`] | slot (a B + b) F: the product over m of the K indicators of score a | log2 K, or 0 for K = 2 |
/// | 4. [`Argmax::one_hot`] | the results, with all other slots 0 | 1 |
///
/// [`Argmax::products`] runs steps 1 to 3, and [`Argmax::winners`] steps 2 and 3. Scores come from the ends
/// of their rows, so that steps 1 and 3 rotate along rows by the same numbers, with the same keys.
///
/// The tie bonus makes equal scores all win. Without it, the indicator of a tie would be 1/2, and the product
/// of m equal scores 2^(1 - m), which noise hides for five and more of them.
#[derive(Debug, Clone)]
pub struct Argmax {
    count: usize,
    users: usize,
    block: usize,
    comparison: Comparison,
}

/// The offset added to every pairwise difference so that equal scores both win: 0.75 times the resolution of
/// the comparison. At this offset the indicator is at least 0.92. It still increases there, so that scores
/// closer than the resolution are told apart.
pub fn tie_bonus(resolution: f64) -> f64 {
    0.75 * resolution
}

impl Argmax {
    /// The circuit for `count` (K) scores of one user in blocks of `block` (F) slots.
    ///
    /// # Errors
    /// As [`Self::of_users`].
    pub fn new(count: usize, block: usize, comparison: Comparison) -> Result<Self, Error> {
        Self::of_users(count, 1, block, comparison)
    }

    /// The circuit for `count` (K) scores of each of `users` (B) users in blocks of `block` (F) slots.
    ///
    /// # Errors
    /// [`Error::SlotCount`] unless all numbers are powers of two and `count` is at least 2; [`Error::Range`]
    /// unless `count <= block`, because a row of pairs fills a block.
    pub fn of_users(count: usize, users: usize, block: usize, comparison: Comparison) -> Result<Self, Error> {
        power_of_two("number of scores", count, 2)?;
        power_of_two("number of users", users, 1)?;
        power_of_two("block", block, 1)?;
        let slots = count.checked_mul(users).and_then(|n| n.checked_mul(block));
        if slots.is_none_or(|n| n > 1 << 40) {
            let want = (1 << 40) / count.min(1 << 40);
            return Err(Error::SlotCount { op: "number of scores times block", got: block, want });
        }
        in_range("number of scores", count as f64, 2.0, block as f64)?;
        Ok(Self { count, users, block, comparison })
    }

    /// K.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The period of every vector: K B F.
    pub fn slots(&self) -> usize {
        self.count * self.stride()
    }

    /// B F, the distance of two scores of a user.
    fn stride(&self) -> usize {
        self.users * self.block
    }

    /// The comparison polynomial.
    pub fn comparison(&self) -> &Comparison {
        &self.comparison
    }

    /// Levels of all steps: those of the comparison, of the product, and 1 for the mask.
    pub fn depth(&self) -> usize {
        self.comparison.depth() + self.doublings().count() + 1
    }

    /// The rotations of the product over a row. Two scores have one pair each, which is in the first slot.
    fn doublings(&self) -> impl Iterator<Item = i64> {
        doublings(1, if self.count == 2 { 1 } else { self.count })
    }

    /// All rotations that need a key.
    pub fn rotations(&self) -> BTreeSet<i64> {
        doublings(1, self.count).chain(doublings(self.stride() as i64 + 1, self.count)).collect()
    }

    /// Steps 1 to 3: slot (a B + b) F of the result is near 1 if score a of user b is the largest. Other
    /// slots hold intermediate results. Takes one level less than [`Argmax::depth`].
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] before anything is computed, if not even the mask of step 4 would find a level;
    /// otherwise those of the steps.
    pub fn products<A: SlotAlgebra>(&self, alg: &A, scores: &A::Vector) -> Result<A::Vector, A::Error> {
        has_levels("argmax", alg.level(scores), self.depth())?;
        self.winners(alg, &self.pairwise_differences(alg, scores)?)
    }

    /// Steps 2 and 3, on the differences that step 1 states.
    ///
    /// # Errors
    /// As [`Argmax::products`].
    pub fn winners<A: SlotAlgebra>(&self, alg: &A, differences: &A::Vector) -> Result<A::Vector, A::Error> {
        has_levels("argmax", alg.level(differences), self.depth())?;
        self.row_product(alg, &self.comparison.indicator(alg, differences)?)
    }

    /// Step 1: the arguments of the comparison. Takes no level and 2 log2 K rotations.
    ///
    /// Slot (a B + b) F + m of the result holds score a of user b minus score (a + K - 1 - m) mod K of user b
    /// plus [`tie_bonus`], and slot (a B + b) F + K - 1 holds 1, because a score is not compared with itself.
    ///
    /// # Errors
    /// [`Error::SlotCount`] if the period of the algebra is not K B F; otherwise those of the algebra.
    pub fn pairwise_differences<A: SlotAlgebra>(
        &self,
        alg: &A,
        scores: &A::Vector,
    ) -> Result<A::Vector, A::Error> {
        if alg.slots() != self.slots() {
            return Err(Error::SlotCount { op: "argmax", got: alg.slots(), want: self.slots() }.into());
        }
        let Self { count, block, .. } = *self;
        // With t = K - 1 - m, a rotation by t places score a in slot a B F + m of its user. A rotation by t
        // (B F + 1) places score a + t there, because a B F + m + t (B F + 1) = (a + t) B F + K - 1.
        let step = self.stride() as i64 + 1;
        let differences = if count == 2 {
            alg.sum_of_rotations(scores, &[(1, false), (step, true)])?
        } else {
            alg.sub(&rotate_sum(alg, scores, 1, count)?, &rotate_sum(alg, scores, step, count)?)?
        };
        let mut constants = vec![Complex64::ZERO; block];
        constants[..count].fill(tie_bonus(self.comparison.resolution()).into());
        constants[count - 1] = Complex64::ONE;
        alg.add_plain(&differences, &constants)
    }

    /// Step 3: the first slot of each block of the result is the product of the first K slots of the block,
    /// near 1 only for the largest score of a user. Other slots hold other products. Takes log2 K levels,
    /// products and rotations. Two scores are compared in the first slots already, so that K = 2 takes none.
    ///
    /// # Errors
    /// Those of the algebra.
    pub fn row_product<A: SlotAlgebra>(
        &self,
        alg: &A,
        indicators: &A::Vector,
    ) -> Result<A::Vector, A::Error> {
        self.doublings().try_fold(indicators.clone(), |row, k| alg.mul(&row, &alg.rotate(&row, k)?))
    }

    /// Step 4: the one-hot vectors. The first slot of each block is near 1 for the largest score of a user
    /// and near 0 for the others; all other slots are 0. Takes 1 level.
    ///
    /// # Errors
    /// Those of the algebra.
    pub fn one_hot<A: SlotAlgebra>(&self, alg: &A, products: &A::Vector) -> Result<A::Vector, A::Error> {
        let mut mask = vec![Complex64::ZERO; self.block];
        mask[0] = Complex64::ONE;
        alg.mul_plain(products, &mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clear;
    use rand::{RngExt, SeedableRng};

    fn place(scores: &[f64], block: usize) -> Vec<f64> {
        let mut v = vec![0.0; scores.len() * block];
        for (a, &s) in scores.iter().enumerate() {
            v[a * block + scores.len() - 1] = s;
        }
        v
    }

    /// The one-hot vector of the scores.
    fn evaluate(argmax: &Argmax, alg: &Clear, scores: &crate::ClearVector) -> crate::ClearVector {
        argmax.one_hot(alg, &argmax.products(alg, scores).unwrap()).unwrap()
    }

    /// Any number of equal scores win over all others, and the larger of two close scores wins clearly.
    #[test]
    fn equal_scores_stand_out() {
        for (comparison, count) in [
            (Comparison::composite(1.0 / 64.0, &[15, 15]).unwrap(), 32),
            (Comparison::minimax(6).unwrap(), 64),
            (Comparison::minimax(8).unwrap(), 32),
            (Comparison::minimax(10).unwrap(), 32),
        ] {
            let resolution = comparison.resolution();
            let argmax = Argmax::new(count, 128, comparison).unwrap();
            let alg = Clear::new(count * 128).unwrap();
            let wins = |scores: &[f64]| {
                let v = alg.fresh_real(&place(scores, 128), argmax.depth()).unwrap();
                let one_hot = argmax.one_hot(&alg, &argmax.products(&alg, &v).unwrap()).unwrap().real();
                one_hot.iter().step_by(128).copied().collect::<Vec<f64>>()
            };
            for equal in [2, 4, 8, 16, 31, 63].into_iter().filter(|&n| n < count) {
                let mut scores = vec![-0.2; equal];
                scores.resize(count, -0.25);
                let won = wins(&scores);
                assert!(won[..equal].iter().all(|&w| w > 0.085), "{equal} of {count}: {won:?}");
                assert!(won[equal..].iter().all(|w| w.abs() < 0.02), "{equal} of {count}: {won:?}");
            }
            let mut scores = vec![0.1, 0.1 - resolution / 2.0];
            scores.resize(count, -0.45);
            let won = wins(&scores);
            assert!(won[0] > won[1] + 0.2, "{won:?}");
        }
    }

    /// The differences are in their slots, every slot is in [-1, 1], and the results equal the same
    /// computation in f64.
    #[test]
    fn every_step_equals_the_twin() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        for (count, block) in [(2, 16), (4, 16), (8, 64), (16, 64)] {
            let argmax = Argmax::new(count, block, Comparison::minimax(8).unwrap()).unwrap();
            let alg = Clear::new(count * block).unwrap();
            for _ in 0..20 {
                let bonus = tie_bonus(1.0 / 256.0);
                let scores: Vec<f64> =
                    (0..count).map(|_| rng.random::<f64>() * (1.0 - bonus) - 0.5).collect();
                let v = alg.fresh_real(&place(&scores, block), argmax.depth()).unwrap();
                let d = argmax.pairwise_differences(&alg, &v).unwrap();
                assert_eq!(alg.level(&d), argmax.depth());
                let d_real = d.real();
                assert!(d_real.iter().all(|x| x.abs() <= 1.0));
                let c = argmax.comparison();
                let one_hot = evaluate(&argmax, &alg, &v);
                assert_eq!(alg.level(&one_hot), 0);
                let t_of = |x: f64| 0.5 + 0.5 * c.eval(x);
                for (a, &score) in scores.iter().enumerate() {
                    let mut product = if count == 2 { 1.0 } else { t_of(1.0) };
                    assert_eq!(d_real[a * block + count - 1], 1.0);
                    for m in 0..count - 1 {
                        let want = score - scores[(a + count - 1 - m) % count] + bonus;
                        assert!((d_real[a * block + m] - want).abs() < 1e-12);
                        product *= t_of(want);
                    }
                    assert!((one_hot.real()[a * block] - product).abs() < 1e-9);
                }
                assert!(one_hot.real().iter().enumerate().all(|(j, x)| j % block == 0 || *x == 0.0));
            }
        }
    }

    /// Scores further apart than the resolution give one clear winner.
    #[test]
    fn the_largest_wins() {
        let argmax = Argmax::new(8, 64, Comparison::minimax(8).unwrap()).unwrap();
        let alg = Clear::new(512).unwrap();
        let scores = [-0.5, 0.1, 0.104, 0.497, 0.488, -0.2, 0.3, -0.5];
        let v = alg.fresh_real(&place(&scores, 64), 30).unwrap();
        let one_hot = evaluate(&argmax, &alg, &v);
        for a in 0..8 {
            let want = if a == 3 { 1.0 } else { 0.0 };
            assert!((one_hot.real()[64 * a] - want).abs() < 0.03, "score {a}");
        }
        // Two sums of eight, and the product.
        assert_eq!(alg.counts().rotations, 3 * 3);
        assert_eq!(alg.counts().products, argmax.comparison().products() + 3);
        let published: BTreeSet<i64> = argmax.rotations().iter().map(|k| k.rem_euclid(512)).collect();
        assert!(alg.rotation_levels().into_keys().eq(published));
    }

    #[test]
    fn bad_layouts_are_refused() {
        let c = || Comparison::minimax(6).unwrap();
        assert!(Argmax::new(3, 16, c()).is_err());
        assert!(Argmax::new(1, 16, c()).is_err());
        assert!(Argmax::new(8, 4, c()).is_err());
        assert!(Argmax::of_users(8, 3, 8, c()).is_err());
        assert!(Argmax::of_users(8, usize::MAX / 2 + 1, 8, c()).is_err());
        let argmax = Argmax::new(4, 16, c()).unwrap();
        let wide = Clear::new(128).unwrap();
        let v = wide.fresh_real(&[0.0], 30).unwrap();
        assert!(matches!(argmax.products(&wide, &v), Err(Error::SlotCount { .. })));
        let alg = Clear::new(64).unwrap();
        let v = alg.fresh_real(&[0.0], argmax.depth() - 1).unwrap();
        assert!(matches!(argmax.products(&alg, &v), Err(Error::OutOfLevels { .. })));
    }

    /// The entries of every user of a full vector are those of the user alone, bit for bit, whatever the
    /// others hold, and all other slots are 0. The least block, of K slots, has room for the pairs.
    #[test]
    fn users_side_by_side_get_what_each_gets_alone() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(2);
        for (count, users, block) in [(2, 512, 2), (4, 16, 4), (8, 8, 8), (4, 2, 16), (16, 2, 16)] {
            let comparison = || Comparison::minimax(6).unwrap();
            let packed = Argmax::of_users(count, users, block, comparison()).unwrap();
            let alone = Argmax::new(count, block, comparison()).unwrap();
            let (all, one) = (Clear::new(packed.slots()).unwrap(), Clear::new(alone.slots()).unwrap());
            let scores: Vec<Vec<f64>> =
                (0..users).map(|_| (0..count).map(|_| rng.random::<f64>() * 0.98 - 0.5).collect()).collect();
            let mut slots = vec![0.0; packed.slots()];
            for (b, scores) in scores.iter().enumerate() {
                let at = |a: usize| (a * users + b) * block + count - 1;
                scores.iter().enumerate().for_each(|(a, s)| slots[at(a)] = *s);
            }
            let v = all.fresh_real(&slots, packed.depth()).unwrap();
            let products = packed.products(&all, &v).unwrap();
            let whole = packed.one_hot(&all, &products).unwrap().real();
            for (b, scores) in scores.iter().enumerate() {
                let v = one.fresh_real(&place(scores, block), alone.depth()).unwrap();
                let want = alone.one_hot(&one, &alone.products(&one, &v).unwrap()).unwrap().real();
                for (a, want) in want.iter().step_by(block).enumerate() {
                    assert_eq!(whole[(a * users + b) * block], *want);
                }
            }
            assert!((0..whole.len()).filter(|j| !j.is_multiple_of(block)).all(|j| whole[j] == 0.0));
        }
    }
}
