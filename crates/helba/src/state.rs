//! The state machine of an encrypted bandit, without I/O.
//!
//! A batch goes through four phases: open, raising (a holder of the key raises the sum of its feedbacks),
//! updating (the next model is computed), refreshing (a holder of the key encrypts it anew in both rings).
//! In every phase decisions use the current model, and feedback is added to the next sum.
//!
//! Under a committee a phase before raising checks each feedback of the sum: members open projections of it,
//! and what is out of range is subtracted. A feedback that was dropped stays counted in t and t_j, which
//! widths are computed from.
//!
//! All that changes the state is an [`Event`]. The same events in the same order give the same state, byte
//! for byte, so that a journal of events is a store. Masks are drawn from the secret of the bandit and from a
//! hash over all events so far: no mask is used for two sums or two models, whatever a crash undid.
//!
//! Under the trace condition a feedback carries the statistics of the trace too, and may answer the question
//! whether the trace has reached C. Feedbacks whose trace is not known to be below C are counted, and more
//! than `unanswered` of them end the batch, so that nobody has to answer. A batch that a test or a missing
//! test ends is closed before the feedback at hand is added.

use super::engine::{Engine, Masked};
use super::rounds::{MOST_ROUNDS, Round, Rounds};
use crate::deep::ModelLevels;
use crate::{Error, Scalars, refresh};
use ckks::{Ciphertext, Plaintext};
use num_complex::Complex64;
use privacy::{Ratio, sampler};
use protocol::{
    BanditConfig, Counters, DecisionId, Erasure, Exchanges, Factors, INVERSE_TOLERANCE, LOG_CONTEXT,
    LOG_STATISTICS, Plan, QuestionId, Receipt, Status, TaskKind,
};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// The number of rounds that are given out after one event.
const RESERVED_ROUNDS: u64 = 1024;
/// The most feedbacks that are checked at once.
const MOST_CHECKED: usize = 64;
/// The most dropped feedbacks that are remembered.
const MOST_DROPPED: usize = 1024;

/// Something that changes an encrypted bandit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// Rounds up to this one may be given out.
    Rounds(u64),
    /// The feedback on the decision of a round: the frame of [`ckks::write_partial_ciphertext`], or under a
    /// committee that of [`ckks::encrypt_proven`], whose proof was checked before.
    Feedback {
        /// The round.
        round: u64,
        /// The frame.
        frame: Vec<u8>,
    },
    /// The sum of a batch, raised.
    Raised {
        /// The task.
        task: u64,
        /// The frame of a ciphertext of the deep ring.
        frame: Vec<u8>,
    },
    /// The next model, encrypted anew.
    Refreshed {
        /// The task.
        task: u64,
        /// The frame of the model in the deep ring.
        deep: Vec<u8>,
        /// The frame of the model in the ring of scores.
        scores: Vec<u8>,
    },
    /// The feedback on the decision of a round, under the trace condition.
    Traced {
        /// The round.
        round: u64,
        /// The statistics, as in [`Event::Feedback`].
        frame: Vec<u8>,
        /// The frame of the trace statistics ([`protocol::ScoreLayout::trace`]).
        trace: Vec<u8>,
        /// The answer to the trace question of the decision, if there is one: whether the trace had reached
        /// C.
        answer: Option<(QuestionId, bool)>,
    },
    /// The members of a committee have checked the first feedbacks of a [`Check`].
    Checked {
        /// The task.
        task: u64,
        /// The rounds and frames of those that are out of range, which are subtracted from the sum.
        dropped: Vec<(u64, Vec<u8>)>,
        /// What members opened, as they read it.
        openings: Vec<Vec<u8>>,
    },
    /// The feedback on the decision of a round is removed: its frame, which was counted before, is
    /// subtracted.
    Erased {
        /// The round.
        round: u64,
        /// The frame of the statistics.
        frame: Vec<u8>,
    },
    /// The batch ends before its schedule ends it, because the bandit is to go on under other keys.
    Closed,
    /// The state of a bandit under other keys: the first event after its creation under these ones.
    Rotated {
        /// The bytes of its [`Standing`].
        standing: Vec<u8>,
        /// The frame of the model in the deep ring.
        deep: Vec<u8>,
        /// The frame of the model in the ring of scores.
        scores: Vec<u8>,
        /// The frame of the statistics.
        statistics: Vec<u8>,
        /// What the members of the keys before have signed, for those of these ones.
        evidence: Vec<u8>,
    },
}

/// The numbers of a bandit whose feedback is all in its model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// The hash of the configuration, which stays: what was learnt means something else under another one.
    config: [u8; 32],
    reserved: u64,
    feedbacks: u64,
    batches: u64,
    refreshes: u64,
    tasks: u64,
    residual: f64,
}

impl Standing {
    /// The bytes, which are the same wherever they are computed.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Serialising plain data into memory does not fail.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// The number of the task in which the bandit moves.
    pub fn task(&self) -> u64 {
        self.tasks + 1
    }

    /// Reads the bytes of [`Self::to_bytes`] of a bandit with this configuration. Members who check the
    /// structure of questions alone sign any bytes.
    ///
    /// # Errors
    /// [`Error::BadState`] for another configuration, and for numbers that no bandit comes to.
    fn read(bytes: &[u8], config: &BanditConfig) -> Result<Self, Error> {
        let standing: Standing = decode(bytes)?;
        if standing.config != config_hash(config) {
            return Err(Error::BadState("a state of a bandit with another configuration".into()));
        }
        let Standing { config: _, reserved, feedbacks, batches, refreshes, tasks, residual } = standing;
        let fits = [reserved, batches, refreshes, tasks].iter().all(|number| *number < MOST_STANDING)
            && feedbacks <= reserved
            && (0.0..1.0).contains(&residual);
        if fits { Ok(standing) } else { Err(Error::BadState("a state with numbers out of range".into())) }
    }
}

/// Above every number of a bandit that moves.
const MOST_STANDING: u64 = 1 << 48;

fn config_hash(config: &BanditConfig) -> [u8; 32] {
    // Serialising plain data into memory does not fail.
    blake3::derive_key("helba: configuration of a bandit", &postcard::to_stdvec(config).unwrap_or_default())
}

/// A bandit that can go on under other keys: its numbers, and what moves.
#[derive(Debug, Clone)]
pub struct Departing {
    /// The numbers.
    pub standing: Standing,
    /// The model, cut to the level of a refresh.
    pub model: Ciphertext,
    /// The statistics, cut to the level of a refresh.
    pub statistics: Ciphertext,
}

impl Event {
    /// The event as a journal holds it.
    ///
    /// # Errors
    /// [`Error::Broken`] if it cannot be serialised.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        postcard::to_stdvec(self).map_err(|_| Error::Broken("an event that cannot be serialised"))
    }

    /// Reads the bytes of [`Self::to_bytes`].
    ///
    /// # Errors
    /// [`Error::BadState`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        decode(bytes)
    }
}

/// What an event did.
#[derive(Debug, Clone, PartialEq)]
pub enum Applied {
    /// Rounds were reserved.
    Reserved,
    /// A feedback was counted. The receipt is that of its decision.
    Counted(Receipt),
    /// Feedbacks were checked.
    Checked,
    /// A feedback was erased.
    Erased(Erasure),
    /// The sum was added to the statistics, and an update is due.
    UpdateDue,
    /// The model was replaced.
    Installed,
    /// The batch has ended.
    Closed,
    /// The state came from other keys.
    Rotated,
}

/// What a holder of the key is asked for.
#[derive(Debug, Clone)]
pub struct Task {
    /// Its number, which the answer names.
    pub id: u64,
    /// The kind.
    pub kind: TaskKind,
    /// The masked ciphertext.
    pub masked: Arc<Ciphertext>,
}

/// Feedbacks that the members of a committee are asked to check, at most 64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The number of the task, which the event names.
    pub id: u64,
    /// The round of each feedback, and BLAKE3 of its frame.
    pub feedbacks: Vec<(u64, [u8; 32])>,
}

/// A trace that is to be tested.
#[derive(Debug, Clone)]
pub struct TraceTest {
    /// The sum of the trace statistics of the batch, at the scale of contexts.
    pub statistics: Arc<Ciphertext>,
    /// The number of feedbacks up to the last one in it.
    pub feedbacks: u64,
    /// t_j of the current model.
    pub model_feedbacks: u64,
}

/// The inputs of a batch update.
#[derive(Debug, Clone)]
pub struct Update {
    plan: Plan,
    statistics: Arc<Ciphertext>,
    model: Arc<Ciphertext>,
    factors: Factors,
    seed: [u8; 32],
    task: u64,
}

/// One encrypted bandit.
#[derive(Debug, Clone)]
pub struct EncryptedBandit {
    state: State<Arc<Ciphertext>>,
    exchanges: Arc<Exchanges>,
}

/// The state. `C` is a ciphertext in memory, and a frame in a store.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct State<C> {
    config: BanditConfig,
    plan: Plan,
    /// The key of decision ids and masks.
    secret: [u8; 32],
    /// A hash over all events so far.
    history: [u8; 32],
    /// Rounds up to this one were given out, or may have been.
    reserved: u64,
    answered: Rounds,
    feedbacks: u64,
    /// The feedbacks up to the last batch that was closed.
    closed: u64,
    model_feedbacks: u64,
    batches: u64,
    refreshes: u64,
    /// The number of the last task.
    tasks: u64,
    /// A bound on the distance of the eigenvalues of A_j·V_j from one.
    residual: f64,
    /// A_j and ω_j in the deep ring.
    model: C,
    /// The model in the ring of scores, divided by the gap.
    scores_model: C,
    /// V and g up to the last batch that was raised.
    statistics: C,
    /// The sum of the feedbacks after `closed`.
    sum: C,
    /// Under a committee, the round of each of them and BLAKE3 of its frame.
    unchecked: Vec<(u64, [u8; 32])>,
    /// The rounds of the last feedbacks that were dropped, at most [`MOST_DROPPED`].
    dropped: VecDeque<u64>,
    /// The rounds of erased feedbacks.
    erased: BTreeSet<u64>,
    /// How many of them the sum subtracts that may be in the statistics.
    subtracted: u64,
    /// Under the trace condition.
    trace: Option<Trace<C>>,
    counters: Option<CounterSums<C>>,
    phase: Phase<C>,
}

/// The trace condition of the batch after `closed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Trace<C> {
    /// The sum of the trace statistics.
    sum: C,
    /// The number of feedbacks up to which the trace is known to be below C.
    tested_to: u64,
}

/// Sums of feedbacks whose counters holders of the key open ([`Counters`]).
#[derive(Debug, Clone, Serialize, Deserialize)]
struct CounterSums<C> {
    /// The feedbacks of the open group.
    group: C,
    /// The counters of all groups before it, with their noise, and nothing else.
    shown: C,
    /// The number of feedbacks in them.
    feedbacks: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum Phase<C> {
    Open,
    Checking { task: u64, batch: Batch, sum: C, left: Vec<(u64, [u8; 32])> },
    Raising { task: u64, batch: Batch, seed: [u8; 32], masked: C },
    Updating { task: u64, batch: Batch, seed: [u8; 32] },
    Refreshing { task: u64, batch: Batch, seed: [u8; 32], masked: C },
}

/// A batch that is closed.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Batch {
    /// The number of feedbacks up to its last.
    at: u64,
    /// Those of which nothing is known but the bound on their features.
    untested: u64,
    /// The erased feedbacks of earlier batches that its sum subtracts, or more.
    subtracted: u64,
    /// The residual of its model.
    residual: f64,
}

/// The parts of a state, by ring and level.
#[derive(Debug, Clone, Copy)]
enum Place {
    Scores,
    Deep(usize),
}

impl EncryptedBandit {
    /// A bandit without data: A = I/λ, ω = 0, V = λI. `secret` must be random.
    ///
    /// # Errors
    /// As [`BanditConfig::plan`].
    pub fn create(engine: &Engine, config: BanditConfig, secret: [u8; 32]) -> Result<Self, Error> {
        let deep = engine.deep();
        let (params, small) = (deep.params(), engine.params());
        let plan = config.plan(params, deep.shape(), engine.ring())?;
        let exchanges = Self::exchanges_of(engine, &config, &plan)?;
        let lambda = config.linear.lambda;
        let trivial = |slots: &[Complex64], level: usize| -> Result<Arc<Ciphertext>, Error> {
            let mut out = Ciphertext::zero(params, level);
            deep.evaluator().add_plain_assign(&mut out, &Plaintext::encode(params, slots, level)?)?;
            Ok(Arc::new(out))
        };
        let layout = &exchanges.layout;
        let model = layout.model_slots(|i, j| if i == j { 1.0 / lambda } else { 0.0 }, |_| 0.0);
        let top = small.max_level();
        let first = layout.first_model(lambda);
        let first = Plaintext::from_integers(small, &first, top, small.scale(top))?;
        let mut scores_model = Ciphertext::zero(small, top);
        engine.scores_evaluator().add_plain_assign(&mut scores_model, &first)?;
        engine.scores_evaluator().divide_exactly_assign(&mut scores_model, engine.ring().gap.ilog2());
        let state = State {
            model: trivial(&model, plan.model_level)?,
            scores_model: Arc::new(scores_model),
            statistics: trivial(&layout.ridge(lambda), plan.statistics_level)?,
            sum: Arc::new(empty_sum(engine)),
            unchecked: Vec::new(),
            dropped: VecDeque::new(),
            erased: BTreeSet::new(),
            subtracted: 0,
            trace: config.tests_trace().then(|| Trace { sum: empty_trace(engine), tested_to: 0 }),
            counters: config.counters.map(|_| CounterSums {
                group: Arc::new(empty_sum(engine)),
                shown: Arc::new(empty_sum(engine)),
                feedbacks: 0,
            }),
            config,
            plan,
            secret,
            history: secret,
            reserved: 0,
            answered: Rounds::new(),
            feedbacks: 0,
            closed: 0,
            model_feedbacks: 0,
            batches: 0,
            refreshes: 0,
            tasks: 0,
            residual: 0.0,
            phase: Phase::Open,
        };
        Ok(EncryptedBandit { state, exchanges })
    }

    fn exchanges_of(engine: &Engine, config: &BanditConfig, plan: &Plan) -> Result<Arc<Exchanges>, Error> {
        let (small, large) = (engine.params(), engine.deep().params());
        Ok(Arc::new(Exchanges::new(config, plan, engine.ring(), small, large)?))
    }

    /// The configuration.
    pub fn config(&self) -> &BanditConfig {
        &self.state.config
    }

    /// The levels and sizes.
    pub fn plan(&self) -> &Plan {
        &self.state.plan
    }

    /// The exchanges with a holder of the key.
    pub fn exchanges(&self) -> &Arc<Exchanges> {
        &self.exchanges
    }

    /// The model that contexts are multiplied by ([`Engine::score`]).
    pub fn scores_model(&self) -> &Arc<Ciphertext> {
        &self.state.scores_model
    }

    /// t_j, the number of feedbacks in the current model.
    pub fn model_feedbacks(&self) -> u64 {
        self.state.model_feedbacks
    }

    /// The last round that may be given out without another [`Event::Rounds`].
    pub fn reserved(&self) -> u64 {
        self.state.reserved
    }

    /// The event that reserves more rounds.
    pub fn reserve(&self) -> Event {
        Event::Rounds(self.state.reserved + RESERVED_ROUNDS)
    }

    /// The scalars of a decision in `round`.
    pub fn scalars(&self, round: u64) -> Scalars {
        Scalars::new(&self.state.config, round, self.state.model_feedbacks)
    }

    /// The counters and the phase, where `round` is the last round that was given out.
    pub fn status(&self, round: u64, pending: usize) -> Status {
        let s = &self.state;
        Status {
            round,
            feedbacks: s.feedbacks,
            model_feedbacks: s.model_feedbacks,
            batches: s.batches,
            refreshes: s.refreshes,
            updating: matches!(
                s.phase,
                Phase::Checking { .. } | Phase::Raising { .. } | Phase::Updating { .. }
            ),
            refresh_due: matches!(s.phase, Phase::Refreshing { .. }),
            pending_decisions: pending,
        }
    }

    /// The id of the decision of `round`: the round, and a code that only this bandit can compute.
    pub fn decision_id(&self, round: u64) -> DecisionId {
        self.state.decision_id(round)
    }

    /// The round of a decision of this bandit, or `None` with its receipt if its feedback was counted.
    ///
    /// # Errors
    /// [`protocol::Error::UnknownDecision`] for an id that this bandit has not given out, or that is too old;
    /// [`protocol::Error::FeedbackDropped`] if its feedback was found out of range.
    pub fn waiting(&self, id: DecisionId) -> Result<Result<u64, Receipt>, Error> {
        let unknown = || protocol::Error::UnknownDecision { id: id.to_string() };
        let round = self.round_of(id).ok_or_else(unknown)?;
        match self.state.answered.get(round) {
            Round::Waits => Ok(Ok(round)),
            Round::Answered if self.state.dropped.contains(&round) => {
                Err(protocol::Error::FeedbackDropped { id: id.to_string() }.into())
            }
            Round::Answered => Ok(Err(self.state.receipt(round))),
            Round::Forgotten => Err(unknown().into()),
        }
    }

    /// The round of a decision of this bandit whose feedback may be erased, or the receipt if it was. Whether
    /// the feedback was counted is known where its frame is kept.
    ///
    /// # Errors
    /// [`protocol::Error::UnknownDecision`] for an id that this bandit has not given out, and for a decision
    /// without feedback; [`protocol::Error::NotErasable`].
    pub fn erasable(&self, id: DecisionId) -> Result<Result<u64, Erasure>, Error> {
        let unknown = || protocol::Error::UnknownDecision { id: id.to_string() };
        let round = self.round_of(id).ok_or_else(unknown)?;
        self.state.check_erasable()?;
        match self.state.answered.get(round) {
            _ if self.state.erased.contains(&round) => Ok(Err(self.state.erasure(round))),
            Round::Waits => Err(unknown().into()),
            Round::Answered | Round::Forgotten => Ok(Ok(round)),
        }
    }

    /// The round of an id that this bandit has given out.
    fn round_of(&self, id: DecisionId) -> Option<u64> {
        let round = id.round();
        // In constant time, since the code is a secret of the bandit until the id is given out.
        (blake3::hash(&self.decision_id(round).0) == blake3::hash(&id.0)).then_some(round)
    }

    /// The trace to be tested with the next evaluation, if there is one. More than `unanswered` feedbacks
    /// without a test end the batch, because the trace may then leave the range of the comparison. A model
    /// that is not within the tolerance of an inverse is not used for a test.
    pub fn trace_test(&self) -> Option<TraceTest> {
        let (s, trace) = (&self.state, self.state.trace.as_ref()?);
        let tests = (1..=s.config.unanswered).contains(&s.untested()) && s.residual <= INVERSE_TOLERANCE;
        let (feedbacks, model_feedbacks) = (s.feedbacks, s.model_feedbacks);
        tests.then(|| TraceTest { statistics: trace.sum.clone(), feedbacks, model_feedbacks })
    }

    /// The id of the question about `test` that is asked with the decision of `round`.
    pub fn question_id(&self, round: u64, test: &TraceTest) -> QuestionId {
        self.state.question_id(round, test.feedbacks, test.model_feedbacks)
    }

    /// The sum of the feedbacks of whole groups, which has their counters alone, and the number of these
    /// feedbacks; `None` if the bandit has no counters.
    pub fn counters(&self) -> Option<(&Arc<Ciphertext>, u64)> {
        let sums = self.state.counters.as_ref()?;
        Some((&sums.shown, sums.feedbacks))
    }

    /// The task that waits for a holder of the key.
    pub fn task(&self) -> Option<Task> {
        match &self.state.phase {
            Phase::Raising { task, masked, .. } => {
                Some(Task { id: *task, kind: TaskKind::Sum, masked: masked.clone() })
            }
            Phase::Refreshing { task, masked, .. } => {
                Some(Task { id: *task, kind: TaskKind::Model, masked: masked.clone() })
            }
            Phase::Open | Phase::Checking { .. } | Phase::Updating { .. } => None,
        }
    }

    /// The feedbacks that wait for the members of a committee to check them.
    pub fn check(&self) -> Option<Check> {
        let Phase::Checking { task, left, .. } = &self.state.phase else { return None };
        Some(Check { id: *task, feedbacks: left.iter().take(MOST_CHECKED).copied().collect() })
    }

    /// Whether the feedback of a round is in a sum that waits for the members of a committee to check it. It
    /// is erased after that.
    pub fn is_checked_now(&self, round: u64) -> bool {
        self.state.is_checked_now(round)
    }

    /// Applies an event. On an error nothing has changed.
    ///
    /// # Errors
    /// [`Error::Ckks`] for a frame that is not one of this bandit; [`protocol::Error::UnknownDecision`] for a
    /// round that does not wait; [`Error::UnknownQuestion`]; [`Error::TaskOver`]; [`Error::BadState`] for
    /// feedback of another schedule, and for dropped feedback that is not that of a check.
    pub fn apply(&mut self, engine: &Engine, event: &Event) -> Result<Applied, Error> {
        let (small, deep) = (engine.params(), engine.deep());
        let mut next = self.state.clone();
        next.note(event)?;
        let applied = match event {
            Event::Rounds(reserved) => {
                next.reserved = next.reserved.max(*reserved);
                Applied::Reserved
            }
            Event::Feedback { round, frame } => {
                if next.trace.is_some() {
                    return Err(Error::BadState("a feedback without the statistics of the trace".into()));
                }
                next.count(engine, &self.exchanges, *round, frame)?;
                Applied::Counted(next.receipt(*round))
            }
            Event::Traced { round, frame, trace, answer } => {
                let statistics = engine.read_contexts(trace)?;
                next.take_answer(engine, &self.exchanges, *round, *answer)?;
                next.add_trace(engine, statistics)?;
                next.count(engine, &self.exchanges, *round, frame)?;
                Applied::Counted(next.receipt(*round))
            }
            Event::Checked { task, dropped, openings: _ } => {
                next.take_check(engine, &self.exchanges, *task, dropped)?;
                Applied::Checked
            }
            Event::Erased { round, frame } => {
                next.erase(engine, &self.exchanges, *round, frame)?;
                Applied::Erased(next.erasure(*round))
            }
            Event::Closed => {
                if !self.closes_early() {
                    return Err(Error::BadState("the end of a batch without feedback".into()));
                }
                next.close(engine, &self.exchanges)?;
                Applied::Closed
            }
            Event::Rotated { standing, deep: model, scores, statistics, evidence: _ } => {
                let fresh = self.state.tasks == 0 && self.state.reserved == 0 && self.state.feedbacks == 0;
                if !fresh || !engine.has_committee() {
                    return Err(Error::BadState("a state of other keys in a bandit that has its own".into()));
                }
                let standing = Standing::read(standing, &next.config)?;
                let plan = &next.plan;
                let read = |level, frame| ckks::read_ciphertext(deep.params(), deep.key_id(), level, frame);
                let model = read(plan.model_level, model)?;
                let statistics = read(plan.statistics_level, statistics)?;
                let mut scores = ckks::read_ciphertext(small, engine.key_id(), small.max_level(), scores)?;
                let log_gap = engine.ring().gap.ilog2();
                engine.scores_evaluator().divide_exactly_assign(&mut scores, log_gap);
                (next.model, next.scores_model) = (Arc::new(model), Arc::new(scores));
                next.statistics = Arc::new(statistics);
                let Standing { config: _, reserved, feedbacks, batches, refreshes, tasks, residual } =
                    standing;
                (next.reserved, next.tasks, next.residual) = (reserved, tasks + 1, residual);
                (next.feedbacks, next.closed, next.model_feedbacks) = (feedbacks, feedbacks, feedbacks);
                (next.batches, next.refreshes) = (batches, refreshes);
                Applied::Rotated
            }
            Event::Raised { task, frame } => {
                let Phase::Raising { task: want, batch, seed, .. } = next.phase else {
                    return Err(unasked(*task));
                };
                if want != *task {
                    return Err(unasked(*task));
                }
                let raise = &self.exchanges.statistics;
                let level = next.plan.statistics_level;
                let mut raised = ckks::read_ciphertext(deep.params(), deep.key_id(), level, frame)?;
                if let Some(mask) = engine.encode_mask(raise, &seed, self.statistics_factor())? {
                    raise.unmask_assign(&mut raised, &mask)?;
                }
                let mut statistics = Arc::unwrap_or_clone(next.statistics);
                deep.evaluator().add_assign(&mut statistics, &raised)?;
                next.statistics = Arc::new(statistics);
                let (task, seed) = (next.next_task(), next.mask());
                next.phase = Phase::Updating { task, batch, seed };
                Applied::UpdateDue
            }
            Event::Refreshed { task, deep: frame, scores } => {
                let (want, batch, seed) = match next.phase {
                    Phase::Refreshing { task, batch, seed, .. }
                    | Phase::Updating { task, batch, seed, .. } => (task, batch, seed),
                    _ => return Err(unasked(*task)),
                };
                if want != *task {
                    return Err(unasked(*task));
                }
                let plan = &next.plan;
                let mut model = ckks::read_ciphertext(deep.params(), deep.key_id(), plan.model_level, frame)?;
                let top = small.max_level();
                let mut scores = ckks::read_ciphertext(small, engine.key_id(), top, scores)?;
                if !engine.has_committee() {
                    let (level, slots) = (plan.refresh_level, plan.model_slots);
                    model = refresh::reveal(deep.params(), model, level, slots, &seed);
                    self.exchanges.model.unmask_assign(&mut scores, &seed)?;
                }
                let log_gap = engine.ring().gap.ilog2();
                engine.scores_evaluator().divide_exactly_assign(&mut scores, log_gap);
                (next.model, next.scores_model) = (Arc::new(model), Arc::new(scores));
                next.model_feedbacks = batch.at;
                next.residual = batch.residual;
                next.refreshes += 1;
                next.phase = Phase::Open;
                // Feedback that came in the meantime may end the next batch at once.
                let waiting = next.feedbacks > next.closed;
                let due = next.config.linear.batch_ends_publicly(next.feedbacks, next.closed);
                let untested = next.trace.is_some() && next.untested() > next.config.unanswered;
                if waiting && (due || untested || batch.residual > INVERSE_TOLERANCE) {
                    next.close(engine, &self.exchanges)?;
                }
                Applied::Installed
            }
        };
        self.state = next;
        Ok(applied)
    }

    /// Whether feedback waits for the end of its batch, which may come early ([`Event::Closed`]).
    pub fn closes_early(&self) -> bool {
        let s = &self.state;
        matches!(s.phase, Phase::Open) && (s.feedbacks > s.closed || s.subtracted > 0)
    }

    /// What moves to other keys, if all feedback is in the model.
    pub fn departing(&self) -> Option<Departing> {
        let s = &self.state;
        if !matches!(s.phase, Phase::Open) || self.closes_early() {
            return None;
        }
        let cut = |ciphertext: &Ciphertext| {
            let level = s.plan.refresh_level;
            let [c0, c1] = [ciphertext.c0(), ciphertext.c1()].map(|poly| poly.truncated(level + 1));
            Ciphertext::new(c0, c1, level, ciphertext.scale())
        };
        let standing = Standing {
            config: config_hash(&s.config),
            reserved: s.reserved,
            feedbacks: s.feedbacks,
            batches: s.batches,
            refreshes: s.refreshes,
            tasks: s.tasks,
            residual: s.residual,
        };
        Some(Departing { standing, model: cut(&s.model), statistics: cut(&s.statistics) })
    }

    /// The factor of a raise of statistics.
    pub fn statistics_factor(&self) -> f64 {
        self.exchanges.layout.statistics_factor()
    }

    /// The inputs of an update, if one is due.
    ///
    /// # Errors
    /// [`Error::Broken`] if no Newton iteration converges, which the end of the batch would have reported.
    pub fn update(&self) -> Result<Option<Update>, Error> {
        let s = &self.state;
        let Phase::Updating { task, batch, seed } = s.phase else { return Ok(None) };
        let factors = s.newton(batch.untested, batch.subtracted)?;
        let (plan, statistics, model) = (s.plan.clone(), s.statistics.clone(), s.model.clone());
        Ok(Some(Update { plan, statistics, model, factors, seed, task }))
    }

    /// Takes the masked model of an update. It is no event, because the events before determine it. A model
    /// of another update changes nothing.
    pub fn updated(&mut self, update: &Update, masked: Ciphertext) {
        if let Phase::Updating { task, batch, seed } = self.state.phase
            && task == update.task
        {
            self.state.phase = Phase::Refreshing { task, batch, seed, masked: Arc::new(masked) };
        }
    }

    /// The state with every ciphertext as a frame.
    ///
    /// # Errors
    /// [`Error::Broken`] if it cannot be serialised.
    pub fn to_bytes(&self, engine: &Engine) -> Result<Vec<u8>, Error> {
        let write = |place, ciphertext: Arc<Ciphertext>| -> Result<Vec<u8>, Error> {
            let (params, key) = ring_of(engine, place);
            // Frames hold the canonical scale, and sums have others.
            let canonical = params.scale(ciphertext.level());
            let ciphertext = Arc::unwrap_or_clone(ciphertext).with_scale(canonical);
            Ok(ckks::write_ciphertext(params, key, &ciphertext))
        };
        let state = self.state.clone().try_map(write)?;
        postcard::to_stdvec(&state).map_err(|_| Error::Broken("a state that cannot be serialised"))
    }

    /// A bandit from [`Self::to_bytes`].
    ///
    /// # Errors
    /// [`Error::BadState`], [`Error::Ckks`] for bytes that are not those of a bandit of these keys.
    pub fn from_bytes(engine: &Engine, bytes: &[u8]) -> Result<Self, Error> {
        let state: State<Vec<u8>> = decode(bytes)?;
        let deep = engine.deep();
        let (plan, config) = (&state.plan, &state.config);
        if config.plan(deep.params(), deep.shape(), engine.ring())? != *plan {
            return Err(Error::BadState("it was made with other parameters".into()));
        }
        if !state.answered.is_valid() {
            return Err(Error::BadState("its rounds are not those of this version".into()));
        }
        let exchanges = Self::exchanges_of(engine, config, plan)?;
        let read = |place, frame: Vec<u8>| -> Result<Arc<Ciphertext>, Error> {
            let (params, key) = ring_of(engine, place);
            let level = match place {
                Place::Scores => params.max_level(),
                Place::Deep(level) => level,
            };
            Ok(Arc::new(ckks::read_ciphertext(params, key, level, &frame)?))
        };
        let mut state = state.try_map(read)?;
        let scale = f64::from(LOG_STATISTICS).exp2();
        let at_scale = |sum: &mut Arc<Ciphertext>| *sum = Arc::new((**sum).clone().with_scale(scale));
        at_scale(&mut state.sum);
        if let Some(sums) = &mut state.counters {
            at_scale(&mut sums.group);
            at_scale(&mut sums.shown);
        }
        if let Phase::Raising { masked: sum, .. } | Phase::Checking { sum, .. } = &mut state.phase {
            at_scale(sum);
        }
        if let Some(trace) = &mut state.trace {
            trace.sum = Arc::new((*trace.sum).clone().with_scale(f64::from(LOG_CONTEXT).exp2()));
        }
        Ok(EncryptedBandit { state, exchanges })
    }
}

impl Update {
    /// Computes the next model under its mask; under a committee without one.
    ///
    /// # Errors
    /// [`Error::Ckks`] if a key is missing.
    pub fn run(&self, engine: &Engine) -> Result<Ciphertext, Error> {
        let Update { plan, statistics, model, factors, seed, .. } = self;
        let to = ModelLevels { refresh: plan.refresh_level, model: plan.model_level };
        let unused = plan.newton_steps - factors.steps().len();
        let deep = engine.deep();
        let model = deep.update_model(statistics, model, factors, plan.design_scale, unused, to)?;
        if engine.has_committee() {
            return Ok(model.with_scale(deep.params().scale(plan.refresh_level)));
        }
        let mut rng = ChaCha20Rng::from_seed(derive(seed, b"zero"));
        Ok(refresh::hide(deep.params(), deep.public_key(), &model, seed, &mut rng))
    }
}

/// Reads `bytes` to their end.
fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    let bad = |why: String| Error::BadState(why);
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(bad(format!("{} bytes after its end", rest.len()))),
        Err(error) => Err(bad(error.to_string())),
    }
}

/// Reads the frame of the statistics of a feedback.
fn read_feedback(engine: &Engine, exchanges: &Exchanges, frame: &[u8]) -> Result<Ciphertext, Error> {
    let (small, key) = (engine.params(), engine.key_id());
    let (level, scale) = (small.max_level(), f64::from(LOG_STATISTICS).exp2());
    let count = exchanges.layout.feedback_numbers();
    Ok(match engine.has_committee() {
        // Whoever puts it into the log has checked the proof.
        true => ckks::read_proven_ciphertext(small, key, scale, count, frame)?.ciphertext(small),
        false => ckks::read_partial_ciphertext(small, key, level, scale, count, frame)?,
    })
}

/// A sum of no feedbacks.
fn empty_sum(engine: &Engine) -> Ciphertext {
    let small = engine.params();
    Ciphertext::zero(small, small.max_level()).with_scale(f64::from(LOG_STATISTICS).exp2())
}

/// The noise of a group of counters at these coefficients, drawn from a seed that the server alone knows.
fn noise(counters: &Counters, places: Range<usize>, seed: [u8; 32]) -> Result<Vec<i64>, Error> {
    let (variance, step) = counters.noise();
    let mut out = vec![0; places.end];
    if variance == 0 {
        return Ok(out);
    }
    let mut words = ChaCha20Rng::from_seed(seed);
    for coefficient in &mut out[places] {
        let drawn = sampler::discrete_gaussian(&mut words, Ratio::integer(variance));
        let steps = drawn.ok().and_then(|steps| i64::try_from(steps).ok()?.checked_mul(step));
        *coefficient = steps.ok_or(Error::Broken("noise of counters that is out of range"))?;
    }
    Ok(out)
}

/// Trace statistics of no feedbacks.
fn empty_trace(engine: &Engine) -> Arc<Ciphertext> {
    let small = engine.params();
    Arc::new(Ciphertext::zero(small, small.max_level()).with_scale(f64::from(LOG_CONTEXT).exp2()))
}

fn ring_of(engine: &Engine, place: Place) -> (&ckks::Params, ckks::KeyId) {
    match place {
        Place::Scores => (engine.params(), engine.key_id()),
        Place::Deep(_) => (engine.deep().params(), engine.deep().key_id()),
    }
}

fn unasked(task: u64) -> Error {
    Error::TaskOver { task }
}

/// A seed for one purpose.
fn derive(seed: &[u8; 32], purpose: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new_keyed(seed).update(purpose).finalize().as_bytes()
}

impl<C> State<C> {
    fn decision_id(&self, round: u64) -> DecisionId {
        let round = round.to_le_bytes();
        let code = self.code(b"decision", &round);
        let mut id = [0; 16];
        id[..DecisionId::ROUND_BYTES].copy_from_slice(&round[..DecisionId::ROUND_BYTES]);
        id[DecisionId::ROUND_BYTES..].copy_from_slice(&code[..16 - DecisionId::ROUND_BYTES]);
        DecisionId(id)
    }

    fn question_id(&self, round: u64, feedbacks: u64, model_feedbacks: u64) -> QuestionId {
        let numbers = [round, feedbacks, model_feedbacks].map(u64::to_le_bytes).concat();
        QuestionId { feedbacks, model_feedbacks, code: self.code(b"question", &numbers) }
    }

    /// A message authentication code over `content`, for one purpose.
    fn code(&self, purpose: &[u8], content: &[u8]) -> [u8; 16] {
        let mac = blake3::Hasher::new_keyed(&self.secret).update(purpose).update(content).finalize();
        let mut code = [0; 16];
        code.copy_from_slice(&mac.as_bytes()[..16]);
        code
    }

    /// The receipt of an erasure. Nobody else can compute its code.
    fn erasure(&self, round: u64) -> Erasure {
        let code = self.code(b"erased", &round.to_le_bytes());
        let code = code.iter().map(|byte| format!("{byte:02x}")).collect();
        Erasure { decision: self.decision_id(round).to_string(), batches: self.batches, code }
    }

    fn check_erasable(&self) -> Result<(), Error> {
        match self.trace {
            Some(_) => Err(protocol::Error::NotErasable.into()),
            None => Ok(()),
        }
    }

    fn receipt(&self, round: u64) -> Receipt {
        let State { feedbacks, batches, .. } = *self;
        Receipt { decision: self.decision_id(round).to_string(), feedbacks, batches }
    }

    /// The number of feedbacks of the next update of which nothing is known but that the norms of their
    /// features are at most L. Under the trace condition these are the ones without a test.
    fn untested(&self) -> u64 {
        self.feedbacks - self.trace.as_ref().map_or(self.model_feedbacks, |trace| trace.tested_to)
    }

    /// The residual of the next model if there is one, or else of the current model.
    fn next_residual(&self) -> f64 {
        match self.phase {
            Phase::Open => self.residual,
            Phase::Checking { batch, .. }
            | Phase::Raising { batch, .. }
            | Phase::Updating { batch, .. }
            | Phase::Refreshing { batch, .. } => batch.residual,
        }
    }

    /// Adds an event to the history.
    fn note(&mut self, event: &Event) -> Result<(), Error> {
        let bytes = event.to_bytes()?;
        self.history = *blake3::Hasher::new_keyed(&self.history).update(&bytes).finalize().as_bytes();
        Ok(())
    }

    fn next_task(&mut self) -> u64 {
        self.tasks += 1;
        self.tasks
    }

    /// The seed of the mask of the last task, which nobody else can compute.
    fn mask(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        hasher.update(b"mask").update(&self.history).update(&self.tasks.to_le_bytes());
        *hasher.finalize().as_bytes()
    }

    /// The Newton factors of an update with `untested` feedbacks, from which `subtracted` are removed.
    fn newton(&self, untested: u64, subtracted: u64) -> Result<Factors, Error> {
        let steps = self.config.newton(self.residual, untested, subtracted, self.plan.newton_steps);
        steps.map_err(|_| Error::Broken("a batch that Newton's iteration does not converge for"))
    }

    fn try_map<D>(self, mut map: impl FnMut(Place, C) -> Result<D, Error>) -> Result<State<D>, Error> {
        let plan = &self.plan;
        let phase = match self.phase {
            Phase::Open => Phase::Open,
            Phase::Checking { task, batch, sum, left } => {
                Phase::Checking { task, batch, sum: map(Place::Scores, sum)?, left }
            }
            Phase::Raising { task, batch, seed, masked } => {
                Phase::Raising { task, batch, seed, masked: map(Place::Scores, masked)? }
            }
            Phase::Updating { task, batch, seed } => Phase::Updating { task, batch, seed },
            Phase::Refreshing { task, batch, seed, masked } => {
                let masked = map(Place::Deep(plan.refresh_level), masked)?;
                Phase::Refreshing { task, batch, seed, masked }
            }
        };
        let trace = match self.trace {
            Some(Trace { sum, tested_to }) => Some(Trace { sum: map(Place::Scores, sum)?, tested_to }),
            None => None,
        };
        let counters = match self.counters {
            Some(CounterSums { group, shown, feedbacks }) => Some(CounterSums {
                group: map(Place::Scores, group)?,
                shown: map(Place::Scores, shown)?,
                feedbacks,
            }),
            None => None,
        };
        Ok(State {
            trace,
            counters,
            model: map(Place::Deep(plan.model_level), self.model)?,
            scores_model: map(Place::Scores, self.scores_model)?,
            statistics: map(Place::Deep(plan.statistics_level), self.statistics)?,
            sum: map(Place::Scores, self.sum)?,
            unchecked: self.unchecked,
            dropped: self.dropped,
            erased: self.erased,
            subtracted: self.subtracted,
            phase,
            config: self.config,
            plan: self.plan,
            secret: self.secret,
            history: self.history,
            reserved: self.reserved,
            answered: self.answered,
            feedbacks: self.feedbacks,
            closed: self.closed,
            model_feedbacks: self.model_feedbacks,
            batches: self.batches,
            refreshes: self.refreshes,
            tasks: self.tasks,
            residual: self.residual,
        })
    }
}

impl State<Arc<Ciphertext>> {
    /// Counts the feedback on the decision of `round`, and closes the batch if the schedule ends it.
    fn count(
        &mut self,
        engine: &Engine,
        exchanges: &Exchanges,
        round: u64,
        frame: &[u8],
    ) -> Result<(), Error> {
        if self.answered.get(round) != Round::Waits {
            let id = self.decision_id(round).to_string();
            return Err(protocol::Error::UnknownDecision { id }.into());
        }
        let feedback = read_feedback(engine, exchanges, frame)?;
        if engine.has_committee() {
            self.unchecked.push((round, *blake3::hash(frame).as_bytes()));
        }
        engine.scores_evaluator().add_assign(Arc::make_mut(&mut self.sum), &feedback)?;
        self.answered.answer(round);
        self.feedbacks += 1;
        self.add_counters(engine, exchanges, &feedback)?;
        let due = self.config.linear.batch_ends_publicly(self.feedbacks, self.closed);
        if matches!(self.phase, Phase::Open) && (due || self.residual > INVERSE_TOLERANCE) {
            self.close(engine, exchanges)?;
        }
        Ok(())
    }

    /// Takes the answer of the device of `round` to its trace question, if there is one, and closes the batch
    /// if the trace has reached C, or if too few feedbacks were tested.
    fn take_answer(
        &mut self,
        engine: &Engine,
        exchanges: &Exchanges,
        round: u64,
        answer: Option<(QuestionId, bool)>,
    ) -> Result<(), Error> {
        let in_time = |round: u64| self.reserved.saturating_sub(round) < MOST_ROUNDS;
        if let Some((question, reached)) = answer {
            let QuestionId { feedbacks, model_feedbacks, .. } = question;
            let asked = self.question_id(round, feedbacks, model_feedbacks);
            // In constant time, as for decisions.
            if blake3::hash(&asked.code) != blake3::hash(&question.code) {
                return Err(Error::UnknownQuestion);
            }
            // A question about the batch before, or one that a restored backup does not know, is over.
            let of_batch = feedbacks > self.closed && feedbacks <= self.feedbacks && in_time(round);
            let in_use = matches!(self.phase, Phase::Open) && model_feedbacks == self.model_feedbacks;
            let residual = self.next_residual();
            match &mut self.trace {
                // The inverses decrease from batch to batch, so that a trace below C under an older inverse
                // is below C under the current one and the next one.
                Some(trace) if !reached && of_batch && (in_use || residual <= INVERSE_TOLERANCE) => {
                    trace.tested_to = trace.tested_to.max(feedbacks);
                }
                // The batch is closed before this feedback is added, because the condition was tested
                // without it.
                Some(_) if reached && of_batch && in_use => self.close(engine, exchanges)?,
                _ => {}
            }
        }
        if matches!(self.phase, Phase::Open) && self.untested() + 1 > self.config.unanswered {
            // With `unanswered` at least 1, there is a feedback after the last batch.
            self.close(engine, exchanges)?;
        }
        Ok(())
    }

    /// Adds the trace statistics of a feedback.
    fn add_trace(&mut self, engine: &Engine, statistics: Ciphertext) -> Result<(), Error> {
        let unasked = || Error::BadState("statistics of a trace that nobody tests".into());
        let trace = self.trace.as_mut().ok_or_else(unasked)?;
        engine.scores_evaluator().add_assign(Arc::make_mut(&mut trace.sum), &statistics)?;
        Ok(())
    }

    /// Adds the counters of a feedback to those of its group, and shows the group when it is whole.
    fn add_counters(
        &mut self,
        engine: &Engine,
        exchanges: &Exchanges,
        feedback: &Ciphertext,
    ) -> Result<(), Error> {
        let (Some(sums), Some(counters)) = (&mut self.counters, &self.config.counters) else {
            return Ok(());
        };
        let evaluator = engine.scores_evaluator();
        evaluator.add_assign(Arc::make_mut(&mut sums.group), feedback)?;
        if !self.feedbacks.is_multiple_of(counters.every) {
            return Ok(());
        }
        let group = std::mem::replace(&mut sums.group, Arc::new(empty_sum(engine)));
        let places = exchanges.layout.counters();
        let mut group = Arc::unwrap_or_clone(group).with_coefficients(engine.params(), places.clone());
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        hasher.update(b"counters").update(&self.history);
        let noise = noise(counters, places, *hasher.finalize().as_bytes())?;
        let noise = Plaintext::from_integers(engine.params(), &noise, group.level(), group.scale())?;
        evaluator.add_plain_assign(&mut group, &noise)?;
        evaluator.add_assign(Arc::make_mut(&mut sums.shown), &group)?;
        sums.feedbacks = self.feedbacks;
        Ok(())
    }

    /// Ends the batch: its feedbacks wait to be checked, or its sum for a holder of the key.
    fn close(&mut self, engine: &Engine, exchanges: &Exchanges) -> Result<(), Error> {
        let (at, untested, subtracted) = (self.feedbacks, self.untested(), self.subtracted);
        let residual = self.newton(untested, subtracted)?.residual();
        let batch = Batch { at, untested, subtracted, residual };
        self.subtracted = 0;
        let sum = std::mem::replace(&mut self.sum, Arc::new(empty_sum(engine)));
        self.phase = if engine.has_committee() {
            let left = std::mem::take(&mut self.unchecked);
            self.after_check(engine, exchanges, batch, sum, left)?
        } else {
            self.raising(engine, exchanges, batch, sum)?
        };
        self.batches += 1;
        self.closed = at;
        if let Some(trace) = &mut self.trace {
            *trace = Trace { sum: empty_trace(engine), tested_to: at };
        }
        Ok(())
    }

    fn is_checked_now(&self, round: u64) -> bool {
        matches!(&self.phase, Phase::Checking { left, .. } if left.iter().any(|(known, _)| *known == round))
    }

    /// Subtracts a feedback that was counted: from the sum that it is in, where that is known and open, and
    /// else from the next one.
    fn erase(
        &mut self,
        engine: &Engine,
        exchanges: &Exchanges,
        round: u64,
        frame: &[u8],
    ) -> Result<(), Error> {
        self.check_erasable()?;
        // Members would be asked about the others once more, and each answer about a feedback that is out of
        // range says something of the key.
        if self.is_checked_now(round) {
            return Err(Error::BadState("an erasure of a feedback that is being checked".into()));
        }
        if self.answered.get(round) == Round::Waits || !self.erased.insert(round) {
            return Err(Error::BadState("an erasure of a feedback that is not counted".into()));
        }
        if self.dropped.contains(&round) {
            return Ok(());
        }
        let feedback = read_feedback(engine, exchanges, frame)?;
        let evaluator = engine.scores_evaluator();
        if let Some(sums) = &mut self.counters {
            evaluator.sub_assign(Arc::make_mut(&mut sums.group), &feedback)?;
        }
        let hash = *blake3::hash(frame).as_bytes();
        evaluator.sub_assign(Arc::make_mut(&mut self.sum), &feedback)?;
        match self.unchecked.iter().position(|known| *known == (round, hash)) {
            Some(at) => drop(self.unchecked.remove(at)),
            None => self.subtracted += 1,
        }
        Ok(())
    }

    /// The phase after some feedbacks of a batch were checked, and these are left.
    fn after_check(
        &mut self,
        engine: &Engine,
        exchanges: &Exchanges,
        batch: Batch,
        sum: Arc<Ciphertext>,
        left: Vec<(u64, [u8; 32])>,
    ) -> Result<Phase<Arc<Ciphertext>>, Error> {
        if left.is_empty() {
            return self.raising(engine, exchanges, batch, sum);
        }
        Ok(Phase::Checking { task: self.next_task(), batch, sum, left })
    }

    /// The phase in which the sum of a batch waits, under a mask, for a holder of the key.
    fn raising(
        &mut self,
        engine: &Engine,
        exchanges: &Exchanges,
        batch: Batch,
        sum: Arc<Ciphertext>,
    ) -> Result<Phase<Arc<Ciphertext>>, Error> {
        let (task, seed) = (self.next_task(), self.mask());
        let mut rng = ChaCha20Rng::from_seed(derive(&seed, b"zero"));
        let sum = Arc::unwrap_or_clone(sum);
        let Masked { ciphertext, .. } = engine.mask_with(&exchanges.statistics, sum, seed, &mut rng)?;
        Ok(Phase::Raising { task, batch, seed, masked: Arc::new(ciphertext) })
    }

    /// Subtracts what was dropped of the feedbacks that were checked, and goes on with the others.
    fn take_check(
        &mut self,
        engine: &Engine,
        exchanges: &Exchanges,
        task: u64,
        dropped: &[(u64, Vec<u8>)],
    ) -> Result<(), Error> {
        let (batch, mut sum, mut left) = match std::mem::replace(&mut self.phase, Phase::Open) {
            Phase::Checking { task: want, batch, sum, left } if want == task => (batch, sum, left),
            _ => return Err(unasked(task)),
        };
        let mut checked: BTreeMap<u64, [u8; 32]> = left.drain(..left.len().min(MOST_CHECKED)).collect();
        for (round, frame) in dropped {
            if checked.remove(round) != Some(*blake3::hash(frame).as_bytes()) {
                return Err(Error::BadState("a dropped feedback that was not checked".into()));
            }
            let feedback = read_feedback(engine, exchanges, frame)?;
            engine.scores_evaluator().sub_assign(Arc::make_mut(&mut sum), &feedback)?;
            self.dropped.push_back(*round);
            if self.dropped.len() > MOST_DROPPED {
                self.dropped.pop_front();
            }
        }
        self.phase = self.after_check(engine, exchanges, batch, sum, left)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Old members who check the structure of questions alone sign any numbers. Those that no bandit comes to
    /// are refused, as are those of a bandit with another configuration.
    #[test]
    fn attack_numbers_of_a_rotation_out_of_range_are_refused() {
        let config = BanditConfig::new(2, 2);
        let honest = Standing {
            config: config_hash(&config),
            reserved: 9,
            feedbacks: 8,
            batches: 3,
            refreshes: 2,
            tasks: 7,
            residual: 0.25,
        };
        let read = |standing: &Standing| Standing::read(&standing.to_bytes(), &config);
        assert_eq!(read(&honest).unwrap(), honest);
        for bad in [
            Standing { tasks: u64::MAX, ..honest.clone() },
            Standing { batches: MOST_STANDING, ..honest.clone() },
            Standing { refreshes: u64::MAX, ..honest.clone() },
            Standing { reserved: u64::MAX, feedbacks: u64::MAX, ..honest.clone() },
            Standing { feedbacks: 10, ..honest.clone() },
            Standing { residual: f64::NAN, ..honest.clone() },
            Standing { residual: f64::INFINITY, ..honest.clone() },
            Standing { residual: -0.25, ..honest.clone() },
            Standing { residual: 1.0, ..honest.clone() },
        ] {
            assert!(matches!(read(&bad), Err(Error::BadState(_))), "{bad:?}");
        }
        let bytes = honest.to_bytes();
        for len in 0..bytes.len() {
            assert!(Standing::read(&bytes[..len], &config).is_err(), "{len}");
        }
        assert!(Standing::read(&[&bytes[..], &[0]].concat(), &config).is_err());
        for other in [BanditConfig::new(2, 3), BanditConfig { horizon: 1, ..config.clone() }] {
            assert!(matches!(Standing::read(&bytes, &other), Err(Error::BadState(_))));
        }
    }
}
