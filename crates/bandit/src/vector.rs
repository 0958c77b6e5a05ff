//! Vectors and square matrices as slices of `f64`. A matrix of order `d` has `d * d` entries, row by row.

use std::borrow::Cow;

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

/// `x`, if its Euclidean norm is at most `bound`; shortened to norm `bound`, if it is longer by no more than
/// rounding in single precision explains; else `None`. A NaN is within no bound.
///
/// A row of d numbers that was divided by its norm in single precision, with unit roundoff u = 2⁻²⁴, has a
/// norm of at most 1 + (d/2 + 3)·u, up to terms of order u²: the sum of d squares has a relative error of at
/// most d·u, of which the root halves the effect; the root, the quotients, and a product with `bound` round
/// once each. Source: Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, section 3.1.
pub fn within(x: &[f64], bound: f64) -> Option<Cow<'_, [f64]>> {
    let norm = norm(x);
    if norm <= bound {
        return Some(Cow::Borrowed(x));
    }
    let excess = (x.len() as f64 / 2.0 + 3.0) * f64::from(f32::EPSILON) / 2.0;
    (norm <= bound * (1.0 + excess)).then(|| x.iter().map(|v| v * (bound / norm)).collect())
}

/// Position of the largest value, the first of equals; 0 if there is none.
pub fn argmax(values: impl Iterator<Item = f64>) -> usize {
    let better = |best: (usize, f64), (i, v): (usize, f64)| if v > best.1 { (i, v) } else { best };
    values.enumerate().fold((0, f64::NEG_INFINITY), better).0
}

/// The quadratic form `x^T A x` of the matrix `a`, whose order is the length of `x`. Rows of `a` that a zero
/// of `x` multiplies are not read.
pub fn quadratic_form(a: &[f64], x: &[f64]) -> f64 {
    let rows = a.chunks_exact(x.len()).zip(x).filter(|(_, xi)| **xi != 0.0);
    rows.map(|(row, xi)| xi * dot(row, x)).sum()
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
    fn quadratic_forms_skip_zeros_only() {
        let a = [2.0, 1.0, 0.5, 1.0, 3.0, 0.25, 0.5, 0.25, 4.0];
        for (x, form) in [([0.0, 0.0, 0.0], 0.0), ([0.0, -2.0, 0.0], 12.0), ([1.0, 0.0, 2.0], 20.0)] {
            assert_eq!(quadratic_form(&a, &x), form);
        }
        assert_eq!(quadratic_form(&a, &[1.0, -1.0, 2.0]), 2.0 + 3.0 + 16.0 - 2.0 + 2.0 - 1.0);
    }

    #[test]
    fn bounds_of_norms_allow_rounding() {
        assert!(norm_is_within(&[3.0, 4.0], 5.0) && norm_is_within(&[0.6 + 1e-12, 0.8], 1.0));
        assert!(!norm_is_within(&[0.6, 0.81], 1.0) && !norm_is_within(&[f64::NAN], 1.0));
    }

    /// Rows that were divided by their norm in single precision, one number after the other, as programs of
    /// embeddings do, are within the bound, and are shortened to it; rows that are longer are not.
    #[test]
    fn rows_of_single_precision_are_shortened() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as f32 / 8388608.0 - 1.0
        };
        let mut longer = 0;
        for d in [1, 2, 3, 7, 16, 64, 512] {
            for bound in [1.0f32, 0.3, 5.0] {
                for _ in 0..300 {
                    let row: Vec<f32> = (0..d).map(|_| random()).collect();
                    let length = row.iter().map(|v| v * v).sum::<f32>().sqrt();
                    let row: Vec<f64> = row.iter().map(|v| f64::from(v / length * bound)).collect();
                    let bound = f64::from(bound);
                    let taken = within(&row, bound).unwrap();
                    longer += usize::from(norm(&row) > bound);
                    // Of two norms in double precision and a product.
                    let rounding = (d as f64 + 6.0) * f64::EPSILON / 2.0;
                    assert!(norm(&taken) <= bound * (1.0 + rounding));
                    assert!(row.iter().zip(taken.iter()).all(|(x, y)| (x - y).abs() <= 2e-5 * bound));
                }
            }
        }
        assert!(longer > 1000, "the control: {longer} of 6300 rows are longer than their bound");
        let unit = [0.6f32, 0.8].map(f64::from);
        assert!(norm(&unit) > 1.0 + 1e-8 && norm(&within(&unit, 1.0).unwrap()) <= 1.0 + 1e-15);
        assert_eq!(within(&[0.5, 0.5], 1.0).unwrap(), [0.5, 0.5].as_slice());
        // Four units of roundoff are allowed in two dimensions.
        assert!(within(&[1.0 + 2.3e-7, 0.0], 1.0).is_some() && within(&[1.0 + 2.5e-7, 0.0], 1.0).is_none());
        assert!(within(&[f64::NAN], 1.0).is_none() && within(&[f64::INFINITY], 1.0).is_none());
    }
}
