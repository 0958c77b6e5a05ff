//! Step 2 of a decision: the optimistic index u + β·√(z + c₁) of each arm, with u = ⟨ω, x⟩ and z = xᵀAx.
//!
//! Contexts at level l give a result at level l − 2 − log₂(degree + 1): one level for the product with the
//! model, one for the mask, and the rest for the polynomial of the square root.
//!
//! One product of contexts (and trace statistics) with the model, summed over each D × D square, contains z,
//! u and the trace. u and the trace enter the index linearly, so that they are masked at the level where they
//! are added. If the trace is the imaginary part of a z, conjugation separates them.
//!
//! Source: Algorithm 4, step 2, section 4.2. Departures: contexts contain xxᵀ beside x; the square root is a
//! Chebyshev polynomial (`testkit` has eq. 5); the constant β/t, which all indices share, is omitted.

use circuits::argmax::tie_bonus;
use circuits::{Chebyshev, Complex64, LinearTransform, SlotAlgebra};
use protocol::{BanditConfig, Shape};

/// The assumed bound on |⟨ω, x⟩| for rewards within ± 1. Ridge predictions exceed 1 a little. Contexts that
/// are chosen against the bound can exceed it, up to √t/2. The entries of the answer are then outside [0, 1],
/// which devices check.
const PREDICTION_BOUND: f64 = 1.5;

/// The scalars of a round, which the server computes in the clear.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scalars {
    /// The confidence width β.
    pub beta: f64,
    /// The number added under the square root.
    pub c1: f64,
    /// The largest argument of the square root.
    pub c2: f64,
    /// A lower bound on every index.
    pub least_index: f64,
    /// A bound on the difference of two indices, with room for the tie bonus. Departure from Prop. 10: the
    /// bound follows from rewards within ± 1, and holds for constant widths too.
    pub range: f64,
}

impl Scalars {
    /// The scalars of round `t` with a model of `t_j` feedbacks.
    pub fn new(config: &BanditConfig, t: u64, t_j: u64) -> Self {
        let l = &config.linear;
        let beta = l.beta(t, t_j);
        let c1 = l.c1(t_j);
        // A_j stays below V⁻¹ ≤ 1/λ, because Newton's iterates rise towards it. A sixteenth of the bound is
        // left for errors.
        let c2 = c1 + 1.0625 * l.l * l.l / l.lambda;
        Scalars {
            beta,
            c1,
            c2,
            least_index: -PREDICTION_BOUND,
            range: (2.0 * PREDICTION_BOUND + beta * c2.sqrt()) / (1.0 - tie_bonus(config.resolution())),
        }
    }
}

/// The public inputs of a score.
#[derive(Debug, Clone)]
pub struct ScoreInputs {
    /// The shape of the keys.
    pub shape: Shape,
    /// K, the number of arms without padding.
    pub arms: usize,
    /// The degree of the polynomial of the square root.
    pub sqrt_degree: usize,
    /// The scalars of the round.
    pub scalars: Scalars,
    /// An upper bound on the trace.
    pub trace_bound: f64,
}

impl ScoreInputs {
    /// The inputs of a round with these scalars.
    pub fn new(config: &BanditConfig, scalars: Scalars, shape: Shape) -> Self {
        ScoreInputs {
            shape,
            arms: config.linear.k,
            sqrt_degree: config.sqrt_degree,
            scalars,
            trace_bound: config.trace_bound(config.unanswered),
        }
    }
}

/// The indices divided by their range and shifted into ± ½. Slot (a, 0) holds that of arm a, and −½ if a is
/// padding. Slot (0, D²) holds trace/(2·bound). All other slots are 0.
///
/// # Errors
/// Those of the algebra; out of levels if the contexts have fewer than 2 + log₂(degree + 1).
pub fn optimistic_index<A: SlotAlgebra>(
    alg: &A,
    inputs: &ScoreInputs,
    contexts: &A::Vector,
    model: &A::Vector,
) -> Result<A::Vector, A::Error> {
    let ScoreInputs { shape, arms, scalars, .. } = inputs;
    let (square, block, range, slots) =
        (shape.square(), shape.block(), scalars.range, shape.decision_slots());
    let unit = shape.trace_unit();
    let at_arms = |value: f64| {
        let mut mask = vec![Complex64::ZERO; slots];
        mask.iter_mut().step_by(block).take(*arms).for_each(|v| v.re = value);
        mask
    };
    // The real part is taken if there is an imaginary one.
    let imaginary = unit.im != 0.0;
    let share = if imaginary { 0.5 } else { 1.0 };
    let real = |v: A::Vector| if imaginary { alg.add(&v, &alg.conjugate(&v)?) } else { Ok(v) };

    // The first slot of each square is valid. Other slots hold parts of two squares, which the masks remove.
    let sums = circuits::rotate_sum(alg, &alg.mul(contexts, model)?, 1, square)?;
    // 2(z + c₁)/c₂ − 1.
    let at_zero = 2.0 * scalars.c1 / scalars.c2 - 1.0;
    let z = real(alg.mul_plain(&sums, &at_arms(share * 2.0 / scalars.c2))?)?;
    let z = alg.add_const(&z, at_zero.into())?;
    let (factor, c2) = (scalars.beta / range, scalars.c2);
    let root = |x: f64| factor * (c2 * (x + 1.0) / 2.0).max(0.0).sqrt();
    let sqrt = Chebyshev::interpolate(root, inputs.sqrt_degree, -1.0, 1.0)?;
    // u/range and trace/(2·bound), one level above the result of the root.
    let mut pick = at_arms(share / range);
    pick[shape.trace_slot()] = unit.conj() * share / (2.0 * inputs.trace_bound);
    let pick = LinearTransform::new(slots, slots, [(square as i64, pick)])?;
    let depth = (inputs.sqrt_degree + 1).ilog2() as usize;
    let level = alg.level(&z) + 2 - depth;
    let linear = real(alg.linear(&alg.drop_to(&sums, level)?, &pick.with_baby_step(slots)?)?)?;
    let index = if scalars.beta > 0.0 {
        sqrt.evaluate_plus(alg, &z, &[(1.0, &linear)])?
    } else {
        // The polynomial is constant and takes no level.
        alg.drop_to(&linear, alg.level(&z) - depth)?
    };

    let middle = scalars.least_index / range + 0.5;
    // Slots without an arm hold the root of c₁.
    let rest = sqrt.eval(at_zero);
    let mut clear = vec![Complex64::new(-rest, 0.0); shape.decision_slots()];
    for a in 0..shape.arm_slots {
        clear[a * block].re = if a < *arms { -middle } else { -0.5 - rest };
    }
    alg.add_plain(&index, &clear)
}

#[cfg(test)]
mod tests {
    use super::*;
    use circuits::Clear;
    use protocol::{Layout, Plan};

    /// On exact vectors, for blocks of four squares and of two, with padding in features and arms: indices
    /// and trace equal the formulas up to the error of the square root's polynomial, and all other slots are
    /// 0.
    #[test]
    fn indices_and_trace_are_what_the_formulas_say() {
        for (d, k, alpha) in
            [(2, 2, 0.5), (2, 2, 0.0), (3, 5, 0.5), (16, 16, 0.5), (11, 32, 0.0), (16, 64, 0.5)]
        {
            let mut config = BanditConfig { sqrt_degree: 31, ..BanditConfig::new(d, k) };
            config.linear.width = bandit::Width::Constant { alpha };
            let shape = Shape::for_problem(d, k);
            let levels = 20;
            let plan = Plan {
                context_level: levels,
                trace_level: levels,
                model_level: levels,
                statistics_level: levels,
                refresh_level: 2,
                answer_level: 0,
                newton_steps: 1,
                slots: shape.decision_slots(),
                model_slots: shape.model_slots(),
                design_scale: 1.0,
            };
            let layout = Layout::new(&config, &plan);
            let wave = |seed: usize| {
                let x: Vec<f64> = (0..d).map(|i| ((7 * seed + 3 * i + 1) as f64).sin()).collect();
                let norm = x.iter().map(|v| v * v).sum::<f64>().sqrt();
                x.iter().map(|v| v / norm).collect::<Vec<f64>>()
            };
            let rows: Vec<Vec<f64>> = (0..k).map(wave).collect();
            let (played, omega, axis) = ([wave(100), wave(101)], wave(102), wave(103));
            // Positive definite, at most 1, with entries beside the diagonal.
            let a = |i: usize, j: usize| {
                let v = |i: usize| axis.get(i).copied().unwrap_or(0.0);
                (if i == j { 0.3 } else { 0.0 }) + 0.6 * v(i) * v(j)
            };
            let quadratic = |x: &[f64]| -> f64 {
                (0..d).map(|i| (0..d).map(|j| x[i] * a(i, j) * x[j]).sum::<f64>()).sum()
            };

            let alg = Clear::new(shape.decision_slots()).unwrap();
            let fresh = |slots: &[Complex64]| alg.fresh(slots, levels).unwrap();
            let contexts = fresh(&layout.contexts(&rows).unwrap());
            let traces = played.iter().map(|x| fresh(&layout.trace_features(x).unwrap()));
            let sum = traces.fold(contexts, |sum, t| alg.add(&sum, &t).unwrap());
            let model = fresh(&layout.model(a, |j| omega.get(j).copied().unwrap_or(0.0)));
            let inputs = ScoreInputs::new(&config, Scalars::new(&config, 5, 3), shape);
            let index = optimistic_index(&alg, &inputs, &sum, &model).unwrap();
            assert_eq!(alg.level(&index), levels - 2 - 5);

            let s = inputs.scalars;
            let mut want = vec![Complex64::ZERO; shape.decision_slots()];
            for (arm, slot) in (0..shape.arm_slots).zip(want.iter_mut().step_by(shape.block())) {
                slot.re = rows.get(arm).map_or(-0.5, |x| {
                    let u: f64 = x.iter().zip(&omega).map(|(a, b)| a * b).sum();
                    let width = s.beta * (quadratic(x) + s.c1).sqrt();
                    (u + width - s.least_index) / s.range - 0.5
                });
            }
            let trace: f64 = played.iter().map(|x| quadratic(x)).sum();
            want[shape.trace_slot()].re = trace / (2.0 * inputs.trace_bound);
            for (j, (got, want)) in index.values().iter().zip(&want).enumerate() {
                let (block, offset) = (j / shape.block(), j % shape.block());
                let tolerance = if offset == 0 { 1e-2 } else { 1e-9 };
                assert!(
                    (got.re - want.re).abs() < tolerance && got.im.abs() < 1e-9,
                    "{d}, {k}: slot {offset} of arm {block} holds {got}, not {want}"
                );
            }
        }
    }
}
