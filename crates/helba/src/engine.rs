use crate::decide::DecisionCircuit;
use crate::{DecisionInputs, Error, UpdateInputs, UpdateOutput, refresh, update};
use circuits::inverse::Newton;
use circuits::{Encrypted, SlotAlgebra};
use ckks::{Ciphertext, EvaluationKeys, Evaluator, KeyId, Params, PublicKey};
use protocol::exchange::ANSWER_FLOOD_BITS;
use protocol::{Factors, Shape};
use rand::CryptoRng;
use std::time::Instant;

/// Computes decisions and batch updates on ciphertexts, with the parameters, public key and evaluation keys
/// of a key pair. All bandits of the key pair share one engine.
#[derive(Debug, Clone)]
pub struct Engine {
    public_key: PublicKey,
    key_id: KeyId,
    shape: Shape,
    /// Vectors with the period of decisions.
    decision: Encrypted,
    /// Vectors with the period of updates.
    update: Encrypted,
}

/// The two ciphertexts of a decision, before they are masked for the user.
#[derive(Debug, Clone)]
pub struct DecisionOutput {
    /// The action: near 1 in the slot of each arm worth playing, and near 0 in the slots of the others.
    pub action: Ciphertext,
    /// The trace comparison in the constant coefficient, if the schedule asks for it.
    pub trace: Option<Ciphertext>,
    /// Seconds of wall time in each phase.
    pub seconds: Vec<(String, f64)>,
    pub(crate) inputs: DecisionInputs,
}

/// The levels of a model under its mask, and of the model that comes back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ModelLevels {
    pub(crate) refresh: usize,
    pub(crate) model: usize,
}

impl Engine {
    /// An engine with the keys that [`protocol::KeyPlan`] lists for `shape`.
    ///
    /// # Errors
    /// [`Error::Circuit`] if the shape has more slots than the ring.
    pub fn new(
        params: Params,
        public_key: PublicKey,
        key_id: KeyId,
        shape: Shape,
        keys: EvaluationKeys,
    ) -> Result<Self, Error> {
        let evaluator = Evaluator::new(params, keys);
        let decision =
            Encrypted::new(evaluator.clone(), shape.decision_slots().min(evaluator.params().max_slots()))?;
        let update = Encrypted::new(evaluator, shape.update_slots())?;
        Ok(Engine { public_key, key_id, shape, decision, update })
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        self.decision.evaluator().params()
    }

    /// The id of the key pair.
    pub fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// The shape of the keys.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    pub(crate) fn evaluator(&self) -> &Evaluator {
        self.decision.evaluator()
    }

    pub(crate) fn public_key(&self) -> &PublicKey {
        &self.public_key
    }

    /// Steps 2 and 3 on encrypted contexts: the action, and the trace comparison if the schedule asks for it.
    ///
    /// # Errors
    /// [`Error::WrongLevel`], [`Error::Ckks`] if a key is missing.
    pub fn decide<R: CryptoRng>(
        &self,
        inputs: DecisionInputs,
        contexts: &Ciphertext,
        rng: &mut R,
    ) -> Result<DecisionOutput, Error> {
        let want = inputs.plan.context_level;
        if contexts.level() != want {
            return Err(Error::WrongLevel { what: "the context ciphertext", got: contexts.level(), want });
        }
        let mut clock = Clock::new();
        let circuit = DecisionCircuit::new(&inputs.config, inputs.scalars, self.shape)?;
        let trace = inputs.trace.as_ref().map(|(trace, _)| &**trace);
        let decided = circuit.run(&self.decision, contexts, trace, &inputs.model, |step| clock.lap(step))?;
        let action = refresh::flood(self.params(), &self.public_key, decided.action, ANSWER_FLOOD_BITS, rng);
        clock.lap("answer");
        Ok(DecisionOutput { action, trace: decided.trace, seconds: clock.laps, inputs })
    }

    /// Step 1 at the end of a batch: the new model, at the level of a refresh.
    ///
    /// # Errors
    /// [`Error::Ckks`] if a key is missing.
    pub fn update<R: CryptoRng>(&self, inputs: &UpdateInputs, rng: &mut R) -> Result<UpdateOutput, Error> {
        let mut clock = Clock::new();
        let UpdateInputs { plan, snapshot, model, factors, closed_at } = inputs;
        let to = ModelLevels { refresh: plan.refresh_level, model: plan.model_level };
        let unused = plan.newton_steps - factors.steps().len();
        let model = self.update_model(snapshot, model, factors, plan.design_scale, unused, to)?;
        let seed = ckks::mask_seed(rng);
        let masked = refresh::hide(self.params(), &self.public_key, &model, &seed, rng);
        clock.lap("update");
        Ok(UpdateOutput { masked, seed, closed_at: *closed_at, seconds: clock.laps })
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

struct Clock {
    last: Instant,
    laps: Vec<(String, f64)>,
}

impl Clock {
    fn new() -> Self {
        Clock { last: Instant::now(), laps: Vec::new() }
    }

    fn lap(&mut self, phase: &str) {
        self.laps.push((phase.into(), self.last.elapsed().as_secs_f64()));
        self.last = Instant::now();
    }
}
