//! The environment whose rewards are Bernoulli variates with mean `mu(<x, theta>)`.

use crate::{Error, Link};
use bandit::sampling::standard_normal;
use bandit::vector::{dot, norm};
use bandit::{Environment, Features, Outcome};
use rand::{Rng, RngExt};
use std::sync::Arc;

/// A parameter, and the arm set of each round.
#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    theta: Vec<f64>,
    sets: Vec<Features>,
}

impl Instance {
    /// The instance with this parameter and these arm sets.
    ///
    /// # Errors
    /// [`Error::NotFinite`]; [`Error::Dimension`] if there is no set, or one of another dimension than
    /// `theta`; [`Error::OutOfRange`] if sets differ in their number of arms.
    pub fn new(theta: Vec<f64>, sets: Vec<Features>) -> Result<Self, Error> {
        if !theta.iter().all(|v| v.is_finite()) {
            return Err(Error::NotFinite { field: "theta" });
        }
        let k = sets.first().map_or(0, Features::k);
        for set in &sets {
            if set.d() != theta.len() {
                return Err(Error::Dimension { field: "sets", got: set.d(), want: theta.len() });
            }
            crate::error::field("k", set.k() as f64, set.k() == k, "the same in every set")?;
        }
        match sets.is_empty() {
            true => Err(Error::Dimension { field: "sets", got: 0, want: 1 }),
            false => Ok(Self { theta, sets }),
        }
    }

    /// Draws an instance: `theta` is uniform on the sphere of radius `s`, arms are uniform in the unit ball.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if an argument is 0.
    pub fn random(d: usize, k: usize, rounds: usize, s: f64, rng: &mut dyn Rng) -> Result<Self, Error> {
        for (name, value) in [("d", d), ("k", k), ("rounds", rounds)] {
            crate::error::field(name, value as f64, value > 0, "at least 1")?;
        }
        crate::error::field("s", s, s > 0.0, "positive")?;
        let mut theta = vec![0.0; d];
        fill_on_sphere(&mut theta, s, rng);
        let mut sets = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let mut values = vec![0.0; k * d];
            for x in values.chunks_exact_mut(d) {
                let radius = rng.random::<f64>().powf(1.0 / d as f64);
                fill_on_sphere(x, radius, rng);
            }
            sets.push(Features::new(values, d)?);
        }
        Self::new(theta, sets)
    }

    /// The parameter, which no policy observes.
    pub fn theta(&self) -> &[f64] {
        &self.theta
    }

    /// The arm set of each round.
    pub fn sets(&self) -> &[Features] {
        &self.sets
    }

    /// `kappa` of the instance: the largest `1 / mu'` over all arms. It depends on `theta`: a private policy
    /// that is given it treats it as public.
    pub fn kappa(&self, link: Link) -> f64 {
        self.slopes(link).fold(0.0, |m, s| m.max(1.0 / s))
    }

    /// `kappa*` of the instance: the smallest `1 / mu'` over all arms.
    pub fn kappa_star(&self, link: Link) -> f64 {
        1.0 / self.slopes(link).fold(0.0, f64::max)
    }

    fn slopes(&self, link: Link) -> impl Iterator<Item = f64> {
        self.sets.iter().flat_map(|s| s.rows()).map(move |x| link.slope(dot(x, &self.theta)))
    }
}

/// The rounds of an [`Instance`] in order. Regret is the difference of expected rewards.
#[derive(Debug, Clone)]
pub struct GlmEnvironment {
    instance: Arc<Instance>,
    link: Link,
    begun: usize,
    /// The uniform number of the round. The reward of an arm is 1 if it is below the arm's mean.
    uniform: f64,
    feedback: Option<f64>,
}

impl GlmEnvironment {
    /// The environment before its first round.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the mean of an arm is not in [0, 1], as is possible with the linear and
    /// Poisson links.
    pub fn new(instance: Arc<Instance>, link: Link) -> Result<Self, Error> {
        for x in instance.sets.iter().flat_map(|s| s.rows()) {
            let z = dot(x, &instance.theta);
            // The other links have no mean outside [0, 1], but for a sum of features that overflows.
            let mean =
                if matches!(link, Link::Linear | Link::Poisson) || z.is_nan() { link.mean(z) } else { 0.5 };
            crate::error::field("mean", mean, (0.0..=1.0).contains(&mean), "in [0, 1] for every arm")?;
        }
        Ok(Self { instance, link, begun: 0, uniform: 0.0, feedback: None })
    }
}

impl Environment for GlmEnvironment {
    type Context = Features;
    type Feedback = f64;

    fn arms(&self) -> usize {
        self.instance.sets[0].k() // `Instance::new` refuses an empty list
    }

    fn begin(&mut self, rng: &mut dyn Rng) -> bool {
        let more = self.begun < self.instance.sets.len();
        self.begun += usize::from(more);
        self.uniform = rng.random();
        self.feedback = None;
        more
    }

    fn context(&self) -> Result<&Features, bandit::Error> {
        self.begun.checked_sub(1).and_then(|i| self.instance.sets.get(i)).ok_or(bandit::Error::NoRound)
    }

    fn play(&mut self, arm: usize, _: &mut dyn Rng) -> Result<Outcome, bandit::Error> {
        let set = self.context()?;
        let predictor = |x: &[f64]| dot(x, &self.instance.theta);
        let z = predictor(set.row(arm).ok_or(bandit::Error::Arm { arm, k: set.k() })?);
        // Links increase, so that one mean tells the best arm's.
        let best = set.rows().map(predictor).fold(z, f64::max);
        let (mean, best) = (self.link.mean(z), self.link.mean(best));
        let reward = f64::from(self.uniform < mean);
        self.feedback = Some(reward);
        Ok(Outcome { reward, regret: best - mean })
    }

    fn feedback(&self) -> Result<&f64, bandit::Error> {
        self.feedback.as_ref().ok_or(bandit::Error::NoRound)
    }
}

fn fill_on_sphere(x: &mut [f64], radius: f64, rng: &mut dyn Rng) {
    x.iter_mut().for_each(|v| *v = standard_normal(rng));
    let length = norm(x).max(f64::MIN_POSITIVE);
    x.iter_mut().for_each(|v| *v *= radius / length);
}

#[cfg(test)]
mod tests {
    use super::*;
    use privacy::source::SplitMix64;

    /// The regret of an arm is the largest mean of all arms less its own, up to the last place.
    #[test]
    fn regret_is_against_the_largest_mean() {
        for link in [Link::Logistic, Link::Probit] {
            let mut rng = SplitMix64::new(4);
            let instance = Arc::new(Instance::random(3, 7, 300, 3.0, &mut rng).unwrap());
            let mut environment = GlmEnvironment::new(instance.clone(), link).unwrap();
            for (round, set) in instance.sets().iter().enumerate() {
                assert!(environment.begin(&mut rng));
                let means: Vec<f64> = set.rows().map(|x| link.mean(dot(x, instance.theta()))).collect();
                let largest = means.iter().copied().fold(0.0, f64::max);
                let regret = environment.play(round % 7, &mut rng).unwrap().regret;
                assert!(regret >= 0.0 && (regret - (largest - means[round % 7])).abs() <= 1e-15, "{regret}");
            }
        }
    }

    /// Means outside [0, 1] are refused, and sums of features that are not numbers.
    #[test]
    fn means_are_probabilities() {
        let environment = |link, theta: &[f64], x: &[f64]| {
            let set = Features::new(x.to_vec(), theta.len()).unwrap();
            GlmEnvironment::new(Arc::new(Instance::new(theta.to_vec(), vec![set]).unwrap()), link)
        };
        for link in [Link::Linear, Link::Poisson] {
            assert!(environment(link, &[1.0], &[1.5]).is_err());
        }
        assert!(environment(Link::Linear, &[1.0], &[0.5]).is_ok());
        for link in [Link::Logistic, Link::Probit] {
            assert!(environment(link, &[1.0], &[1e300]).is_ok());
            assert!(environment(link, &[1e300, 1e300], &[1e300, -1e300]).is_err());
        }
    }
}
