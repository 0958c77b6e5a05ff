use crate::{Error, update};
use circuits::inverse::Newton;
use circuits::{Encrypted, SlotAlgebra};
use ckks::{Ciphertext, EvaluationKeys, Evaluator, GaloisElement, KeyId, Params, PublicKey, RingKeys};
use fault::OutOfRange;
use protocol::{BanditConfig, Exchanging, Factors, Rings, Shape, Updates, UserKeys};

/// Computes batch updates in the deep ring, with the parameters, public key and evaluation keys of a key
/// pair. [`crate::Engine`] computes evaluations, with the same keys or with those of a ring of their own.
#[derive(Debug, Clone)]
pub struct DeepEngine {
    public_key: PublicKey,
    key_id: KeyId,
    shape: Shape,
    /// Vectors with the period of updates; all slots, if they have fewer and updates are products.
    update: Encrypted,
    decisions: Option<RingKeys>,
    by: Updates,
    exchanges: Exchanging,
    keys: UserKeys,
}

/// The levels of a model under its mask, and of the model that comes back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ModelLevels {
    pub(crate) refresh: usize,
    pub(crate) model: usize,
}

impl DeepEngine {
    /// An engine with the keys that [`protocol::KeyPlan`] lists for `shape`.
    ///
    /// # Errors
    /// [`Error::Circuit`] never.
    pub fn new(
        params: Params,
        public_key: PublicKey,
        key_id: KeyId,
        shape: Shape,
        keys: EvaluationKeys,
    ) -> Result<Self, Error> {
        let slots = shape.update_slots().min(params.max_slots());
        let update = Encrypted::new(Evaluator::new(params, keys), slots)?;
        let (by, exchanges, keys) = Default::default();
        Ok(DeepEngine { public_key, key_id, shape, update, decisions: None, by, exchanges, keys })
    }

    /// The engine of keys that were made for such updates, evaluations and users ([`protocol::KeyPlan`]).
    pub fn made_for(self, by: Updates, exchanges: Exchanging, keys: UserKeys) -> Self {
        DeepEngine { by, exchanges, keys, ..self }
    }

    /// The engine with these keys of a ring for evaluations alone ([`protocol::KeyPlan::decisions`]), if
    /// there are any.
    pub fn with_decisions(self, decisions: Option<RingKeys>) -> Self {
        DeepEngine { decisions, ..self }
    }

    /// The keys of the ring of evaluations.
    pub(crate) fn decisions(&self) -> RingKeys {
        let of_updates = || RingKeys {
            evaluator: self.evaluator().clone(),
            public_key: self.public_key.clone(),
            key_id: self.key_id,
        };
        self.decisions.clone().unwrap_or_else(of_updates)
    }

    /// The parameters of the rings of circuits.
    pub fn rings(&self) -> Rings {
        let updates = self.params().clone();
        let decisions = self.decisions.as_ref().map_or(&updates, |keys| keys.evaluator.params()).clone();
        Rings { updates, decisions, by: self.by, exchanges: self.exchanges, keys: self.keys }
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        self.update.evaluator().params()
    }

    /// The id of the key pair.
    pub fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// The shape of the keys.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Whether the keys serve the width of `config`: those of a root alone have one of conjugation.
    pub(crate) fn check_width(&self, config: &BanditConfig) -> Result<(), protocol::Error> {
        let conjugation = GaloisElement::conjugation(self.params());
        if config.raises_differences() || self.evaluator().keys().galois.contains_key(&conjugation) {
            return Ok(());
        }
        let want = "tangent, for which these keys were made: a root takes those of `helba-keygen create --width root`";
        Err(OutOfRange::new("linear.width", "a root", want).into())
    }

    pub(crate) fn evaluator(&self) -> &Evaluator {
        self.update.evaluator()
    }

    pub(crate) fn public_key(&self) -> &PublicKey {
        &self.public_key
    }

    /// The next model at the level of a refresh, from statistics with levels for `unused` more Newton steps
    /// than `factors` has.
    pub(crate) fn update_model(
        &self,
        statistics: &Ciphertext,
        model: &Ciphertext,
        factors: &Factors,
        design_scale: f64,
        unused: usize,
        to: ModelLevels,
    ) -> Result<Ciphertext, Error> {
        let newton = Newton::new(self.shape.dim, factors.start(), factors.steps(), design_scale)?;
        // Levels of steps that this update does not need are dropped first, because operations at lower
        // levels cost less.
        let statistics = self.update.drop_to(statistics, statistics.level() - 2 * unused)?;
        let model = update::batch_update(&self.update, &newton, &statistics, model)?;
        // A refresh keeps the scale, so that the model takes the scale of the level that it returns at.
        Ok(self.evaluator().adjust_to(&model, to.refresh, self.params().scale(to.model))?)
    }
}
