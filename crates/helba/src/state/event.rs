//! What changes an encrypted bandit, and what that did.

use super::stored::decode;
use crate::Error;
use protocol::{Erasure, LearnId, LearnReceipt, QuestionId, Receipt};
use serde::{Deserialize, Serialize};

/// Something that changes an encrypted bandit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// Rounds up to this one may be given out.
    Rounds(u64),
    /// The feedback on the decision of a round: the frame of [`ckks::write_partial_ciphertext`].
    Feedback {
        /// The round.
        round: u64,
        /// The frame.
        #[serde(with = "serde_bytes")]
        frame: Vec<u8>,
    },
    /// The sum of a batch, raised.
    Raised {
        /// The task.
        task: u64,
        /// The frame of a ciphertext of the deep ring.
        #[serde(with = "serde_bytes")]
        frame: Vec<u8>,
    },
    /// The next model, encrypted anew.
    Refreshed {
        /// The task.
        task: u64,
        /// The frame of the model in the deep ring.
        #[serde(with = "serde_bytes")]
        deep: Vec<u8>,
        /// The frame of the model in the ring of scores.
        #[serde(with = "serde_bytes")]
        scores: Vec<u8>,
    },
    /// The feedback on the decision of a round, under the trace condition.
    Traced {
        /// The round.
        round: u64,
        /// The statistics, as in [`Event::Feedback`].
        #[serde(with = "serde_bytes")]
        frame: Vec<u8>,
        /// The frame of the trace statistics ([`protocol::ScoreLayout::trace`]).
        #[serde(with = "serde_bytes")]
        trace: Vec<u8>,
        /// The answer to the trace question of the decision, if there is one: whether the trace had reached
        /// C.
        answer: Option<(QuestionId, bool)>,
    },
    /// The feedback on the decision of a round is removed: its frame, which was counted before, is
    /// subtracted.
    Erased {
        /// The round.
        round: u64,
        /// The frame of the statistics.
        #[serde(with = "serde_bytes")]
        frame: Vec<u8>,
    },
    /// The batch ends before its schedule ends it, to make room for logged rounds; or an update by products
    /// whose first step nobody has been asked for takes the feedback since the end of its batch.
    Closed,
    /// Rounds up to this one were given out.
    Given(u64),
    /// The reserved rounds that were not given out will not be.
    Skipped,
    /// A step of an update by products, exchanged.
    Exchanged {
        /// The task.
        task: u64,
        /// The frames of ciphertexts of the ring of scores.
        #[serde(with = "frames")]
        frames: Vec<Vec<u8>>,
    },
    /// Logged rounds are learnt.
    Learnt {
        /// The id that their sender chose.
        id: LearnId,
        /// The first of the rounds that they take.
        first: u64,
        /// Their number.
        rounds: u64,
        /// The frame of the sum of their feedbacks, as in [`Event::Feedback`].
        #[serde(with = "serde_bytes")]
        frame: Vec<u8>,
    },
    /// From here on the bandit decides and does not learn, or learns again.
    Frozen(bool),
}

/// Frames as byte strings, which are copied whole and not byte by byte.
mod frames {
    use serde::{Deserialize, Deserializer, Serializer};
    use serde_bytes::{ByteBuf, Bytes};

    pub(super) fn serialize<S: Serializer>(frames: &[Vec<u8>], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(frames.iter().map(|frame| Bytes::new(frame)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Vec<u8>>, D::Error> {
        let frames = Vec::<ByteBuf>::deserialize(from)?;
        Ok(frames.into_iter().map(ByteBuf::into_vec).collect())
    }
}

impl Event {
    /// The event as a journal holds it.
    ///
    /// # Errors
    /// [`Error::Broken`] if it cannot be serialised.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        postcard::to_stdvec(self).map_err(|_| Error::Broken("an event that cannot be serialised"))
    }

    /// Reads the bytes of [`Self::to_bytes`].
    ///
    /// # Errors
    /// [`Error::BadState`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        decode(bytes)
    }
}

/// What an event did.
#[derive(Debug, Clone, PartialEq)]
pub enum Applied {
    /// Rounds were reserved, given out or left out.
    Reserved,
    /// A feedback was counted. The receipt is that of its decision.
    Counted(Receipt),
    /// Logged rounds were learnt.
    Learnt(LearnReceipt),
    /// A feedback was erased.
    Erased(Erasure),
    /// The sum was added to the statistics, and an update is due.
    UpdateDue,
    /// A step of an update was taken, and the next one is asked for.
    Exchanged,
    /// The model was replaced.
    Installed,
    /// The batch has ended.
    Closed,
    /// The bandit was frozen or thawed.
    Frozen,
}
