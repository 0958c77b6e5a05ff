/// Why a computation on shares ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Untrusted: shares on no polynomial, or too few.
    #[error(transparent)]
    Shares(#[from] shares::Error),
    /// Misuse: the slot was prepared for another circuit, or has served.
    #[error("the slot was prepared for another computation, or has served already")]
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
    #[error("the rows of the request are longer than 1, or the proof of their length is wrong")]
    Row,
    /// Untrusted: rewards whose proof does not hold, by their places: the batch begins again without them.
    #[error("rewards at places {places:?} of the batch are out of range, or their proofs are wrong")]
    Rewards {
        /// The places of the rewards in the batch.
        places: Vec<usize>,
    },
    /// A comparison left what is no choice of one arm. No bound was kept, and the decision stops.
    #[error("the comparison did not end with exactly one arm: the decision stops")]
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
    /// Untrusted: slots that 2t − 1 members have burnt and opened, and who has erred.
    #[error(
        "the prepared slots are thrown away: members {liars:?} have erred, and of each pair in {disputed:?} one member; if both lists are empty, the server has changed messages or added them up wrongly"
    )]
    Burnt {
        /// Members whose messages do not follow from their seeds and the sums.
        liars: Vec<u8>,
        /// Pairs of members of whom one has signed another seed than they have in common.
        disputed: Vec<(u8, u8)>,
    },
    /// Untrusted: a prepared product is wrong. The slots are thrown away; nothing of anybody was in them.
    #[error("a prepared product is wrong: its slots are thrown away")]
    WrongProduct,
    /// Untrusted: a batch of slots that the member would prepare a second time, or that does not have its
    /// nonce.
    #[error(
        "batch {number} is refused: it must have this member's nonce, a number above {last}, and from 1 to {most} slots"
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
    #[error("the message is of another kind than the computation waits for")]
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
    #[error("the member's memory cannot be written, so that it signs nothing: {0}")]
    Memory(String),
    /// Misuse: a proposal that has other public keys for this member than its own.
    #[error(
        "the proposal has other public keys for member {member}: give the number at which this member's card is"
    )]
    NotOwn {
        /// The number that was given.
        member: u8,
    },
    /// Members that have sent nothing.
    #[error("members {members:?} have sent nothing: wait for them, or go on with a proposal without them")]
    Missing {
        /// Their numbers.
        members: Vec<u8>,
    },
    /// Untrusted: a message that is said to be a member's, who has not signed it for this proposal.
    #[error("a message is not signed by member {member} for this proposal: ask for it again")]
    NotSigned {
        /// Who has not signed it.
        member: u8,
    },
    /// Untrusted: a member has signed a message of another form than the proposal's. All who see it see that.
    #[error("member {member} has signed a message of a wrong form: draw keys for a proposal without it")]
    Malformed {
        /// Its number.
        member: u8,
    },
    /// Untrusted: a box that does not open, or does not have the parts that its sender shows hashes of.
    #[error(
        "what member {sender} has sealed does not open, or is not what it shows hashes of: draw keys for another proposal"
    )]
    Box {
        /// The sender.
        sender: u8,
    },
    /// Untrusted: members say that they have seen another contribution of a member than this one has.
    #[error(
        "members {members:?} have seen another contribution of member {sender}: draw keys for another proposal"
    )]
    Seen {
        /// Whose contribution it is.
        sender: u8,
        /// Who has seen another one.
        members: Vec<u8>,
    },
    /// Untrusted: holders of a key have seen the same contributions and announce different hashes of it.
    #[error(
        "members {holders:?} announce different hashes of key {place}: one of them lies; draw keys for another proposal"
    )]
    KeyDiffers {
        /// The place of the key: subsets first, then pairs.
        place: u16,
        /// Who has it.
        holders: Vec<u8>,
    },
    /// Untrusted: signatures of members that are not of this manifest.
    #[error("members {members:?} have signed another manifest: compare what all have announced")]
    OtherManifest {
        /// Their numbers.
        members: Vec<u8>,
    },
    /// Untrusted: a manifest of other keys than a member has.
    #[error("the manifest is not that of the keys of member {member}: give the one that it was made with")]
    OtherKeys {
        /// Its number.
        member: u8,
    },
}
