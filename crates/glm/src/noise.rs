//! Gaussian noise in two makes.

use crate::error::{Error, field};
use privacy::budget::Sensitivity;
use privacy::gauss::{GaussianNoise, GridGaussian, HarnessGaussian};
use rand::Rng;

/// How a Gaussian is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gaussian {
    /// In double precision: simulation only.
    Double,
    /// From integers, on a grid.
    Grid(GridGaussian),
}

impl Gaussian {
    /// A grid has 2^19 to 2^20 steps a standard deviation where its own range allows.
    pub(crate) fn new(discrete: bool, sigma: f64) -> Self {
        let bits = (19.0 - sigma.log2().floor()).clamp(0.0, 30.0) as u32;
        match GridGaussian::new(bits) {
            Ok(grid) if discrete => Self::Grid(grid),
            _ => Self::Double, // `new` takes 0 to 30 bits
        }
    }
}

/// Refuses noise on a grid that a round could not draw, or that `rows` values up to `most` would be too large for: they
/// must round, and add up exactly in double precision.
pub(crate) fn check(name: &'static str, sigma: f64, most: f64, rows: u64) -> Result<(), Error> {
    let Gaussian::Grid(grid) = Gaussian::new(true, sigma) else { return Ok(()) };
    let drawn = sigma == 0.0 || grid.check(sigma).is_ok();
    field(name, sigma, drawn, "below 2^28 steps of its grid")?;
    let adds_up = most < 2f64.powi(40) * grid.step() && most * rows as f64 <= 2f64.powi(52) * grid.step();
    field(name, sigma, adds_up, "large enough for sums of all rounds to be exact on its grid")
}

impl GaussianNoise for Gaussian {
    fn draw(&mut self, sigma: f64, rng: &mut dyn Rng) -> Result<f64, privacy::Error> {
        match self {
            Self::Double => HarnessGaussian.draw(sigma, rng),
            Self::Grid(grid) => grid.draw(sigma, rng),
        }
    }

    fn round(&self, x: f64) -> Result<f64, privacy::Error> {
        match self {
            Self::Double => HarnessGaussian.round(x),
            Self::Grid(grid) => grid.round(x),
        }
    }

    fn rounded_sensitivity(&self, l2: Sensitivity, len: usize) -> Result<Sensitivity, privacy::Error> {
        match self {
            Self::Double => HarnessGaussian.rounded_sensitivity(l2, len),
            Self::Grid(grid) => grid.rounded_sensitivity(l2, len),
        }
    }
}
