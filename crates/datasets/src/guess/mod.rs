//! A first schema for a file that has none.

mod column;
mod dsjson;
mod logged;
mod long;
mod names;
mod schema_file;
mod wide;

use crate::Error;
use crate::table::{Row, Table};
pub use column::ColumnSeen;
use names::ROW;
use schema::{Cell, Encoding, Projection, Schema};
use schema_file::{toml_key, toml_string};
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

/// The most features that keys of encrypted bandits carry.
const KEY_FEATURES: usize = 16;
/// The most values of a column that are told apart.
const MAX_DISTINCT: usize = 256;
/// The most columns that are looked at.
const MAX_COLUMNS: usize = 4096;

/// What was seen in a file, and the schema proposed for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Guess {
    /// The schema.
    pub schema: Schema,
    /// What was seen in each column or field.
    pub columns: Vec<ColumnSeen>,
    /// Number of rows.
    pub rows: u64,
    /// Why parts of the schema are as they are, and what it leaves out.
    pub notes: Vec<String>,
}

/// Proposes a schema for a file, from its names and values.
///
/// - Cost: one pass. Memory: 256 values of each column.
///
/// # Errors
/// [`Error::File`] if the file cannot be read, or nothing in it looks like a choice or a reward.
pub fn guess(path: &Path) -> Result<Guess, Error> {
    let mut start = [0; 64];
    let got = crate::table::open(path)?.read(&mut start).map_err(|e| Error::file(path, 0, e.to_string()))?;
    let json = path.extension().is_some_and(|e| e == "json" || e == "jsonl" || e == "dsjson");
    if json || start[..got].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
        return dsjson::guess_dsjson(path);
    }
    let mut table = Table::open(path)?;
    if table.header().len() > MAX_COLUMNS {
        let reason = format!(
            "there are {} columns, and {MAX_COLUMNS} are looked at: write a schema",
            table.header().len()
        );
        return Err(Error::file(path, 1, reason));
    }
    let mut columns: Vec<ColumnSeen> = table.header().iter().map(|name| ColumnSeen::new(name)).collect();
    let (mut row, mut rows) = (Row::default(), 0);
    while table.read(&mut row)? {
        rows += 1;
        columns.iter_mut().zip(&row.cells).for_each(|(column, cell)| column.see(&Cell::parse(cell)));
    }
    if rows == 0 {
        return Err(Error::file(path, 1, "no rows follow the header"));
    }
    // A column without a name is a row number.
    columns.retain(|column| !column.name.is_empty());
    let mut guess = Guess { schema: Schema::default(), columns, rows, notes: Vec::new() };
    if !guess.wide() {
        guess.long(path)?;
    }
    guess.finish();
    Ok(guess)
}

impl Guess {
    /// The first name of `names` that a column has, in any case.
    fn named(&self, names: &[&str]) -> Option<String> {
        let find = |wanted: &&str| self.columns.iter().find(|c| c.name.eq_ignore_ascii_case(wanted));
        names.iter().find_map(find).map(|c| c.name.clone())
    }

    fn column(&self, name: &str) -> Option<&ColumnSeen> {
        self.columns.iter().find(|c| c.name == name)
    }

    /// Offers every column that has no other use: to candidates if it is in `varies`, else to the context.
    fn rest(&mut self, used: &BTreeSet<String>, varies: &BTreeSet<String>) {
        let s = &self.schema;
        let taken: BTreeSet<String> =
            [&s.chosen, &s.reward, &s.propensity, &s.user, &s.time, &s.candidate_column]
                .into_iter()
                .flatten()
                .chain(&s.round)
                .chain(used)
                .cloned()
                .collect();
        for column in self.columns.clone() {
            let row_number = ROW.iter().any(|name| column.name.eq_ignore_ascii_case(name));
            if !taken.contains(&column.name) && !row_number {
                self.offer(&column.name, &column, varies.contains(&column.name));
            }
        }
        // Names of candidates that are no fixed arms are features by their hash.
        if let Some(item) = self.schema.candidate_column.clone().filter(|_| self.schema.candidates.is_empty())
        {
            self.schema.candidate.insert(item, Encoding::Hash(8));
        }
    }

    fn offer(&mut self, name: &str, seen: &ColumnSeen, of_candidate: bool) {
        match seen.encoding() {
            Ok(encoding) => {
                let group = if of_candidate { &mut self.schema.candidate } else { &mut self.schema.context };
                group.insert(name.into(), encoding);
            }
            Err(reason) => self.notes.push(format!("{name} is left out: {reason}")),
        }
    }

    /// Products of the context with candidates are what tells candidates apart by it.
    fn finish(&mut self) {
        let features = &self.schema.candidate;
        let partner =
            features.keys().next().filter(|_| !self.schema.identity).map_or("candidate", String::as_str);
        if let Some(first) = self.schema.context.keys().next().filter(|_| self.schema.interactions.is_empty())
        {
            let pair = format!("[[{}, {}]]", toml_string(first), toml_string(partner));
            self.notes.push(format!(
                "These values are the same for all candidates, and change no choice by themselves. To use one, put it into [context] \
                 and multiply it with a feature of candidates: interactions = {pair}"
            ));
            let line =
                |(name, encoding): (&String, &Encoding)| format!("    {} = \"{encoding}\"", toml_key(name));
            self.notes.extend(self.schema.context.iter().map(line));
            self.schema.context.clear();
        }
        let missing = self.columns.iter().map(|c| c.missing).max().unwrap_or(0);
        if missing as f64 > 0.05 * self.rows as f64 {
            self.schema.missing = schema::Missing::Mean;
            self.notes.push(format!(
                "missing = \"mean\", because a column lacks {missing} of {} values",
                self.rows
            ));
        }
    }

    /// Proposes a projection if there are more features than keys carry: `wide` before it.
    pub fn project(&mut self, wide: usize) {
        if wide > KEY_FEATURES {
            let by = schema::ProjectionRule::Components;
            self.schema.project = Some(Projection { features: KEY_FEATURES, by, seed: 0 });
        }
    }
}
