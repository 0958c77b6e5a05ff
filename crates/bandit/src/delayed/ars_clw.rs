//! ARS-CLW: CLW is restarted in phases of doubled horizon, each with a larger guess of the interval.

use super::stored::stored;
use super::{Clw, ClwConfig, MAX_SLOTS, UpdateRule, check_arms, field, privacy_statement};
use crate::{Error, Learnt, Policy};
use privacy::PrivacyStatement;
use rand::Rng;
use serde::{Deserialize, Serialize};

/// The configuration of [`ArsClw`], which knows neither horizon nor interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArsClwConfig {
    /// Number of arms, N.
    pub arms: usize,
    /// `T_1`, the end of the first phase; at least 3, since `h(T_1) < T_1` must hold.
    pub first: u64,
    /// The exponent r of the guess `h(T) = ceil(T^(1/r))`, from 2 to 16.
    pub root: u32,
}

impl ArsClwConfig {
    /// `T_1 = 64`, `h(T) = ceil(T^(1/3))`.
    pub fn new(arms: usize) -> Self {
        Self { arms, first: 64, root: 3 }
    }

    /// Refuses fields outside their ranges.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] with the first such field.
    pub fn validate(&self) -> Result<(), Error> {
        check_arms(self.arms)?;
        let horizon = (1..=MAX_SLOTS).contains(&self.first);
        field(horizon, "first", self.first as f64, "from 3 to 2^52")?;
        field((2..=16).contains(&self.root), "root", f64::from(self.root), "from 2 to 16")?;
        let guess = u64::from(self.guess(self.first));
        field(
            guess < self.first,
            "first",
            self.first as f64,
            "above its own guess of the interval: at least 3",
        )
    }

    /// `h(T)`: the least whole number whose r-th power is T or more.
    pub fn guess(&self, horizon: u64) -> u32 {
        let reaches =
            |h: u64| u128::from(h).checked_pow(self.root).is_none_or(|power| power >= u128::from(horizon));
        // Rounding may be off by one either way.
        let near = (horizon as f64).powf(f64::from(self.root).recip()) as u64;
        let guess = (near.saturating_sub(1).max(1)..).find(|h| reaches(*h)).unwrap_or(u64::MAX);
        u32::try_from(guess).unwrap_or(u32::MAX)
    }

    /// The configuration of the phase that ends with slot `end`.
    fn phase(&self, end: u64) -> ClwConfig {
        let interval = self.guess(end).min(1 << 20);
        ClwConfig { arms: self.arms, horizon: end, interval, rule: UpdateRule::LookAhead }
    }
}

/// In slots `T_(k-1) + 1` to `T_k = 2 T_(k-1)` plays [`Clw`] with look-ahead, horizon `T_k` and interval
/// `h(T_k)`.
///
/// - Cost: that of CLW.
/// - Privacy: none.
///
/// # Source
/// Wang, Wang, Huang, Algorithm 3 (appendix C). Departures: gamma is at most 1; the window does not extend
/// beyond its phase; the reward of a window, which could exceed 1 while the guess is too small, is at most 1;
/// no slot is dropped between phases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "super::stored::Stored<ArsClwConfig, State>")]
pub struct ArsClw {
    config: ArsClwConfig,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    /// Number of slots before the current phase, and the last slot of the phase.
    start: u64,
    end: u64,
    phase: Clw,
}

impl ArsClw {
    /// The policy before its first slot.
    ///
    /// # Errors
    /// Those of [`ArsClwConfig::validate`].
    pub fn new(config: ArsClwConfig) -> Result<Self, Error> {
        config.validate()?;
        let phase = Clw::new(config.phase(config.first))?;
        Ok(Self { config, state: State { start: 0, end: config.first, phase } })
    }

    /// The configuration.
    pub fn config(&self) -> &ArsClwConfig {
        &self.config
    }

    /// The current phase.
    pub fn phase(&self) -> &Clw {
        &self.state.phase
    }

    fn admits(&self, State { start, end, phase }: &State) -> Result<(), &'static str> {
        let first = self.config.first;
        let doubled = (*start == 0 && *end == first)
            || (*end <= 2 * MAX_SLOTS
                && end / 2 == *start
                && end % first == 0
                && (end / first).is_power_of_two()
                && *end > first);
        if !doubled || phase.config() != &self.config.phase(*end) || phase.slot() > end - start {
            return Err("not a phase of this configuration");
        }
        Ok(())
    }
}

impl Policy for ArsClw {
    type Context = ();
    type Feedback = f64;

    fn privacy(&self) -> PrivacyStatement {
        privacy_statement()
    }

    fn learnt(&self) -> Learnt {
        Learnt { probabilities: Some(self.phase().probabilities()), ..Learnt::default() }
    }

    fn decide(&mut self, (): &(), rng: &mut dyn Rng) -> Result<usize, Error> {
        let state = &mut self.state;
        if state.phase.slot() == state.end - state.start {
            if state.end > MAX_SLOTS / 2 {
                return Err(Error::Overflow);
            }
            let end = 2 * state.end;
            state.phase = Clw::new(self.config.phase(end))?;
            (state.start, state.end) = (state.end, end);
        }
        state.phase.decide(&(), rng)
    }

    fn learn(&mut self, (): &(), arm: usize, feedback: &f64, rng: &mut dyn Rng) -> Result<(), Error> {
        if self.state.phase.slot() == self.state.end - self.state.start {
            return Err(Error::OutOfTurn { arm }); // the next phase has named no arm yet
        }
        self.state.phase.learn(&(), arm, feedback, rng)
    }
}

stored!(ArsClw, ArsClwConfig, State);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_are_exact_roots() {
        let config = ArsClwConfig::new(3);
        for (horizon, guess) in [
            (1, 1),
            (2, 2),
            (8, 2),
            (9, 3),
            (64, 4),
            (128, 6),
            (256, 7),
            (512, 8),
            (1_000, 10),
            (1_024, 11),
            (1_000_000, 100),
            (1_000_001, 101),
        ] {
            assert_eq!(config.guess(horizon), guess, "{horizon}");
        }
        let fourth = ArsClwConfig { root: 4, ..config };
        assert_eq!([fourth.guess(81), fourth.guess(82)], [3, 4]);
        assert!(ArsClwConfig { first: 2, ..config }.validate().is_err());
        assert!(ArsClwConfig { first: 3, ..config }.validate().is_ok());
    }
}
