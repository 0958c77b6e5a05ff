//! Step 3: argmax over the arms, and the trace condition in a spare slot of the same comparison.
//!
//! Levels in → out: l → l − comparison − log₂ Ka − 1.
//!
//! Source: Algorithm 4, step 3. Departure: all pairs at once ([`circuits::argmax::Argmax`]) instead of the chain amax and
//! acomp (Algorithms 8 and 9), whose depth grows with K.

use crate::{BanditConfig, Error, Shape};
use circuits::argmax::Argmax;
use circuits::{Complex64, SlotAlgebra};

/// The comparison of a bandit: arms in their blocks, the trace at slot D² of the first.
///
/// # Errors
/// [`Error::Circuit`] for a comparison that does not exist.
pub fn argmax(config: &BanditConfig, shape: Shape) -> Result<Argmax, Error> {
    Ok(Argmax::new(shape.arm_slots, shape.block(), trace_slot(shape), config.comparison()?)?)
}

/// The most arms: 128 would need squares of 16 features for their rows, and 2¹⁶ slots.
pub const MOST_ARMS: usize = 64;

/// The most arms that a comparison of eight levels is sharp enough for, whose indicators miss by up to 0.0122: errors multiply along
/// a row of the product, whose entry for the trace must stay on its side of the decision about it. 32 make 0.67 to 1.49 of 1.
pub(crate) const ROUGH_ARMS: usize = 32;

/// What an indicator of a comparison that was resolved misses 0 or 1 by.
fn indicator_error(arms: usize) -> f64 {
    if arms <= ROUGH_ARMS { 0.0125 } else { 0.003 }
}

/// Entries of an answer are below: the largest product of a row, and a half for noise.
pub fn largest_entry(shape: Shape) -> f64 {
    (1.0 + indicator_error(shape.arm_slots)).powi(shape.arm_slots as i32) + 0.5
}

/// Where the trace stands.
pub(crate) fn trace_slot(shape: Shape) -> usize {
    shape.square()
}

/// Near 1 at slot (a, 0) if arm a beats all others, and at the trace's slot if it reached its threshold; other slots
/// hold intermediate results. `index` is [`crate::score::optimistic_index`]'s.
///
/// # Errors
/// Of the algebra.
pub fn wins<A: SlotAlgebra>(
    alg: &A,
    argmax: &Argmax,
    index: &A::Vector,
    trace_threshold: f64,
) -> Result<A::Vector, A::Error> {
    let differences = argmax.pairwise_differences(alg, index, trace_threshold)?;
    argmax.row_product(alg, &argmax.indicator(alg, &differences)?)
}

/// The trace comparison alone, times the number of slots, so that it is the constant coefficient of the message.
/// One level.
///
/// # Errors
/// Of the algebra.
pub fn trace<A: SlotAlgebra>(alg: &A, shape: Shape, wins: &A::Vector) -> Result<A::Vector, A::Error> {
    let mut mask = vec![Complex64::ZERO; shape.decision_slots()];
    mask[trace_slot(shape)].re = shape.decision_slots() as f64;
    alg.mul_plain(wins, &mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The trace's entry stays on its side of the decision, with a sixteenth of noise from the server and as
    /// much from the device, for the largest number of arms.
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
