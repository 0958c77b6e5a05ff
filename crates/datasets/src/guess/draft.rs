//! A schema that is being drafted.

use super::Seen;
use super::column::{ColumnSeen, Fitting};
use super::names::ROW;
use super::schema_file::{toml_key, toml_string};
use schema::{Encoding, MAX_WIDE, Missing, Schema};
use std::collections::{BTreeMap, BTreeSet};

/// A schema, with notes on it.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) schema: Schema,
    pub(super) notes: Vec<String>,
    /// What the numbers of features need, the number of features that a column makes, and its share of
    /// missing values.
    fittings: BTreeMap<String, (Fitting, usize, f64)>,
    /// The features that were offered and fit, of candidates and of the context, also those that a note alone
    /// names.
    offered: [BTreeMap<String, Encoding>; 2],
}

impl Draft {
    pub(super) fn new(schema: Schema) -> Self {
        Draft { schema, ..Draft::default() }
    }

    /// Offers a column as a feature, or notes why it is none.
    pub(super) fn offer(&mut self, name: &str, seen: &ColumnSeen, of_candidate: bool) {
        match seen.fitting() {
            Ok(fitting) => {
                let group = if of_candidate { &mut self.schema.candidate } else { &mut self.schema.context };
                group.insert(name.into(), fitting.encoding);
                let missing = seen.missing as f64 / (seen.missing + seen.values).max(1) as f64;
                let size = seen.features(fitting.encoding);
                self.fittings.insert(name.into(), (fitting, size, missing));
            }
            Err(reason) => self.notes.push(format!("{name} is left out: {reason}")),
        }
    }

    /// Offers a feature with an encoding of its own.
    pub(super) fn take(&mut self, name: &str, encoding: Encoding, size: usize, of_candidate: bool) {
        let group = if of_candidate { &mut self.schema.candidate } else { &mut self.schema.context };
        group.insert(name.into(), encoding);
        let fitting = Fitting { encoding, comma: false, no_value: Vec::new(), note: None };
        self.fittings.insert(name.into(), (fitting, size, 0.0));
    }

    /// Enters the reward of a column, and its range. What is no number has no value.
    pub(super) fn reward(&mut self, column: &ColumnSeen) -> Result<(), String> {
        let fitting = column
            .as_numbers()
            .map_err(|said| format!("the reward {} cannot be read: {said}", column.name))?;
        self.schema.reward = Some(column.name.clone());
        self.schema.reward_range = column.reward_range();
        fitting.enter(&column.name, &mut self.schema);
        self.notes.extend(fitting.note);
        Ok(())
    }

    pub(super) fn propensity(&mut self, column: &ColumnSeen) {
        self.schema.propensity = Some(column.name.clone());
        if column.has_comma() {
            self.schema.decimal_comma.push(column.name.clone());
        }
    }

    /// Offers every column that has no other use: to candidates if it is in `varies`, else to the context.
    pub(super) fn rest(&mut self, seen: &Seen, used: &BTreeSet<String>, varies: &BTreeSet<String>) {
        let s = &self.schema;
        let taken: BTreeSet<String> =
            [&s.chosen, &s.reward, &s.propensity, &s.user, &s.time, &s.candidate_column, &s.available]
                .into_iter()
                .flatten()
                .chain(&s.round)
                .chain(used)
                .cloned()
                .collect();
        for column in &seen.columns {
            let row_number = ROW.iter().any(|name| column.name.eq_ignore_ascii_case(name));
            if !taken.contains(&column.name) && !row_number {
                self.offer(&column.name, column, varies.contains(&column.name));
            }
        }
    }

    /// Multiplies the context with the candidates, which have no features of their own.
    pub(super) fn multiply(&mut self) {
        let s = &mut self.schema;
        // The products with categories add up to the one-hot of the candidate.
        s.identity = !s.context.values().any(|encoding| *encoding == Encoding::OneHot);
        s.interactions = s.context.keys().map(|name| [name.clone(), "candidate".to_string()]).collect();
        s.interactions_only = !s.context.is_empty();
    }

    /// What a context needs to change a choice, what missing values need, and what the features need.
    pub(super) fn finish(&mut self, arms: usize) {
        self.offered = [self.schema.candidate.clone(), self.schema.context.clone()];
        let s = &self.schema;
        if s.candidate.is_empty() && !s.candidates.is_empty() && s.interactions.is_empty() {
            self.multiply();
        }
        let features = &self.schema.candidate;
        let partner =
            features.keys().next().filter(|_| !self.schema.identity).map_or("candidate", String::as_str);
        if let Some(first) = self.schema.context.keys().next().filter(|_| self.schema.interactions.is_empty())
        {
            let pair = format!("[[{}, {}]]", toml_string(first), toml_string(partner));
            self.notes.push(format!(
                "These values are the same for all candidates, and change no choice by themselves. To use one, put it into [context] \
                 and multiply it with a feature of candidates: interactions = {pair}"
            ));
            let line =
                |(name, encoding): (&String, &Encoding)| format!("    {} = \"{encoding}\"", toml_key(name));
            self.notes.extend(self.schema.context.iter().map(line));
            self.schema.context.clear();
        }
        self.narrow(arms);
        let kept: Vec<String> =
            self.schema.candidate.keys().chain(self.schema.context.keys()).cloned().collect();
        let mut missing = (0.0, "");
        let mut without = 0.0;
        for name in &kept {
            let Some((fitting, _, share)) = self.fittings.get(name) else { continue };
            fitting.enter(name, &mut self.schema);
            self.notes.extend(fitting.note.clone());
            without += share;
            if *share > missing.0 {
                missing = (*share, name.as_str());
            }
        }
        if without > 0.05 && self.schema.missing == Missing::Drop {
            self.schema.missing = Missing::Mean;
            let (share, name) = missing;
            self.notes.push(format!(
                "missing = \"mean\", because {name} lacks {:.1} % of its values, and rounds without one would be dropped",
                100.0 * share
            ));
        }
    }

    /// The schema with all features that were offered, also those that a note alone names.
    pub(super) fn offered(&self) -> Schema {
        let [candidate, context] = self.offered.clone();
        let mut schema = Schema { candidate, context, ..self.schema.clone() };
        for (name, (fitting, ..)) in &self.fittings {
            fitting.enter(name, &mut schema);
        }
        schema
    }

    /// Leaves out what makes more features than are possible before a projection.
    fn narrow(&mut self, arms: usize) {
        loop {
            let s = &self.schema;
            let size = |name: &String| self.fittings.get(name).map_or(arms, |(_, size, _)| *size);
            let own: usize = s.candidate.keys().map(size).sum();
            let shared: usize = if s.interactions_only { 0 } else { s.context.keys().map(size).sum() };
            let products: usize = s.interactions.iter().map(|[a, b]| size(a) * size(b)).sum();
            let rest = if s.identity { arms } else { 0 } + usize::from(s.previous) + usize::from(s.bias);
            if own + shared + products + rest <= MAX_WIDE {
                return;
            }
            let widest = |names: BTreeSet<&String>| names.into_iter().max_by_key(|name| size(name)).cloned();
            let Some(name) =
                widest(s.context.keys().collect()).or_else(|| widest(s.candidate.keys().collect()))
            else {
                return;
            };
            self.notes.push(format!(
                "{name} is left out: all columns together would make more than {MAX_WIDE} features"
            ));
            self.schema.candidate.remove(&name);
            self.schema.context.remove(&name);
            self.schema.interactions.retain(|pair| !pair.contains(&name));
            self.schema.interactions_only &= !self.schema.context.is_empty();
        }
    }
}

/// Texts in the order of their numbers, those that are none behind.
pub(super) fn in_order(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut texts: Vec<String> = texts.into_iter().collect();
    let number = |text: &String| text.parse::<f64>().unwrap_or(f64::INFINITY);
    texts.sort_by(|a, b| number(a).total_cmp(&number(b)).then_with(|| a.cmp(b)));
    texts
}
