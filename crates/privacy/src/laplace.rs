//! Sources of Laplace noise for policies.

use crate::source::Words;
use crate::{Error, Ratio, sampler};
use fault::require;
use rand::Rng;
use serde::{Deserialize, Serialize};

/// A source of Laplace noise, with density `e^(-|x|/scale) / (2 scale)` or its discrete counterpart.
///
/// Noise of `scale = sensitivity / epsilon` gives `epsilon`-differential privacy to a statistic that changes
/// by at most `sensitivity` between neighbours. [`GridLaplace`] gives this guarantee as implemented;
/// [`HarnessLaplace`] would give it in exact arithmetic.
pub trait LaplaceNoise {
    /// Draws a value of the given scale, in the unit of the statistic.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `scale` is not finite and above 0; those of the implementor.
    fn draw(&mut self, scale: f64, rng: &mut dyn Rng) -> Result<f64, Error>;

    /// `value` with noise added. **Releases must use this method**, which rounds the value to the grid first.
    ///
    /// # Errors
    /// As [`draw`](Self::draw); [`Error::OutOfRange`] if `value` is not finite.
    fn add(&mut self, value: f64, scale: f64, rng: &mut dyn Rng) -> Result<f64, Error> {
        Ok(finite(value)? + self.draw(scale, rng)?)
    }
}

pub(crate) fn finite(value: f64) -> Result<f64, Error> {
    require(value.is_finite(), "value", value, "finite")?;
    Ok(value)
}

pub(crate) fn positive(field: &'static str, scale: f64) -> Result<f64, Error> {
    require(scale.is_finite() && scale > 0.0, field, scale, "finite and above 0")?;
    Ok(scale)
}

/// Continuous Laplace noise by inversion in double precision, for **simulation only**.
///
/// The gaps between floating-point numbers reveal the value to which it is added (Mironov 2012). A draw takes
/// one word: `u = ((word >> 11) + 1/2) 2^-53`, then `b ln 2u` for `u < 1/2`, else `-b ln 2(1 - u)`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HarnessLaplace;

impl LaplaceNoise for HarnessLaplace {
    fn draw(&mut self, scale: f64, rng: &mut dyn Rng) -> Result<f64, Error> {
        let scale = positive("scale", scale)?;
        let u = ((rng.word() >> 11) as f64 + 0.5) * 2f64.powi(-53);
        Ok(if u < 0.5 { scale * (2.0 * u).ln() } else { -scale * (2.0 * (1.0 - u)).ln() })
    }
}

/// Discrete Laplace noise on the multiples of `2^-bits`, from integers only, for deployments.
///
/// - Privacy: [`add`](LaplaceNoise::add) rounds the value down to whole steps, then adds `z` steps with `P(z)
///   ∝ e^(-|z| step/scale)`, where the double `scale` is read as an exact rational. If the sensitivity is a
///   whole number of steps, it also bounds the difference of rounded neighbours, and the release is exactly
///   `sensitivity/scale`-DP. The value must be exact: an integer, or a double on the grid.
/// - Range: results are clamped to `2^53` steps in absolute value, which doubles represent exactly. Clamping
///   is post-processing of the exact release.
/// - Source: Canonne, Kamath, Steinke 2020 (sampler); Mironov 2012 (why a grid).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct GridLaplace {
    bits: u32,
}

impl GridLaplace {
    /// The grid of steps `2^-bits`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `bits` is above 40.
    pub fn new(bits: u32) -> Result<Self, Error> {
        require(bits <= 40, "bits", bits, "at most 40")?;
        Ok(Self { bits })
    }

    /// The step, `2^-bits`.
    pub fn step(self) -> f64 {
        2f64.powi(-(self.bits as i32))
    }

    fn steps(self, scale: f64, rng: &mut dyn Rng) -> Result<i128, Error> {
        let rate = Ratio::from_f64(self.step())?.over(Ratio::from_f64(positive("scale", scale)?)?)?;
        sampler::discrete_laplace(rng, rate)
    }

    fn cut(self, steps: i128) -> f64 {
        const MOST: i128 = 1 << 53;
        steps.clamp(-MOST, MOST) as f64 * self.step()
    }
}

impl TryFrom<u32> for GridLaplace {
    type Error = Error;
    fn try_from(bits: u32) -> Result<Self, Error> {
        Self::new(bits)
    }
}

impl From<GridLaplace> for u32 {
    fn from(grid: GridLaplace) -> Self {
        grid.bits
    }
}

impl LaplaceNoise for GridLaplace {
    fn draw(&mut self, scale: f64, rng: &mut dyn Rng) -> Result<f64, Error> {
        Ok(self.cut(self.steps(scale, rng)?))
    }

    fn add(&mut self, value: f64, scale: f64, rng: &mut dyn Rng) -> Result<f64, Error> {
        // The cast saturates far outside the range of `cut`. Division by a power of two is exact.
        let whole = (finite(value)? / self.step()).floor() as i64;
        Ok(self.cut(i128::from(whole).saturating_add(self.steps(scale, rng)?)))
    }
}

/// A list of values in place of noise, for tests. It records the scales of the draws.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ScriptedLaplace {
    values: Vec<f64>,
    scales: Vec<f64>,
}

impl ScriptedLaplace {
    /// The source that returns `values` in this order.
    pub fn new(values: impl Into<Vec<f64>>) -> Self {
        Self { values: values.into(), scales: Vec::new() }
    }

    /// The scales of all draws so far.
    pub fn scales(&self) -> &[f64] {
        &self.scales
    }
}

impl LaplaceNoise for ScriptedLaplace {
    /// Returns the next value of the list, for any scale. No word is drawn.
    ///
    /// # Errors
    /// [`Error::ScriptEnded`] when none is left.
    fn draw(&mut self, scale: f64, _: &mut dyn Rng) -> Result<f64, Error> {
        let scale = positive("scale", scale)?;
        let (draw, values) = (self.scales.len() + 1, self.values.len());
        let value = *self.values.get(draw - 1).ok_or(Error::ScriptEnded { draw, values })?;
        self.scales.push(scale);
        Ok(value)
    }
}

/// A borrowed source, which policies can contain.
impl<N: LaplaceNoise + ?Sized> LaplaceNoise for &mut N {
    fn draw(&mut self, scale: f64, rng: &mut dyn Rng) -> Result<f64, Error> {
        (**self).draw(scale, rng)
    }

    fn add(&mut self, value: f64, scale: f64, rng: &mut dyn Rng) -> Result<f64, Error> {
        (**self).add(value, scale, rng)
    }
}
