//! A table with a logged action and its reward in each row.

use super::column::{ColumnSeen, MAX_COUNTED};
use super::draft::in_order;
use super::grid::NameGrid;
use super::names::{CHOSEN, ITEM, PROPENSITY, REWARD, ROUND, likeness};
use super::reading::{Evidence, Kind, Reading};
use super::{Draft, KEY_ARMS, Seen};
use schema::Schema;
use std::collections::BTreeSet;

impl Seen {
    /// Readings as a log: an action, which is named like a choice or an item or holds the candidates of
    /// `grid`, and a reward.
    pub(super) fn logs(&self, grid: Option<&NameGrid>) -> Vec<Reading> {
        let inside = grid.map(NameGrid::columns).unwrap_or_default();
        let outside = || self.columns.iter().filter(|column| !inside.contains(&column.name));
        // Items of the same rows are one thing at two sizes, such as a product and its brand: the action is
        // the finest.
        let actions: Vec<(&ColumnSeen, i32, i32)> = outside()
            .filter_map(|column| {
                let like = likeness(&column.name, CHOSEN).max(likeness(&column.name, ITEM));
                let in_grid = grid.map_or(0, |grid| grid.holds(column));
                // A column of 0 and 1 marks a row, unless two items have these names.
                let mark = column.is_binary() && likeness(&column.name, ITEM) < 2 && !is_action(&column.name);
                let fits = if grid.is_some() { in_grid > 0 } else { like > 0 };
                let fraction = column.texts() == 0 && !column.is_whole();
                (fits && !mark && !fraction && column.values > 0).then_some((column, like, in_grid))
            })
            .collect();
        let coarser = |column: &ColumnSeen| {
            actions.iter().any(|(finer, ..)| {
                finer.name != column.name
                    && finer.count() > column.count()
                    && self.sample.follows(&column.name, &finer.name)
            })
        };
        let actions = actions.iter().filter(|(column, ..)| !coarser(column));
        actions
            .filter_map(|(action, like, in_grid)| self.logged(action, *like, *in_grid, grid, &inside))
            .collect()
    }

    fn logged(
        &self,
        action: &ColumnSeen,
        like: i32,
        in_grid: i32,
        grid: Option<&NameGrid>,
        inside: &BTreeSet<String>,
    ) -> Option<Reading> {
        let grid = grid.filter(|_| in_grid > 0);
        let reward = self.reward_beside(action, inside)?;
        let mut evidence = Evidence::default();
        evidence.add(like, format!("{} is named like an action or an item", action.name));
        evidence.add(in_grid, format!("it holds candidates of {}", grid.map_or("", |grid| &grid.pattern)));
        let named = likeness(&reward.name, REWARD).max(likeness(&reward.name, CHOSEN));
        evidence.add(named, format!("{} is named like a reward", reward.name));
        let (propensity, note) = self.propensity();
        if let Some(column) = propensity {
            evidence.add(3, format!("{} is above 0 and at most 1", column.name));
        }
        if self.sample.follows(&reward.name, &action.name) {
            evidence.add(-3, format!("{} differs for one {}", reward.name, action.name));
        } else if !reward.is_constant() {
            evidence.add(1, format!("{} differs for one {}", reward.name, action.name));
        }
        let shared = |key: &String| {
            self.sample.groups(std::slice::from_ref(key)).is_some_and(|groups| {
                groups.size > 1 && groups.are_constant() && groups.tell_apart(&self.sample, &action.name)
            })
        };
        let keys = ROUND.iter().filter_map(|name| self.named(&[name])).map(Seen::name);
        if let Some(key) = keys.chain(self.user()).chain(self.time()).find(shared)
            && propensity.is_none()
        {
            evidence.add(-3, format!("rows stand alone: {key} makes rounds of equal size"));
        }
        if action.count() > 2 && 2 * action.count() > self.sample.rows() {
            evidence.add(-3, format!("{} comes again", action.name));
        }
        let mut entries =
            format!("layout = \"wide\", chosen = \"{}\", reward = \"{}\"", action.name, reward.name);
        if let Some(column) = propensity {
            entries.push_str(&format!(", propensity = \"{}\"", column.name));
        }
        Some(Reading {
            kind: Kind::Log,
            what: format!("a log of one action ({}) and its reward ({}) a row", action.name, reward.name),
            entries,
            evidence: evidence.points,
            why: evidence.why,
            made: self.log(action, reward, propensity, note, grid),
        })
    }

    /// The reward beside an action: the column that is named most like one.
    fn reward_beside(&self, action: &ColumnSeen, inside: &BTreeSet<String>) -> Option<&ColumnSeen> {
        let like = |column: &ColumnSeen| match likeness(&column.name, CHOSEN) {
            n if n > 0 && column.is_binary() => 2 * n,
            _ => 2 * likeness(&column.name, REWARD) + i32::from(likeness(&column.name, REWARD) > 0),
        };
        let others = self.columns.iter().filter(|c| c.name != action.name && !inside.contains(&c.name));
        let mut best: Option<(&ColumnSeen, i32)> = None;
        for column in
            others.filter(|column| column.as_numbers().is_ok() || likeness(&column.name, REWARD) == 2)
        {
            let like = like(column);
            if like > best.map_or(0, |(_, most)| most) {
                best = Some((column, like));
            }
        }
        best.map(|(column, _)| column)
    }

    fn log(
        &self,
        action: &ColumnSeen,
        reward: &ColumnSeen,
        propensity: Option<&ColumnSeen>,
        note: Option<String>,
        grid: Option<&NameGrid>,
    ) -> Result<Draft, String> {
        let (n, name) = (action.count(), &action.name);
        if n == 1 {
            let item = action.distinct.iter().next().map_or("", String::as_str);
            return Err(format!(
                "only one item was shown ({name} is {item:?} in every row): a choice needs at least two"
            ));
        }
        if n > KEY_ARMS {
            let n = if n == MAX_COUNTED { format!("more than {n}") } else { n.to_string() };
            return Err(format!(
                "{n} items were shown ({name}), and keys of encrypted bandits carry {KEY_ARMS} arms: keep the rows of at most \
                 {KEY_ARMS} of them, or name a column of fewer, such as a group of items, as `chosen`"
            ));
        }
        let arms = grid.map_or_else(|| in_order(action.distinct.iter().cloned()), |grid| grid.arms.clone());
        let mut draft =
            Draft::new(Schema { candidates: arms, chosen: Some(name.clone()), ..Schema::default() });
        draft.reward(reward)?;
        match (propensity, note) {
            (Some(column), _) => draft.propensity(column),
            (None, note) => draft.notes.push(format!(
                "{}, and without the probability with which the action was chosen `data evaluate` cannot estimate. If actions were \
                 chosen at random, add a column of 1/candidates, and name it: propensity = \"COLUMN\"",
                note.unwrap_or_else(|| "No column has probabilities of the actions".into())
            )),
        }
        draft.schema.user = self.user().filter(|user| user != name);
        draft.schema.time = self.time().filter(|time| time != name && *time != reward.name);
        let likely = |column: &&ColumnSeen| likeness(&column.name, PROPENSITY) > 0;
        let mut used: BTreeSet<String> = self.columns.iter().filter(likely).map(Seen::name).collect();
        for column in &self.columns {
            // A constant is reported as such.
            if column.name != *name && !column.is_constant() && self.sample.follows(&column.name, name) {
                used.insert(column.name.clone());
            }
        }
        for column in
            used.iter().filter(|column| **column != reward.name && likeness(column, PROPENSITY) == 0)
        {
            draft.notes.push(format!(
                "{column} is left out: it says something of the {name} that was shown, and a row does not say it of the others"
            ));
        }
        match grid {
            Some(grid) => {
                draft.grid(self, grid, &mut used, None);
                draft.rest(self, &used, &BTreeSet::new());
            }
            None => {
                draft.rest(self, &used, &BTreeSet::new());
                draft.multiply();
            }
        }
        let arms = draft.schema.candidates.len();
        draft.finish(arms);
        if draft.schema.candidate.is_empty() && draft.schema.interactions.is_empty() {
            draft.schema.identity = true;
        }
        Ok(draft)
    }
}

/// Names of actions, which 0 and 1 may be.
fn is_action(name: &str) -> bool {
    likeness(name, &["action", "arm", "decision"]) == 2
}
