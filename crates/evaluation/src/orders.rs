//! Orders of rounds that depend on the rounds and a seed, and not on how the file lists them.

use datasets::{DataRound, Observed};
use privacy::source::{SplitMix64, Words};
use std::collections::HashMap;

/// Numbers below 2⁻²⁰ apart are mostly one: what a sum in another order changes does not change the key. The
/// shift keeps 0, and all short fractions, away from the ends of a step.
const STEPS: f64 = 1_048_576.0;
const SHIFT: f64 = 0.367_879_441_171_442_3;

/// A key for each round: a hash of its features, rewards and probabilities, of what a rule picks in it, and
/// of how many rounds before it are equal to it. Two files with the same rounds in another order have the
/// same keys.
pub(crate) fn keys(rounds: &[DataRound], rule: Option<&[usize]>) -> Vec<u64> {
    let mut seen: HashMap<u64, u64> = HashMap::new();
    let key = |(t, round): (usize, &DataRound)| {
        let mut hash = Fnv(0xCBF2_9CE4_8422_2325);
        round.features.rows().flatten().for_each(|x| hash.number(*x));
        match &round.observed {
            Observed::Every(rewards) => rewards.iter().for_each(|reward| hash.number(*reward)),
            Observed::Played { arm, reward, propensity } => {
                hash.word(*arm as u64);
                hash.number(*reward);
                hash.number(propensity.unwrap_or(0.0));
            }
        }
        if let Some(pick) = rule.and_then(|picks| picks.get(t)) {
            hash.word(*pick as u64);
        }
        let equal = seen.entry(hash.0).or_insert(0);
        hash.word(*equal);
        *equal += 1;
        hash.0
    };
    rounds.iter().enumerate().map(key).collect()
}

/// The order of a run: rounds by the first word of SplitMix64 of their key xor the first word of SplitMix64
/// of `run` plus the sum of all keys, so that rounds which two files share stand in other orders in them.
pub(crate) fn order(keys: &[u64], run: u64) -> Vec<usize> {
    let seed = SplitMix64::new(keys.iter().fold(run, |sum, key| sum.wrapping_add(*key))).word();
    let mut places: Vec<(u64, usize)> =
        keys.iter().enumerate().map(|(i, key)| (SplitMix64::new(key ^ seed).word(), i)).collect();
    places.sort_unstable();
    places.into_iter().map(|(_, i)| i).collect()
}

/// FNV-1a over words of 64 bits.
struct Fnv(u64);

impl Fnv {
    fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01B3);
    }

    fn number(&mut self, x: f64) {
        self.word((x * STEPS + SHIFT).floor() as i64 as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bandit::Features;

    fn round(x: f64, reward: f64) -> DataRound {
        let features = Features::new(vec![x, 0.5 * x], 1).unwrap();
        DataRound { features, observed: Observed::Every(vec![reward, 1.0 - reward]), probabilities: None }
    }

    /// Whatever the order of the file, a run plays the same rounds in the same order, also where many are
    /// equal and where sums have rounded otherwise.
    #[test]
    fn orders_do_not_depend_on_the_file() {
        let rounds: Vec<DataRound> =
            (0..300).map(|i| round(f64::from(i % 7) / 10.0, f64::from(u8::from(i % 3 == 0)))).collect();
        let mut other: Vec<DataRound> = rounds.iter().rev().cloned().collect();
        other.rotate_left(17);
        other
            .iter_mut()
            .for_each(|r| *r = round(r.features.row(0).unwrap()[0] + 1e-17, r.observed.reward(0).unwrap()));
        let play = |rounds: &[DataRound], run| -> Vec<(i64, f64)> {
            let at = |i: usize| {
                (
                    (rounds[i].features.row(0).unwrap()[0] * 1e6).round() as i64,
                    rounds[i].observed.reward(0).unwrap(),
                )
            };
            order(&keys(rounds, None), run).into_iter().map(at).collect()
        };
        for run in 0..5 {
            assert_eq!(play(&rounds, run), play(&other, run));
        }
        assert_ne!(play(&rounds, 0), play(&rounds, 1));
    }

    /// Each round comes first about as often as any other: 1000 orders of 10 rounds, of which some are equal.
    /// Chi-squared of 9 degrees of freedom is above 27.9 once in a thousand times.
    #[test]
    fn orders_are_uniform() {
        let rounds: Vec<DataRound> = (0..10).map(|i| round(f64::from(i / 3), 1.0)).collect();
        let keys = keys(&rounds, None);
        for place in [0, 5] {
            let mut counts = [0.0f64; 10];
            (0..1000).for_each(|run| counts[order(&keys, run)[place]] += 1.0);
            let squared: f64 = counts.iter().map(|c| (c - 100.0).powi(2) / 100.0).sum();
            assert!(squared < 27.9, "{counts:?}");
        }
    }
}
