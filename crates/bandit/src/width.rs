//! Confidence widths. They are public scalars, which the encrypted server also computes in the clear.

use crate::LinearConfig;
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;

/// The assumed bound on |⟨ω, x⟩| for rewards within ± 1. Ridge predictions exceed 1 a little. Contexts that
/// are chosen against the bound can exceed it, up to √t/2. The entries of the answer are then outside [0, 1],
/// which devices check.
pub const PREDICTION_BOUND: f64 = 1.5;

/// A bound on xᵀAx, in units of L²/λ: A stays below V⁻¹ ≤ 1/λ, because Newton's iterates rise towards it, and
/// a sixteenth is left for errors.
pub const UNCERTAINTY_BOUND: f64 = 1.0625;

/// The two shapes of a width without a proof, by one number alpha.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WidthShape {
    /// [`Width::Tangent`] with a floor of 1/64. On two arms it has the least regret of the widths that do not
    /// lock in. On 32 arms it locked in on another than the best one in 21 % of runs of 40,000 rounds, where
    /// a [`Root`](Self::Root) of width 2 did in 0.1 %, with 1.6 times the regret: take that one where there
    /// are 16 arms or more and the best one must be found (`helba-lab experiment helba-exploration`).
    #[default]
    Tangent,
    /// [`Width::Constant`].
    Root,
}

impl WidthShape {
    /// The width.
    pub fn width(self, alpha: f64) -> Width {
        match self {
            WidthShape::Tangent => Width::Tangent { alpha, floor: 1.0 / 64.0 },
            WidthShape::Root => Width::Constant { alpha },
        }
    }

    /// The alpha for rewards in a range of this length, with λ = L²: half of it for a tangent. A constant
    /// width needs all of it, so that the index of an arm that was never tried reaches every reward.
    pub fn alpha(self, range: f64) -> f64 {
        match self {
            WidthShape::Tangent => range / 2.0,
            WidthShape::Root => range,
        }
    }
}

/// The confidence width `beta` of the index `<omega, x> + beta * ||x||_A`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Width {
    /// A constant under the square root, as is usual in practice. Below the range of rewards, times √λ/L, it
    /// can lock in: an arm that was never tried, or was unlucky once, keeps an index below that of a worse
    /// arm (`helba-lab experiment helba-exploration`).
    Constant {
        /// The width, at least 0.
        alpha: f64,
    },
    /// The tangent of the square root at s²: the index is `<omega, x> + alpha x^T A x / (2 s)`, where
    /// `s = max(sqrt(d/(d + t_j)), floor)` is about the uncertainty of an arm that is tried as often as its
    /// share. The bonus of an arm that is not tried grows with the rounds until s is the floor, so that an
    /// arm that was unlucky is tried again, though with many arms not always soon ([`WidthShape::Tangent`]).
    ///
    /// Source: `sqrt(z) <= z/(2 s) + s/2` for every s, so that the index is an upper confidence index up to a
    /// constant that all arms share. The choice of s is this project's.
    Tangent {
        /// The width, at least 0: half of the range of rewards is a good one.
        alpha: f64,
        /// The least s, from 0 to 1. It bounds the range of indices, and with it what a comparison on
        /// ciphertexts resolves; with 1/8 and more the index locks in as a constant width does.
        floor: f64,
    },
    /// The width of HELBA, which accounts for the approximate inverse and is valid in all rounds at once:
    /// `t_j^(-1/2) + S*sqrt(lambda) + sigma*sqrt(d*(ln(1 + L^2 t_j/(lambda d)) + ln(pi^2 t^2/(6 delta))))`.
    ///
    /// Source: Proposition 9. Departure: eq. 3 omits the `d` of `lambda d`, which the proof of the
    /// proposition has.
    Theory,
    /// The width of OFUL for an exact inverse: `S*sqrt(lambda) + sigma*sqrt(d*ln(1 + L^2 t_j/(lambda d)) + 2
    /// ln(1/delta))`.
    ///
    /// Source: Abbasi-Yadkori, Pal, Szepesvari 2011, Theorem 2, with the trace bound on the determinant.
    SelfNormalized,
}

/// What the index of an arm adds to the estimate `<omega, x>`, as a function of `z = x^T A x`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bonus {
    /// `beta sqrt(z + c1)`.
    Root {
        /// The confidence width.
        beta: f64,
        /// The number added under the root.
        c1: f64,
    },
    /// `slope z`, the tangent of a root.
    Linear {
        /// The slope.
        slope: f64,
    },
}

impl Bonus {
    /// The slope of the bonus at a positive `z`.
    pub fn steepness(self, z: f64) -> f64 {
        match self {
            Bonus::Root { beta, c1 } => beta / (2.0 * (z + c1).sqrt()),
            Bonus::Linear { slope } => slope,
        }
    }

    /// The bonus at `z`, where a negative `z` is read as 0.
    pub fn of(self, z: f64) -> f64 {
        let z = z.max(0.0);
        match self {
            Bonus::Root { beta, c1 } => beta * (z + c1).sqrt(),
            Bonus::Linear { slope } => slope * z,
        }
    }
}

impl LinearConfig {
    /// The bonus in round `t` with statistics of `t_j` rounds. `c1` is added under a root, and is 0 for an
    /// exact inverse.
    pub fn bonus(&self, t: u64, t_j: u64, c1: f64) -> Bonus {
        match self.width {
            Width::Tangent { alpha, floor } => {
                let d = self.d as f64;
                let s = (d / (d + t_j as f64)).sqrt().max(floor);
                Bonus::Linear { slope: alpha / (2.0 * s) }
            }
            _ => Bonus::Root { beta: self.beta(t, t_j), c1 },
        }
    }

    /// The largest bonus that an arm of norm L that was never tried gets in the first `rounds` rounds, in
    /// units of the reward.
    pub fn untried_bonus(&self, rounds: u64) -> f64 {
        self.bonus(rounds, rounds, 0.0).of(self.l * self.l / self.lambda)
    }

    /// A bound on the difference of two indices in round `t` with a model of `t_j` feedbacks, for rewards
    /// within ± 1 and estimates within ± [`PREDICTION_BOUND`]. Departure from Prop. 10: it holds for widths
    /// without a proof too.
    pub fn index_range(&self, t: u64, t_j: u64) -> f64 {
        let most = UNCERTAINTY_BOUND * self.l * self.l / self.lambda;
        2.0 * PREDICTION_BOUND + self.bonus(t, t_j, self.c1(t_j)).of(most)
    }

    /// A warning if the policy can give up an arm for good in the first `rounds` rounds, with rewards in a
    /// range of this length: if the bonus of an arm that was never tried does not reach that length.
    pub fn lock_in_warning(&self, rounds: u64, range: f64) -> Option<String> {
        let most = self.untried_bonus(rounds);
        let advice = match self.width {
            Width::Constant { .. } => {
                let root = range * self.lambda.sqrt() / self.l;
                format!("take the width tangent, or an alpha of {root:.3} or more")
            }
            _ => {
                let tangent = WidthShape::Tangent.alpha(range) * self.lambda / (self.l * self.l);
                format!("take an alpha of {tangent:.3} or more, or more rounds")
            }
        };
        (most < range).then(|| {
            format!(
                "the bandit can lock in on one arm: within {rounds} rounds exploration adds at most {most:.3} to an arm that was \
                 never tried, and rewards differ by up to {range:.3}; {advice}"
            )
        })
    }

    /// The width in round `t` with statistics of `t_j` rounds, as [`Width`] says.
    ///
    /// Both count from 1; a `t_j` of 0 is read as 1.
    pub fn beta(&self, t: u64, t_j: u64) -> f64 {
        let (d, t, t_j) = (self.d as f64, t.max(1) as f64, t_j.max(1) as f64);
        // Not the logarithms of the machine, whose last bit differs from one to another: members of a
        // committee on shares must have equal numbers.
        let information = libm::log1p(self.l * self.l * t_j / (self.lambda * d));
        match self.width {
            Width::Constant { alpha } | Width::Tangent { alpha, .. } => alpha,
            Width::Theory => {
                let confidence = libm::log(PI * PI * t * t / (6.0 * self.delta));
                t_j.sqrt().recip()
                    + self.s * self.lambda.sqrt()
                    + self.sigma * (d * (information + confidence)).sqrt()
            }
            Width::SelfNormalized => {
                self.s * self.lambda.sqrt()
                    + self.sigma * (d * information - 2.0 * libm::log(self.delta)).sqrt()
            }
        }
    }

    /// `c1 = L / (t_j^(3/2) sqrt(lambda + L^2 t_j))`: the term added under the square root, and its least
    /// argument.
    ///
    /// Source: section 4.2, Algorithm 4 (there `epsilon_j`).
    pub fn c1(&self, t_j: u64) -> f64 {
        let t_j = t_j.max(1) as f64;
        self.l / (t_j * t_j.sqrt() * (self.lambda + self.l * self.l * t_j).sqrt())
    }

    /// `c2 = c1 + L^2 (1/lambda + 1/sqrt(lambda))`: the largest argument of the square root.
    ///
    /// Source: section 4.2.
    pub fn c2(&self, t_j: u64) -> f64 {
        self.c1(t_j) + self.l * self.l * (self.lambda.recip() + self.lambda.sqrt().recip())
    }

    /// The upper bound `1 + 2 beta (2/t + L sqrt(1/lambda + 1/sqrt(lambda)) + sqrt(c1))` of the optimistic
    /// indices, whose lower bound is -1.
    ///
    /// Source: Proposition 10. Departure: Algorithm 4 prints `L^2` without the root, which is not what the
    /// proposition proves.
    pub fn rho_max(&self, t: u64, t_j: u64) -> f64 {
        let norm = self.l * (self.lambda.recip() + self.lambda.sqrt().recip()).sqrt();
        1.0 + 2.0 * self.beta(t, t_j) * (2.0 / t.max(1) as f64 + norm + self.c1(t_j).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values computed with Python's `math` from the formulas of the paper.
    #[test]
    fn known_answers() {
        let c = LinearConfig::figure_1();
        assert_close(LinearConfig { width: Width::Theory, ..c }.beta(100, 64), 4.379955873151415);
        assert_close(LinearConfig { width: Width::SelfNormalized, ..c }.beta(100, 64), 3.3959794237303935);
        assert_close(c.c1(64), 0.00024407759656858955);
        assert_close(c.c2(64), 60.50024407759657);
        assert_close(LinearConfig { width: Width::Theory, ..c }.rho_max(100, 64), 69.44817716934034);
        assert_eq!(LinearConfig { width: Width::Constant { alpha: 0.5 }, ..c }.beta(100, 64), 0.5);
        assert_eq!(c.beta(1, 0), c.beta(1, 1));
    }

    /// By hand: d = 2 and 6 rounds make s = 1/2, and 2046 rounds 1/32.
    #[test]
    fn tangents_by_hand() {
        let with =
            |floor| LinearConfig { width: Width::Tangent { alpha: 0.5, floor }, ..LinearConfig::figure_1() };
        for (t_j, floor, slope) in [(6, 0.0, 0.5), (2046, 0.0, 8.0), (2046, 0.125, 2.0), (0, 0.0, 0.25)] {
            assert_eq!(with(floor).bonus(t_j + 1, t_j, 0.1), Bonus::Linear { slope });
        }
        assert_eq!(Bonus::Linear { slope: 8.0 }.of(0.25), 2.0);
        assert_eq!(Bonus::Root { beta: 0.5, c1: 0.25 }.of(2.0), 0.75);
        assert_eq!(Bonus::Root { beta: 0.5, c1: 0.25 }.of(-2.0), 0.25);
    }

    /// A constant width of ½ gives up arms of rewards in [0, 1], one of 1 does not; a tangent does not once
    /// its s is ¼ of the range.
    #[test]
    fn what_locks_in() {
        let c = LinearConfig { l: 1.0, ..LinearConfig::figure_1() };
        let constant = |alpha| LinearConfig { width: Width::Constant { alpha }, ..c };
        let locks_in = |c: LinearConfig, rounds, range| c.lock_in_warning(rounds, range).is_some();
        assert!(locks_in(constant(0.5), 1000, 1.0) && !locks_in(constant(1.0), 1000, 1.0));
        assert!(locks_in(constant(1.0), 1000, 2.0));
        assert!(constant(0.5).lock_in_warning(10, 1.0).unwrap().ends_with("or an alpha of 1.000 or more"));
        let tangent = LinearConfig { width: WidthShape::Tangent.width(0.5), ..c };
        assert!(locks_in(tangent, 29, 1.0) && !locks_in(tangent, 30, 1.0));
    }

    fn assert_close(got: f64, want: f64) {
        assert!((got / want - 1.0).abs() < 1e-14, "got {got:e}, want {want:e}");
    }
}
