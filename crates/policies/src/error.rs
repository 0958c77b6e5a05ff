//! Errors of the registry.

use fault::Fault;

/// Errors of this crate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Untrusted: a parameter or message is missing or outside its range.
    #[error("{why}")]
    Parameter {
        /// The name of the parameter, and the values allowed.
        why: String,
    },
    /// An error of a policy.
    #[error(transparent)]
    Policy(#[from] bandit::Error),
    /// An error of a generalised linear policy.
    #[error(transparent)]
    Glm(#[from] glm::Error),
    /// An error of noise or accounting.
    #[error(transparent)]
    Privacy(#[from] privacy::Error),
    /// Bug: cannot happen. If you read this the crate is wrong; please report it.
    #[error("broken invariant: {0}; please report this")]
    Broken(&'static str),
}

impl Error {
    /// The fault that the error is classified under.
    pub fn fault(&self) -> Fault {
        match self {
            Error::Parameter { .. } => Fault::Value,
            Error::Policy(error) => error.fault(),
            Error::Glm(error) => error.fault(),
            Error::Privacy(error) => error.fault(),
            Error::Broken(_) => Fault::Internal,
        }
    }
}
