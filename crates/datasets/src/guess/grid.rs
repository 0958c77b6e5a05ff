//! Names of columns as a grid of features and candidates.

use super::Seen;
use super::column::ColumnSeen;
use super::names::{AVAILABLE, ITEM, USER, has_word};
use std::collections::BTreeSet;

/// Columns named after a feature and a candidate.
pub(super) struct NameGrid {
    pub(super) pattern: String,
    pub(super) features: Vec<String>,
    pub(super) arms: Vec<String>,
    /// The candidates in the order of the columns of each feature, where they differ.
    pub(super) orders: Vec<Vec<String>>,
    /// The feature that says whether a candidate is available.
    pub(super) available: Option<String>,
    /// Whether the columns of a feature are of one kind and size.
    pub(super) alike: bool,
}

/// Splits a name into the parts of its feature and of its candidate.
type Split = fn(&str) -> Option<(&str, &str)>;

impl NameGrid {
    pub(super) fn of(&self, feature: &str, arm: &str) -> String {
        self.pattern.replace("{feature}", feature).replace("{candidate}", arm)
    }

    pub(super) fn columns(&self) -> BTreeSet<String> {
        self.features.iter().flat_map(|f| self.arms.iter().map(move |arm| self.of(f, arm))).collect()
    }

    /// What was seen in the columns of a feature, for all candidates.
    pub(super) fn merged(&self, seen: &Seen, feature: &str) -> ColumnSeen {
        let mut whole = ColumnSeen::new(feature);
        for column in self.arms.iter().filter_map(|arm| seen.column(&self.of(feature, arm))) {
            whole.merge(column);
        }
        whole
    }

    /// The largest grid of each pattern among the names of columns.
    pub(super) fn all(seen: &Seen) -> Vec<NameGrid> {
        let names: Vec<&str> = seen.columns.iter().map(|c| c.name.as_str()).collect();
        let digits: Split = |name| {
            let at = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
            Some(name.split_at(at))
        };
        let splits: [(&str, Split); 7] = [
            ("{feature}.{candidate}", |name| name.split_once('.')),
            ("{feature}:{candidate}", |name| name.split_once(':')),
            ("{feature}_{candidate}", |name| name.rsplit_once('_')),
            ("{feature}-{candidate}", |name| name.rsplit_once('-')),
            ("{feature}{candidate}", digits),
            ("{candidate}.{feature}", |name| name.split_once('.').map(|(a, b)| (b, a))),
            ("{candidate}_{feature}", |name| name.split_once('_').map(|(a, b)| (b, a))),
        ];
        let mut grids: Vec<NameGrid> = Vec::new();
        for (pattern, split) in splits {
            let Some(mut grid) = largest(pattern, split, &names) else { continue };
            let same = |other: &&NameGrid| other.columns() == grid.columns() && other.arms == grid.arms;
            if grids.iter().find(same).is_some() {
                continue;
            }
            grid.alike = grid.features.iter().all(|feature| are_alike(seen, &grid, feature));
            let binary = |name: &&String| {
                has_word(name, AVAILABLE)
                    && grid.arms.iter().all(|arm| {
                        seen.column(&grid.of(name, arm)).is_some_and(|column| {
                            let [least, most] = column.range();
                            column.is_whole() && column.missing == 0 && least >= 0.0 && most <= 1.0
                        })
                    })
            };
            grid.available = grid.features.iter().find(binary).cloned();
            grids.push(grid);
        }
        grids
    }
}

fn largest(pattern: &str, split: Split, names: &[&str]) -> Option<NameGrid> {
    // Features in the order of the file, each with its candidates.
    let mut of: Vec<(&str, Vec<&str>)> = Vec::new();
    for name in names {
        let Some((feature, arm)) = split(name).filter(|(f, a)| !f.is_empty() && !a.is_empty()) else {
            continue;
        };
        match of.iter_mut().find(|(have, _)| *have == feature) {
            Some((_, arms)) => arms.push(arm),
            None => of.push((feature, vec![arm])),
        }
    }
    let mut best: Option<(usize, NameGrid)> = None;
    for (_, arms) in of.iter().filter(|(_, arms)| arms.len() >= 2) {
        let wanted: BTreeSet<&str> = arms.iter().copied().collect();
        // Features whose numbers do not stop at those of the candidates count something else (`score1` to
        // `score9` beside four candidates). Features named after a user belong to no candidate.
        let numbered = wanted.iter().all(|arm| arm.bytes().all(|byte| byte.is_ascii_digit()));
        let fits = |(feature, have): &&(&str, Vec<&str>)| {
            wanted.iter().all(|arm| have.contains(arm))
                && (!numbered || have.len() == wanted.len())
                && (has_word(feature, ITEM) || !has_word(feature, USER))
        };
        let whole: Vec<&(&str, Vec<&str>)> = of.iter().filter(fits).collect();
        let size = whole.len() * arms.len();
        if size == 0 {
            continue;
        }
        if best.as_ref().is_some_and(|(most, _)| size <= *most) {
            continue;
        }
        let mut orders: Vec<Vec<String>> = Vec::new();
        for (_, have) in &whole {
            let order: Vec<String> =
                have.iter().filter(|arm| wanted.contains(*arm)).map(|arm| arm.to_string()).collect();
            if !orders.contains(&order) {
                orders.push(order);
            }
        }
        let grid = NameGrid {
            pattern: pattern.into(),
            features: whole.iter().map(|(feature, _)| feature.to_string()).collect(),
            arms: arms.iter().map(|arm| arm.to_string()).collect(),
            orders,
            available: None,
            alike: false,
        };
        best = Some((size, grid));
    }
    best.map(|(_, grid)| grid)
}

/// Whether the columns of a feature hold values of one kind, and numbers of one size.
fn are_alike(seen: &Seen, grid: &NameGrid, feature: &str) -> bool {
    let columns: Vec<&ColumnSeen> =
        grid.arms.iter().filter_map(|arm| seen.column(&grid.of(feature, arm))).collect();
    let numbers = columns.iter().filter(|column| column.texts() == 0).count();
    if numbers == 0 {
        return true;
    }
    let sizes: Vec<f64> = columns
        .iter()
        .map(|column| column.range())
        .filter(|range| range[0] <= range[1])
        .map(|range| range[0].abs().max(range[1].abs()))
        .collect();
    let most = sizes.iter().copied().fold(0.0, f64::max);
    let least = sizes.iter().copied().filter(|size| *size > 0.0).fold(f64::INFINITY, f64::min);
    numbers == columns.len() && (most == 0.0 || most <= 20.0 * least)
}
