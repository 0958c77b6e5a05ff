//! The check of the feedbacks of a batch by the members of a committee.

use super::EncryptedBandit;
use super::batch::{Phase, unasked};
use crate::{Engine, Error};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most feedbacks that are checked at once.
const MOST_CHECKED: usize = 64;

/// Feedbacks that the members of a committee are asked to check, at most 64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The number of the task, which the event names.
    pub id: u64,
    /// The round of each feedback, and BLAKE3 of its frame.
    pub feedbacks: Vec<(u64, [u8; 32])>,
}

impl EncryptedBandit {
    /// The feedbacks that wait for the members of a committee to check them.
    pub fn check(&self) -> Option<Check> {
        let Phase::Checking { task, left, .. } = &self.state.phase else { return None };
        Some(Check { id: *task, feedbacks: left.iter().take(MOST_CHECKED).copied().collect() })
    }

    /// Whether the feedback of a round is in a sum that waits for the members of a committee to check it. It
    /// is erased after that.
    pub fn is_checked_now(&self, round: u64) -> bool {
        let left = match &self.state.phase {
            Phase::Checking { left, .. } => &left[..],
            _ => &[],
        };
        left.iter().any(|(known, _)| *known == round)
    }

    /// Subtracts what was dropped of the feedbacks that were checked, and goes on with the others.
    pub(super) fn take_check(
        &mut self,
        engine: &Engine,
        task: u64,
        dropped: &[(u64, Vec<u8>)],
    ) -> Result<(), Error> {
        let (batch, mut sum, mut left) = match std::mem::replace(&mut self.state.phase, Phase::Open) {
            Phase::Checking { task: want, batch, sum, left } if want == task => (batch, sum, left),
            _ => return Err(unasked(task)),
        };
        let mut checked: BTreeMap<u64, [u8; 32]> = left.drain(..left.len().min(MOST_CHECKED)).collect();
        for (round, frame) in dropped {
            if checked.remove(round) != Some(*blake3::hash(frame).as_bytes()) {
                return Err(Error::BadState("a dropped feedback that was not checked".into()));
            }
            let feedback = self.read_feedback(engine, frame)?;
            engine.scores_evaluator().sub_assign(Arc::make_mut(&mut sum), &feedback)?;
            self.state.dropped.insert(*round);
        }
        self.check_or_raise(engine, batch, sum, left)
    }
}
