//! Follow the noisy leader under full information, in epochs of 1, 2, 4, ... rounds.

use super::{Noise, NoisyMax, OpenSum, Turn, check_arms, report_noisy_max};
use crate::vector::argmax;
use crate::{Error, Learnt, Policy};
use fault::require;
use privacy::PrivacyStatement;
use rand::Rng;
use serde::{Deserialize, Serialize};

/// FTNL, an anytime policy: plays one arm for an epoch of `2^s` rounds, and in the next epoch the [noisy
/// maximum](report_noisy_max) of that epoch's sums. The first arm is arm 0. [`NoisyMax`] selects the private
/// algorithm, its naive form, or the lazy leader without privacy.
///
/// - Privacy: that of [`NoisyMax`] for the sequence of decisions, since every round enters one call. An
///   incomplete epoch enters none.
/// - Cost: O(K) per round and in memory.
///
/// # Source
/// Hu, Huang, Mehta, "Near-Optimal Algorithms for Private Online Learning in a Stochastic Environment":
/// Algorithm 2. Departure: the scale of [`NoisyMax::Leader`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound = "", try_from = "State<N>")]
pub struct FollowTheNoisyLeader<N: Noise>(State<N>);

impl<N: Noise> FollowTheNoisyLeader<N> {
    /// The policy for `k` arms before the first round.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `k` is 0.
    pub fn new(k: usize, max: NoisyMax, noise: N) -> Result<Self, Error> {
        check_arms(k)?;
        Ok(Self(State { max, noise, turn: Turn::default(), leader: 0, sums: vec![OpenSum::default(); k] }))
    }

    /// Number of rounds left in the current epoch.
    pub fn rounds_left(&self) -> u64 {
        self.0.epoch_size() - self.0.sums[0].count() // `new` makes at least one sum
    }

    /// The source of noise.
    pub fn noise(&self) -> &N {
        &self.0.noise
    }

    /// Learns from `rounds` rounds at once, given the sum of each arm's rewards. The state is the same as
    /// after that many calls of [`learn`](Policy::learn).
    ///
    /// # Errors
    /// As `learn`; [`Error::OutOfRange`] if `rounds` is 0 or above [`rounds_left`](Self::rounds_left), or if
    /// a sum is outside [0, rounds].
    pub fn learn_sums(
        &mut self,
        arm: usize,
        rounds: u64,
        sums: &[f64],
        rng: &mut dyn Rng,
    ) -> Result<(), Error> {
        require(rounds > 0 && rounds <= self.rounds_left(), "rounds", rounds, "in 1..=rounds_left")?;
        self.0.take_in(arm, rounds, sums, rng)
    }
}

impl<N: Noise> Policy for FollowTheNoisyLeader<N> {
    type Context = ();
    type Feedback = [f64];

    fn privacy(&self) -> PrivacyStatement {
        self.0.max.privacy()
    }

    /// The leader, which every decision shows. The sums of an epoch are released to nobody.
    fn learnt(&self) -> Learnt {
        Learnt { leader: Some(self.0.leader), ..Learnt::default() }
    }

    fn decide(&mut self, (): &(), _: &mut dyn Rng) -> Result<usize, Error> {
        Ok(self.0.turn.decide(self.0.leader))
    }

    /// # Errors
    /// [`Error::OutOfTurn`], [`Error::Rewards`] if there is not one reward an arm,
    /// [`Error::OutOfRange`] if one is outside [0, 1], [`Error::Overflow`] after 2^33 rounds of an epoch,
    /// [`Error::Privacy`] from the noise. The state is then unchanged.
    fn learn(&mut self, (): &(), arm: usize, rewards: &[f64], rng: &mut dyn Rng) -> Result<(), Error> {
        self.0.take_in(arm, 1, rewards, rng)
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State<N> {
    max: NoisyMax,
    noise: N,
    turn: Turn,
    leader: usize,
    sums: Vec<OpenSum>,
}

impl<N: Noise> State<N> {
    /// Epoch s covers rounds `2^s` to `2^(s+1) - 1`.
    fn epoch_size(&self) -> u64 {
        1 << self.turn.round().ilog2()
    }

    fn take_in(&mut self, arm: usize, rounds: u64, sums: &[f64], rng: &mut dyn Rng) -> Result<(), Error> {
        self.turn.check(arm)?;
        let k = self.sums.len();
        if sums.len() != k {
            return Err(Error::Rewards { got: sums.len(), k });
        }
        // All sums are checked on copies first, so that an invalid one leaves the state unchanged.
        for (arm, (open, &sum)) in self.sums.iter().zip(sums).enumerate() {
            open.clone().add_sum(arm, sum, rounds)?;
        }
        let count = self.sums[0].count() + rounds;
        if count < self.epoch_size() {
            for (arm, (open, &sum)) in self.sums.iter_mut().zip(sums).enumerate() {
                open.add_sum(arm, sum, rounds)?; // Has just succeeded
            }
        } else {
            let totals = self.sums.iter().zip(sums).enumerate().map(|(arm, (open, &sum))| {
                let mut total = *open;
                total.add_sum(arm, sum, rounds).map(|()| total.exact())
            });
            let totals = totals.collect::<Result<Vec<_>, _>>()?;
            self.leader = match self.max.scale(k) {
                Some(scale) => report_noisy_max(totals, scale, &mut self.noise, rng)?,
                None => argmax(totals.into_iter()),
            };
            self.sums.fill(OpenSum::default());
        }
        self.turn.end(rounds);
        Ok(())
    }
}

impl<N: Noise> TryFrom<State<N>> for FollowTheNoisyLeader<N> {
    type Error = Error;
    fn try_from(state: State<N>) -> Result<Self, Error> {
        check_arms(state.sums.len())?;
        let k = state.sums.len();
        state.turn.fits(k, state.turn.learnt)?;
        let fill = state.turn.round() - state.epoch_size();
        let fits = |s: &OpenSum| s.count() == fill && s.fits(fill + 1);
        if state.leader >= k || !state.sums.iter().all(fits) {
            return Err(Error::State { what: "an epoch that no run can reach" });
        }
        Ok(Self(state))
    }
}
