//! The curator, which is the only code with access to data: its inputs are rows, its outputs noisy sums.

use super::billboard::Billboard;
use super::config::{Estimate, JointConfig, Region, Release};
use crate::descent::{Descent, onto_ball};
use crate::lbfgs;
use crate::matrix::triangle;
use crate::mle::{self, Ellipsoid, Rows};
use crate::noise::Gaussian;
use crate::{Error, Symmetric};
use privacy::gauss::GaussianNoise;
use privacy::tree::Tree;
use rand::Rng;
use serde::{Deserialize, Serialize};

/// The rows of both data sets, and the tree. The fields are private to this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Curator {
    warm_up: Rows,
    running: Rows,
    explorations: u64,
    tree: Tree,
}

impl Curator {
    pub(super) fn new(c: &JointConfig) -> Result<Self, Error> {
        Ok(Self {
            warm_up: Rows::new(c.problem.d),
            running: Rows::new(c.problem.d),
            explorations: 0,
            tree: Tree::new(c.tree_sigmas(), c.problem.horizon)?,
        })
    }

    /// Adds one round, and publishes the prefixes after it.
    pub(super) fn observe(
        &mut self,
        c: &JointConfig,
        billboard: &mut Billboard,
        explored: bool,
        x: &[f64],
        reward: f64,
        rng: &mut dyn Rng,
    ) -> Result<(), Error> {
        let w_max = c.largest_h_weight();
        let mut v = Symmetric::identity(c.problem.d, 0.0);
        let mut h = v.clone();
        if explored {
            let scale =
                if c.published.scaled_leaf { 1.0 + billboard.v_inverse.quadratic_form(x) } else { 1.0 };
            v.add_outer(1.0 / scale, x);
        } else {
            let slope = c.problem.link.slope(bandit::vector::dot(x, &billboard.warm_up));
            h.add_outer((slope / std::f64::consts::E / w_max).min(1.0), x);
        }
        let mut leaf = Vec::with_capacity(2 * triangle(c.problem.d) + 1);
        v.push_coordinates(&mut leaf);
        h.push_coordinates(&mut leaf);
        leaf.push(f64::from(explored));
        let edge = triangle(c.problem.d);
        self.tree.add(&leaf, &mut c.tree_noise()?, rng)?;
        let prefix = self.tree.prefix();
        if explored {
            self.warm_up.push(x, reward)?;
            self.explorations += 1;
        }
        if !explored || c.published.shared_rows {
            self.running.push(x, reward)?;
        }
        let with_lambda = |mut m: Symmetric| {
            m.add_diagonal(c.lambda);
            if matches!(c.release, Release::Exact) { m } else { m.floored(c.lambda / 4.0) }
        };
        let v = with_lambda(Symmetric::from_coordinates(c.problem.d, &prefix[..edge]));
        let mut h = Symmetric::from_coordinates(c.problem.d, &prefix[edge..2 * edge]);
        h.scale(w_max);
        billboard.advance(c, v, with_lambda(h), prefix[2 * edge])
    }

    /// Whether the number of explorations is a power of two. The answer has no noise.
    pub(super) fn explorations_are_a_power_of_two(&self) -> bool {
        self.explorations.is_power_of_two()
    }

    /// The warm-up estimate over the ball of radius S.
    pub(super) fn warm_up_estimate(
        &self,
        c: &JointConfig,
        billboard: &Billboard,
        rng: &mut dyn Rng,
    ) -> Result<Vec<f64>, Error> {
        match c.estimate {
            Estimate::Exact { lambda } => mle::fit(c.problem.link, &self.warm_up, lambda, &billboard.warm_up),
            Estimate::Published { lambda } => {
                let running = billboard.running.iter().flat_map(|r| &r.theta).chain(std::iter::repeat(&0.0));
                let start: Vec<f64> =
                    billboard.warm_up.iter().zip(running).map(|(a, b)| 0.5 * (a + b)).collect();
                let fitted = lbfgs::fit(c.problem.link, &self.warm_up, lambda, &start);
                Ok(fitted.unwrap_or_else(|| billboard.warm_up.clone()))
            }
            Estimate::Descent { descent, sigma_warm_up, discrete, .. } => {
                let noise = c.sum_noise(&descent, "sigma_warm_up", sigma_warm_up, discrete)?;
                let noisy = noisy_sums(c, &descent, &self.warm_up, sigma_warm_up, noise, rng);
                descent.run(c.problem.d, billboard.explorations.max(1.0), noisy, onto_ball(c.problem.s))
            }
        }
    }

    /// The running estimate over the [`Region`].
    pub(super) fn running_estimate(
        &self,
        c: &JointConfig,
        billboard: &Billboard,
        rng: &mut dyn Rng,
    ) -> Result<Vec<f64>, Error> {
        let radius = c.gamma * c.problem.kappa.sqrt();
        let ellipsoid = Ellipsoid { centre: &billboard.warm_up, metric: &billboard.v, radius };
        match (c.estimate, c.region) {
            (Estimate::Exact { lambda }, Region::Ellipsoid) => {
                mle::fit_in(c.problem.link, &self.running, lambda, &ellipsoid, &billboard.warm_up)
            }
            (Estimate::Exact { lambda }, Region::Ball) => {
                let (centre, metric) = (vec![0.0; c.problem.d], Symmetric::identity(c.problem.d, 1.0));
                let ball = Ellipsoid { centre: &centre, metric: &metric, radius: c.problem.s };
                mle::fit_in(c.problem.link, &self.running, lambda, &ball, &billboard.warm_up)
            }
            (Estimate::Published { lambda }, _) => {
                let last = billboard.running.as_ref().map_or(&billboard.warm_up, |r| &r.theta);
                let fitted = lbfgs::fit(c.problem.link, &self.running, lambda, last);
                Ok(fitted.unwrap_or_else(|| last.clone()))
            }
            (Estimate::Descent { descent, sigma_running, discrete, .. }, region) => {
                let n = billboard.running_rows(c).max(1.0);
                let noise = c.sum_noise(&descent, "sigma_running", sigma_running, discrete)?;
                let noisy = noisy_sums(c, &descent, &self.running, sigma_running, noise, rng);
                match region {
                    Region::Ball => descent.run(c.problem.d, n, noisy, onto_ball(c.problem.s)),
                    Region::Ellipsoid => descent.run(c.problem.d, n, noisy, |theta| {
                        *theta = ellipsoid.project(theta)?;
                        Ok(())
                    }),
                }
            }
        }
    }

    pub(super) fn is_consistent(&self, c: &JointConfig, rounds: u64) -> bool {
        let d = c.problem.d;
        self.tree.fits(&c.tree_sigmas(), c.problem.horizon)
            && self.warm_up.is_consistent(d)
            && self.running.is_consistent(d)
            && self.warm_up.len() as u64 == self.explorations
            && (self.warm_up.len() + self.running.len()) as u64
                == rounds + if c.published.shared_rows { self.explorations } else { 0 }
            && self.tree.items() == rounds
    }
}

/// The noisy gradient sums of `rows`, through which a descent accesses them.
fn noisy_sums(
    c: &JointConfig,
    descent: &Descent,
    rows: &Rows,
    sigma: f64,
    mut gaussian: Gaussian,
    rng: &mut dyn Rng,
) -> impl FnMut(&[f64], &mut [f64]) -> Result<(), Error> {
    move |theta, sum| {
        for (x, r) in rows.iter() {
            let factor = descent.gradient(c.problem.link, x, r, theta);
            // Each row is rounded to the grid, on which sums are exact: the sums of neighbours then differ by
            // the values of one row only.
            for (s, x) in sum.iter_mut().zip(x) {
                *s += gaussian.round(factor * x)?;
            }
        }
        if sigma > 0.0 {
            for s in sum.iter_mut() {
                *s += gaussian.draw(sigma, rng)?;
            }
        }
        Ok(())
    }
}
