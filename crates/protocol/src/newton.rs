//! Convergence of the coupled Newton iteration X ← cX(2I − M), M ← cM(2I − M) with M = VX, by the extreme
//! eigenvalues of M.

use crate::Error;
use fault::OutOfRange;
use serde::{Deserialize, Serialize};

/// The factors that the start and the steps of a warm-started Newton iteration multiply by.
///
/// With the eigenvalues of M in [1 − e, 1 + e], those of M(2I − M) are in [1 − e², 1]. The factor 2/(2 − e²)
/// moves them to within e²/(2 − e²) of one on both sides. While e is near 1, a step with this factor reduces
/// e as much as two steps without it.
///
/// An eigenvalue above 2 becomes negative, and grows. So e in a factor is at most 63/64, which keeps M below
/// 2 − 1/64, whatever the noise of M below that.
///
/// # Source
/// Departure from Encrypted Linear Contextual Bandit, eq. 2, where every factor is 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Factors {
    start: f64,
    steps: Vec<f64>,
    residual: f64,
}

impl Factors {
    /// The factors of `steps` steps, at least 1, from an inverse A with the eigenvalues of AV in [`bottom`,
    /// `top`].
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless `bottom` is positive, and `top` finite and at least `bottom`.
    pub fn warm(bottom: f64, top: f64, steps: usize) -> Result<Self, Error> {
        check(bottom, top)?;
        let gaps: Vec<f64> = gaps(bottom, top).take(steps.max(1) + 1).collect();
        let (last, before) = gaps.split_last().map_or((0.0, &[][..]), |(last, rest)| (*last, rest));
        let steps = before.iter().map(|gap| factor(*gap)).collect();
        Ok(Factors { start: start(bottom, top), steps, residual: 1.0 - last })
    }

    /// The factor of the start, 2/(bottom + top) where e is at most 63/64.
    pub fn start(&self) -> f64 {
        self.start
    }

    /// The factor of each step, in order; there is at least one.
    pub fn steps(&self) -> &[f64] {
        &self.steps
    }

    /// The largest distance from one that an eigenvalue of XV can have after the last step.
    pub fn residual(&self) -> f64 {
        self.residual
    }
}

/// The number of steps, at least 1, after which the eigenvalues of XV are within `tolerance` of one, if they
/// are in [`bottom`, `top`] before the first step.
///
/// # Errors
/// As [`Factors::warm`]; [`Error::OutOfRange`] unless the tolerance is in [2⁻⁴⁰, 1).
pub fn warm_steps(bottom: f64, top: f64, tolerance: f64) -> Result<usize, Error> {
    check(bottom, top)?;
    if !((-40f64).exp2()..1.0).contains(&tolerance) {
        return Err(OutOfRange::new("tolerance", tolerance, "from 2^-40 to 1").into());
    }
    // e reaches every tolerance, because 1 − e grows by a factor of four in each of the first steps.
    Ok(gaps(bottom, top).skip(1).take(1100).take_while(|gap| 1.0 - gap > tolerance).count() + 1)
}

fn check(bottom: f64, top: f64) -> Result<(), Error> {
    if bottom >= f64::MIN_POSITIVE && bottom <= top && top <= f64::MAX {
        return Ok(());
    }
    let got = format!("{bottom:e} to {top:e}");
    Err(OutOfRange::new("range of eigenvalues", got, "positive and finite").into())
}

/// The least 1 − e by which factors are made.
const MARGIN: f64 = 1.0 / 64.0;

fn start(bottom: f64, top: f64) -> f64 {
    // The same ratio as that of 1 − MARGIN/2 and MARGIN/2.
    2.0 / (bottom.max(top * MARGIN / (2.0 - MARGIN)) + top)
}

fn factor(gap: f64) -> f64 {
    let e = 1.0 - gap.max(MARGIN);
    2.0 / (2.0 - e * e)
}

/// The value of 1 − e before each step. The iteration is on it, because it is exact when e is near 1.
fn gaps(bottom: f64, top: f64) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(bottom * start(bottom, top)), |gap| Some(factor(*gap) * gap * (2.0 - gap)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: e = 1/2, then 1/7, 1/97, 1/18817.
    #[test]
    fn residuals_by_hand() {
        let e3 = 1.0 / 18817.0;
        assert_eq!(warm_steps(1.0, 3.0, 1.001 * e3), Ok(3));
        assert_eq!(warm_steps(1.0, 3.0, 0.999 * e3), Ok(4));
        assert_eq!(warm_steps(0.2, 0.6, 1.001 * e3), Ok(3), "the ratio alone counts");
        let factors = Factors::warm(1.0, 3.0, 3).unwrap();
        assert!((factors.residual() - e3).abs() < 1e-15);
        assert_eq!((factors.start(), factors.steps().len()), (0.5, 3));
        for (factor, e) in factors.steps().iter().zip([1.0 / 2.0, 1.0 / 7.0, 1.0 / 97.0]) {
            assert!((factor - 2.0 / (2.0 - e * e)).abs() < 1e-15);
        }
    }

    /// With an error of 2⁻⁷ in every step from a start far from the inverse, an eigenvalue at the top ends
    /// within 0.05 of one. The control: factors without the margin make it negative, and it grows.
    #[test]
    fn eigenvalues_stay_below_two() {
        let end = |factors: &[f64], start: f64| {
            let error = 1.0 / 128.0;
            factors.iter().fold(start + error, |m, factor| factor * m * (2.0 - m) + error)
        };
        let top = 1e6;
        let factors = Factors::warm(1.0, top, warm_steps(1.0, top, 1e-3).unwrap()).unwrap();
        let margin = end(&factors.steps, factors.start * top);
        assert!((margin - 1.0).abs() < 0.05, "{margin}");
        let mut e: f64 = (top - 1.0) / (top + 1.0);
        let mut without = Vec::new();
        while e > 1e-3 {
            without.push(2.0 / (2.0 - e * e));
            e = e * e / (2.0 - e * e);
        }
        let without = end(&without, 2.0 * top / (1.0 + top));
        assert!(without < -1.0, "{without}");
    }

    /// The factors halve the steps of a start far from the inverse: 7 plain ones for 31 and 2^-10. The margin
    /// costs a step from 10⁹.
    #[test]
    fn factors_save_steps() {
        let plain = |top: f64, tolerance: f64| {
            (tolerance.ln() / (1.0 - 2.0 / (1.0 + top)).ln()).log2().ceil() as usize
        };
        for (top, tolerance, steps, without) in
            [(3.0, 1e-3, 3, 4), (6.0, 1e-3, 4, 5), (32.25, 1e-3, 5, 7), (1e9, 1e-3, 18, 32)]
        {
            assert_eq!(warm_steps(1.0, top, tolerance), Ok(steps), "{top}");
            assert_eq!(plain(top, tolerance), without, "{top}");
        }
        assert_eq!(warm_steps(1.0, 1.0, 1e-3), Ok(1));
        assert!(warm_steps(1.0, 0.5, 1e-3).is_err() && warm_steps(1.0, f64::NAN, 1e-3).is_err());
        assert!(warm_steps(0.0, 1.0, 1e-3).is_err());
        assert!(warm_steps(1.0, 2.0, 0.0).is_err() && warm_steps(1.0, 2.0, 1.0).is_err());
        assert!(Factors::warm(1.0, 0.5, 3).is_err());
    }
}
