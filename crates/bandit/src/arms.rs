//! Environments without contexts, whose rewards are drawn anew in each round.

use crate::{Environment, Error, Outcome};
use fault::require;
use rand::Rng;

/// The distribution of the rewards of several arms.
pub trait RewardLaw {
    /// All random draws of a round.
    type Round;

    /// Expected reward of each arm; at least one arm. Regret is the difference of these numbers.
    fn means(&self) -> &[f64];

    /// Draws a round, independently of the arm that will be played.
    fn draw(&self, rng: &mut dyn Rng) -> Self::Round;

    /// The reward of `arm` in a round. `arm` is below the number of arms.
    fn reward(&self, arm: usize, round: &Self::Round) -> f64;
}

/// Arms whose rewards have the distribution `L`.
#[derive(Debug, Clone, PartialEq)]
pub struct Arms<L: RewardLaw> {
    law: L,
    best: f64,
    round: Option<L::Round>,
    feedback: Option<f64>,
}

impl<L: RewardLaw> Arms<L> {
    /// The arms before the first round.
    pub fn of(law: L) -> Self {
        let best = law.means().iter().copied().fold(0.0, f64::max);
        Self { law, best, round: None, feedback: None }
    }

    /// Expected reward of each arm.
    pub fn means(&self) -> &[f64] {
        self.law.means()
    }

    /// The draws of the current round.
    pub(crate) fn round(&self) -> Result<&L::Round, Error> {
        self.round.as_ref().ok_or(Error::NoRound)
    }
}

impl<L: RewardLaw> Environment for Arms<L> {
    type Context = ();
    type Feedback = f64;

    fn arms(&self) -> usize {
        self.means().len()
    }

    fn begin(&mut self, rng: &mut dyn Rng) -> bool {
        self.round = Some(self.law.draw(rng));
        self.feedback = None;
        true
    }

    fn context(&self) -> Result<&(), Error> {
        self.round().map(|_| &())
    }

    fn play(&mut self, arm: usize, _: &mut dyn Rng) -> Result<Outcome, Error> {
        let round = self.round()?;
        let mean = *self.means().get(arm).ok_or(Error::Arm { arm, k: self.arms() })?;
        let reward = self.law.reward(arm, round);
        self.feedback = Some(reward);
        Ok(Outcome { reward, regret: self.best - mean })
    }

    fn feedback(&self) -> Result<&f64, Error> {
        self.feedback.as_ref().ok_or(Error::NoRound)
    }
}

/// Refuses means unless there is at least one and all are in [0, 1].
pub(crate) fn check_means(means: &[f64]) -> Result<(), Error> {
    require(!means.is_empty(), "k", 0, "at least 1")?;
    Ok(means.iter().try_for_each(|m| require((0.0..=1.0).contains(m), "mean", *m, "in [0, 1]"))?)
}
