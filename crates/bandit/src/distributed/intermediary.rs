//! The intermediary S, which adds shares and outputs the sum alone.

use crate::Error;
use fault::OutOfRange;
use privacy::Ratio;
use privacy::source::Words;
use rand::Rng;
use serde::{Deserialize, Serialize};

/// A protocol by which an intermediary adds shares.
pub trait SecureSum {
    /// The sum of the shares of all `users`, modulo `modulus`.
    ///
    /// # Errors
    /// [`Error::Shares`] if there is not exactly one share of each user, in which case the noise would be too
    /// small and the batch must be discarded; [`Error::OutOfRange`] if a share is no residue.
    fn sum(&mut self, shares: &[u64], users: u64, modulus: u64, rng: &mut dyn Rng) -> Result<u64, Error>;
}

fn check(shares: &[u64], users: u64, modulus: u64) -> Result<(), Error> {
    if shares.len() as u64 != users {
        return Err(Error::Shares { got: shares.len() as u64, users });
    }
    match shares.iter().find(|y| **y >= modulus) {
        Some(&y) => Err(OutOfRange::new("share", y, format!("below {modulus}")).into()),
        None => Ok(()),
    }
}

fn add(values: impl IntoIterator<Item = u64>, modulus: u64) -> u64 {
    let add = |sum: u128, y: u64| (sum + u128::from(y)) % u128::from(modulus.max(1));
    values.into_iter().fold(0, add) as u64
}

/// The exact sum by a trusted party, for simulation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdealSum;

impl SecureSum for IdealSum {
    fn sum(&mut self, shares: &[u64], users: u64, modulus: u64, _: &mut dyn Rng) -> Result<u64, Error> {
        check(shares, users, modulus)?;
        Ok(add(shares.iter().copied(), modulus))
    }
}

/// The exact sum, replaced by a uniform residue with a small probability: the errors that
/// [`Model::Shuffle`](super::Model::Shuffle) allows. For simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelaxedSum {
    /// Probability of a uniform residue, at most 1.
    pub failure: Ratio,
}

impl SecureSum for RelaxedSum {
    fn sum(&mut self, shares: &[u64], users: u64, modulus: u64, rng: &mut dyn Rng) -> Result<u64, Error> {
        let sum = IdealSum.sum(shares, users, modulus, rng)?;
        Ok(if rng.bernoulli(self.failure) { rng.below(u128::from(modulus)) as u64 } else { sum })
    }
}
