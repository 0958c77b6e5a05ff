//! What a committee refuses.

use wire::ProblemType;

/// Why a request to a committee was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitteeError {
    /// A manifest that is none, or that its members have not all signed.
    #[error("the committee's manifest cannot be used: {0}")]
    Manifest(shares::Error),
    /// A state folder of another committee.
    #[error(
        "the state folder is that of another committee: start the server with the manifest that it had, or with another --state"
    )]
    OtherCommittee,
    /// A next committee that does not follow the one of --committee.
    #[error(
        "the next committee's proposal does not say that it follows the committee: write it with `--follows`, and make keys for it"
    )]
    NotNext,
    /// A member of a committee that has moved.
    #[error("the committee has moved to {to}, and this member serves no more: stop it")]
    Moved {
        /// The committee that serves, in hexadecimal digits.
        to: String,
    },
    /// A request for a committee to a server that has none.
    #[error("this server was started without --committee, and has no committee")]
    None,
    /// Untrusted: a poll that no member has signed, or whose clock is off.
    #[error(
        "the request is not signed by this member of the committee, or its clock is off by more than 300 s"
    )]
    Poll,
    /// Capacity: too few members are here, or they take too long.
    #[error(
        "members {here:?} of the committee are here, and {needed} are needed: ask again when more are back"
    )]
    Members {
        /// Who is here.
        here: Vec<u8>,
        /// 2t − 1.
        needed: usize,
    },
    /// What is in memory could not be stored.
    #[error(
        "a change of the committee could not be stored: make room on the disk and start the server again"
    )]
    Ahead,
    /// Untrusted: a message that cannot be read.
    #[error("the body is no message of a committee: {0}")]
    Message(shares::Error),
    /// What the switchboard refuses.
    #[error(transparent)]
    Board(switchboard::Error),
}

impl CommitteeError {
    /// The type of the problem document.
    pub(crate) fn problem(&self) -> ProblemType {
        use switchboard::Error as Board;
        match self {
            CommitteeError::Manifest(_) | CommitteeError::OtherCommittee | CommitteeError::NotNext => {
                ProblemType::Internal
            }
            CommitteeError::Moved { .. } => ProblemType::CommitteeMoved,
            CommitteeError::None => ProblemType::NoKeys,
            CommitteeError::Poll => ProblemType::Unauthorized,
            CommitteeError::Members { .. } => ProblemType::NotEvaluated,
            CommitteeError::Ahead => ProblemType::NotStored,
            CommitteeError::Message(_) => ProblemType::Malformed,
            CommitteeError::Board(error) => match error {
                Board::Bandit => ProblemType::UnknownBandit,
                Board::Request(_) => ProblemType::Malformed,
                Board::Session => ProblemType::UnknownSession,
                Board::Definition(_) => ProblemType::BadConfiguration,
                Board::Decision | Board::OtherSession => ProblemType::UnknownDecision,
                Board::Full { .. } => ProblemType::Overloaded,
                Board::Refused(_) => ProblemType::BadValue,
                Board::Ended | Board::Leaves => ProblemType::NotEvaluated,
                _ => ProblemType::Internal,
            },
        }
    }
}

impl From<switchboard::Error> for crate::Error {
    fn from(error: switchboard::Error) -> Self {
        CommitteeError::Board(error).into()
    }
}

impl From<shares::Error> for crate::Error {
    fn from(error: shares::Error) -> Self {
        CommitteeError::Message(error).into()
    }
}
