//! Policies side by side on recorded rounds.
//!
//! Where the rewards of all candidates are known, a policy is replayed: it plays the rounds in the order of
//! the file and earns what the file says. Where only the reward of a logged action is known, with the
//! probability of that action, [`evaluate`] estimates what the policy would have earned, in three ways:
//!
//! | estimate | of round t, with action a_t, reward r_t, probability p_t, and the policy's arm π_t |
//! |---|---|
//! | IPS | w_t r_t, where w_t = 1\[π_t = a_t\]/p_t; the mean over rounds |
//! | SNIPS | Σ w_t r_t / Σ w_t |
//! | doubly robust | q_t(π_t) + w_t (r_t − q_t(a_t)); the mean over rounds |
//!
//! q_t is a ridge regression (λ = 1, no intercept) of reward on features, fitted to the logged actions of the
//! rounds before t. A policy learns from a round if its arm is the logged action; other rounds leave its
//! state as it was. Hence w_t depends on rounds before t and on the features of round t alone, and the means
//! of IPS and of the doubly robust terms are unbiased for the mean reward of the policy over the states that
//! it went through. It learns from fewer rounds than it would if it decided itself.
//!
//! Intervals are those of a percentile bootstrap over rounds and, for randomised policies, over seeds: they
//! say how far the mean over these rounds and seeds may be from that over others like them, for the decisions
//! that were made, and not how a policy would have learnt from others. Ten seeds make the part of the seeds
//! about 5 % too short, five about 11 %. A run of a policy may be farther off than its mean: see the
//! deviation between seeds.
//!
//! # Source
//! Horvitz, Thompson 1952 (IPS); Swaminathan, Joachims, "The self-normalized estimator for counterfactual
//! learning", 2015 (SNIPS); Dudík, Erhan, Langford, Li, "Doubly robust policy evaluation and optimization",
//! 2014, Algorithm 1 for policies that learn. Departure: the regression is that of the rounds before, and a
//! policy learns from all rounds whose action is its own, without rejection sampling.

mod bootstrap;
mod candidates;
mod estimate;
mod report;
pub mod visits;

pub use candidates::{EvaluationSettings, Unfit};
pub use estimate::evaluate;
pub use report::{Entry, Estimate, EvaluationReport, Measure, Recommendation};

/// Errors of this crate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: only the rewards of logged actions are known, and not their probabilities.
    #[error(
        "only the rewards of logged actions are known, and round {round} has no probability of its action, so that no estimate \
         can correct for the logging: name the column of the probabilities as `propensity` in the schema"
    )]
    NoPropensity {
        /// The round, from 1.
        round: usize,
    },
    /// Misuse: a name that is none of a policy, or no policy that fits.
    #[error("{reason}")]
    Policies {
        /// What is wrong, and what to do.
        reason: String,
    },
    /// Misuse: a policy refuses a round.
    #[error("{policy}, round {round}: {reason}")]
    Round {
        /// The policy.
        policy: String,
        /// The round, from 1.
        round: usize,
        /// The reason of the policy.
        reason: String,
    },
    /// The picture cannot be drawn.
    #[error(transparent)]
    Plot(#[from] plot::Error),
}

impl Error {
    /// The fault that the error is classified under.
    pub fn fault(&self) -> fault::Fault {
        match self {
            Error::NoPropensity { .. } | Error::Policies { .. } => fault::Fault::Configuration,
            Error::Round { .. } => fault::Fault::Value,
            Error::Plot(_) => fault::Fault::Internal,
        }
    }
}
