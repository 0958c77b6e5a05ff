//! What follows from the secret of a bandit and from its events: ids of decisions and questions, codes of
//! receipts, and the seeds of masks and noise. Nobody else can compute any of it.

use super::{Event, State};
use crate::Error;
use protocol::{DecisionId, QuestionId};

/// A seed for one purpose.
pub(super) fn derive(seed: &[u8; 32], purpose: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new_keyed(seed).update(purpose).finalize().as_bytes()
}

impl<C> State<C> {
    /// The id of the decision of `round`: the round, and a code.
    pub(super) fn decision_id(&self, round: u64) -> DecisionId {
        let round = round.to_le_bytes();
        let code = self.code(b"decision", &round);
        let mut id = [0; 16];
        id[..DecisionId::ROUND_BYTES].copy_from_slice(&round[..DecisionId::ROUND_BYTES]);
        id[DecisionId::ROUND_BYTES..].copy_from_slice(&code[..16 - DecisionId::ROUND_BYTES]);
        DecisionId(id)
    }

    /// The round of an id that this bandit has given out.
    pub(super) fn round_of(&self, id: DecisionId) -> Option<u64> {
        let round = id.round();
        // In constant time, since the code is a secret of the bandit until the id is given out.
        (blake3::hash(&self.decision_id(round).0) == blake3::hash(&id.0)).then_some(round)
    }

    /// The id of the question with the decision of `round`, about the trace of these feedbacks under the
    /// model of these.
    pub(super) fn question_id(&self, round: u64, feedbacks: u64, model_feedbacks: u64) -> QuestionId {
        let numbers = [round, feedbacks, model_feedbacks].map(u64::to_le_bytes).concat();
        QuestionId { feedbacks, model_feedbacks, code: self.code(b"question", &numbers) }
    }

    /// Whether `question` was asked with the decision of `round`.
    pub(super) fn has_asked(&self, round: u64, question: &QuestionId) -> bool {
        let asked = self.question_id(round, question.feedbacks, question.model_feedbacks);
        // In constant time, as for decisions.
        blake3::hash(&asked.code) == blake3::hash(&question.code)
    }

    /// A message authentication code over `content`, for one purpose.
    pub(super) fn code(&self, purpose: &[u8], content: &[u8]) -> [u8; 16] {
        let mac = blake3::Hasher::new_keyed(&self.secret).update(purpose).update(content).finalize();
        let mut code = [0; 16];
        code.copy_from_slice(&mac.as_bytes()[..16]);
        code
    }

    /// Adds an event to the history, from which seeds follow.
    pub(super) fn note(&mut self, event: &Event) -> Result<(), Error> {
        let bytes = event.to_bytes()?;
        self.history = *blake3::Hasher::new_keyed(&self.history).update(&bytes).finalize().as_bytes();
        Ok(())
    }

    /// The id of the next task, below 2^63: whoever was not shown the task does not know it, and so answers
    /// nothing.
    pub(super) fn next_task(&mut self) -> u64 {
        self.tasks += 1;
        let id = self.of_the_last_task(b"task");
        u64::from_le_bytes(std::array::from_fn(|i| id[i])) >> 1
    }

    /// The seed of the mask of the last task.
    pub(super) fn mask(&self) -> [u8; 32] {
        self.of_the_last_task(b"mask")
    }

    fn of_the_last_task(&self, purpose: &[u8]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        hasher.update(purpose).update(&self.history).update(&self.tasks.to_le_bytes());
        *hasher.finalize().as_bytes()
    }

    /// The seed of the noise of the group of counters that the last event completes.
    pub(super) fn noise_seed(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        *hasher.update(b"counters").update(&self.history).finalize().as_bytes()
    }
}
