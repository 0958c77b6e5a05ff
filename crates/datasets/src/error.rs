//! Errors of the crate: each names the file, and where it is known the line, the column and the value.

use fault::Fault;
use host::visible;
use std::fmt;
use std::path::Path;

/// Errors of this crate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Untrusted: a place in a file.
    #[error("{place}: {}", visible(reason))]
    File {
        /// Where it is.
        place: Place,
        /// What is wrong there, and what to do.
        reason: String,
    },
    /// Misuse: a reward outside of the `reward_range` of the schema.
    #[error("{}", outside(place, *range, *seen))]
    RewardRange {
        /// Where it is.
        place: Place,
        /// The range: the values of reward 0 and of reward 1.
        range: [f64; 2],
        /// The least and the largest reward of the file, if they can be read.
        seen: Option<[f64; 2]>,
    },
    /// Misuse: a schema that contradicts itself or the file.
    #[error("{}: {}", visible(file), visible(&error.to_string()))]
    Schema {
        /// The file of the schema.
        file: String,
        /// The entry, what is wrong with it, and what to do.
        error: schema::Error,
    },
    /// Capacity: the rounds of a file take more memory than is allowed.
    #[error(
        "{}: {rounds} rounds of {arms} candidates and {features} features take {bytes} bytes, and {most} are allowed: split \
         the file, or keep fewer features with [project]",
        visible(file)
    )]
    TooLarge {
        /// The file.
        file: String,
        /// Number of rounds.
        rounds: u64,
        /// Number of candidates of a round.
        arms: usize,
        /// Number of features of a candidate.
        features: usize,
        /// Bytes needed.
        bytes: u64,
        /// Bytes allowed.
        most: u64,
    },
    /// Misuse: a schema with a score for rounds that a bandit is to learn, without a transformation.
    #[error(
        "{} has a score, which would be learnt from the rewards of {}: name the transformation that the bandit's devices use by \
         --transform, as `helba-client data transform --supervised` printed it from other rounds",
        visible(schema),
        visible(file)
    )]
    Scored {
        /// The file of the schema.
        schema: String,
        /// The file of rounds.
        file: String,
    },
    /// Misuse: rounds in which only the reward of one action is known, where those of all are needed.
    #[error(
        "{}: only the rewards of logged actions are known, and this command needs those of all candidates: \
         `helba-client data evaluate` takes such a file",
        visible(file)
    )]
    Logged {
        /// The file.
        file: String,
    },
}

/// The message of [`Error::RewardRange`].
fn outside(place: &Place, [zero, one]: [f64; 2], seen: Option<[f64; 2]>) -> String {
    let said = format!("{place}: the reward is outside reward_range = [{zero}, {one}]");
    match seen {
        Some([least, most]) => {
            let set = if zero <= one { [least, most] } else { [most, least] };
            format!(
                "{said}, and the rewards of the file go from {least} to {most}: set reward_range = {set:?}, or wider limits if later \
                 rewards may be beyond these"
            )
        }
        None => format!("{said}: set it to the values of reward 0 and reward 1"),
    }
}

/// A place in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The path of the file.
    pub file: String,
    /// The line, or the row of a Parquet file, from 1; 0 for the file as a whole.
    pub line: u64,
    /// The column, or the field of a JSON object; empty for the line as a whole.
    pub column: String,
    /// The value found; `None` for the column as a whole.
    pub value: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&visible(&self.file))?;
        if self.line > 0 {
            write!(f, ", line {}", self.line)?;
        }
        if !self.column.is_empty() {
            write!(f, ", column {}", visible(&self.column))?;
        }
        match &self.value {
            // A cell may be as long as a line.
            Some(value) => write!(f, ", value {:?}", value.chars().take(60).collect::<String>()),
            None => Ok(()),
        }
    }
}

impl Error {
    /// The fault that the error is classified under.
    pub fn fault(&self) -> Fault {
        match self {
            Error::File { .. } | Error::RewardRange { .. } => Fault::Malformed,
            Error::Schema { error, .. } => error.fault(),
            Error::TooLarge { .. } => Fault::TooLong,
            Error::Logged { .. } | Error::Scored { .. } => Fault::Configuration,
        }
    }

    pub(crate) fn file(file: &Path, line: u64, reason: impl Into<String>) -> Self {
        let place = Place { file: name_of(file), line, ..Place::default() };
        Error::File { place, reason: reason.into() }
    }

    pub(crate) fn column(file: &Path, line: u64, column: &str, reason: impl Into<String>) -> Self {
        let place = Place { file: name_of(file), line, column: column.into(), value: None };
        Error::File { place, reason: reason.into() }
    }

    pub(crate) fn cell(file: &Path, line: u64, column: &str, value: &str, reason: impl Into<String>) -> Self {
        let file = name_of(file);
        let place = Place { file, line, column: column.into(), value: Some(value.into()) };
        Error::File { place, reason: reason.into() }
    }

    /// The error of a value that an encoding refuses, at its place in a file.
    pub(crate) fn at(file: &Path, line: u64, error: schema::Error) -> Self {
        match error {
            schema::Error::Cell { column, value, reason } => Error::cell(file, line, &column, &value, reason),
            error => Error::Schema { file: name_of(file), error },
        }
    }
}

/// The name of a file in messages.
pub(crate) fn name_of(path: &Path) -> String {
    if path == Path::new("-") { "stdin".into() } else { path.display().to_string() }
}
