//! A stored policy goes on as if nothing had happened; a damaged one is refused; bad input changes nothing.

use bandit::{Environment, Error, Features, Policy};
use fault::OutOfRange;
use glm::baseline::{Ecolog, GlmUcb, Gloc};
use glm::joint::{JointConfig, JointGlm};
use glm::shuffle::{Estimator, Protection, ShuffleConfig, ShuffleGlm};
use glm::{GlmEnvironment, Instance, Link, Problem};
use privacy::budget::Epsilon;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::{Value, json};
use std::sync::Arc;

const ROUNDS: usize = 300;

fn problem() -> Problem {
    let kappa = Link::Logistic.kappa(1.5);
    Problem { d: 2, k: 4, link: Link::Logistic, s: 1.5, kappa, delta: 0.01, horizon: ROUNDS as u64 }
}

fn joint() -> JointGlm {
    JointGlm::new(JointConfig::private(problem(), Epsilon::new(8.0).unwrap(), 3.0, 2.0).unwrap()).unwrap()
}

fn shuffle(protection: Protection) -> ShuffleGlm {
    ShuffleGlm::new(ShuffleConfig {
        problem: problem(),
        reward_max: 1.0,
        batches: vec![100, 150, 50],
        lambda: 2.0,
        gamma: 1.0,
        design_factor: 2.0,
        colluding: 0.0,
        estimator: Estimator::Descent { steps: 3 },
        protection,
    })
    .unwrap()
}

fn calibrated() -> ShuffleGlm {
    shuffle(Protection::Calibrated { epsilon: Epsilon::new(8.0).unwrap() })
}

fn json(policy: &impl Policy) -> Value {
    serde_json::to_value(policy).unwrap()
}

fn environment() -> GlmEnvironment {
    let instance = Instance::random(2, 4, ROUNDS, 1.5, &mut ChaCha8Rng::seed_from_u64(5)).unwrap();
    GlmEnvironment::new(Arc::new(instance), Link::Logistic).unwrap()
}

fn stored_midway_goes_on<P: Policy<Context = Features, Feedback = f64>>(mut policy: P) {
    let mut environment = environment();
    let (mut rng, mut own) = (ChaCha8Rng::seed_from_u64(3), ChaCha8Rng::seed_from_u64(4));
    let mut twin: Option<(P, ChaCha8Rng)> = None;
    for round in 0..ROUNDS {
        assert!(environment.begin(&mut rng));
        let arm = policy.decide(environment.context().unwrap(), &mut own).unwrap();
        environment.play(arm, &mut rng).unwrap();
        let (context, reward) = (environment.context().unwrap(), environment.feedback().unwrap());
        if let Some((twin, own)) = &mut twin {
            assert_eq!(twin.decide(context, own).unwrap(), arm);
            twin.learn(context, arm, reward, own).unwrap();
        }
        policy.learn(context, arm, reward, &mut own).unwrap();
        if round == 57 {
            twin = Some((serde_json::from_value(json(&policy)).unwrap(), own.clone()));
        }
    }
    assert_eq!(json(&twin.unwrap().0), json(&policy));
}

#[test]
fn storing_does_not_change_the_future() {
    stored_midway_goes_on(joint());
    stored_midway_goes_on(JointGlm::new(JointConfig::rs_glinucb(problem())).unwrap());
    stored_midway_goes_on(calibrated());
    stored_midway_goes_on(GlmUcb::new(problem(), 3, false).unwrap());
    stored_midway_goes_on(Gloc::new(problem()).unwrap());
    stored_midway_goes_on(Gloc::as_published(problem()).unwrap());
    stored_midway_goes_on(Ecolog::new(problem()).unwrap());
}

/// In `good`, stores `value` at `path`; the error must hold `word`.
fn refused<P: Policy>(good: &P, changes: &[(&str, Value, &str)]) {
    assert!(serde_json::from_value::<P>(json(good)).is_ok());
    for (path, value, word) in changes {
        let mut bad = json(good);
        *bad.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = value.clone();
        let error =
            serde_json::from_value::<P>(bad).err().unwrap_or_else(|| panic!("{path} {value}")).to_string();
        assert!(error.contains(word), "{path}: {error}");
    }
}

#[test]
fn damaged_states_are_refused() {
    refused(
        &joint(),
        &[
            ("/config/lambda", json!(-1.0), "lambda"),
            ("/config/problem/delta", json!(1.0), "delta"),
            ("/config/problem/d", json!(3), "fit"),
            ("/billboard/warm_up", json!([0.0]), "fit"),
            ("/billboard/rounds", json!(7), "fit"),
            ("/billboard/v/values", json!([1.0, 2.0, 3.0, 4.0]), "matrix"),
            ("/curator/explorations", json!(1), "fit"),
            ("/curator/running/r", json!([1.0]), "fit"),
            // A tree with less noise, or another length, than the privacy that the configuration states.
            ("/curator/tree/sigmas/0", json!(0.0), "fit"),
            ("/curator/tree/horizon", json!(7), "reach"),
            ("/curator/tree/blocks", json!([]), "reach"),
            ("/billboard/running_calls", json!(1000), "fit"),
        ],
    );
    refused(
        &calibrated(),
        &[
            ("/config/gamma", json!(0.0), "gamma"),
            ("/config/batches", json!([100, 150]), "batches"),
            ("/config/batches", json!([u64::MAX, 2]), "batches"),
            ("/weights", json!([1.0]), "fit"),
            ("/config/problem/horizon", json!(0), "horizon"),
        ],
    );
    refused(
        &Gloc::new(problem()).unwrap(),
        &[("/state/theta", json!([1.0]), "fit"), ("/config/s", json!(-1.0), "s is")],
    );
    refused(&GlmUcb::new(problem(), 1, true).unwrap(), &[("/refit_every", json!(0), "refit_every")]);
    refused(&Ecolog::new(problem()).unwrap(), &[("/config/link", json!("probit"), "link")]);
}

fn bad_input_changes_nothing<P: Policy<Context = Features, Feedback = f64>>(mut policy: P) {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let features = |values: &[f64], d| Features::new(values.to_vec(), d).unwrap();
    let (good, wide, long) = (features(&[0.5; 8], 2), features(&[0.1; 12], 3), features(&[0.9; 8], 2));
    policy.decide(&good, &mut rng).unwrap();
    let before = json(&policy);
    let shape = Error::Shape { got_k: 4, got_d: 3, k: 4, d: 2 };
    assert_eq!(policy.decide(&wide, &mut rng), Err(shape.clone()));
    assert_eq!(policy.learn(&wide, 0, &0.0, &mut rng), Err(shape));
    assert!(matches!(policy.decide(&long, &mut rng), Err(Error::FeatureTooLong { arm: 0, .. })));
    assert!(matches!(policy.learn(&long, 0, &0.0, &mut rng), Err(Error::FeatureTooLong { .. })));
    assert_eq!(policy.learn(&good, 4, &0.0, &mut rng), Err(Error::Arm { arm: 4, k: 4 }));
    assert_eq!(policy.learn(&good, 0, &f64::NAN, &mut rng), Err(Error::RewardNotFinite));
    for reward in [-0.1, 1.1] {
        let error = policy.learn(&good, 0, &reward, &mut rng);
        assert_eq!(error, Err(Error::Reward { got: reward, max: 1.0 }));
    }
    assert_eq!(json(&policy), before);
}

#[test]
fn bad_input_is_refused() {
    bad_input_changes_nothing(joint());
    bad_input_changes_nothing(calibrated());
    bad_input_changes_nothing(GlmUcb::new(problem(), 3, false).unwrap());
    bad_input_changes_nothing(Gloc::new(problem()).unwrap());
    bad_input_changes_nothing(Ecolog::new(problem()).unwrap());
    // A joint policy learns the round that it decided.
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut policy = joint();
    let set = Features::new(vec![0.5; 8], 2).unwrap();
    assert_eq!(policy.learn(&set, 0, &1.0, &mut rng), Err(Error::NoRound));
}

/// No arm is named after the horizon, and nothing is learnt.
#[test]
fn the_horizon_is_the_last_round() {
    fn plays<P: Policy<Context = Features, Feedback = f64>>(mut policy: P) {
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let set = Features::new(vec![0.5; 8], 2).unwrap();
        for _ in 0..ROUNDS {
            let arm = policy.decide(&set, &mut rng).unwrap();
            policy.learn(&set, arm, &1.0, &mut rng).unwrap();
        }
        let over = Error::HorizonOver { horizon: ROUNDS as u64 };
        assert_eq!(over.to_string(), format!("the horizon of {ROUNDS} rounds is over"));
        assert_eq!(policy.decide(&set, &mut rng), Err(over.clone()));
        assert_eq!(policy.learn(&set, 0, &1.0, &mut rng), Err(over));
    }
    plays(joint());
    plays(JointGlm::new(JointConfig::rs_glinucb(problem())).unwrap());
    plays(calibrated());
    plays(GlmUcb::new(problem(), 3, false).unwrap());
    plays(Gloc::new(problem()).unwrap());
    plays(Ecolog::new(problem()).unwrap());
}

/// Every policy says what it gives.
#[test]
fn privacy_is_a_value() {
    let epsilon = |statement: privacy::PrivacyStatement| statement.epsilon.map(|e| e.get());
    assert!(epsilon(joint().privacy()).is_some_and(|e| e <= 8.0 && e > 7.98));
    assert_eq!(epsilon(calibrated().privacy()), Some(8.0));
    let clear = JointGlm::new(JointConfig::rs_glinucb(problem())).unwrap();
    for statement in [
        clear.privacy(),
        GlmUcb::new(problem(), 3, false).unwrap().privacy(),
        Gloc::new(problem()).unwrap().privacy(),
        Ecolog::new(problem()).unwrap().privacy(),
    ] {
        assert_eq!(epsilon(statement), None);
    }
}

#[test]
fn bad_configurations_name_the_field() {
    let bad = |change: fn(&mut JointConfig)| {
        let mut c = JointConfig::rs_glinucb(problem());
        change(&mut c);
        match JointGlm::new(c) {
            Err(glm::Error::OutOfRange(OutOfRange { field, .. })) => field,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(bad(|c| c.gamma = f64::NAN), "gamma");
    assert_eq!(bad(|c| c.explore_at = 0.0), "explore_at");
    assert_eq!(bad(|c| c.growth = glm::joint::Growth::Determinant(1.0)), "growth");
    assert_eq!(bad(|c| c.problem.d = 0), "d");
    assert_eq!(bad(|c| c.problem.s = 1e3), "s");
    assert_eq!(bad(|c| c.problem.horizon = 0), "horizon");
    assert_eq!(bad(|c| c.release = glm::joint::Release::Joint { sigma: 0.0 }), "sigma");
}

/// Every way to spoil one part of a stored value: another number or type, or another length.
fn spoilt(good: &Value) -> Vec<Value> {
    fn paths(value: &Value, path: String, out: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                fields.iter().for_each(|(name, v)| paths(v, format!("{path}/{name}"), out));
            }
            // Of rows and nodes the first two and the last stand for all.
            Value::Array(items) => {
                let some = [0, 1, items.len().saturating_sub(1)];
                (0..items.len())
                    .filter(|i| some.contains(i))
                    .for_each(|i| paths(&items[i], format!("{path}/{i}"), out));
            }
            _ => {}
        }
        out.push(path);
    }
    let mut all = Vec::new();
    paths(good, String::new(), &mut all);
    let mut out = Vec::new();
    for path in all {
        let old = good.pointer(&path).unwrap();
        let mut changes = vec![json!(null), json!("x"), json!([])];
        match old {
            Value::Number(_) => {
                changes.extend([0.0, -1.0, 0.5, 1e-300, 1e300].map(|v| json!(v)));
                changes.extend([json!(0), json!(1), json!(7), json!(u64::MAX)]);
            }
            Value::Bool(b) => changes.push(json!(!b)),
            Value::Array(items) if !items.is_empty() => {
                changes.push(json!(items[1..]));
                changes.push(json!([&items[..], &items[..1]].concat()));
            }
            _ => {}
        }
        for change in changes {
            let mut bad = good.clone();
            *bad.pointer_mut(&path).unwrap() = change;
            out.push(bad);
        }
    }
    out
}

/// A damaged policy is refused when it is read, or plays on; it never panics. How many were refused, of how
/// many.
fn damage_never_panics<P: Policy<Context = Features, Feedback = f64>>(mut policy: P) -> (usize, usize) {
    let mut environment = environment();
    let (mut rng, mut own) = (ChaCha8Rng::seed_from_u64(3), ChaCha8Rng::seed_from_u64(4));
    for _ in 0..70 {
        environment.begin(&mut rng);
        let context = environment.context().unwrap().clone();
        let arm = policy.decide(&context, &mut own).unwrap();
        environment.play(arm, &mut rng).unwrap();
        policy.learn(&context, arm, environment.feedback().unwrap(), &mut own).unwrap();
    }
    let all = spoilt(&json(&policy));
    let (mut refused, set) = (0, Features::new(vec![0.6, 0.0, 0.0, 0.6, 0.3, 0.3, 0.0, 0.0], 2).unwrap());
    for bad in &all {
        match serde_json::from_value::<P>(bad.clone()) {
            Err(_) => refused += 1,
            Ok(mut policy) => {
                for round in 0..70 {
                    let Ok(arm) = policy.decide(&set, &mut own) else { break };
                    if policy.learn(&set, arm, &f64::from(round % 2), &mut own).is_err() {
                        break;
                    }
                }
            }
        }
    }
    (refused, all.len())
}

#[test]
fn damaged_states_never_panic() {
    let counts = [
        damage_never_panics(joint()),
        damage_never_panics(JointGlm::new(JointConfig::rs_glinucb(problem())).unwrap()),
        // Calibrated noise would take a second whenever a state is read.
        damage_never_panics(shuffle(Protection::Stated { epsilon: Epsilon::new(8.0).unwrap() })),
        damage_never_panics(GlmUcb::new(problem(), 3, false).unwrap()),
        damage_never_panics(Gloc::new(problem()).unwrap()),
        damage_never_panics(Ecolog::new(problem()).unwrap()),
    ];
    println!("{counts:?}");
    assert!(counts.iter().all(|(refused, all)| 2 * refused > *all));
}
