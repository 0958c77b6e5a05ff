//! Step 3: argmax over the arms, and the trace condition in a spare slot of the same comparison.
//!
//! Levels in → out: l → l − comparison − log₂ Ka − 1.
//!
//! Source: Algorithm 4, step 3. Departure: all pairs at once ([`circuits::argmax::Argmax`]) instead of the chain amax and
//! acomp (Algorithms 8 and 9), whose depth grows with K.

use crate::{BanditConfig, Error, Shape};
use circuits::argmax::Argmax;
use circuits::{Complex64, SlotAlgebra};

/// The comparison of a bandit: arms in their blocks, the trace at slot 2D² of the first.
///
/// # Errors
/// [`Error::Circuit`] for a comparison that does not exist.
pub fn argmax(config: &BanditConfig, shape: Shape) -> Result<Argmax, Error> {
    Ok(Argmax::new(shape.arm_slots, shape.block(), trace_slot(shape), config.comparison()?)?)
}

/// Where the trace stands.
pub(crate) fn trace_slot(shape: Shape) -> usize {
    2 * shape.square()
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
