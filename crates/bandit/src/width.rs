//! Confidence widths. They are public scalars, which the encrypted server also computes in the clear.

use crate::LinearConfig;
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;

/// The confidence width `beta` of the index `<omega, x> + beta * ||x||_A`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Width {
    /// A constant, as is usual in practice.
    Constant {
        /// The width, at least 0.
        alpha: f64,
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

impl LinearConfig {
    /// The width in round `t` with statistics of `t_j` rounds, as [`Width`] says.
    ///
    /// Both count from 1; a `t_j` of 0 is read as 1.
    pub fn beta(&self, t: u64, t_j: u64) -> f64 {
        let (d, t, t_j) = (self.d as f64, t.max(1) as f64, t_j.max(1) as f64);
        let information = (self.l * self.l * t_j / (self.lambda * d)).ln_1p();
        match self.width {
            Width::Constant { alpha } => alpha,
            Width::Theory => {
                let confidence = (PI * PI * t * t / (6.0 * self.delta)).ln();
                t_j.sqrt().recip()
                    + self.s * self.lambda.sqrt()
                    + self.sigma * (d * (information + confidence)).sqrt()
            }
            Width::SelfNormalized => {
                self.s * self.lambda.sqrt() + self.sigma * (d * information - 2.0 * self.delta.ln()).sqrt()
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

    fn assert_close(got: f64, want: f64) {
        assert!((got / want - 1.0).abs() < 1e-14, "got {got:e}, want {want:e}");
    }
}
