//! The inverse A of a symmetric positive definite matrix V and the solution y = A g of V y = g, by Newton's
//! iteration.
//!
//! The coupled iteration keeps X, which converges to the inverse, and M = V X, which converges to I:
//!
//! 1. Start: X = a0 A' for an approximate inverse A'.
//! 2. Step: X <- X (2I - M) and M <- M (2I - M), both times a factor that centres the spectrum of M around 1.
//!    One product of vectors computes both.
//! 3. Solution: y = X g.
//!
//! Layout: D is a power of two. Slot `k 2D^2 + h D^2 + i D + j` is written (k, h, i, j), with h in {0, 1}.
//! The pattern repeats with period 2D^3, which must divide the number of slots.
//!
//! | symbol | vector | slots |
//! |---|---|---|
//! | S = \[X \| M\] | state | (k, 0, i, j) = X_ij and (k, 1, i, j) = M_ij, for every k |
//! | V | matrix | (k, 1, i, j) = V_ik for every j, and 0 at h = 0 |
//! | g | vector | (k, 0, i, j) = g_i for every k and j, and 0 at h = 1 |
//! | \[A \| y\] | solution | (k, 0, i, j) = A_ij, (k, 1, 0, j) = y_j, and 0 elsewhere |
//!
//! A step is `[X (2I - M) | M (2I - M)] = sum_k left(S)[k] right(S)[k]` with `left(S)[k, h, i, j] = S_h[i,
//! k]` and `right(S)[k, h, i, j] = (2I - M)[k, j]`. It takes a linear transform for each of the two, one
//! product and the sum over k. The factor of the step is part of the right transform and costs nothing.
//!
//! Keys are large and updates are rare, so that all of it is made of few rotations: 1 within rows, -D and -2D
//! from row to row, and 2D^2 4^s from k to k. Offsets -(D - 1) to D - 1 of the left transform are 0 or -D
//! plus up to D - 1 giant steps of 1; those of the right one go around the 2D rows by 0 or -D plus up to D -
//! 1 giant steps of -2D. For D = 2 there are few offsets, and each is a baby step of its own.
//!
//! Scaling: the vectors hold V/s, g/s, s X, M, A and y. Choose s so that the entries of V/s and s A are of
//! order one; errors are then relative to the message.
//!
//! The vector of V may hold g at h = 0, and the vector of g may hold V at h = 1: each is first multiplied by
//! a vector that is 0 there.

use std::collections::BTreeSet;

use num_complex::Complex64;

use crate::algebra::doublings;
use crate::error::{divides, has_levels, in_range, power_of_two};
use crate::paper::{Raises, Unraised};
use crate::{Error, LinearTransform, SlotAlgebra, Steps};

/// Newton's iteration for symmetric positive definite D x D matrices in the layout of this module, with its
/// transforms, masks and constants.
#[derive(Debug, Clone)]
pub struct Newton {
    dim: usize,
    steps: Vec<f64>,
    left: LinearTransform,
    right: LinearTransform,
    /// `right` at h = 0 only, because the last step need not compute M.
    right_last: LinearTransform,
    /// The transform from a solution to `a0 s A[k, j]` at h = 1.
    right_start: LinearTransform,
    /// The constant 2I of the right factor: 2 at k = j.
    two: Vec<Complex64>,
    /// `two` at h = 0 only.
    two_last: Vec<Complex64>,
    /// a0 s at h = 0, and 0 at h = 1.
    start_mask: Vec<Complex64>,
    /// 1/s at h = 0, and 0 at h = 1.
    inverse_mask: Vec<Complex64>,
    /// 1 at (h, i) = (1, 0), and 0 elsewhere.
    solution_mask: Vec<Complex64>,
}

impl Newton {
    /// The iteration for `dim` (D, a power of two from 2 to 64), with the factor a0 of a warm start, the
    /// factor of each step, and the scaling s. With every factor 1 the steps are those of the paper.
    ///
    /// # Errors
    /// [`Error::SlotCount`] or [`Error::Range`] for another dimension, [`Error::Range`] unless s is in
    /// [2^-20, 2^20].
    pub fn new(dim: usize, start: f64, steps: &[f64], scale: f64) -> Result<Self, Error> {
        power_of_two("matrix dimension", dim, 2)?;
        in_range("matrix dimension", dim as f64, 2.0, 64.0)?;
        in_range("scaling", scale, 2f64.powi(-20), 2f64.powi(20))?;
        let (a0, steps) = (start, steps.to_vec());
        let d = dim as i64;
        let half = d * d;
        let [within, across] = steps_of(dim);
        let left = transform(dim, within, |k, _, _, j| Some((k - j, 1.0)))?;
        let across = |f: &dyn Fn(i64, i64, i64, i64) -> Option<(i64, f64)>| transform(dim, across.clone(), f);
        let right = across(&|k, h, i, _| Some(((1 - h) * half + (k - i) * d, -1.0)))?;
        let right_last = across(&|k, h, i, _| (h == 0).then_some((half + (k - i) * d, -1.0)))?;
        let right_start = across(&|k, h, i, _| (h == 1).then_some(((k - i) * d - half, a0 * scale)))?;
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
            solution_mask: pattern(dim, 1, |_, h, i, _| if h == 1 && i == 0 { 1.0 } else { 0.0 }),
        })
    }

    /// The dimension D.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The period 2D^3 of the layout, which must divide the number of slots.
    pub fn period(&self) -> usize {
        2 * self.dim.pow(3)
    }

    /// All rotations that need a key.
    pub fn rotations(&self) -> BTreeSet<i64> {
        let within_and_across = steps_of(self.dim).into_iter().flat_map(|steps| steps.rotations());
        within_and_across.chain(keys_of_k(self.dim)).collect()
    }

    /// The state `[a0 A' | V (a0 A')]` from the vector of V (`matrix`) and a solution that holds A'
    /// (`previous`). Takes two levels of `previous` and one of `matrix`.
    ///
    /// The order of the factors matters, because A' does not commute with V: M starts as V X, and steps
    /// multiply by `2I - M` from the right. With the other order the iteration diverges.
    ///
    /// # Errors
    /// [`Error::SlotCount`] if 2D^3 does not divide the number of slots; otherwise those of the algebra.
    pub fn warm_start<A: SlotAlgebra>(
        &self,
        alg: &A,
        matrix: &A::Vector,
        previous: &A::Vector,
    ) -> Result<A::Vector, A::Error> {
        self.check(alg)?;
        let right = alg.linear(previous, &self.right_start)?;
        let product = self.sum_k(alg, &alg.mul(matrix, &right)?)?;
        alg.add(&product, &alg.mul_plain(previous, &self.start_mask)?)
    }

    /// All steps, from a state to `[X | 0]`. Each takes 2 levels.
    ///
    /// # Errors
    /// [`Error::SlotCount`] as [`Newton::warm_start`], [`Error::OutOfLevels`] before anything is computed;
    /// otherwise those of the algebra.
    pub fn iterate<A: SlotAlgebra>(&self, alg: &A, state: &A::Vector) -> Result<A::Vector, A::Error> {
        has_levels("Newton", alg.level(state), 2 * self.steps.len())?;
        self.iterate_raised(alg, &mut Unraised, state)
    }

    /// As [`Self::iterate`], where each step is a stage between raises.
    ///
    /// # Errors
    /// [`Error::SlotCount`] as [`Newton::warm_start`]; those of the algebra and of raises.
    pub fn iterate_raised<A: SlotAlgebra>(
        &self,
        alg: &A,
        raises: &mut impl Raises<A>,
        state: &A::Vector,
    ) -> Result<A::Vector, A::Error> {
        self.check(alg)?;
        let mut state = state.clone();
        for (n, &factor) in self.steps.iter().enumerate() {
            let last = n + 1 == self.steps.len();
            state = self.step(alg, &raises.with_levels(alg, state, 2)?, factor, last)?;
        }
        Ok(state)
    }

    /// The solution `[X | X g]` from `[X | 0]` and the vector of g. X must be symmetric. Takes 2 levels.
    ///
    /// # Errors
    /// [`Error::SlotCount`] as [`Newton::warm_start`]; otherwise those of the algebra.
    pub fn solution<A: SlotAlgebra>(
        &self,
        alg: &A,
        inverse: &A::Vector,
        vector: &A::Vector,
    ) -> Result<A::Vector, A::Error> {
        self.check(alg)?;
        let d = self.dim as i64;
        // y_j = sum_i X_ij g_i is in the last row of h = 0 after the sum, and one row further in row 0 of h =
        // 1.
        let rows = sum_by(alg, &alg.mul(inverse, vector)?, -d, self.dim, &[-d, -2 * d])?;
        let y = alg.mul_plain(&alg.rotate(&rows, -d)?, &self.solution_mask)?;
        alg.add(&alg.mul_plain(inverse, &self.inverse_mask)?, &y)
    }

    /// One step: `c [X (2I - M) | M (2I - M)]`, with 0 in place of the second half in the last step.
    fn step<A: SlotAlgebra>(
        &self,
        alg: &A,
        state: &A::Vector,
        c: f64,
        last: bool,
    ) -> Result<A::Vector, A::Error> {
        let (right, two) = if last { (&self.right_last, &self.two_last) } else { (&self.right, &self.two) };
        let two: Vec<Complex64> = two.iter().map(|v| c * v).collect();
        let both = alg.linear_many(state, &[&self.left, &right.times(c)])?;
        let [left, right] = &both[..] else { return Err(Error::Empty { op: "Newton" }.into()) };
        self.sum_k(alg, &alg.mul(left, &alg.add_plain(right, &two)?)?)
    }

    /// The sum over k, in every block.
    fn sum_k<A: SlotAlgebra>(&self, alg: &A, v: &A::Vector) -> Result<A::Vector, A::Error> {
        sum_by(alg, v, 2 * (self.dim * self.dim) as i64, self.dim, &keys_of_k(self.dim))
    }

    fn check<A: SlotAlgebra>(&self, alg: &A) -> Result<(), Error> {
        divides("matrix layout", self.period(), alg.slots())
    }
}

/// The steps of the left transform, within rows, and of the right one, from row to row.
fn steps_of(dim: usize) -> [Steps; 2] {
    if dim == 2 {
        return [vec![1, -1], vec![2, -2, -4]].map(|babies| Steps { babies, giant: 0 });
    }
    let d = dim as i64;
    [1, -2 * d].map(|giant| Steps { babies: vec![-d], giant })
}

/// `sum_{m < count} rotate(v, m step)` for a `count` that is a power of two, by rotations in `keys` alone:
/// each stage, which doubles the number of summands, repeats the largest that divides its own.
fn sum_by<A: SlotAlgebra>(
    alg: &A,
    v: &A::Vector,
    step: i64,
    count: usize,
    keys: &[i64],
) -> Result<A::Vector, A::Error> {
    doublings(step, count).try_fold(v.clone(), |sum, k| {
        let key = keys.iter().copied().filter(|key| k % key == 0).max_by_key(|key| key.abs()).unwrap_or(k);
        let rotated = (0..k / key).try_fold(sum.clone(), |rotated, _| alg.rotate(&rotated, key))?;
        alg.add(&sum, &rotated)
    })
}

/// The rotations of the sum over k: those of every other stage.
fn keys_of_k(dim: usize) -> Vec<i64> {
    doublings(2 * (dim * dim) as i64, dim).step_by(2).collect()
}

/// The values of `f` at all (k, h, i, j) with k below `blocks`, in the order of the slots.
pub(crate) fn pattern(dim: usize, blocks: usize, f: impl Fn(i64, i64, i64, i64) -> f64) -> Vec<Complex64> {
    let d = dim as i64;
    let slot = |s: i64| f(s / (2 * d * d), s / (d * d) % 2, s / d % d, s % d);
    (0..2 * d * d * blocks as i64).map(|s| slot(s).into()).collect()
}

/// The linear transform whose slot s = (k, h, i, j) is `value` times slot s + `offset` of the input, where
/// `f` returns `(offset, value)`, and 0 where `f` returns `None`.
fn transform(
    dim: usize,
    steps: Steps,
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
    LinearTransform::new(period, state, steps, diagonals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clear;
    use rand::{RngExt, SeedableRng};
    use testkit::newton::{matrix_slots, read_solution, solution_slots, vector_slots};

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

    /// I plus `t` outer products of random unit vectors.
    fn matrix(d: usize, t: usize, rng: &mut rand_chacha::ChaCha8Rng) -> Matrix {
        let mut v = identity(d);
        for _ in 0..t {
            let x: Vec<f64> = (0..d).map(|_| rng.random::<f64>() - 0.5).collect();
            let norm: f64 = x.iter().map(|x| x * x).sum();
            v.iter_mut().enumerate().for_each(|(s, v)| *v += x[s / d] * x[s % d] / norm);
        }
        v
    }

    /// Each start and each step equals matrix arithmetic in f64 in every copy, also with more slots than one
    /// period.
    #[test]
    fn steps_equal_matrix_arithmetic() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(2);
        for (d, copies) in [(2, 1), (2, 4), (4, 1), (8, 2), (16, 1)] {
            let newton = Newton::new(d, 0.5, &[1.25, 0.75], 1.0).unwrap();
            let alg = Clear::new(newton.period() * copies).unwrap();
            let v = matrix(d, 3 * d, &mut rng);
            let a: Matrix = matrix(d, 2, &mut rng).iter().map(|x| x / 5.0).collect();
            let y: Vec<f64> = (0..d).map(|i| i as f64 - 1.5).collect();
            // Two levels for the start, two for each step, two for the solution.
            let top = 2 + 2 * 2 + 2;
            let matrix = alg.fresh(&matrix_slots(d, &v), top).unwrap();
            let previous = alg.fresh(&solution_slots(d, &a, &y), top).unwrap();

            let state = newton.warm_start(&alg, &matrix, &previous).unwrap();
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
            assert_eq!(alg.level(&inverse), 2);

            let g: Vec<f64> = (0..d).map(|i| (i as f64).cos()).collect();
            let vector = alg.fresh(&vector_slots(d, &g), top).unwrap();
            let got = newton.solution(&alg, &inverse, &vector).unwrap();
            assert_eq!(alg.level(&got), 0);
            let y: Vec<f64> = (0..d).map(|j| (0..d).map(|i| x2[i * d + j] * g[i]).sum()).collect();
            let (x, o) = read_solution(d, got.values());
            close(&x, &x2, 1e-11);
            close(&o, &y, 1e-10);
            let want = solution_slots(d, &x2, &y);
            for (g, w) in got.values().iter().zip(want.iter().cycle()) {
                assert!((g - w).norm() < 1e-9 * (1.0 + w.norm()));
            }
        }
    }

    /// Diagonal matrices: V = diag(1, x, 3) A^-1 has the extreme eigenvalues 1 and 3 of A V. After three
    /// steps the ends of the spectrum are where the factors put them, on both sides of one, and everything
    /// between is nearer.
    #[test]
    fn warm_start_keeps_its_bound() {
        // By hand: e = 1/2, then 1/7, 1/97, 1/18817.
        let e3 = 1.0 / 18817.0;
        let steps = [1.0 / 2.0, 1.0 / 7.0, 1.0 / 97.0].map(|e: f64| 2.0 / (2.0 - e * e));
        let newton = Newton::new(4, 0.5, &steps, 1.0).unwrap();
        let alg = Clear::new(newton.period()).unwrap();
        let diagonal = [1.0, 1.3, 2.1, 3.0];
        let v: Matrix = (0..16).map(|s| if s / 4 == s % 4 { diagonal[s % 4] } else { 0.0 }).collect();
        let matrix = alg.fresh(&matrix_slots(4, &v), 8).unwrap();
        let previous = alg.fresh(&solution_slots(4, &identity(4), &[0.0; 4]), 8).unwrap();
        let state = newton.warm_start(&alg, &matrix, &previous).unwrap();
        let (x, _) = read_solution(4, newton.iterate(&alg, &state).unwrap().values());
        let off = |i: usize| x[i * 5] * diagonal[i] - 1.0;
        assert!((off(0) + e3).abs() < 1e-12 && (off(3) + e3).abs() < 1e-12, "{} {}", off(0), off(3));
        assert!(off(1).abs() <= e3 && off(2).abs() <= e3);
    }

    /// [`Newton::rotations`] lists exactly the rotations that are made, and they are few.
    #[test]
    fn rotations_are_published_and_few() {
        for (d, most) in [(2, 6), (4, 4), (8, 5), (16, 5)] {
            let newton = Newton::new(d, 1.0, &[1.0; 2], 1.0).unwrap();
            let alg = Clear::new(newton.period()).unwrap();
            let v = alg.fresh_real(&[0.1], 20).unwrap();
            let state = newton.warm_start(&alg, &v, &v).unwrap();
            let inverse = newton.iterate(&alg, &state).unwrap();
            newton.solution(&alg, &inverse, &v).unwrap();
            let n = newton.period() as i64;
            let published: BTreeSet<i64> = newton.rotations().iter().map(|k| k.rem_euclid(n)).collect();
            assert!(alg.rotation_levels().into_keys().eq(published.iter().copied()));
            assert!(published.len() <= most, "D = {d}: {} keys", published.len());
        }
    }

    #[test]
    fn bad_shapes_are_refused() {
        for (dim, scale) in [(3, 1.0), (1, 1.0), (128, 1.0), (4, 0.0)] {
            assert!(Newton::new(dim, 1.0, &[1.0; 2], scale).is_err());
        }
        let newton = Newton::new(4, 1.0, &[1.0; 2], 1.0).unwrap();
        let alg = Clear::new(64).unwrap();
        let v = alg.fresh_real(&[0.0], 9).unwrap();
        assert!(matches!(newton.iterate(&alg, &v), Err(Error::SlotCount { .. })));
        let alg = Clear::new(128).unwrap();
        let v = alg.fresh_real(&[0.0], 3).unwrap();
        assert!(matches!(newton.iterate(&alg, &v), Err(Error::OutOfLevels { .. })));
    }
}
