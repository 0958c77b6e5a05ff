//! Comparison: polynomials close to the sign of their argument.
//!
//! | symbol | here |
//! |---|---|
//! | f_n | one stage of [`Comparison::paper`] |
//! | r | `resolution`: arguments in (-r, r) may be told either way, but stay in [-1 - e, 1 + e] |
//! | e | `error` |

use std::f64::consts::PI;

use crate::error::in_range;
use crate::polynomial::Chebyshev;
use crate::remez::minimax;
use crate::{Error, SlotAlgebra};

/// Slack between stages: noise up to this size cannot leave the next stage's domain.
const MARGIN: f64 = 1.0 / 4096.0;

/// An approximation of sign(x) on [-1, 1] as a composition of odd polynomials.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    stages: Vec<Chebyshev>,
    resolution: Option<f64>,
    error: f64,
}

impl Comparison {
    /// The built-in minimax composite that tells 2^-bits from 0.
    ///
    /// | bits | degrees | depth | error |
    /// |---|---|---|---|
    /// | 4 | 7, 15 | 7 | 2^-9.2 |
    /// | 6 | 15, 31 | 9 | 2^-10.2 |
    /// | 8 | 7, 15, 15 | 11 | 2^-7.5 |
    /// | 10 | 15, 15, 31 | 13 | 2^-8.3 |
    /// | 12 | 15, 31, 31 | 14 | 2^-4.7 |
    ///
    /// # Errors
    /// [`Error::Range`] for other bits.
    pub fn minimax(bits: u32) -> Result<Self, Error> {
        let degrees: &[usize] = match bits {
            4 => &[7, 15],
            6 => &[15, 31],
            8 => &[7, 15, 15],
            10 => &[15, 15, 31],
            12 => &[15, 31, 31],
            _ => {
                return Err(Error::Range {
                    what: "even resolution bits",
                    value: bits.into(),
                    low: 4.0,
                    high: 12.0,
                });
            }
        };
        Self::composite(2f64.powi(-(bits as i32)), degrees)
    }

    /// The minimax composite of these odd degrees for `resolution` r: |s(x) - sign(x)| <= error for |x| in [r, 1].
    ///
    /// Every stage is the best odd approximation of sign on what the stage before leaves of [r, 1]. It has all its
    /// turning points there, so it is monotone on [-r, r]: no argument in [-1, 1] leaves a stage's domain.
    ///
    /// # Errors
    /// [`Error::Range`] for a resolution outside [2^-16, 1/2], [`Error::Degree`] for an even degree or one above 63,
    /// [`Error::Empty`] without degrees, [`Error::NoConvergence`] where f64 does not suffice.
    ///
    /// # Source
    /// Lee, Lee, No, Kim 2021 (minimax composites for homomorphic comparison). Departure: a margin of 2^-12 between
    /// stages, for noise.
    pub fn composite(resolution: f64, degrees: &[usize]) -> Result<Self, Error> {
        in_range("resolution", resolution, 2f64.powi(-16), 0.5)?;
        let (mut low, mut error) = (resolution, 1.0);
        let mut stages = Vec::with_capacity(degrees.len());
        for (k, &degree) in degrees.iter().enumerate() {
            if degree % 2 == 0 || degree > 63 {
                return Err(Error::Degree { op: "odd stage", got: degree, max: 63 });
            }
            let basis: Vec<usize> = (1..=degree).step_by(2).collect();
            let fit = minimax(&basis, |_| 1.0, low, 1.0)?;
            error = fit.error;
            let stage = Chebyshev::new(fit.coefficients, -1.0, 1.0)?;
            if k + 1 == degrees.len() {
                stages.push(stage);
            } else {
                let factor = 1.0 / ((1.0 + error) * (1.0 + MARGIN));
                stages.push(stage.scaled(factor, 0.0)?);
                low = (1.0 - error) * factor;
            }
        }
        if stages.is_empty() {
            return Err(Error::Empty { op: "comparison" });
        }
        Ok(Self { stages, resolution: Some(resolution), error })
    }

    /// The paper's comparison: `compositions` times `f_n(x) = sum_{i<=n} 4^-i binom(2i, i) x (1 - x^2)^i`.
    ///
    /// # Errors
    /// [`Error::Range`] unless n is in 1..=7 and `compositions` in 1..=64.
    ///
    /// # Source
    /// Encrypted Linear Contextual Bandit, NewComp and NewMax; Cheon, Kim, Kim 2020. Departure: none.
    pub fn paper(n: usize, compositions: usize) -> Result<Self, Error> {
        in_range("n of f_n", n as f64, 1.0, 7.0)?;
        in_range("compositions", compositions as f64, 1.0, 64.0)?;
        let f = |x: f64| {
            let (mut binomial, mut sum) = (1.0, 0.0);
            for i in 0..=n {
                sum += binomial * x * (1.0 - x * x).powi(i as i32);
                // 4^-(i+1) binom(2i+2, i+1) = 4^-i binom(2i, i) (2i+1)/(2i+2).
                binomial *= (2 * i + 1) as f64 / (2 * i + 2) as f64;
            }
            sum
        };
        let stage = Chebyshev::interpolate(f, 2 * n + 1, -1.0, 1.0)?;
        Ok(Self { stages: vec![stage; compositions], resolution: None, error: 1.0 })
    }

    /// Levels of [`Comparison::evaluate`] and [`Comparison::indicator`].
    pub fn depth(&self) -> usize {
        self.stages.iter().map(Chebyshev::depth).sum()
    }

    /// Products of two vectors, each way.
    pub fn products(&self) -> usize {
        self.stages.iter().map(Chebyshev::products).sum()
    }

    /// The stages, first to last.
    pub fn stages(&self) -> &[Chebyshev] {
        &self.stages
    }

    /// The smallest |x| that a minimax composite was made to tell from 0; `None` for the paper's, which has no such
    /// point.
    pub fn resolution(&self) -> Option<f64> {
        self.resolution
    }

    /// Worst |s(x) - sign(x)| for |x| in [gap, 1].
    pub fn error(&self, gap: f64) -> f64 {
        // Below the resolution (and everywhere, for f_n) s is monotone, so the worst point is the gap itself.
        match self.resolution {
            Some(r) if gap >= r => self.error,
            Some(_) => self.error.max(1.0 - self.eval(gap)),
            None => 1.0 - self.eval(gap),
        }
    }

    /// s(x) in f64, x in [-1, 1].
    pub fn eval(&self, x: f64) -> f64 {
        self.stages.iter().fold(x, |x, stage| stage.eval(x))
    }

    /// About sign(x), for x in [-1, 1] in every slot.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] before anything is computed; otherwise the algebra's.
    pub fn evaluate<A: SlotAlgebra>(&self, alg: &A, x: &A::Vector) -> Result<A::Vector, A::Error> {
        self.affine(alg, x, 1.0, 0.0)
    }

    /// About 1 where x > 0 and 0 where x < 0 (`(1 + s)/2`), at the depth and cost of [`Comparison::evaluate`].
    ///
    /// # Errors
    /// As [`Comparison::evaluate`].
    pub fn indicator<A: SlotAlgebra>(&self, alg: &A, x: &A::Vector) -> Result<A::Vector, A::Error> {
        self.affine(alg, x, 0.5, 0.5)
    }

    /// `factor s(x) + offset`, folded into the last stage.
    pub(crate) fn affine<A: SlotAlgebra>(
        &self,
        alg: &A,
        x: &A::Vector,
        factor: f64,
        offset: f64,
    ) -> Result<A::Vector, A::Error> {
        crate::error::has_levels("comparison", alg.level(x), self.depth())?;
        let (last, first) = self.stages.split_last().ok_or(Error::Empty { op: "comparison" })?;
        let x = first.iter().try_fold(x.clone(), |x, stage| stage.evaluate(alg, &x))?;
        last.scaled(factor, offset)?.evaluate(alg, &x)
    }

    /// Worst |s(x) - sign(x)| for |x| in [gap, 1], measured on `points + 1` points (denser at the ends).
    pub fn measured_error(&self, gap: f64, points: usize) -> f64 {
        (0..=points)
            .map(|k| {
                let x = 0.5 * (gap + 1.0) - 0.5 * (1.0 - gap) * (PI * k as f64 / points.max(1) as f64).cos();
                (self.eval(x) - 1.0).abs()
            })
            .fold(0.0, f64::max)
    }
}

/// Compositions of f_1 for NewMax at precision `eps` in (0, 1/4): `1 + floor(3.2 + ln(1/eps)/ln(3/2) +
/// ln(ln(1/eps)/ln 2 - 2)/ln 2)`.
///
/// # Errors
/// [`Error::Range`] for another precision.
///
/// # Source
/// Encrypted Linear Contextual Bandit: dep_max with `c_1 = 3/2`.
pub fn paper_compositions_maximum(eps: f64) -> Result<usize, Error> {
    let bits = precision_bits(eps)?;
    let depth = 3.2 + bits * 2f64.ln() / 1.5f64.ln() + (bits - 2.0).log2();
    // At eps just below 1/4 the last logarithm is a large negative number; one composition is the least.
    Ok(1 + depth.max(0.0).floor() as usize)
}

/// Compositions of f_1 for NewComp at precision `eps` in (0, 1/4): `ceil(ln(alpha ln(1/eps)/ln 2 - 2)/ln(3/2))` with
/// `alpha = 3/2 + 5.2 ln(3/2)/ln 4 + ln(3/2)/(2 ln 2)`.
///
/// # Errors
/// [`Error::Range`] for another precision.
///
/// # Source
/// Encrypted Linear Contextual Bandit: dep_comp with `c_1 = 3/2`.
pub fn paper_compositions_comparison(eps: f64) -> Result<usize, Error> {
    let bits = precision_bits(eps)?;
    let c = 1.5f64.ln();
    let alpha = 1.5 + 5.2 * c / 4f64.ln() + c / (2.0 * 2f64.ln());
    Ok(((alpha * bits - 2.0).ln() / c).ceil().max(1.0) as usize)
}

fn precision_bits(eps: f64) -> Result<f64, Error> {
    in_range("precision", eps, f64::MIN_POSITIVE, 0.25f64.next_down())?;
    Ok(-eps.log2())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clear;

    /// Depths and errors of the composites agree with independent linear programs (errors to 0.1 bit).
    #[test]
    fn composites_have_the_known_errors() {
        for (alpha, degrees, depth, bits) in [
            (8, &[7, 15, 15][..], 11, 7.5),
            (6, &[15, 31], 9, 10.2),
            (6, &[15, 15], 8, 5.4),
            (8, &[31, 31], 10, 5.8),
            (8, &[7, 15, 31], 12, 14.3),
            (10, &[15, 15, 31], 13, 8.3),
        ] {
            let c = Comparison::composite(2f64.powi(-alpha), degrees).unwrap();
            let gap = 2f64.powi(-alpha);
            let error = c.measured_error(gap, 100_000);
            assert_eq!(c.depth(), depth);
            assert!((-error.log2() - bits).abs() < 0.1, "{degrees:?}: 2^{:.2}", error.log2());
            assert!(error <= c.error(gap) * (1.0 + 1e-6));
        }
    }

    /// Also for arguments below the resolution, and with noise at the ends, every stage stays in its domain.
    #[test]
    fn no_argument_leaves_a_domain() {
        for bits in [4, 6, 8, 10, 12] {
            let c = Comparison::minimax(bits).unwrap();
            for k in -40_000..=40_000 {
                let mut x = f64::from(k) / 40_000.0;
                x = x.signum() * x.abs().powi(3);
                for stage in &c.stages[..c.stages.len() - 1] {
                    x = stage.eval(x);
                    assert!(x.abs() <= 1.0 - 0.9 * MARGIN, "bits {bits}: {x}");
                }
                assert!(c.stages[c.stages.len() - 1].eval(x).abs() <= 1.0 + c.error * (1.0 + 1e-6));
            }
        }
    }

    /// The figures in the table of [`Comparison::minimax`].
    #[test]
    fn built_in_table_is_true() {
        for (bits, depth, log_error) in
            [(4, 7, -9.15), (6, 9, -10.2), (8, 11, -7.5), (10, 13, -8.3), (12, 14, -4.7)]
        {
            let c = Comparison::minimax(bits).unwrap();
            assert_eq!(c.depth(), depth);
            let error = c.error(2f64.powi(-(bits as i32))).log2();
            assert!((error - log_error).abs() < 0.06, "bits {bits}: 2^{error:.2}");
        }
        assert!(Comparison::minimax(5).is_err());
    }

    #[test]
    fn products_of_the_default() {
        let c = Comparison::minimax(8).unwrap();
        assert!(c.products() <= 18, "{}", c.products());
    }

    /// f_1 is (3x - x^3)/2, and compositions converge to the sign.
    #[test]
    fn paper_stage_and_convergence() {
        let one = Comparison::paper(1, 1).unwrap();
        assert_eq!((one.depth(), one.products()), (2, 2));
        for x in [-1.0, -0.4, 0.1, 0.9] {
            assert!((one.eval(x) - (3.0 * x - x * x * x) / 2.0).abs() < 1e-14);
        }
        let many = Comparison::paper(1, 18).unwrap();
        assert!(many.error(2f64.powi(-8)) < 1e-6);
        assert!((many.error(0.01) - many.measured_error(0.01, 10_000)).abs() < 1e-12);
        let f3 = Comparison::paper(3, 1).unwrap();
        let x: f64 = 0.3;
        let want = (35.0 * x - 35.0 * x.powi(3) + 21.0 * x.powi(5) - 5.0 * x.powi(7)) / 16.0;
        assert!((f3.eval(x) - want).abs() < 1e-14);
    }

    /// The paper's depths at t = 130: eps' = 1/(4.1 t), worked out by hand from the formulas.
    #[test]
    fn paper_depths() {
        let eps = 1.0 / (4.1 * 130.0);
        assert_eq!(paper_compositions_maximum(eps).unwrap(), 22);
        assert_eq!(paper_compositions_comparison(eps).unwrap(), 9);
        assert!(paper_compositions_maximum(0.25).is_err());
    }

    #[test]
    fn encrypted_form_equals_the_scalar_form() {
        let alg = Clear::new(256).unwrap();
        let x: Vec<f64> = (0..256).map(|k| -1.0 + f64::from(k) / 127.5).collect();
        for c in [Comparison::minimax(8).unwrap(), Comparison::paper(2, 3).unwrap()] {
            let v = alg.fresh_real(&x, c.depth()).unwrap();
            let (s, t) = (c.evaluate(&alg, &v).unwrap(), c.indicator(&alg, &v).unwrap());
            assert_eq!((alg.level(&s), alg.level(&t)), (0, 0));
            for ((x, s), t) in x.iter().zip(s.real()).zip(t.real()) {
                assert!((s - c.eval(*x)).abs() < 1e-9);
                assert!((t - 0.5 - 0.5 * c.eval(*x)).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn bad_comparisons_are_refused() {
        assert!(Comparison::composite(0.0, &[7]).is_err());
        assert!(Comparison::composite(0.1, &[]).is_err());
        assert!(Comparison::composite(0.1, &[8]).is_err());
        assert!(Comparison::paper(0, 1).is_err());
    }
}
