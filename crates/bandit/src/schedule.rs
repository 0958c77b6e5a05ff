//! Schedules: the rounds that end a batch, after which inverse and estimate are computed anew.

use crate::{Error, LinearConfig};
use serde::{Deserialize, Serialize};

/// The rule that ends a batch; `c` and `eta` are those of the [`LinearConfig`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Schedule {
    /// Every round ends a batch (OFUL).
    EveryRound,
    /// `det(V) >= (1 + c) det(V_j)` (RSOFUL).
    Determinant,
    /// `sum ||x||^2_{A_j} >= c` over the batch (RSOFUL-Tr; eq. 8).
    Trace,
    /// `t >= (1 + eta) t_j`. Public.
    Growth,
    /// [`Trace`](Self::Trace) or [`Growth`](Self::Growth), whichever comes first (HELBA).
    TraceOrGrowth,
    /// `t - t_j >= rounds`. Public.
    Every {
        /// Length of a batch, at least 1.
        rounds: u64,
    },
    /// [`Growth`](Self::Growth) or [`Every`](Self::Every), whichever comes first: batches grow with `t` until
    /// they have `rounds` rounds. This schedule is public, and it bounds what a batch adds to `V`, which
    /// growth alone does not.
    GrowthOrEvery {
        /// The longest batch, at least 1.
        rounds: u64,
    },
}

/// The quantities after a round on which schedules depend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchProgress {
    /// `t`: the number of rounds learnt.
    pub round: u64,
    /// `t_j`: the number of rounds in the statistics of this batch, at least 1.
    pub batch_start: u64,
    /// `sum ||x||^2_{A_j}` over the batch.
    pub trace: f64,
    /// `ln det(V) - ln det(V_j)`.
    pub log_det_growth: f64,
}

impl Schedule {
    /// Whether the end of a batch is a function of the round number alone, and hence reveals nothing about
    /// the data.
    pub fn is_public(self) -> bool {
        match self {
            Self::EveryRound | Self::Growth | Self::Every { .. } | Self::GrowthOrEvery { .. } => true,
            Self::Determinant | Self::Trace | Self::TraceOrGrowth => false,
        }
    }

    /// Whether the rule needs the inverse or the determinant in every round, for which rank-one updates cost
    /// less than factorisations.
    pub(crate) fn needs_tracking(self) -> bool {
        matches!(self, Self::EveryRound | Self::Determinant)
    }
}

impl LinearConfig {
    /// Whether the public part of the rule ends the batch that began at `t_j` after round `t`, for any data.
    ///
    /// The encrypted server evaluates this part itself; the rest needs the user's key. The growth rule reads
    /// a `t_j` of 0 as 1.
    pub fn batch_ends_publicly(&self, t: u64, t_j: u64) -> bool {
        let grown = || t as f64 >= (1.0 + self.eta) * t_j.max(1) as f64;
        match self.schedule {
            Schedule::EveryRound => true,
            Schedule::Determinant | Schedule::Trace => false,
            Schedule::Growth | Schedule::TraceOrGrowth => grown(),
            Schedule::Every { rounds } => t.saturating_sub(t_j) >= rounds,
            Schedule::GrowthOrEvery { rounds } => t.saturating_sub(t_j) >= rounds || grown(),
        }
    }

    /// The rounds of the batch that begins at `t_j`, by the public part of the rule: `least` at least, and at
    /// most 4096.
    pub fn batch_length(&self, t_j: u64, least: u64) -> u64 {
        let ends = |added: &u64| self.batch_ends_publicly(t_j.saturating_add(*added), t_j);
        (least.max(1)..4096).find(ends).unwrap_or(4096)
    }

    /// Whether the batch ends after this round.
    pub fn batch_ends(&self, progress: &BatchProgress) -> bool {
        self.batch_ends_publicly(progress.round, progress.batch_start)
            || match self.schedule {
                Schedule::Determinant => progress.log_det_growth >= self.c.ln_1p(),
                Schedule::Trace | Schedule::TraceOrGrowth => progress.trace >= self.c,
                Schedule::EveryRound
                | Schedule::Growth
                | Schedule::Every { .. }
                | Schedule::GrowthOrEvery { .. } => false,
            }
    }

    /// `c - L*eta/sqrt(lambda + L^2)`, which must exceed 1/4 in Proposition 7.
    pub fn switching_margin(&self) -> f64 {
        self.c - self.eta_cost()
    }

    /// Refuses `c` and `eta` that violate the condition of Proposition 7. The condition applies to
    /// [`Schedule::TraceOrGrowth`] alone.
    ///
    /// # Errors
    /// [`Error::SwitchingRule`] with the values of `c` and `eta` that meet it.
    pub fn check_switching(&self) -> Result<(), Error> {
        let margin = self.switching_margin();
        if margin > 0.25 {
            return Ok(());
        }
        Err(Error::SwitchingRule {
            margin,
            min_c: 0.25 + self.eta_cost(),
            max_eta: (self.c - 0.25) * self.eta / self.eta_cost(),
        })
    }

    /// An upper bound on the number of batches in `rounds` rounds, including the first, for a validated
    /// configuration.
    ///
    /// Source: Proposition 7 for [`Schedule::TraceOrGrowth`]. The bounds of the others follow by the same
    /// argument: a batch multiplies the determinant by at least `1 + c`, or the round number by at least `1 +
    /// eta`. Departure: the proposition prints `2 ln(3/4 + c - ...)`; its eq. 68 has no factor 2, with which
    /// the bound fails (`tests/all/bounds.rs`).
    pub fn max_batches(&self, rounds: u64) -> u64 {
        let t = rounds.max(1) as f64;
        let log_det = self.d as f64 * (self.l * self.l * t / (self.lambda * self.d as f64)).ln_1p();
        let growth = t.ln() / self.eta.ln_1p();
        let batches = match self.schedule {
            Schedule::EveryRound => return rounds.saturating_add(1),
            Schedule::Every { rounds: every } => return (rounds / every.max(1)).saturating_add(1),
            Schedule::Determinant | Schedule::Trace => 1.0 + log_det / self.c.ln_1p(),
            Schedule::Growth => 1.0 + growth,
            // Each batch end but the last is one of either kind.
            Schedule::GrowthOrEvery { rounds } => 1.0 + growth + t / rounds.max(1) as f64,
            Schedule::TraceOrGrowth => 1.0 + log_det / (self.switching_margin() - 0.25).ln_1p() + growth,
        };
        // The cast saturates. There is at most one batch per round, and the one before the first round.
        (batches as u64).min(rounds.saturating_add(1))
    }

    fn eta_cost(&self) -> f64 {
        self.l * self.eta / (self.lambda + self.l * self.l).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(schedule: Schedule) -> LinearConfig {
        LinearConfig { schedule, ..LinearConfig::figure_1() }
    }

    #[test]
    fn each_rule_ends_a_batch_at_its_threshold() {
        let at =
            |round, trace, log_det_growth| BatchProgress { round, batch_start: 10, trace, log_det_growth };
        let (before, ln2) = (at(10, 0.99, 0.69), std::f64::consts::LN_2);
        for (schedule, end) in [
            (Schedule::Determinant, at(10, 0.0, ln2)),
            (Schedule::Trace, at(10, 1.0, 0.0)),
            (Schedule::Growth, at(11, 0.0, 0.0)),
            (Schedule::TraceOrGrowth, at(11, 0.0, 0.0)),
            (Schedule::TraceOrGrowth, at(10, 1.0, 0.0)),
            (Schedule::Every { rounds: 1 }, at(11, 0.0, 0.0)),
            (Schedule::GrowthOrEvery { rounds: 5 }, at(11, 0.0, 0.0)),
            (Schedule::GrowthOrEvery { rounds: 1 }, at(11, 0.0, 0.0)),
        ] {
            assert!(!with(schedule).batch_ends(&before), "{schedule:?}");
            assert!(with(schedule).batch_ends(&end), "{schedule:?}");
        }
        assert!(with(Schedule::EveryRound).batch_ends(&before));
    }

    #[test]
    fn public_rules_do_not_look_at_the_data() {
        let loud = BatchProgress { round: 10, batch_start: 10, trace: 1e9, log_det_growth: 1e9 };
        assert!(!with(Schedule::Growth).batch_ends(&loud) && Schedule::Growth.is_public());
        let every = with(Schedule::Every { rounds: 5 });
        assert!(!every.batch_ends(&loud));
        // The first batch is as long as the others.
        assert!(!every.batch_ends_publicly(4, 0) && every.batch_ends_publicly(5, 0));
        let either = Schedule::GrowthOrEvery { rounds: 5 };
        assert!(!with(either).batch_ends(&loud) && either.is_public());
        assert!(with(Schedule::TraceOrGrowth).batch_ends(&loud) && !Schedule::TraceOrGrowth.is_public());
    }

    /// Batches follow growth until they have `rounds` rounds, and the length from then on.
    #[test]
    fn growth_or_every_grows_up_to_its_length() {
        let config = LinearConfig { eta: 0.5, ..with(Schedule::GrowthOrEvery { rounds: 8 }) };
        let (mut ends, mut t_j) = (Vec::new(), 0);
        for t in 1..=50 {
            if config.batch_ends_publicly(t, t_j) {
                ends.push(t);
                t_j = t;
            }
        }
        assert_eq!(ends, [2, 3, 5, 8, 12, 18, 26, 34, 42, 50]);
        let text = serde_json::to_string(&config.schedule).unwrap();
        assert_eq!(text, r#"{"growth_or_every":{"rounds":8}}"#);
        assert_eq!(serde_json::from_str::<Schedule>(&text).unwrap(), config.schedule);
    }

    /// The error's advice is the exact border.
    #[test]
    fn a_broken_switching_rule_says_what_to_change() {
        let bad = LinearConfig { c: 0.5, eta: 0.5, ..with(Schedule::TraceOrGrowth) };
        let Err(Error::SwitchingRule { margin, min_c, max_eta }) = bad.check_switching() else {
            panic!("accepted")
        };
        assert!(margin <= 0.25);
        assert!(LinearConfig { c: min_c * 1.001, ..bad }.check_switching().is_ok());
        assert!(LinearConfig { c: min_c * 0.999, ..bad }.check_switching().is_err());
        assert!(LinearConfig { eta: max_eta * 0.999, ..bad }.check_switching().is_ok());
        assert!(LinearConfig { eta: max_eta * 1.001, ..bad }.check_switching().is_err());
    }
}
