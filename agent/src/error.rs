use service::Rejection;
use std::path::{Path, PathBuf};
use wire::ProblemType;

/// The reason why the agent did not start, or refused a request. No message contains a feature or a reward.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: a request without the local token.
    #[error(
        "the token is missing or is not that of this agent: send `Authorization: Bearer TOKEN` with the token in its --token-file"
    )]
    Unauthorized,
    /// Misuse: a path that the agent does not have.
    #[error("nothing is served at {path}")]
    UnknownPath {
        /// The path of the request.
        path: String,
    },
    /// Misuse: a path that is not served with this method.
    #[error("this path is not served with this method")]
    WrongMethod,
    /// Untrusted: a request that was refused before its route.
    #[error(transparent)]
    Request(#[from] Rejection),
    /// Untrusted: a JSON message that cannot be read.
    #[error("the body is not {what}: {}", fault::in_words(why))]
    BadJson {
        /// The kind of message.
        what: &'static str,
        /// The field, and its fault.
        why: String,
    },
    /// Untrusted: a configuration that cannot be read.
    #[error("the body is not the configuration of an encrypted bandit: {}", fault::in_words(why))]
    BadConfig {
        /// The field, and its fault.
        why: String,
    },
    /// Misuse: a field that encrypted bandits need, or one that they do not have.
    #[error("{0}")]
    BadField(&'static str),
    /// Untrusted: a schema, or a value that it does not take.
    #[error(transparent)]
    Features(#[from] schema::Error),
    /// Untrusted: a reward outside `reward_range` of the bandit's schema.
    #[error(
        "reward_value: it is outside reward_range = [{}, {}] of the bandit's schema: send a value between them, the values of reward 0 \
         and of reward 1", range[0], range[1]
    )]
    RewardValue {
        /// The range.
        range: [f64; 2],
    },
    /// Misuse: a logged round that the bandit does not take.
    #[error("logged round {round}: {error}")]
    InRound {
        /// The round, from 1.
        round: usize,
        /// What is wrong with it.
        error: Box<Error>,
    },
    /// Misuse: a bandit with a clear policy, whose messages need no agent.
    #[error("{what} has a clear policy: send its requests to helba-server")]
    NotEncrypted {
        /// The bandit or the configuration.
        what: String,
    },
    /// Misuse: a bandit of others than those whose credentials the agent has.
    #[error("bandit {id} is {by}")]
    OfOthers {
        /// The bandit.
        id: String,
        /// Whose it is.
        by: Holder,
    },
    /// Misuse: what a bandit of a committee does not have.
    #[error("{what}: a bandit of a committee has none, since {why}: leave it out")]
    NotOfCommittee {
        /// The field or the route.
        what: &'static str,
        /// Why.
        why: &'static str,
    },
    /// Misuse: feedback on a decision that the agent does not keep.
    #[error(
        "decision {id} waits for no feedback: it is of another bandit, was never made, or was forgotten, as the oldest are"
    )]
    UnknownDecision {
        /// The decision.
        id: String,
    },
    /// Misuse: a second reward that differs from the first.
    #[error("decision {id} has another reward already: the first one counts, and only it may be sent again")]
    Answered {
        /// The decision.
        id: String,
    },
    /// Capacity: too many requests wait.
    #[error("{most} requests wait for this bandit, which is the limit; try again in a second")]
    Overloaded {
        /// The most requests that wait.
        most: usize,
    },
    /// Capacity: too many bandits.
    #[error("the agent uses {most} bandits, which is the limit: delete one, or start another agent")]
    TooManyBandits {
        /// The most bandits.
        most: usize,
    },
    /// Capacity: the agent stops.
    #[error("the agent stops; ask again when it has started")]
    Stopping,
    /// From the server, or from the device that speaks to it.
    #[error(transparent)]
    Client(#[from] user_client::Error),
    /// A file cannot be read or written.
    #[error("{}: {source}; check that the folder exists and that this user may write to it", path.display())]
    Disk {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Capacity: the disk is full.
    #[error("the disk is full at {}, and the decision is not kept: free some space, then ask again", path.display())]
    DiskFull {
        /// The file that could not be written.
        path: PathBuf,
    },
    /// The database of pending decisions failed. It is opened again for the next request.
    #[error(
        "the pending decisions in {} cannot be used: {source}; ask again, and look at the disk. If the file is damaged, restore it \
         from a backup, or start with another --state folder: feedback on decisions that are lost is refused", path.display()
    )]
    Database {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Box<redb::Error>,
    },
    /// Misuse: another agent uses the folder.
    #[error("{} is in use by another agent: stop that agent, or give this one another --state folder", path.display())]
    StateInUse {
        /// The file.
        path: PathBuf,
    },
    /// Untrusted: a stored decision that this key does not open.
    #[error(
        "a pending decision in {} was sealed under another secret bundle or session, or by another version of the agent, or was changed: start with \
         the bundle or session of this folder, or give another --state folder", path.display()
    )]
    Unsealable {
        /// The file.
        path: PathBuf,
    },
    /// From the token file.
    #[error(transparent)]
    Token(#[from] wire::Error),
    /// From the operating system.
    #[error(transparent)]
    Randomness(#[from] host::NoRandomness),
    /// Bug: cannot happen. If you read this the agent is wrong; please report it.
    #[error("broken invariant: {0}; please report this")]
    Broken(&'static str),
}

/// Who holds what a bandit's users need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Holder {
    /// Holders of a secret bundle.
    #[error(
        "encrypted under keys, and this agent has a committee's session: send it to an agent with --secret"
    )]
    Keys,
    /// A committee.
    #[error(
        "computed by a committee, and this agent has a secret bundle or another committee's session: send it to an agent with \
         --committee"
    )]
    Committee,
}

impl From<protocol::Error> for Error {
    fn from(error: protocol::Error) -> Self {
        Error::Client(error.into())
    }
}

impl Error {
    /// The type of the problem document. A refusal of the server has the server's own document, but for one
    /// of the agent's token, which is no fault of the application.
    pub(crate) fn problem(&self) -> ProblemType {
        use ProblemType as P;
        use user_client::Error as Client;
        match self {
            Error::InRound { error, .. } => error.problem(),
            Error::Unauthorized => P::Unauthorized,
            Error::UnknownPath { .. } => P::UnknownPath,
            Error::WrongMethod => P::WrongMethod,
            Error::Request(Rejection::BodyTooLarge { .. }) => P::TooLarge,
            Error::Request(Rejection::BodyLost { .. }) => P::BodyLost,
            Error::Request(Rejection::MediaType { .. }) => P::MediaType,
            Error::Request(Rejection::Overloaded) | Error::Overloaded { .. } | Error::Stopping => {
                P::Overloaded
            }
            Error::Request(Rejection::BadHead { .. }) => P::BadHead,
            Error::Request(Rejection::WrongHost { .. }) => P::WrongHost,
            Error::Request(Rejection::ForeignOrigin { .. }) => P::ForeignOrigin,
            Error::BadJson { .. } => P::Malformed,
            Error::BadConfig { .. } => P::BadConfiguration,
            Error::BadField(_) | Error::RewardValue { .. } => P::BadValue,
            Error::Features(error) => error.fault().into(),
            Error::NotEncrypted { .. } => P::NotEncrypted,
            Error::OfOthers { .. } => P::NoKeys,
            Error::NotOfCommittee { .. } => P::BadValue,
            Error::UnknownDecision { .. } => P::UnknownDecision,
            Error::Answered { .. } => P::Answered,
            Error::TooManyBandits { .. } => P::TooManyBandits,
            Error::Client(Client::Protocol(error)) => error.fault().into(),
            Error::Client(Client::RewardRange { .. }) => P::BadValue,
            Error::Client(Client::BadId) => P::UnknownBandit,
            Error::Client(Client::Unreachable { .. } | Client::Refused(_)) => P::ForwardingFailed,
            Error::Client(
                Client::WrongKeys { .. } | Client::OtherCommittee { .. } | Client::NoCommittee { .. },
            ) => P::NoKeys,
            Error::Client(
                Client::BadAnswer(_)
                | Client::PlanMismatch
                | Client::BadTask(_)
                | Client::Wire(_)
                | Client::Ckks(_),
            ) => P::BadAnswer,
            Error::DiskFull { .. } => P::DiskFull,
            Error::Disk { .. } | Error::Database { .. } => P::NotStored,
            Error::Client(_)
            | Error::StateInUse { .. }
            | Error::Unsealable { .. }
            | Error::Token(_)
            | Error::Randomness(_)
            | Error::Broken(_) => P::Internal,
        }
    }

    /// A failed read or write of `path`.
    pub(crate) fn disk(path: &Path, source: std::io::Error) -> Self {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let path = path.to_owned();
        match source.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => Error::DiskFull { path },
            _ => Error::Disk { path, source },
        }
    }

    /// A failed transaction of the database `path`.
    pub(crate) fn database(path: &Path, source: redb::Error) -> Self {
        use std::io::ErrorKind::{InvalidData, UnexpectedEof};
        match source {
            redb::Error::DatabaseAlreadyOpen => Error::StateInUse { path: path.to_owned() },
            // A file that was cut is damaged too.
            redb::Error::Io(source) if !matches!(source.kind(), InvalidData | UnexpectedEof) => {
                Error::disk(path, source)
            }
            source => Error::Database { path: path.to_owned(), source: Box::new(source) },
        }
    }
}
