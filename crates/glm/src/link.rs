//! Link functions of the reward model.

use crate::error::{Error, field};
use serde::{Deserialize, Serialize};

/// The link function `mu`, which gives the mean reward `E r = mu(z)` at `z = <x, theta>`.
///
/// | | `mu(z)` | rewards |
/// |---|---|---|
/// | `Logistic` | `1 / (1 + e^-z)` | 0 or 1 |
/// | `Probit` | the normal distribution function | 0 or 1 |
/// | `Linear` | `z` | bounded |
/// | `Poisson` | `e^z` | counts, cut off at the reward bound |
///
/// The loss is the integral loss `B(z) - r z`, `B(z) = int_0^z mu`, whose gradient is `(mu(z) - r) x`. For
/// `Probit`, which is not canonical, it differs from the negative log-likelihood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// Logistic regression.
    Logistic,
    /// The probit model under the integral loss.
    Probit,
    /// Least squares.
    Linear,
    /// Log-linear counts, for bounded `z` only.
    Poisson,
}

impl Link {
    /// `mu(z)`.
    pub fn mean(self, z: f64) -> f64 {
        match self {
            Self::Logistic => 1.0 / (1.0 + (-z).exp()),
            Self::Probit => 0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2),
            Self::Linear => z,
            Self::Poisson => z.exp(),
        }
    }

    /// `mu'(z)`.
    pub fn slope(self, z: f64) -> f64 {
        match self {
            Self::Logistic => {
                // The product mu (1 - mu) cancels where mu rounds to 1.
                let e = (-z.abs()).exp();
                e / ((1.0 + e) * (1.0 + e))
            }
            Self::Probit => density(z),
            Self::Linear => 1.0,
            Self::Poisson => z.exp(),
        }
    }

    /// `B(z)`, the integral of `mu` from 0 to `z`.
    pub fn integral(self, z: f64) -> f64 {
        match self {
            Self::Logistic => z.max(0.0) + (-z.abs()).exp().ln_1p() - std::f64::consts::LN_2,
            Self::Probit => z * self.mean(z) + density(z) - density(0.0),
            Self::Linear => 0.5 * z * z,
            Self::Poisson => z.exp_m1(),
        }
    }

    /// The loss of one observation, `B(z) - r z`.
    pub fn loss(self, z: f64, r: f64) -> f64 {
        self.integral(z) - r * z
    }

    /// `L_mu`: the largest `mu'` over `|z| <= s`.
    pub fn max_slope(self, s: f64) -> f64 {
        match self {
            Self::Poisson => s.exp(),
            _ => self.slope(0.0),
        }
    }

    /// `kappa`: the largest `1 / mu'` over `|z| <= s`.
    pub fn kappa(self, s: f64) -> f64 {
        1.0 / self.slope(-s)
    }

    /// The constant `M` of self-concordance, `|mu''| <= M mu'` over `|z| <= s`, for rewards up to `r`: for
    /// canonical families `r`, and for `Probit`, where `|mu''| = |z| mu'`, the larger of `r` and `s`.
    pub fn self_concordance(self, r: f64, s: f64) -> f64 {
        match self {
            Self::Probit => r.max(s),
            _ => r,
        }
    }

    /// Refuses a reward outside `[0, max]`.
    pub(crate) fn check(self, max: f64, r: f64) -> Result<(), bandit::Error> {
        match r.is_finite() {
            false => Err(bandit::Error::RewardNotFinite),
            true if (0.0..=max).contains(&r) => Ok(()),
            true => Err(bandit::Error::Reward { got: r, max }),
        }
    }

    /// Refuses a bound `s` with which `kappa` exceeds 1e12.
    pub(crate) fn validate(self, s: f64) -> Result<(), Error> {
        field("s", s, s > 0.0 && self.kappa(s) < 1e12, "positive, with kappa(s) below 1e12")
    }
}

/// The standard normal density.
fn density(z: f64) -> f64 {
    0.398_942_280_401_432_7 * (-0.5 * z * z).exp()
}
