//! The ledger of JointGLM against hand calculations, and the noise it rests on.

use bandit::{Features, Policy};
use fault::OutOfRange;
use glm::joint::{Estimate, JointConfig, JointGlm, Release, Trigger, WarmUp};
use glm::{Descent, Error, Link, Problem};
use privacy::budget::{Delta, Epsilon, Rho};
use privacy::{Definition, Trust};
use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::Value;

fn private(d: usize, k: usize, horizon: u64, epsilon: f64) -> JointConfig {
    let problem = Problem { d, k, link: Link::Logistic, s: 1.0, kappa: 5.1, delta: 0.02, horizon };
    JointConfig::private(problem, Epsilon::new(epsilon).unwrap(), 2.0, 2.0).unwrap()
}

struct Costs {
    horizon: u64,
    sigma: f64,
    steps: u32,
    clip: f64,
    warm_up: (f64, u32),
    running: (f64, u32),
}

fn configured(c: Costs) -> JointConfig {
    let config = private(3, 20, c.horizon, 4.0);
    let Estimate::Descent { descent, .. } = config.estimate else { unreachable!() };
    JointConfig {
        release: Release::Joint { sigma: c.sigma },
        estimate: Estimate::Descent {
            descent: Descent { steps: c.steps, clip: c.clip, burn_in: 0, ..descent },
            sigma_warm_up: c.warm_up.0,
            sigma_running: c.running.0,
            discrete: true,
        },
        max_warm_up_calls: c.warm_up.1,
        max_running_calls: c.running.1,
        ..config
    }
}

/// Three settings, each with another dearest case. Rounding to the grid adds less than a part in a thousand.
#[test]
fn ledger_matches_hand_calculations() {
    let check = |config: &JointConfig, want: f64| {
        let rho = config.rho().unwrap().get();
        assert!(rho >= want && rho < 1.001 * want, "{rho} against {want}");
    };
    // Explores in one run only. Tree 4 * 3 / 8; sums 15 / 4 / 200 and 10 / 4 / 800.
    let mixed = Costs { horizon: 8, sigma: 2.0, steps: 5, clip: 0.5, warm_up: (10.0, 3), running: (20.0, 2) };
    check(&configured(mixed), 1.5 + 0.01875 + 0.003125);
    // In neither. Tree 14 * 2 / 128; running sums 600 * 4 / 7200.
    let costs = || Costs {
        horizon: 5000,
        sigma: 8.0,
        steps: 30,
        clip: 1.0,
        warm_up: (50.0, 10),
        running: (60.0, 20),
    };
    check(&configured(costs()), 0.21875 + 1.0 / 3.0);
    // Shared rows: in both. Tree as before; warm-up sums 300 * 4 / 5000, running sums as before.
    let mut shared = configured(costs());
    shared.published.shared_rows = true;
    check(&shared, 0.21875 + 0.24 + 1.0 / 3.0);
}

/// What is stated is what was asked for or less, however small; or the request is refused, by the name of
/// what is wrong.
#[test]
fn no_promise_is_larger_than_what_was_asked_for() {
    let mut refused = 0;
    for (d, horizon, delta) in [(3, 100, 0.1), (5, 20_000, 1e-3), (64, 100_000, 1e-6)] {
        for exponent in [3, 1, 0, -1, -2, -3, -4, -5, -6, -8, -100, -300] {
            let problem = Problem { d, k: 4, link: Link::Logistic, s: 1.0, kappa: 5.1, delta, horizon };
            let epsilon = 10f64.powi(exponent);
            match JointConfig::private(problem, Epsilon::new(epsilon).unwrap(), 2.0, 2.0) {
                Ok(config) => {
                    let stated = config.privacy().unwrap().epsilon.unwrap().get();
                    let least = if exponent >= -2 { 0.997 } else { 0.4 };
                    assert!(stated <= epsilon && stated > least * epsilon, "{stated} of {epsilon}, d = {d}");
                    // And it can be made.
                    let mut policy = JointGlm::new(config).unwrap();
                    let (set, rng) = (vec![0.1; 4 * d], &mut ChaCha8Rng::seed_from_u64(1));
                    let set = Features::new(set, d).unwrap();
                    let arm = policy.decide(&set, rng).unwrap();
                    policy.learn(&set, arm, &1.0, rng).unwrap();
                }
                Err(glm::Error::OutOfRange(OutOfRange { field: "epsilon", .. })) => refused += 1,
                Err(error) => panic!("{epsilon}, d = {d}: {error}"),
            }
        }
    }
    assert!((6..24).contains(&refused), "{refused} refused");
}

/// The private profile spends its budget and no more; epsilon is stated at the delta of the problem.
#[test]
fn private_profile_spends_its_budget() {
    for (d, horizon, epsilon) in [(1, 8, 0.5), (3, 5000, 4.0), (5, 15_000, 8.0), (2, 1 << 20, 1.0)] {
        let config = private(d, 20, horizon, epsilon);
        let budget = Rho::within(Epsilon::new(epsilon).unwrap(), Delta::new(0.02).unwrap()).unwrap().get();
        let rho = config.rho().unwrap().get();
        assert!(rho <= budget && rho > 0.998 * budget, "{rho} of {budget}");
        let statement = config.privacy().unwrap();
        assert_eq!((statement.definition, statement.trust), (Definition::Joint, Some(Trust::Central)));
        let stated = statement.epsilon.unwrap().get();
        assert!(stated <= epsilon && stated > 0.998 * epsilon && statement.delta.get() == 0.02);
    }
    // The tree's noise at T = 5000, d = 3, epsilon = 4: root 3 of the unit tree at 3/4 of 0.999 rho.
    let config = private(3, 20, 5000, 4.0);
    let Release::Joint { sigma } = config.release else { unreachable!() };
    assert!((sigma - 7.7618 * (0.5f64 / 0.75 / 0.999).sqrt()).abs() < 1e-4);
    // By hand, on 14 levels: sqrt 2 · sqrt 14 · (sqrt(2 · 3) + sqrt(2 ln(2 · 5000 / 0.02))).
    assert!((config.lambda / sigma - 40.069_641_591).abs() < 1e-8);
}

#[test]
fn what_no_noise_hides_is_not_called_private() {
    let good = private(2, 5, 100, 2.0);
    assert!(good.rho().is_some());
    let changes: [fn(&mut JointConfig); 5] = [
        |c| c.release = Release::Exact,
        |c| c.release = Release::Separate { sigma_v: 9.0, sigma_h: 9.0 },
        |c| c.estimate = Estimate::Exact { lambda: 1.0 },
        |c| c.trigger = Trigger::Exploiting,
        |c| c.warm_up = WarmUp::PowersOfTwo,
    ];
    for change in changes {
        let mut config = good.clone();
        change(&mut config);
        let statement = config.privacy().unwrap();
        assert_eq!((statement.definition, statement.epsilon), (Definition::None, None), "{statement}");
    }
}

/// No estimate beyond those that the ledger counts, the first renewal included.
#[test]
fn calls_keep_to_what_is_paid_for() {
    for calls in [0, 1, 2] {
        let mut config = private(2, 1, 64, 4.0);
        (config.max_running_calls, config.max_warm_up_calls) = (calls, calls);
        // Everything triggers: noise moves the determinants by more than this.
        config.growth = glm::joint::Growth::Determinant(1.0001);
        let mut policy = JointGlm::new(config).unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        (0..64).for_each(|_| learn(&mut policy, &[0.6, 0.8], &mut rng));
        let (warm_up, running) = policy.billboard().calls();
        assert!(warm_up <= calls && running == calls, "{warm_up} and {running} of {calls}");
        assert!(policy.billboard().running().is_some());
    }
}

/// Whatever is accepted learns: budgets, deltas, widths and shapes at their ends. What the noise cannot carry
/// is refused when the policy is made, by name.
#[test]
fn what_is_accepted_learns() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let (mut accepted, mut refused) = (0, 0);
    let links = [Link::Logistic, Link::Probit, Link::Linear, Link::Poisson];
    for i in 0..4u32.pow(5) {
        let at = |place: u32| (i / 4u32.pow(place) % 4) as usize;
        let problem = Problem {
            d: [2, 2, 3, 5][at(0)],
            k: 1,
            link: links[at(1)],
            s: [0.1, 1.0, 2.0, 5.0][at(0)],
            kappa: [1e-3, 4.0, 1e6, 1e12][at(4)],
            delta: [1e-300, 1e-30, 0.01, 0.999][at(2)],
            horizon: [1, 7, 100_000, (1 << 32) - 1][at(3)],
        };
        for epsilon in [1e-9, 1e-6, 1e-3, 1.0, 1e3, 1e6] {
            let (d, horizon) = (problem.d, problem.horizon);
            match JointConfig::private(problem.clone(), Epsilon::new(epsilon).unwrap(), 2.0, 2.0) {
                Ok(config) => {
                    accepted += 1;
                    let mut policy = JointGlm::new(config).unwrap();
                    let set = Features::new(vec![1.0 / (d as f64).sqrt(); d], d).unwrap();
                    for _ in 0..horizon.min(5) {
                        policy.decide(&set, &mut rng).unwrap();
                        policy
                            .learn(&set, 0, &1.0, &mut rng)
                            .unwrap_or_else(|e| panic!("epsilon {epsilon}, {problem:?}: {e}"));
                    }
                }
                Err(Error::OutOfRange(OutOfRange {
                    field: "epsilon" | "lambda" | "sigma" | "sigma_warm_up" | "sigma_running",
                    ..
                })) => {
                    refused += 1;
                }
                Err(e) => panic!("epsilon {epsilon}, {problem:?}: {e}"),
            }
        }
    }
    println!("{accepted} accepted, {refused} refused");
    assert!(accepted > 2000 && refused > 500);
}

/// The last noise that can be drawn, and the first that cannot; the last values that add up exactly, and
/// more.
#[test]
fn noise_beyond_its_grid_is_refused_by_name() {
    let most = 2f64.powi(28);
    let refusal = |config: &JointConfig| match JointGlm::new(config.clone()) {
        Ok(mut policy) => {
            let mut rng = ChaCha8Rng::seed_from_u64(6);
            (0..8).for_each(|_| learn(&mut policy, &[0.6, 0.8], &mut rng));
            None
        }
        Err(Error::OutOfRange(OutOfRange { field, .. })) => Some(field),
        Err(e) => panic!("{e}"),
    };
    let good = private(2, 1, 8, 4.0);
    let with = |tree: f64, warm_up: f64, running: f64, clip: f64| {
        let Estimate::Descent { descent, .. } = good.estimate else { unreachable!() };
        let descent = Descent { clip, ..descent };
        let estimate =
            Estimate::Descent { descent, sigma_warm_up: warm_up, sigma_running: running, discrete: true };
        refusal(&JointConfig { release: Release::Joint { sigma: tree }, estimate, ..good.clone() })
    };
    let last = most.next_down();
    assert_eq!(with(last, last, last, 1.0), None);
    assert_eq!(with(most, 1.0, 1.0, 1.0), Some("sigma"));
    assert_eq!(with(1.0, most, 1.0, 1.0), Some("sigma_warm_up"));
    assert_eq!(with(1.0, 1.0, most, 1.0), Some("sigma_running"));
    // Whole numbers below 2^40 round, and 2^20 times 2^32 is the last sum that is exact.
    assert_eq!(with(1.0, 1.0, 1.0, 2f64.powi(40).next_down()), None);
    assert_eq!(with(1.0, 1.0, 1.0, 2f64.powi(40)), Some("sigma_warm_up"));
    let long = |clip: f64| {
        let mut config = good.clone();
        config.problem.horizon = 1 << 20;
        let Estimate::Descent { descent, sigma_warm_up, sigma_running, discrete } = config.estimate else {
            unreachable!()
        };
        let descent = Descent { clip, ..descent };
        config.estimate = Estimate::Descent { descent, sigma_warm_up, sigma_running, discrete };
        refusal(&config)
    };
    assert_eq!((long(2f64.powi(32)), long(2f64.powi(32) * 1.01)), (None, Some("sigma_warm_up")));
}

fn learn(policy: &mut JointGlm, x: &[f64], rng: &mut ChaCha8Rng) {
    let set = Features::new(x.to_vec(), 2).unwrap();
    policy.decide(&set, rng).unwrap();
    policy.learn(&set, 0, &1.0, rng).unwrap();
}

/// V's prefixes on zero leaves: variance `popcount(t) sigma^2` on the diagonal, half of that off it, and a
/// node that two prefixes share is the same noise in both (covariances of prefix 4 with 5, 6, 7). 3000 runs;
/// every figure within 5 standard errors of its own (24 figures, false alarm below 2e-5).
#[test]
fn released_prefixes_carry_each_nodes_noise_once() {
    let mut config = private(2, 1, 8, 4.0);
    (config.lambda, config.explore_at) = (1e5, 1e9);
    let Release::Joint { sigma } = config.release else { unreachable!() };
    let runs = 3000;
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let mut noise = vec![[[0.0; 2]; 8]; runs];
    for run in &mut noise {
        let mut policy = JointGlm::new(config.clone()).unwrap();
        for prefix in run {
            learn(&mut policy, &[0.0, 0.0], &mut rng);
            let v = policy.billboard().v().values();
            *prefix = [(v[0] - 1e5) / sigma, v[1] / sigma];
        }
    }
    let n = runs as f64;
    let moment = |a: usize, b: usize, i: usize| noise.iter().map(|z| z[a][i] * z[b][i]).sum::<f64>() / n;
    for t in 0..8usize {
        let want = f64::from((t as u32 + 1).count_ones());
        assert!((moment(t, t, 0) / want - 1.0).abs() < 5.0 * (2.0 / n).sqrt(), "prefix {}", t + 1);
        assert!((moment(t, t, 1) / want - 0.5).abs() < 2.5 * (2.0 / n).sqrt(), "prefix {}", t + 1);
    }
    for t in 4..7 {
        let error = ((f64::from((t as u32 + 1).count_ones()) + 1.0) / n).sqrt();
        assert!((moment(3, t, 0) - 1.0).abs() < 5.0 * error, "prefixes 4 and {}", t + 1);
    }
}

/// One person's arm set changes: the noisy nodes without that leaf stay what they were, to the last bit, and
/// the billboard before that round as well; the nodes with it change.
#[test]
fn only_nodes_with_the_leaf_change() {
    let mut config = private(2, 1, 8, 4.0);
    (config.lambda, config.explore_at) = (1e5, 1e9);
    let run = |third: [f64; 2]| -> Vec<Value> {
        let mut rng = ChaCha8Rng::seed_from_u64(8);
        let mut policy = JointGlm::new(config.clone()).unwrap();
        let mut states = Vec::new();
        for t in 0..8 {
            learn(&mut policy, if t == 2 { &third } else { &[0.6, 0.8] }, &mut rng);
            states.push(serde_json::to_value(&policy).unwrap());
        }
        states
    };
    let (a, b) = (run([1.0, 0.0]), run([0.0, 0.1]));
    let node = |states: &[Value], t: usize| {
        states[t - 1].pointer(&format!("/curator/tree/blocks/{}/noisy", t.trailing_zeros())).unwrap().clone()
    };
    assert_eq!(a[..2], b[..2]);
    for t in [1, 2, 5, 6, 7] {
        assert_eq!(node(&a, t), node(&b, t), "node {t}");
    }
    for t in [3, 4, 8] {
        assert_ne!(node(&a, t), node(&b, t), "node {t}");
    }
}

/// What one round adds to V, to H in units of its largest leaf, and to the count, read off exact prefixes;
/// and whether it explored.
fn leaf(config: &JointConfig, warm_up: &[f64], x: &[f64]) -> (Vec<f64>, bool) {
    let config = JointConfig { release: Release::Exact, ..config.clone() };
    let (lambda, w_max) =
        (config.lambda, config.problem.link.max_slope(config.problem.s) / std::f64::consts::E);
    let mut state = serde_json::to_value(JointGlm::new(config).unwrap()).unwrap();
    state["billboard"]["warm_up"] = warm_up.into();
    let mut policy: JointGlm = serde_json::from_value(state).unwrap();
    learn(&mut policy, x, &mut ChaCha8Rng::seed_from_u64(1));
    let billboard = policy.billboard();
    let diagonal = |i| if i % 3 == 0 { lambda } else { 0.0 };
    let added = |m: &glm::Symmetric, unit: f64| -> Vec<f64> {
        m.values().iter().enumerate().map(|(i, v)| (v - diagonal(i)) / unit).collect()
    };
    let all =
        [added(billboard.v(), 1.0), added(billboard.h(), w_max), vec![billboard.explorations()]].concat();
    (all, billboard.explorations() == 1.0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// The lemma of `docs/joint-privacy.md` on one leaf: whatever the link, the estimate and the arms, leaves
    /// differ by at most root 2 where both explore or neither does, by at most root 3 where one does.
    #[test]
    fn leaves_move_by_root_two_or_root_three(
        angles in (0.0..6.3f64, 0.0..6.3f64),
        lengths in (0.0..1.0f64, 0.0..1.0f64),
        warm_up in prop::collection::vec(-3.0..3.0f64, 2),
        explore_at in 0.0..1.0f64,
        link in prop::sample::select(vec![Link::Logistic, Link::Probit, Link::Linear, Link::Poisson]),
    ) {
        let mut config = private(2, 1, 8, 4.0);
        (config.lambda, config.problem.link) = (1.0, link);
        config.explore_at = explore_at.max(1e-9);
        let arm = |angle: f64, length: f64| {
            let r = length.sqrt();
            [r * angle.cos(), r * angle.sin()]
        };
        let (a, explores_a) = leaf(&config, &warm_up, &arm(angles.0, lengths.0));
        let (b, explores_b) = leaf(&config, &warm_up, &arm(angles.1, lengths.1));
        let moved: f64 = a.iter().zip(&b).map(|(a, b)| (a - b) * (a - b)).sum();
        prop_assert!(moved <= if explores_a == explores_b { 2.0 } else { 3.0 } + 1e-9, "{moved}");
    }
}

/// Both bounds are met: orthogonal arms on one side, and full arms on either.
#[test]
fn the_bounds_on_leaves_are_met() {
    let mut config = private(2, 1, 8, 4.0);
    (config.lambda, config.explore_at) = (1.0, 1e-9);
    let moved = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
    let (zero, one) = ([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]]);
    let explores = one.map(|x| leaf(&config, &zero, &x).0);
    config.explore_at = 2.0;
    let exploits = one.map(|x| leaf(&config, &zero, &x).0);
    for (got, want) in [
        (moved(&explores[0], &explores[1]), 2.0),
        (moved(&exploits[0], &exploits[1]), 2.0),
        (moved(&explores[0], &exploits[1]), 3.0),
    ] {
        assert!((got - want).abs() < 1e-9, "{got} {want}");
    }
}
