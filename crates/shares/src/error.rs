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
    #[error("a row of {got} features must be at most 1 long, with at most {most} features")]
    Row {
        /// Its number of features.
        got: usize,
        /// The most features.
        most: usize,
    },
    /// Untrusted: a number that no device sends: it is larger than its pads and a value.
    #[error("number {index} of the message is out of range")]
    OutOfRange {
        /// Its place.
        index: usize,
    },
    /// Untrusted: bytes that are no number of the field.
    #[error("the bytes are no number below 2¹²⁷ − 1")]
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
    #[error("the shares are on no polynomial: a member shows a wrong one")]
    NoPolynomial,
    /// Misuse: two shares of one member, or one of nobody.
    #[error("{member} is no member, or has two shares")]
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
    #[error("the message has another form than its kind")]
    Message,
}
