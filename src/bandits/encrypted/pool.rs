//! Evaluations: users who wait are gathered into a pack, a holder of the key raises it, and all are answered.
//!
//! | stage | begins |
//! |---|---|
//! | gathering | with the first user who waits |
//! | sealed: packed, masked, handed to a raiser | [`WINDOW`] later, when no other evaluation of the bandit and at most one of the server is under way, and all contexts are in the pack that had arrived by then |
//! | evaluated and answered | when the raised scores are there and no other evaluation computes |
//!
//! A raiser is a program that waits at `GET …/raises`, or was there a moment ago, or else a user of the
//! evaluation, who gets the task in place of its answer. A raise that does not come within [`PATIENCE`] is
//! asked of the next one. All are asked for the same masked ciphertext, which says no more twice than once.

use super::EncryptedServed;
use super::again::{Group, Sent, UNIT};
use super::workers::Workers;
use crate::Settings;
use crate::error::Error;
use ckks::{Ciphertext, Packer};
use helba::circuit::DecisionCircuit;
use helba::{Task, TraceTest};
use host::{lock, os_rng};
use protocol::TaskKind;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rayon::ThreadPool;
use rayon::prelude::*;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use wire::{DecideReply, Decision, RaiseTask, Ticket};

/// The time for which further users are gathered.
const WINDOW: Duration = Duration::from_millis(10);
/// The longest time for which an evaluation whose turn has come waits for contexts that had arrived before.
const GATHERING: Duration = Duration::from_millis(500);
/// The longest time after the answers for which the next pack waits for users to come back.
const RETURN: Duration = Duration::from_millis(60);
/// The time after which a raise is asked of the next raiser.
const PATIENCE: Duration = Duration::from_secs(2);
/// The time for which a task waits for a raiser who was there this long ago and is busy.
const RAISER_RETURNS: Duration = Duration::from_secs(1);
/// The pause after an evaluation of a user alone whose contexts spoilt others, in times of its length.
const ALONE_PAUSES: u32 = 9;
/// The most evaluations of a server that have left their turns.
const MOST_LATE: usize = 16;
/// The time after which a task of the bandit's own is given to the next raiser.
const TASK_PATIENCE: Duration = Duration::from_secs(5);

/// The turns that all encrypted bandits of a server share.
#[derive(Clone)]
pub(crate) struct Stages {
    /// Evaluations from seal to answer. While one is raised, another one computes.
    sealed: Arc<Semaphore>,
    /// Evaluations whose raise is late.
    late: Arc<Semaphore>,
    /// Evaluations that compute.
    computing: Arc<Semaphore>,
    /// Uploads that are read and multiplied.
    pub(super) uploads: Arc<Semaphore>,
    /// Threads for uploads and feedback.
    pub(super) workers: Workers,
    /// Threads for other work of some milliseconds, which is not to wait for an evaluation.
    pub(super) short: Arc<ThreadPool>,
    /// Bodies of raises that are read.
    pub(super) raises: Arc<Semaphore>,
    /// Users who wait, or have waited in an evaluation that has not ended.
    pub(super) waiting: Arc<Semaphore>,
    /// The time after which an evaluation without a raise ends.
    longest_raise: Duration,
    /// The time after which an evaluation without a raise leaves its turn to another one.
    raise_turn: Duration,
    /// The time that the last one who can be asked for a raise gets.
    last_raise: Duration,
    /// Memory for the contexts of evaluations that may be repeated.
    pub(super) contexts: Arc<Semaphore>,
    /// The time after its answer in which a user may ask again.
    pub(super) ask_again: Duration,
}

impl Stages {
    /// Fresh turns, with the bounds of a server.
    ///
    /// # Errors
    /// [`Error::Broken`] if no thread can be started.
    pub(crate) fn new(settings: &Settings) -> Result<Self, Error> {
        let semaphore = |permits: usize| Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)));
        let threads = rayon::current_num_threads();
        let short = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let name = short.thread_name(|i| format!("short-{i}"));
        let short = Arc::new(name.build().map_err(|_| Error::Broken("threads that do not start"))?);
        Ok(Stages {
            workers: Workers::start(threads)?,
            sealed: semaphore(2),
            late: semaphore(MOST_LATE),
            computing: semaphore(1),
            uploads: semaphore(threads + 1),
            raises: semaphore(threads + 1),
            waiting: semaphore(settings.max_waiting),
            short,
            longest_raise: settings.raise_timeout,
            raise_turn: settings.raise_turn,
            last_raise: settings.last_raise,
            contexts: semaphore(settings.context_memory / UNIT),
            ask_again: settings.ask_again,
        })
    }

    /// Runs `work`, which takes some milliseconds and no lock, beside evaluations: on this thread if it is a
    /// worker.
    pub(super) fn beside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match rayon::current_thread_index() {
            Some(_) => work(),
            None => self.short.install(work),
        }
    }
}

/// The turn of an evaluation, or its place among those whose raise is late.
pub(super) struct Turn {
    /// `None` if the raise is late: the next evaluation of the bandit may begin.
    _bandit: Option<OwnedSemaphorePermit>,
    _server: OwnedSemaphorePermit,
}

/// The answer to a user who waits.
pub(super) type Outcome = Result<DecideReply, Error>;

/// What waits for a bandit.
#[derive(Default)]
pub(super) struct Pool {
    gathering: Option<Gathering>,
    /// The number of packs that were opened.
    opened: u64,
    /// Where the raise of an evaluation goes, and its level.
    raising: HashMap<u64, (oneshot::Sender<Ciphertext>, usize)>,
    /// The places of users who were asked to raise.
    tickets: HashMap<Ticket, oneshot::Receiver<Outcome>>,
    /// Programs that wait for tasks.
    raisers: VecDeque<oneshot::Sender<Vec<RaiseTask>>>,
    /// Tasks for the next raiser who comes.
    queued: VecDeque<Vec<RaiseTask>>,
    /// When a raiser was here last.
    raiser_seen: Option<Instant>,
    /// The last task of the bandit's own that was given out, and when.
    asked: Option<(u64, Instant)>,
}

/// A pack that is still open.
struct Gathering {
    /// Which pack of the bandit it is.
    number: u64,
    packer: Packer,
    model: Arc<Ciphertext>,
    /// The number of feedbacks in this model.
    model_feedbacks: u64,
    /// The trace in place 0 of the pack, if it is asked for.
    test: Option<TraceTest>,
    users: Vec<User>,
}

/// A user who waits, or one who waits for the decisions of several.
pub(super) struct User {
    /// The numbers of its decisions in the evaluation.
    pub(super) numbers: Vec<usize>,
    /// The round of its first decision, 0 until the evaluation is sealed.
    pub(super) round: u64,
    /// The number of answers that it has had.
    pub(super) answers: u32,
    pub(super) sender: oneshot::Sender<Outcome>,
    pub(super) _place: Option<OwnedSemaphorePermit>,
    /// Its contexts, if they are kept.
    pub(super) sent: Option<Sent>,
}

/// What an evaluation needs besides its users, to be repeated.
struct Rest {
    model: Arc<Ciphertext>,
    /// The contexts of users who do not wait. `None` if some are not kept, so that there is no repeat.
    others: Option<Vec<Sent>>,
    /// Whether this is a repeat.
    repeat: bool,
}

/// The frames of the answers of an evaluation, and seconds of its parts.
struct Computed {
    frames: Vec<Vec<u8>>,
    /// The user who is asked for the trace, and the frame of the question.
    question: Option<(usize, Vec<u8>)>,
    circuit: f64,
    answers: f64,
}

/// Who was asked to raise.
enum Asked {
    /// A raiser that waited, or a user.
    Raiser,
    /// Nobody yet: a raiser was here a moment ago, and finds the task when it comes back.
    Queued,
    /// Nobody: all were asked before.
    Nobody,
}

/// An evaluation that waits for its raise. Dropped, it takes no raise any more, and its tickets are void.
struct Raising<'a> {
    pool: &'a Mutex<Pool>,
    task: u64,
    tickets: Vec<Ticket>,
}

impl Drop for Raising<'_> {
    fn drop(&mut self) {
        let mut pool = lock(self.pool);
        pool.raising.remove(&self.task);
        pool.withdraw(self.task);
        self.tickets.iter().for_each(|ticket| drop(pool.tickets.remove(ticket)));
    }
}

/// A pack that is closed, and what its evaluation needs.
struct Sealed {
    circuit: DecisionCircuit,
    /// How many users' scores are in the pack, those of users who left among them.
    packed: usize,
    factor: f64,
    seed: ckks::MaskSeed,
    masked: Vec<u8>,
    last_round: u64,
    model_feedbacks: u64,
    test: Option<TraceTest>,
}

impl Pool {
    /// The level of the raise that an evaluation waits for.
    ///
    /// # Errors
    /// [`Error::TaskOver`].
    pub(super) fn waits(&self, id: u64) -> Result<usize, Error> {
        self.raising.get(&id).map(|(_, level)| *level).ok_or(Error::TaskOver { task: id })
    }

    /// Gives an evaluation its raise.
    ///
    /// # Errors
    /// [`Error::TaskOver`] if it was raised before, or has ended.
    pub(super) fn take_raise(&mut self, id: u64, raised: Ciphertext) -> Result<(), Error> {
        let over = Error::TaskOver { task: id };
        let Some((sender, _)) = self.raising.remove(&id) else { return Err(over) };
        sender.send(raised).map_err(|_| over)
    }

    /// Where the user with this ticket waits.
    pub(super) fn take_ticket(&mut self, ticket: Ticket) -> Option<oneshot::Receiver<Outcome>> {
        self.tickets.remove(&ticket)
    }

    /// Waits for tasks as a raiser.
    pub(super) fn wait_for_tasks(&mut self) -> oneshot::Receiver<Vec<RaiseTask>> {
        let (sender, receiver) = oneshot::channel();
        self.raiser_seen = Some(Instant::now());
        if let Some(tasks) = self.take_queued() {
            // The receiver is here, so that this succeeds.
            let _ = sender.send(tasks);
            return receiver;
        }
        self.raisers.retain(|raiser| !raiser.is_closed());
        self.raisers.push_back(sender);
        receiver
    }

    /// Tasks that wait for the next raiser who comes.
    pub(super) fn take_queued(&mut self) -> Option<Vec<RaiseTask>> {
        while let Some(tasks) = self.queued.pop_front() {
            // Evaluations may have ended since.
            if tasks.iter().any(|task| self.raising.contains_key(&task.id)) {
                return Some(tasks);
            }
        }
        None
    }

    /// Whether a raiser is here, or was a moment ago.
    pub(super) fn has_raiser(&self) -> bool {
        self.raiser_seen.is_some_and(|seen| seen.elapsed() < 2 * RAISER_RETURNS)
            || self.raisers.iter().any(|raiser| !raiser.is_closed())
    }

    /// Takes back a task that no raiser came for.
    fn withdraw(&mut self, id: u64) {
        let before = self.queued.len();
        self.queued.retain(|tasks| tasks.iter().all(|task| task.id != id));
        if self.queued.len() < before {
            // A task of the bandit's own may have been with it: the next one who comes is asked.
            self.asked = None;
        }
    }

    /// Gives `tasks` to a raiser that waits, or returns them.
    fn give(&mut self, mut tasks: Vec<RaiseTask>) -> Result<(), Vec<RaiseTask>> {
        while let Some(raiser) = self.raisers.pop_front() {
            match raiser.send(tasks) {
                Ok(()) => return Ok(()),
                Err(back) => tasks = back,
            }
        }
        Err(tasks)
    }
}

impl EncryptedServed {
    /// Adds the scores of a user to the pack that is open, and returns where its outcome comes. `model` is
    /// the one that the scores were computed with, of that many feedbacks. `place` is taken if the user
    /// joins. If the pack has no room for `decisions` more, another one is opened.
    ///
    /// # Errors
    /// [`Error::Helba`] never after the keys were found.
    pub(super) fn join(
        self: &Arc<Self>,
        scores: Ciphertext,
        decisions: usize,
        (model, model_feedbacks): (&Arc<Ciphertext>, u64),
        place: &mut Option<OwnedSemaphorePermit>,
        sent: &Option<Sent>,
    ) -> Result<Option<oneshot::Receiver<Outcome>>, Error> {
        let layout = &self.exchanges.layout;
        let (log, most) = (layout.log_places(decisions).map_err(helba::Error::from)?, layout.users().end);
        let mut pool = lock(&self.pool);
        if let Some(gathering) = &pool.gathering
            && !Arc::ptr_eq(&gathering.model, model)
        {
            // The model changed since one of the two was made: the caller multiplies again, or seals.
            if Arc::ptr_eq(&gathering.model, lock(&self.live).bandit.scores_model()) {
                return Ok(None);
            }
            pool.gathering.take().into_iter().for_each(|old| self.spawn(old, Duration::ZERO));
        }
        if pool.gathering.as_ref().is_some_and(|gathering| gathering.packer.after(log) > most) {
            pool.gathering.take().into_iter().for_each(|full| self.spawn(full, Duration::ZERO));
        }
        let fresh = pool.gathering.is_none();
        if fresh {
            let (packer, test) = self.packer(model)?;
            pool.opened += 1;
            let (number, model, users) = (pool.opened, model.clone(), Vec::new());
            pool.gathering = Some(Gathering { number, packer, model, model_feedbacks, test, users });
        }
        let (mut receiver, mut full) = (None, false);
        if let Some(gathering) = &mut pool.gathering {
            receiver = Some(self.add(gathering, scores, decisions, place, sent)?);
            full = gathering.packer.len() == most;
        }
        if full {
            pool.gathering.take().into_iter().for_each(|full| self.spawn(full, Duration::ZERO));
        } else if fresh {
            let (served, number) = (self.clone(), pool.opened);
            tokio::spawn(async move { served.close_later(number, Instant::now()).await });
        }
        Ok(receiver)
    }

    /// Evaluates the scores of a user alone, and returns where its outcome comes. At most one such evaluation
    /// waits for its turn, and they take at most a tenth of the time, so that they hold up no other user.
    /// `own` are the places of its sender.
    ///
    /// # Errors
    /// [`Error::Overloaded`] if too many wait, of all such senders or of this one; [`Error::Helba`] never
    /// after the keys were found.
    pub(super) fn join_alone(
        self: &Arc<Self>,
        scores: Ciphertext,
        decisions: usize,
        (model, model_feedbacks): (&Arc<Ciphertext>, u64),
        place: &mut Option<OwnedSemaphorePermit>,
        own: &Arc<Semaphore>,
    ) -> Result<oneshot::Receiver<Outcome>, Error> {
        let take =
            |places: &Arc<Semaphore>| places.clone().try_acquire_owned().map_err(|_| Error::Overloaded);
        let waits = (take(own)?, take(&self.alone_waiting)?);
        // Its contexts may spoil what the trace is compared with.
        let (packer, model) = (self.packer_without_trace()?, model.clone());
        let (number, users) = (0, Vec::new());
        let mut gathering = Gathering { number, packer, model, model_feedbacks, test: None, users };
        let receiver = self.add(&mut gathering, scores, decisions, place, &None)?;
        let served = self.clone();
        tokio::spawn(async move {
            let Ok(alone) = served.alone.clone().acquire_owned().await else { return };
            drop(waits);
            let Some(turn) = served.turn().await else { return };
            let began = Instant::now();
            served.evaluate(gathering, turn).await;
            tokio::time::sleep(ALONE_PAUSES * began.elapsed()).await;
            drop(alone);
        });
        Ok(receiver)
    }

    fn add(
        &self,
        gathering: &mut Gathering,
        scores: Ciphertext,
        decisions: usize,
        place: &mut Option<OwnedSemaphorePermit>,
        sent: &Option<Sent>,
    ) -> Result<oneshot::Receiver<Outcome>, Error> {
        let numbers = self.push(&mut gathering.packer, scores, decisions)?;
        let (sender, receiver) = oneshot::channel();
        let (sent, place) = (sent.clone(), place.take());
        gathering.users.push(User { numbers, round: 0, answers: 0, sender, _place: place, sent });
        Ok(receiver)
    }

    /// Adds the scores of a request for this many decisions to a pack, and returns their numbers in the
    /// evaluation.
    pub(super) fn push(
        &self,
        packer: &mut Packer,
        scores: Ciphertext,
        decisions: usize,
    ) -> Result<Vec<usize>, Error> {
        let layout = &self.exchanges.layout;
        let log = layout.log_places(decisions).map_err(helba::Error::from)?;
        let position = self.shared.stages.beside(|| packer.push_block(scores, log));
        let first = layout.user_at(position.map_err(helba::Error::from)?);
        Ok((0..decisions).map(|b| layout.user_of(first, b, log)).collect())
    }

    /// The number of users in the open pack.
    pub(crate) fn users_waiting(&self) -> usize {
        lock(&self.pool).gathering.as_ref().map_or(0, |gathering| gathering.users.len())
    }

    /// Closes the pack with this number after the window, when its turn comes. More users join it until then.
    /// A pack that was full has been closed before.
    async fn close_later(self: Arc<Self>, number: u64, opened: Instant) {
        tokio::time::sleep(WINDOW.saturating_sub(opened.elapsed())).await;
        let Some(turn) = self.turn().await else { return };
        self.wait_for_arrived(number).await;
        let gathering = lock(&self.pool).gathering.take_if(|open| open.number == number);
        if let Some(gathering) = gathering {
            self.evaluate(gathering, turn).await;
        }
    }

    /// Waits until the contexts that have arrived are in the pack with this number, or it is closed. Under
    /// load, uploads get half of the processors while another evaluation computes, and all of them here.
    async fn wait_for_arrived(&self, number: u64) {
        let (arrived, began) = (self.arrivals.arrived(), Instant::now());
        let is_open = || lock(&self.pool).gathering.as_ref().is_some_and(|open| open.number == number);
        while self.arrivals.placed() < arrived && began.elapsed() < GATHERING && is_open() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits for the turn of an evaluation of this bandit.
    async fn turn(&self) -> Option<Turn> {
        let bandit = self.turns.clone().acquire_owned().await.ok()?;
        let server = self.shared.stages.sealed.clone().acquire_owned().await.ok()?;
        Some(Turn { _bandit: Some(bandit), _server: server })
    }

    fn spawn(self: &Arc<Self>, gathering: Gathering, wait: Duration) {
        let served = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            let Some(turn) = served.turn().await else { return };
            served.evaluate(gathering, turn).await;
        });
    }

    /// Seals a pack, has it raised, evaluates it and answers its users.
    async fn evaluate(self: &Arc<Self>, gathering: Gathering, mut turn: Turn) {
        let Gathering { number: _, packer, users, model_feedbacks, model, test } = gathering;
        // The contexts of users who left are in the pack.
        let (gone, mut users): (Vec<User>, Vec<User>) =
            users.into_iter().partition(|user| user.sender.is_closed());
        if users.is_empty() {
            return;
        }
        let count = users.len();
        let kept = users.iter().all(|user| user.sent.is_some());
        let others = gone.into_iter().map(|user| user.sent).collect::<Option<Vec<Sent>>>().filter(|_| kept);
        let rest = Rest { model, others, repeat: false };
        let served = self.clone();
        let began = Instant::now();
        let sealed = blocking(move || {
            let decisions = users.iter().map(|user| user.numbers.len() as u64).sum();
            let sealed = served.take_rounds(decisions).and_then(|first| {
                let mut next = first;
                for user in &mut users {
                    user.round = next;
                    next += user.numbers.len() as u64;
                }
                served.seal(packer, next - 1, model_feedbacks, test)
            });
            Ok((sealed, users))
        });
        let (sealed, mut users) = match sealed.await {
            Ok(sealed) => sealed,
            Err(error) => (Err(error), Vec::new()),
        };
        tracing::debug!(
            bandit = self.created.id,
            users = count,
            seconds = began.elapsed().as_secs_f64(),
            "sealed"
        );
        let done = match sealed {
            Ok(sealed) => self.raise_and_answer(sealed, &mut users, rest, &mut turn).await,
            Err(error) => Err(error),
        };
        if count > 1 {
            self.wait_for_return(count).await;
        }
        drop(turn);
        if let Err(error) = done {
            self.refuse(users, &error);
        }
    }

    /// Evaluates users of an evaluation again, under a fresh mask, and answers those who ask. Returns the
    /// number under which they are kept, or `None` if they were refused.
    pub(super) async fn evaluate_again(self: &Arc<Self>, group: Group) -> Option<u64> {
        let mut turn = self.turn().await?;
        let (model, model_feedbacks, last) = (group.model.clone(), group.model_feedbacks, group.last);
        let served = self.clone();
        let sealed = blocking(move || {
            let (packer, users, others) = served.pack_again(group)?;
            Ok((served.seal(packer, last, model_feedbacks, None), users, others))
        });
        let (sealed, mut users, others) = match sealed.await {
            Ok((Ok(sealed), users, others)) => (sealed, users, others),
            Ok((Err(error), users, _)) => {
                self.refuse(users, &error);
                return None;
            }
            Err(error) => {
                self.refuse(Vec::new(), &error);
                return None;
            }
        };
        let rest = Rest { model, others: Some(others), repeat: true };
        match self.raise_and_answer(sealed, &mut users, rest, &mut turn).await {
            Ok(kept) => kept,
            Err(error) => {
                self.refuse(users, &error);
                None
            }
        }
    }

    /// Answers users whose evaluation ended with `error`.
    fn refuse(&self, users: Vec<User>, error: &Error) {
        tracing::warn!(bandit = self.created.id, users = users.len(), %error, "an evaluation ended");
        let deleted = lock(&self.live).deleted;
        for user in users {
            let why = error.to_string();
            let error = if deleted { self.deleted() } else { Error::NotEvaluated { why } };
            let _ = user.sender.send(Err(error));
        }
    }

    /// Waits until about as many users wait as were just answered. Those who ask again at once then share the
    /// next evaluation, where two groups of them would take turns otherwise.
    async fn wait_for_return(&self, answered: usize) {
        let began = Instant::now();
        while began.elapsed() < RETURN {
            let waiting = self.users_waiting();
            if waiting * 10 >= answered * 9 {
                return;
            }
            tokio::time::sleep(RETURN / 12).await;
        }
    }

    fn take_rounds(&self, count: u64) -> Result<u64, Error> {
        let mut live = lock(&self.live);
        if live.deleted {
            return Err(self.deleted());
        }
        live.take_rounds(&self.shared.engine, count)
    }

    /// `last` is the last round of the users. `model_feedbacks` belongs to the model of the scores, which may
    /// have been replaced since.
    fn seal(
        &self,
        packer: Packer,
        last: u64,
        model_feedbacks: u64,
        test: Option<TraceTest>,
    ) -> Result<Sealed, Error> {
        let engine = &self.shared.engine;
        // Not `users`: the answer of a user alone is not masked, and those who left are in the pack.
        let in_pack = packer.len();
        let packed = rayon::scope(|_| packer.finish()).map_err(helba::Error::from)?;
        let scalars = helba::Scalars::new(&self.created.config, last, model_feedbacks);
        let circuit = engine.circuit(&self.created.config, scalars)?;
        let factor = circuit.factor(self.exchanges.layout.log_range());
        let masked = engine.mask(self.exchanges.scores(in_pack == 1), packed, &mut os_rng()?)?;
        let (masked, seed) = (self.small_frame(masked.ciphertext), masked.seed);
        Ok(Sealed { circuit, packed: in_pack, factor, seed, masked, last_round: last, model_feedbacks, test })
    }

    /// `turn` is the turn of the evaluation, and another one when its raise was late. Returns the number
    /// under which a repeat is kept.
    async fn raise_and_answer(
        self: &Arc<Self>,
        sealed: Sealed,
        users: &mut Vec<User>,
        rest: Rest,
        turn: &mut Turn,
    ) -> Result<Option<u64>, Error> {
        let began = Instant::now();
        let Sealed { circuit, packed, factor, seed, masked, last_round, model_feedbacks, test } = sealed;
        let alone = packed == 1;
        // What the mask becomes is computed while the raiser works.
        let served = self.clone();
        let mask = tokio::task::spawn_blocking(move || {
            rayon::scope(|_| served.exchanges.scores(alone).encode_mask(&seed, factor))
        });
        let id = os_rng()?.next_u64() | 1 << 63;
        let task = RaiseTask { id, kind: TaskKind::Scores { factor, alone }, masked };
        let (sender, mut raised) = oneshot::channel();
        let mut raising = self.begin(id, sender, self.exchanges.scores(alone).level())?;
        let (mut asked, mut queued, mut late, mut last) = (0, false, false, began);
        let raised = loop {
            let stages = &self.shared.stages;
            if began.elapsed() >= stages.longest_raise || last.elapsed() >= stages.last_raise {
                return Err(Error::NotRaised);
            }
            let patience = match self.ask(&task, users, &mut asked, &mut raising.tickets, &mut queued)? {
                Asked::Queued => RAISER_RETURNS,
                Asked::Raiser => {
                    last = Instant::now();
                    PATIENCE
                }
                Asked::Nobody => PATIENCE,
            };
            match tokio::time::timeout(patience, &mut raised).await {
                Ok(Ok(raised)) => break raised,
                // The bandit was deleted.
                Ok(Err(_)) => return Err(self.deleted()),
                Err(_) if users.iter().all(|user| user.sender.is_closed()) => return Err(Error::NotRaised),
                Err(_) => {}
            }
            if began.elapsed() >= stages.raise_turn && !std::mem::replace(&mut late, true) {
                match stages.late.clone().try_acquire_owned() {
                    Ok(place) => *turn = Turn { _bandit: None, _server: place },
                    Err(_) => late = false,
                }
            }
        };
        let raise_seconds = began.elapsed().as_secs_f64();
        let mask =
            mask.await.map_err(|_| Error::Broken("a computation panicked"))?.map_err(helba::Error::from)?;
        let turn = self.shared.stages.computing.clone().acquire_owned().await;
        let waiting: Vec<User> = std::mem::take(users);
        let (served, tests) = (self.clone(), test.is_some());
        let work = move || {
            let _turn = turn;
            let answers = served.compute(&circuit, packed, raised, &mask, &waiting, tests);
            (waiting, answers)
        };
        let (waiting, answers) =
            tokio::task::spawn_blocking(work).await.map_err(|_| Error::Broken("a computation panicked"))?;
        // Those who left are in the evaluation too.
        let gone = rest.others.iter().flatten().map(|sent| sent.decisions);
        let count = waiting.iter().map(|user| user.numbers.len()).chain(gone).sum::<usize>() as u32;
        let Computed { frames, mut question, circuit, answers } = match answers {
            Ok(computed) => computed,
            Err(error) => {
                *users = waiting;
                return Err(error);
            }
        };
        let seconds = began.elapsed().as_secs_f64();
        // Kept before the first answer leaves, so that its user may ask again at once.
        let kept = self.keep(&waiting, rest, (model_feedbacks, last_round));
        for (at, (user, answer)) in waiting.into_iter().zip(frames).enumerate() {
            let round = user.round;
            let last = round + user.numbers.len() as u64;
            let (id, others) = {
                let live = lock(&self.live);
                let others = (round + 1..last).map(|round| live.bandit.decision_id(round)).collect();
                (live.bandit.decision_id(round), others)
            };
            let first = user.numbers[0] as u32;
            let question = match (&test, question.take_if(|(asked, _)| *asked == at)) {
                (Some(test), Some((_, frame))) => Some(self.question(round, test, frame)),
                _ => None,
            };
            let decision =
                Decision { id, others, round, model_feedbacks, user: first, users: count, answer, question };
            // A user who is gone leaves a round without feedback.
            let _ = user.sender.send(Ok(DecideReply { decision: Some(decision), ..DecideReply::default() }));
        }
        drop(raising);
        tracing::info!(
            bandit = self.created.id,
            users = count,
            raise = raise_seconds,
            circuit,
            answers,
            seconds,
            "evaluated"
        );
        Ok(kept)
    }

    /// Keeps an evaluation whose users are answered now. Returns the number of a repeat.
    fn keep(
        self: &Arc<Self>,
        users: &[User],
        rest: Rest,
        (model_feedbacks, last): (u64, u64),
    ) -> Option<u64> {
        let Rest { model, others, repeat } = rest;
        let mut group = Group::new(model, model_feedbacks, last);
        others?.into_iter().for_each(|sent| group.push(sent, None));
        for user in users {
            let answered = (!user.sender.is_closed()).then_some((user.round, user.answers + 1));
            group.push(user.sent.clone()?, answered);
        }
        if repeat {
            return self.keep_repeat(group);
        }
        self.keep_first(group);
        None
    }

    /// Lets the raise of an evaluation come, at `level`.
    fn begin(
        &self,
        task: u64,
        sender: oneshot::Sender<Ciphertext>,
        level: usize,
    ) -> Result<Raising<'_>, Error> {
        let mut pool = lock(&self.pool);
        if lock(&self.live).deleted {
            return Err(self.deleted());
        }
        pool.raising.insert(task, (sender, level));
        drop(pool);
        Ok(Raising { pool: &self.pool, task, tickets: Vec::new() })
    }

    /// Ends what waits, after the bandit was deleted: users get an error, and raisers nothing.
    pub(super) fn end_all(&self) {
        let Pool { gathering, .. } = std::mem::take(&mut *lock(&self.pool));
        for user in gathering.into_iter().flat_map(|gathering| gathering.users) {
            let _ = user.sender.send(Err(self.deleted()));
        }
        std::mem::take(&mut *lock(&self.keeping)).end(|| self.deleted());
    }

    /// The frames of the answers of `users`, in their order, among the `packed` users of a pack, and the
    /// trace question to one of them if the evaluation `tests` the trace, which has the place of a user.
    fn compute(
        &self,
        circuit: &DecisionCircuit,
        packed: usize,
        raised: Ciphertext,
        mask: &ckks::Plaintext,
        users: &[User],
        tests: bool,
    ) -> Result<Computed, Error> {
        let engine = &self.shared.engine;
        let raise = self.exchanges.scores(packed == 1);
        let mut rng = os_rng()?;
        rayon::scope(|_| {
            let mut clock = Instant::now();
            let mut lap = || std::mem::replace(&mut clock, Instant::now()).elapsed().as_secs_f64();
            let evaluated = engine.evaluate(circuit, packed, raise, raised, mask, &mut rng)?;
            let circuit = lap();
            let seeds: Vec<[u8; 32]> = users
                .iter()
                .map(|_| {
                    let mut seed = [0; 32];
                    rng.fill_bytes(&mut seed);
                    seed
                })
                .collect();
            let answer = |(user, seed): (&User, [u8; 32])| {
                let mut rng = ChaCha20Rng::from_seed(seed);
                let answer = engine.answer(&evaluated, &user.numbers, &mut rng)?;
                Ok(ckks::write_ciphertext(engine.answer_params(), engine.key_id(), &answer))
            };
            let frames = users.par_iter().zip(seeds).map(answer).collect::<Result<Vec<_>, Error>>()?;
            let question =
                tests.then(|| self.ask_for_trace(&evaluated, users.len(), &mut rng)).transpose()?;
            Ok(Computed { frames, question, circuit, answers: lap() })
        })
    }

    /// Asks the next raiser for a task, together with a task of the bandit's own if one waits.
    fn ask(
        self: &Arc<Self>,
        task: &RaiseTask,
        users: &mut [User],
        asked: &mut usize,
        tickets: &mut Vec<Ticket>,
        queued: &mut bool,
    ) -> Result<Asked, Error> {
        let mut tasks = vec![task.clone()];
        tasks.extend(self.own_task());
        let mut pool = lock(&self.pool);
        let Err(mut tasks) = pool.give(tasks) else { return Ok(Asked::Raiser) };
        if !*queued && pool.has_raiser() {
            *queued = true;
            pool.queued.push_back(tasks);
            return Ok(Asked::Queued);
        }
        pool.withdraw(task.id);
        while let Some(user) = users.get_mut(*asked) {
            *asked += 1;
            if user.sender.is_closed() {
                continue;
            }
            let mut ticket = Ticket([0; 16]);
            os_rng()?.fill_bytes(&mut ticket.0);
            let (sender, receiver) = oneshot::channel();
            let waiting = std::mem::replace(&mut user.sender, sender);
            match waiting.send(Ok(DecideReply { decision: None, ticket: Some(ticket), tasks })) {
                Ok(()) => {
                    pool.tickets.insert(ticket, receiver);
                    tickets.push(ticket);
                    return Ok(Asked::Raiser);
                }
                Err(back) => tasks = back.map(|reply| reply.tasks).unwrap_or_default(),
            }
        }
        Ok(Asked::Nobody)
    }

    /// The task of the bandit's own, unless a raiser has it.
    pub(super) fn own_task(&self) -> Option<RaiseTask> {
        let Task { id, kind, masked } = lock(&self.live).bandit.task()?;
        let mut pool = lock(&self.pool);
        if pool.asked.is_some_and(|(last, when)| last == id && when.elapsed() < TASK_PATIENCE) {
            return None;
        }
        pool.asked = Some((id, Instant::now()));
        drop(pool);
        let masked = Arc::unwrap_or_clone(masked);
        let masked = match kind {
            TaskKind::Model => {
                let deep = self.shared.engine.deep();
                ckks::write_ciphertext(deep.params(), deep.key_id(), &masked)
            }
            TaskKind::Scores { .. } | TaskKind::Sum => self.small_frame(masked),
        };
        Some(RaiseTask { id, kind, masked })
    }

    /// Gives the task of the bandit's own to a raiser that waits.
    pub(super) fn offer_task(&self) {
        if lock(&self.pool).raisers.iter().all(oneshot::Sender::is_closed) {
            return;
        }
        let Some(task) = self.own_task() else { return };
        let mut pool = lock(&self.pool);
        if pool.give(vec![task]).is_err() {
            // All are gone: the next one who comes is asked.
            pool.asked = None;
        }
    }

    /// A frame of a ciphertext of the ring of scores, at the canonical scale.
    pub(super) fn small_frame(&self, ciphertext: Ciphertext) -> Vec<u8> {
        let engine = &self.shared.engine;
        let scale = engine.params().scale(ciphertext.level());
        ckks::write_ciphertext(engine.params(), engine.key_id(), &ciphertext.with_scale(scale))
    }
}

/// Runs `work` on a thread for blocking work.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::Broken("a computation panicked"))?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An evaluation that ends leaves nothing behind, however it ends: no raise, no ticket, no task in the
    /// queue.
    #[test]
    fn evaluations_leave_nothing_behind() {
        let pool: Mutex<Pool> = Mutex::default();
        for id in 0..100 {
            let (sender, _raised) = oneshot::channel();
            let ticket = Ticket([id as u8; 16]);
            let task = RaiseTask { id, kind: TaskKind::Sum, masked: vec![1] };
            {
                let mut pool = lock(&pool);
                pool.raising.insert(id, (sender, 0));
                pool.tickets.insert(ticket, oneshot::channel().1);
                pool.queued.push_back(vec![task]);
                pool.asked = Some((id, Instant::now()));
            }
            drop(Raising { pool: &pool, task: id, tickets: vec![ticket] });
        }
        let pool = lock(&pool);
        assert!(pool.raising.is_empty() && pool.tickets.is_empty() && pool.queued.is_empty());
        assert!(pool.asked.is_none(), "a task that nobody came for is given to the next raiser");
    }

    /// Raisers who have left make room for the next.
    #[test]
    fn raisers_who_left_are_forgotten() {
        let mut pool = Pool::default();
        for _ in 0..100 {
            drop(pool.wait_for_tasks());
        }
        let waits = pool.wait_for_tasks();
        assert_eq!(pool.raisers.len(), 1);
        assert!(pool.give(Vec::new()).is_ok() && pool.give(Vec::new()).is_err());
        drop(waits);
    }
}
