//! The registry of policies that learn in the clear, for the server and for `helba-lab`.
//!
//! A policy is registered by a type of parameters that implements the crate's trait `PolicyParameters`, one
//! line in `registry.rs` and one card in `card.rs`. Callers use two types for all policies: [`PolicyConfig`]
//! contains the parameters, and [`PolicyState`] a configured policy with all that it has learnt.

mod card;
mod config;
mod delayed;
mod described;
mod error;
mod late;
mod limits;
mod linear;
mod names;
mod registry;
mod state;
mod stochastic;
mod summed;

pub use card::{SIMULATED, cards};
pub use config::{FEATURES_BOUND, PolicyConfig, Profile};
pub use error::Error;
pub use names::{policy_name, policy_names};
pub use state::{PolicyState, Reported};
