//! The exchanges of an encrypted bandit with a holder of the key: what both sides must compute alike.

use crate::levels::{ANSWER_LEVEL, PRODUCTS_LEVEL};
use crate::products::{PRODUCT_FACTORS, ProductExchanges, ProductStep};
use crate::staged::{STAGED_FACTORS, Staging};
use crate::{BanditConfig, LOG_SCORE, Plan, Rings, ScoreLayout, ScoreRing, Updates};
use ckks::{Exchange, Params, RAISE_FACTORS, SlotsToCoefficients};
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
    /// Encrypt minus the pads of uploads of users with keys of their own ([`ckks::Plaintext::minus_pads`]).
    Pads,
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
    /// A step of a staged evaluation ([`crate::staged::StagedExchanges`]).
    Stage {
        /// The number of the step.
        step: u32,
        /// The users of the layout.
        users: u32,
        /// The factors of its exchanges.
        factors: [f64; STAGED_FACTORS],
        /// The hash of its exchanges with these factors ([`exchanges_hash`]).
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
    pub scores: Exchange,
    /// The entries of several users become coefficients in the ring of answers, at the scale of the slots.
    pub answers: SlotsToCoefficients,
    /// Those of updates in slots.
    pub slots: Option<SlotExchanges>,
    /// The steps of updates by products.
    pub products: Option<ProductExchanges>,
    /// The steps of a staged evaluation, if evaluations are staged.
    pub staged: Option<Staging>,
}

/// The exchanges of the updates of a bandit in slots.
#[derive(Debug, Clone)]
pub struct SlotExchanges {
    /// A sum of feedbacks becomes statistics.
    pub statistics: Exchange,
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
        let Rings { updates, decisions, by, .. } = &rings.into();
        let slots = decisions.max_slots();
        let scores = layout.raised_scores(slots).exchange(small, decisions, LOG_SCORE, plan.scores_level)?;
        let of_slots = || {
            let places = layout.raised_statistics(updates.max_slots());
            let statistics = places.exchange(small, updates, layout.log_sums(), plan.statistics_level)?;
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
                (None, Some(ProductExchanges::new(&layout, small, matrices, layout.alone())?))
            }
        };
        let (level, scale) = (PRODUCTS_LEVEL, decisions.scale(PRODUCTS_LEVEL));
        let staged = layout.staged().map(|staged| Staging::new(staged.clone(), [small, decisions, answers]));
        let answers =
            SlotsToCoefficients::new(decisions, answers, level, slots, scale, &layout.answer_terms(slots))?
                .into_level(ANSWER_LEVEL, scale)?;
        Ok(Exchanges { layout, scores, answers, slots: of_updates.0, products: of_updates.1, staged })
    }

    /// What a task of exchanges asks for; `None` for tasks of other kinds, and for steps that the bandit does
    /// not have.
    ///
    /// # Errors
    /// As [`Exchange::new`].
    pub fn of<'a>(&self, kind: &'a TaskKind) -> Result<Option<AskedExchanges<'a>>, ckks::Error> {
        Ok(match kind {
            TaskKind::Product { step, factors, hash } => self.products.as_ref().map(|products| {
                AskedExchanges { groups: vec![vec![products.of(*step).clone()]], factors, hash }
            }),
            TaskKind::Stage { step, users, factors, hash } => {
                let Some(staging) = &self.staged else { return Ok(None) };
                let steps = staging.of(*users as usize)?;
                let groups = steps.steps.get(*step as usize).cloned();
                groups.map(|groups| AskedExchanges { groups, factors, hash })
            }
            TaskKind::Scores { .. }
            | TaskKind::Sum
            | TaskKind::Model
            | TaskKind::Answers
            | TaskKind::Pads => None,
        })
    }
}

/// The exchanges that a holder of the key is asked for at once.
#[derive(Debug, Clone)]
pub struct AskedExchanges<'a> {
    /// Those of each group share what is masked.
    pub groups: Vec<Vec<Exchange>>,
    /// Their factors.
    pub factors: &'a [f64],
    hash: &'a [u8; 32],
}

impl AskedExchanges<'_> {
    /// Whether they are the ones that the task states ([`exchanges_hash`]).
    pub fn are_stated(&self) -> bool {
        exchanges_hash(&self.groups, self.factors) == *self.hash
    }
}

/// A hash of exchanges with these factors, by which a holder of the key finds, before it decrypts, that it
/// would compute something else than it is asked for: of one exchange [`Exchange::hash`].
pub fn exchanges_hash(groups: &[Vec<Exchange>], factors: &[f64]) -> [u8; 32] {
    let hashes: Vec<[u8; 32]> = groups.iter().flatten().map(|exchange| exchange.hash(factors)).collect();
    match hashes[..] {
        [hash] => hash,
        _ => *blake3::hash(&hashes.concat()).as_bytes(),
    }
}
