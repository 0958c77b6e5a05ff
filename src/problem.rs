//! Error → problem document (RFC 9457). Nothing else here knows a status code of failure.

use crate::access::About;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::path::{Path, PathBuf};
use wire::{PROBLEM_JSON, Problem};

/// Why the server did not start, or did not do what a request asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: no bandit has that id.
    #[error("unknown bandit {id}: GET /v1/bandits lists those there are")]
    UnknownBandit {
        /// What was asked for.
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
        "no token came that admits to this: {} needs `Authorization: Bearer TOKEN` with {}",
        .about.what(), .about.whose()
    )]
    Unauthorized {
        /// What the request was about.
        about: About,
    },
    /// Misuse: no such path.
    #[error("nothing is served at {path}")]
    UnknownPath {
        /// What was asked for.
        path: String,
    },
    /// Misuse: the path is served, but not with this method.
    #[error("this path is not served with that method")]
    WrongMethod,
    /// Untrusted: a body above its limit; it was not read.
    #[error("the body is longer than {limit} bytes, the most that this request can need")]
    BodyTooLarge {
        /// Bytes allowed.
        limit: usize,
    },
    /// Untrusted: a body that did not arrive.
    #[error("the body did not arrive: {why}")]
    BodyLost {
        /// What happened.
        why: String,
    },
    /// Untrusted: a body of another type than the request takes.
    #[error("the body must be of type {want}: say so in the header `Content-Type`")]
    MediaType {
        /// The type that it must be.
        want: &'static str,
    },
    /// Untrusted: a request for another server, which a browser sends here if that name points here.
    #[error(
        "this server is not `{host}`: ask for it by a loopback address or localhost, or start it with --host and its name"
    )]
    WrongHost {
        /// What the request named.
        host: String,
    },
    /// Untrusted: a request that a page of another origin started.
    #[error(
        "requests that a page of `{origin}` starts are refused: start the server with --host and its name if it is yours"
    )]
    ForeignOrigin {
        /// Where the page is from.
        origin: String,
    },
    /// Untrusted: a configuration that cannot be read.
    #[error("the body is not a bandit's configuration: {why}")]
    BadConfig {
        /// Where and what.
        why: String,
    },
    /// Untrusted: a message in JSON that cannot be read.
    #[error("the body is not {what}: {why}")]
    BadJson {
        /// The message.
        what: &'static str,
        /// Where and what.
        why: String,
    },
    /// Untrusted: a parameter or value of a policy in the clear that is missing or out of range.
    #[error("{why}")]
    BadParameter {
        /// Which, and what it must be.
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
        "{limit} decisions wait for feedback, as many as are remembered, and none gives way yet: return feedback, or ask again \
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
        "{what} has been answered otherwise: the first answer counts, and the same one may be sent again"
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
    /// From a policy in the clear.
    #[error(transparent)]
    Policy(#[from] bandit::Error),
    /// From a generalised linear policy.
    #[error(transparent)]
    Glm(#[from] glm::Error),
    /// From noise and accounting.
    #[error(transparent)]
    Privacy(#[from] privacy::Error),
    /// Untrusted: a message or bundle refused.
    #[error(transparent)]
    Wire(#[from] wire::Error),
    /// From the bandit: a ciphertext or configuration refused, or a decision unknown.
    #[error(transparent)]
    Helba(#[from] helba::Error),
    /// Capacity: too much is under way.
    #[error("the server is busy with as many requests as it takes at a time; try again in a second")]
    Overloaded,
    /// Capacity: the noise of another bandit is sized.
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
    /// The disk or its rights.
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
    /// The state database.
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
        got: String,
        /// Here.
        want: String,
    },
    /// A stored ciphertext was damaged.
    #[error(
        "bandit {bandit}: its stored ciphertext `{name}` ({}) is damaged: {why}; bring the state folder back from a backup and \
         start once with --restored, which keeps private bandits in it from releasing anything twice",
        path.display()
    )]
    CorruptBlob {
        /// Whose.
        bandit: String,
        /// Which.
        name: String,
        /// Where.
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
        /// Whose.
        bandit: String,
        /// The state folder.
        folder: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The operating system gives no randomness.
    #[error("the operating system gives no random numbers: {why}")]
    NoRandomness {
        /// Why.
        why: String,
    },
    /// Bug: cannot happen. If you read this the server is wrong; please report it.
    #[error("broken invariant: {0}; please report this")]
    Broken(&'static str),
}

impl Error {
    pub(crate) fn disk(path: &Path, source: std::io::Error) -> Self {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let path = path.to_owned();
        match source.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => Error::DiskFull { path },
            _ => Error::Disk { path, source },
        }
    }

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

    fn status(&self) -> StatusCode {
        use helba::Error as H;
        use protocol::Error as P;
        use wire::Error as W;
        match self {
            Error::UnknownBandit { .. } | Error::UnknownPath { .. } => StatusCode::NOT_FOUND,
            Error::Helba(H::Protocol(P::UnknownDecision { .. })) => StatusCode::NOT_FOUND,
            Error::Unauthorized { .. } => StatusCode::UNAUTHORIZED,
            Error::WrongMethod => StatusCode::METHOD_NOT_ALLOWED,
            Error::MediaType { .. } => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Error::WrongHost { .. } => StatusCode::MISDIRECTED_REQUEST,
            Error::ForeignOrigin { .. } => StatusCode::FORBIDDEN,
            Error::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Error::Wire(W::TooLong { .. }) => StatusCode::PAYLOAD_TOO_LARGE,
            Error::Wire(W::Truncated { .. } | W::Trailing { .. } | W::Malformed(_) | W::Version { .. }) => {
                StatusCode::BAD_REQUEST
            }
            Error::BodyLost { .. } | Error::BadConfig { .. } | Error::BadJson { .. } => {
                StatusCode::BAD_REQUEST
            }
            Error::NoKeys
            | Error::Settled { .. }
            | Error::OutOfTurn { .. }
            | Error::TurnTaken { .. }
            | Error::Answered { .. }
            | Error::BatchOver { .. }
            | Error::TakesBatches { .. }
            | Error::TakesFeedback { .. } => StatusCode::CONFLICT,
            Error::TooManyOpen { .. } => StatusCode::TOO_MANY_REQUESTS,
            Error::BadParameter { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Error::Policy(e) => of_policy(e),
            Error::Glm(glm::Error::Bandit(e)) => of_policy(e),
            Error::Glm(glm::Error::Privacy(e)) => of_privacy(e),
            Error::Glm(
                glm::Error::Field { .. } | glm::Error::Dimension { .. } | glm::Error::NotFinite { .. },
            ) => StatusCode::UNPROCESSABLE_ENTITY,
            Error::Privacy(e) => of_privacy(e),
            Error::Helba(
                H::Protocol(
                    P::Config(_) | P::Field { .. } | P::Shape { .. } | P::Depth { .. } | P::Slots { .. },
                )
                | H::WrongLevel { .. },
            ) => StatusCode::BAD_REQUEST,
            Error::Helba(H::Ckks(e)) if is_rejection(e) => StatusCode::BAD_REQUEST,
            Error::Overloaded | Error::SizingNoise => StatusCode::SERVICE_UNAVAILABLE,
            Error::TooManyBandits { .. } | Error::DiskFull { .. } => StatusCode::INSUFFICIENT_STORAGE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// A code for programs, stable across versions.
    fn reason(&self) -> &'static str {
        use ckks::Error as C;
        use helba::Error as H;
        use protocol::Error as P;
        use wire::Error as W;
        match self {
            Error::UnknownBandit { .. } => "unknown_bandit",
            Error::UnknownPath { .. } => "unknown_path",
            Error::Unauthorized { .. } => "unauthorized",
            Error::NoKeys => "no_keys",
            Error::Settled { .. } => "settled",
            Error::WrongMethod => "wrong_method",
            Error::MediaType { .. } => "media_type",
            Error::WrongHost { .. } => "wrong_host",
            Error::ForeignOrigin { .. } => "foreign_origin",
            Error::Helba(H::Protocol(P::UnknownDecision { .. })) => "unknown_decision",
            Error::BodyTooLarge { .. } | Error::Wire(W::TooLong { .. }) => "too_large",
            Error::BodyLost { .. } => "body_lost",
            Error::Wire(W::Version { .. }) | Error::Helba(H::Ckks(C::Version { .. })) => "wrong_version",
            Error::Wire(W::Truncated { .. } | W::Trailing { .. } | W::Malformed(_)) => "malformed",
            Error::Helba(H::Ckks(C::WrongParams { .. })) => "wrong_parameters",
            Error::Helba(H::Ckks(C::WrongKey { .. })) => "wrong_key",
            Error::Helba(H::Ckks(C::ResidueTooLarge { .. })) => "residue_too_large",
            Error::Helba(H::WrongLevel { .. } | H::Ckks(C::WrongLevel { .. })) => "wrong_level",
            Error::Helba(H::Ckks(C::BadFrame(_))) => "malformed",
            Error::Overloaded | Error::SizingNoise => "overloaded",
            Error::TooManyBandits { .. } => "too_many_bandits",
            Error::DiskFull { .. } => "disk_full",
            Error::BadJson { .. } => "malformed",
            Error::OutOfTurn { .. } => "out_of_turn",
            Error::TurnTaken { .. } => "turn_taken",
            Error::TooManyOpen { .. } => "too_many_open",
            Error::Answered { .. } => "answered",
            Error::BatchOver { .. } => "batch_over",
            Error::TakesBatches { .. } => "takes_batches",
            Error::TakesFeedback { .. } => "takes_feedback",
            _ if self.status() == StatusCode::UNPROCESSABLE_ENTITY => "bad_value",
            _ if self.status() == StatusCode::CONFLICT => "over",
            _ if self.status() == StatusCode::BAD_REQUEST => "bad_configuration",
            _ => "internal",
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let status = self.status();
        if status.is_server_error() {
            tracing::error!(error = %printable(&self.to_string()), "{status}");
        } else {
            tracing::info!(error = %printable(&self.to_string()), "{status}");
        }
        let wait = match self {
            Error::TurnTaken { wait } | Error::TooManyOpen { wait, .. } => Some(wait),
            _ => (status == StatusCode::SERVICE_UNAVAILABLE).then_some(1),
        };
        let detail = match status {
            // What is wrong inside stays in the log: it names paths.
            StatusCode::INTERNAL_SERVER_ERROR => {
                "the server failed; nothing was changed, its log says why".into()
            }
            StatusCode::INSUFFICIENT_STORAGE if matches!(self, Error::DiskFull { .. }) => {
                "no room is left on the server's disk; nothing was changed, try again when there is".into()
            }
            _ => self.to_string(),
        };
        let title = status.canonical_reason().unwrap_or("Error");
        let problem = Problem::new(status.as_u16(), title, detail).with_reason(self.reason());
        let mut response = (status, Json(problem)).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = wait {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// `text` as one line for the log, without control characters. Text from outside may hold line ends, escape
/// sequences and marks that change the direction of writing: all of these, and backslashes, are written as
/// escapes.
pub fn printable(text: &str) -> String {
    let escaped = |c: char| match c {
        '"' | '\'' => c.to_string(),
        c => c.escape_debug().to_string(),
    };
    text.chars().map(escaped).collect()
}

impl From<PathRejection> for Error {
    fn from(rejection: PathRejection) -> Self {
        Error::UnknownPath { path: rejection.body_text() }
    }
}

impl From<protocol::Error> for Error {
    fn from(error: protocol::Error) -> Self {
        Error::Helba(error.into())
    }
}

impl From<ckks::Error> for Error {
    fn from(error: ckks::Error) -> Self {
        Error::Helba(error.into())
    }
}

/// What a policy refuses: values, or to go on.
fn of_policy(error: &bandit::Error) -> StatusCode {
    use bandit::Error as B;
    match error {
        B::HorizonOver { .. } | B::OutOfTurn { .. } => StatusCode::CONFLICT,
        B::Field { .. }
        | B::SwitchingRule { .. }
        | B::Shape { .. }
        | B::Rows { .. }
        | B::FeatureNotFinite { .. }
        | B::FeatureTooLong { .. }
        | B::Arm { .. }
        | B::RewardNotFinite
        | B::Reward { .. }
        | B::RewardOfArm { .. }
        | B::Rewards { .. }
        | B::Shares { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        B::Privacy(e) => of_privacy(e),
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// What noise and accounting refuse: parameters that no noise can serve, or to spend more.
fn of_privacy(error: &privacy::Error) -> StatusCode {
    use privacy::Error as P;
    match error {
        P::Field { .. } | P::Overflow { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        P::BudgetSpent { .. } => StatusCode::CONFLICT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Bytes from outside that are not a ciphertext under these parameters and this key.
fn is_rejection(error: &ckks::Error) -> bool {
    use ckks::Error as C;
    matches!(
        error,
        C::BadFrame(_)
            | C::Version { .. }
            | C::WrongParams { .. }
            | C::WrongKey { .. }
            | C::ResidueTooLarge { .. }
            | C::WrongLevel { .. }
    )
}
