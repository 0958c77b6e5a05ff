//! Gaussian noise, in double precision or from integers.

use crate::error::{Error, field};
use privacy::budget::Sensitivity;
use privacy::gauss::{GaussianNoise, GridGaussian, HarnessGaussian};
use rand::Rng;

/// A source of Gaussian noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gaussian {
    /// Continuous noise in double precision, for simulation only.
    Double,
    /// Discrete noise on a grid, from integers.
    Grid(GridGaussian),
}

impl Gaussian {
    /// The grid for `sums` with noise of standard deviation `sigma`, a parameter called `name`.
    ///
    /// A standard deviation has 2^19 to 2^20 steps, or more if rounding an item would otherwise add a 4096th
    /// or more to its sensitivity. The grid is never finer than the sampler allows (2^28 steps per standard
    /// deviation), than items can be rounded to, and than sums are exact in double precision.
    pub(crate) fn on_grid(name: &'static str, sigma: f64, sums: Sums) -> Result<Self, Error> {
        field(name, sigma, sigma < 2f64.powi(28), "below 2^28")?;
        let magnitude = exponent(sigma);
        let largest = sums.largest.max(1.0);
        // An item is below 2^40 steps, and the sum of all items at most 2^52.
        let rounds = 39.0 - exponent(largest);
        let adds_up = 52.0 - (sums.items as f64 * largest).log2().ceil();
        field(name, sigma, rounds.min(adds_up) >= 0.0, "for items that add up exactly in double precision")?;
        let rounding = (4096.0 * (sums.len as f64).sqrt() / sums.l2).log2().ceil();
        let bits = rounding.max(19.0 - magnitude).min(27.0 - magnitude).min(rounds).min(adds_up);
        Ok(Self::Grid(GridGaussian::new(bits.clamp(0.0, 30.0) as u32)?))
    }
}

/// `floor(log2 x)` of a normal number. The function `log2` would round up just below a power of two.
fn exponent(x: f64) -> f64 {
    (x.to_bits() >> 52 & 0x7ff) as f64 - 1023.0
}

/// The sums to which noise is added.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sums {
    /// The smallest sensitivity in the Euclidean norm that the accounting charges.
    pub(crate) l2: f64,
    /// Number of coordinates.
    pub(crate) len: usize,
    /// Largest absolute value of a coordinate of an item.
    pub(crate) largest: f64,
    /// Largest number of items.
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
