//! Step 3: argmax over the arms, and the trace condition in a spare slot of the same comparison.
//!
//! Levels in → out: l → l − comparison − log₂ Ka, one more for each answer.
//!
//! All pairs are compared at once: slot (a, m) holds ρₐ − ρ_{a+m}, and the product over m is near 1 where arm a beats
//! every other.
//!
//! Source: Algorithm 4, step 3. Departure: all pairs instead of the chain amax and acomp (Algorithms 8 and 9), whose depth
//! grows with K.

use crate::Shape;
use circuits::{Comparison, Complex64, SlotAlgebra};

/// Rotations used, the first 2·log₂ Ka of them at the index's level, the rest below the comparison.
pub fn rotations(shape: Shape) -> Vec<i64> {
    let to_next_arm = shape.block() as i64 - 1;
    (0..shape.log_arms()).flat_map(|s| [-(1 << s), to_next_arm << s, 1 << s]).collect()
}

/// Near 1 at slot (a, 0) if arm a beats all others, and at slot (0, 2D²) if the trace reached its threshold; other
/// slots hold intermediate results.
///
/// `index` is [`crate::score::optimistic_index`]'s: differences within ± 1, zero where nothing is written.
///
/// # Errors
/// Of the algebra.
pub fn wins<A: SlotAlgebra>(
    alg: &A,
    shape: Shape,
    comparison: &Comparison,
    index: &A::Vector,
) -> Result<A::Vector, A::Error> {
    let spread = |step: i64| {
        (0..shape.log_arms()).try_fold(index.clone(), |sum, s| alg.add(&sum, &alg.rotate(&sum, step << s)?))
    };
    // ρₐ in the row of arm a, and ρ_{a+m} in its place m. Only slots (a, 0) were filled, so nothing collides.
    let difference = alg.sub(&spread(-1)?, &spread(shape.block() as i64 - 1)?)?;
    // An arm beats itself; so does the trace in the place where it was taken off itself.
    let mut itself = vec![Complex64::ZERO; shape.decision_slots()];
    (0..shape.arm_slots).for_each(|a| itself[a * shape.block()].re = 1.0);
    itself[2 * shape.square()].re = 1.0;
    let difference = alg.add_plain(&difference, &itself)?;
    let beats = comparison.indicator(alg, &difference)?;
    (0..shape.log_arms()).try_fold(beats, |product, s| alg.mul(&product, &alg.rotate(&product, 1 << s)?))
}

/// The action vector alone: other slots are multiplied by zero. One level.
///
/// # Errors
/// Of the algebra.
pub fn action<A: SlotAlgebra>(
    alg: &A,
    shape: Shape,
    arms: usize,
    wins: &A::Vector,
) -> Result<A::Vector, A::Error> {
    let mut mask = vec![Complex64::ZERO; shape.decision_slots()];
    (0..arms).for_each(|a| mask[a * shape.block()].re = 1.0);
    alg.mul_plain(wins, &mask)
}

/// The trace comparison alone, times the number of slots, so that it is the constant coefficient of the message.
/// One level.
///
/// # Errors
/// Of the algebra.
pub fn trace<A: SlotAlgebra>(alg: &A, shape: Shape, wins: &A::Vector) -> Result<A::Vector, A::Error> {
    let mut mask = vec![Complex64::ZERO; shape.decision_slots()];
    mask[2 * shape.square()].re = shape.decision_slots() as f64;
    alg.mul_plain(wins, &mask)
}
