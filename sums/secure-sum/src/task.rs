//! The task that a bandit of the service poses, as its users and their intermediary see it.

use crate::shuffler::{Shape, TaskDigest};
use crate::{Batch, Error, Party, Sum};
use bandit::distributed::{EliminationParameters, Mechanism};
use glm::shuffle::BatchDevices;
use privacy::task::{Ask, DeviceBounds, Task};
use serde_json::{Map, Value};
use wire::{MAX_CLEAR_BYTES, MAX_JSON_BYTES, PolicyView, ShuffledBatch};

/// The task of a bandit, with the public parameters that it must follow from.
#[derive(Debug, Clone, PartialEq)]
pub struct BanditTask {
    pub(crate) task: Task,
    pub(crate) parameters: Map<String, Value>,
    pub(crate) published: Vec<Value>,
    pub(crate) users: u32,
}

impl BanditTask {
    /// The task of `bandit` at the service `server`.
    ///
    /// # Errors
    /// As [`now`](Self::now); [`Error::Finished`] if the bandit has finished.
    pub fn ask(server: &Party, bandit: &str) -> Result<Self, Error> {
        Self::now(server, bandit)?.ok_or(Error::Finished)
    }

    /// The task of `bandit` at the service `server`; `None` if it has finished.
    ///
    /// # Errors
    /// As [`Party::get`]; [`Error::Malformed`] if the bandit is encrypted.
    pub fn now(server: &Party, bandit: &str) -> Result<Option<Self>, Error> {
        let view = server.get(&format!("bandits/{bandit}"), MAX_CLEAR_BYTES)?;
        let Ok(view) = serde_json::from_slice::<PolicyView>(&view) else {
            return Err(Error::Malformed { what: "the bandit has no clear policy" });
        };
        let Some(task) = view.awaited else { return Ok(None) };
        let Ok(users) = u32::try_from(task.users) else {
            return Err(Error::Malformed { what: "the task has 2^32 users or more" });
        };
        let (parameters, published) = (view.created.parameters, view.published);
        Ok(Some(Self { task, parameters, published, users }))
    }

    /// The task.
    pub const fn task(&self) -> &Task {
        &self.task
    }

    /// The number of the exchange.
    pub const fn exchange(&self) -> u64 {
        self.task.exchange
    }

    /// The exact number of users of the batch.
    pub const fn users(&self) -> u32 {
        self.users
    }

    /// The arm that users play. `None` if their devices choose.
    pub const fn arm(&self) -> Option<usize> {
        match self.task.ask {
            Ask::Share { arm, .. } | Ask::Count { arm, .. } => Some(arm),
            Ask::Metric { .. } | Ask::Gradient { .. } => None,
        }
    }

    /// Shuffler side: the shape of users' messages. `None` if users send no bits.
    ///
    /// # Errors
    /// As [`digest`](Self::digest).
    pub fn shape(&self) -> Result<Option<Shape>, Error> {
        let Some((labels, bits)) = self.task.ask.labels() else { return Ok(None) };
        let (exchange, users, digest) = (self.exchange(), self.users.into(), self.digest()?);
        Ok(Some(Shape { exchange, users, labels, bits, digest }))
    }

    /// The first 16 bytes of the BLAKE3 digest of the JSON of `[parameters, task]`, without spaces and in the
    /// order of the server. A shuffler compares it to check that all users of an exchange received the same
    /// task, because the privacy of each depends on the noise of the others.
    ///
    /// # Errors
    /// None for a task that was read from JSON.
    pub fn digest(&self) -> Result<TaskDigest, Error> {
        let unwritable = Error::Malformed { what: "the task cannot be written as JSON" };
        let Ok(json) = serde_json::to_vec(&(&self.parameters, &self.task)) else { return Err(unwritable) };
        blake3::hash(&json).as_bytes().first_chunk().copied().ok_or(unwritable)
    }

    fn mechanism(&self, bounds: &DeviceBounds) -> Result<Mechanism, Error> {
        let Ok(parameters) =
            serde_json::from_value::<EliminationParameters>(Value::Object(self.parameters.clone()))
        else {
            return Err(Error::Malformed { what: "users of this bandit do not answer an intermediary" });
        };
        Ok(parameters.answer(&self.task, bounds)?)
    }

    /// User side of an elimination: the noise that each user adds before sharing. Exactly
    /// [`users`](Self::users) users are summed, however many are asked.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the bandit waits for no shares, or has another policy; as
    /// [`EliminationParameters::answer`].
    pub fn batch(&self, bounds: &DeviceBounds) -> Result<Batch, Error> {
        let Ask::Share { .. } = self.task.ask else {
            return Err(Error::Malformed {
                what: "the bandit waits for bits behind a shuffler and not for shares: use --shuffler",
            });
        };
        Batch::of(self.mechanism(bounds)?, self.users)
    }

    /// User side of an elimination behind a shuffler: the mechanism that turns a reward into the
    /// [number of ones](Mechanism::ones) to send.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the bandit waits for no bits, or has another policy; as
    /// [`EliminationParameters::answer`].
    pub fn count(&self, bounds: &DeviceBounds) -> Result<Mechanism, Error> {
        let Ask::Count { .. } = self.task.ask else {
            return Err(Error::Malformed {
                what: "the bandit waits for shares and not for bits behind a shuffler: use --aggregators or --adder",
            });
        };
        self.mechanism(bounds)
    }

    /// User side where devices choose their arms: the devices of the current batch.
    ///
    /// # Errors
    /// [`Error::Malformed`] for another policy or estimates that cannot be read; as [`BatchDevices::new`].
    pub fn devices(&self, bounds: &DeviceBounds) -> Result<BatchDevices, Error> {
        let Ok(parameters) = serde_json::from_value(Value::Object(self.parameters.clone())) else {
            return Err(Error::Malformed { what: "devices of this bandit do not choose their arms" });
        };
        let published = self.published.iter().cloned().map(serde_json::from_value).collect();
        let Ok(published) = published else {
            return Err(Error::Malformed { what: "the published estimates cannot be read" });
        };
        Ok(BatchDevices::new(&parameters, published, &self.task, bounds)?)
    }

    /// Collector side: delivers `sum` to `bandit` at `server`.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the bandit waits for no sum, or for a sum of another number of users; as
    /// [`Party::post`].
    pub fn deliver(&self, server: &Party, bandit: &str, sum: &Sum) -> Result<(), Error> {
        let Ask::Share { modulus, .. } = self.task.ask else {
            return Err(Error::Malformed {
                what: "the bandit waits for bits behind a shuffler and not for shares: use --shuffler",
            });
        };
        if sum.users != u64::from(self.users) {
            let what = "the sum is of another number of users than the bandit waits for: ask exactly as many, under a new number";
            return Err(Error::Malformed { what });
        }
        let residue = sum.total.rem_euclid(i128::from(modulus)) as u64; // of a modulus below 2^64
        let (exchange, labels) = (self.exchange(), vec![vec![residue]]);
        deliver(server, bandit, &ShuffledBatch { exchange, users: sum.users, labels })
    }
}

/// Delivers a batch to `bandit` at `server`. A batch that is delivered twice is the same and counts once.
pub(crate) fn deliver(server: &Party, bandit: &str, batch: &ShuffledBatch) -> Result<(), Error> {
    let body = serde_json::to_vec(batch)
        .map_err(|_| Error::Malformed { what: "the batch cannot be written as JSON" })?;
    server.post_json(&format!("bandits/{bandit}/shuffled"), &body, MAX_JSON_BYTES).map(drop)
}
