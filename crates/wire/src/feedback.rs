use crate::frame::{self, Kind, Reader};
use crate::{Error, Limits};
use protocol::RefreshId;
use serde::{Deserialize, Serialize};

/// The feedback on a decision, from user to server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedbackRequest {
    /// Frame of the encrypted statistics, at the statistics level of the plan.
    pub statistics: Vec<u8>,
    /// Frame of the encrypted trace features, at the trace level of the plan.
    pub trace: Vec<u8>,
    /// Whether the trace has reached its threshold, which is one bit of a decryption. `None` under a public
    /// schedule, if no question was asked, and from a device that has given as many answers as it may.
    pub trace_answer: Option<bool>,
    /// The answer to a refresh task: its id, and the frame of the model at the model level of the plan.
    pub refreshed: Option<(RefreshId, Vec<u8>)>,
}

#[derive(Serialize, Deserialize)]
struct Header {
    trace_answer: Option<bool>,
    refreshed: Option<RefreshId>,
}

impl FeedbackRequest {
    /// The bytes of the message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let refreshed = self.refreshed.as_ref();
        let header = Header { trace_answer: self.trace_answer, refreshed: refreshed.map(|(id, _)| *id) };
        let mut blobs = vec![self.statistics.as_slice(), self.trace.as_slice()];
        blobs.extend(refreshed.map(|(_, frame)| frame.as_slice()));
        frame::write(Kind::Feedback, &header, &blobs)
    }

    /// Reads the bytes of [`Self::to_bytes`]. The frames are not read.
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::Truncated`], [`Error::Trailing`], [`Error::Malformed`],
    /// [`Error::Version`].
    pub fn read(bytes: &[u8], limits: &Limits) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes, limits.feedback_request())?;
        let header: Header = reader.header(Kind::Feedback)?;
        let statistics = reader.blob("the statistics", limits.statistics)?.to_vec();
        let trace = reader.blob("the trace features", limits.trace)?.to_vec();
        let refreshed = match header.refreshed {
            Some(id) => Some((id, reader.blob("the refreshed model", limits.refreshed)?.to_vec())),
            None => None,
        };
        reader.end()?;
        Ok(FeedbackRequest { statistics, trace, trace_answer: header.trace_answer, refreshed })
    }
}
