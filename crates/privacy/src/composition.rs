//! Many releases on the same person, and one release hidden in a crowd.

use crate::Error;
use crate::budget::{Delta, Epsilon};
use fault::OutOfRange;

/// `k` releases of `(epsilon, delta)` each: `(k epsilon, k delta)`.
///
/// # Errors
/// [`Error::OutOfRange`] if the sums are not budgets.
pub fn basic(k: u32, epsilon: Epsilon, delta: Delta) -> Result<(Epsilon, Delta), Error> {
    let k = f64::from(k);
    Ok((Epsilon::new(k * epsilon.get())?, Delta::new(k * delta.get())?))
}

/// `k` adaptive releases of `(epsilon, delta)` each, with `slack` more failure probability:
/// `(sqrt(2 k ln(1/slack)) epsilon + k epsilon (e^epsilon - 1), k delta + slack)`.
///
/// # Errors
/// [`Error::OutOfRange`] if `slack` is 0 or the results are not budgets.
///
/// # Source
/// Dwork, Rothblum, Vadhan 2010, Theorem III.3.
pub fn advanced(k: u32, epsilon: Epsilon, delta: Delta, slack: Delta) -> Result<(Epsilon, Delta), Error> {
    if slack.get() == 0.0 {
        return Err(Error::OutOfRange(OutOfRange::new("slack", 0, "above 0")));
    }
    let total = advanced_epsilon(k, epsilon.get(), slack);
    Ok((Epsilon::new(total)?, Delta::new(f64::from(k) * delta.get() + slack.get())?))
}

fn advanced_epsilon(k: u32, epsilon: f64, slack: Delta) -> f64 {
    let k = f64::from(k);
    (-2.0 * k * slack.get().ln()).sqrt() * epsilon + k * epsilon * epsilon.exp_m1()
}

/// What each of `k` adaptive releases may spend, so that together they spend `(epsilon, delta)`.
///
/// Up to ten by [`basic`] composition; more by [`advanced`], half of `delta` being the slack, solved for the
/// largest `epsilon` a release.
///
/// # Errors
/// [`Error::OutOfRange`] if `k` is 0, or above 10 with `delta` 0.
pub fn per_release(k: u32, epsilon: Epsilon, delta: Delta) -> Result<(Epsilon, Delta), Error> {
    let n = f64::from(k);
    match k {
        0 => return Err(Error::OutOfRange(OutOfRange::new("releases", 0, "at least 1"))),
        1..=10 => return Ok((Epsilon::new(epsilon.get() / n)?, Delta::new(delta.get() / n)?)),
        _ if delta.get() == 0.0 => {
            return Err(Error::OutOfRange(OutOfRange::new("delta", 0, "above 0 for more than 10 releases")));
        }
        _ => {}
    }
    let slack = Delta::new(delta.get() / 2.0)?;
    // The total grows with the part and passes epsilon at or before `part = epsilon`; the lower end stays
    // allowed.
    let (mut low, mut high) = (0.0, epsilon.get());
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if advanced_epsilon(k, middle, slack) <= epsilon.get() { low = middle } else { high = middle }
    }
    Ok((Epsilon::new(low)?, Delta::new(delta.get() / (2.0 * n))?))
}

/// What `n` messages, each `local`-DP by itself, are worth once shuffled:
/// `ln(1 + (e^l - 1)/(e^l + 1) (8 sqrt(e^l ln(4/delta)/n) + 8 e^l/n))`, never above `local`.
///
/// Of order `l sqrt(ln(1/delta)/n)` for `l <= 1` and `sqrt(e^l ln(1/delta)/n)` above. Where the crowd is too
/// small for the theorem, `l > ln(n/(16 ln(2/delta)))`, shuffling is credited with nothing.
///
/// # Errors
/// [`Error::OutOfRange`] if `delta` is 0.
///
/// # Source
/// Feldman, McMillan, Talwar, "Hiding among the clones", 2021, Theorem 3.1.
pub fn shuffled(n: u64, local: Epsilon, delta: Delta) -> Result<Epsilon, Error> {
    if delta.get() == 0.0 {
        return Err(Error::OutOfRange(OutOfRange::new("delta", 0, "above 0 under shuffling")));
    }
    let (n, e) = (n as f64, local.get().exp());
    if local.get() > (n / (16.0 * (2.0 / delta.get()).ln())).ln() {
        return Ok(local);
    }
    let crowd = 8.0 * (e * (4.0 / delta.get()).ln() / n).sqrt() + 8.0 * e / n;
    Epsilon::new(((e - 1.0) / (e + 1.0) * crowd).ln_1p().min(local.get()))
}
