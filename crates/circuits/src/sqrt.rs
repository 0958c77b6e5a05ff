//! The square root on [0, c2].

use num_complex::Complex64;

use crate::error::{has_levels, in_range};
use crate::polynomial::Chebyshev;
use crate::remez::minimax;
use crate::{Error, SlotAlgebra};

/// `factor sqrt(z)` for z in [0, c2], from the argument `u = 2z/c2 - 1` in [-1, 1].
#[derive(Debug, Clone, PartialEq)]
pub struct SquareRoot {
    method: Method,
    upper: f64,
    factor: f64,
}

#[derive(Debug, Clone, PartialEq)]
enum Method {
    Polynomial(Chebyshev),
    Iteration(usize),
}

impl SquareRoot {
    /// The best polynomial of `degree` (1 to 63) for `factor sqrt(z)` on [0, `upper`].
    ///
    /// Worst error about `0.28 |factor| sqrt(upper) / (2 degree)`, which is reached at z = 0.
    ///
    /// # Errors
    /// [`Error::Degree`], [`Error::Range`] unless `upper` is positive and finite and `factor` is finite.
    pub fn polynomial(degree: usize, upper: f64, factor: f64) -> Result<Self, Error> {
        if degree == 0 || degree > 63 {
            return Err(Error::Degree { op: "square root", got: degree, max: 63 });
        }
        check(upper, factor)?;
        let basis: Vec<usize> = (0..=degree).collect();
        let fit = minimax(&basis, |u| (0.5 * (u + 1.0)).max(0.0).sqrt(), -1.0, 1.0)?;
        let unit = Chebyshev::new(fit.coefficients, -1.0, 1.0)?;
        let polynomial = unit.scaled(factor * upper.sqrt(), 0.0)?;
        Ok(Self { method: Method::Polynomial(polynomial), upper, factor })
    }

    /// The paper's iteration, `iterations` (1 to 64) steps.
    ///
    /// `q_0 = z/c2, v_0 = z/c2 - 1, q_{k+1} = q_k (1 - v_k/2), v_{k+1} = v_k^2 (v_k - 3)/4`, result
    /// `factor sqrt(c2) q_k`; within `sqrt(c2) (1 - z/(4 c2))^(2^(k+1))` of the root.
    ///
    /// # Errors
    /// [`Error::Range`].
    ///
    /// # Source
    /// Encrypted Linear Contextual Bandit, eq. 5. Departure: the first step starts from `u`, which saves a level.
    pub fn paper(iterations: usize, upper: f64, factor: f64) -> Result<Self, Error> {
        in_range("iterations", iterations as f64, 1.0, 64.0)?;
        check(upper, factor)?;
        Ok(Self { method: Method::Iteration(iterations), upper, factor })
    }

    /// Levels: `ceil(log2(degree + 1))`, or two an iteration.
    pub fn depth(&self) -> usize {
        match &self.method {
            Method::Polynomial(p) => p.depth(),
            Method::Iteration(k) => 2 * k,
        }
    }

    /// Products of two vectors.
    pub fn products(&self) -> usize {
        match &self.method {
            Method::Polynomial(p) => p.products(),
            Method::Iteration(k) => 3 * k - 2,
        }
    }

    /// The value in f64 at `z` in [0, c2].
    pub fn eval(&self, z: f64) -> f64 {
        match &self.method {
            Method::Polynomial(p) => p.eval(2.0 * z / self.upper - 1.0),
            Method::Iteration(k) => {
                let (mut q, mut v) = (z / self.upper, z / self.upper - 1.0);
                for _ in 0..*k {
                    (q, v) = (q * (1.0 - 0.5 * v), 0.25 * v * v * (v - 3.0));
                }
                self.factor * self.upper.sqrt() * q
            }
        }
    }

    /// Worst `|value - factor sqrt(z)|` for z in [low, c2], on `points + 1` points (denser at the ends).
    pub fn worst_error(&self, low: f64, points: usize) -> f64 {
        (0..=points)
            .map(|k| {
                let turn = (std::f64::consts::PI * k as f64 / points.max(1) as f64).cos();
                let z = 0.5 * (low + self.upper) - 0.5 * (self.upper - low) * turn;
                (self.eval(z) - self.factor * z.max(0.0).sqrt()).abs()
            })
            .fold(0.0, f64::max)
    }

    /// `factor sqrt(z)` in every slot of `u = 2z/c2 - 1`.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] before anything is computed; otherwise the algebra's.
    pub fn evaluate<A: SlotAlgebra>(&self, alg: &A, u: &A::Vector) -> Result<A::Vector, A::Error> {
        has_levels("square root", alg.level(u), self.depth())?;
        match &self.method {
            Method::Polynomial(p) => p.evaluate(alg, u),
            Method::Iteration(k) => self.iterate(alg, u, *k),
        }
    }

    fn iterate<A: SlotAlgebra>(&self, alg: &A, u: &A::Vector, steps: usize) -> Result<A::Vector, A::Error> {
        let one = Complex64::ONE;
        let output = self.factor * self.upper.sqrt();
        // The last factor carries the output constant.
        let last = |k: usize| if k + 1 == steps { output } else { 1.0 };
        // q_0 = (u + 1)/2, v_0 = (u - 1)/2, both kept doubled: q_1 = (u + 1)(5 - u)/8, v_1 = (u - 1)^2 (u - 7)/32.
        let f = last(0);
        let mut q =
            alg.mul(&alg.add_const(u, one)?, &alg.linear_combination(&[(-f / 8.0, u)], 5.0 * f / 8.0)?)?;
        if steps == 1 {
            return Ok(q);
        }
        let square = alg.square(&alg.add_const(u, -one)?)?;
        let mut v = alg.mul(&square, &alg.linear_combination(&[(1.0 / 32.0, u)], -7.0 / 32.0)?)?;
        for k in 1..steps {
            let f = last(k);
            q = alg.mul(&q, &alg.linear_combination(&[(-0.5 * f, &v)], f)?)?;
            if k + 1 < steps {
                v = alg.mul(&alg.square(&v)?, &alg.linear_combination(&[(0.25, &v)], -0.75)?)?;
            }
        }
        Ok(q)
    }
}

/// Iterations of [`SquareRoot::paper`] for precision `eps` on [c1, c2]: `ceil(log2((ln eps - ln sqrt(c2)) /
/// (2 ln(1 - c1/(4 c2)))))`, at least 1.
///
/// # Errors
/// [`Error::Range`] unless `0 < c1 <= c2` and `eps > 0`, all finite.
///
/// # Source
/// Encrypted Linear Contextual Bandit, Prop. 4. *Departure*: factor 2 and not 4, as its proof gives (test
/// `paper_count_suffices`).
pub fn paper_iterations(eps: f64, c1: f64, c2: f64) -> Result<usize, Error> {
    in_range("precision", eps, f64::MIN_POSITIVE, f64::MAX)?;
    in_range("c2", c2, f64::MIN_POSITIVE, f64::MAX)?;
    in_range("c1", c1, f64::MIN_POSITIVE, c2)?;
    let ratio = (eps.ln() - 0.5 * c2.ln()) / (2.0 * (-0.25 * c1 / c2).ln_1p());
    Ok(if ratio <= 2.0 { 1 } else { ratio.log2().ceil() as usize })
}

fn check(upper: f64, factor: f64) -> Result<(), Error> {
    in_range("upper end", upper, f64::MIN_POSITIVE, f64::MAX)?;
    in_range("factor", factor, -f64::MAX, f64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clear;

    /// Best approximation of the root on [0, 1]: 0.28017 / (2 degree) (Bernstein's constant for |x|), to 1 %.
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
        let mut roots: Vec<SquareRoot> = (1..6).map(|k| SquareRoot::paper(k, 3.0, 0.7).unwrap()).collect();
        roots.push(SquareRoot::polynomial(31, 3.0, 0.7).unwrap());
        for root in roots {
            let v = alg.fresh_real(&u, root.depth()).unwrap();
            alg.reset_counts();
            let got = root.evaluate(&alg, &v).unwrap();
            assert_eq!((alg.level(&got), alg.counts().products), (0, root.products()));
            for (g, &z) in got.real().iter().zip(&z) {
                assert!((g - root.eval(z)).abs() < 1e-12);
            }
        }
    }

    /// Factor 2 in the count is enough for every precision and range the bandit uses.
    #[test]
    fn paper_count_suffices() {
        for t in [2.0f64, 10.0, 130.0] {
            let c1 = 1.0 / (t.powf(1.5) * (1.0 + t).sqrt());
            let k = paper_iterations(1.0 / t, c1, c1 + 2.0).unwrap();
            let error = SquareRoot::paper(k, c1 + 2.0, 1.0).unwrap().worst_error(c1, 10_000);
            assert!(error <= 1.0 / t, "t {t}: {error} after {k}");
        }
    }

    #[test]
    fn bad_roots_are_refused() {
        assert!(SquareRoot::polynomial(0, 1.0, 1.0).is_err());
        assert!(SquareRoot::polynomial(31, 0.0, 1.0).is_err());
        assert!(SquareRoot::paper(0, 1.0, 1.0).is_err());
        assert!(paper_iterations(0.1, 2.0, 1.0).is_err());
    }
}
