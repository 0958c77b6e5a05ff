//! Simulation of a policy in an environment, and its regret.

use crate::{Environment, Error, Policy};
use rand::Rng;
use serde::{Deserialize, Serialize};

/// Plays `rounds` rounds, or fewer if the environment ends earlier.
///
/// Environment and policy draw from two generators, so that the draws of the policy do not change the rounds.
///
/// # Errors
/// The first error of the environment or the policy.
pub fn play<P, E>(
    policy: &mut P,
    environment: &mut E,
    rounds: usize,
    environment_rng: &mut dyn Rng,
    policy_rng: &mut dyn Rng,
) -> Result<History, Error>
where
    P: Policy<Context = E::Context, Feedback = E::Feedback>,
    E: Environment,
{
    let mut history = History::default();
    for _ in 0..rounds {
        if !environment.begin(environment_rng) {
            break;
        }
        let arm = policy.decide(environment.context()?, policy_rng)?;
        let outcome = environment.play(arm, environment_rng)?;
        policy.learn(environment.context()?, arm, environment.feedback()?, policy_rng)?;
        history.arms.push(arm);
        history.rewards.push(outcome.reward);
        history.regrets.push(outcome.regret);
    }
    Ok(history)
}

/// The history of a run, round by round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// Arms played.
    pub arms: Vec<usize>,
    /// Rewards earned.
    pub rewards: Vec<f64>,
    /// Pseudo-regret of each round.
    pub regrets: Vec<f64>,
}

impl History {
    /// Pseudo-regret up to and including each round: `R_1, ..., R_T`.
    pub fn cumulative_regret(&self) -> Vec<f64> {
        let add = |sum: &mut f64, r: &f64| {
            *sum += r;
            Some(*sum)
        };
        self.regrets.iter().scan(0.0, add).collect()
    }

    /// Pseudo-regret of the whole run, `R_T`.
    pub fn regret(&self) -> f64 {
        self.regrets.iter().sum()
    }

    /// Mean reward up to and including each round, which is the hit rate if rewards are 0 and 1.
    pub fn running_mean_reward(&self) -> Vec<f64> {
        let mean = |sum: &mut f64, (i, r): (usize, &f64)| {
            *sum += r;
            Some(*sum / (i + 1) as f64)
        };
        self.rewards.iter().enumerate().scan(0.0, mean).collect()
    }

    /// Mean reward of the whole run; 0 for an empty one.
    pub fn mean_reward(&self) -> f64 {
        self.rewards.iter().sum::<f64>() / self.rewards.len().max(1) as f64
    }
}

/// Mean and standard error of independent repetitions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Mean.
    pub mean: f64,
    /// Standard error of the mean: the sample standard deviation (divisor n - 1) divided by the root of n.
    pub standard_error: f64,
}

impl Summary {
    /// The summary of `values`; `None` for fewer than two.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.len() < 2 {
            return None;
        }
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
        Some(Self { mean, standard_error: (variance / n).sqrt() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_sums_and_means() {
        let h = History { arms: vec![0; 3], rewards: vec![1.0, 0.0, 0.5], regrets: vec![0.0, 2.0, 1.0] };
        assert_eq!(h.cumulative_regret(), [0.0, 2.0, 3.0]);
        assert_eq!(h.running_mean_reward(), [1.0, 0.5, 0.5]);
        assert_eq!((h.regret(), h.mean_reward()), (3.0, 0.5));
        assert_eq!(History::default().mean_reward(), 0.0);
    }

    #[test]
    fn summary_of_known_values() {
        let s = Summary::of(&[1.0, 2.0, 3.0, 6.0]).unwrap();
        assert_eq!(s.mean, 3.0);
        assert!((s.standard_error - (14.0f64 / 3.0 / 4.0).sqrt()).abs() < 1e-15);
        assert_eq!(Summary::of(&[1.0]), None);
    }
}
