//! Policies for anonymous feedback: stored midway they go on exactly; damaged states and bad input are
//! refused.

use bandit::delayed::{
    ArsClw, ArsClwConfig, ArsExp3, ArsExp3Config, ArsUcb, ArsUcbConfig, Clw, ClwConfig, Composite, Delivery,
    Odaaf, OdaafConfig, OdaafRule, Rewards, RoundSize, UpdateRule,
};
use bandit::{Environment, Error, Policy};
use fault::OutOfRange;
use privacy::source::SplitMix64;
use serde_json::{Value, json};
use std::fmt::Debug;

const SLOTS: u64 = 1_500;
const ODAAF: OdaafConfig = OdaafConfig { arms: 7, horizon: SLOTS, rule: OdaafRule::Mean { delay: 2.0 } };
const LOOK_AHEAD: ClwConfig = ClwConfig { arms: 7, horizon: SLOTS, interval: 5, rule: UpdateRule::LookAhead };

fn environment() -> Composite {
    Composite::new(Rewards::weekday_bits(), Delivery::Random { lo: 1, hi: 5 }).unwrap()
}

/// Stores and reads back before every `decide` and every `learn` of a twin: both go the same way.
fn storing_changes_nothing<P>(mut policy: P)
where
    P: Policy<Context = (), Feedback = f64> + PartialEq + Debug,
{
    let mut twin: P = serde_json::from_str(&serde_json::to_string(&policy).unwrap()).unwrap();
    let mut environment = environment();
    let mut rng = SplitMix64::new(7);
    let (mut own, mut twins) = (SplitMix64::new(9), SplitMix64::new(9));
    for slot in 0..SLOTS {
        environment.begin(&mut rng);
        let arm = policy.decide(&(), &mut own).unwrap();
        if slot % 3 == 0 || slot < 40 {
            twin = serde_json::from_str(&serde_json::to_string(&twin).unwrap()).unwrap();
        }
        assert_eq!(twin.decide(&(), &mut twins).unwrap(), arm);
        // Asking twice is no second draw.
        assert_eq!(twin.decide(&(), &mut twins).unwrap(), arm);
        if slot % 5 == 0 || slot < 40 {
            twin = serde_json::from_str(&serde_json::to_string(&twin).unwrap()).unwrap();
        }
        environment.play(arm, &mut rng).unwrap();
        let y = environment.feedback().unwrap();
        policy.learn(&(), arm, y, &mut own).unwrap();
        twin.learn(&(), arm, y, &mut twins).unwrap();
        assert_eq!((&policy, &own), (&twin, &twins), "slot {slot}");
    }
}

#[test]
fn stored_policies_go_on() {
    storing_changes_nothing(ArsUcb::new(ArsUcbConfig::new(7)).unwrap());
    let doubling = RoundSize::Doubling { shift: 0 };
    storing_changes_nothing(
        ArsUcb::new(ArsUcbConfig { round_size: doubling, ..ArsUcbConfig::new(7) }).unwrap(),
    );
    storing_changes_nothing(Odaaf::new(ODAAF).unwrap());
    let composite = OdaafConfig { horizon: 20, rule: OdaafRule::Composite { interval: 1 }, ..ODAAF };
    storing_changes_nothing(Odaaf::new(composite).unwrap());
    storing_changes_nothing(ArsExp3::new(ArsExp3Config::new(7, SLOTS)).unwrap());
    storing_changes_nothing(
        ArsExp3::new(ArsExp3Config { beta: 1.0, ..ArsExp3Config::new(7, SLOTS) }).unwrap(),
    );
    storing_changes_nothing(Clw::new(ClwConfig::new(7, SLOTS, 5)).unwrap());
    storing_changes_nothing(Clw::new(LOOK_AHEAD).unwrap());
    storing_changes_nothing(ArsClw::new(ArsClwConfig::new(7)).unwrap());
}

/// A policy after `slots` slots, with a named arm.
fn after<P: Policy<Context = (), Feedback = f64>>(mut policy: P, slots: u64) -> P {
    let mut environment = environment();
    let mut rng = SplitMix64::new(4);
    for _ in 0..slots {
        environment.begin(&mut rng);
        let arm = policy.decide(&(), &mut rng).unwrap();
        environment.play(arm, &mut rng).unwrap();
        policy.learn(&(), arm, environment.feedback().unwrap(), &mut rng).unwrap();
    }
    policy.decide(&(), &mut rng).unwrap();
    policy
}

fn refused<P: Policy<Context = (), Feedback = f64>>(policy: P, damage: &[(&str, Value)]) {
    let good = serde_json::to_value(after(policy, 700)).unwrap();
    assert!(serde_json::from_value::<P>(good.clone()).is_ok());
    for (path, value) in damage {
        let mut bad = good.clone();
        *bad.pointer_mut(path).unwrap_or_else(|| panic!("{path} in {good}")) = value.clone();
        assert_ne!(bad, good, "{path}");
        assert!(serde_json::from_value::<P>(bad).is_err(), "{path}: {value}");
    }
    let mut bad = good.clone();
    bad["extra"] = json!(1);
    assert!(serde_json::from_value::<P>(bad).is_err());
}

#[test]
fn damaged_states_are_refused() {
    let huge = json!(u64::MAX);
    refused(
        ArsUcb::new(ArsUcbConfig::new(7)).unwrap(),
        &[
            ("/config/alpha", json!(0.0)),
            ("/config/arms", json!(8)),
            ("/config/round_size", json!({ "doubling": { "shift": 1 } })),
            ("/state/pulls", json!([1])),
            ("/state/pulls/0", huge.clone()),
            ("/state/sums/0", json!(null)),
            ("/state/rounds/0", huge.clone()),
            ("/state/slot", json!(3)),
            ("/state/arm", json!(7)),
            ("/state/left", huge.clone()),
        ],
    );
    refused(
        Odaaf::new(ODAAF).unwrap(),
        &[
            ("/config/horizon", json!(0)),
            ("/state/active", json!([])),
            ("/state/active", json!([0, 0])),
            ("/state/active", json!([9])),
            ("/state/pulls/0", huge.clone()),
            ("/state/phase", json!(0)),
            ("/state/target", json!(0)),
            ("/state/previous", huge.clone()),
            ("/state/stage", json!({ "block": 7 })),
            ("/state/left", huge.clone()),
        ],
    );
    refused(
        ArsExp3::new(ArsExp3Config::new(7, SLOTS)).unwrap(),
        &[
            ("/config/horizon", huge.clone()),
            ("/config/beta", json!(0.1)),
            ("/state/weights/0", json!(-1.0)),
            ("/state/arm", json!(7)),
            ("/state/chance", json!(0.0)),
            ("/state/chance", json!(2.0)),
            ("/state/round", huge.clone()),
            ("/state/left", huge.clone()),
            ("/state/sum", json!(-1.0)),
        ],
    );
    for clw in [ClwConfig::new(7, SLOTS, 5), LOOK_AHEAD] {
        refused(
            Clw::new(clw).unwrap(),
            &[
                ("/config/interval", json!(0)),
                ("/config/interval", json!(6)),
                ("/state/weights", json!([0.0])),
                ("/state/arm", json!(7)),
                ("/state/window", json!([])),
                ("/state/window/0", json!(-1.0)),
                ("/state/slot", json!(1)),
                ("/state/slot", huge.clone()),
                ("/state/updated", json!(0)),
                ("/state/updates", json!(701)),
                ("/state/thrown", huge.clone()),
                ("/state/heads", huge.clone()),
            ],
        );
    }
    refused(
        ArsClw::new(ArsClwConfig::new(7)).unwrap(),
        &[
            ("/config/first", json!(2)),
            ("/config/root", json!(1)),
            ("/config/arms", json!(6)),
            ("/state/start", json!(0)),
            ("/state/end", json!(128)),
            ("/state/end", json!(0)),
            ("/state/end", huge.clone()),
            ("/state/phase/config/interval", json!(4)),
            ("/state/phase/state/slot", json!(3)),
        ],
    );
}

/// Feedback out of turn, of another arm, negative or infinite is refused and changes nothing.
fn refuses_bad_feedback<P>(mut policy: P)
where
    P: Policy<Context = (), Feedback = f64> + PartialEq + Debug + Clone,
{
    let mut rng = SplitMix64::new(4);
    let out_of_turn = |arm| Err(Error::OutOfTurn { arm });
    assert_eq!(policy.learn(&(), 0, &0.5, &mut rng), out_of_turn(0), "before any decision");
    for _ in 0..200 {
        let arm = policy.decide(&(), &mut rng).unwrap();
        let before = policy.clone();
        assert_eq!(policy.learn(&(), arm + 1, &0.5, &mut rng), out_of_turn(arm + 1));
        assert_eq!(policy.learn(&(), arm, &f64::NAN, &mut rng), Err(Error::RewardNotFinite));
        let negative = policy.learn(&(), arm, &-0.1, &mut rng);
        assert!(matches!(negative, Err(Error::OutOfRange(OutOfRange { field: "feedback", .. }))));
        assert_eq!(policy, before);
        policy.learn(&(), arm, &1.0, &mut rng).unwrap();
    }
}

#[test]
fn bad_feedback_is_refused() {
    refuses_bad_feedback(ArsUcb::new(ArsUcbConfig::new(7)).unwrap());
    refuses_bad_feedback(Odaaf::new(ODAAF).unwrap());
    refuses_bad_feedback(ArsExp3::new(ArsExp3Config::new(7, SLOTS)).unwrap());
    refuses_bad_feedback(Clw::new(ClwConfig::new(7, SLOTS, 5)).unwrap());
    refuses_bad_feedback(ArsClw::new(ArsClwConfig::new(7)).unwrap());
}

/// That there is no privacy, and not by a budget that happens to be large.
#[test]
fn no_privacy_is_claimed() {
    for statement in [
        ArsUcb::new(ArsUcbConfig::new(7)).unwrap().privacy(),
        Odaaf::new(ODAAF).unwrap().privacy(),
        ArsExp3::new(ArsExp3Config::new(7, SLOTS)).unwrap().privacy(),
        Clw::new(LOOK_AHEAD).unwrap().privacy(),
        ArsClw::new(ArsClwConfig::new(7)).unwrap().privacy(),
    ] {
        assert_eq!((statement.definition, statement.epsilon), (privacy::Definition::None, None));
        assert!(statement.sentence.starts_with("None"));
    }
}

#[test]
fn bad_configurations_are_refused() {
    let named = |error: Error| match error {
        Error::OutOfRange(OutOfRange { field, .. }) => field,
        other => panic!("{other}"),
    };
    let ucb = ArsUcbConfig::new(2);
    let power = |factor, exponent| ArsUcbConfig { round_size: RoundSize::Power { factor, exponent }, ..ucb };
    for (config, field) in [
        (ArsUcbConfig::new(0), "arms"),
        (ArsUcbConfig { alpha: f64::NAN, ..ucb }, "alpha"),
        (power(0, 2), "factor"),
        (power(1, 17), "exponent"),
        (ArsUcbConfig { round_size: RoundSize::Doubling { shift: 49 }, ..ucb }, "shift"),
    ] {
        assert_eq!(named(ArsUcb::new(config).unwrap_err()), field);
    }
    for (rule, field) in [
        (OdaafRule::Mean { delay: 0.0 }, "delay"),
        (OdaafRule::Bounded { delay: 1.0, bound: 0 }, "bound"),
        (OdaafRule::Variance { delay: 1.0, variance: -1.0 }, "variance"),
        (OdaafRule::Composite { interval: 0 }, "interval"),
    ] {
        assert_eq!(named(Odaaf::new(OdaafConfig { rule, ..ODAAF }).unwrap_err()), field);
    }
    let exp3 = ArsExp3Config::new(2, 10);
    assert_eq!(named(ArsExp3::new(ArsExp3Config { horizon: 0, ..exp3 }).unwrap_err()), "horizon");
    assert_eq!(named(ArsExp3::new(ArsExp3Config { beta: 3.0, ..exp3 }).unwrap_err()), "beta");
    assert_eq!(named(Clw::new(ClwConfig::new(2, 0, 1)).unwrap_err()), "horizon");
    assert_eq!(named(Clw::new(ClwConfig::new(2, 1, 0)).unwrap_err()), "interval");
    assert_eq!(named(ArsClw::new(ArsClwConfig { root: 17, ..ArsClwConfig::new(2) }).unwrap_err()), "root");
    assert_eq!(named(ArsClw::new(ArsClwConfig { first: 0, ..ArsClwConfig::new(2) }).unwrap_err()), "first");
}

#[test]
fn play_ends_with_the_horizon_where_rounds_follow_from_it() {
    for horizon in [10, 100] {
        let mut policy = after(ArsExp3::new(ArsExp3Config::new(7, horizon)).unwrap(), horizon - 1);
        let mut rng = SplitMix64::new(4);
        let arm = policy.decide(&(), &mut rng).unwrap();
        policy.learn(&(), arm, &1.0, &mut rng).unwrap();
        assert_eq!(policy.decide(&(), &mut rng), Err(Error::HorizonOver { horizon }));
        assert_eq!(policy.learn(&(), arm, &1.0, &mut rng), Err(Error::OutOfTurn { arm }));
    }
    // One arm is played for ever.
    let alone = after(Odaaf::new(OdaafConfig { arms: 1, ..ODAAF }).unwrap(), 0);
    assert_eq!(alone.active(), [0]);
}
