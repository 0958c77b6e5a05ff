//! Differential privacy for online learning: exact samplers, mechanisms, budgets, accounting.
//!
//! For policies that release noisy statistics. Where noise protects people it is made from integers only
//! ([`sampler`], [`laplace::GridLaplace`]); what serves reproducible simulation alone says so in its name or
//! first line ([`source::SplitMix64`], [`laplace::HarnessLaplace`]).
//!
//! | symbol | here |
//! |---|---|
//! | `eps`, `delta`, `rho` | [`Epsilon`](budget::Epsilon), [`Delta`](budget::Delta), [`Rho`](budget::Rho) |
//! | rational parameters of noise | [`Ratio`] |
//! | `below`, `bern` | [`Words::below`](source::Words::below), [`Words::bernoulli`](source::Words::bernoulli) |
//!
//! Other crates: `opendp` has exact discrete Laplace and Gaussian samplers too, but takes no seed, so that
//! runs on it cannot be repeated, and no Polya, Poisson or Skellam; `prio` has the same two, seedable, with
//! big integers. `rand_distr` samples in floating point. Hence our own, on 128 bits.

pub mod accountant;
pub mod audit;
mod binomial;
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
mod stored;
pub mod task;
pub mod tree;

pub use error::Error;
pub use ratio::Ratio;
pub use statement::{Definition, PrivacyStatement, Trust};
