//! Sums of vectors, one coordinate at a time, through the shuffler or past it.

use crate::Error;
use crate::environment::normal;
use privacy::shuffle::BitSum;
use rand::Rng;

/// How the values of all people become one sum.
#[derive(Debug, Clone, PartialEq)]
pub enum Summation {
    /// Exactly: no privacy.
    Exact,
    /// With Gaussian noise of this deviation in double precision: simulation only.
    Gaussian(f64),
    /// In shuffled bits.
    Bits(BitSum),
}

impl Summation {
    /// Standard deviation of the noise on a coordinate.
    pub fn sd(&self) -> f64 {
        match self {
            Self::Exact => 0.0,
            Self::Gaussian(sd) => *sd,
            Self::Bits(bits) => bits.noise_deviation(),
        }
    }

    /// The sum of one coordinate over all people.
    ///
    /// # Errors
    /// [`Error::Privacy`] if a value is outside the range of the bits, or there are not as many as people.
    pub fn sum(&self, values: &[f64], rng: &mut dyn Rng) -> Result<f64, Error> {
        match self {
            Self::Exact => Ok(values.iter().sum()),
            Self::Gaussian(sd) => Ok(values.iter().sum::<f64>() + sd * normal(rng)),
            Self::Bits(bits) => Ok(bits.analyse(bits.shuffle(values, rng)?)?),
        }
    }
}
