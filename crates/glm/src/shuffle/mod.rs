//! ShuffleGLM: few batches, and nothing but shuffled messages leaves a person's device.

mod config;
mod sum;

pub use config::{BatchSums, Estimator, Protection, ShuffleConfig, batch_sizes};
pub use sum::Summation;

use crate::design::argmax;
use crate::error::in_round;
use crate::matrix::{dot, triangle};
use crate::mle::{self, Ellipsoid, Rows};
use crate::{Descent, Design, Error, Symmetric, onto_ball};
use bandit::{Features, Policy};
use privacy::PrivacyStatement;
use rand::Rng;
use serde::{Deserialize, Serialize};

/// Within a batch the policy stands still: every person drops the arms that the published estimates rule out, draws
/// one of the rest by an optimal design, and answers in shuffled bits when the batch ends.
///
/// - Features have norm up to 1, rewards lie in `[0, reward_max]`; the order within a batch does not matter.
/// - Privacy: [`ShuffleConfig::privacy`]. Rows stay with the people: here they are kept until their batch has answered.
/// - Cost: O(M K d^2) and one optimal design a round; O(N n d) at the end of a batch of n.
///
/// # Source
/// Sarmasarkar, "Shuffle and Joint Differential Privacy for Generalized Linear Contextual Bandits", Algorithm 1.
/// Departures: widths have the root of kappa in the first batch's metric only, as Lemma E.9 needs; the weight of a row
/// is cut off at `L_mu`, so that sensitivity holds whatever the data; bits have the range `2 Delta`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "State", into = "State")]
pub struct ShuffleGlm {
    config: ShuffleConfig,
    /// Follows from the configuration.
    sums: Vec<BatchSums>,
    published: Vec<Batch>,
    /// The devices of the batch in progress.
    rows: Rows,
    weights: Vec<f64>,
}

/// What a batch has published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// Estimate from the rows of this batch.
    pub theta: Vec<f64>,
    /// `V` of the first batch, `H_k` of the others, with `lambda I`.
    pub metric: Symmetric,
    /// Its inverse.
    pub inverse: Symmetric,
}

impl ShuffleGlm {
    /// Without data.
    ///
    /// # Errors
    /// Those of [`ShuffleConfig::validate`].
    pub fn new(config: ShuffleConfig) -> Result<Self, Error> {
        let (sums, rows) = (config.sums()?, Rows::new(config.problem.d));
        Ok(Self { config, sums, published: Vec::new(), rows, weights: Vec::new() })
    }

    /// [`ShuffleConfig::privacy`]; none where it cannot be stated.
    pub fn privacy(&self) -> PrivacyStatement {
        self.config.privacy().unwrap_or_else(|e| PrivacyStatement::none(e.to_string()))
    }

    /// The configuration.
    pub fn config(&self) -> &ShuffleConfig {
        &self.config
    }

    /// What the batches so far have published.
    pub fn published(&self) -> &[Batch] {
        &self.published
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
        let c = &self.config;
        let shift = (2.0 * c.problem.s).min(c.width(0) * first.inverse.norm(x));
        let concordance = c.problem.link.self_concordance(c.reward_max, c.problem.s);
        let slope = c.problem.link.slope(dot(x, &first.theta)) / (concordance * shift).exp();
        slope.min(c.max_weight())
    }

    fn design(&self, set: &Features) -> Result<(Vec<usize>, Design), Error> {
        let alive = self.survivors(set);
        let arms: Vec<usize> = (0..set.k()).filter(|&a| alive[a]).collect();
        let mut points = Vec::with_capacity(arms.len() * set.d());
        for x in arms.iter().filter_map(|&a| set.row(a)) {
            let root = self.weight(x).sqrt();
            points.extend(x.iter().map(|v| v * root));
        }
        let design = Design::g_optimal(points.chunks_exact(set.d()), self.config.design_factor)?;
        Ok((arms, design))
    }

    /// Collects the answers of the batch.
    fn publish(&mut self, rng: &mut dyn Rng) -> Result<(), Error> {
        let c = &self.config;
        let (d, k, n) = (c.problem.d, self.published.len(), self.rows.len());
        let Some(BatchSums { matrix: summation, gradient, lambda: (lambda, lambda_max) }) = self.sums.get(k)
        else {
            return Err(bandit::Error::State { what: "a batch after the last" }.into());
        };
        let (lambda, lambda_max) = (*lambda, *lambda_max);
        let bound = if k == 0 { 1.0 } else { c.max_weight() };
        let mut sum = Vec::with_capacity(triangle(d));
        let mut column = Vec::with_capacity(n);
        for (i, j) in (0..d).flat_map(|i| (i..d).map(move |j| (i, j))) {
            column.clear();
            // A norm of 1 up to rounding must not leave the range of the bits.
            let entry = |((x, _), w): ((&[f64], f64), &f64)| (w * x[i] * x[j]).clamp(-bound, bound);
            column.extend(self.rows.iter().zip(&self.weights).map(entry));
            sum.push(summation.sum(&column, rng)?);
        }
        let mut metric = Symmetric::from_upper(d, &sum);
        metric.add_diagonal(lambda);
        let metric = if summation.sd() > 0.0 { metric.floored(lambda / 4.0) } else { metric };
        let inverse = metric.inverse().ok_or(Error::NotPositive { field: "metric" })?;
        let theta = match c.estimator {
            Estimator::Exact => {
                let (centre, ball) = (vec![0.0; d], Symmetric::identity(d, 1.0));
                let ball = Ellipsoid { centre: &centre, metric: &ball, radius: c.problem.s };
                mle::fit_in(c.problem.link, &self.rows, lambda_max, &ball, &centre)?
            }
            Estimator::Descent { steps } => {
                let descent = Descent::paper(steps, c.reward_max, c.problem.s, lambda_max, n as f64);
                let (rows, bound) = (&self.rows, c.reward_max);
                let mut factors = Vec::with_capacity(n);
                let noisy = |theta: &[f64], sum: &mut [f64]| -> Result<(), Error> {
                    factors.clear();
                    factors.extend(rows.iter().map(|(x, r)| descent.gradient(c.problem.link, x, r, theta)));
                    for (i, sum) in sum.iter_mut().enumerate() {
                        column.clear();
                        let entry = |((x, _), f): ((&[f64], f64), &f64)| (f * x[i]).clamp(-bound, bound);
                        column.extend(rows.iter().zip(&factors).map(entry));
                        *sum = gradient.sum(&column, rng)?;
                    }
                    Ok(())
                };
                descent.run(d, n as f64, noisy, onto_ball(c.problem.s))?
            }
        };
        self.published.push(Batch { theta, metric, inverse });
        self.rows.clear();
        self.weights.clear();
        Ok(())
    }
}

impl ShuffleGlm {
    /// People of the batch under way.
    fn open_batch(&self) -> Result<u64, bandit::Error> {
        let over = bandit::Error::HorizonOver { horizon: self.config.problem.horizon };
        self.config.batches.get(self.published.len()).copied().ok_or(over)
    }
}

impl Policy for ShuffleGlm {
    type Context = Features;
    type Feedback = f64;

    /// Besides the usual: [`bandit::Error::HorizonOver`] after the last batch.
    fn decide(&mut self, set: &Features, rng: &mut dyn Rng) -> Result<usize, bandit::Error> {
        self.open_batch()?;
        self.config.problem.check(set)?;
        let (arms, design) = self.design(set).map_err(in_round)?;
        Ok(arms[design.sample(rng)])
    }

    fn learn(
        &mut self,
        set: &Features,
        arm: usize,
        reward: &f64,
        rng: &mut dyn Rng,
    ) -> Result<(), bandit::Error> {
        let c = &self.config;
        c.problem.check(set)?;
        c.problem.link.check(c.reward_max, *reward)?;
        let x = set.row(arm).ok_or(bandit::Error::Arm { arm, k: c.problem.k })?;
        let size = self.open_batch()?;
        self.weights.push(self.weight(x));
        self.rows.push(x, *reward).map_err(in_round)?;
        if self.rows.len() as u64 == size {
            self.publish(rng).map_err(in_round)?;
        }
        Ok(())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    config: ShuffleConfig,
    published: Vec<Batch>,
    rows: Rows,
    weights: Vec<f64>,
}

impl TryFrom<State> for ShuffleGlm {
    type Error = Error;
    fn try_from(State { config, published, rows, weights }: State) -> Result<Self, Error> {
        let (d, sums) = (config.problem.d, config.sums()?);
        let batch = |b: &Batch| {
            b.theta.len() == d
                && b.theta.iter().all(|v| v.is_finite())
                && [&b.metric, &b.inverse].iter().all(|m| m.d() == d && m.is_finite())
        };
        let open = config.batches.get(published.len()).is_some_and(|&size| (rows.len() as u64) < size);
        let complete = published.len() == config.batches.len() && rows.is_empty();
        if !(published.iter().all(batch)
            && rows.is_consistent(d)
            && weights.len() == rows.len()
            && weights.iter().all(|w| (0.0..=config.max_weight().max(1.0)).contains(w))
            && (open || complete))
        {
            let what = "statistics that do not fit the configuration or each other";
            return Err(bandit::Error::State { what }.into());
        }
        Ok(Self { config, sums, published, rows, weights })
    }
}

impl From<ShuffleGlm> for State {
    fn from(ShuffleGlm { config, published, rows, weights, .. }: ShuffleGlm) -> Self {
        Self { config, published, rows, weights }
    }
}
