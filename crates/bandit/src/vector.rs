//! Vectors and square matrices as slices of `f64`. A matrix of order `d` has `d * d` entries, row by row.

/// The inner product `<a, b>`.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// The Euclidean norm.
pub fn norm(x: &[f64]) -> f64 {
    dot(x, x).sqrt()
}

/// Whether the Euclidean norm of `x` is at most `bound`. Allows a relative error of 1e-9: vectors that were
/// scaled to norm `bound` may be a few units in the last place longer. A NaN is not within any bound.
pub fn norm_is_within(x: &[f64], bound: f64) -> bool {
    norm(x) <= bound * (1.0 + 1e-9)
}

/// Position of the largest value, the first of equals; 0 if there is none.
pub fn argmax(values: impl Iterator<Item = f64>) -> usize {
    let better = |best: (usize, f64), (i, v): (usize, f64)| if v > best.1 { (i, v) } else { best };
    values.enumerate().fold((0, f64::NEG_INFINITY), better).0
}

/// The quadratic form `x^T A x` of the matrix `a`, whose order is the length of `x`.
pub fn quadratic_form(a: &[f64], x: &[f64]) -> f64 {
    a.chunks_exact(x.len()).zip(x).map(|(row, xi)| xi * dot(row, x)).sum()
}

/// Adds `weight x x^T` to the matrix `a`, whose order is the length of `x`. A symmetric matrix stays
/// symmetric to the last bit.
pub fn add_outer(a: &mut [f64], weight: f64, x: &[f64]) {
    for (row, xi) in a.chunks_exact_mut(x.len()).zip(x) {
        row.iter_mut().zip(x).for_each(|(v, xj)| *v += weight * (xi * xj));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_to_the_first() {
        assert_eq!(argmax([1.0, 3.0, 3.0].into_iter()), 1);
        assert_eq!(argmax([f64::NAN, 2.0].into_iter()), 1);
        assert_eq!(argmax(std::iter::empty()), 0);
    }

    #[test]
    fn bounds_of_norms_allow_rounding() {
        assert!(norm_is_within(&[3.0, 4.0], 5.0) && norm_is_within(&[0.6 + 1e-12, 0.8], 1.0));
        assert!(!norm_is_within(&[0.6, 0.81], 1.0) && !norm_is_within(&[f64::NAN], 1.0));
    }
}
