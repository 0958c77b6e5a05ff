//! The paper's table: probit, d = 3, K = 20, T = 5000, on the published instance. Our own figures are
//! compared with those of an independent implementation in numpy (ten repetitions; mean and standard error),
//! not with the paper's, whose private rows come from code that was corrected later.

use bandit::{Features, Policy, Summary, play};
use glm::baseline::{GlmUcb, Gloc};
use glm::joint::{Estimate, JointConfig, JointGlm, Published};
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

    /// As the published code runs it, with its aliased H or without.
    fn rs_as_run(&self, aliased: bool, lambda: f64) -> JointGlm {
        let config = JointConfig::rs_glinucb_as_run(self.problem());
        let published = Published { aliased, ..config.published };
        JointGlm::new(JointConfig { published, estimate: Estimate::Exact { lambda }, ..config }).unwrap()
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
    agree("RS as run", setting(3.0).regrets(4, || setting(3.0).rs_as_run(true, 1e-5)), (167.7, 3.3));
    agree("GLOC as run", two.regrets(3, || Gloc::as_published(two.problem()).unwrap()), (381.5, 1.6));
    agree("GLOC", two.regrets(3, || Gloc::new(two.problem()).unwrap()), (276.0, 1.5));
    agree("private, epsilon 8", two.regrets(6, || two.private(8.0)), (430.6, 6.3));
}

#[test]
#[ignore = "long: minutes"]
fn whole_table() {
    type Cell = (f64, f64);
    type Row = (f64, [Cell; 4], [Cell; 3], [Cell; 3]);
    let rows: [Row; 3] = [
        (
            2.0,
            [(1061.0, 19.4), (670.0, 15.4), (509.4, 8.2), (430.6, 6.3)],
            [(313.5, 71.4), (286.9, 73.1), (178.5, 4.6)],
            [(381.5, 1.6), (276.0, 1.5), (1408.1, 4.6)],
        ),
        (
            2.5,
            [(1139.3, 20.5), (713.2, 16.1), (538.5, 9.5), (451.8, 6.9)],
            [(152.4, 28.1), (157.2, 17.1), (137.0, 3.4)],
            [(625.8, 2.5), (518.1, 1.2), (1944.3, 4.5)],
        ),
        (
            3.0,
            [(1177.9, 20.9), (731.4, 16.7), (549.9, 10.2), (458.9, 7.2)],
            [(167.7, 3.3), (172.2, 2.9), (175.3, 1.0)],
            [(1346.9, 7.0), (1057.3, 1.9), (2323.1, 2.9)],
        ),
    ];
    for (s, private, [aliased, repaired, clean], [gloc_run, gloc, glm_ucb]) in rows {
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
        let name = |row: &str| format!("S = {s}, RS {row}");
        agree(&name("repaired"), at.regrets(40, || at.rs_as_run(false, 1e-5)), repaired);
        agree(&name("as run"), at.regrets(40, || at.rs_as_run(true, 1e-5)), aliased);
    }
}

/// The paper's own RS-GLinUCB row, 295.27, 168.83, 194.53: ten runs each, no errors given. With the
/// regulariser of the bonus, 0.5, in the estimates too, each lies within three deviations of a mean of ten;
/// with next to none, as in the code that was published, the last does not.
#[test]
#[ignore = "long: a minute"]
fn paper_regularised_its_estimates() {
    let distances = |lambda: f64| {
        [(2.0, 295.27), (2.5, 168.83), (3.0, 194.53)].map(|(s, paper)| {
            let at = setting(s);
            let ours = at.regrets(40, || at.rs_as_run(true, lambda));
            println!(
                "S = {s}, lambda {lambda}: {:.1} +- {:.1}, paper {paper}",
                ours.mean, ours.standard_error
            );
            let of_ten = ours.standard_error * (40f64 / 10.0).sqrt();
            (paper - ours.mean) / of_ten.hypot(ours.standard_error)
        })
    };
    let (published, regularised) = (distances(1e-5), distances(0.5));
    println!("{published:?} {regularised:?}");
    assert!(regularised.iter().all(|d| d.abs() < 3.0) && published[2] > 3.0);
}
