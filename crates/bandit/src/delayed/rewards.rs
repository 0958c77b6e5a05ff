//! The rewards of all arms, slot by slot.

use super::{check_arms, field};
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
    /// Exactly one arm, such as the category that a user clicks, earns 1 in each slot, with these
    /// probabilities, which sum to 1. Draws one uniform number per slot.
    ClickOne(Vec<f64>),
    /// One row of totals for each slot; play ends after the last row. Draws nothing.
    Table(Arc<Vec<Vec<f64>>>),
}

impl Rewards {
    /// Synthetic weekday coupons: seven arms with means from .50 to .35.
    pub fn weekday_bits() -> Self {
        Self::Bits(vec![0.50, 0.46, 0.44, 0.42, 0.40, 0.38, 0.35])
    }

    /// Number of arms.
    pub fn arms(&self) -> usize {
        match self {
            Self::Fixed(p) | Self::Bernoulli(p) | Self::Bits(p) | Self::ClickOne(p) => p.len(),
            Self::Table(rows) => rows.first().map_or(0, Vec::len),
        }
    }

    /// The arm with the largest expected total over the whole game, or for a table with the largest sum of
    /// totals; the lowest of equals.
    pub fn best(&self) -> usize {
        match self {
            Self::Fixed(p) | Self::Bernoulli(p) | Self::Bits(p) | Self::ClickOne(p) => {
                argmax(p.iter().copied())
            }
            Self::Table(rows) => argmax((0..self.arms()).map(|arm| rows.iter().map(|row| row[arm]).sum())),
        }
    }

    /// # Errors
    /// [`Error::OutOfRange`] if a mean or total is outside [0, 1], probabilities do not sum to 1, rows differ
    /// in length, or there are no arms or more than [`MAX_ARMS`](super::MAX_ARMS).
    pub fn validate(&self) -> Result<(), Error> {
        check_arms(self.arms())?;
        let in_unit = |p: &[f64], name| match p.iter().find(|v| !(0.0..=1.0).contains(*v)) {
            Some(&v) => field(false, name, v, "in [0, 1]"),
            None => Ok(()),
        };
        match self {
            Self::Fixed(p) | Self::Bernoulli(p) | Self::Bits(p) => in_unit(p, "means"),
            Self::ClickOne(p) => {
                in_unit(p, "p")?;
                let sum = p.iter().sum::<f64>();
                field((sum - 1.0).abs() < 1e-9, "p", sum, "1 in sum")
            }
            Self::Table(rows) => rows.iter().try_for_each(|row| {
                let equal = row.len() == self.arms();
                field(equal, "rows", row.len() as f64, "of one length")?;
                in_unit(row, "reward")
            }),
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
            Self::ClickOne(p) => {
                let clicked = super::exp3::draw(p, rng);
                totals.fill(0.0);
                totals[clicked] = 1.0;
            }
            Self::Table(rows) => {
                let row = usize::try_from(t).ok().and_then(|t| rows.get(t));
                row.inspect(|row| totals.copy_from_slice(row));
                return row.is_some();
            }
        }
        true
    }

    /// The regret of `arm` in one slot.
    pub(super) fn regret(&self, totals: &[f64], best: usize, arm: usize) -> f64 {
        match self {
            Self::Fixed(means) | Self::Bernoulli(means) => means[best] - means[arm],
            Self::Bits(_) | Self::ClickOne(_) | Self::Table(_) => totals[best] - totals[arm],
        }
    }
}
