//! Runs that are known to the last pull, made elsewhere on the same random numbers.

use bandit::delayed::{
    ArsClw, ArsClwConfig, ArsExp3, ArsExp3Config, ArsUcb, ArsUcbConfig, Clw, ClwConfig, Composite, Delivery,
    Odaaf, OdaafConfig, OdaafRule, Record, Rewards, RoundSize,
};
use bandit::{Environment, Policy};
use privacy::source::SplitMix64;
use std::sync::Arc;

/// Plays to slot T; calls `each` after every slot with slot (from 1), arm and the policy.
fn run<P>(
    policy: &mut P,
    environment: &mut Composite,
    slots: u64,
    mut each: impl FnMut(u64, usize, &P),
) -> f64
where
    P: Policy<Context = (), Feedback = f64>,
{
    // The policies that draw are golden on environments that do not, and the other way round: one seed serves
    // both.
    let (mut rng, mut own) = (SplitMix64::new(42), SplitMix64::new(42));
    let mut regret = 0.0;
    for slot in 1..=slots {
        assert!(environment.begin(&mut rng));
        let arm = policy.decide(&(), &mut own).unwrap();
        regret += environment.play(arm, &mut rng).unwrap().regret;
        policy.learn(&(), arm, environment.feedback().unwrap(), &mut own).unwrap();
        each(slot, arm, policy);
    }
    regret
}

fn close(got: &[f64], wanted: &[f64], error: f64) {
    assert_eq!(got.len(), wanted.len());
    assert!(got.iter().zip(wanted).all(|(g, w)| (g - w).abs() <= error), "{got:?} against {wanted:?}");
}

/// Rewards .9, .5, .1, all of it `tau` slots later.
fn late(tau: usize) -> Composite {
    Composite::new(Rewards::Fixed(vec![0.9, 0.5, 0.1]), Delivery::interval(tau, tau + 1)).unwrap()
}

fn random(means: &[f64]) -> Composite {
    Composite::new(Rewards::Bernoulli(means.to_vec()), Delivery::Random { lo: 10, hi: 30 }).unwrap()
}

/// s_0 = 1, s_1 = 1 in even slots, s_2 = 0; all of it two slots later.
fn alternating(slots: usize) -> Composite {
    let rows: Vec<_> = (1..=slots).map(|t| vec![1.0, if t % 2 == 0 { 1.0 } else { 0.0 }, 0.0]).collect();
    Composite::new(Rewards::Recorded(Arc::new(Record::new(&rows).unwrap())), Delivery::interval(2, 3))
        .unwrap()
}

/// Rounds as `arm x length`.
fn rounds(config: ArsUcbConfig, environment: &mut Composite, slots: u64) -> (String, ArsUcb) {
    let mut policy = ArsUcb::new(config).unwrap();
    let mut rounds: Vec<(usize, u64)> = Vec::new();
    let mut begun = 0;
    run(&mut policy, environment, slots, |_, arm, policy| {
        if policy.rounds() > begun {
            begun = policy.rounds();
            rounds.push((arm, 0));
        }
        rounds.last_mut().unwrap().1 += 1;
    });
    (rounds.iter().map(|(arm, n)| format!("{arm}x{n}")).collect::<Vec<_>>().join(" "), policy)
}

#[test]
fn ars_ucb_on_fixed_rewards() {
    let start = "0x1 1x1 2x1 0x4 1x4 2x4 0x9 1x9 2x9 0x16 1x16 2x16 0x25 1x25 ";
    for (tau, rest, pulls, sums) in [
        (1, "0x36 1x36 0x49 2x25 1x49 0x64 0x1", [205, 140, 55], [179.2, 72.0, 7.9]),
        (2, "2x25 0x36 1x36 0x49 1x49 0x64 0x1", [205, 140, 55], [174.4, 74.3, 9.5]),
        (7, "2x25 0x36 1x36 0x49 1x49 0x64 1x1", [204, 141, 55], [152.3, 84.8, 16.6]),
    ] {
        let (got, policy) = rounds(ArsUcbConfig::new(3), &mut late(tau), 400);
        assert_eq!(got, format!("{start}{rest}"), "{tau} slots late");
        assert_eq!(policy.pulls(), pulls);
        close(policy.sums(), &sums, 1e-9);
    }
}

#[test]
fn ars_ucb_with_other_rounds() {
    let doubling = ArsUcbConfig { round_size: RoundSize::Doubling { shift: 0 }, ..ArsUcbConfig::new(3) };
    let (got, policy) = rounds(doubling, &mut late(2), 400);
    assert_eq!(got, "0x4 1x4 2x4 0x4 1x4 2x4 0x8 1x8 2x8 0x16 1x16 2x16 0x32 1x32 0x64 2x32 1x64 0x80");
    assert_eq!(policy.pulls(), [208, 128, 64]);
    let linear = RoundSize::Power { factor: 1, exponent: 1 };
    let (_, policy) = rounds(ArsUcbConfig { round_size: linear, ..ArsUcbConfig::new(3) }, &mut late(2), 400);
    assert_eq!(policy.pulls(), [202, 153, 45]);
}

#[test]
fn ars_ucb_on_random_rewards() {
    let mut policy = ArsUcb::new(ArsUcbConfig::new(3)).unwrap();
    run(&mut policy, &mut random(&[0.9, 0.5, 0.1]), 5_000, |_, _, _| {});
    assert_eq!((policy.rounds(), policy.pulls()), (40, &[4575, 285, 140][..]));
    close(policy.sums(), &[4084.0, 163.0, 59.0], 0.0);

    let means: Vec<f64> = (1..=9).rev().map(|i| f64::from(i) / 10.0).collect();
    let mut policy = ArsUcb::new(ArsUcbConfig::new(9)).unwrap();
    let regret = run(&mut policy, &mut random(&means), 20_000, |_, _, _| {});
    assert_eq!((policy.rounds(), policy.pulls()), (113, &[16893, 819, 650, 650, 285, 204, 204, 204, 91][..]));
    close(policy.sums(), &[15124.0, 589.0, 438.0, 429.0, 159.0, 99.0, 90.0, 93.0, 26.0], 0.0);
    assert!((regret - 960.9).abs() < 1e-6);
}

/// Plays; returns the plays `n_m` and means at the end of each phase's blocks, and the pulls of each arm.
fn phases(rule: OdaafRule, environment: &mut Composite, horizon: u64) -> (Vec<(u64, Vec<f64>)>, Vec<u64>) {
    let mut policy = Odaaf::new(OdaafConfig { arms: 3, horizon, rule }).unwrap();
    let (mut pulls, mut phases) = (vec![0; 3], Vec::new());
    let mut last = 0;
    run(&mut policy, environment, horizon, |_, arm, policy| {
        pulls[arm] += 1;
        let n = policy.pulls()[policy.active()[0]];
        let level = policy.active().len() > 1 && policy.active().iter().all(|&i| policy.pulls()[i] == n);
        if level && n > last {
            last = n;
            phases.push((n, policy.active().iter().map(|&i| policy.sums()[i] / n as f64).collect()));
        }
    });
    (phases, pulls)
}

#[test]
fn odaaf_on_fixed_rewards() {
    let (got, pulls) = phases(OdaafRule::Mean { delay: 7.0 }, &mut late(7), 20_000);
    assert_eq!(got.iter().map(|p| p.0).collect::<Vec<_>>(), [498, 1633]);
    close(&got[0].1, &[0.887349, 0.505622, 0.105622], 5e-7);
    close(&got[1].1, &[0.896142, 0.503429], 5e-7);
    assert_eq!(pulls, [17869, 1633, 498]);

    let (got, pulls) = phases(OdaafRule::Bounded { delay: 7.0, bound: 7 }, &mut late(7), 20_000);
    assert_eq!(got.iter().map(|p| p.0).collect::<Vec<_>>(), [453, 1261]);
    assert_eq!(pulls, [18286, 1261, 453]);

    let (got, pulls) = phases(OdaafRule::Composite { interval: 7 }, &mut late(7), 20_000);
    assert_eq!(got.iter().map(|p| p.0).collect::<Vec<_>>(), [118, 423]);
    close(&got[0].1, &[0.84661, 0.523729, 0.123729], 5e-6);
    close(&got[1].1, &[0.885106, 0.513239], 5e-7);
    assert_eq!(pulls, [19459, 423, 118]);
}

#[test]
fn odaaf_on_random_rewards() {
    let means = [0.9, 0.5, 0.1];
    let (got, pulls) = phases(OdaafRule::Mean { delay: 20.0 }, &mut random(&means), 50_000);
    assert_eq!(got.iter().map(|p| p.0).collect::<Vec<_>>(), [774, 2720]);
    close(&got[0].1, &[0.883721, 0.518088, 0.107235], 5e-7);
    close(&got[1].1, &[0.899265, 0.521324], 5e-7);
    assert_eq!(pulls, [46506, 2720, 774]);
    let (got, pulls) = phases(OdaafRule::Bounded { delay: 20.0, bound: 30 }, &mut random(&means), 50_000);
    assert_eq!(got.iter().map(|p| p.0).collect::<Vec<_>>(), [655, 1748]);
    assert_eq!(pulls, [47597, 1748, 655]);
}

#[test]
fn ars_exp3_to_the_last_draw() {
    let config = ArsExp3Config::new(3, 100);
    let mut policy = ArsExp3::new(config).unwrap();
    let mut starts = vec![1];
    (1..=25).for_each(|k| starts.push(starts[k - 1] + config.slots(k as u64)));
    let mut arms = Vec::new();
    run(&mut policy, &mut alternating(100), 100, |slot, arm, policy| {
        if starts.contains(&slot) {
            arms.push(arm);
        }
        let p = policy.probabilities();
        assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-12 && p.iter().all(|p| *p >= config.gamma() / 3.0));
    });
    assert_eq!(config.rounds().0, 25);
    assert!((config.gamma() - 0.2606585061661884).abs() < 1e-15);
    assert_eq!(arms, [2, 0, 0, 0, 0, 2, 0, 2, 0, 1, 0, 1, 1, 1, 1, 0, 0, 1, 0, 1, 2, 0, 1, 1, 0, 0]);
    // The paper's weights start at 1, these at 0.
    close(policy.weights(), &[7.2137704928, 6.7502629297, 1.5261079275], 1e-9);
}

#[test]
fn clw_to_the_last_update() {
    let config = ClwConfig::new(3, 300, 4);
    let mut policy = Clw::new(config).unwrap();
    let (mut updates, mut arms, mut fresh) = (Vec::new(), Vec::new(), true);
    run(&mut policy, &mut alternating(300), 300, |slot, arm, policy| {
        if fresh {
            arms.push(arm);
        }
        fresh = policy.updates() > updates.len() as u64;
        if fresh {
            updates.push(slot);
        }
    });
    assert!((config.gamma() - 0.29450390337884674).abs() < 1e-15);
    assert_eq!(
        updates,
        [4, 15, 34, 43, 55, 71, 89, 98, 115, 136, 150, 160, 203, 211, 219, 236, 277, 286, 296]
    );
    assert_eq!(arms, [2, 2, 1, 0, 0, 0, 2, 1, 0, 0, 1, 0, 1, 1, 1, 0, 0, 2, 1, 0]);
    close(&policy.probabilities(), &[0.4515194177, 0.3216207126, 0.2268598697], 1e-10);
}

#[test]
fn ars_clw_to_the_last_update() {
    let mut policy = ArsClw::new(ArsClwConfig::new(3)).unwrap();
    // Slot, arm; a new arm stands after an update and at the start of a phase.
    let (mut updates, mut arms) = (vec![Vec::new(); 3], vec![Vec::new(); 3]);
    let mut p = vec![Vec::new(); 3];
    let mut fresh = true;
    run(&mut policy, &mut alternating(256), 256, |slot, arm, policy| {
        let phase = if slot <= 64 {
            0
        } else if slot <= 128 {
            1
        } else {
            2
        };
        if fresh || slot == 65 || slot == 129 {
            arms[phase].push(arm);
        }
        fresh = policy.phase().updates() > updates[phase].len() as u64;
        if fresh {
            updates[phase].push(slot);
        }
        p[phase] = policy.phase().probabilities();
        let (d, gamma) = [(4, 0.622692149981), (6, 0.54327669754), (7, 0.41886010498)][phase];
        assert_eq!(policy.phase().config().interval, d);
        assert!((policy.phase().config().gamma() - gamma).abs() < 1e-11);
    });
    assert_eq!(updates, [vec![4, 23, 44, 60], vec![68, 92, 114], vec![148, 189, 204, 227]]);
    assert_eq!(arms, [vec![2, 1, 1, 0, 1], vec![0, 0, 2, 1], vec![2, 0, 1, 2, 2]]);
    close(&p[0], &[0.3470935190, 0.3444644350, 0.3084420460], 1e-10);
    close(&p[1], &[0.3758227731, 0.3120886134, 0.3120886134], 1e-10);
    close(&p[2], &[0.3524921729, 0.3352386178, 0.3122692093], 1e-10);
}
