//! Attacks on single mechanisms: what they show stays below the stated epsilon, and above it for noise too
//! small.
//!
//! Events are fixed beforehand; all bounds hold together with probability above 0.999.

use privacy::audit::epsilon_at_least;
use privacy::budget::{Delta, Epsilon, Rho, Sensitivity};
use privacy::gauss::{GaussianNoise, GridGaussian, HarnessGaussian};
use privacy::laplace::{GridLaplace, HarnessLaplace, LaplaceNoise};
use privacy::sampler;
use privacy::shuffle::BitSum;
use privacy::source::SplitMix64;
use privacy::tree::Tree;
use rand::Rng;

const QUICK: u64 = 100_000;
const LONG: u64 = 1_000_000;

/// The epsilon shown by `event` on data set 1 (`true`) against data set 0.
fn shown(runs: u64, delta: f64, seed: u64, mut event: impl FnMut(bool, &mut dyn Rng) -> bool) -> f64 {
    let mut rng = SplitMix64::new(seed);
    let hits = [true, false].map(|one| (0..runs).filter(|_| event(one, &mut rng)).count() as u64);
    epsilon_at_least(runs, hits, Delta::new(delta).unwrap(), 1e-5).unwrap()
}

#[track_caller]
fn verdict(what: &str, right: f64, wrong: f64, stated: f64) {
    println!("{what}: at least {right:.3}, stated {stated}; noise too small: at least {wrong:.3}");
    assert!(right < stated, "{right} shown, {stated} stated");
    assert!(right > 0.4 * stated, "an attack that shows {right} of {stated} says nothing");
    assert!(wrong > stated, "noise too small shows only {wrong} of {stated}");
}

/// A sum that moves by 1, epsilon 1; wrong: half the scale.
fn laplace(runs: u64) {
    fn at(runs: u64, scale: f64, mut noise: impl LaplaceNoise) -> f64 {
        shown(runs, 0.0, 1, |one, rng| noise.add(f64::from(one), scale, rng).unwrap() >= 1.0)
    }
    let grid = || GridLaplace::new(10).unwrap();
    verdict("Laplace on a grid", at(runs, 1.0, grid()), at(runs, 0.5, grid()), 1.0);
    verdict("Laplace in floating point", at(runs, 1.0, HarnessLaplace), at(runs, 0.5, HarnessLaplace), 1.0);
}

/// One user in a tree over eight rounds at (4, 0.02): the first item is in four blocks. Wrong: noise for one
/// block.
fn tree(runs: u64) {
    fn at(runs: u64, sigma: f64, mut noise: impl GaussianNoise) -> f64 {
        let cut = 4.0 + sigma * 2.0 * 1.1;
        shown(runs, 0.02, 2, |one, rng| {
            let mut tree = Tree::new(vec![sigma], 8).unwrap();
            let mut score = 0.0;
            for t in 1..=8 {
                tree.add(&[f64::from(one && t == 1)], &mut noise, rng).unwrap();
                if [1u32, 2, 4, 8].contains(&t) {
                    score += tree.prefix()[0];
                }
            }
            score >= cut
        })
    }
    let rho = Rho::within(Epsilon::new(4.0).unwrap(), Delta::new(0.02).unwrap()).unwrap();
    let one = Sensitivity::new(1.0).unwrap();
    let (right, wrong) = (Tree::sigma(rho, one, 8), rho.sigma(one));
    let grid = GridGaussian::new(12).unwrap();
    verdict("tree on a grid", at(runs, right, grid), at(runs, wrong, grid), 4.0);
    verdict(
        "tree in floating point",
        at(runs, right, HarnessGaussian),
        at(runs, wrong, HarnessGaussian),
        4.0,
    );
}

/// 25 users at (1, 0.001). Wrong: the bound printed, which lets a user move the count by twice as many steps.
fn bit_sum(runs: u64) {
    let sum =
        BitSum::calibrated(1.0, 25, 25, 1, Epsilon::new(1.0).unwrap(), Delta::new(1e-3).unwrap()).unwrap();
    let noise = sum.noise_bits() * 25;
    let (mean, sd) = (noise as f64 / 4.0, (3.0 / 16.0 * noise as f64).sqrt());
    let right = shown(runs, 1e-3, 3, |one, rng| {
        let mut values = [-1.0; 25];
        values[0] = if one { 1.0 } else { -1.0 };
        sum.shuffle(&values, rng).unwrap() as f64 >= mean + 1.8 * sd
    });
    let wrong = shown(runs, 1e-3, 3, |one, rng| {
        let steps = if one { 2 * sum.steps() } else { 0 };
        (steps + sampler::binomial_quarter(rng, noise).unwrap()) as f64 >= mean + 2.4 * sd
    });
    verdict("bit sum", right, wrong, 1.0);
}

#[test]
fn audits() {
    laplace(QUICK);
    tree(QUICK);
    bit_sum(QUICK);
}

#[test]
#[ignore = "long: a million pairs a mechanism"]
fn audits_of_a_million() {
    laplace(LONG);
    tree(LONG);
    bit_sum(LONG);
}
