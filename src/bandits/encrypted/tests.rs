//! Batch updates of many bandits, and what goes on while a step of one is computed.

use super::{EncryptedServed, SNAPSHOT, Sender, Shared};
use crate::bandits::{Bandits, Beside, Room, Stages};
use ckks::Ciphertext;
use helba::{Applied, Event};
use host::lock;
use protocol::{Answers, BanditConfig, Shape, TaskKind, Updates};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use user_client::Device;
use wire::{DecideReply, PublicBundle, RaiseTask, Raised, Raises};

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

fn keys(updates: Updates) -> (PublicBundle, Device) {
    let request = keygen::Request {
        keys: Default::default(),
        shape: Shape::for_problem(2, 2),
        security: keygen::Security::None,
        width: Default::default(),
        exchanges: Default::default(),
        updates,
        created: 0,
    };
    let (mut public, mut secret, mut rng) = (Vec::new(), Vec::new(), ChaCha20Rng::seed_from_u64(1));
    keygen::generate(request, &mut public, &mut secret, &mut rng, |_, _| ()).unwrap();
    (PublicBundle::read(&public[..]).unwrap(), Device::read(&secret[..]).unwrap())
}

fn open(folder: &Path, bundle: &PublicBundle) -> Bandits {
    let room = Room { most: 64, wait: 1, clock: crate::clock::Clock::default() };
    let stages =
        Stages::new(&crate::Settings::default(), Arc::new(crate::metrics::Metrics::new(Instant::now())))
            .unwrap();
    Bandits::open((Some(bundle.clone()), None), None, folder, room, stages, false, false).unwrap()
}

/// A bandit whose first batch has just been raised, kept and stored as if the raise had come now.
fn insert_due(bandits: &Bandits, device: &Device) -> Arc<EncryptedServed> {
    let mut config = BanditConfig { answers: Answers::Scores, open_model: true, ..BanditConfig::new(2, 2) };
    config.linear.schedule = bandit::Schedule::EveryRound;
    let id = bandits.create_encrypted(config, &Beside::default()).unwrap().id;
    let due = bandits.find(&id).unwrap().encrypted(&id).unwrap();
    let created = &due.created;
    let (engine, mut rng) = (&due.shared.engine, ChaCha20Rng::seed_from_u64(2));
    let round = due.take_rounds(1).unwrap();
    let frame = device.join(created).unwrap().feedback(0, &[0.6, 0.8], 0.5, None, &mut rng).unwrap();
    due.change(&Event::Feedback { round, frame }).unwrap();
    let task = lock(&due.live).bandit.task().unwrap().id;
    let deep = engine.deep();
    let raised = Ciphertext::zero(deep.params(), created.plan.statistics_level);
    let frame = ckks::write_ciphertext(deep.params(), deep.key_id(), &raised);
    assert_eq!(due.change(&Event::Raised { task, frame }).unwrap(), Applied::UpdateDue);
    due
}

/// Waits until the updates of all have ended, and returns the most that ran at once.
async fn worked_off(due: &[Arc<EncryptedServed>]) -> usize {
    let refreshing = |bandit: &Arc<EncryptedServed>| lock(&bandit.live).bandit.status(0).refresh_due;
    while !due.iter().all(refreshing) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    MOST.load(SeqCst)
}

/// However many batch updates are due, one runs at a time: when their sums are raised at once, and at a
/// start. With more permits they run side by side, which the counter shows.
#[test]
fn attack_updates_due_at_once_run_one_after_the_other() {
    const DUE: usize = 5;
    let (bundle, device) = keys(Updates::Slots);
    let [folder, other, third] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let bandits = open(folder.path(), &bundle);
        (0..DUE).for_each(|_| drop(insert_due(&bandits, &device)));
        // None was started: they are due at the next start.
        drop(bandits);
        MOST.store(0, SeqCst);
        let bandits = open(folder.path(), &bundle);
        let due: Vec<_> =
            bandits.loaded().into_iter().map(|found| found.bandit.encrypted("").unwrap()).collect();
        assert_eq!(due.len(), DUE);
        assert_eq!(worked_off(&due).await, 1, "at the start");

        for (folder, more, many) in [(other, 0, false), (third, DUE, true)] {
            let bandits = open(folder.path(), &bundle);
            let due: Vec<_> = (0..DUE).map(|_| insert_due(&bandits, &device)).collect();
            due[0].shared.updates.allow_more(more);
            MOST.store(0, SeqCst);
            due.iter().for_each(EncryptedServed::update_if_due);
            let most = worked_off(&due).await;
            assert_eq!(most > 1, many, "{most} at once, with {} permits", 1 + more);
        }
    });
}

/// Who waits until rounds are reserved on disk holds no lock, so that others go on. Whoever takes further
/// rounds of the same block meanwhile waits too, and nobody does once they are on disk. The child's first
/// synchronisation of the log takes five seconds.
#[cfg(target_os = "linux")]
#[test]
fn rounds_wait_for_the_disk_without_a_lock() {
    const CHILD: &str = "SLOW_DISK";
    let name = "bandits::encrypted::tests::rounds_wait_for_the_disk_without_a_lock";
    if std::env::var_os(CHILD).is_none() {
        let mut command = std::process::Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync"]);
        command.args(["-e", "inject=fdatasync:delay_enter=5000000:when=1", "--"]);
        command.arg(std::env::current_exe().unwrap()).args(["--exact", name]).env(CHILD, "1");
        let output = command.output().expect("strace is on the path");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let (folder, (bundle, _)) = (tempfile::tempdir().unwrap(), keys(Updates::Slots));
    let bandits = open(folder.path(), &bundle);
    let id = bandits.create_encrypted(BanditConfig::new(2, 2), &Beside::default()).unwrap().id;
    let served = bandits.find(&id).unwrap().encrypted(&id).unwrap();
    let on_disk = || {
        let replayed = super::state::replay(&served.shared.root, &id, &served.shared.engine, SNAPSHOT);
        replayed.unwrap().bandit.reserved()
    };
    let take = || lock(&served.live).take_rounds(&served.shared.engine, 1).unwrap();
    let [one, other] = [(); 2].map(|()| take());
    assert!(one.reserved.is_some() && other.reserved.is_some(), "both wait");
    assert_eq!((other.wait().unwrap(), one.wait().unwrap()), (2, 1));
    assert!(on_disk() >= 2);
    let last = take();
    assert!(last.reserved.is_none(), "nothing to wait for");
    assert_eq!(last.wait().unwrap(), 3);
}

/// A bandit of the open tier that updates by products after each third feedback, and its device.
struct Playing<'a> {
    served: Arc<EncryptedServed>,
    joined: user_client::BanditDevice<'a>,
    runtime: tokio::runtime::Runtime,
    rng: ChaCha20Rng,
}

impl<'a> Playing<'a> {
    fn new(bandits: &Bandits, device: &'a Device) -> Self {
        let mut config =
            BanditConfig { answers: Answers::Scores, open_model: true, ..BanditConfig::new(2, 2) };
        config.linear.schedule = bandit::Schedule::Every { rounds: 3 };
        let id = bandits.create_encrypted(config, &Beside::default()).unwrap().id;
        let served = bandits.find(&id).unwrap().encrypted(&id).unwrap();
        let joined = device.join(&served.created).unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        Playing { served, joined, runtime, rng: ChaCha20Rng::seed_from_u64(3) }
    }

    /// Decisions with their feedback, each answered within 20 s.
    fn play(&mut self, rounds: usize) {
        for _ in 0..rounds {
            let rows = [vec![0.6, 0.8], vec![0.8, -0.6]];
            let contexts = self.joined.contexts(&rows, &mut self.rng).unwrap();
            let feedback = self.joined.feedback(0, &rows[0], 0.5, None, &mut self.rng).unwrap();
            let sender = Sender { tag: None, site: [127, 0, 0, 1].into() };
            let round = async {
                let reply =
                    self.served.clone().decide(contexts.into(), 1, sender, Default::default()).await.unwrap();
                let crate::bandits::Reply::Binary(reply) = reply else { panic!("no answer") };
                let decision = DecideReply::read(&reply, &self.served.limits).unwrap().decision.unwrap();
                self.served.clone().feedback(decision.id, feedback.into(), None).await.unwrap();
            };
            self.runtime
                .block_on(async { tokio::time::timeout(Duration::from_secs(20), round).await })
                .unwrap();
        }
    }

    /// The event of the answer to a step.
    fn answer(&self, task: &RaiseTask) -> Event {
        let bytes = DecideReply { tasks: vec![task.clone()], ..DecideReply::default() }.to_bytes();
        let masked = self.joined.read(&bytes).unwrap().tasks;
        let body = self.joined.raise(&masked, None, &mut ChaCha20Rng::seed_from_u64(4)).unwrap();
        let [(task, Raised::Exchanged(frames))] =
            &Raises::read(&body, &self.served.limits).unwrap().raised[..]
        else {
            panic!("no answer to a step")
        };
        Event::Exchanged { task: *task, frames: frames.clone() }
    }

    /// Answers steps until none is asked for.
    fn update(&self) {
        let _entered = self.runtime.enter();
        while let Some(task) = self.served.own_task(None) {
            self.served.answer_task(task.id, self.answer(&task)).unwrap();
        }
    }

    /// The number of feedbacks in the model, and of batches.
    fn learnt(&self) -> (u64, u64) {
        let status = lock(&self.served.live).status();
        (status.model_feedbacks, status.batches)
    }

    /// The number of the task that the log asks for.
    fn stored_task(&self) -> Option<u64> {
        let Shared { root, engine, .. } = &self.served.shared;
        let stored = super::state::replay(root, &self.served.created.id, engine, SNAPSHOT).unwrap();
        stored.bandit.task().map(|task| task.id)
    }
}

/// While a step of an update by products is computed, decisions and feedback are answered; a second answer
/// to the step that is computed meanwhile too changes nothing. The threads that compute steps are held up
/// until then.
#[test]
fn decisions_are_answered_while_a_step_is_computed() {
    let (folder, (bundle, device)) = (tempfile::tempdir().unwrap(), keys(Updates::Products));
    let bandits = open(folder.path(), &bundle);
    let mut playing = Playing::new(&bandits, &device);
    playing.play(3);
    let served = playing.served.clone();
    let task = served.own_task(None).unwrap();
    let event = playing.answer(&task);
    let handle = playing.runtime.handle().clone();
    let answer = || {
        let _entered = handle.enter();
        served.answer_task(task.id, event.clone())
    };

    let short = &served.shared.stages.short;
    let all_held = std::sync::Barrier::new(short.current_num_threads() + 1);
    let held = std::sync::RwLock::new(());
    let holds = held.write().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            short.broadcast(|_| {
                all_held.wait();
                drop(held.read().unwrap());
            })
        });
        all_held.wait();
        let answers = [(); 2].map(|()| scope.spawn(answer));
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(300) {
            playing.play(1);
        }
        assert!(answers.iter().all(|answer| !answer.is_finished()), "a step was computed");
        drop(holds);
        let taken = answers.map(|answer| answer.join().unwrap());
        assert_eq!(taken.iter().filter(|taken| taken.is_ok()).count(), 1, "{taken:?}");
    });
    let next = served.own_task(None).unwrap();
    assert!(next.id != task.id && matches!(next.kind, TaskKind::Product { .. }));
    assert_eq!(playing.stored_task(), Some(next.id));
}

/// While many ask, an update by products begins after a pause of nine times the last one, with all feedback
/// that has come until then. A user alone has every update at once, and so has everybody the first one.
#[test]
fn updates_by_products_wait_while_many_ask() {
    let (folder, (bundle, device)) = (tempfile::tempdir().unwrap(), keys(Updates::Products));
    let bandits = open(folder.path(), &bundle);
    let mut playing = Playing::new(&bandits, &device);
    let served = playing.served.clone();
    let share = |requests: usize| lock(&served.pace).evaluate(requests);
    share(64);
    playing.play(3);
    playing.update();
    assert_eq!(playing.learnt(), (3, 1));
    // As if it had taken long.
    served.updated(Duration::from_secs(100));
    playing.play(5);
    assert!(served.own_task(None).is_none() && playing.stored_task().is_some(), "it waits");
    share(1);
    let asked = served.own_task(None).unwrap();
    assert_eq!(playing.stored_task(), Some(asked.id));
    playing.play(1);
    assert_eq!(playing.stored_task(), Some(asked.id), "what somebody was asked for stays");
    let _entered = playing.runtime.enter();
    served.answer_task(asked.id, playing.answer(&asked)).unwrap();
    playing.update();
    assert_eq!(playing.learnt(), (8, 2));
    drop(_entered);
    served.updated(Duration::from_secs(100));
    playing.play(2);
    playing.update();
    assert_eq!(playing.learnt(), (11, 3));
}
