//! Step 2: square root and optimistic index.
//!
//! Levels in → out: l → l − 2 − log₂(degree + 1).
//!
//! One product of contexts (and trace statistics) with the model, summed over each D × D square, holds z, u and the trace.
//! u and the trace enter the index linearly, so they are picked out only at the level where they are added.
//!
//! Source: Algorithm 4, step 2, section 4.2. Departures: lifted contexts; a Chebyshev polynomial for the
//! square root (eq. 5 stays available in `circuits`); the constant β/t, which moves all indices alike, is left out.

use crate::{Scalars, Shape};
use circuits::{Chebyshev, Complex64, LinearTransform, SlotAlgebra};

/// What a score needs to know in the clear.
#[derive(Debug, Clone)]
pub struct ScoreInputs {
    /// The padded problem.
    pub shape: Shape,
    /// K, without padding.
    pub arms: usize,
    /// Degree of the square root.
    pub sqrt_degree: usize,
    /// The round's scalars.
    pub scalars: Scalars,
    /// What the trace cannot exceed.
    pub trace_bound: f64,
}

impl ScoreInputs {
    pub(crate) fn new(config: &crate::BanditConfig, scalars: Scalars, shape: Shape) -> Self {
        ScoreInputs {
            shape,
            arms: config.linear.k,
            sqrt_degree: config.sqrt_degree,
            scalars,
            trace_bound: config.trace_bound(config.unanswered),
        }
    }
}

/// Rotations that add up squares, at the context's level − 1.
pub fn rotations(shape: Shape) -> impl Iterator<Item = i64> {
    circuits::sum_rotations(1, shape.square())
}

/// The rotation that brings u to z, at the context's level − 4 or below.
pub fn estimate_rotation(shape: Shape) -> i64 {
    shape.square() as i64
}

/// The indices over their range, moved into ± ½: arm a's at slot (a, 0), −½ at padding arms; trace/(2·bound) at slot
/// (0, 2D²); 0 elsewhere.
///
/// # Errors
/// Of the algebra; out of levels below 2 + log₂(degree + 1).
pub fn optimistic_index<A: SlotAlgebra>(
    alg: &A,
    inputs: &ScoreInputs,
    contexts: &A::Vector,
    model: &A::Vector,
) -> Result<A::Vector, A::Error> {
    let ScoreInputs { shape, arms, scalars, .. } = inputs;
    let (square, block, range, slots) =
        (shape.square(), shape.block(), scalars.range, shape.decision_slots());
    let at_arms = |value: f64| {
        let mut mask = vec![Complex64::ZERO; slots];
        mask.iter_mut().step_by(block).take(*arms).for_each(|v| v.re = value);
        mask
    };
    let mut at_trace = vec![Complex64::ZERO; slots];
    at_trace[crate::compare::trace_slot(*shape)].re = 1.0 / (2.0 * inputs.trace_bound);

    // Valid at the first slot of each square; other slots hold parts of two squares until the masks.
    let sums = circuits::rotate_sum(alg, &alg.mul(contexts, model)?, 1, square)?;
    // 2(z + c₁)/c₂ − 1.
    let at_zero = 2.0 * scalars.c1 / scalars.c2 - 1.0;
    let z = alg.add_const(&alg.mul_plain(&sums, &at_arms(2.0 / scalars.c2))?, at_zero.into())?;
    let (factor, c2) = (scalars.beta / range, scalars.c2);
    let root = |x: f64| factor * (c2 * (x + 1.0) / 2.0).max(0.0).sqrt();
    let sqrt = Chebyshev::interpolate(root, inputs.sqrt_degree, -1.0, 1.0)?;
    // u/range and trace/(2·bound), one level above where the root comes out.
    let pick = [(estimate_rotation(*shape), at_arms(1.0 / range)), (0, at_trace)];
    let pick = LinearTransform::new(slots, slots, pick)?.with_baby_step(slots)?;
    let level = alg.level(&z) + 2 - sqrt.depth();
    let linear = alg.linear(&alg.drop_to(&sums, level)?, &pick)?;
    let index = sqrt.evaluate_plus(alg, &z, &[(1.0, &linear)])?;

    let middle = scalars.least_index / range + 0.5;
    // Slots without an arm hold the root of c₁ now.
    let rest = sqrt.eval(at_zero);
    let mut clear = vec![Complex64::new(-rest, 0.0); shape.decision_slots()];
    for a in 0..shape.arm_slots {
        clear[a * block].re = if a < *arms { -middle } else { -0.5 - rest };
    }
    alg.add_plain(&index, &clear)
}
