//! The server's steps on ciphertexts, for small and large problems.
//!
//! Ids: `helba/STEP/d=D,K=K/l=LEVEL/threads=T`, the level before the step. `BENCH_SHAPES="7,4 8,8"` picks the
//! problems. Bits are against the same step in the clear, on the same inputs.

mod support;

use circuits::{Chebyshev, Clear, Comparison, Encrypted, SlotAlgebra};
use ckks::{Ciphertext, Evaluator, Plaintext};
use criterion::{Criterion, criterion_group, criterion_main};
use helba::score::ScoreInputs;
use helba::{Bandit, Engine, Feedback, Scalars, compare, refresh, score};
use num_complex::Complex64;
use protocol::{BanditConfig, KeyPlan, Layout, Shape};
use rand::RngExt;
use std::hint::black_box;
use std::time::{Duration, Instant};
use support::{Bench, Fact};
use testkit::Party;

/// A key pair, and the server that computes under it.
struct Pair {
    party: Party,
    engine: Engine,
    evaluator: Evaluator,
}

impl Pair {
    fn new(shape: Shape) -> Result<Self, helba::Error> {
        let party = Party::for_plan(&KeyPlan::new(shape, false)?, 1)?;
        let (params, public, id) = (party.params.clone(), party.public.clone(), party.key_id());
        let engine = Engine::new(params, public, id, shape, party.keys.clone())?;
        Ok(Pair { evaluator: party.evaluator(), party, engine })
    }

    fn bits(&self, ct: &Ciphertext, want: &[Complex64]) -> Fact {
        Fact::bits(ckks_secret::measure(&self.party.secret, ct, want))
    }
}

fn timed<T>(f: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    black_box(f());
    start.elapsed()
}

/// Unit vectors that differ from arm to arm.
fn contexts(d: usize, k: usize) -> Vec<Vec<f64>> {
    (0..k).map(|a| (0..d).map(|i| f64::from(u8::from(i == a % d))).collect()).collect()
}

fn steps(c: &mut Criterion) {
    let mut bench = Bench::new(c);
    for text in support::words("BENCH_SHAPES", "2,2 8,8 16,16 8,32 16,32 16,64") {
        let (d, k) = text.split_once(',').expect("D,K");
        let (d, k): (usize, usize) = (d.parse().expect("a number"), k.parse().expect("a number"));
        match Pair::new(Shape::for_problem(d, k)) {
            Ok(mut pair) => {
                circuits_of(&mut bench, &mut pair, d, k);
                rounds_of(&mut bench, &mut pair, d, k);
            }
            Err(e) => println!("d={d},K={k} has no keys: {e}"),
        }
    }
}

/// The parts of a decision, one by one.
fn circuits_of(bench: &mut Bench, pair: &mut Pair, d: usize, k: usize) {
    let shape = Shape::for_problem(d, k);
    let config = BanditConfig::new(d, k);
    let plan = config.plan(&pair.party.params, shape).expect("defaults fit");
    let layout = Layout::new(&config, &plan);
    let slots = shape.decision_slots();
    let clear = Clear::new(slots).expect("a power of two");
    let alg = Encrypted::new(pair.evaluator.clone(), slots).expect("the slots fit");
    let id = |what: &str, level: usize| format!("helba/{what}/d={d},K={k}/l={level}");

    let inputs = ScoreInputs::new(&config, Scalars::new(&config, 1, 0), shape);
    let rows = layout.contexts(&contexts(d, k)).expect("unit vectors");
    // A = I/2 and ω between −½ and ½, so that there is something to tell apart.
    let square = shape.dim * shape.dim;
    let mut model = vec![Complex64::ZERO; plan.model_slots];
    (0..shape.dim).for_each(|i| {
        model[i * shape.dim + i].re = 0.5;
        model[square + i].re = i as f64 / shape.dim as f64 - 0.5;
    });
    let (top, level) = (plan.model_level, plan.context_level);
    let x = pair.party.encrypt(&rows, level);
    let m = pair.party.encrypt(&model, top);
    let clear_x = clear.fresh(&rows, level).expect("its slots");
    let clear_m = clear.fresh(&model, top).expect("its slots");
    let index = score::optimistic_index(&alg, &inputs, &x, &m).expect("keys are there");
    let clear_index = score::optimistic_index(&clear, &inputs, &clear_x, &clear_m).expect("levels are there");
    let fact = pair.bits(&index, clear_index.values());
    bench.time(&id("score", level), true, fact, || timed(|| score::optimistic_index(&alg, &inputs, &x, &m)));

    let unit: Vec<Complex64> =
        (0..slots).map(|_| (2.0 * pair.party.rng.random::<f64>() - 1.0).into()).collect();
    let u = pair.party.encrypt(&unit, index.level() + 4);
    let root =
        Chebyshev::interpolate(|x| ((x + 1.0) / 2.0).sqrt(), config.sqrt_degree, -1.0, 1.0).expect("finite");
    let want: Vec<Complex64> = unit.iter().map(|x| root.eval(x.re).into()).collect();
    let fact = pair.bits(&root.evaluate(&alg, &u).expect("keys are there"), &want);
    bench.time(&id("sqrt_15", u.level()), true, fact, || timed(|| root.evaluate(&alg, &u)));

    let kinds = [
        ("compare_6_rough", Comparison::composite(1.0 / 64.0, &[15, 15])),
        ("compare_6", Comparison::minimax(6)),
        ("compare_8", Comparison::minimax(8)),
        ("compare_10", Comparison::minimax(10)),
    ];
    for (name, kind) in kinds {
        let kind = kind.expect("a built-in comparison");
        if kind.depth() > top {
            continue;
        }
        let u = pair.party.encrypt(&unit, index.level().max(kind.depth()));
        let want: Vec<Complex64> = unit.iter().map(|x| (0.5 + 0.5 * kind.eval(x.re)).into()).collect();
        let fact = pair.bits(&kind.indicator(&alg, &u).expect("keys are there"), &want);
        bench.time(&id(name, u.level()), true, fact, || timed(|| kind.indicator(&alg, &u)));
    }

    let argmax = compare::argmax(&config, shape).expect("a comparison");
    let wins = |ct: &Ciphertext| argmax.products(&alg, ct);
    let clear_wins = argmax.products(&clear, &clear_index).expect("levels are there");
    let fact = pair.bits(&wins(&index).expect("keys are there"), clear_wins.values());
    bench.time(&id("argmax", alg.level(&index)), true, fact, || timed(|| wins(&index)));
}

/// What a server is asked to do.
fn rounds_of(bench: &mut Bench, pair: &mut Pair, d: usize, k: usize) {
    // Every feedback ends a batch, so that there is an update to measure. As many may be outstanding as the
    // default's batches have, for which its iteration has as many steps.
    let mut config = BanditConfig::new(d, k);
    if let bandit::Schedule::Every { rounds } | bandit::Schedule::GrowthOrEvery { rounds } =
        config.linear.schedule
    {
        config.unanswered = config.unanswered.max(rounds);
    }
    config.linear.schedule = bandit::Schedule::EveryRound;
    let mut bandit = Bandit::create(&pair.engine, config.clone()).expect("defaults fit");
    let plan = bandit.plan().clone();
    let default =
        BanditConfig::new(d, k).plan(&pair.party.params, Shape::for_problem(d, k)).expect("defaults fit");
    assert_eq!(plan.newton_steps, default.newton_steps, "the update that is timed is the default's");
    let layout = Layout::new(&config, &plan);
    let rows = contexts(d, k);
    let id = |what: &str, level: usize| format!("helba/{what}/d={d},K={k}/l={level}");

    let ct = pair.party.encrypt(&layout.contexts(&rows).expect("unit vectors"), plan.context_level);
    let mut rng = pair.party.rng.clone();
    let mut decide = || {
        let inputs = bandit.begin_decision();
        let start = Instant::now();
        let output = pair.engine.decide(inputs, &ct, &mut rng).expect("keys are there");
        (start.elapsed(), output)
    };
    let action = decide().1.action;
    let bytes = Fact::bytes(ckks::ciphertext_bytes(&pair.party.params, action.level(), false));
    bench.time(&id("decide", plan.context_level), true, bytes, || decide().0);

    let output = decide().1;
    let reply = bandit.finish_decision(&pair.engine, output, &mut pair.party.rng).apply();
    let statistics = layout.statistics(&rows[0], 0.5).expect("in range");
    let trace = layout.trace_features(&rows[0]).expect("in range");
    let feedback = Feedback {
        statistics: pair.party.encrypt(&statistics, plan.statistics_level),
        trace: pair.party.encrypt(&trace, plan.trace_level),
        trace_answer: None,
        refreshed: None,
    };
    let bytes = [plan.statistics_level, plan.trace_level]
        .map(|level| ckks::ciphertext_bytes(&pair.party.params, level, true))
        .iter()
        .sum();
    bench.time(&id("feedback", plan.statistics_level), true, Fact::bytes(bytes), || {
        let (mut bandit, feedback) = (bandit.clone(), feedback.clone());
        timed(|| bandit.feedback(&pair.engine, reply.id, feedback).map(|change| change.apply()))
    });
    bandit.feedback(&pair.engine, reply.id, feedback).expect("the decision exists").apply();
    let update = bandit.begin_update().expect("its levels").expect("the first feedback ends the first batch");
    let mut rng = pair.party.rng.clone();
    bench.time(&id("update", plan.statistics_level), true, Fact::default(), || {
        timed(|| pair.engine.update(black_box(&update), &mut rng))
    });

    // The exchange, with a message of the model's size: mask, encrypt anew (the device's part), unmask.
    let (params, low, top) = (pair.party.params.clone(), plan.refresh_level, plan.model_level);
    let public = ckks_secret::public_key(&pair.party.secret, &mut pair.party.rng);
    let message: Vec<Complex64> =
        (0..plan.model_slots).map(|j| Complex64::from(0.5 - j as f64 / plan.model_slots as f64)).collect();
    let encoded = Plaintext::encode_at(&params, &message, low, params.scale(top)).expect("small values");
    let model =
        ckks_secret::encrypt(&pair.party.secret, &encoded, &mut pair.party.rng).expand(&pair.party.secret);
    let seed = ckks::mask_seed(&mut pair.party.rng);
    let mut rng = pair.party.rng.clone();
    let mut hide = || refresh::hide(&params, &public, &model, &seed, &mut rng);
    let masked = hide();
    let bytes = Fact::bytes(ckks::ciphertext_bytes(&params, low, false));
    bench.time(&id("refresh_mask", low), true, bytes, || timed(&mut hide));
    let mut rng = pair.party.rng.clone();
    let mut recrypt = || {
        ckks_secret::recrypt(&pair.party.secret, &masked, top, plan.model_slots, &mut rng).expect("its level")
    };
    let fresh = recrypt().expand(&pair.party.secret);
    let bytes = Fact::bytes(ckks::ciphertext_bytes(&params, top, true));
    bench.time(&id("refresh_encrypt", low), true, bytes, || timed(&mut recrypt));
    let reveal = || refresh::reveal(&params, fresh.clone(), low, plan.model_slots, &seed);
    let fact = pair.bits(&reveal(), &message);
    bench.time(&id("refresh_unmask", top), true, fact, || timed(reveal));
}

criterion_group! {
    name = benches;
    config = support::config();
    targets = steps
}
criterion_main!(benches);
