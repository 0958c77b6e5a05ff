//! Binomial probabilities in double precision: for accounting and audits, never for noise.

/// `P(X < x)`, X binomial of `n` and `p` in (0, 1): summed below the mean, 1 less the other tail above it.
pub(crate) fn lower_tail(n: u64, x: u64, p: f64) -> f64 {
    if x as f64 > n as f64 * p {
        return 1.0 - upper_tail(n, x, p);
    }
    let mut sum = 0.0;
    let mut term = if x == 0 { 0.0 } else { mass(n, x - 1, p) };
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
    let mut sum = 0.0;
    let mut term = if x > n { 0.0 } else { mass(n, x, p) };
    for k in x..=n {
        sum += term;
        if term <= sum * 1e-18 {
            break;
        }
        term *= (n - k) as f64 * p / ((k + 1) as f64 * (1.0 - p));
    }
    sum
}

/// `P(X = x)` by Loader's saddle-point form, which keeps its digits for large `n`.
fn mass(n: u64, x: u64, p: f64) -> f64 {
    let (nf, xf) = (n as f64, x as f64);
    if x == 0 {
        return (nf * (-p).ln_1p()).exp();
    }
    if x == n {
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
