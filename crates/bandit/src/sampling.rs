//! Samplers in double precision, for environments and **simulation only**: no privacy rests on them.

use rand::{Rng, RngExt};

/// A gamma variate of scale 1 and shape 1 or more (Marsaglia, Tsang 2000).
pub(crate) fn gamma(shape: f64, rng: &mut dyn Rng) -> f64 {
    let d = shape - 1.0 / 3.0;
    let c = (9.0 * d).sqrt().recip();
    loop {
        let z = standard_normal(rng);
        let v = (1.0 + c * z).powi(3);
        if v > 0.0 && (1.0 - rng.random::<f64>()).ln() < 0.5 * z * z + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

/// A Poisson variate, drawn by counting for means below 10, and by transformed rejection above (Hörmann 1993,
/// algorithm PTRS).
pub(crate) fn poisson(mean: f64, rng: &mut dyn Rng) -> i128 {
    if mean < 10.0 {
        let (mut count, mut left) = (0, mean);
        loop {
            left += (1.0 - rng.random::<f64>()).ln();
            if left < 0.0 {
                return count;
            }
            count += 1;
        }
    }
    let b = 0.931 + 2.53 * mean.sqrt();
    let a = -0.059 + 0.02483 * b;
    let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    let squeeze = 0.9277 - 3.6224 / (b - 2.0);
    loop {
        let (u, v) = (rng.random::<f64>() - 0.5, 1.0 - rng.random::<f64>());
        let us = 0.5 - u.abs();
        let k = ((2.0 * a / us + b) * u + mean + 0.43).floor();
        if us >= 0.07 && v <= squeeze {
            return k as i128;
        }
        if k < 0.0 || (us < 0.013 && v > us) {
            continue;
        }
        let log = (v * inverse_alpha / (a / (us * us) + b)).ln();
        if log <= k * mean.ln() - mean - ln_factorial(k) {
            return k as i128;
        }
    }
}

/// `ln k!` by Stirling's series, whose error is below 1e-9 for `k` from 10 on; exact below.
fn ln_factorial(k: f64) -> f64 {
    if k < 10.0 {
        return (1..=k as u32).map(|i| f64::from(i).ln()).sum();
    }
    let tail = (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / (1260.0 * k * k)) / (k * k)) / k;
    (k + 0.5) * k.ln() - k + 0.5 * std::f64::consts::TAU.ln() + tail
}

/// A standard normal variate from two uniform ones (Box, Muller 1958). Two words of `rng`.
pub fn standard_normal(rng: &mut dyn Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use privacy::source::SplitMix64;

    /// Share of `draws` up to each value of 0..=60 against the law's, within five standard errors (false
    /// alarm below 4e-5 a sampler).
    fn fits(draws: &[f64], weight: impl Fn(f64) -> f64) {
        let (n, mut below) = (draws.len() as f64, 0.0);
        for k in 0..=60 {
            below += weight(f64::from(k));
            let share = draws.iter().filter(|v| **v <= f64::from(k)).count() as f64 / n;
            let error = (below * (1.0 - below)).max(1e-4) / n;
            assert!((share - below).abs() < 5.0 * error.sqrt(), "{k}: {share} against {below}");
        }
    }

    #[test]
    fn counts_follow_poissons_law() {
        let mut rng = SplitMix64::new(3);
        for mean in [0.7, 9.5, 10.5, 30.0] {
            let draws: Vec<f64> = (0..100_000).map(|_| poisson(mean, &mut rng) as f64).collect();
            fits(&draws, |k: f64| (k * f64::ln(mean) - mean - ln_factorial(k)).exp());
        }
        // Means for which nothing can be tabled: mean and variance alone.
        for mean in [1e4, 1e10] {
            let z: Vec<f64> =
                (0..100_000).map(|_| (poisson(mean, &mut rng) as f64 - mean) / mean.sqrt()).collect();
            moments(&z, 0.0, 1.0);
        }
    }

    /// Mean and variance within five standard errors.
    fn moments(values: &[f64], mean: f64, variance: f64) {
        let s = crate::Summary::of(values).unwrap();
        assert!((s.mean - mean).abs() < 5.0 * s.standard_error, "{s:?} against {mean}");
        let squares: Vec<f64> = values.iter().map(|v| (v - mean).powi(2)).collect();
        let s = crate::Summary::of(&squares).unwrap();
        assert!((s.mean - variance).abs() < 5.0 * s.standard_error, "{s:?} against {variance}");
    }

    #[test]
    fn gamma_has_the_moments_of_its_shape() {
        let mut rng = SplitMix64::new(4);
        for shape in [1.0, 2.5, 1e5] {
            let draws: Vec<f64> = (0..100_000).map(|_| gamma(shape, &mut rng)).collect();
            moments(&draws, shape, shape);
        }
    }
}
