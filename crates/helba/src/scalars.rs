//! The public scalars of a round, with which the index of an arm is computed: u = ⟨ω, x⟩ and the bonus of z =
//! xᵀAx, which is β·√(z + c₁) or a multiple of z.
//!
//! Source: Algorithm 4, step 2, section 4.2. Departure: the constant β/t, which all indices share, is
//! omitted.

use bandit::Bonus;
use circuits::argmax::tie_bonus;
use protocol::{BanditConfig, PREDICTION_BOUND, UNCERTAINTY_BOUND};

/// The scalars of a round, which the server computes in the clear.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scalars {
    /// What z adds to the index.
    pub bonus: Bonus,
    /// The number added under the square root; 0 without one.
    pub c1: f64,
    /// The largest z + c₁.
    pub c2: f64,
    /// A lower bound on every index.
    pub least_index: f64,
    /// A bound on the difference of two indices
    /// ([`LinearConfig::index_range`](bandit::LinearConfig::index_range)), with room for the tie bonus.
    pub range: f64,
}

impl Scalars {
    /// The scalars of round `t` with a model of `t_j` feedbacks.
    pub fn new(config: &BanditConfig, t: u64, t_j: u64) -> Self {
        let (l, t_j) = (&config.linear, config.effective(t_j));
        let bonus = l.bonus(t, t_j, l.c1(t_j));
        let c1 = match bonus {
            Bonus::Root { c1, .. } => c1,
            Bonus::Linear { .. } => 0.0,
        };
        let c2 = c1 + UNCERTAINTY_BOUND * l.l * l.l / l.lambda;
        Scalars {
            bonus,
            c1,
            c2,
            least_index: -PREDICTION_BOUND,
            range: l.index_range(t, t_j) / (1.0 - tie_bonus(config.resolution())),
        }
    }

    /// The largest z.
    pub fn most(&self) -> f64 {
        self.c2 - self.c1
    }
}
