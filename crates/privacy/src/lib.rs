//! Differential privacy for online learning: exact samplers, mechanisms, budgets, accounting.
//!
//! For policies that release noisy statistics. Where noise protects people it is made from integers only
//! ([`sampler`], [`laplace::GridLaplace`]); what serves reproducible simulation alone says so in its name or first
//! line ([`source::SplitMix64`], [`laplace::HarnessLaplace`]).
//!
//! | symbol | here |
//! |---|---|
//! | rational parameters of noise | [`Ratio`] |
//! | `below`, `bern` | [`Words::below`](source::Words::below), [`Words::bernoulli`](source::Words::bernoulli) |

mod error;
pub mod laplace;
mod ratio;
pub mod sampler;
pub mod source;

pub use error::Error;
pub use ratio::Ratio;
