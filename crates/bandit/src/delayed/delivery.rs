//! The delays with which the reward of a pull arrives.

use super::field;
use crate::Error;
use serde::{Deserialize, Serialize};

/// Largest number of parts of a reward.
const MAX_TAPS: usize = 1 << 20;

/// The distribution of a pull's total over the slots after it. Part `tau` arrives `tau >= 1` slots later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// The whole total arrives `max(1, z)` slots later, where z is uniform in `lo..=hi`. Every slot draws one
    /// uniform number for z.
    ///
    /// Departure: the paper allows a delay of 0; here nothing arrives in the slot of its pull.
    Random {
        /// Least z.
        lo: usize,
        /// Greatest z.
        hi: usize,
    },
    /// Constant shares of the total: `shares[0]` arrives one slot later, and so on. Their sum is at most 1.
    Shares(Vec<f64>),
    /// The share `(1 - discount) * discount^(tau - 1)` for every `tau`.
    Discounted {
        /// The discount, in [0, 1).
        discount: f64,
    },
    /// The share `tau^-exponent / zeta(exponent)` for `tau` up to `taps`. The rest never arrives, which is
    /// 3e-4 of the total for exponent 2 and 2000 taps.
    Polynomial {
        /// The exponent, above 1.
        exponent: f64,
        /// Number of parts.
        taps: usize,
    },
    /// A delay that depends on the plays: the whole total arrives one slot later, but `interval` slots later
    /// if the arm is the best one and has been played `3 * interval` times in succession or more, this pull
    /// included.
    Streak {
        /// The longest delay, d.
        interval: usize,
    },
}

/// The delay measures of stochastic rewards, in slots.
///
/// # Source
/// Wang, Wang, Huang, section 3.1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DelayMeasures {
    /// `sum_{k>=1} max_i E[sum_{tau>=k} r_{i,tau}]`. Infinite for polynomial shares of exponent 2 or less.
    pub d1: f64,
    /// `sum_{k>=1} max_i Var[sum_{tau>=k} r_{i,tau}]`.
    pub d2: f64,
}

impl Delivery {
    /// Equal shares at `tau` in `lo..hi`.
    pub fn interval(lo: usize, hi: usize) -> Self {
        let share = (hi.max(lo + 1) - lo) as f64;
        Self::Shares((1..hi).map(|tau| if tau >= lo { share.recip() } else { 0.0 }).collect())
    }

    /// Shares proportional to `d + 1 - tau` for `tau` in `1..=d`.
    pub fn decreasing(d: usize) -> Self {
        Self::Shares((1..=d).rev().map(|v| linear_share(v, d)).collect())
    }

    /// Shares proportional to `tau` for `tau` in `1..=d`.
    pub fn increasing(d: usize) -> Self {
        Self::Shares((1..=d).map(|v| linear_share(v, d)).collect())
    }

    /// Refuses parameters outside their ranges.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] with the first such parameter.
    pub fn validate(&self) -> Result<(), Error> {
        let taps =
            |taps: usize, name| field((1..=MAX_TAPS).contains(&taps), name, taps as f64, "from 1 to 2^20");
        match self {
            Self::Random { lo, hi } => {
                field(lo <= hi, "lo", *lo as f64, "at most hi")?;
                taps((*hi).max(1), "hi")
            }
            Self::Shares(shares) => {
                taps(shares.len(), "shares")?;
                let negative = shares.iter().find(|s| !(s.is_finite() && **s >= 0.0));
                negative.map_or(Ok(()), |&s| field(false, "shares", s, "finite and at least 0"))?;
                let sum = shares.iter().sum::<f64>();
                field(sum <= 1.0 + 1e-9, "shares", sum, "1 at most in sum")
            }
            Self::Discounted { discount } => {
                field((0.0..1.0).contains(discount), "discount", *discount, "in [0, 1)")
            }
            Self::Polynomial { exponent, taps: n } => {
                field(exponent.is_finite() && *exponent > 1.0, "exponent", *exponent, "above 1")?;
                taps(*n, "taps")
            }
            Self::Streak { interval } => taps(*interval, "interval"),
        }
    }

    /// The delay measures of totals that are Bernoulli with these means. `None` for [`Delivery::Streak`],
    /// whose delays depend on the plays.
    ///
    /// For [`Delivery::Polynomial`] they are those of all shares, also after `taps`, except that the sum over
    /// k in `d2` ends at `taps`.
    pub fn delay_measures(&self, means: &[f64]) -> Option<DelayMeasures> {
        let most = means.iter().copied().fold(0.0, f64::max);
        // The variance of the part `share` of a total is `share^2` times that of the total.
        let variance = means.iter().map(|s| s * (1.0 - s)).fold(0.0, f64::max);
        // `tails` are the shares from tau = 1, 2, ... on, in any order.
        let of_shares = |tails: &mut dyn Iterator<Item = f64>| {
            let (w, w2) = tails.fold((0.0, 0.0), |(w, w2), tail| (w + tail, w2 + tail * tail));
            DelayMeasures { d1: most * w, d2: variance * w2 }
        };
        Some(match self {
            Self::Random { lo, hi } => {
                let values = (hi - lo + 1) as f64;
                // The probability that the total arrives k slots later or more. It is 1 for k = 1, because
                // z = 0 arrives one slot later too.
                let late =
                    |k: usize| if k == 1 { 1.0 } else { (hi + 1).saturating_sub(k.max(*lo)) as f64 / values };
                let spread = |p: f64| means.iter().map(|s| s * p * (1.0 - s * p)).fold(0.0, f64::max);
                DelayMeasures {
                    d1: (1..=*hi.max(&1)).map(|k| most * late(k)).sum(),
                    d2: (1..=*hi.max(&1)).map(|k| spread(late(k))).sum(),
                }
            }
            Self::Shares(shares) => of_shares(&mut shares.iter().rev().scan(0.0, |tail, share| {
                *tail += share;
                Some(*tail)
            })),
            Self::Discounted { discount } => {
                DelayMeasures { d1: most / (1.0 - discount), d2: variance / (1.0 - discount * discount) }
            }
            Self::Polynomial { exponent, taps } => {
                let whole = zeta(*exponent);
                let mut tail = 1.0;
                let tails = of_shares(&mut (1..=*taps).map(|tau| {
                    let now = tail;
                    tail -= (tau as f64).powf(-exponent) / whole;
                    now
                }));
                let d1 = if *exponent > 2.0 { most * zeta(exponent - 1.0) / whole } else { f64::INFINITY };
                DelayMeasures { d1, ..tails }
            }
            Self::Streak { .. } => return None,
        })
    }

    /// The shares of the variants with a finite number of constant shares.
    fn shares(&self) -> Option<Vec<f64>> {
        match self {
            Self::Shares(shares) => Some(shares.clone()),
            Self::Polynomial { exponent, taps } => {
                let whole = zeta(*exponent);
                Some((1..=*taps).map(|tau| (tau as f64).powf(-exponent) / whole).collect())
            }
            _ => None,
        }
    }
}

fn linear_share(v: usize, d: usize) -> f64 {
    2.0 * v as f64 / (d as f64 * (d as f64 + 1.0))
}

/// Riemann's zeta function for `s` above 1 by the Euler-Maclaurin formula. The first omitted term is below
/// 1e-13.
fn zeta(s: f64) -> f64 {
    let n = 1000.0f64;
    let head: f64 = (1..1000).rev().map(|k| f64::from(k).powf(-s)).sum();
    head + n.powf(1.0 - s) / (s - 1.0) + n.powf(-s) / 2.0 + s * n.powf(-s - 1.0) / 12.0
}

/// The rewards that have been earned and have not arrived.
#[derive(Debug, Clone)]
pub(super) struct Carry {
    shares: Option<Vec<f64>>,
    discount: Option<f64>,
    /// The sums that arrive in the next slots, from `head` on. Its length is the longest delay.
    ring: Vec<f64>,
    head: usize,
}

impl Carry {
    /// No rewards yet, for a validated `delivery`.
    pub(super) fn new(delivery: &Delivery) -> Self {
        let shares = delivery.shares();
        let length = match delivery {
            Delivery::Random { hi, .. } => (*hi).max(1),
            Delivery::Streak { interval } => *interval,
            Delivery::Discounted { .. } => 1,
            Delivery::Shares(_) | Delivery::Polynomial { .. } => shares.as_ref().map_or(1, Vec::len),
        };
        let discount = if let Delivery::Discounted { discount } = delivery { Some(*discount) } else { None };
        Self { shares, discount, ring: vec![0.0; length], head: 0 }
    }

    /// One slot: returns the sum that arrives in it, and adds the `total` of its pull, which arrives after
    /// `delay >= 1` slots if it is not in parts.
    pub(super) fn step(&mut self, total: f64, delay: usize) -> f64 {
        let arrived = std::mem::take(&mut self.ring[self.head]);
        if let Some(discount) = self.discount {
            // The next slot has the parts of this one times `discount`, and the first part of the new pull.
            self.ring[0] = discount * arrived + (1.0 - discount) * total;
            return arrived;
        }
        self.head = (self.head + 1) % self.ring.len();
        match &self.shares {
            Some(shares) if total != 0.0 => {
                let (now, wrapped) = shares.split_at(self.ring.len() - self.head);
                let add = |slots: &mut [f64], shares: &[f64]| {
                    slots.iter_mut().zip(shares).for_each(|(slot, share)| *slot += total * share);
                };
                add(&mut self.ring[self.head..], now);
                add(&mut self.ring, wrapped);
            }
            Some(_) => {}
            None => {
                let slot = (self.head + delay - 1) % self.ring.len();
                self.ring[slot] += total;
            }
        }
        arrived
    }

    /// The sum of all rewards that have not arrived.
    pub(super) fn owed(&self) -> f64 {
        let due = self.ring.iter().sum::<f64>();
        self.discount.map_or(due, |discount| due / (1.0 - discount))
    }
}
