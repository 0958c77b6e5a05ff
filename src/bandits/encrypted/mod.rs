//! Encrypted bandits. A decision request holds contexts in the ring of scores. It waits until a holder of the
//! key has raised the scores of all who wait with it, and its answer is the encrypted action. In the open
//! tier the scores themselves are the answer, at once, and with `compare: pbs` one that is computed for this
//! user alone. A feedback is some coefficients of a ciphertext, and
//! is acknowledged when the log has them on disk.
//!
//! `pool` is locked before `live`, and no other lock is taken while `keeping`, `senders`, `heads` or
//! `moves_to` is held. None of these is held during a long computation.

mod again;
mod audit;
mod bootstraps;
mod committee;
mod erasure;
mod measured;
mod pace;
mod pool;
mod rotation;
mod senders;
mod state;
#[cfg(test)]
mod tests;
mod trace;
mod uploads;
mod workers;

use super::{BodyLimit, Listed, Reply};
use crate::access::Caller;
use crate::committee::Committee;
use crate::error::Error;
use crate::jobs::Updates;
use crate::metrics::Step;
use again::{Keeping, Sent};
pub use audit::{Audited, Audits};
pub(super) use bootstraps::Bootstraps;
use ckks::Ciphertext;
use helba::{Applied, EncryptedBandit, Engine, Event};
use host::{lock, os_rng};
use pace::{Arrivals, OnTheWay, Pace};
pub(crate) use pool::Stages;
use pool::{Joining, Outcome, Pool, blocking};
use protocol::{Answers, BanditConfig, Compare, DecisionId, Exchanges};
use rand::Rng;
pub(super) use rotation::take_all;
pub(crate) use senders::Sender;
use senders::Senders;
use service::{Body, Content};
use state::{Live, Pending, SNAPSHOT, listed};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::oneshot::Receiver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use trace::TraceRequests;
use uploads::Uploads;
use wire::{
    BanditView, CommitteeContexts, Created, DecideReply, Decision, Journal, Limits, MOST_JOURNAL, Raised,
    Raises, ShownCounters, SignedHead, Ticket,
};

/// The longest time for which a request for tasks may wait.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The most users of a bandit that wait to be evaluated alone.
const MOST_ALONE: usize = 64;

/// The parts that all encrypted bandits of a server share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) engine: Arc<Engine>,
    /// The committee that holds the keys, if there is one.
    pub(super) committee: Option<Arc<Committee>>,
    /// The bootstrapping keys, if the bundle has them and this build uses them.
    pub(super) bootstraps: Option<Bootstraps>,
    /// The folder of all encrypted bandits.
    pub(super) root: PathBuf,
    pub(super) updates: Updates,
    pub(super) stages: Stages,
    /// Whether whole logs are kept, for an audit.
    pub(super) keep_log: bool,
    /// The folder that the bandits move to, if they go on under other keys.
    pub(super) moves_to: Arc<Mutex<Option<PathBuf>>>,
}

/// A loaded encrypted bandit.
pub(crate) struct EncryptedServed {
    created: Created,
    limits: Limits,
    exchanges: Arc<Exchanges>,
    shared: Shared,
    live: Mutex<Live>,
    pool: Mutex<Pool>,
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
    /// The contexts that were taken, where a committee holds the keys.
    uploads: Mutex<Uploads>,
    /// One permit, held by the evaluation of a sender that is evaluated alone, and for a pause after it.
    alone: Arc<Semaphore>,
    /// Users of such senders who wait.
    alone_waiting: Arc<Semaphore>,
    /// One permit, held while a committee is asked for tasks of the bandit's own.
    own_tasks: Arc<Semaphore>,
    /// Under a committee, the last head of the journal that each member has signed.
    heads: Mutex<BTreeMap<u8, SignedHead>>,
    /// Locked while a snapshot is written.
    snapshots: Mutex<()>,
}

impl EncryptedServed {
    /// Creates a bandit and stores it under `id`, after `before` has taken the answer to the creation.
    ///
    /// # Errors
    /// Those of the configuration, of `before` and of the disk.
    pub(super) fn create(
        id: &str,
        config: BanditConfig,
        shared: Shared,
        before: impl FnOnce(Listed) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let mut secret = [0; 32];
        os_rng()?.fill_bytes(&mut secret);
        if shared.committee.is_some() {
            config.check_committee()?;
        }
        bootstraps::check(&config, &shared)?;
        let bandit = EncryptedBandit::create(&shared.engine, config, secret)?;
        before(Listed::Encrypted(Box::new(created(id, &bandit, &shared.engine))))?;
        let live = Live::create(&shared.root, id, &shared.engine, bandit, shared.keep_log)?;
        Self::new(id, live, shared)
    }

    /// Loads a stored bandit.
    ///
    /// # Errors
    /// [`Error::CorruptState`], [`Error::Log`], and those of the disk.
    pub(super) fn load(id: &str, shared: Shared, restored: bool) -> Result<Self, Error> {
        let mut live = Live::load(&shared.root, id, &shared.engine, shared.keep_log)?;
        if restored {
            live.skip_rounds(&shared.engine)?;
        }
        Self::new(id, live, shared)
    }

    fn new(id: &str, live: Live, shared: Shared) -> Result<Self, Error> {
        let engine = &shared.engine;
        let (deep, small) = (engine.deep(), engine.params());
        let (config, plan) = (live.bandit.config().clone(), live.bandit.plan().clone());
        let exchanges = live.bandit.exchanges().clone();
        let answers = engine.answer_params();
        let mut limits = Limits::new(deep.params(), small, answers, &config, &plan, &exchanges.layout)?;
        if shared.committee.is_some() {
            limits = limits.under_committee(small, &exchanges.layout);
        }
        let created = created(id, &live.bandit, engine);
        let (live, pool, snapshots) = (Mutex::new(live), Mutex::default(), Mutex::new(()));
        let (pace, turns) = (Mutex::new(Pace::new(Instant::now())), Arc::new(Semaphore::new(1)));
        let [searches, alone, own_tasks] = [(); 3].map(|()| Arc::new(Semaphore::new(1)));
        Ok(EncryptedServed {
            created,
            limits,
            exchanges,
            shared,
            live,
            pool,
            turns,
            closed: watch::Sender::new(0),
            pace,
            arrivals: Arc::default(),
            asked: Mutex::default(),
            keeping: Mutex::default(),
            searches,
            senders: Mutex::default(),
            uploads: Mutex::default(),
            alone,
            alone_waiting: Arc::new(Semaphore::new(MOST_ALONE)),
            own_tasks,
            heads: Mutex::default(),
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
    ///
    /// # Errors
    /// [`Error::Log`].
    pub(super) fn view(&self) -> Result<BanditView, Error> {
        let live = lock(&self.live);
        let round = live.round;
        let waiting = round.saturating_sub(live.bandit.status(round, 0).feedbacks) as usize;
        let (status, stored) = (live.bandit.status(round, waiting), live.flush());
        drop(live);
        stored?.wait()?;
        Ok(BanditView { created: self.created.clone(), status, heads: self.heads() })
    }

    /// The last head of the journal that each member has signed since this server runs.
    fn heads(&self) -> Vec<SignedHead> {
        lock(&self.heads).values().cloned().collect()
    }

    /// Keeps a head that a member has signed, for the other members and for devices.
    ///
    /// # Errors
    /// [`Error::NoCommittee`]; [`Error::Wire`] unless a member signed it, for this bandit.
    pub(crate) fn note_head(&self, head: SignedHead) -> Result<(), Error> {
        let committee = self.shared.committee.as_ref().ok_or(Error::NoCommittee)?;
        head.check(committee.manifest())?;
        if head.bandit != self.created.id {
            return Err(wire::Error::Malformed("a head of the journal of another bandit").into());
        }
        let mut heads = lock(&self.heads);
        if let Some(other) = heads.values().find(|other| other.contradicts(&head)) {
            let (bandit, batch) = (&self.created.id, head.batch);
            tracing::error!(
                bandit,
                batch,
                one = other.member,
                other = head.member,
                "two members have signed different heads"
            );
        }
        match heads.get(&head.member) {
            Some(known) if known.batch > head.batch => {}
            _ => drop(heads.insert(head.member, head)),
        }
        Ok(())
    }

    /// The encrypted counters, when all that they show is on disk.
    ///
    /// # Errors
    /// [`Error::NoCounters`]; [`Error::Log`].
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

    /// Deletes it from the disk, and ends what waits.
    ///
    /// # Errors
    /// [`Error::UnknownBandit`], and those of the disk.
    pub(super) fn delete(&self) -> Result<(), Error> {
        let alone = lock(&self.snapshots);
        let mut live = lock(&self.live);
        if live.deleted {
            return Err(self.deleted());
        }
        // Before the folder is gone: what has moved would come back under the other keys.
        self.remove_rotated()?;
        live.delete()?;
        drop((live, alone));
        self.end_all();
        Ok(())
    }

    /// The longest body of a decision request.
    pub(super) fn decision_body(&self) -> BodyLimit {
        BodyLimit { bytes: self.limits.contexts, content: Content::Binary }
    }

    /// The longest body of a feedback.
    pub(super) fn feedback_body(&self) -> BodyLimit {
        BodyLimit { bytes: self.limits.feedback(), content: Content::Binary }
    }

    /// The longest body of raises.
    pub(crate) fn raises_body(&self) -> BodyLimit {
        BodyLimit { bytes: self.limits.raises(), content: Content::Binary }
    }

    /// Makes the decisions of a request.
    ///
    /// # Errors
    /// [`Error::Helba`] for contexts that are not those of this bandit, and for too many decisions;
    /// [`Error::Overloaded`]; [`Error::NotEvaluated`].
    pub(crate) async fn decide(
        self: Arc<Self>,
        body: Body,
        decisions: usize,
        sender: Sender,
    ) -> Result<Reply, Error> {
        self.check_stays()?;
        self.exchanges.layout.log_places(decisions).map_err(helba::Error::from)?;
        let stages = &self.shared.stages;
        let place = stages.waiting.clone().try_acquire_owned().map_err(|_| Error::Overloaded)?;
        lock(&self.pace).ask(Instant::now());
        let on_the_way = OnTheWay::new(self.arrivals.clone());
        let upload = stages.uploads.clone().acquire_owned().await;
        let served = self.clone();
        let joined = stages.workers.run(move || {
            let _until_placed = (upload, on_the_way);
            served.score(body, decisions, sender, place)
        });
        let outcome = match joined.await? {
            Scored::Answered(reply) => return Ok(Reply::Binary(reply.to_bytes())),
            Scored::Waits(outcome) => outcome,
            Scored::Compares { scores, model_feedbacks, place } => {
                let reply = self.bootstrap(scores, model_feedbacks, place).await?;
                return Ok(Reply::Binary(reply.to_bytes()));
            }
        };
        let reply: Outcome = outcome.await.map_err(|_| Error::Broken("an evaluation that was dropped"))?;
        Ok(Reply::Binary(reply?.to_bytes()))
    }

    /// Multiplies contexts by the model, and answers with the scores or adds them to the open pack.
    fn score(
        self: &Arc<Self>,
        body: Body,
        decisions: usize,
        sender: Sender,
        place: OwnedSemaphorePermit,
    ) -> Result<Scored, Error> {
        let mut place = Some(place);
        let mut began = Instant::now();
        let engine = &self.shared.engine;
        let stages = &self.shared.stages;
        let under_committee = self.shared.committee.is_some();
        let (contexts, answer_key) = stages.beside(|| -> Result<_, Error> {
            if !under_committee {
                return Ok((engine.read_contexts(&body)?, None));
            }
            let most = CommitteeContexts::contexts_bytes(engine.params());
            let sent = CommitteeContexts::read(&body, most)?;
            let hash = *blake3::hash(&body).as_bytes();
            if lock(&self.uploads).has(&hash) {
                return Err(sent_before());
            }
            let about = CommitteeContexts::about(&self.created.id, decisions, &sent.answer_key);
            let contexts = engine.read_proven_contexts(&sent.contexts, &about)?;
            Ok((contexts, Some((sent.answer_key, hash))))
        })?;
        let (answer_key, hash) = answer_key.unzip();
        let alone = lock(&self.senders).places(&sender, Instant::now());
        // A repeat would be another opening of what the same contexts lead to.
        let repeatable = !self.created.config.decides_alone() && alone.is_none() && !under_committee;
        let keeps = repeatable || under_committee;
        let kept: Option<Sent> = if keeps { stages.keep(sender, decisions, &body) } else { None };
        // Members refuse a pack whose requests are not all kept.
        if under_committee && kept.is_none() {
            return Err(Error::Overloaded);
        }
        // Another request may have sent the same meanwhile.
        if hash.is_some_and(|hash| !lock(&self.uploads).take(hash)) {
            return Err(sent_before());
        }
        let (sent, upload) = if under_committee { (None, kept) } else { (kept, None) };
        drop(body);
        loop {
            let (model, model_feedbacks) = {
                let live = lock(&self.live);
                if live.deleted {
                    return Err(self.deleted());
                }
                (live.bandit.scores_model().clone(), live.bandit.model_feedbacks())
            };
            let scores = stages.beside(|| engine.score(&contexts, &model))?;
            stages.metrics.took(Step::Scores, began.elapsed());
            began = Instant::now();
            if self.created.config.answers == Answers::Scores {
                let mut rng = os_rng()?;
                let answer = stages.beside(|| self.small_frame(engine.open_answer(scores, &mut rng)));
                let count = decisions as u64;
                let rounds = (self.take_rounds(count)?, count);
                return Ok(Scored::Answered(self.answered_alone(rounds, model_feedbacks, answer)));
            }
            if self.created.config.compare == Compare::Pbs
                && let Some(place) = place.take()
            {
                return Ok(Scored::Compares { scores, model_feedbacks, place });
            }
            let model = (&model, model_feedbacks);
            let (sent, answer_key, upload) = (sent.clone(), answer_key.clone(), upload.clone());
            let joining = Joining { decisions, sent, answer_key, upload };
            let outcome = match &alone {
                Some(own) => Some(self.join_alone(scores, joining, model, &mut place, own)?),
                None => self.join(scores, joining, model, &mut place)?,
            };
            if let Some(outcome) = outcome {
                return Ok(Scored::Waits(outcome));
            }
        }
    }

    /// The reply to a request that is answered without others, for `count` decisions from the round `first`.
    fn answered_alone(
        &self,
        (first, count): (u64, u64),
        model_feedbacks: u64,
        answer: Vec<u8>,
    ) -> DecideReply {
        let (id, others) = {
            let live = lock(&self.live);
            let id = |round| live.bandit.decision_id(round);
            (id(first), (first + 1..first + count).map(id).collect())
        };
        let (round, user, users, question) = (first, 0, count as u32, None);
        let decision = Decision { id, others, round, model_feedbacks, user, users, answer, question };
        // A raiser that comes and goes answers it, if there is one.
        let raiser = lock(&self.pool).has_raiser();
        let tasks = if raiser { Vec::new() } else { self.own_task().into_iter().collect() };
        DecideReply { decision: Some(decision), ticket: None, tasks }
    }

    /// The records of the log after the first `after`, for members of a committee.
    ///
    /// # Errors
    /// [`Error::NoCommittee`]; [`Error::Log`]; [`Error::UnknownBandit`] after it was deleted.
    pub(crate) fn journal(&self, after: u64) -> Result<Reply, Error> {
        if self.shared.committee.is_none() {
            return Err(Error::NoCommittee);
        }
        let (recent, folder) = {
            let live = lock(&self.live);
            if live.deleted {
                return Err(self.deleted());
            }
            (live.recent(after), live.folder().to_path_buf())
        };
        let mut bytes = 0;
        let fits = |record: &Arc<Vec<u8>>| {
            bytes += record.len() + 8;
            bytes <= MOST_JOURNAL
        };
        let records = match recent {
            Some(recent) => recent.into_iter().take_while(fits).map(Arc::unwrap_or_clone).collect(),
            None => state::records(&folder, &self.created.id, &self.shared.engine, after, MOST_JOURNAL / 2)?,
        };
        Ok(Reply::Binary(Journal { records, heads: self.heads() }.to_bytes()))
    }

    /// The first of the next `count` rounds, which are reserved on disk when this returns.
    ///
    /// # Errors
    /// [`Error::Log`]; [`Error::UnknownBandit`] after it was deleted.
    fn take_rounds(&self, count: u64) -> Result<u64, Error> {
        let rounds = {
            let mut live = lock(&self.live);
            if live.deleted {
                return Err(self.deleted());
            }
            live.take_rounds(&self.shared.engine, count)?
        };
        rounds.wait()
    }

    /// Counts a feedback, which is durable when this returns. It waits for the disk with others, and holds no
    /// thread meanwhile.
    ///
    /// # Errors
    /// [`Error::Helba`] for an unknown decision and for a frame that is not one of this bandit;
    /// [`Error::Overloaded`]; [`Error::Log`].
    pub(crate) async fn feedback(self: Arc<Self>, decision: DecisionId, body: Body) -> Result<Reply, Error> {
        self.check_stays()?;
        let stages = &self.shared.stages;
        let began = Instant::now();
        let _waiting = stages.waiting.clone().try_acquire_owned().map_err(|_| Error::Overloaded)?;
        let served = self.clone();
        let counted = stages.workers.run(move || {
            served.check_proof(decision, &body)?;
            let mut live = lock(&served.live);
            if live.deleted {
                return Err(served.deleted());
            }
            // What moves is read under this lock, after the bandit has stopped to learn.
            served.check_stays()?;
            match live.bandit.waiting(decision)? {
                Ok(round) => {
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
        let asks = {
            let live = lock(&self.live);
            live.bandit.task().is_some() || live.bandit.check().is_some()
        };
        if asks {
            blocking(move || {
                self.offer_task();
                Ok(())
            })
            .await?;
        }
        Ok(reply)
    }

    /// Checks the proof of a feedback under a committee, if the decision waits for one. The state is free
    /// meanwhile.
    ///
    /// # Errors
    /// As [`Self::feedback`].
    fn check_proof(&self, decision: DecisionId, body: &[u8]) -> Result<(), Error> {
        if self.shared.committee.is_none() {
            return Ok(());
        }
        let waits = {
            let live = lock(&self.live);
            if live.deleted {
                return Err(self.deleted());
            }
            live.bandit.waiting(decision)?
        };
        if let Ok(round) = waits {
            let about = wire::feedback_about(&self.created.id, round);
            self.shared.engine.read_proven_feedback(&self.exchanges.layout, body, &about)?;
        }
        Ok(())
    }

    /// Takes the answers of a raiser. A user who was asked in place of its answer gets its answer here. A
    /// `caller` whose token permits decisions only raises scores, under the ticket of its request.
    ///
    /// # Errors
    /// [`Error::ForbiddenScope`];
    /// [`Error::TaskOver`] if a task was answered before or has ended; those of the frames.
    pub(crate) async fn raises(self: Arc<Self>, body: Body, caller: Caller) -> Result<Reply, Error> {
        self.check_holders()?;
        let turn = self.shared.stages.raises.clone().acquire_owned().await;
        let served = self.clone();
        let work = move || {
            let _turn = turn;
            served.take_raises(&body, &caller)
        };
        let waits = blocking(work).await?;
        let reply = match waits {
            Some(outcome) => outcome.await.map_err(|_| Error::Broken("an evaluation that was dropped"))??,
            None => DecideReply::default(),
        };
        Ok(Reply::Binary(reply.to_bytes()))
    }

    /// Refuses raisers where a committee holds the keys.
    fn check_holders(&self) -> Result<(), Error> {
        if self.shared.committee.is_some() { Err(Error::HasCommittee) } else { Ok(()) }
    }

    fn take_raises(
        self: &Arc<Self>,
        body: &[u8],
        caller: &Caller,
    ) -> Result<Option<Receiver<Outcome>>, Error> {
        let message = Raises::read(body, &self.limits)?;
        let all = || caller.check_raises_all();
        let asked = message.ticket.is_some_and(|ticket| lock(&self.pool).has_ticket(ticket));
        // Whoever is too late learns that.
        let scores = |task| if asked { Ok(()) } else { lock(&self.pool).waits(task).and_then(|_| all()) };
        let (mut outcome, mut refused) = (None, None);
        for (task, raised) in message.raised {
            let done = match raised {
                Raised::Scores(frame) => {
                    scores(task).and_then(|()| self.take_scores(task, &frame, message.ticket, &mut outcome))
                }
                Raised::Sum(frame) => {
                    all().and_then(|()| self.answer_task(task, Event::Raised { task, frame }))
                }
                Raised::Model { deep, scores } => {
                    all().and_then(|()| self.answer_task(task, Event::Refreshed { task, deep, scores }))
                }
            };
            if let Err(error) = done {
                refused.get_or_insert(error);
            }
        }
        match (outcome, refused) {
            // The decision counts, whatever became of the tasks beside it.
            (Some(outcome), _) => Ok(Some(outcome)),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(None),
        }
    }

    /// Takes the raised scores of an evaluation, and the place where the user with `ticket` waits. If the
    /// frame is refused, nothing is taken, and evaluation and user wait on.
    fn take_scores(
        &self,
        task: u64,
        frame: &[u8],
        ticket: Option<Ticket>,
        outcome: &mut Option<Receiver<Outcome>>,
    ) -> Result<(), Error> {
        // Nothing is read for an evaluation that does not wait.
        let waits = lock(&self.pool).waits(task);
        let raised = match waits {
            Ok(level) => {
                let deep = self.shared.engine.deep();
                let read = || ckks::read_ciphertext(deep.params(), deep.key_id(), level, frame);
                Ok(rayon::scope(|_| read())?)
            }
            Err(over) => Err(over),
        };
        let mut pool = lock(&self.pool);
        // Before the raise: the tickets of an evaluation are void when it ends.
        let place = ticket.and_then(|ticket| pool.take_ticket(ticket));
        *outcome = outcome.take().or(place);
        // Where another raiser was faster, the user waits all the same.
        pool.take_raise(task, raised?)
    }

    /// Applies the answer to a task of the bandit's own.
    fn answer_task(self: &Arc<Self>, task: u64, event: Event) -> Result<(), Error> {
        // The state machine takes a model before it was asked for, since a replay has no updates.
        if lock(&self.live).bandit.task().is_none_or(|waits| waits.id != task) {
            return Err(Error::TaskOver { task });
        }
        let applied = match self.change(&event) {
            Err(Error::Helba(helba::Error::TaskOver { .. })) => return Err(Error::TaskOver { task }),
            applied => applied?,
        };
        if applied == Applied::Installed {
            self.save();
        }
        self.update_if_due();
        self.offer_task();
        Ok(())
    }

    /// Applies an event, and returns when it is on disk.
    fn change(&self, event: &Event) -> Result<Applied, Error> {
        let Pending { applied, ticket } = {
            let mut live = lock(&self.live);
            if live.deleted {
                return Err(self.deleted());
            }
            let (engine, live) = (&self.shared.engine, &mut *live);
            self.shared.stages.beside(|| live.change(engine, event))?
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

    /// Queues the batch update if one is due.
    pub(super) fn update_if_due(self: &Arc<Self>) {
        let due = || {
            let live = lock(&self.live);
            if live.deleted { Ok(None) } else { live.bandit.update() }
        };
        match due() {
            Ok(None) => return,
            Ok(Some(_)) => {}
            Err(error) => return tracing::error!(bandit = self.created.id, %error, "update failed"),
        }
        let pause = lock(&self.pace).pause(Instant::now());
        let served = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            served.queue_update();
        });
    }

    fn queue_update(self: Arc<Self>) {
        let served = self.clone();
        self.shared.updates.clone().queue(move || {
            let inputs = lock(&served.live).bandit.update();
            // Another turn may have computed it.
            let Ok(Some(update)) = inputs else { return };
            let began = Instant::now();
            #[cfg(test)]
            let _counted = tests::Counted::new();
            match rayon::scope(|_| update.run(&served.shared.engine)) {
                Ok(masked) => lock(&served.live).bandit.updated(&update, masked),
                Err(error) => {
                    return tracing::error!(bandit = served.created.id, %error, "update failed");
                }
            }
            let took = began.elapsed();
            lock(&served.pace).update(Instant::now(), took);
            served.shared.stages.metrics.took(Step::Update, took);
            tracing::info!(bandit = served.created.id, seconds = took.as_secs_f64(), "updated");
            served.offer_task();
        });
    }

    /// Tasks for a raiser, or `None` if there were none within `wait`, at most [`LONGEST_WAIT`].
    ///
    /// # Errors
    /// [`Error::Broken`] if a computation panicked.
    pub(crate) async fn tasks(self: Arc<Self>, wait: Duration) -> Result<Option<Reply>, Error> {
        self.check_holders()?;
        let served = self.clone();
        let own = blocking(move || Ok(served.own_task())).await?;
        let tasks = match own {
            Some(task) => vec![task],
            // Who does not wait is not expected to come back.
            None if wait.is_zero() => match lock(&self.pool).take_queued() {
                Some(tasks) => tasks,
                None => return Ok(None),
            },
            None => {
                let receiver = lock(&self.pool).wait_for_tasks();
                match tokio::time::timeout(wait.min(LONGEST_WAIT), receiver).await {
                    Ok(Ok(tasks)) => tasks,
                    _ => return Ok(None),
                }
            }
        };
        let reply = DecideReply { tasks, ..DecideReply::default() };
        Ok(Some(Reply::Binary(reply.to_bytes())))
    }
}

/// Devices that ask once more encrypt their contexts again.
fn sent_before() -> Error {
    Error::NotEvaluated { why: "contexts that were sent before: encrypt them again".into() }
}

/// The answer to the creation of `bandit` under `id`.
fn created(id: &str, bandit: &EncryptedBandit, engine: &Engine) -> Created {
    let (config, plan, deep) = (bandit.config().clone(), bandit.plan().clone(), engine.deep());
    let [deep, small] = [(deep.params(), deep.key_id()), (engine.params(), engine.key_id())];
    Created::new(id.to_string(), config, plan, deep, small)
}

/// What became of contexts.
enum Scored {
    Answered(DecideReply),
    Waits(Receiver<Outcome>),
    /// They are compared by bootstraps.
    Compares {
        scores: Ciphertext,
        model_feedbacks: u64,
        place: OwnedSemaphorePermit,
    },
}

/// The encrypted bandits in the folder of `shared`.
///
/// # Errors
/// As [`EncryptedServed::load`].
pub(super) fn load(shared: &Shared, restored: bool) -> Result<Vec<(String, Arc<EncryptedServed>)>, Error> {
    let ids = state::stored(&shared.root)?;
    let load = |id: String| Ok((id.clone(), Arc::new(EncryptedServed::load(&id, shared.clone(), restored)?)));
    ids.into_iter().map(load).collect()
}

/// Audits the encrypted bandits in `root`, or the one with the id `only`.
///
/// # Errors
/// [`Error::UnknownBandit`] if there is no such bandit; those of the disk. Those of an audit are its result.
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
///
/// # Errors
/// Those of the disk.
pub(super) fn without_keys(root: &std::path::Path) -> Result<Vec<String>, Error> {
    state::stored(root)
}
