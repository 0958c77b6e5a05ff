//! Which of the last rounds have had their feedback.

use serde::{Deserialize, Serialize};

/// The number of rounds that feedback is accepted for, a multiple of 64.
pub(super) const MOST_ROUNDS: u64 = 1 << 17;

/// One bit for each of the last rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Rounds {
    /// Bit r % [`MOST_ROUNDS`] belongs to round r.
    words: Vec<u64>,
    /// The newest round that has a bit.
    newest: u64,
}

/// Whether a round waits for its feedback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Round {
    Waits,
    Answered,
    /// It is older than what is remembered.
    Forgotten,
}

impl Rounds {
    pub(super) fn new() -> Self {
        Rounds { words: vec![0; (MOST_ROUNDS / 64) as usize], newest: 0 }
    }

    fn place(round: u64) -> (usize, u64) {
        ((round % MOST_ROUNDS / 64) as usize, 1 << (round % 64))
    }

    pub(super) fn get(&self, round: u64) -> Round {
        let (word, bit) = Self::place(round);
        if round + MOST_ROUNDS <= self.newest {
            Round::Forgotten
        } else if round <= self.newest && self.words[word] & bit != 0 {
            Round::Answered
        } else {
            Round::Waits
        }
    }

    /// Marks a round that waits.
    pub(super) fn answer(&mut self, round: u64) {
        // Rounds that are forgotten by now have left their bits to the rounds in between.
        let first = (self.newest + 1).max((round + 1).saturating_sub(MOST_ROUNDS));
        for between in first..=round {
            let (word, bit) = Self::place(between);
            self.words[word] &= !bit;
        }
        self.newest = self.newest.max(round);
        let (word, bit) = Self::place(round);
        self.words[word] |= bit;
    }

    /// The newest of the rounds that are forgotten, or 0.
    pub(super) fn forgotten(&self) -> u64 {
        self.newest.saturating_sub(MOST_ROUNDS)
    }

    /// How many of the last [`MOST_ROUNDS`] rounds have had their feedback.
    pub(super) fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Whether the bits can have been written by this type.
    pub(super) fn is_valid(&self) -> bool {
        self.words.len() as u64 == MOST_ROUNDS / 64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Whatever the order of the answers, a round is answered once, and forgotten when it is too old.
        #[test]
        fn rounds_are_those_of_a_set(steps in prop::collection::vec((0u64..4, 0u64..MOST_ROUNDS), 1..60)) {
            let (mut rounds, mut set, mut newest) = (Rounds::new(), BTreeSet::new(), 0u64);
            for (jump, back) in steps {
                let round = (newest + jump * MOST_ROUNDS / 2 + 1).saturating_sub(back).max(1);
                let want = match round {
                    round if round + MOST_ROUNDS <= newest => Round::Forgotten,
                    round if set.contains(&round) => Round::Answered,
                    _ => Round::Waits,
                };
                prop_assert_eq!(rounds.get(round), want);
                prop_assert_eq!(rounds.count(), set.range(rounds.forgotten() + 1..).count() as u64);
                if want == Round::Waits {
                    rounds.answer(round);
                    set.insert(round);
                    newest = newest.max(round);
                    prop_assert_eq!(rounds.get(round), Round::Answered);
                }
            }
        }
    }
}
