//! ODAAF, a baseline that knows the delays: elimination in phases, with pauses in which late feedback arrives
//! unused.

use super::stored::{one_finite_an_arm, stored};
use super::{MAX_SLOTS, check_arms, check_feedback, check_horizon, field, privacy_statement};
use crate::{Error, Learnt, Policy};
use privacy::PrivacyStatement;
use rand::Rng;
use serde::{Deserialize, Serialize};

/// The number of plays of each arm until the end of phase m, which depends on what is known about the delays.
///
/// With `D = 2^-m`, `L = max(0, ln(T D^2))` and `B(x) = (sqrt(2L) + sqrt(2L + 8/3 D L + x))^2 / D^2`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OdaafRule {
    /// ODAAF: `B(6 D m E)`.
    Mean {
        /// Expected delay E, in slots.
        delay: f64,
    },
    /// ODAAF-B, for delays that are also bounded: `max(B(4 D E), m min(d, B(6 D m E) / m))`.
    Bounded {
        /// Expected delay E.
        delay: f64,
        /// Longest delay d.
        bound: u32,
    },
    /// ODAAF-V, for known variance: `B(4 D (E + 2 V))`.
    Variance {
        /// Expected delay E.
        delay: f64,
        /// Variance V, in slots squared.
        variance: f64,
    },
    /// For composite feedback in a known interval: `(sqrt(L/2) + sqrt(L/2 + 2 D m d))^2 / D^2`, the least n
    /// for which statistical error `sqrt(L / 2n)` and bias `m d / n` are together `D / 2` at most.
    Composite {
        /// Longest interval d.
        interval: u32,
    },
}

/// The configuration of [`Odaaf`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OdaafConfig {
    /// Number of arms, N.
    pub arms: usize,
    /// Number of slots, T. It determines the confidence; play may continue after it.
    pub horizon: u64,
    /// Lengths of the phases.
    pub rule: OdaafRule,
}

impl OdaafConfig {
    /// Refuses fields outside their ranges.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] with the first such field.
    pub fn validate(&self) -> Result<(), Error> {
        check_arms(self.arms)?;
        check_horizon(self.horizon)?;
        let positive = |v: f64, name| field(v.is_finite() && v > 0.0, name, v, "above 0");
        match self.rule {
            OdaafRule::Mean { delay } => positive(delay, "delay"),
            OdaafRule::Bounded { delay, bound } => {
                positive(delay, "delay")?;
                positive(f64::from(bound), "bound")
            }
            OdaafRule::Variance { delay, variance } => {
                positive(delay, "delay")?;
                field(variance.is_finite() && variance >= 0.0, "variance", variance, "at least 0")
            }
            OdaafRule::Composite { interval } => positive(f64::from(interval), "interval"),
        }
    }

    /// `n_m`: the number of plays of each remaining arm until the end of phase `m`, from 1; at most
    /// `u64::MAX`.
    pub fn plays(&self, m: u32) -> u64 {
        let gap = 0.5f64.powi(m.min(1000) as i32);
        let log = (self.horizon as f64 * gap * gap).ln().max(0.0);
        let m = f64::from(m);
        let b = |x: f64| {
            ((2.0 * log).sqrt() + (2.0 * log + 8.0 / 3.0 * gap * log + x).sqrt()).powi(2) / (gap * gap)
        };
        let n = match self.rule {
            OdaafRule::Mean { delay } => b(6.0 * gap * m * delay),
            OdaafRule::Bounded { delay, bound } => {
                let drained = m * f64::from(bound).min(b(6.0 * gap * m * delay) / m);
                b(4.0 * gap * delay).max(drained)
            }
            OdaafRule::Variance { delay, variance } => b(4.0 * gap * (delay + 2.0 * variance)),
            OdaafRule::Composite { interval } => {
                let bias = 2.0 * gap * m * f64::from(interval);
                ((log / 2.0).sqrt() + (log / 2.0 + bias).sqrt()).powi(2) / (gap * gap)
            }
        };
        n.ceil() as u64 // saturates
    }
}

/// In phase m plays each remaining arm in one block, eliminates the arms whose mean is more than `2^-m` below
/// the best, and then plays a remaining arm for as long without using the feedback.
///
/// - Cost: O(N) per phase, O(1) per slot. The first remaining arm is played in pauses, so comparisons should
///   permute the arms.
/// - Privacy: none.
///
/// # Source
/// Pike-Burke, Agrawal, Szepesvari, Grunewalder, "Bandits with Delayed, Aggregated Anonymous Feedback"; the
/// baseline of Wang, Wang, Huang, section 4.1, who give no algorithm. Departure: the constants of
/// [`OdaafRule::Composite`] are this project's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "super::stored::Stored<OdaafConfig, State>")]
pub struct Odaaf {
    config: OdaafConfig,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    pulls: Vec<u64>,
    sums: Vec<f64>,
    active: Vec<usize>,
    phase: u32,
    /// `n_m` of this phase and of the one before.
    target: u64,
    previous: u64,
    stage: Stage,
    left: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stage {
    /// Position in `active`.
    Block(usize),
    Pause,
}

impl Odaaf {
    /// The policy before its first slot.
    ///
    /// # Errors
    /// Those of [`OdaafConfig::validate`].
    pub fn new(config: OdaafConfig) -> Result<Self, Error> {
        config.validate()?;
        let state = State {
            pulls: vec![0; config.arms],
            sums: vec![0.0; config.arms],
            active: (0..config.arms).collect(),
            phase: 0,
            target: 0,
            previous: 0,
            stage: Stage::Pause,
            left: 0,
        };
        Ok(Self { config, state })
    }

    /// The configuration.
    pub fn config(&self) -> &OdaafConfig {
        &self.config
    }

    /// The remaining arms, in order.
    pub fn active(&self) -> &[usize] {
        &self.state.active
    }

    /// Number of slots of each arm, without pauses, `n_i`.
    pub fn pulls(&self) -> &[u64] {
        &self.state.pulls
    }

    /// Sum of the feedback in those slots, `M_i`.
    pub fn sums(&self) -> &[f64] {
        &self.state.sums
    }

    /// Begins the next block, pause or phase.
    fn advance(&mut self) {
        let state = &mut self.state;
        match state.stage {
            Stage::Block(i) if i + 1 < state.active.len() => state.stage = Stage::Block(i + 1),
            Stage::Block(_) => {
                let gap = 0.5f64.powi(state.phase as i32);
                let mean = |i: usize| state.sums[i] / state.pulls[i] as f64;
                let most = state.active.iter().map(|&i| mean(i)).fold(f64::NEG_INFINITY, f64::max);
                let stays: Vec<_> = state.active.iter().copied().filter(|&i| mean(i) + gap >= most).collect();
                state.active = stays;
                state.stage = Stage::Pause;
            }
            Stage::Pause => {
                state.phase += 1;
                state.previous = state.target;
                let alone = state.active.len() == 1;
                let rule = if alone { u64::MAX } else { self.config.plays(state.phase) };
                state.target = rule.max(state.previous);
                state.stage = Stage::Block(0);
            }
        }
        state.left = state.target - state.previous;
    }

    fn arm(&self) -> usize {
        // `active` is never empty, since the arm with the largest mean remains.
        match self.state.stage {
            Stage::Block(i) => self.state.active[i],
            Stage::Pause => self.state.active[0],
        }
    }

    fn admits(&self, state: &State) -> Result<(), &'static str> {
        let State { pulls, sums, active, phase, target, previous, stage, left } = state;
        one_finite_an_arm(sums, self.config.arms)?;
        if pulls.len() != self.config.arms || pulls.iter().any(|n| *n > MAX_SLOTS) {
            return Err("not one value an arm");
        }
        let ordered =
            active.is_sorted_by(|a, b| a < b) && active.last().is_some_and(|i| *i < self.config.arms);
        let position = match stage {
            Stage::Block(i) => *i < active.len(),
            Stage::Pause => true,
        };
        if !ordered || !position {
            return Err("no such arm is left");
        }
        // In phase 0 no arm has been played. From phase 1 on every remaining arm has been, before a
        // comparison.
        let played = |i: usize| match stage {
            Stage::Block(at) if i == *at => pulls[active[i]].checked_add(*left) == Some(*target),
            Stage::Block(at) if i > *at => pulls[active[i]] == *previous,
            _ => pulls[active[i]] == *target,
        };
        let steps = *previous <= *target && *left <= target - previous && *phase <= 1000;
        let started = *phase > 0 || (*target == 0 && *stage == Stage::Pause);
        if !steps || !started || (*phase > 0 && *target == 0) || !(0..active.len()).all(played) {
            return Err("phase and pulls differ");
        }
        Ok(())
    }
}

impl Policy for Odaaf {
    type Context = ();
    type Feedback = f64;

    fn privacy(&self) -> PrivacyStatement {
        privacy_statement()
    }

    fn learnt(&self) -> Learnt {
        let sums = Learnt::sums(self.pulls().iter().copied(), self.sums().iter().copied());
        Learnt { left: Some(self.active().to_vec()), ..sums }
    }

    fn decide(&mut self, (): &(), _: &mut dyn Rng) -> Result<usize, Error> {
        // The loop ends: once the logarithm is 0, the number of plays grows as 2^m.
        while self.state.left == 0 {
            self.advance();
        }
        Ok(self.arm())
    }

    fn learn(&mut self, (): &(), arm: usize, feedback: &f64, _: &mut dyn Rng) -> Result<(), Error> {
        let named = self.arm();
        let state = &mut self.state;
        check_feedback((state.left > 0).then_some(named), arm, *feedback)?;
        if let Stage::Block(_) = state.stage {
            let sum = state.sums[arm] + feedback;
            if !sum.is_finite() || state.pulls[arm] >= MAX_SLOTS {
                return Err(Error::Overflow);
            }
            state.sums[arm] = sum;
            state.pulls[arm] += 1;
        }
        state.left -= 1;
        Ok(())
    }
}

stored!(Odaaf, OdaafConfig, State);

#[cfg(test)]
mod tests {
    use super::*;

    /// T = 1e5, E = 20, d = 30, V = 36.67.
    #[test]
    fn plays_of_the_first_phases() {
        let plays = |rule| {
            let config = OdaafConfig { arms: 9, horizon: 100_000, rule };
            (1..=4).map(|m| config.plays(m)).collect::<Vec<_>>()
        };
        assert_eq!(plays(OdaafRule::Mean { delay: 20.0 }), [805, 2834, 8790, 25636]);
        assert_eq!(plays(OdaafRule::Bounded { delay: 20.0, bound: 30 }), [686, 1854, 5238, 15136]);
        assert_eq!(plays(OdaafRule::Variance { delay: 20.0, variance: 36.67 }), [1498, 3592, 8949, 22992]);
        assert_eq!(plays(OdaafRule::Composite { interval: 30 }), [268, 1013, 3167, 9119]);
    }
}
