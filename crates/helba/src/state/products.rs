//! Updates by products ([`crate::products`]): the sum of a batch stays with the server, and each exchange
//! with the owner's raiser is an event, so that a bandit that starts again asks for the same bytes.
//!
//! Nothing tells a server that a model is wrong, by a wrapped number or by a holder of the key that deviates.
//! So each [`COLD`]th update begins with a multiple of I, by a calendar that everybody knows, and besides one
//! that takes more steps from the last inverse, such as that of a very long batch.

use super::batch::{Batch, Phase, unasked};
use super::secrets::derive;
use super::{Applied, EncryptedBandit, Statistics};
use crate::products::{Inverse, ProductUpdate};
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

impl EncryptedBandit {
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
        let cold = ProductScalars::cold(&s.config, dim, s.feedbacks)?;
        let warm = match s.batches.is_multiple_of(COLD) || s.residual > MOST_RESIDUAL {
            true => None,
            false => s.config.newton(s.residual, batch.untested, batch.subtracted, usize::MAX).ok(),
        };
        let warm = warm.map(|factors| ProductScalars::warm(&s.config, dim, factors, s.feedbacks));
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
            return self.open_again(engine);
        }
        let (total, s) = (Ciphertext::clone(total), &mut self.state);
        // One update begins in an event, whose history no other has.
        let key = derive(&s.mask(), b"products");
        self.ask_for_step(engine, batch, ProductUpdate::new(scalars, total, inverse, key))
    }

    /// Asks for the next step of an update.
    fn ask_for_step(&mut self, engine: &Engine, batch: Batch, update: ProductUpdate) -> Result<(), Error> {
        let products = self.products()?;
        let asked = update.task(engine.scores_keys(), products)?;
        let hash = products.of(asked.step).hash(&asked.factors);
        let factors = asked.factors.try_into();
        let factors = factors.map_err(|_| Error::Broken("a step of another number of factors"))?;
        let kind = TaskKind::Product { step: asked.step, factors, hash };
        let (task, masked) = (self.state.next_task(), Arc::new(asked.masked));
        self.state.phase = Phase::Exchanging { task, kind, batch, update: Box::new(update), masked };
        Ok(())
    }

    /// Takes what the owner's raiser made of a step. The last step gives the model, and ends the next batch
    /// if that is due by now.
    pub(super) fn take_exchanged(
        &mut self,
        engine: &Engine,
        task: u64,
        frames: &[Vec<u8>],
    ) -> Result<Applied, Error> {
        let (batch, mut update) = match &self.state.phase {
            Phase::Exchanging { task: want, batch, update, .. } if *want == task => (*batch, update.clone()),
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
        let Some(model) = update.take(keys, products, &asked, fresh)? else {
            self.ask_for_step(engine, batch, *update)?;
            return Ok(Applied::Exchanged);
        };
        let s = &mut self.state;
        if let Statistics::Products { inverse, .. } = &mut s.statistics {
            *inverse = model.inverse;
        }
        let scale = small.scale(small.max_level());
        let scores = model.scores.into_iter().map(|part| part.with_scale(scale)).collect();
        s.refreshes += 1;
        self.install(engine, batch, scores)?;
        Ok(Applied::Installed)
    }
}
