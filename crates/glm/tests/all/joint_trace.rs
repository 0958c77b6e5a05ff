//! Algorithm 2 without noise, step by step, and what its decisions may and may not read.

use bandit::{Features, Policy, play};
use glm::joint::{Estimate, Growth, JointConfig, JointGlm, Published, Region, Release, Trigger, WarmUp};
use glm::{GlmEnvironment, Link, Problem, published};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::sync::Arc;

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// The paper's algorithm with exact estimates.
fn exact() -> JointConfig {
    JointConfig {
        problem: Problem {
            d: 2,
            k: 2,
            link: Link::Logistic,
            s: 20.0,
            kappa: 3.9,
            delta: 0.01,
            horizon: 100_000,
        },
        reward_max: 1.0,
        lambda: 1.0,
        gamma: 1.0,
        beta: 0.5,
        explore_at: 1.0 / 3.9,
        growth: Growth::Determinant(2.0),
        trigger: Trigger::Exploiting,
        warm_up: WarmUp::EveryExploration,
        release: Release::Exact,
        estimate: Estimate::Exact { lambda: 1.0 },
        region: Region::Ellipsoid,
        max_warm_up_calls: u32::MAX,
        max_running_calls: u32::MAX,
        published: Published::default(),
    }
}

/// Arms by parity of the round; reward 1 iff the first coordinate is at least 0.7.
#[test]
fn trace_without_noise() {
    let sets = [[0.6, 0.8, 0.8, -0.6], [1.0, 0.0, 0.0, 1.0]];
    let explorations = [
        (0, 1.0, [0.401058, 0.0]),
        (0, 0.82, [0.181864, -0.363727]),
        (1, 0.648352, [0.207969, -0.660850]),
        (1, 0.5, [0.405944, -0.811889]),
        (0, 0.333333, [0.643270, -0.814909]),
        (0, 0.303333, [0.511452, -1.022904]),
        (1, 0.278772, [0.522813, -1.175877]),
    ];
    let mut policy = JointGlm::new(exact()).unwrap();
    let rng = &mut rng(0);
    let near = |a: f64, b: f64| assert!((a - b).abs() < 6e-7, "{a} {b}");
    for t in 1..=20 {
        let set = Features::new(sets[t % 2].to_vec(), 2).unwrap();
        let v_inverse = policy.billboard().v().inverse().unwrap();
        let leverage = set.rows().map(|x| v_inverse.quadratic_form(x)).fold(0.0, f64::max);
        let arm = policy.decide(&set, rng).unwrap();
        assert_eq!(policy.exploring(), Some(t <= 7));
        let reward = f64::from(set.row(arm).unwrap()[0] >= 0.7);
        let index: Vec<f64> = set.rows().map(|x| policy.billboard().index(&exact(), x)).collect();
        let running = policy.billboard().running().map(|(theta, round)| (theta.to_vec(), round));
        policy.learn(&set, arm, &reward, rng).unwrap();
        let det_h = policy.billboard().h().log_det().unwrap().exp();
        match t {
            1..=7 => {
                let (want, q, theta) = explorations[t - 1];
                assert_eq!(arm, want);
                near(leverage, q);
                policy.billboard().warm_up().iter().zip(theta).for_each(|(a, b)| near(*a, b));
            }
            8 => {
                assert_eq!((running.unwrap().0.as_slice(), arm), (policy.billboard().warm_up(), 1));
                near(index[0], -0.127013);
                near(index[1], 1.623776);
                near(det_h, 1.068107);
            }
            9 => {
                assert_eq!(arm, 0);
                near(index[0], 1.022813);
                near(index[1], -0.675877);
                near(det_h, 1.156175);
            }
            10 => near(det_h, 1.226390),
            11 => near(det_h, 1.316566),
            12 => near(det_h, 1.388888),
            20 => {
                let (theta, round) = running.unwrap();
                assert_eq!(round, 19);
                near(theta[0], 1.38278823);
                near(theta[1], -0.87304536);
            }
            _ => assert_eq!(running.unwrap().1, 7, "renewed in round {t}"),
        }
    }
    policy.billboard().v().values().iter().zip([4.36, 0.48, 0.48, 4.64]).for_each(|(a, b)| near(*a, b));
}

/// On random arms the number of explorations without noise is that of an independent implementation: it
/// depends on the arms alone. And it is within the bound `8 d R^2 kappa gamma^2 ln T`.
#[test]
fn explorations_without_noise() {
    let (d, k, t, s) = (2, 10, 40_000, 2.0);
    let instance = Arc::new(published::instance(7, d, k, t, s).unwrap());
    let kappa = instance.kappa(Link::Probit);
    for (gamma, want) in [(5.0f64, 1005.0), (10.0, 4025.0)] {
        let problem = Problem { d, k, link: Link::Probit, s, kappa, delta: 0.001, horizon: t as u64 };
        let config = JointConfig {
            problem,
            gamma,
            beta: 2.0,
            explore_at: 1.0 / (gamma * gamma * kappa),
            warm_up: WarmUp::PowersOfTwo,
            ..exact()
        };
        let mut policy = JointGlm::new(config).unwrap();
        let mut environment = GlmEnvironment::new(instance.clone(), Link::Probit).unwrap();
        let history = play(&mut policy, &mut environment, t, &mut rng(1), &mut rng(2)).unwrap();
        println!(
            "gamma {gamma}: {} explorations, regret {:.1}",
            policy.billboard().explorations(),
            history.regret()
        );
        assert_eq!(policy.billboard().explorations(), want);
        assert!(want <= 8.0 * d as f64 * kappa * gamma * gamma * (t as f64).ln());
    }
}
