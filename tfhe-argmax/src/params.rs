//! The TFHE parameters: those that TFHE-rs publishes as
//! `V1_8_PARAM_MESSAGE_2_CARRY_2_KS32_PBS_TUNIFORM_2M128`, for 128 bits of security
//! (`shortint/parameters/v1_8/ks32` of its source; the security is that of the lattice estimator). The key
//! switch from CKKS is under the same GLWE key with the same noise.

use tfhe::core_crypto::prelude::*;

/// n: the dimension of the samples that are bootstrapped, under a binary key.
pub const LWE_DIMENSION: usize = 918;
/// N: the degree of the GLWE ciphertexts of dimension 1, under a binary key.
pub const DEGREE: usize = 2048;
/// log₂ of 2N, the modulus of the exponent of a blind rotation.
pub const LOG_STEPS: usize = 12;
/// LWE noise is uniform in ± 2ᵇ, with half the weight at both ends, modulo 2³².
pub const LWE_NOISE_BITS: u32 = 13;
/// GLWE noise is uniform in ± 2ᵇ, with half the weight at both ends, modulo 2⁶⁴.
pub const GLWE_NOISE_BITS: u32 = 17;
/// log₂ of the base of the one digit of a bootstrap.
pub const BOOTSTRAP_BASE_LOG: usize = 23;
/// log₂ of the base of the digits of the LWE key switch.
pub const REDUCTION_BASE_LOG: usize = 4;
/// Digits of the LWE key switch.
pub const REDUCTION_LEVELS: usize = 4;
/// log₂ of the base of the one digit of the key switch from CKKS, which is no part of the published set. One
/// digit of 23 bits leaves 2⁻¹⁸ of the torus, a hundredth of what a modulus switch to 2N adds.
pub const SWITCH_BASE_LOG: usize = 23;

pub(crate) fn reduction_levels() -> DecompositionLevelCount {
    DecompositionLevelCount(REDUCTION_LEVELS)
}

/// The distribution of GLWE noise.
pub fn glwe_noise() -> TUniform<u64> {
    TUniform::new(GLWE_NOISE_BITS)
}

/// The distribution of LWE noise.
pub fn lwe_noise() -> TUniform<u32> {
    TUniform::new(LWE_NOISE_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckks::Security;

    /// The ratios of modulus to noise are at most those of the project's table, which is for σ = 3.2 and
    /// ternary secrets: of its row 2¹¹ for GLWE, also in the column against quantum computers (51 bits), and
    /// of its row 2¹⁰ in proportion to the dimension for LWE.
    #[test]
    fn the_parameters_are_within_the_table() {
        // The variance of a number that is uniform in ± 2ᵇ with half the weight at both ends.
        let deviation = |bits: u32| ((f64::from(2 * bits + 1).exp2() + 1.0) / 6.0).sqrt();
        let row = |log_n: u32| f64::from(Security::Classical128.max_log_qp(log_n).unwrap()) - 3.2f64.log2();
        let glwe = 64.0 - deviation(GLWE_NOISE_BITS).log2();
        assert_eq!(DEGREE, 1 << 11);
        assert!(glwe < row(11) && glwe < 51.0 - 3.2f64.log2(), "{glwe}");
        let lwe = 32.0 - deviation(LWE_NOISE_BITS).log2();
        assert!(lwe < row(10) * LWE_DIMENSION as f64 / 1024.0, "{lwe}");
    }
}
