//! The noise of a batch, whoever answers: its law, and what epsilon it is worth.

use bandit::distributed::Model;
use privacy::Ratio;
use privacy::budget::Delta;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use secure_sum::{Batch, Error, Plan, Sum};

fn plan(model: Model, invited: u64, missing: u128, colluding: u128) -> Plan {
    let quarter = |n| Ratio::new(n, 4).unwrap();
    let (missing, colluding) = (quarter(missing), quarter(colluding));
    Plan { model, epsilon: Ratio::ONE, invited, missing, colluding, confidence: 0.1, horizon: 1000 }
}

/// P of the difference of two Polya variates of index `r`, from `-reach` to `reach`.
fn polya_difference(r: f64, beta: f64, reach: usize) -> Vec<f64> {
    let mut one = vec![(1.0 - beta).powf(r)];
    for x in 1..4 * reach {
        one.push(one[x - 1] * beta * (x as f64 - 1.0 + r) / x as f64);
    }
    let at = |d: usize| one.iter().zip(&one[d..]).map(|(a, b)| a * b).sum::<f64>();
    (0..=2 * reach).map(|i| at(i.abs_diff(reach))).collect()
}

/// The largest log-ratio between sums that differ by `g`: the epsilon there is.
fn true_epsilon(index: f64, epsilon: f64, g: usize) -> f64 {
    let p = polya_difference(index, (-epsilon / g as f64).exp(), 40 * g);
    p.iter().zip(&p[g..]).map(|(a, b)| (a / b).ln().abs()).fold(0.0, f64::max)
}

/// Noise sized for all: with a part of the users missing, epsilon grows. Sized as here, it never passes what
/// was promised, as long as a batch is not refused.
#[test]
fn users_who_drop_out_do_not_cost_privacy() {
    for (users, epsilon, g, shown) in [
        (16.0, 1.0, 4, [1.0, 1.153, 1.438, 2.113, 3.217]),
        (64.0, 0.5, 4, [0.5, 0.620, 0.862, 1.507, 2.641]),
        (256.0, 1.0, 16, [1.0, 1.176, 1.526, 2.445, 3.998]),
    ] {
        let _: f64 = users;
        for (part, want) in [1.0, 0.9, 0.75, 0.5, 0.25].into_iter().zip(shown) {
            let got = true_epsilon(part, epsilon, g);
            assert!((got - want).abs() < 2e-3, "{users} {part}: {got} against {want}");
        }
    }
    for colluding in 0..2 {
        let batch = Batch::new(&plan(Model::Pure, 16, 1, colluding)).unwrap();
        let sized = batch.mechanism().honest();
        assert_eq!((u64::from(batch.at_least()), sized), (12, 12 - 4 * colluding as u64));
        let g = batch.mechanism().precision() as usize;
        for answered in 12..=16 {
            let honest = answered - 4 * colluding as u64;
            let got = true_epsilon(honest as f64 / sized as f64, 1.0, g);
            assert!(got <= 1.0 + 1e-9, "{answered}: {got}");
        }
    }
}

/// The noise of exactly as many users as must answer is the discrete Laplace of scale g/epsilon; chi-square
/// with cells of 8 and more, against about five standard deviations.
#[test]
fn noise_of_the_least_batch_is_discrete_laplace() {
    let batch = Batch::new(&plan(Model::Pure, 16, 1, 0)).unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(21);
    const RUNS: usize = 20_000;
    let (g, reach) = (batch.mechanism().precision(), 60);
    let mut seen = vec![0.0; 2 * reach + 1];
    for _ in 0..RUNS {
        // Rewards of 0: what is added is noise.
        let sum: i128 = (0..batch.at_least()).map(|_| batch.randomise(0.0, &mut rng).unwrap()).sum();
        seen[(sum.clamp(-(reach as i128), reach as i128) + reach as i128) as usize] += 1.0;
    }
    let q = (-1.0 / g as f64).exp();
    let (mut chi, mut cells) = (0.0f64, 0.0f64);
    for (x, seen) in seen.iter().enumerate() {
        let want = RUNS as f64 * (1.0 - q) / (1.0 + q) * q.powi(x.abs_diff(reach) as i32);
        if want >= 8.0 {
            chi += (seen - want).powi(2) / want;
            cells += 1.0;
        }
    }
    assert!(cells > 10.0 && chi < cells + 5.0 * (2.0 * cells).sqrt(), "{chi} over {cells}");
}

#[test]
fn means_and_refusals() {
    let batch = Batch::new(&plan(Model::Pure, 100, 1, 0)).unwrap();
    let g = i128::from(batch.mechanism().precision());
    assert_eq!(batch.mean(&Sum { total: 45 * g, users: 90 }), 0.5);
    assert_eq!(batch.mean(&Sum { total: -9 * g, users: 90 }), -0.1);
    let delta = Delta::new(1e-6).unwrap();
    assert!(Batch::new(&plan(Model::Renyi { scale: Ratio::integer(10), delta }, 100, 1, 1)).is_ok());
    for bad in [
        plan(Model::None, 100, 0, 0),
        plan(Model::Central, 100, 0, 0),
        plan(Model::Pure, 100, 2, 2),
        plan(Model::Pure, 100, 9, 0),
        plan(Model::Pure, 0, 0, 0),
        plan(Model::Pure, 1 << 33, 0, 0),
    ] {
        assert!(Batch::new(&bad).is_err(), "{bad:?}");
    }
    let mut rng = ChaCha20Rng::seed_from_u64(22);
    assert!(matches!(batch.randomise(1.5, &mut rng), Err(Error::Bandit(_))));
}
