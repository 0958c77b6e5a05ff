//! Encrypted bandits. A decision request holds contexts in the ring of scores. It waits until a holder of the
//! key has raised the scores of all who wait with it, and its answer is the encrypted action. In the open
//! tier the scores themselves are the answer, at once. A feedback is some coefficients of a ciphertext, and
//! is acknowledged when the log has them on disk.
//!
//! `pool` is locked before `live`, and no other lock is taken while `keeping` or `senders` is
//! held. None of these is held during a long computation.

mod again;
mod audit;
mod decisions;
mod erasure;
mod feedback;
mod learning;
mod measured;
mod pace;
mod pool;
mod raises;
mod senders;
mod state;
#[cfg(test)]
mod tests;
mod trace;
mod updates;
mod workers;

use super::{Listed, Reply};
use crate::error::Error;
use crate::jobs::Updates;
use again::Keeping;
pub use audit::{Audited, Audits};
pub(crate) use decisions::Asker;
pub(super) use erasure::EraseAmong;
use helba::{Applied, EncryptedBandit, Engine, Event};
use host::{lock, os_rng};
use pace::{Arrivals, Pace};
pub(crate) use pool::Stages;
pub(super) use pool::blocking;
use pool::{Pool, Uploads};
use protocol::{BanditConfig, Exchanges, Status};
use rand::Rng;
pub(crate) use senders::Sender;
use senders::Senders;
pub(super) use state::listed;
use state::{Live, Pending, SNAPSHOT};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::{Semaphore, watch};
use trace::TraceRequests;
use wire::{BanditView, Created, Limits, ShownCounters, ShownModel};

/// The most users of a bandit that wait to be evaluated alone.
const MOST_ALONE: usize = 64;

/// The parts that all encrypted bandits of a server share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) engine: Arc<Engine>,
    /// The folder of all encrypted bandits.
    pub(super) root: PathBuf,
    pub(super) updates: Updates,
    pub(super) stages: Stages,
    /// Whether whole logs are kept, for an audit.
    pub(super) keep_log: bool,
}

/// A loaded encrypted bandit.
pub(crate) struct EncryptedServed {
    created: Created,
    limits: Limits,
    exchanges: Arc<Exchanges>,
    shared: Shared,
    live: Mutex<Live>,
    pool: Mutex<Pool>,
    uploads: Uploads,
    /// One permit, held from the seal of an evaluation to its answers, or until a closed pack waits for it:
    /// users who come meanwhile share the next one.
    turns: Arc<Semaphore>,
    /// How many closed packs wait for their turns.
    closed: watch::Sender<usize>,
    pace: Mutex<Pace>,
    arrivals: Arc<Arrivals>,
    asked: Mutex<TraceRequests>,
    /// Evaluations whose users may ask again.
    keeping: Mutex<Keeping>,
    /// One permit, held while an evaluation is repeated in parts.
    searches: Arc<Semaphore>,
    senders: Mutex<Senders>,
    /// One permit, held by the evaluation of a sender that is evaluated alone, and for a pause after it.
    alone: Arc<Semaphore>,
    /// Users of such senders who wait.
    alone_waiting: Arc<Semaphore>,
    /// Locked while a snapshot is written.
    snapshots: Mutex<()>,
}

impl EncryptedServed {
    /// Creates a bandit and stores it under `id`, after `before` has taken the answer to the creation.
    pub(super) fn create(
        id: &str,
        config: BanditConfig,
        shared: Shared,
        before: impl FnOnce(Listed) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let bandit = EncryptedBandit::create(&shared.engine, config, secret()?)?;
        Self::store(id, bandit, shared, before)
    }

    /// Creates a copy of `self` with this configuration, as [`Self::create`] does.
    pub(super) fn copied(
        &self,
        id: &str,
        config: BanditConfig,
        before: impl FnOnce(Listed) -> Result<(), Error>,
    ) -> Result<Arc<Self>, Error> {
        let (bandit, stored) = {
            let live = lock(&self.live);
            if live.deleted {
                return Err(self.deleted());
            }
            (live.bandit.clone(), live.flush())
        };
        // The copy has no feedback that its original would lose.
        stored?.wait()?;
        let shared = self.shared.clone();
        let copy = bandit.copied(&shared.engine, self.created.id.clone(), config, secret()?)?;
        Self::store(id, copy, shared, before).map(Arc::new)
    }

    /// The configuration.
    pub(crate) fn config(&self) -> &BanditConfig {
        &self.created.config
    }

    /// Stores a new bandit under `id`, after `before` has taken the answer to its creation.
    fn store(
        id: &str,
        bandit: EncryptedBandit,
        shared: Shared,
        before: impl FnOnce(Listed) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        before(Listed::Encrypted(Box::new(created(id, &bandit, &shared.engine))))?;
        let live = Live::create(&shared.root, id, &shared.engine, bandit, shared.keep_log)?;
        Self::new(id, live, shared)
    }

    /// Loads a stored bandit.
    pub(super) fn load(id: &str, shared: Shared, restored: bool) -> Result<Self, Error> {
        let mut live = Live::load(&shared.root, id, &shared.engine, shared.keep_log)?;
        if restored {
            live.skip_rounds(&shared.engine)?;
        }
        Self::new(id, live, shared)
    }

    fn new(id: &str, live: Live, shared: Shared) -> Result<Self, Error> {
        let engine = &shared.engine;
        let (rings, small) = (engine.deep().rings(), engine.params());
        let (config, plan) = (live.bandit.config().clone(), live.bandit.plan().clone());
        let exchanges = live.bandit.exchanges().clone();
        let answers = engine.answer_params();
        let limits = Limits::new(rings, small, answers, &config, &plan, &exchanges.layout)?;
        let created = created(id, &live.bandit, engine);
        let (live, pool, snapshots) = (Mutex::new(live), Mutex::default(), Mutex::new(()));
        let (pace, turns) = (Mutex::new(Pace::new(Instant::now())), Arc::new(Semaphore::new(1)));
        let [searches, alone] = [(); 2].map(|()| Arc::new(Semaphore::new(1)));
        Ok(EncryptedServed {
            created,
            limits,
            exchanges,
            shared,
            live,
            pool,
            uploads: Uploads::default(),
            turns,
            closed: watch::Sender::new(0),
            pace,
            arrivals: Arc::default(),
            asked: Mutex::default(),
            keeping: Mutex::default(),
            searches,
            senders: Mutex::default(),
            alone,
            alone_waiting: Arc::new(Semaphore::new(MOST_ALONE)),
            snapshots,
        })
    }

    fn deleted(&self) -> Error {
        Error::UnknownBandit { id: self.created.id.clone() }
    }

    /// The answer to its creation request.
    pub(super) fn created(&self) -> Listed {
        Listed::Encrypted(Box::new(self.created.clone()))
    }

    /// Its public state, when all that it shows is on disk.
    pub(super) fn view(&self) -> Result<BanditView, Error> {
        let live = lock(&self.live);
        let (status, stored) = (live.status(), live.flush());
        drop(live);
        stored?.wait()?;
        Ok(BanditView { created: self.created.clone(), status })
    }

    /// The encrypted counters, when all that they show is on disk.
    pub(crate) async fn counters(self: Arc<Self>) -> Result<Reply, Error> {
        blocking(move || self.show_counters()).await
    }

    fn show_counters(&self) -> Result<Reply, Error> {
        let (shown, stored) = {
            let live = lock(&self.live);
            if live.deleted {
                return Err(self.deleted());
            }
            let shown = live.bandit.counters().map(|(sum, feedbacks)| (sum.clone(), feedbacks));
            (shown, live.flush())
        };
        let (sum, feedbacks) = shown.ok_or_else(|| Error::NoCounters { id: self.created.id.clone() })?;
        stored?.wait()?;
        let (engine, count) = (&self.shared.engine, self.exchanges.layout.feedback_numbers());
        let sum = ckks::write_truncated_ciphertext(engine.params(), engine.key_id(), &sum, count);
        Ok(Reply::Binary(ShownCounters { feedbacks, sum }.to_bytes()))
    }

    /// The encrypted model that it decides with, when all that it follows from is on disk.
    pub(crate) fn show_model(&self) -> Result<Reply, Error> {
        let (model, feedbacks, stored) = {
            let live = lock(&self.live);
            if live.deleted {
                return Err(self.deleted());
            }
            (live.bandit.scores_model().clone(), live.bandit.model_feedbacks(), live.flush())
        };
        stored?.wait()?;
        let parts = model.undivided(&self.shared.engine, &self.exchanges.layout);
        let parts = parts.into_iter().map(|part| self.small_frame(part)).collect();
        Ok(Reply::Binary(ShownModel { feedbacks, parts }.to_bytes()))
    }

    /// Freezes or thaws the bandit, durably, and returns its counters. A bandit that is so already stays so.
    ///
    /// Must be called within a tokio runtime.
    pub(crate) fn freeze(self: &Arc<Self>, frozen: bool) -> Result<Status, Error> {
        let (status, stored) = {
            // A task that somebody had before is offered at once after a thaw.
            let mut pool = lock(&self.pool);
            let mut live = lock(&self.live);
            if live.deleted {
                return Err(self.deleted());
            }
            let stored = match live.status().frozen == frozen {
                true => live.flush()?,
                false => {
                    pool.forget_asked();
                    live.change(&self.shared.engine, &Event::Frozen(frozen))?.ticket
                }
            };
            (live.status(), stored)
        };
        stored.wait()?;
        self.update_if_due();
        self.offer_task();
        tracing::info!(bandit = self.created.id, frozen, "frozen or thawed");
        Ok(status)
    }

    /// Deletes it from the disk, and ends what waits.
    pub(super) fn delete(&self) -> Result<(), Error> {
        let alone = lock(&self.snapshots);
        let mut live = lock(&self.live);
        if live.deleted {
            return Err(self.deleted());
        }
        live.delete()?;
        drop((live, alone));
        self.end_all();
        Ok(())
    }

    /// Applies an event, and returns when it is on disk.
    fn change(&self, event: &Event) -> Result<Applied, Error> {
        let engine = &self.shared.engine;
        self.change_by(|live| self.shared.stages.beside(|| live.change(engine, event)))
    }

    /// Takes the answer to a step of an update by products, and returns when that is on disk. The step is
    /// computed without a lock, so that decisions and feedback go on.
    fn take_step(&self, task: u64, frames: Vec<Vec<u8>>) -> Result<Applied, Error> {
        let engine = &self.shared.engine;
        let bandit = lock(&self.live).bandit.clone();
        let began = Instant::now();
        let step = self.shared.stages.beside(|| bandit.step(engine, task, frames))?;
        let took = began.elapsed();
        let applied = self.change_by(|live| live.take_step(engine, step))?;
        match applied {
            Applied::Installed => {
                let took = self.updated(took);
                self.shared.stages.metrics.took(crate::metrics::Step::Update, took);
                tracing::info!(bandit = self.created.id, seconds = took.as_secs_f64(), "updated");
            }
            _ => lock(&self.pace).step(took),
        }
        Ok(applied)
    }

    /// Returns when a change is on disk.
    fn change_by(&self, change: impl FnOnce(&mut Live) -> Result<Pending, Error>) -> Result<Applied, Error> {
        let Pending { applied, ticket } = {
            let mut live = lock(&self.live);
            if live.deleted {
                return Err(self.deleted());
            }
            change(&mut live)?
        };
        ticket.wait()?;
        Ok(applied)
    }

    /// Writes a snapshot. If that fails, the log has everything.
    fn save(&self) {
        let _alone = lock(&self.snapshots);
        let (snapshot, written) = {
            let live = lock(&self.live);
            if live.deleted {
                return;
            }
            (live.snapshot(), live.flush())
        };
        let save = || {
            // A snapshot that is ahead of its log would be refused at the next start.
            written?.wait()?;
            let head = snapshot.write(&self.shared.engine, SNAPSHOT)?;
            lock(&self.live).trim(&head)
        };
        let saved = save();
        if let Err(error) = saved {
            tracing::error!(bandit = self.created.id, %error, "no snapshot was written; the log has everything");
        }
    }
}

/// A fresh secret of a bandit.
fn secret() -> Result<[u8; 32], Error> {
    let mut secret = [0; 32];
    os_rng()?.fill_bytes(&mut secret);
    Ok(secret)
}

/// The answer to the creation of `bandit` under `id`.
fn created(id: &str, bandit: &EncryptedBandit, engine: &Engine) -> Created {
    let (config, plan, deep) = (bandit.config().clone(), bandit.plan().clone(), engine.deep());
    let [deep, small] = [(deep.params(), deep.key_id()), (engine.params(), engine.key_id())];
    let origin = bandit.origin().map(str::to_string);
    Created { origin, ..Created::new(id.to_string(), config, plan, deep, small) }
}

/// The encrypted bandits in the folder of `shared`.
pub(super) fn load(shared: &Shared, restored: bool) -> Result<Vec<(String, Arc<EncryptedServed>)>, Error> {
    let ids = state::stored(&shared.root)?;
    let load = |id: String| Ok((id.clone(), Arc::new(EncryptedServed::load(&id, shared.clone(), restored)?)));
    ids.into_iter().map(load).collect()
}

/// Audits the encrypted bandits in `root`, or the one with the id `only`.
pub(super) fn audits(root: &std::path::Path, engine: &Engine, only: Option<&str>) -> Result<Audits, Error> {
    let mut ids = listed(root)?;
    if let Some(only) = only {
        ids.retain(|id| id == only);
        if ids.is_empty() {
            return Err(Error::UnknownBandit { id: only.to_string() });
        }
    }
    Ok(ids.into_iter().map(|id| (id.clone(), audit::audit(root, &id, engine))).collect())
}

/// The ids of the encrypted bandits in `root`, whose keys are missing.
pub(super) fn without_keys(root: &std::path::Path) -> Result<Vec<String>, Error> {
    state::stored(root)
}
