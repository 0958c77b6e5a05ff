//! The server's four steps on ciphertexts, for small and large problems.
//!
//! Ids: `helba/STEP/d=D,K=K`. `BENCH_SHAPES="7,4 8,8"` picks the problems.

use ckks::{Ciphertext, EvaluationKeys, GaloisElement, Plaintext};
use ckks_secret::SecretKey;
use criterion::{Criterion, criterion_group, criterion_main};
use helba::{Bandit, BanditConfig, Engine, Feedback, KeyPlan, Layout, Shape};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use std::hint::black_box;
use std::sync::Arc;

struct Party {
    engine: Engine,
    secret: SecretKey,
    rng: ChaCha20Rng,
}

impl Party {
    fn new(shape: Shape) -> Self {
        let plan = KeyPlan::new(shape, false).expect("the problem has keys");
        let params = plan.params.validate().expect("shipped parameters are valid");
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let secret = SecretKey::generate(&params, &mut rng);
        let public = ckks_secret::public_key(&secret, &mut rng);
        let relin = Some(Arc::new(ckks_secret::relin_key(&secret, plan.relin_level, &mut rng)));
        let mut keys = EvaluationKeys { relin, ..EvaluationKeys::default() };
        let rotations = plan.rotations.iter().map(|&(k, level)| (GaloisElement::rotation(&params, k), level));
        let conjugation = (GaloisElement::conjugation(&params), plan.conjugation_level);
        for (g, level) in rotations.chain([conjugation]) {
            keys.galois.insert(g, Arc::new(ckks_secret::galois_key(&secret, g, level, &mut rng)));
        }
        let id = public.id(&params);
        let engine = Engine::new(params, public, id, shape, keys).expect("the keys fit the shape");
        Party { engine, secret, rng }
    }

    fn encrypt(&mut self, slots: &[num_complex::Complex64], level: usize) -> Ciphertext {
        let m = Plaintext::encode(self.engine.params(), slots, level).expect("small values");
        ckks_secret::encrypt(&self.secret, &m, &mut self.rng).expand(&self.secret)
    }
}

/// Unit vectors that differ from arm to arm.
fn contexts(d: usize, k: usize) -> Vec<Vec<f64>> {
    (0..k).map(|a| (0..d).map(|i| f64::from(u8::from(i == a % d))).collect()).collect()
}

fn steps(c: &mut Criterion) {
    let shapes = std::env::var("BENCH_SHAPES").unwrap_or_else(|_| "2,2 7,4 8,8 16,16".into());
    for shape in shapes.split_whitespace() {
        let (d, k) = shape.split_once(',').expect("D,K");
        let (d, k): (usize, usize) = (d.parse().expect("a number"), k.parse().expect("a number"));
        let mut party = Party::new(Shape::for_problem(d, k));
        // Every feedback ends a batch, so that there is an update to measure; its steps are the default's.
        let mut config = BanditConfig::new(d, k);
        config.linear.schedule = bandit::Schedule::EveryRound;
        let mut bandit = Bandit::create(&party.engine, config.clone()).expect("defaults fit");
        let plan = bandit.plan().clone();
        let layout = Layout::new(&config, &plan);
        let rows = contexts(d, k);
        let ct = party.encrypt(&layout.contexts(&rows).expect("unit vectors"), plan.context_level);
        let id = |what: &str| format!("helba/{what}/d={d},K={k}");
        let Party { engine, rng, .. } = &mut party;
        c.bench_function(&id("decide"), |x| {
            x.iter(|| engine.decide(bandit.begin_decision().expect("a bandit"), black_box(&ct), rng))
        });
        let output = party
            .engine
            .decide(bandit.begin_decision().expect("a bandit"), &ct, &mut party.rng)
            .expect("keys are there");
        let reply = bandit.finish_decision(&party.engine, output, &mut party.rng).expect("a decision");
        let statistics = layout.statistics(&rows[0], 0.5).expect("in range");
        let trace = layout.trace_features(&rows[0]).expect("in range");
        let feedback = Feedback {
            statistics: party.encrypt(&statistics, plan.statistics_level),
            trace: party.encrypt(&trace, plan.trace_level),
            trace_answer: None,
            refreshed: None,
        };
        let engine = &party.engine;
        c.bench_function(&id("feedback"), |x| {
            x.iter_batched_ref(
                || (bandit.clone(), feedback.clone()),
                |(bandit, f)| bandit.feedback(engine, reply.id, f.clone()),
                criterion::BatchSize::LargeInput,
            )
        });
        bandit.feedback(engine, reply.id, feedback).expect("the decision exists");
        let update = bandit.begin_update().expect("the first feedback ends the first batch");
        c.bench_function(&id("update"), |x| x.iter(|| engine.update(black_box(&update), &mut party.rng)));
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = steps
}
criterion_main!(benches);
