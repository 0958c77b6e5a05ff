use super::message::Slot;
use std::path::PathBuf;

/// The reason why no keys were made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// Misuse: a folder that another member, or another run, writes to.
    #[error("another process uses the folder {}: give each member, and each run, a folder of its own", path.display())]
    FolderInUse {
        /// The folder.
        path: PathBuf,
    },
    /// Untrusted: a file that is no identity of a member.
    #[error("{} is no file that `helba-member identity` writes, or it was damaged", path.display())]
    Identity {
        /// The file.
        path: PathBuf,
    },
    /// Misuse: a proposal that no keys are made for.
    #[error("the proposal is refused: {0}")]
    Proposal(String),
    /// Misuse: an identity that the proposal does not name.
    #[error("the proposal names no member with this identity: it must have the card that `identity` printed")]
    NotAMember,
    /// Misuse: parameters without security.
    #[error("the parameters {params} protect nothing; they are for tests")]
    Insecure {
        /// Their name.
        params: &'static str,
    },
    /// Untrusted: bytes that are no message.
    #[error("a message cannot be read: {0}")]
    Malformed(&'static str),
    /// Untrusted: a message that the board does not take.
    #[error("the message is refused: {0}")]
    Refused(String),
    /// Untrusted: the slot has another message.
    #[error("the board has another {slot} already: a member sends one message, also after a restart")]
    Taken {
        /// The slot.
        slot: Slot,
    },
    /// Messages did not come in time.
    #[error(
        "{missing} did not come within {seconds} s: its member is silent, or the board withholds it; start again with a \
         new proposal"
    )]
    Silent {
        /// The first message that is missing.
        missing: Slot,
        /// The time that it was waited for.
        seconds: u64,
    },
    /// Untrusted: the board shows other messages than before this program was started again.
    #[error(
        "the board shows other messages than before the restart: start again with a new proposal and another board"
    )]
    Forked,
    /// Untrusted: a member deviated. No keys were made.
    #[error(
        "member {member} deviated: {why}; no keys were made: start again with a new proposal, without it"
    )]
    Blamed {
        /// The number of the member.
        member: u8,
        /// What it did.
        why: String,
    },
    /// Untrusted: a fault whose cause cannot be found.
    #[error("no keys were made, and nobody is to blame by the messages of this run: {0}")]
    Unresolved(String),
    /// Untrusted: the shares that were dealt are not those of the keys. Nothing was written.
    #[error(
        "the next epoch has no shares: {why}. The dealers were {dealers}; start again with a new proposal and other dealers. \
         A member that was in failed runs only, as a dealer or as a member of the next epoch, is to be left out"
    )]
    NotReshared {
        /// What was found, and by which member.
        why: String,
        /// The members who dealt.
        dealers: String,
    },
    /// Misuse: the run has failed or was given up.
    #[error("this run has failed or was given up: start again with a new proposal")]
    RunOver,
    /// Misuse: what cannot be given up.
    #[error(
        "this member has signed the next epoch, and its share is not used again: start it with the same arguments until \
         the run ends"
    )]
    HandedOver,
    /// Misuse: keys, a ledger or bundles that are not those of the proposal.
    #[error("{what} is not of the epoch that the proposal ends: give that of epoch {epoch}")]
    OtherEpoch {
        /// The file.
        what: &'static str,
        /// The epoch.
        epoch: usize,
    },
    /// The ledger of a member.
    #[error(transparent)]
    Serve(#[from] crate::serve::Error),
    /// A member opened its seed after this one had confirmed.
    #[error(
        "a member opened its secrets after this one had confirmed the keys: they are not signed by all, and nobody takes \
         them; start again with a new proposal"
    )]
    TooLate,
    /// The file of keys cannot be written.
    #[error(transparent)]
    Keys(#[from] crate::KeysError),
    /// The operating system gives no random numbers.
    #[error(transparent)]
    Random(#[from] host::NoRandomness),
    /// From the board, or on the way to it.
    #[error(transparent)]
    Client(#[from] user_client::Error),
    /// Capacity: no parameter set fits the shape.
    #[error(transparent)]
    Protocol(#[from] protocol::Error),
    /// From the scheme.
    #[error(transparent)]
    Ckks(#[from] ckks::Error),
    /// From a sum of shares.
    #[error(transparent)]
    Shares(#[from] ckks_shares::Error),
    /// From a member.
    #[error(transparent)]
    Committee(#[from] ckks_committee::Error),
    /// A bundle cannot be written.
    #[error(transparent)]
    Wire(#[from] wire::Error),
    /// Untrusted: a key of a member is none.
    #[error(transparent)]
    Envelope(#[from] envelope::Error),
}
