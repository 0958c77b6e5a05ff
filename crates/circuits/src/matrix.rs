//! The inverse of a matrix by coupled Newton iteration, one ciphertext product a step.
//!
//! Layout, D a power of two: slot `k 2D^2 + h D^2 + i D + j` is written (k, h, i, j), h in {0, 1}; the pattern repeats
//! with period 2D^3, a divisor of the number of slots.
//!
//! | symbol | here | slots |
//! |---|---|---|
//! | S = \[X \| M\] | state | (k, 0, i, j) = X_ij, (k, 1, i, j) = M_ij for every k |
//! | V | design, [`Newton::design_slots`] | (k, 1, i, j) = V_ik for every j, 0 at h = 0 |
//! | g | moment, [`Newton::moment_slots`] | (k, 0, i, j) = g_i for every k and j, 0 at h = 1 |
//! | \[A \| omega\] | model, [`Newton::model_slots`] | (k, 0, i, j) = A_ij, (k, 1, 0, j) = omega_j, 0 elsewhere |
//!
//! A step is `[X (2I - M) | M (2I - M)] = sum_k left(S)[k] right(S)[k]` with `left(S)[k, h, i, j] = S_h[i, k]` and
//! `right(S)[k, h, i, j] = (2I - M)[k, j]`: one linear transform each, one product, log2 D rotations. A factor beside
//! each step, which the right transform carries for nothing, centres the spectrum of M again.
//!
//! Scaling: designs and moments hold V/s and g/s, states s X and M, models A and omega. Choose s so that the entries of
//! V/s and s A are of order one (t/d for contexts that look in every direction): errors are then relative to the message.
//!
//! A design may hold a moment at h = 0 and a moment a design at h = 1: both start with a product that has zeros there.

use std::collections::BTreeSet;

use num_complex::Complex64;

use crate::algebra::{rotate_sum, sum_rotations};
use crate::error::{has_levels, in_range, power_of_two};
use crate::{Error, LinearTransform, SlotAlgebra};

/// Newton's iteration for D x D symmetric positive definite matrices in the layout of this module.
///
/// Every transform, mask and constant is made once, here.
#[derive(Debug, Clone)]
pub struct Newton {
    dim: usize,
    steps: Vec<f64>,
    left: LinearTransform,
    right: LinearTransform,
    /// `right` at h = 0 only: the last step needs no M.
    right_last: LinearTransform,
    /// From a model to `a0 s A[k, j]` at h = 1.
    right_start: LinearTransform,
    /// 2 at k = j.
    two: Vec<Complex64>,
    two_last: Vec<Complex64>,
    /// a0 s at h = 0.
    start_mask: Vec<Complex64>,
    /// 1/s at h = 0.
    inverse_mask: Vec<Complex64>,
    scale: f64,
    /// 1 at (h, i) = (1, 0).
    omega_mask: Vec<Complex64>,
}

impl Newton {
    /// For `dim` (D, a power of two from 2 to 64), the factors of the start and of each step, and the scaling s. With
    /// every factor 1, these are the steps of the paper, for a cold start.
    ///
    /// # Errors
    /// [`Error::SlotCount`] for another dimension, [`Error::Range`] unless s is in [2^-20, 2^20].
    pub fn new(dim: usize, start: f64, steps: &[f64], scale: f64) -> Result<Self, Error> {
        power_of_two("matrix dimension", dim, 2)?;
        in_range("matrix dimension", dim as f64, 2.0, 64.0)?;
        in_range("scaling", scale, 2f64.powi(-20), 2f64.powi(20))?;
        let (a0, steps) = (start, steps.to_vec());
        let d = dim as i64;
        let (half, full) = (d * d, 2 * d * d);
        let left = transform(dim, |k, _, _, j| Some((k - j, 1.0)))?;
        let right = transform(dim, |k, h, i, _| Some(((1 - h) * half + (k - i) * d, -1.0)))?;
        let right_last = transform(dim, |k, h, i, _| (h == 0).then_some((half + (k - i) * d, -1.0)))?
            .with_baby_step(right.baby_step())?;
        let right_start = transform(dim, |k, h, i, _| (h == 1).then_some(((k - i) * d - half, a0 * scale)))?
            .with_baby_step(right.baby_step())?;
        debug_assert_eq!(left.period() as i64, full * d);
        Ok(Self {
            dim,
            steps,
            left,
            right,
            right_last,
            right_start,
            two: pattern(dim, dim, |k, _, _, j| if k == j { 2.0 } else { 0.0 }),
            two_last: pattern(dim, dim, |k, h, _, j| if k == j && h == 0 { 2.0 } else { 0.0 }),
            start_mask: pattern(dim, 1, |_, h, _, _| if h == 0 { a0 * scale } else { 0.0 }),
            inverse_mask: pattern(dim, 1, |_, h, _, _| if h == 0 { 1.0 / scale } else { 0.0 }),
            scale,
            omega_mask: pattern(dim, 1, |_, h, i, _| if h == 1 && i == 0 { 1.0 } else { 0.0 }),
        })
    }

    /// D.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Period of the layout, 2D^3: it must divide the number of slots.
    pub fn period(&self) -> usize {
        2 * self.dim.pow(3)
    }

    /// Levels from a model and a design to the inverse, by a warm start.
    pub fn warm_depth(&self) -> usize {
        2 + 2 * self.steps.len()
    }

    /// Levels from a design to the inverse, by a cold start.
    pub fn cold_depth(&self) -> usize {
        1 + 2 * self.steps.len()
    }

    /// Levels from the inverse to the model.
    pub fn model_depth(&self) -> usize {
        2
    }

    /// Every rotation that needs a key, whichever start.
    pub fn rotations(&self) -> BTreeSet<i64> {
        let d = self.dim as i64;
        [&self.left, &self.right, &self.right_last, &self.right_start]
            .into_iter()
            .flat_map(LinearTransform::rotations)
            .chain(sum_rotations(2 * d * d, self.dim))
            .chain(sum_rotations(d, self.dim))
            .chain([d * d])
            .collect()
    }

    /// V (row by row) in the layout of a design; 2D^3 values, to be repeated.
    ///
    /// # Errors
    /// [`Error::SlotCount`] unless there are D^2 values.
    pub fn design_slots(&self, v: &[f64]) -> Result<Vec<Complex64>, Error> {
        let d = self.dim;
        self.expect("design", v, d * d)?;
        Ok(pattern(d, d, |k, h, i, _| if h == 1 { v[i as usize * d + k as usize] } else { 0.0 }))
    }

    /// g in the layout of a moment; 2D^2 values, to be repeated.
    ///
    /// # Errors
    /// [`Error::SlotCount`] unless there are D values.
    pub fn moment_slots(&self, g: &[f64]) -> Result<Vec<Complex64>, Error> {
        self.expect("moment", g, self.dim)?;
        Ok(pattern(self.dim, 1, |_, h, i, _| if h == 0 { g[i as usize] } else { 0.0 }))
    }

    /// A (row by row) and omega in the layout of a model; 2D^2 values, to be repeated.
    ///
    /// # Errors
    /// [`Error::SlotCount`] unless there are D^2 and D values.
    pub fn model_slots(&self, a: &[f64], omega: &[f64]) -> Result<Vec<Complex64>, Error> {
        let d = self.dim;
        self.expect("inverse", a, d * d)?;
        self.expect("omega", omega, d)?;
        Ok(pattern(d, 1, |_, h, i, j| match (h, i) {
            (0, _) => a[i as usize * d + j as usize],
            (_, 0) => omega[j as usize],
            _ => 0.0,
        }))
    }

    /// A (row by row) and omega from the slots of a model.
    ///
    /// # Errors
    /// [`Error::SlotCount`] for fewer than 2D^2 slots.
    pub fn read_model(&self, slots: &[Complex64]) -> Result<(Vec<f64>, Vec<f64>), Error> {
        let half = self.dim * self.dim;
        if slots.len() < 2 * half {
            return Err(Error::SlotCount { op: "model", got: slots.len(), want: 2 * half });
        }
        let real = |part: &[Complex64]| part.iter().map(|v| v.re).collect();
        Ok((real(&slots[..half]), real(&slots[half..half + self.dim])))
    }

    /// The state `[a0 A | V (a0 A)]` from a design and a model. 2 levels of the model, 1 of the design.
    ///
    /// Order matters: M_0 = V X_0, and steps multiply `2I - M` from the right. A does not commute with V, and the
    /// other order diverges.
    ///
    /// # Errors
    /// [`Error::SlotCount`] if 2D^3 does not divide the slots; otherwise the algebra's.
    pub fn warm_start<A: SlotAlgebra>(
        &self,
        alg: &A,
        design: &A::Vector,
        model: &A::Vector,
    ) -> Result<A::Vector, A::Error> {
        self.check(alg)?;
        let right = alg.linear(model, &self.right_start)?;
        let product = self.sum_k(alg, &alg.mul(design, &right)?)?;
        alg.add(&product, &alg.mul_plain(model, &self.start_mask)?)
    }

    /// The state `[I/c | V/c]` for `c` of at least the trace of V. 1 level.
    ///
    /// # Errors
    /// [`Error::Range`] unless c is positive and finite, [`Error::SlotCount`] as [`Newton::warm_start`].
    ///
    /// # Source
    /// Encrypted Linear Contextual Bandit, eq. 2. Departure: none.
    pub fn cold_start<A: SlotAlgebra>(
        &self,
        alg: &A,
        design: &A::Vector,
        c: f64,
    ) -> Result<A::Vector, A::Error> {
        self.check(alg)?;
        in_range("c", c, f64::MIN_POSITIVE, f64::MAX)?;
        // The design spreads column k over block k: keeping j = k and summing over k gives V itself.
        let start = self.scale / c;
        let keep = pattern(self.dim, self.dim, |k, h, _, j| if k == j && h == 1 { start } else { 0.0 });
        let v = self.sum_k(alg, &alg.mul_plain(design, &keep)?)?;
        alg.add_plain(&v, &pattern(self.dim, 1, |_, h, i, j| if h == 0 && i == j { start } else { 0.0 }))
    }

    /// All steps from a state: `[X | 0]`. 2 levels each.
    ///
    /// # Errors
    /// [`Error::SlotCount`] as [`Newton::warm_start`], [`Error::OutOfLevels`] before anything is computed; otherwise the
    /// algebra's.
    pub fn iterate<A: SlotAlgebra>(&self, alg: &A, state: &A::Vector) -> Result<A::Vector, A::Error> {
        self.check(alg)?;
        has_levels("Newton", alg.level(state), 2 * self.steps.len())?;
        let mut state = state.clone();
        for (n, &factor) in self.steps.iter().enumerate() {
            let last = n + 1 == self.steps.len();
            state = self.step(alg, &state, factor, last)?;
        }
        Ok(state)
    }

    /// The model `[X | X g]` from `[X | 0]` and a moment; X is symmetric. 2 levels.
    ///
    /// # Errors
    /// [`Error::SlotCount`] as [`Newton::warm_start`]; otherwise the algebra's.
    pub fn model<A: SlotAlgebra>(
        &self,
        alg: &A,
        inverse: &A::Vector,
        moment: &A::Vector,
    ) -> Result<A::Vector, A::Error> {
        self.check(alg)?;
        let d = self.dim as i64;
        // omega_j = sum_i X_ij g_i: row 0 of h = 0 after the sum, moved to h = 1 (the period is 2D^2, so left is right).
        let rows = rotate_sum(alg, &alg.mul(inverse, moment)?, d, self.dim)?;
        let omega = alg.mul_plain(&alg.rotate(&rows, d * d)?, &self.omega_mask)?;
        alg.add(&alg.mul_plain(inverse, &self.inverse_mask)?, &omega)
    }

    /// `c [X (2I - M) | M (2I - M)]`, without the second half in the last step.
    fn step<A: SlotAlgebra>(
        &self,
        alg: &A,
        state: &A::Vector,
        c: f64,
        last: bool,
    ) -> Result<A::Vector, A::Error> {
        let (right, two) = if last { (&self.right_last, &self.two_last) } else { (&self.right, &self.two) };
        let two: Vec<Complex64> = two.iter().map(|v| c * v).collect();
        let left = alg.linear(state, &self.left)?;
        let right = alg.add_plain(&alg.linear(state, &right.times(c))?, &two)?;
        self.sum_k(alg, &alg.mul(&left, &right)?)
    }

    fn sum_k<A: SlotAlgebra>(&self, alg: &A, v: &A::Vector) -> Result<A::Vector, A::Error> {
        rotate_sum(alg, v, 2 * (self.dim * self.dim) as i64, self.dim)
    }

    fn check<A: SlotAlgebra>(&self, alg: &A) -> Result<(), Error> {
        if alg.slots().is_multiple_of(self.period()) {
            Ok(())
        } else {
            Err(Error::SlotCount { op: "matrix layout", got: alg.slots(), want: self.period() })
        }
    }

    fn expect(&self, op: &'static str, values: &[f64], want: usize) -> Result<(), Error> {
        if values.len() == want { Ok(()) } else { Err(Error::SlotCount { op, got: values.len(), want }) }
    }
}

/// Steps from a cold start to `||X - V^-1|| <= eps`: `ceil(log2(ln(lambda eps) / ln(1 - lambda/c)))`, at least 1.
///
/// # Errors
/// [`Error::Range`] unless `0 < lambda < c` and `0 < eps`, all finite.
///
/// # Source
/// Encrypted Linear Contextual Bandit, k1 after eq. 2. Departure: none.
pub fn cold_steps(eps: f64, lambda: f64, c: f64) -> Result<usize, Error> {
    in_range("precision", eps, f64::MIN_POSITIVE, f64::MAX)?;
    in_range("c", c, f64::MIN_POSITIVE, f64::MAX)?;
    in_range("lambda", lambda, f64::MIN_POSITIVE, c.next_down())?;
    let ratio = (lambda * eps).ln() / (-lambda / c).ln_1p();
    Ok(if ratio <= 2.0 { 1 } else { ratio.log2().ceil() as usize })
}

/// Values of a function of (k, h, i, j), k below `blocks`.
fn pattern(dim: usize, blocks: usize, f: impl Fn(i64, i64, i64, i64) -> f64) -> Vec<Complex64> {
    let d = dim as i64;
    let slot = |s: i64| f(s / (2 * d * d), s / (d * d) % 2, s / d % d, s % d);
    (0..2 * d * d * blocks as i64).map(|s| slot(s).into()).collect()
}

/// The transform with the entry `(offset, value)` that `f` gives at each slot (k, h, i, j).
fn transform(
    dim: usize,
    f: impl Fn(i64, i64, i64, i64) -> Option<(i64, f64)>,
) -> Result<LinearTransform, Error> {
    let d = dim as i64;
    let (state, period) = (2 * dim * dim, 2 * dim.pow(3));
    let mut diagonals: std::collections::BTreeMap<i64, Vec<Complex64>> = Default::default();
    for s in 0..period {
        let x = s as i64;
        if let Some((offset, value)) = f(x / (2 * d * d), x / (d * d) % 2, x / d % d, x % d) {
            diagonals.entry(offset).or_insert_with(|| vec![Complex64::ZERO; period])[s] = value.into();
        }
    }
    LinearTransform::new(period, state, diagonals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clear;
    use rand::{RngExt, SeedableRng};

    type Matrix = Vec<f64>;

    fn identity(d: usize) -> Matrix {
        (0..d * d).map(|s| if s / d == s % d { 1.0 } else { 0.0 }).collect()
    }

    fn product(a: &Matrix, b: &Matrix, d: usize) -> Matrix {
        (0..d * d).map(|s| (0..d).map(|k| a[s / d * d + k] * b[k * d + s % d]).sum()).collect()
    }

    fn step(x: &Matrix, m: &Matrix, c: f64, d: usize) -> (Matrix, Matrix) {
        let r: Matrix = identity(d).iter().zip(m).map(|(i, m)| c * (2.0 * i - m)).collect();
        (product(x, &r, d), product(m, &r, d))
    }

    fn close(got: &[f64], want: &[f64], tolerance: f64) {
        for (g, w) in got.iter().zip(want) {
            assert!((g - w).abs() <= tolerance * (1.0 + w.abs()), "{g} {w}");
        }
        assert_eq!(got.len(), want.len());
    }

    /// lambda I plus `t` outer products of unit vectors.
    fn design(d: usize, t: usize, rng: &mut rand_chacha::ChaCha8Rng) -> Matrix {
        let mut v = identity(d);
        for _ in 0..t {
            let x: Vec<f64> = (0..d).map(|_| rng.random::<f64>() - 0.5).collect();
            let norm: f64 = x.iter().map(|x| x * x).sum();
            v.iter_mut().enumerate().for_each(|(s, v)| *v += x[s / d] * x[s % d] / norm);
        }
        v
    }

    /// Each start and each step equals matrix arithmetic in f64, in every replica, also when slots exceed the period.
    #[test]
    fn steps_equal_matrix_arithmetic() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(2);
        for (d, copies) in [(2, 1), (2, 4), (4, 1), (8, 2), (16, 1)] {
            let newton = Newton::new(d, 0.5, &[1.25, 0.75], 1.0).unwrap();
            let alg = Clear::new(newton.period() * copies).unwrap();
            let v = design(d, 3 * d, &mut rng);
            let a: Matrix = design(d, 2, &mut rng).iter().map(|x| x / 5.0).collect();
            let omega: Vec<f64> = (0..d).map(|i| i as f64 - 1.5).collect();
            let top = newton.warm_depth() + newton.model_depth();
            let design = alg.fresh(&newton.design_slots(&v).unwrap(), top).unwrap();
            let model = alg.fresh(&newton.model_slots(&a, &omega).unwrap(), top).unwrap();

            let state = newton.warm_start(&alg, &design, &model).unwrap();
            assert_eq!(alg.level(&state), top - 2);
            let x: Matrix = a.iter().map(|a| 0.5 * a).collect();
            let m = product(&v, &x, d);
            let expect_state = |state: &crate::ClearVector, x: &Matrix, m: &Matrix| {
                for replica in state.real().chunks(2 * d * d) {
                    close(&replica[..d * d], x, 1e-11);
                    close(&replica[d * d..], m, 1e-11);
                }
            };
            expect_state(&state, &x, &m);
            let (x1, m1) = step(&x, &m, 1.25, d);
            expect_state(&newton.step(&alg, &state, 1.25, false).unwrap(), &x1, &m1);
            let inverse = newton.iterate(&alg, &state).unwrap();
            let x2 = step(&x1, &m1, 0.75, d).0;
            expect_state(&inverse, &x2, &vec![0.0; d * d]);
            assert_eq!(alg.level(&inverse), top - newton.warm_depth());

            let g: Vec<f64> = (0..d).map(|i| (i as f64).cos()).collect();
            let moment = alg.fresh(&newton.moment_slots(&g).unwrap(), top).unwrap();
            let got = newton.model(&alg, &inverse, &moment).unwrap();
            assert_eq!(alg.level(&got), 0);
            let omega: Vec<f64> = (0..d).map(|j| (0..d).map(|i| x2[i * d + j] * g[i]).sum()).collect();
            let (x, o) = newton.read_model(got.values()).unwrap();
            close(&x, &x2, 1e-11);
            close(&o, &omega, 1e-10);
            let want = newton.model_slots(&x2, &omega).unwrap();
            for (g, w) in got.values().iter().zip(want.iter().cycle()) {
                assert!((g - w).norm() < 1e-9 * (1.0 + w.norm()));
            }
        }
    }

    /// A cold start with the paper's number of steps reaches the paper's precision.
    #[test]
    fn cold_start_converges_in_k1_steps() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(3);
        let (d, t, eps) = (4, 50, 1e-4);
        let v = design(d, t, &mut rng);
        let c = d as f64 + t as f64;
        let steps = cold_steps(eps, 1.0, c).unwrap();
        let newton = Newton::new(d, 1.0, &vec![1.0; steps], 1.0).unwrap();
        let alg = Clear::new(newton.period()).unwrap();
        let design = alg.fresh(&newton.design_slots(&v).unwrap(), newton.cold_depth()).unwrap();
        let state = newton.cold_start(&alg, &design, c).unwrap();
        close(&state.real()[d * d..2 * d * d], &v.iter().map(|v| v / c).collect::<Vec<_>>(), 1e-12);
        let inverse = newton.iterate(&alg, &state).unwrap();
        assert_eq!(alg.level(&inverse), 0);
        let (x, _) = newton.read_model(inverse.values()).unwrap();
        let residual = product(&x, &v, d);
        // ||X - V^-1|| <= eps, and ||V|| <= c.
        for (r, i) in residual.iter().zip(identity(d)) {
            assert!((r - i).abs() <= eps * c);
        }
        assert_eq!(newton.cold_depth(), 1 + 2 * steps);
    }

    /// Diagonal matrices: V = diag(1, x, 3) A^-1 has the extreme eigenvalues 1 and 3 of A V. After three steps the ends
    /// of the spectrum are where the factors put them, on both sides of one, and everything between is nearer.
    #[test]
    fn warm_start_keeps_its_bound() {
        // By hand: e = 1/2, then 1/7, 1/97, 1/18817.
        let e3 = 1.0 / 18817.0;
        let steps = [1.0 / 2.0, 1.0 / 7.0, 1.0 / 97.0].map(|e: f64| 2.0 / (2.0 - e * e));
        let newton = Newton::new(4, 0.5, &steps, 1.0).unwrap();
        let alg = Clear::new(newton.period()).unwrap();
        let diagonal = [1.0, 1.3, 2.1, 3.0];
        let v: Matrix = (0..16).map(|s| if s / 4 == s % 4 { diagonal[s % 4] } else { 0.0 }).collect();
        let design = alg.fresh(&newton.design_slots(&v).unwrap(), 8).unwrap();
        let model = alg.fresh(&newton.model_slots(&identity(4), &[0.0; 4]).unwrap(), 8).unwrap();
        let state = newton.warm_start(&alg, &design, &model).unwrap();
        let (x, _) = newton.read_model(newton.iterate(&alg, &state).unwrap().values()).unwrap();
        let off = |i: usize| x[i * 5] * diagonal[i] - 1.0;
        assert!((off(0) + e3).abs() < 1e-12 && (off(3) + e3).abs() < 1e-12, "{} {}", off(0), off(3));
        assert!(off(1).abs() <= e3 && off(2).abs() <= e3);
    }

    /// The published rotations are those made, no more and no fewer, and few keys are needed.
    #[test]
    fn rotations_are_published_and_few() {
        for (d, most) in [(2, 6), (4, 13), (8, 18), (16, 29)] {
            let newton = Newton::new(d, 1.0, &[1.0; 2], 1.0).unwrap();
            let alg = Clear::new(newton.period()).unwrap();
            let v = alg.fresh_real(&[0.1], 20).unwrap();
            let state = newton.warm_start(&alg, &v, &v).unwrap();
            let inverse = newton.iterate(&alg, &state).unwrap();
            newton.model(&alg, &inverse, &v).unwrap();
            let n = newton.period() as i64;
            let published: BTreeSet<i64> = newton.rotations().iter().map(|k| k.rem_euclid(n)).collect();
            assert_eq!(alg.rotations_used(), published);
            assert!(published.len() <= most, "D = {d}: {} keys", published.len());
        }
    }

    #[test]
    fn bad_shapes_are_refused() {
        for (dim, scale) in [(3, 1.0), (1, 1.0), (128, 1.0), (4, 0.0)] {
            assert!(Newton::new(dim, 1.0, &[1.0; 2], scale).is_err());
        }
        let newton = Newton::new(4, 1.0, &[1.0; 2], 1.0).unwrap();
        assert!(newton.design_slots(&[0.0; 15]).is_err());
        assert!(newton.read_model(&[Complex64::ZERO; 31]).is_err());
        let alg = Clear::new(64).unwrap();
        let v = alg.fresh_real(&[0.0], 9).unwrap();
        assert!(matches!(newton.iterate(&alg, &v), Err(Error::SlotCount { .. })));
        let alg = Clear::new(128).unwrap();
        let v = alg.fresh_real(&[0.0], 3).unwrap();
        assert!(matches!(newton.iterate(&alg, &v), Err(Error::OutOfLevels { .. })));
        assert!(cold_steps(0.1, 2.0, 1.0).is_err());
    }
}
