//! Noise and thresholds of the values that a device decrypts.
//!
//! A device decrypts the answer, the trace question and the masked model. The server adds noise to the first
//! two, and the device to the second. Both sides rely on the noise of the other, so that this module states
//! all widths. A width of b bits is uniform noise of ± 2⁻ᵇ times the scale in every coefficient;
//! docs/threat-model.md has the argument.

use crate::Shape;
use crate::config::ROUGH_ARMS;
use ckks::Params;

/// The bits b of the noise of a trace question, whose coefficient is near 0 or 1 and is compared with 0.45.
///
/// The server adds this noise, so that the device does not see the exact comparison. The device adds the same
/// noise, so that its answer does not depend on the noise of the ciphertext, which the server may know.
pub const TRACE_FLOOD_BITS: u32 = 4;

/// The bits b of the noise that the server adds to the answer of a request alone, in the ring of answers. All
/// slots of it are used, so that an entry has a standard deviation of 0.009 at N' = 2¹³, and of 0.013 and
/// 0.018 at 2¹⁴ and 2¹⁵.
///
/// This noise lets arms be distinguished. It blurs what near ties reveal about the model, and hides nothing
/// in a cryptographic sense.
pub const ANSWER_FLOOD_BITS: u32 = 12;

/// The bits b of the noise that the server adds to each entry of the answers of several requests, which are
/// coefficients: a standard deviation of 0.009 in every ring, and at most 2⁻⁶.
///
/// It hides no neighbour, of whom an answer has nothing ([`crate::AnswerLayout`]). For the user's own entries
/// it is what [`ANSWER_FLOOD_BITS`] is at N' = 2¹³.
pub const ENTRY_FLOOD_BITS: u32 = 6;

/// The difference of two entries of an answer up to which a device takes their arms for equal, and plays the
/// one that the public order prefers: some two deviations of the difference of their noise at N' = 2¹⁴. The
/// entries of two arms differ by as much where their indices are a sixteenth of the resolution apart, and
/// above 32 arms an eighth.
pub const TIE_TOLERANCE: f64 = 0.04;

/// The bits b of the noise that the server adds to the scores of the open tier
/// ([`Answers::Scores`](crate::Answers::Scores)), in units of their range. It is 2⁸ times the noise of a
/// product or more, so that scores keep some 13 bits.
pub const SCORES_FLOOD_BITS: u32 = 14;

/// A batch ends if the trace comparison is at least this value.
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

/// An upper bound on the distance of an indicator of the comparison from 0 or 1, for differences of at least
/// the resolution.
pub fn indicator_error(arms: usize) -> f64 {
    if arms <= ROUGH_ARMS { 0.0125 } else { 0.003 }
}

/// An upper bound on every entry of a decrypted answer: the largest product over a row of pairs, plus ½ for
/// noise. A device reports an answer with a larger entry as unreliable.
pub fn largest_entry(shape: Shape) -> f64 {
    (1.0 + indicator_error(shape.arm_slots)).powi(shape.arm_slots as i32) + 0.5
}

/// A lower bound on the largest entry of a decrypted answer of stages, noise included: that of the winner is
/// 0.3 at least, whatever number of arms is equal and best (the tests of `circuits::maximum` and
/// `circuits::ranks`). All entries are smaller where differences have left the range of the comparison, or
/// where a holder of the key has moved them. In one raise equal arms multiply, and have no such bound.
pub const LEAST_WINNER: f64 = 0.25;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::REFRESH_LEVEL;
    use ckks::mask_bits;

    /// A bound on what a user learns from a masked model of `rounds` feedbacks, as a statistical distance: N
    /// coefficients, each moved by at most v under a uniform mask of 2ᵇ values, so at most N·v/2ᵇ.
    ///
    /// A coefficient is at most the scale times the largest slot: an entry of A, at most 1/λ (a sixteenth
    /// more for errors), or of ω, at most √(t/λ)/2 for rewards within ± 1.
    fn mask_distance(params: &Params, lambda: f64, rounds: u64) -> f64 {
        let slot = (1.0625 / lambda).max((rounds as f64 / lambda).sqrt() / 2.0);
        let masks = f64::from(ckks::mask_bits(params, REFRESH_LEVEL)).exp2();
        params.n() as f64 * params.scale(REFRESH_LEVEL) * slot / masks
    }

    /// The distance that the documents state: N·v/2ᵇ, for every set that is shipped, at λ = 1 and at the
    /// least λ that is allowed.
    #[test]
    fn attack_refresh_masks_are_as_wide_as_stated() {
        for spec in ckks::ParamsSpec::named().iter().filter(|spec| spec.security.bits() > 0) {
            let params = spec.validate().unwrap();
            let level = REFRESH_LEVEL;
            let bits = mask_bits(&params, level);
            // The largest value under the largest mask stays below a quarter of the modulus: nothing wraps.
            let largest = params.scale(level) * 1e13f64.sqrt();
            assert!(f64::from(bits - 1).exp2() + largest < params.log_q(level).exp2() / 4.0, "{}", spec.name);
            let distance = |lambda, rounds| mask_distance(&params, lambda, rounds).log2();
            let (usual, least, longest) =
                (distance(1.0, 1000), distance(1e-4, 1000), distance(1e-4, 1_000_000_000));
            assert!(
                usual <= -47.0 && least <= -38.0 && longest <= -31.0,
                "{usual:.1}, {least:.1}, {longest:.1}"
            );
            // By hand: N·2^scale/2ᵇ, times √1000/2 or 1.0625·10⁴.
            let one = f64::from(spec.log_n) + params.scale(level).log2() - f64::from(bits);
            assert!(
                (usual - one - 3.983).abs() < 0.001 && (least - one - 13.375).abs() < 0.001,
                "{}",
                spec.name
            );
        }
    }
}
