//! The errors of all parties.

use std::path::PathBuf;
use wire::Problem;

/// Errors of this crate. None names a value, a share or a total.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: a value outside its range.
    #[error(transparent)]
    OutOfRange(#[from] fault::OutOfRange),
    /// Untrusted: a message that cannot be read, or that does not fit the task.
    #[error("malformed: {what}")]
    Malformed {
        /// The fault, in words.
        what: &'static str,
    },
    /// Misuse: a model in which users add no noise.
    #[error("users add no noise under the model {model}: use pure, renyi, concentrated or local")]
    NoNoise {
        /// The name of the model.
        model: &'static str,
    },
    /// Misuse: a value that cannot be encrypted. The message does not state the value, which is secret.
    #[error("the absolute value exceeds 2^30, the bound of encrypted sums; this user drops out")]
    ValueTooLarge,
    /// Misuse: the bandit waits for no further batch.
    #[error("the bandit has finished, and waits for no further batch")]
    Finished,
    /// Untrusted: a request refused before its route.
    #[error(transparent)]
    Request(#[from] service::Rejection),
    /// Misuse: no certificate, or plain HTTP on an address that other machines reach.
    #[error(transparent)]
    Tls(#[from] service::TlsError),
    /// Misuse: text that is no address of a service.
    #[error(transparent)]
    BadUrl(#[from] wire::BadAddress),
    /// Misuse: a file that is no list of certificates.
    #[error("{} is not a list of certificates in PEM", path.display())]
    BadCertificates {
        /// The file.
        path: PathBuf,
    },
    /// Untrusted: a request without the token that it needs.
    #[error(
        "this request needs `Authorization: Bearer` with the token that the service was started with (--token-file)"
    )]
    NoToken,
    /// Misuse: a service without a token on an address that other machines can reach.
    #[error(
        "other machines can reach {address}: give --token-file, so that only its bearers announce, close and open batches, \
         or listen on 127.0.0.1"
    )]
    NeedsToken {
        /// The address to listen on.
        address: String,
    },
    /// Misuse: a batch that was not announced, or that has been deleted.
    #[error(
        "batch {batch} of {users} users is not announced, or was deleted; announce it with `secure-sum announce`"
    )]
    NotAnnounced {
        /// The number of the batch.
        batch: u64,
        /// The number of users that the request named.
        users: u32,
    },
    /// Misuse: a batch that is announced for another number of users.
    #[error("batch {batch} is announced for {users} users: announce another one under a higher number")]
    Announced {
        /// The number of the batch.
        batch: u64,
        /// The number of users that its noise is sized for.
        users: u32,
    },
    /// Misuse: the number of a new batch is not above those of all deleted batches.
    #[error("batch {batch} may have been opened before: the number of a new batch must be above {above}")]
    Used {
        /// The number of the batch.
        batch: u64,
        /// The highest number of a deleted batch.
        above: u64,
    },
    /// Untrusted: a second message under the same id, with other content. The first message stays.
    #[error("batch {batch} has another message under this id")]
    Duplicate {
        /// The number of the batch.
        batch: u64,
    },
    /// Misuse: the batch accepts no more messages.
    #[error("batch {batch} is closed")]
    Closed {
        /// The number of the batch.
        batch: u64,
    },
    /// Misuse: the batch must be closed first.
    #[error("batch {batch} is not closed")]
    NotClosed {
        /// The number of the batch.
        batch: u64,
    },
    /// Untrusted: a batch is opened for one set of users only, because two sums would reveal their
    /// difference.
    #[error("batch {batch} was opened for another set of users")]
    Opened {
        /// The number of the batch.
        batch: u64,
    },
    /// Untrusted: a set that is not in ascending order, or contains an id without a report.
    #[error("the ids are not in ascending order, or one has no report in batch {batch}")]
    UnknownReport {
        /// The number of the batch.
        batch: u64,
    },
    /// Capacity: too many users dropped out. The noise is too small, so that nothing is opened.
    #[error("{got} users answered, but the noise is sized for at least {need}")]
    TooFew {
        /// The number of users whose reports arrived at every party.
        got: u64,
        /// The least number of users.
        need: u64,
    },
    /// Misuse: all users of the exchange have answered.
    #[error("exchange {exchange} is over: all of its users have answered")]
    ExchangeOver {
        /// The number of the exchange.
        exchange: u64,
    },
    /// Misuse: an exchange in which no user has answered.
    #[error("no user has answered in exchange {exchange}")]
    NotBegun {
        /// The number of the exchange.
        exchange: u64,
    },
    /// Misuse: the bandit waits for another exchange, or for no bits.
    #[error("within the last second the bandit did not wait for bits in exchange {exchange}")]
    NotAwaited {
        /// The number of the exchange.
        exchange: u64,
    },
    /// Untrusted: a server that posed different tasks to a user and to the shuffler, such as a larger batch
    /// or another epsilon.
    #[error(
        "the server posed this user another task than the shuffler in exchange {exchange}, so that the noise would not be as \
         the user expects"
    )]
    OtherTask {
        /// The number of the exchange.
        exchange: u64,
    },
    /// Capacity: a limit of the process is reached.
    #[error("the limit of {limit} {what} is reached")]
    Full {
        /// The things that are counted.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// Capacity: too many requests are being answered.
    #[error("the service is busy; try again in a second")]
    Overloaded,
    /// Misuse: a path or method that the service does not have.
    #[error("this path is not served, or not with this method")]
    UnknownPath,
    /// Untrusted: an answer of another party that cannot be used.
    #[error("the answer of {party} cannot be used: {what}")]
    BadAnswer {
        /// The address of the party.
        party: String,
        /// The fault, in words.
        what: String,
    },
    /// Another party cannot be reached.
    #[error("{party} cannot be reached: {reason}")]
    Unreachable {
        /// The address of the party.
        party: String,
        /// The cause.
        reason: String,
    },
    /// Another party refused the request.
    #[error("{party} refused: {}", problem.detail)]
    Refused {
        /// The address of the party.
        party: String,
        /// The problem document of the answer.
        problem: Box<Problem>,
    },
    /// From the randomiser of the policy.
    #[error(transparent)]
    Bandit(#[from] bandit::Error),
    /// From the devices of a generalised linear bandit.
    #[error(transparent)]
    Glm(#[from] glm::Error),
    /// From the noise.
    #[error(transparent)]
    Privacy(#[from] privacy::Error),
    /// From the ciphertexts.
    #[error(transparent)]
    Ckks(#[from] ckks::Error),
    /// The service cannot listen on the address.
    #[error(
        "cannot listen on {address}: {error}; choose another address with --listen, or stop the process that uses it"
    )]
    Listen {
        /// The address.
        address: String,
        /// The cause. It is no source, because the text contains it.
        error: std::io::Error,
    },
    /// The operating system refused a connection, a thread or a process.
    #[error("{what}: {error}")]
    Io {
        /// The operation.
        what: &'static str,
        /// The cause. It is no source, because the text contains it.
        error: std::io::Error,
    },
}
