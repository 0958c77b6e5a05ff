//! Step 3: argmax over the arms, and the trace condition in a spare slot of the same comparison.
//!
//! Levels in → out: l → l − comparison − log₂ Ka − 1.
//!
//! Source: Algorithm 4, step 3. Departure: all pairs at once ([`circuits::argmax::Argmax`]) instead of the chain amax and
//! acomp (Algorithms 8 and 9), whose depth grows with K.

use crate::Error;
use circuits::argmax::Argmax;
use circuits::{Comparison, Complex64, SlotAlgebra};
use protocol::{BanditConfig, Shape};

/// The comparison of a bandit: arms in their blocks, the trace at slot D² of the first.
///
/// # Errors
/// [`Error::Protocol`] for comparison bits other than 6, 8 or 10.
pub fn argmax(config: &BanditConfig, shape: Shape) -> Result<Argmax, Error> {
    let comparison = Comparison::composite(config.resolution(), config.comparison_degrees()?)?;
    Ok(Argmax::new(shape.arm_slots, shape.block(), shape.trace_slot(), comparison)?)
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
    mask[shape.trace_slot()].re = shape.decision_slots() as f64;
    alg.mul_plain(wins, &mask)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::MOST_ARMS;
    use protocol::exchange::{TRACE_DECISION, TRACE_FLOOD_BITS, indicator_error, largest_entry};

    /// The trace's entry stays on its side of the decision, under the noise of the server and as much from the
    /// device, for the largest number of arms.
    #[test]
    fn errors_of_the_most_arms_leave_the_trace_where_it_is() {
        for (arms, near) in [(32, 1.988), (33, 1.711), (MOST_ARMS, 1.711)] {
            let shape = Shape::for_problem(16, arms);
            for comparison_bits in [6, 8, 10] {
                let config = BanditConfig { comparison_bits, ..BanditConfig::new(2, arms) };
                let argmax = argmax(&config, shape).unwrap();
                let error = argmax.comparison().measured_error(config.resolution(), 100_000) / 2.0;
                assert!(error < indicator_error(shape.arm_slots));
            }
            let (row, error) = (shape.arm_slots as i32, indicator_error(shape.arm_slots));
            let noise = 2.0 * (-f64::from(TRACE_FLOOD_BITS)).exp2();
            assert!((1.0 - error).powi(row) - noise > TRACE_DECISION);
            assert!(error * (1.0 + error).powi(row - 1) + noise < TRACE_DECISION);
            let largest = largest_entry(shape);
            assert!((largest - near).abs() < 1e-3, "{largest}");
        }
    }
}
