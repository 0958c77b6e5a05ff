//! Bandits of the paper's method. A decision is computed on a thread of its own, which stops at each raise:
//! the reply to the request has the task then, and the request with its answer gets the next reply. The
//! state of a bandit is one file, which is durable before a decision or a feedback is acknowledged:
//!
//! ```text
//! DIR/paper/ID    "HELBAPPR", version, state
//! ```
//! A decision that was not finished is lost with the process, or when another one begins: the device asks
//! again. `run` is locked before `live`; neither is held while a decision is computed.

use super::encrypted::blocking;
use super::measured::{Awaited, Measured};
use super::{BodyLimit, Listed, Reply};
use crate::access::Caller;
use crate::error::Error;
use ckks::Ciphertext;
use helba::paper::{HolderAnswer, HolderTask, PaperBandit, PaperEngine};
use host::{lock, os_rng};
use protocol::DecisionId;
use protocol::paper::LinearConfig;
use rand::Rng;
use service::{Body, Content};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use wire::{
    PaperAnswer, PaperCreated, PaperDecision, PaperKeys, PaperManifest, PaperReply, PaperStatus, PaperTask,
    PaperVectors, PaperView,
};

const MAGIC: [u8; 8] = *b"HELBAPPR";
const VERSION: u16 = 1;

/// The parts that all bandits of the paper's method share.
pub(super) struct PaperShared {
    engine: PaperEngine,
    pub(super) manifest: PaperManifest,
    /// The folder of their states.
    root: PathBuf,
    /// The time that a holder of the key gets for a task.
    patience: Duration,
    /// Held by the decision that computes: one at a time, whatever bandit it is of.
    turn: Mutex<()>,
}

impl PaperShared {
    /// The parts with these keys, and states in the folder `state`.
    pub(super) fn new(keys: PaperKeys, state: &Path, patience: Duration) -> Result<Self, Error> {
        let PaperKeys { manifest, params, public_key, key_id, keys } = keys;
        let engine = PaperEngine::new(params, public_key, key_id, keys)?;
        Ok(PaperShared { engine, manifest, root: folder(state), patience, turn: Mutex::default() })
    }

    /// The arithmetic, and the names of key and parameters.
    pub(super) fn engine(&self) -> &PaperEngine {
        &self.engine
    }
}

/// The folder of states.
fn folder(state: &Path) -> PathBuf {
    state.join("paper")
}

/// The ids of the stored bandits in the state folder.
pub(super) fn stored(state: &Path) -> Result<Vec<String>, Error> {
    let root = folder(state);
    if !root.exists() {
        return Ok(Vec::new());
    }
    let disk = |e| Error::disk(&root, e);
    let mut ids = Vec::new();
    for entry in std::fs::read_dir(&root).map_err(disk)? {
        // What a write that was interrupted left has another name than an id.
        let name = entry.map_err(disk)?.file_name().into_string().unwrap_or_default();
        ids.extend(wire::is_id(&name).then_some(name));
    }
    Ok(ids)
}

/// A loaded bandit of the paper's method.
pub(crate) struct PaperServed {
    created: PaperCreated,
    shared: Arc<PaperShared>,
    live: Mutex<Live>,
    run: Mutex<Option<Run>>,
    /// The number of the decision that began last.
    last: AtomicU64,
    /// Permits of threads that compute: one for a decision, and one for a decision before it that has not
    /// come to its next raise, where it ends.
    threads: Arc<Semaphore>,
}

/// The threads of a bandit that compute at a time.
const MOST_THREADS: usize = 2;

struct Live {
    bandit: PaperBandit,
    deleted: bool,
}

/// A decision that waits for the answer to a task.
struct Run {
    number: u64,
    task: u64,
    kind: HolderTask,
    answers: mpsc::Sender<HolderAnswer>,
    steps: UnboundedReceiver<Step>,
}

/// The error of a decision after another one has begun.
fn begun() -> Error {
    Error::NotEvaluated { why: "another decision of this bandit has begun".into() }
}

/// What the thread of a decision comes to.
enum Step {
    Task { id: u64, kind: HolderTask, frame: Vec<u8> },
    Decided(Result<PaperDecision, Error>),
}

impl PaperServed {
    /// Creates a bandit and stores it under `id`, after `before` has taken the answer to the creation.
    pub(super) fn create(
        id: &str,
        config: LinearConfig,
        shared: Arc<PaperShared>,
        before: impl FnOnce(Listed) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let served = Self::new(id, PaperBandit::new(config)?, shared);
        before(served.created())?;
        host::private_folder(&served.shared.root).map_err(|e| Error::disk(&served.shared.root, e))?;
        host::sync_folder_of(&served.shared.root).map_err(|e| Error::disk(&served.shared.root, e))?;
        served.store(&lock(&served.live).bandit)?;
        Ok(served)
    }

    /// Loads a stored bandit.
    pub(super) fn load(id: &str, shared: Arc<PaperShared>) -> Result<Self, Error> {
        let path = shared.root.join(id);
        let bytes = std::fs::read(&path).map_err(|e| Error::disk(&path, e))?;
        let corrupt = |why| Error::CorruptState { bandit: id.to_string(), folder: shared.root.clone(), why };
        let state = bytes.strip_prefix(&MAGIC).and_then(|rest| rest.strip_prefix(&VERSION.to_le_bytes()));
        let state = state.ok_or_else(|| corrupt("its file is not of this version".into()))?;
        let bandit = PaperBandit::from_bytes(&shared.engine, state).map_err(|e| corrupt(e.to_string()))?;
        Ok(Self::new(id, bandit, shared))
    }

    fn new(id: &str, bandit: PaperBandit, shared: Arc<PaperShared>) -> Self {
        let engine = &shared.engine;
        let config = *bandit.config();
        let created = PaperCreated::new(id.to_string(), config, engine.params(), engine.key_id());
        let live = Mutex::new(Live { bandit, deleted: false });
        let threads = Arc::new(Semaphore::new(MOST_THREADS));
        PaperServed { created, shared, live, run: Mutex::default(), last: AtomicU64::new(0), threads }
    }

    /// Writes the state durably.
    fn store(&self, bandit: &PaperBandit) -> Result<(), Error> {
        let path = self.shared.root.join(&self.created.id);
        let state = bandit.to_bytes(&self.shared.engine)?;
        let bytes = [&MAGIC[..], &VERSION.to_le_bytes(), &state].concat();
        host::write_private(&path, &bytes).map_err(|e| Error::disk(&path, e))
    }

    fn deleted(&self) -> Error {
        Error::UnknownBandit { id: self.created.id.clone() }
    }

    /// The answer to its creation request.
    pub(super) fn created(&self) -> Listed {
        Listed::Paper(Box::new(self.created.clone()))
    }

    fn status(&self) -> PaperStatus {
        let bandit = &lock(&self.live).bandit;
        let state = bandit.state();
        PaperStatus {
            round: bandit.rounds(),
            feedbacks: state.feedbacks(),
            model_feedbacks: state.model_feedbacks(),
            batches: state.batches(),
            raises: bandit.raises(),
            pending_decisions: bandit.is_open().into(),
        }
    }

    /// Its public state.
    pub(super) fn view(&self) -> PaperView {
        PaperView { created: self.created.clone(), status: self.status() }
    }

    /// Its numbers.
    pub(super) fn measured(&self) -> Measured {
        let status = self.status();
        let raising = lock(&self.run).is_some();
        let mut awaited = Vec::new();
        awaited.extend(raising.then_some(Awaited::Raise));
        awaited.extend((status.pending_decisions > 0).then_some(Awaited::Feedback));
        Measured {
            id: self.created.id.clone(),
            kind: "encrypted",
            policy: "helba".into(),
            features: Some(self.created.linear.d),
            arms: self.created.linear.k,
            round: status.round,
            feedbacks: status.feedbacks,
            batches: Some(status.batches),
            open: status.pending_decisions,
            max_open: Some(1),
            users_waiting: None,
            levels: None,
            privacy: None,
            awaited,
        }
    }

    /// Deletes it from the disk.
    pub(super) fn delete(&self) -> Result<(), Error> {
        let mut live = lock(&self.live);
        if live.deleted {
            return Err(self.deleted());
        }
        let path = self.shared.root.join(&self.created.id);
        std::fs::remove_file(&path).map_err(|e| Error::disk(&path, e))?;
        // A feedback would write the file again.
        live.deleted = true;
        host::sync_folder(&self.shared.root).map_err(|e| Error::disk(&self.shared.root, e))
    }

    /// The longest body of contexts and of a feedback.
    pub(crate) fn vectors_body(&self) -> BodyLimit {
        let bytes = PaperVectors::most_bytes(self.shared.engine.params());
        BodyLimit { bytes, content: Content::Binary }
    }

    /// The longest body of an answer to a task.
    pub(crate) fn answer_body(&self) -> BodyLimit {
        let bytes = PaperAnswer::most_bytes(self.shared.engine.params());
        BodyLimit { bytes, content: Content::Binary }
    }

    fn read_vectors(&self, body: &[u8]) -> Result<[Ciphertext; 2], Error> {
        let engine = &self.shared.engine;
        let PaperVectors { left, right } = PaperVectors::read(body, engine.params())?;
        Ok([engine.read_fresh(&left)?, engine.read_fresh(&right)?])
    }

    /// Begins a decision, which takes the place of one that is not finished. Returns its first task.
    pub(crate) async fn decide(self: Arc<Self>, body: Body) -> Result<Reply, Error> {
        let served = self.clone();
        let vectors = blocking(move || served.read_vectors(&body)).await?;
        // A decision that is refused ends no other.
        let permit = self.threads.clone().try_acquire_owned().map_err(|_| Error::Overloaded)?;
        let number = self.last.fetch_add(1, Relaxed) + 1;
        drop(lock(&self.run).take());
        let (sender, steps) = unbounded_channel();
        let (answers, given) = mpsc::channel();
        let served = self.clone();
        let compute = move || {
            let _permit = permit;
            let decided = served.compute(&vectors, &sender, &given);
            // The request may have ended.
            let _ = sender.send(Step::Decided(decided));
        };
        std::thread::Builder::new().spawn(compute).map_err(|_| Error::Overloaded)?;
        self.next(number, answers, steps).await
    }

    /// Takes the answer to the task of a decision. Returns its next task, or the decision.
    pub(crate) async fn answer(self: Arc<Self>, body: Body, caller: Caller) -> Result<Reply, Error> {
        caller.check_raises_all()?;
        let served = self.clone();
        let Run { number, answers, steps, .. } = blocking(move || served.take_answer(&body)).await?;
        self.next(number, answers, steps).await
    }

    fn take_answer(&self, body: &[u8]) -> Result<Run, Error> {
        let engine = &self.shared.engine;
        let PaperAnswer { id: task, answer } = PaperAnswer::read(body, engine.params())?;
        let mut waiting = lock(&self.run);
        let over = || Error::TaskOver { task };
        let run = waiting.as_ref().filter(|run| run.task == task).ok_or_else(over)?;
        let answer = match (run.kind, answer) {
            (HolderTask::Raise, Ok(frame)) => HolderAnswer::Raised(engine.read_fresh(&frame)?),
            (HolderTask::Open, Err(constant)) => HolderAnswer::Opened(constant),
            _ => return Err(wire::Error::Malformed("the answer is one to another kind of task").into()),
        };
        let run = waiting.take().ok_or_else(over)?;
        run.answers.send(answer).map_err(|_| over())?;
        Ok(run)
    }

    /// The reply at the next step of a decision.
    async fn next(
        &self,
        number: u64,
        answers: mpsc::Sender<HolderAnswer>,
        mut steps: UnboundedReceiver<Step>,
    ) -> Result<Reply, Error> {
        let reply = match steps.recv().await {
            Some(Step::Task { id, kind, frame }) => {
                let mut waiting = lock(&self.run);
                if self.last.load(Relaxed) != number {
                    return Err(begun());
                }
                *waiting = Some(Run { number, task: id, kind, answers, steps });
                drop(waiting);
                let task = match kind {
                    HolderTask::Raise => PaperTask::Raise,
                    HolderTask::Open => PaperTask::Open,
                };
                PaperReply::Task { id, task, frame }
            }
            Some(Step::Decided(decision)) => PaperReply::Decision(decision?),
            None => return Err(Error::Broken("a decision that was dropped")),
        };
        Ok(Reply::Binary(reply.to_bytes()))
    }

    /// Computes a decision on a thread of its own, and stores it.
    fn compute(
        &self,
        [left, right]: &[Ciphertext; 2],
        steps: &UnboundedSender<Step>,
        given: &mpsc::Receiver<HolderAnswer>,
    ) -> Result<PaperDecision, Error> {
        let engine = &self.shared.engine;
        let mut bandit = lock(&self.live).bandit.clone();
        let counters = |bandit: &PaperBandit| (bandit.rounds(), bandit.state().feedbacks());
        let before = counters(&bandit);
        let mut ids = os_rng()?;
        // Other bandits compute while this one waits for its device.
        let mut turn = Some(lock(&self.shared.turn));
        let send = |kind, masked: Ciphertext| {
            let step = Step::Task { id: ids.next_u64(), kind, frame: engine.write(&masked) };
            turn = None;
            steps.send(step).map_err(|_| "another decision has begun, or the device has gone")?;
            let given = given.recv_timeout(self.shared.patience);
            turn = Some(lock(&self.shared.turn));
            given.map_err(|_| "its task was not answered in time")
        };
        let decision = bandit.decide(engine, [left, right], send, os_rng()?)?;
        drop(turn);
        let mut live = lock(&self.live);
        if live.deleted {
            return Err(self.deleted());
        }
        if counters(&live.bandit) != before {
            return Err(begun());
        }
        self.store(&bandit)?;
        live.bandit = bandit;
        let helba::paper::PaperDecision { id, model_feedbacks, raises, action } = decision;
        Ok(PaperDecision { id, model_feedbacks, raises, answer: engine.write(&action) })
    }

    /// Counts the feedback on the last decision, durably.
    pub(crate) async fn feedback(self: Arc<Self>, decision: DecisionId, body: Body) -> Result<Reply, Error> {
        let work = move || {
            let [left, right] = self.read_vectors(&body)?;
            let mut live = lock(&self.live);
            if live.deleted {
                return Err(self.deleted());
            }
            let mut bandit = live.bandit.clone();
            let receipt = bandit.learn(&self.shared.engine, decision, [&left, &right])?;
            self.store(&bandit)?;
            live.bandit = bandit;
            Reply::json(&receipt)
        };
        blocking(work).await
    }
}
