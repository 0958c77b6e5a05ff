//! Eigenvectors of a symmetric matrix by cyclic Jacobi rotations.

/// Eigenvalues in falling order, and their unit eigenvectors as rows, of the symmetric matrix of order `n` in
/// `a`. The entry of each vector that is largest in absolute value (the first of equals) is positive.
///
/// Cost: about 10 sweeps of `n`³ operations. The off-diagonal part ends below 10⁻¹⁴ times the norm.
///
/// # Source
/// Golub, Van Loan, Matrix Computations, 4th edition, section 8.5.
pub(crate) fn symmetric(mut a: Vec<f64>, n: usize) -> (Vec<f64>, Vec<Vec<f64>>) {
    let mut v: Vec<f64> = (0..n * n).map(|i| f64::from(i / n == i % n)).collect();
    let norm = a.iter().map(|x| x * x).sum::<f64>().sqrt();
    for _ in 0..60 {
        let off: f64 = (0..n * n).filter(|i| i / n != i % n).map(|i| a[i] * a[i]).sum();
        if off.sqrt() <= 1e-14 * norm {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                rotate(&mut a, &mut v, n, p, q);
            }
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| a[j * n + j].total_cmp(&a[i * n + i]).then(i.cmp(&j)));
    let vector = |&i: &usize| {
        let row = &v[i * n..(i + 1) * n];
        let largest = row.iter().fold(0.0f64, |best, x| if x.abs() > best.abs() { *x } else { best });
        row.iter().map(|x| if largest < 0.0 { -x } else { *x }).collect()
    };
    (order.iter().map(|i| a[i * n + i].max(0.0)).collect(), order.iter().map(vector).collect())
}

/// Makes the entries (p, q) and (q, p) zero. Eigenvectors are the rows of `v`.
fn rotate(a: &mut [f64], v: &mut [f64], n: usize, p: usize, q: usize) {
    let apq = a[p * n + q];
    if apq == 0.0 {
        return;
    }
    let theta = (a[q * n + q] - a[p * n + p]) / (2.0 * apq);
    let t = theta.signum() / (theta.abs() + theta.hypot(1.0));
    let c = t.hypot(1.0).recip();
    let s = t * c;
    for k in 0..n {
        let (x, y) = (a[k * n + p], a[k * n + q]);
        (a[k * n + p], a[k * n + q]) = (c * x - s * y, s * x + c * y);
    }
    for k in 0..n {
        let (x, y) = (a[p * n + k], a[q * n + k]);
        (a[p * n + k], a[q * n + k]) = (c * x - s * y, s * x + c * y);
        let (x, y) = (v[p * n + k], v[q * n + k]);
        (v[p * n + k], v[q * n + k]) = (c * x - s * y, s * x + c * y);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A = Σ λ v vᵀ, with orthonormal v in falling order of λ.
        #[test]
        fn the_matrix_is_the_sum_of_its_parts(n in 1usize..9, seed in proptest::collection::vec(-3.0f64..3.0, 81)) {
            let row = |i: usize| &seed[i * n..(i + 1) * n];
            let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(a, b)| a * b).sum::<f64>();
            let a: Vec<f64> = (0..n * n).map(|i| dot(row(i / n), row(i % n))).collect();
            let (values, vectors) = symmetric(a.clone(), n);
            prop_assert!(values.windows(2).all(|w| w[0] >= w[1]));
            for i in 0..n {
                for j in 0..n {
                    let entry: f64 = (0..n).map(|k| values[k] * vectors[k][i] * vectors[k][j]).sum();
                    prop_assert!((entry - a[i * n + j]).abs() < 1e-10, "{entry} {}", a[i * n + j]);
                    let one = f64::from(i == j);
                    prop_assert!((dot(&vectors[i], &vectors[j]) - one).abs() < 1e-12);
                }
            }
        }
    }
}
