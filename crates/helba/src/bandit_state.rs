//! The state machine of one bandit. No I/O: the caller persists [`Bandit::save`] before it acknowledges.
//!
//! A batch goes through open → closing (the update runs) → refreshing (a user is asked) → open. Decisions go on with the
//! model there is, and feedback is counted, in every phase.

use crate::{Engine, Error, Scalars, refresh};
use ckks::{Ciphertext, Plaintext};
use num_complex::Complex64;
use protocol::{
    BanditConfig, DecisionId, Factors, INVERSE_TOLERANCE, Layout, Plan, Receipt, RefreshId, Status,
};
use rand::CryptoRng;
use rns::sample::Seed;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::DecisionOutput;

/// The most decisions that wait for feedback, and the most receipts kept for repeated feedback; the oldest
/// are dropped first. Every commit writes them, some 120 bytes for each.
const REMEMBERED: usize = 1024;

/// The first byte of a stored state. States of older versions begin with the number of features, which is
/// smaller.
const STATE_VERSION: u8 = 0xB2;

const MODEL: &str = "model";
const STATISTICS: &str = "statistics";
const TRACE: &str = "trace";
const SNAPSHOT: &str = "snapshot";
const MASKED: &str = "masked";

/// A bandit's answer to a decision request.
#[derive(Debug, Clone)]
pub struct DecisionReply {
    /// To be named by the feedback.
    pub id: DecisionId,
    /// Round t, from 1.
    pub round: u64,
    /// Feedbacks in the model that decided, t_j.
    pub model_feedbacks: u64,
    /// The encrypted action, level 0.
    pub action: Ciphertext,
    /// The flooded trace comparison, level 0.
    pub trace: Option<Ciphertext>,
    /// A masked model to be encrypted anew.
    pub refresh: Option<(RefreshId, Ciphertext)>,
}

/// What a user returns for a decision.
#[derive(Debug, Clone)]
pub struct Feedback {
    /// [`Layout::statistics`] of the arm played.
    pub statistics: Ciphertext,
    /// [`Layout::trace_features`] of the arm played.
    pub trace: Ciphertext,
    /// Whether the trace comparison came out as reached, if it was asked and the device answers.
    pub trace_answer: Option<bool>,
    /// The masked model at the top level.
    pub refreshed: Option<(RefreshId, Ciphertext)>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct State {
    config: BanditConfig,
    plan: Plan,
    round: u64,
    feedbacks: u64,
    model_feedbacks: u64,
    batches: u64,
    refreshes: u64,
    /// Feedbacks up to which the trace of this batch is known to be below C: those of the batches before,
    /// where nobody is asked.
    safe: u64,
    /// The eigenvalues of A_j·V_j are within this of one: more than the tolerance after more feedbacks came in during
    /// an update than the levels have steps for.
    residual: f64,
    phase: Phase,
    pending: BTreeMap<DecisionId, Pending>,
    receipts: BTreeMap<DecisionId, (u64, Receipt)>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum Phase {
    Open,
    /// The batch is closed at `at` feedbacks, `unanswered` of them since the batch before was closed or,
    /// where the schedule asks, since the trace was last known to be below C. `residual` is that of the next
    /// model.
    Closing {
        at: u64,
        unanswered: u64,
        residual: f64,
    },
    Refreshing {
        at: u64,
        residual: f64,
        id: u64,
        seed: Seed,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Pending {
    round: u64,
    /// The trace comparison it carried.
    trace: Option<Tested>,
    /// The refresh task it carried: an answer to another is not taken.
    refresh: Option<u64>,
}

/// A trace comparison under way.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Tested {
    batch: u64,
    feedbacks: u64,
    /// t_j of the inverse it was tested with.
    model_feedbacks: u64,
    /// Whether that was the inverse, within the tolerance.
    inverse: bool,
}

/// One bandit: public counters and encrypted statistics. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Bandit {
    state: State,
    ciphertexts: BTreeMap<String, Arc<Ciphertext>>,
}

/// What a decision needs; no lock is held while it is computed.
#[derive(Debug, Clone)]
pub struct DecisionInputs {
    pub(crate) config: BanditConfig,
    pub(crate) plan: Plan,
    pub(crate) scalars: Scalars,
    pub(crate) model: Arc<Ciphertext>,
    /// Trace statistics and the feedbacks in them, if the condition is to be tested.
    pub(crate) trace: Option<(Arc<Ciphertext>, u64)>,
    pub(crate) batch: u64,
    pub(crate) model_feedbacks: u64,
    pub(crate) residual: f64,
}

/// What a batch update needs.
#[derive(Debug, Clone)]
pub struct UpdateInputs {
    pub(crate) plan: Plan,
    pub(crate) snapshot: Arc<Ciphertext>,
    pub(crate) model: Arc<Ciphertext>,
    pub(crate) factors: Factors,
    pub(crate) closed_at: u64,
}

/// A masked model.
#[derive(Debug, Clone)]
pub struct UpdateOutput {
    pub(crate) masked: Ciphertext,
    pub(crate) seed: Seed,
    pub(crate) closed_at: u64,
    /// Wall time by phase.
    pub seconds: Vec<(String, f64)>,
}

impl Bandit {
    /// A bandit that has seen nothing: A = I/λ, ω = 0, V = λI. These are public, so they are not hidden.
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
        let ciphertexts = BTreeMap::from([
            (MODEL.into(), trivial(&model, plan.model_level)?),
            (STATISTICS.into(), trivial(&layout.ridge(lambda), plan.statistics_level)?),
            (TRACE.into(), Arc::new(Ciphertext::zero(params, plan.trace_level))),
        ]);
        let state = State {
            config,
            plan,
            round: 0,
            feedbacks: 0,
            model_feedbacks: 0,
            batches: 0,
            refreshes: 0,
            safe: 0,
            residual: 0.0,
            phase: Phase::Open,
            pending: BTreeMap::new(),
            receipts: BTreeMap::new(),
        };
        Ok(Bandit { state, ciphertexts })
    }

    /// From what [`Bandit::save`] gave.
    ///
    /// # Errors
    /// [`Error::BadState`] if it cannot be read, a ciphertext is missing, or the plan is not the one these keys give.
    pub fn restore(
        engine: &Engine,
        state: &[u8],
        ciphertexts: BTreeMap<String, Arc<Ciphertext>>,
    ) -> Result<Self, Error> {
        let other = || Error::BadState("it was made with other parameters or another version".into());
        let state = state.strip_prefix(&[STATE_VERSION]).ok_or_else(other)?;
        let state: State = postcard::from_bytes(state).map_err(|e| Error::BadState(e.to_string()))?;
        if state.config.plan(engine.params(), engine.shape())? != state.plan {
            return Err(other());
        }
        let names: &[&str] = match state.phase {
            Phase::Open => &[MODEL, STATISTICS, TRACE],
            Phase::Closing { .. } => &[MODEL, STATISTICS, TRACE, SNAPSHOT],
            Phase::Refreshing { .. } => &[MODEL, STATISTICS, TRACE, MASKED],
        };
        if let Some(name) = names.iter().find(|n| !ciphertexts.contains_key(**n)) {
            return Err(Error::BadState(format!("the ciphertext `{name}` is missing")));
        }
        Ok(Bandit { state, ciphertexts })
    }

    /// The complete state: small bytes, and ciphertexts by name. A ciphertext that did not change is the same `Arc`.
    pub fn save(&self) -> (Vec<u8>, BTreeMap<String, Arc<Ciphertext>>) {
        // Serialisation of plain data into memory cannot fail.
        let state = postcard::to_extend(&self.state, vec![STATE_VERSION]).unwrap_or_default();
        (state, self.ciphertexts.clone())
    }

    /// The level a stored ciphertext is at, by name, for those who read them back.
    pub fn ciphertext_level(plan: &Plan, name: &str) -> Option<usize> {
        match name {
            MODEL => Some(plan.model_level),
            STATISTICS | SNAPSHOT => Some(plan.statistics_level),
            TRACE => Some(plan.trace_level),
            MASKED => Some(plan.refresh_level),
            _ => None,
        }
    }

    /// Decisions that wait for feedback, at most; one more takes the place of the oldest.
    pub const MOST_PENDING: usize = REMEMBERED;

    /// The round of the oldest decision that waits for feedback.
    pub fn oldest_pending(&self) -> Option<u64> {
        self.state.pending.values().map(|pending| pending.round).min()
    }

    /// As it was created.
    pub fn config(&self) -> &BanditConfig {
        &self.state.config
    }

    /// Its levels.
    pub fn plan(&self) -> &Plan {
        &self.state.plan
    }

    /// Where it stands.
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
            pending_decisions: s.pending.len(),
        }
    }

    fn ciphertext(&self, name: &'static str) -> Result<&Arc<Ciphertext>, Error> {
        self.ciphertexts
            .get(name)
            .ok_or_else(|| Error::BadState(format!("the ciphertext `{name}` is missing")))
    }

    /// What [`Engine::decide`] needs.
    ///
    /// # Errors
    /// [`Error::BadState`] never in practice.
    pub fn begin_decision(&self) -> Result<DecisionInputs, Error> {
        let s = &self.state;
        let unanswered = s.feedbacks - s.safe;
        // Beyond that the trace may leave the comparison's range; the next feedback closes the batch anyway.
        let test =
            !s.config.linear.schedule.is_public() && unanswered > 0 && unanswered <= s.config.unanswered;
        let trace = if test { Some((self.ciphertext(TRACE)?.clone(), s.feedbacks)) } else { None };
        Ok(DecisionInputs {
            config: s.config.clone(),
            plan: s.plan.clone(),
            scalars: Scalars::new(&s.config, s.round + 1, s.model_feedbacks),
            model: self.ciphertext(MODEL)?.clone(),
            trace,
            batch: s.batches,
            model_feedbacks: s.model_feedbacks,
            residual: s.residual,
        })
    }

    /// Floods the result and remembers what is needed when its feedback comes.
    ///
    /// # Errors
    /// [`Error::Ckks`] never in practice.
    pub fn finish_decision<R: CryptoRng>(
        &mut self,
        engine: &Engine,
        output: DecisionOutput,
        rng: &mut R,
    ) -> Result<DecisionReply, Error> {
        let mut id = DecisionId([0; 16]);
        rng.fill_bytes(&mut id.0);
        let (batch, model_feedbacks) = (output.inputs.batch, output.inputs.model_feedbacks);
        let tested = output.inputs.trace.as_ref().map(|&(_, feedbacks)| Tested {
            batch,
            feedbacks,
            model_feedbacks,
            inverse: output.inputs.residual <= INVERSE_TOLERANCE,
        });
        let trace = output
            .trace
            .map(|t| refresh::trace_question(engine.params(), engine.public_key(), &t, rng))
            .transpose()?;
        let refresh = match self.state.phase {
            Phase::Refreshing { id, .. } => Some((RefreshId(id), (**self.ciphertext(MASKED)?).clone())),
            _ => None,
        };
        self.state.round += 1;
        let round = self.state.round;
        let task = refresh.as_ref().map(|(id, _): &(RefreshId, _)| id.0);
        self.state.pending.insert(id, Pending { round, trace: tested, refresh: task });
        forget_oldest(&mut self.state.pending, |p| p.round);
        Ok(DecisionReply { id, round, model_feedbacks, action: output.action, trace, refresh })
    }

    /// Counts a feedback once; the same call again returns the same receipt and changes nothing. On an error nothing
    /// has changed.
    ///
    /// # Errors
    /// [`protocol::Error::UnknownDecision`], [`Error::WrongLevel`].
    pub fn feedback(
        &mut self,
        engine: &Engine,
        id: DecisionId,
        feedback: Feedback,
    ) -> Result<Receipt, Error> {
        if let Some((_, receipt)) = self.state.receipts.get(&id) {
            return Ok(receipt.clone());
        }
        let pending = self
            .state
            .pending
            .get(&id)
            .cloned()
            .ok_or_else(|| protocol::Error::UnknownDecision { id: id.to_string() })?;
        let plan = &self.state.plan;
        let level = |what, ct: &Ciphertext, want: usize| {
            if ct.level() == want { Ok(()) } else { Err(Error::WrongLevel { what, got: ct.level(), want }) }
        };
        level("the statistics ciphertext", &feedback.statistics, plan.statistics_level)?;
        level("the trace ciphertext", &feedback.trace, plan.trace_level)?;
        if let Some((_, ct)) = &feedback.refreshed {
            level("the refreshed ciphertext", ct, plan.model_level)?;
        }
        let mut next = self.clone();
        let receipt = next.count(engine, id, pending, feedback)?;
        *self = next;
        Ok(receipt)
    }

    fn count(
        &mut self,
        engine: &Engine,
        id: DecisionId,
        pending: Pending,
        f: Feedback,
    ) -> Result<Receipt, Error> {
        if let Some((refresh_id, model)) = f.refreshed.filter(|(id, _)| pending.refresh == Some(id.0)) {
            self.install(engine, refresh_id, &model);
        }
        if let (Some(tested), Some(reached)) = (pending.trace, f.trace_answer)
            && tested.batch == self.state.batches
        {
            let s = &self.state;
            let in_use = matches!(s.phase, Phase::Open) && tested.model_feedbacks == s.model_feedbacks;
            if !reached {
                // Inverses only become smaller, so one that a newer has replaced, or is about to replace, tells too.
                if in_use || tested.inverse && self.next_residual() <= INVERSE_TOLERANCE {
                    self.state.safe = self.state.safe.max(tested.feedbacks);
                }
            } else if in_use {
                // Before this feedback is added: the inverse starts from what was tested.
                self.close(engine)?;
            }
        }
        let s = &self.state;
        let public = s.config.linear.schedule.is_public();
        let unknown = s.feedbacks + 1 - s.safe > s.config.unanswered;
        // A model that is not the inverse yet is brought nearer at once.
        let unfinished = s.residual > INVERSE_TOLERANCE;
        if matches!(s.phase, Phase::Open) && (unfinished || !public && unknown) {
            self.close(engine)?;
        }
        // The sum takes the place of what came: nothing is copied.
        for (name, mut sum) in [(STATISTICS, f.statistics), (TRACE, f.trace)] {
            engine.evaluator().add_assign(&mut sum, self.ciphertext(name)?)?;
            self.ciphertexts.insert(name.into(), Arc::new(sum));
        }
        self.state.feedbacks += 1;
        let s = &self.state;
        if matches!(s.phase, Phase::Open)
            && s.config.linear.batch_ends_publicly(s.feedbacks, s.model_feedbacks)
        {
            self.close(engine)?;
        }
        self.state.pending.remove(&id);
        let s = &mut self.state;
        let receipt = Receipt { decision: id.to_string(), feedbacks: s.feedbacks, batches: s.batches };
        s.receipts.insert(id, (s.feedbacks, receipt.clone()));
        forget_oldest(&mut s.receipts, |(n, _)| *n);
        Ok(receipt)
    }

    /// Ends the batch: the statistics so far are what the next model is made of, and a new trace begins.
    fn close(&mut self, engine: &Engine) -> Result<(), Error> {
        let s = &mut self.state;
        if s.feedbacks == s.model_feedbacks {
            // Nothing new to learn.
            return Ok(());
        }
        let unanswered = s.feedbacks - s.safe;
        let residual = s.config.newton(s.residual, unanswered, s.plan.newton_steps)?.residual();
        s.phase = Phase::Closing { at: s.feedbacks, unanswered, residual };
        s.batches += 1;
        s.safe = s.feedbacks;
        let snapshot = self.ciphertext(STATISTICS)?.clone();
        self.ciphertexts.insert(SNAPSHOT.into(), snapshot);
        let zero = Ciphertext::zero(engine.params(), self.state.plan.trace_level);
        self.ciphertexts.insert(TRACE.into(), Arc::new(zero));
        Ok(())
    }

    fn install(&mut self, engine: &Engine, refresh_id: RefreshId, refreshed: &Ciphertext) {
        let Phase::Refreshing { at, residual, id, seed } = self.state.phase else { return };
        if RefreshId(id) != refresh_id {
            return;
        }
        let plan = &self.state.plan;
        let model = refresh::reveal(engine.params(), refreshed, plan.refresh_level, plan.model_slots, &seed);
        self.ciphertexts.insert(MODEL.into(), Arc::new(model));
        self.ciphertexts.remove(MASKED);
        let s = &mut self.state;
        s.model_feedbacks = at;
        s.residual = residual;
        s.refreshes += 1;
        s.phase = Phase::Open;
    }

    /// Of the model in use, or of the one that is about to replace it.
    fn next_residual(&self) -> f64 {
        match self.state.phase {
            Phase::Open => self.state.residual,
            Phase::Closing { residual, .. } | Phase::Refreshing { residual, .. } => residual,
        }
    }

    /// What [`Engine::update`] needs, if a batch update is due or was interrupted.
    pub fn begin_update(&self) -> Option<UpdateInputs> {
        let s = &self.state;
        let Phase::Closing { at, unanswered, .. } = s.phase else { return None };
        let (snapshot, model) = (self.ciphertexts.get(SNAPSHOT)?, self.ciphertexts.get(MODEL)?);
        Some(UpdateInputs {
            plan: s.plan.clone(),
            snapshot: snapshot.clone(),
            model: model.clone(),
            // Often fewer steps than planned: most batches end with fewer feedbacks untested than the plan allows for.
            factors: s.config.newton(s.residual, unanswered, s.plan.newton_steps).ok()?,
            closed_at: at,
        })
    }

    /// Takes the update's result; the next user is asked to refresh it.
    pub fn finish_update(&mut self, output: UpdateOutput) {
        let Phase::Closing { at, residual, .. } = self.state.phase else { return };
        if at != output.closed_at {
            return;
        }
        self.state.phase = Phase::Refreshing { at, residual, id: self.state.batches, seed: output.seed };
        self.ciphertexts.remove(SNAPSHOT);
        self.ciphertexts.insert(MASKED.into(), Arc::new(output.masked));
    }
}

fn forget_oldest<V>(map: &mut BTreeMap<DecisionId, V>, age: impl Fn(&V) -> u64) {
    while map.len() > REMEMBERED {
        let Some(oldest) = map.iter().min_by_key(|(_, v)| age(v)).map(|(id, _)| *id) else { return };
        map.remove(&oldest);
    }
}
