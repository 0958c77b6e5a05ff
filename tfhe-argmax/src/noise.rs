//! The noise of the chain as formulas. All variances are in units of the torus, squared.
//!
//! Source: Chillotti, Gama, Georgieva, Izabachène 2020, sections 3 and 4, for binary secrets and the
//! distribution of TFHE-rs; the modulus switch is the centred one of TFHE-rs, which subtracts the mean of the
//! secret.

use crate::params::*;

/// The variance of noise that is uniform in ± 2^`bits`, with half the weight at both ends, of 2^`modulus`.
fn uniform(bits: u32, modulus: u32) -> f64 {
    (f64::from(2 * bits + 1).exp2() + 1.0) / 6.0 * (-2.0 * f64::from(modulus)).exp2()
}

/// The variance of a digit of base 2^`base_log`, which is in ± 2^(`base_log` − 1).
fn digit(base_log: usize) -> f64 {
    ((2.0 * base_log as f64).exp2() + 2.0) / 12.0
}

/// The variance of what digits of `bits` bits in all leave of a number.
fn rest(bits: usize) -> f64 {
    (-2.0 * bits as f64).exp2() / 12.0
}

/// Variance of the key switch from a CKKS secret of `n` ternary coefficients.
pub fn switch(n: usize) -> f64 {
    let n = n as f64;
    n * digit(SWITCH_BASE_LOG) * uniform(GLWE_NOISE_BITS, 64) + 2.0 / 3.0 * n * rest(SWITCH_BASE_LOG)
}

/// Variance of a bootstrap, whatever its input: that of exact products, and at most that of their transforms.
pub fn bootstrap() -> f64 {
    products() + transforms()
}

/// Variance of a bootstrap with exact products.
pub fn products() -> f64 {
    let (n, degree) = (LWE_DIMENSION as f64, DEGREE as f64);
    let keys = 2.0 * degree * digit(BOOTSTRAP_BASE_LOG) * uniform(GLWE_NOISE_BITS, 64);
    let rounding = 0.5 * (1.0 + degree / 2.0) * rest(BOOTSTRAP_BASE_LOG);
    n * (keys + rounding)
}

/// Variance that transforms in double precision add to a bootstrap: an upper estimate.
///
/// Source: `fft_variance` of the noise model of Concrete, ℓ·(k + 1)·B²·2²²·2^−2.577·N²/q² a product.
pub fn transforms() -> f64 {
    let log = 2.0 * BOOTSTRAP_BASE_LOG as f64 + 22.0 - 2.577 - 2.0 * 64.0;
    2.0 * LWE_DIMENSION as f64 * (DEGREE as f64).powi(2) * log.exp2()
}

/// Variance of the key switch from the GLWE secret to the LWE secret.
pub fn reduction() -> f64 {
    let (degree, levels) = (DEGREE as f64, REDUCTION_LEVELS as f64);
    let keys = degree * levels * digit(REDUCTION_BASE_LOG) * uniform(LWE_NOISE_BITS, 32);
    keys + 0.5 * degree * rest(REDUCTION_BASE_LOG * REDUCTION_LEVELS)
}

/// Variance of the centred modulus switch to 2N: n roundings times a secret bit less ½, and that of the body.
pub fn modulus_switch() -> f64 {
    (LWE_DIMENSION as f64 / 4.0 + 1.0) / 12.0 * (-2.0 * LOG_STEPS as f64).exp2()
}

/// Standard deviation of what a bootstrap compares with 0, for an input of variance `input`.
pub fn compared(input: f64) -> f64 {
    (input + reduction() + modulus_switch()).sqrt()
}

/// −log₂ of the probability that a Gaussian of deviation 1 is beyond ± `x`, for x ≥ 2: the bound
/// 2·φ(x)/x.
pub fn failure_bits(x: f64) -> f64 {
    (x * x / 2.0 + (x * (std::f64::consts::PI / 2.0).sqrt()).ln()) / std::f64::consts::LN_2
}
