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

/// The message of a parser in a user's words: `expected a number` instead of `expected f64`.
pub fn in_words(message: &str) -> String {
    let mut said = String::new();
    let mut rest = message;
    while let Some((before, after)) = rest.split_once("expected ") {
        said.push_str(before);
        said.push_str("expected ");
        let word =
            |text: &str| text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        let (name, behind) = after.split_at(word(after));
        let (words, behind) = match name {
            "f64" | "f32" => ("a number", behind),
            "usize" | "u64" | "u32" | "u16" | "u8" => ("a whole number that is not negative", behind),
            "isize" | "i64" | "i32" => ("a whole number", behind),
            "struct" | "internally" => {
                let of = behind.trim_start();
                ("an object", &of[word(of)..])
            }
            name => (name, behind),
        };
        said.push_str(words);
        rest = behind;
    }
    said + rest
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_rust_are_told_in_words() {
        for (message, says) in [
            (
                "invalid type: string \"x\", expected f64 at line 1",
                "invalid type: string \"x\", expected a number at line 1",
            ),
            ("expected usize", "expected a whole number that is not negative"),
            (
                "invalid type: null, expected struct BanditConfig at line 1",
                "invalid type: null, expected an object at line 1",
            ),
            ("unknown variant `x`, expected `a` or `b`", "unknown variant `x`, expected `a` or `b`"),
            ("expected value, expected f64s", "expected value, expected f64s"),
            ("", ""),
        ] {
            assert_eq!(in_words(message), says);
        }
    }
}
