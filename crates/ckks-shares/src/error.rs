use fault::Fault;

/// The reason why shares were refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: a committee of other sizes than this protocol has.
    #[error(
        "a committee of {threshold} of {members} is not possible: it takes 2 or more to open, at most 16 members, and \
         at least 2·{threshold} − 1 of them"
    )]
    Quorum {
        /// t.
        threshold: u8,
        /// n.
        members: u8,
    },
    /// Misuse: the members of a request are not t different ones of the committee.
    #[error("a request names {want} different members with numbers from 1 to {members}, not {got}")]
    ActiveSet {
        /// The members named, as text.
        got: String,
        /// t, or n where all members take part.
        want: u8,
        /// n.
        members: u8,
    },
    /// Untrusted: the number of shares is not that of the members who were asked.
    #[error("{got} shares came for {want} members: each sends one")]
    ShareCount {
        /// The shares that came.
        got: usize,
        /// The members who were asked.
        want: usize,
    },
    /// Untrusted: a share is of another shape than its request.
    #[error("a share does not belong to this request: {0}")]
    Foreign(&'static str),
    /// Untrusted: shares that no members make who follow the protocol, or a message that is out of range.
    #[error(
        "the shares of this set do not add up to a masked message: a member sent garbage, or the message is out of range"
    )]
    Garbage,
    /// Misuse: the modulus has more bits than an opening computes with.
    #[error("an opening takes a modulus of at most {max} bits, not {got:.0}")]
    Modulus {
        /// log₂ of the modulus.
        got: f64,
        /// The most bits.
        max: u32,
    },
    /// An error of the scheme.
    #[error(transparent)]
    Ckks(#[from] ckks::Error),
}

impl Error {
    /// The party at fault.
    pub fn fault(&self) -> Fault {
        match self {
            Error::Quorum { .. } | Error::ActiveSet { .. } => Fault::Value,
            Error::ShareCount { .. } | Error::Foreign(_) | Error::Garbage => Fault::Malformed,
            Error::Modulus { .. } => Fault::Internal,
            Error::Ckks(e) => e.fault(),
        }
    }
}
