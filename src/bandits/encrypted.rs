//! Encrypted bandits. A decision request holds encrypted contexts, and its answer the encrypted action. A
//! feedback holds encrypted statistics, and its receipt is sent when they are on disk. Batch updates run in
//! the background, and the next decision carries the masked model to a user.

use super::{BodyLimit, Keys, Listed, Reply, Served};
use crate::error::{Error, Kind};
use crate::jobs::{EVALUATIONS, Updates, Work};
use crate::store::{Saved, Store, Stored};
use ckks::Ciphertext;
use helba::{Bandit, Change, Feedback};
use host::{lock, os_rng};
use protocol::{BanditConfig, DecisionId};
use service::{Body, Content};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wire::{BanditView, Created, DecideReply, FeedbackRequest, Limits};

/// A loaded encrypted bandit.
pub(super) struct EncryptedBandit {
    created: Created,
    limits: Limits,
    shared: Shared,
    live: Mutex<Live>,
}

/// The parts that all encrypted bandits of a server share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) keys: Arc<Keys>,
    pub(super) store: Arc<Store>,
    pub(super) updates: Updates,
    /// The time for which a decision without feedback is kept.
    pub(super) hold: Duration,
}

struct Live {
    bandit: Bandit,
    saved: Saved,
    /// Whether a batch update runs or waits for its turn.
    updating: bool,
    /// Rounds of this process and the time of their decisions, as far back as decisions are kept.
    made: VecDeque<(u64, Instant)>,
    /// Whether the bandit was deleted. Requests that found it before do not restore it.
    deleted: bool,
}

impl Live {
    /// Checks that a decision may begin: there is room for one more, or the oldest has waited for `hold`.
    fn check_room(&self, hold: Duration) -> Result<(), Error> {
        // Each running evaluation adds one decision when it ends.
        let limit = Bandit::MOST_PENDING;
        if self.bandit.status().pending_decisions + EVALUATIONS <= limit {
            return Ok(());
        }
        let oldest = self.bandit.oldest_pending();
        // A decision that is not listed was made before this process began, or longer ago than `hold`.
        let made = self.made.iter().find(|(round, _)| Some(*round) == oldest);
        let left = made.and_then(|(_, made)| hold.checked_sub(made.elapsed()));
        let left = left.filter(|left| !left.is_zero());
        // Whole seconds, at least one.
        left.map_or(Ok(()), |left| Err(Error::TooManyOpen { limit, wait: left.as_secs() + 1 }))
    }

    /// Records the time of the decision of `round`.
    fn note(&mut self, round: u64, hold: Duration) {
        while self.made.front().is_some_and(|(_, made)| made.elapsed() >= hold) {
            self.made.pop_front();
        }
        self.made.push_back((round, Instant::now()));
    }
}

/// Measures seconds between laps.
struct Stopwatch(Instant);

impl Stopwatch {
    fn lap(&mut self) -> f64 {
        std::mem::replace(&mut self.0, Instant::now()).elapsed().as_secs_f64()
    }
}

impl EncryptedBandit {
    /// Creates a bandit and stores it under `id`.
    ///
    /// # Errors
    /// Those of the configuration and the disk.
    pub(super) fn create(id: String, config: BanditConfig, shared: Shared) -> Result<Self, Error> {
        let bandit = Bandit::create(&shared.keys.engine, config)?;
        let saved = shared.store.create(&id, &bandit)?;
        Self::new(id, bandit, saved, shared)
    }

    /// Loads a stored bandit.
    ///
    /// # Errors
    /// [`Error::CorruptBlob`], [`Error::CorruptState`].
    pub(super) fn load(stored: &Stored, shared: Shared) -> Result<Self, Error> {
        let (bandit, saved) = shared.store.load(&shared.keys.engine, stored)?;
        Self::new(stored.id.clone(), bandit, saved, shared)
    }

    fn new(id: String, bandit: Bandit, saved: Saved, shared: Shared) -> Result<Self, Error> {
        let engine = &shared.keys.engine;
        let created = Created {
            id,
            config: bandit.config().clone(),
            plan: bandit.plan().clone(),
            key_id: engine.key_id().to_string(),
            fingerprint: engine.params().fingerprint().to_string(),
        };
        let limits = Limits::new(engine.params(), bandit.plan())?;
        let live = Live { bandit, saved, updating: false, made: VecDeque::new(), deleted: false };
        Ok(EncryptedBandit { created, limits, shared, live: Mutex::new(live) })
    }

    /// Reads a frame on a thread of the pool, so that its parallel operations do not wait for a thread to
    /// wake.
    fn read(&self, frame: &[u8], level: usize) -> Result<Ciphertext, Error> {
        let engine = &self.shared.keys.engine;
        Ok(rayon::scope(|_| ckks::read_ciphertext(engine.params(), engine.key_id(), level, frame))?)
    }

    fn deleted(&self) -> Error {
        Error::UnknownBandit { id: self.created.id.clone() }
    }

    /// Computes a change, stores it, and then applies it. On an error nothing has changed.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Bandit) -> Result<Change<'_, T>, Error>,
    ) -> Result<T, Error> {
        let mut live = lock(&self.live);
        if live.deleted {
            return Err(self.deleted());
        }
        let Live { bandit, saved, .. } = &mut *live;
        let change = change(bandit)?;
        self.shared.store.commit(&self.created.id, &change, saved)?;
        Ok(change.apply())
    }

    /// Queues the batch update if one is due or was interrupted, and none runs or waits. While it waits, it
    /// holds neither a thread nor the ciphertexts that it needs.
    pub(super) fn update_if_due(self: Arc<Self>) {
        let mut live = lock(&self.live);
        if live.updating || live.deleted || !live.bandit.status().updating {
            return;
        }
        live.updating = true;
        drop(live);
        let running = Running(self);
        running.0.shared.updates.clone().queue(move || {
            let bandit = running.0.clone();
            let done = bandit.update();
            drop(running);
            let id = &bandit.created.id;
            match done {
                Ok(Some(seconds)) => {
                    tracing::info!(bandit = id, ?seconds, "updated");
                    // The next batch may have closed since the commit.
                    bandit.update_if_due();
                }
                Ok(None) => {}
                Err(Error::UnknownBandit { .. }) => tracing::info!(bandit = id, "deleted while it updated"),
                // The batch stays closed, so that the next feedback, or start, tries again.
                Err(error) => tracing::error!(bandit = id, %error, "update failed"),
            }
        });
    }

    /// Runs the batch update. Returns the seconds of each phase, or `None` if no update is due.
    fn update(&self) -> Result<Option<Vec<(String, f64)>>, Error> {
        #[cfg(test)]
        let _counted = tests::Counted::new();
        let inputs = {
            let live = lock(&self.live);
            if live.deleted {
                return Err(self.deleted());
            }
            let Some(inputs) = live.bandit.begin_update()? else { return Ok(None) };
            inputs
        };
        let output = self.shared.keys.engine.update(&inputs, &mut os_rng()?)?;
        let seconds = output.seconds.clone();
        self.change(|bandit| Ok(bandit.finish_update(output)))?;
        Ok(Some(seconds))
    }
}

/// Marks the update as over when it is dropped, even if the update panicked or did not begin.
struct Running(Arc<EncryptedBandit>);

impl Drop for Running {
    fn drop(&mut self) {
        lock(&self.0.live).updating = false;
    }
}

impl Served for EncryptedBandit {
    fn kind(&self) -> Kind {
        Kind::Encrypted
    }

    fn created(&self) -> Option<Listed> {
        Some(Listed::Encrypted(self.created.clone()))
    }

    fn view(&self) -> Result<Reply, Error> {
        let status = lock(&self.live).bandit.status();
        Reply::json(&BanditView { created: self.created.clone(), status })
    }

    fn decision_body(&self) -> BodyLimit {
        BodyLimit { bytes: self.limits.contexts, content: Content::Binary }
    }

    fn decision_work(&self) -> Work {
        Work::Evaluation
    }

    fn decide(self: Arc<Self>, body: Body) -> Result<Reply, Error> {
        let engine = &self.shared.keys.engine;
        let mut rng = os_rng()?;
        let mut clock = Stopwatch(Instant::now());
        let level = self.created.plan.context_level;
        let contexts = self.read(&body, level)?;
        drop(body);
        let mut seconds = vec![("parse".to_string(), clock.lap())];
        let inputs = {
            let live = lock(&self.live);
            live.check_room(self.shared.hold)?;
            live.bandit.begin_decision()
        };
        let output = rayon::scope(|_| engine.decide(inputs, &contexts, &mut rng))?;
        seconds.extend(output.seconds.iter().cloned());
        clock.lap();
        let reply = self.change(|bandit| Ok(bandit.finish_decision(engine, output, &mut rng)))?;
        lock(&self.live).note(reply.round, self.shared.hold);
        seconds.push(("store".into(), clock.lap()));
        let frame = |ct| ckks::write_ciphertext(engine.params(), engine.key_id(), ct);
        let (action, trace) = (frame(&reply.action), reply.trace.as_ref().map(frame));
        let refresh = reply.refresh.as_ref().map(|(id, ct)| (*id, frame(ct)));
        seconds.push(("write".into(), clock.lap()));
        tracing::info!(bandit = self.created.id, round = reply.round, ?seconds, "decided");
        let reply = DecideReply {
            decision: reply.id,
            round: reply.round,
            model_feedbacks: reply.model_feedbacks,
            seconds,
            action,
            trace,
            refresh,
        };
        Ok(Reply::Binary(reply.to_bytes()))
    }

    fn feedback_body(&self) -> Result<BodyLimit, Error> {
        Ok(BodyLimit { bytes: self.limits.feedback_request(), content: Content::Binary })
    }

    fn feedback(self: Arc<Self>, decision: DecisionId, body: Body) -> Result<Reply, Error> {
        let mut clock = Stopwatch(Instant::now());
        let engine = &self.shared.keys.engine;
        let message = FeedbackRequest::read(&body, &self.limits)?;
        let plan = &self.created.plan;
        let feedback = Feedback {
            statistics: self.read(&message.statistics, plan.statistics_level)?,
            trace: self.read(&message.trace, plan.trace_level)?,
            trace_answer: message.trace_answer,
            refreshed: match &message.refreshed {
                Some((id, frame)) => Some((*id, self.read(frame, plan.model_level)?)),
                None => None,
            },
        };
        drop((message, body));
        let mut seconds = vec![("parse", clock.lap())];
        let receipt = self.change(|bandit| {
            let change = rayon::scope(|_| bandit.feedback(engine, decision, feedback))?;
            seconds.push(("add", clock.lap()));
            Ok(change)
        })?;
        seconds.push(("store", clock.lap()));
        tracing::info!(bandit = self.created.id, feedbacks = receipt.feedbacks, ?seconds, "counted");
        self.update_if_due();
        Reply::json(&receipt)
    }

    fn batch_body(&self) -> Result<BodyLimit, Error> {
        Err(Error::TakesFeedback { id: self.created.id.clone() })
    }

    fn receive(self: Arc<Self>, _: Body) -> Result<Reply, Error> {
        Err(Error::TakesFeedback { id: self.created.id.clone() })
    }

    fn delete(&self) -> Result<(), Error> {
        let mut live = lock(&self.live);
        if live.deleted {
            return Err(self.deleted());
        }
        self.shared.store.delete(&self.created.id, &mut live.saved)?;
        live.deleted = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bandits::{Bandits, Room};
    use protocol::Shape;
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use wire::PublicBundle;

    /// Updates that run in this process, and the most that ever did.
    static NOW: AtomicUsize = AtomicUsize::new(0);
    static MOST: AtomicUsize = AtomicUsize::new(0);

    pub(super) struct Counted;

    impl Counted {
        pub(super) fn new() -> Self {
            MOST.fetch_max(NOW.fetch_add(1, SeqCst) + 1, SeqCst);
            Counted
        }
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            NOW.fetch_sub(1, SeqCst);
        }
    }

    fn bundle() -> PublicBundle {
        let request = keygen::Request { shape: Shape::for_problem(2, 2), toy: true, created: 0 };
        let (mut public, mut rng) = (Vec::new(), ChaCha20Rng::seed_from_u64(1));
        keygen::generate(request, &mut public, &mut Vec::new(), &mut rng, |_, _| ()).unwrap();
        PublicBundle::read(&public[..]).unwrap()
    }

    fn open(folder: &Path) -> Bandits {
        let room = Room { most: 64, clear_is_open: true, hold: HOLD };
        let stages = crate::bandits::Stages::new(&crate::Settings::default()).unwrap();
        Bandits::open(Some(bundle()), folder, room, stages, false, false).unwrap()
    }

    const HOLD: Duration = Duration::from_secs(60);

    fn new_bandit(bandits: &Bandits, config: BanditConfig) -> EncryptedBandit {
        let id = format!("{:032x}", bandits.count().0);
        EncryptedBandit::create(id, config, bandits.shared().unwrap()).unwrap()
    }

    /// A bandit whose first batch has just closed, kept and stored as if its feedback had come now.
    fn insert_due(bandits: &Bandits) -> Arc<EncryptedBandit> {
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        let mut config = BanditConfig::new(2, 2);
        config.linear.schedule = bandit::Schedule::EveryRound;
        let due = Arc::new(new_bandit(bandits, config));
        let engine = &due.shared.keys.engine;
        let zero = |level| Ciphertext::zero(engine.params(), level);
        let plan = &due.created.plan;
        let inputs = lock(&due.live).bandit.begin_decision();
        let decided = engine.decide(inputs, &zero(plan.context_level), &mut rng).unwrap();
        let decision = due.change(|bandit| Ok(bandit.finish_decision(engine, decided, &mut rng))).unwrap().id;
        let (statistics, trace) = (zero(plan.statistics_level), zero(plan.trace_level));
        let feedback = Feedback { statistics, trace, trace_answer: None, refreshed: None };
        due.change(|bandit| Ok(bandit.feedback(engine, decision, feedback)?)).unwrap();
        bandits.insert(Kind::Encrypted, |_| Ok(due.clone())).unwrap();
        due
    }

    /// When as many unanswered decisions are open as are remembered, new ones are refused, and none is
    /// replaced before its hold time is over. The state that every commit writes stays small.
    #[test]
    fn attack_floods_of_decisions_push_out_none() {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let _guard = runtime.enter();
        let bandits = open(folder.path());
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        let flooded = new_bandit(&bandits, BanditConfig::new(2, 2));
        let engine = &flooded.shared.keys.engine;
        let contexts = Ciphertext::zero(engine.params(), flooded.created.plan.context_level);
        let mut live = lock(&flooded.live);
        let output = engine.decide(live.bandit.begin_decision(), &contexts, &mut rng).unwrap();
        let (mut decided, mut last) = (0, DecisionId([0; 16]));
        let refused = loop {
            if let Err(error) = live.check_room(HOLD) {
                break error;
            }
            assert!(decided <= 1024, "never refused");
            let change = live.bandit.finish_decision(engine, output.clone(), &mut rng);
            let bytes = change.state().to_bytes(|_| Ok::<_, Error>([0; 32])).unwrap().len()
                + change.decisions().unwrap()[0].value.as_ref().unwrap().len();
            assert!(bytes < 1 << 10, "{bytes}");
            let reply = change.apply();
            live.note(reply.round, HOLD);
            (decided, last) = (decided + 1, reply.id);
        };
        assert!(matches!(refused, Error::TooManyOpen { limit: 1024, wait: 1..=60 }), "{refused}");
        assert_eq!(live.bandit.status().pending_decisions, decided);
        assert!(decided > 1000 && live.bandit.oldest_pending() == Some(1));
        assert!(live.check_room(Duration::ZERO).is_ok(), "control");
        // A feedback writes two rows, of which one is removed, whatever else waits.
        let zero = |level| Ciphertext::zero(engine.params(), level);
        let plan = &flooded.created.plan;
        let (statistics, trace) = (zero(plan.statistics_level), zero(plan.trace_level));
        let feedback = Feedback { statistics, trace, trace_answer: None, refreshed: None };
        let change = live.bandit.feedback(engine, last, feedback).unwrap();
        assert_eq!((change.decisions().unwrap().len(), change.receipts().unwrap().len()), (1, 1));
        drop(change);
        live.made.clear();
        assert!(live.check_room(HOLD).is_ok(), "made before this process began");
    }

    /// The most updates that ran at once until none was due any more.
    async fn work_off(due: &[Arc<EncryptedBandit>]) -> usize {
        MOST.store(0, SeqCst);
        due.iter().for_each(|bandit| bandit.clone().update_if_due());
        let busy = |bandit: &Arc<EncryptedBandit>| {
            let live = lock(&bandit.live);
            live.updating || live.bandit.status().updating
        };
        while due.iter().any(busy) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(due.iter().all(|bandit| lock(&bandit.live).bandit.status().refresh_due));
        MOST.load(SeqCst)
    }

    /// However many batch updates are due, one runs at a time: when their feedback comes at once, and at a
    /// start. With more permits they run side by side, which the counter shows.
    #[test]
    fn attack_updates_due_at_once_run_one_after_the_other() {
        const DUE: usize = 5;
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let bandits = open(folder.path());
            (0..DUE).for_each(|_| drop(insert_due(&bandits)));
            // None was started: they are due at the next start.
            drop(bandits);
            MOST.store(0, SeqCst);
            let bandits = open(folder.path());
            let refreshing = |bandit: &Arc<dyn Served>| match bandit.view().unwrap() {
                Reply::Json(view) => serde_json::from_slice::<BanditView>(&view).unwrap().status.refresh_due,
                Reply::Binary(_) => unreachable!(),
            };
            assert_eq!(bandits.loaded().len(), DUE);
            while !bandits.loaded().iter().all(refreshing) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            assert_eq!(MOST.load(SeqCst), 1, "at the start");
        });
        runtime.block_on(async {
            let other = tempfile::tempdir().unwrap();
            let bandits = open(other.path());
            let due: Vec<_> = (0..DUE).map(|_| insert_due(&bandits)).collect();
            assert_eq!(work_off(&due).await, 1, "while it runs");
            let other = tempfile::tempdir().unwrap();
            let bandits = open(other.path());
            bandits.updates.allow_more(DUE);
            let due: Vec<_> = (0..DUE).map(|_| insert_due(&bandits)).collect();
            assert!(work_off(&due).await > 1, "control");
        });
    }
}
