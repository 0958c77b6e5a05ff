//! Best uniform approximation in the Chebyshev basis, by the Remez exchange algorithm.

use std::f64::consts::PI;

use crate::Error;
use crate::polynomial::clenshaw;

/// The Chebyshev coefficients on [-1, 1], in ascending degree, and the largest error of the best
/// approximation that [`crate::Chebyshev::minimax`] returns.
pub(crate) fn minimax(
    basis: &[usize],
    f: impl Fn(f64) -> f64,
    low: f64,
    high: f64,
) -> Result<(Vec<f64>, f64), Error> {
    let n = basis.len();
    let degree = basis.last().copied().unwrap_or(0);
    let failed = Error::NoConvergence { degree, low, high };
    let at = |theta: f64| 0.5 * (low + high) - 0.5 * (high - low) * theta.cos();
    let grid = 48 * (n + 1);
    let mut reference: Vec<f64> = (0..=n).map(|k| PI * k as f64 / n as f64).collect();
    for _ in 0..100 {
        let mut rows: Vec<Vec<f64>> = reference
            .iter()
            .enumerate()
            .map(|(k, &theta)| {
                let x = at(theta);
                let angle = x.clamp(-1.0, 1.0).acos();
                let sign = if k % 2 == 0 { 1.0 } else { -1.0 };
                basis.iter().map(|&i| (i as f64 * angle).cos()).chain([sign, f(x)]).collect()
            })
            .collect();
        let solution = solve(&mut rows).ok_or(failed.clone())?;
        let levelled = solution[n].abs();
        let mut coefficients = vec![0.0; degree + 1];
        for (&i, &c) in basis.iter().zip(&solution) {
            coefficients[i] = c;
        }
        let error = |theta: f64| clenshaw(&coefficients, at(theta)) - f(at(theta));
        let mut extrema = extrema(error, grid);
        // Removing the smaller of the two end points keeps the alternation of signs.
        while extrema.len() > n + 1 {
            let last = extrema.len() - 1;
            extrema.remove(if extrema[0].1.abs() < extrema[last].1.abs() { 0 } else { last });
        }
        if extrema.len() < n + 1 || !levelled.is_finite() {
            return Err(failed);
        }
        let worst = extrema.iter().fold(0.0f64, |w, e| w.max(e.1.abs()));
        if worst - levelled <= 1e-7 * worst + 1e-14 {
            return Ok((coefficients, worst));
        }
        reference = extrema.into_iter().map(|(theta, _)| theta).collect();
    }
    Err(failed)
}

/// The point of the largest |error| in each run of equal signs, as (angle, error), refined by a parabola
/// through three points.
fn extrema(error: impl Fn(f64) -> f64, grid: usize) -> Vec<(f64, f64)> {
    let step = PI / grid as f64;
    let values: Vec<f64> = (0..=grid).map(|g| error(step * g as f64)).collect();
    let mut best: Vec<usize> = Vec::new();
    for (g, v) in values.iter().enumerate() {
        match best.last_mut() {
            Some(b) if values[*b].is_sign_positive() == v.is_sign_positive() => {
                if v.abs() > values[*b].abs() {
                    *b = g;
                }
            }
            _ => best.push(g),
        }
    }
    let refined = |g: usize| {
        let theta = step * g as f64;
        if g == 0 || g == grid {
            return (theta, values[g]);
        }
        let (left, mid, right) = (values[g - 1], values[g], values[g + 1]);
        let bend = left - 2.0 * mid + right;
        let shift = if bend == 0.0 { 0.0 } else { (0.5 * (left - right) / bend).clamp(-1.0, 1.0) };
        let moved = (theta + shift * step, error(theta + shift * step));
        if moved.1.abs() > mid.abs() { moved } else { (theta, mid) }
    };
    best.into_iter().map(refined).collect()
}

/// Solves the linear system with these augmented rows by Gaussian elimination with partial pivoting; `None`
/// if it is singular.
fn solve(rows: &mut [Vec<f64>]) -> Option<Vec<f64>> {
    let n = rows.len();
    for c in 0..n {
        let pivot = (c..n).max_by(|&a, &b| rows[a][c].abs().total_cmp(&rows[b][c].abs()))?;
        rows.swap(c, pivot);
        if rows[c][c].abs() < 1e-300 {
            return None;
        }
        let (done, rest) = rows.split_at_mut(c + 1);
        for row in rest {
            let factor = row[c] / done[c][c];
            for (x, p) in row.iter_mut().zip(&done[c]).skip(c) {
                *x -= factor * p;
            }
        }
    }
    let mut x = vec![0.0; n];
    for r in (0..n).rev() {
        let known: f64 = (r + 1..n).map(|c| rows[r][c] * x[c]).sum();
        x[r] = (rows[r][n] - known) / rows[r][r];
    }
    Some(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The best linear approximation of x^2 on [0, 1] is x - 1/8.
    #[test]
    fn known_best_line() {
        let (coefficients, error) = minimax(&[0, 1], |x| x * x, 0.0, 1.0).unwrap();
        assert!((error - 0.125).abs() < 1e-9);
        assert!((coefficients[0] + 0.125).abs() < 1e-9 && (coefficients[1] - 1.0).abs() < 1e-9);
    }

    /// By Chebyshev's criterion, an approximation with four coefficients has five points of largest error
    /// with alternating signs.
    #[test]
    fn ripples_are_equal_and_alternate() {
        let (coefficients, largest) = minimax(&[1, 3, 5, 7], |_| 1.0, 0.1, 1.0).unwrap();
        let error = |x: f64| clenshaw(&coefficients, x) - 1.0;
        let mut turns = 0;
        let mut last = 0.0f64;
        for g in 0..=20_000 {
            let e = error(0.1 + 0.9 * f64::from(g) / 20_000.0);
            assert!(e.abs() <= largest * (1.0 + 1e-6));
            if e.abs() > largest * (1.0 - 1e-4) && e.signum() != last {
                turns += 1;
                last = e.signum();
            }
        }
        assert_eq!(turns, 5);
    }
}
