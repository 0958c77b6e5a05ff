//! When what a pull earned arrives.

use super::field;
use crate::Error;
use serde::{Deserialize, Serialize};

/// Longest vector of parts.
const MAX_TAPS: usize = 1 << 20;

/// How a pull's total is spread over the slots after it. Part `tau` arrives `tau >= 1` slots later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// All of it `max(1, z)` slots later, z uniform in `lo..=hi`, drawn in every slot (one uniform number).
    ///
    /// Departure: the paper lets z be 0; nothing arrives in its own slot.
    Random {
        /// Least z.
        lo: usize,
        /// Greatest z.
        hi: usize,
    },
    /// The same share of the total for each `tau`: `shares[0]` one slot later, and so on. They sum to 1 at
    /// most.
    Shares(Vec<f64>),
    /// Share `(1 - discount) * discount^(tau - 1)`, without end.
    Discounted {
        /// In [0, 1).
        discount: f64,
    },
    /// Share `tau^-exponent / zeta(exponent)` for the first `taps`; the rest never arrives (3e-4 of the total
    /// at exponent 2 and 2000 taps).
    Polynomial {
        /// Above 1.
        exponent: f64,
        /// Parts kept.
        taps: usize,
    },
    /// Not oblivious: all of it, one slot later; but `interval` slots later if this is the best arm and, this
    /// pull counted, has been played `3 * interval` times on end or more.
    Streak {
        /// d.
        interval: usize,
    },
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

    /// # Errors
    /// [`Error::OutOfRange`] where a parameter is out of its range.
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

    /// Shares of a fixed shape with an end.
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

/// Riemann's zeta above 1, by Euler and Maclaurin (next term below 1e-13).
fn zeta(s: f64) -> f64 {
    let n = 1000.0f64;
    let head: f64 = (1..1000).rev().map(|k| f64::from(k).powf(-s)).sum();
    head + n.powf(1.0 - s) / (s - 1.0) + n.powf(-s) / 2.0 + s * n.powf(-s - 1.0) / 12.0
}

/// What has been earned and is under way.
#[derive(Debug, Clone)]
pub(super) struct Carry {
    shares: Option<Vec<f64>>,
    discount: Option<f64>,
    /// Due in the coming slots, from `head` on; as long as the longest delay.
    ring: Vec<f64>,
    head: usize,
}

impl Carry {
    /// For a validated `delivery`.
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

    /// One slot: returns what arrives in it, then sends `total` on its way, `delay >= 1` slots where it is in
    /// one piece.
    pub(super) fn step(&mut self, total: f64, delay: usize) -> f64 {
        let arrived = std::mem::take(&mut self.ring[self.head]);
        if let Some(discount) = self.discount {
            // The parts of the next slot are those of this one times `discount`, and the first of the new
            // pull.
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

    /// What is still to arrive.
    pub(super) fn owed(&self) -> f64 {
        let due = self.ring.iter().sum::<f64>();
        self.discount.map_or(due, |discount| due / (1.0 - discount))
    }
}
