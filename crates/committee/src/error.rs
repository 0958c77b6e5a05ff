/// Why a computation on shares ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Untrusted: shares on no polynomial, or too few.
    #[error(transparent)]
    Shares(#[from] shares::Error),
    /// Misuse: the slot was prepared for another circuit, or has served.
    #[error("the slot was prepared for another computation")]
    Slot,
    /// Misuse: a bandit whose numbers do not fit the masks of this committee.
    #[error("{what} needs {need} bits, and masks of this committee leave {have}: {advice}")]
    Bound {
        /// The number.
        what: &'static str,
        /// The bits that it needs.
        need: u32,
        /// The bits that there are.
        have: u32,
        /// What to change.
        advice: &'static str,
    },
    /// Misuse: a bandit or a batch that circuits on shares do not compute.
    #[error("{what} is {got}, and must be {want}")]
    OutOfRange {
        /// The number.
        what: &'static str,
        /// Its value.
        got: String,
        /// What it must be.
        want: &'static str,
    },
    /// Untrusted: a row whose proof of its length does not hold: its request is dropped.
    #[error("the rows of the request are longer than 1, or their proof is wrong")]
    Row,
    /// Untrusted: rewards whose proof does not hold, by their places: the batch begins again without them.
    #[error("rewards {places:?} are out of range, or their proofs are wrong")]
    Rewards {
        /// The places of the rewards in the batch.
        places: Vec<usize>,
    },
    /// A comparison left what is no choice of one arm. No bound was kept, and the decision stops.
    #[error("the comparison left no choice: the decision stops")]
    NoChoice,
    /// Untrusted: fewer than 2t − 1 members have seen the same numbers in a preparation, which is thrown
    /// away.
    #[error(
        "{agreed} members have seen the same numbers in the preparation, and {need} are needed: its slots are thrown away"
    )]
    NoAgreement {
        /// How many have.
        agreed: usize,
        /// How many must have.
        need: usize,
    },
    /// Untrusted: a prepared product is wrong. The slots are thrown away; nothing of anybody was in them.
    #[error("a prepared product is wrong: its slots are thrown away")]
    WrongProduct,
    /// Untrusted: a batch of slots that the member would prepare a second time, or that does not have its
    /// nonce.
    #[error(
        "batch {number} does not have this member's nonce, or a number above {last}, or from 1 to {most} slots: no label serves twice"
    )]
    Batch {
        /// Its number.
        number: u64,
        /// The last number that the member has prepared under.
        last: u64,
        /// The most slots.
        most: u32,
    },
    /// Misuse: a message of another kind than the computation waits for.
    #[error("the computation waits for another message")]
    Message,
    /// Untrusted: what these members have dealt in a move is not on the polynomials of the first t dealers:
    /// one of all of them lies. The move is dealt again.
    #[error(
        "what members {apart:?} have dealt differs from what the first dealers have: one of them lies, and nothing has moved"
    )]
    Dealer {
        /// The members beyond the first t whose numbers differ.
        apart: Vec<u8>,
    },
    /// Untrusted: the server asks for what the member has no part in.
    #[error("{0}")]
    Refused(&'static str),
    /// What a member must remember could not be written: it signs nothing.
    #[error("the member's memory cannot be written: {0}")]
    Memory(String),
}
