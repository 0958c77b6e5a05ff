//! Rewards written down: a log of (t, arm, reward).

use super::{MAX_ARMS, check_arms};
use crate::Error;
use std::io::Read;

/// What every arm would have earned in every slot; what is not written down is 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    arms: usize,
    /// Arm and reward, slot after slot.
    entries: Vec<(u32, f64)>,
    /// Where each slot's entries end.
    ends: Vec<usize>,
}

impl Record {
    /// From one row a slot: reward of each arm.
    ///
    /// # Errors
    /// [`Error::NoRows`] without a slot, [`Error::Rows`] where rows differ in length, [`Error::OutOfRange`]
    /// for a reward outside [0, 1] or a number of arms out of range.
    pub fn new(rows: &[Vec<f64>]) -> Result<Self, Error> {
        let arms = rows.first().ok_or(Error::NoRows)?.len();
        check_arms(arms)?;
        let mut record = Self { arms, entries: Vec::new(), ends: Vec::with_capacity(rows.len()) };
        for row in rows {
            if row.len() != arms {
                return Err(Error::Rows { values: row.len(), d: arms });
            }
            for (arm, &reward) in (0u32..).zip(row) {
                super::field((0.0..=1.0).contains(&reward), "reward", reward, "in [0, 1]")?;
                if reward > 0.0 {
                    record.entries.push((arm, reward));
                }
            }
            record.ends.push(record.entries.len());
        }
        Ok(record)
    }

    /// Reads comma-separated values with a header that names `t`, `arm` and `reward`; other columns are
    /// ignored.
    ///
    /// `t` is 1 in the first row and then stays or grows by 1, so that a gap in the file is found; a slot in
    /// which no arm earned anything has a row of reward 0. `arm` counts from 0, `reward` is in [0, 1], and an
    /// arm stands once a slot.
    ///
    /// # Errors
    /// [`Error::MissingColumn`], [`Error::NoRows`], [`Error::NotANumber`], and [`Error::Csv`] with the line
    /// for all else.
    pub fn read(reader: impl Read) -> Result<Self, Error> {
        let mut csv = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(reader);
        let header = csv.headers().map_err(csv_error)?.clone();
        let column = |name: &str| {
            header
                .iter()
                .position(|h| h == name)
                .ok_or_else(|| Error::MissingColumn { column: name.to_owned() })
        };
        let (t, arm, reward) = (column("t")?, column("arm")?, column("reward")?);
        let mut record = Self { arms: 0, entries: Vec::new(), ends: Vec::new() };
        let mut slot: Vec<u32> = Vec::new(); // arms that stand in the slot
        for row in csv.records() {
            let row = row.map_err(csv_error)?;
            let line = row.position().map_or(0, csv::Position::line);
            let not_a_number = |at: usize| Error::NotANumber {
                line,
                column: header[at].to_owned(),
                value: row[at].to_owned(),
            };
            let fail = |reason: &str| Error::Csv { line, reason: reason.to_owned() };
            let slot_number: usize = row[t].parse().map_err(|_| not_a_number(t))?;
            let arm_number: u32 = row[arm].parse().map_err(|_| not_a_number(arm))?;
            let value: f64 = row[reward].parse().map_err(|_| not_a_number(reward))?;
            if arm_number as usize >= MAX_ARMS {
                return Err(fail("arm is above 65535"));
            }
            if !(0.0..=1.0).contains(&value) {
                return Err(fail("reward is outside [0, 1]"));
            }
            if slot_number == record.ends.len() + 1 {
                record.ends.push(record.entries.len());
                slot.clear();
            } else if slot_number == 0 || slot_number != record.ends.len() {
                return Err(fail("t starts at 1 and then stays or grows by 1"));
            }
            if slot.contains(&arm_number) {
                return Err(fail("the arm stands twice in this slot"));
            }
            slot.push(arm_number);
            record.arms = record.arms.max(arm_number as usize + 1);
            if value > 0.0 {
                record.entries.push((arm_number, value));
            }
            if let Some(end) = record.ends.last_mut() {
                *end = record.entries.len();
            }
        }
        if record.ends.is_empty() { Err(Error::NoRows) } else { Ok(record) }
    }

    /// Number of arms.
    pub fn arms(&self) -> usize {
        self.arms
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.ends.len()
    }

    /// What each arm would have earned over the whole record.
    pub fn totals(&self) -> Vec<f64> {
        let mut totals = vec![0.0; self.arms];
        self.entries.iter().for_each(|&(arm, reward)| totals[arm as usize] += reward);
        totals
    }

    /// Writes the rewards of slot `t` (from 0); false past the end.
    pub(super) fn slot(&self, t: u64, totals: &mut [f64]) -> bool {
        let Some(t) = usize::try_from(t).ok().filter(|t| *t < self.ends.len()) else { return false };
        let start = t.checked_sub(1).map_or(0, |before| self.ends[before]);
        totals.fill(0.0);
        self.entries[start..self.ends[t]].iter().for_each(|&(arm, reward)| totals[arm as usize] = reward);
        true
    }
}

fn csv_error(e: csv::Error) -> Error {
    Error::Csv { line: e.position().map_or(0, csv::Position::line), reason: e.to_string() }
}
