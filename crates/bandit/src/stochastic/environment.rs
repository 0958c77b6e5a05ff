//! Arms with independent 0/1 rewards, seen one at a time or all at once.

use crate::arms::{Arms, RewardLaw, check_means};
use crate::{Environment, Error, Outcome};
use rand::{Rng, RngExt};

/// Means of the first experiment: one good arm, four slightly worse.
pub const SETTING_1: [f64; 5] = [0.75, 0.70, 0.70, 0.70, 0.70];
/// Means of the second experiment: evenly spaced.
pub const SETTING_2: [f64; 5] = [0.75, 0.625, 0.5, 0.375, 0.25];
/// Means of the third experiment: one good arm, four much worse.
pub const SETTING_3: [f64; 5] = [0.75, 0.15, 0.15, 0.15, 0.15];

/// Independent Bernoulli arms. Every round draws one number per arm, in arm order. The policy sees the reward
/// of the arm that it played.
pub type BernoulliArms = Arms<Bernoulli>;

/// The distribution of [`BernoulliArms`].
#[derive(Debug, Clone, PartialEq)]
pub struct Bernoulli(Vec<f64>);

impl RewardLaw for Bernoulli {
    type Round = Vec<f64>;

    fn means(&self) -> &[f64] {
        &self.0
    }

    fn draw(&self, rng: &mut dyn Rng) -> Vec<f64> {
        self.0.iter().map(|mean| f64::from(rng.random::<f64>() < *mean)).collect()
    }

    fn reward(&self, arm: usize, rewards: &Vec<f64>) -> f64 {
        rewards[arm]
    }
}

impl BernoulliArms {
    /// Arms of the given means.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if there is no mean, or one outside [0, 1].
    pub fn new(means: &[f64]) -> Result<Self, Error> {
        check_means(means)?;
        Ok(Self::of(Bernoulli(means.to_vec())))
    }

    /// Draws the sum of `rounds` fresh rewards of `arm` from its distribution.
    ///
    /// Cost: about eight words for 64 rounds.
    ///
    /// # Errors
    /// [`Error::Arm`] if there is no such arm.
    pub fn draw_sum(&self, arm: usize, rounds: u64, rng: &mut dyn Rng) -> Result<u64, Error> {
        let mean = self.means().get(arm).ok_or(Error::Arm { arm, k: self.means().len() })?;
        // A uniform number of 53 bits is below the mean if and only if its bits, as an integer, are below
        // this.
        let threshold = (mean * 2f64.powi(53)).ceil() as u64;
        let lanes = (0..rounds / 64).map(|_| u64::from(coins(threshold, rng).count_ones())).sum::<u64>();
        Ok(match rounds % 64 {
            0 => lanes,
            rest => lanes + u64::from((coins(threshold, rng) << (64 - rest)).count_ones()),
        })
    }
}

/// The same arms under full information: the policy sees the rewards of all arms.
#[derive(Debug, Clone, PartialEq)]
pub struct FullInformation(pub BernoulliArms);

impl Environment for FullInformation {
    type Context = ();
    type Feedback = [f64];

    fn arms(&self) -> usize {
        self.0.arms()
    }

    fn begin(&mut self, rng: &mut dyn Rng) -> bool {
        self.0.begin(rng)
    }

    fn context(&self) -> Result<&(), Error> {
        self.0.context()
    }

    fn play(&mut self, arm: usize, rng: &mut dyn Rng) -> Result<Outcome, Error> {
        self.0.play(arm, rng)
    }

    fn feedback(&self) -> Result<&[f64], Error> {
        self.0.feedback()?;
        self.0.round().map(Vec::as_slice)
    }
}

/// Draws 64 independent bits, each of which is 1 with probability `threshold / 2^53`.
///
/// Each of the 64 lanes compares an integer of 53 random bits with the threshold, from the highest bit down,
/// until every lane is decided.
fn coins(threshold: u64, rng: &mut dyn Rng) -> u64 {
    if threshold >> 53 != 0 {
        return u64::MAX;
    }
    let (mut below, mut undecided) = (0, u64::MAX);
    for bit in (0..53).rev() {
        let word = rng.next_u64();
        if threshold >> bit & 1 == 1 {
            below |= undecided & !word;
            undecided &= word;
        } else {
            undecided &= !word;
        }
        if undecided == 0 {
            break;
        }
    }
    below
}

#[cfg(test)]
mod tests {
    use super::*;
    use fault::OutOfRange;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    fn rng() -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(5)
    }

    /// Within 5 standard errors (false alarm below 1e-6 each), and one stray lane in the rest would show.
    #[test]
    fn sums_have_the_mean_and_variance_of_a_binomial() {
        let mut rng = rng();
        for (mean, rounds) in [(0.75, 100u64), (0.15, 64), (0.5, 1), (0.6, 7), (1.0, 130), (0.0, 130)] {
            let arms = BernoulliArms::new(&[mean]).unwrap();
            let (mut sum, mut squares, runs) = (0.0, 0.0, 40_000);
            for _ in 0..runs {
                let s = arms.draw_sum(0, rounds, &mut rng).unwrap() as f64 - mean * rounds as f64;
                (sum, squares) = (sum + s, squares + s * s);
            }
            let (n, variance) = (f64::from(runs), mean * (1.0 - mean) * rounds as f64);
            assert!((sum / n).abs() <= 5.0 * (variance / n).sqrt(), "{mean} {rounds}");
            // The fourth central moment is below 3 variance^2 + variance.
            let error = ((2.0 * variance * variance + variance) / n).sqrt();
            assert!((squares / n - variance).abs() <= 5.0 * error, "{mean} {rounds}");
        }
    }

    #[test]
    fn rewards_do_not_depend_on_the_arm_and_full_information_shows_all() {
        let arms = BernoulliArms::new(&SETTING_2).unwrap();
        let (mut one, mut all) = (arms.clone(), FullInformation(arms));
        let (mut rng_one, mut rng_all) = (rng(), rng());
        for round in 0..500 {
            assert!(one.begin(&mut rng_one) && all.begin(&mut rng_all));
            let outcome = one.play(round % 5, &mut rng_one).unwrap();
            assert_eq!(all.play(0, &mut rng_all).unwrap().regret, 0.0);
            assert_eq!(all.feedback().unwrap()[round % 5], outcome.reward);
            assert_eq!(outcome.regret, 0.75 - SETTING_2[round % 5]);
        }
    }

    #[test]
    fn misuse_is_refused() {
        assert!(matches!(BernoulliArms::new(&[]), Err(Error::OutOfRange(OutOfRange { field: "k", .. }))));
        assert!(matches!(
            BernoulliArms::new(&[0.5, 1.5]),
            Err(Error::OutOfRange(OutOfRange { field: "mean", .. }))
        ));
        assert!(matches!(
            BernoulliArms::new(&[f64::NAN]),
            Err(Error::OutOfRange(OutOfRange { field: "mean", .. }))
        ));
        let mut arms = BernoulliArms::new(&[0.5]).unwrap();
        let mut rng = rng();
        assert_eq!(arms.context().unwrap_err(), Error::NoRound);
        assert_eq!(arms.play(0, &mut rng).unwrap_err(), Error::NoRound);
        assert!(arms.begin(&mut rng));
        assert_eq!(arms.feedback().unwrap_err(), Error::NoRound);
        assert_eq!(arms.play(1, &mut rng).unwrap_err(), Error::Arm { arm: 1, k: 1 });
        assert_eq!(arms.draw_sum(1, 1, &mut rng).unwrap_err(), Error::Arm { arm: 1, k: 1 });
    }
}
