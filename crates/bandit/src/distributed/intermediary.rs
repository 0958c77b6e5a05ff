//! The intermediary S: it adds shares and lets out nothing but the sum.

use crate::Error;
use privacy::source::Words;
use privacy::{Ratio, sampler};
use rand::Rng;
use serde::{Deserialize, Serialize};

/// A protocol by which an intermediary adds shares.
pub trait SecureSum {
    /// The sum of the shares of all `users`, modulo `modulus`.
    ///
    /// # Errors
    /// [`Error::Shares`] if there is not exactly one share a user: the noise would be too small, so the batch
    /// must be given up. [`Error::Field`] if a share is no residue.
    fn sum(&mut self, shares: &[u64], users: u64, modulus: u64, rng: &mut dyn Rng) -> Result<u64, Error>;
}

fn check(shares: &[u64], users: u64, modulus: u64) -> Result<(), Error> {
    if shares.len() as u64 != users {
        return Err(Error::Shares { got: shares.len() as u64, users });
    }
    match shares.iter().find(|y| **y >= modulus) {
        Some(&y) => Err(Error::Field { field: "share", got: y as f64, want: "below the modulus" }),
        None => Ok(()),
    }
}

fn add(values: impl IntoIterator<Item = u64>, modulus: u64) -> u64 {
    let add = |sum: u128, y: u64| (sum + u128::from(y)) % u128::from(modulus.max(1));
    values.into_iter().fold(0, add) as u64
}

/// One party that everybody trusts: the definition of the sum, for simulation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdealSum;

impl SecureSum for IdealSum {
    fn sum(&mut self, shares: &[u64], users: u64, modulus: u64, _: &mut dyn Rng) -> Result<u64, Error> {
        check(shares, users, modulus)?;
        Ok(add(shares.iter().copied(), modulus))
    }
}

/// Each user splits its share among servers that do not all collude; any of them missing, nothing comes out.
///
/// All but one part are uniform residues, the last makes the sum right: any fewer than all are independent of
/// the share. Shares stay residues of the batch's own modulus, so that the total of servers shows no more
/// than the sum does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdditiveShares {
    servers: usize,
}

impl AdditiveShares {
    /// Among so many servers.
    ///
    /// # Errors
    /// [`Error::Field`] below 2.
    pub fn new(servers: usize) -> Result<Self, Error> {
        if servers < 2 {
            return Err(Error::Field { field: "servers", got: servers as f64, want: "at least 2" });
        }
        Ok(Self { servers })
    }

    /// User side: one part a server.
    pub fn split(&self, share: u64, modulus: u64, rng: &mut dyn Rng) -> Vec<u64> {
        let mut parts: Vec<u64> = (1..self.servers).map(|_| rng.below(u128::from(modulus)) as u64).collect();
        let masks = add(parts.iter().copied(), modulus);
        parts.push(add([share % modulus.max(1), modulus - masks], modulus));
        parts
    }

    /// Collector side: `totals[k]` is server k's sum of its parts.
    ///
    /// # Errors
    /// [`Error::Shares`] if a server is missing, [`Error::Field`] if a total is no residue.
    pub fn join(&self, totals: &[u64], modulus: u64) -> Result<u64, Error> {
        check(totals, self.servers as u64, modulus)?;
        Ok(add(totals.iter().copied(), modulus))
    }
}

impl SecureSum for AdditiveShares {
    fn sum(&mut self, shares: &[u64], users: u64, modulus: u64, rng: &mut dyn Rng) -> Result<u64, Error> {
        check(shares, users, modulus)?;
        let mut totals = vec![0; self.servers];
        for share in shares {
            for (total, part) in totals.iter_mut().zip(self.split(*share, modulus, rng)) {
                *total = add([*total, part], modulus);
            }
        }
        self.join(&totals, modulus)
    }
}

/// The ideal sum that is replaced by a uniform residue with a small probability. It has the errors that
/// [`Model::Shuffle`](super::Model::Shuffle) allows for, and no leak. For simulation with moduli that are too
/// large for [`BitShuffle`].
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

/// A sum through a shuffler, for **small moduli only**: a user sends `bits` bits, W of them ones, and the
/// shuffled ones are counted modulo m.
///
/// With probability `1 - failure/n`, W is the number of heads among `bits` fair coins given `W ≡ share (mod
/// m)`; else it is uniform on `0..=bits`. The leak falls like the root of `bits`, so that bits grow like m²:
/// at m = 5, two users and failure 0.1 it is 0.984 at 100 bits, 0.308 at 800 (exact, see the tests).
///
/// Stands in for the protocol of Cheu, Yan, "Pure differential privacy from secure intermediaries", 2021,
/// which the paper builds on and does not restate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BitShuffle {
    /// Bits of one user; at least a sixteenth of the modulus squared, so that every residue is met soon.
    pub bits: u64,
    /// Bound on the probability of a wrong sum, at most 1.
    pub failure: Ratio,
}

impl BitShuffle {
    /// User side: the number of ones among the bits sent.
    ///
    /// # Errors
    /// [`Error::Field`] if `modulus` is 0, or above four roots of `bits`; [`Error::Privacy`] if an exact
    /// intermediate overflows.
    pub fn ones(&self, share: u64, users: u64, modulus: u64, rng: &mut dyn Rng) -> Result<u64, Error> {
        if modulus == 0 || u128::from(modulus).pow(2) > 16 * u128::from(self.bits) {
            return Err(Error::Field { field: "modulus", got: modulus as f64, want: "in 1..=4 sqrt(bits)" });
        }
        if rng.bernoulli(self.failure.over(Ratio::integer(users))?) {
            return Ok(rng.below(u128::from(self.bits) + 1) as u64);
        }
        loop {
            let ones = sampler::binomial_half(rng, self.bits)?;
            if ones % modulus == share % modulus {
                return Ok(ones);
            }
        }
    }
}

impl SecureSum for BitShuffle {
    fn sum(&mut self, shares: &[u64], users: u64, modulus: u64, rng: &mut dyn Rng) -> Result<u64, Error> {
        check(shares, users, modulus)?;
        let ones =
            shares.iter().map(|y| self.ones(*y, users, modulus, rng)).collect::<Result<Vec<_>, _>>()?;
        Ok(add(ones, modulus))
    }
}
