//! A feedback, which is acknowledged when the log has it on disk.

use super::EncryptedServed;
use super::pool::blocking;
use super::state::Pending;
use crate::bandits::{BodyLimit, Reply};
use crate::error::Error;
use crate::metrics::Step;
use helba::Applied;
use host::lock;
use protocol::DecisionId;
use service::{Body, Content};
use std::sync::Arc;
use std::time::Instant;
use wire::Enrolment;

impl EncryptedServed {
    /// The longest body of a feedback.
    pub(in crate::bandits) fn feedback_body(&self) -> BodyLimit {
        BodyLimit { bytes: self.limits.feedback(), content: Content::Binary }
    }

    /// Counts a feedback, which is durable when this returns. It waits for the disk with others, and holds no
    /// thread meanwhile. Statistics of a `user` with a key of its own are under its pads.
    pub(crate) async fn feedback(
        self: Arc<Self>,
        decision: DecisionId,
        body: Body,
        user: Option<Arc<Enrolment>>,
    ) -> Result<Reply, Error> {
        let stages = &self.shared.stages;
        let began = Instant::now();
        let _waiting = stages.waiting.clone().try_acquire_owned().map_err(|_| Error::Overloaded)?;
        let body = match user {
            // Whatever was counted before is not read again.
            Some(user) if lock(&self.live).bandit.waiting(decision)?.is_ok() => {
                self.feedback_of_user(user, &body).await?.into()
            }
            _ => body,
        };
        let served = self.clone();
        let counted = stages.workers.run(move || {
            let mut live = lock(&served.live);
            if live.deleted {
                return Err(served.deleted());
            }
            match live.bandit.waiting(decision)? {
                Ok(round) => {
                    live.bandit.check_learns()?;
                    if live.bandit.sum_is_full() {
                        return Err(Error::SumIsFull);
                    }
                    let event = served.feedback_event(round, &body)?;
                    let Pending { applied, ticket } = live.change(&served.shared.engine, &event)?;
                    Ok((applied, ticket))
                }
                // It may have been counted a moment ago, and be on its way to the disk.
                Err(receipt) => Ok((Applied::Counted(receipt), live.flush()?)),
            }
        });
        let (applied, ticket) = counted.await?;
        ticket.await?;
        let Applied::Counted(receipt) = applied else {
            return Err(Error::Broken("a feedback that was not counted"));
        };
        stages.metrics.took(Step::Feedback, began.elapsed());
        let reply = Reply::json(&receipt)?;
        let asks = lock(&self.live).bandit.task().is_some();
        if asks {
            blocking(move || {
                self.offer_task();
                Ok(())
            })
            .await?;
        }
        Ok(reply)
    }
}
