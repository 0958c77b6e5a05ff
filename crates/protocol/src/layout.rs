//! The slot of each number.
//!
//! An arm has a block of F slots, two or four D × D squares ([`Shape::block`]). Slot h·D² + i·D + j of arm
//! a's block is written (a, h, i, j).
//!
//! ```text
//! contexts          (a, 0, i, j) = x_i x_j     (a, 1, 0, j) = x_j        else 0        period Ka·F
//! trace statistics  slot 2D² + i·D + j = x_i x_j                         else 0        period Ka·F
//! model             (h even, i, j) = A_ij      (h odd, 0, j) = ω_j       else 0        period 2D²
//! statistics        (k, 1, i, j) = x_i x_k/s   (k, 0, i, j) = r·x_i/s                  period 2D³, k < D
//! answer            (a, 0, 0, 0) = 1 if arm a wins                       else 0        period Ka·F
//! ```
//! The product of contexts plus trace statistics with the model, summed over each square, contains zₐ = xᵀAx
//! and uₐ = ⟨ω, x⟩ of every arm, and the trace ⟨A, Σxxᵀ⟩. If blocks have two squares, slot 2D² is the first
//! one of the block of arm 1; trace statistics, and hence the trace, are then imaginary.

use crate::{BanditConfig, Error, PackedPlan, Plan, Shape};
use num_complex::Complex64;

/// The slots of the vectors of one bandit, and of its answers.
#[derive(Debug, Clone)]
pub struct Layout {
    shape: Shape,
    features: usize,
    arms: usize,
    bound: f64,
    design_scale: f64,
}

impl Layout {
    /// The layout of a bandit with this configuration and plan.
    pub fn new(config: &BanditConfig, plan: &Plan) -> Self {
        Layout {
            shape: Shape::for_problem(config.linear.d, config.linear.k),
            features: config.linear.d,
            arms: config.linear.k,
            bound: config.linear.l,
            design_scale: plan.design_scale,
        }
    }

    /// The layout of model and statistics of a bandit with packed decisions.
    pub fn of_packed(config: &BanditConfig, plan: &PackedPlan) -> Self {
        Layout {
            shape: Shape::for_problem(config.linear.d, config.linear.k),
            features: config.linear.d,
            arms: config.linear.k,
            bound: config.linear.l,
            design_scale: plan.design_scale,
        }
    }

    /// The contexts: xxᵀ and x of each arm, from one row of features for each arm.
    ///
    /// # Errors
    /// [`Error::ArmCount`], [`Error::FeatureCount`], [`Error::NotANumber`], [`Error::NormAboveBound`].
    pub fn contexts(&self, rows: &[Vec<f64>]) -> Result<Vec<Complex64>, Error> {
        if rows.len() != self.arms {
            return Err(Error::ArmCount { got: rows.len(), want: self.arms });
        }
        // All rows are checked before slots are filled, because slots contain features.
        rows.iter().enumerate().try_for_each(|(arm, x)| self.check(arm + 1, x))?;
        let (square, dim) = (self.shape.square(), self.shape.dim);
        let mut out = vec![Complex64::ZERO; self.shape.decision_slots()];
        for (a, x) in rows.iter().enumerate() {
            let block = &mut out[a * self.shape.block()..];
            for (i, xi) in x.iter().enumerate() {
                for (j, xj) in x.iter().enumerate() {
                    block[i * dim + j].re = xi * xj;
                }
                block[square + i].re = *xi;
            }
        }
        Ok(out)
    }

    /// The statistics of one feedback: xxᵀ/s, which is added to V/s, and r·x/s, which is added to g/s.
    ///
    /// # Errors
    /// [`Error::FeatureCount`], [`Error::NotANumber`], [`Error::NormAboveBound`] (row 1);
    /// [`Error::RewardOutOfRange`].
    pub fn statistics(&self, features: &[f64], reward: f64) -> Result<Vec<Complex64>, Error> {
        self.check(1, features)?;
        if !(-1.0..=1.0).contains(&reward) {
            return Err(Error::RewardOutOfRange);
        }
        let moment: Vec<f64> = features.iter().map(|x| reward * x).collect();
        Ok(self.statistics_of(|i, k| features[i] * features[k], |i| moment[i], self.features))
    }

    /// The initial statistics of a server: V/s with V = λI, and g = 0.
    pub fn ridge(&self, lambda: f64) -> Vec<Complex64> {
        // Padded dimensions have λ too, so that V can be inverted.
        self.statistics_of(|i, k| if i == k { lambda } else { 0.0 }, |_| 0.0, self.shape.dim)
    }

    fn statistics_of(
        &self,
        design: impl Fn(usize, usize) -> f64,
        moment: impl Fn(usize) -> f64,
        d: usize,
    ) -> Vec<Complex64> {
        let (dim, square) = (self.shape.dim, self.shape.square());
        let mut out = vec![Complex64::ZERO; self.shape.update_slots()];
        for (k, pair) in out.chunks_exact_mut(2 * square).enumerate() {
            for i in 0..d {
                for j in 0..dim {
                    pair[i * dim + j].re = moment(i) / self.design_scale;
                    if k < d {
                        pair[square + i * dim + j].re = design(i, k) / self.design_scale;
                    }
                }
            }
        }
        out
    }

    /// The trace statistics: xxᵀ in the slots of the trace condition.
    ///
    /// # Errors
    /// [`Error::FeatureCount`], [`Error::NotANumber`], [`Error::NormAboveBound`] (row 1).
    pub fn trace_features(&self, features: &[f64]) -> Result<Vec<Complex64>, Error> {
        self.check(1, features)?;
        let (dim, square, unit) = (self.shape.dim, self.shape.square(), self.shape.trace_unit());
        let mut out = vec![Complex64::ZERO; self.shape.decision_slots()];
        for (i, xi) in features.iter().enumerate() {
            for (j, xj) in features.iter().enumerate() {
                out[2 * square + i * dim + j] = unit * xi * xj;
            }
        }
        Ok(out)
    }

    /// The model, A_ij and ω_j.
    pub fn model(&self, a: impl Fn(usize, usize) -> f64, omega: impl Fn(usize) -> f64) -> Vec<Complex64> {
        let (dim, square) = (self.shape.dim, self.shape.square());
        let mut out = vec![Complex64::ZERO; 2 * square];
        for i in 0..dim {
            for j in 0..dim {
                out[i * dim + j].re = a(i, j);
            }
            out[square + i].re = omega(i);
        }
        out
    }

    /// The entry of each arm in a decrypted answer.
    pub fn action_values(&self, slots: &[Complex64]) -> Vec<f64> {
        (0..self.arms).map(|a| slots[a * self.shape.block()].re).collect()
    }

    /// The arm to play, which has the largest entry; the first one if several are equal.
    pub fn action(&self, slots: &[Complex64]) -> usize {
        let values = self.action_values(slots);
        (0..values.len()).fold(0, |best, a| if values[a] > values[best] { a } else { best })
    }

    /// Refuses features outside the bounds, which nobody can check after encryption. Rows are numbered from
    /// 1.
    fn check(&self, row: usize, x: &[f64]) -> Result<(), Error> {
        check_features(row, x, self.features, self.bound)
    }
}

/// Refuses anything but `features` numbers with a norm of at most `bound`.
pub(crate) fn check_features(row: usize, x: &[f64], features: usize, bound: f64) -> Result<(), Error> {
    if x.len() != features {
        return Err(Error::FeatureCount { row, got: x.len(), want: features });
    }
    if let Some(i) = x.iter().position(|v| !v.is_finite()) {
        return Err(Error::NotANumber { row, column: i + 1 });
    }
    // Rows that were scaled to norm L may be a few ulps longer.
    if x.iter().map(|v| v * v).sum::<f64>().sqrt() > bound * (1.0 + 1e-9) {
        return Err(Error::NormAboveBound { row, bound });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers for blocks of four squares and of two: devices of every version must agree on them.
    #[test]
    fn vectors_are_where_the_table_says() {
        let i = Complex64::I;
        for (arms, block, unit) in [(3, 16 * 4, Complex64::ONE), (32, 256 * 2, i)] {
            let features = if arms == 3 { 3 } else { 16 };
            let shape = Shape::for_problem(features, arms);
            let config = BanditConfig::new(features, arms);
            let params = ckks::LOGN16_LOGQP1130_DEPTH22.validate().unwrap();
            let layout = Layout::new(&config, &config.plan(&params, shape).unwrap());
            let mut x = vec![0.0; features];
            (x[1], x[2]) = (0.6, -0.8);
            let trace = layout.trace_features(&x).unwrap();
            let d = shape.dim;
            let want = [(d + 1, 0.36), (d + 2, -0.48), (2 * d + 1, -0.48), (2 * d + 2, 0.64)];
            for (slot, value) in trace.iter().enumerate() {
                let here = want.iter().find(|(at, _)| 2 * d * d + at == slot).map_or(0.0, |(_, v)| *v);
                assert!((value - unit * here).norm() < 1e-12, "{arms} arms, slot {slot}: {value}");
            }
            let mut rows = vec![vec![0.0; features]; arms];
            rows[2] = x;
            let contexts = layout.contexts(&rows).unwrap();
            let linear = [(d * d + 1, 0.6), (d * d + 2, -0.8)];
            for (slot, value) in contexts.iter().enumerate() {
                let here = want.iter().chain(&linear).find(|(at, _)| 2 * block + at == slot);
                let here = here.map_or(0.0, |(_, v)| *v);
                assert!((value - here).norm() < 1e-12, "{arms} arms, slot {slot}: {value}");
            }
        }
    }
}
