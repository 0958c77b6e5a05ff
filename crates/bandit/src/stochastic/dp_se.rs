//! DP-SE: successive elimination in which each epoch uses its own rewards only.

use super::{Noise, OpenSum, Turn, check_arms, statement};
use crate::{Error, Learnt, Policy};
use fault::require;
use privacy::PrivacyStatement;
use privacy::budget::{Epsilon, Neighbours};
use rand::Rng;
use serde::{Deserialize, Serialize};

/// In each [`Epoch`] pulls the remaining arms in turn, equally often, and then eliminates the arms whose
/// noisy mean in the epoch is more than `2h + 2c` below the best. The last remaining arm is played forever.
///
/// - Privacy: epsilon-DP for the sequence of decisions when one round's rewards are replaced. Every reward
///   enters one release, `sum + Lap(1/epsilon)`, which adds `Lap(1/(epsilon R))` to a mean of R rewards; an
///   incomplete epoch releases nothing.
/// - `beta` is the probability of eliminating the best arm; the regret bound over T rounds has `1/T`.
/// - Cost: O(1) per round, O(K) at the end of an epoch.
///
/// # Source
/// Sajed, Sheffet, "An Optimal Private Stochastic-MAB Algorithm Based on an Optimal Private Stopping Rule",
/// 2019, Algorithm 2; the baseline of Hu, Huang, Mehta, who take `beta = 1/T`. Departure: none known.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound = "", try_from = "State<N>")]
pub struct DpSe<N: Noise>(State<N>);

/// Length and confidence widths of one epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Epoch {
    /// `R`, pulls of each arm left.
    pub rounds: u64,
    /// `h`, the width for sampling: means are in [0, 1].
    pub h: f64,
    /// `c`, the width for noise.
    pub c: f64,
}

impl Epoch {
    /// Epoch `number`, from 1, with `arms` arms left. With `D = 2^-number`, `A = ln(8 arms number^2 / beta)`
    /// and `B = ln(4 arms number^2 / beta)`: `R = ceil(max(32 A/D^2, 8 B/(epsilon D))) + 1`, `h =
    /// sqrt(A/(2R))`, `c = B/(R epsilon)`.
    pub fn new(arms: usize, number: u32, beta: f64, epsilon: Epsilon) -> Self {
        let (epsilon, d) = (epsilon.get(), 0.5f64.powi(number.min(1000) as i32));
        let per_beta = 4.0 * arms as f64 * f64::from(number).powi(2) / beta;
        let (a, b) = ((2.0 * per_beta).ln(), per_beta.ln());
        let rounds = ((32.0 * a / (d * d)).max(8.0 * b / (epsilon * d)).ceil() as u64).saturating_add(1);
        Self { rounds, h: (a / (2.0 * rounds as f64)).sqrt(), c: b / (rounds as f64 * epsilon) }
    }
}

impl<N: Noise> DpSe<N> {
    /// The policy for `k` arms before the first pull.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `k` is 0 or `beta` is not in (0, 1).
    pub fn new(k: usize, epsilon: Epsilon, beta: f64, noise: N) -> Result<Self, Error> {
        check_arms(k)?;
        let left = (0..k).map(|arm| Candidate { arm, open: OpenSum::default() }).collect();
        let state = State {
            epsilon,
            beta,
            noise,
            turn: Turn::default(),
            means: vec![None; k],
            epoch: 1,
            left,
            next: 0,
        };
        state.check_parameters()?;
        Ok(Self(state))
    }

    /// The current epoch; the last one if a single arm is left.
    pub fn epoch(&self) -> Epoch {
        self.0.current()
    }

    /// The remaining arms, in order.
    pub fn left(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.left.iter().map(|c| c.arm)
    }

    /// The latest private mean of each arm; `None` before its first epoch has ended.
    pub fn means(&self) -> &[Option<f64>] {
        &self.0.means
    }

    /// The source of noise.
    pub fn noise(&self) -> &N {
        &self.0.noise
    }
}

impl<N: Noise> Policy for DpSe<N> {
    type Context = ();
    type Feedback = f64;

    fn privacy(&self) -> PrivacyStatement {
        statement(self.0.epsilon, Neighbours::ReplaceOne)
    }

    fn learnt(&self) -> Learnt {
        let (means, left) = (Some(self.means().to_vec()), Some(self.left().collect()));
        Learnt { means, left, ..Learnt::default() }
    }

    fn decide(&mut self, (): &(), _: &mut dyn Rng) -> Result<usize, Error> {
        let arm = self.0.left[self.0.next].arm; // `next` is below the length, which is never 0
        Ok(self.0.turn.decide(arm))
    }

    /// # Errors
    /// [`Error::OutOfTurn`], [`Error::OutOfRange`] if the reward is outside [0, 1], [`Error::Overflow`] after
    /// 2^33 rewards of one arm in an epoch, [`Error::Privacy`] from the noise. The state is then unchanged.
    fn learn(&mut self, (): &(), arm: usize, reward: &f64, rng: &mut dyn Rng) -> Result<(), Error> {
        let state = &mut self.0;
        state.turn.check(arm)?;
        let last = state.left.len() - 1;
        let mut open = state.left[state.next].open;
        open.add(*reward)?;
        if last == 0 {
            // All decisions are made, so the reward is not used.
        } else if state.next == last && open.count() == state.current().rounds {
            state.end_epoch(open, rng)?;
        } else {
            state.left[state.next].open = open;
            state.next = if state.next == last { 0 } else { state.next + 1 };
        }
        state.turn.end(1);
        Ok(())
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State<N> {
    epsilon: Epsilon,
    beta: f64,
    noise: N,
    turn: Turn,
    means: Vec<Option<f64>>,
    epoch: u32,
    left: Vec<Candidate>,
    /// Position in `left` of the arm to pull next.
    next: usize,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Candidate {
    arm: usize,
    open: OpenSum,
}

impl<N: Noise> State<N> {
    fn check_parameters(&self) -> Result<(), Error> {
        require(self.beta > 0.0 && self.beta < 1.0, "beta", self.beta, "in (0, 1)")?;
        Ok(())
    }

    fn current(&self) -> Epoch {
        Epoch::new(self.left.len(), self.epoch, self.beta, self.epsilon)
    }

    /// Releases the means and eliminates arms. `last_open` is the sum of the last arm.
    fn end_epoch(&mut self, last_open: OpenSum, rng: &mut dyn Rng) -> Result<(), Error> {
        let Epoch { rounds, h, c } = self.current();
        let mut left = self.left.clone();
        let last = left.len() - 1;
        left[last].open = last_open;
        let mut released = Vec::with_capacity(left.len());
        for candidate in &mut left {
            let sum = candidate.open.release(self.epsilon.get().recip(), &mut self.noise, rng)?;
            released.push((*candidate, sum / rounds as f64));
        }
        let best = released.iter().map(|r| r.1).fold(f64::NEG_INFINITY, f64::max);
        released.iter().for_each(|&(candidate, mean)| self.means[candidate.arm] = Some(mean));
        released.retain(|&(_, mean)| best - mean <= 2.0 * h + 2.0 * c);
        self.left = released.into_iter().map(|r| r.0).collect();
        self.epoch += u32::from(self.left.len() > 1);
        self.next = 0;
        Ok(())
    }
}

impl<N: Noise> TryFrom<State<N>> for DpSe<N> {
    type Error = Error;
    fn try_from(state: State<N>) -> Result<Self, Error> {
        state.check_parameters()?;
        let State { turn, means, left, next, .. } = &state;
        check_arms(left.len())?;
        let in_order = left.windows(2).all(|w| w[0].arm < w[1].arm) && left[left.len() - 1].arm < means.len();
        // The arms before `next` have one pull more in this epoch.
        let pulls = left.get(*next).map_or(u64::MAX, |c| c.open.count());
        let share = |(i, c): (usize, &Candidate)| c.open.count() == pulls + u64::from(i < *next);
        let room = if left.len() == 1 { 1 } else { state.current().rounds };
        let open = pulls < room
            && left.iter().enumerate().all(share)
            && left.iter().all(|c| c.open.fits(room.saturating_add(1)));
        if state.epoch == 0 || !in_order || !open || means.iter().flatten().any(|m| !m.is_finite()) {
            return Err(Error::State { what: "an epoch that no run can reach" });
        }
        turn.fits(means.len(), turn.learnt)?;
        Ok(Self(state))
    }
}
