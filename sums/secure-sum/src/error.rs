//! What can go wrong, and whose fault it is.

use wire::Problem;

/// Errors of this crate. None names a value, a share or a total.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: a value outside its range.
    #[error(transparent)]
    OutOfRange(#[from] fault::OutOfRange),
    /// Untrusted: bytes that are not what was asked for.
    #[error("malformed: {what}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
    },
    /// Misuse: a batch to which users of this model add nothing.
    #[error("users of the model {model} add no noise by themselves: take pure, renyi, concentrated or local")]
    NoNoise {
        /// Its name.
        model: &'static str,
    },
    /// Misuse: a value that cannot be encrypted. The message does not name it, since it is secret.
    #[error("the value is above 2^30 in size, which no encrypted sum carries; this user drops out")]
    ValueTooLarge,
    /// Misuse: the bandit waits for no further batch.
    #[error("the bandit has finished and waits for nobody")]
    Finished,
    /// Untrusted: a request refused before its route.
    #[error(transparent)]
    Request(#[from] service::Rejection),
    /// Untrusted: a caller who may not ask this.
    #[error(
        "this needs `Authorization: Bearer` and the token that the service was started with (--token-file)"
    )]
    NoToken,
    /// Misuse: without a token, everybody who reaches the service could open sums.
    #[error(
        "{address} can be reached from other machines: give a token (--token-file), which callers that announce, close or \
         open batches must send, or listen on 127.0.0.1"
    )]
    NeedsToken {
        /// Where it would have listened.
        address: String,
    },
    /// Misuse: a batch that nobody announced.
    #[error(
        "batch {batch} of {users} users is not announced here, or forgotten by now; `secure-sum announce` announces one"
    )]
    NotAnnounced {
        /// The batch.
        batch: u64,
        /// Users its noise would be sized for.
        users: u32,
    },
    /// Misuse: a batch that is announced for other users.
    #[error("batch {batch} is announced for {users} users: take a higher number for others")]
    Announced {
        /// The batch.
        batch: u64,
        /// Users its noise is sized for.
        users: u32,
    },
    /// Misuse: the number of a new batch is not above all forgotten ones.
    #[error("batch {batch} may have been opened before: numbers of new batches must be above {above}")]
    Used {
        /// The batch.
        batch: u64,
        /// The highest number forgotten.
        above: u64,
    },
    /// Untrusted: a report or submission under an id that holds another one; the first stays.
    #[error("this id has been used in batch {batch} with other content")]
    Duplicate {
        /// The batch.
        batch: u64,
    },
    /// Misuse: the batch takes no more.
    #[error("batch {batch} is closed")]
    Closed {
        /// The batch.
        batch: u64,
    },
    /// Misuse: the batch must be closed first.
    #[error("batch {batch} is not closed")]
    NotClosed {
        /// The batch.
        batch: u64,
    },
    /// Untrusted: a batch is opened once, for one set of users: two sums would give away their difference.
    #[error("batch {batch} has been opened for another set of users")]
    Opened {
        /// The batch.
        batch: u64,
    },
    /// Untrusted: a set that is not sorted, or names a report that is not held.
    #[error("the set names users out of order, twice, or without a report in batch {batch}")]
    UnknownReport {
        /// The batch.
        batch: u64,
    },
    /// Capacity: too many users dropped out. The noise would be too small, so nothing is let out.
    #[error("{got} users answered, the noise is sized for at least {need}")]
    TooFew {
        /// Users whose reports arrived everywhere.
        got: u64,
        /// Users needed.
        need: u64,
    },
    /// Misuse: all users of the exchange have answered.
    #[error("exchange {exchange} is over: as many users as it needs have answered")]
    ExchangeOver {
        /// Number of the exchange.
        exchange: u64,
    },
    /// Misuse: an exchange in which nobody has answered.
    #[error("nobody has answered in exchange {exchange} yet")]
    NotBegun {
        /// Number of the exchange.
        exchange: u64,
    },
    /// Misuse: the exchange is over, or not there yet, or none of bits.
    #[error("the bandit, asked within the last second, did not wait for bits in exchange {exchange}")]
    NotAwaited {
        /// Number of the exchange.
        exchange: u64,
    },
    /// Untrusted: a server that posed a user another task than the shuffler, such as one of a larger batch or
    /// another epsilon.
    #[error(
        "this user was told something else of exchange {exchange}, or of its bandit, than the shuffler: the noise would not be \
         what the user counts on"
    )]
    OtherTask {
        /// Number of the exchange.
        exchange: u64,
    },
    /// Capacity: a limit of the process is reached.
    #[error("no room for more {what}, at most {limit} are kept")]
    Full {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// Capacity: too many requests are under way.
    #[error("busy; try again in a second")]
    Overloaded,
    /// Misuse: no such path or method.
    #[error("nothing is served there with that method")]
    UnknownPath,
    /// Untrusted: the other party's answer makes no sense.
    #[error("{party} answers what makes no sense: {what}")]
    BadAnswer {
        /// Its address.
        party: String,
        /// What is wrong with it.
        what: String,
    },
    /// The other party cannot be reached.
    #[error("{party} cannot be reached: {reason}")]
    Unreachable {
        /// Its address.
        party: String,
        /// Why.
        reason: String,
    },
    /// The other party refused.
    #[error("{party} refused: {}", problem.detail)]
    Refused {
        /// Its address.
        party: String,
        /// What it said.
        problem: Box<Problem>,
    },
    /// The randomiser refused.
    #[error(transparent)]
    Bandit(#[from] bandit::Error),
    /// From the estimates that a device chooses by.
    #[error(transparent)]
    Glm(#[from] glm::Error),
    /// From the noise.
    #[error(transparent)]
    Privacy(#[from] privacy::Error),
    /// From the ciphertexts.
    #[error(transparent)]
    Ckks(#[from] ckks::Error),
    /// The address is taken or cannot be had.
    #[error(
        "cannot listen on {address}: {error}; choose another address with --listen, or stop the process that uses it"
    )]
    Listen {
        /// Where.
        address: String,
        /// Why. Not a source: the sentence names it.
        error: std::io::Error,
    },
    /// A connection or thread could not be made.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why. Not a source: the sentence names it.
        error: std::io::Error,
    },
}
