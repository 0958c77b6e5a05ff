//! Step 1 at the end of a batch: the inverse A ≈ V⁻¹ and the estimate ω = A·g.
//!
//! Levels in → out: l → l − 3 − 2·steps.
//!
//! Source: eq. 2. Departure: a warm start from the last inverse, which the trace condition keeps near
//! ([`circuits::matrix::Newton`]); the paper starts from I/c every time.

use crate::Shape;
use circuits::matrix::Newton;
use circuits::{Error, SlotAlgebra};

/// Newton's iteration for `shape`, from a₀·A_j, with V/s and s·X.
///
/// # Errors
/// [`Error::Range`] unless a₀ is in (0, 1].
pub fn newton(shape: Shape, start: f64, design_scale: f64) -> Result<Newton, Error> {
    Newton::new(shape.dim, start, design_scale)
}

/// The new model from statistics (level l; design and moment in one vector) and the old model (above l).
///
/// # Errors
/// Of the algebra; out of levels if l < 3 + 2·steps.
pub fn batch_update<A: SlotAlgebra>(
    alg: &A,
    newton: &Newton,
    steps: usize,
    statistics: &A::Vector,
    model: &A::Vector,
) -> Result<A::Vector, A::Error> {
    let model = alg.drop_to(model, alg.level(statistics) + 1)?;
    let state = newton.warm_start(alg, statistics, &model)?;
    let inverse = newton.iterate(alg, &state, steps)?;
    newton.model(alg, &inverse, statistics)
}
