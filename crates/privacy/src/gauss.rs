//! Sources of Gaussian noise for policies, like those of [`laplace`](crate::laplace).

use crate::budget::Sensitivity;
use crate::laplace::{finite, positive};
use crate::source::Words;
use crate::{Error, Ratio, sampler};
use fault::require;
use rand::Rng;
use serde::{Deserialize, Serialize};

/// A source of Gaussian noise, continuous or discrete.
pub trait GaussianNoise {
    /// Draws a value of standard deviation `sigma`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `sigma` is not finite and above 0; those of the implementor.
    fn draw(&mut self, sigma: f64, rng: &mut dyn Rng) -> Result<f64, Error>;

    /// The value to which noise may be added: `x`, or `x` rounded to the grid.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `x` is not finite, or outside the range of the grid.
    fn round(&self, x: f64) -> Result<f64, Error> {
        finite(x)
    }

    /// The sensitivity of `len` values of sensitivity `l2` after rounding.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if it exceeds the range of doubles.
    fn rounded_sensitivity(&self, l2: Sensitivity, _len: usize) -> Result<Sensitivity, Error> {
        Ok(l2)
    }
}

/// Continuous Gaussian noise by the Box-Muller method in double precision, for **simulation only**. A draw
/// takes two words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HarnessGaussian;

impl GaussianNoise for HarnessGaussian {
    fn draw(&mut self, sigma: f64, rng: &mut dyn Rng) -> Result<f64, Error> {
        let sigma = positive("sigma", sigma)?;
        let radius = (-2.0 * (-rng.uniform()).ln_1p()).sqrt();
        Ok(sigma * radius * (std::f64::consts::TAU * rng.uniform()).cos())
    }
}

/// Discrete Gaussian noise on the multiples of `2^-bits`, from integers only, for deployments.
///
/// - Privacy: integer statistics of sensitivity `l2` (in steps) get `l2²/2v`-zCDP from variance parameter
///   `v`, which is `(sigma/step)²` rounded **up**. Rounding values to the nearest step can add one step per
///   coordinate to the distance of neighbours, so the accounting must use
///   [`rounded_sensitivity`](GaussianNoise::rounded_sensitivity).
/// - Range: values are below `2^40` steps, so that sums of a few thousand of them are exact in doubles.
/// - Source: Canonne, Kamath, Steinke 2020, Theorem 4 and Algorithm 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct GridGaussian {
    bits: u32,
}

impl GridGaussian {
    /// The grid of steps `2^-bits`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `bits` is above 30.
    pub fn new(bits: u32) -> Result<Self, Error> {
        require(bits <= 30, "bits", bits, "at most 30")?;
        Ok(Self { bits })
    }

    /// The step, `2^-bits`.
    pub fn step(self) -> f64 {
        2f64.powi(-(self.bits as i32))
    }

    /// The variance parameter in squared steps: a multiple of 1/256 below `2^30`, a whole number above.
    fn variance(self, sigma: f64) -> Result<Ratio, Error> {
        let v = (sigma / self.step()).powi(2).next_up();
        require(v < 2f64.powi(56), "sigma", sigma, "below 2^28 steps")?;
        let parts = if v < 2f64.powi(30) { 256.0 } else { 1.0 };
        Ratio::new((v * parts).ceil() as u128, parts as u128)
    }
}

impl TryFrom<u32> for GridGaussian {
    type Error = Error;
    fn try_from(bits: u32) -> Result<Self, Error> {
        Self::new(bits)
    }
}

impl From<GridGaussian> for u32 {
    fn from(grid: GridGaussian) -> Self {
        grid.bits
    }
}

impl GaussianNoise for GridGaussian {
    fn draw(&mut self, sigma: f64, rng: &mut dyn Rng) -> Result<f64, Error> {
        let v = self.variance(positive("sigma", sigma)?)?;
        Ok(sampler::discrete_gaussian(rng, v)? as f64 * self.step())
    }

    fn round(&self, x: f64) -> Result<f64, Error> {
        let steps = (finite(x)? / self.step()).round();
        require(steps.abs() < 2f64.powi(40), "value", x, "below 2^40 steps of the grid")?;
        Ok(steps * self.step())
    }

    fn rounded_sensitivity(&self, l2: Sensitivity, len: usize) -> Result<Sensitivity, Error> {
        Sensitivity::new(l2.get() + self.step() * (len as f64).sqrt())
    }
}
