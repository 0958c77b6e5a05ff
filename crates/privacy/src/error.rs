//! Errors, each with whose fault it is.

use fault::Fault;

/// Errors of this crate. None names a datum or a noise value.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: a value outside its range.
    #[error(transparent)]
    OutOfRange(#[from] fault::OutOfRange),
    /// Capacity: an exact rational or integer no longer fits its width. Take coarser parameters.
    #[error("{what} does not fit {bits} bits")]
    Overflow {
        /// The quantity.
        what: &'static str,
        /// The width.
        bits: u32,
    },
    /// Misuse: a scripted noise source has no value left.
    #[error("scripted noise: draw {draw} asked for, {values} given")]
    ScriptEnded {
        /// Number of the draw, from 1.
        draw: usize,
        /// Values given.
        values: usize,
    },
    /// Misuse: a release would cost more than is left. Nothing is released.
    #[error("{what}: {total} in all would exceed the budget of {budget}")]
    BudgetSpent {
        /// What would be exceeded.
        what: &'static str,
        /// The total after the release.
        total: f64,
        /// The budget.
        budget: f64,
    },
    /// Misuse: an observation may enter one release only.
    #[error("observation {observation} has been released before")]
    ReleasedTwice {
        /// Number of the observation.
        observation: u64,
    },
    /// Untrusted: a stored state that was damaged, or that no run can reach.
    #[error("stored state: {what}")]
    State {
        /// What is wrong.
        what: &'static str,
    },
    /// Misuse: `(epsilon, delta)` with `delta` above 0 is no zCDP, and zCDP is converted once, at the end.
    #[error("the cost of this release cannot be counted in the kind of budget that the ledger keeps")]
    Currency,
}

impl Error {
    /// Whose fault it is.
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
