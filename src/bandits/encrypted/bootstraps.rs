//! Decisions by bootstraps, in builds with the feature `pbs`: one user at a time, one request, no raise.

use super::{EncryptedServed, Shared};
use crate::error::Error;
use crate::metrics::Step;
use ckks::{KeyId, Undivided};
#[cfg(feature = "pbs")]
use host::os_rng;
use protocol::{BanditConfig, Compare};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::OwnedSemaphorePermit;
use wire::{BootstrapFrame, DecideReply};

/// The bootstrapping keys of a server, which all its bandits share.
#[derive(Clone)]
pub(crate) struct Bootstraps {
    #[cfg(feature = "pbs")]
    keys: Arc<tfhe_argmax::Keys>,
    #[cfg(not(feature = "pbs"))]
    never: std::convert::Infallible,
}

impl Bootstraps {
    /// The keys in the frame of a bundle whose ring of scores has the key pair `loaded`; `None` if it has
    /// none, or this build bootstraps nothing.
    #[cfg(feature = "pbs")]
    pub(crate) fn load(frame: Option<BootstrapFrame>, loaded: KeyId) -> Result<Option<Self>, Error> {
        let Some(BootstrapFrame { id, frame }) = frame else { return Ok(None) };
        let began = Instant::now();
        let keys = tfhe_argmax::SeededKeys::from_bytes(&frame)?;
        keys.check(id)?;
        let keys = Arc::new(rayon::scope(|_| keys.expand(loaded))?);
        let (disk, memory, seconds) = (frame.len(), keys.bytes(), began.elapsed().as_secs_f64());
        tracing::info!(key = %id, from = %loaded, disk, memory, seconds, "bootstrapping keys loaded");
        Ok(Some(Bootstraps { keys }))
    }

    /// Loads nothing.
    #[cfg(not(feature = "pbs"))]
    pub(crate) fn load(frame: Option<BootstrapFrame>, _: KeyId) -> Result<Option<Self>, Error> {
        if let Some(BootstrapFrame { id, .. }) = frame {
            tracing::info!(key = %id, "bootstrapping keys are not loaded: this server was built without them");
        }
        Ok(None)
    }
}

/// Refuses a bandit that compares by bootstraps where there are no keys for them.
pub(super) fn check(config: &BanditConfig, shared: &Shared) -> Result<(), Error> {
    match (config.compare, &shared.bootstraps) {
        (Compare::Polynomial, _) | (Compare::Pbs, Some(_)) => Ok(()),
        (Compare::Pbs, None) if cfg!(feature = "pbs") => Err(Error::NoBootstraps),
        (Compare::Pbs, None) => Err(Error::BuiltWithoutBootstraps),
    }
}

impl EncryptedServed {
    /// The decision of a user from its scores, computed with a model of this many feedbacks. It waits for the
    /// evaluations before it, and its answer is used once.
    pub(super) async fn bootstrap(
        self: Arc<Self>,
        scores: Undivided,
        (model_feedbacks, raises): (u64, bool),
        place: OwnedSemaphorePermit,
    ) -> Result<DecideReply, Error> {
        let _place = place;
        check(&self.created.config, &self.shared)?;
        let served = self.clone();
        let round = super::blocking(move || served.take_rounds(1)).await?;
        let turn = self.shared.stages.computing.clone().acquire_owned().await;
        super::blocking(move || {
            let _turn = turn;
            let began = Instant::now();
            let answer = self.compare(scores, (round, model_feedbacks))?;
            let took = began.elapsed();
            self.shared.stages.metrics.took(Step::Evaluation, took);
            tracing::info!(bandit = self.created.id, seconds = took.as_secs_f64(), "bootstrapped");
            Ok(self.answered_alone((round, 1), (model_feedbacks, raises), answer))
        })
        .await
    }

    /// The message of the answer to the decision of a round, with a model of so many feedbacks.
    #[cfg(feature = "pbs")]
    fn compare(&self, scores: Undivided, (round, feedbacks): (u64, u64)) -> Result<Vec<u8>, Error> {
        let Bootstraps { keys } = self.shared.bootstraps.as_ref().ok_or(Error::NoBootstraps)?;
        let (engine, config) = (&self.shared.engine, &self.created.config);
        let scalars = helba::Scalars::new(config, round, feedbacks);
        let (bonus, most, range) = (scalars.bonus, scalars.most(), scalars.range);
        let (arms, gap, log_range) = (config.linear.k, engine.ring().gap, self.exchanges.layout.log_range());
        let formula = tfhe_argmax::Formula { arms, gap, log_range, bonus, most, range };
        let circuit = tfhe_argmax::Circuit::new(formula, engine.params().n())?;
        let mut rng = os_rng()?;
        let scores = engine.unpacked(scores);
        let answer = rayon::scope(|_| circuit.decide(keys, engine.params(), &scores, &mut rng))?;
        Ok(answer.to_bytes())
    }

    /// Refuses.
    #[cfg(not(feature = "pbs"))]
    fn compare(&self, _: Undivided, _: (u64, u64)) -> Result<Vec<u8>, Error> {
        match &self.shared.bootstraps {
            Some(Bootstraps { never }) => match *never {},
            None => Err(Error::BuiltWithoutBootstraps),
        }
    }
}
