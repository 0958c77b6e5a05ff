//! Report Noisy Max: the position of the largest of several sums, under differential privacy.

use super::{Noise, no_privacy, statement};
use crate::Error;
use crate::vector::argmax;
use privacy::PrivacyStatement;
use privacy::budget::{Epsilon, Neighbours};
use rand::Rng;
use serde::{Deserialize, Serialize};

/// How the leader of an epoch is chosen, and what its noise protects.
///
/// # Source
/// Hu, Huang, Mehta, "Near-Optimal Algorithms for Private Online Learning in a Stochastic Environment":
/// Algorithm 3, section 5. Departure: they take `1/epsilon` for replaced rounds and cite a claim about added
/// ones; under replacement two sums may move in opposite directions, and `1/epsilon` costs up to `2 epsilon`
/// (`tests/all/stochastic_privacy.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NoisyMax {
    /// The leader alone is private. `Lap(2/epsilon)` if one round's rewards are replaced; `Lap(1/epsilon)`,
    /// the paper's, if they are added or removed (set to 0), which is up to 2 epsilon under replacement.
    Leader {
        /// Privacy parameter.
        epsilon: Epsilon,
        /// What neighbours differ in.
        neighbours: Neighbours,
    },
    /// The naive form, `Lap(K/epsilon)`: the K noisy sums could be published, one round's rewards being
    /// replaced.
    EverySum {
        /// Privacy parameter.
        epsilon: Epsilon,
    },
    /// No noise. **Not private.**
    Exact,
}

impl NoisyMax {
    /// Scale of the noise on each of `k` sums; `None` for no noise.
    pub fn scale(&self, k: usize) -> Option<f64> {
        match self {
            Self::Leader { epsilon, neighbours: Neighbours::AddRemove } => Some(epsilon.get().recip()),
            // Any other relation is served by the scale for the widest.
            Self::Leader { epsilon, .. } => Some(2.0 / epsilon.get()),
            Self::EverySum { epsilon } => Some(k as f64 / epsilon.get()),
            Self::Exact => None,
        }
    }

    /// The guarantee if every round enters one call.
    pub(super) fn privacy(&self) -> PrivacyStatement {
        match *self {
            Self::Leader { epsilon, neighbours } => statement(epsilon, neighbours),
            Self::EverySum { epsilon } => statement(epsilon, Neighbours::ReplaceOne),
            Self::Exact => no_privacy(),
        }
    }
}

/// Position of the largest of `sums` after noise of the given scale on each, drawn in order; 0 if there is
/// none.
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
