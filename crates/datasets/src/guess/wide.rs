//! A table with a row for each round, whose columns are a grid of features and candidates.

use super::names::{CHOSEN, PROPENSITY, REWARD, TIME, USER};
use super::{ColumnSeen, Guess};
use std::collections::BTreeSet;

/// A pattern, features, and candidates.
type NameGrid = (String, Vec<String>, Vec<String>);

impl Guess {
    /// A table whose columns are a grid of features and candidates, or a log with an action a row.
    pub(super) fn wide(&mut self) -> bool {
        let grid = self.grid();
        let (pattern, features, arms) = match grid {
            Some(grid) => grid,
            None => return self.log(true),
        };
        let of = |feature: &str, arm: &str| pattern.replace("{feature}", feature).replace("{candidate}", arm);
        let in_grid: BTreeSet<String> =
            features.iter().flat_map(|f| arms.iter().map(move |arm| of(f, arm))).collect();
        let schema = &mut self.schema;
        schema.pattern = Some(pattern.clone());
        let rewards = features.iter().find(|f| REWARD.iter().any(|name| f.eq_ignore_ascii_case(name)));
        schema.reward = rewards.map(|f| of(f, "{candidate}"));
        let rewards = rewards.cloned();
        // The choice: a column outside of the grid that names candidates.
        let written = |column: &ColumnSeen| -> Option<String> {
            let shared = |text: &String, arm: &String| text.strip_suffix(arm.as_str()).map(str::to_string);
            let first = column.distinct.iter().next()?;
            let prefix = arms.iter().filter_map(|arm| shared(first, arm)).min_by_key(String::len)?;
            let all = column.distinct.iter().all(|text| {
                text.strip_prefix(prefix.as_str()).is_some_and(|rest| arms.iter().any(|arm| arm == rest))
            });
            (all && !column.more && column.distinct.len() > 1).then_some(prefix)
        };
        let outside = self.columns.iter().filter(|c| !in_grid.contains(&c.name));
        let mut choices: Vec<(&ColumnSeen, String)> =
            outside.filter_map(|c| Some((c, written(c)?))).collect();
        choices.sort_by_key(|(c, _)| !CHOSEN.iter().any(|name| c.name.eq_ignore_ascii_case(name)));
        let choice = choices.first().map(|(c, prefix)| (c.name.clone(), prefix.clone()));
        for (other, _) in choices.iter().skip(1).filter(|_| rewards.is_none()) {
            self.notes.push(format!("leakage? column {} names candidates too, and is left out", other.name));
        }
        let left: Vec<String> = choices.iter().map(|(c, _)| c.name.clone()).collect();
        let (reward, propensity) = (self.named(REWARD), self.named(PROPENSITY));
        if let Some((name, prefix)) = choice {
            self.schema.chosen = Some(name);
            self.schema.chosen_pattern = (!prefix.is_empty()).then(|| format!("{prefix}{{candidate}}"));
            if self.schema.reward.is_none() {
                self.schema.reward = reward.filter(|name| !left.contains(name));
                self.schema.propensity = propensity.filter(|_| self.schema.reward.is_some());
            }
        } else if self.schema.reward.is_none() {
            return false;
        }
        self.schema.candidates = arms.clone();
        self.schema.user = self.named(USER).filter(|name| !in_grid.contains(name));
        self.schema.time = self.named(TIME).filter(|name| !in_grid.contains(name));
        self.schema.identity = true;
        self.schema.previous = self.schema.user.is_some() && self.schema.chosen.is_some();
        for feature in &features {
            if Some(feature) == rewards.as_ref() {
                continue;
            }
            let whole = self.merged(&of(feature, "{candidate}"), &arms);
            self.offer(feature, &whole, true);
        }
        let mut used: BTreeSet<String> = in_grid;
        used.extend(left);
        self.rest(&used, &BTreeSet::new());
        true
    }

    /// What was seen in the columns of a feature, for all candidates.
    fn merged(&self, pattern: &str, arms: &[String]) -> ColumnSeen {
        let mut whole = ColumnSeen::new(pattern);
        for arm in arms {
            let Some(column) = self.column(&pattern.replace("{candidate}", arm)) else { continue };
            whole.values += column.values;
            whole.missing += column.missing;
            whole.texts += column.texts;
            whole.range = [whole.range[0].min(column.range[0]), whole.range[1].max(column.range[1])];
            whole.whole &= column.whole;
            whole.sum += column.sum;
            whole.more |= column.more;
            whole.distinct.extend(column.distinct.iter().cloned());
        }
        whole
    }

    /// The pattern, features and candidates of the largest full grid among the names of columns.
    fn grid(&self) -> Option<NameGrid> {
        let names: Vec<&str> = self.columns.iter().map(|c| c.name.as_str()).collect();
        type Split = fn(&str) -> Option<(&str, &str)>;
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
        let mut best: Option<(usize, NameGrid)> = None;
        for (pattern, split) in splits {
            // Features in the order of the file, each with its candidates.
            let mut of: Vec<(&str, Vec<&str>)> = Vec::new();
            for name in &names {
                let Some((feature, arm)) = split(name).filter(|(f, a)| !f.is_empty() && !a.is_empty()) else {
                    continue;
                };
                match of.iter_mut().find(|(have, _)| *have == feature) {
                    Some((_, arms)) => arms.push(arm),
                    None => of.push((feature, vec![arm])),
                }
            }
            for (_, arms) in of.iter().filter(|(_, arms)| arms.len() >= 2) {
                let whole: Vec<&str> = of
                    .iter()
                    .filter(|(_, have)| arms.iter().all(|arm| have.contains(arm)))
                    .map(|(f, _)| *f)
                    .collect();
                let size = whole.len() * arms.len();
                // A single feature needs more than a common ending to be a grid.
                if best.as_ref().is_none_or(|(most, _)| size > *most) && (whole.len() > 1 || arms.len() > 1) {
                    let owned = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
                    best = Some((size, (pattern.into(), owned(&whole), owned(arms))));
                }
            }
        }
        best.map(|(_, grid)| grid)
    }
}
