//! Logged rounds in bulk, which are acknowledged when the log has their sum on disk.

use super::EncryptedServed;
use super::pool::blocking;
use super::state::Pending;
use crate::bandits::{BodyLimit, Reply};
use crate::error::Error;
use helba::Applied;
use host::lock;
use service::{Body, Content};
use std::sync::Arc;
use wire::LearnRequest;

impl EncryptedServed {
    /// The longest body of logged rounds.
    pub(crate) fn learn_body(&self) -> BodyLimit {
        BodyLimit { bytes: self.limits.learn(), content: Content::Binary }
    }

    /// Learns logged rounds, which are durable when this returns. A repeated request changes nothing.
    pub(crate) async fn learn(self: Arc<Self>, body: Body) -> Result<Reply, Error> {
        let stages = &self.shared.stages;
        let _waiting = stages.waiting.clone().try_acquire_owned().map_err(|_| Error::Overloaded)?;
        let served = self.clone();
        let learnt = stages.workers.run(move || {
            let message = LearnRequest::read(&body, &served.limits)?;
            let mut live = lock(&served.live);
            if live.deleted {
                return Err(served.deleted());
            }
            live.learn(&served.shared.engine, message)
        });
        let Pending { applied, ticket } = match learnt.await {
            Ok(learnt) => learnt,
            Err(error) => {
                // The refusal may have ended a batch.
                let served = self.clone();
                blocking(move || {
                    served.offer_task();
                    Ok(())
                })
                .await?;
                return Err(error);
            }
        };
        ticket.await?;
        let Applied::Learnt(receipt) = applied else {
            return Err(Error::Broken("logged rounds that were not learnt"));
        };
        let reply = Reply::json(&receipt)?;
        blocking(move || {
            self.offer_task();
            Ok(())
        })
        .await?;
        Ok(reply)
    }
}
