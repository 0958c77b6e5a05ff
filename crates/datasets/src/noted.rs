//! Notes on rows that could not be read as they stand: the reason, how many there are, and the first line.

use crate::Error;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// A file is refused at its end if more than one row in this many was left out.
const MOST_LEFT_OUT: u64 = 10;
/// A file is refused before its end if this many rows, and most so far, were left out.
const EARLY: u64 = 1000;

/// Rows of a file that have the same note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Noted {
    /// The note.
    pub what: String,
    /// The number of rows.
    pub rows: u64,
    /// The line of the first.
    pub first_line: u64,
}

/// Counts rows, and collects the notes on them.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    said: BTreeMap<String, (u64, u64)>,
    rows: u64,
    left_out: u64,
    /// The first row that was left out.
    first: Option<(u64, String)>,
}

impl Notes {
    /// Counts a row that is read.
    pub(crate) fn row(&mut self) {
        self.rows += 1;
    }

    /// Adds a row to the note `what`. It is counted by [`Self::row`] or [`Self::leave_out`].
    pub(crate) fn note(&mut self, line: u64, what: String) {
        self.said.entry(what).or_insert((0, line)).0 += 1;
    }

    /// Counts a row that is left out.
    pub(crate) fn leave_out(&mut self, path: &Path, line: u64, reason: String) -> Result<(), Error> {
        self.left_out += 1;
        self.first.get_or_insert_with(|| (line, reason.clone()));
        self.note(line, format!("left out: {reason}"));
        if self.left_out >= EARLY && self.left_out > self.rows { self.end(path) } else { Ok(()) }
    }

    /// Refuses a file at its end if more than a tenth of its rows were left out.
    pub(crate) fn end(&self, path: &Path) -> Result<(), Error> {
        match &self.first {
            Some((line, reason)) if self.left_out * MOST_LEFT_OUT > self.rows + self.left_out => {
                let all = self.rows + self.left_out;
                let more = match self.left_out {
                    1 => String::new(),
                    n => format!("; {n} of the {all} rows read so far are none"),
                };
                Err(Error::file(path, *line, format!("{reason}{more}")))
            }
            _ => Ok(()),
        }
    }

    /// The first row that was left out, and why.
    pub(crate) fn first(&self) -> Option<(u64, &str)> {
        self.first.as_ref().map(|(line, reason)| (*line, reason.as_str()))
    }

    pub(crate) fn list(&self) -> Vec<Noted> {
        let noted = |(what, &(rows, first_line)): (&String, &(u64, u64))| Noted {
            what: what.clone(),
            rows,
            first_line,
        };
        self.said.iter().map(noted).collect()
    }
}
