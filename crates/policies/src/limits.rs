//! Limits of the policies that a service accepts.

use crate::Error;
use privacy::budget::Epsilon;
use privacy::laplace::GridLaplace;

/// Largest number of arms. It bounds the memory of one request to some MB.
const MAX_ARMS: u64 = 4096;
/// Largest number of features of all arms, which the server stores with each decision.
const MAX_VALUES: u64 = 1 << 14;
/// Largest dimension. A commit writes statistics of d² numbers for each level of a tree.
const MAX_FEATURES: u64 = 64;
/// Smallest epsilon, unless the policy has a larger one. Below it the noise leaves the range of the samplers.
pub(crate) const LEAST_EPSILON: f64 = 1e-6;
/// Largest epsilon. A guarantee above it has no meaning.
const MOST_EPSILON: f64 = 1e6;
/// Largest absolute value of a reward, or of a sum of rewards, for policies whose rewards have no range of
/// their own. One such value leaves an estimate finite, and so do 2^52 of them.
pub(crate) const MAX_REWARD: f64 = 1e6;
/// Largest horizon of policies that keep every row or share.
pub(crate) const MAX_KEPT_ROUNDS: u64 = 100_000;
/// Largest horizon of policies that compute their whole schedule in advance.
pub(crate) const MAX_PLANNED_ROUNDS: u64 = 1_000_000_000;

/// Returns `got`, and refuses it outside `1..=most`.
pub(crate) fn within(field: &str, got: u64, most: u64) -> Result<u64, Error> {
    match got {
        _ if (1..=most).contains(&got) => Ok(got),
        _ => Err(Error::Parameter { why: format!("{field} is {got}, it must be from 1 to {most}") }),
    }
}

pub(crate) fn check_arms(arms: usize) -> Result<(), Error> {
    within("arms", arms as u64, MAX_ARMS).map(drop)
}

pub(crate) fn check_shape(features: usize, arms: usize) -> Result<(), Error> {
    within("features", features as u64, MAX_FEATURES)?;
    within("features times arms", (features * arms) as u64, MAX_VALUES).map(drop)
}

pub(crate) fn check_epsilon(epsilon: Epsilon, least: f64) -> Result<(), Error> {
    let got = epsilon.get();
    if (least..=MOST_EPSILON).contains(&got) {
        return Ok(());
    }
    Err(Error::Parameter { why: format!("epsilon is {got}, it must be from {least} to {MOST_EPSILON}") })
}

/// The source of Laplace noise, on whose grid rewards and noise are multiples of 2⁻²⁰.
pub(crate) fn grid() -> Result<GridLaplace, Error> {
    Ok(GridLaplace::new(20)?)
}
