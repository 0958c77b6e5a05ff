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
    /// On the grid for `sums` with noise of deviation `sigma`, a parameter called `name`.
    ///
    /// It has 2^19 to 2^20 steps a standard deviation, or, if it must be finer for that, steps so small that
    /// rounding an item adds less than a 4096th to what it moves by. No finer, in any case, than the
    /// sampler's 2^28 steps a deviation, than items round, and than sums are exact in doubles.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if even whole numbers are too fine for one of these.
    pub(crate) fn on_grid(name: &'static str, sigma: f64, sums: Sums) -> Result<Self, Error> {
        field(name, sigma, sigma < 2f64.powi(28), "below 2^28")?;
        let magnitude = exponent(sigma);
        let largest = sums.largest.max(1.0);
        // An item below 2^40 steps, all of them up to 2^52.
        let rounds = 39.0 - exponent(largest);
        let adds_up = 52.0 - (sums.items as f64 * largest).log2().ceil();
        field(name, sigma, rounds.min(adds_up) >= 0.0, "for items that add up exactly in double precision")?;
        let rounding = (4096.0 * (sums.len as f64).sqrt() / sums.l2).log2().ceil();
        let bits = rounding.max(19.0 - magnitude).min(27.0 - magnitude).min(rounds).min(adds_up);
        Ok(Self::Grid(GridGaussian::new(bits.clamp(0.0, 30.0) as u32)?))
    }
}

/// `floor(log2 x)` of a normal number: the logarithm itself rounds up just below a power of two.
fn exponent(x: f64) -> f64 {
    (x.to_bits() >> 52 & 0x7ff) as f64 - 1023.0
}

/// What is summed and gets noise.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sums {
    /// The least that a neighbour's item is charged for, in the Euclidean norm.
    pub(crate) l2: f64,
    /// Coordinates.
    pub(crate) len: usize,
    /// Size of a coordinate of an item, at most.
    pub(crate) largest: f64,
    /// Items, at most.
    pub(crate) items: u64,
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
