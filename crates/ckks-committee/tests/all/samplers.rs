//! The samplers of keys on ten million draws each. The wide ones are tested beside their code.

use crate::committee::rng;
use rns::sample::{self, SIGMA};

const DRAWS: usize = 10_000_000;

/// Errors of keys and transfers: each integer, moments and tails. False alarm below 10⁻⁵ (fixed seed).
#[test]
#[ignore = "ten million draws"]
fn ten_million_errors_follow_the_discrete_gaussian() {
    let errors = sample::error(DRAWS, &mut rng(71));
    let weight = |k: i64| (-((k * k) as f64) / (2.0 * SIGMA * SIGMA)).exp();
    let total: f64 = (-32..=32).map(weight).sum();
    let of = |k: i64| weight(k) / total;
    let mut counts = [0.0f64; 65];
    errors.iter().for_each(|x| counts[(x + 32) as usize] += 1.0);
    let distance = |k: i64| (counts[(k + 32) as usize] - DRAWS as f64 * of(k)).powi(2) / DRAWS as f64 / of(k);
    let chi2: f64 = (-15..=15).map(distance).sum();
    // The 1 − 10⁻⁶ quantile with 31 degrees of freedom.
    assert!(chi2 < 85.0, "{chi2}");
    let moment = |p: i32| (-32..=32).map(|k: i64| (k as f64).powi(p) * of(k)).sum::<f64>();
    for p in 1..=6 {
        let got = errors.iter().map(|x| (*x as f64).powi(p)).sum::<f64>() / DRAWS as f64;
        let (want, variance) = (moment(p), moment(2 * p) - moment(p).powi(2));
        assert!((got - want).abs() < 6.0 * (variance / DRAWS as f64).sqrt(), "moment {p}: {got} for {want}");
    }
    for beyond in [6, 10, 13, 15] {
        let got = errors.iter().filter(|x| x.abs() > beyond).count() as f64;
        let want = DRAWS as f64 * (beyond + 1..=32).map(|k| 2.0 * of(k)).sum::<f64>();
        assert!((got - want).abs() < 6.0 * want.sqrt(), "beyond {beyond}: {got} for {want}");
    }
}

/// Secrets: each value, within six deviations.
#[test]
#[ignore = "ten million draws"]
fn ten_million_ternary_values_are_balanced() {
    let values = sample::ternary(DRAWS, &mut rng(72));
    for value in -1..=1 {
        let count = values.iter().filter(|x| **x == value).count() as f64;
        let (want, variance) = (DRAWS as f64 / 3.0, DRAWS as f64 * 2.0 / 9.0);
        assert!((count - want).abs() < 6.0 * variance.sqrt(), "{value}: {count}");
    }
    // Neighbours are independent: nine pairs, and the 1 − 10⁻⁶ quantile with eight degrees of freedom.
    let mut pairs = [0.0f64; 9];
    values.chunks_exact(2).for_each(|pair| pairs[(3 * (pair[0] + 1) + pair[1] + 1) as usize] += 1.0);
    let want = DRAWS as f64 / 18.0;
    let chi2: f64 = pairs.iter().map(|count| (count - want).powi(2) / want).sum();
    assert!(chi2 < 42.8, "{chi2}");
}
