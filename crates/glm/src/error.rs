//! Errors of the crate, classified by fault.

use fault::Fault;

/// Errors of this crate. The errors of a policy in a round are [`bandit::Error`]s.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: a value outside its range.
    #[error(transparent)]
    OutOfRange(#[from] fault::OutOfRange),
    /// Misuse: a vector, matrix or point set of another dimension.
    #[error("{field} has dimension {got}, it must be {want}")]
    Dimension {
        /// Name of the argument.
        field: &'static str,
        /// The dimension found.
        got: usize,
        /// The dimension wanted.
        want: usize,
    },
    /// Misuse: an argument holds a value that is infinite or not a number.
    #[error("{field} holds a value that is not a finite number")]
    NotFinite {
        /// Name of the argument.
        field: &'static str,
    },
    /// Misuse: a matrix that must be positive definite is not.
    #[error("{field} is not positive definite")]
    NotPositive {
        /// Name of the argument.
        field: &'static str,
    },
    /// Capacity: an iteration did not reach its tolerance.
    #[error("{what} did not converge in {steps} steps")]
    NoConvergence {
        /// The iteration.
        what: &'static str,
        /// Steps made.
        steps: usize,
    },
    /// Untrusted: a device refuses a task.
    #[error(transparent)]
    Task(#[from] privacy::task::Refusal),
    /// An error of budgets or samplers.
    #[error(transparent)]
    Privacy(#[from] privacy::Error),
    /// An error of the bandit interface.
    #[error(transparent)]
    Bandit(#[from] bandit::Error),
}

impl Error {
    /// The fault that the error is classified under.
    pub fn fault(&self) -> Fault {
        match self {
            Error::OutOfRange(_) | Error::Dimension { .. } | Error::NotFinite { .. } => Fault::Value,
            Error::Task(_) | Error::NotPositive { .. } | Error::NoConvergence { .. } => Fault::Internal,
            Error::Privacy(error) => error.fault(),
            Error::Bandit(error) => error.fault(),
        }
    }
}

/// Refuses `got` unless it is finite and `ok` holds.
pub(crate) fn field(field: &'static str, got: f64, ok: bool, want: &'static str) -> Result<(), Error> {
    Ok(fault::require(got.is_finite() && ok, field, got, want)?)
}

/// The error of a policy whose computation fails in a round.
pub(crate) fn in_round(error: Error) -> bandit::Error {
    match error {
        Error::Bandit(e) => e,
        Error::OutOfRange(range) => bandit::Error::OutOfRange(range),
        Error::Privacy(e) => bandit::Error::Privacy(e),
        _ => bandit::Error::Overflow,
    }
}

/// Refuses a stored policy whose parts do not fit.
pub(crate) fn stored(fits: bool) -> Result<(), Error> {
    let what = "statistics that do not fit the configuration or each other";
    if fits { Ok(()) } else { Err(bandit::Error::State { what }.into()) }
}
