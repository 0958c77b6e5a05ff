//! Common parts of the error types of all crates: the classification of an error by fault ([`Fault`]), and
//! the error of a value out of range ([`OutOfRange`]). `wire::ProblemType` gives each fault its HTTP status.

use std::borrow::Cow;
use std::fmt::Display;

/// The party at fault for an error. The error type of each crate has a method `fault`, whose match has no
/// wildcard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The caller: a value is outside the range that the receiver takes.
    Value,
    /// The caller: a configuration that these keys and parameters do not carry.
    Configuration,
    /// The caller: the run is over, or its budget is spent.
    Over,
    /// The caller: nothing has that name.
    Unknown,
    /// The caller: the bytes are not such a message.
    Malformed,
    /// The caller: the message is longer than it can be.
    TooLong,
    /// The caller: the message has a format version that this program does not read.
    Version,
    /// The caller: the ciphertext is of other parameters.
    Parameters,
    /// The caller: the ciphertext is under another key.
    Key,
    /// The caller: a residue of the ciphertext is not below its prime.
    Residue,
    /// The caller: the ciphertext is at another level than the one agreed.
    Level,
    /// This program, its disk, or a misuse of its interfaces: not the sender of a message.
    Internal,
}

/// A value outside its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {got}, it must be {want}")]
pub struct OutOfRange {
    /// The name of the parameter or field.
    pub field: &'static str,
    /// The value found.
    pub got: String,
    /// The range allowed, in words.
    pub want: Cow<'static, str>,
}

impl OutOfRange {
    /// `field` is `got`, it must be `want`.
    pub fn new(field: &'static str, got: impl Display, want: impl Into<Cow<'static, str>>) -> Self {
        OutOfRange { field, got: got.to_string(), want: want.into() }
    }
}

/// Refuses `got` unless `holds`.
///
/// # Errors
/// [`OutOfRange`]: `field` is `got`, it must be `want`.
pub fn require(
    holds: bool,
    field: &'static str,
    got: impl Display,
    want: impl Into<Cow<'static, str>>,
) -> Result<(), OutOfRange> {
    if holds { Ok(()) } else { Err(OutOfRange::new(field, got, want)) }
}
