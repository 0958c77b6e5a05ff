//! Recorded rewards: a log of (t, arm, reward).

use super::{MAX_ARMS, check_arms, field};
use crate::Error;
use crate::error::{csv_error, refused};
use fault::require;
use std::collections::HashSet;
use std::io::Read;

/// The totals of every arm in every slot. Totals that are not recorded are 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    arms: usize,
    /// Arm and total, slot by slot.
    entries: Vec<(u32, f64)>,
    /// The number of entries up to the end of each slot.
    ends: Vec<usize>,
}

impl Record {
    /// The record with these rows: one for each slot, with the total of each arm.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if there is no slot, there are no arms or more than [`MAX_ARMS`], or a total is
    /// not in [0, 1]; [`Error::Rows`] if rows differ in length.
    pub fn new(rows: &[Vec<f64>]) -> Result<Self, Error> {
        require(!rows.is_empty(), "slots", 0, "at least 1")?;
        let arms = rows[0].len();
        check_arms(arms)?;
        let mut record = Self { arms, entries: Vec::new(), ends: Vec::with_capacity(rows.len()) };
        for row in rows {
            if row.len() != arms {
                return Err(Error::Rows { values: row.len(), d: arms });
            }
            for (arm, &reward) in (0u32..).zip(row) {
                field((0.0..=1.0).contains(&reward), "reward", reward, "in [0, 1]")?;
                if reward > 0.0 {
                    record.entries.push((arm, reward));
                }
            }
            record.ends.push(record.entries.len());
        }
        Ok(record)
    }

    /// Reads comma-separated values with a header that names the columns `t`, `arm` and `reward`. Other
    /// columns are ignored.
    ///
    /// `t` is 1 in the first row, and in each further row equal to that of the row before or larger by 1, so
    /// that a gap in the file is found. A slot in which no arm earns anything has a row of reward 0. `arm`
    /// counts from 0, `reward` is in [0, 1], and an arm occurs at most once in a slot.
    ///
    /// # Errors
    /// [`Error::File`] with the line if a column is missing, no rows follow the header, a cell is not a
    /// number, or a value is not in the range above.
    pub fn read(reader: impl Read) -> Result<Self, Error> {
        let mut csv = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(reader);
        let header = csv.headers().map_err(csv_error)?.clone();
        let column = |name: &str| {
            let at = header.iter().position(|h| h == name);
            at.ok_or_else(|| refused(1, format!("column {name} is missing")))
        };
        let (t, arm, reward) = (column("t")?, column("arm")?, column("reward")?);
        let mut record = Self { arms: 0, entries: Vec::new(), ends: Vec::new() };
        let mut arms_of_slot = HashSet::new();
        for row in csv.records() {
            let row = row.map_err(csv_error)?;
            let line = row.position().map_or(0, csv::Position::line);
            let not_a = |what: &str, column: usize| {
                refused(line, format!("column {} is {:?}, not {what}", &header[column], &row[column]))
            };
            let slot: usize = row[t].parse().map_err(|_| not_a("a whole number", t))?;
            let arm: usize = row[arm].parse().map_err(|_| not_a("a whole number from 0 on", arm))?;
            let reward: f64 = row[reward].parse().map_err(|_| not_a("a number", reward))?;
            let require = |holds: bool, field, got: f64, want: String| {
                require(holds, field, got, want).map_err(|e| refused(line, e.to_string()))
            };
            require(arm < MAX_ARMS, "arm", arm as f64, format!("below {MAX_ARMS}"))?;
            require((0.0..=1.0).contains(&reward), "reward", reward, "in [0, 1]".into())?;
            let slots = record.ends.len();
            if slot == slots + 1 {
                record.ends.push(record.entries.len());
                arms_of_slot.clear();
            } else {
                let next = if slots == 0 { "1".into() } else { format!("{slots} or {}", slots + 1) };
                require(slot == slots && slots > 0, "t", slot as f64, next)?;
            }
            if !arms_of_slot.insert(arm) {
                return Err(refused(line, format!("arm {arm} occurs twice in slot {slot}")));
            }
            record.arms = record.arms.max(arm + 1);
            if reward > 0.0 {
                record.entries.push((arm as u32, reward));
            }
            if let Some(end) = record.ends.last_mut() {
                *end = record.entries.len();
            }
        }
        if record.ends.is_empty() {
            Err(refused(1, "no rewards follow the header".into()))
        } else {
            Ok(record)
        }
    }

    /// Number of arms.
    pub fn arms(&self) -> usize {
        self.arms
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.ends.len()
    }

    /// The sum of the totals of each arm over all slots.
    pub fn totals(&self) -> Vec<f64> {
        let mut totals = vec![0.0; self.arms];
        self.entries.iter().for_each(|&(arm, reward)| totals[arm as usize] += reward);
        totals
    }

    /// Writes the totals of slot `t`, from 0. False after the last slot.
    pub(super) fn slot(&self, t: u64, totals: &mut [f64]) -> bool {
        let Some(t) = usize::try_from(t).ok().filter(|t| *t < self.ends.len()) else { return false };
        let start = t.checked_sub(1).map_or(0, |before| self.ends[before]);
        totals.fill(0.0);
        self.entries[start..self.ends[t]].iter().for_each(|&(arm, reward)| totals[arm as usize] = reward);
        true
    }
}
