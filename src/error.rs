//! The errors of the server. `http::problem` turns an error into an answer.

use crate::access::{Forbidden, Needs, TokenFault};
use service::Rejection;
use std::path::{Path, PathBuf};
use wire::ProblemType;

/// The reason why the server did not start, or refused a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What a committee refuses.
    #[error(transparent)]
    Committee(#[from] crate::committee::CommitteeError),
    /// Misuse: no bandit has this id.
    #[error("no bandit has the id {id}; GET /v1/bandits lists the bandits")]
    UnknownBandit {
        /// The id of the request.
        id: String,
    },
    /// Misuse: a request for an encrypted bandit to a server without keys.
    #[error(
        "this server was started without --keys, and serves policies in the clear only: give `policy`, as GET /v1/policies \
         lists them, or start the server with the public key bundle"
    )]
    NoKeys,
    /// Misuse: another bandit than one of the paper's method on its keys.
    #[error(
        "this server has keys of `method: paper`, on which no other encrypted bandit runs: give `\"method\": \"paper\"`, or start \
         the server with a bundle that `helba-keygen create` writes without --method"
    )]
    KeysOfPaper,
    /// Misuse: a bandit of the paper's method without its keys.
    #[error(
        "`method: paper` takes keys of its own: start the server with the public bundle of \
         `helba-keygen create --method paper --features 2 --arms 2`"
    )]
    NoPaperKeys,
    /// Misuse: a request to a bandit of the paper's method for what only others have.
    #[error(
        "bandit {id} is of `method: paper`: the device that decides answers its tasks, and it has no counters, repeats, erasures and \
         logged rounds"
    )]
    OfPaper {
        /// The bandit.
        id: String,
    },
    /// Misuse: a request without a token that the server knows.
    #[error("{}", .fault.sentence())]
    Unauthorized {
        /// What is wrong with its token.
        fault: TokenFault,
    },
    /// Misuse: a request with a token that is not for it.
    #[error("the token does not permit this request, which needs {needs}: {}", .why.sentence())]
    ForbiddenScope {
        /// The scope that the request needs.
        needs: Needs,
        /// Why the token does not permit it.
        why: Forbidden,
    },
    /// The file of API tokens cannot be used, or not for this change.
    #[error("{}: {why}", path.display())]
    Tokens {
        /// The file.
        path: PathBuf,
        /// The fault, and the remedy.
        why: String,
    },
    /// Misuse: a path that the server does not have.
    #[error("nothing is served at {path}: all paths begin with /v1, and GET /v1/docs lists them")]
    UnknownPath {
        /// The path of the request.
        path: String,
    },
    /// Misuse: a path that is not served with this method.
    #[error("this path is not served with this method: GET /v1/docs lists the methods of each path")]
    WrongMethod,
    /// Untrusted: a request that was refused before its route.
    #[error(transparent)]
    Request(#[from] Rejection),
    /// Untrusted: a configuration that cannot be read.
    #[error("the body is not the configuration of a bandit: {}", fault::in_words(why))]
    BadConfig {
        /// The field, and its fault.
        why: String,
    },
    /// Untrusted: a JSON message that cannot be read.
    #[error("the body is not {what}: {}", fault::in_words(why))]
    BadJson {
        /// The kind of message.
        what: &'static str,
        /// The field, and its fault.
        why: String,
    },
    /// Untrusted: a parameter or value of a clear policy that is missing or out of range.
    #[error("{why}")]
    BadParameter {
        /// The parameter, and the allowed values.
        why: String,
    },
    /// Misuse: labels that were changed since the caller read them.
    #[error(
        "the name or the tags are not those of `If-Match`: read the bandit again, and send the change again if it still applies"
    )]
    Changed,
    /// Misuse: another creation under the key of an earlier one.
    #[error(
        "this `Idempotency-Key` came before with another body: send the same body to get the same answer, or another key to create \
         another bandit"
    )]
    KeyReused,
    /// Misuse: feedback on a decision that has expired.
    #[error(
        "decision {id} has expired: its feedback did not come within {wait} s, and the decision counts as `GET /v1/policies` \
         says of its policy; create the bandit with a longer `wait` if rewards come later than that"
    )]
    Expired {
        /// The decision.
        id: String,
        /// The wait time, in seconds.
        wait: u64,
    },
    /// Capacity: too many decisions without feedback, or whose feedback waits for older ones.
    #[error(
        "{limit} decisions wait for feedback or for older ones, which is the limit, or as many wait for yours as places are left \
         for others, and none may be replaced before it expires: return feedback, or ask again after {wait} s; {}", remedy(*limit, *expires, *most)
    )]
    TooManyOpen {
        /// The most decisions of each kind.
        limit: usize,
        /// Seconds until the next one expires.
        wait: u64,
        /// Seconds after which each one expires.
        expires: u64,
        /// The most decisions that such a bandit may keep.
        most: usize,
    },
    /// Misuse: a second answer that differs from the first.
    #[error(
        "{what} has an answer already: the first answer counts, and only its sender may send it again, with the same token from the \
         same address"
    )]
    Answered {
        /// The decision or the exchange.
        what: String,
    },
    /// Misuse: an exchange that is not the current one.
    #[error("exchange {exchange} is not the current one, which `awaited` in the state of the bandit names")]
    BatchOver {
        /// The exchange of the request.
        exchange: u64,
    },
    /// Misuse: feedback that was not asked for.
    #[error(
        "decision {id} asks for no feedback: `awaited` of the decision was null, because its batch has all its users, or one \
         arm is left"
    )]
    Settled {
        /// The decision.
        id: String,
    },
    /// Misuse: feedback to the server where users answer an intermediary.
    #[error(
        "users of bandit {id} answer an intermediary, which delivers batches to /v1/bandits/{id}/shuffled"
    )]
    TakesBatches {
        /// The bandit.
        id: String,
    },
    /// Misuse: a batch where users answer the server.
    #[error("bandit {id} learns from feedback on its decisions and not from batches")]
    TakesFeedback {
        /// The bandit.
        id: String,
    },
    /// From a clear policy: a parameter, contexts or feedback was refused, or the run is over.
    #[error(transparent)]
    Policy(#[from] policies::Error),
    /// Untrusted: a message or bundle was refused.
    #[error(transparent)]
    Wire(#[from] wire::Error),
    /// From the bandit: a ciphertext or configuration was refused, or a decision is unknown.
    #[error(transparent)]
    Helba(#[from] helba::Error),
    /// Misuse: raises or repeats of a bandit with a clear policy.
    #[error(
        "bandit {id} has a policy in the clear, whose decisions are neither raised nor repeated: name an encrypted bandit"
    )]
    NotEncrypted {
        /// The bandit.
        id: String,
    },
    /// Misuse: a request for what encrypted bandits of one party's keys alone have.
    #[error("bandit {id} is {of}, and no such bandit is {what}: name an encrypted bandit of a key bundle")]
    NotHeld {
        /// The bandit.
        id: String,
        /// Its kind.
        of: &'static str,
        /// What it was to be: frozen, copied or exported.
        what: &'static str,
    },
    /// Misuse: an answer to a task that does not wait for one.
    #[error(
        "task {task} does not wait for an answer: another raiser was faster, or its evaluation has ended; ask for tasks again"
    )]
    TaskOver {
        /// The task.
        task: u64,
    },
    /// Misuse: a request for counters of a bandit without them.
    #[error(
        "bandit {id} has no counters: create it with `counters` in its configuration, as with `helba-client create --counters`"
    )]
    NoCounters {
        /// The bandit.
        id: String,
    },
    /// Capacity: no holder of the key raised the scores in time.
    #[error("no holder of the key raised the scores in time: start a helba-raiser for this server")]
    NotRaised,
    /// Capacity: the evaluation that a decision was part of ended without an answer.
    #[error("the decision was not evaluated: {why}; ask again")]
    NotEvaluated {
        /// The cause.
        why: String,
    },
    /// Misuse: a wish for another answer to a decision whose feedback was counted.
    #[error(
        "the feedback on decision {id} was counted, so that it is not answered again: ask for a new decision"
    )]
    Returned {
        /// The decision.
        id: String,
    },
    /// Misuse: a wish for another answer where no repeat is possible.
    #[error(
        "the evaluation of this decision is not kept: users may ask again for some seconds, contexts of at most two evaluations \
         are kept, and those of a sender alone are not; ask for a new decision"
    )]
    NotKept,
    /// Misuse: an erasure of a feedback whose frame is not kept.
    #[error(
        "the feedback on decision {id} is not in the log, so that it cannot be subtracted: the server keeps whole logs with \
         `--keep-log`"
    )]
    FeedbackNotKept {
        /// The decision.
        id: String,
    },
    /// Misuse: a second wish for another answer.
    #[error(
        "the user of this decision has asked again for this answer before: wait for the answer to that request"
    )]
    AskedAgain,
    /// Misuse: a wish of somebody else.
    #[error(
        "the contexts of this decision came from another sender, and only their sender may ask again: send the header \
         helba-sender of the request for the decision"
    )]
    OtherSender,
    /// Capacity: so few asked again that an evaluation is not repeated.
    #[error(
        "{asked} of {answered} users of the evaluation asked again in time, which are too few for a repeat: use the arm, or ask \
         for a new decision"
    )]
    TooFewAsked {
        /// Users who asked.
        asked: usize,
        /// Users who have an answer.
        answered: usize,
    },
    /// Misuse: a wish for another answer that no other sender could have spoilt.
    #[error(
        "the answer depends on contexts of this sender alone: they are longer than the bound `linear.l`, or the raise was wrong; \
         send contexts within the bound"
    )]
    Alone,
    /// The log of an encrypted bandit failed or is damaged.
    #[error(
        "the log of an encrypted bandit: {0}; if this stays so after a restart of the server, see docs/DATA_MODEL.md"
    )]
    Log(#[from] hash_log::Error),
    /// Capacity: too many requests are being computed.
    #[error("the server is at its limit of requests; try again in a second")]
    Overloaded,
    /// Capacity: the noise of another bandit is being calibrated.
    #[error(
        "the server is calibrating the noise of another bandit, which may take seconds; try again in a second"
    )]
    SizingNoise,
    /// Capacity: too many bandits.
    #[error(
        "the server keeps at most {limit} bandits, and if it has keys and no operator's or API tokens, at most half of them may have \
         clear policies; delete a bandit, or start the server with a larger --max-bandits"
    )]
    TooManyBandits {
        /// The most bandits.
        limit: usize,
    },
    /// Capacity: the disk is full.
    #[error("the disk is full at {}, and nothing was changed: free some space, then try again", path.display())]
    DiskFull {
        /// The file that could not be written.
        path: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}; check that the folder exists and that this user may write to it", path.display())]
    Disk {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Misuse: other users may read the state folder, and the server cannot change its mode.
    #[error(
        "{} has mode {mode:o}, so that other users may read the state in it: run `chmod 700` on it, or give another --state \
         folder", folder.display()
    )]
    FolderIsShared {
        /// The folder.
        folder: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The database of the state folder failed.
    #[error(
        "the state in {} cannot be used: {source}; if the file is damaged, restore the folder from a backup and start once with \
         --restored, or give another --state folder", folder.display()
    )]
    Database {
        /// The state folder.
        folder: PathBuf,
        /// The cause.
        source: Box<redb::Error>,
    },
    /// Capacity: the sum of feedback is as long as its masks hide, and the batch before it has not ended.
    #[error(
        "as many feedbacks and erasures wait for the end of the batch as are summed under one mask; nothing was counted or erased: \
         try again when a holder of the key has answered"
    )]
    SumIsFull,
    /// Misuse: the database has no bytes, which no database has.
    #[error(
        "{} is empty, as a copy is that ended on a full disk: restore it from a backup and start once with --restored, or delete it \
         to begin anew", path.display()
    )]
    EmptyDatabase {
        /// The file.
        path: PathBuf,
    },
    /// Misuse: encrypted bandits without the database, which has names, tags and all clear bandits.
    #[error(
        "{} is missing beside {bandits} encrypted bandits: restore the whole folder from a backup and start once with --restored; \
         with --restored alone the server goes on with the encrypted bandits, without names, tags and clear bandits; or give another \
         --state folder to begin anew", path.display()
    )]
    NoDatabase {
        /// The file.
        path: PathBuf,
        /// How many encrypted bandits there are.
        bandits: usize,
    },
    /// Misuse: another server uses the state folder.
    #[error("{} is in use by another server: stop that server, or give this one another --state folder", folder.display())]
    StateInUse {
        /// The state folder.
        folder: PathBuf,
    },
    /// Misuse: the state folder was written with other keys.
    #[error(
        "{} was written with another {what} ({got}) than that of the bundle ({want}): start with the bundle of this folder, or \
         give a new --state folder", folder.display()
    )]
    OtherKeys {
        /// The state folder.
        folder: PathBuf,
        /// The key or the parameters.
        what: &'static str,
        /// The value in the folder.
        got: String,
        /// The value in the bundle.
        want: String,
    },
    /// Misuse: the state folder was written by another version.
    #[error(
        "{} has format {got}, this program reads {want}: give a new --state folder, or start the version that wrote it",
        folder.display()
    )]
    StateFormat {
        /// The state folder.
        folder: PathBuf,
        /// The value in the folder.
        got: u16,
        /// The value of this program.
        want: u16,
    },
    /// A stored state is damaged, or was written by another version.
    #[error(
        "the state of bandit {bandit} in {} cannot be read: {why}; restore the folder from a backup, and start once with \
         --restored, so that no private bandit releases a reward twice", folder.display()
    )]
    CorruptState {
        /// The bandit.
        bandit: String,
        /// The state folder.
        folder: PathBuf,
        /// The fault.
        why: String,
    },
    /// The log since the creation of an encrypted bandit and its last snapshot give different states.
    #[error(
        "the log of bandit {bandit} in {} gives another state than its last snapshot and the records after it: one of them \
         was changed; restore the folder from a backup", folder.display()
    )]
    AuditFailed {
        /// The bandit.
        bandit: String,
        /// Its folder.
        folder: PathBuf,
    },
    /// From the operating system.
    #[error(transparent)]
    Randomness(#[from] host::NoRandomness),
    /// Bug: cannot happen. If you read this the server is wrong; please report it.
    #[error("broken invariant: {0}; please report this")]
    Broken(&'static str),
}

/// Which of the terms of a bandit keeps it from having more decisions without feedback.
fn remedy(limit: usize, expires: u64, most: usize) -> String {
    let rate = limit as f64 / expires.max(1) as f64;
    let larger = match limit < most {
        true => format!("a larger `max_open` (at most {most}) or a shorter `wait`"),
        false => format!("a shorter `wait`, since `max_open` is at its most ({most})"),
    };
    format!(
        "each expires after {expires} s, so that the feedback of at most {rate:.2} decisions a second may stay away: if more does, \
         create the bandit with {larger}"
    )
}

/// The kinds of bandits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A bandit on ciphertexts.
    Encrypted,
    /// A bandit of a committee.
    Committee,
    /// A bandit with a clear policy.
    Clear,
}

/// The end of a sentence that asks for a token.
const SEND: &str = "send `Authorization: Bearer TOKEN` with the token of the secret bundle that was made with this \
                    server's keys (`helba-client --secret FILE`), or with the operator's token or an API token \
                    (`helba-client --token-file FILE`, `secure-sum --server-token-file FILE`)";

impl TokenFault {
    /// The value of `WWW-Authenticate` (RFC 6750).
    pub(crate) fn challenge(self) -> &'static str {
        match self {
            TokenFault::Missing => "Bearer",
            TokenFault::Malformed => "Bearer error=\"invalid_request\"",
            TokenFault::Unknown => "Bearer error=\"invalid_token\", error_description=\"unknown\"",
            TokenFault::Expired => "Bearer error=\"invalid_token\", error_description=\"expired\"",
            TokenFault::Enrolment => "Bearer error=\"invalid_token\", error_description=\"not enrolled\"",
        }
    }

    fn sentence(self) -> String {
        match self {
            TokenFault::Missing => format!("the request has no token: {SEND}"),
            TokenFault::Malformed => {
                format!("the header `Authorization` is not `Bearer` and 64 hexadecimal digits: {SEND}")
            }
            TokenFault::Unknown => format!(
                "the server does not know the token, which was revoked, or belongs to another server or to other keys: {SEND}"
            ),
            TokenFault::Expired => {
                "the token has expired: ask the operator for another one (`helba-server token create`), or the owner of the keys to be \
                 enrolled again (`helba-keygen enrol`)"
                    .into()
            }
            TokenFault::Enrolment => {
                "the enrolment in the header `helba-enrolment` is none that the owner of this server's keys has signed, or not that of \
                 the token: send the one of the bundle that the owner made of your request (`helba-keygen enrol`)"
                    .into()
            }
        }
    }
}

impl Forbidden {
    fn sentence(&self) -> String {
        match self {
            Forbidden::Scope { has } => {
                format!("the scope of the token is {has}; ask the operator for another token")
            }
            Forbidden::OtherBandit { only } => format!("the token is for bandit {only} and nothing else"),
            Forbidden::ClearPolicy => {
                "the token of the secret bundle is for encrypted bandits, and a policy in the clear \
                needs the operator's token or an API token"
                    .into()
            }
            Forbidden::NotEnrolled => {
                "this bandit answers users who were enrolled, each with a key of its own: send an enrolment \
                 (`helba-client --secret FILE --user FILE`)"
                    .into()
            }
            Forbidden::Removed => {
                "the user was removed: ask the owner of the keys to be enrolled again (`helba-keygen enrol`)"
                    .into()
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
    /// The type of the problem document.
    pub(crate) fn problem(&self) -> ProblemType {
        use ProblemType as P;
        match self {
            Error::Committee(error) => error.problem(),
            Error::UnknownBandit { .. } => P::UnknownBandit,
            Error::NoKeys | Error::KeysOfPaper | Error::NoPaperKeys => P::NoKeys,
            Error::Unauthorized { .. } => P::Unauthorized,
            Error::ForbiddenScope { .. } => P::ForbiddenScope,
            Error::UnknownPath { .. } => P::UnknownPath,
            Error::WrongMethod => P::WrongMethod,
            Error::Request(Rejection::BodyTooLarge { .. }) => P::TooLarge,
            Error::Request(Rejection::BodyLost { .. }) => P::BodyLost,
            Error::Request(Rejection::MediaType { .. }) => P::MediaType,
            Error::Request(Rejection::Overloaded)
            | Error::Overloaded
            | Error::SizingNoise
            | Error::SumIsFull => P::Overloaded,
            Error::Request(Rejection::BadHead { .. }) => P::BadHead,
            Error::Request(Rejection::WrongHost { .. }) => P::WrongHost,
            Error::Request(Rejection::ForeignOrigin { .. }) => P::ForeignOrigin,
            Error::BadConfig { .. } => P::BadConfiguration,
            Error::BadJson { .. } => P::Malformed,
            Error::BadParameter { .. } => P::BadValue,
            Error::Changed => P::Changed,
            Error::KeyReused => P::KeyReused,
            Error::Expired { .. } => P::Expired,
            Error::TooManyOpen { .. } => P::TooManyOpen,
            Error::Answered { .. } => P::Answered,
            Error::BatchOver { .. } => P::BatchOver,
            Error::Settled { .. } => P::Settled,
            Error::TakesBatches { .. } => P::TakesBatches,
            Error::TakesFeedback { .. } => P::TakesFeedback,
            Error::Policy(error) => error.fault().into(),
            Error::Wire(error) => error.fault().into(),
            Error::Helba(helba::Error::Protocol(protocol::Error::StillLearning { .. })) => P::StillLearning,
            Error::Helba(helba::Error::Frozen) => P::Frozen,
            Error::Helba(error) => error.fault().into(),
            Error::NotEncrypted { .. } | Error::NotHeld { .. } | Error::OfPaper { .. } => P::NotEncrypted,
            Error::TaskOver { .. } => P::TaskOver,
            Error::NotRaised | Error::NotEvaluated { .. } => P::NotEvaluated,
            Error::NoCounters { .. } => P::NoCounters,
            Error::Returned { .. } => P::Answered,
            Error::NotKept | Error::FeedbackNotKept { .. } => P::NotKept,
            Error::AskedAgain => P::AskedAgain,
            Error::OtherSender => P::OtherSender,
            Error::TooFewAsked { .. } => P::TooFewAsked,
            Error::Alone => P::Alone,
            Error::Log(hash_log::Error::DiskFull { .. }) => P::DiskFull,
            Error::TooManyBandits { .. } => P::TooManyBandits,
            Error::DiskFull { .. } => P::DiskFull,
            Error::Disk { .. }
            | Error::FolderIsShared { .. }
            | Error::Tokens { .. }
            | Error::Database { .. }
            | Error::EmptyDatabase { .. }
            | Error::NoDatabase { .. }
            | Error::StateInUse { .. }
            | Error::OtherKeys { .. }
            | Error::StateFormat { .. }
            | Error::CorruptState { .. }
            | Error::AuditFailed { .. }
            | Error::Log(_)
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
        use std::io::ErrorKind::{InvalidData, UnexpectedEof};
        let folder = folder.to_owned();
        match source {
            redb::Error::DatabaseAlreadyOpen => Error::StateInUse { folder },
            // A file that was cut is damaged too.
            redb::Error::Io(source) if !matches!(source.kind(), InvalidData | UnexpectedEof) => {
                Error::disk(&folder.join("state.redb"), source)
            }
            source => Error::Database { folder, source: Box::new(source) },
        }
    }
}
