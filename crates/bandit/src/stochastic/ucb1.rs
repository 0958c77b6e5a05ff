//! UCB1, a baseline without privacy.

use super::{OpenSum, Turn, check_arms, no_privacy};
use crate::vector::argmax;
use crate::{Error, Learnt, Policy};
use privacy::PrivacyStatement;
use rand::Rng;
use serde::{Deserialize, Serialize};

/// Plays every arm once, and then the arm with the largest `mean + sqrt(2 ln t / O)`, where O is its number
/// of pulls; anytime and **not private**. Cost: O(K) per round.
///
/// # Source
/// Auer, Cesa-Bianchi, Fischer 2002, figure 1.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "State")]
pub struct Ucb1(State);

impl Ucb1 {
    /// The policy for `k` arms before the first pull.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `k` is 0.
    pub fn new(k: usize) -> Result<Self, Error> {
        check_arms(k)?;
        Ok(Self(State { turn: Turn::default(), arms: vec![OpenSum::default(); k] }))
    }

    /// The number of pulls of each arm.
    pub fn pulls(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.arms.iter().map(OpenSum::count)
    }
}

impl Policy for Ucb1 {
    type Context = ();
    type Feedback = f64;

    fn privacy(&self) -> PrivacyStatement {
        no_privacy()
    }

    fn learnt(&self) -> Learnt {
        Learnt::sums(self.pulls(), self.0.arms.iter().map(OpenSum::exact))
    }

    fn decide(&mut self, (): &(), _: &mut dyn Rng) -> Result<usize, Error> {
        let State { turn, arms } = &mut self.0;
        let t = turn.round();
        let arm = if t <= arms.len() as u64 {
            (t - 1) as usize
        } else {
            let width = 2.0 * (t as f64).ln();
            argmax(arms.iter().map(|a| {
                let pulls = a.count() as f64;
                a.exact() / pulls + (width / pulls).sqrt()
            }))
        };
        Ok(turn.decide(arm))
    }

    /// # Errors
    /// [`Error::OutOfTurn`], [`Error::OutOfRange`] if the reward is outside [0, 1],
    /// [`Error::Overflow`] after 2^33 rewards of one arm. The state is then unchanged.
    fn learn(&mut self, (): &(), arm: usize, reward: &f64, _: &mut dyn Rng) -> Result<(), Error> {
        let State { turn, arms } = &mut self.0;
        turn.check(arm)?;
        arms[arm].add(*reward)?; // `decide` named it
        turn.end(1);
        Ok(())
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    turn: Turn,
    arms: Vec<OpenSum>,
}

impl TryFrom<State> for Ucb1 {
    type Error = Error;
    fn try_from(state: State) -> Result<Self, Error> {
        check_arms(state.arms.len())?;
        let initialised = state.arms.iter().take(state.turn.learnt as usize).all(|a| a.count() > 0);
        if !initialised || !state.arms.iter().all(|a| a.fits(OpenSum::MAX_COUNT + 1)) {
            return Err(Error::State { what: "an arm that no run can reach" });
        }
        state.turn.fits(state.arms.len(), state.arms.iter().map(OpenSum::count).sum())?;
        Ok(Self(state))
    }
}
