//! Clear bandits whose users answer an intermediary, a shuffler or a secure sum: the batch that is awaited, and
//! its sums. No single answer arrives here.

use crate::collect::Received;
use crate::error::Error;
use crate::policy::Learner;
use rand::Rng;
use serde_json::Value;
use wire::{Awaited, SummedBatch};

/// The batch that the policy waits for; `None` where users answer the server, and when all batches are over.
pub(super) fn awaited(learner: &Learner) -> Result<Option<Awaited>, Error> {
    match learner {
        Learner::Sums(policy) => Ok(policy.awaited()),
        Learner::ShuffledGlm(policy) => policy.awaited(),
        _ => Ok(None),
    }
}

/// Estimate and metric of every batch so far, where devices choose their arms from them.
pub(super) fn published(learner: &Learner) -> Result<Vec<Value>, Error> {
    let Learner::ShuffledGlm(policy) = learner else { return Ok(Vec::new()) };
    let values = policy.published().iter().map(serde_json::to_value).collect::<Result<_, _>>();
    values.map_err(|_| Error::Broken("an estimate that cannot be serialised"))
}

/// Learns from a batch. After an error the policy's state is of no use.
///
/// # Errors
/// [`Error::BatchOver`] for a batch that is not awaited; those of the policy.
pub(super) fn receive(
    learner: &mut Learner,
    batch: &SummedBatch,
    rng: &mut impl Rng,
) -> Result<Received, Error> {
    let awaited = awaited(learner)?.filter(|a| a.exchange == batch.exchange);
    let awaited = awaited.ok_or(Error::BatchOver { exchange: batch.exchange })?;
    if batch.users != awaited.users {
        return Err(bandit::Error::Shares { got: batch.users, users: awaited.users }.into());
    }
    match learner {
        Learner::Sums(policy) => policy.receive(batch, rng),
        Learner::ShuffledGlm(policy) => policy.receive(batch),
        _ => Err(Error::Broken("a batch for a policy that takes none")),
    }
}
