//! The paper's table: probit, d = 3, K = 20, T = 5000, on the published instance. Our own figures are
//! compared with those of an independent implementation in numpy (ten repetitions; mean and standard error),
//! not with the paper's, whose private rows come from code that was corrected later.

use bandit::{Features, Policy, Summary, play};
use glm::baseline::{GlmUcb, Gloc};
use glm::joint::{JointConfig, JointGlm};
use glm::{GlmEnvironment, Instance, Link, Problem, published};
use privacy::budget::Epsilon;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::sync::Arc;

const D: usize = 3;
const K: usize = 20;
const T: usize = 5000;
const DELTA: f64 = 0.02;

struct Setting {
    s: f64,
    instance: Arc<Instance>,
    kappa: f64,
    kappa_star: f64,
}

fn setting(s: f64) -> Setting {
    let instance = Arc::new(published::instance(published::SEED, D, K, T, s).unwrap());
    let (kappa, kappa_star) = (instance.kappa(Link::Probit), instance.kappa_star(Link::Probit));
    Setting { s, instance, kappa, kappa_star }
}

impl Setting {
    fn regrets<P>(&self, repetitions: u64, make: impl Fn() -> P) -> Summary
    where
        P: Policy<Context = Features, Feedback = f64>,
    {
        let one = |seed| {
            let mut environment = GlmEnvironment::new(self.instance.clone(), Link::Probit).unwrap();
            let mut rngs = [2 * seed, 2 * seed + 1].map(ChaCha8Rng::seed_from_u64);
            let [a, b] = &mut rngs;
            play(&mut make(), &mut environment, T, a, b).unwrap().regret()
        };
        Summary::of(&(0..repetitions).map(one).collect::<Vec<_>>()).unwrap()
    }

    fn problem(&self) -> Problem {
        let Self { s, kappa, .. } = *self;
        Problem { d: D, k: K, link: Link::Probit, s, kappa, delta: DELTA, horizon: T as u64 }
    }

    fn rs(&self) -> JointGlm {
        JointGlm::new(JointConfig::rs_glinucb(self.problem())).unwrap()
    }

    fn rs_as_run(&self) -> JointGlm {
        JointGlm::new(JointConfig::rs_glinucb_as_run(self.problem())).unwrap()
    }

    fn private(&self, epsilon: f64) -> JointGlm {
        let epsilon = Epsilon::new(epsilon).unwrap();
        JointGlm::new(JointConfig::published(self.problem(), self.kappa_star, epsilon).unwrap()).unwrap()
    }
}

/// Within three standard errors of the difference.
fn agree(what: &str, ours: Summary, (mean, standard_error): (f64, f64)) {
    println!("{what}: {:.1} +- {:.1} against {mean} +- {standard_error}", ours.mean, ours.standard_error);
    let error = ours.standard_error.hypot(standard_error);
    assert!((ours.mean - mean).abs() <= 3.0 * error, "{what}: {ours:?} against {mean} +- {standard_error}");
}

#[test]
fn part_of_the_table() {
    let two = setting(2.0);
    agree("RS clean", two.regrets(4, || two.rs()), (178.5, 4.6));
    agree("RS as run", setting(3.0).regrets(12, || setting(3.0).rs_as_run()), (188.0, 4.5));
    agree("GLOC as run", two.regrets(3, || Gloc::as_published(two.problem()).unwrap()), (381.5, 1.6));
    agree("GLOC", two.regrets(3, || Gloc::new(two.problem()).unwrap()), (276.0, 1.5));
    agree("private, epsilon 8", two.regrets(6, || two.private(8.0)), (430.6, 6.3));
}

#[test]
#[ignore = "long: minutes"]
fn whole_table() {
    type Cell = (f64, f64);
    type Row = (f64, [Cell; 4], Cell, [Cell; 3]);
    let rows: [Row; 3] = [
        (
            2.0,
            [(1061.0, 19.4), (670.0, 15.4), (509.4, 8.2), (430.6, 6.3)],
            (178.5, 4.6),
            [(381.5, 1.6), (276.0, 1.5), (1408.1, 4.6)],
        ),
        (
            2.5,
            [(1139.3, 20.5), (713.2, 16.1), (538.5, 9.5), (451.8, 6.9)],
            (137.0, 3.4),
            [(625.8, 2.5), (518.1, 1.2), (1944.3, 4.5)],
        ),
        (
            3.0,
            [(1177.9, 20.9), (731.4, 16.7), (549.9, 10.2), (458.9, 7.2)],
            (175.3, 1.0),
            [(1346.9, 7.0), (1057.3, 1.9), (2323.1, 2.9)],
        ),
    ];
    for (s, private, clean, [gloc_run, gloc, glm_ucb]) in rows {
        let at = setting(s);
        for (epsilon, want) in [2.0, 4.0, 6.0, 8.0].into_iter().zip(private) {
            let ours = at.regrets(20, || at.private(epsilon));
            agree(&format!("S = {s}, private, epsilon {epsilon}"), ours, want);
        }
        agree(&format!("S = {s}, RS clean"), at.regrets(10, || at.rs()), clean);
        agree(
            &format!("S = {s}, GLOC as run"),
            at.regrets(5, || Gloc::as_published(at.problem()).unwrap()),
            gloc_run,
        );
        agree(&format!("S = {s}, GLOC"), at.regrets(5, || Gloc::new(at.problem()).unwrap()), gloc);
        agree(
            &format!("S = {s}, GLM-UCB"),
            at.regrets(3, || GlmUcb::new(at.problem(), 5, true).unwrap()),
            glm_ucb,
        );
    }
}

/// RS-GLinUCB as published against the published code itself, run with scipy (20 or 40 runs), and against the
/// paper's row, a mean of ten runs without an error, which is taken from ours.
#[test]
#[ignore = "long: a minute"]
fn rs_glinucb_is_as_published() {
    for (s, code, paper) in
        [(2.0, (252.0, 42.0), 295.27), (2.5, (187.0, 13.0), 168.83), (3.0, (188.0, 4.5), 194.53)]
    {
        let at = setting(s);
        let ours = at.regrets(40, || at.rs_as_run());
        agree(&format!("S = {s}, the published code"), ours, code);
        agree(&format!("S = {s}, the paper"), ours, (paper, ours.standard_error * 2.0));
    }
}
