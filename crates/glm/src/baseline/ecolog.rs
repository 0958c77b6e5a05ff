use super::{finite, observed};
use crate::error::stored;
use crate::{Error, Link, Problem, Symmetric};
use bandit::vector::{argmax, dot, norm};
use bandit::{Features, Learnt, Policy};
use fault::require;
use privacy::PrivacyStatement;
use rand::Rng;
use serde::{Deserialize, Serialize};

privacy::stored! {
    /// ECOLog, for the logistic link: one exact proximal step per round, and confidence widths in the metric
    /// of the true curvature.
    ///
    /// Cost: O(K d^2) per round; O(d^3) if the minimiser lies on the ball.
    ///
    /// # Source
    /// Faury, Abeille, Jun and Calauzenes, "Jointly efficient and optimal algorithms for logistic bandits",
    /// 2022, with the parameters of the published experiments: `lambda = 10`, and the squared radius `2
    /// lambda S^2 + (1 + S)^2 g_t + c`, where `c` has norms in place of their squares.
    #[derive(Debug, Clone)]
    pub struct Ecolog {
        config: Problem,
        state: Statistics,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Statistics {
    round: u64,
    w: Symmetric,
    w_inverse: Symmetric,
    theta: Vec<f64>,
    /// The part of the squared radius that depends on data.
    correction: f64,
}

const LAMBDA: f64 = 10.0;

impl Ecolog {
    /// The policy before any data.
    ///
    /// # Errors
    /// Those of [`Problem::validate`]; [`Error::OutOfRange`] for a link that is not logistic.
    pub fn new(config: Problem) -> Result<Self, Error> {
        config.validate()?;
        require(config.link == Link::Logistic, "link", config.link as u8 as f64, "logistic (0)")?;
        let d = config.d;
        let state = Statistics {
            round: 0,
            w: Symmetric::identity(d, LAMBDA),
            w_inverse: Symmetric::identity(d, 1.0 / LAMBDA),
            theta: vec![0.0; d],
            correction: 0.0,
        };
        Ok(Self { config, state })
    }

    /// The estimate.
    pub fn theta(&self) -> &[f64] {
        &self.state.theta
    }

    fn radius(&self) -> f64 {
        let Problem { s, delta, .. } = self.config;
        let t = self.state.round as f64 + 1.0;
        let growth = LAMBDA.sqrt() / 2.0
            + 2.0 * (2.0 * (1.0 + t / (4.0 * LAMBDA)).sqrt() / delta).ln() / LAMBDA.sqrt();
        (2.0 * LAMBDA * s * s + (1.0 + s).powi(2) * growth + self.state.correction).max(0.0).sqrt()
    }

    fn step(&mut self, x: &[f64], reward: f64) -> Result<(), bandit::Error> {
        let s = self.config.s;
        let state = &mut self.state;
        let link = Link::Logistic;
        let gradient = |u: f64| link.mean(u) - reward;
        let theta = proximal(&state.w, &state.w_inverse, &state.theta, x, s, gradient)?;
        // The same step from the new point with the gradient `2 mean - 1`, which gives the point at which the
        // curvature could be largest.
        let bar = proximal(&state.w, &state.w_inverse, &theta, x, s, |u| 2.0 * link.mean(u) - 1.0)?;
        let (u, u_bar) = (dot(x, &theta), dot(x, &bar));
        let difference: Vec<f64> = theta.iter().zip(&bar).map(|(a, b)| a - b).collect();
        state.correction += 2.0 * (1.0 + s) * (link.loss(u_bar, reward) - link.loss(u, reward))
            - 0.5 * state.w.norm(&difference);
        let slope = link.slope(u);
        state.w.add_outer(slope, x);
        state.w_inverse.sherman_morrison(slope, x);
        state.theta = theta;
        state.round += 1;
        Ok(())
    }

    /// Refuses statistics that do not fit the configuration.
    fn check_stored(&self) -> Result<(), Error> {
        let (d, state) = (Self::new(self.config.clone())?.config.d, &self.state);
        let shapes = state.w.d() == d && state.w_inverse.d() == d && state.theta.len() == d;
        let counts = state.round <= self.config.horizon;
        stored(shapes && counts && finite(&state.theta) && finite(&[state.correction]))
    }
}

/// Minimises `1/2 ||theta - centre||^2_W + f(<x, theta>)` over the ball of radius `s`, `gradient = f'`
/// increasing.
fn proximal(
    w: &Symmetric,
    w_inverse: &Symmetric,
    centre: &[f64],
    x: &[f64],
    s: f64,
    gradient: impl Fn(f64) -> f64,
) -> Result<Vec<f64>, bandit::Error> {
    let free = on_line(w_inverse, centre, x, &gradient);
    if norm(&free) <= s {
        return Ok(free);
    }
    // With the multiplier nu of the ball, the problem has the metric W + nu I and the centre (W + nu I)^-1 W
    // c.
    let target = w.times(centre);
    let solve = |nu: f64| -> Result<Vec<f64>, bandit::Error> {
        let mut shifted = w.clone();
        shifted.add_diagonal(nu);
        let inverse = shifted.inverse().ok_or(bandit::Error::Overflow)?;
        Ok(on_line(&inverse, &inverse.times(&target), x, &gradient))
    };
    let (mut low, mut high) = (0.0, 1.0);
    while norm(&solve(high)?) > s && high < 1e300 {
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..50 {
        let middle = 0.5 * (low + high);
        let outside = norm(&solve(middle)?) > s;
        *(if outside { &mut low } else { &mut high }) = middle;
    }
    solve(high)
}

/// The minimiser without the constraint: `centre - g W^-1 x`, where `g = f'(u)` at its own `u = <x, theta>`.
fn on_line(w_inverse: &Symmetric, centre: &[f64], x: &[f64], gradient: impl Fn(f64) -> f64) -> Vec<f64> {
    let direction = w_inverse.times(x);
    let (start, q) = (dot(x, centre), dot(x, &direction));
    // u solves u + q f'(u) = start. The left side increases in u, and |f'| <= 1.
    let (mut low, mut high) = (start - q, start + q);
    for _ in 0..60 {
        let u = 0.5 * (low + high);
        *(if u + q * gradient(u) > start { &mut high } else { &mut low }) = u;
    }
    let g = gradient(0.5 * (low + high));
    centre.iter().zip(&direction).map(|(c, v)| c - g * v).collect()
}

impl Policy for Ecolog {
    type Context = Features;
    type Feedback = f64;

    fn privacy(&self) -> PrivacyStatement {
        PrivacyStatement::none("Exact statistics decide every arm.")
    }

    fn learnt(&self) -> Learnt {
        Learnt { theta: Some(self.theta().to_vec()), ..Learnt::default() }
    }

    /// # Errors
    /// Those of the trait; [`bandit::Error::HorizonOver`] after round T.
    fn decide(&mut self, set: &Features, _: &mut dyn Rng) -> Result<usize, bandit::Error> {
        self.config.admit(self.state.round)?;
        self.config.check(set)?;
        let radius = self.radius();
        let state = &self.state;
        let index = |x: &[f64]| Link::Logistic.mean(dot(x, &state.theta)) + radius * state.w_inverse.norm(x);
        Ok(argmax(set.rows().map(index)))
    }

    fn learn(&mut self, set: &Features, arm: usize, r: &f64, _: &mut dyn Rng) -> Result<(), bandit::Error> {
        self.config.admit(self.state.round)?;
        let x = observed(&self.config, set, arm, *r)?;
        self.step(x, *r)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The proximal step meets the optimality conditions, inside the ball and on its edge.
    #[test]
    fn proximal_steps_are_optimal() {
        let w = Symmetric::new(2, vec![3.0, 1.0, 1.0, 2.0]).unwrap();
        let (inverse, x, centre) = (w.inverse().unwrap(), [0.6, 0.8], [0.9, 0.3]);
        let gradient = |u: f64| Link::Logistic.mean(u) - 1.0;
        for s in [2.0, 0.7] {
            let p = proximal(&w, &inverse, &centre, &x, s, gradient).unwrap();
            let pull = w.times(&[p[0] - centre[0], p[1] - centre[1]]);
            let g = gradient(dot(&x, &p));
            let total = [pull[0] + g * x[0], pull[1] + g * x[1]];
            if s > 1.0 {
                assert!(norm(&total) < 1e-12 && norm(&p) < s);
            } else {
                assert!((norm(&p) - s).abs() < 1e-9);
                assert!((total[0] * p[1] - total[1] * p[0]).abs() < 1e-9 && dot(&total, &p) < 0.0);
            }
        }
    }
}
