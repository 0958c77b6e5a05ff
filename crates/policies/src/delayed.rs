//! Parameters of policies that learn from delayed, anonymous feedback: the sum of all rewards that arrived
//! since the previous decision.

use crate::config::{Profile, policy};
use crate::limits::{MAX_PLANNED_ROUNDS, within};
use bandit::delayed::{
    ArsClw, ArsClwConfig, ArsExp3, ArsExp3Config, ArsUcb, ArsUcbConfig, Clw, ClwConfig, MAX_SLOTS, Odaaf,
    OdaafConfig, OdaafRule, RoundSize, UpdateRule,
};
use wire::{FeedbackKind, LateRule};

policy! {
    "ars-ucb",
    ArsUcbParameters {
        arms: usize,
        #[serde(default = "four")]
        alpha: f64,
        #[serde(default = "squares")]
        round_size: RoundSize,
    } => ArsUcb;
    profile(p) Profile::of(p.arms).from(FeedbackKind::Sum);
    make(p) ArsUcb::new(ArsUcbConfig { arms: p.arms, alpha: p.alpha, round_size: p.round_size })?
}

policy! {
    "ars-exp3",
    ArsExp3Parameters {
        arms: usize,
        horizon: u64,
        #[serde(default = "half")]
        beta: f64,
    } => ArsExp3;
    profile(p) Profile::of(p.arms).from(FeedbackKind::Sum);
    make(p) {
        let horizon = within("horizon", p.horizon, MAX_PLANNED_ROUNDS)?;
        ArsExp3::new(ArsExp3Config { arms: p.arms, horizon, beta: p.beta })?
    }
}

policy! {
    "ars-clw",
    ArsClwParameters {
        arms: usize,
        #[serde(default = "sixty_four")]
        first: u64,
        #[serde(default = "three")]
        root: u32,
    } => ArsClw;
    profile(p) Profile::of(p.arms).from(FeedbackKind::Sum).late(LateRule::Queue);
    make(p) ArsClw::new(ArsClwConfig { arms: p.arms, first: p.first, root: p.root })?
}

policy! {
    "clw",
    ClwParameters {
        arms: usize,
        horizon: u64,
        interval: u32,
        #[serde(default = "spaced")]
        rule: UpdateRule,
    } => Clw;
    profile(p) Profile::of(p.arms).from(FeedbackKind::Sum).late(LateRule::Queue);
    make(p) {
        let horizon = within("horizon", p.horizon, MAX_SLOTS)?;
        Clw::new(ClwConfig { arms: p.arms, horizon, interval: p.interval, rule: p.rule })?
    }
}

policy! {
    "odaaf", OdaafParameters { arms: usize, horizon: u64, rule: OdaafRule } => Odaaf;
    profile(p) Profile::of(p.arms).from(FeedbackKind::Sum);
    make(p) {
        let horizon = within("horizon", p.horizon, MAX_SLOTS)?;
        Odaaf::new(OdaafConfig { arms: p.arms, horizon, rule: p.rule })?
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
