use rand::CryptoRng;
use zeroize::Zeroize;

/// A decrypted value on the device of whoever may see it. No Debug, Clone, Serialize or PartialEq; zeroed on
/// drop.
pub struct Private<T: Zeroize>(T);

impl<T: Zeroize> Drop for Private<T> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl<T: Zeroize> Private<T> {
    pub(crate) fn new(value: T) -> Self {
        Private(value)
    }

    /// Uses the value on this device, to show or to act on. What `f` returns must not travel to a server
    /// unless it is coarse, such as the arm played; [`Private::release`] is for numbers.
    pub fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        f(&self.0)
    }
}

impl Private<i128> {
    /// The number with uniform noise of ± 2^`flood_bits` added and rounded to a multiple of 2^(`flood_bits` − 8), modulo
    /// `modulus`: what a server may see. An error e of the ciphertext is hidden to within |e|/2^`flood_bits`.
    pub fn release<R: CryptoRng>(&self, modulus: u64, flood_bits: u32, rng: &mut R) -> u64 {
        let span = 1i128 << (flood_bits + 1);
        let noise = i128::from(rng.next_u64() as i64 & (span as i64 - 1)) - span / 2;
        let step = 1i128 << flood_bits.saturating_sub(8);
        let rounded = (self.0 + noise).div_euclid(step) * step;
        rounded.rem_euclid(i128::from(modulus)) as u64
    }
}
