/// Why a switchboard refuses something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was stored cannot be read.
    #[error("what was stored of the committee cannot be read: restore the state folder from a backup")]
    Stored,
    /// Untrusted: bytes that are no request, feedback or session of this committee.
    #[error("the message is refused: {0}")]
    Request(#[from] shares::Error),
    /// Untrusted: a bandit that does not exist.
    #[error("the committee has no bandit with this id")]
    Bandit,
    /// Untrusted: a session that is not known, or that too many members cannot read: begin another.
    #[error("the session is not known: begin it again; or too many members refuse it: begin another one")]
    Session,
    /// Untrusted: a bandit that a committee does not compute.
    #[error("a committee does not compute this bandit: {0}")]
    Definition(String),
    /// Untrusted: a decision that is not known, or which has another feedback, or none to erase.
    #[error(
        "the decision is not known, or has another feedback already, or has none that can be erased; a committee that has moved has no decisions of before"
    )]
    Decision,
    /// Misuse: a decision that another session has asked for.
    #[error(
        "the decision was made for another session: return or erase its reward with the session that asked for it (--session of helba-client)"
    )]
    OtherSession,
    /// As many as there is room for.
    #[error("there are {most} {what} already, and no more are taken: wait, and ask again")]
    Full {
        /// What.
        what: &'static str,
        /// How many.
        most: usize,
    },
    /// Members refuse the request: too few of them accept it.
    #[error("members refuse the request: {0}")]
    Refused(String),
    /// 2t − 1 members leave for another committee.
    #[error("the committee moves to another one: ask again when it has moved")]
    Leaves,
    /// Runs with the request have ended early too often.
    #[error("members could not compute the decision together: ask again")]
    Ended,
}
