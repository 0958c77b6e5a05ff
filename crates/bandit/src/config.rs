//! Configuration of linear policies.

use crate::{Error, Schedule, Width};
use fault::require;
use serde::{Deserialize, Serialize};

/// Parameters of a linear contextual bandit. Plain data; every policy [validates](Self::validate) it first.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinearConfig {
    /// Dimension of the features, from 1 to 4096.
    pub d: usize,
    /// Number of arms `K`, from 1 to 65536.
    pub k: usize,
    /// Ridge regularisation, positive.
    pub lambda: f64,
    /// Probability that a confidence set fails, in (0, 1).
    pub delta: f64,
    /// Bound `L` on the norm of the features, at least 1.
    pub l: f64,
    /// Bound `S` on the norm of the parameter, not negative.
    pub s: f64,
    /// Sub-Gaussian scale of the reward's noise, not negative.
    pub sigma: f64,
    /// Threshold `C` of the trace rule and the determinant rule, positive.
    pub c: f64,
    /// Relative growth of `t` within a batch, positive.
    pub eta: f64,
    /// The confidence width.
    pub width: Width,
    /// The rule that ends a batch.
    pub schedule: Schedule,
    /// Public seed of the order in which arms with equal indices are preferred, another one in each round.
    #[serde(default)]
    pub tie_seed: u64,
}

impl LinearConfig {
    /// The toy problem of the paper's figure 1: `d = 2`, `K = 2`, `sigma = 0.5`, `C = 1`, `eta = 0.1`,
    /// `lambda = 1`, `L = 5.5`, with HELBA's width and schedule. The paper does not state `S` and `delta`;
    /// here they are 1 and 0.01.
    pub const fn figure_1() -> Self {
        Self {
            d: 2,
            k: 2,
            lambda: 1.0,
            delta: 0.01,
            l: 5.5,
            s: 1.0,
            sigma: 0.5,
            c: 1.0,
            eta: 0.1,
            width: Width::Theory,
            schedule: Schedule::TraceOrGrowth,
            tie_seed: 0,
        }
    }

    /// Checks every field, and under [`Schedule::TraceOrGrowth`] the condition of Proposition 7.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] with the first field out of range, [`Error::SwitchingRule`].
    pub fn validate(&self) -> Result<(), Error> {
        let positive = |field, got: f64| field_is(field, got, got > 0.0, "positive and finite");
        let not_negative = |field, got: f64| field_is(field, got, got >= 0.0, "finite and at least 0");
        // The upper ends bound the memory that a mistyped number can ask for.
        field_is("d", self.d as f64, (1..=4096).contains(&self.d), "from 1 to 4096")?;
        field_is("k", self.k as f64, (1..=65536).contains(&self.k), "from 1 to 65536")?;
        positive("lambda", self.lambda)?;
        field_is(
            "delta",
            self.delta,
            self.delta > 0.0 && self.delta < 1.0,
            "between 0 and 1, both excluded",
        )?;
        field_is("l", self.l, self.l >= 1.0, "finite and at least 1")?;
        not_negative("s", self.s)?;
        not_negative("sigma", self.sigma)?;
        positive("c", self.c)?;
        positive("eta", self.eta)?;
        if let Width::Constant { alpha } | Width::Tangent { alpha, .. } = self.width {
            not_negative("width.alpha", alpha)?;
        }
        if let Width::Tangent { floor, .. } = self.width {
            field_is("width.floor", floor, (0.0..=1.0).contains(&floor), "from 0 to 1")?;
        }
        match self.schedule {
            Schedule::Every { rounds } | Schedule::GrowthOrEvery { rounds } => {
                field_is("schedule.rounds", rounds as f64, rounds >= 1, "at least 1")
            }
            Schedule::TraceOrGrowth => self.check_switching(),
            Schedule::EveryRound | Schedule::Determinant | Schedule::Trace | Schedule::Growth => Ok(()),
        }
    }
}

fn field_is(field: &'static str, got: f64, ok: bool, want: &'static str) -> Result<(), Error> {
    Ok(require(ok && got.is_finite(), field, got, want)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fault::OutOfRange;

    const GOOD: LinearConfig = LinearConfig::figure_1();

    #[test]
    fn every_field_is_checked_and_named() {
        assert_eq!(GOOD.validate(), Ok(()));
        let bad = [
            ("d", LinearConfig { d: 0, ..GOOD }),
            ("d", LinearConfig { d: usize::MAX, ..GOOD }),
            ("k", LinearConfig { k: 0, ..GOOD }),
            ("k", LinearConfig { k: 65537, ..GOOD }),
            ("lambda", LinearConfig { lambda: 0.0, ..GOOD }),
            ("lambda", LinearConfig { lambda: f64::NAN, ..GOOD }),
            ("delta", LinearConfig { delta: 1.0, ..GOOD }),
            ("delta", LinearConfig { delta: 0.0, ..GOOD }),
            ("l", LinearConfig { l: 0.99, ..GOOD }),
            ("l", LinearConfig { l: f64::INFINITY, ..GOOD }),
            ("s", LinearConfig { s: -1.0, ..GOOD }),
            ("sigma", LinearConfig { sigma: -0.1, ..GOOD }),
            ("c", LinearConfig { c: 0.0, ..GOOD }),
            ("eta", LinearConfig { eta: -0.1, ..GOOD }),
            ("width.alpha", LinearConfig { width: Width::Constant { alpha: -1.0 }, ..GOOD }),
            ("width.alpha", LinearConfig { width: Width::Tangent { alpha: -1.0, floor: 0.0 }, ..GOOD }),
            ("width.floor", LinearConfig { width: Width::Tangent { alpha: 1.0, floor: 1.5 }, ..GOOD }),
            ("schedule.rounds", LinearConfig { schedule: Schedule::Every { rounds: 0 }, ..GOOD }),
            ("schedule.rounds", LinearConfig { schedule: Schedule::GrowthOrEvery { rounds: 0 }, ..GOOD }),
        ];
        for (name, config) in bad {
            match config.validate() {
                Err(Error::OutOfRange(OutOfRange { field, .. })) => assert_eq!(field, name),
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    #[test]
    fn proposition_7_binds_only_where_both_rules_act() {
        let config = LinearConfig { c: 0.25, ..GOOD };
        assert!(matches!(config.validate(), Err(Error::SwitchingRule { .. })));
        assert_eq!(LinearConfig { schedule: Schedule::Trace, ..config }.validate(), Ok(()));
    }

    #[test]
    fn json_round_trip_and_unknown_fields() {
        let json = serde_json::to_string(&GOOD).unwrap();
        assert_eq!(serde_json::from_str::<LinearConfig>(&json).unwrap(), GOOD);
        let more = json.replacen('{', r#"{"epsilon":1.0,"#, 1);
        assert!(serde_json::from_str::<LinearConfig>(&more).unwrap_err().to_string().contains("epsilon"));
    }
}
