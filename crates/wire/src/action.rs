use crate::frame::{self, Kind, Reader};
use crate::{Error, Limits};
use protocol::{DecisionId, RefreshId};
use serde::{Deserialize, Serialize};

/// The encrypted action travels back: server → user.
#[derive(Debug, Clone, PartialEq)]
pub struct DecideReply {
    /// The decision's id, to be named by the feedback.
    pub decision: DecisionId,
    /// Round t, from 1.
    pub round: u64,
    /// Feedbacks in the model that decided, t_j.
    pub model_feedbacks: u64,
    /// Seconds of wall time that the server spent in each phase.
    pub seconds: Vec<(String, f64)>,
    /// Frame of the encrypted action, at the plan's answer level.
    pub action: Vec<u8>,
    /// Frame of the flooded trace comparison, at the plan's answer level.
    pub trace: Option<Vec<u8>>,
    /// A refresh task: its id, and the frame of the masked model at the plan's refresh level.
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
    /// The message. Phase names must leave the header below [`crate::MAX_HEADER_BYTES`], or no reader takes
    /// it.
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

    /// Reads what [`Self::to_bytes`] wrote. The frames are not looked into.
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
