//! The parameters of ShuffleGLM that a service and its devices exchange.

use super::{Estimator, Protection, ShuffleConfig};
use crate::error::{Error, field};
use crate::{Link, Problem};
use privacy::budget::Epsilon;
use serde::{Deserialize, Serialize};

/// The parameters in a creation request. Rewards lie in [0, 1], noise is calibrated, and the design factor is
/// the paper's, 2.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShuffleParameters {
    /// Number of arms in each round, K.
    pub arms: usize,
    /// Number of features of an arm, d.
    pub features: usize,
    /// Number of people in each batch.
    pub batches: Vec<u64>,
    /// Epsilon of all that one person ever sends.
    pub epsilon: Epsilon,
    /// Delta of the privacy guarantee, and of the widths.
    pub delta: f64,
    /// The link.
    #[serde(default = "logistic")]
    pub link: Link,
    /// Bound on the norm of the parameter.
    #[serde(default = "one")]
    pub s: f64,
    /// Upper bound on `1 / mu'`, by default that of the whole ball.
    #[serde(default)]
    pub kappa: Option<f64>,
    /// [`ShuffleConfig::gamma`].
    pub gamma: f64,
    /// [`ShuffleConfig::lambda`].
    #[serde(default = "one")]
    pub lambda: f64,
    /// Number of steps of the descent.
    pub steps: u32,
    /// [`ShuffleConfig::colluding`].
    #[serde(default)]
    pub colluding: f64,
}

fn logistic() -> Link {
    Link::Logistic
}
fn one() -> f64 {
    1.0
}

// Bounds on the parameters whose noise a service or a device calibrates. Within them calibration takes some
// tenths of a second for each batch; outside it takes longer, or the guarantee has no meaning.
const MAX_BATCHES: usize = 8;
const MAX_PEOPLE: u64 = 1_000_000;
const MAX_STEPS: u32 = 1000;
/// Largest number of descent steps in all batches together.
const MAX_ALL_STEPS: u64 = 2000;
/// The smallest epsilon of [`ShuffleParameters`].
pub const LEAST_EPSILON: f64 = 0.1;
const MIN_DELTA: f64 = 1e-30;

impl ShuffleParameters {
    /// The configuration, which the caller has to [validate](ShuffleConfig::validate). Its noise can be
    /// calibrated in seconds.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for more than 8 batches, a million people in all, 1000 steps, or 2000 steps in
    /// all batches; for an epsilon below 0.1; for a delta below 10^-30 or [above 0.01](Problem::check_delta).
    pub fn config(&self) -> Result<ShuffleConfig, Error> {
        let &Self {
            arms,
            features,
            ref batches,
            epsilon,
            delta,
            link,
            s,
            kappa,
            gamma,
            lambda,
            steps,
            colluding,
        } = self;
        let horizon = batches.iter().fold(0u64, |sum, b| sum.saturating_add(*b));
        let count = batches.len();
        field("batches", count as f64, (1..=MAX_BATCHES).contains(&count), "from 1 to 8")?;
        field("batches in sum", horizon as f64, (1..=MAX_PEOPLE).contains(&horizon), "from 1 to 1000000")?;
        field("steps", steps.into(), (1..=MAX_STEPS).contains(&steps), "from 1 to 1000")?;
        let all = u64::from(steps) * count as u64;
        field("steps times batches", all as f64, all <= MAX_ALL_STEPS, "from 1 to 2000")?;
        field("epsilon", epsilon.get(), epsilon.get() >= LEAST_EPSILON, "at least 0.1")?;
        field("delta", delta, delta >= MIN_DELTA, "at least 1e-30")?;
        let kappa = kappa.unwrap_or(link.kappa(s));
        let problem = Problem { d: features, k: arms, link, s, kappa, delta, horizon };
        problem.check_delta()?;
        Ok(ShuffleConfig {
            problem,
            reward_max: 1.0,
            batches: batches.clone(),
            lambda,
            gamma,
            design_factor: 2.0,
            estimator: Estimator::Descent { steps },
            protection: Protection::Calibrated { epsilon },
            colluding,
        })
    }
}
