//! A first schema for a file that has none.
//!
//! A file has rival readings: a row is a choice among all candidates, the log of one action, or a candidate
//! of a round. Each reading that could be meant is weighed on the values of the file, with names of columns
//! as weak evidence, and the one with the most evidence is proposed, if no other is close.

mod column;
mod draft;
mod dsjson;
mod grid;
mod logged;
mod long;
mod names;
mod reading;
mod sample;
mod schema_file;
mod wide;

use crate::check::shown;
use crate::input::begins_with_brace;
use crate::source::without_value;
use crate::table::Table;
use crate::{AfterOutcome, Dropped, Error, Prepared, after_outcome};
pub use column::ColumnSeen;
use column::FEW;
use draft::Draft;
use grid::NameGrid;
use names::{CHOSEN, PROPENSITY, REWARD, TIME, USER, likeness};
use reading::Reading;
use sample::Sample;
use schema::{Cell, Projection, Schema};
use std::collections::BTreeSet;
use std::path::Path;

/// The most features that keys of encrypted bandits carry.
const KEY_FEATURES: usize = 16;
/// The most arms that they carry.
const KEY_ARMS: usize = 64;
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

/// The columns of a table, and its first rows.
struct Seen {
    columns: Vec<ColumnSeen>,
    rows: u64,
    sample: Sample,
}

/// Proposes a schema for a file, from its names and values. A schema that is proposed reads the file.
///
/// - Cost: four passes. Memory: 256 values of each column, and the first rows up to 16 million cells.
///
/// # Errors
/// [`Error::File`] if the file cannot be read, nothing in it looks like a choice or a reward, or two readings
/// of it are about equally likely.
pub fn guess(path: &Path) -> Result<Guess, Error> {
    let json = path.extension().is_some_and(|e| e == "json" || e == "jsonl" || e == "dsjson");
    let mut guess =
        if json || begins_with_brace(path)? { dsjson::guess_dsjson(path)? } else { guess_table(path)? };
    // What is proposed is never refused afterwards.
    let prepared = Prepared::fit(path, &guess.schema)?;
    guess.notes.extend(dropping(&prepared));
    Ok(guess)
}

/// What `missing = "drop"`, which is the default, costs.
fn dropping(prepared: &Prepared) -> Option<String> {
    let features = || prepared.columns().iter().map(|column| column.name.as_str());
    let lacking: Vec<&Dropped> = prepared
        .dropped()
        .iter()
        .filter(|dropped| features().any(|name| dropped.reason == without_value(name)))
        .collect();
    let [rounds, others] = [&lacking[..], &prepared.dropped().iter().collect::<Vec<_>>()[..]]
        .map(|dropped| dropped.iter().map(|d| d.rounds).sum::<u64>());
    let all = prepared.rounds() + others;
    let of = |d: &&Dropped| format!("{} in {} (first in line {})", d.reason, d.rounds, d.first_line);
    let named: Vec<String> = lacking.iter().map(of).collect();
    (!lacking.is_empty()).then(|| {
        format!(
            "missing = \"drop\", the default, drops {rounds} of {all} rounds ({:.1} %): {}. With missing = \"mean\" they stay, and the \
             mean of the column takes the place of the value",
            100.0 * rounds as f64 / all as f64,
            shown(&named)
        )
    })
}

fn guess_table(path: &Path) -> Result<Guess, Error> {
    let table = Table::open(path)?;
    table.require_header()?;
    let header = table.header().to_vec();
    if header.len() > MAX_COLUMNS {
        let reason =
            format!("there are {} columns, and {MAX_COLUMNS} are looked at: write a schema", header.len());
        return Err(Error::file(path, 1, reason));
    }
    let mut columns: Vec<ColumnSeen> = header.iter().map(|name| ColumnSeen::new(name)).collect();
    let (sample, rows) = Sample::read(path, |row| {
        columns
            .iter_mut()
            .zip(&row.cells)
            .for_each(|(column, cell)| column.see(row.line, &Cell::parse(cell)));
    })?;
    if rows == 0 {
        return Err(Error::file(path, 1, "no rows follow the header"));
    }
    if columns.iter().any(ColumnSeen::has_comma) {
        columns.iter_mut().for_each(ColumnSeen::stands_beside_comma);
    }
    // A column without a name is a row number.
    columns.retain(|column| !column.name.is_empty());
    let mut seen = Seen { columns, rows, sample };
    let mut best = seen.best(path)?;
    let offered = best.offered();
    // Features that a note alone names may not be read behind the first rows, which does not matter.
    let after = after_outcome(path, &offered).or_else(|_| after_outcome(path, &best.schema))?;
    if !after.is_empty() {
        let pattern = offered.pattern.clone().unwrap_or_default();
        for AfterOutcome { name, reason } in &after {
            let of = |arm: &String| pattern.replace("{feature}", name).replace("{candidate}", arm);
            let of_candidates: Vec<String> = offered.candidates.iter().map(of).collect();
            let columns = seen.columns.iter_mut();
            columns
                .filter(|column| column.name == *name || of_candidates.contains(&column.name))
                .for_each(|column| column.doubt(reason));
        }
        best = seen.best(path)?;
    }
    let Draft { schema, notes, .. } = best;
    Ok(Guess { schema, columns: seen.columns, rows, notes })
}

impl Seen {
    /// The draft of the reading with the most evidence.
    fn best(&self, path: &Path) -> Result<Draft, Error> {
        let mut readings = self.wide_readings();
        readings.extend(self.long_readings());
        Reading::best(readings).map_err(|reason| {
            let (line, reason) = match reason {
                Some(reason) => (0, reason),
                None => (1, self.no_reading()),
            };
            Error::file(path, line, reason)
        })
    }

    /// The first name of `names` that a column has, in any case and with any separators.
    fn named(&self, names: &[&str]) -> Option<&ColumnSeen> {
        names.iter().find_map(|name| self.columns.iter().find(|column| likeness(&column.name, &[name]) == 2))
    }

    fn column(&self, name: &str) -> Option<&ColumnSeen> {
        self.columns.iter().find(|column| column.name == name)
    }

    fn name(column: &ColumnSeen) -> String {
        column.name.clone()
    }

    /// The column of the user, who comes again: one with another value in each row names rows.
    fn user(&self) -> Option<String> {
        let again = |column: &&ColumnSeen| (column.count() as u64) < self.rows && !column.is_constant();
        let named =
            USER.iter().filter_map(|name| self.columns.iter().find(|c| likeness(&c.name, &[name]) == 2));
        named.into_iter().find(again).map(Self::name)
    }

    /// The column of the time: by its name, else the one that holds dates.
    fn time(&self) -> Option<String> {
        let fits = |column: &&ColumnSeen| column.is_time() || column.texts() == 0;
        let dates = || {
            let mut dates = self.columns.iter().filter(|column| column.is_time());
            dates.next().filter(|_| dates.next().is_none())
        };
        self.named(TIME).filter(fits).or_else(dates).map(Self::name)
    }

    /// The column of the probabilities of logged actions: by its name, with numbers above 0 and up to 1.
    /// Notes say why one with the name is none.
    fn propensity(&self) -> (Option<&ColumnSeen>, Option<String>) {
        let word = || self.columns.iter().find(|column| likeness(&column.name, PROPENSITY) == 1);
        let Some(column) = self.named(PROPENSITY).or_else(word) else { return (None, None) };
        let good = |x: &Option<f64>| x.is_some_and(|x| x > 0.0 && x <= 1.0);
        let numbers = self.sample.numbers(&column.name, column.has_comma());
        let bad = numbers.iter().position(|x| !good(x));
        let [least, most] = column.range();
        if bad.is_none() && column.missing == 0 && column.texts() == 0 && least > 0.0 && most <= 1.0 {
            return (Some(column), None);
        }
        let place = bad.map_or(String::new(), |row| {
            let text = self.sample.texts(&column.name).nth(row).unwrap_or_default();
            format!(" (line {}: {text:?})", self.sample.lines[row])
        });
        let note = format!(
            "{} is no probability of the actions: one is above 0 and at most 1 in every row{place}",
            column.name
        );
        (None, Some(note))
    }

    /// Why no reading has enough evidence, and what the user may know.
    fn no_reading(&self) -> String {
        let names: Vec<String> = self.columns.iter().map(Self::name).collect();
        if let Some(reason) = self.no_rounds() {
            return reason;
        }
        let mut reason = match self.named(REWARD) {
            None => format!(
                "no column looks like a choice ({}) or a reward ({}); the columns are {}",
                CHOSEN[..3].join(", "),
                REWARD[..3].join(", "),
                shown(&names)
            ),
            Some(reward) => format!(
                "{} looks like a reward, and no column looks like the item that was shown, or groups rows to rounds; the columns are {}",
                reward.name,
                shown(&names)
            ),
        };
        let inside: BTreeSet<String> = NameGrid::all(self).iter().flat_map(NameGrid::columns).collect();
        let small = |column: &&ColumnSeen| {
            let [least, most] = column.range();
            let whole = column.is_whole() && (0.0..=1.0).contains(&least) && (2.0..=64.0).contains(&most);
            !column.is_binary() && whole && !inside.contains(&column.name)
        };
        let small: Vec<String> = self.columns.iter().filter(small).map(Self::name).collect();
        if !small.is_empty() {
            reason.push_str(&format!(
                ". Small whole numbers, which may be counts or numbers of candidates, are in {}: if one is the choice, name it as `chosen`",
                shown(&small)
            ));
        }
        let few = |column: &&ColumnSeen| {
            column.values > 0
                && column.texts() == column.values
                && (2..=FEW).contains(&column.count())
                && !column.is_binary()
        };
        let few: Vec<String> = self.columns.iter().filter(few).map(Self::name).collect();
        if !few.is_empty() {
            reason.push_str(&format!(
                ". Texts with few values are in {}: if one is the action that was logged, name it as `chosen`, and its reward as `reward`",
                shown(&few)
            ));
        }
        if let (Some(propensity), _) = self.propensity() {
            reason.push_str(&format!(
                ". {} may be the probability of a logged action: name its column as `chosen`, and that of its reward as `reward`",
                propensity.name
            ));
        }
        reason + ". Write a schema by docs/data.md"
    }
}

impl Seen {
    /// Why a column that marks chosen rows makes no rounds.
    fn no_rounds(&self) -> Option<String> {
        let chosen = self.columns.iter().find(|c| likeness(&c.name, CHOSEN) > 0 && c.is_binary())?;
        Some(format!(
            "{} marks rows that were chosen, and no columns are shared by the rows of a round, of which one is: name them as `round`. If a \
             row is a round whose item and reward were logged, name the columns `chosen` and `reward`. docs/data.md has every entry",
            chosen.name
        ))
    }
}

impl Guess {
    /// Proposes a projection if there are more features than keys carry: `wide` before it.
    pub fn project(&mut self, wide: usize) {
        if wide > KEY_FEATURES {
            let by = schema::ProjectionRule::Components;
            self.schema.project = Some(Projection { features: KEY_FEATURES, by, seed: 0 });
        }
    }
}
