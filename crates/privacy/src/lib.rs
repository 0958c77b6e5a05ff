//! Differential privacy for online learning: exact samplers, mechanisms, budgets, accounting.
//!
//! For policies that release noisy statistics. Where noise protects people it is made from integers only
//! ([`sampler`], [`laplace::GridLaplace`]); what serves reproducible simulation alone says so in its name or first
//! line ([`source::SplitMix64`], [`laplace::HarnessLaplace`]).
//!
//! | symbol | here |
//! |---|---|
//! | `eps`, `delta`, `rho` | [`Epsilon`](budget::Epsilon), [`Delta`](budget::Delta), [`Rho`](budget::Rho) |
//! | rational parameters of noise | [`Ratio`] |
//! | `below`, `bern` | [`Words::below`](source::Words::below), [`Words::bernoulli`](source::Words::bernoulli) |

pub mod accountant;
pub mod budget;
pub mod composition;
mod error;
pub mod gauss;
pub mod laplace;
mod ratio;
pub mod rdp;
pub mod sampler;
pub mod shuffle;
pub mod source;
mod statement;
pub mod tree;

pub use error::Error;
pub use ratio::Ratio;
pub use statement::{Definition, PrivacyStatement, Trust};
