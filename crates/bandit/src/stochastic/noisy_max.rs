//! Report Noisy Max: the position of the largest of several sums, with differential privacy.

use super::{Noise, no_privacy, statement};
use crate::Error;
use crate::vector::argmax;
use privacy::PrivacyStatement;
use privacy::budget::{Epsilon, Neighbours};
use rand::Rng;
use serde::{Deserialize, Serialize};

/// The selection of the leader of an epoch, and the privacy of its noise.
///
/// # Source
/// Hu, Huang, Mehta, "Near-Optimal Algorithms for Private Online Learning in a Stochastic Environment":
/// Algorithm 3, section 5. Departure: they take `1/epsilon` for replaced rounds and cite a claim about added
/// ones; under replacement two sums may move in opposite directions, and `1/epsilon` costs up to `2 epsilon`
/// (`tests/all/stochastic_privacy.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NoisyMax {
    /// The output is the leader alone. The noise is `Lap(2/epsilon)` if one round's rewards are replaced, and
    /// the paper's `Lap(1/epsilon)` if they are added or removed (set to 0), which under replacement costs up
    /// to 2 epsilon.
    Leader {
        /// Privacy parameter.
        epsilon: Epsilon,
        /// The relation of neighbours.
        neighbours: Neighbours,
    },
    /// The naive form with `Lap(K/epsilon)`, with which all K noisy sums are private if one round's rewards
    /// are replaced.
    EverySum {
        /// Privacy parameter.
        epsilon: Epsilon,
    },
    /// No noise, and no privacy.
    Exact,
}

impl NoisyMax {
    /// Scale of the noise on each of `k` sums; `None` for no noise.
    pub fn scale(&self, k: usize) -> Option<f64> {
        match self {
            Self::Leader { epsilon, neighbours: Neighbours::AddRemove } => Some(epsilon.get().recip()),
            // The scale for replacement is sufficient for every other relation.
            Self::Leader { epsilon, .. } => Some(2.0 / epsilon.get()),
            Self::EverySum { epsilon } => Some(k as f64 / epsilon.get()),
            Self::Exact => None,
        }
    }

    /// The guarantee of a run in which every round enters one call.
    pub(super) fn privacy(&self) -> PrivacyStatement {
        match *self {
            Self::Leader { epsilon, neighbours } => statement(epsilon, neighbours),
            Self::EverySum { epsilon } => statement(epsilon, Neighbours::ReplaceOne),
            Self::Exact => no_privacy(),
        }
    }
}

/// The position of the largest of `sums` after adding Laplace noise of this scale to each, drawn in order; 0
/// if there is no sum.
///
/// - Privacy: a call costs `2/scale` if neighbours change every sum by at most 1, and `1/scale` if all sums
///   change in the same direction. This holds for the position alone, not for the noisy sums or their gap.
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
