//! Sums of rewards that have entered no release.

use super::Noise;
use crate::Error;
use fault::require;
use rand::Rng;
use serde::{Deserialize, Serialize};

/// The sum and number of rewards that have entered no release. A release empties it, so that no reward enters
/// two releases.
///
/// The sum is a whole number of steps of `2^-20`: the privacy of the noise assumes that sums are exact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenSum {
    steps: u64,
    count: u64,
}

const STEPS_PER_UNIT: f64 = (1u64 << 20) as f64;

impl OpenSum {
    /// Largest number of rewards. Their sum is at most `2^53` steps, which a double represents exactly.
    pub(super) const MAX_COUNT: u64 = 1 << 33;

    /// Adds one reward.
    pub(super) fn add(&mut self, reward: f64) -> Result<(), Error> {
        require((0.0..=1.0).contains(&reward), "reward", reward, "in [0, 1]")?;
        if self.count == Self::MAX_COUNT {
            return Err(Error::Overflow);
        }
        self.steps += (reward * STEPS_PER_UNIT).round() as u64;
        self.count += 1;
        Ok(())
    }

    /// Adds the rewards of `other`.
    pub(super) fn absorb(&mut self, other: Self) {
        self.steps += other.steps;
        self.count += other.count;
    }

    /// Adds the sum of `count` rewards of `arm`.
    pub(super) fn add_sum(&mut self, arm: usize, sum: f64, count: u64) -> Result<(), Error> {
        let max = count as f64;
        if !(0.0..=max).contains(&sum) {
            return Err(Error::RewardOfArm { arm, got: sum, max });
        }
        if count > Self::MAX_COUNT - self.count {
            return Err(Error::Overflow);
        }
        self.absorb(Self { steps: (sum * STEPS_PER_UNIT).round() as u64, count });
        Ok(())
    }

    /// Returns the sum with noise of the given scale, and empties this one.
    pub(super) fn release(
        &mut self,
        scale: f64,
        noise: &mut impl Noise,
        rng: &mut dyn Rng,
    ) -> Result<f64, Error> {
        let released = self.noisy(scale, noise, rng)?;
        *self = Self::default();
        Ok(released)
    }

    /// Returns the sum with noise of the given scale, without emptying it. The scale must pay for all
    /// releases of a reward.
    pub(super) fn noisy(&self, scale: f64, noise: &mut impl Noise, rng: &mut dyn Rng) -> Result<f64, Error> {
        Ok(noise.add(self.exact(), scale, rng)?)
    }

    /// The sum without noise, which is private data.
    pub(super) fn exact(&self) -> f64 {
        self.steps as f64 / STEPS_PER_UNIT
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Whether a run can reach this sum, with fewer than `size` rewards.
    pub(super) fn fits(&self, size: u64) -> bool {
        self.count < size && self.count <= Self::MAX_COUNT && self.steps <= self.count << 20
    }
}
