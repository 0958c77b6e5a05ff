//! The square root on [0, c2], as a best polynomial approximation.

use crate::error::in_range;
use crate::polynomial::Chebyshev;
use crate::remez::minimax;
use crate::{Error, SlotAlgebra};

/// The best polynomial approximation of `factor sqrt(z)` for z in [0, c2], as a function of `u = 2z/c2 - 1`
/// in [-1, 1].
#[derive(Debug, Clone, PartialEq)]
pub struct SquareRoot {
    polynomial: Chebyshev,
    upper: f64,
    factor: f64,
}

impl SquareRoot {
    /// The polynomial of `degree` (1 to 63) for `factor sqrt(z)` on [0, `upper`]. Its largest error is about
    /// `0.28 |factor| sqrt(upper) / (2 degree)` and is attained at z = 0.
    ///
    /// # Errors
    /// [`Error::Degree`] for another degree, [`Error::Range`] unless `upper` is positive and both numbers are
    /// finite.
    pub fn polynomial(degree: usize, upper: f64, factor: f64) -> Result<Self, Error> {
        if degree == 0 || degree > 63 {
            return Err(Error::Degree { op: "square root", got: degree, max: 63 });
        }
        in_range("upper end", upper, f64::MIN_POSITIVE, f64::MAX)?;
        in_range("factor", factor, -f64::MAX, f64::MAX)?;
        let basis: Vec<usize> = (0..=degree).collect();
        let fit = minimax(&basis, |u| (0.5 * (u + 1.0)).max(0.0).sqrt(), -1.0, 1.0)?;
        let unit = Chebyshev::new(fit.coefficients, -1.0, 1.0)?;
        let polynomial = unit.scaled(factor * upper.sqrt(), 0.0)?;
        Ok(Self { polynomial, upper, factor })
    }

    /// Levels of [`SquareRoot::evaluate`]: `ceil(log2(degree + 1))`.
    pub fn depth(&self) -> usize {
        self.polynomial.depth()
    }

    /// Products of two vectors.
    pub fn products(&self) -> usize {
        self.polynomial.products()
    }

    /// The value in f64 at `z` in [0, c2].
    pub fn eval(&self, z: f64) -> f64 {
        self.polynomial.eval(2.0 * z / self.upper - 1.0)
    }

    /// The largest `|value - factor sqrt(z)|` for z in [low, c2], measured on `points + 1` points that are
    /// denser at the ends.
    pub fn worst_error(&self, low: f64, points: usize) -> f64 {
        worst_error(|z| self.eval(z), self.factor, [low, self.upper], points)
    }

    /// `factor sqrt(z)` in every slot of `u = 2z/c2 - 1`.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] before anything is computed; otherwise those of the algebra.
    pub fn evaluate<A: SlotAlgebra>(&self, alg: &A, u: &A::Vector) -> Result<A::Vector, A::Error> {
        self.polynomial.evaluate(alg, u)
    }
}

/// The largest `|value(z) - factor sqrt(z)|` on `points + 1` points of an interval that are denser at its
/// ends.
pub(crate) fn worst_error(
    value: impl Fn(f64) -> f64,
    factor: f64,
    [low, upper]: [f64; 2],
    points: usize,
) -> f64 {
    (0..=points)
        .map(|k| {
            let turn = (std::f64::consts::PI * k as f64 / points.max(1) as f64).cos();
            let z = 0.5 * (low + upper) - 0.5 * (upper - low) * turn;
            (value(z) - factor * z.max(0.0).sqrt()).abs()
        })
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clear;

    /// The largest error on [0, 1] is 0.28017 / (2 degree), by Bernstein's constant for |x|, to 1 %.
    #[test]
    fn error_is_bernsteins() {
        for degree in [7, 15, 31, 63] {
            let root = SquareRoot::polynomial(degree, 1.0, 1.0).unwrap();
            let want = 0.280_169 / (2.0 * degree as f64);
            assert!((root.worst_error(0.0, 20_000) / want - 1.0).abs() < 0.01, "degree {degree}");
        }
    }

    #[test]
    fn scales_with_the_interval_and_the_factor() {
        let root = SquareRoot::polynomial(31, 9.0, -2.0).unwrap();
        assert_eq!(root.depth(), 5);
        assert!(root.worst_error(0.0, 20_000) < 0.0046 * 3.0 * 2.0);
        assert!((root.eval(4.0) + 4.0).abs() < 0.01);
    }

    #[test]
    fn encrypted_form_equals_the_scalar_form() {
        let alg = Clear::new(128).unwrap();
        let z: Vec<f64> = (0..128).map(|k| 3.0 * f64::from(k) / 127.0).collect();
        let u: Vec<f64> = z.iter().map(|z| 2.0 * z / 3.0 - 1.0).collect();
        let root = SquareRoot::polynomial(31, 3.0, 0.7).unwrap();
        let v = alg.fresh_real(&u, root.depth()).unwrap();
        alg.reset_counts();
        let got = root.evaluate(&alg, &v).unwrap();
        assert_eq!((alg.level(&got), alg.counts().products), (0, root.products()));
        for (g, &z) in got.real().iter().zip(&z) {
            assert!((g - root.eval(z)).abs() < 1e-12);
        }
    }

    #[test]
    fn bad_roots_are_refused() {
        assert!(SquareRoot::polynomial(0, 1.0, 1.0).is_err());
        assert!(SquareRoot::polynomial(31, 0.0, 1.0).is_err());
    }
}
