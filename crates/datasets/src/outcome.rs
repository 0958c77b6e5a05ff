//! Columns whose values look as if they were known only after the outcome of a round.

use crate::source::Source;
use crate::{Error, Observed};
use schema::{Cell, Missing, Schema};
use serde::Serialize;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

/// The probability of a false alarm under the bound of [`after_outcome`], for all columns of a file together.
const FALSE_ALARM: f64 = 1e-6;
/// The least share of the rows of the other outcome that have another value: a column that is nearly always
/// the same is a rare category, and no measurement of the outcome.
const LEAST_SHARE: f64 = 0.1;
/// The most values of a column that are counted one by one.
const MOST_VALUES: usize = 1 << 12;
/// The most characters of a value that are shown.
const SHOWN: usize = 40;

/// A column that looks as if it were known only after the outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AfterOutcome {
    /// The name of the feature in the schema.
    pub name: String,
    /// What was counted.
    pub reason: String,
}

/// The features of `schema` that have one value (or none) in all rows of one outcome, and others in rows of
/// the other outcome alone, as the margin of a sale is 0 wherever nothing was sold. One outcome is reward 0,
/// or the lowest reward where none is 0; the other one is the rest. A row is a logged action, or a candidate
/// whose reward is known, and of features that candidates share a round, by its largest reward.
///
/// Bound: let p be the share of the rows that have the other outcome, and m the number of rows with another
/// value. If such a row had the other outcome with a probability of at most (1 + p)/2, half-way from p to
/// certainty, and rows were independent, all m would have it with a probability of at most ((1 + p)/2)^m. A
/// column is named where that is below 10⁻⁶, divided by twice the number of columns because both outcomes are
/// tried, and where m is a tenth of the rows of the other outcome or more.
///
/// Where the rewards of all candidates are known, a column of two values whose one never earns anything is
/// none of these: a candidate that is not available is never chosen.
///
/// Rows that `missing = "drop"` would drop count too: a column may be empty wherever the reward is 0.
///
/// # Errors
/// [`Error::File`] with line, column and value of what cannot be read.
pub fn after_outcome(path: &Path, schema: &Schema) -> Result<Vec<AfterOutcome>, Error> {
    let reading = Schema { missing: Missing::Mean, propensity: None, previous: false, ..schema.clone() };
    let range = schema.rewards();
    let group = |names: Vec<String>| Group::new(names, range);
    let mut own = group(schema.candidate.keys().cloned().collect());
    let mut shared = group(schema.context.keys().cloned().collect());
    let mut source = Source::open(path, &reading)?;
    let mut every = false;
    while let Some(round) = source.next_round()? {
        match &round.observed {
            Observed::Every(rewards) => {
                every = true;
                for (cells, reward) in round.candidates.iter().zip(rewards) {
                    own.see(cells, *reward);
                }
                shared.see(&round.context, rewards.iter().copied().fold(f64::NEG_INFINITY, f64::max));
            }
            Observed::Played { arm, reward, .. } => {
                own.see(&round.candidates[*arm], *reward);
                shared.see(&round.context, *reward);
            }
        }
    }
    let columns = own.names.len() + shared.names.len();
    Ok([own, shared].iter().flat_map(|group| group.found(columns, every)).collect())
}

impl AfterOutcome {
    /// What to do about a feature of a user's schema.
    pub fn warning(&self) -> String {
        format!(
            "warning: {}: {}. Leave it out of the schema, unless it is known when the choice is made",
            host::visible(&self.name),
            self.reason
        )
    }
}

/// Rows by outcome.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    /// Rows of reward 0.
    zero: u64,
    /// Rows of the lowest reward so far, as of `least`.
    lowest: u64,
    rows: u64,
    /// The number of the lowest reward that `lowest` counts.
    least: u64,
}

impl Counts {
    fn add(&mut self, zero: bool, lowest: bool, least: u64) {
        *self = self.as_of(least);
        self.rows += 1;
        self.zero += u64::from(zero);
        self.lowest += u64::from(lowest);
    }

    /// The counts when the lowest reward is the one of this number.
    fn as_of(self, least: u64) -> Counts {
        if self.least == least { self } else { Counts { lowest: 0, least, ..self } }
    }
}

/// Features of the same rows.
struct Group {
    names: Vec<String>,
    values: Vec<Values>,
    rows: Counts,
    lowest: f64,
    /// The least and the largest reward that is not 0.
    others: [f64; 2],
    /// The reward, from 0 to 1, that is 0 in the file.
    zero: f64,
    range: [f64; 2],
}

/// The values of a feature.
#[derive(Default)]
struct Values {
    of: HashMap<u64, (Cell, Counts)>,
    /// Rows with values that came once, which are not told apart any more.
    rare: Counts,
    /// Whether too many values come again.
    many: bool,
}

impl Group {
    fn new(names: Vec<String>, range: [f64; 2]) -> Self {
        let values = names.iter().map(|_| Values::default()).collect();
        let zero = (0.0 - range[0]) / (range[1] - range[0]);
        let others = [f64::INFINITY, f64::NEG_INFINITY];
        Group { names, values, rows: Counts::default(), lowest: f64::INFINITY, others, zero, range }
    }

    fn see(&mut self, cells: &[Cell], reward: f64) {
        let least = self.rows.least + u64::from(reward < self.lowest);
        self.lowest = self.lowest.min(reward);
        let (zero, lowest) = (reward == self.zero, reward == self.lowest);
        if !zero {
            self.others = [self.others[0].min(reward), self.others[1].max(reward)];
        }
        self.rows.add(zero, lowest, least);
        for (values, cell) in self.values.iter_mut().zip(cells) {
            values.see(cell, zero, lowest, least);
        }
    }

    fn found(&self, columns: usize, every: bool) -> Vec<AfterOutcome> {
        let zero = self.rows.zero > 0;
        let [low, high] = self.sides(self.rows, zero);
        if low == 0 || high == 0 {
            return Vec::new();
        }
        let shown = |reward: f64| {
            let number = self.range[0] + reward * (self.range[1] - self.range[0]);
            ((number * 1e9).round() / 1e9).to_string()
        };
        let words = match zero {
            true if self.others[0] == self.others[1] => {
                ["reward 0".to_string(), format!("reward {}", shown(self.others[0]))]
            }
            true => ["reward 0".to_string(), "a reward other than 0".to_string()],
            false => [
                format!("the lowest reward, {}", shown(self.lowest)),
                format!("a reward other than the lowest, {}", shown(self.lowest)),
            ],
        };
        let one = |(name, values): (&String, &Values)| {
            let reason = [0, 1].into_iter().find_map(|side| {
                let (value, others) = self.constant(values, zero, side, columns, every)?;
                let [rows, rest] = if side == 0 { [low, high] } else { [high, low] };
                Some(format!(
                    "known only after the outcome? it is {value} in all {rows} rows of {}, and {others} in the {rest} others",
                    words[side]
                ))
            });
            reason.map(|reason| AfterOutcome { name: name.clone(), reason })
        };
        self.names.iter().zip(&self.values).filter_map(one).collect()
    }

    /// Rows of reward 0 (or of the lowest reward), and the others.
    fn sides(&self, counts: Counts, zero: bool) -> [u64; 2] {
        let counts = counts.as_of(self.rows.least);
        let low = if zero { counts.zero } else { counts.lowest };
        [low, counts.rows - low]
    }

    /// The one value of the outcome `side`, and what the rows of the other outcome have, both in words, if it
    /// is not by chance.
    fn constant(
        &self,
        values: &Values,
        zero: bool,
        side: usize,
        columns: usize,
        every: bool,
    ) -> Option<(String, String)> {
        let of = |counts: Counts| self.sides(counts, zero);
        let [rows, rest] = [of(self.rows)[side], of(self.rows)[1 - side]];
        if values.many || of(values.rare)[side] > 0 {
            return None;
        }
        let (here, there): (Vec<_>, Vec<_>) =
            values.of.values().map(|(cell, counts)| (cell, of(*counts))).partition(|(_, of)| of[side] > 0);
        let mut named: Vec<String> = here.iter().map(|(cell, _)| shown(cell)).collect();
        named.sort();
        let value = match named.as_slice() {
            [value] => value.clone(),
            [a, b] if a == "0" && b == EMPTY => format!("{a} or {b}"),
            _ => return None,
        };
        if every && side == 1 && here.len() + there.len() == 2 && of(values.rare)[0] == 0 {
            return None;
        }
        let other = rest - here.iter().map(|(_, of)| of[1 - side]).sum::<u64>();
        let share = rest as f64 / (rows + rest) as f64;
        let chance = ((1.0 + share) / 2.0).powf(other as f64);
        if chance >= FALSE_ALARM / (2 * columns) as f64 || (other as f64) < LEAST_SHARE * rest as f64 {
            return None;
        }
        let others = match there.as_slice() {
            [(cell, counts)] if counts[1 - side] == rest => format!("is {}", shown(cell)),
            _ => "varies".into(),
        };
        Some((value, others))
    }
}

impl Values {
    fn see(&mut self, cell: &Cell, zero: bool, lowest: bool, least: u64) {
        if self.many {
            return;
        }
        let key = key(cell);
        if self.of.len() == MOST_VALUES && !self.of.contains_key(&key) {
            self.forget(least);
        }
        let (_, counts) = self.of.entry(key).or_insert_with(|| (kept(cell), Counts::default()));
        counts.add(zero, lowest, least);
    }

    /// Puts values that came once together. The one value of an outcome comes again.
    fn forget(&mut self, least: u64) {
        self.rare = self.rare.as_of(least);
        let rare = &mut self.rare;
        self.of.retain(|_, (_, counts)| {
            let counts = counts.as_of(least);
            if counts.rows == 1 {
                rare.rows += 1;
                rare.zero += counts.zero;
                rare.lowest += counts.lowest;
            }
            counts.rows > 1
        });
        self.many = 2 * self.of.len() > MOST_VALUES;
    }
}

/// The word for no value.
const EMPTY: &str = "empty";

fn shown(cell: &Cell) -> String {
    if cell.is_missing() { EMPTY.into() } else { host::visible(&cell.to_string()).to_string() }
}

/// The beginning of a value, to be shown.
fn kept(cell: &Cell) -> Cell {
    match cell {
        Cell::Text(text) if text.chars().count() > SHOWN => {
            Cell::Text(text.chars().take(SHOWN).chain(['…']).collect())
        }
        cell => cell.clone(),
    }
}

fn key(cell: &Cell) -> u64 {
    let mut hasher = DefaultHasher::new();
    match cell {
        Cell::Missing => 0u8.hash(&mut hasher),
        // Minus zero is zero.
        Cell::Number(number) => (1u8, (number + 0.0).to_bits()).hash(&mut hasher),
        Cell::Text(text) => (2u8, text).hash(&mut hasher),
    }
    hasher.finish()
}
