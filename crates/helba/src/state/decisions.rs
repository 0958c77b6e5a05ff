//! The inputs and the answers of decisions, and the rows of decisions that wait for feedback.

use crate::Scalars;
use crate::journal::Numbered;
use ckks::Ciphertext;
use protocol::{BanditConfig, DecisionId, INVERSE_TOLERANCE, Plan, Receipt, RefreshId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The inputs of a decision. No lock is held while the decision is computed.
#[derive(Debug, Clone)]
pub struct DecisionInputs {
    pub(crate) config: BanditConfig,
    pub(crate) plan: Plan,
    pub(crate) scalars: Scalars,
    pub(crate) model: Arc<Ciphertext>,
    /// The trace statistics and the number of feedbacks in them, if the condition is to be tested.
    pub(crate) trace: Option<(Arc<Ciphertext>, u64)>,
    pub(crate) batch: u64,
    pub(crate) model_feedbacks: u64,
    pub(crate) residual: f64,
}

/// The answer of a bandit to a decision request.
#[derive(Debug, Clone)]
pub struct DecisionReply {
    /// The id, which the feedback names.
    pub id: DecisionId,
    /// Round t, from 1.
    pub round: u64,
    /// t_j, the number of feedbacks in the model of the decision.
    pub model_feedbacks: u64,
    /// The encrypted action, at level 0.
    pub action: Ciphertext,
    /// The flooded trace comparison, at level 0.
    pub trace: Option<Ciphertext>,
    /// A refresh task: its id and the masked model.
    pub refresh: Option<(RefreshId, Ciphertext)>,
}

/// The feedback of a user on a decision.
#[derive(Debug, Clone)]
pub struct Feedback {
    /// [`Layout::statistics`](protocol::Layout::statistics) of the arm played.
    pub statistics: Ciphertext,
    /// [`Layout::trace_features`](protocol::Layout::trace_features) of the arm played.
    pub trace: Ciphertext,
    /// Whether the trace has reached its threshold, if the question was asked and the device answers.
    pub trace_answer: Option<bool>,
    /// The answer to a refresh task: its id, and the masked model, encrypted again at the top level.
    pub refreshed: Option<(RefreshId, Ciphertext)>,
}

/// A decision that waits for feedback, which is a row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Pending {
    pub(super) round: u64,
    /// The trace comparison of the decision.
    pub(super) tested: Option<Tested>,
    /// The refresh task of the decision. An answer to another task is ignored.
    pub(super) refresh: Option<u64>,
}

/// The inverse and the statistics of a trace comparison.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Tested {
    pub(super) batch: u64,
    pub(super) feedbacks: u64,
    /// t_j of the inverse.
    pub(super) model_feedbacks: u64,
    /// Whether its residual was within the tolerance.
    pub(super) inverse: bool,
}

impl DecisionInputs {
    pub(super) fn tested(&self) -> Option<Tested> {
        self.trace.as_ref().map(|&(_, feedbacks)| Tested {
            batch: self.batch,
            feedbacks,
            model_feedbacks: self.model_feedbacks,
            inverse: self.residual <= INVERSE_TOLERANCE,
        })
    }
}

/// The content of a receipt besides its decision, which is a row.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Counted {
    pub(super) feedbacks: u64,
    pub(super) batches: u64,
}

impl Counted {
    pub(super) fn receipt(self, id: DecisionId) -> Receipt {
        Receipt { decision: id.to_string(), feedbacks: self.feedbacks, batches: self.batches }
    }
}

impl Numbered for Pending {
    fn number(&self) -> u64 {
        self.round
    }
}

impl Numbered for Counted {
    fn number(&self) -> u64 {
        self.feedbacks
    }
}
