//! The environment of composite anonymous feedback.

use super::delivery::Carry;
use super::{Delivery, Rewards};
use crate::{Environment, Error, Outcome};
use rand::{Rng, RngExt};

/// Arms with [`Rewards`] that arrive by [`Delivery`]. The feedback of a slot is the sum of all parts that
/// arrive in it.
///
/// `Outcome::reward` is the total of the pull, including parts that have not arrived. A slot draws the
/// rewards and then, for random delays, one uniform number, independently of the arm played: policies on
/// equal seeds meet equal rewards and delays.
///
/// # Source
/// Wang, Wang, Huang, sections 3.1 (stochastic), 3.2 and 3.3 (adversarial).
#[derive(Debug, Clone)]
pub struct Composite {
    rewards: Rewards,
    delivery: Delivery,
    best: usize,
    carry: Carry,
    /// Number of slots begun.
    slots: u64,
    open: bool,
    totals: Vec<f64>,
    delay: usize,
    /// The last arm played, and the number of its successive plays.
    streak: (usize, usize),
    feedback: Option<f64>,
}

impl Composite {
    /// The environment before its first slot.
    ///
    /// # Errors
    /// Those of [`Rewards::validate`] and [`Delivery::validate`].
    pub fn new(rewards: Rewards, delivery: Delivery) -> Result<Self, Error> {
        rewards.validate()?;
        delivery.validate()?;
        Ok(Self {
            best: rewards.best(),
            carry: Carry::new(&delivery),
            slots: 0,
            open: false,
            totals: vec![0.0; rewards.arms()],
            delay: 1,
            streak: (0, 0),
            feedback: None,
            rewards,
            delivery,
        })
    }

    /// The sum of all rewards that have not arrived, without the cut-off part of polynomial tails.
    pub fn owed(&self) -> f64 {
        self.carry.owed()
    }

    /// The rewards of the arms.
    pub fn rewards(&self) -> &Rewards {
        &self.rewards
    }

    /// The delays of the rewards.
    pub fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    /// The arm with which regret compares.
    pub fn best(&self) -> usize {
        self.best
    }

    fn delay_of(&mut self, arm: usize) -> usize {
        self.streak = if self.streak.0 == arm { (arm, self.streak.1.saturating_add(1)) } else { (arm, 1) };
        match self.delivery {
            Delivery::Streak { interval } => {
                let late = arm == self.best && self.streak.1 >= 3 * interval;
                if late { interval } else { 1 }
            }
            _ => self.delay,
        }
    }
}

impl Environment for Composite {
    type Context = ();
    type Feedback = f64;

    fn arms(&self) -> usize {
        self.totals.len()
    }

    fn begin(&mut self, rng: &mut dyn Rng) -> bool {
        self.open = self.rewards.draw(self.slots, &mut self.totals, rng);
        if self.open {
            self.slots += 1;
            if let Delivery::Random { lo, hi } = self.delivery {
                let z = lo + (rng.random::<f64>() * (hi - lo + 1) as f64) as usize;
                self.delay = z.max(1);
            }
        }
        self.open
    }

    fn context(&self) -> Result<&(), Error> {
        if self.slots == 0 { Err(Error::NoRound) } else { Ok(&()) }
    }

    fn play(&mut self, arm: usize, _: &mut dyn Rng) -> Result<Outcome, Error> {
        if !self.open {
            return Err(Error::NoRound);
        }
        let reward = *self.totals.get(arm).ok_or(Error::Arm { arm, k: self.totals.len() })?;
        self.open = false;
        let delay = self.delay_of(arm);
        self.feedback = Some(self.carry.step(reward, delay));
        Ok(Outcome { reward, regret: self.rewards.regret(&self.totals, self.best, arm) })
    }

    fn feedback(&self) -> Result<&f64, Error> {
        self.feedback.as_ref().ok_or(Error::NoRound)
    }
}
