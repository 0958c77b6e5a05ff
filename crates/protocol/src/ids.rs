//! Names of decisions and refreshes, and what a server says of a bandit.

use crate::Error;
use serde::{Deserialize, Serialize};

/// Names a decision: 16 random bytes, which nobody can guess. In paths and JSON it is written as 32
/// lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DecisionId(pub [u8; 16]);

impl std::fmt::Display for DecisionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl std::str::FromStr for DecisionId {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self, Error> {
        let unknown = || Error::UnknownDecision { id: s.chars().take(64).collect() };
        if s.len() != 32 || !s.is_ascii() {
            return Err(unknown());
        }
        let mut id = [0; 16];
        for (byte, pair) in id.iter_mut().zip(s.as_bytes().chunks_exact(2)) {
            let digit =
                |c: u8| (c as char).to_digit(16).filter(|_| !c.is_ascii_uppercase()).ok_or_else(unknown);
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Ok(DecisionId(id))
    }
}

/// Names a refresh: the number of the batch whose model it brings back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefreshId(pub u64);

/// States that a feedback was counted. Every repetition of the feedback gets the same receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The decision, in hexadecimal.
    pub decision: String,
    /// Feedbacks counted so far, this one included.
    pub feedbacks: u64,
    /// Batches closed so far.
    pub batches: u64,
}

/// Where a bandit stands. Public: under a public schedule nothing in it depends on contexts or rewards. Under
/// another, the numbers of batches and models show when the trace condition was met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Decisions made.
    pub round: u64,
    /// Feedbacks counted.
    pub feedbacks: u64,
    /// Feedbacks in the model in use, t_j.
    pub model_feedbacks: u64,
    /// Batches closed.
    pub batches: u64,
    /// Models brought back by users.
    pub refreshes: u64,
    /// A batch update is due or runs.
    pub updating: bool,
    /// A masked model waits for a user.
    pub refresh_due: bool,
    /// Decisions without feedback.
    pub pending_decisions: usize,
}
