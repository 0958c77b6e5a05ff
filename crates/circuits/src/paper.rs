//! The circuits of the paper (Encrypted Linear Contextual Bandit): the composed comparison, the iterated
//! square root, the chained argmax, and the cold start of the inverse. Bandits of the paper's method run
//! them, and `docs/circuits.md` compares them with the other circuits of this crate.
//!
//! They are deeper than any parameter set. Each is a sequence of stages, and a vector without the levels of
//! the next stage is first raised by [`Raises`]. With [`Unraised`] a circuit takes all its levels at once.

use std::collections::BTreeSet;

use num_complex::Complex64;

use crate::error::in_range;
use crate::inverse::pattern;
use crate::{Chebyshev, Error, SlotAlgebra, rotate_sum};

/// What raises vectors to the top level between the stages of a circuit.
pub trait Raises<A: SlotAlgebra> {
    /// The level at which a vector is raised. No stage brings a vector below it.
    fn floor(&self) -> usize;

    /// The values of `vector`, at [`Self::floor`] or above, at the top level.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] if nothing raises vectors; those of the algebra and of the exchange.
    fn raise(&mut self, alg: &A, vector: &A::Vector) -> Result<A::Vector, A::Error>;

    /// `vector`, raised if it has fewer than `levels` levels above the floor.
    ///
    /// # Errors
    /// As [`Self::raise`].
    fn with_levels(&mut self, alg: &A, vector: A::Vector, levels: usize) -> Result<A::Vector, A::Error> {
        if alg.level(&vector) < levels + self.floor() { self.raise(alg, &vector) } else { Ok(vector) }
    }
}

/// No vector is raised: a circuit needs all its levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unraised;

impl<A: SlotAlgebra> Raises<A> for Unraised {
    fn floor(&self) -> usize {
        0
    }

    fn raise(&mut self, alg: &A, vector: &A::Vector) -> Result<A::Vector, A::Error> {
        let have = alg.level(vector);
        Err(Error::OutOfLevels { op: "a circuit of the paper", need: have + 1, have }.into())
    }
}

/// The paper's approximation s of the sign function on [-1, 1]: `compositions` times the polynomial
/// `f_n(x) = sum_{i<=n} 4^-i binom(2i, i) x (1 - x^2)^i`.
///
/// # Source
/// Encrypted Linear Contextual Bandit, NewComp and NewMax; Cheon, Kim, Kim 2020. Departure: none.
#[derive(Debug, Clone)]
pub struct PaperComparison {
    stage: Chebyshev,
    compositions: usize,
}

impl PaperComparison {
    /// The composition for n = `n`.
    ///
    /// # Errors
    /// [`Error::Range`] unless n is in 1..=7 and `compositions` in 1..=64.
    pub fn new(n: usize, compositions: usize) -> Result<Self, Error> {
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
        Ok(Self { stage: Chebyshev::interpolate(f, 2 * n + 1, -1.0, 1.0)?, compositions })
    }

    /// Levels of [`PaperComparison::affine`].
    pub fn depth(&self) -> usize {
        self.compositions * self.stage.depth()
    }

    /// Products of two vectors in [`PaperComparison::affine`].
    pub fn products(&self) -> usize {
        self.compositions * self.stage.products()
    }

    /// s(x) in f64, for x in [-1, 1].
    pub fn eval(&self, x: f64) -> f64 {
        (0..self.compositions).fold(x, |x, _| self.stage.eval(x))
    }

    /// `factor s(x) + offset` in every slot x in [-1, 1]. Each composition is a stage.
    ///
    /// # Errors
    /// Those of the algebra and of raises.
    pub fn affine<A: SlotAlgebra>(
        &self,
        alg: &A,
        raises: &mut impl Raises<A>,
        x: &A::Vector,
        factor: f64,
        offset: f64,
    ) -> Result<A::Vector, A::Error> {
        let (last, mut x) = (self.stage.scaled(factor, offset)?, x.clone());
        for k in 1..=self.compositions {
            let stage = if k == self.compositions { &last } else { &self.stage };
            x = stage.evaluate(alg, &raises.with_levels(alg, x, self.stage.depth())?)?;
        }
        Ok(x)
    }
}

/// The number of compositions of f_1 with which NewMax reaches the precision `eps` in (0, 1/4):
/// `1 + floor(3.2 + ln(1/eps)/ln(3/2) + ln(ln(1/eps)/ln 2 - 2)/ln 2)`.
///
/// # Errors
/// [`Error::Range`] for another precision.
///
/// # Source
/// Encrypted Linear Contextual Bandit: dep_max with `c_1 = 3/2`.
pub fn compositions_of_maximum(eps: f64) -> Result<usize, Error> {
    let bits = precision_bits(eps)?;
    let depth = 3.2 + bits * 2f64.ln() / 1.5f64.ln() + (bits - 2.0).log2();
    // At eps just below 1/4 the last logarithm is a large negative number; one composition is the least.
    Ok(1 + depth.max(0.0).floor() as usize)
}

/// The number of compositions of f_1 with which NewComp reaches the precision `eps` in (0, 1/4):
/// `ceil(ln(alpha ln(1/eps)/ln 2 - 2)/ln(3/2))` with `alpha = 3/2 + 5.2 ln(3/2)/ln 4 + ln(3/2)/(2 ln 2)`.
///
/// # Errors
/// [`Error::Range`] for another precision.
///
/// # Source
/// Encrypted Linear Contextual Bandit: dep_comp with `c_1 = 3/2`.
pub fn compositions_of_comparison(eps: f64) -> Result<usize, Error> {
    let bits = precision_bits(eps)?;
    let c = 1.5f64.ln();
    let alpha = 1.5 + 5.2 * c / 4f64.ln() + c / (2.0 * 2f64.ln());
    Ok(((alpha * bits - 2.0).ln() / c).ceil().max(1.0) as usize)
}

fn precision_bits(eps: f64) -> Result<f64, Error> {
    in_range("precision", eps, f64::MIN_POSITIVE, 0.25f64.next_down())?;
    Ok(-eps.log2())
}

/// The paper's iteration for `factor sqrt(z)` on [0, c2], from the argument `u = 2z/c2 - 1` in [-1, 1].
///
/// It computes `q_0 = z/c2`, `v_0 = z/c2 - 1`, `q_{k+1} = q_k (1 - v_k/2)`, `v_{k+1} = v_k^2 (v_k - 3)/4`.
/// After k steps the result `factor sqrt(c2) q_k` is within `|factor| sqrt(c2) (1 - z/(4 c2))^(2^(k+1))` of
/// `factor sqrt(z)`. A step takes two levels.
///
/// # Source
/// Encrypted Linear Contextual Bandit, eq. 5. Departure: the first step starts from `u`, which saves a level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SquareRootIteration {
    steps: usize,
    upper: f64,
    factor: f64,
}

impl SquareRootIteration {
    /// The iteration with `steps` (1 to 64) steps on [0, `upper`].
    ///
    /// # Errors
    /// [`Error::Range`] for another number of steps, or unless `upper` is positive and both numbers are
    /// finite.
    pub fn new(steps: usize, upper: f64, factor: f64) -> Result<Self, Error> {
        in_range("iterations", steps as f64, 1.0, 64.0)?;
        in_range("upper end", upper, f64::MIN_POSITIVE, f64::MAX)?;
        in_range("factor", factor, -f64::MAX, f64::MAX)?;
        Ok(Self { steps, upper, factor })
    }

    /// Levels of [`SquareRootIteration::evaluate`]: two for each step.
    pub fn depth(&self) -> usize {
        2 * self.steps
    }

    /// Products of two vectors.
    pub fn products(&self) -> usize {
        3 * self.steps - 2
    }

    /// The value in f64 at `z` in [0, c2].
    pub fn eval(&self, z: f64) -> f64 {
        let (mut q, mut v) = (z / self.upper, z / self.upper - 1.0);
        for _ in 0..self.steps {
            (q, v) = (q * (1.0 - 0.5 * v), 0.25 * v * v * (v - 3.0));
        }
        self.factor * self.upper.sqrt() * q
    }

    /// `factor sqrt(z)` in every slot of `u = 2z/c2 - 1`. Each step is a stage.
    ///
    /// # Errors
    /// Those of the algebra and of raises.
    pub fn evaluate<A: SlotAlgebra>(
        &self,
        alg: &A,
        raises: &mut impl Raises<A>,
        u: &A::Vector,
    ) -> Result<A::Vector, A::Error> {
        let one = Complex64::ONE;
        let output = self.factor * self.upper.sqrt();
        // The last factor includes the factor of the output.
        let last = |k: usize| if k + 1 == self.steps { output } else { 1.0 };
        let u = raises.with_levels(alg, u.clone(), 2)?;
        // With q_0 = (u + 1)/2 and v_0 = (u - 1)/2, q_1 = (u + 1)(5 - u)/8, v_1 = (u - 1)^2 (u - 7)/32.
        let f = last(0);
        let mut q =
            alg.mul(&alg.add_const(&u, one)?, &alg.linear_combination(&[(-f / 8.0, &u)], 5.0 * f / 8.0)?)?;
        if self.steps == 1 {
            return Ok(q);
        }
        let square = alg.square(&alg.add_const(&u, -one)?)?;
        let mut v = alg.mul(&square, &alg.linear_combination(&[(1.0 / 32.0, &u)], -7.0 / 32.0)?)?;
        for k in 1..self.steps {
            let f = last(k);
            v = raises.with_levels(alg, v, 2)?;
            q = raises.with_levels(alg, q, 1)?;
            q = alg.mul(&q, &alg.linear_combination(&[(-0.5 * f, &v)], f)?)?;
            if k + 1 < self.steps {
                v = alg.mul(&alg.square(&v)?, &alg.linear_combination(&[(0.25, &v)], -0.75)?)?;
            }
        }
        Ok(q)
    }
}

/// The number of steps of [`SquareRootIteration`] for precision `eps` on [c1, c2], at least 1:
/// `ceil(log2((ln eps - ln sqrt(c2)) / (2 ln(1 - c1/(4 c2)))))`.
///
/// # Errors
/// [`Error::Range`] unless `0 < c1 <= c2` and `eps > 0`, all finite.
///
/// # Source
/// Encrypted Linear Contextual Bandit, Prop. 4. Departure: the factor is 2 and not 4, as its proof gives
/// (test `square_root_count_suffices`).
pub fn square_root_steps(eps: f64, c1: f64, c2: f64) -> Result<usize, Error> {
    in_range("precision", eps, f64::MIN_POSITIVE, f64::MAX)?;
    in_range("c2", c2, f64::MIN_POSITIVE, f64::MAX)?;
    in_range("c1", c1, f64::MIN_POSITIVE, c2)?;
    let ratio = (eps.ln() - 0.5 * c2.ln()) / (2.0 * (-0.25 * c1 / c2).ln_1p());
    Ok(if ratio <= 2.0 { 1 } else { ratio.log2().ceil() as usize })
}

/// The paper's argmax: K - 1 NewMax in a chain, then one NewComp of each score with the maximum.
///
/// Scores are in [0, 1], and padded entries are 0. The layout is that of [`crate::argmax`] without a spare
/// value. Slot a F starts its chain at score a and goes around, so that neither a mask nor a broadcast is
/// needed.
///
/// # Source
/// Encrypted Linear Contextual Bandit, amax and acomp. Departure: the order in which the chain of a slot
/// meets the scores.
#[derive(Debug, Clone)]
pub struct PaperArgmax {
    count: usize,
    block: usize,
    maximum: PaperComparison,
    comparison: PaperComparison,
}

impl PaperArgmax {
    /// The circuit for `count` (K, a power of two of at least 2) scores in blocks of `block` slots, with the
    /// comparisons of NewMax and of NewComp.
    ///
    /// # Errors
    /// [`Error::SlotCount`] for numbers that are not powers of two, or fewer than two scores.
    pub fn new(
        count: usize,
        block: usize,
        maximum: PaperComparison,
        comparison: PaperComparison,
    ) -> Result<Self, Error> {
        if !(count.is_power_of_two() && count > 1 && block.is_power_of_two()) {
            return Err(Error::SlotCount {
                op: "argmax",
                got: count * block,
                want: (count * block).next_power_of_two(),
            });
        }
        Ok(Self { count, block, maximum, comparison })
    }

    /// The period of every vector: K F.
    pub fn slots(&self) -> usize {
        self.count * self.block
    }

    /// Levels from scores to action: `(K - 1)(maximum + 1) + comparison + 1`.
    pub fn depth(&self) -> usize {
        (self.count - 1) * (self.maximum.depth() + 1) + self.comparison.depth() + 1
    }

    /// All rotations that need a key.
    pub fn rotations(&self) -> BTreeSet<i64> {
        (1..self.count).map(|a| (a * self.block) as i64).collect()
    }

    /// About `max(a, b)`, as `(a + b)/2 + (a - b)/2 s(a - b)` for |a - b| <= 1. Takes one level more than the
    /// comparison s.
    ///
    /// # Errors
    /// Those of the algebra and of raises.
    pub fn maximum<A: SlotAlgebra>(
        &self,
        alg: &A,
        raises: &mut impl Raises<A>,
        a: &A::Vector,
        b: &A::Vector,
    ) -> Result<A::Vector, A::Error> {
        let difference = raises.with_levels(alg, alg.sub(a, b)?, 1)?;
        let sum = raises.with_levels(alg, alg.add(a, b)?, 1)?;
        let half_sign = self.maximum.affine(alg, raises, &difference, 0.5, 0.0)?;
        let half_sign = raises.with_levels(alg, half_sign, 1)?;
        alg.add(&alg.mul_const(&sum, 0.5)?, &alg.mul(&difference, &half_sign)?)
    }

    /// Slot a F of the result is NewComp(score a, maximum): near 1/2 for the largest score, which is compared
    /// with about itself, and near 0 for the others. All other slots are 0.
    ///
    /// # Errors
    /// [`Error::SlotCount`] if the period of the algebra is not K F; those of the algebra and of raises.
    pub fn evaluate<A: SlotAlgebra>(
        &self,
        alg: &A,
        raises: &mut impl Raises<A>,
        scores: &A::Vector,
    ) -> Result<A::Vector, A::Error> {
        if alg.slots() != self.slots() {
            return Err(Error::SlotCount { op: "argmax", got: alg.slots(), want: self.slots() }.into());
        }
        // One raise serves the difference and the sum of a maximum.
        let scores = raises.with_levels(alg, scores.clone(), 1)?;
        let mut largest = scores.clone();
        for k in self.rotations() {
            let next = alg.rotate(&scores, k)?;
            largest = self.maximum(alg, raises, &largest, &next)?;
        }
        let answer = self.comparison.affine(alg, raises, &alg.sub(&scores, &largest)?, 0.5, 0.5)?;
        let mut mask = vec![Complex64::ZERO; self.block];
        mask[0] = Complex64::ONE;
        alg.mul_plain(&raises.with_levels(alg, answer, 1)?, &mask)
    }
}

/// The state `[I/c | V/c]` of Newton's iteration, times the scaling s = `scale`, from the vector of V / s,
/// for `c` of at least the trace of V. Takes 1 level.
///
/// # Errors
/// Those of the algebra.
///
/// # Source
/// Encrypted Linear Contextual Bandit, eq. 2. Departure: none.
pub fn cold_start<A: SlotAlgebra>(
    alg: &A,
    dim: usize,
    scale: f64,
    matrix: &A::Vector,
    c: f64,
) -> Result<A::Vector, A::Error> {
    // Block k holds column k of V in every column j. Keeping j = k and summing over k gives V.
    let start = scale / c;
    let keep = pattern(dim, dim, |k, h, _, j| if k == j && h == 1 { start } else { 0.0 });
    let v = rotate_sum(alg, &alg.mul_plain(matrix, &keep)?, 2 * (dim * dim) as i64, dim)?;
    alg.add_plain(&v, &pattern(dim, 1, |_, h, i, j| if h == 0 && i == j { start } else { 0.0 }))
}

/// Steps from a cold start to `||X - V^-1|| <= eps`: `ceil(log2(ln(lambda eps) / ln(1 - lambda/c)))`, at
/// least 1.
///
/// # Errors
/// [`Error::Range`] unless `0 < lambda < c` and `0 < eps`, all finite.
///
/// # Source
/// Encrypted Linear Contextual Bandit, k1 after eq. 2. Departure: none.
pub fn cold_steps(eps: f64, lambda: f64, c: f64) -> Result<usize, Error> {
    in_range("precision", eps, f64::MIN_POSITIVE, f64::MAX)?;
    in_range("c", c, f64::MIN_POSITIVE, f64::MAX)?;
    in_range("lambda", lambda, f64::MIN_POSITIVE, c.next_down())?;
    let ratio = (lambda * eps).ln() / (-lambda / c).ln_1p();
    Ok(if ratio <= 2.0 { 1 } else { ratio.log2().ceil() as usize })
}
