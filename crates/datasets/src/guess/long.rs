//! A table with a row for each candidate of a round.

use super::names::{CHOSEN, ITEM, PROPENSITY, REWARD, ROUND, TIME, USER};
use super::{Guess, MAX_DISTINCT};
use crate::Error;
use crate::check::shown;
use crate::table::{Row, Table};
use schema::{Layout, Schema};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Rows that share the columns of their round.
struct RowGroups {
    /// Sizes of groups, with their numbers.
    sizes: BTreeMap<usize, u64>,
    /// Columns that differ within a group.
    varies: BTreeSet<String>,
    /// The candidates, if all groups have the same.
    candidates: Option<BTreeSet<String>>,
    /// Whether each group has one row whose `chosen` is 1.
    one_chosen: bool,
}

impl Guess {
    /// A table with a row for each candidate.
    pub(super) fn long(&mut self, path: &Path) -> Result<(), Error> {
        let chosen = CHOSEN.iter().find_map(|name| {
            self.columns
                .iter()
                .find(|c| c.name.eq_ignore_ascii_case(name) && (c.is_binary() || c.is_boolean()))
        });
        let chosen = chosen.map(|c| c.name.clone());
        let reward = self.named(REWARD);
        if chosen.is_none() && reward.is_none() {
            let names: Vec<String> = self.columns.iter().map(|c| c.name.clone()).collect();
            let reason = format!(
                "no column looks like a choice ({}) or a reward ({}); the columns are {}: write a schema by docs/data.md",
                CHOSEN[..3].join(", "),
                REWARD[..3].join(", "),
                shown(&names)
            );
            return Err(Error::file(path, 1, reason));
        }
        self.schema = Schema { layout: Layout::Long, chosen, reward, ..Schema::default() };
        self.schema.user = self.named(USER);
        self.schema.time = self.named(TIME);
        self.schema.round = self.named(ROUND).into_iter().collect();
        self.schema.candidate_column = self.named(ITEM);
        if self.schema.chosen.is_some() && self.schema.reward.is_some() {
            self.schema.propensity = self.named(PROPENSITY);
        }
        if let Some(range) = self.schema.reward.as_ref().and_then(|name| self.column(name)).map(|c| c.range)
            && range[0] < range[1]
            && (range[0] < 0.0 || range[1] > 1.0)
        {
            self.schema.reward_range = Some(range);
        }
        let keys = match (self.schema.round.is_empty(), &self.schema.user, &self.schema.time) {
            (false, ..) => self.schema.round.clone(),
            (true, None, None) => {
                let reason = "no column looks like a user, a time or a round, which the rows of a round share: write a schema by \
                              docs/data.md, with `round`";
                return Err(Error::file(path, 1, reason));
            }
            (true, user, time) => user.iter().chain(time).cloned().collect(),
        };
        let RowGroups { sizes, varies, candidates: names, one_chosen } = self.groups(path, &keys)?;
        let (&most, &rounds) = sizes.iter().max_by_key(|(_, n)| **n).unwrap_or((&0, &0));
        if most < 2 {
            if self.log(false) {
                return Ok(());
            }
            let reason = format!(
                "most of the rounds that {} name have a single row, where the candidates of a round are needed. If a row is a round \
                 whose shown candidate and reward were logged, write the schema layout = \"wide\", candidates = [\"a\", \"b\"], \
                 chosen = \"COLUMN\", reward = \"COLUMN\"; else name the columns that the rows of a round share, as `round`. \
                 docs/data.md has every entry",
                keys.join(" and ")
            );
            return Err(Error::file(path, 1, reason));
        }
        self.notes.push(format!(
            "{rounds} rounds have {most} rows; sizes seen: {:?}",
            sizes.keys().take(12).collect::<Vec<_>>()
        ));
        if !one_chosen && self.schema.reward.is_none() {
            self.schema.reward = self.schema.chosen.take();
            self.notes.push(format!(
                "{} is the reward of each candidate and no choice, because a round may have none or several of them",
                self.schema.reward.as_deref().unwrap_or_default()
            ));
        }
        match names {
            Some(names) if names.len() == most => {
                self.schema.candidates = names.into_iter().collect();
                self.schema.identity = true;
            }
            _ => self.schema.arms = Some(most),
        }
        self.schema.previous = self.schema.user.is_some()
            && self.schema.chosen.is_some()
            && self.schema.candidate_column.is_some()
            && self.schema.user.as_ref().is_some_and(|user| keys != [user.clone()]);
        self.rest(&keys.into_iter().collect(), &varies);
        Ok(())
    }

    /// The groups of rows that share `keys`.
    fn groups(&self, path: &Path, keys: &[String]) -> Result<RowGroups, Error> {
        let mut table = Table::open(path)?;
        let at: Vec<usize> = keys.iter().map(|name| table.column(name)).collect::<Result<_, _>>()?;
        let item = self.schema.candidate_column.as_ref().map(|name| table.column(name)).transpose()?;
        let chosen = self.schema.chosen.as_ref().map(|name| table.column(name)).transpose()?;
        let header = table.header().to_vec();
        let (mut sizes, mut varies) = (BTreeMap::new(), BTreeSet::new());
        let (mut one_chosen, mut picks) = (true, 0);
        let mut all: Option<BTreeSet<String>> = None;
        let (mut same, mut group) = (item.is_some(), BTreeSet::new());
        let (mut row, mut first, mut size) = (Row::default(), Vec::<String>::new(), 0);
        loop {
            let more = table.read(&mut row)?;
            let cells: Vec<String> = row.cells.iter().map(|cell| cell.trim().to_string()).collect();
            if size > 0 && (!more || at.iter().any(|&i| cells[i] != first[i])) {
                *sizes.entry(size).or_insert(0) += 1;
                same &= all.as_ref().is_none_or(|all| *all == group);
                all.get_or_insert_with(|| group.clone());
                group.clear();
                one_chosen &= chosen.is_none() || picks == 1;
                (size, picks) = (0, 0);
            }
            if !more {
                break;
            }
            if size == 0 {
                first.clone_from(&cells);
            }
            size += 1;
            picks += usize::from(chosen.is_some_and(|at| is_yes(&cells[at])));
            if let Some(item) = item
                && group.len() <= MAX_DISTINCT
            {
                group.insert(cells[item].clone());
            }
            for (name, _) in header.iter().zip(cells.iter().zip(&first)).filter(|(_, (a, b))| a != b) {
                varies.insert(name.clone());
            }
        }
        Ok(RowGroups { sizes, varies, candidates: all.filter(|_| same), one_chosen })
    }
}

fn is_yes(cell: &str) -> bool {
    ["1", "true", "yes"].contains(&cell.to_ascii_lowercase().as_str())
}
