use crate::Problem;

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
    /// Capacity: neither one raise nor stages carry the problem.
    #[error("with one raise: {one}; in stages: {staged}")]
    Neither {
        /// Why not with one raise.
        one: Box<Error>,
        /// Why not in stages.
        staged: Box<Error>,
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
    /// The refusal of a problem for the reason `why`, with the nearest problems that fit.
    pub fn no_plan(problem: Problem, why: protocol::Error) -> Self {
        Error::NoPlan { instead: crate::plan::alternatives(problem, &why), why }
    }
}
