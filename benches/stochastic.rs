//! Rounds a second of the stochastic policies, environment included, and exact draws a second.

use bandit::stochastic::{AnytimeLazyUcb, BernoulliArms, DpSe, HybridUcb, Noise, SETTING_1, Tree, Ucb1};
use bandit::{Environment, Policy};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use privacy::Ratio;
use privacy::budget::Epsilon;
use privacy::laplace::{GridLaplace, HarnessLaplace};
use privacy::sampler::discrete_gaussian;
use privacy::source::SplitMix64;

fn run(mut policy: impl Policy<Context = (), Feedback = f64>, rounds: u64) -> f64 {
    let mut arms = BernoulliArms::new(&SETTING_1).expect("means in range");
    let (mut environment, mut noise) = (SplitMix64::new(7), SplitMix64::noise(7));
    let mut regret = 0.0;
    for _ in 0..rounds {
        arms.begin(&mut environment);
        let arm = policy.decide(&(), &mut noise).expect("no context to refuse");
        regret += arms.play(arm, &mut environment).expect("an arm").regret;
        policy.learn(&(), arm, arms.feedback().expect("played"), &mut noise).expect("in turn");
    }
    regret
}

fn epsilon() -> Epsilon {
    Epsilon::new(0.5).expect("positive")
}

fn lazy(noise: impl Noise) -> impl Policy<Context = (), Feedback = f64> {
    AnytimeLazyUcb::new(5, epsilon(), noise).expect("parameters in range")
}

fn rounds(c: &mut Criterion) {
    let mut group = c.benchmark_group("stochastic/run/k=5");
    let long = 1 << 22;
    group.sample_size(10).throughput(Throughput::Elements(long));
    let id = |policy: &str| BenchmarkId::new(policy, "t=2^22");
    group.bench_function(id("anytime_lazy_ucb/harness"), |b| b.iter(|| run(lazy(HarnessLaplace), long)));
    let grid = GridLaplace::new(20).expect("bits in range");
    group.bench_function(id("anytime_lazy_ucb/grid"), |b| b.iter(|| run(lazy(grid), long)));
    let beta = 1.0 / long as f64;
    let dp_se = || DpSe::new(5, epsilon(), beta, HarnessLaplace).expect("parameters in range");
    group.bench_function(id("dp_se"), |b| b.iter(|| run(dp_se(), long)));
    group.bench_function(id("ucb1"), |b| b.iter(|| run(Ucb1::new(5).expect("arms"), long)));
    let short = 1 << 18;
    group.throughput(Throughput::Elements(short));
    let hybrid =
        || HybridUcb::new(5, epsilon(), Tree::Corrected, HarnessLaplace).expect("parameters in range");
    group.bench_function(BenchmarkId::new("hybrid_ucb", "t=2^18"), |b| b.iter(|| run(hybrid(), short)));
}

fn draws(c: &mut Criterion) {
    let mut group = c.benchmark_group("stochastic/draw");
    for sigma in [1.5, 700.0, 3e5] {
        let variance = Ratio::from_f64(sigma * sigma / 3.0).expect("in range");
        group.bench_function(BenchmarkId::new("discrete_gaussian", sigma), |b| {
            let mut words = SplitMix64::noise(7);
            b.iter(|| discrete_gaussian(&mut words, variance).expect("in range"));
        });
    }
}

criterion_group!(benches, rounds, draws);
criterion_main!(benches);
