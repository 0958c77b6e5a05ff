//! Evaluations: users who wait are gathered into a pack, a holder of the key raises it, and all are answered.
//!
//! | stage | begins |
//! |---|---|
//! | gathering | with the first user who waits |
//! | sealed: packed, masked, handed to a raiser | [`WINDOW`] later, or at once after an evaluation of one request, when no other evaluation of the bandit and at most two of the server are under way, and all contexts are in the pack that had arrived by then; a full pack, when no other one of the bandit waits for its raise |
//! | evaluated and answered | when the raised scores are there and no other evaluation computes |
//!
//! A raiser is a program that waits at `GET …/raises`, or was there a moment ago, or else a user of the
//! evaluation, who gets the task in place of its answer. A raise that does not come within two seconds is
//! asked of the next one. All are asked for the same masked ciphertext, which says no more twice than once.
//!
//! An evaluation of several requests asks twice: for the raise of its scores, and for its answers, which a
//! user who has not been asked yet is asked for before one who has.
//!
//! | file | what |
//! |---|---|
//! | `pool` | users who wait, raisers who wait, and the turns of evaluations |
//! | `evaluate` | an evaluation from the seal of its pack to the answers |
//! | `pack` | what users bring to an evaluation |
//! | `staged` | an evaluation in stages |
//! | `raises` | who is asked for a task |
//! | `holders` | holders of the key who come for tasks |
//! | `uploads` | uploads under the pads of users with keys of their own |

mod evaluate;
mod holders;
mod pack;
mod raises;
mod staged;
mod uploads;

use super::EncryptedServed;
use super::again::{Sent, UNIT};
use super::workers::Workers;
use crate::Settings;
use crate::error::Error;
use crate::metrics::Metrics;
use ckks::{Ciphertext, SeededCoefficients};
use helba::{ScoresModel, StageReply, StagedEngine, TraceTest};
pub(super) use holders::Holder;
use holders::Holders;
use host::lock;
pub(super) use pack::{Brought, Pack};
use protocol::TaskKind;
use rayon::ThreadPool;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
pub(super) use uploads::Uploads;
use wire::{DecideReply, Enrolment, Nonce, PadsOf, RaiseTask, Ticket, UserPads};

/// The time for which further users are gathered, but after an evaluation of one request.
const WINDOW: Duration = Duration::from_millis(10);
/// The longest time for which an evaluation whose turn has come waits for contexts that had arrived before.
const GATHERING: Duration = Duration::from_millis(500);
/// The time for which a task waits for a raiser who was there this long ago and is busy.
const RAISER_RETURNS: Duration = Duration::from_secs(1);
/// The pause after an evaluation of a user alone whose contexts spoilt others, in times of its turn.
const ALONE_PAUSES: u32 = 9;
/// The most evaluations of a server that have left their turns.
const MOST_LATE: usize = 16;

/// The turns that all encrypted bandits of a server share.
#[derive(Clone)]
pub(crate) struct Stages {
    /// Evaluations from seal to answer. While one computes, two are raised, so that a bandit of full packs
    /// leaves room for another one.
    sealed: Arc<Semaphore>,
    /// Evaluations whose raise is late.
    late: Arc<Semaphore>,
    /// Evaluations that compute.
    pub(super) computing: Arc<Semaphore>,
    /// Uploads that are read and multiplied.
    pub(super) uploads: Arc<Semaphore>,
    /// Threads for uploads and feedback.
    pub(super) workers: Workers,
    /// Threads for other work of some milliseconds, which is not to wait for an evaluation.
    pub(super) short: Arc<ThreadPool>,
    /// Bodies of raises that are read.
    pub(crate) raises: Arc<Semaphore>,
    /// Users who wait, or have waited in an evaluation that has not ended.
    pub(super) waiting: Arc<Semaphore>,
    /// The time after which an evaluation without a raise ends.
    longest_raise: Duration,
    /// The time after which an evaluation without a raise leaves its turn to another one.
    raise_turn: Duration,
    /// The time that the last one who can be asked for a raise gets.
    last_raise: Duration,
    /// The longest time for which an evaluation in stages waits for silent holders of the key.
    stage_patience: Duration,
    /// Memory for the contexts of evaluations that may be repeated.
    pub(super) contexts: Arc<Semaphore>,
    /// The time after its answer in which a user may ask again.
    pub(super) ask_again: Duration,
    /// The most users who wait.
    most_waiting: usize,
    pub(super) metrics: Arc<Metrics>,
}

impl Stages {
    /// Fresh turns, with the bounds of a server.
    pub(crate) fn new(settings: &Settings, metrics: Arc<Metrics>) -> Result<Self, Error> {
        let semaphore = |permits: usize| Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)));
        let threads = rayon::current_num_threads();
        let short = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let name = short.thread_name(|i| format!("short-{i}"));
        let short = Arc::new(name.build().map_err(|_| Error::Broken("threads that do not start"))?);
        Ok(Stages {
            workers: Workers::start(threads)?,
            sealed: semaphore(3),
            late: semaphore(MOST_LATE),
            computing: semaphore(1),
            uploads: semaphore(threads + 1),
            raises: semaphore(threads + 1),
            waiting: semaphore(settings.max_waiting),
            short,
            longest_raise: settings.raise_timeout,
            raise_turn: settings.raise_turn,
            last_raise: settings.last_raise,
            stage_patience: settings.stage_patience,
            contexts: semaphore(settings.context_memory / UNIT),
            ask_again: settings.ask_again,
            most_waiting: settings.max_waiting.min(Semaphore::MAX_PERMITS),
            metrics,
        })
    }

    /// The number of requests for encrypted decisions and of encrypted feedbacks that wait.
    pub(crate) fn requests_waiting(&self) -> usize {
        self.most_waiting.saturating_sub(self.waiting.available_permits())
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
    /// `None` if the next evaluation of the bandit may begin: the raise is late, or a full pack waits.
    _bandit: Option<OwnedSemaphorePermit>,
    _server: OwnedSemaphorePermit,
    began: Instant,
    /// If the raise was late, the time until then, and what the evaluation has computed since.
    left: Option<Duration>,
}

impl Turn {
    /// Leaves the turn to the next evaluation of the bandit, for a `place` among those whose raise is late.
    fn leave(&mut self, place: OwnedSemaphorePermit) {
        self.left = Some(self.held());
        (self._bandit, self._server) = (None, place);
    }

    /// Lets the next evaluation of the bandit be sealed and raised while this one computes.
    fn pass(&mut self) {
        self._bandit = None;
    }

    /// Whether the next evaluation of the bandit waits for the end of this one.
    fn is_held(&self) -> bool {
        self._bandit.is_some()
    }

    /// Counts time for which the evaluation has computed.
    fn computed(&mut self, took: Duration) {
        if let Some(left) = &mut self.left {
            *left += took;
        }
    }

    /// The time for which the evaluation has held up others.
    fn held(&self) -> Duration {
        self.left.unwrap_or_else(|| self.began.elapsed())
    }
}

/// The answer to a user who waits.
pub(super) type Outcome = Result<DecideReply, Error>;

/// What waits for a bandit.
#[derive(Default)]
pub(super) struct Pool {
    gathering: Option<Gathering>,
    /// The number of packs that were opened.
    opened: u64,
    /// Whether the last evaluation was of one request, so that the next request waits for no company.
    lone: bool,
    /// Where that goes which an evaluation waits for.
    raising: HashMap<u64, Awaited>,
    /// The places of users who were asked to raise.
    tickets: HashMap<Ticket, oneshot::Receiver<Outcome>>,
    /// Programs that wait for tasks.
    raisers: VecDeque<(Holder, oneshot::Sender<Vec<RaiseTask>>)>,
    /// Tasks for the next raiser who comes.
    queued: VecDeque<Queued>,
    /// Who took a task of a stage from the queue.
    fetched: HashMap<u64, Holder>,
    holders: Holders,
    /// The last task of the bandit's own that was given out.
    asked: Option<AskedOwn>,
}

/// A task of the bandit's own that was given out.
struct AskedOwn {
    task: u64,
    when: Instant,
    /// To whom, if it was one who came for tasks.
    to: Option<Holder>,
}

/// Tasks for the next raiser who comes.
struct Queued {
    tasks: Vec<RaiseTask>,
    /// Who does not get them.
    not: Vec<Holder>,
}

/// Where that goes which an evaluation waits for.
pub(super) enum Awaited {
    /// Its raised scores, at this level.
    Scores(oneshot::Sender<Ciphertext>, usize),
    /// Its answers, still under their mask, for so many users with keys of their own.
    Answers(oneshot::Sender<(SeededCoefficients, Nonces)>, usize),
    /// What becomes of this step of its stages, for so many such users, and who answers it.
    Stage(oneshot::Sender<Staged>, Arc<StagedEngine>, usize, usize),
    /// The encryptions of minus the pads of uploads, whose frames have these bytes, of so many users.
    Pads(oneshot::Sender<Pads>, Vec<usize>, usize),
}

/// The nonce of the pads of each user's answer; `None` for one that the holder of the key refused.
pub(super) type Nonces = Vec<Option<Nonce>>;

/// Encryptions of minus the pads of uploads ([`wire::Raised::Pads`]).
pub(super) struct Pads {
    pub(super) frames: Vec<Vec<u8>>,
    pub(super) refused: Vec<u32>,
}

/// What a holder of the key made of a step of stages.
pub(super) struct Staged {
    pub(super) reply: StageReply,
    /// Of the pads of its answers.
    pub(super) nonces: Nonces,
    pub(super) holder: Holder,
}

/// What an evaluation waits for.
#[derive(Debug, Clone)]
pub(super) enum Wanted {
    /// Raised scores at this level.
    Scores(usize),
    /// Answers for so many users with keys of their own.
    Answers(usize),
    /// What becomes of this step of stages, for so many such users.
    Stage(Arc<StagedEngine>, usize, usize),
    /// Frames of so many bytes each, for so many users.
    Pads(Vec<usize>, usize),
}

/// What a holder of the key made of an evaluation.
pub(super) enum Given {
    /// Raised scores.
    Scores(Ciphertext),
    /// Answers, still under their mask, and the nonces of their pads.
    Answers(SeededCoefficients, Nonces),
    /// What became of a step of stages.
    Stage(Staged),
    /// Encryptions of minus the pads of uploads.
    Pads(Pads),
}

/// A pack that is still open.
struct Gathering {
    /// Which pack of the bandit it is.
    number: u64,
    pack: Pack,
    model: ScoresModel,
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
    /// Under whose pads its answers are, if users have keys of their own.
    pub(super) enrolment: Option<Arc<Enrolment>>,
    /// Its contexts, if they are kept.
    pub(super) sent: Option<Sent>,
}

/// What the users of an evaluation are answered with.
pub(super) struct AnswerFrame {
    /// Of a ciphertext, or of coefficients under pads.
    pub(super) frame: Vec<u8>,
    /// The nonce of the pads, if users have keys of their own: `None` in it if the holder of the key refused
    /// the user.
    pub(super) nonce: Option<Option<Nonce>>,
}

/// The pads of the answers of `users`, in their order, if these have keys of their own.
pub(super) fn pads_of_answers(users: &[User]) -> Vec<UserPads> {
    let of = |user: &User| {
        let numbers = user.numbers.iter().map(|number| *number as u32).collect();
        Some(UserPads { enrolment: user.enrolment.as_ref()?.to_bytes(), of: PadsOf::Answer(numbers) })
    };
    users.iter().filter_map(of).collect()
}

/// The answers of users in their order, with the nonces of their pads if there are any.
pub(super) fn answer_frames(frames: Vec<Vec<u8>>, nonces: Nonces) -> Vec<AnswerFrame> {
    let mut nonces = nonces.into_iter();
    frames.into_iter().map(|frame| AnswerFrame { frame, nonce: nonces.next() }).collect()
}

/// Requests whose contexts share their ciphertexts.
pub(super) struct Together {
    /// The decisions in them.
    pub(super) decisions: usize,
    pub(super) joining: Vec<Joining>,
}

/// What a request asks for beside its scores.
pub(super) struct Joining {
    /// Its first decision among those that share the ciphertexts.
    pub(super) first: usize,
    /// The number of decisions.
    pub(super) decisions: usize,
    pub(super) place: OwnedSemaphorePermit,
    /// As in [`User`].
    pub(super) enrolment: Option<Arc<Enrolment>>,
    /// As in [`User`].
    pub(super) sent: Option<Sent>,
}

impl Pool {
    /// How long a pack is open at least.
    fn window(&self) -> Duration {
        if self.lone { Duration::ZERO } else { WINDOW }
    }

    /// Forgets who has the task of the bandit's own, which the next holder is asked for.
    pub(super) fn forget_asked(&mut self) {
        self.asked = None;
    }

    /// Notes an evaluation of so many requests.
    fn evaluates(&mut self, requests: usize) {
        self.lone = requests == 1;
    }

    /// What an evaluation waits for.
    pub(super) fn waits(&self, id: u64) -> Result<Wanted, Error> {
        match self.raising.get(&id) {
            Some(Awaited::Scores(_, level)) => Ok(Wanted::Scores(*level)),
            Some(Awaited::Answers(_, users)) => Ok(Wanted::Answers(*users)),
            Some(Awaited::Stage(_, engine, step, users)) => Ok(Wanted::Stage(engine.clone(), *step, *users)),
            Some(Awaited::Pads(_, lengths, users)) => Ok(Wanted::Pads(lengths.clone(), *users)),
            None => Err(Error::TaskOver { task: id }),
        }
    }

    /// Gives an evaluation what it waits for.
    pub(super) fn take_raise(&mut self, id: u64, given: Given) -> Result<(), Error> {
        let taken = match (self.raising.remove(&id), given) {
            (Some(Awaited::Scores(sender, _)), Given::Scores(raised)) => sender.send(raised).is_ok(),
            (Some(Awaited::Answers(sender, _)), Given::Answers(answers, nonces)) => {
                sender.send((answers, nonces)).is_ok()
            }
            (Some(Awaited::Stage(sender, ..)), Given::Stage(staged)) => sender.send(staged).is_ok(),
            (Some(Awaited::Pads(sender, ..)), Given::Pads(pads)) => sender.send(pads).is_ok(),
            (Some(other), _) => {
                self.raising.insert(id, other);
                false
            }
            (None, _) => false,
        };
        if taken { Ok(()) } else { Err(Error::TaskOver { task: id }) }
    }

    /// The number of users in the open pack.
    pub(super) fn users_waiting(&self) -> usize {
        self.gathering.as_ref().map_or(0, |gathering| gathering.users.len())
    }

    /// Whether an evaluation waits for a holder of the key.
    pub(super) fn is_raising(&self) -> bool {
        !self.raising.is_empty()
    }

    /// Whether a user with this ticket waits.
    pub(super) fn has_ticket(&self, ticket: Ticket) -> bool {
        self.tickets.contains_key(&ticket)
    }

    /// Where the user with this ticket waits.
    pub(super) fn take_ticket(&mut self, ticket: Ticket) -> Option<oneshot::Receiver<Outcome>> {
        self.tickets.remove(&ticket)
    }

    /// Waits for tasks as a raiser.
    pub(super) fn wait_for_tasks(&mut self, holder: Holder) -> oneshot::Receiver<Vec<RaiseTask>> {
        let (sender, receiver) = oneshot::channel();
        self.holders.see(&holder, Instant::now());
        if let Some(tasks) = self.take_queued(&holder) {
            // The receiver is here, so that this succeeds.
            let _ = sender.send(tasks);
            return receiver;
        }
        self.raisers.retain(|(_, raiser)| !raiser.is_closed());
        self.raisers.push_back((holder, sender));
        receiver
    }

    /// Tasks that wait for the next raiser who comes.
    pub(super) fn take_queued(&mut self, holder: &Holder) -> Option<Vec<RaiseTask>> {
        // Evaluations may have ended since.
        let Pool { queued, raising, .. } = self;
        queued.retain(|queued| queued.tasks.iter().any(|task| raising.contains_key(&task.id)));
        let at = queued.iter().position(|queued| !queued.not.contains(holder))?;
        let Queued { tasks, .. } = queued.remove(at)?;
        for task in tasks.iter().filter(|task| matches!(task.kind, TaskKind::Stage { .. })) {
            self.fetched.insert(task.id, holder.clone());
        }
        Some(tasks)
    }

    /// Notes that a holder answered a task, in time or not.
    pub(super) fn answered(&mut self, holder: &Holder, task: u64) {
        self.holders.answered(holder, task);
    }

    /// Whether a raiser is here, or was a moment ago.
    pub(super) fn has_raiser(&self) -> bool {
        self.holders.any(Instant::now()) || self.raisers.iter().any(|(_, raiser)| !raiser.is_closed())
    }

    /// Whether others are asked in place of this holder, because it was silent.
    fn is_passed_over(&self, holder: &Holder) -> bool {
        self.holders.rests(holder, Instant::now()) && self.has_another(holder)
    }

    /// Whether a holder can be asked who is another one.
    fn has_another(&self, holder: &Holder) -> bool {
        let waits =
            |of: &Holder| self.raisers.iter().any(|(other, raiser)| other == of && !raiser.is_closed());
        self.holders.to_ask(waits, Instant::now())[0].iter().any(|other| other != holder)
    }

    /// Takes back a task that no raiser came for, and returns whether it was in the queue.
    fn withdraw(&mut self, id: u64) -> bool {
        let before = self.queued.len();
        self.queued.retain(|queued| queued.tasks.iter().all(|task| task.id != id));
        let was_queued = self.queued.len() < before;
        if was_queued {
            // A task of the bandit's own may have been with it: the next one who comes is asked.
            self.asked = None;
        }
        was_queued
    }

    /// Gives `tasks` to a raiser that waits and may have them, or returns them.
    fn give(
        &mut self,
        mut tasks: Vec<RaiseTask>,
        may: impl Fn(&Holder) -> bool,
    ) -> Result<Holder, Vec<RaiseTask>> {
        while let Some(at) = self.raisers.iter().position(|(holder, _)| may(holder))
            && let Some((holder, raiser)) = self.raisers.remove(at)
        {
            match raiser.send(tasks) {
                Ok(()) => return Ok(holder),
                Err(back) => tasks = back,
            }
        }
        Err(tasks)
    }
}

impl EncryptedServed {
    /// Adds the scores of users to the pack that is open, and returns where their outcomes come. `model` is
    /// the one that the scores were computed with, of that many feedbacks. `together` is taken if they join.
    /// If the pack has no room for their decisions, another one is opened.
    pub(super) fn join(
        self: &Arc<Self>,
        brought: Brought,
        together: &mut Option<Together>,
        (model, model_feedbacks): (&ScoresModel, u64),
    ) -> Result<Option<Vec<oneshot::Receiver<Outcome>>>, Error> {
        let layout = &self.exchanges.layout;
        let decisions = together.as_ref().map_or(1, |together| together.decisions);
        let (log, most) = (layout.log_places(decisions).map_err(helba::Error::from)?, layout.users().end);
        let mut pool = lock(&self.pool);
        if let Some(gathering) = &pool.gathering
            && !gathering.model.is(model)
        {
            // The model changed since one of the two was made: the caller multiplies again, or seals.
            if gathering.model.is(lock(&self.live).bandit.scores_model()) {
                return Ok(None);
            }
            pool.gathering.take().into_iter().for_each(|old| self.spawn(old));
        }
        if pool.gathering.as_ref().is_some_and(|open| open.pack.after(decisions, log) > most) {
            pool.gathering.take().into_iter().for_each(|full| self.spawn(full));
        }
        let fresh = pool.gathering.is_none();
        if fresh {
            let (pack, test) = self.empty_pack(model)?;
            pool.opened += 1;
            let (number, model, users) = (pool.opened, model.clone(), Vec::new());
            pool.gathering = Some(Gathering { number, pack, model, model_feedbacks, test, users });
        }
        let (mut receivers, mut full) = (None, false);
        if let Some(gathering) = &mut pool.gathering
            && let Some(together) = together.take()
        {
            receivers = Some(self.add(gathering, brought, together)?);
            full = gathering.pack.len() == most;
        }
        if full {
            pool.gathering.take().into_iter().for_each(|full| self.spawn(full));
        } else if fresh {
            let (served, number) = (self.clone(), pool.opened);
            tokio::spawn(async move { served.close_later(number, Instant::now()).await });
        }
        Ok(receivers)
    }

    /// Evaluates the scores of a user alone, and returns where its outcome comes. At most one such evaluation
    /// waits for its turn, and they take at most a tenth of the time, so that they hold up no other user.
    /// `own` are the places of its sender.
    pub(super) fn join_alone(
        self: &Arc<Self>,
        brought: Brought,
        together: Together,
        (model, model_feedbacks): (&ScoresModel, u64),
        own: &Arc<Semaphore>,
    ) -> Result<Vec<oneshot::Receiver<Outcome>>, Error> {
        let take =
            |places: &Arc<Semaphore>| places.clone().try_acquire_owned().map_err(|_| Error::Overloaded);
        let waits = (take(own)?, take(&self.alone_waiting)?);
        // Its contexts may spoil what the trace is compared with.
        let (pack, model) = (self.pack_without_trace()?, model.clone());
        let (number, users) = (0, Vec::new());
        let mut gathering = Gathering { number, pack, model, model_feedbacks, test: None, users };
        let receivers = self.add(&mut gathering, brought, together)?;
        let served = self.clone();
        tokio::spawn(async move {
            let Ok(alone) = served.alone.clone().acquire_owned().await else { return };
            drop(waits);
            let Some(turn) = served.turn().await else { return };
            let held = served.evaluate(gathering, turn).await;
            tokio::time::sleep(ALONE_PAUSES * held).await;
            drop(alone);
        });
        Ok(receivers)
    }

    fn add(
        &self,
        gathering: &mut Gathering,
        brought: Brought,
        Together { decisions, joining }: Together,
    ) -> Result<Vec<oneshot::Receiver<Outcome>>, Error> {
        let numbers = self.push(&mut gathering.pack, brought, decisions)?;
        let mut receivers = Vec::new();
        for Joining { first, decisions, place, enrolment, sent } in joining {
            let numbers = numbers[first..first + decisions].to_vec();
            let (sender, receiver) = oneshot::channel();
            let (round, answers, _place) = (0, 0, Some(place));
            gathering.users.push(User { numbers, round, answers, sender, _place, enrolment, sent });
            receivers.push(receiver);
        }
        Ok(receivers)
    }

    /// The number of users in the open pack.
    pub(crate) fn users_waiting(&self) -> usize {
        lock(&self.pool).users_waiting()
    }

    /// The number of raisers who wait for tasks.
    pub(crate) fn raisers_waiting(&self) -> usize {
        lock(&self.pool).raisers.iter().filter(|(_, raiser)| !raiser.is_closed()).count()
    }

    /// Closes the pack with this number after the window, when its turn comes. More users join it until then.
    /// A pack that was full has been closed before.
    async fn close_later(self: Arc<Self>, number: u64, opened: Instant) {
        let window = lock(&self.pool).window();
        tokio::time::sleep(window.saturating_sub(opened.elapsed())).await;
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
        Some(Turn { _bandit: Some(bandit), _server: server, began: Instant::now(), left: None })
    }

    /// Evaluates a pack that is closed when its turn comes.
    fn spawn(self: &Arc<Self>, gathering: Gathering) {
        let served = self.clone();
        served.closed.send_modify(|packs| *packs += 1);
        tokio::spawn(async move {
            let turn = served.turn().await;
            served.closed.send_modify(|packs| *packs -= 1);
            let Some(turn) = turn else { return };
            served.evaluate(gathering, turn).await;
        });
    }

    /// Waits until a closed pack waits for its turn.
    async fn closed_pack(&self) {
        // The sender lives as long as the bandit.
        let _ = self.closed.subscribe().wait_for(|packs| *packs > 0).await;
    }

    /// Ends what waits, after the bandit was deleted: users get an error, and raisers nothing.
    pub(super) fn end_all(&self) {
        let Pool { gathering, .. } = std::mem::take(&mut *lock(&self.pool));
        for user in gathering.into_iter().flat_map(|gathering| gathering.users) {
            let _ = user.sender.send(Err(self.deleted()));
        }
        std::mem::take(&mut *lock(&self.keeping)).end(|| self.deleted());
    }

    /// A frame of a ciphertext of the ring of scores, at the canonical scale.
    pub(super) fn small_frame(&self, ciphertext: Ciphertext) -> Vec<u8> {
        let engine = &self.shared.engine;
        let scale = engine.params().scale(ciphertext.level());
        ckks::write_ciphertext(engine.params(), engine.key_id(), &ciphertext.with_scale(scale))
    }
}

/// Runs `work` on a thread for blocking work.
pub(in crate::bandits) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::Broken("a computation panicked"))?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request that follows on one that was evaluated alone waits for no company, until two come again.
    #[test]
    fn a_lone_user_waits_for_no_company() {
        let mut pool = Pool::default();
        assert_eq!(pool.window(), WINDOW);
        pool.evaluates(1);
        assert_eq!(pool.window(), Duration::ZERO);
        pool.evaluates(2);
        assert_eq!(pool.window(), WINDOW);
    }

    /// An evaluation whose raise is late holds up others until it leaves its turn, and while it computes.
    #[test]
    fn a_late_raise_is_no_part_of_a_turn() {
        let permit = || Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let began = Instant::now() - Duration::from_secs(1);
        let mut turn = Turn { _bandit: Some(permit()), _server: permit(), began, left: None };
        turn.computed(Duration::from_secs(5));
        assert!(turn.held() >= Duration::from_secs(1) && turn.held() < Duration::from_secs(5));
        turn.leave(permit());
        let left = turn.held();
        turn.computed(Duration::from_secs(5));
        assert_eq!(turn.held(), left + Duration::from_secs(5));
        assert!(turn._bandit.is_none());
    }

    /// Raisers who have left make room for the next.
    #[test]
    fn raisers_who_left_are_forgotten() {
        let mut pool = Pool::default();
        for _ in 0..100 {
            drop(pool.wait_for_tasks("one".into()));
        }
        let waits = pool.wait_for_tasks("one".into());
        assert_eq!(pool.raisers.len(), 1);
        let mut give = |to: &str| pool.give(Vec::new(), |holder| **holder == *to).is_ok();
        assert!(!give("another") && give("one") && !give("one"));
        drop(waits);
    }
}
