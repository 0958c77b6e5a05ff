//! ARS-UCB: optimism over rounds whose length grows with the number of rounds of the arm.

use super::stored::{one_finite_an_arm, stored};
use super::{MAX_SLOTS, check_arms, check_feedback, field, privacy_statement};
use crate::{Error, Learnt, Policy};
use privacy::PrivacyStatement;
use rand::Rng;
use serde::{Deserialize, Serialize};

/// `f(k)`: the number of slots of an arm's k-th round.
///
/// The analysis assumes that f increases and that `F(k) >= f(k+1)` for large k. This holds for powers with
/// exponent 1 or more, and for doubling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoundSize {
    /// `factor * k^exponent`. Exponent 0 gives rounds of constant length, which the analysis does not cover
    /// and whose regret is much larger.
    Power {
        /// The factor, at least 1.
        factor: u32,
        /// The exponent, at most 16.
        exponent: u32,
    },
    /// `2^(k + shift)`, but `2^(2 + shift)` for k = 1, so that `F(k) = f(k+1)`.
    Doubling {
        /// The shift, at most 48.
        shift: u32,
    },
}

impl RoundSize {
    /// `f(k) = k^2`, the paper's recommendation.
    pub const SQUARES: Self = Self::Power { factor: 1, exponent: 2 };

    /// `f(k)` for k from 1, at most 2^52.
    pub fn slots(self, k: u64) -> u64 {
        let slots = match self {
            Self::Power { factor, exponent } => k.saturating_pow(exponent).saturating_mul(u64::from(factor)),
            Self::Doubling { shift } => 1 << (k.max(2).saturating_add(u64::from(shift))).min(52),
        };
        slots.min(MAX_SLOTS)
    }

    /// `F(k) = f(1) + ... + f(k)`, at most 2^52. Cost: O(1) for exponents 0 and 1, otherwise at most
    /// O(2^52^(1/3)).
    pub fn total(self, k: u64) -> u64 {
        let capped = |sum: u128| sum.min(u128::from(MAX_SLOTS)) as u64;
        let wide = u128::from(k);
        match self {
            Self::Power { factor, exponent: 0 } => capped(wide * u128::from(factor)),
            Self::Power { factor, exponent: 1 } if k <= MAX_SLOTS => {
                capped((wide * (wide + 1) / 2).min(u128::from(MAX_SLOTS)) * u128::from(factor))
            }
            _ => {
                let mut sum = 0;
                for j in 1..=k {
                    sum += self.slots(j);
                    if sum >= MAX_SLOTS {
                        return MAX_SLOTS;
                    }
                }
                sum
            }
        }
    }

    fn validate(self) -> Result<(), Error> {
        match self {
            Self::Power { factor, exponent } => {
                field(factor >= 1, "factor", 0.0, "at least 1")?;
                field(exponent <= 16, "exponent", f64::from(exponent), "16 at most")
            }
            Self::Doubling { shift } => field(shift <= 48, "shift", f64::from(shift), "48 at most"),
        }
    }
}

/// The configuration of [`ArsUcb`], which knows neither horizon nor delays.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArsUcbConfig {
    /// Number of arms, N.
    pub arms: usize,
    /// Width of the index. The analysis assumes more than 4; the paper's experiments use 4. With long
    /// intervals and a width of 4 or less some runs settle on a wrong arm and have linear regret, which a
    /// width of 8 or rounds of k^3 slots avoid.
    pub alpha: f64,
    /// Lengths of rounds, f.
    pub round_size: RoundSize,
}

impl ArsUcbConfig {
    /// The paper's recommendation: `alpha = 4`, `f(k) = k^2`.
    pub fn new(arms: usize) -> Self {
        Self { arms, alpha: 4.0, round_size: RoundSize::SQUARES }
    }

    /// Refuses fields outside their ranges.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] with the first such field.
    pub fn validate(&self) -> Result<(), Error> {
        check_arms(self.arms)?;
        field(self.alpha.is_finite() && self.alpha > 0.0, "alpha", self.alpha, "above 0")?;
        self.round_size.validate()
    }
}

/// Plays the arm with the largest `min(M_i/n_i + sqrt(alpha ln t / n_i), 1)` for a round of `f(k_i)` slots.
///
/// `M_i` is the sum of the feedback in the slots in which i is played, whichever arm earned it. Ties, which
/// the cap at 1 makes frequent, go to the arm played least, then to the lowest.
///
/// - Cost: O(N) per round, O(1) per slot.
/// - Privacy: none.
///
/// # Source
/// Wang, Wang, Huang, Algorithm 1. Departure: none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "super::stored::Stored<ArsUcbConfig, State>")]
pub struct ArsUcb {
    config: ArsUcbConfig,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    pulls: Vec<u64>,
    sums: Vec<f64>,
    /// Number of rounds begun, by arm.
    rounds: Vec<u64>,
    slot: u64,
    /// Arm of the current round, if `left > 0`.
    arm: usize,
    left: u64,
}

impl ArsUcb {
    /// The policy before its first slot.
    ///
    /// # Errors
    /// Those of [`ArsUcbConfig::validate`].
    pub fn new(config: ArsUcbConfig) -> Result<Self, Error> {
        config.validate()?;
        let arms = config.arms;
        let (pulls, sums, rounds) = (vec![0; arms], vec![0.0; arms], vec![0; arms]);
        Ok(Self { config, state: State { pulls, sums, rounds, slot: 0, arm: 0, left: 0 } })
    }

    /// The configuration.
    pub fn config(&self) -> &ArsUcbConfig {
        &self.config
    }

    /// Number of slots in which each arm was played, `n_i`.
    pub fn pulls(&self) -> &[u64] {
        &self.state.pulls
    }

    /// Sum of the feedback in the slots of each arm, `M_i`.
    pub fn sums(&self) -> &[f64] {
        &self.state.sums
    }

    /// Number of rounds begun, of all arms together.
    pub fn rounds(&self) -> u64 {
        self.state.rounds.iter().sum()
    }

    /// The arm of the next round: first each arm once, then the one with the largest index.
    fn next(&self) -> usize {
        let State { pulls, sums, rounds, slot, .. } = &self.state;
        if let Some(new) = rounds.iter().position(|k| *k == 0) {
            return new;
        }
        let log = (*slot as f64).ln();
        let index = |i: usize| {
            let n = pulls[i] as f64;
            (sums[i] / n + (self.config.alpha * log / n).sqrt()).min(1.0)
        };
        let mut best = (0, index(0));
        for i in 1..pulls.len() {
            let u = index(i);
            if u > best.1 || (u == best.1 && pulls[i] < pulls[best.0]) {
                best = (i, u);
            }
        }
        best.0
    }

    fn admits(&self, state: &State) -> Result<(), &'static str> {
        let State { pulls, sums, rounds, slot, arm, left } = state;
        let arms = self.config.arms;
        one_finite_an_arm(sums, arms)?;
        if pulls.len() != arms || rounds.len() != arms || *arm >= arms {
            return Err("not one value an arm");
        }
        let counted = pulls.iter().try_fold(0u64, |sum, n| sum.checked_add(*n));
        if counted != Some(*slot) || *slot > MAX_SLOTS {
            return Err("slots and pulls differ");
        }
        // The pulls of an arm are the slots of its rounds, without those left in the current round.
        let whole = |i: usize| pulls[i] + if i == *arm { *left } else { 0 };
        let f = self.config.round_size;
        let fits = |i: usize| rounds[i] <= pulls[i] + 1 && f.total(rounds[i]) == whole(i);
        if *left > MAX_SLOTS || !(0..arms).all(fits) {
            return Err("rounds and pulls differ");
        }
        Ok(())
    }
}

impl Policy for ArsUcb {
    type Context = ();
    type Feedback = f64;

    fn privacy(&self) -> PrivacyStatement {
        privacy_statement()
    }

    fn learnt(&self) -> Learnt {
        Learnt::sums(self.pulls().iter().copied(), self.sums().iter().copied())
    }

    fn decide(&mut self, (): &(), _: &mut dyn Rng) -> Result<usize, Error> {
        if self.state.left == 0 {
            let arm = self.next();
            let state = &mut self.state;
            state.rounds[arm] += 1;
            state.left = self.config.round_size.slots(state.rounds[arm]);
            state.arm = arm;
        }
        Ok(self.state.arm)
    }

    fn learn(&mut self, (): &(), arm: usize, feedback: &f64, _: &mut dyn Rng) -> Result<(), Error> {
        let state = &mut self.state;
        check_feedback((state.left > 0).then_some(state.arm), arm, *feedback)?;
        let sum = state.sums[arm] + feedback;
        if !sum.is_finite() || state.slot >= MAX_SLOTS {
            return Err(Error::Overflow);
        }
        state.sums[arm] = sum;
        state.pulls[arm] += 1;
        state.slot += 1;
        state.left -= 1;
        Ok(())
    }
}

stored!(ArsUcb, ArsUcbConfig, State);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_sizes_and_their_sums() {
        let f = RoundSize::SQUARES;
        assert_eq!(
            (1..=10).map(|k| f.total(k)).collect::<Vec<_>>(),
            [1, 5, 14, 30, 55, 91, 140, 204, 285, 385]
        );
        let linear = RoundSize::Power { factor: 1, exponent: 1 };
        assert!((1..50).all(|k| linear.total(k) == k * (k + 1) / 2));
        for shift in 0..4 {
            let f = RoundSize::Doubling { shift };
            assert_eq!(f.slots(1), 1 << (2 + shift));
            assert!((1..30).all(|k| f.total(k) == f.slots(k + 1)));
        }
        assert_eq!(RoundSize::Doubling { shift: 48 }.slots(u64::MAX), MAX_SLOTS);
        assert_eq!(RoundSize::Power { factor: 3, exponent: 16 }.slots(u64::MAX), MAX_SLOTS);
    }
}
