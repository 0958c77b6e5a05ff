//! Step 1 at the end of a batch: the inverse A ≈ V⁻¹ and the estimate ω = A·g.
//!
//! Levels in → out: l → l − 3 − 2·steps.
//!
//! Coupled Newton from the last inverse: X₀ = a₀·A_j, M₀ = V·X₀, then X ← X(2I − M), M ← M(2I − M), in this order, because A_j and
//! V do not commute. The state is one vector [s·X | M]; a step is two slot transforms, one product and a sum.
//!
//! Source: eq. 2. Departure: warm start (the paper starts from I/c every time), which the trace condition makes safe.

use crate::{Shape, UpdateInputs};
use circuits::{Complex64, LinearTransform, SlotAlgebra};

/// Rotations used.
pub fn rotations(shape: Shape) -> Vec<i64> {
    let transforms = [left(shape, 2), right(shape), first_right(shape, 1.0), estimate(shape)];
    let mut out: Vec<i64> = sum_over_k(shape).collect();
    // The shapes are powers of two, which is all that building them asks.
    out.extend(transforms.iter().flatten().flat_map(LinearTransform::rotations));
    out
}

/// The new model from statistics (level l) and the old model (above l).
///
/// # Errors
/// Of the algebra; out of levels if l < 3 + 2·steps.
pub fn batch_update<A: SlotAlgebra>(
    alg: &A,
    shape: Shape,
    inputs: &UpdateInputs,
    statistics: &A::Vector,
    model: &A::Vector,
) -> Result<A::Vector, A::Error> {
    newton(alg, shape, inputs.start, inputs.steps, inputs.plan.design_scale, statistics, model)
}

pub(crate) fn newton<A: SlotAlgebra>(
    alg: &A,
    shape: Shape,
    start: f64,
    steps: usize,
    scale: f64,
    statistics: &A::Vector,
    model: &A::Vector,
) -> Result<A::Vector, A::Error> {
    let top = alg.level(statistics);
    let sum = |v: A::Vector| sum_over_k(shape).try_fold(v, |sum, k| alg.add(&sum, &alg.rotate(&sum, k)?));

    // Statistics hold V/s in the second squares, which the transform's zeros in the first ones pick out.
    let old = alg.drop_to(model, top + 1)?;
    let right_factor = alg.linear(&old, &first_right(shape, start * scale)?)?;
    let m = sum(alg.mul(statistics, &right_factor)?)?;
    let x = alg.mul_plain(&alg.drop_to(model, top)?, &squares(shape, start * scale, 0.0))?;
    let mut state = alg.add(&x, &m)?;
    for step in 1..=steps {
        let kept = if step < steps { 2 } else { 1 };
        let left_factor = alg.linear(&state, &left(shape, kept)?)?;
        let right_factor = alg.linear(&state, &right(shape)?)?;
        let right_factor = alg.add_plain(&right_factor, &twice_identity(shape))?;
        state = sum(alg.mul(&left_factor, &right_factor)?)?;
    }
    // s·X meets g/s in the first squares, and nothing in the second.
    let products = alg.mul(&state, statistics)?;
    let omega = alg.linear(&products, &estimate(shape)?)?;
    let inverse = alg.mul_plain(&state, &squares(shape, 1.0 / scale, 0.0))?;
    alg.add(&inverse, &omega)
}

/// Slot (k, h, i, j) ↔ its indices.
fn entries(shape: Shape) -> impl Iterator<Item = (usize, [usize; 4])> {
    let (dim, square) = (shape.dim, shape.square());
    (0..shape.update_slots()).map(move |s| (s, [s / (2 * square), s / square % 2, s / dim % dim, s % dim]))
}

fn sum_over_k(shape: Shape) -> impl Iterator<Item = i64> {
    (0..shape.dim.ilog2()).map(move |s| (2 * shape.square() as i64) << s)
}

fn squares(shape: Shape, first: f64, second: f64) -> Vec<Complex64> {
    let square = shape.square();
    (0..2 * square).map(|s| if s < square { first } else { second }.into()).collect()
}

fn twice_identity(shape: Shape) -> Vec<Complex64> {
    entries(shape).map(|(_, [k, _, _, j])| if j == k { 2.0 } else { 0.0 }.into()).collect()
}

/// The transform with out[slot] = factor·in[source] wherever `pick` gives (factor, source).
fn transform(
    shape: Shape,
    pick: impl Fn([usize; 4]) -> Option<(f64, usize)>,
) -> Result<LinearTransform, circuits::Error> {
    let n = shape.update_slots();
    let period = 2 * shape.square();
    let mut diagonals = std::collections::BTreeMap::new();
    for (slot, index) in entries(shape) {
        if let Some((factor, source)) = pick(index) {
            let offset = (source + period - slot % period) % period;
            diagonals.entry(offset as i64).or_insert_with(|| vec![Complex64::ZERO; n])[slot].re = factor;
        }
    }
    LinearTransform::new(n, period, diagonals)
}

/// (k, h, i, j) ← S[h, i, k], for the first `kept` squares.
fn left(shape: Shape, kept: usize) -> Result<LinearTransform, circuits::Error> {
    transform(shape, |[k, h, i, _]| (h < kept).then(|| (1.0, h * shape.square() + i * shape.dim + k)))
}

/// (k, h, i, j) ← −M[k, j].
fn right(shape: Shape) -> Result<LinearTransform, circuits::Error> {
    transform(shape, |[k, _, _, j]| Some((-1.0, shape.square() + k * shape.dim + j)))
}

/// (k, 1, i, j) ← factor·A[k, j].
fn first_right(shape: Shape, factor: f64) -> Result<LinearTransform, circuits::Error> {
    transform(shape, |[k, h, _, j]| (h == 1).then(|| (factor, k * shape.dim + j)))
}

/// (k, 1, 0, j) ← Σᵢ in[k, 0, i, j].
fn estimate(shape: Shape) -> Result<LinearTransform, circuits::Error> {
    let (n, period, dim) = (shape.update_slots(), 2 * shape.square(), shape.dim);
    let mut mask = vec![Complex64::ZERO; n];
    entries(shape).filter(|(_, [_, h, i, _])| *h == 1 && *i == 0).for_each(|(slot, _)| mask[slot].re = 1.0);
    LinearTransform::new(n, period, (0..dim).map(|i| ((i * dim + shape.square()) as i64, mask.clone())))
}
