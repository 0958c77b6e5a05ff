//! The public scalars of a round, with which the index u + β·√(z + c₁) of an arm is computed, for u = ⟨ω, x⟩
//! and z = xᵀAx.
//!
//! Source: Algorithm 4, step 2, section 4.2. Departure: the constant β/t, which all indices share, is
//! omitted.

use circuits::argmax::tie_bonus;
use protocol::BanditConfig;

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
