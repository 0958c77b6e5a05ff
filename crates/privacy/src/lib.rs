//! Differential privacy for online learning: exact samplers, mechanisms, budgets, accounting.
//!
//! Policies that release noisy statistics use this crate. Noise for real data is drawn from integers only
//! ([`sampler`], [`laplace::GridLaplace`]). Items for reproducible simulation only are marked in their name
//! or first line ([`source::SplitMix64`], [`laplace::HarnessLaplace`]).
//!
//! | symbol | here |
//! |---|---|
//! | `eps`, `delta`, `rho` | [`Epsilon`](budget::Epsilon), [`Delta`](budget::Delta), [`Rho`](budget::Rho) |
//! | rational parameters of noise | [`Ratio`] |
//! | `below`, `bern` | [`Words::below`](source::Words::below), [`Words::bernoulli`](source::Words::bernoulli) |
//!
//! Other crates do not cover these needs: `opendp` has exact discrete Laplace and Gaussian samplers, but
//! takes no seed, so that runs cannot be repeated, and has no Polya, Poisson or Skellam variates; `prio` has
//! the same two samplers, with seeds and big integers; `rand_distr` samples in floating point.

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
