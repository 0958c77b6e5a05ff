//! Random words of 64 bits, and the two primitives of all exact samplers.

use crate::Ratio;
use rand::{Rng, TryRng};
use serde::{Deserialize, Serialize};
use std::convert::Infallible;

/// The words of any [`rand::Rng`], and draws from them without rounding.
///
/// Every draw documents the number of words it takes, so that other implementations can repeat runs on
/// [`SplitMix64`] exactly. Noise for real data must come from the operating system or from ChaCha20.
pub trait Words: Rng {
    /// The next 64 bits.
    fn word(&mut self) -> u64 {
        self.next_u64()
    }

    /// A uniform number in `[0, 1)`, a multiple of `2^-53`, from one word; for environments and simulation,
    /// not for private noise.
    fn uniform(&mut self) -> f64 {
        (self.word() >> 11) as f64 * 2f64.powi(-53)
    }

    /// A uniform number in `0..n`, or 0 if `n` is 0. It takes no word for `n` up to 1, one word per attempt
    /// for `n` up to `2^64`, and two above, the low half first. The mean number of attempts is below two.
    fn below(&mut self, n: u128) -> u128 {
        if n <= 1 {
            return 0;
        }
        let mask = u128::MAX >> (n - 1).leading_zeros();
        loop {
            let low = u128::from(self.word());
            let v = if mask >> 64 == 0 { low } else { low | u128::from(self.word()) << 64 };
            if v & mask < n {
                return v & mask;
            }
        }
    }

    /// True with probability `q`, and always if `q` is 1 or more. It takes the words of
    /// [`below`](Self::below) for the denominator.
    fn bernoulli(&mut self, q: Ratio) -> bool {
        self.below(q.den()) < q.num()
    }
}

impl<R: Rng + ?Sized> Words for R {}

/// SplitMix64, a reproducible generator for **tests and simulation only**: all words can be predicted from
/// one.
///
/// # Source
/// Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// The stream of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The stream of noise for the environment stream [`new`](Self::new)`(seed)`. Its seed is `seed xor
    /// A5A5A5A5A5A5A5A5`.
    pub const fn noise(seed: u64) -> Self {
        Self { state: seed ^ 0xA5A5_A5A5_A5A5_A5A5 }
    }
}

impl TryRng for SplitMix64 {
    type Error = Infallible;

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        Ok(z ^ z >> 31)
    }

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.word() >> 32) as u32)
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        for chunk in out.chunks_mut(8) {
            chunk.copy_from_slice(&self.word().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}
