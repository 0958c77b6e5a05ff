//! A batch from its end to the next model: its sum is raised, the model is computed, and a holder of the key
//! encrypts it anew.

use super::feedback::empty_sum;
use super::secrets::derive;
use super::stored::Place;
use super::trace::Trace;
use super::{EncryptedBandit, Past, ScoresModel, State, Statistics, first_model, trivial};
use crate::deep::ModelLevels;
use crate::engine::{Engine, Masked};
use crate::products::ProductUpdate;
use crate::{Error, refresh};
use ckks::Ciphertext;
use protocol::{Factors, INVERSE_TOLERANCE, Plan, SlotExchanges, TaskKind, Updates};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

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

/// What the last batch that was closed waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Phase<C = Arc<Ciphertext>> {
    Open,
    Raising {
        task: u64,
        batch: Batch,
        seed: [u8; 32],
        masked: C,
    },
    Updating {
        task: u64,
        batch: Batch,
        seed: [u8; 32],
    },
    Refreshing {
        task: u64,
        batch: Batch,
        seed: [u8; 32],
        masked: C,
    },
    /// Between two exchanges of an update by products.
    Exchanging {
        task: u64,
        kind: TaskKind,
        batch: Batch,
        update: Box<ProductUpdate<C>>,
        masked: C,
    },
}

/// A batch that is closed.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Batch {
    /// The number of feedbacks up to its last.
    at: u64,
    /// Those of which nothing is known but the bound on their features.
    pub(super) untested: u64,
    /// The c with V_j ≤ c·V, for the V_j of the model before: more than 1 if its statistics lack erased
    /// feedback, or if old feedback counts less ([`protocol::BanditConfig::newton`]).
    pub(super) removed: f64,
    /// Whether logged rounds are among them.
    logged: bool,
    /// The residual of its model.
    pub(super) residual: f64,
}

impl EncryptedBandit {
    /// The task that waits for a holder of the key.
    pub fn task(&self) -> Option<Task> {
        match &self.state.phase {
            _ if self.state.frozen => None,
            Phase::Raising { task, masked, .. } => {
                Some(Task { id: *task, kind: TaskKind::Sum, masked: masked.clone() })
            }
            Phase::Refreshing { task, masked, .. } => {
                Some(Task { id: *task, kind: TaskKind::Model, masked: masked.clone() })
            }
            Phase::Exchanging { task, kind, masked, .. } => {
                Some(Task { id: *task, kind: *kind, masked: masked.clone() })
            }
            Phase::Open | Phase::Updating { .. } => None,
        }
    }

    /// Whether feedback waits for the end of its batch, which may come early, or beside an update by products
    /// at its first step, which may take it too ([`Event::Closed`](super::Event::Closed)).
    pub fn closes_early(&self) -> bool {
        let s = &self.state;
        let takes_more = match &s.phase {
            Phase::Open => true,
            Phase::Exchanging { update, .. } => update.is_at_first_step(),
            Phase::Raising { .. } | Phase::Updating { .. } | Phase::Refreshing { .. } => false,
        };
        takes_more && !s.frozen && (s.feedbacks > s.closed || s.subtracted > 0)
    }

    /// The inputs of an update, if one is due.
    ///
    /// # Errors
    /// [`Error::Broken`] if no Newton iteration converges, which the end of the batch would have reported.
    pub fn update(&self) -> Result<Option<Update>, Error> {
        let s = &self.state;
        let Phase::Updating { task, batch, seed, .. } = s.phase else { return Ok(None) };
        if s.frozen {
            return Ok(None);
        }
        let factors = s.newton(batch.untested, batch.removed)?;
        let Statistics::Slots { model, statistics } = s.statistics.clone() else { return Ok(None) };
        let plan = s.plan.clone();
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

    /// Whether the open sum has as many feedbacks, and subtractions, as it may
    /// ([`protocol::BanditConfig::most_summed`]), or with logged rounds as many as one model takes. One more
    /// is refused until the batch that is under way has ended.
    pub fn sum_is_full(&self) -> bool {
        let s = &self.state;
        s.feedbacks - s.closed + s.subtracted >= s.config.most_summed()
            || (s.logged && s.untested() >= s.config.most_waiting(s.model_feedbacks))
    }

    /// Ends the batch if its schedule does, if its sum is full, or if the model is too far from an inverse to
    /// wait. Nothing happens while another batch is under way.
    pub(super) fn close_if_due(&mut self, engine: &Engine) -> Result<(), Error> {
        let s = &self.state;
        let due = s.config.linear.batch_ends_publicly(s.feedbacks, s.closed) || self.sum_is_full();
        // Products are of a bounded precision, which another update does not change.
        let far = s.plan.updates == Updates::Slots && s.residual > INVERSE_TOLERANCE;
        match matches!(s.phase, Phase::Open) && (due || far) {
            true => self.close(engine),
            false => Ok(()),
        }
    }

    /// Ends the batch before its schedule does.
    pub(super) fn close_early(&mut self, engine: &Engine) -> Result<(), Error> {
        match self.closes_early() {
            true => self.close(engine),
            false => Err(Error::BadState("the end of a batch without feedback".into())),
        }
    }

    fn slots(&self) -> Result<&SlotExchanges, Error> {
        self.exchanges.slots.as_ref().ok_or(Error::Broken("an update in slots without its exchanges"))
    }

    /// Ends the batch: its sum waits under a mask for a holder of the key, or is added to the total for an
    /// update by products.
    pub(super) fn close(&mut self, engine: &Engine) -> Result<(), Error> {
        let s = &mut self.state;
        let (at, mut untested) = (s.feedbacks, s.untested());
        let mut removed = s.config.removed(std::mem::take(&mut s.subtracted));
        let mut logged = std::mem::take(&mut s.logged);
        let mut sum = std::mem::replace(&mut s.sum, Arc::new(empty_sum(engine)));
        if let Some(past) = &mut s.past {
            let weighed = past.end_batch(engine, at, sum, s.config.ratio())?;
            removed += weighed.removed - 1.0;
            sum = Arc::new(weighed.total);
        }
        match &s.phase {
            // An update that takes more feedback is that of one batch.
            Phase::Exchanging { batch, .. } => {
                removed *= batch.removed;
                logged |= batch.logged;
            }
            _ => s.batches += 1,
        }
        if s.plan.updates == Updates::Slots && s.begins_anew(untested, removed) {
            (s.residual, untested, removed) = (0.0, s.weighed(), 1.0);
            let first = first_model(engine, &self.exchanges.layout, &s.plan, s.config.linear.lambda)?;
            if let Statistics::Slots { model, .. } = &mut s.statistics {
                *model = Arc::new(first);
            }
        }
        // Products take as many steps as they need.
        let residual = match s.plan.updates {
            Updates::Slots => s.newton(untested, removed)?.residual(),
            Updates::Products => s.residual,
        };
        let batch = Batch { at, untested, removed, logged, residual };
        s.closed = at;
        if let Some(trace) = &mut s.trace {
            *trace = Trace::after(engine, at);
        }
        if let Statistics::Products { total, .. } = &mut s.statistics {
            match &s.past {
                Some(_) => *total = sum,
                None => engine.scores_evaluator().add_assign(Arc::make_mut(total), &sum)?,
            }
            return self.begin_products(engine, batch);
        }
        let (task, seed) = (s.next_task(), s.mask());
        let mut rng = ChaCha20Rng::from_seed(derive(&seed, b"zero"));
        let sum = Arc::unwrap_or_clone(sum);
        let Masked { ciphertext, .. } = engine.mask_with(&self.slots()?.statistics, sum, seed, &mut rng)?;
        self.state.phase = Phase::Raising { task, batch, seed, masked: Arc::new(ciphertext) };
        Ok(())
    }

    /// Adds the raised sum of a batch to the statistics, or if old feedback counts less, makes them of the
    /// raised sums of all batches. An update is due.
    pub(super) fn take_raised(&mut self, engine: &Engine, task: u64, frame: &[u8]) -> Result<(), Error> {
        let (batch, seed) = match self.state.phase {
            Phase::Raising { task: want, batch, seed, .. } if want == task => (batch, seed),
            _ => return Err(unasked(task)),
        };
        let (exchanges, layout) = (self.exchanges.clone(), &self.exchanges.layout);
        let raise = &exchanges.slots.as_ref().ok_or_else(|| unasked(task))?.statistics;
        let (factors, deep) = (layout.statistics_factors(), engine.deep());
        let s = &mut self.state;
        let mut raised = ckks::read_ciphertext(deep.params(), deep.key_id(), s.plan.statistics_level, frame)?;
        raise.unmask_assign(std::slice::from_mut(&mut raised), &raise.encode_mask(&seed, &factors)?)?;
        let Statistics::Slots { statistics, .. } = &mut s.statistics else { return Err(unasked(task)) };
        if s.past.is_some() {
            let ridge = layout.ridge(s.config.linear.lambda);
            *statistics = Arc::new(trivial(engine, &ridge, s.plan.statistics_level)?);
        }
        deep.evaluator().add_assign(Arc::make_mut(statistics), &raised)?;
        let (task, seed) = (s.next_task(), s.mask());
        s.phase = Phase::Updating { task, batch, seed };
        Ok(())
    }

    /// Takes the next model, encrypted anew, and ends the next batch if that is due by now. It is taken while
    /// its update is due too, because a replay of events computes no updates.
    pub(super) fn take_refreshed(
        &mut self,
        engine: &Engine,
        task: u64,
        deep: &[u8],
        scores: &[u8],
    ) -> Result<(), Error> {
        let (batch, seed) = match self.state.phase {
            Phase::Refreshing { task: want, batch, seed, .. }
            | Phase::Updating { task: want, batch, seed }
                if want == task =>
            {
                (batch, seed)
            }
            _ => return Err(unasked(task)),
        };
        let (small, large) = (engine.params(), engine.deep().params());
        let Plan { model_level, refresh_level, model_slots, .. } = self.state.plan;
        let model = ckks::read_ciphertext(large, engine.deep().key_id(), model_level, deep)?;
        let mut scores = ckks::read_ciphertext(small, engine.key_id(), small.max_level(), scores)?;
        let model = refresh::reveal(large, model, refresh_level, model_slots, &seed);
        self.slots()?.model.unmask_assign(&mut scores, &seed)?;
        let s = &mut self.state;
        let Statistics::Slots { model: last, .. } = &mut s.statistics else { return Err(unasked(task)) };
        *last = Arc::new(model);
        s.refreshes += 1;
        if (batch.logged || s.past.is_some()) && batch.residual > INVERSE_TOLERANCE {
            s.residual = batch.residual;
            return self.update_again(batch);
        }
        self.install(engine, batch, vec![scores])
    }

    /// Takes the model of a batch, and ends the next one if that is due by now.
    pub(super) fn install(
        &mut self,
        engine: &Engine,
        batch: Batch,
        scores: Vec<Ciphertext>,
    ) -> Result<(), Error> {
        let s = &mut self.state;
        (s.residual, s.model_feedbacks) = (batch.residual, batch.at);
        s.scores_model = ScoresModel::new(engine, &self.exchanges.layout, scores);
        self.open_again(engine)
    }

    /// Another update of the same statistics, which starts from a model that is too far from an inverse to be
    /// used.
    fn update_again(&mut self, batch: Batch) -> Result<(), Error> {
        let s = &mut self.state;
        let residual = s.newton(0, 1.0)?.residual();
        let batch = Batch { untested: 0, removed: 1.0, residual, ..batch };
        let (task, seed) = (s.next_task(), s.mask());
        s.phase = Phase::Updating { task, batch, seed };
        Ok(())
    }

    /// Ends the time between two batches, and ends the next batch if that is due by now.
    pub(super) fn open_again(&mut self, engine: &Engine) -> Result<(), Error> {
        let s = &mut self.state;
        s.phase = Phase::Open;
        // Feedback that came in the meantime may end the next batch at once.
        if s.feedbacks == s.closed {
            return Ok(());
        }
        match s.trace.is_some() && s.untested() > s.config.unanswered {
            true => self.close(engine),
            false => self.close_if_due(engine),
        }
    }
}

pub(super) fn unasked(task: u64) -> Error {
    Error::TaskOver { task }
}

impl<C> State<C> {
    /// The residual of the next model if there is one, or else of the current model.
    pub(super) fn next_residual(&self) -> f64 {
        match self.phase {
            Phase::Open => self.residual,
            Phase::Raising { batch, .. }
            | Phase::Updating { batch, .. }
            | Phase::Refreshing { batch, .. }
            | Phase::Exchanging { batch, .. } => batch.residual,
        }
    }

    /// The Newton factors of an update with `untested` feedbacks, of which the last statistics have kept
    /// 1/`removed` at least.
    fn newton(&self, untested: u64, removed: f64) -> Result<Factors, Error> {
        let steps = self.config.newton(self.residual, untested, removed, self.plan.newton_steps);
        steps.map_err(|_| Error::Broken("a batch that Newton's iteration does not converge for"))
    }

    /// Whether the last model is farther from the next inverse than I/λ, as it may be where old feedback
    /// counts less.
    fn begins_anew(&self, untested: u64, removed: f64) -> bool {
        let ratio = self.config.ratio();
        let [warm, first] = [untested, self.weighed()].map(|feedbacks| 1.0 + feedbacks as f64 * ratio);
        self.past.is_some() && warm * removed > first
    }

    /// The feedbacks in the statistics, each times its weight.
    pub(super) fn weighed(&self) -> u64 {
        self.past.as_ref().map_or(self.feedbacks, Past::feedbacks)
    }
}

impl Update {
    /// Computes the next model under its mask.
    ///
    /// # Errors
    /// [`Error::Ckks`] if a key is missing.
    pub fn run(&self, engine: &Engine) -> Result<Ciphertext, Error> {
        let Update { plan, statistics, model, factors, seed, .. } = self;
        let to = ModelLevels { refresh: plan.refresh_level, model: plan.model_level };
        let unused = plan.newton_steps - factors.steps().len();
        let deep = engine.deep();
        let model = deep.update_model(statistics, model, factors, plan.design_scale, unused, to)?;
        let mut rng = ChaCha20Rng::from_seed(derive(seed, b"zero"));
        Ok(refresh::hide(deep.params(), deep.public_key(), &model, seed, &mut rng))
    }
}

impl<C> Phase<C> {
    /// The phase with `map` of its ciphertexts, in the bandit of this plan, whose sums have the scale
    /// 2^`log_sums`.
    pub(super) fn try_map<D>(
        self,
        plan: &Plan,
        log_sums: u32,
        map: &mut impl FnMut(Place, C) -> Result<D, Error>,
    ) -> Result<Phase<D>, Error> {
        Ok(match self {
            Phase::Open => Phase::Open,
            Phase::Raising { task, batch, seed, masked } => {
                Phase::Raising { task, batch, seed, masked: map(Place::Scaled(log_sums), masked)? }
            }
            Phase::Updating { task, batch, seed } => Phase::Updating { task, batch, seed },
            Phase::Refreshing { task, batch, seed, masked } => {
                let masked = map(Place::Deep(plan.refresh_level), masked)?;
                Phase::Refreshing { task, batch, seed, masked }
            }
            Phase::Exchanging { task, kind, batch, update, masked } => {
                // It has the scale of the product under the mask.
                let log_scale = update.log_scale();
                let masked = map(Place::Scaled(log_scale), masked)?;
                let update = Box::new(update.try_map(&mut |log, ct| map(Place::Scaled(log), ct))?);
                Phase::Exchanging { task, kind, batch, update, masked }
            }
        })
    }
}
