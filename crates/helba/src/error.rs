use fault::Fault;

/// Why a bandit refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// From the protocol: a configuration that these keys cannot carry, or an unknown decision.
    #[error(transparent)]
    Protocol(#[from] protocol::Error),
    /// Untrusted: a ciphertext at a level other than the one agreed.
    #[error("{what} is at level {got}, expected level {want}")]
    WrongLevel {
        /// Which ciphertext.
        what: &'static str,
        /// Level found.
        got: usize,
        /// Level expected.
        want: usize,
    },
    /// Untrusted: a stored state that cannot be read.
    #[error("stored state cannot be read: {0}")]
    BadState(String),
    /// Bug: cannot happen. If you read this the library is wrong; please report it.
    #[error("broken invariant: {0}; please report this")]
    Broken(&'static str),
    /// From the circuits.
    #[error(transparent)]
    Circuit(#[from] circuits::Error),
    /// From the encrypted arithmetic.
    #[error(transparent)]
    Ckks(#[from] ckks::Error),
}

impl Error {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Error::Protocol(error) => error.fault(),
            Error::WrongLevel { .. } => Fault::Level,
            Error::Ckks(error) | Error::Circuit(circuits::Error::Ckks(error)) => error.fault(),
            Error::BadState(_) | Error::Broken(_) | Error::Circuit(_) => Fault::Internal,
        }
    }
}
