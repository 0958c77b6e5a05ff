//! Where randomness comes from: 64-bit words, and the two primitives that every exact sampler is made of.

use crate::Ratio;
use rand::{Rng, TryRng};
use serde::{Deserialize, Serialize};
use std::convert::Infallible;

/// The words of any [`rand::Rng`], and what is drawn from them without rounding.
///
/// Every draw says how many words it takes, so that runs on [`SplitMix64`] can be repeated elsewhere to the
/// last word. Where people are protected the source is the operating system's or ChaCha20.
pub trait Words: Rng {
    /// The next 64 bits.
    fn word(&mut self) -> u64 {
        self.next_u64()
    }

    /// Uniform on `[0, 1)`, a multiple of `2^-53`; one word. For environments and simulation: not private
    /// noise.
    fn uniform(&mut self) -> f64 {
        (self.word() >> 11) as f64 * 2f64.powi(-53)
    }

    /// Uniform on `0..n`. No word if `n` is 0 or 1 (the answer is 0); else one word a try for `n` up to
    /// `2^64`, two above, the first the low half. Fewer than two tries on average.
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

    /// True with probability `q`; always if `q` is 1 or more. Words as for [`below`](Self::below) of the
    /// denominator.
    fn bernoulli(&mut self, q: Ratio) -> bool {
        self.below(q.den()) < q.num()
    }
}

impl<R: Rng + ?Sized> Words for R {}

/// SplitMix64: a reproducible source for **tests and simulation only**. It is predictable from one word;
/// noise drawn from it protects nobody.
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

    /// The stream for noise that goes with the environment stream [`new`](Self::new)`(seed)`: its seed is
    /// `seed xor A5A5A5A5A5A5A5A5`.
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
