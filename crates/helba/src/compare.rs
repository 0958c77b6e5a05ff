//! Step 3 of a decision: the argmax of the scores, and the test of the trace condition in a spare slot of the
//! same comparison ([`circuits::argmax::Argmax::products`]).
//!
//! Scores at level l give a result at level l − c − log₂ Ka − 1: c levels for the comparison polynomial, log₂
//! Ka for the product over the pairs of an arm (Ka arms after padding), and one for the mask.
//!
//! Source: Algorithm 4, step 3. Departure: [`circuits::argmax::Argmax`] compares all pairs of arms at once.
//! The paper chains amax and acomp (Algorithms 8 and 9), whose depth grows with K.

use crate::Error;
use circuits::Comparison;
use circuits::argmax::Argmax;
use protocol::{BanditConfig, Shape};

/// The argmax circuit of a bandit. Each arm has one block of slots, and the trace is in slot D² of the first
/// block.
///
/// # Errors
/// [`Error::Protocol`] for comparison bits other than 6, 8 or 10.
pub fn argmax(config: &BanditConfig, shape: Shape) -> Result<Argmax, Error> {
    let comparison = Comparison::composite(config.resolution(), config.comparison_degrees()?)?;
    // C divided by twice the bound on the trace. Under a public schedule the test is not read, and any C
    // goes.
    let threshold = config.linear.c / (2.0 * config.trace_bound(config.unanswered));
    let argmax = Argmax::new(shape.arm_slots, shape.block(), comparison)?;
    Ok(argmax.with_test(shape.trace_slot(), threshold)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::MOST_ARMS;
    use protocol::exchange::{TRACE_DECISION, TRACE_FLOOD_BITS, indicator_error, largest_entry};
    use testkit::worst_error;

    /// For the largest number of arms of each comparison, the entry of the trace stays on the right side of
    /// [`TRACE_DECISION`] with noise of 1/16 from the server and 1/16 from the device.
    #[test]
    fn errors_of_the_most_arms_leave_the_trace_where_it_is() {
        for (arms, near) in [(32, 1.988), (33, 1.711), (MOST_ARMS, 1.711)] {
            let shape = Shape::for_problem(16, arms);
            for comparison_bits in [6, 8, 10] {
                let config = BanditConfig { comparison_bits, ..BanditConfig::new(2, arms) };
                let argmax = argmax(&config, shape).unwrap();
                let sign = argmax.comparison();
                let error = worst_error(|x| sign.eval(x), |_| 1.0, [config.resolution(), 1.0], 100_000) / 2.0;
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
