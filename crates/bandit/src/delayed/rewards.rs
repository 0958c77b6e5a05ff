//! The rewards of all arms, slot by slot.

use super::{Record, check_arms, field};
use crate::Error;
use crate::vector::argmax;
use rand::{Rng, RngExt};
use std::sync::Arc;

/// Totals `s_i(t)` in [0, 1] of every arm in every slot.
///
/// For the first two variants regret is the difference of means. For the others it is the difference between
/// the total of the best arm ([`Rewards::best`]) and that of the arm played, whose sum is the adversarial
/// regret if that arm is the best one in hindsight.
#[derive(Debug, Clone, PartialEq)]
pub enum Rewards {
    /// Constant totals. Draws nothing.
    Fixed(Vec<f64>),
    /// 1 with the probability of the arm's mean, else 0. Draws one uniform number per slot, which all arms
    /// share.
    Bernoulli(Vec<f64>),
    /// As Bernoulli, but independent over arms. Draws one uniform number per arm, in arm order.
    Bits(Vec<f64>),
    /// Exactly one arm, such as the category that a user clicks, earns 1 in each slot. Draws one uniform
    /// number per slot.
    ClickOne {
        /// Probability of each arm; they sum to 1.
        p: Vec<f64>,
        /// Other probabilities for some slots, fixed in advance.
        drift: Option<Drift>,
    },
    /// Totals from a file or a table. Play ends after its last slot. Draws nothing.
    Recorded(Arc<Record>),
}

/// Probabilities that replace those of [`Rewards::ClickOne`] in every second run of `every` slots.
#[derive(Debug, Clone, PartialEq)]
pub struct Drift {
    /// Probability of each arm in the second, fourth, ... run of slots; they sum to 1.
    pub p: Vec<f64>,
    /// Number of slots between two changes, at least 1.
    pub every: u64,
}

impl Rewards {
    /// Synthetic weekday coupons: seven arms with means from .50 to .35.
    pub fn weekday_bits() -> Self {
        Self::Bits(vec![0.50, 0.46, 0.44, 0.42, 0.40, 0.38, 0.35])
    }

    /// One click in each slot, with the same probabilities `p` in all slots.
    pub fn click_one(p: &[f64]) -> Self {
        Self::ClickOne { p: p.to_vec(), drift: None }
    }

    /// Number of arms.
    pub fn arms(&self) -> usize {
        match self {
            Self::Fixed(p) | Self::Bernoulli(p) | Self::Bits(p) | Self::ClickOne { p, .. } => p.len(),
            Self::Recorded(record) => record.arms(),
        }
    }

    /// The arm with the largest expected total over the whole game, or for a record with the largest sum of
    /// totals; the lowest of equals. With [`Drift`] the game is taken to have equally many slots of either
    /// distribution.
    pub fn best(&self) -> usize {
        match self {
            Self::Fixed(p) | Self::Bernoulli(p) | Self::Bits(p) | Self::ClickOne { p, drift: None } => {
                argmax(p.iter().copied())
            }
            Self::ClickOne { p, drift: Some(drift) } => argmax(p.iter().zip(&drift.p).map(|(a, b)| a + b)),
            Self::Recorded(record) => argmax(record.totals().into_iter()),
        }
    }

    /// # Errors
    /// [`Error::OutOfRange`] if a mean is outside [0, 1], probabilities do not sum to 1, a drift has another
    /// number of arms or no slots, or there are no arms or more than [`MAX_ARMS`](super::MAX_ARMS).
    pub fn validate(&self) -> Result<(), Error> {
        check_arms(self.arms())?;
        let in_unit = |p: &[f64], name| match p.iter().find(|v| !(0.0..=1.0).contains(*v)) {
            Some(&v) => field(false, name, v, "in [0, 1]"),
            None => Ok(()),
        };
        let distribution = |p: &[f64]| {
            in_unit(p, "p")?;
            let sum = p.iter().sum::<f64>();
            field((sum - 1.0).abs() < 1e-9, "p", sum, "1 in sum")
        };
        match self {
            Self::Fixed(p) | Self::Bernoulli(p) | Self::Bits(p) => in_unit(p, "means"),
            Self::ClickOne { p, drift } => {
                distribution(p)?;
                let Some(drift) = drift else { return Ok(()) };
                field(
                    drift.p.len() == p.len(),
                    "drift",
                    drift.p.len() as f64,
                    "one probability for each arm",
                )?;
                field(drift.every >= 1, "every", 0.0, "at least 1")?;
                distribution(&drift.p)
            }
            Self::Recorded(_) => Ok(()),
        }
    }

    /// Draws slot `t`, from 0, into `totals`. False if the game is over.
    pub(super) fn draw(&self, t: u64, totals: &mut [f64], rng: &mut dyn Rng) -> bool {
        match self {
            Self::Fixed(means) => totals.copy_from_slice(means),
            Self::Bernoulli(means) => {
                let u: f64 = rng.random();
                totals.iter_mut().zip(means).for_each(|(x, mean)| *x = f64::from(u < *mean));
            }
            Self::Bits(means) => {
                totals
                    .iter_mut()
                    .zip(means)
                    .for_each(|(x, mean)| *x = f64::from(rng.random::<f64>() < *mean));
            }
            Self::ClickOne { p, drift } => {
                let other = drift.as_ref().filter(|drift| (t / drift.every) % 2 == 1);
                let clicked = super::exp3::draw(other.map_or(p, |drift| &drift.p), rng);
                totals.fill(0.0);
                totals[clicked] = 1.0;
            }
            Self::Recorded(record) => return record.slot(t, totals),
        }
        true
    }

    /// The regret of `arm` in one slot.
    pub(super) fn regret(&self, totals: &[f64], best: usize, arm: usize) -> f64 {
        match self {
            Self::Fixed(means) | Self::Bernoulli(means) => means[best] - means[arm],
            Self::Bits(_) | Self::ClickOne { .. } | Self::Recorded(_) => totals[best] - totals[arm],
        }
    }
}
