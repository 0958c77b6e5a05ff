//! The polynomial approximations of the paper's encrypted circuit, evaluated on `f64`.
//!
//! | paper | here |
//! |---|---|
//! | eq. 2, `k_1` | [`newton_inverse`], [`newton_iterations`] |
//! | eq. 5, `k_0` | [`sqrt`], [`sqrt_iterations`] |
//! | `f_1`, NewComp, NewMax (Alg. 6 and 7) | [`sign`], [`compare`], [`max`] |
//! | acomp (Alg. 9), its two depths | [`argmax`], [`max_depth`], [`comparison_depth`] |

use crate::Error;
use nalgebra::DMatrix;
use std::f64::consts::LN_2;

/// Inverse of the symmetric positive definite `v` (flat, `d * d`) by `iterations` coupled Newton steps from
/// `I/c`.
///
/// Needs `c >= Tr(v)`; the error in operator norm is then at most `(1 - lambda/c)^(2^iterations) / lambda`,
/// with `lambda` the least eigenvalue. Source: eq. 2.
///
/// # Errors
/// [`Error::Matrix`] if `v` is not `d * d` long.
pub fn newton_inverse(v: &[f64], d: usize, c: f64, iterations: u32) -> Result<Vec<f64>, Error> {
    if d.checked_mul(d) != Some(v.len()) {
        return Err(Error::Matrix { values: v.len(), d });
    }
    let two = DMatrix::<f64>::identity(d, d).scale(2.0);
    let mut x = DMatrix::<f64>::identity(d, d).unscale(c);
    let mut m = DMatrix::from_column_slice(d, d, v).unscale(c);
    for _ in 0..iterations {
        let step = &two - &m;
        x *= &step;
        m = step * m;
    }
    Ok(x.as_slice().to_vec())
}

/// Newton steps for an operator-norm error of `eps`: `k_1 = log2(ln(lambda eps) / ln(1 - lambda/c))`, at
/// least 1.
///
/// Source: Proposition 2.
pub fn newton_iterations(eps: f64, lambda: f64, c: f64) -> u32 {
    // Positive where an approximation is needed at all; the cast saturates.
    let ratio = (lambda * eps).ln() / (-lambda / c).ln_1p();
    ratio.log2().ceil().max(1.0) as u32
}

/// Square root of `z` in `[c1, c2]` by `iterations` steps of eq. 5.
///
/// The error is at most `sqrt(c2) (1 - c1/(4 c2))^(2^(iterations + 1))`.
pub fn sqrt(z: f64, c2: f64, iterations: u32) -> f64 {
    let (mut q, mut v) = (z / c2, z / c2 - 1.0);
    for _ in 0..iterations {
        (q, v) = (q * (1.0 - v / 2.0), v * v * (v - 3.0) / 4.0);
    }
    c2.sqrt() * q
}

/// Steps of eq. 5 for an error of `eps`: `k_0 = log2((ln eps - ln sqrt(c2)) / (2 ln(1 - c1/(4 c2))))`, at
/// least 1.
///
/// Source: Proposition 4. Departure: the proposition prints 4 where its proof gives 2.
pub fn sqrt_iterations(eps: f64, c1: f64, c2: f64) -> u32 {
    let ratio = (eps.ln() - c2.sqrt().ln()) / (2.0 * (-c1 / (4.0 * c2)).ln_1p());
    ratio.log2().ceil().max(1.0) as u32
}

/// `f_1` composed `depth` times, near the sign of `x` in `[-1, 1]`; `f_1(x) = (3x - x^3)/2`.
pub fn sign(x: f64, depth: u32) -> f64 {
    (0..depth).fold(x, |x, _| x * (3.0 - x * x) / 2.0)
}

/// NewComp: near 1 if `a > b`, near 0 if `a < b`, both in `[0, 1]`. Source: Algorithm 6.
pub fn compare(a: f64, b: f64, depth: u32) -> f64 {
    f64::midpoint(sign(a - b, depth), 1.0)
}

/// NewMax: near the larger of `a` and `b`, both in `[0, 1]`.
///
/// Source: Algorithm 7. Departure: the algorithm prints `(a+b)/2` in place of `(a-b)/2`.
pub fn max(a: f64, b: f64, depth: u32) -> f64 {
    f64::midpoint(a, b) + (a - b) / 2.0 * sign(a - b, depth)
}

/// acomp: for each of `values` in `[0, 1]` a number near 1 if it is the largest, and near 0 if it is not.
///
/// Source: Algorithms 8 and 9. Departure: Algorithm 9 omits the first entry.
pub fn argmax(values: &[f64], max_depth: u32, comparison_depth: u32) -> Vec<f64> {
    let largest = values.iter().copied().reduce(|m, v| max(m, v, max_depth)).unwrap_or(0.0);
    values.iter().map(|&v| compare(v, largest, comparison_depth)).collect()
}

/// Depth of [`max`] in round `t`: `1 + floor(3.2 + ln(1/e)/ln(3/2) + log2(log2(1/e) - 2))`, `e = 1/(4.1 t)`.
///
/// Source: Algorithm 4.
pub fn max_depth(t: u64) -> u32 {
    let inverse = 4.1 * t.max(1) as f64;
    (1.0 + (3.2 + inverse.ln() / 1.5f64.ln() + (inverse.log2() - 2.0).log2()).floor()) as u32
}

/// Depth of [`compare`] in round `t`: `ceil(ln(a log2(1/e) - 2)/ln(3/2))`, `e = 1/(4.1 t)`,
/// `a = 3/2 + 5.2 ln(3/2)/ln 4 + ln(3/2)/(2 ln 2)`.
///
/// Source: Algorithm 4. This depth does not give Corollary 5 (an entry of `1/(4t)` or more is within `2e` of
/// the best): at `t = 100` an arm that is 0.04 behind still has 0.028. So play the largest entry, not any
/// above `1/(4t)`.
pub fn comparison_depth(t: u64) -> u32 {
    let c = 1.5f64.ln();
    let alpha = 1.5 + 5.2 * c / 4.0f64.ln() + c / (2.0 * LN_2);
    ((alpha * (4.1 * t.max(1) as f64).log2() - 2.0).ln() / c).ceil() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Newton's error stays below the paper's bound, and k_1 steps reach the precision asked for.
        #[test]
        fn newton_meets_its_bound(entries in prop::collection::vec(-1.0..1.0f64, 9), lambda in 0.1..4.0, extra in 1.0..50.0,
            eps in 1e-6..1e-1f64) {
            let a = DMatrix::from_column_slice(3, 3, &entries);
            let v = &a * a.transpose() + DMatrix::identity(3, 3).scale(lambda);
            let exact = v.clone().cholesky().unwrap().inverse();
            let c = v.trace() + extra;
            let k1 = newton_iterations(eps, lambda, c);
            for k in [1, k1 / 2, k1] {
                let x = DMatrix::from_column_slice(3, 3, &newton_inverse(v.as_slice(), 3, c, k).unwrap());
                let error = (x - &exact).singular_values().max();
                let bound = (2f64.powi(k as i32) * (-lambda / c).ln_1p()).exp() / lambda;
                prop_assert!(error <= bound + 1e-12, "k {} error {} bound {}", k, error, bound);
                prop_assert!(k < k1 || error <= eps + 1e-12);
            }
        }

        /// Likewise the square root, with the corrected factor 2.
        #[test]
        fn square_root_meets_its_bound(c1 in 1e-4..1.0f64, width in 0.1..60.0, at in 0.0..1.0, eps in 1e-4..1.0f64) {
            let c2 = c1 + width;
            let z = c1 + at * width;
            let k0 = sqrt_iterations(eps, c1, c2);
            for k in [1, k0] {
                let bound = c2.sqrt() * (2f64.powi(k as i32 + 1) * (-c1 / (4.0 * c2)).ln_1p()).exp();
                let error = (sqrt(z, c2, k) - z.sqrt()).abs();
                prop_assert!(error <= bound + 1e-12);
                prop_assert!(k < k0 || error <= eps + 1e-12);
            }
        }

        /// The largest entry of acomp stands at the largest value, or at one that is closer than it can tell.
        #[test]
        fn argmax_finds_the_largest(values in prop::collection::vec(0.0..1.0f64, 2..9), t in 1u64..1000) {
            let b = argmax(&values, max_depth(t), comparison_depth(t));
            let best = values.iter().copied().fold(0.0, f64::max);
            let got = values[crate::vector::argmax(b.iter().copied())];
            prop_assert!(best - got < 1.0 / (4.1 * t as f64), "best {} got {}", best, got);
            prop_assert!(b.iter().copied().fold(0.0, f64::max) >= 1.0 / (4.0 * t as f64));
        }
    }

    #[test]
    fn an_entry_above_the_papers_threshold_may_be_far_behind() {
        let b = argmax(&[0.54, 0.5], max_depth(100), comparison_depth(100));
        assert!(b[1] > 0.02 && b[1] < 0.03 && b[0] > 0.4, "{b:?}");
    }

    /// Iteration counts and depths computed with Python's `math`.
    #[test]
    fn known_answers() {
        assert_eq!(newton_iterations(1e-3, 1.0, 62.5), 9);
        assert_eq!(sqrt_iterations(0.01, 2.44e-4, 60.5), 22);
        assert_eq!([1, 10, 100, 1000].map(max_depth), [2, 15, 21, 28]);
        assert_eq!([1, 10, 100, 1000].map(comparison_depth), [4, 7, 9, 9]);
        assert_eq!(newton_iterations(2.0, 1.0, 62.5), 1);
        assert_eq!(sign(0.5, 1), 0.6875);
        assert_eq!((compare(1.0, 0.0, 3), compare(0.0, 1.0, 3), max(0.0, 1.0, 2)), (1.0, 0.0, 1.0));
        assert!(argmax(&[], 3, 3).is_empty());
        assert_eq!(newton_inverse(&[1.0; 3], 2, 2.0, 1), Err(Error::Matrix { values: 3, d: 2 }));
    }
}
