//! Polynomials in the Chebyshev basis, evaluated in the least number of levels for their degree.
//!
//! | symbol | meaning |
//! |---|---|
//! | T_i | the Chebyshev polynomial of the first kind of degree i on [-1, 1] |
//! | p = q (T_m + shift) + rest | one step of the recursion, where m is a power of two |
//! | budget | the number of levels that a part may use; the quotient q has one less than the rest |

use std::collections::{BTreeMap, BTreeSet};
use std::f64::consts::PI;

use crate::error::{has_levels, in_range};
use crate::remez::minimax;
use crate::{Error, SlotAlgebra};

/// The largest degree. Beyond it neither f64 coefficients nor the noise of a level leave any precision.
const MAX_DEGREE: usize = 1023;
/// Coefficients below this fraction of the largest are rounding errors of the construction, and are set to 0.
const NEGLIGIBLE: f64 = 1e-15;
/// The largest |shift|. The noise of a quotient is multiplied by up to MAX_SHIFT + 1. A root of degree 15
/// takes a product less with a shift of 4.4, and has eight times the noise.
const MAX_SHIFT: f64 = 4.0;

/// The cost of a relinearisation in units of a rescaling.
const RELIN_COST: usize = 4;

/// The polynomial `sum c_i T_i(u)` with `u = (2x - a - b)/(b - a)`, for x in [a, b].
#[derive(Debug, Clone, PartialEq)]
pub struct Chebyshev {
    coefficients: Vec<f64>,
    low: f64,
    high: f64,
}

impl Chebyshev {
    /// The polynomial with these Chebyshev coefficients, in ascending degree, on [`low`, `high`].
    ///
    /// # Errors
    /// [`Error::Empty`] if there are no coefficients, [`Error::Degree`] above degree 1023, [`Error::Range`]
    /// if the interval is empty or a coefficient is not finite.
    pub fn new(mut coefficients: Vec<f64>, low: f64, high: f64) -> Result<Self, Error> {
        let op = "polynomial";
        in_range("interval end", low, -f64::MAX, high.next_down())?;
        in_range("interval end", high, low, f64::MAX)?;
        for &c in &coefficients {
            in_range("coefficient", c, -f64::MAX, f64::MAX)?;
        }
        let largest = coefficients.iter().fold(0.0f64, |m, c| m.max(c.abs()));
        for c in &mut coefficients {
            if c.abs() <= NEGLIGIBLE * largest {
                *c = 0.0;
            }
        }
        if coefficients.is_empty() {
            return Err(Error::Empty { op });
        }
        trim(&mut coefficients);
        if coefficients.len() > MAX_DEGREE + 1 {
            return Err(Error::Degree { op, got: coefficients.len() - 1, max: MAX_DEGREE });
        }
        Ok(Self { coefficients, low, high })
    }

    /// The polynomial of degree at most `degree` that interpolates `f` at the Chebyshev nodes of [`low`,
    /// `high`].
    ///
    /// # Errors
    /// As [`Chebyshev::new`]; [`Error::Range`] if `f` is not finite at a node.
    pub fn interpolate(f: impl Fn(f64) -> f64, degree: usize, low: f64, high: f64) -> Result<Self, Error> {
        if degree > MAX_DEGREE {
            return Err(Error::Degree { op: "polynomial", got: degree, max: MAX_DEGREE });
        }
        let n = degree + 1;
        let angle = |k: usize| PI * (k as f64 + 0.5) / n as f64;
        let values: Vec<f64> =
            (0..n).map(|k| f(0.5 * (low + high) + 0.5 * (high - low) * angle(k).cos())).collect();
        let coefficient = |i: usize| {
            let sum: f64 = values.iter().enumerate().map(|(k, v)| v * (i as f64 * angle(k)).cos()).sum();
            sum * if i == 0 { 1.0 } else { 2.0 } / n as f64
        };
        Self::new((0..n).map(coefficient).collect(), low, high)
    }

    /// The best uniform approximation of `f` on [`low`, `high`], a part of [-1, 1], by a combination of the
    /// T_i with i in `basis`, as a polynomial on [-1, 1], and its largest error on [`low`, `high`]. The basis
    /// is ascending and must be a Chebyshev system: all degrees up to one, or all odd degrees if `low > 0`.
    ///
    /// # Errors
    /// As [`Chebyshev::new`]; [`Error::NoConvergence`] where f64 does not suffice.
    ///
    /// # Source
    /// The Remez exchange algorithm.
    pub fn minimax(
        basis: &[usize],
        f: impl Fn(f64) -> f64,
        low: f64,
        high: f64,
    ) -> Result<(Self, f64), Error> {
        let (coefficients, error) = minimax(basis, f, low, high)?;
        Ok((Self::new(coefficients, -1.0, 1.0)?, error))
    }

    /// The value at `x` in [a, b], in f64 (Clenshaw's algorithm).
    pub fn eval(&self, x: f64) -> f64 {
        clenshaw(&self.coefficients, (2.0 * x - self.low - self.high) / (self.high - self.low))
    }

    /// The degree.
    pub fn degree(&self) -> usize {
        self.coefficients.len() - 1
    }

    /// Levels of [`Chebyshev::evaluate`]: `ceil(log2(degree + 1))`.
    pub fn depth(&self) -> usize {
        depth_of(self.degree() + 1)
    }

    /// Relinearisations of [`Chebyshev::evaluate`]: products of two vectors, where a sum of products counts
    /// once.
    pub fn products(&self) -> usize {
        EvaluationPlan::best(&self.coefficients).map_or(0, |plan| plan.products())
    }

    /// `factor p + offset`, which has the same depth and cost as p.
    ///
    /// # Errors
    /// [`Error::Range`] if a coefficient overflows.
    pub fn scaled(&self, factor: f64, offset: f64) -> Result<Self, Error> {
        let mut coefficients: Vec<f64> = self.coefficients.iter().map(|c| c * factor).collect();
        coefficients[0] += offset;
        Self::new(coefficients, self.low, self.high)
    }

    /// The value of the polynomial in every slot of `u`, where `u` is the argument **already mapped to [-1,
    /// 1]**. Takes [`Chebyshev::depth`] levels and [`Chebyshev::products`] products. A polynomial of degree 0
    /// takes no level.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] before anything is computed; otherwise those of the algebra.
    ///
    /// # Source
    /// Paterson and Stockmeyer 1973 in the Chebyshev basis. The recursion distributes the levels so that the
    /// depth is the least possible, and computes each part at the scale at which it is used (Bossuat et al.
    /// 2021), so that no part is rescaled for alignment only. Departures: the top coefficient of a rest is
    /// moved into the factor T_m + shift if that saves a product; a product is relinearised together with the
    /// rests below it.
    pub fn evaluate<A: SlotAlgebra>(&self, alg: &A, u: &A::Vector) -> Result<A::Vector, A::Error> {
        match EvaluationPlan::best(&self.coefficients) {
            Some(_) => self.evaluate_plus(alg, u, &[]),
            None => alg.add_const(&alg.mul_integer(u, 0)?, self.coefficients[0].into()),
        }
    }

    /// As [`Chebyshev::evaluate`], plus `sum c v` over the terms `(c, v)`, which share the last rescaling. A
    /// polynomial of degree 0 takes one level here.
    ///
    /// # Errors
    /// As [`Chebyshev::evaluate`]; [`Error::OutOfLevels`] if a term is not above the level of the result.
    pub fn evaluate_plus<A: SlotAlgebra>(
        &self,
        alg: &A,
        u: &A::Vector,
        terms: &[(f64, &A::Vector)],
    ) -> Result<A::Vector, A::Error> {
        let depth = self.depth().max(1);
        has_levels("polynomial", alg.level(u), depth)?;
        let target = alg.target(alg.level(u) - depth);
        let Some(plan) = EvaluationPlan::best(&self.coefficients) else {
            let terms: Vec<_> = terms.iter().copied().chain([(0.0, u)]).collect();
            return alg.sum_of_products(&[], &terms, self.coefficients[0], target);
        };
        plan.run(alg, u, terms, self.coefficients[0], target)
    }
}

/// `sum c_i T_i(u)`.
pub(crate) fn clenshaw(coefficients: &[f64], u: f64) -> f64 {
    let (mut b1, mut b2) = (0.0, 0.0);
    for &c in coefficients.iter().skip(1).rev() {
        (b1, b2) = (2.0 * u * b1 - b2 + c, b1);
    }
    coefficients.first().copied().unwrap_or(0.0) + u * b1 - b2
}

/// `ceil(log2 i)`: the depth of T_i, and of a polynomial with `i` coefficients.
fn depth_of(i: usize) -> usize {
    i.next_power_of_two().trailing_zeros() as usize
}

fn trim(p: &mut Vec<f64>) {
    while p.len() > 1 && p[p.len() - 1] == 0.0 {
        p.pop();
    }
}

fn is_odd(p: &[f64]) -> bool {
    p.iter().step_by(2).all(|&c| c == 0.0)
}

/// A part of the polynomial, by the way in which it is computed.
enum Node {
    /// `constant + sum c T_i`, one level below its lowest T_i.
    Combination { terms: Vec<(usize, f64)>, constant: f64 },
    /// A combination that needs the full budget, and the rest.
    Sum(Box<Node>, Box<Node>),
    /// `quotient (T_giant + shift) + rest`.
    Product { quotient: Box<Node>, giant: usize, shift: f64, rest: Rest },
    /// `T_1 even`, for an odd polynomial.
    Tail(Box<Node>),
}

/// The rest of a division by T_m + shift.
enum Rest {
    Constant(f64),
    Node(Box<Node>),
}

/// The choices of a plan.
#[derive(Clone, Copy)]
struct Strategy {
    /// The largest i such that T_i may occur in a combination, besides the powers of two.
    babies: usize,
    /// Whether shifts other than 0 are used.
    shifts: bool,
    /// Whether odd parts are divided by T_1.
    tails: bool,
}

/// A way to evaluate a polynomial.
struct EvaluationPlan {
    root: Node,
    /// The indices i > 1 of the T_i that are computed.
    powers: BTreeSet<usize>,
}

impl EvaluationPlan {
    /// The cheapest plan among all strategies; `None` for a constant. The plan leaves out the constant
    /// coefficient, which is added at the end, so that an odd polynomial plus a constant costs as much as the
    /// odd polynomial.
    fn best(coefficients: &[f64]) -> Option<EvaluationPlan> {
        let mut p = coefficients.to_vec();
        p[0] = 0.0;
        let budget = depth_of(p.len());
        let choices = [false, true];
        let babies = (0..budget).map(|k| 1 << k);
        babies
            .flat_map(|b| choices.map(|s| (b, s)))
            .flat_map(|(b, s)| choices.map(|t| Strategy { babies: b, shifts: s, tails: t }))
            .filter_map(|strategy| {
                let root = build(&p, budget, strategy)?;
                let mut powers = BTreeSet::new();
                root.collect(&mut powers);
                Some(EvaluationPlan { root, powers })
            })
            .min_by_key(|plan| RELIN_COST * plan.products() + plan.root.sums() - plan.root.products())
    }

    fn products(&self) -> usize {
        self.powers.len() + self.root.products()
    }

    fn run<A: SlotAlgebra>(
        &self,
        alg: &A,
        u: &A::Vector,
        terms: &[(f64, &A::Vector)],
        constant: f64,
        target: A::Target,
    ) -> Result<A::Vector, A::Error> {
        let mut powers: BTreeMap<usize, A::Vector> = BTreeMap::from([(1, u.clone())]);
        for &i in &self.powers {
            let [a, b, difference] = parts(i);
            let (x, y) = (&powers[&a], &powers[&b]);
            let at = alg.product_target(x, y)?;
            let next = if difference == 0 {
                alg.sum_of_products(&[(2, x, y)], &[], -1.0, at)?
            } else {
                alg.sum_of_products(&[(2, x, y)], &[(-1.0, &powers[&difference])], 0.0, at)?
            };
            powers.insert(i, next);
        }
        self.root.run(alg, &powers, terms, constant, target)
    }
}

/// `[a, b, a - b]` with `T_i = 2 T_a T_b - T_{a-b}`, where a is i/2 if i is a power of two, else the largest
/// power of two below i.
fn parts(i: usize) -> [usize; 3] {
    let a = if i.is_power_of_two() { i / 2 } else { 1 << i.ilog2() };
    [a, i - a, a.abs_diff(i - a)]
}

impl Node {
    /// The number of relinearisations: one for each sum that contains a product.
    fn products(&self) -> usize {
        let mut sum = (false, 0);
        self.count(&mut sum, Node::products);
        usize::from(sum.0) + sum.1
    }

    /// The number of sums, each of which is rescaled once.
    fn sums(&self) -> usize {
        let mut sum = (false, 0);
        self.count(&mut sum, Node::sums);
        1 + sum.1
    }

    /// Updates `sum`: whether the sum that this node belongs to contains a product, and the total of `f` over
    /// its quotients.
    fn count(&self, sum: &mut (bool, usize), f: fn(&Node) -> usize) {
        match self {
            Node::Combination { .. } => (),
            Node::Sum(a, b) => {
                a.count(sum, f);
                b.count(sum, f);
            }
            Node::Product { quotient, rest, .. } => {
                *sum = (true, sum.1 + f(quotient));
                if let Rest::Node(node) = rest {
                    node.count(sum, f);
                }
            }
            Node::Tail(even) => *sum = (true, sum.1 + f(even)),
        }
    }

    /// Adds the indices of all T_i that the node needs to `powers`.
    fn collect(&self, powers: &mut BTreeSet<usize>) {
        match self {
            Node::Combination { terms, .. } => terms.iter().for_each(|&(i, _)| need(i, powers)),
            Node::Sum(a, b) => {
                a.collect(powers);
                b.collect(powers);
            }
            Node::Product { quotient, giant, rest, .. } => {
                need(*giant, powers);
                quotient.collect(powers);
                if let Rest::Node(node) = rest {
                    node.collect(powers);
                }
            }
            Node::Tail(even) => even.collect(powers),
        }
    }

    /// Computes the node plus `terms` plus `constant` at `target`.
    fn run<A: SlotAlgebra>(
        &self,
        alg: &A,
        powers: &BTreeMap<usize, A::Vector>,
        terms: &[(f64, &A::Vector)],
        constant: f64,
        target: A::Target,
    ) -> Result<A::Vector, A::Error> {
        let mut sum = Sum { products: Vec::new(), terms: terms.to_vec(), constant };
        self.gather(alg, powers, target, &mut sum)?;
        let products: Vec<_> = sum.products.iter().map(|(q, giant, _)| (1, q, *giant)).collect();
        // The part quotient shift of quotient (T_giant + shift).
        let shifted = sum.products.iter().filter(|(_, _, shift)| *shift != 0.0);
        let terms: Vec<_> = sum.terms.into_iter().chain(shifted.map(|(q, _, shift)| (*shift, q))).collect();
        alg.sum_of_products(&products, &terms, sum.constant, target)
    }

    /// Adds the products and terms of the node to `sum`. `collect` has added every index to `powers`, so that
    /// the look-ups do not panic.
    fn gather<'a, A: SlotAlgebra>(
        &self,
        alg: &A,
        powers: &'a BTreeMap<usize, A::Vector>,
        target: A::Target,
        sum: &mut Sum<'a, A::Vector>,
    ) -> Result<(), A::Error> {
        let factor = |node: &Node, other: &'a A::Vector| {
            node.run(alg, powers, &[], 0.0, alg.factor_target(target, other))
        };
        match self {
            Node::Combination { terms, constant } => {
                sum.terms.extend(terms.iter().map(|&(i, c)| (c, &powers[&i])));
                sum.constant += constant;
            }
            Node::Sum(a, b) => {
                a.gather(alg, powers, target, sum)?;
                b.gather(alg, powers, target, sum)?;
            }
            Node::Product { quotient, giant, shift, rest } => {
                let giant = &powers[giant];
                sum.products.push((factor(quotient, giant)?, giant, *shift));
                match rest {
                    Rest::Constant(c) => sum.constant += c,
                    Rest::Node(node) => node.gather(alg, powers, target, sum)?,
                }
            }
            Node::Tail(even) => sum.products.push((factor(even, &powers[&1])?, &powers[&1], 0.0)),
        }
        Ok(())
    }
}

/// A sum that is relinearised and rescaled once: products `quotient (giant + shift)`, terms, and a constant.
struct Sum<'a, V> {
    products: Vec<(V, &'a V, f64)>,
    terms: Vec<(f64, &'a V)>,
    constant: f64,
}

/// Adds i, and the indices of the polynomials that T_i is computed from, to `powers`.
fn need(i: usize, powers: &mut BTreeSet<usize>) {
    if i > 1 && powers.insert(i) {
        parts(i).into_iter().for_each(|j| need(j, powers));
    }
}

/// A way to compute `p`, trimmed and not constant, in `budget` levels; `None` if the strategy has none.
fn build(p: &[f64], budget: usize, strategy: Strategy) -> Option<Node> {
    let degree = p.len() - 1;
    let small = |i: usize| i <= strategy.babies || i.is_power_of_two();
    if degree == 0 || depth_of(degree + 1) > budget {
        return None;
    }
    let listed = |p: &[f64]| -> Vec<(usize, f64)> {
        p.iter().copied().enumerate().skip(1).filter(|&(_, c)| c != 0.0).collect()
    };
    let terms = listed(p);
    if depth_of(degree) < budget && terms.iter().all(|&(i, _)| small(i)) {
        return Some(Node::Combination { terms, constant: p[0] });
    }
    if strategy.tails
        && is_odd(p)
        && degree > 1
        && let Some(even) = build(&over_t1(p), budget - 1, strategy)
    {
        return Some(Node::Tail(Box::new(even)));
    }
    let m = 1 << degree.ilog2();
    if degree == m {
        let mut rest = p[..m].to_vec();
        trim(&mut rest);
        let top = Node::Combination { terms: vec![(m, p[m])], constant: 0.0 };
        return Some(Node::Sum(Box::new(top), Box::new(build(&rest, budget, strategy)?)));
    }
    // T_{m+k} = 2 T_m T_k - T_{m-k}.
    let mut rest = p[..m].to_vec();
    let mut quotient = vec![p[m]];
    for k in 1..=degree - m {
        quotient.push(2.0 * p[m + k]);
        rest[m - k] -= p[m + k];
    }
    trim(&mut rest);
    let mut shift = 0.0;
    if strategy.shifts && rest.len() == quotient.len() {
        let ratio = rest[rest.len() - 1] / quotient[quotient.len() - 1];
        if ratio.abs() <= MAX_SHIFT {
            shift = ratio;
            rest.pop();
            for (r, q) in rest.iter_mut().zip(&quotient) {
                *r -= ratio * q;
            }
            trim(&mut rest);
        }
    }
    let rest = if rest.len() == 1 {
        Rest::Constant(rest[0])
    } else {
        Rest::Node(Box::new(build(&rest, budget, strategy)?))
    };
    Some(Node::Product { quotient: Box::new(build(&quotient, budget - 1, strategy)?), giant: m, shift, rest })
}

/// The even polynomial e with `T_1 e = p` for odd `p`, by `T_1 T_i = (T_{i+1} + T_{i-1})/2`.
fn over_t1(p: &[f64]) -> Vec<f64> {
    let mut even = vec![0.0; p.len() - 1];
    let mut above = 0.0;
    for i in (2..p.len() - 1).rev().step_by(2) {
        above = 2.0 * p[i + 1] - above;
        even[i] = above;
    }
    even[0] = p[1] - 0.5 * above;
    even
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clear;
    use testkit::worst_error;

    /// A polynomial with non-zero coefficients of all degrees, or of all odd degrees.
    fn sample(degree: usize, odd: bool) -> Chebyshev {
        let coefficients = (0..=degree)
            .map(|i| if odd && i % 2 == 0 { 0.0 } else { (1.0 + 0.3 * (i as f64).sin()) / (1.0 + i as f64) })
            .collect();
        Chebyshev::new(coefficients, -1.0, 1.0).unwrap()
    }

    /// Polynomials of every degree up to 63 are evaluated with exactly the stated depth and products, to f64
    /// precision.
    #[test]
    fn evaluates_at_the_least_depth() {
        for (degree, odd) in (0..64).map(|d| (d, false)).chain((1..64).step_by(2).map(|d| (d, true))) {
            let p = sample(degree, odd);
            let alg = Clear::new(64).unwrap();
            let x: Vec<f64> = (0..64).map(|k| -1.0 + 2.0 * f64::from(k) / 63.0).collect();
            let u = alg.fresh_real(&x, 9).unwrap();
            alg.reset_counts();
            let got = p.evaluate(&alg, &u).unwrap();
            assert_eq!(p.depth(), (0..).find(|k| 1 << k > degree).unwrap());
            assert_eq!(alg.level(&got), 9 - p.depth(), "degree {degree}");
            assert_eq!(alg.counts().products, p.products(), "degree {degree}");
            for (g, &x) in got.real().iter().zip(&x) {
                assert!((g - p.eval(x)).abs() < 1e-12, "degree {degree} odd {odd}");
            }
            if p.depth() > 0 {
                let shallow = alg.drop_to(&u, p.depth() - 1).unwrap();
                assert!(matches!(p.evaluate(&alg, &shallow), Err(Error::OutOfLevels { .. })));
            }
        }
    }

    /// Upper bounds on the products for the degrees in use. A constant term costs nothing.
    #[test]
    fn few_products() {
        for (degree, odd, most) in
            [(3, true, 2), (7, true, 4), (15, true, 7), (31, true, 12), (31, false, 13)]
        {
            let p = sample(degree, odd);
            assert!(p.products() <= most, "degree {degree}: {} products", p.products());
            assert_eq!(p.scaled(0.5, 0.5).unwrap().products(), p.products());
        }
    }

    #[test]
    fn interpolates() {
        let p = Chebyshev::interpolate(f64::exp, 15, -1.0, 3.0).unwrap();
        assert!(worst_error(|x| p.eval(x), f64::exp, [-1.0, 3.0], 1000) < 1e-8);
        assert!((p.scaled(2.0, 1.0).unwrap().eval(0.7) - 2.0 * 0.7f64.exp() - 1.0).abs() < 1e-7);
    }

    /// The largest error of the best approximation of sqrt on [0, 1] is 0.28017 / (2 degree), by Bernstein's
    /// constant for |x|, to 1 %.
    #[test]
    fn the_error_of_the_square_root_is_bernsteins() {
        for degree in [7, 15, 31, 63] {
            let basis: Vec<usize> = (0..=degree).collect();
            let shifted = |u: f64| (0.5 * (u + 1.0)).max(0.0).sqrt();
            let (root, stated) = Chebyshev::minimax(&basis, shifted, -1.0, 1.0).unwrap();
            let measured = worst_error(|z| root.eval(2.0 * z - 1.0), f64::sqrt, [0.0, 1.0], 20_000);
            let want = 0.280_169 / (2.0 * degree as f64);
            assert!((measured / want - 1.0).abs() < 0.01, "degree {degree}");
            assert!((stated / measured - 1.0).abs() < 1e-3, "degree {degree}");
        }
    }

    #[test]
    fn bad_polynomials_are_refused() {
        assert!(Chebyshev::new(vec![], 0.0, 1.0).is_err());
        assert!(Chebyshev::new(vec![1.0], 1.0, 1.0).is_err());
        assert!(Chebyshev::new(vec![f64::NAN], 0.0, 1.0).is_err());
        assert!(Chebyshev::new(vec![1.0; 2000], 0.0, 1.0).is_err());
        assert!(Chebyshev::interpolate(f64::ln, 2, -1.0, 1.0).is_err());
    }
}
