//! CLW, the composite loss wrapper: exponential weights that learn from the last d slots of rounds of random
//! length.

use super::stored::{one_finite_an_arm, stored};
use super::{MAX_SLOTS, check_arms, check_feedback, check_horizon, exp3, field, privacy_statement};
use crate::{Error, Learnt, Policy};
use privacy::PrivacyStatement;
use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Largest interval. The window of that many numbers is kept in memory.
const MAX_INTERVAL: u32 = 1 << 20;

/// The slots that end a round. For every slot a coin of probability `1 / 2d` is tossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpdateRule {
    /// The coin shows heads and no round ended in the last `2d - 1` slots: `4d - 1` slots a round on average.
    Spaced,
    /// The coin shows heads, and tails in the `2d - 1` slots to come: every slot has the same chance.
    LookAhead,
}

/// The configuration of [`Clw`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClwConfig {
    /// Number of arms, N.
    pub arms: usize,
    /// Number of slots, T. It determines gamma; play may continue after it.
    pub horizon: u64,
    /// The number of slots within which the whole reward of a pull arrives, d, at most 2^20.
    pub interval: u32,
    /// The rule that ends rounds. The baseline in the paper has [`UpdateRule::Spaced`].
    pub rule: UpdateRule,
}

impl ClwConfig {
    /// The baseline of the paper, with [`UpdateRule::Spaced`].
    pub fn new(arms: usize, horizon: u64, interval: u32) -> Self {
        Self { arms, horizon, interval, rule: UpdateRule::Spaced }
    }

    /// Refuses fields outside their ranges.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] with the first such field.
    pub fn validate(&self) -> Result<(), Error> {
        check_arms(self.arms)?;
        check_horizon(self.horizon)?;
        let d = self.interval;
        field((1..=MAX_INTERVAL).contains(&d), "interval", f64::from(d), "from 1 to 2^20")
    }

    /// `gamma = min(1, sqrt(2 d N ln N / (T + d)))`, the share of uniform play.
    pub fn gamma(&self) -> f64 {
        let (n, d) = (self.arms as f64, f64::from(self.interval));
        (2.0 * d * n * n.ln() / (self.horizon as f64 + d)).sqrt().min(1.0)
    }

    /// The number of slots before or after a slot that the rule depends on.
    fn reach(&self) -> u64 {
        2 * u64::from(self.interval) - 1
    }
}

/// Plays one arm per round. At the end of the round `w_a += gamma x / (N p_a)`, where x is the sum of the
/// feedback of the last d slots divided by 2d, at most 1. No reward of an earlier arm arrives in these slots,
/// since rounds have 2d slots or more.
///
/// - Cost: O(N + d) per round, O(1) per slot.
/// - Privacy: none.
///
/// # Source
/// Cesa-Bianchi, Gentile, Mansour, "Nonstochastic Bandits with Composite Anonymous Feedback"; the look-ahead
/// rule is that of Wang, Wang, Huang, Algorithm 3. Departure: gamma is that of EXP3 for `T / 2d` updates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "super::stored::Stored<ClwConfig, State>")]
pub struct Clw {
    config: ClwConfig,
    #[serde(skip_serializing)]
    gamma: f64,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    weights: Vec<f64>,
    arm: Option<usize>,
    /// Feedback of the last d slots.
    window: VecDeque<f64>,
    slot: u64,
    /// Slot of the last update.
    updated: Option<u64>,
    updates: u64,
    /// Number of slots whose coins have been tossed, and the last slot with heads.
    thrown: u64,
    heads: Option<u64>,
}

impl Clw {
    /// The policy before its first slot.
    ///
    /// # Errors
    /// Those of [`ClwConfig::validate`].
    pub fn new(config: ClwConfig) -> Result<Self, Error> {
        config.validate()?;
        let state = State {
            weights: vec![0.0; config.arms],
            arm: None,
            window: VecDeque::new(),
            slot: 0,
            updated: None,
            updates: 0,
            thrown: 0,
            heads: None,
        };
        Ok(Self { gamma: config.gamma(), config, state })
    }

    /// The configuration.
    pub fn config(&self) -> &ClwConfig {
        &self.config
    }

    /// The probabilities `p` of the next draw, each at least `gamma / N`.
    pub fn probabilities(&self) -> Vec<f64> {
        exp3::probabilities(&self.state.weights, 1.0, self.gamma)
    }

    /// Number of updates so far.
    pub fn updates(&self) -> u64 {
        self.state.updates
    }

    /// Number of slots learnt.
    pub(super) fn slot(&self) -> u64 {
        self.state.slot
    }

    /// Tosses the coins of all slots up to and including `last`.
    fn throw(&mut self, last: u64, rng: &mut dyn Rng) {
        let chance = 1.0 / (2.0 * f64::from(self.config.interval));
        for slot in self.state.thrown + 1..=last {
            if rng.random::<f64>() < chance {
                self.state.heads = Some(slot);
            }
        }
        self.state.thrown = self.state.thrown.max(last);
    }

    /// Whether `slot`, the last one played, ends a round.
    fn ends(&mut self, slot: u64, rng: &mut dyn Rng) -> bool {
        let reach = self.config.reach();
        match self.config.rule {
            UpdateRule::Spaced => {
                self.throw(slot, rng);
                // At least `reach` slots lie between two updates.
                let rested = self.state.updated.is_none_or(|last| slot - last > reach);
                rested && self.state.heads == Some(slot)
            }
            UpdateRule::LookAhead => {
                self.throw(slot + reach, rng);
                self.state.heads == Some(slot)
            }
        }
    }

    fn admits(&self, state: &State) -> Result<(), &'static str> {
        let State { weights, arm, window, slot, updated, updates, thrown, heads } = state;
        one_finite_an_arm(weights, self.config.arms)?;
        if *slot > MAX_SLOTS {
            return Err("too many slots");
        }
        let in_window = window.len() as u64 == (*slot).min(u64::from(self.config.interval));
        if !in_window || !window.iter().all(|y| y.is_finite() && *y >= 0.0) {
            return Err("the window does not hold the last slots");
        }
        if weights.iter().any(|w| *w < 0.0) || arm.is_some_and(|a| a >= self.config.arms) {
            return Err("no such arm or weight");
        }
        let coins = match self.config.rule {
            UpdateRule::LookAhead if *slot > 0 => slot + self.config.reach(),
            _ => *slot,
        };
        let counted = updates <= slot && updated.is_none_or(|at| (1..=*slot).contains(&at));
        if *thrown != coins || !counted || heads.is_some_and(|at| at == 0 || at > *thrown) {
            return Err("slots, coins and updates differ");
        }
        Ok(())
    }
}

impl Policy for Clw {
    type Context = ();
    type Feedback = f64;

    fn privacy(&self) -> PrivacyStatement {
        privacy_statement()
    }

    fn learnt(&self) -> Learnt {
        Learnt { probabilities: Some(self.probabilities()), ..Learnt::default() }
    }

    fn decide(&mut self, (): &(), rng: &mut dyn Rng) -> Result<usize, Error> {
        let arm = match self.state.arm {
            Some(arm) => arm,
            None => exp3::draw(&self.probabilities(), rng),
        };
        self.state.arm = Some(arm);
        Ok(arm)
    }

    fn learn(&mut self, (): &(), arm: usize, feedback: &f64, rng: &mut dyn Rng) -> Result<(), Error> {
        check_feedback(self.state.arm, arm, *feedback)?;
        if self.state.slot >= MAX_SLOTS {
            return Err(Error::Overflow);
        }
        let interval = self.config.interval as usize;
        if self.state.window.len() == interval {
            self.state.window.pop_front();
        }
        self.state.window.push_back(*feedback);
        self.state.slot += 1;
        let slot = self.state.slot;
        if self.ends(slot, rng) {
            let p = self.probabilities()[arm];
            let x = (self.state.window.iter().sum::<f64>() / (2.0 * interval as f64)).min(1.0);
            self.state.weights[arm] += self.gamma * x / (self.config.arms as f64 * p);
            self.state.arm = None;
            self.state.updated = Some(slot);
            self.state.updates += 1;
        }
        Ok(())
    }
}

stored!(Clw, ClwConfig, State);
