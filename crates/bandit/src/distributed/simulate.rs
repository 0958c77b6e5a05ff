//! Total noise from its law in double precision: **simulation**, in constant time where the exact law takes a draw a user.

use super::Model;
use crate::Error;
use privacy::{Ratio, sampler};
use rand::{Rng, RngExt};

/// One draw of what `users` users add in all, in steps of `1/g`; `rate` is `epsilon/g`, `variance` that of one user's
/// noise where the model has it.
///
/// Concentrated: the sum of n discrete Gaussians of variance v is one of variance n v, to within `10 n e^(-pi² v)`
/// (Kairouz, Liu, Steinke 2021), so that v is asked to be 10 at least.
pub(super) fn total(
    model: Model,
    users: u64,
    rate: Ratio,
    variance: Ratio,
    rng: &mut dyn Rng,
) -> Result<i128, Error> {
    let total = || variance.times(Ratio::integer(users));
    Ok(match model {
        Model::None | Model::Central => 0,
        Model::Pure | Model::Shuffle | Model::Bits { .. } => sampler::discrete_laplace(rng, rate)?,
        Model::Renyi { .. } => {
            let half = 0.5 * total()?.to_f64();
            poisson(half, rng) - poisson(half, rng)
        }
        Model::Concentrated { .. } if variance.to_f64() >= 10.0 => sampler::discrete_gaussian(rng, total()?)?,
        Model::Concentrated { .. } => {
            let got = variance.to_f64();
            return Err(Error::Field { field: "variance", got, want: "at least 10 to be simulated" });
        }
        // A discrete Laplace is a difference of two geometrics; n of these are a Poisson of a Gamma.
        Model::Local => {
            let odds = rate.to_f64().exp_m1().recip();
            let mut side = || {
                let mean = odds * gamma(users as f64, rng);
                poisson(mean, rng)
            };
            side() - side()
        }
    })
}

/// Gamma of unit scale and shape 1 or more (Marsaglia, Tsang 2000).
fn gamma(shape: f64, rng: &mut dyn Rng) -> f64 {
    let d = shape - 1.0 / 3.0;
    let c = (9.0 * d).sqrt().recip();
    loop {
        let z = normal(rng);
        let v = (1.0 + c * z).powi(3);
        if v > 0.0 && (1.0 - rng.random::<f64>()).ln() < 0.5 * z * z + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

/// Poisson: by counting below a mean of 10, by transformed rejection from there on (Hörmann 1993, PTRS).
fn poisson(mean: f64, rng: &mut dyn Rng) -> i128 {
    if mean < 10.0 {
        let (mut count, mut left) = (0, mean);
        loop {
            left += (1.0 - rng.random::<f64>()).ln();
            if left < 0.0 {
                return count;
            }
            count += 1;
        }
    }
    let b = 0.931 + 2.53 * mean.sqrt();
    let a = -0.059 + 0.02483 * b;
    let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    let squeeze = 0.9277 - 3.6224 / (b - 2.0);
    loop {
        let (u, v) = (rng.random::<f64>() - 0.5, 1.0 - rng.random::<f64>());
        let us = 0.5 - u.abs();
        let k = ((2.0 * a / us + b) * u + mean + 0.43).floor();
        if us >= 0.07 && v <= squeeze {
            return k as i128;
        }
        if k < 0.0 || (us < 0.013 && v > us) {
            continue;
        }
        let log = (v * inverse_alpha / (a / (us * us) + b)).ln();
        if log <= k * mean.ln() - mean - ln_factorial(k) {
            return k as i128;
        }
    }
}

/// `ln k!`: by Stirling's series, whose error is below 1e-9 from 10 on.
fn ln_factorial(k: f64) -> f64 {
    if k < 10.0 {
        return (1..=k as u32).map(|i| f64::from(i).ln()).sum();
    }
    let tail = (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / (1260.0 * k * k)) / (k * k)) / k;
    (k + 0.5) * k.ln() - k + 0.5 * std::f64::consts::TAU.ln() + tail
}

/// Standard normal (Box and Muller).
pub(super) fn normal(rng: &mut dyn Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use privacy::source::SplitMix64;

    /// Share of `draws` up to each value of 0..=60 against the law's, within five standard errors (false alarm below
    /// 4e-5 a sampler).
    fn fits(draws: &[f64], weight: impl Fn(f64) -> f64) {
        let (n, mut below) = (draws.len() as f64, 0.0);
        for k in 0..=60 {
            below += weight(f64::from(k));
            let share = draws.iter().filter(|v| **v <= f64::from(k)).count() as f64 / n;
            let error = (below * (1.0 - below)).max(1e-4) / n;
            assert!((share - below).abs() < 5.0 * error.sqrt(), "{k}: {share} against {below}");
        }
    }

    #[test]
    fn counts_follow_poissons_law() {
        let mut rng = SplitMix64::new(3);
        for mean in [0.7, 9.5, 10.5, 30.0] {
            let draws: Vec<f64> = (0..100_000).map(|_| poisson(mean, &mut rng) as f64).collect();
            fits(&draws, |k: f64| (k * f64::ln(mean) - mean - ln_factorial(k)).exp());
        }
        // Means for which nothing can be tabled: mean and variance alone.
        for mean in [1e4, 1e10] {
            let z: Vec<f64> =
                (0..100_000).map(|_| (poisson(mean, &mut rng) as f64 - mean) / mean.sqrt()).collect();
            moments(&z, 0.0, 1.0);
        }
    }

    /// Mean and variance within five standard errors.
    fn moments(values: &[f64], mean: f64, variance: f64) {
        let s = crate::Summary::of(values).unwrap();
        assert!((s.mean - mean).abs() < 5.0 * s.standard_error, "{s:?} against {mean}");
        let squares: Vec<f64> = values.iter().map(|v| (v - mean).powi(2)).collect();
        let s = crate::Summary::of(&squares).unwrap();
        assert!((s.mean - variance).abs() < 5.0 * s.standard_error, "{s:?} against {variance}");
    }

    #[test]
    fn gamma_has_the_moments_of_its_shape() {
        let mut rng = SplitMix64::new(4);
        for shape in [1.0, 2.5, 1e5] {
            let draws: Vec<f64> = (0..100_000).map(|_| gamma(shape, &mut rng)).collect();
            moments(&draws, shape, shape);
        }
    }

    /// Every model's total has the variance of its exact law: a discrete Laplace has `2q/(1-q)²`, the others n times that
    /// of one user's noise.
    #[test]
    fn totals_have_the_variance_of_the_exact_law() {
        let mut rng = SplitMix64::new(5);
        let delta = privacy::budget::Delta::new(1e-5).unwrap();
        let (users, g, scale) = (64u64, 80u64, Ratio::integer(10));
        let variance = Ratio::new(u128::from(g * g), u128::from(users)).unwrap();
        let rate = Ratio::new(1, u128::from(g)).unwrap();
        let q = (-rate.to_f64()).exp();
        let laplace = 2.0 * q / (1.0 - q).powi(2);
        for (model, want) in [
            (Model::Pure, laplace),
            (Model::Shuffle, laplace),
            (Model::Renyi { scale, delta }, (g * g) as f64),
            (Model::Concentrated { scale, delta }, (g * g) as f64),
            (Model::Local, users as f64 * laplace),
        ] {
            let draws: Vec<f64> =
                (0..40_000).map(|_| total(model, users, rate, variance, &mut rng).unwrap() as f64).collect();
            moments(&draws, 0.0, want);
        }
        let small = total(Model::Concentrated { scale, delta }, users, rate, Ratio::ONE, &mut rng);
        assert!(matches!(small, Err(Error::Field { field: "variance", .. })));
    }
}
