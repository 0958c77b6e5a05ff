//! Encrypted counters per arm, which holders of the key open for whole groups of feedbacks.
//!
//! With K arms, a feedback has 2K coefficients behind its L statistics, at the same scale: 1 at L + a and the
//! reward at L + K + a, for the arm a that was played, and 0 at the others. The server adds them up, and
//! shows the sum of the first feedbacks whenever their number is a multiple of [`Counters::every`]: two sums
//! that are shown differ by whole groups, never by fewer feedbacks, and whoever asks gets the same bytes.
//!
//! Rewards are rounded to 2⁻²⁰, so that a sum is a number of steps, and the noise of encryption disappears
//! when it is rounded to one: 3.2·√t units of a coefficient for t feedbacks, and a step has 2²⁴.

use crate::{Error, LOG_STATISTICS};
use fault::OutOfRange;
use serde::{Deserialize, Serialize};

/// log₂ of the steps of a count of 1 and of a reward of 1.
pub const LOG_COUNTER_STEPS: u32 = 20;
/// log₂ of the units of a coefficient in a step.
pub(crate) const LOG_STEP: u32 = LOG_STATISTICS - LOG_COUNTER_STEPS;
/// The fewest feedbacks of a group.
pub const LEAST_COUNTED: u64 = 10;

/// What the counters of a bandit show.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// The feedbacks of a group, at least [`LEAST_COUNTED`].
    #[serde(default = "default_every")]
    pub every: u64,
    /// ρ of the noise that the server adds to the sums of each group; without it they are exact. Replacing
    /// one feedback by another moves the sums of its group by at most 2 in Euclidean norm, so that a discrete
    /// Gaussian of variance 2/ρ makes all that is ever shown ρ-zCDP for one feedback, the others given.
    #[serde(default)]
    pub rho: Option<f64>,
}

fn default_every() -> u64 {
    100
}

impl Default for Counters {
    fn default() -> Self {
        Counters { every: default_every(), rho: None }
    }
}

impl Counters {
    /// Refuses groups that are too small, and a ρ without meaning.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !(LEAST_COUNTED..=1_000_000).contains(&self.every) {
            return Err(OutOfRange::new("counters.every", self.every, "between 10 and 10⁶").into());
        }
        match self.rho {
            Some(rho) if !(1e-4..=10.0).contains(&rho) => {
                Err(OutOfRange::new("counters.rho", rho, "between 10⁻⁴ and 10, or left out").into())
            }
            _ => Ok(()),
        }
    }

    /// The variance of the noise of a group in steps, 0 without noise, and the units of a coefficient in a
    /// step.
    ///
    /// # Source
    /// Canonne, Kamath, Steinke 2020: Theorem 4, for a sensitivity of 2 and on integers.
    pub fn noise(&self) -> (u64, i64) {
        let of_one = |rho: f64| f64::from(2 * LOG_COUNTER_STEPS + 1).exp2() / rho;
        (self.rho.map_or(0, |rho| of_one(rho).ceil() as u64), 1 << LOG_STEP)
    }

    /// What holders of the key learn from the counters, in a sentence.
    pub fn privacy(&self) -> String {
        let noise = match self.rho {
            None => "exactly".into(),
            Some(rho) => format!("with noise (rho-zCDP for one feedback, the others given, rho = {rho})"),
        };
        let every = self.every;
        format!(
            "everyone who holds the key can read how often each arm was played and the sum of its rewards, for every {every} feedbacks, {noise}"
        )
    }

    /// Standard deviation of the noise of a count, and of a sum of rewards, after `feedbacks` feedbacks.
    pub fn deviation(&self, feedbacks: u64) -> f64 {
        self.rho.map_or(0.0, |rho| (2.0 / rho * (feedbacks / self.every) as f64).sqrt())
    }
}

/// The counter of an arm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ArmCounter {
    /// How often it was played. With noise it may be below 0.
    pub pulls: f64,
    /// The sum of its rewards.
    pub reward: f64,
}

impl ArmCounter {
    /// The mean reward, if the arm was played.
    pub fn mean(&self) -> Option<f64> {
        (self.pulls >= 1.0).then(|| self.reward / self.pulls)
    }
}

/// The coefficients of one feedback.
pub(crate) fn contribution(arms: usize, arm: usize, reward: f64) -> Vec<i64> {
    let steps = |value: f64| (value * f64::from(LOG_COUNTER_STEPS).exp2()).round() as i64;
    let mut out = vec![0; 2 * arms];
    (out[arm], out[arms + arm]) = (steps(1.0) << LOG_STEP, steps(reward) << LOG_STEP);
    out
}

/// The counters in decrypted coefficients.
pub(crate) fn read(coefficients: &[i128], arms: usize) -> Vec<ArmCounter> {
    let value = |at: usize| {
        // Rounded to a step, so that what is shown does not depend on the noise of encryption.
        let steps = (coefficients[at] + (1 << (LOG_STEP - 1))) >> LOG_STEP;
        steps as f64 / f64::from(LOG_COUNTER_STEPS).exp2()
    };
    (0..arms).map(|arm| ArmCounter { pulls: value(arm), reward: value(arms + arm) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BanditConfig, KeyPlan, ScoreLayout, Shape, WidthShape};

    fn layout(config: &BanditConfig) -> Result<ScoreLayout, Error> {
        let shape = Shape::for_problem(config.linear.d, config.linear.k);
        let plan = KeyPlan::new(shape, false, WidthShape::default())?;
        let of_bandit = config.plan(&plan.params.validate().unwrap(), shape, plan.scores)?;
        Ok(ScoreLayout::new(config, &of_bandit, plan.scores))
    }

    /// The bytes that docs/encrypted-counters.md states, and the bounds of a configuration.
    #[test]
    fn counters_take_few_bytes_and_sizable_groups() {
        let mut config = BanditConfig::new(7, 4);
        let bytes = |config: &BanditConfig| {
            let layout = layout(config).unwrap();
            let small = ckks::LOGN13_LOGQP147_SCORES.validate().unwrap();
            ckks::partial_ciphertext_bytes(&small, small.max_level(), layout.feedback_numbers())
        };
        let without = bytes(&config);
        config.counters = Some(Counters::default());
        assert_eq!((without, bytes(&config)), (549, 647));
        for (every, rho, taken) in [
            (LEAST_COUNTED - 1, None, false),
            (LEAST_COUNTED, None, true),
            (1_000_001, None, false),
            (100, Some(0.0), false),
            (100, Some(f64::NAN), false),
            (100, Some(10.5), false),
            (100, Some(0.5), true),
        ] {
            config.counters = Some(Counters { every, rho });
            assert_eq!(layout(&config).is_ok(), taken, "{every}, {rho:?}");
        }
    }

    /// Counters are what was played, whatever the noise of encryption is below half a step.
    #[test]
    fn counters_do_not_depend_on_the_noise_of_encryption() {
        let mut config = BanditConfig::new(2, 3);
        config.counters = Some(Counters::default());
        let layout = layout(&config).unwrap();
        let mut sum = vec![0i128; layout.feedback_numbers()];
        for (arm, reward) in [(0, 1.0), (2, -0.25), (2, -1.0)] {
            let feedback = layout.feedback(arm, &[0.6, -0.8], reward).unwrap();
            sum.iter_mut().zip(feedback).for_each(|(sum, x)| *sum += i128::from(x));
        }
        let want = [(1.0, 1.0), (0.0, 0.0), (2.0, -1.25)];
        for noise in [0, (1 << (LOG_STEP - 1)) - 1, -(1 << (LOG_STEP - 1))] {
            let noisy: Vec<i128> = sum.iter().map(|x| x + noise).collect();
            let got = layout.read_counters(&noisy);
            assert_eq!(got.iter().map(|of| (of.pulls, of.reward)).collect::<Vec<_>>(), want);
        }
        assert!(matches!(layout.feedback(3, &[0.6, -0.8], 0.5), Err(Error::NoArm { got: 3, arms: 3 })));
    }
}
