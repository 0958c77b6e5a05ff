//! A person's device: it chooses the arm from what is published, and answers with its own row.

use super::{Batch, ShuffleConfig};
use crate::descent::clipped;
use crate::design::argmax;
use crate::error::in_round;
use crate::matrix::dot;
use crate::{Design, Error};
use bandit::Features;
use rand::Rng;

/// What a device does in the batch after those that are published: a function of public knowledge and its own row.
///
/// [`ShuffleGlm`](super::ShuffleGlm) is all devices and the server in one; a service's devices do the same, each by itself.
#[derive(Debug, Clone, Copy)]
pub struct Device<'a> {
    config: &'a ShuffleConfig,
    published: &'a [Batch],
}

impl<'a> Device<'a> {
    /// Of a server that has `published` these.
    ///
    /// # Errors
    /// [`bandit::Error::State`] if they are not of the configuration's shape, or numbers are not finite;
    /// [`bandit::Error::HorizonOver`] if no batch follows.
    pub fn new(config: &'a ShuffleConfig, published: &'a [Batch]) -> Result<Self, Error> {
        if !published.iter().all(|batch| batch.is_sound(config.problem.d)) {
            return Err(bandit::Error::State { what: "estimates that do not fit the configuration" }.into());
        }
        if published.len() >= config.batches.len() {
            return Err(bandit::Error::HorizonOver { horizon: config.problem.horizon }.into());
        }
        Ok(Self::of_sound(config, published))
    }

    pub(super) fn of_sound(config: &'a ShuffleConfig, published: &'a [Batch]) -> Self {
        Self { config, published }
    }

    /// The arm to play: one of the [`survivors`](Self::survivors), drawn by an optimal design over them.
    ///
    /// # Errors
    /// [`bandit::Error::Shape`], [`bandit::Error::FeatureTooLong`]; whatever the design runs into.
    pub fn choose(&self, set: &Features, rng: &mut dyn Rng) -> Result<usize, bandit::Error> {
        self.config.problem.check(set)?;
        let alive = self.survivors(set);
        let arms: Vec<usize> = (0..set.k()).filter(|&a| alive[a]).collect();
        let mut points = Vec::with_capacity(arms.len() * set.d());
        for x in arms.iter().filter_map(|&a| set.row(a)) {
            let root = self.weight(x).sqrt();
            points.extend(x.iter().map(|v| v * root));
        }
        let design = Design::g_optimal(points.chunks_exact(set.d()), self.config.design_factor);
        Ok(arms[design.map_err(in_round)?.sample(rng)])
    }

    /// Which arms of `set` the published estimates leave, batch after batch; at least one.
    pub fn survivors(&self, set: &Features) -> Vec<bool> {
        let mut alive = vec![true; set.k()];
        let mut width = vec![0.0; set.k()];
        let mut estimate = width.clone();
        for (j, batch) in self.published.iter().enumerate() {
            for (x, (w, e)) in set.rows().zip(width.iter_mut().zip(&mut estimate)) {
                *w = self.config.width(j) * batch.inverse.norm(x);
                *e = dot(x, &batch.theta);
            }
            let lower = |a: usize| if alive[a] { estimate[a] - width[a] } else { f64::NEG_INFINITY };
            let best = argmax((0..set.k()).map(lower));
            let bar = lower(best);
            for (a, alive) in alive.iter_mut().enumerate() {
                // Rounding must not drop the arm that sets the bar.
                *alive = *alive && (a == best || estimate[a] + width[a] >= bar);
            }
        }
        alive
    }

    /// The weight of `x x^T` in the metric, at most `L_mu`; 1 in the first batch.
    pub fn weight(&self, x: &[f64]) -> f64 {
        let Some(first) = self.published.first() else { return 1.0 };
        let c = self.config;
        let shift = (2.0 * c.problem.s).min(c.width(0) * first.inverse.norm(x));
        let concordance = c.problem.link.self_concordance(c.reward_max, c.problem.s);
        let slope = c.problem.link.slope(dot(x, &first.theta)) / (concordance * shift).exp();
        slope.min(c.max_weight())
    }

    /// What the row of `x` adds to the metric: its upper triangle, row by row.
    pub fn metric(&self, x: &[f64]) -> Vec<f64> {
        let (weight, d) = (self.weight(x), x.len());
        let pairs = (0..d).flat_map(|i| (i..d).map(move |j| (i, j)));
        pairs.map(|(i, j)| self.metric_entry(weight, x[i], x[j])).collect()
    }

    /// What the row of `x` and its reward add to the gradient at `theta`.
    pub fn gradient(&self, x: &[f64], reward: f64, theta: &[f64]) -> Vec<f64> {
        let factor = self.factor(x, reward, theta);
        x.iter().map(|v| self.gradient_entry(factor, *v)).collect()
    }

    /// A norm of 1 up to rounding must not leave the range of the bits.
    pub(super) fn metric_entry(&self, weight: f64, a: f64, b: f64) -> f64 {
        let bound = if self.published.is_empty() { 1.0 } else { self.config.max_weight() };
        (weight * a * b).clamp(-bound, bound)
    }

    pub(super) fn factor(&self, x: &[f64], reward: f64, theta: &[f64]) -> f64 {
        clipped(self.config.problem.link, self.config.reward_max, x, reward, theta)
    }

    pub(super) fn gradient_entry(&self, factor: f64, a: f64) -> f64 {
        let bound = self.config.reward_max;
        (factor * a).clamp(-bound, bound)
    }
}
