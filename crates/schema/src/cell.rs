//! A value with a name: a cell of a table, or a field of a JSON object.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A number, a text, or nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// No value.
    Missing,
    /// A number, which may be infinite or not a number until an encoding refuses it.
    Number(f64),
    /// Any other text.
    Text(String),
}

/// Texts that stand for no value, besides the empty one.
const MISSING: [&str; 8] = ["NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"];

impl Cell {
    /// The cell of a text: spaces around it are left out, and the empty text, `NA`, `N/A`, `NaN`, `null`,
    /// `None` and `?` are no value. A text that is no number stays a text.
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        if text.is_empty() || MISSING.contains(&text) {
            return Cell::Missing;
        }
        // `inf` and `infinity` are words here: no table writes a number so.
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Cell::Number(number),
            _ => Cell::Text(text.into()),
        }
    }

    /// Whether there is no value.
    pub fn is_missing(&self) -> bool {
        matches!(self, Cell::Missing)
    }

    /// The number, if it is a finite one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Cell::Number(value) if value.is_finite() => Some(*value),
            _ => None,
        }
    }
}

/// The number as it is written shortest, the text as it stands, and nothing for no value. Categories and
/// names are compared in this form, so that the number 1 and the text `1` are the same category.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Missing => Ok(()),
            Cell::Number(value) => write!(f, "{value}"),
            Cell::Text(text) => f.write_str(text),
        }
    }
}
