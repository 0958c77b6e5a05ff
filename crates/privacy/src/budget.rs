//! Privacy parameters as types, whose values are within their ranges.

use crate::Error;
use fault::require;
use serde::{Deserialize, Serialize};

macro_rules! budget {
    ($(#[$doc:meta])* $name:ident, $field:literal, $test:expr, $want:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[serde(try_from = "f64", into = "f64")]
        pub struct $name(f64);

        impl $name {
            #[doc = concat!("Accepts values ", $want, ".")]
            ///
            /// # Errors
            /// [`Error::OutOfRange`] for any other value.
            pub fn new(value: f64) -> Result<Self, Error> {
                let test: fn(f64) -> bool = $test;
                require(test(value), $field, value, $want)?;
                Ok(Self(value))
            }

            /// The number.
            pub const fn get(self) -> f64 {
                self.0
            }
        }

        impl TryFrom<f64> for $name {
            type Error = Error;
            fn try_from(value: f64) -> Result<Self, Error> {
                Self::new(value)
            }
        }

        impl From<$name> for f64 {
            fn from(value: $name) -> f64 {
                value.0
            }
        }
    };
}

budget! {
    /// The `epsilon` of `(epsilon, delta)`-differential privacy, in nats.
    Epsilon, "epsilon", |v| v.is_finite() && v > 0.0, "finite and above 0"
}
budget! {
    /// The `delta` of `(epsilon, delta)`-differential privacy; 0 for pure differential privacy.
    Delta, "delta", |v| (0.0..1.0).contains(&v), "at least 0 and below 1"
}
budget! {
    /// The `rho` of zero-concentrated differential privacy: Renyi divergence at most `rho alpha` for every
    /// `alpha > 1`.
    Rho, "rho", |v| v.is_finite() && v > 0.0, "finite and above 0"
}
budget! {
    /// The largest change of a statistic between neighbours, in its own unit and in the norm of the
    /// mechanism.
    Sensitivity, "sensitivity", |v| v.is_finite() && v > 0.0, "finite and above 0"
}

/// The relation of neighbouring data sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Neighbours {
    /// The data of one person, or of one round, is replaced by other data.
    ReplaceOne,
    /// The data of one person is added or removed. Absent data count as zero, so that all coordinates change
    /// in the same direction.
    AddRemove,
}

impl Delta {
    /// Pure differential privacy.
    pub const ZERO: Self = Self(0.0);

    /// `1/n`, as a constant.
    ///
    /// # Panics
    /// If `n` is below 2.
    pub const fn one_in(n: u32) -> Self {
        assert!(n >= 2, "a delta must be below 1");
        Self(1.0 / n as f64)
    }

    /// `ln(1/delta)`.
    pub(crate) fn log_inverse(self) -> Result<f64, Error> {
        require(self.0 > 0.0, "delta", 0, "above 0 where Renyi divergences are converted")?;
        Ok(-self.0.ln())
    }
}

impl Rho {
    /// The largest `rho` whose [`epsilon`](Self::epsilon) at `delta` is at most `epsilon`:
    /// `(sqrt(ln(1/delta) + epsilon) - sqrt(ln(1/delta)))^2`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `delta` is 0.
    ///
    /// # Source
    /// Bun, Steinke, "Concentrated differential privacy", 2016, Proposition 1.3, solved for `rho`.
    pub fn within(epsilon: Epsilon, delta: Delta) -> Result<Self, Error> {
        let log = delta.log_inverse()?;
        // The quotient avoids the cancellation of the difference where epsilon is small.
        Self::new((epsilon.0 / ((log + epsilon.0).sqrt() + log.sqrt())).powi(2))
    }

    /// The `epsilon` of `(epsilon, delta)`-DP at this `delta`: `rho + 2 sqrt(rho ln(1/delta))`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `delta` is 0.
    pub fn epsilon(self, delta: Delta) -> Result<Epsilon, Error> {
        Epsilon::new(self.0 + 2.0 * (self.0 * delta.log_inverse()?).sqrt())
    }

    /// The cost of Gaussian noise of standard deviation `sigma`: `l2^2 / (2 sigma^2)`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless `sigma` and the cost are finite and above 0.
    pub fn of_gaussian(l2: Sensitivity, sigma: f64) -> Result<Self, Error> {
        require(sigma.is_finite() && sigma > 0.0, "sigma", sigma, "finite and above 0")?;
        Self::new((l2.0 / sigma).powi(2) / 2.0)
    }

    /// The standard deviation of Gaussian noise with this cost: `l2 / sqrt(2 rho)`.
    pub fn sigma(self, l2: Sensitivity) -> f64 {
        l2.0 / (2.0 * self.0).sqrt()
    }

    /// The cost of an `epsilon`-DP release: `epsilon^2 / 2` (Bun, Steinke 2016, Proposition 1.4).
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the square leaves the range of doubles.
    pub fn of_pure(epsilon: Epsilon) -> Result<Self, Error> {
        Self::new(epsilon.0.powi(2) / 2.0)
    }
}
