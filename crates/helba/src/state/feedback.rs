//! Feedback, which is counted once.

use super::rounds::Round;
use super::{EncryptedBandit, State};
use crate::{Engine, Error};
use ckks::Ciphertext;
use protocol::{DecisionId, LOG_STATISTICS, Receipt};
use std::sync::Arc;

/// A sum of no feedbacks.
pub(super) fn empty_sum(engine: &Engine) -> Ciphertext {
    let small = engine.params();
    Ciphertext::zero(small, small.max_level()).with_scale(f64::from(LOG_STATISTICS).exp2())
}

impl EncryptedBandit {
    /// The round of a decision of this bandit, or `None` with its receipt if its feedback was counted.
    ///
    /// # Errors
    /// [`protocol::Error::UnknownDecision`] for an id that this bandit has not given out, or that is too old.
    pub fn waiting(&self, id: DecisionId) -> Result<Result<u64, Receipt>, Error> {
        let (s, unknown) = (&self.state, || protocol::Error::UnknownDecision { id: id.to_string() });
        let round = s.round_of(id).ok_or_else(unknown)?;
        match s.answered.get(round) {
            Round::Waits => Ok(Ok(round)),
            Round::Answered => Ok(Err(s.receipt(round))),
            Round::Forgotten => Err(unknown().into()),
        }
    }

    /// Counts the feedback on the decision of `round`, and closes the batch if the schedule ends it. Returns
    /// the receipt.
    pub(super) fn count(&mut self, engine: &Engine, round: u64, frame: &[u8]) -> Result<Receipt, Error> {
        if self.state.answered.get(round) != Round::Waits {
            let id = self.state.decision_id(round).to_string();
            return Err(protocol::Error::UnknownDecision { id }.into());
        }
        let mut sum = self.read_feedback(engine, frame)?;
        let s = &mut self.state;
        s.answered.answer(round);
        s.given.answered(round);
        s.feedbacks += 1;
        if let Some(past) = &mut s.past {
            past.counted(round);
        }
        self.add_counters(engine, &sum)?;
        // The state before this event has the earlier sum too, so that adding in place would copy it.
        engine.scores_evaluator().add_assign(&mut sum, &self.state.sum)?;
        self.state.sum = Arc::new(sum);
        self.close_if_due(engine)?;
        Ok(self.state.receipt(round))
    }

    /// Reads the frame of the statistics of a feedback.
    pub(super) fn read_feedback(&self, engine: &Engine, frame: &[u8]) -> Result<Ciphertext, Error> {
        let (small, key) = (engine.params(), engine.key_id());
        let (level, scale) = (small.max_level(), f64::from(LOG_STATISTICS).exp2());
        let count = self.exchanges.layout.feedback_numbers();
        Ok(ckks::read_partial_ciphertext(small, key, level, scale, 0..count, frame)?)
    }
}

impl<C> State<C> {
    fn receipt(&self, round: u64) -> Receipt {
        let State { feedbacks, batches, .. } = *self;
        Receipt { decision: self.decision_id(round).to_string(), feedbacks, batches }
    }
}
