//! Baselines without privacy. RS-GLinUCB is [`JointConfig::rs_glinucb`](crate::joint::JointConfig).

mod ecolog;
mod glm_ucb;
mod gloc;

pub use ecolog::Ecolog;
pub use glm_ucb::GlmUcb;
pub use gloc::Gloc;

use crate::Problem;
use bandit::Features;

/// The features of the arm that was played, if the observation is valid. Rewards lie in [0, 1].
fn observed<'a>(p: &Problem, set: &'a Features, arm: usize, reward: f64) -> Result<&'a [f64], bandit::Error> {
    p.check(set)?;
    p.link.check(1.0, reward)?;
    set.row(arm).ok_or(bandit::Error::Arm { arm, k: p.k })
}

fn finite(values: &[f64]) -> bool {
    values.iter().all(|v| v.is_finite())
}
