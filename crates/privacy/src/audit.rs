//! Empirical lower bounds on epsilon from attacks on outputs. An audit can refute a guarantee, not prove it.

use crate::Error;
use crate::binomial::{lower_tail, upper_tail};
use crate::budget::Delta;
use fault::require;

/// A lower confidence bound on `epsilon`: with probability `1 - error`, the mechanism is **not** `(epsilon,
/// delta)`-DP for any smaller `epsilon`.
///
/// An event that is fixed in advance occurred `hits[0]` times in `runs` runs on one data set, and `hits[1]`
/// times in as many runs on a neighbour. The bound is `ln((low - delta)/high)`, or 0 if that is negative,
/// where `low` and `high` are the Clopper-Pearson limits of the two probabilities at `error/2` each.
///
/// # Errors
/// [`Error::OutOfRange`] if `runs` is 0 or smaller than a number of hits, or `error` is not in (0, 1).
pub fn epsilon_at_least(runs: u64, hits: [u64; 2], delta: Delta, error: f64) -> Result<f64, Error> {
    let most = hits[0].max(hits[1]);
    require(runs > 0 && most <= runs, "hits", most, "at most the number of runs, which must be above 0")?;
    require(error > 0.0 && error < 1.0, "error", error, "in (0, 1)")?;
    let low = lower_limit(runs, hits[0], error / 2.0) - delta.get();
    let high = upper_limit(runs, hits[1], error / 2.0);
    Ok(if low > high { (low / high).ln() } else { 0.0 })
}

/// The `p` at which the probability of `hits` or more is `error`.
fn lower_limit(runs: u64, hits: u64, error: f64) -> f64 {
    if hits == 0 { 0.0 } else { bisect(|p| upper_tail(runs, hits, p) < error).0 }
}

/// The `p` at which the probability of `hits` or fewer is `error`.
fn upper_limit(runs: u64, hits: u64, error: f64) -> f64 {
    if hits == runs { 1.0 } else { bisect(|p| lower_tail(runs, hits + 1, p) > error).1 }
}

/// The largest `p` at which `holds`, and the smallest at which it does not, for a condition that holds below
/// some point in [0, 1]; both up to 2^-60.
fn bisect(holds: impl Fn(f64) -> bool) -> (f64, f64) {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let p = (low + high) / 2.0;
        if holds(p) { low = p } else { high = p }
    }
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the quantiles of the beta law (scipy).
    #[test]
    fn clopper_pearson_limits() {
        for (runs, hits, error, low, high) in [
            (10, 3, 0.025, 0.06673951117773447, 0.6524528500599972),
            (100_000, 120, 5e-5, 0.0008201941528772561, 0.0016854020454201205),
            (20, 0, 0.05, 0.0, 0.13910834066826516),
            (20, 20, 0.05, 0.8608916593317348, 1.0),
        ] {
            let by = 1e-12;
            assert!((lower_limit(runs, hits, error) - low).abs() < by, "{}", lower_limit(runs, hits, error));
            assert!((upper_limit(runs, hits, error) - high).abs() < by, "{}", upper_limit(runs, hits, error));
        }
    }

    #[test]
    fn bounds_and_refusals() {
        let zero = Delta::ZERO;
        assert_eq!(epsilon_at_least(1000, [500, 500], zero, 0.01), Ok(0.0));
        let sure = epsilon_at_least(100_000, [50_000, 10_000], zero, 1e-6).unwrap();
        assert!((1.5..5f64.ln()).contains(&sure), "{sure}");
        assert!(
            epsilon_at_least(0, [0, 0], zero, 0.1).is_err()
                && epsilon_at_least(5, [6, 0], zero, 0.1).is_err()
        );
        assert!(epsilon_at_least(5, [1, 0], zero, 0.0).is_err());
    }
}
