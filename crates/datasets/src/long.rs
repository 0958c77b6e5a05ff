//! Tables with a row for each candidate of a round.

use crate::source::{Columns, Observed, RawRound, Read, is_offered, propensity, reward};
use crate::table::{Row, Table};
use crate::{Error, MAX_NAMES, MAX_ROUND, Noted};
use schema::{Cell, MAX_CANDIDATES, NumberForm, Schema};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

pub(crate) struct LongRounds {
    path: PathBuf,
    table: Table,
    row: Row,
    /// Whether `row` holds a row that belongs to the next round.
    waiting: bool,
    arms: Vec<String>,
    candidate: Columns,
    context: Columns,
    own: Vec<usize>,
    shared: Vec<usize>,
    key: Vec<usize>,
    /// The number of rows of a round, where it ends one.
    rows: Option<usize>,
    named: Option<usize>,
    chosen: Option<usize>,
    /// How `chosen` writes a candidate, where it names it in every row.
    written: Option<String>,
    /// Column that is 0 in rows of candidates that are not offered.
    available: Option<usize>,
    reward: Option<usize>,
    range: [f64; 2],
    propensity: Option<usize>,
    /// How rewards and probabilities are written.
    forms: [NumberForm; 2],
    user: Option<usize>,
    time: Option<usize>,
    /// Hashes of the rounds read, to find rounds whose rows stand apart.
    seen: HashSet<u64>,
}

/// A row of the round that is being read.
struct Part {
    line: u64,
    cells: Vec<Cell>,
    name: String,
    chosen: bool,
    reward: Cell,
    propensity: Cell,
}

impl LongRounds {
    pub(crate) fn open(path: &Path, schema: &Schema) -> Result<Self, Error> {
        let table = Table::open_as(path, schema)?;
        let column = |name: &String| table.column(name);
        let maybe = |name: &Option<String>| name.as_ref().map(column).transpose();
        let key = match schema.round.is_empty() {
            false => schema.round.iter().map(column).collect::<Result<_, _>>()?,
            true => schema.user.iter().chain(&schema.time).map(column).collect::<Result<_, _>>()?,
        };
        let named = maybe(&schema.candidate_column)?;
        if named.is_none() && (schema.previous || !schema.candidates.is_empty()) {
            let reason =
                "the schema tells candidates apart by their names: name their column in candidate_column";
            return Err(Error::file(path, 1, reason));
        }
        Ok(LongRounds {
            own: schema.candidate.keys().map(column).collect::<Result<_, _>>()?,
            shared: schema.context.keys().map(column).collect::<Result<_, _>>()?,
            key,
            rows: schema.rows,
            named,
            chosen: maybe(&schema.chosen)?,
            written: schema.chosen_pattern.clone(),
            available: maybe(&schema.available)?,
            forms: [&schema.reward, &schema.propensity]
                .map(|name| schema.form(name.as_deref().unwrap_or_default())),
            reward: maybe(&schema.reward)?,
            range: schema.rewards(),
            propensity: maybe(&schema.propensity)?,
            user: maybe(&schema.user)?,
            time: maybe(&schema.time)?,
            candidate: Columns::new(&schema.candidate, schema),
            context: Columns::new(&schema.context, schema),
            arms: schema.candidates.clone(),
            path: path.into(),
            row: Row::default(),
            waiting: false,
            seen: HashSet::new(),
            table,
        })
    }

    pub(crate) fn notes(&self) -> Vec<Noted> {
        self.table.notes()
    }

    fn text(&self, column: usize) -> &str {
        self.row.cells[column].trim()
    }

    fn name(&self, column: usize) -> &str {
        &self.table.header()[column]
    }

    fn key(&self) -> Vec<String> {
        self.key.iter().map(|&column| self.text(column).to_string()).collect()
    }

    pub(crate) fn read(&mut self) -> Result<Read, Error> {
        if !self.waiting && !self.table.read(&mut self.row)? {
            return Ok(Read::End);
        }
        let (key, line) = (self.key(), self.row.line);
        if self.rows.is_none() {
            self.begin(&key)?;
        }
        let shared = |(at, &column): (usize, &usize)| self.context.cell(at, Cell::parse(self.text(column)));
        let context: Vec<Cell> = self.shared.iter().enumerate().map(shared).collect();
        let user = self.user.map(|column| self.text(column).to_string());
        let time = self.time.map(|column| Cell::parse(self.text(column)));
        let (mut parts, mut dropped, mut bytes, mut rows) = (Vec::new(), None, 0, 0);
        for (at, (cell, &column)) in context.iter().zip(&self.shared).enumerate() {
            let reason = self.context.check(&self.path, line, (at, self.name(column)), cell)?;
            dropped = dropped.or(reason);
        }
        loop {
            if parts.len() == MAX_CANDIDATES {
                let reason =
                    format!("the round has more than {MAX_CANDIDATES} rows: name more columns in `round`");
                return Err(Error::file(&self.path, self.row.line, reason));
            }
            // A value that a Parquet file has once may stand in every row.
            bytes += self.row.cells.as_slice().len();
            if bytes > MAX_ROUND {
                let reason =
                    format!("the rows of the round have more than {MAX_ROUND} bytes: shorten their texts");
                return Err(Error::file(&self.path, self.row.line, reason));
            }
            for (at, (cell, &column)) in context.iter().zip(&self.shared).enumerate() {
                if self.context.cell(at, Cell::parse(self.text(column))) != *cell {
                    let reason = format!(
                        "the rows of the round that begins in line {line} differ in it: move it from [context] to [candidate]"
                    );
                    let (line, text) = (self.row.line, self.text(column));
                    return Err(Error::cell(&self.path, line, self.name(column), text, reason));
                }
            }
            if self.is_offered()? {
                let (part, reason) = self.part()?;
                parts.push(part);
                dropped = dropped.or(reason);
            }
            rows += 1;
            self.waiting = self.table.read(&mut self.row)?;
            if let (Some(_), Some((line, reason))) = (self.rows, self.table.left_out()) {
                let reason = format!(
                    "{reason}; rounds are told apart by the number of their `rows`, so that none may be left out"
                );
                return Err(Error::file(&self.path, line, reason));
            }
            if !self.waiting || self.rows == Some(rows) || self.key() != key {
                break;
            }
        }
        if let Some(want) = self.rows.filter(|want| *want != rows) {
            dropped = Some(format!("the round has {rows} rows, and a round has {want}"));
        }
        if let Some(reason) = dropped {
            return Ok(Read::Dropped { line, reason });
        }
        self.round(
            line,
            parts,
            RawRound {
                line,
                user,
                time,
                context,
                candidates: Vec::new(),
                names: Vec::new(),
                chosen: None,
                observed: Observed::Every(Vec::new()),
                probabilities: None,
                previous: None,
            },
        )
    }

    fn is_offered(&self) -> Result<bool, Error> {
        let of = |column| is_offered(&self.path, self.row.line, self.name(column), self.text(column));
        self.available.map_or(Ok(true), of)
    }

    /// Refuses a round whose rows have ended before.
    fn begin(&mut self, key: &[String]) -> Result<(), Error> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        if self.seen.len() < MAX_NAMES && !self.seen.insert(hasher.finish()) {
            let names: Vec<&str> = self.key.iter().map(|&column| self.name(column)).collect();
            let names = names.join(", ");
            let reason = format!(
                "rows of this round stand apart: sort the file by {names}, or name in `round` the columns that tell rounds apart"
            );
            return Err(Error::cell(&self.path, self.row.line, &names, &key.join(", "), reason));
        }
        Ok(())
    }

    fn part(&self) -> Result<(Part, Option<String>), Error> {
        let line = self.row.line;
        let value = |column: &Option<usize>| column.map_or(Cell::Missing, |c| Cell::parse(self.text(c)));
        let (mut cells, mut dropped) = (Vec::with_capacity(self.own.len()), None);
        for (at, &column) in self.own.iter().enumerate() {
            let cell = self.candidate.cell(at, Cell::parse(self.text(column)));
            let reason = self.candidate.check(&self.path, line, (at, self.name(column)), &cell)?;
            dropped = dropped.or(reason);
            cells.push(cell);
        }
        let name = self.named.map_or(String::new(), |column| self.text(column).to_string());
        let chosen = match self.chosen {
            None => false,
            Some(column) if self.written.is_some() => self
                .written
                .as_ref()
                .is_some_and(|written| written.replace("{candidate}", &name) == self.text(column)),
            Some(column) => {
                let cell = Cell::parse(self.text(column));
                match cell.number().or_else(|| cell.truth()) {
                    Some(1.0) => true,
                    Some(0.0) => false,
                    _ if cell.is_missing() => false,
                    _ => {
                        let reason =
                            "it must be 1 in the row of the candidate that was chosen, and 0 in the others";
                        let text = self.text(column);
                        return Err(Error::cell(&self.path, line, self.name(column), text, reason));
                    }
                }
            }
        };
        let [reward, propensity] = [(&self.reward, &self.forms[0]), (&self.propensity, &self.forms[1])]
            .map(|(c, form)| form.read(value(c)));
        Ok((Part { line, cells, name, chosen, reward, propensity }, dropped))
    }

    fn round(&self, line: u64, mut parts: Vec<Part>, empty: RawRound) -> Result<Read, Error> {
        let path = &self.path;
        let drop = |reason: &str| Ok(Read::Dropped { line, reason: reason.into() });
        if !self.arms.is_empty() {
            let mut sorted: Vec<Option<Part>> = self.arms.iter().map(|_| None).collect();
            for part in parts {
                let Some(arm) = self.arms.iter().position(|arm| *arm == part.name) else {
                    return drop(
                        "`candidates` does not list a candidate of the round: add it, or delete its row",
                    );
                };
                if sorted[arm].is_some() {
                    return drop(
                        "a candidate stands twice in the round: mend it, or name more columns in `round`",
                    );
                }
                sorted[arm] = Some(part);
            }
            let Some(whole) = sorted.into_iter().collect::<Option<Vec<Part>>>() else {
                return drop(match self.available {
                    None => "a candidate of `candidates` has no row",
                    Some(_) => "a candidate of `candidates` has no row, or is not available",
                });
            };
            parts = whole;
        }
        let mut chosen = parts.iter().enumerate().filter(|(_, part)| part.chosen);
        let (first, second) = (chosen.next(), chosen.next());
        if second.is_some() {
            return drop(
                "two candidates are chosen in the round: mend one of them, or name more columns in `round`",
            );
        }
        let chosen = first.map(|(arm, _)| arm);
        let named = |column: Option<usize>| column.map_or("", |c| self.name(c));
        let observed = match (self.reward, self.chosen, chosen) {
            (_, Some(_), None) => return drop("no candidate was chosen"),
            (None, ..) => Observed::Every(parts.iter().map(|part| f64::from(part.chosen)).collect()),
            (Some(_), Some(_), Some(arm)) => {
                let part = &parts[arm];
                if part.reward.is_missing() {
                    return drop("the reward has no value");
                }
                let reward = reward(path, part.line, named(self.reward), &part.reward, self.range)?;
                let probability = |_| propensity(path, part.line, named(self.propensity), &part.propensity);
                Observed::Played { arm, reward, propensity: self.propensity.map(probability).transpose()? }
            }
            (Some(_), None, _) => {
                let mut rewards = Vec::with_capacity(parts.len());
                for part in &parts {
                    if part.reward.is_missing() {
                        return drop("the reward of a candidate has no value");
                    }
                    rewards.push(reward(path, part.line, named(self.reward), &part.reward, self.range)?);
                }
                Observed::Every(rewards)
            }
        };
        let probabilities = sum_of_probabilities(&parts);
        let names = if self.arms.is_empty() && self.named.is_some() {
            parts.iter().map(|part| part.name.clone()).collect()
        } else {
            Vec::new()
        };
        let candidates = parts.into_iter().map(|part| part.cells).collect();
        Ok(Read::Round(Box::new(RawRound { candidates, names, chosen, observed, probabilities, ..empty })))
    }
}

/// The sum of the probabilities of all rows. `None` if a row has none, or all have the same, which may be
/// that of the logged action in each row: unless they add up to 1.
fn sum_of_probabilities(parts: &[Part]) -> Option<f64> {
    let all: Vec<f64> = parts.iter().map(|part| part.propensity.number()).collect::<Option<_>>()?;
    let sum = all.iter().sum::<f64>();
    let differ = all.iter().any(|p| *p != all[0]);
    (differ || (sum - 1.0).abs() < 1e-6).then_some(sum)
}
