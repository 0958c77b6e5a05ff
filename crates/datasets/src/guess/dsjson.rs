//! Lines of JSON, each a decision with its candidates.

use super::names::USER;
use super::{ColumnSeen, Guess, MAX_COLUMNS};
use crate::Error;
use crate::dsjson::{Flattener, Lines, candidates};
use schema::{Cell, Layout, Schema};
use std::collections::BTreeMap;
use std::path::Path;

pub(super) fn guess_dsjson(path: &Path) -> Result<Guess, Error> {
    let mut lines = Lines::open(path)?;
    let (mut context, mut candidate): (BTreeMap<String, ColumnSeen>, BTreeMap<String, ColumnSeen>) =
        Default::default();
    let mut timed = false;
    let (mut rows, mut sizes, mut probable) = (0, BTreeMap::<usize, u64>::new(), 0);
    let add = |into: &mut BTreeMap<String, ColumnSeen>, values: BTreeMap<String, Cell>| {
        for (name, cell) in values {
            if into.len() < MAX_COLUMNS || into.contains_key(&name) {
                into.entry(name.clone()).or_insert_with(|| ColumnSeen::new(&name)).see(&cell);
            }
        }
    };
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
        add(&mut context, flattener.flatten(&object["c"])?);
        for own in multi {
            add(&mut candidate, flattener.flatten(own)?);
        }
    }
    let Some((&k, &rounds)) = sizes.iter().max_by_key(|(_, n)| **n) else {
        let reason = "no line is a decision: each needs an object c with a list _multi of candidates, as docs/data.md describes";
        return Err(Error::file(path, 0, reason));
    };
    let schema = Schema { layout: Layout::Dsjson, arms: Some(k), ..Schema::default() };
    let mut guess = Guess { schema, columns: Vec::new(), rows, notes: Vec::new() };
    guess.notes.push(format!("{rounds} lines have {k} candidates; {probable} of {rows} name a probability"));
    if costs[0] < costs[1] && (costs[0] < -1.0 || costs[1] > 0.0) {
        // A cost of 0 to 1 or more is the lower the better: the smallest is reward 1.
        guess.schema.reward_range = Some([costs[1], costs[0]]);
    }
    guess.schema.time = timed.then(|| "Timestamp".into());
    let is_user = |name: &&String| USER.iter().any(|user| name.rsplit('.').next() == Some(*user));
    guess.schema.user = context.keys().find(is_user).cloned();
    let user = guess.schema.user.clone();
    for (name, seen) in context.iter().filter(|(name, _)| Some(*name) != user.as_ref()) {
        guess.offer(name, seen, false);
    }
    for (name, seen) in &candidate {
        guess.offer(name, seen, true);
    }
    // Names of both: a line may give them at either place.
    let both: Vec<String> = guess
        .schema
        .context
        .keys()
        .filter(|name| guess.schema.candidate.contains_key(*name))
        .cloned()
        .collect();
    guess.schema.context.retain(|name, _| !both.contains(name));
    if guess.schema.candidate.is_empty() {
        guess.schema.identity = true;
        guess.schema.interactions =
            guess.schema.context.keys().map(|name| [name.clone(), "candidate".to_string()]).collect();
    }
    guess.columns = context.into_values().chain(candidate.into_values()).collect();
    guess.finish();
    Ok(guess)
}
