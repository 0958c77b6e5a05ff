//! Step 2: square root and optimistic index.
//!
//! Levels in → out: l → l − 2 − log₂(degree + 1).
//!
//! One product of contexts (and trace statistics) with the model, summed over each D × D square, holds z, u and the trace;
//! z + iu shares a vector until the mask, which also normalises both.
//!
//! Source: Algorithm 4, step 2, section 4.2. Departures: lifted contexts; a Chebyshev polynomial for the
//! square root (eq. 5 stays available in `circuits`); the constant β/t, which moves all indices alike, is left out.

use crate::{Scalars, Shape};
use circuits::{Chebyshev, Complex64, SlotAlgebra};

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

/// Rotations used, at the context's level − 1.
pub fn rotations(shape: Shape) -> Vec<i64> {
    circuits::sum_rotations(1, shape.square()).chain([shape.square() as i64]).collect()
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
    let (square, block, range) = (shape.square(), shape.block(), scalars.range);
    let trace_slot = crate::compare::trace_slot(*shape);

    // Sums over each square, valid at its first slot; other slots hold parts of two squares until the mask.
    let sums = circuits::rotate_sum(alg, &alg.mul(contexts, model)?, 1, square)?;
    // z + iu. The trace has no second half: contexts are 0 there.
    let both = alg.add(&sums, &alg.mul_i(&alg.rotate(&sums, square as i64)?)?)?;
    let mut mask = vec![Complex64::ZERO; shape.decision_slots()];
    for a in 0..*arms {
        mask[a * block].re = 1.0 / scalars.c2;
    }
    // The trace goes with u, which stays linear.
    mask[trace_slot].im = range / (scalars.c2 * 2.0 * inputs.trace_bound);
    let both = alg.mul_plain(&both, &mask)?;
    let conjugate = alg.conjugate(&both)?;
    // 2z/c₂ and 2u/c₂.
    let z = alg.add(&both, &conjugate)?;
    let u = alg.mul_i(&alg.sub(&conjugate, &both)?)?;

    let at_zero = 2.0 * scalars.c1 / scalars.c2 - 1.0;
    let z = alg.add_const(&z, at_zero.into())?;
    let (factor, c2) = (scalars.beta / range, scalars.c2);
    let root = |x: f64| factor * (c2 * (x + 1.0) / 2.0).max(0.0).sqrt();
    let sqrt = Chebyshev::interpolate(root, inputs.sqrt_degree, -1.0, 1.0)?;
    let index = sqrt.evaluate_plus(alg, &z, &[(c2 / (2.0 * range), &u)])?;

    let middle = scalars.least_index / range + 0.5;
    // Slots without an arm hold the root of c₁ now.
    let rest = sqrt.eval(at_zero);
    let mut clear = vec![Complex64::new(-rest, 0.0); shape.decision_slots()];
    for a in 0..shape.arm_slots {
        clear[a * block].re = if a < *arms { -middle } else { -0.5 - rest };
    }
    alg.add_plain(&index, &clear)
}
