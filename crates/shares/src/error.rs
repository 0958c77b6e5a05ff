/// The reason why a committee, a number or a set of shares was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: a committee that cannot compute, or has more subsets than keys are for.
    #[error("{t} of {n}: with t = {t} a committee has from {} to {} members, and at most 126 subsets", 2 * t - 1, 3 * t - 2)]
    Threshold {
        /// The threshold.
        t: u8,
        /// The number of members.
        n: u8,
    },
    /// Misuse: a row whose features or norm are out of range, which no device encrypts.
    #[error(
        "a row of {got} features is refused: it must have at most {most} features, and a Euclidean norm of at most 1"
    )]
    Row {
        /// Its number of features.
        got: usize,
        /// The most features.
        most: usize,
    },
    /// Untrusted: a number that no device sends: it is larger than its pads and a value.
    #[error("number {index} of the message is larger than a value and its pads can be")]
    OutOfRange {
        /// Its place.
        index: usize,
    },
    /// Untrusted: bytes that are no number of the field.
    #[error("the bytes are no number of the field: it must be below 2¹²⁷ − 1")]
    NoNumber,
    /// Fewer members are here than an opened number is read from.
    #[error("{here} members are here, and {need} are needed")]
    TooFew {
        /// The number of shares.
        here: usize,
        /// The least number.
        need: usize,
    },
    /// Untrusted: no polynomial goes through as many shares as show a right one. Somebody's share is wrong,
    /// and too few others are here to tell whose.
    #[error(
        "the shares lie on no polynomial of degree t - 1: a member shows a wrong share, and too few others are here to tell who"
    )]
    NoPolynomial,
    /// Misuse: two shares of one member, or one of nobody.
    #[error("member {member} is not of this committee, or has two shares")]
    Member {
        /// Its number.
        member: u8,
    },
    /// Untrusted: a message whose MAC is wrong: somebody changed it, or it is of another session or bandit.
    #[error("the message is not of this session, or was changed on its way")]
    Mac,
    /// Untrusted: a sealed box that does not open, or a public key that nothing is sealed under.
    #[error("what is sealed to member {member} does not open with its key")]
    Sealed {
        /// Its number.
        member: u8,
    },
    /// Untrusted: a message of another form than its kind has.
    #[error("the message does not have the form of its kind")]
    Message,
    /// Untrusted: bytes of another form than what they are read as.
    #[error("the bytes are not {what}: read what the sender's `to_bytes` has written, whole")]
    Form {
        /// What they are read as.
        what: &'static str,
    },
    /// Untrusted: a proposal of a committee with another number of members than its threshold is for.
    #[error("the proposal names {got} members, and its threshold is for {need}")]
    Cards {
        /// The number of members that it names.
        got: usize,
        /// n.
        need: usize,
    },
    /// Untrusted: a member with a bad key, or with the key of another one.
    #[error("member {member} has {what}: each member draws both its keys")]
    Card {
        /// Its number.
        member: u8,
        /// What is wrong.
        what: &'static str,
    },
    /// Untrusted: a manifest with another number of hashes than there are keys.
    #[error("the manifest has hashes of the keys of {got} {what}, and the committee has {need}")]
    Hashes {
        /// Subsets or pairs.
        what: &'static str,
        /// The number of hashes.
        got: usize,
        /// The number of keys.
        need: usize,
    },
    /// Untrusted: a member that has not signed this manifest.
    #[error("member {member} has not signed this manifest: it is another committee's, or was changed")]
    Unsigned {
        /// Its number.
        member: u8,
    },
    /// Untrusted: too few members have signed that a committee has moved.
    #[error("{signed} members have signed that the committee has moved, and {need} are needed")]
    Handover {
        /// How many have.
        signed: usize,
        /// 2t − 1.
        need: usize,
    },
    /// Untrusted: a committee that does not follow the one that is known.
    #[error(
        "the server has another committee than the one that was named, and no moves lead to it: ask who runs it for its id"
    )]
    OtherCommittee,
    /// Untrusted: paths of the tree of decisions that are not those of its root.
    #[error("the paths of the tree of decisions are refused, since {why}")]
    Paths {
        /// What is wrong with them.
        why: &'static str,
    },
    /// The paths do not show this decision.
    #[error("the paths do not show the decision: ask for paths with it")]
    Hidden,
    /// Untrusted: a decision whose feedback counts already, or one that would be erased and does not count.
    #[error("a decision that {is} is not {wanted}")]
    Counted {
        /// The state that it has.
        is: &'static str,
        /// The state that it was to have.
        wanted: &'static str,
    },
}
