use crate::frame::{self, Kind, Reader};
use crate::{Error, Limits};
use protocol::{DecisionId, RefreshId};
use serde::{Deserialize, Serialize};

/// The answer to a decision request, from server to user.
#[derive(Debug, Clone, PartialEq)]
pub struct DecideReply {
    /// The id of the decision, which the feedback names.
    pub decision: DecisionId,
    /// Round t, from 1.
    pub round: u64,
    /// t_j, the number of feedbacks in the model of the decision.
    pub model_feedbacks: u64,
    /// Seconds of wall time of the server in each phase.
    pub seconds: Vec<(String, f64)>,
    /// Frame of the encrypted action, at the answer level of the plan.
    pub action: Vec<u8>,
    /// Frame of the flooded trace comparison, at the answer level of the plan.
    pub trace: Option<Vec<u8>>,
    /// A refresh task: its id, and the frame of the masked model at the refresh level of the plan.
    pub refresh: Option<(RefreshId, Vec<u8>)>,
}

#[derive(Serialize, Deserialize)]
struct Header {
    decision: DecisionId,
    round: u64,
    model_feedbacks: u64,
    seconds: Vec<(String, f64)>,
    trace: bool,
    refresh: Option<RefreshId>,
}

impl DecideReply {
    /// The bytes of the message. Names of phases must be short enough for a header of
    /// [`crate::MAX_HEADER_BYTES`], or every reader refuses the message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let header = Header {
            decision: self.decision,
            round: self.round,
            model_feedbacks: self.model_feedbacks,
            seconds: self.seconds.clone(),
            trace: self.trace.is_some(),
            refresh: self.refresh.as_ref().map(|(id, _)| *id),
        };
        let trace = self.trace.as_deref();
        let refresh = self.refresh.as_ref().map(|(_, frame)| frame.as_slice());
        let blobs: Vec<&[u8]> =
            [Some(self.action.as_slice()), trace, refresh].into_iter().flatten().collect();
        frame::write(Kind::Decision, &header, &blobs)
    }

    /// Reads the bytes of [`Self::to_bytes`]. The frames are not read.
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::Truncated`], [`Error::Trailing`], [`Error::Malformed`],
    /// [`Error::Version`].
    pub fn read(bytes: &[u8], limits: &Limits) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes, limits.decide_reply())?;
        let header: Header = reader.header(Kind::Decision)?;
        let action = reader.blob("the action", limits.action)?.to_vec();
        let trace = match header.trace {
            true => Some(reader.blob("the trace comparison", limits.trace_question)?.to_vec()),
            false => None,
        };
        let refresh = match header.refresh {
            Some(id) => Some((id, reader.blob("the masked model", limits.refresh)?.to_vec())),
            None => None,
        };
        reader.end()?;
        let Header { decision, round, model_feedbacks, seconds, .. } = header;
        Ok(DecideReply { decision, round, model_feedbacks, seconds, action, trace, refresh })
    }
}
