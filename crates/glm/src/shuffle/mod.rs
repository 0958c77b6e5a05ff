//! ShuffleGLM: a generalised linear bandit with few batches, in which devices send shuffled messages only.
//!
//! | role | here |
//! |---|---|
//! | parameters of all roles | [`ShuffleParameters`], [`ShuffleConfig`], [`Summation`] |
//! | device | [`Device`] chooses the arm; [`BatchDevices`] and [`Row`] answer the server's tasks |
//! | intermediary | any shuffler, whose output is the number of ones under each label |
//! | server | [`ShuffleGlmServer`] |
//! | all roles in one policy | [`ShuffleGlm`] |

mod config;
mod device;
mod mechanism;
mod parameters;
mod server;
mod whole;

pub use config::{BatchSums, Estimator, NoiseBits, Protection, ShuffleConfig, batch_sizes};
pub use device::{BatchDevices, Device, Row};
pub use mechanism::Summation;
pub use parameters::{LEAST_EPSILON, ShuffleParameters};
pub use server::ShuffleGlmServer;
pub use whole::ShuffleGlm;

use crate::Symmetric;
use bandit::Learnt;
use serde::{Deserialize, Serialize};

/// The values that the server publishes at the end of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// Estimate from the rows of this batch.
    pub theta: Vec<f64>,
    /// `V` of the first batch, `H_k` of the others, including `lambda I`.
    pub metric: Symmetric,
    /// Inverse of the metric.
    pub inverse: Symmetric,
}

impl Batch {
    /// Whether all parts have `d` features and all numbers are finite.
    pub fn is_sound(&self, d: usize) -> bool {
        self.theta.len() == d
            && self.theta.iter().all(|v| v.is_finite())
            && [&self.metric, &self.inverse].iter().all(|m| m.d() == d && m.is_finite())
    }
}

/// The estimate of the last of these batches, which is public.
fn last_estimate(published: &[Batch]) -> Learnt {
    Learnt { theta: published.last().map(|batch| batch.theta.clone()), ..Learnt::default() }
}
