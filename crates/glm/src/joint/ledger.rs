//! The privacy cost of a run for one person, by the proof in `docs/joint-privacy.md`.

use super::config::{Estimate, JointConfig, Release, Trigger, WarmUp};
use crate::Error;
use crate::matrix::triangle;
use crate::noise::Gaussian;
use privacy::budget::{Delta, Neighbours, Rho, Sensitivity};
use privacy::gauss::GaussianNoise;
use privacy::tree::Tree;
use privacy::{Definition, PrivacyStatement, Trust};

impl JointConfig {
    /// The zero-concentrated cost of all published values of a run, between runs that differ in the arm set
    /// and rewards of one round. `None` if a published value has no noise.
    ///
    /// A person explores in both runs, in neither, or in one. The cost is the largest of these three cases.
    ///
    /// | the person explores | sensitivity of the tree | of warm-up sums | of running sums |
    /// |---|---|---|---|
    /// | in both | root 2 | 2 clip | 0 |
    /// | in neither | root 2 | 0 | 2 clip |
    /// | in one | root 3 | clip | clip |
    ///
    /// # Source
    /// Departure: the paper charges the tree twice and the estimates of each family in full, and bounds the
    /// leaves of the tree by `1 / kappa*`, which is wrong for V.
    pub fn rho(&self) -> Option<Rho> {
        let Release::Joint { sigma } = self.release else { return None };
        let Estimate::Descent { descent, sigma_warm_up, sigma_running, discrete: true } = self.estimate
        else {
            return None;
        };
        if self.trigger != Trigger::EveryRound || self.warm_up != WarmUp::Doubling {
            return None;
        }
        let d = self.problem.d;
        let cost = |shift: f64, sigma: f64, noise: Gaussian, coordinates: usize| {
            let Ok(l2) = Sensitivity::new(shift) else { return Some(0.0) };
            let l2 = noise.rounded_sensitivity(l2, coordinates).ok()?;
            Some(Rho::of_gaussian(l2, sigma).ok()?.get())
        };
        let (levels, leaf) = (f64::from(Tree::levels(self.problem.horizon)), 2 * triangle(d) + 1);
        let tree = |l2: f64| Some(levels * cost(l2.sqrt(), sigma, self.tree_noise().ok()?, leaf)?);
        let family = |sigma: f64, calls: u32, clips: f64| {
            let noise = self.sum_noise(&descent, "sigma", sigma, true).ok()?;
            let calls = f64::from(calls) * f64::from(descent.steps);
            Some(calls * cost(clips * descent.clip, sigma, noise, d)?)
        };
        let warm_up = |clips: f64| family(sigma_warm_up, self.max_warm_up_calls, clips);
        let running = |clips: f64| family(sigma_running, self.max_running_calls, clips);
        // With shared rows the running sums contain the person in every case.
        let (when_exploring, when_mixed) = if self.published.shared_rows { (2.0, 2.0) } else { (0.0, 1.0) };
        let both = tree(2.0)? + warm_up(2.0)? + running(when_exploring)?;
        let neither = tree(2.0)? + running(2.0)?;
        let one = tree(3.0)? + warm_up(1.0)? + running(when_mixed)?;
        Rho::new(both.max(neither).max(one)).ok()
    }

    /// The guarantee of the configuration at `problem.delta`.
    ///
    /// # Errors
    /// [`Error::Privacy`] if the cost is out of range.
    pub fn privacy(&self) -> Result<PrivacyStatement, Error> {
        let Some(rho) = self.rho() else {
            return Ok(PrivacyStatement::none(self.why_not()));
        };
        let delta = Delta::new(self.problem.delta)?;
        let statement = PrivacyStatement::with_delta(
            Definition::Joint,
            rho.epsilon(delta)?,
            delta,
            Trust::Central,
            Neighbours::ReplaceOne,
            "The arm set and all possible rewards of one round, against everybody else's arms; the server is trusted, \
             and kappa, widths and link are public; whatever the rewards follow.",
        )?;
        Ok(statement)
    }

    fn why_not(&self) -> &'static str {
        match (self.release, self.estimate) {
            (Release::Exact, _) | (_, Estimate::Exact { .. } | Estimate::Published { .. }) => {
                "Statistics or estimates are exact."
            }
            _ if self.trigger != Trigger::EveryRound => {
                "Whether the round of a renewal explored shows in every later estimate, and the noise is in double \
                 precision."
            }
            _ if self.warm_up != WarmUp::Doubling => "Renewals of the warm-up estimate show who explored.",
            _ => "Noise is missing or in double precision, or the count of explorations is exact.",
        }
    }
}
