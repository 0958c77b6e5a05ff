//! How many rounds were given out, whatever numbers were left out.
//!
//! Rounds are reserved in advance, so that a server that starts again gives out none of those that it may
//! have given out before. What it leaves out is a gap, of which a feedback shows that a part was given out.

use super::State;
use serde::{Deserialize, Serialize};

/// The rounds that were given out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Given {
    /// The last one that is known to be given out, or left out.
    last: u64,
    /// Rounds that may have been left out, in order and without overlap.
    gaps: Vec<Gap>,
    /// The rounds of earlier gaps, for which no feedback is accepted any more.
    left_out: u64,
}

/// The rounds after one, up to another one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Gap {
    after: u64,
    to: u64,
}

impl Given {
    /// Of a bandit whose first round follows this one.
    pub(super) fn after(round: u64) -> Self {
        Given { last: round, gaps: Vec::new(), left_out: round }
    }

    /// Rounds after the last one, up to this one, were given out.
    pub(super) fn up_to(&mut self, round: u64) {
        self.last = self.last.max(round);
    }

    /// Rounds after the last one, up to this one, are left out. Gaps up to `forgotten` are closed for ever.
    pub(super) fn leave_out(&mut self, to: u64, forgotten: u64) {
        let after = self.last;
        if to > after {
            // Apart from the gap before, of which feedback in this one says nothing.
            self.gaps.push(Gap { after, to });
            self.last = to;
        }
        let old = |gap: &&Gap| gap.to <= forgotten;
        self.left_out += self.gaps.iter().filter(old).map(|gap| gap.to - gap.after).sum::<u64>();
        self.gaps.retain(|gap| gap.to > forgotten);
    }

    /// There is feedback on this round, so that it was given out, and those before it in its gap were.
    pub(super) fn answered(&mut self, round: u64) {
        self.up_to(round);
        if let Some(gap) = self.gaps.iter_mut().find(|gap| gap.after < round && round <= gap.to) {
            gap.after = round;
        }
        self.gaps.retain(|gap| gap.after < gap.to);
    }

    /// The number of rounds that were given out, if `round` was the last.
    pub(super) fn count(&self, round: u64) -> u64 {
        round.max(self.last).saturating_sub(self.left_out + self.in_gaps(0))
    }

    /// The rounds of gaps after `round`.
    fn in_gaps(&self, round: u64) -> u64 {
        self.gaps.iter().map(|gap| gap.to.saturating_sub(gap.after.max(round))).sum()
    }
}

impl<C> State<C> {
    /// The last round that is known to be given out, or left out.
    pub(super) fn last_given(&self) -> u64 {
        self.given.last
    }

    /// The rounds that wait for feedback, if `round` was the last that was given out.
    pub(super) fn waiting(&self, round: u64) -> u64 {
        // Those before its own are rounds of the bandit that it is a copy of.
        let before = self.origins.last().map_or(0, |origin| origin.rounds);
        let before = self.answered.forgotten().max(before);
        let kept = round.max(self.given.last).saturating_sub(before);
        kept.saturating_sub(self.given.in_gaps(before) + self.answered.count_after(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever is given out between restarts, no more is counted than was given out, and all of it once
        /// the last round before each restart has its feedback.
        #[test]
        fn gaps_are_not_counted(runs in prop::collection::vec((0u64..40, 0u64..40, 0u64..50), 1..12)) {
            let (mut given, mut reserved, mut out) = (Given::default(), 0, Vec::new());
            let mut last_of_runs = Vec::new();
            for (count, answered, more) in runs {
                let first = reserved + 1;
                reserved += count + more;
                let rounds: Vec<u64> = (first..first + count).collect();
                // Some of them have feedback before the server ends.
                for round in rounds.iter().take(answered as usize) {
                    given.answered(*round);
                }
                last_of_runs.extend(rounds.last());
                out.extend(rounds);
                prop_assert!(given.count(0) <= out.len() as u64);
                given.leave_out(reserved, 0);
                prop_assert!(given.count(reserved) <= out.len() as u64);
            }
            for round in last_of_runs {
                given.answered(round);
            }
            prop_assert_eq!(given.count(reserved), out.len() as u64);
            // Gaps that are too old for feedback stay left out.
            given.leave_out(reserved, reserved);
            prop_assert_eq!(given.count(reserved), out.len() as u64);
            prop_assert!(given.gaps.is_empty());
        }
    }
}
