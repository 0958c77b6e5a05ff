//! Bandits in the clear: policies, environments, regret.
//!
//! The linear contextual ones, at the top of the crate, are the algorithms that the encrypted server runs, on
//! `f64`, and the public scalars (widths, schedules) that the server itself computes: for whoever simulates
//! or checks. Those in [`stochastic`] and [`distributed`] protect people from what decisions reveal and state
//! how far ([`privacy::PrivacyStatement`]); [`delayed`] learns from late, mixed feedback and protects
//! nobody.
//!
//! | symbol | here |
//! |---|---|
//! | `s_{t,a}`, `x` | [`Features`], one row an arm |
//! | `V`, `g`, `omega`, `A_j` | [`Ridge::design`], [`Ridge::moment`], [`Ridge::omega`], [`Ridge::inverse`] |
//! | `t`, `t_j` | [`Ridge::round`], [`Ridge::batch_start`] |
//! | `beta(t)`, `c1`, `c2`, `rho_max` | [`LinearConfig::beta`], [`c1`](LinearConfig::c1), [`c2`](LinearConfig::c2), [`rho_max`](LinearConfig::rho_max) |
//! | `C`, `eta` | [`LinearConfig::c`], [`LinearConfig::eta`] with a [`Schedule`] |
//!
//! Source of the linear part, and of this table: Garcelon, Perchet, Pirotta, "Encrypted linear contextual
//! bandit" (HELBA). The modules name theirs.

mod arms;
mod config;
pub mod datasets;
pub mod delayed;
pub mod distributed;
mod error;
mod features;
mod helba;
mod oful;
pub mod paper;
mod policy;
mod regret;
mod ridge;
pub mod sampling;
mod schedule;
pub mod stochastic;
pub mod toy;
pub mod vector;
mod width;

pub use arms::{Arms, RewardLaw};
pub use config::LinearConfig;
pub use error::Error;
pub use features::Features;
pub use helba::{Arithmetic, HelbaClear};
pub use oful::Oful;
pub use policy::{Environment, Outcome, Policy, UniformRandom};
pub use regret::{History, Summary, play};
pub use ridge::Ridge;
pub use schedule::{BatchProgress, Schedule};
pub use width::Width;
