//! What the arms earn, slot by slot.

use super::{Record, check_arms, field};
use crate::Error;
use rand::{Rng, RngExt};
use std::sync::Arc;

/// Totals `s_i(t)` in [0, 1] of every arm in every slot.
///
/// Regret is in expectation for the first two. For the others it is what the best arm ([`Rewards::best`])
/// earned less what was earned, slot by slot: its sum is the adversarial regret whenever that arm is the best
/// one in hindsight.
#[derive(Debug, Clone, PartialEq)]
pub enum Rewards {
    /// Always the same. Draws nothing.
    Fixed(Vec<f64>),
    /// 1 with the arm's mean, else 0; one uniform number a slot, the same for every arm.
    Bernoulli(Vec<f64>),
    /// As Bernoulli, but independent over arms: one uniform number an arm, in arm order. `WeekdayBits` where
    /// arms are the days on which a coupon would be used.
    Bits(Vec<f64>),
    /// Exactly one arm earns 1 in each slot (the category that a user clicks): one uniform number a slot.
    ClickOne {
        /// Probability of each arm; they sum to 1.
        p: Vec<f64>,
        /// Changes of `p`, fixed beforehand.
        drift: Option<Drift>,
    },
    /// Read from a file or made by hand; ends with its last slot. Draws nothing.
    Recorded(Arc<Record>),
}

/// Another distribution over the arms, that holds in every second stretch.
#[derive(Debug, Clone, PartialEq)]
pub struct Drift {
    /// Probability of each arm in the second, fourth, ... stretch.
    pub p: Vec<f64>,
    /// Slots of a stretch.
    pub every: u64,
}

impl Rewards {
    /// The stand-in for weekday coupons: seven arms, means .50 to .35.
    pub fn weekday_bits() -> Self {
        Self::Bits(vec![0.50, 0.46, 0.44, 0.42, 0.40, 0.38, 0.35])
    }

    /// One category clicked in each slot.
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

    /// The arm that earns most over the whole game, in expectation (in a record: in hindsight); the lowest of
    /// equals.
    pub fn best(&self) -> usize {
        let best = |means: &[f64]| crate::vector::argmax(means.iter().copied());
        match self {
            Self::Fixed(p) | Self::Bernoulli(p) | Self::Bits(p) | Self::ClickOne { p, drift: None } => {
                best(p)
            }
            Self::ClickOne { p, drift: Some(drift) } => {
                best(&p.iter().zip(&drift.p).map(|(a, b)| a + b).collect::<Vec<_>>())
            }
            Self::Recorded(record) => best(&record.totals()),
        }
    }

    /// # Errors
    /// [`Error::OutOfRange`] where a mean is outside [0, 1], probabilities do not sum to 1, or there are no
    /// arms or more than [`MAX_ARMS`](super::MAX_ARMS).
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
                field(drift.p.len() == p.len(), "drift", drift.p.len() as f64, "one probability an arm")?;
                field(drift.every >= 1, "every", 0.0, "at least 1")?;
                distribution(&drift.p)
            }
            Self::Recorded(_) => Ok(()),
        }
    }

    /// Draws slot `t` (from 0) into `totals`; false if the game is over.
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
                let second = drift.as_ref().filter(|d| (t / d.every) % 2 == 1);
                let clicked = super::exp3::draw(second.map_or(p, |d| &d.p), rng);
                totals.fill(0.0);
                totals[clicked] = 1.0;
            }
            Self::Recorded(record) => return record.slot(t, totals),
        }
        true
    }

    /// Loss in slot t against the best arm.
    pub(super) fn regret(&self, totals: &[f64], best: usize, arm: usize) -> f64 {
        match self {
            Self::Fixed(means) | Self::Bernoulli(means) => means[best] - means[arm],
            Self::Bits(_) | Self::ClickOne { .. } | Self::Recorded(_) => totals[best] - totals[arm],
        }
    }
}
