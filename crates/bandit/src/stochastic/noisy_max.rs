//! Report Noisy Max: which of several sums is the largest, privately.

use super::{Noise, check_epsilon};
use crate::Error;
use crate::oful::argmax;
use rand::Rng;
use serde::{Deserialize, Serialize};

/// How the leader of an epoch is chosen: what its noise protects against.
///
/// # Source
/// Hu, Huang, Mehta, "Near-Optimal Algorithms for Private Online Learning in a Stochastic Environment": Algorithm 3,
/// section 5. Departure: they take `1/epsilon` for replaced rounds and cite a claim about added ones; under
/// replacement two sums may move in opposite directions, and `1/epsilon` costs up to `2 epsilon`
/// (`tests/stochastic_exact.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NoisyMax {
    /// `Lap(2/epsilon)`: epsilon-DP when one round's rewards are replaced.
    Replace {
        /// Privacy parameter.
        epsilon: f64,
    },
    /// `Lap(1/epsilon)`, the paper's: epsilon-DP when one round's rewards are added or removed (set to 0), and
    /// 2 epsilon when they are replaced.
    AddRemove {
        /// Privacy parameter.
        epsilon: f64,
    },
    /// `Lap(K/epsilon)`, the naive form: the K sums could be published at epsilon, replaced or removed.
    EverySum {
        /// Privacy parameter.
        epsilon: f64,
    },
    /// No noise. **Not private.**
    Exact,
}

impl NoisyMax {
    /// Scale of the noise on each of `k` sums; `None` for no noise.
    pub fn scale(&self, k: usize) -> Option<f64> {
        match self {
            Self::Replace { epsilon } => Some(2.0 / epsilon),
            Self::AddRemove { epsilon } => Some(epsilon.recip()),
            Self::EverySum { epsilon } => Some(k as f64 / epsilon),
            Self::Exact => None,
        }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        match self {
            Self::Replace { epsilon } | Self::AddRemove { epsilon } | Self::EverySum { epsilon } => {
                check_epsilon(*epsilon)
            }
            Self::Exact => Ok(()),
        }
    }
}

/// Position of the largest of `sums` after noise of the given scale on each, drawn in order; 0 if there is none.
///
/// - Privacy: per call, `2/scale` if neighbours move every sum by at most 1, `1/scale` if all the same way.
///   Nothing but the position leaves: neither the noisy sums nor their gap may be published.
///
/// # Errors
/// [`Error::Privacy`] from the noise.
///
/// # Source
/// Hu, Huang, Mehta: Algorithm 3.
pub fn report_noisy_max(
    sums: impl IntoIterator<Item = f64>,
    scale: f64,
    noise: &mut impl Noise,
    rng: &mut dyn Rng,
) -> Result<usize, Error> {
    let noisy = sums.into_iter().map(|sum| noise.add(sum, scale, rng));
    Ok(argmax(noisy.collect::<Result<Vec<_>, _>>()?.into_iter()))
}
