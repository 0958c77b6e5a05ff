//! Anytime-Lazy-UCB: the rewards of each arm fill arrays of doubling size, and the sum of each array is
//! released once with noise.
//!
//! | symbol | here |
//! |---|---|
//! | `mu_tilde_j`, private mean | `Arm::mean` |
//! | `lambda_{j,r}`, size of the array of that mean | `Arm::size` |
//! | open array | `Arm::open`, of size `2 * Arm::size` |

use super::{Noise, OpenSum, Turn, check_arms, statement};
use crate::vector::argmax;
use crate::{Error, Learnt, Policy};
use privacy::PrivacyStatement;
use privacy::budget::{Epsilon, Neighbours};
use rand::Rng;
use serde::{Deserialize, Serialize};

/// Plays the arm with the largest `mean + sqrt(3 ln t / size) + 3 ln t / (epsilon size)`; anytime.
///
/// - Privacy: epsilon-DP for the sequence of decisions when one round's rewards are replaced. Every reward
///   enters one release, `sum + Lap(1/epsilon)`; arm j releases at its pulls 1, 3, 7, 15, ...
/// - Cost: O(1) per round while one arm surely has the largest index, which is computed for many rounds at
///   once, and O(K) afterwards; O(K) memory.
///
/// # Source
/// Hu, Huang, Mehta, "Near-Optimal Algorithms for Private Online Learning in a Stochastic Environment":
/// Algorithm 1 in the form of appendix A; index: eq. 3 and 4. Departure: the initial pull is released with
/// noise `Lap(1/epsilon)` too. The paper does not define this case, which without noise is not private.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound = "", try_from = "State<N>", into = "State<N>")]
pub struct AnytimeLazyUcb<N: Noise> {
    state: State<N>,
    lead: Lead,
}

impl<N: Noise> AnytimeLazyUcb<N> {
    /// The policy for `k` arms before the first pull.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `k` is 0.
    pub fn new(k: usize, epsilon: Epsilon, noise: N) -> Result<Self, Error> {
        check_arms(k)?;
        let state = State { epsilon, noise, turn: Turn::default(), arms: vec![Arm::default(); k] };
        Ok(Self { state, lead: Lead::default() })
    }

    /// The index of `arm` in round `t`; infinite before its first pull. Source: eq. 3 and 4.
    ///
    /// # Errors
    /// [`Error::Arm`] if there is no such arm.
    pub fn index(&self, arm: usize, t: u64) -> Result<f64, Error> {
        let arms = &self.state.arms;
        let a = arms.get(arm).ok_or(Error::Arm { arm, k: arms.len() })?;
        Ok(if a.size == 0 { f64::INFINITY } else { a.index(t, self.state.epsilon.get()) })
    }

    /// The source of noise.
    pub fn noise(&self) -> &N {
        &self.state.noise
    }

    /// The private mean of each arm; 0 before its first pull.
    pub fn means(&self) -> impl Iterator<Item = f64> + '_ {
        self.state.arms.iter().map(|a| a.mean)
    }

    /// The size of the array of each arm's mean; 0 before its first pull.
    pub fn sizes(&self) -> impl Iterator<Item = u64> + '_ {
        self.state.arms.iter().map(|a| a.size)
    }

    /// The number of pulls of each arm.
    pub fn pulls(&self) -> impl Iterator<Item = u64> + '_ {
        self.state.arms.iter().map(Arm::pulls)
    }

    /// The arm with the largest index in round `t`, and the last round in which this surely holds.
    fn lead(&self, t: u64) -> Lead {
        let State { epsilon, arms, .. } = &self.state;
        let arm = argmax(arms.iter().map(|a| a.index(t, epsilon.get())));
        Lead {
            arm,
            until: arms.iter().map(|a| overtaken(&arms[arm], a, t, epsilon.get())).min().unwrap_or(0),
        }
    }
}

impl<N: Noise> Policy for AnytimeLazyUcb<N> {
    type Context = ();
    type Feedback = f64;

    fn privacy(&self) -> PrivacyStatement {
        statement(self.state.epsilon, Neighbours::ReplaceOne)
    }

    fn learnt(&self) -> Learnt {
        let released = |(mean, size): (f64, u64)| (size > 0).then_some(mean);
        let means = self.means().zip(self.sizes()).map(released).collect();
        Learnt { pulls: Some(self.pulls().collect()), means: Some(means), ..Learnt::default() }
    }

    fn decide(&mut self, (): &(), _: &mut dyn Rng) -> Result<usize, Error> {
        let (t, k) = (self.state.turn.round(), self.state.arms.len());
        if t > k as u64 && t > self.lead.until {
            self.lead = self.lead(t);
        }
        let arm = if t <= k as u64 { (t - 1) as usize } else { self.lead.arm };
        Ok(self.state.turn.decide(arm))
    }

    /// # Errors
    /// [`Error::OutOfTurn`], [`Error::OutOfRange`] if the reward is outside [0, 1], [`Error::Overflow`] after
    /// 2^33 rewards in one array, [`Error::Privacy`] from the noise. The state is then unchanged.
    fn learn(&mut self, (): &(), arm: usize, reward: &f64, rng: &mut dyn Rng) -> Result<(), Error> {
        let State { epsilon, noise, turn, arms } = &mut self.state;
        turn.check(arm)?;
        let a = &mut arms[arm]; // `decide` named it
        let mut open = a.open;
        open.add(*reward)?;
        let size = a.open_size();
        if open.count() == size {
            (a.mean, a.size) = (open.release(epsilon.get().recip(), noise, rng)? / size as f64, size);
            self.lead = Lead::default();
        }
        a.open = open;
        turn.end(1);
        Ok(())
    }
}

/// The arm with the largest index in every round up to `until`. It is not stored, since it can be recomputed.
#[derive(Debug, Clone, Copy, Default)]
struct Lead {
    arm: usize,
    until: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State<N> {
    epsilon: Epsilon,
    noise: N,
    turn: Turn,
    arms: Vec<Arm>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arm {
    mean: f64,
    size: u64,
    open: OpenSum,
}

impl Arm {
    fn open_size(&self) -> u64 {
        (2 * self.size).max(1)
    }

    fn index(&self, t: u64, epsilon: f64) -> f64 {
        let width = 3.0 * (t as f64).ln() / self.size as f64;
        self.mean + width.sqrt() + width / epsilon
    }

    fn pulls(&self) -> u64 {
        self.open_size() - 1 + self.open.count()
    }
}

/// The last round up to which the index of `ahead`, the largest in round `t`, surely is at least that of
/// `rival`.
///
/// With `x = sqrt(ln t)` the difference of the indices is `a - b x - c x^2`, where `b` and `c` have the sign
/// of `1/rival.size - 1/ahead.size`: the index of a rival with the larger array never becomes larger, that of
/// another does so at the root. `slack` is much larger than the rounding errors of two indices at any t below
/// 2^64, so that a comparison in each of these rounds would give the same arm.
fn overtaken(ahead: &Arm, rival: &Arm, t: u64, epsilon: f64) -> u64 {
    if (ahead.mean, ahead.size) == (rival.mean, rival.size) {
        return u64::MAX; // The indices are equal forever; this includes `ahead` itself.
    }
    let x = (t as f64).ln().sqrt();
    let difference = |power: fn(f64) -> f64| power(3.0 / rival.size as f64) - power(3.0 / ahead.size as f64);
    let (b, c) = (difference(f64::sqrt), difference(|w| w) / epsilon);
    let slack = 1e-12 * (1.0 + ahead.mean.abs() + rival.mean.abs() + 150.0 * (1.0 + epsilon.recip()));
    let a = ahead.mean - rival.mean - slack;
    if a - b * x - c * x * x <= 0.0 {
        return t; // The difference is within the slack.
    }
    if b <= 0.0 {
        return u64::MAX;
    }
    let root = 2.0 * a / (b + (b * b + 4.0 * a * c).sqrt());
    (root * root).exp() as u64 // Saturates.
}

impl<N: Noise> TryFrom<State<N>> for AnytimeLazyUcb<N> {
    type Error = Error;
    fn try_from(state: State<N>) -> Result<Self, Error> {
        check_arms(state.arms.len())?;
        let sizes_fit = |a: &Arm| (a.size == 0 || a.size.is_power_of_two()) && a.size <= OpenSum::MAX_COUNT;
        let fits = |a: &Arm| sizes_fit(a) && a.mean.is_finite() && a.open.fits(a.open_size());
        let initialised = state.arms.iter().take(state.turn.learnt as usize).all(|a| a.size > 0);
        if !initialised || !state.arms.iter().all(fits) {
            return Err(Error::State { what: "an arm that no run can reach" });
        }
        state.turn.fits(state.arms.len(), state.arms.iter().map(Arm::pulls).sum())?;
        Ok(Self { state, lead: Lead::default() })
    }
}

impl<N: Noise> From<AnytimeLazyUcb<N>> for State<N> {
    fn from(policy: AnytimeLazyUcb<N>) -> Self {
        policy.state
    }
}
