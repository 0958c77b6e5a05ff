/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Capacity: no set of parameters carries the problem.
    #[error("{why}; {instead}")]
    NoPlan {
        /// The part that does not fit.
        why: protocol::Error,
        /// The nearest problems that fit.
        instead: String,
    },
    /// From the protocol.
    #[error(transparent)]
    Protocol(#[from] protocol::Error),
    /// From the server's steps.
    #[error(transparent)]
    Helba(#[from] helba::Error),
    /// From the circuits.
    #[error(transparent)]
    Circuit(#[from] circuits::Error),
    /// From the parameters.
    #[error(transparent)]
    Ckks(#[from] ckks::Error),
}

impl Error {
    /// The refusal of a problem of `features` features and `arms` arms for the reason `why`, with the nearest
    /// problems that fit.
    pub fn no_plan(features: usize, arms: usize, rounds: u64, why: protocol::Error) -> Self {
        Error::NoPlan { instead: crate::plan::alternatives(features, arms, rounds, &why), why }
    }
}
