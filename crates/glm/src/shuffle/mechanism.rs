//! Summation of the values of all people, coordinate by coordinate.

use crate::Error;
use bandit::sampling::standard_normal;
use privacy::shuffle::BitSum;
use rand::Rng;

/// The mechanism that sums the values of one coordinate over all people.
#[derive(Debug, Clone, PartialEq)]
pub enum Summation {
    /// The exact sum, without privacy.
    Exact,
    /// The sum with Gaussian noise of this standard deviation in double precision, for simulation only.
    Gaussian(f64),
    /// Shuffled bits.
    Bits(BitSum),
}

impl Summation {
    /// The protocol of shuffled bits; `None` for other sums.
    pub fn in_bits(&self) -> Option<&BitSum> {
        match self {
            Self::Bits(bits) => Some(bits),
            _ => None,
        }
    }

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
    /// [`Error::Privacy`] if a value is outside the range of the bits, or there is not one value for each
    /// person.
    pub fn sum(&self, values: &[f64], rng: &mut dyn Rng) -> Result<f64, Error> {
        match self {
            Self::Exact => Ok(values.iter().sum()),
            Self::Gaussian(sd) => Ok(values.iter().sum::<f64>() + sd * standard_normal(rng)),
            Self::Bits(bits) => Ok(bits.analyse(bits.shuffle(values, rng)?)?),
        }
    }
}
