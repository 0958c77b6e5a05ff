//! Noise and thresholds of the values that a device decrypts.
//!
//! A device decrypts three things: the answer, the trace question and the masked model. Both sides add noise
//! to the first two, and each side counts on the noise of the other, so all widths stand here. Widths are
//! uniform noise of ± 2⁻ᵇ times the scale in every coefficient; docs/threat-model.md has the argument.

use crate::Shape;
use crate::config::ROUGH_ARMS;
use ckks::Params;

/// b of the noise that the server adds to an answer.
///
/// An entry of the answer then has a standard deviation of 0.036 where all slots of N = 2¹⁵ are used and of
/// 0.051 at N = 2¹⁶, and in proportion to the root of the slots where fewer are used: 0.009 for the
/// quickstart. That tells arms apart. It is far above the error of the circuit in the mean, and about the
/// error in the worst slot of the largest problems (docs/precision.md). It blurs what near ties tell of the
/// model and hides nothing to a cryptographic degree.
pub const ANSWER_FLOOD_BITS: u32 = 11;

/// b of the noise of a trace question, whose one coefficient is near 0 or 1 and is compared with 0.45.
///
/// The server adds it, so that the device does not see the comparison itself. The device adds as much again,
/// so that its answer does not depend on the noise of the ciphertext, which the server may know.
pub const TRACE_FLOOD_BITS: u32 = 4;

/// A batch ends if the trace comparison is at least this.
///
/// # Source
/// Encrypted Linear Contextual Bandit, section 6: precision 0.45.
pub const TRACE_DECISION: f64 = 0.45;

/// The trace of a batch has reached C if the constant coefficient of a trace question, centred modulo q₀, is
/// at least this integer.
pub fn trace_threshold(params: &Params) -> u64 {
    (TRACE_DECISION * params.scale(0)) as u64
}

/// log₂ of the noise that a device adds to a trace question, in units of a coefficient.
pub fn device_flood_bits(params: &Params) -> u32 {
    params.spec().log_scale - TRACE_FLOOD_BITS
}

/// A bound on the distance of an indicator of the comparison from 0 or 1, for differences that are at least
/// the resolution.
pub fn indicator_error(arms: usize) -> f64 {
    if arms <= ROUGH_ARMS { 0.0125 } else { 0.003 }
}

/// An upper bound on every entry of a decrypted answer: the largest product over a row of pairs, plus ½ for
/// noise. A device that decrypts a larger entry takes the answer for unreliable.
pub fn largest_entry(shape: Shape) -> f64 {
    (1.0 + indicator_error(shape.arm_slots)).powi(shape.arm_slots as i32) + 0.5
}
