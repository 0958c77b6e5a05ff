//! Where an elimination stands: what the server knows, and the rule by which arms leave.

use super::{Config, Mechanism};
use crate::Error;
use rand::Rng;
use serde::{Deserialize, Serialize};

/// The server's side of the paper's Algorithm 1: sums go in, arms leave.
///
/// Every arm left gets one batch of users, in order; only the newest batch counts. Holds nothing but what sums that were
/// let out imply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Stage {
    config: Config,
    number: u32,
    left: Vec<usize>,
    /// Estimates of the batch, of the first arms in `left`; fewer than those.
    means: Vec<f64>,
    mechanism: Mechanism,
}

impl Stage {
    /// Before the first sum.
    ///
    /// # Errors
    /// [`Error::Field`] or [`Error::Privacy`] if the configuration is not sound, or its delta too large.
    pub fn new(config: Config) -> Result<Self, Error> {
        config.check()?;
        // Of new runs: one that is stored goes on.
        config.check_delta()?;
        let (left, mechanism) = ((0..config.arms).collect(), config.mechanism(1)?);
        Ok(Self { config, number: 1, left, means: Vec::new(), mechanism })
    }

    /// What it is made of.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Number of the batch under way, from 1.
    pub const fn batch(&self) -> u32 {
        self.number
    }

    /// The mechanism of that batch.
    pub const fn mechanism(&self) -> &Mechanism {
        &self.mechanism
    }

    /// Arms left, in order; at least one.
    pub fn left(&self) -> &[usize] {
        &self.left
    }

    /// Estimates of the batch so far, in the order of [`left`](Self::left).
    pub fn means(&self) -> &[f64] {
        &self.means
    }

    /// The arm whose users are asked.
    pub fn arm(&self) -> usize {
        self.left[self.means.len()] // fewer means than arms
    }

    /// Half width of this batch's confidence intervals.
    pub fn width(&self) -> f64 {
        self.mechanism.width(self.left.len(), self.number, self.config.confidence)
    }

    /// Takes the sum of the batch of [`arm`](Self::arm); after that of the last arm, drops those whose mean plus width is
    /// below the best mean less width. Words are drawn for [`Model::Central`](super::Model::Central) only.
    ///
    /// # Errors
    /// As [`Mechanism::analyse`]. Nothing has changed then.
    pub fn take(&mut self, sum: u64, rng: &mut dyn Rng) -> Result<(), Error> {
        let mean = self.mechanism.analyse(sum, rng)? / self.mechanism.users() as f64;
        if self.means.len() + 1 < self.left.len() {
            self.means.push(mean);
            return Ok(());
        }
        let means = [self.means.as_slice(), &[mean]].concat();
        let left = survivors(&self.left, &means, self.width());
        if left.len() > 1 {
            self.mechanism = self.config.mechanism(self.number + 1)?;
            self.number += 1;
        }
        (self.left, self.means) = (left, Vec::new());
        Ok(())
    }
}

/// Those of the arms `left` whose mean plus `width` is not below the best mean less `width`.
pub fn survivors(left: &[usize], means: &[f64], width: f64) -> Vec<usize> {
    let best = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let stays = |mean: f64| mean + width >= best - width;
    left.iter().zip(means).filter(|(_, mean)| stays(**mean)).map(|(arm, _)| *arm).collect()
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    config: Config,
    number: u32,
    left: Vec<usize>,
    means: Vec<f64>,
}

impl TryFrom<Stored> for Stage {
    type Error = Error;
    fn try_from(Stored { config, number, left, means }: Stored) -> Result<Self, Error> {
        config.check()?;
        let in_order = left.windows(2).all(|w| w[0] < w[1]) && left.last().is_some_and(|a| *a < config.arms);
        let open = means.len() < left.len() && means.iter().all(|m| m.is_finite());
        // The batch before was whole. Batch 0 would be one user, whom every horizon holds.
        let before = number.checked_sub(1).and_then(|n| config.growth.checked_pow(n));
        if before.is_none_or(|users| users > config.horizon) || !in_order || !open {
            return Err(Error::State { what: "a batch that no run can reach" });
        }
        let mechanism = config.mechanism(number)?;
        Ok(Self { config, number, left, means, mechanism })
    }
}

impl From<Stage> for Stored {
    fn from(Stage { config, number, left, means, .. }: Stage) -> Self {
        Self { config, number, left, means }
    }
}
