//! Errors of the registry.

/// Errors of this crate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Untrusted: a parameter or message that is missing or outside its range.
    #[error("{why}")]
    Parameter {
        /// The name of the parameter, and the values allowed.
        why: String,
    },
    /// From a policy.
    #[error(transparent)]
    Policy(#[from] bandit::Error),
    /// From a generalised linear policy.
    #[error(transparent)]
    Glm(#[from] glm::Error),
    /// From noise and accounting.
    #[error(transparent)]
    Privacy(#[from] privacy::Error),
    /// Bug: cannot happen. If you read this the crate is wrong; please report it.
    #[error("broken invariant: {0}; please report this")]
    Broken(&'static str),
}
