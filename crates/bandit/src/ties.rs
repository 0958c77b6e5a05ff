//! The order in which arms with equal indices are preferred.

use crate::LinearConfig;
use privacy::source::{SplitMix64, Words};

impl LinearConfig {
    /// The arm to play in `round` by the value of each: the one with the largest value, and of those within
    /// `tolerance` of it the first in the public order of the round under [`Self::tie_seed`].
    pub fn preferred(&self, values: &[f64], tolerance: f64, round: u64) -> usize {
        first_of_largest(values, tolerance, self.tie_seed, round)
    }

    /// All arms, in the order in which equal ones are preferred in `round`.
    pub fn order_of_ties(&self, round: u64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.k).collect();
        order.sort_by_key(|arm| word(self.tie_seed, round, *arm));
        order
    }
}

/// The position of the largest value, and among those within `tolerance` of it the one that comes first in
/// the public order of `round`: the order of the arms' words of SplitMix64 under `seed` and `round`. 0 if
/// there is no value.
///
/// With one order for all rounds, the first arm would be tried first by every bandit, and by every bandit
/// again after a tie.
fn first_of_largest(values: &[f64], tolerance: f64, seed: u64, round: u64) -> usize {
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let tied = values.iter().enumerate().filter(|(_, value)| **value >= largest - tolerance);
    tied.map(|(arm, _)| arm).min_by_key(|arm| word(seed, round, *arm)).unwrap_or(0)
}

/// The word of an arm in a round.
fn word(seed: u64, round: u64, arm: usize) -> u64 {
    let of_round = SplitMix64::new(seed ^ 0x7469_6573).word() ^ round;
    SplitMix64::new(SplitMix64::new(of_round).word() ^ arm as u64).word()
}

/// The difference of indices up to which they are equal in double precision: what the order of sums changes.
pub const EXACT_TIE: f64 = 1e-12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_wins_and_nan_never_does() {
        for round in 0..64 {
            assert_eq!(first_of_largest(&[0.1, 0.9, f64::NAN, 0.3], 0.0, 7, round), 1);
            assert_eq!(first_of_largest(&[0.1, 0.9, 0.89, 0.3], 0.005, 7, round), 1);
        }
        assert_eq!(first_of_largest(&[], 0.0, 7, 1), 0);
        assert_eq!(first_of_largest(&[f64::NAN], 0.0, 7, 1), 0);
    }

    /// The first of the order is the one that is played if all are equal, and of two the earlier one.
    #[test]
    fn the_order_is_that_of_ties() {
        let config = LinearConfig { k: 5, tie_seed: 3, ..LinearConfig::figure_1() };
        for round in 0..50 {
            let order = config.order_of_ties(round);
            assert_eq!(config.preferred(&[1.0; 5], 0.0, round), order[0]);
            let mut two = [0.0; 5];
            [two[order[3]], two[order[1]]] = [1.0, 1.0];
            assert_eq!(config.preferred(&two, 0.0, round), order[1]);
        }
    }

    /// Equal arms are preferred equally often over rounds and over seeds: of 12,000 draws each of four arms
    /// gets 3000, within five deviations of 47. The draws of a round do not depend on who else is tied.
    #[test]
    fn equal_arms_come_first_equally_often() {
        let count = |of: &dyn Fn(u64) -> usize| {
            let mut counts = [0u32; 4];
            (0..12_000).for_each(|i| counts[of(i)] += 1);
            counts
        };
        let even = [1.0; 4];
        for counts in
            [count(&|i| first_of_largest(&even, 0.0, 3, i)), count(&|i| first_of_largest(&even, 0.0, i, 3))]
        {
            assert!(counts.iter().all(|n| n.abs_diff(3000) < 235), "{counts:?}");
        }
        for round in 0..100 {
            let first = first_of_largest(&even, 0.0, 3, round);
            let mut without = even;
            without[(first + 1) % 4] = 0.0;
            assert_eq!(first_of_largest(&without, 0.0, 3, round), first);
        }
    }
}
