//! Tables with a row for each round.

use crate::join::{OfCandidate, of_candidates};
use crate::source::{Columns, Observed, RawRound, Read, is_offered, propensity, reward};
use crate::table::{Row, Table};
use crate::{Error, Noted};
use schema::{Cell, NumberForm, Schema};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

const PATTERN: &str = "{feature}.{candidate}";

pub(crate) struct WideRounds {
    path: PathBuf,
    table: Table,
    row: Row,
    arms: Vec<String>,
    candidate: Columns,
    context: Columns,
    /// Where the candidate's features are, arm by arm.
    cells: Vec<Vec<Place>>,
    shared: Vec<usize>,
    /// Column of the choice, and how it writes each arm.
    chosen: Option<(usize, Vec<String>)>,
    /// The column of each arm that is 0 where it is not offered.
    available: Vec<usize>,
    /// Whether the choice is a code.
    coded: bool,
    rewards: Rewards,
    range: [f64; 2],
    propensity: Option<Propensities>,
    /// How rewards and probabilities are written.
    forms: [NumberForm; 2],
    user: Option<usize>,
    time: Option<usize>,
}

/// The probability of the logged action, or those of all candidates.
enum Propensities {
    Logged(usize),
    Every(Vec<usize>),
}

/// Where a feature of a candidate is.
enum Place {
    /// In a column.
    Column(usize),
    /// In a table of candidates, so that it is the same in all rounds.
    Fixed(Cell),
}

enum Rewards {
    Choice,
    Every(Vec<usize>),
    Logged(usize),
}

impl WideRounds {
    pub(crate) fn open(path: &Path, schema: &Schema) -> Result<Self, Error> {
        let table = Table::open_as(path, schema)?;
        let pattern = schema.pattern.as_deref().unwrap_or(PATTERN);
        let of = |feature: &str, arm: &str| pattern.replace("{feature}", feature).replace("{candidate}", arm);
        let every = schema.reward.as_ref().filter(|r| r.contains("{candidate}"));
        let arms = match schema.candidates.is_empty() {
            false => schema.candidates.clone(),
            true => {
                let mut patterns: Vec<String> = schema
                    .candidate
                    .keys()
                    .filter(|f| !is_of_candidates(schema, f))
                    .map(|f| pattern.replace("{feature}", f))
                    .collect();
                patterns.extend(every.cloned());
                found(path, &table, &patterns)?
            }
        };
        let column = |name: &String| table.column(name);
        let values = of_candidates(schema, &arms)?;
        let place = |(arm, values): (&String, &OfCandidate), feature: &String| match values.get(feature) {
            Some(value) => Ok(Place::Fixed(Cell::parse(value))),
            None => column(&of(feature, arm)).map(Place::Column),
        };
        let of_arm = |one| schema.candidate.keys().map(|feature| place(one, feature)).collect();
        let cells = arms.iter().zip(&values).map(of_arm);
        let rewards = match (&schema.reward, every) {
            (None, _) => Rewards::Choice,
            (_, Some(reward)) => Rewards::Every(
                arms.iter()
                    .map(|arm| column(&reward.replace("{candidate}", arm)))
                    .collect::<Result<_, _>>()?,
            ),
            (Some(reward), None) => Rewards::Logged(column(reward)?),
        };
        let written = schema.chosen_pattern.as_deref().unwrap_or("{candidate}");
        let written: Vec<String> = match schema.codes.is_empty() {
            true => arms.iter().map(|arm| written.replace("{candidate}", arm)).collect(),
            false => schema.codes.clone(),
        };
        let of_arms = |pattern: &String| {
            arms.iter().map(|arm| column(&pattern.replace("{candidate}", arm))).collect::<Result<Vec<_>, _>>()
        };
        let available = schema.available.as_ref().map(of_arms).transpose()?.unwrap_or_default();
        let chosen = schema.chosen.as_ref().map(|name| Ok((column(name)?, written))).transpose()?;
        if matches!(rewards, Rewards::Logged(_)) && chosen.is_none() {
            let reason = "the reward is that of one action: name its column in `chosen`";
            return Err(Error::column(path, 1, schema.reward.as_deref().unwrap_or_default(), reason));
        }
        let propensities = |name: &String| -> Result<Propensities, Error> {
            let of = |arm: &String| column(&name.replace("{candidate}", arm));
            Ok(match name.contains("{candidate}") {
                true => Propensities::Every(arms.iter().map(of).collect::<Result<_, _>>()?),
                false => Propensities::Logged(column(name)?),
            })
        };
        Ok(WideRounds {
            cells: cells.collect::<Result<_, _>>()?,
            shared: schema.context.keys().map(column).collect::<Result<_, _>>()?,
            chosen,
            available,
            coded: !schema.codes.is_empty(),
            rewards,
            range: schema.rewards(),
            propensity: schema.propensity.as_ref().map(propensities).transpose()?,
            forms: [&schema.reward, &schema.propensity]
                .map(|name| schema.form(name.as_deref().unwrap_or_default())),
            user: schema.user.as_ref().map(column).transpose()?,
            time: schema.time.as_ref().map(column).transpose()?,
            candidate: Columns::new(&schema.candidate, schema),
            context: Columns::new(&schema.context, schema),
            path: path.into(),
            row: Row::default(),
            table,
            arms,
        })
    }

    pub(crate) fn arms(&self) -> &[String] {
        &self.arms
    }

    pub(crate) fn notes(&self) -> Vec<Noted> {
        self.table.notes()
    }

    pub(crate) fn read(&mut self) -> Result<Read, Error> {
        if !self.table.read(&mut self.row)? {
            return Ok(Read::End);
        }
        let Row { line, cells } = &self.row;
        let (line, path) = (*line, &self.path);
        let drop = |reason: String| Ok(Read::Dropped { line, reason });
        let name = |column: usize| self.table.header()[column].as_str();
        let mut context = Vec::with_capacity(self.shared.len());
        for (at, &column) in self.shared.iter().enumerate() {
            let cell = self.context.cell(at, Cell::parse(&cells[column]));
            if let Some(reason) = self.context.check(path, line, (at, name(column)), &cell)? {
                return drop(reason);
            }
            context.push(cell);
        }
        for (arm, &column) in self.arms.iter().zip(&self.available) {
            if !is_offered(path, line, name(column), &cells[column])? {
                return drop(format!("{arm} is not available"));
            }
        }
        let mut candidates = Vec::with_capacity(self.arms.len());
        for columns in &self.cells {
            let mut own = Vec::with_capacity(columns.len());
            for (at, place) in columns.iter().enumerate() {
                let (cell, of) = match place {
                    Place::Column(column) => (Cell::parse(&cells[*column]), name(*column)),
                    Place::Fixed(cell) => (cell.clone(), self.candidate.names[at].as_str()),
                };
                let cell = self.candidate.cell(at, cell);
                if let Some(reason) = self.candidate.check(path, line, (at, of), &cell)? {
                    return drop(reason);
                }
                own.push(cell);
            }
            candidates.push(own);
        }
        let chosen = match &self.chosen {
            None => None,
            Some((column, written)) => {
                let cell = cells[*column].trim();
                let arm = written.iter().position(|w| w == cell);
                // Where candidates have codes from 1, the code of none is 0.
                let none = Cell::parse(cell).is_missing() || (self.coded && cell == "0");
                if arm.is_none() && none {
                    return drop("no candidate was chosen".into());
                }
                let arm = arm.ok_or_else(|| {
                    let known = written.iter().take(10).cloned().collect::<Vec<_>>().join(", ");
                    let reason = format!(
                        "this is none of the candidates {known}: list it in `candidates`, or set chosen_pattern or codes, or mend the \
                         cell"
                    );
                    Error::cell(path, line, name(*column), cell, reason)
                })?;
                Some(arm)
            }
        };
        let value = |column: usize| Cell::parse(&cells[column]);
        let observed = match (&self.rewards, chosen) {
            (Rewards::Every(columns), _) => {
                let mut rewards = Vec::with_capacity(columns.len());
                for &column in columns {
                    let cell = self.forms[0].read(value(column));
                    if cell.is_missing() {
                        return drop("the reward of a candidate has no value".into());
                    }
                    rewards.push(reward(path, line, name(column), &cell, self.range)?);
                }
                Observed::Every(rewards)
            }
            (Rewards::Logged(column), Some(arm)) => {
                let cell = self.forms[0].read(value(*column));
                if cell.is_missing() {
                    return drop("the reward has no value".into());
                }
                let reward = reward(path, line, name(*column), &cell, self.range)?;
                let probability = |known: &Propensities| {
                    let column = match known {
                        Propensities::Logged(column) => *column,
                        Propensities::Every(columns) => columns[arm],
                    };
                    propensity(path, line, name(column), &self.forms[1].read(value(column)))
                };
                Observed::Played {
                    arm,
                    reward,
                    propensity: self.propensity.as_ref().map(probability).transpose()?,
                }
            }
            (Rewards::Choice, Some(arm)) => {
                Observed::Every((0..self.arms.len()).map(|a| f64::from(a == arm)).collect())
            }
            (_, None) => return drop("no candidate was chosen".into()),
        };
        let probabilities = match &self.propensity {
            Some(Propensities::Every(columns)) => {
                columns.iter().map(|&column| self.forms[1].read(value(column)).number()).sum()
            }
            _ => None,
        };
        Ok(Read::Round(Box::new(RawRound {
            line,
            user: self.user.map(|column| cells[column].trim().to_string()),
            time: self.time.map(value),
            context,
            candidates,
            names: Vec::new(),
            chosen,
            observed,
            probabilities,
            previous: None,
        })))
    }
}

/// Whether a feature is a column of a table of candidates.
fn is_of_candidates(schema: &Schema, feature: &str) -> bool {
    let named = |name: &str| feature.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    schema.tables.iter().any(|(name, table)| table.is_of_candidates() && named(name))
}

/// The candidates for which every one of `patterns` has a column, in the order of the first pattern's.
fn found(path: &Path, table: &Table, patterns: &[String]) -> Result<Vec<String>, Error> {
    let of = |pattern: &String| -> Vec<String> {
        let (before, after) = pattern.split_once("{candidate}").unwrap_or((pattern, ""));
        let between = |name: &String| {
            let arm = name.strip_prefix(before)?.strip_suffix(after)?;
            (!arm.is_empty()).then(|| arm.to_string())
        };
        table.header().iter().filter_map(between).collect()
    };
    let Some(first) = patterns.first() else {
        let reason = "no column is named after candidates: list their names in `candidates`";
        return Err(Error::file(path, 1, reason));
    };
    let others: Vec<HashSet<String>> = patterns[1..].iter().map(|p| of(p).into_iter().collect()).collect();
    let arms: Vec<String> =
        of(first).into_iter().filter(|arm| others.iter().all(|have| have.contains(arm))).collect();
    if arms.len() < 2 {
        let reason = format!(
            "{} candidates have a column for each of {}, and 2 are needed: mend `pattern`, or list the names in `candidates`",
            arms.len(),
            patterns.join(", ")
        );
        return Err(Error::file(path, 1, reason));
    }
    Ok(arms)
}
