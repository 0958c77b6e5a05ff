//! What a service is told to make a policy, and what its devices are told of it.

use super::{Estimator, Protection, ShuffleConfig};
use crate::{Link, Problem};
use privacy::budget::Epsilon;
use serde::{Deserialize, Serialize};

/// A [`ShuffleConfig`] as people write it: rewards in [0, 1], calibrated noise, the paper's design.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Arms of a set, K.
    pub arms: usize,
    /// Features of an arm, d.
    pub features: usize,
    /// People in each batch.
    pub batches: Vec<u64>,
    /// Budget of a person's whole life.
    pub epsilon: Epsilon,
    /// Of privacy and of the widths.
    pub delta: f64,
    /// The link.
    #[serde(default = "logistic")]
    pub link: Link,
    /// Bound on the norm of the parameter.
    #[serde(default = "one")]
    pub s: f64,
    /// Upper bound on `1 / mu'`; that of the whole ball unless it is given.
    #[serde(default)]
    pub kappa: Option<f64>,
    /// [`ShuffleConfig::gamma`].
    pub gamma: f64,
    /// [`ShuffleConfig::lambda`].
    #[serde(default = "one")]
    pub lambda: f64,
    /// Steps of the descent.
    pub steps: u32,
}

fn logistic() -> Link {
    Link::Logistic
}
fn one() -> f64 {
    1.0
}

impl Parameters {
    /// The configuration, which is still to be [validated](ShuffleConfig::validate).
    pub fn config(&self) -> ShuffleConfig {
        let &Self { arms, features, ref batches, epsilon, delta, link, s, kappa, gamma, lambda, steps } =
            self;
        let horizon = batches.iter().fold(0u64, |sum, b| sum.saturating_add(*b));
        let kappa = kappa.unwrap_or(link.kappa(s));
        ShuffleConfig {
            problem: Problem { d: features, k: arms, link, s, kappa, delta, horizon },
            reward_max: 1.0,
            batches: batches.clone(),
            lambda,
            gamma,
            design_factor: 2.0,
            estimator: Estimator::Descent { steps },
            protection: Protection::Calibrated { epsilon },
        }
    }
}
