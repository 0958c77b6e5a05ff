//! Gaussian noise as policies ask for it, in the manner of [`laplace`](crate::laplace).

use crate::budget::Sensitivity;
use crate::laplace::{finite, positive};
use crate::source::Words;
use crate::{Error, Ratio, sampler};
use fault::require;
use rand::Rng;
use serde::{Deserialize, Serialize};

/// Noise of law Gaussian, or its discrete counterpart.
pub trait GaussianNoise {
    /// One value of standard deviation `sigma`, which is the scale itself: each noise knows no other unit.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `sigma` is not finite and above 0, and what the implementor adds.
    fn draw(&mut self, sigma: f64, rng: &mut dyn Rng) -> Result<f64, Error>;

    /// The value that noise may be added to: `x` itself, or `x` taken to the grid.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `x` is not finite, or out of the grid's range.
    fn round(&self, x: f64) -> Result<f64, Error> {
        finite(x)
    }

    /// What the sensitivity `l2` of `len` values becomes when neighbours are both rounded.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if it leaves the range of doubles.
    fn rounded_sensitivity(&self, l2: Sensitivity, _len: usize) -> Result<Sensitivity, Error> {
        Ok(l2)
    }
}

/// Continuous Gaussian by Box and Muller in double precision: **simulation and repeatable runs only**. Two
/// words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HarnessGaussian;

impl GaussianNoise for HarnessGaussian {
    fn draw(&mut self, sigma: f64, rng: &mut dyn Rng) -> Result<f64, Error> {
        let sigma = positive("sigma", sigma)?;
        let radius = (-2.0 * (-rng.uniform()).ln_1p()).sqrt();
        Ok(sigma * radius * (std::f64::consts::TAU * rng.uniform()).cos())
    }
}

/// Discrete Gaussian on the multiples of `2^-bits`, from integers only: what a deployment uses.
///
/// - Privacy: integer statistics of sensitivity `l2` (in steps) get `l2²/2v`-zCDP from variance parameter
///   `v`; `v` is `(sigma/step)²` rounded **up**. Values are rounded to the nearest step, which can move
///   neighbours apart by one step a coordinate: [`rounded_sensitivity`](GaussianNoise::rounded_sensitivity)
///   is what the ledger must be charged.
/// - Range: values below `2^40` steps, so that a million of them still add up exactly in doubles.
/// - Source: Canonne, Kamath, Steinke 2020, Theorem 4 and Algorithm 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct GridGaussian {
    bits: u32,
}

impl GridGaussian {
    /// Steps of `2^-bits`.
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

    /// The variance parameter in steps squared: a multiple of 1/256 while small, whole from `2^30` on.
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
