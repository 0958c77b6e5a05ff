//! Regularised maximum likelihood by damped Newton steps, and projections onto balls and ellipsoids.

use crate::{Error, Link, Symmetric};
use bandit::vector::{dot, norm};
use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};

/// Observations. A row has the features and the reward of one of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rows {
    d: usize,
    x: Vec<f64>,
    r: Vec<f64>,
}

impl Rows {
    /// No observations, of dimension `d >= 1`.
    pub fn new(d: usize) -> Self {
        Self { d, x: Vec::new(), r: Vec::new() }
    }

    /// Adds one observation.
    ///
    /// # Errors
    /// [`Error::Dimension`], [`Error::NotFinite`].
    pub fn push(&mut self, x: &[f64], r: f64) -> Result<(), Error> {
        if x.len() != self.d {
            return Err(Error::Dimension { field: "x", got: x.len(), want: self.d });
        }
        if !r.is_finite() || !x.iter().all(|v| v.is_finite()) {
            return Err(Error::NotFinite { field: "row" });
        }
        self.x.extend_from_slice(x);
        self.r.push(r);
        Ok(())
    }

    /// Features and reward of each observation.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[f64], f64)> {
        self.x.chunks_exact(self.d).zip(self.r.iter().copied())
    }

    /// Number of observations.
    pub fn len(&self) -> usize {
        self.r.len()
    }

    /// Whether there are no observations.
    pub fn is_empty(&self) -> bool {
        self.r.is_empty()
    }

    /// Dimension of the features.
    pub fn d(&self) -> usize {
        self.d
    }

    pub(crate) fn clear(&mut self) {
        self.x.clear();
        self.r.clear();
    }

    pub(crate) fn is_consistent(&self, d: usize) -> bool {
        self.d == d
            && self.r.len().checked_mul(d) == Some(self.x.len())
            && self.x.iter().chain(&self.r).all(|v| v.is_finite())
    }
}

/// The sum of the losses of `rows` at `theta`, plus `lambda/2 ||theta||^2`.
pub fn loss(link: Link, rows: &Rows, lambda: f64, theta: &[f64]) -> f64 {
    rows.iter().map(|(x, r)| link.loss(dot(x, theta), r)).sum::<f64>() + 0.5 * lambda * dot(theta, theta)
}

/// The minimiser of [`loss`] by damped Newton steps from `start`, with the Armijo constant 1e-4.
///
/// # Errors
/// [`Error::OutOfRange`] for `lambda`, [`Error::Dimension`] for `start`, [`Error::NoConvergence`].
pub fn fit(link: Link, rows: &Rows, lambda: f64, start: &[f64]) -> Result<Vec<f64>, Error> {
    crate::error::field("lambda", lambda, lambda > 0.0, "positive")?;
    newton(link, rows, lambda, None, start)
}

/// The minimiser of [`loss`] over the ellipsoid, with the multiplier of the constraint by bisection.
///
/// # Errors
/// Those of [`fit`] and [`Ellipsoid::project`].
pub fn fit_in(
    link: Link,
    rows: &Rows,
    lambda: f64,
    ellipsoid: &Ellipsoid<'_>,
    start: &[f64],
) -> Result<Vec<f64>, Error> {
    let mut theta = fit(link, rows, lambda, start)?;
    if ellipsoid.distance(&theta) <= ellipsoid.radius {
        return Ok(theta);
    }
    let (mut low, mut high) = (0.0, 1.0);
    // The minimiser at `low` is outside the ellipsoid, that at `high` inside.
    for _ in 0..200 {
        theta = newton(link, rows, lambda, Some((high, ellipsoid)), &theta)?;
        if ellipsoid.distance(&theta) <= ellipsoid.radius {
            break;
        }
        (low, high) = (high, 4.0 * high);
    }
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        theta = newton(link, rows, lambda, Some((middle, ellipsoid)), &theta)?;
        let inside = ellipsoid.distance(&theta) <= ellipsoid.radius;
        *(if inside { &mut high } else { &mut low }) = middle;
    }
    ellipsoid.project(&newton(link, rows, lambda, Some((high, ellipsoid)), &theta)?)
}

/// The ellipsoid `||theta - centre||_metric <= radius` of a positive definite metric.
#[derive(Debug, Clone, Copy)]
pub struct Ellipsoid<'a> {
    /// Centre.
    pub centre: &'a [f64],
    /// Metric `V`.
    pub metric: &'a Symmetric,
    /// Radius, positive.
    pub radius: f64,
}

impl Ellipsoid<'_> {
    /// `||theta - centre||_metric`.
    pub fn distance(&self, theta: &[f64]) -> f64 {
        let difference: Vec<f64> = theta.iter().zip(self.centre).map(|(a, b)| a - b).collect();
        self.metric.norm(&difference)
    }

    /// The nearest point of the ellipsoid in Euclidean distance. With `V = U diag(w) U^T` and `b = U^T (y -
    /// c)`, the multiplier `nu` solves `sum w b^2 / (1 + nu w)^2 = radius^2`, by bisection.
    ///
    /// # Errors
    /// [`Error::Dimension`], [`Error::OutOfRange`] for the radius, [`Error::NotPositive`].
    pub fn project(&self, y: &[f64]) -> Result<Vec<f64>, Error> {
        let d = self.metric.d();
        for (field, got) in [("y", y.len()), ("centre", self.centre.len())] {
            if got != d {
                return Err(Error::Dimension { field, got, want: d });
            }
        }
        crate::error::field("radius", self.radius, self.radius > 0.0, "positive")?;
        if self.distance(y) <= self.radius {
            return Ok(y.to_vec());
        }
        let eigen = self.metric.eigen();
        if eigen.eigenvalues.min() <= 0.0 {
            return Err(Error::NotPositive { field: "metric" });
        }
        let difference = DVector::from_iterator(d, y.iter().zip(self.centre).map(|(a, b)| a - b));
        let b = eigen.eigenvectors.tr_mul(&difference);
        let excess = |nu: f64| -> f64 {
            let term = |(w, b): (&f64, &f64)| w * b * b / ((1.0 + nu * w) * (1.0 + nu * w));
            eigen.eigenvalues.iter().zip(b.iter()).map(term).sum::<f64>() - self.radius * self.radius
        };
        let (mut low, mut high) = (0.0, 1.0);
        while excess(high) > 0.0 && high < 1e300 {
            (low, high) = (high, 2.0 * high);
        }
        loop {
            let middle = 0.5 * (low + high);
            if middle <= low || middle >= high {
                break;
            }
            *(if excess(middle) > 0.0 { &mut low } else { &mut high }) = middle;
        }
        let shrunk = DVector::from_iterator(
            d,
            b.iter().zip(eigen.eigenvalues.iter()).map(|(b, w)| b / (1.0 + high * w)),
        );
        Ok((&eigen.eigenvectors * shrunk).iter().zip(self.centre).map(|(v, c)| v + c).collect())
    }
}

/// Projects `theta` onto the ball of radius `s`.
pub fn project_ball(theta: &mut [f64], s: f64) {
    let length = norm(theta);
    if length > s {
        theta.iter_mut().for_each(|v| *v *= s / length);
    }
}

/// The minimiser of the losses plus `lambda/2 ||theta||^2 + nu/2 ||theta - c||_V^2`.
fn newton(
    link: Link,
    rows: &Rows,
    lambda: f64,
    pull: Option<(f64, &Ellipsoid<'_>)>,
    start: &[f64],
) -> Result<Vec<f64>, Error> {
    const STEPS: usize = 200;
    let d = rows.d;
    if start.len() != d {
        return Err(Error::Dimension { field: "start", got: start.len(), want: d });
    }
    let value = |theta: &[f64]| {
        loss(link, rows, lambda, theta) + pull.map_or(0.0, |(nu, e)| 0.5 * nu * e.distance(theta).powi(2))
    };
    let mut theta = start.to_vec();
    let mut now = value(&theta);
    let mut hessian = DMatrix::<f64>::zeros(d, d);
    let mut gradient = DVector::<f64>::zeros(d);
    let mut next = vec![0.0; d];
    for _ in 0..STEPS {
        hessian.fill(0.0);
        hessian.fill_diagonal(lambda);
        gradient.copy_from_slice(&theta);
        gradient *= lambda;
        for (x, r) in rows.iter() {
            let z = dot(x, &theta);
            let (residual, slope) = (link.mean(z) - r, link.slope(z));
            for (j, xj) in x.iter().enumerate() {
                gradient[j] += residual * xj;
                // The Cholesky factorisation reads the lower triangle only.
                for (i, xi) in x.iter().enumerate().skip(j) {
                    hessian[(i, j)] += slope * xi * xj;
                }
            }
        }
        if let Some((nu, e)) = pull {
            let metric = e.metric.dense();
            let difference = DVector::from_iterator(d, theta.iter().zip(e.centre).map(|(a, b)| a - b));
            hessian += &metric * nu;
            gradient += metric * difference * nu;
        }
        let step =
            hessian.clone().cholesky().ok_or(Error::NotPositive { field: "hessian" })?.solve(&gradient);
        let slope = step.dot(&gradient);
        // Near the minimum the decrease is below the rounding of the loss, but Newton's step is still
        // accurate.
        let resolution = 1e-10 * (1.0 + now.abs());
        let mut scale = 1.0;
        let after = loop {
            for ((n, t), s) in next.iter_mut().zip(&theta).zip(step.iter()) {
                *n = t - scale * s;
            }
            let after = value(&next);
            if after <= now - 1e-4 * scale * slope || slope < resolution {
                break after;
            }
            scale *= 0.5;
            if scale < 1e-12 {
                return Err(Error::NoConvergence { what: "line search", steps: 40 });
            }
        };
        theta.copy_from_slice(&next);
        if slope < resolution {
            return Ok(theta);
        }
        now = after;
    }
    Err(Error::NoConvergence { what: "Newton's method", steps: STEPS })
}
