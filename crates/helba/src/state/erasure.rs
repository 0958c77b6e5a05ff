//! The removal of a feedback that was counted.

use super::feedback::empty_sum;
use super::rounds::Round;
use super::stored::Place;
use super::{EncryptedBandit, State};
use crate::{Engine, Error};
use ckks::Ciphertext;
use protocol::{DecisionId, Erasure};
use serde::{Deserialize, Serialize};
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

    /// Subtracts a feedback that was counted: from the sum that it is in, where that is known and open, and
    /// else from the next one. Returns the receipt.
    pub(super) fn erase(&mut self, engine: &Engine, round: u64, frame: &[u8]) -> Result<Erasure, Error> {
        self.state.check_erasable()?;
        // Members would be asked about the others once more, and each answer about a feedback that is out of
        // range says something of the key.
        if self.is_checked_now(round) {
            return Err(Error::BadState("an erasure of a feedback that is being checked".into()));
        }
        let s = &mut self.state;
        if s.answered.get(round) == Round::Waits || !s.erased.insert(round) {
            return Err(Error::BadState("an erasure of a feedback that is not counted".into()));
        }
        if s.dropped.contains(&round) {
            return Ok(s.erasure(round));
        }
        let feedback = self.read_feedback(engine, frame)?;
        let s = &mut self.state;
        if let Some(sums) = &mut s.counters {
            sums.subtract(engine, &feedback)?;
        }
        engine.scores_evaluator().sub_assign(Arc::make_mut(&mut s.sum), &feedback)?;
        let hash = *blake3::hash(frame).as_bytes();
        match s.unchecked.iter().position(|known| *known == (round, hash)) {
            Some(at) => drop(s.unchecked.remove(at)),
            None if s.last.rounds.contains(&round) => s.subtracted_of_last.add(engine, round, &feedback)?,
            None => s.subtracted.add(engine, round, &feedback)?,
        }
        Ok(s.erasure(round))
    }
}

/// Erased feedbacks that a sum subtracts, and that may be in the statistics.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Subtracted<C = Arc<Ciphertext>> {
    pub(super) rounds: Vec<u64>,
    /// Their sum, under a committee, whose batches may be undone.
    pub(super) sum: Option<C>,
}

impl<C> Default for Subtracted<C> {
    fn default() -> Self {
        Subtracted { rounds: Vec::new(), sum: None }
    }
}

impl<C> Subtracted<C> {
    pub(super) fn try_map<D>(
        self,
        map: &mut impl FnMut(Place, C) -> Result<D, Error>,
    ) -> Result<Subtracted<D>, Error> {
        let sum = self.sum.map(|sum| map(Place::Statistics, sum)).transpose()?;
        Ok(Subtracted { rounds: self.rounds, sum })
    }
}

impl Subtracted {
    fn add(&mut self, engine: &Engine, round: u64, feedback: &Ciphertext) -> Result<(), Error> {
        self.rounds.push(round);
        if engine.has_committee() {
            let sum = self.sum.get_or_insert_with(|| Arc::new(empty_sum(engine)));
            engine.scores_evaluator().add_assign(Arc::make_mut(sum), feedback)?;
        }
        Ok(())
    }

    /// These and `others`.
    pub(super) fn merged(mut self, engine: &Engine, others: Subtracted) -> Result<Self, Error> {
        self.rounds.extend(others.rounds);
        match (&mut self.sum, others.sum) {
            (Some(own), Some(other)) => engine.scores_evaluator().add_assign(Arc::make_mut(own), &other)?,
            (own, other) => *own = own.take().or(other),
        }
        Ok(self)
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
        Erasure { decision: self.decision_id(round).to_string(), batches: self.batches, code }
    }
}
