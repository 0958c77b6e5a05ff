use std::path::PathBuf;

/// The reason why a member does not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Untrusted: a question that no honest server asks.
    #[error("the question is refused: {0}")]
    Refused(&'static str),
    /// Untrusted: the server asks for something else than the protocol leads to, by what the member computes.
    #[error("the server deviates from the protocol: {0}")]
    Deviates(&'static str),
    /// Capacity: as many questions wait as may. A server asks other members, and this one again later.
    #[error("busy: {waiting} questions wait until another one is computed")]
    Busy {
        /// The most that wait.
        waiting: usize,
    },
    /// Misuse: a server or a bandit with other keys than this member.
    #[error("{what} has other keys than this member: start it with the public bundle of this committee")]
    OtherKeys {
        /// The server or the bandit.
        what: String,
    },
    /// Misuse: a server in another epoch of the committee.
    #[error(
        "the server is in epoch {got} of the committee, and these keys are of epoch {own}: serve with the keys of the same \
         epoch, and delete those of an epoch that is over"
    )]
    Epoch {
        /// That of the server.
        got: usize,
        /// That of the keys.
        own: usize,
    },
    /// Misuse: shares that are handed on to the next epoch, or were.
    #[error("{}", if *ended {
        "the epoch of these shares is over: serve with the keys of the next one, and delete these"
    } else {
        "these shares are being handed on: finish the resharing, or give it up with `helba-member reshare --give-up`"
    })]
    HandedOn {
        /// Whether this member has signed the next epoch.
        ended: bool,
    },
    /// Untrusted: another member has signed another journal.
    #[error(
        "member {member} has signed another journal of bandit {bandit} after batch {batch} than this member follows, which answers \
         nothing for it any more: `helba-member heads` shows both signatures"
    )]
    Forked {
        /// The bandit.
        bandit: String,
        /// The other member.
        member: u8,
        /// The batch.
        batch: u64,
    },
    /// Untrusted: this member checks some tasks alone, and the server was caught at one.
    #[error(
        "the server has deviated from the protocol, and this member answers it no more: find out what it did, and make new keys \
         or hand the shares on"
    )]
    Caught,
    /// Misuse: a member without the ledger of its keys.
    #[error(
        "there is no ledger at {}: it holds what this member has answered, and without it the same would be opened again. Put \
         it there or name it with --ledger; if it is lost, have a resharing replace this member", path.display()
    )]
    NoLedger {
        /// Where it should be.
        path: PathBuf,
    },
    /// The ledger cannot be read or written.
    #[error("the ledger: {0}")]
    Ledger(String),
    /// The states of bandits cannot be written.
    #[error("cannot write to {}, which keeps the states of bandits: {error}", path.display())]
    States {
        /// Their folder.
        path: PathBuf,
        /// The reason.
        error: std::io::Error,
    },
    /// The operating system gives no random numbers.
    #[error(transparent)]
    Random(#[from] host::NoRandomness),
    /// Bug: a thread panicked.
    #[error("a thread panicked; please report it")]
    Panicked,
    /// From the server, or on the way to it.
    #[error(transparent)]
    Client(#[from] user_client::Error),
    /// Untrusted: bytes that are no question.
    #[error(transparent)]
    Wire(#[from] wire::Error),
    /// Untrusted: a frame that is not one of these keys.
    #[error(transparent)]
    Ckks(#[from] ckks::Error),
    /// Untrusted: members or shares of other numbers.
    #[error(transparent)]
    Shares(#[from] ckks_shares::Error),
    /// Untrusted: a question about another ciphertext.
    #[error(transparent)]
    Committee(#[from] ckks_committee::Error),
    /// Untrusted: a record or an evaluation that does not fit the bandit.
    #[error(transparent)]
    Helba(#[from] helba::Error),
    /// Untrusted: a bandit that does not fit the keys.
    #[error(transparent)]
    Protocol(#[from] protocol::Error),
}

impl Error {
    /// The reason as the server is told. It says nothing of this machine.
    pub fn told(&self) -> String {
        match self {
            Error::HandedOn { .. }
            | Error::Caught
            | Error::Ledger(_)
            | Error::States { .. }
            | Error::Random(_)
            | Error::Panicked
            | Error::Client(_) => "the member cannot answer now".into(),
            error => error.to_string(),
        }
    }
}
