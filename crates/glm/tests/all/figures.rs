//! The paper's figure 1 on the published instances, against an independent implementation; purchases; speed.

use bandit::datasets::{CRACKER, PurchaseLog, Purchases, YOGURT};
use bandit::{Features, History, Policy, Summary, play};
use glm::baseline::{Ecolog, GlmUcb, Gloc};
use glm::joint::{JointConfig, JointGlm};
use glm::{GlmEnvironment, Instance, Link, Problem, published};
use privacy::budget::Epsilon;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::sync::Arc;

const DELTA: f64 = 0.02;

struct Figure {
    instance: Arc<Instance>,
    problem: Problem,
    kappa_star: f64,
}

fn figure(link: Link, s: f64, horizon: usize) -> Figure {
    let (d, k) = (5, 20);
    let instance = Arc::new(published::instance(published::SEED, d, k, horizon, s).unwrap());
    let (kappa, kappa_star) = (instance.kappa(link), instance.kappa_star(link));
    Figure {
        instance,
        problem: Problem { d, k, link, s, kappa, delta: DELTA, horizon: horizon as u64 },
        kappa_star,
    }
}

impl Figure {
    fn run<P: Policy<Context = Features, Feedback = f64>>(&self, mut policy: P, seed: u64) -> History {
        let mut environment = GlmEnvironment::new(self.instance.clone(), self.problem.link).unwrap();
        let (mut a, mut b) = (ChaCha8Rng::seed_from_u64(2 * seed), ChaCha8Rng::seed_from_u64(2 * seed + 1));
        play(&mut policy, &mut environment, usize::MAX, &mut a, &mut b).unwrap()
    }

    /// Within three standard errors of the difference.
    fn agrees<P>(&self, what: &str, runs: u64, make: impl Fn() -> P, (mean, standard_error): (f64, f64))
    where
        P: Policy<Context = Features, Feedback = f64>,
    {
        let regrets: Vec<f64> = (0..runs).map(|seed| self.run(make(), seed).regret()).collect();
        let ours = Summary::of(&regrets).unwrap();
        println!("{what}: {:.1} +- {:.1} against {mean} +- {standard_error}", ours.mean, ours.standard_error);
        let error = ours.standard_error.hypot(standard_error);
        assert!(
            (ours.mean - mean).abs() <= 3.0 * error,
            "{what}: {ours:?} against {mean} +- {standard_error}"
        );
    }

    fn rs(&self) -> JointGlm {
        JointGlm::new(JointConfig::rs_glinucb(self.problem.clone())).unwrap()
    }

    fn published(&self, epsilon: f64) -> JointGlm {
        let epsilon = Epsilon::new(epsilon).unwrap();
        JointGlm::new(JointConfig::published(self.problem.clone(), self.kappa_star, epsilon).unwrap())
            .unwrap()
    }
}

#[test]
#[ignore = "long: a minute"]
fn figure_1a() {
    let f = figure(Link::Logistic, 3.5, 15_000);
    assert!((f.problem.kappa - 33.762).abs() < 5e-4);
    f.agrees("RS clean", 5, || f.rs(), (406.0, 13.0));
    f.agrees("ECOLog", 3, || Ecolog::new(f.problem.clone()).unwrap(), (561.0, 3.0));
    f.agrees("GLOC", 3, || Gloc::as_published(f.problem.clone()).unwrap(), (1456.0, 17.0));
    for (epsilon, want) in [(2.0, (1421.0, 81.0)), (4.0, (1088.0, 19.0)), (8.0, (798.0, 13.0))] {
        f.agrees(&format!("private, epsilon {epsilon}"), 5, || f.published(epsilon), want);
    }
}

#[test]
#[ignore = "long: a minute"]
fn figure_1b() {
    let f = figure(Link::Probit, 3.0, 5000);
    assert!((f.problem.kappa - 193.184).abs() < 5e-3);
    f.agrees("RS clean", 5, || f.rs(), (347.0, 4.0));
    f.agrees("GLOC", 5, || Gloc::as_published(f.problem.clone()).unwrap(), (1369.0, 7.0));
    f.agrees("GLM-UCB", 2, || GlmUcb::new(f.problem.clone(), 5, true).unwrap(), (2217.0, 5.0));
    for (epsilon, want) in [(2.0, (1152.0, 58.0)), (4.0, (757.0, 25.0)), (8.0, (548.0, 21.0))] {
        f.agrees(&format!("private, epsilon {epsilon}"), 10, || f.published(epsilon), want);
    }
}

/// The private profile over 15,000 rounds, d = 5, K = 20: noise of integers included, far below 20 s of a
/// processor.
#[cfg(unix)]
#[test]
fn a_whole_private_run_is_quick() {
    let f = figure(Link::Logistic, 3.5, 15_000);
    let epsilon = Epsilon::new(8.0).unwrap();
    let config = JointConfig::private(f.problem.clone(), epsilon, 2.0, 2.0).unwrap();
    // Beside other tests a thread may wait for a processor for many times as long as it computes.
    let seconds = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
    };
    let start = seconds();
    let regret = f.run(JointGlm::new(config).unwrap(), 1).regret();
    let taken = seconds() - start;
    println!("{taken:.2} s, regret {regret:.0}");
    assert!(taken < 20.0);
}

/// The logistic link on real purchases: without noise the policy beats always proposing the commonest brand,
/// and the private profile runs on the same data and states its privacy.
#[test]
fn purchases_are_learnt() {
    for (name, file) in [("Yogurt", YOGURT), ("Cracker", CRACKER)] {
        let purchases = Arc::new(Purchases::read(file.as_bytes()).unwrap());
        let (s, k, horizon) = (3.0, purchases.brands().len(), purchases.rounds().len() as u64);
        let kappa = Link::Logistic.kappa(s);
        let problem = Problem { d: purchases.d(), k, link: Link::Logistic, s, kappa, delta: 0.01, horizon };
        let rate = |config: JointConfig| {
            let (mut a, mut b) = (ChaCha8Rng::seed_from_u64(1), ChaCha8Rng::seed_from_u64(2));
            let mut policy = JointGlm::new(config).unwrap();
            let log = &mut PurchaseLog::new(purchases.clone());
            play(&mut policy, log, usize::MAX, &mut a, &mut b).unwrap().mean_reward()
        };
        let clear = rate(JointConfig {
            gamma: 1.0,
            beta: 0.3,
            explore_at: 0.5,
            ..JointConfig::rs_glinucb(problem.clone())
        });
        let private = JointConfig::private(problem, Epsilon::new(8.0).unwrap(), 1.0, 0.3).unwrap();
        println!("{name}: {clear:.4}, fixed {:.4}, private {:.4}", purchases.best_fixed().1, rate(private));
        assert!(clear > purchases.best_fixed().1);
    }
}
