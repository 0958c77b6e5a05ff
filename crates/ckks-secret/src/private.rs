use rand::CryptoRng;
use subtle::ConstantTimeGreater;
use zeroize::Zeroize;

/// A decrypted value, on a device that may see it. It has no Debug, Clone, Serialize or PartialEq, and is
/// zeroed when it is dropped.
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

    /// Applies `f` to the value on this device, in order to show it or to act on it. The result must not be
    /// sent to a server unless it is as coarse as the index of the largest slot. Use [`Private::at_least`]
    /// for numbers.
    pub fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        f(&self.0)
    }
}

impl Private<u64> {
    /// Adds uniform noise from [−2^`flood_bits`, 2^`flood_bits`) to the residue, centres the sum modulo
    /// `modulus`, and returns whether it is at least `threshold`. A server may learn no more of a number than
    /// this bit. `threshold + 2^flood_bits` must be below half the modulus. The computation has no branch and
    /// no division.
    // Never inlined, so that a test finds its code under its name.
    #[inline(never)]
    pub fn at_least<R: CryptoRng>(&self, threshold: u64, modulus: u64, flood_bits: u32, rng: &mut R) -> bool {
        let width = 1u64 << flood_bits;
        // The residue plus noise in [0, 2·width) minus width, as a number below 3·modulus.
        let shifted = self.0 + (rng.next_u64() & (2 * width - 1)) + (modulus - width);
        let once = shifted.min(shifted.wrapping_sub(modulus));
        let value = once.min(once.wrapping_sub(modulus));
        let low = !threshold.ct_gt(&value);
        let positive = !value.ct_gt(&(modulus / 2));
        (low & positive).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    #[test]
    fn thresholds_are_those_of_the_centred_residue() {
        let q = 1_000_003u64;
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        for flood_bits in [0u32, 4] {
            let noise = 1i64 << flood_bits;
            for threshold in [16i64, 17, 450_000, q as i64 / 2 - 17] {
                for value in [0, 1, 16, 40, 449_900, 450_000, 450_100, q / 2, q / 2 + 1, q - 20, q - 1] {
                    let centred = if value > q / 2 { value as i64 - q as i64 } else { value as i64 };
                    let got = Private::new(value).at_least(threshold as u64, q, flood_bits, &mut rng);
                    // Noise may also carry values near modulus/2 across the sign.
                    let certain = (centred - threshold).abs() > noise && q as i64 / 2 - centred.abs() > noise;
                    assert!(!certain || got == (centred >= threshold), "{value}, {threshold}, {flood_bits}");
                }
            }
        }
    }

    /// At the threshold the answer is a fair coin, and 200 draws give 60 to 140 of each side except with
    /// probability 10⁻⁸. Half the noise width away it is a coin of 1/4.
    #[test]
    fn noise_covers_its_width_on_both_sides() {
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        let mut share = |value: u64| {
            (0..200).filter(|_| Private::new(value).at_least(5000, 1_000_003, 10, &mut rng)).count()
        };
        assert_eq!((share(5000 - 1025), share(5000 + 1025)), (0, 200));
        assert!((60..=140).contains(&share(5000)));
        assert!((20..=80).contains(&share(5000 - 512)) && (120..=180).contains(&share(5000 + 512)));
    }
}
