//! A batch from its end to the next model: its sum is checked and raised, the model is computed, and a holder
//! of the key encrypts it anew.

use super::erasure::Subtracted;
use super::feedback::empty_sum;
use super::secrets::derive;
use super::stored::Place;
use super::trace::Trace;
use super::{EncryptedBandit, State};
use crate::deep::ModelLevels;
use crate::engine::{Engine, Masked};
use crate::{Error, refresh};
use ckks::Ciphertext;
use protocol::{Factors, INVERSE_TOLERANCE, Plan, TaskKind};
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
    Checking {
        task: u64,
        batch: Batch,
        sum: C,
        left: Vec<(u64, [u8; 32])>,
    },
    Raising {
        task: u64,
        batch: Batch,
        seed: [u8; 32],
        masked: C,
    },
    /// `before` are the statistics without the sum of the batch.
    Updating {
        task: u64,
        batch: Batch,
        seed: [u8; 32],
        before: C,
    },
    Refreshing {
        task: u64,
        batch: Batch,
        seed: [u8; 32],
        before: C,
        masked: C,
    },
}

/// A batch that is closed.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Batch {
    /// The number of feedbacks up to its last.
    at: u64,
    /// Those of which nothing is known but the bound on their features.
    untested: u64,
    /// The erased feedbacks of earlier batches that its sum subtracts, or more.
    subtracted: u64,
    /// Whether logged rounds are among them.
    logged: bool,
    /// The residual of its model.
    pub(super) residual: f64,
}

/// The feedbacks of the last batch that was closed, under a committee.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Closed<C = Arc<Ciphertext>> {
    /// The rounds of those that it counts.
    pub(super) rounds: Vec<u64>,
    /// Earlier ones that were erased, which its sum subtracts.
    subtracted: Subtracted<C>,
}

impl<C> Default for Closed<C> {
    fn default() -> Self {
        Closed { rounds: Vec::new(), subtracted: Subtracted::default() }
    }
}

impl<C> Closed<C> {
    pub(super) fn try_map<D>(
        self,
        map: &mut impl FnMut(Place, C) -> Result<D, Error>,
    ) -> Result<Closed<D>, Error> {
        Ok(Closed { rounds: self.rounds, subtracted: self.subtracted.try_map(map)? })
    }
}

/// A model in both rings, encrypted anew.
pub(super) struct RefreshedModel {
    deep: Ciphertext,
    scores: Ciphertext,
}

impl EncryptedBandit {
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

    /// Whether feedback waits for the end of its batch, which may come early
    /// ([`Event::Closed`](super::Event::Closed)).
    pub fn closes_early(&self) -> bool {
        let s = &self.state;
        matches!(s.phase, Phase::Open) && (s.feedbacks > s.closed || s.subtractions() > 0)
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
        let Phase::Updating { task, batch, seed, .. } = s.phase else { return Ok(None) };
        let factors = s.newton(batch.untested, batch.subtracted)?;
        let (plan, statistics, model) = (s.plan.clone(), s.statistics.clone(), s.model.clone());
        Ok(Some(Update { plan, statistics, model, factors, seed, task }))
    }

    /// Takes the masked model of an update. It is no event, because the events before determine it. A model
    /// of another update changes nothing.
    pub fn updated(&mut self, update: &Update, masked: Ciphertext) {
        if let Phase::Updating { task, batch, seed, before } = &self.state.phase
            && *task == update.task
        {
            let (task, batch, seed, before) = (*task, *batch, *seed, before.clone());
            self.state.phase = Phase::Refreshing { task, batch, seed, before, masked: Arc::new(masked) };
        }
    }

    /// Whether the open sum has as many feedbacks, and subtractions, as it may
    /// ([`protocol::BanditConfig::most_summed`]), or with logged rounds as many as one model takes. One more
    /// is refused until the batch that is under way has ended.
    pub fn sum_is_full(&self) -> bool {
        let s = &self.state;
        s.feedbacks - s.closed + s.subtractions() >= s.config.most_summed()
            || (s.logged && s.untested() >= s.config.most_waiting(s.model_feedbacks))
    }

    /// Ends the batch if its schedule does, if its sum is full, or if the model is too far from an inverse to
    /// wait. Nothing happens while another batch is under way.
    pub(super) fn close_if_due(&mut self, engine: &Engine) -> Result<(), Error> {
        let s = &self.state;
        let due = s.config.linear.batch_ends_publicly(s.feedbacks, s.closed) || self.sum_is_full();
        match matches!(s.phase, Phase::Open) && (due || s.residual > INVERSE_TOLERANCE) {
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

    /// Ends the batch: its feedbacks wait to be checked, or its sum for a holder of the key.
    pub(super) fn close(&mut self, engine: &Engine) -> Result<(), Error> {
        let s = &mut self.state;
        let (at, untested, subtracted) = (s.feedbacks, s.untested(), s.subtractions());
        let residual = s.newton(untested, subtracted)?.residual();
        let batch = Batch { at, untested, subtracted, logged: std::mem::take(&mut s.logged), residual };
        let sum = std::mem::replace(&mut s.sum, Arc::new(empty_sum(engine)));
        let left = std::mem::take(&mut s.unchecked);
        let of_last = std::mem::take(&mut s.subtracted_of_last);
        let subtracted = std::mem::take(&mut s.subtracted).merged(engine, of_last)?;
        if engine.has_committee() {
            s.last = Closed { rounds: left.iter().map(|(round, _)| *round).collect(), subtracted };
        }
        self.check_or_raise(engine, batch, sum, left)?;
        let s = &mut self.state;
        s.batches += 1;
        s.closed = at;
        if let Some(trace) = &mut s.trace {
            *trace = Trace::after(engine, at);
        }
        Ok(())
    }

    /// The sum of a batch waits for the members of a committee to check the feedbacks that are `left`, or if
    /// there are none, under a mask for a holder of the key.
    pub(super) fn check_or_raise(
        &mut self,
        engine: &Engine,
        batch: Batch,
        sum: Arc<Ciphertext>,
        left: Vec<(u64, [u8; 32])>,
    ) -> Result<(), Error> {
        let s = &mut self.state;
        let task = s.next_task();
        if !left.is_empty() {
            s.phase = Phase::Checking { task, batch, sum, left };
            return Ok(());
        }
        let seed = s.mask();
        let mut rng = ChaCha20Rng::from_seed(derive(&seed, b"zero"));
        let sum = Arc::unwrap_or_clone(sum);
        let Masked { ciphertext, .. } = engine.mask_with(&self.exchanges.statistics, sum, seed, &mut rng)?;
        s.phase = Phase::Raising { task, batch, seed, masked: Arc::new(ciphertext) };
        Ok(())
    }

    /// Adds the raised sum of a batch to the statistics. An update is due.
    pub(super) fn take_raised(&mut self, engine: &Engine, task: u64, frame: &[u8]) -> Result<(), Error> {
        let (batch, seed) = match self.state.phase {
            Phase::Raising { task: want, batch, seed, .. } if want == task => (batch, seed),
            _ => return Err(unasked(task)),
        };
        let (raise, factor, deep) = (&self.exchanges.statistics, self.statistics_factor(), engine.deep());
        let s = &mut self.state;
        let mut raised = ckks::read_ciphertext(deep.params(), deep.key_id(), s.plan.statistics_level, frame)?;
        if let Some(mask) = engine.encode_mask(raise, &seed, factor)? {
            raise.unmask_assign(&mut raised, &mask)?;
        }
        let before = s.statistics.clone();
        deep.evaluator().add_assign(Arc::make_mut(&mut s.statistics), &raised)?;
        let (task, seed) = (s.next_task(), s.mask());
        s.phase = Phase::Updating { task, batch, seed, before };
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
        let (batch, seed, before) = match &self.state.phase {
            Phase::Refreshing { task: want, batch, seed, before, .. }
            | Phase::Updating { task: want, batch, seed, before }
                if *want == task =>
            {
                (*batch, *seed, before.clone())
            }
            _ => return Err(unasked(task)),
        };
        let mut model = self.read_model(engine, deep, scores)?;
        if !engine.has_committee() {
            let Plan { refresh_level, model_slots, .. } = self.state.plan;
            model.deep =
                refresh::reveal(engine.deep().params(), model.deep, refresh_level, model_slots, &seed);
            self.exchanges.model.unmask_assign(&mut model.scores, &seed)?;
        }
        let s = &mut self.state;
        s.residual = batch.residual;
        s.refreshes += 1;
        if batch.logged && batch.residual > INVERSE_TOLERANCE {
            s.model = Arc::new(model.deep);
            return self.update_again(batch, before);
        }
        s.model_feedbacks = batch.at;
        self.install(engine, model);
        self.open_again(engine)
    }

    /// Another update of the same statistics, which starts from a model that is too far from an inverse to be
    /// used.
    fn update_again(&mut self, batch: Batch, before: Arc<Ciphertext>) -> Result<(), Error> {
        let s = &mut self.state;
        let residual = s.newton(0, 0)?.residual();
        let batch = Batch { untested: 0, subtracted: 0, residual, ..batch };
        let (task, seed) = (s.next_task(), s.mask());
        s.phase = Phase::Updating { task, batch, seed, before };
        Ok(())
    }

    /// Undoes the batch whose model waits for the members of a committee: the statistics are those before it,
    /// and its feedbacks are dropped. What its sum subtracted is subtracted again, and what was erased of it
    /// since is subtracted no more, because it is in no statistics.
    pub(super) fn take_undone(&mut self, engine: &Engine, task: u64) -> Result<(), Error> {
        let s = &mut self.state;
        let before = match &s.phase {
            Phase::Updating { task: want, before, .. } | Phase::Refreshing { task: want, before, .. }
                if *want == task && engine.has_committee() =>
            {
                before.clone()
            }
            _ => return Err(unasked(task)),
        };
        s.statistics = before;
        let Closed { rounds, subtracted } = std::mem::take(&mut s.last);
        let (evaluator, sum) = (engine.scores_evaluator(), Arc::make_mut(&mut s.sum));
        if let Some(of_last) = std::mem::take(&mut s.subtracted_of_last).sum {
            evaluator.add_assign(sum, &of_last)?;
        }
        if let Some(again) = &subtracted.sum {
            evaluator.sub_assign(sum, again)?;
        }
        s.subtracted = std::mem::take(&mut s.subtracted).merged(engine, subtracted)?;
        s.dropped.extend(rounds);
        self.open_again(engine)
    }

    /// Ends the time between two batches, and ends the next batch if that is due by now.
    fn open_again(&mut self, engine: &Engine) -> Result<(), Error> {
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

    /// Reads the frames of a model in both rings.
    pub(super) fn read_model(
        &self,
        engine: &Engine,
        deep: &[u8],
        scores: &[u8],
    ) -> Result<RefreshedModel, Error> {
        let (small, large) = (engine.params(), engine.deep().params());
        let level = self.state.plan.model_level;
        Ok(RefreshedModel {
            deep: ckks::read_ciphertext(large, engine.deep().key_id(), level, deep)?,
            scores: ckks::read_ciphertext(small, engine.key_id(), small.max_level(), scores)?,
        })
    }

    /// Takes a model into use.
    pub(super) fn install(&mut self, engine: &Engine, RefreshedModel { deep, mut scores }: RefreshedModel) {
        engine.scores_evaluator().divide_exactly_assign(&mut scores, engine.ring().gap.ilog2());
        (self.state.model, self.state.scores_model) = (Arc::new(deep), Arc::new(scores));
    }
}

pub(super) fn unasked(task: u64) -> Error {
    Error::TaskOver { task }
}

impl<C> State<C> {
    /// The erased feedbacks that the sum subtracts.
    pub(super) fn subtractions(&self) -> u64 {
        (self.subtracted.rounds.len() + self.subtracted_of_last.rounds.len()) as u64
    }

    /// The residual of the next model if there is one, or else of the current model.
    pub(super) fn next_residual(&self) -> f64 {
        match self.phase {
            Phase::Open => self.residual,
            Phase::Checking { batch, .. }
            | Phase::Raising { batch, .. }
            | Phase::Updating { batch, .. }
            | Phase::Refreshing { batch, .. } => batch.residual,
        }
    }

    fn next_task(&mut self) -> u64 {
        self.tasks += 1;
        self.tasks
    }

    /// The Newton factors of an update with `untested` feedbacks, from which `subtracted` are removed.
    fn newton(&self, untested: u64, subtracted: u64) -> Result<Factors, Error> {
        let steps = self.config.newton(self.residual, untested, subtracted, self.plan.newton_steps);
        steps.map_err(|_| Error::Broken("a batch that Newton's iteration does not converge for"))
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

impl<C> Phase<C> {
    /// The phase with `map` of its ciphertexts, in the bandit of this plan.
    pub(super) fn try_map<D>(
        self,
        plan: &Plan,
        map: &mut impl FnMut(Place, C) -> Result<D, Error>,
    ) -> Result<Phase<D>, Error> {
        Ok(match self {
            Phase::Open => Phase::Open,
            Phase::Checking { task, batch, sum, left } => {
                Phase::Checking { task, batch, sum: map(Place::Statistics, sum)?, left }
            }
            Phase::Raising { task, batch, seed, masked } => {
                Phase::Raising { task, batch, seed, masked: map(Place::Statistics, masked)? }
            }
            Phase::Updating { task, batch, seed, before } => {
                let before = map(Place::Deep(plan.statistics_level), before)?;
                Phase::Updating { task, batch, seed, before }
            }
            Phase::Refreshing { task, batch, seed, before, masked } => {
                let before = map(Place::Deep(plan.statistics_level), before)?;
                let masked = map(Place::Deep(plan.refresh_level), masked)?;
                Phase::Refreshing { task, batch, seed, before, masked }
            }
        })
    }
}
