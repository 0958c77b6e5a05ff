//! A stored policy goes on as if nothing had happened; a damaged one is refused; bad input changes nothing.

use bandit::toy::Toy;
use bandit::{Arithmetic, Environment, Error, Features, HelbaClear, LinearConfig, Oful, Policy, Schedule};
use fault::OutOfRange;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::{Value, json};

const CONFIG: LinearConfig = LinearConfig::figure_1();

fn json(policy: &impl Policy) -> Value {
    serde_json::to_value(policy).unwrap()
}

fn stored_midway_goes_on<P: Policy<Context = Features, Feedback = f64>>(mut policy: P) {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut toy = Toy::new(&CONFIG, 4, &mut rng).unwrap();
    let mut twin: Option<P> = None;
    for round in 0..600 {
        if round == 57 {
            twin = Some(serde_json::from_value(json(&policy)).unwrap());
        }
        assert!(toy.begin(&mut rng));
        let arm = policy.decide(toy.context().unwrap(), &mut rng).unwrap();
        toy.play(arm, &mut rng).unwrap();
        let (context, reward) = (toy.context().unwrap(), toy.feedback().unwrap());
        if let Some(twin) = &mut twin {
            assert_eq!(twin.decide(context, &mut rng).unwrap(), arm);
            twin.learn(context, arm, reward, &mut rng).unwrap();
        }
        policy.learn(context, arm, reward, &mut rng).unwrap();
    }
    assert_eq!(json(&twin.unwrap()), json(&policy));
}

#[test]
fn storing_does_not_change_the_future() {
    stored_midway_goes_on(Oful::every_round(CONFIG).unwrap());
    stored_midway_goes_on(Oful::rsoful(CONFIG).unwrap());
    stored_midway_goes_on(Oful::rsoful_tr(CONFIG).unwrap());
    stored_midway_goes_on(HelbaClear::new(CONFIG, Arithmetic::Exact).unwrap());
    stored_midway_goes_on(HelbaClear::new(CONFIG, Arithmetic::Paper).unwrap());
    let every = LinearConfig { schedule: Schedule::Every { rounds: 7 }, ..CONFIG };
    stored_midway_goes_on(HelbaClear::new(every, Arithmetic::Exact).unwrap());
    let either = LinearConfig { schedule: Schedule::GrowthOrEvery { rounds: 7 }, ..CONFIG };
    stored_midway_goes_on(HelbaClear::new(either, Arithmetic::Exact).unwrap());
}

#[test]
fn damaged_states_are_refused() {
    let good = json(&Oful::every_round(CONFIG).unwrap());
    assert!(serde_json::from_value::<Oful>(good.clone()).is_ok());
    for (path, value, word) in [
        ("/config/lambda", json!(-1.0), "lambda"),
        ("/config/d", json!(3), "dimension"),
        ("/config/d", json!(usize::MAX), "4096"),
        ("/config/schedule", json!("trace"), "tracked"),
        ("/ridge/moment", json!([0.0]), "dimension"),
        ("/ridge/tracked/inverse", json!([1.0, 0.0, 0.0]), "dimension"),
        ("/ridge/tracked", json!(null), "tracked"),
        ("/ridge/updates", json!(9), "counters"),
        ("/ridge/round", json!(u64::MAX), "counters"),
        ("/ridge/tracked/age", json!(u32::MAX), "counters"),
        ("/ridge/batch_start", json!(0), "counters"),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(path).unwrap() = value;
        let error = serde_json::from_value::<Oful>(bad).unwrap_err().to_string();
        assert!(error.contains(word), "{path}: {error}");
    }
}

fn bad_input_changes_nothing<P: Policy<Context = Features, Feedback = f64>>(mut policy: P) {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let before = json(&policy);
    let features = |values: &[f64], d| Features::new(values.to_vec(), d).unwrap();
    let (good, wide, long) =
        (features(&[1.0, 0.0, 0.0, 1.0], 2), features(&[1.0; 6], 3), features(&[4.0; 4], 2));
    let shape = Error::Shape { got_k: 2, got_d: 3, k: 2, d: 2 };
    assert_eq!(policy.decide(&wide, &mut rng), Err(shape.clone()));
    assert!(matches!(policy.decide(&long, &mut rng), Err(Error::FeatureTooLong { arm: 0, .. })));
    assert_eq!(policy.learn(&wide, 0, &0.0, &mut rng), Err(shape));
    assert!(matches!(policy.learn(&long, 0, &0.0, &mut rng), Err(Error::FeatureTooLong { arm: 0, .. })));
    assert_eq!(policy.learn(&good, 2, &0.0, &mut rng), Err(Error::Arm { arm: 2, k: 2 }));
    assert_eq!(policy.learn(&good, 0, &f64::NAN, &mut rng), Err(Error::RewardNotFinite));
    assert_eq!(json(&policy), before);
}

#[test]
fn bad_input_is_refused() {
    bad_input_changes_nothing(Oful::every_round(CONFIG).unwrap());
    bad_input_changes_nothing(HelbaClear::new(CONFIG, Arithmetic::Exact).unwrap());
    let bad = LinearConfig { lambda: 0.0, ..CONFIG };
    assert!(matches!(Oful::new(bad), Err(Error::OutOfRange(OutOfRange { field: "lambda", .. }))));
    assert!(matches!(
        HelbaClear::new(bad, Arithmetic::Paper),
        Err(Error::OutOfRange(OutOfRange { field: "lambda", .. }))
    ));
}

/// Scores beyond the range that the comparison takes are an error, not a wrong arm.
#[test]
fn the_papers_comparison_refuses_what_it_cannot_compare() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let narrow = LinearConfig { width: bandit::Width::Constant { alpha: 0.0 }, ..CONFIG };
    let mut helba = HelbaClear::new(narrow, Arithmetic::Paper).unwrap();
    let context = Features::new(vec![5.0, 0.0, -5.0, 0.0], 2).unwrap();
    for _ in 0..10 {
        helba.learn(&context, 0, &5.0, &mut rng).unwrap();
    }
    assert!(matches!(helba.decide(&context, &mut rng), Err(Error::ScoreSpread { .. })));
}
