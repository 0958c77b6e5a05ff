//! Policies side by side on recorded rounds.
//!
//! What is estimated is the mean reward that a policy earns when it decides n rounds of the population from
//! which the n rounds of the file come, and learns from its own choices. Rounds are taken to be independent,
//! so that every order of them is a run of the policy on such rounds: it plays several random orders, each
//! with other random draws of its own, and the mean over them is the estimate. An order depends on the rounds
//! and a public seed, and not on how the file lists the rounds, so that two files with the same rounds have
//! one report.
//!
//! Where the rewards of all candidates are known, a policy is replayed and earns what the file says. Where
//! only the reward of a logged action is known, with the probability of that action, [`evaluate`] estimates
//! in three ways:
//!
//! | estimate | of round t, with action a_t, reward r_t, probability p_t, and the policy's arm π_t |
//! |---|---|
//! | IPS | w_t r_t, where w_t = 1\[π_t = a_t\]/p_t; the mean over rounds |
//! | SNIPS | Σ w_t r_t / Σ w_t |
//! | doubly robust | q_t(π_t) + w_t (r_t − q_t(a_t)); the mean over rounds |
//!
//! q is a ridge regression (λ = 1) of reward on the features, 1 and the candidate, with weights of 1/p,
//! fitted to the logged actions of four fifths of the rounds, in which round t is not. A policy learns in
//! every round from a draw around q(π), so that it gets as many rewards, and as noisy ones, as it would if it
//! decided itself. The rounds have five parts, and each order is played once for each part: the models that
//! teach are then fitted without that part, and terms are taken from its rounds alone. Hence w_t depends on
//! nothing that r_t has had a part in, and the means of IPS and of the doubly robust terms are unbiased for
//! the mean reward over the states that the policy went through, whatever q is. Where q is wrong, those are
//! other states than the ones of a policy that decides itself.
//!
//! Where features have a score that was learnt from the same file, that of a round is learnt from the rewards
//! of the other four folds. A policy that met rounds of several folds would learn from their scores what the
//! rewards of the others are: the mean of a fold is a function of the means of all and of the others. So it
//! plays the rounds of each fold by themselves, a fifth of the file, and the models that teach it are fitted
//! to them alone.
//!
//! Without probabilities the value is the mean of q_t(π_t), the direct method, which is biased where q is
//! wrong. Nothing is recommended from it.
//!
//! Before anything is recommended, the probabilities are tested: weights of any choice that depends on the
//! past average 1, and the probabilities of all candidates add up to 1 where they are known.
//!
//! # Source
//! Horvitz, Thompson 1952 (IPS); Swaminathan, Joachims, "The self-normalized estimator for counterfactual
//! learning", 2015 (SNIPS); Dudík, Erhan, Langford, Li, "Doubly robust policy evaluation and optimization",
//! 2014; Chernozhukov and others, "Double/debiased machine learning", 2018 (fitting to the other parts).

mod audit;
mod candidates;
mod estimate;
mod interval;
mod log;
mod orders;
mod report;
pub mod visits;

pub use audit::WeightTest;
pub use candidates::{EvaluationSettings, Unfit};
pub use estimate::{evaluate, evaluate_with};
pub use report::{Entry, Estimate, EvaluationReport, InFile, Measure, Recommendation};

/// Errors of this crate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: some rounds have the probability of their action, and others have not.
    #[error(
        "round {round} has no probability of its action, and other rounds have: add it, or delete the round, or leave the \
         probabilities out of the schema"
    )]
    SomePropensities {
        /// The round, from 1.
        round: usize,
    },
    /// Misuse: fewer than two runs.
    #[error(
        "one run does not tell how much another order of the rounds would change: ask for 2 seeds or more"
    )]
    Runs,
    /// Misuse: a rule that does not have one of the candidates for each round.
    #[error("the rule {name} must pick one of {arms} candidates in each of {rounds} rounds")]
    Rule {
        /// Its name.
        name: String,
        /// Number of rounds.
        rounds: usize,
        /// Number of candidates.
        arms: usize,
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
            Error::Policies { .. } | Error::Runs | Error::Rule { .. } => fault::Fault::Configuration,
            Error::SomePropensities { .. } | Error::Round { .. } => fault::Fault::Value,
            Error::Plot(_) => fault::Fault::Internal,
        }
    }
}
