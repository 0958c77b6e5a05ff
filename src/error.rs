//! Why the server refuses, fails or does not start. `http::problem` turns an error into an answer.

use helba::Part;
use service::Rejection;
use std::path::{Path, PathBuf};
use wire::ProblemType;

/// Why the server did not start, or did not do what a request asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: no bandit has that id.
    #[error("unknown bandit {id}: GET /v1/bandits lists those there are")]
    UnknownBandit {
        /// The id that was asked for.
        id: String,
    },
    /// Misuse: an encrypted bandit where there are no keys.
    #[error(
        "this server was started without --keys and serves policies in the clear alone: name one as `policy`, GET /v1/policies \
         lists them, or start it with the public key bundle"
    )]
    NoKeys,
    /// Misuse: no token, or one that does not permit this.
    #[error(
        "this request has no token that permits it: {} needs `Authorization: Bearer TOKEN` with {}",
        .about.what(), .about.whose()
    )]
    Unauthorized {
        /// What the request was about.
        about: Kind,
    },
    /// Misuse: no such path.
    #[error("nothing is served at {path}")]
    UnknownPath {
        /// The path that was asked for.
        path: String,
    },
    /// Misuse: the path is served, but not with this method.
    #[error("this path is not served with that method")]
    WrongMethod,
    /// Untrusted: a request refused before its route.
    #[error(transparent)]
    Request(#[from] Rejection),
    /// Untrusted: a configuration that cannot be read.
    #[error("the body is not a bandit's configuration: {why}")]
    BadConfig {
        /// The field, and what is wrong with it.
        why: String,
    },
    /// Untrusted: a message in JSON that cannot be read.
    #[error("the body is not {what}: {why}")]
    BadJson {
        /// The message.
        what: &'static str,
        /// The field, and what is wrong with it.
        why: String,
    },
    /// Untrusted: a parameter or value of a policy in the clear that is missing or out of range.
    #[error("{why}")]
    BadParameter {
        /// The parameter, and the values allowed.
        why: String,
    },
    /// Misuse: feedback on a decision that a later one has replaced.
    #[error(
        "decision {id} was replaced by a later one: this policy learns in turn, ask for a decision and answer it before the next"
    )]
    OutOfTurn {
        /// The decision.
        id: String,
    },
    /// Misuse: a decision where the one before still waits for its answer.
    #[error(
        "a decision for somebody else waits for its feedback, and this policy learns in turn: ask again when it is answered, or \
         after {wait} s"
    )]
    TurnTaken {
        /// Seconds until it may be replaced.
        wait: u64,
    },
    /// Capacity: decisions without feedback.
    #[error(
        "{limit} decisions wait for feedback, as many as are remembered, and none may be replaced yet: return feedback, or ask again \
         after {wait} s"
    )]
    TooManyOpen {
        /// Decisions remembered.
        limit: usize,
        /// Seconds until the oldest may be replaced.
        wait: u64,
    },
    /// Misuse: a second answer that is not the first.
    #[error(
        "{what} has another answer already: the first answer counts, and only that one may be sent again"
    )]
    Answered {
        /// Decision or exchange.
        what: String,
    },
    /// Misuse: an exchange that is not under way.
    #[error("exchange {exchange} is not the one under way: GET the bandit, its `awaited` says which is")]
    BatchOver {
        /// The exchange named.
        exchange: u64,
    },
    /// Misuse: feedback after the last batch.
    #[error("decision {id} asks for no feedback: one arm is left, its `awaited` was null")]
    Settled {
        /// The decision.
        id: String,
    },
    /// Misuse: feedback where users answer an intermediary.
    #[error(
        "users of bandit {id} answer the intermediary, not the server, which takes batches at /v1/bandits/{id}/shuffled"
    )]
    TakesBatches {
        /// The bandit.
        id: String,
    },
    /// Misuse: a batch where users answer the server.
    #[error("bandit {id} learns from feedback on its decisions, not from batches")]
    TakesFeedback {
        /// The bandit.
        id: String,
    },
    /// From a clear policy: a parameter, contexts or feedback refused, or the run is over.
    #[error(transparent)]
    Policy(#[from] policies::Error),
    /// Untrusted: a message or bundle refused.
    #[error(transparent)]
    Wire(#[from] wire::Error),
    /// From the bandit: a ciphertext or configuration refused, or a decision unknown.
    #[error(transparent)]
    Helba(#[from] helba::Error),
    /// Capacity: as many requests are computed as may be.
    #[error("the server is busy with as many requests as it takes at a time; try again in a second")]
    Overloaded,
    /// Capacity: the noise of another bandit is being sized.
    #[error(
        "the server is sizing the noise of another bandit, which may take seconds; try again when that one is made"
    )]
    SizingNoise,
    /// Capacity: no more bandits are kept.
    #[error(
        "the server keeps at most {limit} bandits, and of policies in the clear at most half of them where it has keys and no \
         operator's token; there is no room for this one: delete one, or start it with a larger --max-bandits"
    )]
    TooManyBandits {
        /// Bandits allowed.
        limit: usize,
    },
    /// Capacity: no room for the state.
    #[error("no room is left on the disk at {}: nothing was changed; free some, then try again", path.display())]
    DiskFull {
        /// What could not be written.
        path: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}; check that the folder is there and that this user may write to it", path.display())]
    Disk {
        /// What could not be read or written.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Misuse: others may read the state folder, and the server may not or cannot change its mode.
    #[error(
        "{} has mode {mode:o}: others may read the state in it; make it its owner's alone with `chmod 700`, or give a --state \
         folder of its own", folder.display()
    )]
    FolderIsShared {
        /// The folder.
        folder: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The database failed.
    #[error("the state in {} cannot be used: {source}", folder.display())]
    Database {
        /// The state folder.
        folder: PathBuf,
        /// Why.
        source: Box<redb::Error>,
    },
    /// Misuse: the folder is another server's.
    #[error("{} is in use by another server; stop that one, or give this one a folder of its own", folder.display())]
    StateInUse {
        /// The state folder.
        folder: PathBuf,
    },
    /// Misuse: the folder was written with other keys.
    #[error(
        "{} belongs to another {what} ({got}) than the bundle's ({want}); start with the bundle it was made with, or give \
         a new --state folder", folder.display()
    )]
    OtherKeys {
        /// The state folder.
        folder: PathBuf,
        /// Key or parameters.
        what: &'static str,
        /// In the folder.
        got: String,
        /// In the bundle.
        want: String,
    },
    /// Misuse: the folder was written by another version.
    #[error(
        "{} has format {got}, this program reads {want}: give a new --state folder, or start the version that wrote this one",
        folder.display()
    )]
    StateFormat {
        /// The state folder.
        folder: PathBuf,
        /// In the folder.
        got: u16,
        /// Here.
        want: u16,
    },
    /// A stored ciphertext was damaged.
    #[error(
        "bandit {bandit}: its stored ciphertext `{part}` ({}) is damaged: {why}; bring the state folder back from a backup and \
         start once with --restored, which keeps private bandits in it from releasing anything twice",
        path.display()
    )]
    CorruptBlob {
        /// The bandit.
        bandit: String,
        /// Which of its ciphertexts.
        part: Part,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A stored state was damaged, or is of another version.
    #[error(
        "bandit {bandit}: its state in {} cannot be read: {why}; bring the folder back from a backup and start once with \
         --restored, which keeps private bandits in it from releasing anything twice", folder.display()
    )]
    CorruptState {
        /// The bandit.
        bandit: String,
        /// The state folder.
        folder: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// From the operating system.
    #[error(transparent)]
    Randomness(#[from] host::NoRandomness),
    /// Bug: cannot happen. If you read this the server is wrong; please report it.
    #[error("broken invariant: {0}; please report this")]
    Broken(&'static str),
}

/// The two kinds of bandits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// HELBA, on ciphertexts.
    Encrypted,
    /// A clear policy.
    Clear,
}

impl Kind {
    fn what(self) -> &'static str {
        match self {
            Kind::Encrypted => "an encrypted bandit",
            Kind::Clear => "a policy in the clear",
        }
    }

    fn whose(self) -> &'static str {
        match self {
            Kind::Encrypted => {
                "the token of the secret bundle made with this server's keys (`helba-client --secret FILE`)"
            }
            Kind::Clear => {
                "the operator's token (`helba-client --token-file FILE`, `secure-sum --server-token-file FILE`)"
            }
        }
    }
}

impl From<protocol::Error> for Error {
    fn from(error: protocol::Error) -> Self {
        Error::Helba(error.into())
    }
}

impl From<bandit::Error> for Error {
    fn from(error: bandit::Error) -> Self {
        Error::Policy(error.into())
    }
}

impl From<privacy::Error> for Error {
    fn from(error: privacy::Error) -> Self {
        Error::Policy(error.into())
    }
}

impl From<ckks::Error> for Error {
    fn from(error: ckks::Error) -> Self {
        Error::Helba(error.into())
    }
}

impl Error {
    /// The type of problem that a client is told of.
    pub(crate) fn problem(&self) -> ProblemType {
        use ProblemType as P;
        match self {
            Error::UnknownBandit { .. } => P::UnknownBandit,
            Error::NoKeys => P::NoKeys,
            Error::Unauthorized { .. } => P::Unauthorized,
            Error::UnknownPath { .. } => P::UnknownPath,
            Error::WrongMethod => P::WrongMethod,
            Error::Request(Rejection::BodyTooLarge { .. }) => P::TooLarge,
            Error::Request(Rejection::BodyLost { .. }) => P::BodyLost,
            Error::Request(Rejection::MediaType { .. }) => P::MediaType,
            Error::Request(Rejection::Overloaded) | Error::Overloaded | Error::SizingNoise => P::Overloaded,
            Error::Request(Rejection::WrongHost { .. }) => P::WrongHost,
            Error::Request(Rejection::ForeignOrigin { .. }) => P::ForeignOrigin,
            Error::BadConfig { .. } => P::BadConfiguration,
            Error::BadJson { .. } => P::Malformed,
            Error::BadParameter { .. } => P::BadValue,
            Error::OutOfTurn { .. } => P::OutOfTurn,
            Error::TurnTaken { .. } => P::TurnTaken,
            Error::TooManyOpen { .. } => P::TooManyOpen,
            Error::Answered { .. } => P::Answered,
            Error::BatchOver { .. } => P::BatchOver,
            Error::Settled { .. } => P::Settled,
            Error::TakesBatches { .. } => P::TakesBatches,
            Error::TakesFeedback { .. } => P::TakesFeedback,
            Error::Policy(error) => error.fault().into(),
            Error::Wire(error) => error.fault().into(),
            Error::Helba(error) => error.fault().into(),
            Error::TooManyBandits { .. } => P::TooManyBandits,
            Error::DiskFull { .. } => P::DiskFull,
            Error::Disk { .. }
            | Error::FolderIsShared { .. }
            | Error::Database { .. }
            | Error::StateInUse { .. }
            | Error::OtherKeys { .. }
            | Error::StateFormat { .. }
            | Error::CorruptBlob { .. }
            | Error::CorruptState { .. }
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

    /// A failed transaction of the database in `folder`.
    pub(crate) fn database(folder: &Path, source: redb::Error) -> Self {
        let folder = folder.to_owned();
        match source {
            redb::Error::DatabaseAlreadyOpen => Error::StateInUse { folder },
            redb::Error::Io(source) if source.kind() != std::io::ErrorKind::InvalidData => {
                Error::disk(&folder.join("state.redb"), source)
            }
            source => Error::Database { folder, source: Box::new(source) },
        }
    }
}
