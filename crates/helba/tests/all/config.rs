//! What a configuration is refused for, and that the shipped sets carry what they say.

use bandit::{LinearConfig, Schedule, Width};
use circuits::inverse::Newton;
use circuits::{Clear, Complex64, SlotAlgebra};
use ckks::Security;
use fault::OutOfRange;
use helba::circuit::DecisionCircuit;
use helba::{Scalars, update};
use protocol::levels::{PRODUCTS_LEVEL, UpdateLevels};
use protocol::{
    Answers, Automorphism, BanditConfig, Error, Exchanging, KeyPlan, MOST_FACTOR, Plan, ScoreLayout, Shape,
    Updates, WidthShape,
};
use std::collections::BTreeMap;

fn plan(config: &BanditConfig) -> Result<Plan, Error> {
    let shape = Shape::for_problem(config.linear.d, config.linear.k);
    let width = if config.raises_differences() { WidthShape::Tangent } else { WidthShape::Root };
    let keys = KeyPlan::new(shape, false, width)?;
    config.plan(keys.rings().unwrap(), shape, keys.scores)
}

fn with(change: impl FnOnce(&mut BanditConfig)) -> BanditConfig {
    let mut config = BanditConfig::new(7, 4);
    change(&mut config);
    config
}

#[test]
fn shipped_sets_carry_their_shapes_at_128_bits() {
    for (d, k) in [(2, 2), (7, 4), (8, 4), (8, 8), (16, 8), (16, 16), (8, 32), (16, 32), (2, 64), (16, 64)] {
        let plan = plan(&BanditConfig::new(d, k)).unwrap_or_else(|e| panic!("d = {d}, K = {k}: {e}"));
        assert_eq!(plan.answer_level, 0);
        let keys = KeyPlan::new(Shape::for_problem(d, k), false, WidthShape::default()).unwrap();
        assert_eq!((keys.params.security.bits(), keys.scores.params.security.bits()), (128, 128));
        assert_eq!((keys.params.log_n, plan.users >= 4), (15, true), "d = {d}, K = {k}");
        // Evaluations of up to eight arms have a ring of their own.
        let own = keys.decisions.as_ref().map(|keys| (keys.params.log_n, keys.params.security.bits()));
        assert_eq!(own, (k <= 8).then_some((14, 128)), "d = {d}, K = {k}");
        // Of the answers, whose modulus is none of these.
        assert_eq!(keys.answers.params.validate().unwrap().spec().security.bits(), 128);
    }
}

/// For 192 and 256 bits the same problems have keys, in the ring with twice the degree, and no part claims
/// less.
#[test]
fn every_security_level_carries_every_shape() {
    for (d, k) in [(1, 1), (2, 2), (7, 4), (8, 8), (16, 8), (16, 16), (8, 32), (16, 32), (2, 64), (16, 64)] {
        let (shape, config) = (Shape::for_problem(d, k), BanditConfig::new(d, k));
        for security in [Security::Classical192, Security::Classical256] {
            let keys = KeyPlan::with_security(shape, security, WidthShape::default()).unwrap();
            let params = keys.params.validate().unwrap();
            assert!(keys.decisions.is_none());
            let plan = config.plan(&params, shape, keys.scores).unwrap();
            assert!(plan.users >= 4 && params.spec().log_n == 16 && keys.scores.params.log_n >= 14);
            let answers = keys.answers.params.validate().unwrap();
            for bits in [keys.params, keys.scores.params, *answers.spec()].map(|spec| spec.security.bits()) {
                assert!(bits >= security.bits(), "d = {d}, K = {k}");
            }
            // The rings of scores and answers themselves have room for what their secret claims.
            for (log_n, log_qp) in [
                (keys.scores.params.log_n, keys.scores.params.validate().unwrap().log_qp()),
                (answers.spec().log_n, answers.log_qp()),
            ] {
                assert!(log_qp <= f64::from(security.max_log_qp(log_n).unwrap()), "d = {d}, K = {k}");
            }
        }
    }
}

/// The least decision and update take 15 levels, and 15 levels of 32 bits with q₀ are too wide for 256 bits
/// at N = 2¹⁵, without any special prime.
#[test]
fn no_smaller_ring_carries_256_bits() {
    let plan = plan(&BanditConfig::new(2, 2)).unwrap();
    let level = plan.scores_level.max(plan.model_level);
    let set = ckks::LOGN15_LOGQP825_DEPTH17;
    let bits = set.log_q0 + level as u32 * set.log_scale;
    assert_eq!((level, bits), (15, 521));
    assert!(bits > Security::Classical256.max_log_qp(15).unwrap());
    let security = Security::Classical256;
    let least = ckks::ParamsSpec { name: "least", depth: level, log_p: &[48], security, ..set };
    assert!(matches!(least.validate(), Err(ckks::Error::Insecure { allowed: 462, .. })));
}

/// A shape names the problems that round up to it, and no others.
#[test]
fn a_shape_says_what_it_is_for() {
    for (d, k) in (1..=16).flat_map(|d| (1..=64).map(move |k| (d, k))) {
        let shape = Shape::for_problem(d, k);
        let [features, arms] = shape.problems();
        assert!(features.contains(&d) && arms.contains(&k), "{d}, {k}: {shape}");
        for (d, k) in [(*features.start(), *arms.start()), (*features.end(), *arms.end())] {
            assert_eq!(Shape::for_problem(d, k), shape, "{d}, {k}");
        }
        for (d, k) in [(features.end() + 1, *arms.end()), (*features.end(), arms.end() + 1)] {
            assert_ne!(Shape::for_problem(d, k), shape, "{d}, {k}");
        }
        assert!(*features.start() == 1 || Shape::for_problem(features.start() - 1, k) != shape);
        assert!(*arms.start() == 1 || Shape::for_problem(d, arms.start() - 1) != shape);
    }
    assert_eq!(Shape::for_problem(2, 40).to_string(), "1 to 2 features, 33 to 64 arms");
}

/// The default asks nobody when a batch ends, and takes no more steps than the paper's schedule does.
#[test]
fn the_default_schedule_is_public() {
    let default = BanditConfig::new(7, 4);
    assert!(default.linear.schedule.is_public());
    let traced = with(|c| c.linear.schedule = Schedule::TraceOrGrowth);
    assert_eq!((plan(&default).unwrap().newton_steps, plan(&traced).unwrap().newton_steps), (4, 4));
}

/// The paper's toy problem, L²/λ = 30.
#[test]
fn figure_1_fits() {
    let linear = LinearConfig { schedule: Schedule::TraceOrGrowth, ..LinearConfig::figure_1() };
    let config = BanditConfig { linear, horizon: 130, unanswered: 1, ..BanditConfig::new(2, 2) };
    let plan = plan(&config).unwrap();
    assert_eq!((plan.newton_steps, plan.users), (5, 2047));
}

#[test]
fn what_the_circuit_cannot_carry_is_refused_by_name() {
    let field = |config: &BanditConfig| match plan(config) {
        Err(Error::OutOfRange(OutOfRange { field, .. })) => field.to_string(),
        Err(Error::Depth { what, .. }) => what.to_string(),
        Err(Error::Config(e)) => format!("config: {e}").chars().take(7).collect(),
        other => panic!("{other:?}"),
    };
    let traced = |change: fn(&mut BanditConfig)| {
        with(|c| {
            c.linear.schedule = Schedule::TraceOrGrowth;
            change(c);
        })
    };
    assert_eq!(field(&traced(|c| c.linear.c = 1e18)), "a batch update");
    assert_eq!(field(&traced(|c| c.linear.c = 1e6)), "a batch update");
    assert_eq!(field(&traced(|c| c.linear.l = 1e9)), "linear.c");
    assert_eq!(field(&traced(|c| c.linear.lambda = 1e-17)), "linear.c");
    assert_eq!(field(&traced(|c| c.unanswered = 64)), "linear.c");
    assert!(plan(&traced(|c| c.unanswered = 20)).is_ok());
    assert_eq!(field(&traced(|c| c.linear.c = 100.0)), "a batch update");
    // Under a public schedule C has no part, and a batch of 64 unit features has steps.
    assert!(plan(&with(|c| c.linear.c = 1e18)).is_ok());
    assert!(plan(&with(|c| c.unanswered = 64)).is_ok());
    assert!(plan(&with(|c| c.linear.schedule = Schedule::GrowthOrEvery { rounds: 64 })).is_ok());
    assert_eq!(
        field(&with(|c| c.linear.schedule = Schedule::GrowthOrEvery { rounds: 65 })),
        "linear.schedule"
    );
    assert_eq!(field(&with(|c| c.linear.schedule = Schedule::Growth)), "linear.schedule");
    assert_eq!(field(&with(|c| c.linear.lambda = 0.01)), "a batch update");
    assert_eq!(field(&with(|c| c.linear.l = 1e9)), "linear.l");
    let wide = |c: &mut BanditConfig| (c.linear.width, c.linear.sigma) = (Width::Theory, 1e300);
    assert_eq!(field(&with(wide)), "linear.width");
    assert_eq!(field(&with(|c| c.linear.lambda = 1e-17)), "linear.lambda");
    assert_eq!(field(&with(|c| c.linear.lambda = 1e308)), "linear.lambda");
    assert_eq!(field(&with(|c| c.horizon = 0)), "horizon");
    assert_eq!(field(&with(|c| c.comparison_bits = 7)), "comparison_bits");
    // A finer comparison takes levels that the ring of evaluations does not have, nor that of a root beside
    // the root.
    assert_eq!(field(&with(|c| c.comparison_bits = 10)), "a decision");
    let both = KeyPlan::new(Shape::for_problem(7, 4), false, WidthShape::Root).unwrap();
    let finer = with(|c| c.comparison_bits = 10);
    assert!(finer.plan(both.rings().unwrap(), Shape::for_problem(7, 4), both.scores).is_ok());
    let root = |c: &mut BanditConfig| c.linear.width = WidthShape::Root.width(1.0);
    assert_eq!(field(&with(|c| (root(c), c.comparison_bits = 10).1)), "a decision");
    assert_eq!(field(&with(|c| c.sqrt_degree = 16)), "sqrt_degree");
    assert_eq!(field(&with(|c| c.linear.schedule = Schedule::Trace)), "linear.schedule");
    // Proposition 7.
    assert_eq!(field(&traced(|c| c.linear.c = 0.26)), "config:");
    assert_eq!(field(&BanditConfig::new(7, 65)), "arms");
    assert!(matches!(plan(&BanditConfig::new(17, 4)), Err(Error::Slots { have: 16384, .. })));
}

/// Newton's iteration bounds L²/λ, and so the factors of a raise: the smallest λ that the deepest keys carry,
/// with the shortest batches, leaves them below what a device accepts.
#[test]
fn factors_of_a_raise_are_accepted_by_devices() {
    for (shape, width) in
        [WidthShape::Root, WidthShape::Tangent].map(|width| (Shape::for_problem(16, 64), width))
    {
        let keys = KeyPlan::new(shape, false, WidthShape::default()).unwrap();
        let params = keys.params.validate().unwrap();
        let config = |lambda: f64, l: f64| {
            let mut config = BanditConfig { unanswered: 1, ..BanditConfig::new(16, 64) };
            (config.linear.lambda, config.linear.l) = (lambda, l);
            config.linear.schedule = Schedule::EveryRound;
            config.exploring(Some(width), None, None).unwrap()
        };
        let mut smallest = f64::INFINITY;
        for step in 0..200 {
            let config = config((-f64::from(step) / 10.0).exp2(), 1.01);
            let Ok(plan) = config.plan(&params, shape, keys.scores) else { break };
            smallest = config.linear.lambda;
            let layout = ScoreLayout::new(&config, &plan, keys.scores);
            for t in [1, 10, 100_000] {
                let scalars = Scalars::new(&config, t, t - 1);
                let circuit = DecisionCircuit::new(&config, scalars, shape, params.max_slots()).unwrap();
                let factors = circuit.factors(layout.log_range());
                assert!(factors.iter().all(|factor| (0.0..=MOST_FACTOR).contains(factor)), "{factors:?}");
                assert!(factors[0] > 0.0 && factors[1] > 0.0);
            }
        }
        assert!(smallest < 0.02, "{smallest}");
    }
}

/// Encrypted bandits with the trace condition are refused where the comparison does not resolve C, and where
/// there is no comparison.
#[test]
fn trace_conditions_that_cannot_work_are_refused_by_name() {
    let field = |change: fn(&mut BanditConfig)| {
        let mut config = BanditConfig::new(7, 4);
        config.linear.schedule = Schedule::TraceOrGrowth;
        change(&mut config);
        match plan(&config) {
            Err(Error::OutOfRange(OutOfRange { field, .. })) => field,
            Err(Error::Depth { what, .. }) => what,
            Err(Error::Config(_)) => "config",
            other => panic!("{other:?}"),
        }
    };
    let scores = |c: &mut BanditConfig| (c.answers, c.open_model) = (Answers::Scores, true);
    assert_eq!(field(scores), "linear.schedule");
    assert_eq!(field(|c| c.linear.schedule = Schedule::Trace), "linear.schedule");
    assert_eq!(field(|c| c.unanswered = 64), "linear.c");
    assert_eq!(field(|c| c.linear.c = 100.0), "a batch update");
    assert_eq!(field(|c| c.linear.c = 0.26), "config");
}

/// Batches so short that updates by products would send and log megabytes for each feedback are refused, with
/// the size. Up to 16 features every round may end one, and the default is never refused.
#[test]
fn updates_of_many_bytes_are_refused_by_name() {
    for (d, want) in [(16, 1), (17, 2), (32, 2), (33, 6), (64, 6)] {
        let shape = Shape::for_problem(d, 4);
        let (security, width) = (Security::Classical128, WidthShape::Tangent);
        let staged = (Updates::Products, Exchanging::Staged);
        let keys = KeyPlan::for_exchanges(shape, security, width, staged.0, staged.1).unwrap();
        let plan = |schedule: Option<Schedule>| {
            let mut config = BanditConfig::new(d, 4);
            config.linear.schedule = schedule.unwrap_or(config.linear.schedule);
            config.plan(keys.rings().unwrap(), shape, keys.scores)
        };
        assert!(plan(None).is_ok(), "{d}");
        let refused = plan(Some(Schedule::EveryRound)).err().map(|error| error.to_string());
        let named = |text: &String| text.contains("linear.schedule") && text.contains("MB a feedback");
        assert_eq!(refused.as_ref().is_some_and(named), want > 1, "{d}: {refused:?}");
        let least = (1..64).find(|rounds| plan(Some(Schedule::Every { rounds: *rounds })).is_ok());
        assert_eq!(least, Some(want), "{d}: {refused:?}");
    }
}

/// Decisions and updates of every shape, with the finest settings its parameters have levels for: every
/// rotation and conjugation finds a key of its level, no key is there for nothing, and the circuits end at
/// the levels that the protocol states.
#[test]
fn keys_reach_the_levels_of_their_use() {
    let (mut shapes, mut circuits) = (0, 0);
    let problems = || (1..=4).flat_map(|d| (1..=6).map(move |k| (1 << d, 1 << k)));
    let of = |width| problems().map(move |(d, k)| (d, k, width));
    for (d, k, serves) in of(WidthShape::Root).chain(of(WidthShape::Tangent)) {
        let shape = Shape::for_problem(d, k);
        let keys = KeyPlan::new(shape, false, serves).unwrap();
        let rings = keys.rings().unwrap();
        // In the ring of updates, and in that of evaluations if it is another.
        let mut used = [BTreeMap::<Automorphism, usize>::new(), BTreeMap::new()];
        let own = usize::from(keys.decisions.is_some());
        let mut note = |alg: &Clear, ring: usize| {
            let rotations = alg.rotation_levels().into_iter().map(|(k, l)| (Automorphism::Rotation(k), l));
            for (a, level) in rotations.chain(alg.conjugation_level().map(|l| (Automorphism::Conjugation, l)))
            {
                let highest = used[ring].entry(a).or_default();
                *highest = level.max(*highest);
            }
        };
        let roots =
            [(15, 6), (31, 6), (15, 8), (31, 8)].map(|(degree, bits)| (WidthShape::Root, degree, bits));
        let tangents = [6, 8, 10].map(|bits| (WidthShape::Tangent, 15, bits));
        let served = |(width, ..): &(WidthShape, usize, u32)| serves == WidthShape::Root || *width == serves;
        for (width, sqrt_degree, comparison_bits) in roots.into_iter().chain(tangents).filter(served) {
            let mut config = BanditConfig { sqrt_degree, comparison_bits, ..BanditConfig::new(d, k) };
            config.linear.width = width.width(0.5);
            let Ok(plan) = config.plan(&rings, shape, keys.scores) else { continue };
            // The trace takes the place of one user, and no level.
            let mut with_trace = config.clone();
            with_trace.linear.schedule = Schedule::TraceOrGrowth;
            let want = Plan { users: plan.users - 1, ..plan.clone() };
            assert_eq!(with_trace.plan(&rings, shape, keys.scores).unwrap(), want);
            assert!(want.users >= 1);
            // The keys reach as deep a circuit as there are levels for.
            let slots = rings.decisions.max_slots();
            let alg = Clear::new(slots).unwrap();
            let scalars = Scalars::new(&config, 1, 0);
            let circuit = DecisionCircuit::new(&config, scalars, shape, slots).unwrap();
            let raised = alg.fresh(&[Complex64::ZERO], plan.scores_level).unwrap();
            let products = circuit.products(&alg, &raised).unwrap();
            assert_eq!(alg.level(&products), PRODUCTS_LEVEL);
            note(&alg, own);
            circuits += 1;
            let alg = Clear::new(shape.update_slots()).unwrap();
            let fresh = |level| alg.fresh(&[Complex64::ZERO], level).unwrap();
            let newton = Newton::new(d, 1.0, &vec![1.0; plan.newton_steps], plan.design_scale).unwrap();
            let (statistics, model) = (fresh(plan.statistics_level), fresh(plan.model_level));
            let model = update::batch_update(&alg, &newton, &statistics, &model).unwrap();
            assert_eq!(alg.level(&model) - UpdateLevels::new(0).scale, plan.refresh_level);
            note(&alg, 0);
        }
        let of_decisions = keys.decisions.as_ref().map_or(&[][..], |keys| &keys.galois);
        for (made, used) in [&keys.galois, of_decisions].into_iter().zip(&used) {
            let made: BTreeMap<_, _> = made.iter().map(|key| (key.automorphism, key.level)).collect();
            for (a, level) in used {
                assert!(
                    made.get(a).is_some_and(|made| made >= level),
                    "{d}, {k}, {serves:?}: {a} at {level}, {:?}",
                    made.get(a)
                );
            }
            assert_eq!(made.len(), used.len(), "{d}, {k}, {serves:?}: keys that nothing uses");
        }
        shapes += 1;
    }
    assert_eq!((shapes, circuits), (48, 176));
}
