//! The answer of a decision: one LWE sample an arm, modulo 2³², under the GLWE secret as an LWE secret.

use crate::Error;
use crate::params::DEGREE;
use ckks::KeyId;

/// The bits b of the noise that a server adds to each sample: uniform in ± 2⁻ᵇ of the torus. The noise of a
/// bootstrap is 2⁻¹⁵, so that the distance of a sample from one with another bootstrap's noise is some 2⁻¹²
/// (docs/argmax-by-bootstrapping.md).
pub const FLOOD_BITS: u32 = 4;

/// What the entry of an arm that is ahead of all others is on the torus; −`ENTRY` for one that is behind.
/// With the noise of the server, entries are within ± 15/32.
pub const ENTRY: f64 = 13.0 / 32.0;

/// An arm was ahead of all others or tied with them only if an entry, as a part of [`ENTRY`], is above
/// this: entries of −1 with the noise of the server are below.
pub const LEAST_ENTRY: f64 = -0.84;

/// The most arms of a decision by bootstraps: above, the sum of an arm's comparisons is not told apart from
/// the next one with a probability of error below 2⁻⁶⁴.
pub const MOST_ARMS: usize = 16;

/// Bytes of a sample.
const SAMPLE: usize = 4 * (DEGREE + 1);

/// One sample for each arm: [`ENTRY`] for an arm that is ahead of all others, −[`ENTRY`] for one that
/// is behind, and between them for arms that are nearly equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The fingerprint of the bootstrapping keys.
    pub id: KeyId,
    /// For each arm a mask of [`DEGREE`] numbers and a body.
    pub samples: Vec<Vec<u32>>,
}

impl Answer {
    /// Bytes of an answer to a decision between `arms` arms.
    pub fn bytes(arms: usize) -> usize {
        16 + arms * SAMPLE
    }

    /// The message: the fingerprint, then the samples, little-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::bytes(self.samples.len()));
        out.extend(self.id.0);
        self.samples.iter().flatten().for_each(|word| out.extend(word.to_le_bytes()));
        out
    }

    /// Reads what [`Self::to_bytes`] writes for `arms` arms.
    ///
    /// # Errors
    /// [`Error::Length`].
    pub fn read(bytes: &[u8], arms: usize) -> Result<Self, Error> {
        let (got, want) = (bytes.len(), Self::bytes(arms));
        if got != want {
            return Err(Error::Length { what: "an answer", got, want });
        }
        let (id, samples) = bytes.split_at(16);
        let mut out = [0; 16];
        out.copy_from_slice(id);
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        let sample = |bytes: &[u8]| bytes.chunks_exact(4).map(word).collect();
        Ok(Answer { id: KeyId(out), samples: samples.chunks_exact(SAMPLE).map(sample).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer has one sample for each arm of the bandit, and no byte more or less: another length is
    /// refused before anything of it is read, whoever has sent it.
    #[test]
    fn attack_answers_of_another_length_are_refused() {
        let sample = |first: u32| (0..=DEGREE as u32).map(|i| first + i).collect::<Vec<_>>();
        let answer = Answer { id: KeyId([7; 16]), samples: vec![sample(1 << 24), sample(5)] };
        let bytes = answer.to_bytes();
        assert_eq!(bytes.len(), Answer::bytes(2));
        assert_eq!(Answer::read(&bytes, 2).unwrap(), answer);
        let longer = [&bytes[..], &[0; 4]].concat();
        for (bytes, arms) in [
            (&bytes[..], 1),
            (&bytes, 3),
            (&bytes[..bytes.len() - 1], 2),
            (&bytes[..bytes.len() - SAMPLE], 2),
            (&longer[..bytes.len() + 1], 2),
            (&longer, 2),
            (&bytes[..16], 2),
            (&bytes[..15], 2),
            (&[], 2),
        ] {
            let want = Answer::bytes(arms);
            let refused = Answer::read(bytes, arms).unwrap_err();
            assert!(matches!(refused, Error::Length { got, want: w, .. } if got == bytes.len() && w == want));
        }
    }
}
