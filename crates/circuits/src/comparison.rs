//! Comparison of slots with 0, by a composition of polynomials that approximates the sign function.
//!
//! | symbol | meaning |
//! |---|---|
//! | s | the composition of the stages, an odd function on [-1, 1] |
//! | r | resolution: s approximates the sign for r <= \|x\| <= 1; below, \|s(x)\| <= 1 + e |
//! | e | error: the largest \|s(x) - sign(x)\| for r <= \|x\| <= 1 |

use crate::error::in_range;
use crate::polynomial::Chebyshev;
use crate::{Error, SlotAlgebra};

/// The margin between stages: noise of up to this size does not leave the domain of the next stage.
const MARGIN: f64 = 1.0 / 4096.0;

/// An approximation s of sign(x) on [-1, 1]: a composition of odd polynomials, called stages.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    stages: Vec<Chebyshev>,
    resolution: f64,
    error: f64,
}

impl Comparison {
    /// The built-in minimax composite for the resolution 2^-bits.
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
    /// [`Error::Range`] unless `bits` is in the table.
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

    /// The minimax composite with stages of these odd degrees for the resolution r: |s(x) - sign(x)| <= e for
    /// |x| in [r, 1].
    ///
    /// 1. The first stage is the best odd approximation of the sign function on [r, 1].
    /// 2. Each further stage is the best odd approximation on the image of [r, 1] under the stages before.
    ///
    /// All extrema of a stage are in the interval on which it approximates, so that it is monotone below it,
    /// and no argument in [-1, 1] leaves the domain of a stage.
    ///
    /// # Errors
    /// [`Error::Range`] for a resolution outside [2^-16, 1/2], [`Error::Degree`] for an even degree or one
    /// above 63, [`Error::Empty`] without degrees, [`Error::NoConvergence`] where f64 does not suffice.
    ///
    /// # Source
    /// Lee, Lee, No, Kim 2021 (minimax composites for homomorphic comparison). Departure: a margin of 2^-12
    /// between stages, for noise.
    pub fn composite(resolution: f64, degrees: &[usize]) -> Result<Self, Error> {
        in_range("resolution", resolution, 2f64.powi(-16), 0.5)?;
        let (mut low, mut error) = (resolution, 1.0);
        let mut stages = Vec::with_capacity(degrees.len());
        for (k, &degree) in degrees.iter().enumerate() {
            if degree % 2 == 0 || degree > 63 {
                return Err(Error::Degree { op: "odd stage", got: degree, max: 63 });
            }
            let basis: Vec<usize> = (1..=degree).step_by(2).collect();
            let stage;
            (stage, error) = Chebyshev::minimax(&basis, |_| 1.0, low, 1.0)?;
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
        Ok(Self { stages, resolution, error })
    }

    /// Levels of [`Comparison::evaluate`] and [`Comparison::indicator`].
    pub fn depth(&self) -> usize {
        self.stages.iter().map(Chebyshev::depth).sum()
    }

    /// Products of two vectors in [`Comparison::evaluate`] and in [`Comparison::indicator`].
    pub fn products(&self) -> usize {
        self.stages.iter().map(Chebyshev::products).sum()
    }

    /// The resolution r.
    pub fn resolution(&self) -> f64 {
        self.resolution
    }

    /// The largest |s(x) - sign(x)| for |x| in [gap, 1].
    pub fn error(&self, gap: f64) -> f64 {
        // s is monotone below the resolution, so that the largest error is at the gap.
        if gap >= self.resolution { self.error } else { self.error.max(1.0 - self.eval(gap)) }
    }

    /// s(x) in f64, for x in [-1, 1].
    pub fn eval(&self, x: f64) -> f64 {
        self.stages.iter().fold(x, |x, stage| stage.eval(x))
    }

    /// s(x), about sign(x), in every slot x in [-1, 1].
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] before anything is computed; otherwise those of the algebra.
    pub fn evaluate<A: SlotAlgebra>(&self, alg: &A, x: &A::Vector) -> Result<A::Vector, A::Error> {
        self.affine(alg, x, 1.0, 0.0)
    }

    /// (1 + s(x))/2 in every slot x in [-1, 1]: about 1 where x > 0, and about 0 where x < 0. The last stage
    /// includes the factor and the offset, so that depth and cost are those of [`Comparison::evaluate`].
    ///
    /// # Errors
    /// As [`Comparison::evaluate`].
    pub fn indicator<A: SlotAlgebra>(&self, alg: &A, x: &A::Vector) -> Result<A::Vector, A::Error> {
        self.affine(alg, x, 0.5, 0.5)
    }

    /// `factor s(x) + offset`, where the last stage includes the factor and the offset.
    fn affine<A: SlotAlgebra>(
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clear;
    use testkit::worst_error;

    /// Depths equal, and errors agree within 0.1 bit with, those of independent linear programs.
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
            let error = worst_error(|x| c.eval(x), |_| 1.0, [gap, 1.0], 100_000);
            assert_eq!(c.depth(), depth);
            assert!((-error.log2() - bits).abs() < 0.1, "{degrees:?}: 2^{:.2}", error.log2());
            assert!(error <= c.error(gap) * (1.0 + 1e-6));
        }
    }

    /// For all arguments in [-1, 1], also below the resolution, every stage gives values in the domain of the
    /// next, with room for noise.
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

    /// The table of [`Comparison::minimax`] is correct.
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

    #[test]
    fn encrypted_form_equals_the_scalar_form() {
        let alg = Clear::new(256).unwrap();
        let x: Vec<f64> = (0..256).map(|k| -1.0 + f64::from(k) / 127.5).collect();
        let c = Comparison::minimax(8).unwrap();
        let v = alg.fresh_real(&x, c.depth()).unwrap();
        let (s, t) = (c.evaluate(&alg, &v).unwrap(), c.indicator(&alg, &v).unwrap());
        assert_eq!((alg.level(&s), alg.level(&t)), (0, 0));
        for ((x, s), t) in x.iter().zip(s.real()).zip(t.real()) {
            assert!((s - c.eval(*x)).abs() < 1e-9);
            assert!((t - 0.5 - 0.5 * c.eval(*x)).abs() < 1e-9);
        }
    }

    #[test]
    fn bad_comparisons_are_refused() {
        assert!(Comparison::composite(0.0, &[7]).is_err());
        assert!(Comparison::composite(0.1, &[]).is_err());
        assert!(Comparison::composite(0.1, &[8]).is_err());
    }
}
