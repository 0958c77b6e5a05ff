//! What a user gets: one LWE sample an arm, modulo 2³², under the GLWE secret read as an LWE secret.

use crate::Error;
use crate::params::DEGREE;
use ckks::KeyId;

/// The bits b of the noise that the server adds to the sample of an arm: uniform in ± 2⁻ᵇ of the torus. An
/// entry is ± ¼, so that its sign is right whatever the noise. The noise of a bootstrap is 2⁻¹⁵, so that the
/// distance of a sample from one with another bootstrap's noise is some 2⁻¹²
/// (docs/argmax-by-bootstrapping.md).
pub const ANSWER_FLOOD_BITS: u32 = 4;

/// Bytes of a sample: a mask of N numbers and a body.
const SAMPLE: usize = 4 * (DEGREE + 1);

/// One sample for each arm: ¼ for an arm that is ahead of all others or ties with them, and −¼ for the
/// others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The fingerprint of the TFHE keys.
    pub id: KeyId,
    /// For each arm a mask of N numbers and a body.
    pub samples: Vec<Vec<u32>>,
}

impl Answer {
    /// Bytes of an answer to a decision between `arms` arms.
    pub fn message_bytes(arms: usize) -> usize {
        16 + arms * SAMPLE
    }

    /// The message: the fingerprint, then the samples, little-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::message_bytes(self.samples.len()));
        out.extend(self.id.0);
        self.samples.iter().flatten().for_each(|word| out.extend(word.to_le_bytes()));
        out
    }

    /// Reads what [`Self::to_bytes`] writes for `arms` arms.
    ///
    /// # Errors
    /// [`Error::Length`] for another length.
    pub fn from_bytes(bytes: &[u8], arms: usize) -> Result<Self, Error> {
        let (got, want) = (bytes.len(), Self::message_bytes(arms));
        if got != want {
            return Err(Error::Length { what: "answer of an argmax by bootstrapping", got, want });
        }
        let (id, samples) = bytes.split_at(16);
        let mut out = [0; 16];
        out.copy_from_slice(id);
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        let sample = |bytes: &[u8]| bytes.chunks_exact(4).map(word).collect();
        Ok(Answer { id: KeyId(out), samples: samples.chunks_exact(SAMPLE).map(sample).collect() })
    }
}
