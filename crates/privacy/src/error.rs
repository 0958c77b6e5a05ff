//! Errors of the crate, classified by fault.

use fault::Fault;

/// Errors of this crate. No message contains data or noise.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: a value outside its range.
    #[error(transparent)]
    OutOfRange(#[from] fault::OutOfRange),
    /// Capacity: an exact rational or integer exceeds its width. Coarser parameters avoid this.
    #[error("{what} does not fit {bits} bits")]
    Overflow {
        /// The quantity.
        what: &'static str,
        /// The width.
        bits: u32,
    },
    /// Misuse: a scripted noise source has no value left.
    #[error("draw {draw} was requested from scripted noise with {values} values")]
    ScriptEnded {
        /// Number of the draw, from 1.
        draw: usize,
        /// Values given.
        values: usize,
    },
    /// Misuse: the total cost would exceed the budget. Nothing is released.
    #[error("{what}: a total of {total} would exceed the budget of {budget}")]
    BudgetSpent {
        /// The parameter that would be exceeded.
        what: &'static str,
        /// The total after the release.
        total: f64,
        /// The budget.
        budget: f64,
    },
    /// Misuse: an observation was released before.
    #[error("observation {observation} has been released before")]
    ReleasedTwice {
        /// Number of the observation.
        observation: u64,
    },
    /// Untrusted: a stored state that was damaged, or that no run can reach.
    #[error("stored state: {what}")]
    State {
        /// The part that is wrong.
        what: &'static str,
    },
    /// Misuse: a cost of `(epsilon, delta)` with `delta` above 0 implies no zCDP, and costs in zCDP are
    /// converted once, for the total.
    #[error("the cost of this release cannot be converted to the kind of the budget")]
    Currency,
}

impl Error {
    /// The fault that the error is classified under.
    pub fn fault(&self) -> Fault {
        match self {
            Error::OutOfRange(_) | Error::Overflow { .. } => Fault::Value,
            Error::BudgetSpent { .. } => Fault::Over,
            Error::ScriptEnded { .. }
            | Error::ReleasedTwice { .. }
            | Error::State { .. }
            | Error::Currency => Fault::Internal,
        }
    }
}
