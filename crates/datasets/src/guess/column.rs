//! What is seen in a column, and the encoding that fits it.

use super::MAX_DISTINCT;
use schema::{Cell, Encoding};
use std::collections::BTreeSet;

/// The most categories for which a one-hot encoding is proposed.
const FEW: usize = 12;

/// What was seen in a column or field.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnSeen {
    /// Its name.
    pub name: String,
    /// Number of rows in which it has a value.
    pub values: u64,
    /// Number of rows in which it has none.
    pub missing: u64,
    /// Number of values that are no numbers.
    pub texts: u64,
    /// Least and largest number; infinite where there is none.
    pub range: [f64; 2],
    /// Whether all numbers are whole.
    pub whole: bool,
    /// The values, up to 256 of them.
    pub distinct: BTreeSet<String>,
    /// Whether there are more.
    pub more: bool,
    /// Sum of the numbers.
    pub(super) sum: f64,
}

impl ColumnSeen {
    pub(super) fn new(name: &str) -> Self {
        ColumnSeen {
            name: name.into(),
            values: 0,
            missing: 0,
            texts: 0,
            range: [f64::INFINITY, f64::NEG_INFINITY],
            whole: true,
            distinct: BTreeSet::new(),
            more: false,
            sum: 0.0,
        }
    }

    pub(super) fn see(&mut self, cell: &Cell) {
        match cell {
            Cell::Missing => {
                self.missing += 1;
                return;
            }
            Cell::Number(x) => {
                self.range = [self.range[0].min(*x), self.range[1].max(*x)];
                self.whole &= x.fract() == 0.0;
                self.sum += x;
            }
            Cell::Text(_) => self.texts += 1,
        }
        self.values += 1;
        if !self.more {
            let text: String = cell.to_string().chars().take(80).collect();
            self.more = self.distinct.len() == MAX_DISTINCT && !self.distinct.contains(&text);
            if !self.more {
                self.distinct.insert(text);
            }
        }
    }

    /// Whether all values are 0 or 1, and both occur.
    pub(super) fn is_binary(&self) -> bool {
        self.texts == 0 && self.whole && self.range == [0.0, 1.0]
    }

    fn is_constant(&self) -> bool {
        !self.more && self.distinct.len() <= 1
    }

    /// The encoding proposed; `None` for a column that is no feature, with the reason.
    pub(super) fn encoding(&self) -> Result<Encoding, &'static str> {
        if self.values == 0 {
            return Err("it has no value");
        }
        if self.is_constant() {
            return Err("it is constant");
        }
        if self.texts > 0 {
            return match self.distinct.len() {
                _ if self.more && self.texts as f64 > 0.5 * self.values as f64 && self.values < 1000 => {
                    Err("nearly every row has another text")
                }
                n if !self.more && n <= FEW => Ok(Encoding::OneHot),
                _ => Ok(Encoding::Hash(8)),
            };
        }
        let mean = self.sum / self.values as f64;
        Ok(match self.range {
            _ if self.is_binary() => Encoding::Plain,
            // A few large values would leave nothing of the others.
            [least, most] if least >= 0.0 && most > 50.0 * mean => Encoding::Log,
            _ => Encoding::MinMax,
        })
    }

    /// Whether the values are two words for yes and no.
    pub(super) fn is_boolean(&self) -> bool {
        let word = |text: &String| {
            ["0", "1", "true", "false", "yes", "no"].contains(&text.to_ascii_lowercase().as_str())
        };
        !self.more && self.distinct.len() == 2 && self.distinct.iter().all(word)
    }
}
