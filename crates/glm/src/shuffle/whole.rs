//! ShuffleGLM with all roles in one policy, for simulation.

use super::{Batch, BatchSums, Device, Estimator, ShuffleConfig};
use crate::error::{in_round, stored};
use crate::matrix::triangle;
use crate::mle::{self, Ellipsoid, Rows};
use crate::{Descent, Error, Symmetric, onto_ball};
use bandit::{Features, Learnt, Policy};
use privacy::PrivacyStatement;
use rand::Rng;
use serde::{Deserialize, Serialize};

/// The estimates change at the ends of batches only. Each person eliminates arms by the published estimates,
/// plays one of the others drawn by an optimal design, and answers in shuffled bits at the end of the batch.
///
/// - Features have norm up to 1, rewards lie in `[0, reward_max]`; the order within a batch has no effect.
/// - Privacy: [`ShuffleConfig::privacy`]. Rows never leave the devices; this simulation keeps them until the
///   end of their batch.
/// - Cost: O(M K d^2) and one optimal design per round; O(N n d) at the end of a batch of n people.
///
/// # Source
/// Sarmasarkar, "Shuffle and Joint Differential Privacy for Generalized Linear Contextual Bandits",
/// Algorithm 1. Departures: only the width in the first batch's metric has the root of kappa, as Lemma E.9
/// needs; the weight of a row is at most `L_mu`, which bounds the sensitivity for any data; bits have the
/// range `2 Delta`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "State")]
pub struct ShuffleGlm {
    config: ShuffleConfig,
    /// Computed from the configuration.
    #[serde(skip_serializing)]
    sums: Vec<BatchSums>,
    published: Vec<Batch>,
    /// The rows and weights of the current batch.
    rows: Rows,
    weights: Vec<f64>,
}

impl ShuffleGlm {
    /// The policy before any data.
    ///
    /// # Errors
    /// Those of [`ShuffleConfig::validate`].
    pub fn new(config: ShuffleConfig) -> Result<Self, Error> {
        let (sums, rows) = (config.sums()?, Rows::new(config.problem.d));
        Ok(Self { config, sums, published: Vec::new(), rows, weights: Vec::new() })
    }

    /// The configuration.
    pub fn config(&self) -> &ShuffleConfig {
        &self.config
    }

    /// The published values of the complete batches.
    pub fn published(&self) -> &[Batch] {
        &self.published
    }

    /// A device of the current batch.
    pub fn device(&self) -> Device<'_> {
        Device::of_sound(&self.config, &self.published)
    }

    /// Ends the current batch: sums the answers, and publishes metric and estimate.
    fn publish(&mut self, rng: &mut dyn Rng) -> Result<(), Error> {
        let c = &self.config;
        let (d, k, n) = (c.problem.d, self.published.len(), self.rows.len());
        let Some(BatchSums { matrix: summation, gradient, lambda: (lambda, lambda_max) }) = self.sums.get(k)
        else {
            return Err(bandit::Error::State { what: "a batch after the last" }.into());
        };
        let (lambda, lambda_max) = (*lambda, *lambda_max);
        let device = Device::of_sound(c, &self.published);
        let mut sum = Vec::with_capacity(triangle(d));
        let mut column = Vec::with_capacity(n);
        for (i, j) in (0..d).flat_map(|i| (i..d).map(move |j| (i, j))) {
            column.clear();
            let entry = |((x, _), w): ((&[f64], f64), &f64)| device.metric_entry(*w, x[i], x[j]);
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
                let rows = &self.rows;
                let mut factors = Vec::with_capacity(n);
                let noisy = |theta: &[f64], sum: &mut [f64]| -> Result<(), Error> {
                    factors.clear();
                    factors.extend(rows.iter().map(|(x, r)| device.factor(x, r, theta)));
                    for (i, sum) in sum.iter_mut().enumerate() {
                        column.clear();
                        let entry = |((x, _), f): ((&[f64], f64), &f64)| device.gradient_entry(*f, x[i]);
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
    /// Number of people of the current batch.
    fn open_batch(&self) -> Result<u64, bandit::Error> {
        let over = bandit::Error::HorizonOver { horizon: self.config.problem.horizon };
        self.config.batches.get(self.published.len()).copied().ok_or(over)
    }
}

impl Policy for ShuffleGlm {
    type Context = Features;
    type Feedback = f64;

    /// [`ShuffleConfig::privacy`]; no privacy if it cannot be stated.
    fn privacy(&self) -> PrivacyStatement {
        self.config.privacy().unwrap_or_else(|e| PrivacyStatement::none(e.to_string()))
    }

    fn learnt(&self) -> Learnt {
        super::last_estimate(&self.published)
    }

    /// # Errors
    /// Those of the trait; [`bandit::Error::HorizonOver`] after the last batch.
    fn decide(&mut self, set: &Features, rng: &mut dyn Rng) -> Result<usize, bandit::Error> {
        self.open_batch()?;
        self.device().choose(set, rng)
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
        self.weights.push(self.device().weight(x));
        self.rows.push(x, *reward).map_err(in_round)?;
        if self.rows.len() as u64 == size {
            self.publish(rng).map_err(in_round)?;
        }
        Ok(())
    }
}

#[derive(Deserialize)]
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
        let open = config.batches.get(published.len()).is_some_and(|&size| (rows.len() as u64) < size);
        let complete = published.len() == config.batches.len() && rows.is_empty();
        stored(
            published.iter().all(|b| b.is_sound(d))
                && rows.is_consistent(d)
                && weights.len() == rows.len()
                && weights.iter().all(|w| (0.0..=config.max_weight().max(1.0)).contains(w))
                && (open || complete),
        )?;
        Ok(Self { config, sums, published, rows, weights })
    }
}
