//! HELBA on ciphertexts, with users, server and the holder of the key in one process: the server's engine and
//! state machine on real keys, without HTTP and without files.

use anyhow::{Context, Result};
use bandit::Features;
use ckks::{EvaluationKeys, GaloisElement, ParamsSpec, RingSwitch};
use ckks_secret::{SecretKey, SeededCiphertext};
use helba::{DeepEngine, EncryptedBandit, Engine, Event};
use protocol::{
    AnswerKeys, BanditConfig, KeyPlan, LOG_CONTEXT, LOG_STATISTICS, Shape, TaskKind, WidthShape, exchange,
};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use std::sync::Arc;

/// The keys of a shape under one parameter set, of all parties.
pub struct Keys {
    engine: Engine,
    large: SecretKey,
    small: SecretKey,
}

impl Keys {
    /// Keys for `shape` under the set `params`, from a fixed seed: experiments protect nobody.
    ///
    /// # Errors
    /// If the set does not carry the shape.
    pub fn generate(shape: Shape, params: ParamsSpec) -> Result<Self> {
        let plan = KeyPlan::with_set(shape, params, WidthShape::Root)?
            .with_context(|| format!("the parameter set {} does not carry {shape}", params.name))?;
        let mut rng = ChaCha20Rng::seed_from_u64(0);
        let params = plan.params.validate()?;
        let large = SecretKey::generate(&params, &mut rng);
        let public = ckks_secret::public_key(&large, &mut rng);
        let relin = Arc::new(ckks_secret::relin_key(&large, plan.relin_level, &mut rng));
        let mut keys = EvaluationKeys { relin: Some(relin), ..EvaluationKeys::default() };
        for key in &plan.galois {
            let element = key.automorphism.element(&params);
            let made = ckks_secret::galois_key(&large, element, key.level, &mut rng).stored_as(key.storage);
            keys.galois.insert(element, Arc::new(made));
        }
        let id = public.id(&params);
        let deep = DeepEngine::new(params, public, id, shape, keys)?;

        let params = plan.scores.params.validate()?;
        let (small, top) = (SecretKey::generate(&params, &mut rng), params.max_level());
        let public = ckks_secret::public_key(&small, &mut rng);
        let relin = Arc::new(ckks_secret::relin_key(&small, top, &mut rng));
        let mut keys = EvaluationKeys { relin: Some(relin), ..EvaluationKeys::default() };
        for element in ckks::pack_elements(&params, plan.scores.gap)? {
            keys.galois.insert(element, Arc::new(ckks_secret::galois_key(&small, element, top, &mut rng)));
        }
        let id = public.id(&params);
        let switch = ring_switch(&large, &small, &plan.answers, &mut rng)?;
        let engine = Engine::new(deep, plan.scores, params, public, id, keys, switch)?;
        Ok(Keys { engine, large, small })
    }
}

/// The keys of answers.
fn ring_switch(
    large: &SecretKey,
    small: &SecretKey,
    plan: &AnswerKeys,
    rng: &mut ChaCha20Rng,
) -> Result<RingSwitch> {
    let params = plan.params.validate()?;
    let secret = small.under(&params);
    let switch = (0..plan.switch).map(|j| Arc::new(ckks_secret::ring_switch_key(large, &secret, j, rng)));
    let switch = switch.collect();
    let mut keys = EvaluationKeys::default();
    for &k in &plan.rotations {
        let element = GaloisElement::rotation(&params, k);
        let key = ckks_secret::galois_key(&secret, element, params.max_level(), rng);
        keys.galois.insert(element, Arc::new(key));
    }
    Ok(RingSwitch::new(large.params(), ckks::Evaluator::new(params, keys), switch)?)
}

/// A bandit with one user, who is alone in every evaluation, answers every trace question and waits until the
/// model of a batch that has ended is in use.
pub struct Played<'a> {
    keys: &'a Keys,
    bandit: EncryptedBandit,
    rng: ChaCha20Rng,
    round: u64,
    /// The question of the last decision, and its answer, under the trace condition.
    answer: Option<(protocol::QuestionId, bool)>,
}

impl<'a> Played<'a> {
    /// A bandit without data.
    ///
    /// # Errors
    /// If the configuration does not fit the keys.
    pub fn new(keys: &'a Keys, config: BanditConfig, seed: u64) -> Result<Self> {
        let bandit = EncryptedBandit::create(&keys.engine, config, [9; 32])?;
        Ok(Played { keys, bandit, rng: ChaCha20Rng::seed_from_u64(seed), round: 0, answer: None })
    }

    /// The number of models that were computed.
    pub fn updates(&self) -> u64 {
        self.bandit.status(self.round).batches
    }

    /// t_j, the number of feedbacks in the current model.
    pub fn model_feedbacks(&self) -> u64 {
        self.bandit.model_feedbacks()
    }

    /// The arm of the next round.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn decide(&mut self, context: &Features) -> Result<usize> {
        let Keys { engine, large, small } = self.keys;
        let exchanges = self.bandit.exchanges().clone();
        let layout = &exchanges.layout;
        self.round += 1;
        let rows: Vec<Vec<f64>> = context.rows().map(<[f64]>::to_vec).collect();
        let contexts = self.encrypt(&layout.contexts(&[&rows])?, LOG_CONTEXT)?.expand(small);

        let (model, test) = (self.bandit.scores_model().only()?.clone(), self.bandit.trace_test());
        let trace = test.as_ref().map(|test| engine.score(&test.statistics, &model)).transpose()?;
        let mut packer = engine.packer_with_trace(trace)?;
        let user = layout.user_at(packer.push_block(engine.score(&contexts, &model)?, 0)?);
        let circuit = engine.circuit(self.bandit.config(), self.bandit.scalars(self.round))?;
        let (raise, factors) = (&exchanges.scores, circuit.factors(layout.log_range()));
        let masked = engine.mask(raise, packer.finish()?, &mut self.rng)?;
        let raised = ckks_secret::raise(raise, small, large, &masked.ciphertext, factors, &mut self.rng)?
            .expand(large);
        let mask = raise.encode_mask(&masked.seed, &factors)?;
        let evaluated = engine.evaluate(&circuit, raise, raised, &mask, &mut self.rng)?;

        self.answer = match test {
            None => None,
            Some(test) => {
                let question = engine.trace_question(&evaluated, &mut self.rng)?;
                let params = large.params();
                let reached = ckks_secret::constant_coefficient(large, &question).at_least(
                    exchange::trace_threshold(params),
                    params.prime(0),
                    exchange::device_flood_bits(params),
                    &mut self.rng,
                );
                Some((self.bandit.question_id(self.round, &test), reached))
            }
        };
        let answer = engine.answer_alone(&evaluated, &[user], &mut self.rng)?;
        let (params, slots) = (engine.answer_params(), large.params().max_slots());
        let values = ckks_secret::decrypt(&small.under(params), &answer, params.max_slots())
            .with(|decrypted| layout.action_values(decrypted, user, slots));
        Ok(self.bandit.config().linear.preferred(&values, exchange::TIE_TOLERANCE, self.round))
    }

    /// The feedback on the last decision, and everything that follows from it.
    ///
    /// # Errors
    /// Those of the engine; for a reward beyond ±1.
    pub fn learn(&mut self, features: &[f64], reward: f64) -> Result<()> {
        let layout = self.bandit.exchanges().layout.clone();
        let (small, id) = (&self.keys.small, self.keys.engine.key_id());
        let statistics = self.encrypt(&layout.feedback(0, features, reward)?, LOG_STATISTICS)?;
        let frame = statistics.to_partial_bytes(small, id, layout.feedback_numbers());
        let round = self.round;
        let event = match self.bandit.config().tests_trace() {
            false => Event::Feedback { round, frame },
            true => {
                let trace = self.encrypt(&layout.trace(features)?, LOG_CONTEXT)?.to_bytes(small, id);
                Event::Traced { round, frame, trace, answer: self.answer.take() }
            }
        };
        self.bandit.apply(&self.keys.engine, &event)?;
        while let Some(event) = self.next()? {
            self.bandit.apply(&self.keys.engine, &event)?;
        }
        Ok(())
    }

    /// Coefficients of the ring of scores, encrypted under its secret key.
    fn encrypt(&mut self, coefficients: &[i64], log_scale: u32) -> Result<SeededCiphertext> {
        let params = self.keys.engine.params();
        let (level, scale) = (params.max_level(), f64::from(log_scale).exp2());
        let message = ckks::Plaintext::from_integers(params, coefficients, level, scale)?;
        Ok(ckks_secret::encrypt(&self.keys.small, &message, &mut self.rng))
    }

    /// Runs the update that is due, and answers the task that waits for the holder of the key.
    fn next(&mut self) -> Result<Option<Event>> {
        let Keys { engine, large, small } = self.keys;
        if let Some(update) = self.bandit.update()? {
            let masked = update.run(engine)?;
            self.bandit.updated(&update, masked);
        }
        let Some(task) = self.bandit.task() else { return Ok(None) };
        let exchanges = self.bandit.exchanges().clone();
        let (deep_id, small_id) = (engine.deep().key_id(), engine.key_id());
        let (masked, rng) = (&task.masked, &mut self.rng);
        Ok(Some(match task.kind {
            // A bandit asks for its own sums and models; scores are raised above.
            TaskKind::Scores { .. }
            | TaskKind::Answers
            | TaskKind::Pads
            | TaskKind::Product { .. }
            | TaskKind::Stage { .. } => {
                anyhow::bail!("a bandit has no scores to raise")
            }
            TaskKind::Sum => {
                let factors = exchanges.layout.statistics_factors();
                let raised = ckks_secret::raise(
                    &exchanges.slots.as_ref().context("updates in slots")?.statistics,
                    small,
                    large,
                    masked,
                    factors,
                    rng,
                )?;
                Event::Raised { task: task.id, frame: raised.to_bytes(large, deep_id) }
            }
            TaskKind::Model => {
                let (level, slots) = (self.bandit.plan().model_level, self.bandit.plan().model_slots);
                let deep = ckks_secret::recrypt(large, masked, level, slots, rng)?;
                let scores = ckks_secret::slots_to_coefficients(
                    &exchanges.slots.as_ref().context("updates in slots")?.model,
                    large,
                    small,
                    masked,
                    rng,
                )?;
                Event::Refreshed {
                    task: task.id,
                    deep: deep.to_bytes(large, deep_id),
                    scores: scores.to_bytes(small, small_id),
                }
            }
        }))
    }
}
