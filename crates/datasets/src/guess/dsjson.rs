//! Lines of JSON, each a decision with its candidates.

use super::names::USER;
use super::{ColumnSeen, Draft, Guess, MAX_COLUMNS};
use crate::dsjson::{Flattener, Lines, candidates};
use crate::{AfterOutcome, Error, after_outcome};
use schema::{Cell, Encoding, Layout, Missing, Schema};
use std::collections::BTreeMap;
use std::path::Path;

/// The most features of which some objects lack the names: the most frequent ones.
const MAX_SPARSE: usize = 64;

/// What was seen under the names of some objects.
#[derive(Default)]
struct Fields {
    columns: BTreeMap<String, ColumnSeen>,
    objects: u64,
}

pub(super) fn guess_dsjson(path: &Path) -> Result<Guess, Error> {
    let mut lines = Lines::open(path)?;
    let (mut context, mut candidate) = (Fields::default(), Fields::default());
    let mut timed = false;
    let (mut rows, mut sizes, mut probable) = (0, BTreeMap::<usize, u64>::new(), 0);
    let mut costs = [f64::INFINITY, f64::NEG_INFINITY];
    while let Some((line, object)) = lines.read()? {
        rows += 1;
        let Some(multi) = candidates(&object) else { continue };
        *sizes.entry(multi.len()).or_insert(0) += 1;
        timed |= object.contains_key("Timestamp");
        probable += u64::from(object.contains_key("_label_probability"));
        if let Some(cost) = object.get("_label_cost").and_then(serde_json::Value::as_f64) {
            costs = [costs[0].min(cost), costs[1].max(cost)];
        }
        let mut flattener = Flattener::new(path, line);
        context.see(line, flattener.flatten(&object["c"])?);
        for own in multi {
            candidate.see(line, flattener.flatten(own)?);
        }
    }
    let Some((&k, &rounds)) = sizes.iter().max_by_key(|(_, n)| **n) else {
        let reason = "no line is a decision: each needs an object c with a list _multi of candidates, as docs/data.md describes; write objects that are rows of a table as CSV or Parquet";
        return Err(Error::file(path, 0, reason));
    };
    if k < 2 {
        let reason = "most decisions have one candidate, and a choice needs at least two in c._multi";
        return Err(Error::file(path, 0, reason));
    }
    // Names of both: a line may give them at either place.
    context.columns.retain(|name, _| !candidate.columns.contains_key(name));
    let mut make = |after: &[AfterOutcome]| {
        for AfterOutcome { name, reason } in after {
            let fields = [&mut context, &mut candidate].into_iter().filter_map(|of| of.columns.get_mut(name));
            fields.for_each(|field| field.doubt(reason));
        }
        let mut draft = Draft::new(Schema { layout: Layout::Dsjson, arms: Some(k), ..Schema::default() });
        draft
            .notes
            .push(format!("{rounds} lines have {k} candidates; {probable} of {rows} name a probability"));
        if costs[0] < costs[1] && (costs[0] < -1.0 || costs[1] > 0.0) {
            // A cost of 0 to 1 or more is the lower the better: the smallest is reward 1.
            draft.schema.reward_range = Some([costs[1], costs[0]]);
        }
        draft.schema.time = timed.then(|| "Timestamp".into());
        let is_user = |name: &&String| USER.iter().any(|user| name.rsplit('.').next() == Some(*user));
        draft.schema.user = context.columns.keys().find(is_user).cloned();
        let user = draft.schema.user.clone();
        context.offer(&mut draft, user.as_deref(), false);
        candidate.offer(&mut draft, None, true);
        if draft.schema.candidate.is_empty() {
            draft.multiply();
        } else {
            // VowpalWabbit adds a constant too: without one a reward that all candidates share has no
            // feature.
            draft.schema.bias = true;
        }
        draft.finish(k);
        draft
    };
    let mut draft = make(&[]);
    let after = after_outcome(path, &draft.offered())?;
    if !after.is_empty() {
        draft = make(&after);
    }
    let columns = context.columns.into_values().chain(candidate.columns.into_values()).collect();
    let Draft { schema, notes, .. } = draft;
    Ok(Guess { schema, columns, rows, notes })
}

impl Fields {
    fn see(&mut self, line: u64, values: BTreeMap<String, Cell>) {
        self.objects += 1;
        for (name, cell) in values {
            if self.columns.len() < MAX_COLUMNS || self.columns.contains_key(&name) {
                self.columns.entry(name.clone()).or_insert_with(|| ColumnSeen::new(&name)).see(line, &cell);
            }
        }
    }

    /// Offers all fields but `without`. Absence is a value: where some objects lack a name, it is 0, or no
    /// category, and the encoding of a number keeps 0 where it is.
    fn offer(&self, draft: &mut Draft, without: Option<&str>, of_candidate: bool) {
        let mut sparse: Vec<&ColumnSeen> = Vec::new();
        for (name, seen) in self.columns.iter().filter(|(name, _)| Some(name.as_str()) != without) {
            if seen.values + seen.missing < self.objects {
                sparse.push(seen);
            } else {
                draft.offer(name, seen, of_candidate);
            }
        }
        sparse.sort_by_key(|seen| std::cmp::Reverse(seen.values));
        let mut left = 0;
        for seen in sparse {
            if seen.values == 0 {
                continue;
            }
            let number = seen.texts() == 0;
            let rare = draft.schema.candidate.len() + draft.schema.context.len() >= MAX_SPARSE;
            if rare {
                left += 1;
                continue;
            }
            if seen.after.is_some() {
                draft.offer(&seen.name, seen, of_candidate);
                continue;
            }
            let before = draft.schema.missing;
            draft.schema.missing = Missing::Zero;
            let [least, most] = seen.range();
            match (number, seen.fitting()) {
                (true, _) if least >= 0.0 && most <= 1.0 => {
                    draft.take(&seen.name, Encoding::Plain, 1, of_candidate)
                }
                (true, _) => draft.take(&seen.name, Encoding::Max, 1, of_candidate),
                (false, Ok(_)) => draft.offer(&seen.name, seen, of_candidate),
                (false, Err(_)) if seen.is_constant() => {
                    draft.take(&seen.name, Encoding::OneHot, 1, of_candidate)
                }
                (false, Err(_)) => {
                    draft.schema.missing = before;
                    draft.offer(&seen.name, seen, of_candidate);
                }
            }
        }
        if left > 0 {
            draft.notes.push(format!(
                "{left} names that few lines have are left out: {MAX_SPARSE} features are proposed at most"
            ));
        }
    }
}
