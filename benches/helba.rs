//! The server's steps on ciphertexts, for small and large problems.
//!
//! Ids: `helba/STEP/d=D,K=K/l=LEVEL/threads=T`, the level before the step. `BENCH_SHAPES="7,4 8,8"` picks the
//! problems, and `BENCH_CLOCK=cpu` counts processor time. Bits are against the same step in the clear, on the
//! same inputs.

mod support;

use bandit::Schedule;
use circuits::{Chebyshev, Clear, Comparison, Encrypted};
use ckks::{Ciphertext, Evaluator, Plaintext};
use criterion::{Criterion, criterion_group, criterion_main};
use helba::circuit::DecisionCircuit;
use helba::{DeepEngine, Scalars, refresh};
use helba::{EncryptedBandit, Engine, Event};
use num_complex::Complex64;
use protocol::{BanditConfig, Exchanges, KeyPlan, LOG_CONTEXT, LOG_STATISTICS, Shape, WidthShape};
use rand::RngExt;
use std::hint::black_box;
use std::time::{Duration, Instant};
use support::{Bench, Fact};
use testkit::{Party, ScoresParty};

/// A key pair of both rings, and the server that computes under it.
struct Pair {
    party: Party,
    scores: ScoresParty,
    engine: Engine,
    evaluator: Evaluator,
}

impl Pair {
    fn new(shape: Shape) -> Result<Self, helba::Error> {
        let plan = KeyPlan::new(shape, false, WidthShape::Root)?;
        let mut party = Party::for_plan(&plan, 1)?;
        let scores = ScoresParty::generate(plan.scores, &mut party.rng)?;
        let switch = testkit::ring_switch(&party.secret, &scores.secret, &plan.answers, &mut party.rng);
        let (params, public, id) = (party.params.clone(), party.public.clone(), party.key_id());
        let deep = DeepEngine::new(params, public, id, shape, party.keys.clone())?;
        let (params, public, id) = (scores.params.clone(), scores.public.clone(), scores.key_id());
        let engine = Engine::new(deep, plan.scores, params, public, id, scores.keys.clone(), switch)?;
        Ok(Pair { evaluator: party.evaluator(), party, scores, engine })
    }

    fn bits(&self, ct: &Ciphertext, want: &[Complex64]) -> Fact {
        Fact::bits(ckks_secret::measure(&self.party.secret, ct, want))
    }
}

/// The defaults, under a schedule that ends a batch with every feedback, so that there is an update to
/// measure. As many may be outstanding as the default's batches have, for which its iteration has as many
/// steps.
fn config(d: usize, k: usize) -> BanditConfig {
    let mut config = BanditConfig::new(d, k);
    if let Schedule::Every { rounds } | Schedule::GrowthOrEvery { rounds } = config.linear.schedule {
        config.unanswered = config.unanswered.max(rounds);
    }
    config.linear.schedule = Schedule::EveryRound;
    config
}

/// Wall time, or with `BENCH_CLOCK=cpu` the processor time of this thread: for pools of one thread on a
/// machine that others use.
fn timed<T>(f: impl FnOnce() -> T) -> Duration {
    let on_processor = || {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
    };
    if std::env::var("BENCH_CLOCK").is_ok_and(|clock| clock == "cpu") {
        let start = on_processor().expect("the system counts it");
        black_box(f());
        return on_processor().expect("the system counts it") - start;
    }
    let start = Instant::now();
    black_box(f());
    start.elapsed()
}

fn steps(c: &mut Criterion) {
    let mut bench = Bench::new(c);
    for text in support::words("BENCH_SHAPES", "2,2 8,8 16,16 8,32 16,32 16,64") {
        let (d, k) = text.split_once(',').expect("D,K");
        let (d, k): (usize, usize) = (d.parse().expect("a number"), k.parse().expect("a number"));
        match Pair::new(Shape::for_problem(d, k)) {
            Ok(mut pair) => {
                for width in [WidthShape::Tangent, WidthShape::Root] {
                    circuits_of(&mut bench, &mut pair, d, k, width);
                }
                rounds_of(&mut bench, &mut pair, d, k);
            }
            Err(e) => println!("d={d},K={k} has no keys: {e}"),
        }
    }
}

/// The steps of a full evaluation, one by one, and as a whole.
fn circuits_of(bench: &mut Bench, pair: &mut Pair, d: usize, k: usize, width: WidthShape) {
    let (shape, config) = (Shape::for_problem(d, k), config(d, k));
    let config = config.exploring(Some(width), None, None).expect("the default range");
    let plan = config.plan(&pair.party.params, shape, pair.engine.ring()).expect("defaults fit");
    let slots = pair.party.params.max_slots();
    let clear = Clear::new(slots).expect("a power of two");
    let alg = Encrypted::new(pair.evaluator.clone(), slots).expect("the slots fit");
    let id = |what: &str, level: usize| format!("helba/{what}/d={d},K={k}/l={level}");

    let scalars = Scalars::new(&config, 1, 0);
    let circuit = DecisionCircuit::new(&config, scalars, shape, slots).expect("defaults fit");
    let users = slots / shape.user_slots();
    let mut score = || [pair.party.rng.random_range(0.0..0.9), pair.party.rng.random_range(-0.9..0.9)];
    let scores: Vec<[f64; 2]> = (0..users * k).map(|_| score()).collect();
    let scores = circuit.raised(|arm, user| Some(scores[user * k + arm]));
    let level = plan.scores_level;
    let raised = pair.party.encrypt(&scores, level);
    let mut rng = pair.party.rng.clone();
    let mut evaluate = || {
        let products = circuit.products(&alg, &raised).expect("keys are there");
        pair.engine.evaluated(products, &mut rng).expect("keys are there")
    };
    let evaluated = evaluate();
    let what = if width == WidthShape::Root { "evaluate_root" } else { "evaluate" };
    bench.time(&id(what, level), true, Fact::default(), || timed(&mut evaluate));
    let clear_raised = clear.fresh(&scores, level).expect("its slots");
    let differences = circuit.differences(&alg, &raised).expect("keys are there");
    let clear_differences = circuit.differences(&clear, &clear_raised).expect("levels are there");
    let unit: Vec<Complex64> =
        (0..slots).map(|_| (2.0 * pair.party.rng.random::<f64>() - 1.0).into()).collect();
    if width == WidthShape::Root {
        let fact = pair.bits(&differences, clear_differences.values());
        bench.time(&id("differences_root", level), true, fact, || {
            timed(|| circuit.differences(&alg, &raised))
        });
        let u = pair.party.encrypt(&unit, level);
        let root = Chebyshev::interpolate(|x| ((x + 1.0) / 2.0).sqrt(), config.sqrt_degree, -1.0, 1.0);
        let root = root.expect("finite");
        let want: Vec<Complex64> = unit.iter().map(|x| root.eval(x.re).into()).collect();
        let fact = pair.bits(&root.evaluate(&alg, &u).expect("keys are there"), &want);
        bench.time(&id("sqrt_15", u.level()), true, fact, || timed(|| root.evaluate(&alg, &u)));
        return;
    }

    let kinds = [
        ("compare_6_rough", Comparison::composite(1.0 / 64.0, &[15, 15])),
        ("compare_6", Comparison::minimax(6)),
        ("compare_8", Comparison::minimax(8)),
        ("compare_10", Comparison::minimax(10)),
    ];
    for (name, kind) in kinds {
        let kind = kind.expect("a built-in comparison");
        if kind.depth() > pair.party.params.max_level() {
            continue;
        }
        let u = pair.party.encrypt(&unit, differences.level().max(kind.depth()));
        let want: Vec<Complex64> = unit.iter().map(|x| (0.5 + 0.5 * kind.eval(x.re)).into()).collect();
        let fact = pair.bits(&kind.indicator(&alg, &u).expect("keys are there"), &want);
        bench.time(&id(name, u.level()), true, fact, || timed(|| kind.indicator(&alg, &u)));
    }

    let wins = |ct: &Ciphertext| circuit.argmax().winners(&alg, ct);
    let clear_wins = circuit.argmax().winners(&clear, &clear_differences).expect("levels are there");
    let fact = pair.bits(&wins(&differences).expect("keys are there"), clear_wins.values());
    bench.time(&id("winners", level), true, fact, || timed(|| wins(&differences)));

    let mut rng = pair.party.rng.clone();
    let (engine, large, params) = (&pair.engine, &pair.party.secret, pair.engine.answer_params());
    let bytes = Fact::bytes(ckks::ciphertext_bytes(params, plan.answer_level, false));
    bench.time(&id("answer_alone", plan.answer_level + 1), true, bytes, || {
        timed(|| engine.answer_alone(&evaluated, &[0], &mut rng).expect("a user"))
    });
    let small = &pair.party.params;
    let exchanges =
        Exchanges::new(&config, &plan, engine.ring(), engine.params(), small, params).expect("a plan");
    let (exchange, secret) = (&exchanges.answers, pair.scores.secret.under(params));
    let bytes = Fact::bytes(ckks::ciphertext_bytes(small, exchange.level(), false));
    bench.time(&id("exchange_mask", exchange.level()), true, bytes, || {
        timed(|| engine.mask_answers(exchange, &evaluated, &mut rng).expect("its exchange"))
    });
    let masked = engine.mask_answers(exchange, &evaluated, &mut rng).expect("its exchange");
    let mut answered = || {
        let masked = &masked.ciphertext;
        let fresh = ckks_secret::slots_to_coefficients(exchange, large, &secret, masked, &mut rng);
        fresh.expect("its level").to_bytes(&secret, engine.key_id())
    };
    let frame = answered();
    bench.time(&id("exchange_holder", exchange.level()), true, Fact::bytes(frame.len()), || {
        timed(&mut answered)
    });
    let unmasked = || {
        let mut out = engine.read_answers(exchange, &frame).expect("its frame");
        let mask = exchange.encode_mask(&masked.seed).expect("a mask");
        out.sub_assign(params, &mask).expect("its level");
        out
    };
    bench.time(&id("exchange_unmask", exchange.level()), true, Fact::default(), || timed(unmasked));
    let (answers, users) = (unmasked(), [plan.users - 1]);
    let mut answer = || engine.answer(&exchanges.layout, &answers, &users, &mut rng).expect("a user");
    let bytes = Fact::bytes(answer().len());
    bench.time(&id("answer", plan.answer_level), true, bytes, || timed(&mut answer));
}

/// What a server does once a user, once a feedback and once a batch.
fn rounds_of(bench: &mut Bench, pair: &mut Pair, d: usize, k: usize) {
    let config = config(d, k);
    let mut bandit = EncryptedBandit::create(&pair.engine, config.clone(), [1; 32]).expect("defaults fit");
    let plan = bandit.plan().clone();
    let default = BanditConfig::new(d, k);
    let default = default.plan(&pair.party.params, Shape::for_problem(d, k), pair.engine.ring());
    let steps = default.expect("defaults fit").newton_steps;
    assert_eq!(plan.newton_steps, steps, "the update that is timed is the default's");
    let exchanges = bandit.exchanges().clone();
    let (layout, small) = (&exchanges.layout, &pair.scores);
    // Unit vectors that differ from arm to arm.
    let rows: Vec<Vec<f64>> =
        (0..k).map(|a| (0..d).map(|i| f64::from(u8::from(i == a % d))).collect()).collect();
    let id = |what: &str, level: usize| format!("helba/{what}/d={d},K={k}/l={level}");

    let contexts = layout.contexts(&[&rows]).expect("unit vectors");
    let contexts = small.encrypt(&contexts, LOG_CONTEXT, &mut pair.party.rng);
    let bytes = Fact::bytes(contexts.to_bytes(&small.secret, small.key_id()).len());
    let (contexts, model) = (contexts.expand(&small.secret), bandit.scores_model().clone());
    let top = small.params.max_level();
    bench.time(&id("score", top), true, bytes, || {
        timed(|| pair.engine.score(&contexts, model.only().expect("one ciphertext")))
    });

    let statistics = layout.feedback(0, &rows[0], 0.5).expect("in range");
    let statistics = small.encrypt(&statistics, LOG_STATISTICS, &mut pair.party.rng);
    let frame = statistics.to_partial_bytes(&small.secret, small.key_id(), layout.feedback_numbers());
    let bytes = Fact::bytes(frame.len());
    let feedback = Event::Feedback { round: 1, frame };
    bench.time(&id("feedback", top), true, bytes, || {
        let mut bandit = bandit.clone();
        timed(|| bandit.apply(&pair.engine, &feedback).expect("the first feedback"))
    });
    bandit.apply(&pair.engine, &feedback).expect("the first feedback");
    let task = bandit.task().expect("the first feedback ends the first batch");
    let raised = ckks_secret::raise(
        &exchanges.slots.as_ref().unwrap().statistics,
        &small.secret,
        &pair.party.secret,
        &task.masked,
        layout.statistics_factors(),
        &mut pair.party.rng,
    );
    let frame = raised.expect("its task").to_bytes(&pair.party.secret, pair.party.key_id());
    bandit.apply(&pair.engine, &Event::Raised { task: task.id, frame }).expect("the task that waits");
    let update = bandit.update().expect("its levels").expect("the sum is raised");
    bench.time(&id("update", plan.statistics_level), true, Fact::default(), || {
        timed(|| black_box(&update).run(&pair.engine))
    });

    // The exchange, with a message of the model's size: mask, encrypt anew (the device's part), unmask.
    let (params, low, top) = (pair.party.params.clone(), plan.refresh_level, plan.model_level);
    let public = pair.party.public.clone();
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
