//! Composite and anonymous feedback: what a pull earns arrives in parts, later, mixed with what other pulls
//! earned.
//!
//! Pulling an arm in slot t earns `r_1 + r_2 + ... <= 1`; part `r_tau` arrives in slot t + tau, `tau >= 1`.
//! The learner sees one number a slot, the sum of all that arrives: nothing tells which pull a part came
//! from, nor when. It may exceed 1, up to the length of the longest vector.
//!
//! Every policy here plays an arm for many slots on end (a *round*), so that parts of other arms' rewards, a
//! bounded amount, are diluted. They take feedback slot by slot, in order, for the arm that they named.
//!
//! | policy | knows | against |
//! |---|---|---|
//! | [`ArsUcb`] | arms | i.i.d. vectors, of any length |
//! | [`Odaaf`] (baseline) | horizon, mean delay or interval | i.i.d. vectors |
//! | [`ArsExp3`] | horizon | rewards fixed beforehand, the split over slots chosen by an adaptive adversary |
//! | [`Clw`] (baseline) | horizon, interval | vectors fixed beforehand |
//! | [`ArsClw`] | arms | vectors fixed beforehand |
//!
//! | symbol | here |
//! |---|---|
//! | N, T, d | `arms`, `horizon`, `interval` |
//! | `Y(t)` | what [`Composite`]'s `feedback` returns |
//! | `f(k)`, `F(k)` | [`RoundSize::slots`], [`RoundSize::total`] |
//! | `g(k)`, K | round length and number of rounds of [`ArsExp3`] |
//! | `h(T)` | [`ArsClwConfig::guess`] |
//!
//! Privacy: none. That feedback is mixed and nameless is a constraint on the learner, not a guarantee to
//! anybody: the source claims no differential privacy, and these policies give none.
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
mod rewards;
mod stored;

pub use ars_clw::{ArsClw, ArsClwConfig};
pub use ars_exp3::{ArsExp3, ArsExp3Config};
pub use ars_ucb::{ArsUcb, ArsUcbConfig, RoundSize};
pub use clw::{Clw, ClwConfig, UpdateRule};
pub use delivery::Delivery;
pub use environment::Composite;
pub use odaaf::{Odaaf, OdaafConfig, OdaafRule};
pub use rewards::Rewards;

use crate::Error;
use fault::require;
use privacy::PrivacyStatement;

/// What the policies of this module promise: nothing. Feedback that is mixed and nameless hides the pull from
/// the *learner*; neither the arms played nor the statistics kept are protected from anybody.
fn privacy_statement() -> PrivacyStatement {
    PrivacyStatement::none(
        "None: anonymous feedback is a constraint on the learner; no noise is added, and arms and sums reveal rewards.",
    )
}

/// Arms at most: beyond any use, and a stored state or a file cannot ask for more memory than this takes.
pub const MAX_ARMS: usize = 1 << 16;

/// Slots at most, exact as `f64`.
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

/// Feedback counts for the arm that was named and not yet learnt of; nothing else is taken.
fn check_feedback(named: Option<usize>, arm: usize, feedback: f64) -> Result<(), Error> {
    if named != Some(arm) {
        return Err(Error::OutOfTurn { arm });
    }
    if !feedback.is_finite() {
        return Err(Error::RewardNotFinite);
    }
    field(feedback >= 0.0, "feedback", feedback, "at least 0")
}
