use fault::Fault;

/// The reason why a member refused. No message contains a secret.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: the request is for other members.
    #[error("member {member} is not among the members of this request")]
    NotAsked {
        /// The number of this member.
        member: u8,
    },
    /// Untrusted: the dealt values do not make up a share.
    #[error("member {member} has {got} dealt values of the {want} that make up its share")]
    Dealt {
        /// The number of this member.
        member: u8,
        /// The values found.
        got: usize,
        /// n.
        want: usize,
    },
    /// Misuse: a pair key is missing, so that zero shares would not cancel.
    #[error("member {member} has no pair key with member {other}")]
    PairKey {
        /// The number of this member.
        member: u8,
        /// The other member.
        other: u8,
    },
    /// Untrusted: the ciphertext is not one that the request is about.
    #[error("the ciphertext of the request is not at level {level} of its parameters")]
    Foreign {
        /// The level expected.
        level: usize,
    },
    /// An error of what is public of the committee.
    #[error(transparent)]
    Shares(#[from] ckks_shares::Error),
    /// An error of the scheme.
    #[error(transparent)]
    Ckks(#[from] ckks::Error),
}

impl Error {
    /// The party at fault.
    pub fn fault(&self) -> Fault {
        match self {
            Error::NotAsked { .. } => Fault::Value,
            Error::Dealt { .. } | Error::PairKey { .. } => Fault::Internal,
            Error::Foreign { .. } => Fault::Level,
            Error::Shares(e) => e.fault(),
            Error::Ckks(e) => e.fault(),
        }
    }
}
