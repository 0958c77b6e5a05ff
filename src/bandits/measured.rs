//! The numbers of a bandit for its operator: counters, levels, budgets, and what it waits for. They are
//! those of its public state, and who waits.

use protocol::Plan;
use serde::Serialize;
use wire::Privacy;

/// The numbers of a bandit.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Measured {
    pub(crate) id: String,
    pub(crate) kind: &'static str,
    pub(crate) policy: String,
    /// `None` if decisions take no context.
    pub(crate) features: Option<usize>,
    pub(crate) arms: usize,
    /// The number of decisions.
    pub(crate) round: u64,
    pub(crate) feedbacks: u64,
    /// The number of batches closed, of an encrypted bandit.
    pub(crate) batches: Option<u64>,
    /// The number of decisions that wait for feedback.
    pub(crate) open: u64,
    /// The most of them, if they are bounded.
    pub(crate) max_open: Option<usize>,
    /// The number of requests for decisions in the open pack.
    pub(crate) users_waiting: Option<usize>,
    /// `None` of a clear policy.
    pub(crate) levels: Option<Levels>,
    /// `None` of an encrypted bandit.
    pub(crate) privacy: Option<Privacy>,
    pub(crate) awaited: Vec<Awaited>,
}

/// The levels at which parts of an encrypted bandit begin, and the top level of the parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Levels {
    pub(crate) top: usize,
    /// Raised scores.
    pub(crate) scores: usize,
    pub(crate) statistics: usize,
    pub(crate) model: usize,
    pub(crate) answers: usize,
}

impl Levels {
    pub(crate) fn new(plan: &Plan, top: usize) -> Self {
        Levels {
            top,
            scores: plan.scores_level,
            statistics: plan.statistics_level,
            model: plan.model_level,
            answers: plan.answer_level,
        }
    }
}

/// What a bandit waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Awaited {
    /// A holder of the key, to raise the scores of users who wait.
    Raise,
    /// A holder of the key, to raise the sum of a batch.
    Sum,
    /// A holder of the key, to encrypt a new model.
    Model,
    /// The update of a batch.
    Update,
    /// Its thaw: until then it decides, and learns nothing.
    Thaw,
    /// Feedback on decisions.
    Feedback,
    /// A batch of an intermediary, or shares of users.
    Batch,
}
