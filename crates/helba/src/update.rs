//! Step 1 at the end of a batch: the inverse A ≈ V⁻¹ and the estimate ω = A·g.
//!
//! Levels in → out: l → l − 3 − 2·steps.
//!
//! Source: eq. 2. Departure: a warm start from the last inverse, which the length of a batch or the trace
//! condition keeps near ([`circuits::matrix::Newton`]), and factors that keep the spectrum centred; the paper
//! starts from I/c every time.

use circuits::SlotAlgebra;
use circuits::matrix::Newton;

/// The new model from statistics (level l; design and moment in one vector) and the old model (above l).
///
/// # Errors
/// Of the algebra; out of levels if l < 3 + 2·steps.
pub fn batch_update<A: SlotAlgebra>(
    alg: &A,
    newton: &Newton,
    statistics: &A::Vector,
    model: &A::Vector,
) -> Result<A::Vector, A::Error> {
    let model = alg.drop_to(model, alg.level(statistics) + 1)?;
    let state = newton.warm_start(alg, statistics, &model)?;
    let inverse = newton.iterate(alg, &state)?;
    newton.model(alg, &inverse, statistics)
}
