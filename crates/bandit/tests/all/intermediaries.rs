//! Two ways of summing shares without a trusted party, whose sums and whose views the tests compare with the
//! paper's.

use bandit::Error;
use bandit::distributed::{IdealSum, SecureSum};
use fault::OutOfRange;
use privacy::source::{SplitMix64, Words};
use privacy::{Ratio, sampler};
use rand::Rng;
use serde::{Deserialize, Serialize};

/// The sum of residues that have been checked.
fn add(values: &[u64], modulus: u64) -> u64 {
    let sum: u128 = values.iter().map(|y| u128::from(*y)).sum();
    (sum % u128::from(modulus.max(1))) as u64
}

/// Each user splits its share among servers that do not all collude; any of them missing, nothing comes out.
///
/// All but one part are uniform residues, the last makes the sum right: any fewer than all are independent of
/// the share. Shares stay residues of the batch's own modulus, so that the total of servers shows no more
/// than the sum does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AdditiveShares {
    servers: usize,
}

impl AdditiveShares {
    /// Among so many servers.
    pub(crate) fn new(servers: usize) -> Result<Self, Error> {
        if servers < 2 {
            return Err(OutOfRange::new("servers", servers, "at least 2").into());
        }
        Ok(Self { servers })
    }

    /// User side: one part a server.
    pub(crate) fn split(&self, share: u64, modulus: u64, rng: &mut dyn Rng) -> Vec<u64> {
        let mut parts: Vec<u64> = (1..self.servers).map(|_| rng.below(u128::from(modulus)) as u64).collect();
        let masks = add(&parts, modulus);
        parts.push(add(&[share % modulus.max(1), modulus - masks], modulus));
        parts
    }

    /// Collector side: `totals[k]` is server k's sum of its parts.
    pub(crate) fn join(&self, totals: &[u64], modulus: u64) -> Result<u64, Error> {
        IdealSum.sum(totals, self.servers as u64, modulus, &mut SplitMix64::new(0))
    }
}

impl SecureSum for AdditiveShares {
    fn sum(&mut self, shares: &[u64], users: u64, modulus: u64, rng: &mut dyn Rng) -> Result<u64, Error> {
        IdealSum.sum(shares, users, modulus, rng)?; // checks the shares and draws nothing
        let mut totals = vec![0; self.servers];
        for share in shares {
            for (total, part) in totals.iter_mut().zip(self.split(*share, modulus, rng)) {
                *total = add(&[*total, part], modulus);
            }
        }
        self.join(&totals, modulus)
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
pub(crate) struct BitShuffle {
    /// Bits of one user; at least a sixteenth of the modulus squared, so that every residue is met soon.
    pub(crate) bits: u64,
    /// Bound on the probability of a wrong sum, at most 1.
    pub(crate) failure: Ratio,
}

impl BitShuffle {
    /// User side: the number of ones among the bits sent.
    pub(crate) fn ones(&self, share: u64, users: u64, modulus: u64, rng: &mut dyn Rng) -> Result<u64, Error> {
        if modulus == 0 || u128::from(modulus).pow(2) > 16 * u128::from(self.bits) {
            return Err(OutOfRange::new("modulus", modulus, "in 1..=4 sqrt(bits)").into());
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
        IdealSum.sum(shares, users, modulus, rng)?; // checks the shares and draws nothing
        let ones =
            shares.iter().map(|y| self.ones(*y, users, modulus, rng)).collect::<Result<Vec<_>, _>>()?;
        Ok(add(&ones, modulus))
    }
}
