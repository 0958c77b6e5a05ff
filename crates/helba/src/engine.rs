use crate::score::ScoreInputs;
use crate::{DecisionInputs, Error, UpdateInputs, UpdateOutput, compare, refresh, score, update};
use circuits::inverse::Newton;
use circuits::{Encrypted, SlotAlgebra};
use ckks::{Ciphertext, EvaluationKeys, Evaluator, KeyId, Params, PublicKey};
use protocol::Shape;
use rand::CryptoRng;
use rns::sample;
use std::time::Instant;

/// What a server computes with: parameters, public key, evaluation keys. One for all bandits of a key pair.
#[derive(Debug, Clone)]
pub struct Engine {
    public_key: PublicKey,
    key_id: KeyId,
    shape: Shape,
    /// Vectors of the decision's period.
    decision: Encrypted,
    /// Vectors of the update's period.
    update: Encrypted,
}

/// The two ciphertexts of a decision, before they are masked for the user.
#[derive(Debug, Clone)]
pub struct DecisionOutput {
    /// Near 1 at the slot of each arm worth playing, near 0 elsewhere.
    pub action: Ciphertext,
    /// The trace comparison in its constant coefficient, if it was asked.
    pub trace: Option<Ciphertext>,
    /// Wall time by phase.
    pub seconds: Vec<(String, f64)>,
    pub(crate) inputs: DecisionInputs,
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
        let decision = Encrypted::new(evaluator.clone(), shape.decision_slots())?;
        let update = Encrypted::new(evaluator, shape.update_slots())?;
        Ok(Engine { public_key, key_id, shape, decision, update })
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        self.decision.evaluator().params()
    }

    /// The key pair's name.
    pub fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// What the keys were made for.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    pub(crate) fn evaluator(&self) -> &Evaluator {
        self.decision.evaluator()
    }

    pub(crate) fn public_key(&self) -> &PublicKey {
        &self.public_key
    }

    /// Steps 2 and 3 on encrypted contexts: which arm, and whether the batch ends.
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
        let alg = &self.decision;
        let sum = match &inputs.trace {
            Some((trace, _)) => alg.add(contexts, trace)?,
            None => contexts.clone(),
        };
        let score = ScoreInputs::new(&inputs.config, inputs.scalars, self.shape);
        let index = score::optimistic_index(alg, &score, &sum, &inputs.model)?;
        clock.lap("score");
        let argmax = compare::argmax(&inputs.config, self.shape)?;
        let threshold = inputs.config.linear.c / (2.0 * score.trace_bound);
        let wins = compare::wins(alg, &argmax, &index, threshold)?;
        clock.lap("compare");
        let action = argmax.one_hot(alg, &wins)?;
        let action = refresh::answer(self.params(), &self.public_key, &action, rng)?;
        let trace = match inputs.trace {
            Some(_) => Some(compare::trace(alg, self.shape, &wins)?),
            None => None,
        };
        clock.lap("answer");
        Ok(DecisionOutput { action, trace, seconds: clock.laps, inputs })
    }

    /// Step 1 at the end of a batch: the new model, at the level of a refresh.
    ///
    /// # Errors
    /// [`Error::Ckks`] if a key is missing.
    pub fn update<R: CryptoRng>(&self, inputs: &UpdateInputs, rng: &mut R) -> Result<UpdateOutput, Error> {
        let mut clock = Clock::new();
        let (factors, dim) = (&inputs.factors, self.shape.dim);
        let newton = Newton::new(dim, factors.start(), factors.steps(), inputs.plan.design_scale)?;
        // What steps that are not needed would have used is dropped first, since lower levels cost less.
        let level = inputs.plan.statistics_level - 2 * (inputs.plan.newton_steps - factors.steps().len());
        let statistics = self.update.drop_to(&inputs.snapshot, level)?;
        let model = update::batch_update(&self.update, &newton, &statistics, &inputs.model)?;
        // The refreshed polynomial arrives at the top with the scale it has now.
        let model = self.evaluator().adjust_to(
            &model,
            inputs.plan.refresh_level,
            self.params().scale(inputs.plan.model_level),
        )?;
        let seed = sample::seed(rng);
        let masked = refresh::hide(self.params(), &self.public_key, &model, &seed, rng)?;
        clock.lap("update");
        Ok(UpdateOutput { masked, seed, closed_at: inputs.closed_at, seconds: clock.laps })
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
