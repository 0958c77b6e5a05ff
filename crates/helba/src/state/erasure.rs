//! The removal of a feedback that was counted.

use super::rounds::Round;
use super::{EncryptedBandit, State};
use crate::{Engine, Error};
use protocol::{DecisionId, Erasure};
use std::sync::Arc;

impl EncryptedBandit {
    /// The round of a decision of this bandit whose feedback may be erased, or the receipt if it was. Whether
    /// the feedback was counted is known where its frame is kept.
    ///
    /// # Errors
    /// [`protocol::Error::UnknownDecision`] for an id that this bandit has not given out, and for a decision
    /// without feedback; [`protocol::Error::NotErasable`].
    pub fn erasable(&self, id: DecisionId) -> Result<Result<u64, Erasure>, Error> {
        let (s, unknown) = (&self.state, || protocol::Error::UnknownDecision { id: id.to_string() });
        let round = s.round_of(id).ok_or_else(unknown)?;
        s.check_erasable()?;
        match s.answered.get(round) {
            _ if s.erased.contains(&round) => Ok(Err(s.erasure(round))),
            Round::Waits => Err(unknown().into()),
            Round::Answered | Round::Forgotten => Ok(Ok(round)),
        }
    }

    /// Subtracts a feedback that was counted from the sum of the next batch that is closed, or if old
    /// feedback counts less, from the sum that it is in. Returns the receipt.
    pub(super) fn erase(&mut self, engine: &Engine, round: u64, frame: &[u8]) -> Result<Erasure, Error> {
        self.state.check_erasable()?;
        let s = &mut self.state;
        if s.answered.get(round) == Round::Waits || !s.erased.insert(round) {
            return Err(Error::BadState("an erasure of a feedback that is not counted".into()));
        }
        let feedback = self.read_feedback(engine, frame)?;
        let s = &mut self.state;
        if let Some(sums) = &mut s.counters {
            sums.subtract(engine, &feedback)?;
        }
        let of_open = match &mut s.past {
            Some(past) => past.erase(engine, round, &feedback)?,
            None => Some(true),
        };
        if of_open == Some(true) {
            engine.scores_evaluator().sub_assign(Arc::make_mut(&mut s.sum), &feedback)?;
        }
        s.subtracted += u64::from(of_open.is_some());
        Ok(s.erasure(round))
    }
}

impl<C> State<C> {
    fn check_erasable(&self) -> Result<(), Error> {
        match self.trace {
            Some(_) => Err(protocol::Error::NotErasable.into()),
            None => Ok(()),
        }
    }

    /// The receipt of an erasure. Nobody else can compute its code.
    fn erasure(&self, round: u64) -> Erasure {
        let code = self.code(b"erased", &round.to_le_bytes());
        let code = code.iter().map(|byte| format!("{byte:02x}")).collect();
        let decision = self.decision_id(round).to_string();
        Erasure { decision, batches: self.batches, code, copies: Vec::new() }
    }
}
