//! The exchanges of an encrypted bandit with a holder of the key: what both sides must compute alike.

use crate::levels::{ANSWER_LEVEL, PRODUCTS_LEVEL};
use crate::products::{PRODUCT_FACTORS, ProductExchanges, ProductStep};
use crate::{BanditConfig, LOG_SCORE, LOG_STATISTICS, Plan, Rings, ScoreLayout, ScoreRing, Updates};
use ckks::{Exchange, Params, RAISE_FACTORS, Raise, SlotsToCoefficients};
use serde::{Deserialize, Serialize};

/// What a holder of the key is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum TaskKind {
    /// Raise the scores of the users of an evaluation ([`Exchanges::scores`]).
    Scores {
        /// The factors of z, of u and of the trace, from 0 to [`MOST_FACTOR`]. One of the first two is above
        /// 0.
        factors: [f64; RAISE_FACTORS],
    },
    /// Raise the sum of a batch ([`SlotExchanges::statistics`]).
    Sum,
    /// Encrypt a model anew in both rings ([`SlotExchanges::model`]).
    Model,
    /// Encrypt the entries of an evaluation of several requests as coefficients ([`Exchanges::answers`]).
    Answers,
    /// Make of a product of an update what its step makes of it ([`crate::products`]).
    Product {
        /// The step.
        step: ProductStep,
        /// The factors of its groups.
        factors: [f64; PRODUCT_FACTORS],
        /// The hash of its map and factors ([`ckks::Exchange::hash`]), which the holder compares with its own
        /// before it decrypts.
        hash: [u8; 32],
    },
}

/// The largest factor of a raise of scores. Scores have a scale of 2⁵⁰, and slots one of 2³² at most.
pub const MOST_FACTOR: f64 = 16384.0;

/// The exchanges of one bandit with a holder of the key.
#[derive(Debug, Clone)]
pub struct Exchanges {
    /// The coefficients of contexts, model and statistics.
    pub layout: ScoreLayout,
    /// Scores of the users of an evaluation become slots.
    pub scores: Raise,
    /// The entries of several users become coefficients in the ring of answers, at the scale of the slots.
    pub answers: SlotsToCoefficients,
    /// Those of updates in slots.
    pub slots: Option<SlotExchanges>,
    /// The steps of updates by products.
    pub products: Option<ProductExchanges>,
}

/// The exchanges of the updates of a bandit in slots.
#[derive(Debug, Clone)]
pub struct SlotExchanges {
    /// A sum of feedbacks becomes statistics.
    pub statistics: Raise,
    /// A model becomes the coefficients that contexts are multiplied by.
    pub model: SlotsToCoefficients,
}

impl Exchanges {
    /// The exchanges of a bandit with this configuration and plan between the ring `small` of scores, the
    /// `rings` of circuits and that of `answers` ([`ScoreRing::answers`]).
    ///
    /// # Errors
    /// [`ckks::Error`] for a plan of other parameters.
    pub fn new(
        config: &BanditConfig,
        plan: &Plan,
        ring: ScoreRing,
        small: &Params,
        rings: impl Into<Rings>,
        answers: &Params,
    ) -> Result<Self, ckks::Error> {
        let layout = ScoreLayout::new(config, plan, ring);
        let Rings { updates, decisions, by } = &rings.into();
        let slots = decisions.max_slots();
        let scores = Raise::new(small, decisions, layout.raised_scores(slots), LOG_SCORE, plan.scores_level)?;
        let of_slots = || {
            let places = layout.raised_statistics(updates.max_slots());
            let statistics = Raise::new(small, updates, places, LOG_STATISTICS, plan.statistics_level)?;
            let (level, count) = (plan.refresh_level, plan.model_slots);
            let scale = updates.scale(plan.model_level);
            let model = SlotsToCoefficients::new(updates, small, level, count, scale, &layout.model())?;
            Ok::<_, ckks::Error>(SlotExchanges { statistics, model })
        };
        let of_updates = match by {
            Updates::Slots => (Some(of_slots()?), None),
            Updates::Products => {
                // The plan has checked the layout.
                let matrices =
                    layout.matrices().map_err(|error| ckks::Error::BadParams(error.to_string()))?;
                (None, Some(ProductExchanges::new(&layout, small, matrices, None)?))
            }
        };
        let (level, scale) = (PRODUCTS_LEVEL, decisions.scale(PRODUCTS_LEVEL));
        let answers =
            SlotsToCoefficients::new(decisions, answers, level, slots, scale, &layout.answer_terms(slots))?
                .into_level(ANSWER_LEVEL, scale)?;
        Ok(Exchanges { layout, scores, answers, slots: of_updates.0, products: of_updates.1 })
    }

    /// The exchange of a task, its factors and the hash that the task states; `None` for tasks of other
    /// kinds, and for steps that the bandit does not have.
    pub fn of<'a>(&'a self, kind: &'a TaskKind) -> Option<(&'a Exchange, &'a [f64], &'a [u8; 32])> {
        match kind {
            TaskKind::Product { step, factors, hash } => {
                Some((self.products.as_ref()?.of(*step), factors, hash))
            }
            TaskKind::Scores { .. } | TaskKind::Sum | TaskKind::Model | TaskKind::Answers => None,
        }
    }
}
