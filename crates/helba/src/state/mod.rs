//! The state machine of an encrypted bandit, without I/O.
//!
//! A batch goes through four phases: open, raising (a holder of the key raises the sum of its feedbacks),
//! updating (the next model is computed), refreshing (a holder of the key encrypts it anew in both rings).
//! Updates by products have one phase for both, with an exchange after each product.
//! In every phase decisions use the current model, and feedback is added to the next sum.
//!
//! A frozen bandit decides with the model in use, and takes no step of a batch: no feedback is counted, no
//! task is asked for, and no model is installed. An update that was under way goes on when it is thawed.
//!
//! All that changes the state is an [`Event`]. The same events in the same order give the same state, byte
//! for byte, so that a journal of events is a store. Masks are drawn from the secret of the bandit and from a
//! hash over all events so far: no mask is used for two sums or two models, whatever a crash undid.
//!
//! Under the trace condition a feedback carries the statistics of the trace too, and may answer the question
//! whether the trace has reached C. Feedbacks whose trace is not known to be below C are counted, and more
//! than `unanswered` of them end the batch, so that nobody has to answer. A batch that a test or a missing
//! test ends is closed before the feedback at hand is added.
//!
//! | file | what |
//! |---|---|
//! | `event` | what changes a bandit, and what that did |
//! | `secrets` | ids, codes of receipts, seeds of masks |
//! | `rounds` | which rounds have had their feedback |
//! | `given` | how many rounds were given out |
//! | `feedback` | feedback is counted, in the sum of the batch |
//! | `learning` | logged rounds are learnt in bulk |
//! | `counters` | counters of whole groups of feedbacks |
//! | `trace` | the trace condition |
//! | `copy` | a bandit that begins with what another has learnt |
//! | `erasure` | feedback is removed |
//! | `past` | old feedback counts less |
//! | `batch` | a batch from its end to the next model: phases, tasks, updates |
//! | `products` | updates by products, step by step |
//! | `stored` | the state as bytes |

mod batch;
mod copy;
mod counters;
mod erasure;
mod event;
mod feedback;
mod given;
mod learning;
mod past;
mod products;
mod rounds;
mod secrets;
mod stored;
mod trace;

use crate::products::Inverse;
use crate::{Engine, Error, Scalars};
use batch::Phase;
pub use batch::{Task, Update};
use ckks::{Ciphertext, Plaintext};
use copy::Origin;
use counters::CounterSums;
pub use event::{Applied, Event};
use feedback::empty_sum;
use given::Given;
use learning::LearntIds;
use num_complex::Complex64;
use past::Past;
use products::Next;
pub use products::{COLD, Step};
use protocol::products::LOG_OPERAND;
use protocol::{BanditConfig, DecisionId, Exchanges, Plan, ScoreLayout, Status, Updates};
use rounds::Rounds;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use trace::Trace;
pub use trace::TraceTest;

/// The number of rounds that are given out after one event.
const RESERVED_ROUNDS: u64 = 1024;

/// One encrypted bandit.
#[derive(Debug, Clone)]
pub struct EncryptedBandit {
    state: State,
    exchanges: Arc<Exchanges>,
}

/// The state. `C` is a ciphertext in memory, and a frame in a store.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct State<C = Arc<Ciphertext>> {
    config: BanditConfig,
    plan: Plan,
    /// The key of decision ids and masks.
    secret: [u8; 32],
    /// A hash over all events so far.
    history: [u8; 32],
    /// Rounds up to this one were given out, or may have been.
    reserved: u64,
    answered: Rounds,
    given: Given,
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
    scores_model: ScoresModel<C>,
    statistics: Statistics<C>,
    /// The sum of the feedbacks after `closed`.
    sum: C,
    /// The sums of earlier batches, if old feedback counts less.
    past: Option<Past<C>>,
    /// Whether logged rounds are in it.
    logged: bool,
    learnt: LearntIds,
    /// The rounds of erased feedbacks.
    erased: BTreeSet<u64>,
    /// How many of them the sums of the next model lack, and those of the current one may have.
    subtracted: u64,
    /// Under the trace condition, that of the batch after `closed`.
    trace: Option<Trace<C>>,
    counters: Option<CounterSums<C>>,
    phase: Phase<C>,
    /// Whether nothing is learnt ([`Event::Frozen`]).
    frozen: bool,
    /// The bandit that it is a copy of, last, and those that this one is a copy of.
    origins: Vec<Origin>,
}

/// The model in the ring of scores, divided by the gap of packs, that contexts are multiplied by
/// ([`Engine::score`]): one ciphertext, and for stages [`protocol::staged::StagedLayout::model_parts`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ScoresModel<C = Arc<Ciphertext>>(Vec<C>);

/// A model of no ciphertext.
impl Default for ScoresModel {
    fn default() -> Self {
        ScoresModel(Vec::new())
    }
}

impl ScoresModel {
    /// The model of these ciphertexts, which are not divided yet.
    fn new(engine: &Engine, layout: &ScoreLayout, mut parts: Vec<Ciphertext>) -> Self {
        let (eval, log_gap) = (engine.scores_evaluator(), layout.pack_gap().ilog2());
        parts.iter_mut().for_each(|part| eval.divide_exactly_assign(part, log_gap));
        ScoresModel(parts.into_iter().map(Arc::new).collect())
    }

    /// The ciphertexts.
    pub fn parts(&self) -> &[Arc<Ciphertext>] {
        &self.0
    }

    /// The ciphertexts of the model itself: times the gap, by which [`Self::parts`] are divided.
    pub fn undivided(&self, engine: &Engine, layout: &ScoreLayout) -> Vec<Ciphertext> {
        let (eval, gap) = (engine.scores_evaluator(), layout.pack_gap() as i64);
        let times_gap = |part: &Arc<Ciphertext>| {
            let mut part = Ciphertext::clone(part);
            eval.mul_integer_assign(&mut part, gap);
            part
        };
        self.0.iter().map(times_gap).collect()
    }

    /// The only ciphertext.
    ///
    /// # Errors
    /// [`Error::Broken`] for a model of stages with several.
    pub fn only(&self) -> Result<&Ciphertext, Error> {
        let [only] = self.parts() else { return Err(Error::Broken("one ciphertext of a model of several")) };
        Ok(only)
    }

    /// Whether this is the same model, and not one of equal numbers.
    pub fn is(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(part, other)| Arc::ptr_eq(part, other))
    }
}

impl<C> ScoresModel<C> {
    /// The model with `map` of its ciphertexts.
    fn try_map<D>(self, map: impl FnMut(C) -> Result<D, Error>) -> Result<ScoresModel<D>, Error> {
        Ok(ScoresModel(self.0.into_iter().map(map).collect::<Result<_, _>>()?))
    }
}

/// What updates continue from.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Statistics<C = Arc<Ciphertext>> {
    /// A_j and ω_j, and V and g up to the last batch that was raised, in the deep ring.
    Slots { model: C, statistics: C },
    /// The inverse as operands of products, and the sums of all feedback of batches that were closed, with
    /// their weights if old feedback counts less.
    Products { inverse: Inverse<C>, total: C },
}

/// A ciphertext of these slots without encryption, at a level of the deep ring.
fn trivial(engine: &Engine, slots: &[Complex64], level: usize) -> Result<Ciphertext, Error> {
    let (deep, params) = (engine.deep(), engine.deep().params());
    let mut out = Ciphertext::zero(params, level);
    deep.evaluator().add_plain_assign(&mut out, &Plaintext::encode(params, slots, level)?)?;
    Ok(out)
}

/// A = I/λ and ω = 0 in the deep ring.
fn first_model(engine: &Engine, layout: &ScoreLayout, plan: &Plan, lambda: f64) -> Result<Ciphertext, Error> {
    let model = layout.model_slots(|i, j| if i == j { 1.0 / lambda } else { 0.0 }, |_| 0.0);
    trivial(engine, &model, plan.model_level)
}

impl EncryptedBandit {
    /// A bandit without data: A = I/λ, ω = 0, V = λI. `secret` must be random.
    ///
    /// # Errors
    /// As [`BanditConfig::plan`]; [`protocol::Error::OutOfRange`] for a root without its keys.
    pub fn create(engine: &Engine, config: BanditConfig, secret: [u8; 32]) -> Result<Self, Error> {
        let deep = engine.deep();
        let small = engine.params();
        let plan = config.plan(deep.rings(), deep.shape(), engine.ring())?;
        deep.check_width(&config)?;
        let exchanges = Self::exchanges_of(engine, &config, &plan)?;
        let lambda = config.linear.lambda;
        let layout = &exchanges.layout;
        let statistics = match plan.updates {
            Updates::Slots => Statistics::Slots {
                model: Arc::new(first_model(engine, layout, &plan, lambda)?),
                statistics: Arc::new(trivial(engine, &layout.ridge(lambda), plan.statistics_level)?),
            },
            Updates::Products => {
                let inverse = Inverse::identity(engine.scores_keys(), &layout.matrices()?, 1 << LOG_OPERAND)?;
                Statistics::Products { inverse, total: Arc::new(empty_sum(engine)) }
            }
        };
        let top = small.max_level();
        let first = |coefficients: &Vec<i64>| -> Result<Ciphertext, Error> {
            let first = Plaintext::from_integers(small, coefficients, top, small.scale(top))?;
            let mut model = Ciphertext::zero(small, top);
            engine.scores_evaluator().add_plain_assign(&mut model, &first)?;
            Ok(model)
        };
        let first = layout.first_model(lambda).iter().map(first).collect::<Result<_, _>>()?;
        let scores_model = ScoresModel::new(engine, layout, first);
        let state = State {
            scores_model,
            statistics,
            sum: Arc::new(empty_sum(engine)),
            past: config.forgetting().map(Past::new),
            logged: false,
            learnt: LearntIds::default(),
            erased: BTreeSet::new(),
            subtracted: 0,
            trace: config.tests_trace().then(|| Trace::after(engine, 0)),
            counters: config.counters.map(|_| CounterSums::new(engine)),
            config,
            plan,
            secret,
            history: secret,
            reserved: 0,
            answered: Rounds::new(),
            given: Given::default(),
            feedbacks: 0,
            closed: 0,
            model_feedbacks: 0,
            batches: 0,
            refreshes: 0,
            tasks: 0,
            residual: 0.0,
            phase: Phase::Open,
            frozen: false,
            origins: Vec::new(),
        };
        Ok(EncryptedBandit { state, exchanges })
    }

    fn exchanges_of(engine: &Engine, config: &BanditConfig, plan: &Plan) -> Result<Arc<Exchanges>, Error> {
        let (small, rings, answers) = (engine.params(), engine.deep().rings(), engine.answer_params());
        Ok(Arc::new(Exchanges::new(config, plan, engine.ring(), small, rings, answers)?))
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

    /// The model in use.
    pub fn scores_model(&self) -> &ScoresModel {
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

    /// The last round that events show to be given out, or left out ([`Event::Skipped`]).
    pub fn last_given(&self) -> u64 {
        self.state.last_given()
    }

    /// The counters and the phase, where `round` is the last round that was given out.
    pub fn status(&self, round: u64) -> Status {
        let s = &self.state;
        Status {
            round: s.given.count(round),
            feedbacks: s.feedbacks,
            model_feedbacks: s.model_feedbacks,
            batches: s.batches,
            refreshes: s.refreshes,
            updating: !s.frozen && matches!(s.phase, Phase::Raising { .. } | Phase::Updating { .. }),
            refresh_due: !s.frozen && matches!(s.phase, Phase::Refreshing { .. } | Phase::Exchanging { .. }),
            pending_decisions: s.waiting(round) as usize,
            frozen: s.frozen,
        }
    }

    /// Checks that feedback is learnt now.
    ///
    /// # Errors
    /// [`Error::Frozen`].
    pub fn check_learns(&self) -> Result<(), Error> {
        if self.state.frozen { Err(Error::Frozen) } else { Ok(()) }
    }

    /// The id of the decision of `round`: the round, and a code that only this bandit can compute.
    pub fn decision_id(&self, round: u64) -> DecisionId {
        self.state.decision_id(round)
    }

    /// Applies an event. On an error nothing has changed.
    ///
    /// # Errors
    /// [`Error::Ckks`] for a frame that is not one of this bandit; [`protocol::Error::UnknownDecision`] for a
    /// round that does not wait; [`Error::UnknownQuestion`]; [`Error::TaskOver`]; [`Error::Frozen`];
    /// [`Error::BadState`] for feedback of another schedule.
    pub fn apply(&mut self, engine: &Engine, event: &Event) -> Result<Applied, Error> {
        self.applied(engine, event, None)
    }

    /// Applies an event, with what the answer to a step leads to if that is known.
    fn applied(&mut self, engine: &Engine, event: &Event, step: Option<Next>) -> Result<Applied, Error> {
        let mut next = self.clone();
        next.state.note(event)?;
        match event {
            Event::Feedback { .. } | Event::Traced { .. } | Event::Learnt { .. } => self.check_learns()?,
            Event::Raised { task, .. } | Event::Refreshed { task, .. } | Event::Exchanged { task, .. }
                if self.state.frozen =>
            {
                return Err(Error::TaskOver { task: *task });
            }
            _ => {}
        }
        let applied = match event {
            Event::Rounds(reserved) => {
                // More are reserved when all are given out.
                next.state.given.up_to(next.state.reserved);
                next.state.reserved = next.state.reserved.max(*reserved);
                Applied::Reserved
            }
            Event::Given(round) if *round <= next.state.reserved => {
                next.state.given.up_to(*round);
                Applied::Reserved
            }
            Event::Given(_) => return Err(Error::BadState("rounds that were not reserved".into())),
            Event::Skipped => {
                let forgotten = next.state.answered.forgotten();
                next.state.given.leave_out(next.state.reserved, forgotten);
                Applied::Reserved
            }
            Event::Learnt { id, first, rounds, frame } => {
                Applied::Learnt(next.learn(engine, *id, (*first, *rounds), frame)?)
            }
            Event::Feedback { .. } if next.state.trace.is_some() => {
                return Err(Error::BadState("a feedback without the statistics of the trace".into()));
            }
            Event::Feedback { round, frame } => Applied::Counted(next.count(engine, *round, frame)?),
            Event::Traced { round, frame, trace, answer } => {
                let statistics = engine.read_contexts(trace)?;
                next.take_answer(engine, *round, *answer)?;
                next.add_trace(engine, &statistics)?;
                Applied::Counted(next.count(engine, *round, frame)?)
            }
            Event::Erased { round, frame } => Applied::Erased(next.erase(engine, *round, frame)?),
            Event::Raised { task, frame } => {
                next.take_raised(engine, *task, frame)?;
                Applied::UpdateDue
            }
            Event::Refreshed { task, deep, scores } => {
                next.take_refreshed(engine, *task, deep, scores)?;
                Applied::Installed
            }
            Event::Exchanged { task, frames } => {
                let computed = step.map_or_else(|| next.next_step(engine, *task, frames), Ok)?;
                next.take_exchanged(engine, *task, computed)?
            }
            Event::Closed => {
                next.close_early(engine)?;
                Applied::Closed
            }
            Event::Frozen(frozen) => {
                next.state.frozen = *frozen;
                Applied::Frozen
            }
        };
        *self = next;
        Ok(applied)
    }
}
