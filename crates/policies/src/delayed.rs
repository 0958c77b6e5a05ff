//! Parameters of policies that learn from delayed, anonymous feedback.

use crate::Error;
use crate::config::{Parameters, Profile};
use crate::limits::{MAX_PLANNED_ROUNDS, within};
use crate::state::Direct;
use bandit::delayed::{
    ArsClw, ArsClwConfig, ArsExp3, ArsExp3Config, ArsUcb, ArsUcbConfig, Clw, ClwConfig, MAX_SLOTS, Odaaf,
    OdaafConfig, OdaafRule, RoundSize, UpdateRule,
};
use serde::{Deserialize, Serialize};
use wire::FeedbackKind;

/// The profile of a policy that learns from the sum of all rewards that arrived since the decision before.
const fn mixed(arms: usize) -> Profile {
    Profile { feedback: FeedbackKind::Sum, ..Profile::of(arms) }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArsUcbParameters {
    arms: usize,
    #[serde(default = "four")]
    alpha: f64,
    #[serde(default = "squares")]
    round_size: RoundSize,
}

impl Parameters for ArsUcbParameters {
    const NAME: &'static str = "ars-ucb";
    type State = Direct<ArsUcb>;

    fn profile(&self) -> Profile {
        mixed(self.arms)
    }

    fn make(&self) -> Result<Self::State, Error> {
        let &Self { arms, alpha, round_size } = self;
        Ok(Direct(ArsUcb::new(ArsUcbConfig { arms, alpha, round_size })?))
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArsExp3Parameters {
    arms: usize,
    horizon: u64,
    #[serde(default = "half")]
    beta: f64,
}

impl Parameters for ArsExp3Parameters {
    const NAME: &'static str = "ars-exp3";
    type State = Direct<ArsExp3>;

    fn profile(&self) -> Profile {
        mixed(self.arms)
    }

    fn make(&self) -> Result<Self::State, Error> {
        let &Self { arms, horizon, beta } = self;
        within("horizon", horizon, MAX_PLANNED_ROUNDS)?;
        Ok(Direct(ArsExp3::new(ArsExp3Config { arms, horizon, beta })?))
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArsClwParameters {
    arms: usize,
    #[serde(default = "sixty_four")]
    first: u64,
    #[serde(default = "three")]
    root: u32,
}

impl Parameters for ArsClwParameters {
    const NAME: &'static str = "ars-clw";
    type State = Direct<ArsClw>;

    fn profile(&self) -> Profile {
        mixed(self.arms)
    }

    fn make(&self) -> Result<Self::State, Error> {
        let &Self { arms, first, root } = self;
        Ok(Direct(ArsClw::new(ArsClwConfig { arms, first, root })?))
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClwParameters {
    arms: usize,
    horizon: u64,
    interval: u32,
    #[serde(default = "spaced")]
    rule: UpdateRule,
}

impl Parameters for ClwParameters {
    const NAME: &'static str = "clw";
    type State = Direct<Clw>;

    fn profile(&self) -> Profile {
        mixed(self.arms)
    }

    fn make(&self) -> Result<Self::State, Error> {
        let &Self { arms, horizon, interval, rule } = self;
        within("horizon", horizon, MAX_SLOTS)?;
        Ok(Direct(Clw::new(ClwConfig { arms, horizon, interval, rule })?))
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OdaafParameters {
    arms: usize,
    horizon: u64,
    rule: OdaafRule,
}

impl Parameters for OdaafParameters {
    const NAME: &'static str = "odaaf";
    type State = Direct<Odaaf>;

    fn profile(&self) -> Profile {
        mixed(self.arms)
    }

    fn make(&self) -> Result<Self::State, Error> {
        let &Self { arms, horizon, rule } = self;
        within("horizon", horizon, MAX_SLOTS)?;
        Ok(Direct(Odaaf::new(OdaafConfig { arms, horizon, rule })?))
    }
}

fn three() -> u32 {
    3
}
fn four() -> f64 {
    4.0
}
fn sixty_four() -> u64 {
    64
}
fn half() -> f64 {
    0.5
}
fn spaced() -> UpdateRule {
    UpdateRule::Spaced
}
fn squares() -> RoundSize {
    RoundSize::SQUARES
}
