//! Ids of decisions and trace questions, and the public counters of a bandit.

use crate::Error;
use serde::{Deserialize, Serialize};

/// The id of a decision: 16 bytes, which nobody can guess. Those of a clear policy are random; those of an
/// encrypted bandit are the round (48 bits) and a code under the secret of the bandit (80 bits). In paths and
/// JSON the id is written as 32 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DecisionId(pub [u8; 16]);

impl DecisionId {
    /// The bytes that hold the round of an encrypted decision. The others are a message authentication code.
    pub const ROUND_BYTES: usize = 6;

    /// The round of the decision of an encrypted bandit.
    pub fn round(&self) -> u64 {
        let mut round = [0; 8];
        round[..Self::ROUND_BYTES].copy_from_slice(&self.0[..Self::ROUND_BYTES]);
        u64::from_le_bytes(round)
    }
}

impl std::fmt::Display for DecisionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", ckks::Hex(&self.0))
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

/// The id of a trace question, which the answer names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionId {
    /// The number of feedbacks up to the last one whose trace is asked for.
    pub feedbacks: u64,
    /// t_j, the number of feedbacks in the model of the trace.
    pub model_feedbacks: u64,
    /// A code that only the bandit can compute, over these numbers and the round of the decision.
    pub code: [u8; 16],
}

/// The receipt of a counted feedback. A repeated feedback counts nothing, and gets a receipt with the present
/// counters, because receipts are not stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The decision, in hexadecimal.
    pub decision: String,
    /// The number of feedbacks counted so far, including this one and, if it is repeated, later ones.
    pub feedbacks: u64,
    /// The number of batches closed so far.
    pub batches: u64,
}

/// The receipt of an erased feedback. A repeated erasure changes nothing, and gets a receipt with the present
/// number of batches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erasure {
    /// The decision, in hexadecimal.
    pub decision: String,
    /// The number of batches closed so far. The model after the next one that is closed has nothing of the
    /// feedback.
    pub batches: u64,
    /// A message authentication code of the decision and its erasure, in hexadecimal, which the server alone
    /// computes.
    pub code: String,
    /// The copies of the bandit from which the feedback is erased too: all that had it.
    pub copies: Vec<String>,
}

/// The id of a request with logged rounds, which its sender chooses: the rounds of an id are learnt once. It
/// is written as 32 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LearnId(pub [u8; 16]);

impl std::fmt::Display for LearnId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", ckks::Hex(&self.0))
    }
}

/// The receipt of logged rounds. A repeated request teaches nothing, and gets a receipt with the present
/// counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnReceipt {
    /// The id of the request, in hexadecimal.
    pub id: String,
    /// The logged rounds that were learnt with it.
    pub rounds: u64,
    /// The number of feedbacks and logged rounds counted so far.
    pub feedbacks: u64,
    /// The number of batches closed so far.
    pub batches: u64,
    /// Whether single rounds of them can be erased: false, because the server has their sum alone.
    pub erasable: bool,
}

/// The counters and the phase of a bandit, which are public. Under a public schedule they do not depend on
/// contexts or rewards. Under another schedule, the numbers of batches and models reveal when the trace
/// condition was met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The number of decisions and logged rounds.
    pub round: u64,
    /// The number of feedbacks and logged rounds counted.
    pub feedbacks: u64,
    /// t_j, the number of feedbacks in the current model.
    pub model_feedbacks: u64,
    /// The number of batches closed.
    pub batches: u64,
    /// The number of models that holders of the key encrypted anew.
    pub refreshes: u64,
    /// Whether the sum of a batch waits for a holder of the key, or its update is due or runs.
    pub updating: bool,
    /// Whether a masked model waits for a holder of the key.
    pub refresh_due: bool,
    /// The number of decisions that wait for feedback.
    pub pending_decisions: usize,
    /// Whether the bandit decides with its model and learns nothing.
    pub frozen: bool,
}
