//! Errors of the crate.

use fault::Fault;

/// Errors of this crate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: an entry of the schema.
    #[error("schema, {key}: {reason}")]
    Schema {
        /// The entry.
        key: String,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// Untrusted: a value that its encoding does not take.
    #[error("{column} is {value:?}: {reason}")]
    Cell {
        /// The name of the value.
        column: String,
        /// The value.
        value: String,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// Untrusted: a value of a round, by its place, such as `candidates[1].price`.
    #[error("{place}: {reason}")]
    Named {
        /// The place of the value.
        place: String,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// Untrusted: a reward that the schema does not take.
    #[error("the reward {value} is outside {}", outside(*range))]
    Reward {
        /// The reward, in the units of the file.
        value: f64,
        /// `reward_range` of the schema.
        range: Option<[f64; 2]>,
    },
    /// Misuse: a round does not have the values or candidates of the schema.
    #[error("the round has {got} {what}, the schema has {want}")]
    Shape {
        /// What is counted.
        what: &'static str,
        /// The number in the round.
        got: usize,
        /// The number in the schema.
        want: usize,
    },
}

fn outside(range: Option<[f64; 2]>) -> String {
    let values = "the values of reward 0 and of reward 1";
    match range {
        Some([zero, one]) => format!("reward_range = [{zero}, {one}]: give one between {values}"),
        None => format!("0 to 1, and the schema has no reward_range: set it to {values}"),
    }
}

impl Error {
    /// The fault that the error is classified under.
    pub fn fault(&self) -> Fault {
        match self {
            Error::Schema { .. } => Fault::Configuration,
            Error::Cell { .. } | Error::Named { .. } | Error::Reward { .. } | Error::Shape { .. } => {
                Fault::Value
            }
        }
    }

    pub(crate) fn schema(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Error::Schema { key: key.into(), reason: reason.into() }
    }

    /// The error of a round that is one of several, which is at `place`.
    pub(crate) fn within(self, place: &str) -> Self {
        match self {
            Error::Cell { column, value, reason } => {
                Error::Cell { column: format!("{place}.{column}"), value, reason }
            }
            Error::Named { place: inner, reason } => {
                Error::Named { place: format!("{place}.{inner}"), reason }
            }
            error => Error::Named { place: place.into(), reason: error.to_string() },
        }
    }

    pub(crate) fn cell(column: &str, cell: &crate::Cell, reason: impl Into<String>) -> Self {
        Error::Cell { column: column.into(), value: cell.to_string(), reason: reason.into() }
    }
}
