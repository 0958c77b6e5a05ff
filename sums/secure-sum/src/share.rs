//! Additive shares of integers, and the bytes of reports.

use crate::Error;
use prio::field::{Field64, FieldElementWithInteger};
use privacy::source::Words;
use rand::CryptoRng;
use serde::Deserialize;

/// The id of a batch. It contains the number of users that the noise is sized for, so that reports with noise
/// for different numbers are never added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
pub struct BatchId {
    /// The number of the batch, which is used once.
    pub number: u64,
    /// The least number of users for which the batch is opened.
    pub at_least: u32,
}

/// The id of a user's report in one batch. It is random, and reveals nothing about the user.
pub type ReportId = [u8; 16];

/// The message of one user to one aggregator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// The batch.
    pub batch: BatchId,
    /// The id, which is the same at both aggregators.
    pub id: ReportId,
    /// The share.
    pub share: Field64,
}

/// The result of a secure sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sum {
    /// The sum of the noised values of the users who answered.
    pub total: i128,
    /// The number of users who answered.
    pub users: u64,
}

/// Two shares whose sum is `value` modulo the prime `2^64 - 2^32 + 1`. Each share alone is uniform whatever
/// the value. Sums are correct while their absolute value is below half the prime.
pub fn split<R: CryptoRng>(value: i128, rng: &mut R) -> [Field64; 2] {
    let prime = Field64::modulus();
    split_with(value, Field64::from(rng.below(u128::from(prime)) as u64))
}

fn split_with(value: i128, mask: Field64) -> [Field64; 2] {
    // A residue modulo a prime of 64 bits fits.
    let residue = value.rem_euclid(i128::from(Field64::modulus())) as u64;
    [mask, Field64::from(residue) - mask]
}

/// The value of two shares, between minus and plus half the prime.
pub fn join(shares: [Field64; 2]) -> i128 {
    let (sum, prime) = (i128::from(u64::from(shares[0] + shares[1])), i128::from(Field64::modulus()));
    if sum > prime / 2 { sum - prime } else { sum }
}

/// User side: one report for each aggregator, under a fresh random id.
pub fn reports<R: CryptoRng>(batch: BatchId, value: i128, rng: &mut R) -> [Report; 2] {
    let mut id = [0; 16];
    rng.fill_bytes(&mut id);
    split(value, rng).map(|share| Report { batch, id, share })
}

impl Report {
    /// The bytes of a report: number of the batch, its least number of users, id, share. Integers are little
    /// endian.
    pub const BYTES: usize = 36;

    /// The bytes of the report.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..8].copy_from_slice(&self.batch.number.to_le_bytes());
        out[8..12].copy_from_slice(&self.batch.at_least.to_le_bytes());
        out[12..28].copy_from_slice(&self.id);
        out[28..].copy_from_slice(&element_bytes(self.share));
        out
    }

    /// Reads one or more reports that follow each other.
    ///
    /// # Errors
    /// [`Error::Malformed`] for an incomplete report, for no report, for a least number of 0 users, or for a
    /// share that is no residue.
    pub fn read_all(bytes: &[u8]) -> Result<Vec<Self>, Error> {
        let (rows, []) = bytes.as_chunks::<{ Self::BYTES }>() else {
            return Err(Error::Malformed { what: "a report is cut off" });
        };
        if rows.is_empty() {
            return Err(Error::Malformed { what: "no report" });
        }
        rows.iter().map(Self::read).collect()
    }

    fn read(row: &[u8; Self::BYTES]) -> Result<Self, Error> {
        let [number @ .., _, _, _, _] = row.first_chunk::<12>().ok_or(CUT)?;
        let at_least = u32::from_le_bytes(*row[8..].first_chunk().ok_or(CUT)?);
        if at_least == 0 {
            return Err(Error::Malformed { what: "a threshold of no users" });
        }
        let batch = BatchId { number: u64::from_le_bytes(*number), at_least };
        let id = *row[12..].first_chunk().ok_or(CUT)?;
        Ok(Self { batch, id, share: element(&row[28..])? })
    }
}

const CUT: Error = Error::Malformed { what: "cut off" };

pub(crate) fn element_bytes(x: Field64) -> [u8; 8] {
    u64::from(x).to_le_bytes()
}

/// Reads a field element. Each element has one encoding.
pub(crate) fn element(bytes: &[u8]) -> Result<Field64, Error> {
    let value = u64::from_le_bytes(bytes.try_into().map_err(|_| CUT)?);
    if value >= Field64::modulus() {
        return Err(Error::Malformed { what: "a share is not below the prime" });
    }
    Ok(Field64::from(value))
}

/// Reads ids that follow each other.
pub(crate) fn ids(bytes: &[u8]) -> Result<&[ReportId], Error> {
    match bytes.as_chunks() {
        (ids, []) => Ok(ids),
        _ => Err(Error::Malformed { what: "an id is cut off" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    /// Both shares are uniform whatever the value: chi-square over 256 cells of the lowest and of the highest
    /// byte. 396 has probability 5e-8 with 255 degrees of freedom.
    #[test]
    fn each_share_alone_is_uniform() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        for value in [0, 1, -1, 1 << 40] {
            let mut cells = [[[0u32; 256]; 2]; 2];
            for _ in 0..100_000 {
                for (of, share) in cells.iter_mut().zip(split(value, &mut rng)) {
                    let bytes = element_bytes(share);
                    of[0][usize::from(bytes[0])] += 1;
                    of[1][usize::from(bytes[7])] += 1;
                }
            }
            for cells in cells.as_flattened() {
                let want = 100_000.0 / 256.0;
                let chi: f64 = cells.iter().map(|&n| (f64::from(n) - want).powi(2) / want).sum();
                assert!(chi < 396.0, "{value}: {chi}");
            }
        }
    }

    proptest! {
        /// What one aggregator sees fits every value equally well: for any other value there is exactly one
        /// mask that shows it the same share. So a simulator that knows no value draws the same view.
        #[test]
        fn one_share_can_be_simulated(value in -1i128 << 62..1i128 << 62, other in -1i128 << 62..1i128 << 62, mask in 0..Field64::modulus()) {
            let mask = Field64::from(mask);
            let [first, second] = split_with(value, mask);
            prop_assert_eq!(split_with(other, mask)[0], first);
            let shift = split_with(other - value, Field64::from(0))[1];
            prop_assert_eq!(split_with(other, mask + shift)[1], second);
            prop_assert_eq!(join([first, second]), value);
        }

        #[test]
        fn reports_survive_their_bytes(number: u64, at_least in 1u32.., id: [u8; 16], share in 0..Field64::modulus()) {
            let report = Report { batch: BatchId { number, at_least }, id, share: Field64::from(share) };
            prop_assert_eq!(Report::read_all(&report.to_bytes().repeat(2)).unwrap(), vec![report; 2]);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = (Report::read_all(&bytes), ids(&bytes), element(&bytes));
        }
    }

    #[test]
    fn bad_reports_are_refused() {
        let good = reports(BatchId { number: 7, at_least: 2 }, 5, &mut ChaCha20Rng::seed_from_u64(2))[0];
        let bytes = good.to_bytes();
        for cut in [0, 1, 35] {
            assert!(Report::read_all(&bytes[..cut]).is_err());
        }
        let with = |at: usize, value: &[u8]| {
            let mut bytes = bytes;
            bytes[at..at + value.len()].copy_from_slice(value);
            Report::read_all(&bytes)
        };
        assert!(with(8, &[0; 4]).is_err());
        assert!(with(28, &Field64::modulus().to_le_bytes()).is_err());
        assert!(with(28, &(Field64::modulus() - 1).to_le_bytes()).is_ok());
    }
}
