//! Errors of the estimate and regret of distributed elimination, against the tables of an independent
//! prototype. Means agree within three standard errors of both sides, on fixed seeds.

use bandit::distributed::{Elimination, EliminationConfig, IdealSum, Mechanism, Model, NoiseAt};
use bandit::stochastic::DpSe;
use bandit::{Policy, Summary};
use privacy::Ratio;
use privacy::budget::{Delta, Epsilon};
use privacy::laplace::HarnessLaplace;
use privacy::source::{SplitMix64, Words};

fn r(num: u128, den: u128) -> Ratio {
    Ratio::new(num, den).unwrap()
}
fn renyi(scale: u64) -> Model {
    Model::Renyi { scale: Ratio::integer(scale), delta: Delta::new(1e-5).unwrap() }
}
fn gauss() -> Model {
    Model::Concentrated { scale: Ratio::integer(10), delta: Delta::new(1e-5).unwrap() }
}

#[track_caller]
fn agree(name: &str, ours: &[f64], mean: f64, error: f64) {
    let s = Summary::of(ours).unwrap();
    println!("{name}: {:.1} ± {:.1}, recorded {mean} ± {error}", s.mean, s.standard_error);
    // The recorded figures are rounded to a tenth or a whole.
    let room = 3.0 * s.standard_error.hypot(error) + if error > 100.0 { 0.5 } else { 0.05 };
    assert!(
        (s.mean - mean).abs() <= room,
        "{name}: {:.1} ± {:.1} against {mean} ± {error}",
        s.mean,
        s.standard_error
    );
}

/// Sixteen equal users at epsilon 1: mean 0, and the variance of rounding and noise.
#[test]
fn errors_of_the_estimate() {
    for (model, reward, variance, runs) in [
        (Model::Pure, 0.5, 1.9896, 4000),
        (Model::Pure, 0.3, 2.1496, 4000),
        (renyi(10), 0.5, 1.0, 2000),
        (gauss(), 0.5, 1.0, 4000),
    ] {
        let mechanism = Mechanism::new(model, Ratio::ONE, 16, 0.1, 1000).unwrap();
        let mut rng = SplitMix64::new(2);
        // Decoding is right until noise passes the threshold; far out it is not, so only sums that decode
        // count here.
        let reach = mechanism.threshold() as f64 / mechanism.precision() as f64;
        let errors: Vec<f64> = (0..runs)
            .map(|_| {
                let mut total = 0i128;
                for _ in 0..16 {
                    total += i128::from(mechanism.encode(reward, &mut rng).unwrap())
                        + mechanism.noise(&mut rng).unwrap();
                }
                let sum = total.rem_euclid(i128::from(mechanism.modulus())) as u64;
                let error = total as f64 / mechanism.precision() as f64 - 16.0 * reward;
                if error.abs() < reach - 8.0 {
                    let got = mechanism.analyse(sum, &mut rng).unwrap() - 16.0 * reward;
                    assert!((got - error).abs() < 1e-9);
                }
                error
            })
            .collect();
        let s = Summary::of(&errors).unwrap();
        assert!(s.mean.abs() < 3.5 * s.standard_error);
        let squares: Vec<f64> = errors.iter().map(|e| e * e).collect();
        let s = Summary::of(&squares).unwrap();
        assert!(
            (s.mean - variance).abs() < 3.5 * s.standard_error,
            "{model:?}: {} against {variance}",
            s.mean
        );
    }
}

/// Pseudo-regret of one run, which is followed until one arm is left; `reward` draws what an arm of that mean
/// gives.
fn regret(
    config: EliminationConfig,
    means: &[f64],
    seed: u64,
    reward: impl FnMut(f64, &mut SplitMix64) -> f64,
) -> f64 {
    let horizon = config.horizon;
    let policy = Elimination::new(config, IdealSum).unwrap();
    follow(policy, horizon, means, seed, reward, |policy| match policy.left() {
        [arm] => Some(*arm),
        _ => None,
    })
}

fn follow<P: Policy<Context = (), Feedback = f64>>(
    mut policy: P,
    horizon: u64,
    means: &[f64],
    seed: u64,
    mut reward: impl FnMut(f64, &mut SplitMix64) -> f64,
    settled: impl Fn(&P) -> Option<usize>,
) -> f64 {
    let best = means.iter().copied().fold(0.0, f64::max);
    let (mut arms, mut noise) = (SplitMix64::new(seed), SplitMix64::noise(seed));
    let mut lost = 0.0;
    for t in 0..horizon {
        if let Some(arm) = settled(&policy) {
            return lost + (best - means[arm]) * (horizon - t) as f64;
        }
        let arm = policy.decide(&(), &mut noise).unwrap();
        policy.learn(&(), arm, &reward(means[arm], &mut arms), &mut noise).unwrap();
        lost += best - means[arm];
    }
    lost
}

fn bernoulli(mean: f64, rng: &mut SplitMix64) -> f64 {
    f64::from(rng.uniform() < mean)
}

fn two_arms(model: Model, epsilon: Ratio, horizon: u64, runs: u64) -> Vec<f64> {
    let config = EliminationConfig {
        confidence: 0.1,
        noise: NoiseAt::Sum,
        ..EliminationConfig::new(2, horizon, model, epsilon)
    };
    (0..runs).map(|seed| regret(config.clone(), &[0.6, 0.4], 1000 + seed, bernoulli)).collect()
}

/// Arms 0.6 and 0.4: still uniform at 10^3, then as recorded.
#[test]
fn regret_of_two_arms() {
    let (one, fifth) = (Ratio::ONE, r(1, 5));
    for (name, model, epsilon, mean, error) in [
        ("none", Model::None, one, 240.2, 17.8),
        ("pure", Model::Pure, one, 388.7, 16.1),
        ("skellam", renyi(10), one, 347.8, 15.0),
        ("pure 1/5", Model::Pure, fifth, 818.8, 0.0),
        ("skellam 1/5", renyi(10), fifth, 644.7, 32.4),
        ("local", Model::Local, one, 818.8, 0.0),
    ] {
        let early = two_arms(model, epsilon, 1000, 2);
        assert!(early.iter().all(|lost| (lost - 98.0).abs() < 1e-9), "{name}: {early:?}");
        agree(name, &two_arms(model, epsilon, 10_000, 40), mean, error);
    }
}

/// The order that the paper claims, each step beyond two standard errors: exact, then central and distributed
/// alike, then local.
#[test]
fn order_of_the_models() {
    let at = |model| Summary::of(&two_arms(model, Ratio::ONE, 100_000, 30)).unwrap();
    let [none, skellam, pure, central, local] =
        [Model::None, renyi(10), Model::Pure, Model::Central, Model::Local].map(at);
    let apart = |a: Summary, b: Summary| (b.mean - a.mean) / a.standard_error.hypot(b.standard_error);
    assert!(apart(none, pure) > 2.0 && apart(none, skellam) > 2.0 && apart(pure, local) > 10.0);
    assert!(apart(pure, central).abs() < 3.0, "one law, told apart");
    assert!((local.mean - 4955.8).abs() < 3.0 * local.standard_error.hypot(271.9), "{local:?}");
}

fn normal(mean: f64, rng: &mut SplitMix64) -> f64 {
    let radius = (-2.0 * (-rng.uniform()).ln_1p()).sqrt();
    (mean + 0.1 * radius * (std::f64::consts::TAU * rng.uniform()).cos()).clamp(0.0, 1.0)
}

/// Means of the first of the twenty instances of the published code: ten arms, in a range.
fn instances(count: usize, (low, high): (f64, f64)) -> Vec<Vec<f64>> {
    #[derive(serde::Deserialize)]
    struct Instances {
        uniforms: Vec<Vec<f64>>,
    }
    let text = include_str!("../vectors/distributed_instances.json");
    let Instances { uniforms } = serde_json::from_str(text).unwrap();
    let means = |row: &Vec<f64>| row.iter().map(|u| low + (high - low) * u).collect();
    uniforms.iter().take(count).map(means).collect()
}

/// Rewards of deviation 0.1 clipped to [0, 1]; `noise` drawn once a batch.
fn ten_arms_of(
    noise: NoiseAt,
    users: u64,
    count: usize,
    model: Model,
    epsilon: Ratio,
    growth: u64,
    range: (f64, f64),
) -> Vec<f64> {
    let config = EliminationConfig {
        confidence: 0.1,
        growth,
        noise,
        ..EliminationConfig::new(10, users, model, epsilon)
    };
    let run = |(seed, means): (u64, Vec<f64>)| regret(config.clone(), &means, 500 + seed, normal);
    (0..).zip(instances(count, range)).map(run).collect()
}

/// All instances, a million users.
fn ten_arms(model: Model, epsilon: Ratio, growth: u64, range: (f64, f64)) -> Vec<f64> {
    ten_arms_of(NoiseAt::Sum, 1_000_000, 20, model, epsilon, growth, range)
}

/// DP-SE on the same.
fn dp_se(users: u64, count: usize, epsilon: f64, range: (f64, f64)) -> Vec<f64> {
    let run = |(seed, means): (u64, Vec<f64>)| {
        let policy = DpSe::new(10, Epsilon::new(epsilon).unwrap(), 0.1, HarnessLaplace).unwrap();
        let settled = |p: &DpSe<HarnessLaplace>| {
            let mut left = p.left();
            left.next().filter(|_| left.next().is_none())
        };
        follow(policy, users, &means, 500 + seed, normal, settled)
    };
    (0..).zip(instances(count, range)).map(run).collect()
}

const EASY: (f64, f64) = (0.25, 0.75);
const HARD: (f64, f64) = (0.45, 0.55);

/// Name, model and growth of a row, and mean and error for epsilons of 0.1, 0.5 and 1.
type Row<'a> = (&'a str, Model, u64, &'a [(f64, f64)]);

fn table_of_ten_arms(range: (f64, f64), rows: &[Row]) {
    for &(name, model, growth, row) in rows {
        for (epsilon, &(mean, error)) in [r(1, 10), r(1, 2), Ratio::ONE].into_iter().zip(row) {
            let got = ten_arms(model, epsilon, growth, range);
            agree(&format!("{name} {}", epsilon.to_f64()), &got, mean, error);
        }
    }
}

#[test]
#[ignore = "long: tables of ten arms and 10^6 users"]
fn regret_of_ten_easy_arms() {
    table_of_ten_arms(
        EASY,
        &[
            ("none 2", Model::None, 2, &[(3861.0, 294.0)]),
            ("none 4", Model::None, 4, &[(3433.0, 326.0)]),
            ("pure 2", Model::Pure, 2, &[(14281.0, 414.0), (6355.0, 299.0), (5209.0, 322.0)]),
            ("pure 4", Model::Pure, 4, &[(13265.0, 526.0), (5614.0, 362.0), (4480.0, 358.0)]),
            ("skellam 2", renyi(10), 2, &[(10128.0, 390.0), (5286.0, 305.0), (4581.0, 308.0)]),
            ("skellam 4", renyi(10), 4, &[(8784.0, 431.0), (4551.0, 351.0), (3975.0, 310.0)]),
            ("gauss 2", gauss(), 2, &[(8085.0, 409.0), (4750.0, 309.0), (4277.0, 296.0)]),
            ("gauss 4", gauss(), 4, &[(6913.0, 339.0), (4140.0, 307.0), (3812.0, 284.0)]),
            ("local 2", Model::Local, 2, &[(204_358.0, 10_964.0), (116_959.0, 4509.0), (53_832.0, 3032.0)]),
        ],
    );
}

#[test]
#[ignore = "long: tables of ten arms and 10^6 users"]
fn regret_of_ten_hard_arms() {
    table_of_ten_arms(
        HARD,
        &[
            ("none 2", Model::None, 2, &[(13661.0, 690.0)]),
            ("none 4", Model::None, 4, &[(11748.0, 609.0)]),
            ("pure 2", Model::Pure, 2, &[(23416.0, 746.0), (15834.0, 497.0), (14528.0, 604.0)]),
            ("pure 4", Model::Pure, 4, &[(21082.0, 752.0), (14221.0, 611.0), (12918.0, 616.0)]),
        ],
    );
}

#[test]
#[ignore = "long: tables of ten arms and 10^6 users"]
fn regret_of_ten_hard_arms_with_skellam_noise() {
    table_of_ten_arms(
        HARD,
        &[
            ("skellam 2", renyi(10), 2, &[(18962.0, 482.0), (14609.0, 598.0), (13928.0, 673.0)]),
            ("skellam 4", renyi(10), 4, &[(18265.0, 833.0), (13186.0, 586.0), (12024.0, 570.0)]),
        ],
    );
}

#[test]
#[ignore = "long: tables of ten arms and 10^6 users"]
fn regret_of_dp_se() {
    for (range, rows) in [
        (EASY, [(7085.0, 369.0), (3901.0, 342.0), (3707.0, 359.0)]),
        (HARD, [(16661.0, 682.0), (11618.0, 568.0), (11165.0, 591.0)]),
    ] {
        for (epsilon, (mean, error)) in [0.1, 0.5, 1.0].into_iter().zip(rows) {
            agree(&format!("DP-SE {epsilon}"), &dp_se(1_000_000, 20, epsilon, range), mean, error);
        }
    }
}

/// Exact sums of Skellam noise take time in proportion to its variance: here it is drawn in double precision.
#[test]
#[ignore = "long: tables of ten arms and 10^6 users"]
fn regret_with_fine_skellam_noise() {
    let epsilons = [r(1, 10), r(1, 2), Ratio::ONE];
    for (range, rows) in [
        (EASY, [(7914.0, 351.0), (4426.0, 359.0), (3974.0, 308.0)]),
        (HARD, [(17151.0, 771.0), (12863.0, 594.0), (11978.0, 574.0)]),
    ] {
        for (epsilon, (mean, error)) in epsilons.into_iter().zip(rows) {
            let got = ten_arms_of(NoiseAt::Simulated, 1_000_000, 20, renyi(100), epsilon, 4, range);
            agree(&format!("skellam, s = 100, {}", epsilon.to_f64()), &got, mean, error);
        }
    }
}

/// Ten of the instances, hard arms.
#[test]
#[ignore = "long: ten arms and 10^7 users"]
fn regret_of_ten_million_users() {
    for (epsilon, mean, error) in [(0.1, 22906.0, 2231.0), (1.0, 16567.0, 1756.0)] {
        agree(&format!("DP-SE {epsilon}"), &dp_se(10_000_000, 10, epsilon, HARD), mean, error);
    }
    for (name, model, rows) in [
        ("pure", Model::Pure, [(32833.0, 2310.0), (19972.0, 1901.0)]),
        ("skellam", renyi(10), [(25447.0, 1770.0), (19279.0, 1911.0)]),
    ] {
        for (epsilon, (mean, error)) in [r(1, 10), Ratio::ONE].into_iter().zip(rows) {
            let got = ten_arms_of(NoiseAt::Simulated, 10_000_000, 10, model, epsilon, 2, HARD);
            agree(&format!("{name} {}", epsilon.to_f64()), &got, mean, error);
        }
    }
}
