//! The removal of a feedback: the frame that the log has is subtracted.

use super::pool::blocking;
use super::state::{self, Pending};
use super::{EncryptedServed, Event};
use crate::bandits::Reply;
use crate::error::Error;
use helba::Applied;
use host::lock;
use protocol::{DecisionId, Erasure};
use std::sync::Arc;

/// Erases a feedback, also from those of these bandits that are copies.
pub(in crate::bandits) type EraseAmong<'a> = dyn Fn(&[Arc<EncryptedServed>]) -> Result<Erasure, Error> + 'a;

impl EncryptedServed {
    /// Erases the feedback on a decision, also from the copies that have it, which is durable when this
    /// returns. A repeated request changes nothing.
    pub(crate) async fn erase(
        self: Arc<Self>,
        decision: DecisionId,
        with_copies: impl Fn(&EraseAmong) -> Result<Erasure, Error> + Send + 'static,
    ) -> Result<Reply, Error> {
        let _waiting =
            self.shared.stages.waiting.clone().try_acquire_owned().map_err(|_| Error::Overloaded)?;
        blocking(move || {
            let erasure = self.erase_everywhere(decision, &with_copies)?;
            self.offer_task();
            Reply::json(&erasure)
        })
        .await
    }

    fn erase_everywhere(
        &self,
        decision: DecisionId,
        with_copies: &dyn Fn(&EraseAmong) -> Result<Erasure, Error>,
    ) -> Result<Erasure, Error> {
        let round = decision.round();
        let erasable = {
            let live = lock(&self.live);
            if live.deleted {
                return Err(self.deleted());
            }
            live.bandit.erasable(decision)?
        };
        let frame = match erasable {
            Ok(_) => {
                let missing = || Error::FeedbackNotKept { id: decision.to_string() };
                Some(self.feedback_frame(round)?.ok_or_else(missing)?)
            }
            Err(_) => None,
        };
        with_copies(&|copies| {
            let mut reached = Vec::new();
            // The original last: a request that is repeated after a failure finds the feedback, and goes on.
            for copy in copies {
                let has = lock(&copy.live).bandit.has_feedback_of(&self.created.id, round);
                match (has, &frame) {
                    (None, _) => continue,
                    (Some(false), Some(frame)) => drop(copy.erase_round(round, frame.clone())?),
                    (Some(false), None) => {
                        return Err(Error::Broken("an erasure that did not reach a copy"));
                    }
                    (Some(true), _) => {}
                }
                reached.push(copy.created.id.clone());
            }
            Ok(Erasure { copies: reached, ..self.erase_now(decision, frame.clone())? })
        })
    }

    /// Erases the feedback with this frame on a decision, or returns the receipt if it was erased before.
    fn erase_now(&self, decision: DecisionId, frame: Option<Vec<u8>>) -> Result<Erasure, Error> {
        let erasable = {
            let live = lock(&self.live);
            if live.deleted {
                return Err(self.deleted());
            }
            (live.bandit.erasable(decision)?, live.flush()?)
        };
        match (erasable, frame) {
            ((Ok(round), _), Some(frame)) => self.erase_round(round, frame),
            // It may have been erased a moment ago, and be on its way to the disk.
            ((Err(receipt), stored), _) => {
                stored.wait()?;
                Ok(receipt)
            }
            ((Ok(_), _), None) => Err(Error::Broken("an erasure that was undone")),
        }
    }

    /// Subtracts the feedback of a round, durably. No other request erases meanwhile.
    fn erase_round(&self, round: u64, frame: Vec<u8>) -> Result<Erasure, Error> {
        let Pending { applied, ticket } = {
            let mut live = lock(&self.live);
            if live.deleted {
                return Err(self.deleted());
            }
            if live.bandit.sum_is_full() {
                return Err(Error::SumIsFull);
            }
            live.change(&self.shared.engine, &Event::Erased { round, frame })?
        };
        ticket.wait()?;
        match applied {
            Applied::Erased(receipt) => Ok(receipt),
            _ => Err(Error::Broken("a feedback that was not erased")),
        }
    }

    /// The frame of the feedback of a round, if the log has it.
    fn feedback_frame(&self, wanted: u64) -> Result<Option<Vec<u8>>, Error> {
        let (folder, stored) = {
            let live = lock(&self.live);
            (live.folder().to_path_buf(), live.flush()?)
        };
        // A feedback may be on its way to the disk.
        stored.wait()?;
        let (mut found, id, engine) = (None, &self.created.id, &self.shared.engine);
        state::visit_kept(&folder, id, engine, |_, record| {
            if let Ok(Event::Feedback { round, frame }) = Event::from_bytes(record)
                && round == wanted
            {
                found = Some(frame);
            }
        })?;
        Ok(found)
    }
}
