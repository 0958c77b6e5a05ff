use super::{finite, observed};
use crate::error::stored;
use crate::{Error, Problem, Symmetric};
use bandit::vector::{argmax, dot, norm};
use bandit::{Features, Learnt, Policy};
use privacy::PrivacyStatement;
use rand::Rng;
use serde::{Deserialize, Serialize};

privacy::stored! {
    /// GLOC: one online Newton step per round, and the confidence set that follows from its online regret.
    ///
    /// Cost: O(K d^2 + d^3) per round.
    ///
    /// # Source
    /// Jun, Bhargava, Nowak and Willett, "Scalable generalized linear bandits: online computation and
    /// hashing", 2017, with `lambda = d`. Departures: those of [`as_published`](Self::as_published).
    #[derive(Debug, Clone)]
    pub struct Gloc {
        config: Problem,
        as_published: bool,
        state: Statistics,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Statistics {
    round: u64,
    a: Symmetric,
    a_inverse: Symmetric,
    /// The online iterate.
    theta: Vec<f64>,
    /// `sum z x` and `sum z^2` over the predictions `z` of the iterates.
    moment: Vec<f64>,
    squares: f64,
    /// `B`, the bound on the online regret.
    regret: f64,
}

impl Gloc {
    /// The policy of the source: a ridge estimate on the predictions, with optimism in `<x, theta>`.
    ///
    /// # Errors
    /// Those of [`Problem::validate`].
    pub fn new(config: Problem) -> Result<Self, Error> {
        config.validate()?;
        let (d, s, k) = (config.d, config.s, 1.0 / config.kappa);
        let lambda = d as f64;
        let state = Statistics {
            round: 0,
            a: Symmetric::identity(d, lambda),
            a_inverse: Symmetric::identity(d, 1.0 / lambda),
            theta: vec![0.0; d],
            moment: vec![0.0; d],
            squares: 0.0,
            regret: 2.0 * k * s * s * lambda,
        };
        Ok(Self { config, as_published: false, state })
    }

    /// The variant of the published experiments. It scales the iterate to norm `s`, which uses that the
    /// parameter has that norm, and plays the index `mu(<x, theta>) + radius ||x||` of the iterate.
    ///
    /// # Errors
    /// Those of [`Problem::validate`].
    pub fn as_published(config: Problem) -> Result<Self, Error> {
        Ok(Self { as_published: true, ..Self::new(config)? })
    }

    /// Radius and centre of the confidence set.
    fn confidence(&self) -> (f64, Vec<f64>) {
        let Problem { d, link, s, kappa, delta, .. } = self.config;
        let k = 1.0 / kappa;
        let state = &self.state;
        let q = if self.as_published { link.max_slope(s).powi(2) } else { 0.5 };
        let ratio = q / k;
        let inner = 1.0 + 2.0 * state.regret / k + 4.0 * (ratio * ratio / delta).powi(2);
        let common = 1.0 + 4.0 * state.regret / k + 8.0 * ratio * ratio * (2.0 / delta * inner.sqrt()).ln();
        if self.as_published {
            return (common.sqrt(), state.theta.clone());
        }
        let centre = state.a_inverse.times(&state.moment);
        let squared = common + d as f64 * s * s - (state.squares - dot(&centre, &state.moment));
        (squared.max(0.0).sqrt(), centre)
    }

    fn step(&mut self, x: &[f64], reward: f64) {
        let Problem { link, s, kappa, .. } = self.config;
        let state = &mut self.state;
        state.round += 1;
        let z = dot(x, &state.theta);
        let g = link.mean(z) - reward;
        state.a.add_outer(1.0, x);
        state.a_inverse.sherman_morrison(1.0, x);
        let direction = state.a_inverse.times(x);
        state.regret += 0.5 * kappa * g * g * dot(x, &direction);
        state.squares += z * z;
        state.moment.iter_mut().zip(x).for_each(|(m, x)| *m += z * x);
        state.theta.iter_mut().zip(&direction).for_each(|(t, v)| *t -= g * kappa * v);
        if norm(&state.theta) > s {
            state.theta = onto_ball_in(&state.a, &state.theta, s);
        }
        let length = norm(&state.theta);
        if self.as_published && length > 0.0 {
            state.theta.iter_mut().for_each(|t| *t *= s / length);
        }
    }

    /// Refuses statistics that do not fit the configuration.
    fn check_stored(&self) -> Result<(), Error> {
        self.config.validate()?;
        let (d, state) = (self.config.d, &self.state);
        let vectors = [&state.theta, &state.moment];
        stored(
            state.round <= self.config.horizon
                && state.a.d() == d
                && state.a_inverse.d() == d
                && vectors.iter().all(|v| v.len() == d && finite(v))
                && finite(&[state.squares, state.regret]),
        )
    }
}

/// The point of the ball of radius `s` that is nearest to a point `y` outside it in the metric `a`: `(a + nu
/// I)^-1 a y`, with the multiplier `nu` by bisection.
fn onto_ball_in(a: &Symmetric, y: &[f64], s: f64) -> Vec<f64> {
    let eigen = a.eigen();
    let b = eigen.eigenvectors.tr_mul(&nalgebra::DVector::from_column_slice(y));
    let shrink = |nu: f64| b.zip_map(&eigen.eigenvalues, |b, w| b * w / (w + nu));
    let (mut low, mut high) = (0.0, 1.0);
    while shrink(high).norm() > s && high < 1e300 {
        (low, high) = (high, 2.0 * high);
    }
    loop {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            return (&eigen.eigenvectors * shrink(high)).as_slice().to_vec();
        }
        *(if shrink(middle).norm() > s { &mut low } else { &mut high }) = middle;
    }
}

impl Policy for Gloc {
    type Context = Features;
    type Feedback = f64;

    fn privacy(&self) -> PrivacyStatement {
        PrivacyStatement::none("Exact statistics decide every arm.")
    }

    /// The centre of the confidence set.
    fn learnt(&self) -> Learnt {
        Learnt { theta: Some(self.confidence().1), ..Learnt::default() }
    }

    /// # Errors
    /// Those of the trait; [`bandit::Error::HorizonOver`] after round T.
    fn decide(&mut self, set: &Features, _: &mut dyn Rng) -> Result<usize, bandit::Error> {
        self.config.admit(self.state.round)?;
        self.config.check(set)?;
        let (radius, centre) = self.confidence();
        let estimate = |x: &[f64]| {
            let z = dot(x, &centre);
            if self.as_published { self.config.link.mean(z) } else { z }
        };
        Ok(argmax(set.rows().map(|x| estimate(x) + radius * self.state.a_inverse.norm(x))))
    }

    fn learn(&mut self, set: &Features, arm: usize, r: &f64, _: &mut dyn Rng) -> Result<(), bandit::Error> {
        self.config.admit(self.state.round)?;
        let x = observed(&self.config, set, arm, *r)?;
        self.step(x, *r);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The projection lies on the sphere, and its residual's gradient is radial: the conditions of
    /// optimality.
    #[test]
    fn projection_is_optimal() {
        let a = Symmetric::new(2, vec![5.0, 1.0, 1.0, 2.0]).unwrap();
        let y = [3.0, -2.0];
        let p = onto_ball_in(&a, &y, 1.5);
        assert!((norm(&p) - 1.5).abs() < 1e-12);
        let gradient = a.times(&[y[0] - p[0], y[1] - p[1]]);
        assert!((gradient[0] * p[1] - gradient[1] * p[0]).abs() < 1e-9 && dot(&gradient, &p) > 0.0);
    }
}
