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

impl EncryptedServed {
    /// Erases the feedback on a decision, which is durable when this returns. A repeated request changes
    /// nothing.
    pub(crate) async fn erase(self: Arc<Self>, decision: DecisionId) -> Result<Reply, Error> {
        let _waiting =
            self.shared.stages.waiting.clone().try_acquire_owned().map_err(|_| Error::Overloaded)?;
        blocking(move || {
            let erasure = self.erase_now(decision)?;
            self.offer_task();
            Reply::json(&erasure)
        })
        .await
    }

    fn erase_now(&self, decision: DecisionId) -> Result<Erasure, Error> {
        let round = {
            let live = lock(&self.live);
            if live.deleted {
                return Err(self.deleted());
            }
            match live.bandit.erasable(decision)? {
                Ok(round) => round,
                Err(receipt) => {
                    // It may have been erased a moment ago, and be on its way to the disk.
                    let stored = live.flush()?;
                    drop(live);
                    stored.wait()?;
                    return Ok(receipt);
                }
            }
        };
        let frame =
            self.feedback_frame(round)?.ok_or_else(|| Error::FeedbackNotKept { id: decision.to_string() })?;
        let Pending { applied, ticket } = {
            let mut live = lock(&self.live);
            if live.deleted {
                return Err(self.deleted());
            }
            // Another request may have erased it while the log was read, or its batch may be closed.
            match live.bandit.erasable(decision)? {
                Ok(_) if live.bandit.sum_is_full() => return Err(Error::SumIsFull),
                Ok(round) => live.change(&self.shared.engine, &Event::Erased { round, frame })?,
                Err(receipt) => Pending { applied: Applied::Erased(receipt), ticket: live.flush()? },
            }
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
