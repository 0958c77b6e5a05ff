//! ARS-EXP3: exponential weights over rounds whose length grows as the root of their number.

use super::stored::{one_finite_an_arm, stored};
use super::{check_arms, check_feedback, exp3, field, privacy_statement};
use crate::{Error, Learnt, Policy};
use privacy::PrivacyStatement;
use rand::Rng;
use serde::{Deserialize, Serialize};
use std::f64::consts::E;

/// Largest horizon. Construction counts all rounds, of which there are at most 2e7.
const MAX_HORIZON: u64 = 1 << 36;

/// The configuration of [`ArsExp3`], which knows the horizon, but not the delays.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArsExp3Config {
    /// Number of arms, N.
    pub arms: usize,
    /// Number of slots, T, at most 2^36. It determines the lengths of all rounds; play ends after it.
    pub horizon: u64,
    /// The exponent beta of the round lengths `g(k) = ceil(k^beta)`, from 1/2 (the paper's) to 2.
    pub beta: f64,
}

impl ArsExp3Config {
    /// `beta = 1/2`.
    pub fn new(arms: usize, horizon: u64) -> Self {
        Self { arms, horizon, beta: 0.5 }
    }

    /// Refuses fields outside their ranges.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] with the first such field.
    pub fn validate(&self) -> Result<(), Error> {
        check_arms(self.arms)?;
        field((1..=MAX_HORIZON).contains(&self.horizon), "horizon", self.horizon as f64, "from 1 to 2^36")?;
        field((0.5..=2.0).contains(&self.beta), "beta", self.beta, "from 1/2 to 2")
    }

    /// `g(k) = ceil(k^beta)` slots. Departure: the paper's `k^(1/2)` is not rounded to a whole number.
    pub fn slots(&self, k: u64) -> u64 {
        if self.beta == 0.5 {
            let floor = k.isqrt();
            return floor + u64::from(floor * floor < k);
        }
        let power = (k as f64).powf(self.beta);
        // A power that is a whole number up to rounding errors is not rounded up.
        if (power - power.round()).abs() < 1e-9 * power { power.round() as u64 } else { power.ceil() as u64 }
    }

    /// The largest number of rounds that fit into the horizon, K, and the sum of their slots.
    pub fn rounds(&self) -> (u64, u64) {
        let (mut rounds, mut sum) = (0, 0);
        loop {
            let longer = sum + self.slots(rounds + 1);
            if longer > self.horizon {
                return (rounds, sum);
            }
            (rounds, sum) = (rounds + 1, longer);
        }
    }

    /// `gamma = min(1, sqrt(N ln N / ((e - 1) ((beta + 1) T)^(1 / (beta + 1)))))`.
    pub fn gamma(&self) -> f64 {
        let (n, next) = (self.arms as f64, self.beta + 1.0);
        (n * n.ln() / ((E - 1.0) * (next * self.horizon as f64).powf(next.recip()))).sqrt().min(1.0)
    }
}

/// Draws one arm per round with `p_i ~ exp(w_i / g(K))`, mixed with the uniform distribution. After the round
/// `w_a += gamma min(Z, g(k)) / (N p_a)`, where Z is the sum of the feedback in it.
///
/// In the slots after round K, fewer than `g(K + 1)`, the policy plays one further draw, without learning.
///
/// - Cost: O(N) per round; O(K) at construction.
/// - Privacy: none.
///
/// # Source
/// Wang, Wang, Huang, Algorithm 2. Departures: round lengths are whole numbers; the paper does not define
/// play in the slots after round K.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "super::stored::Stored<ArsExp3Config, State>")]
pub struct ArsExp3 {
    config: ArsExp3Config,
    #[serde(skip_serializing)]
    gamma: f64,
    #[serde(skip_serializing)]
    rounds: u64,
    /// `g(K)`.
    #[serde(skip_serializing)]
    scale: f64,
    /// Number of slots after round K.
    #[serde(skip_serializing)]
    rest: u64,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    weights: Vec<f64>,
    /// Number of rounds begun, with the slots after round K as one round.
    round: u64,
    arm: usize,
    /// Probability with which `arm` was drawn.
    chance: f64,
    left: u64,
    /// The part of Z received so far.
    sum: f64,
}

impl ArsExp3 {
    /// The policy before its first slot.
    ///
    /// # Errors
    /// Those of [`ArsExp3Config::validate`].
    pub fn new(config: ArsExp3Config) -> Result<Self, Error> {
        config.validate()?;
        let (rounds, sum) = config.rounds();
        let weights = vec![0.0; config.arms];
        Ok(Self {
            gamma: config.gamma(),
            rounds,
            scale: config.slots(rounds) as f64,
            rest: config.horizon - sum,
            state: State { weights, round: 0, arm: 0, chance: 1.0, left: 0, sum: 0.0 },
            config,
        })
    }

    /// The configuration.
    pub fn config(&self) -> &ArsExp3Config {
        &self.config
    }

    /// The weights `w`. They start at 0 where the paper's start at 1, which cancels in the probabilities.
    pub fn weights(&self) -> &[f64] {
        &self.state.weights
    }

    /// The probabilities `p` of the next draw, each at least `gamma / N`.
    pub fn probabilities(&self) -> Vec<f64> {
        exp3::probabilities(&self.state.weights, self.scale, self.gamma)
    }

    /// Number of slots of a round. Round K + 1 has the slots after round K.
    fn slots(&self, round: u64) -> u64 {
        match round {
            0 => 0,
            k if k <= self.rounds => self.config.slots(k),
            _ => self.rest,
        }
    }

    fn admits(&self, state: &State) -> Result<(), &'static str> {
        let State { weights, round, arm, chance, left, sum } = state;
        one_finite_an_arm(weights, self.config.arms)?;
        if weights.iter().any(|w| *w < 0.0) || !sum.is_finite() || *sum < 0.0 {
            return Err("a sum of rewards is negative");
        }
        let likely = *chance > 0.0
            && *chance >= self.gamma / self.config.arms as f64 * (1.0 - 1e-9)
            && *chance <= 1.0 + 1e-9;
        if *arm >= self.config.arms || !likely {
            return Err("no such arm can have been drawn");
        }
        if *round > self.rounds + 1 || *left > self.slots(*round) {
            return Err("more rounds than the horizon holds");
        }
        Ok(())
    }
}

impl Policy for ArsExp3 {
    type Context = ();
    type Feedback = f64;

    fn privacy(&self) -> PrivacyStatement {
        privacy_statement()
    }

    fn learnt(&self) -> Learnt {
        Learnt { probabilities: Some(self.probabilities()), ..Learnt::default() }
    }

    /// # Errors
    /// [`Error::HorizonOver`] after slot T.
    fn decide(&mut self, (): &(), rng: &mut dyn Rng) -> Result<usize, Error> {
        if self.state.left == 0 {
            let round = self.state.round + 1;
            if round > self.rounds && (round > self.rounds + 1 || self.rest == 0) {
                return Err(Error::HorizonOver { horizon: self.config.horizon });
            }
            let p = self.probabilities();
            let arm = exp3::draw(&p, rng);
            let left = self.slots(round);
            let state = &mut self.state;
            (state.round, state.arm, state.chance) = (round, arm, p[arm]);
            (state.left, state.sum) = (left, 0.0);
        }
        Ok(self.state.arm)
    }

    fn learn(&mut self, (): &(), arm: usize, feedback: &f64, _: &mut dyn Rng) -> Result<(), Error> {
        check_feedback((self.state.left > 0).then_some(self.state.arm), arm, *feedback)?;
        let sum = self.state.sum + feedback;
        if !sum.is_finite() {
            return Err(Error::Overflow);
        }
        self.state.sum = sum;
        self.state.left -= 1;
        if self.state.left == 0 && self.state.round <= self.rounds {
            let most = self.slots(self.state.round) as f64;
            self.state.weights[arm] +=
                self.gamma * sum.min(most) / (self.config.arms as f64 * self.state.chance);
        }
        Ok(())
    }
}

stored!(ArsExp3, ArsExp3Config, State);

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn rounds_and_gamma_of_known_horizons() {
        for (horizon, rounds, slots, longest, gamma) in [
            (10, 5, 10, 3, 1.0),
            (100, 25, 95, 5, 0.5299067601),
            (1_000, 125, 994, 12, 0.2459609301),
            (10_000, 596, 10_000, 25, 0.1141649507),
            (100_000, 2_796, 99_958, 53, 0.0529906760),
            (1_000_000, 13_046, 999_925, 115, 0.0245960930),
        ] {
            let config = ArsExp3Config::new(7, horizon);
            assert_eq!(config.rounds(), (rounds, slots));
            assert_eq!(config.slots(rounds), longest);
            assert!((config.gamma() - gamma).abs() < 1e-10);
        }
        assert_eq!(ArsExp3Config::new(7, 10_000_000).rounds(), (60_698, 9_999_795));
        assert!((ArsExp3Config::new(2, 1_000).gamma() - 0.0784663486).abs() < 1e-10);
        assert_eq!(ArsExp3Config { beta: 2.0, ..ArsExp3Config::new(2, 10) }.slots(7), 49);
    }

    /// N = 2, g(k) = 2, g(K) = 4, gamma = 0.2.
    #[test]
    fn one_update_by_hand() {
        let mut policy = ArsExp3::new(ArsExp3Config::new(2, 100)).unwrap();
        let mut unused = ChaCha8Rng::seed_from_u64(0);
        (policy.gamma, policy.scale) = (0.2, 4.0);
        for (parts, wanted) in [([0.5, 1.0], 0.3), ([2.0, 3.0], 0.4)] {
            policy.state = State { weights: vec![0.0; 2], round: 2, arm: 0, chance: 0.5, left: 2, sum: 0.0 };
            parts.iter().for_each(|y| policy.learn(&(), 0, y, &mut unused).unwrap());
            assert!((policy.weights()[0] - wanted).abs() < 1e-15);
        }
        assert!((policy.probabilities()[0] - 0.5199833500).abs() < 1e-10);
    }
}
