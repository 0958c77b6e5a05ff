//! A table with a logged action and its reward in each row.

use super::names::{CHOSEN, ITEM, PROPENSITY, REWARD, TIME, USER};
use super::{ColumnSeen, Guess};
use schema::{Encoding, Schema};
use std::collections::BTreeSet;

/// The most candidates of a logged action. Keys of encrypted bandits have room for as many.
const MAX_ARMS: usize = 64;

impl Guess {
    /// The column of a logged action: one that is named like a choice or an item, and has a few values.
    fn action(&self) -> Option<&ColumnSeen> {
        let few = |c: &&ColumnSeen| {
            !c.more && (2..=MAX_ARMS).contains(&c.distinct.len()) && !c.is_binary() && !c.is_boolean()
        };
        let named = |name: &&str| self.columns.iter().filter(few).find(|c| c.name.eq_ignore_ascii_case(name));
        CHOSEN.iter().chain(ITEM).find_map(named)
    }

    /// A log with an action and its reward a row, where candidates have no features. `sure` is whether it is
    /// one only if it has probabilities of the actions too.
    pub(super) fn log(&mut self, sure: bool) -> bool {
        let reward = CHOSEN
            .iter()
            .filter_map(|name| self.named(&[name]))
            .find(|name| self.column(name).is_some_and(|c| c.is_binary() || c.is_boolean()));
        let (Some(action), Some(reward)) = (self.action(), self.named(REWARD).or(reward)) else {
            return false;
        };
        let propensity = self.named(PROPENSITY);
        if sure && propensity.is_none() {
            return false;
        }
        let (chosen, candidates) = (action.name.clone(), action.distinct.iter().cloned().collect());
        if propensity.is_none() {
            self.notes.push(
                "No column has the probability with which the action was chosen, and without it `data evaluate` cannot estimate. If \
                 actions were chosen at random, add a column of 1/candidates, and name it: propensity = \"COLUMN\""
                    .into(),
            );
        }
        self.schema = Schema {
            candidates,
            chosen: Some(chosen),
            reward: Some(reward),
            propensity,
            user: self.named(USER),
            time: self.named(TIME),
            ..Schema::default()
        };
        self.rest(&BTreeSet::new(), &BTreeSet::new());
        let context = &self.schema.context;
        // The products with categories add up to the one-hot of the candidate.
        self.schema.identity = !context.values().any(|encoding| *encoding == Encoding::OneHot);
        self.schema.interactions =
            context.keys().map(|name| [name.clone(), "candidate".to_string()]).collect();
        self.schema.interactions_only = !context.is_empty();
        true
    }
}
