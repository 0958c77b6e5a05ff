use crate::{Error, frame};
use ckks::Params;
use protocol::Plan;

/// The most bytes of each ciphertext of a bandit. They follow from parameters and plan, so that no sender can
/// make a reader allocate more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The encrypted contexts, which are the whole body of a decision request.
    pub contexts: usize,
    /// The encrypted statistics of a feedback.
    pub statistics: usize,
    /// The encrypted trace features of a feedback.
    pub trace: usize,
    /// The model that a user encrypted again.
    pub refreshed: usize,
    /// The encrypted action.
    pub action: usize,
    /// The flooded trace comparison.
    pub trace_question: usize,
    /// The masked model.
    pub refresh: usize,
}

impl Limits {
    /// The limits of a bandit with this plan. Seeded ciphertexts are shorter, so that both forms fit.
    ///
    /// # Errors
    /// [`Error::Level`] if the plan names a level that `params` do not have.
    pub fn new(params: &Params, plan: &Plan) -> Result<Self, Error> {
        let bytes = |what, level| match params.max_level() {
            max if level > max => Err(Error::Level { what, level, max }),
            _ => Ok(ckks::ciphertext_bytes(params, level, false)),
        };
        Ok(Limits {
            contexts: bytes("contexts", plan.context_level)?,
            statistics: bytes("statistics", plan.statistics_level)?,
            trace: bytes("trace features", plan.trace_level)?,
            refreshed: bytes("refreshed model", plan.model_level)?,
            action: bytes("action", plan.answer_level)?,
            trace_question: bytes("trace comparison", plan.answer_level)?,
            refresh: bytes("masked model", plan.refresh_level)?,
        })
    }

    /// The longest body of a [`crate::FeedbackRequest`].
    pub fn feedback_request(&self) -> usize {
        frame::overhead(3) + self.statistics + self.trace + self.refreshed
    }

    /// The longest body of a [`crate::DecideReply`].
    pub fn decide_reply(&self) -> usize {
        frame::overhead(3) + self.action + self.trace_question + self.refresh
    }
}
