//! A table with a row for each round, whose columns are a grid of features and candidates.

use super::column::ColumnSeen;
use super::grid::NameGrid;
use super::names::{CHOSEN, FEEDBACK, REWARD, likeness};
use super::reading::{Evidence, Kind, Reading};
use super::{Draft, Seen};
use schema::{Cell, Schema};
use std::collections::BTreeSet;

/// The share of choices that may be none of the candidates, or one that was not available.
const ODD: f64 = 0.01;

/// How a column writes candidates.
enum Written {
    /// Their names, behind a text that all share.
    Names { before: String },
    /// Their names, which are numbers.
    Numbers,
    /// Numbers of candidates that have names, or from 0 where the columns count from 1.
    Codes,
    /// Their names, in other letters.
    Spelled { codes: Vec<String> },
    /// Their names, and others.
    Strangers { text: String },
}

impl Seen {
    /// Readings of a table whose rows are rounds.
    pub(super) fn wide_readings(&self) -> Vec<Reading> {
        let grids = NameGrid::all(self);
        let mut readings = Vec::new();
        for grid in &grids {
            readings.extend(self.rewards_of_all(grid));
            readings.extend(self.choices(grid));
            readings.extend(self.logs(Some(grid)));
        }
        readings.extend(self.logs(None));
        readings
    }

    /// The reading in which a feature of the grid is the reward of every candidate.
    fn rewards_of_all(&self, grid: &NameGrid) -> Option<Reading> {
        let feature = grid.features.iter().find(|name| likeness(name, REWARD) == 2)?;
        let merged = grid.merged(self, feature);
        let pattern = grid.of(feature, "{candidate}");
        let mut evidence = Evidence::default();
        evidence.add(2, format!("{feature} is named like a reward"));
        evidence.add(3, format!("each candidate has one, {pattern}"));
        let mut draft = Draft::new(Schema { candidates: grid.arms.clone(), ..Schema::default() });
        let made = draft.reward(&merged).map(|()| {
            draft.schema.reward = Some(pattern.clone());
            draft
                .schema
                .decimal_comma
                .iter_mut()
                .filter(|name| **name == *feature)
                .for_each(|name| name.clone_from(&pattern));
            self.rest_of_grid(draft, grid, Some(feature), BTreeSet::new())
        });
        Some(Reading {
            kind: Kind::Rewards,
            what: format!("the rewards of all candidates a row ({pattern})"),
            entries: format!("layout = \"wide\", pattern = \"{}\", reward = \"{pattern}\"", grid.pattern),
            evidence: evidence.points,
            why: evidence.why,
            made,
        })
    }

    /// The readings in which a column outside of the grid names the candidate that was chosen.
    fn choices(&self, grid: &NameGrid) -> Vec<Reading> {
        let inside = grid.columns();
        let outside = self.columns.iter().filter(|column| !inside.contains(&column.name));
        let rewarded = grid.features.iter().any(|name| likeness(name, REWARD) == 2);
        outside.filter(|_| !rewarded).filter_map(|column| self.choice(grid, column)).collect()
    }

    fn choice(&self, grid: &NameGrid, column: &ColumnSeen) -> Option<Reading> {
        let like = likeness(&column.name, CHOSEN);
        let written = grid.written(column, like)?;
        let mut evidence = Evidence::default();
        evidence.add(like, format!("{} is named like a choice", column.name));
        let named = match &written {
            Written::Names { .. } | Written::Spelled { .. } | Written::Strangers { .. } => 3,
            // A column of small whole numbers is no choice by that alone.
            Written::Numbers | Written::Codes if like < 2 => 0,
            Written::Numbers | Written::Codes => 1,
        };
        evidence.add(named, format!("it holds candidates of {}", grid.pattern));
        if grid.alike {
            evidence.add(1, "columns of a feature are alike");
        }
        if let Some(feature) = &grid.available {
            evidence.add(1, format!("{feature} is 0 or 1 for each candidate"));
        }
        if matches!(&written, Written::Numbers) && like > 0 && self.depends(grid, column) {
            evidence.add(1, "it depends on what candidates have");
        }
        if self.propensity().0.is_some() {
            evidence.add(-2, "all rewards follow from it: there are probabilities");
        }
        let rewarded = self.named(FEEDBACK).filter(|reward| {
            !grid.columns().contains(&reward.name)
                && reward.name != column.name
                && !self.sample.follows(&reward.name, &column.name)
        });
        if let Some(reward) = rewarded {
            evidence.add(-2, format!("all rewards follow from it: {} is named like one", reward.name));
        }
        let names =
            |arms: &[String]| arms.iter().map(|arm| format!("\"{arm}\"")).collect::<Vec<_>>().join(", ");
        let draft = |arms: Vec<String>, codes: Vec<String>| {
            let schema =
                Schema { chosen: Some(column.name.clone()), candidates: arms, codes, ..Schema::default() };
            self.rest_of_grid(Draft::new(schema), grid, None, [column.name.clone()].into())
        };
        let made = match &written {
            Written::Names { before } => {
                let mut draft = draft(grid.arms.clone(), Vec::new());
                draft.schema.chosen_pattern = (!before.is_empty()).then(|| format!("{before}{{candidate}}"));
                Ok(draft)
            }
            Written::Numbers => Ok(draft(grid.arms.clone(), Vec::new())),
            Written::Spelled { codes } => Ok(draft(grid.arms.clone(), codes.clone())),
            Written::Strangers { text } => {
                let row = self.sample.texts(&column.name).position(|cell| cell == text);
                let line = row.map_or(String::new(), |row| format!(" in line {}", self.sample.lines[row]));
                Err(format!(
                    "{} is {text:?}{line}, and columns are named after {} only: delete such rows, or add the columns of this candidate",
                    column.name,
                    grid.arms.join(", ")
                ))
            }
            Written::Codes => self.code(grid, column).map(|(arms, codes)| {
                let note = format!(
                    "{} holds codes of candidates: codes = [{}] are taken for {} in the order of the columns{}. Mend \
                     `codes` if another number is which",
                    column.name,
                    names(&codes),
                    arms.join(", "),
                    if grid.available.is_some() { ", which their availability does not contradict" } else { "" }
                );
                let mut draft = draft(arms, codes);
                draft.notes.insert(0, note);
                draft
            }),
        };
        Some(Reading {
            kind: Kind::Choice,
            what: format!("a choice ({}) among the candidates of each row", column.name),
            entries: format!(
                "layout = \"wide\", pattern = \"{}\", chosen = \"{}\"",
                grid.pattern, column.name
            ),
            evidence: evidence.points,
            why: evidence.why,
            made,
        })
    }

    /// The candidates in the order of their codes: that of the columns, where it is one, and no candidate is
    /// chosen that is not available.
    fn code(&self, grid: &NameGrid, column: &ColumnSeen) -> Result<(Vec<String>, Vec<String>), String> {
        let k = grid.arms.len();
        let [least, most] = column.range();
        let first = if least == 0.0 && most < k as f64 { 0 } else { 1 };
        let codes: Vec<String> = (first..first + k).map(|code| code.to_string()).collect();
        let numbers = self.sample.numbers(&column.name, false);
        let offered: Option<Vec<Vec<Option<f64>>>> = grid.available.as_ref().map(|feature| {
            grid.arms.iter().map(|arm| self.sample.numbers(&grid.of(feature, arm), false)).collect()
        });
        let contradicts = |order: &&Vec<String>| {
            let Some(offered) = &offered else { return false };
            let at: Vec<usize> =
                order.iter().map(|arm| grid.arms.iter().position(|a| a == arm).unwrap_or(0)).collect();
            let chosen = |number: &Option<f64>| at.get(((*number)? as usize).checked_sub(first)?).copied();
            let denied = numbers
                .iter()
                .enumerate()
                .filter(|(row, number)| chosen(number).is_some_and(|arm| offered[arm][*row] == Some(0.0)));
            denied.count() as f64 > ODD * numbers.len() as f64
        };
        let orders: Vec<&Vec<String>> = grid.orders.iter().filter(|order| !contradicts(order)).collect();
        match orders.as_slice() {
            [order] => Ok((order.to_vec(), codes)),
            _ => Err(format!(
                "{} holds {}, the candidates are {}, and the order of the columns does not say which number is which: write a schema with \
                 candidates = [\"{}\"] and codes = [\"{}\"] in the same order",
                column.name,
                column.distinct.iter().take(12).cloned().collect::<Vec<_>>().join(", "),
                grid.arms.join(", "),
                grid.arms.join("\", \""),
                codes.join("\", \"")
            )),
        }
    }

    /// Whether some feature of the candidate that a column of their numbers names is larger or smaller than
    /// those of the others, by more than three standard errors.
    fn depends(&self, grid: &NameGrid, column: &ColumnSeen) -> bool {
        let chosen: Vec<Option<usize>> = self
            .sample
            .texts(&column.name)
            .map(|text| grid.arms.iter().position(|arm| arm == text))
            .collect();
        grid.features.iter().any(|feature| {
            let columns: Vec<Vec<Option<f64>>> =
                grid.arms.iter().map(|arm| self.sample.numbers(&grid.of(feature, arm), false)).collect();
            let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
            for (row, arm) in chosen.iter().enumerate().filter_map(|(row, arm)| Some((row, (*arm)?))) {
                let Some(values) = columns.iter().map(|values| values[row]).collect::<Option<Vec<f64>>>()
                else {
                    continue;
                };
                let below = values.iter().filter(|x| **x < values[arm]).count() as f64;
                let above = values.iter().filter(|x| **x > values[arm]).count() as f64;
                let difference = (above - below) / values.len() as f64;
                (n, sum, squares) = (n + 1.0, sum + difference, squares + difference * difference);
            }
            n > 20.0 && squares > 0.0 && (sum / squares.sqrt()).abs() > 3.0
        })
    }

    /// The schema of a grid, with all columns that have no other use.
    fn rest_of_grid(
        &self,
        mut draft: Draft,
        grid: &NameGrid,
        reward: Option<&str>,
        mut used: BTreeSet<String>,
    ) -> Draft {
        let inside = grid.columns();
        draft.schema.user = self.user().filter(|name| !inside.contains(name) && !used.contains(name));
        draft.schema.time = self.time().filter(|name| !inside.contains(name) && !used.contains(name));
        draft.schema.previous = draft.schema.user.is_some() && draft.schema.chosen.is_some();
        draft.grid(self, grid, &mut used, reward);
        // What names candidates too may have been measured after the choice.
        for column in &self.columns {
            if !used.contains(&column.name) && grid.holds(column) == 2 {
                draft
                    .notes
                    .push(format!("leakage? column {} names candidates too, and is left out", column.name));
                used.insert(column.name.clone());
            }
        }
        draft.rest(self, &used, &BTreeSet::new());
        let arms = draft.schema.candidates.len();
        draft.finish(arms);
        draft
    }
}

impl Draft {
    /// Enters the pattern, the features and the availability of a grid.
    pub(super) fn grid(
        &mut self,
        seen: &Seen,
        grid: &NameGrid,
        used: &mut BTreeSet<String>,
        reward: Option<&str>,
    ) {
        self.schema.pattern = Some(grid.pattern.clone());
        self.schema.identity = true;
        used.extend(grid.columns());
        for feature in &grid.features {
            if Some(feature.as_str()) == reward {
                continue;
            }
            let whole = grid.merged(seen, feature);
            if grid.available.as_ref() == Some(feature) {
                if !whole.is_constant() {
                    self.schema.available = Some(grid.of(feature, "{candidate}"));
                }
                continue;
            }
            self.offer(feature, &whole, true);
        }
    }
}

impl NameGrid {
    /// 2 for a column that holds names of candidates, 1 if they are numbers, else 0.
    pub(super) fn holds(&self, column: &ColumnSeen) -> i32 {
        match self.written(column, 0) {
            Some(Written::Names { before }) if before.is_empty() => 2,
            Some(Written::Numbers) => 1,
            _ => 0,
        }
    }

    /// How a column writes candidates, if nearly all of its values are some. `like` is how much its name is
    /// one of a choice.
    fn written(&self, column: &ColumnSeen, like: i32) -> Option<Written> {
        if column.more || column.distinct.len() < 2 {
            return None;
        }
        let numbers = self.arms.iter().all(|arm| arm.bytes().all(|byte| byte.is_ascii_digit()));
        let first = column.distinct.iter().next()?;
        let shared = |arm: &String| first.strip_suffix(arm.as_str()).map(str::to_string);
        let before = self.arms.iter().filter_map(shared).min_by_key(String::len);
        let all = |before: &String| {
            column.distinct.iter().all(|text| {
                text.strip_prefix(before.as_str()).is_some_and(|rest| self.arms.iter().any(|arm| arm == rest))
            })
        };
        if let Some(before) = before.filter(all) {
            return Some(if numbers && before.is_empty() {
                Written::Numbers
            } else {
                Written::Names { before }
            });
        }
        let spelled = |arm: &String| column.distinct.iter().find(|text| text.eq_ignore_ascii_case(arm));
        let found = self.arms.iter().filter_map(spelled).count();
        if found == column.distinct.len() {
            let codes = self.arms.iter().map(|arm| spelled(arm).unwrap_or(arm).clone()).collect();
            return Some(Written::Spelled { codes });
        }
        let stranger = column.distinct.iter().find(|text| !self.arms.contains(text));
        let few = found >= 2 && found == self.arms.len() && column.distinct.len() <= found + 2;
        if let Some(text) = stranger.filter(|_| !numbers && few) {
            return Some(Written::Strangers { text: text.clone() });
        }
        let code = |text: &String| Cell::parse(text).number().is_some();
        let [least, most] = column.range();
        let coded = column.is_whole()
            && column.distinct.iter().all(code)
            && least >= 0.0
            && most <= self.arms.len() as f64;
        (like > 0 && coded && (!column.is_binary() || self.arms.len() == 2)).then_some(Written::Codes)
    }
}
