use nalgebra::{DMatrix, DVector};
use protocol::BanditConfig;

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
    model: (DMatrix<f64>, DVector<f64>),
}

impl ClearTwin {
    /// A twin without feedback: A = I/λ and ω = 0.
    pub fn new(config: BanditConfig) -> Self {
        let d = config.linear.d;
        let design = DMatrix::identity(d, d) * config.linear.lambda;
        let model = (DMatrix::identity(d, d) / config.linear.lambda, DVector::zeros(d));
        ClearTwin { config, design, moment: DVector::zeros(d), history: Vec::new(), used: 0, model }
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
        let feedbacks = feedbacks as usize;
        if feedbacks > self.used {
            for (x, r) in &self.history[self.used..feedbacks] {
                self.design += x * x.transpose();
                self.moment += x * *r;
            }
            self.used = feedbacks;
            // λI + Σ xxᵀ is positive definite.
            let inverse =
                self.design.clone().cholesky().map(|c| c.inverse()).unwrap_or_else(|| self.model.0.clone());
            let omega = &inverse * &self.moment;
            self.model = (inverse, omega);
        }
        let linear = &self.config.linear;
        let bonus = linear.bonus(round, feedbacks as u64, linear.c1(feedbacks as u64));
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
