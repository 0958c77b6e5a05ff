//! A meter for precision: the distance of a decryption from the expected values.

use crate::{SecretKey, decrypt};
use ckks::Ciphertext;
use num_complex::Complex64;

/// The distance between a decryption and the expected slot values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Precision {
    /// −log₂ of the largest error.
    pub worst_bits: f64,
    /// −log₂ of the mean error of a slot.
    pub mean_bits: f64,
    /// The slot with the largest error.
    pub worst_slot: usize,
}

impl std::fmt::Display for Precision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} bits (mean {:.1}, worst slot {})", self.worst_bits, self.mean_bits, self.worst_slot)
    }
}

/// Decrypts `ct` and compares its slots with `want`. `want.len()` is the period of the message.
pub fn measure(secret: &SecretKey, ct: &Ciphertext, want: &[Complex64]) -> Precision {
    decrypt(secret, ct, want.len()).with(|got| {
        let errors: Vec<f64> = got.iter().zip(want).map(|(a, b)| (a - b).norm()).collect();
        let (worst_slot, worst) =
            errors.iter().copied().enumerate().fold((0, 0.0), |m, e| if e.1 > m.1 { e } else { m });
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        Precision { worst_bits: -worst.log2(), mean_bits: -mean.log2(), worst_slot }
    })
}
