//! Learns logged rounds in bulk, from one ciphertext that encrypts the sum of their feedbacks.
//!
//! Each logged round takes a round number, which counts as answered at once. Schedule, confidence width and
//! counters then stand where as many decisions with feedback would have put them. A batch with logged rounds
//! may be longer than the Newton steps of one update are planned for. Further updates follow, without new
//! feedback, until the inverse is within its tolerance. Decisions use the model before until then.

use super::rounds::Round;
use super::{EncryptedBandit, State};
use crate::{Engine, Error};
use protocol::Error::{LoggedCount, StillLearning};
use protocol::{LearnId, LearnReceipt};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;

/// The number of ids that are remembered.
const MOST_IDS: usize = 4096;

/// The last ids of logged rounds, with their numbers of rounds.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct LearntIds(VecDeque<(LearnId, u64)>);

impl LearntIds {
    fn rounds(&self, id: LearnId) -> Option<u64> {
        self.0.iter().find(|(known, _)| *known == id).map(|(_, rounds)| *rounds)
    }

    fn add(&mut self, id: LearnId, rounds: u64) {
        self.0.push_back((id, rounds));
        if self.0.len() > MOST_IDS {
            self.0.pop_front();
        }
    }
}

impl EncryptedBandit {
    /// The receipt of the logged rounds with this id if they were learnt. `None` if they were not, and if so
    /// many may be learnt now.
    ///
    /// # Errors
    /// [`Error::Frozen`]; [`protocol::Error::NoLoggedRounds`] under the trace condition; [`LoggedCount`];
    /// [`StillLearning`] while too many others wait for a model.
    pub fn learnt(&self, id: LearnId, rounds: u64) -> Result<Option<LearnReceipt>, Error> {
        let (s, config) = (&self.state, &self.state.config);
        if let Some(rounds) = s.learnt.rounds(id) {
            return Ok(Some(s.learnt_receipt(id, rounds)));
        }
        self.check_learns()?;
        config.check_logged()?;
        let most = config.most_logged(s.model_feedbacks);
        if !(1..=most as u64).contains(&rounds) {
            return Err(LoggedCount { got: rounds as usize, most }.into());
        }
        let (waiting, most) = (s.untested() + s.subtracted, config.most_waiting(s.model_feedbacks));
        if waiting > most.saturating_sub(rounds) {
            return Err(StillLearning { waiting, most }.into());
        }
        Ok(None)
    }

    /// Checks the frame of the sum of logged rounds, before they take rounds.
    ///
    /// # Errors
    /// [`Error::Ckks`] for a frame that is not one of this bandit.
    pub fn check_logged(&self, engine: &Engine, frame: &[u8]) -> Result<(), Error> {
        self.read_feedback(engine, frame).map(drop)
    }

    /// Counts logged rounds, which take the rounds from `first` on, and closes the batch if the schedule ends
    /// it.
    pub(super) fn learn(
        &mut self,
        engine: &Engine,
        id: LearnId,
        (first, rounds): (u64, u64),
        frame: &[u8],
    ) -> Result<LearnReceipt, Error> {
        if self.learnt(id, rounds)?.is_some() {
            return Err(Error::BadState("logged rounds that were learnt before".into()));
        }
        let own = first..first.saturating_add(rounds);
        if own.end > self.state.reserved + 1
            || own.clone().any(|round| self.state.answered.get(round) != Round::Waits)
        {
            return Err(Error::BadState("logged rounds in the place of others".into()));
        }
        let sum = self.read_feedback(engine, frame)?;
        let s = &mut self.state;
        engine.scores_evaluator().add_assign(Arc::make_mut(&mut s.sum), &sum)?;
        own.for_each(|round| s.answered.answer(round));
        s.given.up_to(first + rounds - 1);
        s.feedbacks += rounds;
        s.logged = true;
        s.learnt.add(id, rounds);
        self.add_counters(engine, &sum)?;
        self.close_if_due(engine)?;
        Ok(self.state.learnt_receipt(id, rounds))
    }
}

impl<C> State<C> {
    fn learnt_receipt(&self, id: LearnId, rounds: u64) -> LearnReceipt {
        let State { feedbacks, batches, .. } = *self;
        LearnReceipt { id: id.to_string(), rounds, feedbacks, batches, erasable: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attack_many_ids_take_bounded_memory() {
        let id = |number: usize| LearnId((number as u128).to_le_bytes());
        let mut ids = LearntIds::default();
        (0..3 * MOST_IDS).for_each(|number| ids.add(id(number), number as u64));
        // As they are stored: 16 bytes of an id, and the number of its rounds.
        let stored = postcard::to_stdvec(&ids).unwrap().len();
        assert!(stored <= 4096 * (16 + 3) + 2, "{stored}");
        let last = 3 * MOST_IDS - 1;
        assert_eq!([ids.rounds(id(last)), ids.rounds(id(0))], [Some(last as u64), None]);
    }
}
