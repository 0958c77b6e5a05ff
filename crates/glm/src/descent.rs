//! Private gradient descent, which accesses the data only through noisy sums of clipped gradients.

use crate::mle::project_ball;
use crate::{Error, Link};
use bandit::vector::{dot, norm};
use serde::{Deserialize, Serialize};

/// Full-batch projected descent on the mean loss plus `regulariser / (2n) ||theta||^2`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Descent {
    /// Number of steps, `N`. Each step sums all gradients once.
    pub steps: u32,
    /// Largest norm of a gradient; longer ones are scaled to it. Replacing one row changes a sum by at most
    /// twice this norm.
    pub clip: f64,
    /// Length of step `i = 1, 2, ...` is `step / sqrt(i)`, or `step` throughout where `constant`.
    pub step: f64,
    /// Whether the step length is constant.
    pub constant: bool,
    /// Number of first iterates among `theta_0, ..., theta_N` that the returned average omits.
    pub burn_in: u32,
    /// Whether the last iterate, `theta_N`, is in the average.
    pub last: bool,
    /// `lambda` of the regulariser, which does not depend on data and is added after the noise.
    pub regulariser: f64,
}

impl Descent {
    /// The paper's P_GD: constant step `D / (L sqrt N)` with `D = 2S` and `L = R + S regulariser / n`; the
    /// mean of `theta_0, ..., theta_{N-1}`.
    ///
    /// # Source
    /// Algorithm 7. Departures: the step is `2S / (L sqrt N)` everywhere, where the paper has a further
    /// factor 2 in one place; the regulariser is added outside the protocol.
    pub fn paper(steps: u32, r: f64, s: f64, regulariser: f64, n: f64) -> Self {
        let step = 2.0 * s / ((r + s * regulariser / n) * f64::from(steps).sqrt());
        Self { steps, clip: r, step, constant: true, burn_in: 0, last: false, regulariser }
    }

    /// Refuses fields outside their ranges.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] with the first such field.
    pub fn validate(&self) -> Result<(), Error> {
        let Self { steps, clip, step, burn_in, regulariser, .. } = *self;
        crate::error::field("steps", steps.into(), (1..=100_000).contains(&steps), "in 1..=100000")?;
        crate::error::field("clip", clip, clip > 0.0, "positive")?;
        crate::error::field("step", step, step > 0.0, "positive")?;
        crate::error::field("burn_in", burn_in.into(), burn_in < steps, "below steps")?;
        crate::error::field("regulariser", regulariser, regulariser >= 0.0, "at least 0")
    }

    /// The estimate of a descent from the origin of `d` dimensions. `noisy_sum` writes the noisy sum of the
    /// rows' [gradients](Self::gradient) at a point; `project` projects onto the feasible set; `n`, the
    /// number of rows by which sums are divided, must not depend on private data.
    ///
    /// # Errors
    /// Those of `noisy_sum` and `project`.
    pub fn run(
        &self,
        d: usize,
        n: f64,
        mut noisy_sum: impl FnMut(&[f64], &mut [f64]) -> Result<(), Error>,
        mut project: impl FnMut(&mut Vec<f64>) -> Result<(), Error>,
    ) -> Result<Vec<f64>, Error> {
        let mut theta = vec![0.0; d];
        project(&mut theta)?;
        let (mut sum, mut mean) = (vec![0.0; d], vec![0.0; d]);
        let mut averaged = 0.0;
        for i in 0..=self.steps {
            if i >= self.burn_in && (i < self.steps || self.last) {
                averaged += 1.0;
                mean.iter_mut().zip(&theta).for_each(|(m, t)| *m += (t - *m) / averaged);
            }
            if i == self.steps {
                break;
            }
            sum.fill(0.0);
            noisy_sum(&theta, &mut sum)?;
            let step = if self.constant { self.step } else { self.step / f64::from(i + 1).sqrt() };
            for (t, s) in theta.iter_mut().zip(&sum) {
                *t -= step * (s + self.regulariser * *t) / n;
            }
            project(&mut theta)?;
        }
        Ok(mean)
    }

    /// The factor of `x` in the clipped gradient of one row's loss: `mu(<x, theta>) - r`, scaled if it is too
    /// long.
    pub fn gradient(&self, link: Link, x: &[f64], r: f64, theta: &[f64]) -> f64 {
        clipped(link, self.clip, x, r, theta)
    }
}

/// [`Descent::gradient`] with this clip.
pub(crate) fn clipped(link: Link, clip: f64, x: &[f64], r: f64, theta: &[f64]) -> f64 {
    let residual = link.mean(dot(x, theta)) - r;
    let length = residual.abs() * norm(x);
    if length > clip { residual * clip / length } else { residual }
}

/// Projection onto the ball of radius `s`, as an argument of [`Descent::run`].
pub fn onto_ball(s: f64) -> impl FnMut(&mut Vec<f64>) -> Result<(), Error> {
    move |theta| {
        project_ball(theta, s);
        Ok(())
    }
}
