//! A stored policy goes on as if nothing had happened; a damaged one is refused; bad input changes nothing.

use bandit::stochastic::{
    AnytimeLazyUcb, BernoulliArms, DpSe, FollowTheNoisyLeader, FullInformation, HybridUcb, NoisyMax,
    SETTING_2, Tree, Ucb1,
};
use bandit::{Environment, Error, Policy};
use fault::OutOfRange;
use privacy::budget::{Epsilon, Neighbours};
use privacy::laplace::{GridLaplace, HarnessLaplace, ScriptedLaplace};
use privacy::source::SplitMix64;
use serde_json::{Value, json};

fn json(policy: &impl Policy) -> Value {
    serde_json::to_value(policy).unwrap()
}

fn eps() -> Epsilon {
    Epsilon::new(0.5).unwrap()
}

fn leader() -> NoisyMax {
    NoisyMax::Leader { epsilon: eps(), neighbours: Neighbours::ReplaceOne }
}

fn grid() -> GridLaplace {
    GridLaplace::new(20).unwrap()
}

/// Stored and read back after each of the first rounds (between decision and reward, too) and now and then
/// later.
fn storing_changes_nothing<P, E, F: ?Sized>(mut policy: P, mut environment: E)
where
    P: Policy<Context = (), Feedback = F>,
    E: Environment<Context = (), Feedback = F>,
{
    let (mut rng, mut noise) = (SplitMix64::new(3), SplitMix64::noise(3));
    let mut twin: P = serde_json::from_value(json(&policy)).unwrap();
    let mut twin_noise = noise.clone();
    for round in 0..6000 {
        assert!(environment.begin(&mut rng));
        let arm = policy.decide(&(), &mut noise).unwrap();
        assert_eq!(twin.decide(&(), &mut twin_noise).unwrap(), arm, "round {round}");
        assert_eq!(policy.decide(&(), &mut noise).unwrap(), arm);
        if round < 50 || round % 97 == 0 {
            twin = serde_json::from_str(&serde_json::to_string(&twin).unwrap()).unwrap();
        }
        environment.play(arm, &mut rng).unwrap();
        policy.learn(&(), arm, environment.feedback().unwrap(), &mut noise).unwrap();
        twin.learn(&(), arm, environment.feedback().unwrap(), &mut twin_noise).unwrap();
        if round < 50 || round % 101 == 0 {
            twin = serde_json::from_str(&serde_json::to_string(&twin).unwrap()).unwrap();
        }
    }
    assert_eq!(json(&twin), json(&policy));
}

#[test]
fn storing_does_not_change_the_future() {
    let arms = BernoulliArms::new(&SETTING_2).unwrap();
    storing_changes_nothing(AnytimeLazyUcb::new(5, eps(), grid()).unwrap(), arms.clone());
    storing_changes_nothing(AnytimeLazyUcb::new(5, eps(), HarnessLaplace).unwrap(), arms.clone());
    storing_changes_nothing(HybridUcb::new(5, eps(), Tree::Corrected, grid()).unwrap(), arms.clone());
    storing_changes_nothing(HybridUcb::new(5, eps(), Tree::Paper, HarnessLaplace).unwrap(), arms.clone());
    storing_changes_nothing(DpSe::new(5, eps(), 0.5, HarnessLaplace).unwrap(), arms.clone());
    storing_changes_nothing(Ucb1::new(5).unwrap(), arms.clone());
    for max in [leader(), NoisyMax::Exact] {
        let policy = FollowTheNoisyLeader::new(5, max, grid()).unwrap();
        storing_changes_nothing(policy, FullInformation(arms.clone()));
    }
}

fn refuses_bad_rewards<P: Policy<Context = (), Feedback = F>, F: ?Sized>(
    mut policy: P,
    good: &F,
    bad: &[&F],
) {
    let mut rng = SplitMix64::new(0);
    let fresh = json(&policy);
    assert_eq!(policy.learn(&(), 0, good, &mut rng), Err(Error::OutOfTurn { arm: 0 }));
    assert_eq!(json(&policy), fresh);
    assert_eq!(policy.decide(&(), &mut rng), Ok(0));
    let decided = json(&policy);
    for arm in [1, 2, usize::MAX] {
        assert_eq!(policy.learn(&(), arm, good, &mut rng), Err(Error::OutOfTurn { arm }));
    }
    for bad in bad {
        let error = policy.learn(&(), 0, bad, &mut rng).unwrap_err();
        assert!(
            matches!(
                error,
                Error::OutOfRange(OutOfRange { field: "reward", .. })
                    | Error::Reward { .. }
                    | Error::RewardOfArm { .. }
                    | Error::Rewards { k: 2, .. }
            ),
            "{error}"
        );
    }
    assert_eq!(json(&policy), decided);
    policy.learn(&(), 0, good, &mut rng).unwrap();
    assert_eq!(policy.learn(&(), 0, good, &mut rng), Err(Error::OutOfTurn { arm: 0 }));
}

#[test]
fn bad_rewards_change_nothing() {
    let bad = [&-0.1, &1.1, &f64::NAN, &f64::INFINITY];
    refuses_bad_rewards(AnytimeLazyUcb::new(2, eps(), grid()).unwrap(), &0.5, &bad);
    refuses_bad_rewards(HybridUcb::new(2, eps(), Tree::Corrected, grid()).unwrap(), &0.5, &bad);
    refuses_bad_rewards(DpSe::new(2, eps(), 0.1, grid()).unwrap(), &0.5, &bad);
    refuses_bad_rewards(Ucb1::new(2).unwrap(), &0.5, &bad);
    let leader = FollowTheNoisyLeader::new(2, leader(), grid()).unwrap();
    let bad: [&[f64]; 5] = [&[0.5, 1.1], &[-0.1, 0.5], &[0.5], &[], &[0.5, f64::NAN]];
    refuses_bad_rewards(leader, &[0.5, 0.5][..], &bad);
}

/// A source of noise that fails leaves the policy waiting for the same reward.
#[test]
fn failing_noise_changes_nothing() {
    fn fails<P: Policy<Context = (), Feedback = F>, F: ?Sized>(mut policy: P, reward: &F) {
        let mut rng = SplitMix64::new(0);
        for _ in 0..100 {
            let arm = policy.decide(&(), &mut rng).unwrap();
            let before = json(&policy);
            if let Err(error) = policy.learn(&(), arm, reward, &mut rng) {
                assert!(matches!(error, Error::Privacy(privacy::Error::ScriptEnded { .. })), "{error}");
                let after = json(&policy);
                for state in ["turn", "arms", "sums", "left", "means"] {
                    assert_eq!(after.get(state), before.get(state));
                }
                return;
            }
        }
        panic!("100 rounds with two values of noise");
    }
    let noise = || ScriptedLaplace::new([0.5; 2]);
    fails(AnytimeLazyUcb::new(1, eps(), noise()).unwrap(), &0.5);
    fails(HybridUcb::new(1, eps(), Tree::Paper, noise()).unwrap(), &0.5);
    fails(FollowTheNoisyLeader::new(1, leader(), noise()).unwrap(), &[0.5][..]);
    fails(FollowTheNoisyLeader::new(3, leader(), noise()).unwrap(), &[0.5; 3][..]);
}

/// An epoch longer than any run, by a tiny epsilon or beta, is stored and read back like any other.
#[test]
fn endless_epochs_are_read_back() {
    for (epsilon, beta) in [(1e-300, 0.1), (1.0, 5e-324)] {
        let mut policy = DpSe::new(2, Epsilon::new(epsilon).unwrap(), beta, grid()).unwrap();
        let mut rng = SplitMix64::new(1);
        for _ in 0..3 {
            let arm = policy.decide(&(), &mut rng).unwrap();
            policy.learn(&(), arm, &1.0, &mut rng).unwrap();
            let again: DpSe<GridLaplace> = serde_json::from_value(json(&policy)).unwrap();
            assert_eq!(json(&again), json(&policy));
        }
    }
}

#[test]
fn bad_parameters_are_refused() {
    let field = |result: Result<Value, Error>| match result {
        Err(Error::OutOfRange(OutOfRange { field, .. })) => field,
        other => panic!("{other:?}"),
    };
    assert_eq!(field(AnytimeLazyUcb::new(0, eps(), grid()).map(|p| json(&p))), "k");
    assert_eq!(field(HybridUcb::new(0, eps(), Tree::Corrected, grid()).map(|p| json(&p))), "k");
    assert_eq!(field(DpSe::new(0, eps(), 0.1, grid()).map(|p| json(&p))), "k");
    assert_eq!(field(Ucb1::new(0).map(|p| json(&p))), "k");
    assert_eq!(field(FollowTheNoisyLeader::new(0, NoisyMax::Exact, grid()).map(|p| json(&p))), "k");
    for beta in [0.0, 1.0, f64::NAN] {
        assert_eq!(field(DpSe::new(2, eps(), beta, grid()).map(|p| json(&p))), "beta");
    }
}

/// After 30 rounds on two arms that earn 1/2 each.
fn after_30_rounds<P: Policy<Context = (), Feedback = F>, F: ?Sized>(mut policy: P, reward: &F) -> Value {
    let mut rng = SplitMix64::noise(3);
    for _ in 0..30 {
        let arm = policy.decide(&(), &mut rng).unwrap();
        policy.learn(&(), arm, reward, &mut rng).unwrap();
    }
    json(&policy)
}

fn refuses_damage<P: Policy>(good: &Value, damage: &[(&str, Value)]) {
    assert!(serde_json::from_value::<P>(good.clone()).is_ok());
    for (path, value) in damage {
        let mut bad = good.clone();
        *bad.pointer_mut(path).unwrap() = value.clone();
        assert!(serde_json::from_value::<P>(bad).is_err(), "{path} = {value}");
    }
}

#[test]
fn damaged_states_are_refused() {
    let policy = AnytimeLazyUcb::new(2, eps(), grid()).unwrap();
    refuses_damage::<AnytimeLazyUcb<GridLaplace>>(
        &after_30_rounds(policy, &0.5),
        &[
            ("/epsilon", json!(0.0)),
            ("/arms", json!([])),
            ("/arms/0/size", json!(3)),
            ("/arms/0/size", json!(1u64 << 40)),
            ("/arms/0/size", json!(0)),
            ("/arms/0/open/steps", json!(u64::MAX)),
            ("/arms/0/open/count", json!(1000)),
            ("/turn/learnt", json!(31)),
            ("/turn/learnt", json!(u64::MAX)),
            ("/turn/decided", json!(2)),
        ],
    );
    let policy = HybridUcb::new(2, eps(), Tree::Corrected, grid()).unwrap();
    refuses_damage::<HybridUcb<GridLaplace>>(
        &after_30_rounds(policy, &0.5),
        &[
            ("/epsilon", json!(-1.0)),
            ("/arms/0/pulls", json!(u64::MAX)),
            ("/arms/0/nodes", json!([])),
            ("/arms/0/nodes/0/sum/count", json!(17)),
            ("/arms/0/nodes/0/sum/steps", json!(u64::MAX)),
            ("/turn/learnt", json!(29)),
        ],
    );
    let policy = DpSe::new(2, eps(), 0.1, grid()).unwrap();
    refuses_damage::<DpSe<GridLaplace>>(
        &after_30_rounds(policy, &0.5),
        &[
            ("/beta", json!(1.0)),
            ("/next", json!(1)),
            ("/next", json!(2)),
            ("/left/1/arm", json!(0)),
            ("/left/1/arm", json!(2)),
            ("/left/0/open/count", json!(17)),
            ("/left", json!([])),
            ("/epoch", json!(0)),
        ],
    );
    let policy = FollowTheNoisyLeader::new(2, leader(), grid()).unwrap();
    refuses_damage::<FollowTheNoisyLeader<GridLaplace>>(
        &after_30_rounds(policy, &[0.5, 0.5][..]),
        &[
            ("/max/leader/epsilon", json!(0.0)),
            ("/leader", json!(2)),
            ("/sums/0/count", json!(1)),
            ("/sums", json!([])),
            ("/turn/learnt", json!(u64::MAX)),
        ],
    );
    refuses_damage::<Ucb1>(
        &after_30_rounds(Ucb1::new(2).unwrap(), &0.5),
        &[("/arms/0/steps", json!(u64::MAX)), ("/arms/0/count", json!(0)), ("/turn/learnt", json!(u64::MAX))],
    );
}

/// Anytime-Lazy-UCB keeps a fixed number of numbers an arm, however long it has played.
#[test]
fn memory_is_that_of_the_arms() {
    for k in [2, 5, 50] {
        let mut policy = AnytimeLazyUcb::new(k, eps(), grid()).unwrap();
        let (mut rng, mut played) = (SplitMix64::new(9), 0);
        for rounds in [1_000, 1_000_000] {
            for round in played..rounds {
                let arm = policy.decide(&(), &mut rng).unwrap();
                policy.learn(&(), arm, &f64::from((round + arm as u32).is_multiple_of(3)), &mut rng).unwrap();
            }
            played = rounds;
            let bytes = json(&policy).to_string().len();
            assert!(bytes < 200 * (k + 1), "{bytes} bytes for {k} arms after {rounds} rounds");
        }
    }
}
