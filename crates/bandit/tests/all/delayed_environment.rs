//! The environment of composite anonymous feedback: what arrives when, and that nothing is lost.

use bandit::delayed::{ArsUcb, ArsUcbConfig, Composite, Delivery, Drift, Record, Rewards};
use bandit::{Environment, Error, Policy};
use fault::OutOfRange;
use privacy::source::SplitMix64;
use proptest::prelude::*;
use std::sync::Arc;

const NINE: [f64; 9] = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1];

/// Feedback of slots 1, 2, ... where `arms` are played.
fn feedback(environment: &mut Composite, arms: &[usize]) -> Vec<f64> {
    let mut rng = SplitMix64::new(1);
    let mut play = |&arm: &usize| {
        assert!(environment.begin(&mut rng));
        environment.play(arm, &mut rng).unwrap();
        *environment.feedback().unwrap()
    };
    arms.iter().map(&mut play).collect()
}

fn close(got: &[f64], wanted: &[f64]) {
    let near = |(g, w): (&f64, &f64)| (g - w).abs() < 1e-12;
    assert!(got.len() == wanted.len() && got.iter().zip(wanted).all(near), "{got:?} against {wanted:?}");
}

fn always_one(delivery: Delivery) -> Composite {
    Composite::new(Rewards::Fixed(vec![1.0]), delivery).unwrap()
}

#[test]
fn a_pull_never_affects_its_own_slot() {
    let mut environment = always_one(Delivery::Shares(vec![0.5, 0.3, 0.2]));
    close(&feedback(&mut environment, &[0; 6]), &[0.0, 0.5, 0.8, 1.0, 1.0, 1.0]);
    // z = 0 arrives one slot later, as z = 1 does.
    for hi in [0, 1] {
        close(&feedback(&mut always_one(Delivery::Random { lo: 0, hi }), &[0; 4]), &[0.0, 1.0, 1.0, 1.0]);
    }
    close(&feedback(&mut always_one(Delivery::interval(3, 5)), &[0; 6]), &[0.0, 0.0, 0.0, 0.5, 1.0, 1.0]);
    close(&feedback(&mut always_one(Delivery::increasing(2)), &[0; 4]), &[0.0, 1.0 / 3.0, 1.0, 1.0]);
    close(&feedback(&mut always_one(Delivery::decreasing(2)), &[0; 4]), &[0.0, 2.0 / 3.0, 1.0, 1.0]);
    close(
        &feedback(&mut always_one(Delivery::Discounted { discount: 0.5 }), &[0; 4]),
        &[0.0, 0.5, 0.75, 0.875],
    );
    let z3 = 1.2020569031595942;
    close(
        &feedback(&mut always_one(Delivery::Polynomial { exponent: 3.0, taps: 2 }), &[0; 4]),
        &[0.0, 1.0 / z3, 1.125 / z3, 1.125 / z3],
    );
}

#[test]
fn parts_of_different_arms_are_mixed() {
    let record = Record::new(&[vec![1.0, 0.0], vec![0.0, 0.5], vec![0.0, 0.0], vec![0.0, 0.0]]).unwrap();
    let shares = Delivery::Shares(vec![0.5, 0.5]);
    let mut environment = Composite::new(Rewards::Recorded(Arc::new(record)), shares).unwrap();
    close(&feedback(&mut environment, &[0, 1, 0, 0]), &[0.0, 0.5, 0.75, 0.25]);
    assert!(!environment.begin(&mut SplitMix64::new(1)), "a record ends");
}

/// d = 2: the sixth pull on end of the best arm is the first that waits two slots.
#[test]
fn a_streak_of_the_best_arm_is_delayed() {
    let environment =
        || Composite::new(Rewards::Fixed(vec![0.25, 1.0]), Delivery::Streak { interval: 2 }).unwrap();
    let arms = [1, 1, 1, 1, 1, 1, 1, 0, 1, 1];
    // Slots 1 to 5 arrive one slot later; 6 and 7 in slots 8 and 9; arm 0 of slot 8 in slot 9; then a new
    // streak.
    close(&feedback(&mut environment(), &arms), &[0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.25, 1.0]);
    // The other arm never waits.
    close(
        &feedback(&mut environment(), &[0; 10]),
        &[0.0, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25],
    );
}

fn any_delivery() -> impl Strategy<Value = Delivery> {
    prop_oneof![
        (0usize..9, 0usize..9).prop_map(|(lo, more)| Delivery::Random { lo, hi: lo + more }),
        (1usize..9, 1usize..9).prop_map(|(lo, more)| Delivery::interval(lo, lo + more)),
        (1usize..9).prop_map(Delivery::increasing),
        (1usize..9).prop_map(Delivery::decreasing),
        (0.0..0.99).prop_map(|discount| Delivery::Discounted { discount }),
        (1.1..4.0, 1usize..60).prop_map(|(exponent, taps)| Delivery::Polynomial { exponent, taps }),
        (1usize..6).prop_map(|interval| Delivery::Streak { interval }),
    ]
}

/// Share of a total `tau` slots later, by definition; `None` where totals come in one piece.
fn share(delivery: &Delivery, tau: usize) -> Option<f64> {
    match delivery {
        Delivery::Shares(shares) => Some(shares.get(tau - 1).copied().unwrap_or(0.0)),
        Delivery::Discounted { discount } => Some((1.0 - discount) * discount.powi(tau as i32 - 1)),
        Delivery::Polynomial { exponent, taps } => {
            // zeta from 1e5 terms and the integral of the rest: off by 1e-5 of 1e5^-exponent at most.
            let head: f64 = (1..=100_000).rev().map(|k| f64::from(k).powf(-exponent)).sum();
            let zeta = head + 100_000.5f64.powf(1.0 - exponent) / (exponent - 1.0);
            Some(if tau <= *taps { (tau as f64).powf(-exponent) / zeta } else { 0.0 })
        }
        Delivery::Random { .. } | Delivery::Streak { .. } => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// What has arrived and what is owed are together what was earned, in every slot. Vectors are also summed
    /// the slow way.
    #[test]
    fn nothing_is_lost(delivery in any_delivery(), seed: u64, plays in prop::collection::vec(0usize..3, 1..80)) {
        let mut environment = Composite::new(Rewards::Bits(vec![0.9, 0.5, 0.2]), delivery.clone()).unwrap();
        let mut rng = SplitMix64::new(seed);
        let shares: Option<Vec<f64>> = (1..=plays.len()).map(|tau| share(&delivery, tau)).collect();
        let kept = match delivery {
            Delivery::Polynomial { taps, .. } => (1..=taps).filter_map(|tau| share(&delivery, tau)).sum(),
            _ => 1.0,
        };
        let (mut earned, mut arrived) = (0.0, 0.0);
        let mut pulls: Vec<f64> = Vec::new();
        for &arm in &plays {
            prop_assert!(environment.begin(&mut rng));
            let reward = environment.play(arm, &mut rng).unwrap().reward;
            let y = *environment.feedback().unwrap();
            if let Some(shares) = &shares {
                let slow: f64 = pulls.iter().rev().zip(shares).map(|(r, w)| r * w).sum();
                prop_assert!((slow - y).abs() < 1e-9, "{slow} against {y}");
            }
            earned += kept * reward;
            arrived += y;
            pulls.push(reward);
            prop_assert!(y >= 0.0 && (earned - arrived - environment.owed()).abs() < 1e-9);
        }
    }
}

/// Feedback of a round = what its pulls earned + what was owed before - what is owed after; what is owed lies
/// in [0, d].
#[test]
fn round_identity() {
    let delivery = Delivery::Random { lo: 10, hi: 30 };
    let mut environment = Composite::new(Rewards::Bernoulli(NINE.to_vec()), delivery).unwrap();
    let mut policy = ArsUcb::new(ArsUcbConfig::new(9)).unwrap();
    let mut rng = SplitMix64::new(5);
    let (mut rounds, mut owed, mut earned, mut seen) = (0, 0.0, 0.0, 0.0);
    for _ in 0..20_000 {
        environment.begin(&mut rng);
        let before = environment.owed();
        let arm = policy.decide(&(), &mut rng).unwrap();
        if policy.rounds() > rounds {
            rounds = policy.rounds();
            assert!((seen - (earned + owed - before)).abs() < 1e-9, "round {rounds}");
            assert!((0.0..=30.0).contains(&before));
            (owed, earned, seen) = (before, 0.0, 0.0);
        }
        earned += environment.play(arm, &mut rng).unwrap().reward;
        seen += environment.feedback().unwrap();
        policy.learn(&(), arm, environment.feedback().unwrap(), &mut rng).unwrap();
    }
    assert!(rounds > 100);
}

#[test]
fn delay_measures_of_the_papers_cases() {
    for (delivery, d1, d2) in [
        (Delivery::Random { lo: 10, hi: 30 }, 18.0, 6.6439),
        (Delivery::Random { lo: 0, hi: 60 }, 27.0148, 12.2859),
        (Delivery::interval(30, 40), 31.05, 8.2125),
        (Delivery::interval(10, 20), 13.05, 3.2125),
        (Delivery::decreasing(100), 30.6, 5.1507),
        (Delivery::decreasing(50), 15.6, 2.6513),
        (Delivery::increasing(100), 60.3, 13.4007),
        (Delivery::increasing(50), 30.3, 6.7347),
        (Delivery::Discounted { discount: 0.8 }, 4.5, 0.6944),
        (Delivery::Discounted { discount: 0.9 }, 9.0, 1.3158),
        (Delivery::Polynomial { exponent: 3.0, taps: 2000 }, 1.2316, 0.2586),
    ] {
        let got = delivery.delay_measures(&NINE).unwrap();
        assert!((got.d1 - d1).abs() < 6e-5 && (got.d2 - d2).abs() < 6e-5, "{delivery:?}: {got:?}");
    }
    let heavy = Delivery::Polynomial { exponent: 2.0, taps: 2000 }.delay_measures(&NINE).unwrap();
    assert!(heavy.d1.is_infinite() && heavy.d2 < 1.0);
    assert_eq!(Delivery::Streak { interval: 10 }.delay_measures(&NINE), None);
}

/// Equal seeds: equal rewards and delays, whichever arm is played.
#[test]
fn slots_do_not_depend_on_the_arm() {
    let make = || {
        let rewards = Rewards::weekday_bits();
        Composite::new(rewards, Delivery::Random { lo: 5, hi: 10 }).unwrap()
    };
    let (mut a, mut b, mut shadow) = (make(), make(), make());
    let (mut rng_a, mut rng_b, mut rng) = (SplitMix64::new(3), SplitMix64::new(3), SplitMix64::new(3));
    for t in 0..500 {
        assert!(a.begin(&mut rng_a) && b.begin(&mut rng_b) && shadow.begin(&mut rng));
        let best = a.play(0, &mut rng_a).unwrap();
        let other = b.play(t % 7, &mut rng_b).unwrap();
        shadow.play(0, &mut rng).unwrap();
        assert_eq!(best.regret, 0.0);
        assert_eq!(other.reward + other.regret, best.reward);
        assert_eq!((&rng_a, a.feedback()), (&rng_b.clone(), shadow.feedback()));
    }
}

#[test]
fn one_click_a_slot_and_drift() {
    let drift = Drift { p: vec![0.0, 0.0, 1.0], every: 4 };
    let rewards = Rewards::ClickOne { p: vec![1.0, 0.0, 0.0], drift: Some(drift) };
    assert_eq!(rewards.best(), 0);
    let mut environment = Composite::new(rewards, Delivery::interval(1, 2)).unwrap();
    close(&feedback(&mut environment, &[0; 10]), &[0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]);

    let mut environment =
        Composite::new(Rewards::click_one(&[0.5, 0.3, 0.2]), Delivery::interval(1, 2)).unwrap();
    let mut rng = SplitMix64::new(8);
    let mut clicks = [0.0; 3];
    for t in 0..30_000 {
        environment.begin(&mut rng);
        clicks[t % 3] += environment.play(t % 3, &mut rng).unwrap().reward;
    }
    // Five standard deviations of 10,000 draws: false alarm below 2e-6.
    for (got, p) in clicks.iter().zip([0.5, 0.3, 0.2]) {
        assert!((got / 1e4 - p).abs() < 5.0 * (p * (1.0 - p) / 1e4f64).sqrt(), "{clicks:?}");
    }
}

#[test]
fn logs_are_read() {
    let text = "t, arm, reward, note\n1,0,1,x\n1,2,0.5,y\n2,1,0,\n3,2,1,\n";
    let record = Record::read(text.as_bytes()).unwrap();
    assert_eq!((record.arms(), record.slots(), record.totals()), (3, 3, vec![1.0, 0.0, 1.5]));
    let rows = [vec![1.0, 0.0, 0.5], vec![0.0; 3], vec![0.0, 0.0, 1.0]];
    assert_eq!(record, Record::new(&rows).unwrap());
    let rewards = Rewards::Recorded(Arc::new(record));
    assert_eq!(rewards.best(), 2);
    let mut environment = Composite::new(rewards, Delivery::interval(1, 2)).unwrap();
    close(&feedback(&mut environment, &[2, 2, 2]), &[0.0, 0.5, 0.0]);
}

#[test]
fn damaged_logs_are_refused() {
    for (text, word) in [
        ("t,arm\n1,0\n", "line 1: column reward is missing"),
        ("t,arm,reward\n", "line 1: no rewards follow the header"),
        ("t,arm,reward\n1,0,yes\n", "line 2: column reward is \"yes\", not a number"),
        ("t,arm,reward\n1,-1,1\n", "line 2: column arm is \"-1\", not a whole number from 0 on"),
        ("t,arm,reward\n0,0,1\n", "line 2: t is 0, it must be 1"),
        ("t,arm,reward\n2,0,1\n", "line 2: t is 2, it must be 1"),
        ("t,arm,reward\n1,0,1\n3,0,1\n", "line 3: t is 3, it must be 1 or 2"),
        ("t,arm,reward\n1,0,1\n2,0,1\n1,1,1\n", "line 4: t is 1, it must be 2 or 3"),
        ("t,arm,reward\n1,0,1\n1,0,0\n", "line 3: arm 0 occurs twice in slot 1"),
        ("t,arm,reward\n1,0,2\n", "line 2: reward is 2, it must be in [0, 1]"),
        ("t,arm,reward\n1,0,NaN\n", "line 2: reward is NaN, it must be in [0, 1]"),
        ("t,arm,reward\n1,70000,1\n", "line 2: arm is 70000, it must be below 65536"),
        ("t,arm,reward\n1,5000000000,1\n", "line 2: arm is 5000000000, it must be below 65536"),
        ("t,arm,reward\n1,0\n", "line"),
    ] {
        let error = Record::read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(word), "{text:?}: {error}");
    }
    assert!(matches!(Record::new(&[]), Err(Error::OutOfRange(OutOfRange { field: "slots", .. }))));
    assert!(matches!(Record::new(&[vec![]]), Err(Error::OutOfRange(OutOfRange { field: "arms", .. }))));
    assert_eq!(Record::new(&[vec![0.0], vec![]]), Err(Error::Rows { values: 0, d: 1 }));
    assert!(matches!(Record::new(&[vec![1.5]]), Err(Error::OutOfRange(OutOfRange { field: "reward", .. }))));
}

#[test]
fn misuse_is_refused() {
    let field = |rewards: Rewards, delivery: Delivery| match Composite::new(rewards, delivery).unwrap_err() {
        Error::OutOfRange(OutOfRange { field, .. }) => field,
        other => panic!("{other}"),
    };
    let one = || Delivery::interval(1, 2);
    assert_eq!(field(Rewards::Fixed(vec![]), one()), "arms");
    assert_eq!(field(Rewards::Bits(vec![0.5; 65_537]), one()), "arms");
    assert_eq!(field(Rewards::Bernoulli(vec![f64::NAN]), one()), "means");
    assert_eq!(field(Rewards::Fixed(vec![1.1]), one()), "means");
    assert_eq!(field(Rewards::click_one(&[0.5, 0.4]), one()), "p");
    let drift =
        |p: &[f64], every| Rewards::ClickOne { p: vec![1.0], drift: Some(Drift { p: p.to_vec(), every }) };
    assert_eq!(field(drift(&[0.5, 0.5], 1), one()), "drift");
    assert_eq!(field(drift(&[1.0], 0), one()), "every");
    let bits = || Rewards::weekday_bits();
    assert_eq!(field(bits(), Delivery::Random { lo: 2, hi: 1 }), "lo");
    assert_eq!(field(bits(), Delivery::Random { lo: 2, hi: usize::MAX }), "hi");
    assert_eq!(field(bits(), Delivery::Shares(vec![])), "shares");
    assert_eq!(field(bits(), Delivery::Shares(vec![0.6, 0.6])), "shares");
    assert_eq!(field(bits(), Delivery::Shares(vec![-0.1])), "shares");
    assert_eq!(field(bits(), Delivery::Discounted { discount: 1.0 }), "discount");
    assert_eq!(field(bits(), Delivery::Polynomial { exponent: 1.0, taps: 9 }), "exponent");
    assert_eq!(field(bits(), Delivery::Polynomial { exponent: 2.0, taps: 0 }), "taps");
    assert_eq!(field(bits(), Delivery::Streak { interval: 0 }), "interval");

    let mut environment = Composite::new(bits(), one()).unwrap();
    let mut rng = SplitMix64::new(1);
    assert_eq!(environment.context(), Err(Error::NoRound));
    assert_eq!(environment.play(0, &mut rng), Err(Error::NoRound));
    assert_eq!(environment.feedback(), Err(Error::NoRound));
    assert!(environment.begin(&mut rng));
    assert_eq!(environment.play(7, &mut rng), Err(Error::Arm { arm: 7, k: 7 }));
    assert!(environment.play(6, &mut rng).is_ok());
    assert_eq!(environment.play(6, &mut rng), Err(Error::NoRound), "one play a slot");
    assert_eq!(environment.arms(), 7);
}
