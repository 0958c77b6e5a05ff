//! Gaussian noise in two makes.

use crate::Error;
use crate::environment::normal;
use privacy::{Ratio, sampler};
use rand::Rng;

/// How a Gaussian is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gaussian {
    /// In double precision. Its low bits may tell values apart: simulation only.
    Double,
    /// Discrete, in steps of [`grid`]: exact, so that a shift by `l2` costs `l2^2 / (2 sigma^2)` as for the continuous
    /// one (Canonne, Kamath and Steinke 2020, Theorem 4).
    Grid,
}

impl Gaussian {
    pub(crate) fn of(discrete: bool) -> Self {
        if discrete { Self::Grid } else { Self::Double }
    }

    /// Rounds to what the noise lives on.
    pub(crate) fn round(self, sigma: f64, values: &mut [f64]) {
        if self == Self::Grid && sigma > 0.0 {
            let step = grid(sigma);
            values.iter_mut().for_each(|v| *v = (*v / step).round() * step);
        }
    }

    pub(crate) fn draw(self, sigma: f64, rng: &mut dyn Rng) -> Result<f64, Error> {
        match self {
            _ if sigma == 0.0 => Ok(0.0),
            Self::Double => Ok(sigma * normal(rng)),
            Self::Grid => {
                let step = grid(sigma);
                // Rounded up: never less noise than is paid for.
                let variance = Ratio::new((sigma / step).powi(2).ceil() as u128, 1)?;
                Ok(sampler::discrete_gaussian(rng, variance)? as f64 * step)
            }
        }
    }

    /// Adds noise to a whole vector, in the form that [`Descent::run`](crate::Descent::run) takes.
    pub(crate) fn adder(self, sigma: f64, rng: &mut dyn Rng) -> impl FnMut(&mut [f64]) -> Result<(), Error> {
        move |sum| {
            self.round(sigma, sum);
            sum.iter_mut().try_for_each(|v| {
                *v += self.draw(sigma, rng)?;
                Ok(())
            })
        }
    }
}

/// Step of the discrete noise: the power of two with 2^19 to 2^20 steps a standard deviation. Sums of a few billion
/// values of size 1 stay exact in double precision for any `sigma` above 10^-3.
pub(crate) fn grid(sigma: f64) -> f64 {
    2f64.powi(sigma.log2().floor() as i32 - 19)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    /// Both makes: mean, variance and fourth moment within 5 standard errors (false alarm below 4e-6).
    #[test]
    fn gaussians_have_the_right_moments() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        for make in [Gaussian::Double, Gaussian::Grid] {
            for sigma in [0.3, 7.7, 4000.0] {
                let n = 40_000;
                let (mut m1, mut m2, mut m4) = (0.0, 0.0, 0.0);
                for _ in 0..n {
                    let z = make.draw(sigma, &mut rng).unwrap() / sigma;
                    (m1, m2, m4) = (m1 + z, m2 + z * z, m4 + z.powi(4));
                }
                let n = f64::from(n);
                assert!((m1 / n).abs() < 5.0 / n.sqrt());
                assert!((m2 / n - 1.0).abs() < 5.0 * (2.0 / n).sqrt());
                assert!((m4 / n - 3.0).abs() < 5.0 * (96.0 / n).sqrt());
            }
        }
    }
}
