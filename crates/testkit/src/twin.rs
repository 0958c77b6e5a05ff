use bandit::WeightedSums;
use nalgebra::{DMatrix, DVector};
use protocol::BanditConfig;
use std::convert::Infallible;

/// The exact twin of a bandit: inverse, square root and argmax in `f64`, on the feedbacks that the encrypted
/// model in use was made of.
#[derive(Debug, Clone)]
pub struct ClearTwin {
    config: BanditConfig,
    design: DMatrix<f64>,
    moment: DVector<f64>,
    history: Vec<(DVector<f64>, f64)>,
    /// Feedbacks in design, moment and model.
    used: usize,
    /// The feedbacks up to the last end of a batch, and the sums of batches, if old feedback counts less.
    past: Option<(u64, WeightedSums<Sum>)>,
    model: (DMatrix<f64>, DVector<f64>),
}

/// Σ xxᵀ and Σ r·x.
type Sum = (DMatrix<f64>, DVector<f64>);

impl ClearTwin {
    /// A twin without feedback: A = I/λ and ω = 0.
    pub fn new(config: BanditConfig) -> Self {
        let d = config.linear.d;
        let design = DMatrix::identity(d, d) * config.linear.lambda;
        let model = (DMatrix::identity(d, d) / config.linear.lambda, DVector::zeros(d));
        let past = config.forgetting().map(|forgetting| (0, WeightedSums::new(forgetting)));
        ClearTwin { config, design, moment: DVector::zeros(d), history: Vec::new(), used: 0, past, model }
    }

    /// Appends the features of the arm played and its reward. They enter the model when a decision asks for
    /// them.
    pub fn learn(&mut self, features: &[f64], reward: f64) {
        self.history.push((DVector::from_column_slice(features), reward));
    }

    /// The number of feedbacks learnt.
    pub fn feedbacks(&self) -> u64 {
        self.history.len() as u64
    }

    /// A and ω of the last decision.
    pub fn model(&self) -> (&DMatrix<f64>, &DVector<f64>) {
        (&self.model.0, &self.model.1)
    }

    /// The arm with the largest index in `round`, and of equal ones the one that the public order prefers,
    /// with a model of the first `feedbacks` feedbacks. That number never becomes smaller.
    pub fn arm(&mut self, rows: &[Vec<f64>], round: u64, feedbacks: u64) -> usize {
        let values = self.indices(rows, round, feedbacks);
        self.config.linear.preferred(&values, 1e-12, round)
    }

    /// The optimistic indices that [`Self::arm`] compares, ⟨ω, x⟩ and the bonus of xᵀAx, one a row of
    /// features; −∞ of a closed arm, whose row is empty.
    pub fn indices(&mut self, rows: &[Vec<f64>], round: u64, feedbacks: u64) -> Vec<f64> {
        let (feedbacks, d) = (feedbacks as usize, self.config.linear.d);
        if feedbacks > self.used {
            let mut open: Sum = (DMatrix::zeros(d, d), DVector::zeros(d));
            for (number, (x, r)) in self.history[..feedbacks].iter().enumerate().skip(self.used) {
                open.0 += x * x.transpose();
                open.1 += x * *r;
                let number = number as u64 + 1;
                let Some((closed, sums)) = &mut self.past else { continue };
                // Feedback that came while a model was on its way ends a batch with it.
                if self.config.linear.batch_ends_publicly(number, *closed) || number == feedbacks as u64 {
                    let batch = std::mem::replace(&mut open, (DMatrix::zeros(d, d), DVector::zeros(d)));
                    let _: Result<_, Infallible> = sums.end_batch(number, batch, |sum, batch| {
                        (sum.0, sum.1) = (&sum.0 + batch.0, &sum.1 + batch.1);
                        Ok(())
                    });
                    *closed = number;
                }
            }
            self.design += open.0;
            self.moment += open.1;
            if let Some((_, sums)) = &self.past {
                self.design = DMatrix::identity(d, d) * self.config.linear.lambda;
                self.moment.fill(0.0);
                let one = f64::from(1u32 << sums.forgetting().log_weight());
                for ((design, moment), weight) in sums.iter() {
                    self.design += design * (f64::from(weight) / one);
                    self.moment += moment * (f64::from(weight) / one);
                }
            }
            self.used = feedbacks;
            // λI + Σ xxᵀ is positive definite.
            let inverse =
                self.design.clone().cholesky().map(|c| c.inverse()).unwrap_or_else(|| self.model.0.clone());
            let omega = &inverse * &self.moment;
            self.model = (inverse, omega);
        }
        let linear = &self.config.linear;
        let effective = self.config.effective(feedbacks as u64);
        let bonus = linear.bonus(round, effective, linear.c1(effective));
        let index = |x: &Vec<f64>| {
            if x.is_empty() {
                return f64::NEG_INFINITY;
            }
            let x = DVector::from_column_slice(x);
            self.model.1.dot(&x) + bonus.of((x.transpose() * &self.model.0 * &x)[0])
        };
        rows.iter().map(index).collect()
    }
}
