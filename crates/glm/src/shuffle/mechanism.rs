//! How the values of all people become one sum, coordinate by coordinate.

use crate::Error;
use bandit::sampling::standard_normal;
use privacy::shuffle::BitSum;
use rand::Rng;

/// Mechanism by which the values of one coordinate, one for each person, become one sum.
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
    /// [`Error::Privacy`] if a value is outside the range of the bits, or there are not as many as people.
    pub fn sum(&self, values: &[f64], rng: &mut dyn Rng) -> Result<f64, Error> {
        match self {
            Self::Exact => Ok(values.iter().sum()),
            Self::Gaussian(sd) => Ok(values.iter().sum::<f64>() + sd * standard_normal(rng)),
            Self::Bits(bits) => Ok(bits.analyse(bits.shuffle(values, rng)?)?),
        }
    }
}
