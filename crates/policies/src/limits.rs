//! The largest policies that a service carries.

use crate::Error;
use privacy::budget::Epsilon;
use privacy::laplace::GridLaplace;

/// Largest number of arms; one request cannot make the server allocate more than some MB.
const MAX_ARMS: u64 = 4096;
/// Largest number of features of all arms. A decision keeps them.
const MAX_VALUES: u64 = 1 << 14;
/// Largest dimension. A commit writes statistics of d² numbers for each level of a tree.
const MAX_FEATURES: u64 = 64;
/// Range of epsilon. Outside it the noise leaves the range of the samplers, and the guarantee is of no use.
const EPSILON: (f64, f64) = (1e-6, 1e6);
/// Largest horizon of policies that keep every row or share.
pub(crate) const MAX_KEPT_ROUNDS: u64 = 100_000;
/// Largest horizon of policies that compute their whole schedule beforehand.
pub(crate) const MAX_PLANNED_ROUNDS: u64 = 1_000_000_000;

/// Refuses `got` outside `1..=most`.
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

pub(crate) fn check_epsilon(epsilon: Epsilon) -> Result<(), Error> {
    let (got, (least, most)) = (epsilon.get(), EPSILON);
    if (least..=most).contains(&got) {
        return Ok(());
    }
    Err(Error::Parameter { why: format!("epsilon is {got}, it must be from {least} to {most}") })
}

/// The source of Laplace noise: rewards and noise are whole numbers of steps of 2⁻²⁰.
pub(crate) fn grid() -> Result<GridLaplace, Error> {
    Ok(GridLaplace::new(20)?)
}
