//! The exponential weights that EXP3 and its wrappers share.

use rand::{Rng, RngExt};

/// `p_i = (1 - gamma) e^(w_i / scale) / sum_j e^(w_j / scale) + gamma / N`.
pub(super) fn probabilities(weights: &[f64], scale: f64, gamma: f64) -> Vec<f64> {
    // The largest weight is subtracted, so that no power overflows.
    let most = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = weights.iter().map(|w| ((w - most) / scale).exp()).collect();
    let (sum, arms) = (powers.iter().sum::<f64>(), weights.len() as f64);
    powers.iter().map(|power| (1.0 - gamma) * power / sum + gamma / arms).collect()
}

/// Draws an index with probabilities `p` from one uniform number. If rounding leaves a remainder, it is the
/// last.
pub(super) fn draw(p: &[f64], rng: &mut dyn Rng) -> usize {
    let u: f64 = rng.random();
    let mut sum = 0.0;
    let below = |v: &f64| {
        sum += v;
        u < sum
    };
    p.iter().position(below).unwrap_or(p.len().saturating_sub(1))
}
