//! The total noise of all users in double precision and constant time, for **simulation**.

use super::Model;
use crate::Error;
use crate::sampling::{gamma, poisson};
use fault::OutOfRange;
use privacy::{Ratio, sampler};
use rand::Rng;

/// Draws the total noise of `users` users in steps of `1/g`. `rate` is `epsilon/g`, and `variance` that of
/// one user's noise if the model has one.
///
/// In the concentrated model the sum of n discrete Gaussians of variance v is one of variance n v up to `10 n
/// e^(-pi² v)` (Kairouz, Liu, Steinke 2021), so v must be at least 10.
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
            return Err(OutOfRange::new("variance", got, "at least 10 to be simulated").into());
        }
        // A discrete Laplace variate is the difference of two geometric ones, and the sum of n geometric
        // variates is a Poisson variate with a Gamma mean.
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

#[cfg(test)]
mod tests {
    use super::*;
    use privacy::source::SplitMix64;

    /// Mean and variance within five standard errors.
    fn moments(values: &[f64], mean: f64, variance: f64) {
        let s = crate::Summary::of(values).unwrap();
        assert!((s.mean - mean).abs() < 5.0 * s.standard_error, "{s:?} against {mean}");
        let squares: Vec<f64> = values.iter().map(|v| (v - mean).powi(2)).collect();
        let s = crate::Summary::of(&squares).unwrap();
        assert!((s.mean - variance).abs() < 5.0 * s.standard_error, "{s:?} against {variance}");
    }

    /// Every model's total has the variance of its exact law: a discrete Laplace has `2q/(1-q)²`, the others
    /// n times that of one user's noise.
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
        assert!(matches!(small, Err(Error::OutOfRange(OutOfRange { field: "variance", .. }))));
    }
}
