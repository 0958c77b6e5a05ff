//! Private policies for stochastic rewards, with bandit feedback and with full information.
//!
//! | algorithm | here | knows T | feedback |
//! |---|---|---|---|
//! | Anytime-Lazy-UCB | [`AnytimeLazyUcb`] | no | reward of the arm |
//! | Hybrid-UCB | [`HybridUcb`] | no | reward of the arm |
//! | DP-SE, successive elimination | [`DpSe`] | yes | reward of the arm |
//! | UCB1, not private | [`Ucb1`] | no | reward of the arm |
//! | Follow the noisy leader, naive and not private forms | [`FollowTheNoisyLeader`] | no | rewards of all arms |
//!
//! Privacy is event-level and pure: two reward tables are neighbours if one round's rewards are replaced, and
//! the output is the sequence of decisions. Decisions depend on rewards only through noisy sums.
//!
//! The source of noise is a parameter of each policy: [`GridLaplace`](privacy::laplace::GridLaplace) for real
//! data, with a cryptographic generator as the `rng` of [`Policy`](crate::Policy), and
//! [`HarnessLaplace`](privacy::laplace::HarnessLaplace) for simulation. Rewards are in [0, 1] and rounded to
//! multiples of `2^-20`, so that sums are exact. Each decision must get its feedback before the next one;
//! a service plays them in turn underneath, whenever rewards come (`policies`).
//!
//! Source throughout: Hu, Huang, Mehta, "Near-Optimal Algorithms for Private Online Learning in a Stochastic
//! Environment".

mod dp_se;
mod environment;
mod follow;
mod hybrid_ucb;
mod lazy_ucb;
mod noisy_max;
mod open_sum;
mod ucb1;

pub use dp_se::{DpSe, Epoch};
pub use environment::{Bernoulli, BernoulliArms, FullInformation, SETTING_1, SETTING_2, SETTING_3};
pub use follow::FollowTheNoisyLeader;
pub use hybrid_ucb::{HybridUcb, Tree};
pub use lazy_ucb::AnytimeLazyUcb;
pub use noisy_max::{NoisyMax, report_noisy_max};
pub use ucb1::Ucb1;

use crate::Error;
use fault::require;
use open_sum::OpenSum;
use privacy::budget::{Epsilon, Neighbours};
use privacy::laplace::LaplaceNoise;
use privacy::{PrivacyStatement, Trust};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// A source of Laplace noise that can be part of a policy's stored state.
pub trait Noise: LaplaceNoise + Clone + Serialize + DeserializeOwned {}

impl<N: LaplaceNoise + Clone + Serialize + DeserializeOwned> Noise for N {}

/// The number of rounds, and whether a decision waits for its feedback.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Turn {
    learnt: u64,
    decided: Option<usize>,
}

impl Turn {
    /// The current round, from 1.
    fn round(&self) -> u64 {
        self.learnt + 1
    }

    fn decide(&mut self, arm: usize) -> usize {
        self.decided = Some(arm);
        arm
    }

    /// Refuses feedback unless `arm` is that of the last decision.
    fn check(&self, arm: usize) -> Result<(), Error> {
        if self.decided == Some(arm) { Ok(()) } else { Err(Error::OutOfTurn { arm }) }
    }

    fn end(&mut self, rounds: u64) {
        self.learnt += rounds;
        self.decided = None;
    }

    /// Refuses a value that no run over `k` arms can store after `learnt` rewards.
    fn fits(&self, k: usize, learnt: u64) -> Result<(), Error> {
        if self.learnt != learnt || learnt >= 1 << 62 || self.decided.is_some_and(|arm| arm >= k) {
            return Err(Error::State { what: "rounds and pulls disagree" });
        }
        Ok(())
    }
}

fn check_arms(k: usize) -> Result<(), Error> {
    require(k > 0, "k", 0, "at least 1")?;
    Ok(())
}

/// The statement of pure privacy of the decisions. The server itself receives the rewards.
fn statement(epsilon: Epsilon, neighbours: Neighbours) -> PrivacyStatement {
    let sentence = "The sequence of decisions, for one round's rewards, when the noise is drawn on a grid from a \
                    cryptographic generator; the server sees the rewards and adds the noise.";
    PrivacyStatement::pure(epsilon, Trust::Central, neighbours, sentence)
}

fn no_privacy() -> PrivacyStatement {
    PrivacyStatement::none("Decisions depend on the rewards without noise.")
}
