//! Bandits in the clear: policies, environments, regret.
//!
//! The linear contextual policies, at the top of the crate, are the algorithms of the encrypted server on
//! `f64`, with the public scalars (widths, schedules) that the server computes; simulations and tests use
//! them. The policies in [`stochastic`] and [`distributed`] are differentially private, and state their
//! guarantee as a [`privacy::PrivacyStatement`]. Those in [`delayed`] learn from late, aggregated feedback
//! without privacy.
//!
//! | symbol | here |
//! |---|---|
//! | `s_{t,a}`, `x` | [`Features`], one row an arm |
//! | `V`, `g`, `omega`, `A_j` | [`Ridge::design`], [`Ridge::moment`], [`Ridge::omega`], [`Ridge::inverse`] |
//! | `t`, `t_j` | [`Ridge::round`], [`Ridge::batch_start`] |
//! | `beta(t)`, `c1`, `c2`, `rho_max` | [`LinearConfig::beta`], [`c1`](LinearConfig::c1), [`c2`](LinearConfig::c2), [`rho_max`](LinearConfig::rho_max) |
//! | `C`, `eta` | [`LinearConfig::c`], [`LinearConfig::eta`] with a [`Schedule`] |
//!
//! The source of the linear policies and of this table is Garcelon, Perchet, Pirotta, "Encrypted linear
//! contextual bandit" (HELBA). Each module names its own source.

mod arms;
mod config;
pub mod datasets;
pub mod delayed;
pub mod distributed;
mod error;
mod features;
mod forgetting;
mod helba;
mod oful;
pub mod paper;
mod policy;
mod regret;
mod ridge;
pub mod sampling;
mod schedule;
pub mod stochastic;
mod ties;
pub mod toy;
pub mod vector;
mod width;

pub use arms::{Arms, RewardLaw};
pub use config::LinearConfig;
pub use error::Error;
pub use features::Features;
pub use forgetting::{Faded, Forgetting, WeightedSums};
pub use helba::{Arithmetic, HelbaClear};
pub use oful::Oful;
pub use policy::{Environment, Learnt, Outcome, Policy, UniformRandom};
pub use regret::{History, Summary, play};
pub use ridge::Ridge;
pub use schedule::{BatchProgress, Schedule};
pub use ties::EXACT_TIE;
pub use width::{Bonus, PREDICTION_BOUND, UNCERTAINTY_BOUND, Width, WidthShape};
