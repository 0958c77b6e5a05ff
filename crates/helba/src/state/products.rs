//! Updates by products ([`crate::products`]): the sum of a batch stays with the server, and each exchange
//! with the owner's raiser is an event, so that a bandit that starts again asks for the same bytes.
//!
//! Nothing tells a server that a model is wrong, by a wrapped number or by a holder of the key that deviates.
//! So each [`COLD`]th update begins with a multiple of I, by a calendar that everybody knows, and besides one
//! that takes more steps from the last inverse, such as that of a very long batch.

use super::batch::{Batch, Phase, unasked};
use super::secrets::derive;
use super::{Applied, EncryptedBandit, Event, Statistics};
use crate::products::{Inverse, ProductModel, ProductTask, ProductUpdate};
use crate::{Engine, Error};
use ckks::Ciphertext;
use protocol::TaskKind;
use protocol::products::{ProductExchanges, ProductScalars};
use std::sync::Arc;

/// The number of updates from one that begins with a multiple of I to the next, at most.
pub const COLD: u64 = 32;

/// Above this bound on ‖A·V − I‖ an update begins with a multiple of I too. A bandit that has learnt far
/// beyond its horizon has none below it: it keeps the model that it has, and counts feedback.
const MOST_RESIDUAL: f64 = 0.5;

/// What an answer to a step of an update by products leads to, computed beside its bandit
/// ([`EncryptedBandit::step`]).
#[derive(Debug)]
pub struct Step {
    event: Event,
    next: Next,
}

/// What follows a step.
#[derive(Debug)]
pub(super) enum Next {
    Asks(Box<ProductUpdate>, Box<ProductTask>),
    Model(Box<ProductModel>),
}

impl Step {
    /// The event that [`EncryptedBandit::apply_step`] applies.
    pub fn event(&self) -> &Event {
        &self.event
    }
}

impl EncryptedBandit {
    /// Computes what `frames` lead to, which a holder of the key made of the step `task`. Nothing changes.
    ///
    /// A step follows from the update that asked for it and from its answer, and from nothing else of the
    /// bandit: feedback may come meanwhile.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn step(&self, engine: &Engine, task: u64, frames: Vec<Vec<u8>>) -> Result<Step, Error> {
        let next = self.next_step(engine, task, &frames)?;
        Ok(Step { event: Event::Exchanged { task, frames }, next })
    }

    /// Applies the event of a step that was computed before, as [`Self::apply`] does. On an error nothing has
    /// changed.
    ///
    /// # Errors
    /// [`Error::TaskOver`] unless its task still waits.
    pub fn apply_step(&mut self, engine: &Engine, step: Step) -> Result<Applied, Error> {
        let Step { event, next } = step;
        self.applied(engine, &event, Some(next))
    }

    fn products(&self) -> Result<&ProductExchanges, Error> {
        let missing = Error::Broken("an update by products without its exchanges");
        self.exchanges.products.as_ref().ok_or(missing)
    }

    /// Begins the update of a batch that was closed, whose sum the total has.
    pub(super) fn begin_products(&mut self, engine: &Engine, mut batch: Batch) -> Result<(), Error> {
        let s = &self.state;
        let Statistics::Products { inverse, total } = &s.statistics else {
            return Err(Error::Broken("an update by products of statistics in slots"));
        };
        let dim = engine.deep().shape().dim;
        let cold = ProductScalars::cold(&s.config, dim, s.weighed())?;
        let warm = match s.batches.is_multiple_of(COLD) || s.residual > MOST_RESIDUAL {
            true => None,
            false => s.config.newton(s.residual, batch.untested, batch.removed, usize::MAX).ok(),
        };
        let warm = warm.map(|factors| ProductScalars::warm(&s.config, dim, factors, s.weighed()));
        let (scalars, inverse) = match warm.filter(|warm| warm.steps() <= cold.steps()) {
            Some(warm) => (warm, inverse.clone()),
            None => {
                let matrices = &self.products()?.matrices;
                let identity = Inverse::identity(engine.scores_keys(), matrices, cold.identity())?;
                (cold, identity)
            }
        };
        batch.residual = scalars.residual();
        if batch.residual > MOST_RESIDUAL {
            // The next update knows nothing of how far this one would have been from the last inverse.
            self.state.residual = 1.0;
            return self.open_again(engine);
        }
        let (total, s) = (Ciphertext::clone(total), &mut self.state);
        // One update begins in an event, whose history no other has.
        let key = derive(&s.mask(), b"products");
        self.ask_for_step(engine, batch, ProductUpdate::new(scalars, total, inverse, key))
    }

    /// Asks for the first step of an update.
    fn ask_for_step(&mut self, engine: &Engine, batch: Batch, update: ProductUpdate) -> Result<(), Error> {
        let asked = update.task(engine.scores_keys(), self.products()?)?;
        self.wait_for(batch, Box::new(update), asked)
    }

    /// Waits for what a holder of the key makes of a step.
    fn wait_for(
        &mut self,
        batch: Batch,
        update: Box<ProductUpdate>,
        asked: ProductTask,
    ) -> Result<(), Error> {
        let hash = self.products()?.of(asked.step).hash(&asked.factors);
        let factors = asked.factors.try_into();
        let factors = factors.map_err(|_| Error::Broken("a step of another number of factors"))?;
        let kind = TaskKind::Product { step: asked.step, factors, hash };
        let (task, masked) = (self.state.next_task(), Arc::new(asked.masked));
        self.state.phase = Phase::Exchanging { task, kind, batch, update, masked };
        Ok(())
    }

    /// What the answer to a step leads to: the next step, or the model.
    pub(super) fn next_step(&self, engine: &Engine, task: u64, frames: &[Vec<u8>]) -> Result<Next, Error> {
        let mut update = match &self.state.phase {
            Phase::Exchanging { task: want, update, .. } if *want == task => update.clone(),
            _ => return Err(unasked(task)),
        };
        let (keys, products) = (engine.scores_keys(), self.products()?);
        let asked = update.task(keys, products)?;
        let to = products.of(asked.step).to();
        if frames.len() != to.ciphertexts {
            let (got, want) = (frames.len(), to.ciphertexts);
            return Err(ckks::Error::CiphertextCount { got, want }.into());
        }
        let (small, key) = (engine.params(), engine.key_id());
        let read = |frame: &Vec<u8>| ckks::read_scaled_ciphertext(small, key, to.level, to.scale, frame);
        let fresh = frames.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(match update.take(keys, products, &asked, fresh)? {
            Some(model) => Next::Model(Box::new(model)),
            None => {
                let asked = update.task(keys, products)?;
                Next::Asks(update, Box::new(asked))
            }
        })
    }

    /// Takes what the answer to the step `task` led to. The last step gives the model, and ends the next
    /// batch if that is due by now.
    pub(super) fn take_exchanged(
        &mut self,
        engine: &Engine,
        task: u64,
        next: Next,
    ) -> Result<Applied, Error> {
        let batch = match &self.state.phase {
            Phase::Exchanging { task: want, batch, .. } if *want == task => *batch,
            _ => return Err(unasked(task)),
        };
        let model = match next {
            Next::Asks(update, asked) => {
                self.wait_for(batch, update, *asked)?;
                return Ok(Applied::Exchanged);
            }
            Next::Model(model) => model,
        };
        let s = &mut self.state;
        if let Statistics::Products { inverse, .. } = &mut s.statistics {
            *inverse = model.inverse;
        }
        let small = engine.params();
        let scale = small.scale(small.max_level());
        let scores = model.scores.into_iter().map(|part| part.with_scale(scale)).collect();
        s.refreshes += 1;
        self.install(engine, batch, scores)?;
        Ok(Applied::Installed)
    }
}
