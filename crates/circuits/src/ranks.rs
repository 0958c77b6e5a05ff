//! The largest of K scores by one comparison of all pairs, in two steps without rotations. Between them
//! somebody else must add up the indicators of each score.
//!
//! With w the number of scores that a score beats, t = w − (K − 1) is 0 for the largest one and −1 or less
//! for all others. T_n(x), with x = (2t + K)/(K − 2) in [−1, 1] for t ≤ −1, is then small but for t = 0, and
//! is computed by doublings T_2m = 2·T_m² − 1 of T_m/c_m with c_2m = c_m², which are ½ to 1 for t = 0.
//!
//! The sum of K − 1 indicators has all their errors, and T_n makes them n·tanh(n·θ)/sinh(θ)·2/(K − 2) ≈ 4 to
//! 6 times as large, θ = acosh(K/(K − 2)). So a third stage of the comparison brings indicators nearer to 0
//! and 1. With two stages, an entry of 64 equal scores is 0.05.

use crate::error::{has_levels, in_range};
use crate::maximum::RESOLUTION;
use crate::{Comparison, Error, SlotAlgebra};

/// What is added to the differences of pairs, so that equal scores all win.
pub const SHIFT: f64 = RESOLUTION;

/// The circuits of a search for the largest of K scores, of which no two are more than 1 − [`SHIFT`] apart.
#[derive(Debug, Clone)]
pub struct Ranks {
    comparison: Comparison,
    /// The first factor and constant.
    first: [f64; 2],
    /// What is subtracted in each doubling.
    less: Vec<f64>,
}

impl Ranks {
    /// The circuits for `count` scores with n = 2^`doublings`.
    ///
    /// # Errors
    /// [`Error::Range`] for fewer than three scores, of which the indicators of pairs are the entries.
    pub fn new(count: usize, doublings: u32) -> Result<Self, Error> {
        in_range("number of scores", count as f64, 3.0, 1e6)?;
        let comparison = Comparison::composite(RESOLUTION, &[15, 15, 3])?;
        let (padded, k) = (count.next_power_of_two() as f64, count as f64);
        let at_zero = (0..doublings).fold(k / (k - 2.0), |t, _| 2.0 * t * t - 1.0);
        let c = at_zero.powf(f64::from(doublings).exp2().recip());
        let first = [2.0 * padded / ((k - 2.0) * c), -1.0 / c];
        let less = (1..=doublings).map(|m| c.powf(f64::from(m).exp2()).recip()).collect();
        Ok(Ranks { comparison, first, less })
    }

    /// The comparison of [`Self::indicators`].
    pub fn comparison(&self) -> &Comparison {
        &self.comparison
    }

    /// Levels of [`Self::entries`].
    pub fn depth(&self) -> usize {
        self.less.len() + 1
    }

    /// About 1 in the slot of a pair whose first score is not smaller, from the differences of all pairs, and
    /// about 0 where it is more than two resolutions smaller.
    ///
    /// # Errors
    /// As [`Comparison::indicator`].
    pub fn indicators<A: SlotAlgebra>(
        &self,
        alg: &A,
        differences: &A::Vector,
    ) -> Result<A::Vector, A::Error> {
        self.comparison.indicator(alg, &alg.add_const(differences, SHIFT.into())?)
    }

    /// About 1 in the slots of the largest scores and below 2⁻¹⁰ in those of scores that one other beats,
    /// from the sum of the indicators of each score over 2^⌈log₂ K⌉.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] if the sums do not have [`Self::depth`] levels; otherwise those of the algebra.
    pub fn entries<A: SlotAlgebra>(&self, alg: &A, won: &A::Vector) -> Result<A::Vector, A::Error> {
        has_levels("ranks", alg.level(won), self.depth())?;
        let [factor, constant] = self.first;
        let first = alg.linear_combination(&[(factor, won)], constant)?;
        self.less
            .iter()
            .try_fold(first, |t, less| alg.add_const(&alg.mul_integer(&alg.square(&t)?, 2)?, (-less).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maximum::Maximum;
    use crate::maximum::tests::{BEHIND, fresh, maxima, noisy, played};
    use protocol::staged::doublings;

    /// Two stages of the comparison, as maxima have.
    fn without_the_third(count: usize) -> Ranks {
        let comparison = Comparison::composite(RESOLUTION, &[15, 15]).unwrap();
        Ranks { comparison, ..Ranks::new(count, doublings(count)).unwrap() }
    }

    /// The sums of the indicators of scores, over 2^⌈log₂ K⌉.
    fn won(of: &Ranks, scores: &[f64], seed: u64) -> Vec<f64> {
        let k = scores.len();
        let alg = noisy(k * (k - 1), seed);
        let pairs = |a: usize| (0..k).filter(move |b| *b != a).map(move |b| (a, b));
        let differences: Vec<f64> = (0..k).flat_map(pairs).map(|(a, b)| scores[a] - scores[b]).collect();
        let level = of.comparison().depth() + 1;
        let indicators = of.indicators(&alg, &fresh(&alg, &differences, level)).unwrap();
        assert_eq!(alg.level(&indicators), 1);
        let padded = k.next_power_of_two() as f64;
        let indicators = indicators.real();
        indicators[..k * (k - 1)].chunks(k - 1).map(|of_arm| of_arm.iter().sum::<f64>() / padded).collect()
    }

    /// The entries of scores. Each step has fresh encryptions.
    fn entries(of: &Ranks, scores: &[f64], seed: u64) -> Vec<f64> {
        let (k, won) = (scores.len(), won(of, scores, seed));
        let alg = noisy(k * (k - 1), seed + 1);
        let entries = of.entries(&alg, &fresh(&alg, &won, of.depth() + 1)).unwrap();
        assert_eq!(alg.level(&entries), 1);
        entries.real()[..k].to_vec()
    }

    /// Whatever number of scores is equal and best, one of them is played, and one within a resolution where
    /// others are near. With two stages, the entries of many equal scores are lost.
    #[test]
    fn ties_are_played() {
        for (count, equals) in [
            (3, &[1, 2, 3][..]),
            (5, &[1, 4, 5]),
            (16, &[1, 2, 4, 8, 15, 16]),
            (64, &[1, 2, 32, 40, 48, 63, 64]),
            (256, &[1, 128, 255, 256]),
        ] {
            let ranks = Ranks::new(count, doublings(count)).unwrap();
            for (&equal, behind) in equals.iter().flat_map(|equal| BEHIND.map(|behind| (equal, behind))) {
                for seed in 0..3 {
                    let of = |scores: &[f64]| entries(&ranks, scores, seed);
                    let (entry, loss) = played(&of, count, equal, behind, seed);
                    let most = if behind[0] < 2.0 * RESOLUTION { RESOLUTION } else { 0.0 };
                    assert!(loss <= most, "{equal} of {count}, {behind:?}: {loss}");
                    assert!((0.6..1.1).contains(&entry), "{equal} of {count}, {behind:?}: {entry}");
                }
            }
        }
        let two = without_the_third(64);
        let (entry, _) = played(&|scores: &[f64]| entries(&two, scores, 0), 64, 64, BEHIND[0], 0);
        assert!(entry < 0.2, "{entry}");
    }

    /// The entries of scores two resolutions behind are near 0, and the winner's tells little of the
    /// others: its spread over such scores is below half of the noise of answers, 1/32. Over random scores
    /// it is 0.024 with 64 arms and 0.048 with 256.
    #[test]
    fn entries_tell_who_wins() {
        for count in [3, 4, 8, 16, 33, 64] {
            let ranks = Ranks::new(count, doublings(count)).unwrap();
            let (mut least, mut most) = (f64::MAX, f64::MIN);
            for seed in 0..20 {
                let at = |arm: usize| 0.45 - 0.9 * ((7 * arm + 13 * seed as usize) % 61) as f64 / 61.0;
                let mut scores: Vec<f64> =
                    (1..count).map(|arm| at(arm).min(0.45 - 2.0 * RESOLUTION)).collect();
                scores.push(0.45);
                let entries = entries(&ranks, &scores, seed);
                let (winner, others) = entries.split_last().unwrap();
                assert!(others.iter().all(|entry| entry.abs() < 0.01), "{count}: {others:?}");
                (least, most) = (least.min(*winner), most.max(*winner));
            }
            assert!(least > 0.9 && most < 1.02, "{count}: {least} to {most}");
            assert!(most - least < 1.0 / 64.0, "{count}: {least} to {most}");
        }
    }

    /// The entries of scores by `rounds` rounds of maxima of two and all pairs of what they leave: those
    /// within groups times those of groups.
    fn of_groups(of: &Ranks, rounds: usize, scores: &[f64], seed: u64) -> Vec<f64> {
        let (maximum, alg) = (Maximum::new().unwrap(), noisy(scores.len(), seed));
        let left = maxima(&maximum, &alg, scores, rounds);
        let (w, group) = (left.len(), |arm: usize| arm >> rounds);
        let behind: Vec<f64> = scores.iter().enumerate().map(|(arm, x)| x - left[group(arm)]).collect();
        let within = maximum.entries(&alg, &fresh(&alg, &behind, 10)).unwrap();
        let won = won(of, &left, seed + 1000);
        let won: Vec<f64> = (0..scores.len()).map(|arm| won[group(arm)]).collect();
        let entries = of.entries(&alg, &fresh(&alg, &won, of.depth() + 2)).unwrap();
        let entries = alg.mul(&within, &entries).unwrap();
        assert_eq!((w, alg.level(&entries)), (scores.len().div_ceil(1 << rounds), 1));
        entries.real()[..scores.len()].to_vec()
    }

    /// After rounds of maxima too, whatever number of scores is equal and best, one of them is played, or one
    /// that is nearer than a quarter of a resolution.
    #[test]
    fn ties_of_groups_are_played() {
        for (count, rounds, equals) in [
            (5usize, 1, &[1, 4, 5][..]),
            (32, 1, &[1, 2, 8, 16, 31, 32]),
            (64, 2, &[1, 2, 32, 40, 48, 63, 64]),
            (256, 1, &[1, 128, 255]),
            (256, 4, &[1, 2, 128, 255, 256]),
        ] {
            let w = count.div_ceil(1usize << rounds);
            let ranks = Ranks::new(w, doublings(w)).unwrap();
            for (&equal, behind) in equals.iter().flat_map(|equal| BEHIND.map(|behind| (equal, behind))) {
                for seed in 0..2 {
                    let of = |scores: &[f64]| of_groups(&ranks, rounds, scores, seed);
                    let (entry, loss) = played(&of, count, equal, behind, seed);
                    let case = format!("{equal} of {count}, {rounds} rounds, {behind:?}");
                    assert!(loss <= RESOLUTION / 4.0, "{case}: {loss}");
                    assert!((0.5..1.1).contains(&entry), "{case}: {entry}");
                }
            }
        }
    }
}
