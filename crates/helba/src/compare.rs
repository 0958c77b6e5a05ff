//! Step 3 of a decision: the argmax of the scores, and the test of the trace condition in a spare slot of the
//! same comparison.
//!
//! A ciphertext at level l leaves this step at level l − c − log₂ Ka − 1: c levels for the comparison
//! polynomial, log₂ Ka for the product over the pairs of an arm (Ka arms after padding), and one for the
//! mask.
//!
//! Source: Algorithm 4, step 3. Departure: [`circuits::argmax::Argmax`] compares all pairs of arms at once.
//! The paper chains amax and acomp (Algorithms 8 and 9), whose depth grows with K.

use crate::{BanditConfig, Error, Shape};
use circuits::argmax::Argmax;
use circuits::{Complex64, SlotAlgebra};

/// The argmax circuit of a bandit. Each arm has one block of slots; the trace stands in slot D² of the first
/// block.
///
/// # Errors
/// [`Error::Circuit`] if `config` names a comparison polynomial that does not exist.
pub fn argmax(config: &BanditConfig, shape: Shape) -> Result<Argmax, Error> {
    Ok(Argmax::new(shape.arm_slots, shape.block(), trace_slot(shape), config.comparison()?)?)
}

/// The largest number of arms. With 128 arms a row of 128 pairs needs blocks with a square of 16 features, and
/// all blocks together 2¹⁶ slots; the largest ring has 2¹⁵.
pub const MOST_ARMS: usize = 64;

/// The largest number of arms for which a comparison of eight levels is precise enough. Its indicators are
/// within 0.0122 of 0 or 1, and the relative errors of a row multiply: with 32 arms a product of 1 comes out
/// between 0.67 and 1.49. The product for the trace must still be on the right side of `TRACE_DECISION`.
pub(crate) const ROUGH_ARMS: usize = 32;

/// A bound on the distance of an indicator from 0 or 1, for arguments at least the resolution away from 0.
fn indicator_error(arms: usize) -> f64 {
    if arms <= ROUGH_ARMS { 0.0125 } else { 0.003 }
}

/// An upper bound on every entry of a decrypted answer: the largest product over a row of pairs, plus 1/2 for
/// noise.
pub fn largest_entry(shape: Shape) -> f64 {
    (1.0 + indicator_error(shape.arm_slots)).powi(shape.arm_slots as i32) + 0.5
}

/// The slot that holds the trace: D², the first slot behind the square of features in block 0.
pub(crate) fn trace_slot(shape: Shape) -> usize {
    shape.square()
}

/// Compares all pairs of scores and multiplies each arm's results. Slot (a, 0) of the result is near 1 if arm
/// a has the largest score, and near 0 otherwise. The slot of the trace is near 1 if the trace has reached
/// `trace_threshold`. Other slots hold intermediate results. `index` is the result of
/// [`crate::score::optimistic_index`].
///
/// # Errors
/// Those of the algebra.
pub fn wins<A: SlotAlgebra>(
    alg: &A,
    argmax: &Argmax,
    index: &A::Vector,
    trace_threshold: f64,
) -> Result<A::Vector, A::Error> {
    let differences = argmax.pairwise_differences(alg, index, trace_threshold)?;
    argmax.row_product(alg, &argmax.indicator(alg, &differences)?)
}

/// Keeps the slot of the trace and multiplies it by the number of slots, so that the result of the trace
/// comparison is the constant coefficient of the encoded message. Uses one level.
///
/// # Errors
/// Those of the algebra.
pub fn trace<A: SlotAlgebra>(alg: &A, shape: Shape, wins: &A::Vector) -> Result<A::Vector, A::Error> {
    let mut mask = vec![Complex64::ZERO; shape.decision_slots()];
    mask[trace_slot(shape)].re = shape.decision_slots() as f64;
    alg.mul_plain(wins, &mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For the largest number of arms of each comparison, the entry of the trace stays on the right side of
    /// `TRACE_DECISION` with noise of 1/16 from the server and 1/16 from the device.
    #[test]
    fn errors_of_the_most_arms_leave_the_trace_where_it_is() {
        for arms in [ROUGH_ARMS, ROUGH_ARMS + 1, MOST_ARMS] {
            let shape = Shape::for_problem(16, arms);
            for comparison_bits in [6, 8, 10] {
                let comparison =
                    BanditConfig { comparison_bits, ..BanditConfig::new(2, arms) }.comparison().unwrap();
                let resolution = comparison.resolution().unwrap();
                assert!(
                    comparison.measured_error(resolution, 100_000) / 2.0 < indicator_error(shape.arm_slots)
                );
            }
            let (row, error) = (shape.arm_slots as i32, indicator_error(shape.arm_slots));
            let (decision, noise) = (crate::refresh::TRACE_DECISION, 0.125);
            assert!((1.0 - error).powi(row) - noise > decision);
            assert!(error * (1.0 + error).powi(row - 1) + noise < decision);
            let largest = largest_entry(shape);
            let near = if arms == ROUGH_ARMS { 1.988 } else { 1.711 };
            assert!((largest - near).abs() < 1e-3, "{largest}");
        }
    }
}
