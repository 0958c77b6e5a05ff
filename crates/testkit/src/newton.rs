//! The slots of matrices and vectors in the layout of [`circuits::inverse`]: D x D matrices row by row, for D
//! = `dim`. Slot `k 2D^2 + h D^2 + i D + j` is written (k, h, i, j), and all vectors have the period 2D^3.

use num_complex::Complex64;

/// The matrix V: (k, 1, i, j) = V_ik for every j, and 0 at h = 0.
pub fn matrix_slots(dim: usize, v: &[f64]) -> Vec<Complex64> {
    assert_eq!(v.len(), dim * dim);
    pattern(dim, dim, |k, h, i, _| if h == 1 { v[i * dim + k] } else { 0.0 })
}

/// The vector g: (k, 0, i, j) = g_i for every k and j, and 0 at h = 1.
pub fn vector_slots(dim: usize, g: &[f64]) -> Vec<Complex64> {
    assert_eq!(g.len(), dim);
    pattern(dim, 1, |_, h, i, _| if h == 0 { g[i] } else { 0.0 })
}

/// The solution: (k, 0, i, j) = A_ij, (k, 1, 0, j) = y_j, and 0 elsewhere.
pub fn solution_slots(dim: usize, a: &[f64], y: &[f64]) -> Vec<Complex64> {
    assert_eq!((a.len(), y.len()), (dim * dim, dim));
    pattern(dim, 1, |_, h, i, j| match (h, i) {
        (0, _) => a[i * dim + j],
        (_, 0) => y[j],
        _ => 0.0,
    })
}

/// A, row by row, and y from the slots of a solution.
pub fn read_solution(dim: usize, slots: &[Complex64]) -> (Vec<f64>, Vec<f64>) {
    let real = |part: &[Complex64]| part.iter().map(|v| v.re).collect();
    (real(&slots[..dim * dim]), real(&slots[dim * dim..][..dim]))
}

/// The values of `f` at all (k, h, i, j) with k below `blocks`, in the order of the slots.
fn pattern(dim: usize, blocks: usize, f: impl Fn(usize, usize, usize, usize) -> f64) -> Vec<Complex64> {
    let slot = |s: usize| f(s / (2 * dim * dim), s / (dim * dim) % 2, s / dim % dim, s % dim);
    (0..2 * dim * dim * blocks).map(|s| slot(s).into()).collect()
}
