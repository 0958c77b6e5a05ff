//! Packed rounds on ciphertexts, users, server and the holder of the key in one process, against exact
//! arithmetic on the same history.

use ckks::{EvaluationKeys, KeyId, Params, Plaintext, PublicKey};
use ckks_secret::SecretKey;
use helba::Engine;
use helba::packed::{Applied, Event, PackedBandit, PackedEngine};
use protocol::{BanditConfig, Decisions, KeyPlan, LOG_FACTOR, LOG_SCORE, ScoreRing, Shape, TaskKind};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::sync::Arc;
use testkit::{ClearTwin, Party};

/// The keys of the ring of scores.
struct Small {
    params: Params,
    secret: SecretKey,
    public: PublicKey,
    keys: EvaluationKeys,
}

impl Small {
    fn generate(ring: ScoreRing, rng: &mut ChaCha20Rng) -> Self {
        let params = ring.params.validate().unwrap();
        let (secret, top) = (SecretKey::generate(&params, rng), params.max_level());
        let public = ckks_secret::public_key(&secret, rng);
        let relin = Some(Arc::new(ckks_secret::relin_key(&secret, top, rng)));
        let mut keys = EvaluationKeys { relin, ..EvaluationKeys::default() };
        for element in ckks::pack_elements(&params, ring.gap).unwrap() {
            keys.galois.insert(element, Arc::new(ckks_secret::galois_key(&secret, element, top, rng)));
        }
        Small { params, secret, public, keys }
    }

    fn id(&self) -> KeyId {
        self.public.id(&self.params)
    }
}

/// Everybody, in one process.
struct World {
    engine: PackedEngine,
    party: Party,
    small: Small,
    bandit: PackedBandit,
    twin: ClearTwin,
    rng: ChaCha20Rng,
    round: u64,
    config: BanditConfig,
}

impl World {
    fn new(d: usize, k: usize) -> Self {
        let shape = Shape::for_problem(d, k);
        let party = Party::for_plan(&KeyPlan::new(shape, true).unwrap(), 7).unwrap();
        let ring = ScoreRing::for_shape(shape, true).unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(8);
        let small = Small::generate(ring, &mut rng);
        let (params, public, id) = (party.params.clone(), party.public.clone(), party.key_id());
        let deep = Engine::new(params, public, id, shape, party.keys.clone()).unwrap();
        let (params, public) = (small.params.clone(), small.public.clone());
        let engine = PackedEngine::new(deep, ring, params, public, small.id(), small.keys.clone()).unwrap();
        let config = BanditConfig { horizon: 100, decisions: Decisions::Packed, ..BanditConfig::new(d, k) };
        let bandit = PackedBandit::create(&engine, config.clone(), [9; 32]).unwrap();
        let twin = ClearTwin::new(config.clone());
        World { engine, party, small, bandit, twin, rng, round: 0, config }
    }

    fn apply(&mut self, event: &Event) -> Applied {
        self.bandit.apply(&self.engine, event).unwrap()
    }

    fn encrypt_small(&mut self, coefficients: &[i64], log_scale: u32) -> ckks_secret::SeededCiphertext {
        let level = self.small.params.max_level();
        let scale = f64::from(log_scale).exp2();
        let message = Plaintext::from_integers(&self.small.params, coefficients, level, scale).unwrap();
        ckks_secret::encrypt(&self.small.secret, &message, &mut self.rng)
    }

    /// One evaluation for `users` users, each with contexts of its own. Returns the contexts and the entries
    /// of each answer.
    fn decide(&mut self, users: usize) -> Vec<(u64, Vec<Vec<f64>>, Vec<f64>)> {
        let (d, k) = (self.config.linear.d, self.config.linear.k);
        let exchanges = self.bandit.exchanges().clone();
        let model = self.bandit.scores_model().clone();
        let mut packer = self.engine.packer().unwrap();
        let mut waiting = Vec::new();
        for _ in 0..users {
            let rows = unit_rows(&mut self.rng, k, d);
            let contexts = exchanges.layout.contexts(&rows).unwrap();
            let contexts = self.encrypt_small(&contexts, LOG_FACTOR).expand(&self.small.secret);
            let position = packer.push(self.engine.score(&contexts, &model).unwrap()).unwrap();
            self.round += 1;
            waiting.push((self.round, rows, exchanges.layout.user_at(position)));
        }
        let circuit = self.engine.circuit(&self.config, self.bandit.scalars(self.round)).unwrap();
        let factor = circuit.factor(exchanges.layout.log_range());
        let packed = packer.finish().unwrap();
        let masked = self.engine.mask(&exchanges.scores, packed, &mut self.rng).unwrap();
        let raised = ckks_secret::raise(
            &exchanges.scores,
            &self.small.secret,
            &self.party.secret,
            &masked.ciphertext,
            factor,
            &mut self.rng,
        );
        let raised = raised.unwrap().expand(&self.party.secret);
        let mask = exchanges.scores.encode_mask(&masked.seed, factor).unwrap();
        let evaluated =
            self.engine.evaluate(circuit, &exchanges.scores, raised, &mask, &mut self.rng).unwrap();
        let slots = self.party.params.max_slots();
        let answer = |(round, rows, user)| {
            let answer = self.engine.answer(&evaluated, user, &mut self.rng).unwrap();
            assert_eq!(answer.level(), 0);
            let values = ckks_secret::decrypt(&self.party.secret, &answer, slots).with(|slots| {
                let own = exchanges.layout.action_values(slots, user);
                // Whatever else the answer holds is noise.
                let sum: f64 = slots.iter().map(|z| z.norm_sqr()).sum();
                let rest = sum - own.iter().map(|v| v * v).sum::<f64>();
                assert!((rest / slots.len() as f64).sqrt() < 0.1, "{rest}");
                own
            });
            (round, rows, values)
        };
        waiting.into_iter().map(answer).collect()
    }

    fn feedback(&mut self, round: u64, x: &[f64], reward: f64) -> Event {
        let layout = self.bandit.exchanges().layout.clone();
        let statistics = layout.statistics(x, reward).unwrap();
        let encrypted = self.encrypt_small(&statistics, LOG_SCORE);
        let frame = encrypted.to_partial_bytes(&self.small.secret, self.small.id(), layout.numbers());
        self.twin.learn(x, reward);
        Event::Feedback { round, frame }
    }

    /// What a holder of the key answers to the task that waits.
    fn answer_task(&mut self) -> Option<Event> {
        let task = self.bandit.task()?;
        let exchanges = self.bandit.exchanges().clone();
        Some(match task.kind {
            TaskKind::Scores { .. } => unreachable!(),
            TaskKind::Sum => {
                let factor = exchanges.layout.statistics_factor();
                let raised = ckks_secret::raise(
                    &exchanges.statistics,
                    &self.small.secret,
                    &self.party.secret,
                    &task.masked,
                    factor,
                    &mut self.rng,
                );
                let frame = raised.unwrap().to_bytes(&self.party.secret, self.party.key_id());
                Event::Raised { task: task.id, frame }
            }
            TaskKind::Model => {
                let (level, slots) = (self.bandit.plan().model_level, self.bandit.plan().model_slots);
                let (deep, small) = (&self.party.secret, &self.small.secret);
                let fresh = ckks_secret::recrypt(deep, &task.masked, level, slots, &mut self.rng).unwrap();
                let exchange = &exchanges.model;
                let scores =
                    ckks_secret::slots_to_coefficients(exchange, deep, small, &task.masked, &mut self.rng);
                Event::Refreshed {
                    task: task.id,
                    deep: fresh.to_bytes(deep, self.party.key_id()),
                    scores: scores.unwrap().to_bytes(small, self.small.id()),
                }
            }
        })
    }

    /// Runs tasks and updates until none is due.
    fn settle(&mut self) -> usize {
        let mut installed = 0;
        loop {
            if let Some(update) = self.bandit.update().unwrap() {
                let masked = update.run(&self.engine).unwrap();
                self.bandit.updated(&update, masked);
            }
            let Some(event) = self.answer_task() else { return installed };
            installed += usize::from(self.apply(&event) == Applied::Installed);
            // A second answer is refused, and changes nothing.
            let before = self.bandit.to_bytes(&self.engine).unwrap();
            assert!(self.bandit.apply(&self.engine, &event).is_err());
            assert_eq!(self.bandit.to_bytes(&self.engine).unwrap(), before);
        }
    }
}

fn unit_rows(rng: &mut ChaCha20Rng, k: usize, d: usize) -> Vec<Vec<f64>> {
    let mut unit = |_| {
        let x: Vec<f64> = (0..d).map(|_| rng.next_u32() as f64 / 2f64.powi(31) - 1.0).collect();
        let norm = x.iter().map(|v| v * v).sum::<f64>().sqrt();
        x.iter().map(|v| v / norm).collect()
    };
    (0..k).map(&mut unit).collect()
}

fn largest(values: &[f64]) -> usize {
    (0..values.len()).fold(0, |best, a| if values[a] > values[best] { a } else { best })
}

/// Rounds of several users with feedback, updates and refreshes. Every user gets an arm whose index is the
/// largest of its own up to the resolution, for problems with and without padding.
#[test]
fn packed_rounds_decide_as_the_twin() {
    for (d, k, rounds, users) in [(2, 2, 10, 4), (7, 4, 4, 6)] {
        let mut world = World::new(d, k);
        let theta = unit_rows(&mut ChaCha20Rng::seed_from_u64(1), 1, d).remove(0);
        let (mut same, mut all, mut models, mut worst) = (0, 0, 0, 0.0f64);
        for _ in 0..rounds {
            let used = world.bandit.model_feedbacks();
            for (round, rows, values) in world.decide(users) {
                let indices = world.twin.indices(&rows, round, used);
                let (arm, best) = (largest(&values), largest(&indices));
                let gap = indices[best] - indices[arm];
                worst = worst.max(gap);
                assert!(gap < 1e-2, "{d} {k}, round {round}: {gap}, {values:?}");
                assert!(values.iter().all(|v| (-0.25..1.25).contains(v)), "round {round}: {values:?}");
                // Before the first batch ends, all unit vectors have one index.
                (same, all) = (same + u32::from(gap < 1e-9), all + 1);
                let x = rows[arm].clone();
                let reward = x.iter().zip(&theta).map(|(a, b)| a * b).sum();
                let event = world.feedback(round, &x, reward);
                let Applied::Counted(receipt) = world.apply(&event) else { panic!() };
                assert_eq!(receipt.feedbacks, round);
                // Once.
                assert!(world.bandit.apply(&world.engine, &event).is_err());
            }
            models += world.settle();
        }
        assert!(models >= rounds / 2, "{models} models");
        assert!(same * 100 >= all * 95, "{d} {k}: the arm of the twin in {same} of {all}, {worst:.4} short");
        // The state survives a store.
        let bytes = world.bandit.to_bytes(&world.engine).unwrap();
        let read = PackedBandit::from_bytes(&world.engine, &bytes).unwrap();
        assert!(read.to_bytes(&world.engine).unwrap() == bytes);
    }
}

/// The same events in the same order give the same state, byte for byte, though the replay computes no
/// update. With one event left out or another order, the masks differ.
#[test]
fn events_determine_the_state() {
    let mut world = World::new(2, 2);
    let start = world.bandit.clone();
    let mut events = vec![world.bandit.reserve()];
    world.apply(&events[0].clone());
    for round in 1..=40 {
        let x = unit_rows(&mut world.rng, 1, 2).remove(0);
        let event = world.feedback(round, &x, 0.5);
        world.apply(&event);
        events.push(event);
        if round % 5 == 0 {
            if let Some(update) = world.bandit.update().unwrap() {
                let masked = update.run(&world.engine).unwrap();
                world.bandit.updated(&update, masked);
            }
            if let Some(event) = world.answer_task() {
                world.apply(&event);
                events.push(event);
            }
        }
    }
    assert!(world.bandit.status(40, 0).refreshes > 1);
    let replay = |events: &[Event]| {
        let mut bandit = start.clone();
        for event in events {
            bandit.apply(&world.engine, event)?;
        }
        if let Some(update) = bandit.update()? {
            let masked = update.run(&world.engine)?;
            bandit.updated(&update, masked);
        }
        bandit.to_bytes(&world.engine)
    };
    if let Some(update) = world.bandit.update().unwrap() {
        let masked = update.run(&world.engine).unwrap();
        world.bandit.updated(&update, masked);
    }
    assert!(replay(&events).unwrap() == world.bandit.to_bytes(&world.engine).unwrap());
    let mask = |events: &[Event]| {
        let mut bandit = start.clone();
        events.iter().for_each(|event| drop(bandit.apply(&world.engine, event).unwrap()));
        bandit.task().unwrap().masked
    };
    // The first batch closes with its second feedback. The sum of another order is the same, and its mask is
    // another one.
    let other = [events[0].clone(), events[2].clone(), events[1].clone()];
    assert!(*mask(&events[..3]) == *mask(&events[..3]) && *mask(&events[..3]) != *mask(&other));
}

/// Ids name a round of their bandit, and nothing else.
#[test]
fn attack_ids_that_were_not_given_out_are_unknown() {
    let world = World::new(2, 2);
    let other = PackedBandit::create(&world.engine, world.config.clone(), [10; 32]).unwrap();
    let id = world.bandit.decision_id(5);
    assert_eq!(world.bandit.waiting(id).unwrap(), Ok(5));
    assert!(other.waiting(id).is_err());
    for byte in 0..16 {
        let mut bad = id;
        bad.0[byte] ^= 1;
        assert!(world.bandit.waiting(bad).is_err(), "{byte}");
    }
}
