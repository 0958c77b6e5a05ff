//! The toy problem of the paper's figure 1: every round draws one of a few context sets.

use crate::sampling::standard_normal;
use crate::vector::dot;
use crate::{Environment, Error, Features, LinearConfig, Outcome};
use fault::require;
use rand::{Rng, RngExt};

/// Number of rounds in figure 1.
pub const FIGURE_1_ROUNDS: usize = 130;
/// Number of context sets in figure 1.
pub const FIGURE_1_CONTEXTS: usize = 4;

/// Linear rewards with Gaussian noise, contexts from a fixed list.
///
/// The paper states "4 random uniform contexts" and `L = 5.5` only. Here every feature is uniform in
/// `[-L/sqrt(d), L/sqrt(d)]`, so that norms are at most `L`, and `theta` is uniform on the sphere of radius
/// `S`. Departure: expected rewards reach `L S`, outside the interval [-1, 1] that the paper assumes; the
/// paper's own `sigma` and `L` violate the assumption as well.
#[derive(Debug, Clone)]
pub struct Toy {
    contexts: Vec<Features>,
    theta: Vec<f64>,
    sigma: f64,
    /// Context set and noise of the current round.
    round: Option<(usize, f64)>,
    feedback: Option<f64>,
}

impl Toy {
    /// Draws `contexts` context sets and `theta` for the `d`, `k`, `l`, `s` and `sigma` of `config`.
    ///
    /// # Errors
    /// Those of [`LinearConfig::validate`]; [`Error::OutOfRange`] if `contexts` is 0.
    pub fn new(config: &LinearConfig, contexts: usize, rng: &mut dyn Rng) -> Result<Self, Error> {
        config.validate()?;
        require(contexts > 0, "contexts", 0, "at least 1")?;
        let half_side = config.l / (config.d as f64).sqrt();
        let mut feature = || half_side * (2.0 * rng.random::<f64>() - 1.0);
        let contexts = (0..contexts)
            .map(|_| Features::new((0..config.k * config.d).map(|_| feature()).collect(), config.d))
            .collect::<Result<_, _>>()?;
        let mut theta: Vec<f64> = (0..config.d).map(|_| standard_normal(rng)).collect();
        let norm = dot(&theta, &theta).sqrt().max(f64::MIN_POSITIVE);
        theta.iter_mut().for_each(|v| *v *= config.s / norm);
        Ok(Self { contexts, theta, sigma: config.sigma, round: None, feedback: None })
    }

    /// The context sets.
    pub fn contexts(&self) -> &[Features] {
        &self.contexts
    }

    /// The parameter, which no policy observes.
    pub fn theta(&self) -> &[f64] {
        &self.theta
    }
}

impl Environment for Toy {
    type Context = Features;
    type Feedback = f64;

    fn arms(&self) -> usize {
        self.contexts[0].k() // `new` makes at least one
    }

    fn begin(&mut self, rng: &mut dyn Rng) -> bool {
        self.round = Some((rng.random_range(0..self.contexts.len()), self.sigma * standard_normal(rng)));
        self.feedback = None;
        true
    }

    fn context(&self) -> Result<&Features, Error> {
        let (index, _) = self.round.ok_or(Error::NoRound)?;
        Ok(&self.contexts[index])
    }

    fn play(&mut self, arm: usize, _: &mut dyn Rng) -> Result<Outcome, Error> {
        let (index, noise) = self.round.ok_or(Error::NoRound)?;
        let features = &self.contexts[index];
        let x = features.row(arm).ok_or(Error::Arm { arm, k: features.k() })?;
        let mean = dot(x, &self.theta);
        let best = features.rows().map(|x| dot(x, &self.theta)).fold(mean, f64::max);
        let reward = mean + noise;
        self.feedback = Some(reward);
        Ok(Outcome { reward, regret: best - mean })
    }

    fn feedback(&self) -> Result<&f64, Error> {
        self.feedback.as_ref().ok_or(Error::NoRound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fault::OutOfRange;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    /// Mean, variance and fourth moment of 100,000 draws; each within 5 standard errors (false alarm below
    /// 2e-6).
    #[test]
    fn normal_has_the_right_moments() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let n = 100_000;
        let (mut m1, mut m2, mut m4) = (0.0, 0.0, 0.0);
        for _ in 0..n {
            let z = standard_normal(&mut rng);
            m1 += z;
            m2 += z * z;
            m4 += z.powi(4);
        }
        let n = f64::from(n);
        assert!((m1 / n).abs() < 5.0 / n.sqrt());
        assert!((m2 / n - 1.0).abs() < 5.0 * (2.0 / n).sqrt());
        assert!((m4 / n - 3.0).abs() < 5.0 * (96.0 / n).sqrt());
    }

    #[test]
    fn rounds_do_not_depend_on_the_arm() {
        let config = LinearConfig::figure_1();
        let make = || {
            let mut rng = ChaCha8Rng::seed_from_u64(1);
            (Toy::new(&config, FIGURE_1_CONTEXTS, &mut rng).unwrap(), rng)
        };
        let ((mut a, mut rng_a), (mut b, mut rng_b)) = (make(), make());
        for _ in 0..50 {
            assert!(a.begin(&mut rng_a) && b.begin(&mut rng_b));
            assert_eq!(a.context().unwrap(), b.context().unwrap());
            let (ra, rb) = (a.play(0, &mut rng_a).unwrap(), b.play(1, &mut rng_b).unwrap());
            // Equal noise, and one of the two arms is the best one.
            assert!((ra.reward + ra.regret - rb.reward - rb.regret).abs() < 1e-12);
            assert_eq!(ra.regret.min(rb.regret), 0.0);
        }
    }

    #[test]
    fn misuse_is_refused() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let config = LinearConfig::figure_1();
        assert!(matches!(
            Toy::new(&config, 0, &mut rng),
            Err(Error::OutOfRange(OutOfRange { field: "contexts", .. }))
        ));
        let mut toy = Toy::new(&config, 4, &mut rng).unwrap();
        assert_eq!(toy.context().unwrap_err(), Error::NoRound);
        assert_eq!(toy.play(0, &mut rng).unwrap_err(), Error::NoRound);
        assert!(toy.begin(&mut rng));
        assert_eq!(toy.feedback().unwrap_err(), Error::NoRound);
        assert_eq!(toy.play(2, &mut rng).unwrap_err(), Error::Arm { arm: 2, k: 2 });
    }
}
