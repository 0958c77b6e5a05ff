//! The privacy of several releases on one person (composition), and of messages that are shuffled
//! (amplification).

use crate::Error;
use crate::budget::{Delta, Epsilon};
use fault::require;

/// The privacy of `k` releases of `(epsilon, delta)` each by basic composition: `(k epsilon, k delta)`.
///
/// # Errors
/// [`Error::OutOfRange`] if the sums are not budgets.
pub fn basic(k: u32, epsilon: Epsilon, delta: Delta) -> Result<(Epsilon, Delta), Error> {
    let k = f64::from(k);
    Ok((Epsilon::new(k * epsilon.get())?, Delta::new(k * delta.get())?))
}

/// The privacy of `k` adaptive releases of `(epsilon, delta)` each by advanced composition, with `slack`
/// added to delta: `(sqrt(2 k ln(1/slack)) epsilon + k epsilon (e^epsilon - 1), k delta + slack)`.
///
/// # Errors
/// [`Error::OutOfRange`] if `slack` is 0 or the results are not budgets.
///
/// # Source
/// Dwork, Rothblum, Vadhan 2010, Theorem III.3.
pub fn advanced(k: u32, epsilon: Epsilon, delta: Delta, slack: Delta) -> Result<(Epsilon, Delta), Error> {
    require(slack.get() > 0.0, "slack", 0, "above 0")?;
    let total = advanced_epsilon(k, epsilon.get(), slack);
    Ok((Epsilon::new(total)?, Delta::new(f64::from(k) * delta.get() + slack.get())?))
}

fn advanced_epsilon(k: u32, epsilon: f64, slack: Delta) -> f64 {
    let k = f64::from(k);
    (-2.0 * k * slack.get().ln()).sqrt() * epsilon + k * epsilon * epsilon.exp_m1()
}

/// The budget of each of `k` adaptive releases that together spend `(epsilon, delta)`.
///
/// Up to ten releases are composed by [`basic`]. More are composed by [`advanced`] with half of `delta` as
/// the slack; the result is the largest `epsilon` per release that it allows.
///
/// # Errors
/// [`Error::OutOfRange`] if `k` is 0, or above 10 with `delta` 0.
pub fn per_release(k: u32, epsilon: Epsilon, delta: Delta) -> Result<(Epsilon, Delta), Error> {
    require(k > 0, "releases", 0, "at least 1")?;
    let n = f64::from(k);
    if k <= 10 {
        return Ok((Epsilon::new(epsilon.get() / n)?, Delta::new(delta.get() / n)?));
    }
    require(delta.get() > 0.0, "delta", 0, "above 0 for more than 10 releases")?;
    let slack = Delta::new(delta.get() / 2.0)?;
    // The total grows with the part, and exceeds epsilon at the latest where the part is epsilon. The total
    // at `low` never exceeds epsilon.
    let (mut low, mut high) = (0.0, epsilon.get());
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if advanced_epsilon(k, middle, slack) <= epsilon.get() { low = middle } else { high = middle }
    }
    Ok((Epsilon::new(low)?, Delta::new(delta.get() / (2.0 * n))?))
}

/// The privacy of `n` shuffled messages, each `local`-DP by itself (amplification by shuffling):
/// `ln(1 + (e^l - 1)/(e^l + 1) (8 sqrt(e^l ln(4/delta)/n) + 8 e^l/n))`, and never above `l = local`.
///
/// This is of order `l sqrt(ln(1/delta)/n)` for `l <= 1`, and `sqrt(e^l ln(1/delta)/n)` above. The theorem
/// holds for `l <= ln(n/(16 ln(2/delta)))`; for larger `l` the result is `local`.
///
/// # Errors
/// [`Error::OutOfRange`] if `delta` is 0.
///
/// # Source
/// Feldman, McMillan, Talwar, "Hiding among the clones", 2021, Theorem 3.1.
pub fn shuffled(n: u64, local: Epsilon, delta: Delta) -> Result<Epsilon, Error> {
    require(delta.get() > 0.0, "delta", 0, "above 0 under shuffling")?;
    let (n, e) = (n as f64, local.get().exp());
    if local.get() > (n / (16.0 * (2.0 / delta.get()).ln())).ln() {
        return Ok(local);
    }
    let amplification = 8.0 * (e * (4.0 / delta.get()).ln() / n).sqrt() + 8.0 * e / n;
    Epsilon::new(((e - 1.0) / (e + 1.0) * amplification).ln_1p().min(local.get()))
}
