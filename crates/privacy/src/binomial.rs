//! Binomial probabilities in double precision, for accounting and audits, not for noise.

/// `P(X < x)` for a binomial variate X of `n` trials with probability `p` in (0, 1). Below the mean the terms
/// are summed; above it the result is 1 minus the upper tail.
pub(crate) fn lower_tail(n: u64, x: u64, p: f64) -> f64 {
    if x as f64 > n as f64 * p {
        return 1.0 - upper_tail(n, x, p);
    }
    if let Some(tail) = smooth_tail(n, n - x + 1, 1.0 - p) {
        return tail;
    }
    let mut sum = 0.0;
    let mut term = if x == 0 { 0.0 } else { mass(n as f64, (x - 1) as f64, p) };
    for k in (0..x).rev() {
        sum += term;
        if term <= sum * 1e-18 {
            break;
        }
        term *= k as f64 * (1.0 - p) / ((n - k + 1) as f64 * p);
    }
    sum
}

/// `P(X >= x)`.
pub(crate) fn upper_tail(n: u64, x: u64, p: f64) -> f64 {
    if x as f64 <= n as f64 * p {
        return 1.0 - lower_tail(n, x, p);
    }
    if let Some(tail) = smooth_tail(n, x, p) {
        return tail;
    }
    let mut sum = 0.0;
    let mut term = if x > n { 0.0 } else { mass(n as f64, x as f64, p) };
    for k in x..=n {
        sum += term;
        if term <= sum * 1e-18 {
            break;
        }
        term *= (n - k) as f64 * p / ((k + 1) as f64 * (1.0 - p));
    }
    sum
}

/// Standard deviation from which the sum of a tail is computed as an integral.
const SMOOTH_DEVIATION: f64 = 4096.0;
/// Nodes and weights of Gauss-Legendre quadrature of five points on `[-1, 1]`.
const LEGENDRE: [(f64, f64); 5] = [
    (-0.906_179_845_938_664, 0.236_926_885_056_189_1),
    (-0.538_469_310_105_683_1, 0.478_628_670_499_366_5),
    (0.0, 0.568_888_888_888_888_9),
    (0.538_469_310_105_683_1, 0.478_628_670_499_366_5),
    (0.906_179_845_938_664, 0.236_926_885_056_189_1),
];
/// Number of parts of the range of integration, which is at most 10 standard deviations long.
const PANELS: u32 = 64;

/// `P(X >= x)` for `x` above the mean, in time that does not depend on `n`; `None` if the distribution is too
/// narrow, or `x` too close to `n`.
///
/// The sum of `f(k)` over `k >= x` is the integral of `f` from `a = x - 1/2` and `f'(a)/24`, up to a part of
/// `(z/sd)^4`, by the midpoint rule: below 1e-13 of the sum within ten deviations `z`.
fn smooth_tail(n: u64, x: u64, p: f64) -> Option<f64> {
    let (nf, a) = (n as f64, x as f64 - 0.5);
    let deviation = (nf * p * (1.0 - p)).sqrt();
    let z = (a - nf * p) / deviation;
    // Up to the third order, ln f decreases at least as fast as z u/sd + u^2/(2 sd^2), so that further terms
    // are negligible.
    let length = deviation * ((z * z + 100.0).sqrt() - z);
    if deviation < SMOOTH_DEVIATION || !(0.0..=10.0).contains(&z) || a + length + 16.0 >= nf {
        return None;
    }
    let half = length / f64::from(2 * PANELS);
    let panel = |i: u32| {
        let centre = a + half * f64::from(2 * i + 1);
        LEGENDRE.iter().map(|(node, weight)| weight * mass(nf, centre + half * node, p)).sum::<f64>()
    };
    let integral = half * (0..PANELS).map(panel).sum::<f64>();
    let slope = ((nf - a + 0.5) * p / ((a + 0.5) * (1.0 - p))).ln();
    Some(integral + slope * mass(nf, a, p) / 24.0)
}

/// `P(X = x)` by Loader's saddle-point form, which is precise for large `n`; between whole numbers its smooth
/// continuation.
fn mass(nf: f64, xf: f64, p: f64) -> f64 {
    if xf == 0.0 {
        return (nf * (-p).ln_1p()).exp();
    }
    if xf == nf {
        return (nf * p.ln()).exp();
    }
    let rest = nf - xf;
    let exponent = stirling_error(nf)
        - stirling_error(xf)
        - stirling_error(rest)
        - deviance(xf, nf * p)
        - deviance(rest, nf * (1.0 - p));
    exponent.exp() * (nf / (std::f64::consts::TAU * xf * rest)).sqrt()
}

/// `ln n! - ln(sqrt(2 pi n) (n/e)^n)`, `n >= 1`.
fn stirling_error(n: f64) -> f64 {
    if n < 16.0 {
        let log_factorial: f64 = (2..=n as u32).map(|k| f64::from(k).ln()).sum();
        return log_factorial - (n + 0.5) * n.ln() + n - std::f64::consts::TAU.ln() / 2.0;
    }
    let s = 1.0 / (n * n);
    (1.0 / 12.0 - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - s * (1.0 / 1680.0 - s / 1188.0)))) / n
}

/// `x ln(x/m) + m - x`, without cancellation for `x` near `m`.
fn deviance(x: f64, m: f64) -> f64 {
    let v = (x - m) / (x + m);
    if v.abs() >= 0.1 {
        return x * (x / m).ln() + m - x;
    }
    let (mut sum, mut term) = ((x - m) * v, 2.0 * x * v);
    for j in 1..100 {
        term *= v * v;
        let next = sum + term / f64::from(2 * j + 1);
        if next == sum {
            break;
        }
        sum = next;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The integral is the sum of all terms, to ten digits and more, for both tails and up to ten deviations
    /// out.
    #[test]
    fn smooth_tails_are_the_plain_sum() {
        let plain = |n: u64, x: u64, p: f64| {
            let (mut sum, mut term) = (0.0, mass(n as f64, x as f64, p));
            for k in x..=n {
                sum += term;
                if term <= sum * 1e-20 {
                    break;
                }
                term *= (n - k) as f64 * p / ((k + 1) as f64 * (1.0 - p));
            }
            sum
        };
        for (n, p) in [(90_000_000u64, 0.25), (90_000_000, 0.75), (4_000_000_000, 0.25), (123_456_789, 0.25)]
        {
            let deviation = (n as f64 * p * (1.0 - p)).sqrt();
            for z in [0.01, 0.5, 2.0, 4.0, 6.5, 9.9] {
                let x = (n as f64 * p + z * deviation).ceil() as u64;
                let (got, want) = (smooth_tail(n, x, p).unwrap(), plain(n, x, p));
                assert!((got / want - 1.0).abs() < 3e-11, "{n} {p} {z}: {got:e} against {want:e}");
            }
        }
        assert!(
            smooth_tail(1000, 300, 0.25).is_none() && smooth_tail(90_000_000, 22_000_000, 0.25).is_none()
        );
    }
}
