//! Composite anonymous feedback: the reward of a pull arrives in parts, later, and only the sum of all parts
//! that arrive in a slot is observed.
//!
//! A pull in slot t earns `r_1 + r_2 + ... <= 1`, and part `r_tau` arrives in slot t + tau, `tau >= 1`. The
//! learner observes one number per slot, the sum of the arriving parts, without their pulls or times. This
//! sum may exceed 1, up to the length of the longest vector of parts.
//!
//! Every policy of this module plays an arm for many successive slots (a *round*), so that the rewards of
//! other arms that arrive in it, a bounded amount, have little weight. The policies take feedback slot by
//! slot, in order, for the arm of the decision.
//!
//! | policy | is given | rewards |
//! |---|---|---|
//! | [`ArsUcb`] | arms | i.i.d. vectors, of any length |
//! | [`Odaaf`] (baseline) | horizon, mean delay or interval | i.i.d. vectors |
//! | [`ArsExp3`] | horizon | totals fixed in advance, their parts chosen by an adaptive adversary |
//! | [`Clw`] (baseline) | horizon, interval | vectors fixed in advance |
//! | [`ArsClw`] | arms | vectors fixed in advance |
//!
//! | symbol | here |
//! |---|---|
//! | N, T, d | `arms`, `horizon`, `interval` |
//! | `Y(t)` | the `feedback` of [`Composite`] |
//! | `f(k)`, `F(k)` | [`RoundSize::slots`], [`RoundSize::total`] |
//! | `d1`, `d2` | [`DelayMeasures`] |
//! | `g(k)`, K | round length and number of rounds of [`ArsExp3`] |
//! | `h(T)` | [`ArsClwConfig::guess`] |
//!
//! Privacy: none. Anonymous feedback restricts what the learner observes, and is no guarantee to anybody. The
//! source claims no differential privacy.
//!
//! Source: Wang, Wang, Huang, "Adaptive Algorithms for Multi-armed Bandit with Composite and Anonymous
//! Feedback".

mod ars_clw;
mod ars_exp3;
mod ars_ucb;
mod clw;
mod delivery;
mod environment;
mod exp3;
mod odaaf;
mod record;
mod rewards;
mod stored;

pub use ars_clw::{ArsClw, ArsClwConfig};
pub use ars_exp3::{ArsExp3, ArsExp3Config};
pub use ars_ucb::{ArsUcb, ArsUcbConfig, RoundSize};
pub use clw::{Clw, ClwConfig, UpdateRule};
pub use delivery::{DelayMeasures, Delivery};
pub use environment::Composite;
pub use odaaf::{Odaaf, OdaafConfig, OdaafRule};
pub use record::Record;
pub use rewards::{Drift, Rewards};

use crate::Error;
use fault::require;
use privacy::PrivacyStatement;

/// The statement of all policies of this module, which have no privacy.
fn privacy_statement() -> PrivacyStatement {
    PrivacyStatement::none(
        "None: anonymous feedback is a constraint on the learner; no noise is added, and arms and sums reveal rewards.",
    )
}

/// Largest number of arms. It bounds the memory that a stored state can ask for.
pub const MAX_ARMS: usize = 1 << 16;

/// Largest number of slots. Such numbers are exact as `f64`.
pub const MAX_SLOTS: u64 = 1 << 52;

fn check_arms(arms: usize) -> Result<(), Error> {
    field((1..=MAX_ARMS).contains(&arms), "arms", arms as f64, "from 1 to 65536")
}

fn check_horizon(horizon: u64) -> Result<(), Error> {
    field((1..=MAX_SLOTS).contains(&horizon), "horizon", horizon as f64, "from 1 to 2^52")
}

fn field(holds: bool, field: &'static str, got: f64, want: &'static str) -> Result<(), Error> {
    Ok(require(holds, field, got, want)?)
}

/// Refuses feedback unless it is for `named`, the arm of the last decision, and finite and not negative.
fn check_feedback(named: Option<usize>, arm: usize, feedback: f64) -> Result<(), Error> {
    if named != Some(arm) {
        return Err(Error::OutOfTurn { arm });
    }
    if !feedback.is_finite() {
        return Err(Error::RewardNotFinite);
    }
    field(feedback >= 0.0, "feedback", feedback, "at least 0")
}
