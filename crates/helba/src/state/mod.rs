//! The state machine of one bandit, without I/O.
//!
//! The phases of a batch are open, closing (the update runs) and refreshing (a user is asked); then the next
//! batch is open. In every phase, decisions use the current model, and feedback is counted.
//!
//! A transition returns a [`Change`]: the state to be stored, its ciphertexts, and the rows of decisions and
//! receipts that are written or removed. The caller stores the change and then [applies](Change::apply) it. A
//! change that is dropped changes nothing. Neither the time nor the size of a change grows with the number of
//! decisions that wait for feedback.

mod decisions;
mod phase;

pub use decisions::{DecisionInputs, DecisionReply, Feedback};
pub use phase::{UpdateInputs, UpdateOutput};

use crate::journal::{self, Edit, Recent, StoredEdit, StoredRow};
use crate::{DecisionOutput, Engine, Error, Scalars, refresh};
use ckks::{Ciphertext, Plaintext};
use decisions::{Counted, Pending};
use num_complex::Complex64;
use phase::Phase;
use protocol::exchange::TRACE_FLOOD_BITS;
use protocol::{
    BanditConfig, DecisionId, Factors, INVERSE_TOLERANCE, Layout, Plan, Receipt, RefreshId, Status,
};
use rand::CryptoRng;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The most decisions that wait for feedback, and the most receipts for repeated feedback. The oldest are
/// removed first.
const REMEMBERED: usize = 1024;

/// One bandit: public counters, encrypted statistics, and the decisions that wait for feedback.
#[derive(Debug, Clone)]
pub struct Bandit {
    state: State<Arc<Ciphertext>>,
    pending: Recent<DecisionId, Pending>,
    receipts: Recent<DecisionId, Counted>,
}

/// Everything except the rows. `C` is a ciphertext in memory, and the digest of a ciphertext in a store. Both
/// are cheap to clone.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct State<C> {
    config: BanditConfig,
    plan: Plan,
    round: u64,
    feedbacks: u64,
    model_feedbacks: u64,
    batches: u64,
    refreshes: u64,
    /// The number of feedbacks up to which the trace of this batch is known to be below C. Under a public
    /// schedule, this is the number at the end of the batch before.
    trace_tested_to: u64,
    /// A bound on the distance of the eigenvalues of A_j·V_j from one. It exceeds the tolerance if more
    /// feedbacks arrived during an update than the levels have Newton steps for.
    residual: f64,
    model: C,
    statistics: C,
    trace: C,
    phase: Phase<C>,
}

/// The ciphertexts of a bandit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The current model, A_j and ω_j.
    Model,
    /// The sums V and g.
    Statistics,
    /// The trace statistics of the batch.
    Trace,
    /// The statistics when the batch was closed.
    Snapshot,
    /// The next model under its mask.
    Masked,
}

impl Part {
    fn level(self, plan: &Plan) -> usize {
        match self {
            Part::Model => plan.model_level,
            Part::Statistics | Part::Snapshot => plan.statistics_level,
            Part::Trace => plan.trace_level,
            Part::Masked => plan.refresh_level,
        }
    }
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Part::Model => "model",
            Part::Statistics => "statistics",
            Part::Trace => "trace",
            Part::Snapshot => "snapshot",
            Part::Masked => "masked",
        })
    }
}

/// The BLAKE3 digest of the frame of a ciphertext, by which a store names it.
pub type Digest = [u8; 32];

/// A transition that has been computed and not applied.
#[derive(Debug)]
#[must_use = "a change that is not applied is lost"]
pub struct Change<'a, T> {
    bandit: &'a mut Bandit,
    /// `None` if only rows change.
    state: Option<State<Arc<Ciphertext>>>,
    pending: Vec<Edit<DecisionId, Pending>>,
    receipts: Vec<Edit<DecisionId, Counted>>,
    out: T,
}

impl<T> Change<'_, T> {
    /// Applies the change, which the caller has stored.
    pub fn apply(self) -> T {
        if let Some(state) = self.state {
            self.bandit.state = state;
        }
        self.bandit.pending.apply(self.pending);
        self.bandit.receipts.apply(self.receipts);
        self.out
    }

    /// Whether nothing changes, so that nothing must be stored.
    pub fn is_empty(&self) -> bool {
        self.state.is_none() && self.pending.is_empty() && self.receipts.is_empty()
    }

    /// The state after the change, for a store.
    pub fn state(&self) -> SavedState<'_> {
        SavedState(self.state.as_ref().unwrap_or(&self.bandit.state))
    }

    /// The edits of rows of decisions that wait for feedback.
    ///
    /// # Errors
    /// [`Error::Broken`] if a row cannot be serialised.
    pub fn decisions(&self) -> Result<Vec<StoredEdit>, Error> {
        journal::encode(&self.pending)
    }

    /// The edits of rows of receipts.
    ///
    /// # Errors
    /// [`Error::Broken`] if a row cannot be serialised.
    pub fn receipts(&self) -> Result<Vec<StoredEdit>, Error> {
        journal::encode(&self.receipts)
    }
}

/// The stored state of a bandit besides its rows.
#[derive(Debug, Clone, Copy)]
pub struct SavedState<'a>(&'a State<Arc<Ciphertext>>);

impl SavedState<'_> {
    /// The three or four ciphertexts. An unchanged ciphertext is the same `Arc` as before.
    pub fn ciphertexts(&self) -> Vec<&Arc<Ciphertext>> {
        let s = self.0;
        let mut out = vec![&s.model, &s.statistics, &s.trace];
        match &s.phase {
            Phase::Open => {}
            Phase::Closing { snapshot, .. } => out.push(snapshot),
            Phase::Refreshing { masked, .. } => out.push(masked),
        }
        out
    }

    /// The state in some hundred bytes, each ciphertext replaced by its digest.
    ///
    /// # Errors
    /// Those of `digest`; [`Error::Broken`] if the state cannot be serialised.
    pub fn to_bytes<E: From<Error>>(
        &self,
        mut digest: impl FnMut(&Arc<Ciphertext>) -> Result<Digest, E>,
    ) -> Result<Vec<u8>, E> {
        let state = self.0.clone().try_map(&mut |_, ciphertext| digest(&ciphertext))?;
        let bytes = postcard::to_stdvec(&state);
        bytes.map_err(|_| Error::Broken("a state that cannot be serialised").into())
    }
}

impl Bandit {
    /// A bandit without data: A = I/λ, ω = 0, V = λI. These are public, so that they are not encrypted.
    ///
    /// # Errors
    /// As [`BanditConfig::plan`].
    pub fn create(engine: &Engine, config: BanditConfig) -> Result<Self, Error> {
        let params = engine.params();
        let plan = config.plan(params, engine.shape())?;
        let layout = Layout::new(&config, &plan);
        let lambda = config.linear.lambda;
        let trivial = |slots: &[Complex64], level: usize| -> Result<Arc<Ciphertext>, Error> {
            let mut out = Ciphertext::zero(params, level);
            engine.evaluator().add_plain_assign(&mut out, &Plaintext::encode(params, slots, level)?)?;
            Ok(Arc::new(out))
        };
        let model = layout.model(|i, j| if i == j { 1.0 / lambda } else { 0.0 }, |_| 0.0);
        let state = State {
            model: trivial(&model, plan.model_level)?,
            statistics: trivial(&layout.ridge(lambda), plan.statistics_level)?,
            trace: Arc::new(Ciphertext::zero(params, plan.trace_level)),
            config,
            plan,
            round: 0,
            feedbacks: 0,
            model_feedbacks: 0,
            batches: 0,
            refreshes: 0,
            trace_tested_to: 0,
            residual: 0.0,
            phase: Phase::Open,
        };
        Ok(Bandit { state, pending: Recent::new(REMEMBERED), receipts: Recent::new(REMEMBERED) })
    }

    /// A bandit from a store: the bytes of [`SavedState::to_bytes`] and the rows. `read` returns a ciphertext
    /// by its digest, at the level that it must have.
    ///
    /// # Errors
    /// Those of `read`; [`Error::BadState`] if bytes cannot be read, or if the plan differs from that of
    /// these keys.
    pub fn restore<E: From<Error>>(
        engine: &Engine,
        state: &[u8],
        decisions: &[StoredRow],
        receipts: &[StoredRow],
        mut read: impl FnMut(Part, usize, Digest) -> Result<Arc<Ciphertext>, E>,
    ) -> Result<Self, E> {
        let state: State<Digest> = journal::decode(state)?;
        let plan = state.plan.clone();
        if state.config.plan(engine.params(), engine.shape()).map_err(Error::from)? != plan {
            return Err(Error::BadState("it was made with other parameters".into()).into());
        }
        let state = state.try_map(&mut |part: Part, digest| read(part, part.level(&plan), digest))?;
        let (pending, receipts) = (Recent::read(REMEMBERED, decisions)?, Recent::read(REMEMBERED, receipts)?);
        Ok(Bandit { state, pending, receipts })
    }

    /// The stored state of the bandit besides its rows.
    pub fn state(&self) -> SavedState<'_> {
        SavedState(&self.state)
    }

    /// The most decisions that wait for feedback. One more replaces the oldest.
    pub const MOST_PENDING: usize = REMEMBERED;

    /// The round of the oldest decision that waits for feedback.
    pub fn oldest_pending(&self) -> Option<u64> {
        self.pending.oldest().map(|pending| pending.round)
    }

    /// The configuration.
    pub fn config(&self) -> &BanditConfig {
        &self.state.config
    }

    /// The levels and sizes.
    pub fn plan(&self) -> &Plan {
        &self.state.plan
    }

    /// The counters and the phase.
    pub fn status(&self) -> Status {
        let s = &self.state;
        Status {
            round: s.round,
            feedbacks: s.feedbacks,
            model_feedbacks: s.model_feedbacks,
            batches: s.batches,
            refreshes: s.refreshes,
            updating: matches!(s.phase, Phase::Closing { .. }),
            refresh_due: matches!(s.phase, Phase::Refreshing { .. }),
            pending_decisions: self.pending.len(),
        }
    }

    /// The inputs of [`Engine::decide`].
    pub fn begin_decision(&self) -> DecisionInputs {
        let s = &self.state;
        let untested = s.feedbacks - s.trace_tested_to;
        // Beyond this number the trace may leave the range of the comparison, and the next feedback closes
        // the batch.
        let test = !s.config.linear.schedule.is_public() && untested > 0 && untested <= s.config.unanswered;
        DecisionInputs {
            config: s.config.clone(),
            plan: s.plan.clone(),
            scalars: Scalars::new(&s.config, s.round + 1, s.model_feedbacks),
            model: s.model.clone(),
            trace: test.then(|| (s.trace.clone(), s.feedbacks)),
            batch: s.batches,
            model_feedbacks: s.model_feedbacks,
            residual: s.residual,
        }
    }

    /// Adds noise to the trace comparison, and records the decision until its feedback arrives.
    pub fn finish_decision<R: CryptoRng>(
        &mut self,
        engine: &Engine,
        output: DecisionOutput,
        rng: &mut R,
    ) -> Change<'_, DecisionReply> {
        let mut id = DecisionId([0; 16]);
        rng.fill_bytes(&mut id.0);
        let DecisionOutput { action, trace, inputs, .. } = output;
        let (params, key) = (engine.params(), engine.public_key());
        let trace = trace.map(|t| refresh::flood(params, key, t, TRACE_FLOOD_BITS, rng));
        let mut state = self.state.clone();
        state.round += 1;
        let (round, model_feedbacks) = (state.round, inputs.model_feedbacks);
        let refresh = match &state.phase {
            Phase::Refreshing { id, masked, .. } => Some((RefreshId(*id), (**masked).clone())),
            _ => None,
        };
        let task = refresh.as_ref().map(|(id, _)| id.0);
        let pending = self.pending.set(id, Pending { round, tested: inputs.tested(), refresh: task });
        let out = DecisionReply { id, round, model_feedbacks, action, trace, refresh };
        Change { bandit: self, state: Some(state), pending, receipts: Vec::new(), out }
    }

    /// Counts a feedback once. A repeated call returns the same receipt and changes nothing.
    ///
    /// # Errors
    /// [`protocol::Error::UnknownDecision`], [`Error::WrongLevel`].
    pub fn feedback(
        &mut self,
        engine: &Engine,
        id: DecisionId,
        feedback: Feedback,
    ) -> Result<Change<'_, Receipt>, Error> {
        if let Some(counted) = self.receipts.get(&id) {
            let out = counted.receipt(id);
            return Ok(Change { bandit: self, state: None, pending: Vec::new(), receipts: Vec::new(), out });
        }
        let unknown = || protocol::Error::UnknownDecision { id: id.to_string() };
        let pending = self.pending.get(&id).ok_or_else(unknown)?;
        let plan = &self.state.plan;
        let level = |what, ct: &Ciphertext, want: usize| {
            if ct.level() == want { Ok(()) } else { Err(Error::WrongLevel { what, got: ct.level(), want }) }
        };
        level("the statistics ciphertext", &feedback.statistics, plan.statistics_level)?;
        level("the trace ciphertext", &feedback.trace, plan.trace_level)?;
        if let Some((_, ct)) = &feedback.refreshed {
            level("the refreshed ciphertext", ct, plan.model_level)?;
        }
        let mut state = self.state.clone();
        state.count(engine, pending, feedback)?;
        let counted = Counted { feedbacks: state.feedbacks, batches: state.batches };
        let (pending, receipts) = (vec![self.pending.remove(id)], self.receipts.set(id, counted));
        Ok(Change { bandit: self, state: Some(state), pending, receipts, out: counted.receipt(id) })
    }

    /// The inputs of [`Engine::update`], if a batch update is due or was interrupted.
    ///
    /// # Errors
    /// [`Error::Broken`] if no Newton iteration converges from the last model, which the end of the batch
    /// would have reported.
    pub fn begin_update(&self) -> Result<Option<UpdateInputs>, Error> {
        let s = &self.state;
        let Phase::Closing { at, untested, snapshot, .. } = &s.phase else { return Ok(None) };
        Ok(Some(UpdateInputs {
            plan: s.plan.clone(),
            snapshot: snapshot.clone(),
            model: s.model.clone(),
            // These are often fewer steps than planned, because most batches end with fewer untested
            // feedbacks than the plan allows.
            factors: s.newton(*untested)?,
            closed_at: *at,
        }))
    }

    /// Stores the result of an update, which the next user is asked to refresh. The result for another batch
    /// than the closing one changes nothing.
    pub fn finish_update(&mut self, output: UpdateOutput) -> Change<'_, ()> {
        let state = match self.state.phase {
            Phase::Closing { at, residual, .. } if at == output.closed_at => {
                let (id, seed, masked) = (self.state.batches, output.seed, Arc::new(output.masked));
                let phase = Phase::Refreshing { at, residual, id, seed, masked };
                Some(State { phase, ..self.state.clone() })
            }
            _ => None,
        };
        Change { bandit: self, state, pending: Vec::new(), receipts: Vec::new(), out: () }
    }
}

impl State<Arc<Ciphertext>> {
    /// Counts the feedback `f` on `decision`, and closes the batch if the schedule ends it.
    fn count(&mut self, engine: &Engine, decision: &Pending, f: Feedback) -> Result<(), Error> {
        if let Some((refresh_id, model)) = f.refreshed.filter(|(id, _)| decision.refresh == Some(id.0)) {
            self.install(engine, refresh_id, model);
        }
        if let (Some(tested), Some(reached)) = (&decision.tested, f.trace_answer)
            && tested.batch == self.batches
        {
            let in_use = self.is_open() && tested.model_feedbacks == self.model_feedbacks;
            if !reached {
                // The inverses decrease from batch to batch, so that a trace below C under an older inverse
                // is below C under the current one and the next one.
                if in_use || tested.inverse && self.next_residual() <= INVERSE_TOLERANCE {
                    self.trace_tested_to = self.trace_tested_to.max(tested.feedbacks);
                }
            } else if in_use {
                // The batch is closed before this feedback is added, because the condition was tested without
                // it.
                self.close(engine)?;
            }
        }
        let public = self.config.linear.schedule.is_public();
        let untested = self.feedbacks + 1 - self.trace_tested_to > self.config.unanswered;
        // A model whose residual exceeds the tolerance is updated at once.
        let unfinished = self.residual > INVERSE_TOLERANCE;
        if self.is_open() && (unfinished || !public && untested) {
            self.close(engine)?;
        }
        // The sum replaces the received ciphertext, so that nothing is copied.
        let add = |mut sum: Ciphertext, to: &Ciphertext| -> Result<Arc<Ciphertext>, Error> {
            engine.evaluator().add_assign(&mut sum, to)?;
            Ok(Arc::new(sum))
        };
        self.statistics = add(f.statistics, &self.statistics)?;
        self.trace = add(f.trace, &self.trace)?;
        self.feedbacks += 1;
        if self.is_open() && self.config.linear.batch_ends_publicly(self.feedbacks, self.model_feedbacks) {
            self.close(engine)?;
        }
        Ok(())
    }

    fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// The Newton factors of an update with `untested` feedbacks. The configuration was checked, so that an
    /// error here is not the fault of a sender of feedback.
    fn newton(&self, untested: u64) -> Result<Factors, Error> {
        let steps = self.config.newton(self.residual, untested, self.plan.newton_steps);
        steps.map_err(|_| Error::Broken("a batch that Newton's iteration does not converge for"))
    }

    /// Ends the batch. The next model is computed from the statistics so far, and a new trace begins.
    fn close(&mut self, engine: &Engine) -> Result<(), Error> {
        if self.feedbacks == self.model_feedbacks {
            // The model already contains all feedbacks.
            return Ok(());
        }
        let untested = self.feedbacks - self.trace_tested_to;
        let residual = self.newton(untested)?.residual();
        let snapshot = self.statistics.clone();
        self.phase = Phase::Closing { at: self.feedbacks, untested, residual, snapshot };
        self.batches += 1;
        self.trace_tested_to = self.feedbacks;
        self.trace = Arc::new(Ciphertext::zero(engine.params(), self.plan.trace_level));
        Ok(())
    }

    /// Replaces the current model by a refreshed one, if it answers the current refresh task.
    fn install(&mut self, engine: &Engine, refresh_id: RefreshId, refreshed: Ciphertext) {
        let Phase::Refreshing { at, residual, id, seed, .. } = self.phase else { return };
        if RefreshId(id) != refresh_id {
            return;
        }
        let plan = &self.plan;
        let model = refresh::reveal(engine.params(), refreshed, plan.refresh_level, plan.model_slots, &seed);
        self.model = Arc::new(model);
        self.model_feedbacks = at;
        self.residual = residual;
        self.refreshes += 1;
        self.phase = Phase::Open;
    }

    /// The residual of the next model if there is one, or else of the current model.
    fn next_residual(&self) -> f64 {
        match self.phase {
            Phase::Open => self.residual,
            Phase::Closing { residual, .. } | Phase::Refreshing { residual, .. } => residual,
        }
    }
}

impl<C> State<C> {
    /// Replaces each ciphertext `c` by `read(part, c)`.
    fn try_map<D, E>(self, read: &mut impl FnMut(Part, C) -> Result<D, E>) -> Result<State<D>, E> {
        Ok(State {
            model: read(Part::Model, self.model)?,
            statistics: read(Part::Statistics, self.statistics)?,
            trace: read(Part::Trace, self.trace)?,
            phase: self.phase.try_map(read)?,
            config: self.config,
            plan: self.plan,
            round: self.round,
            feedbacks: self.feedbacks,
            model_feedbacks: self.model_feedbacks,
            batches: self.batches,
            refreshes: self.refreshes,
            trace_tested_to: self.trace_tested_to,
            residual: self.residual,
        })
    }
}
