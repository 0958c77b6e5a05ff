//! Renyi differential privacy: curves, their sums, and their conversion to `(epsilon, delta)`.

use crate::Error;
use crate::budget::{Delta, Epsilon, Rho};
use serde::{Deserialize, Serialize};

/// Largest order in [`RdpCurve::epsilon`]. The best order is near `sqrt(2 ln(1/delta)) / epsilon`.
const MAX_ORDER: u32 = 1 << 14;

/// A bound `epsilon(alpha)` on the Renyi divergence of every integer order `alpha >= 2`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RdpCurve {
    /// An `epsilon`-DP release: `min(epsilon^2 alpha / 2, epsilon)` (Bun, Steinke 2016, Proposition 1.4).
    Pure(Epsilon),
    /// Continuous or discrete Gaussian noise: `rho alpha`.
    Zcdp(Rho),
    /// Skellam noise on a sum of `batch` people, of precision `s epsilon sqrt(batch)`: `alpha epsilon^2/2 +
    /// min((2 alpha - 1) epsilon^2/(4 s^2 n) + 3 epsilon/(2 s^3 n^(3/2)), 3 epsilon/(2 s sqrt n))`.
    ///
    /// Source: Chowdhury, Zhou, Lemma 3 and Theorem 2 (after Agarwal, Kairouz, Liu 2021).
    Skellam {
        /// The `epsilon` that determines the noise.
        epsilon: Epsilon,
        /// `s`, at least 1.
        scale: f64,
        /// `n`. The value 1 gives a bound for every batch; the first batch of a doubling schedule has 2.
        batch: u64,
    },
    /// Several releases that depend on the same person: the sum of their curves.
    Sum(Vec<RdpCurve>),
}

impl RdpCurve {
    /// `epsilon(alpha)`.
    pub fn at(&self, alpha: u32) -> f64 {
        let a = f64::from(alpha);
        match self {
            Self::Pure(e) => (a * e.get().powi(2) / 2.0).min(e.get()),
            Self::Zcdp(rho) => a * rho.get(),
            Self::Skellam { epsilon, scale, batch } => {
                let (e, s, n) = (epsilon.get(), *scale, *batch as f64);
                let fine =
                    (2.0 * a - 1.0) * e * e / (4.0 * s * s * n) + 3.0 * e / (2.0 * s.powi(3) * n.powf(1.5));
                a * e * e / 2.0 + fine.min(3.0 * e / (2.0 * s * n.sqrt()))
            }
            Self::Sum(parts) => parts.iter().map(|part| part.at(alpha)).sum(),
        }
    }

    /// The least `epsilon` of `(epsilon, delta)`-DP that the curve implies, and its order:
    /// `min over alpha of epsilon(alpha) + ln(1/(alpha delta))/(alpha - 1) + ln(1 - 1/alpha)`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `delta` is 0, or if no order gives a finite `epsilon` above 0.
    ///
    /// # Source
    /// Canonne, Kamath, Steinke 2020, Proposition 12; Chowdhury, Zhou, Lemma 10.
    pub fn epsilon(&self, delta: Delta) -> Result<(Epsilon, u32), Error> {
        delta.log_inverse()?;
        let at = |alpha: u32| {
            let a = f64::from(alpha);
            self.at(alpha) - (a * delta.get()).ln() / (a - 1.0) + (-1.0 / a).ln_1p()
        };
        let best = (2..=MAX_ORDER).map(|alpha| (at(alpha), alpha)).min_by(|x, y| x.0.total_cmp(&y.0));
        let (epsilon, alpha) = best.unwrap_or((f64::INFINITY, 2));
        Ok((Epsilon::new(epsilon)?, alpha))
    }
}
