//! Optimal designs: distributions over arms that minimise the largest leverage.

use crate::{Error, Symmetric};
use bandit::Features;
use bandit::vector::{argmax, dot};
use nalgebra::DMatrix;
use rand::{Rng, RngExt};

/// A distribution over finitely many points, with its largest leverage.
#[derive(Debug, Clone, PartialEq)]
pub struct Design {
    /// Probability of each point.
    pub weights: Vec<f64>,
    /// Dimension of the points' span.
    pub rank: usize,
    /// Largest leverage `x^T V(pi)^-1 x` over the points, in the span; at least `rank`, with equality at the
    /// optimum (Kiefer and Wolfowitz 1960). It is computed from the final weights.
    pub max_leverage: f64,
}

impl Design {
    /// A design that is G-optimal up to a factor: the largest leverage is at most `factor * rank`.
    ///
    /// Frank and Wolfe steps of exact length from the uniform design (Fedorov 1972), in coordinates of the
    /// span. Cost: O(n d^2), and O(n d) per step.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless `factor > 1`, [`Error::Dimension`] without points or for a point of other
    /// length than the first, [`Error::NotFinite`], [`Error::NoConvergence`].
    pub fn g_optimal<'a>(points: impl IntoIterator<Item = &'a [f64]>, factor: f64) -> Result<Self, Error> {
        crate::error::field("factor", factor, factor > 1.0, "above 1")?;
        let points: Vec<&[f64]> = points.into_iter().collect();
        let Some(d) = points.first().map(|p| p.len()).filter(|&d| d > 0) else {
            return Err(Error::Dimension { field: "points", got: 0, want: 1 });
        };
        for p in &points {
            if p.len() != d {
                return Err(Error::Dimension { field: "points", got: p.len(), want: d });
            }
            if !p.iter().all(|v| v.is_finite()) {
                return Err(Error::NotFinite { field: "points" });
            }
        }
        let z = Span::of(&points, d);
        let weights = z.weights(factor)?;
        let max_leverage = z.leverages(&weights)?.1.into_iter().fold(0.0, f64::max);
        Ok(Self { weights, rank: z.rank, max_leverage })
    }

    /// Draws the position of a point.
    pub fn sample(&self, rng: &mut dyn Rng) -> usize {
        let mut u = rng.random::<f64>() * self.weights.iter().sum::<f64>();
        let past = self.weights.iter().position(|w| {
            u -= w;
            u < 0.0
        });
        // If rounding leaves no position, the last point of positive weight is taken.
        past.or_else(|| self.weights.iter().rposition(|&w| w > 0.0)).unwrap_or(0)
    }
}

privacy::stored! {
    /// A design for random arm sets: the mixture, in equal parts, of the G-optimal design of the given set
    /// and of several softmax rules learnt from sample sets.
    ///
    /// If the sets are i.i.d. the expectation of the largest leverage is O(d log d), against O(d^2) for the
    /// G-optimal design of each set.
    ///
    /// # Source
    /// Ruan, Yang and Xu, "Linear bandits with limited adaptivity and learning distributional optimal
    /// design", 2021 (mixed-softmax policy). Departure: the exponent is `ln K`, the ridge is an argument, and
    /// no core of the sample is computed first, so the bound holds for samples without exceptional sets.
    #[derive(Debug, Clone, PartialEq)]
    pub struct DistributionalDesign {
        /// The weight of each rule, and the matrix `M` of its probabilities, which are proportional to
        /// `(x^T M x)^(ln K)`.
        rules: Vec<(f64, Symmetric)>,
    }
}

impl DistributionalDesign {
    /// Learns the rules from `passes` passes over the sets in `sample`, from `ridge` times the identity.
    ///
    /// Each visit of a set adds its point of largest leverage to the information matrix. A new rule begins
    /// when the determinant of that matrix has doubled. The weight of a rule is its share of the visits.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless `ridge` is positive and `passes` is at least 1; [`Error::Dimension`]
    /// without sets or for a set of other dimension than the first; [`Error::NotPositive`] if the information
    /// matrix is not positive definite in double precision.
    pub fn learn(sample: &[Features], ridge: f64, passes: usize) -> Result<Self, Error> {
        crate::error::field("ridge", ridge, ridge > 0.0, "positive")?;
        crate::error::field("passes", passes as f64, passes > 0, "at least 1")?;
        let d =
            sample.first().map(Features::d).ok_or(Error::Dimension { field: "sample", got: 0, want: 1 })?;
        if let Some(got) = sample.iter().map(Features::d).find(|&got| got != d) {
            return Err(Error::Dimension { field: "sample", got, want: d });
        }
        let total = (sample.len() * passes) as f64;
        let positive = || Error::NotPositive { field: "design" };
        let mut design = Symmetric::identity(d, ridge);
        let mut rule = design.inverse().ok_or_else(positive)?;
        let mut start = design.log_det().ok_or_else(positive)?;
        let (mut rules, mut visits) = (Vec::new(), 0.0);
        for set in std::iter::repeat_n(sample, passes).flatten() {
            let best = argmax(set.rows().map(|x| rule.quadratic_form(x)));
            design.add_outer(1.0, set.row(best).unwrap_or(&[]));
            visits += 1.0;
            let now = design.log_det().ok_or_else(positive)?;
            if now > start + std::f64::consts::LN_2 {
                rules.push((visits / total, rule));
                (start, visits) = (now, 0.0);
                rule = design.inverse().ok_or_else(positive)?;
            }
        }
        rules.push((visits / total, rule));
        Ok(Self { rules })
    }

    fn check_stored(&self) -> Result<(), Error> {
        let d = self.rules.first().map(|(_, m)| m.d());
        let fits = |(weight, m): &(f64, Symmetric)| (0.0..=1.0).contains(weight) && Some(m.d()) == d;
        crate::error::stored(d.is_some() && self.rules.iter().all(fits))
    }

    /// The probability of each arm of `set`.
    ///
    /// # Errors
    /// Those of [`Design::g_optimal`]; [`Error::Dimension`] if the dimension is not that of the sample.
    pub fn on(&self, set: &Features) -> Result<Design, Error> {
        let want = self.rules.first().map_or(0, |(_, m)| m.d());
        if set.d() != want {
            return Err(Error::Dimension { field: "set", got: set.d(), want });
        }
        let mut design = Design::g_optimal(set.rows(), 2.0)?;
        design.weights.iter_mut().for_each(|w| *w *= 0.5);
        let exponent = (set.k() as f64).ln();
        for (weight, m) in &self.rules {
            let power = |x: &[f64]| m.quadratic_form(x).max(0.0).powf(exponent);
            let sum: f64 = set.rows().map(power).sum();
            for (w, x) in design.weights.iter_mut().zip(set.rows()) {
                let p = if sum > 0.0 { power(x) / sum } else { 1.0 / set.k() as f64 };
                *w += 0.5 * weight * p;
            }
        }
        let points: Vec<&[f64]> = set.rows().collect();
        let (_, q) = Span::of(&points, set.d()).leverages(&design.weights)?;
        design.max_leverage = q.into_iter().fold(0.0, f64::max);
        Ok(design)
    }
}

/// Points in an orthonormal basis of their span.
struct Span {
    rank: usize,
    rows: Vec<f64>,
    n: usize,
}

impl Span {
    fn of(points: &[&[f64]], d: usize) -> Self {
        let n = points.len();
        let matrix = DMatrix::from_row_iterator(n, d, points.iter().flat_map(|p| p.iter().copied()));
        let svd = matrix.svd(false, true);
        let floor = 1e-9 * svd.singular_values.max();
        let basis: Vec<Vec<f64>> = match &svd.v_t {
            Some(v_t) => (0..svd.singular_values.len())
                .filter(|&i| svd.singular_values[i] > floor)
                .map(|i| v_t.row(i).iter().copied().collect())
                .collect(),
            None => Vec::new(), // asked for above
        };
        let rows = points.iter().flat_map(|p| basis.iter().map(move |b| dot(b, p))).collect();
        Self { rank: basis.len(), rows, n }
    }

    fn row(&self, i: usize) -> &[f64] {
        &self.rows[i * self.rank..][..self.rank]
    }

    /// The inverse of `V(weights)` and each point's leverage.
    fn leverages(&self, weights: &[f64]) -> Result<(Symmetric, Vec<f64>), Error> {
        if self.rank == 0 {
            return Ok((Symmetric::identity(1, 0.0), vec![0.0; self.n]));
        }
        let mut v = Symmetric::identity(self.rank, 0.0);
        (0..self.n).for_each(|i| v.add_outer(weights[i], self.row(i)));
        let inverse = v.inverse().ok_or(Error::NotPositive { field: "design" })?;
        let q = (0..self.n).map(|i| inverse.quadratic_form(self.row(i))).collect();
        Ok((inverse, q))
    }

    fn weights(&self, factor: f64) -> Result<Vec<f64>, Error> {
        const STEPS: usize = 100_000;
        let (n, r) = (self.n, self.rank as f64);
        let mut weights = vec![1.0 / n as f64; n];
        if self.rank <= 1 {
            // On a line the longest point is optimal. The step below would divide by zero.
            if self.rank == 1 {
                weights.fill(0.0);
                weights[argmax((0..n).map(|i| self.row(i)[0].abs()))] = 1.0;
            }
            return Ok(weights);
        }
        let (mut inverse, mut q) = self.leverages(&weights)?;
        for _ in 0..STEPS {
            let j = argmax(q.iter().copied());
            if q[j] <= factor * r {
                return Ok(weights);
            }
            let a = (q[j] / r - 1.0) / (q[j] - 1.0);
            let y = inverse.times(self.row(j));
            let shrink = a / (1.0 - a + a * q[j]);
            for (i, q) in q.iter_mut().enumerate() {
                *q = (*q - shrink * dot(self.row(i), &y).powi(2)) / (1.0 - a);
            }
            inverse.add_outer(-shrink, &y);
            inverse.scale(1.0 / (1.0 - a));
            weights.iter_mut().for_each(|w| *w *= 1.0 - a);
            weights[j] += a;
        }
        Err(Error::NoConvergence { what: "the G-optimal design", steps: STEPS })
    }
}
