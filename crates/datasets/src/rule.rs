//! What a rule of the user's own picks, as a column of the file.

use crate::Error;
use crate::source::Source;
use schema::Schema;
use std::path::Path;

/// The candidate that `column` names in each round that a schema reads, in the order of
/// [`Dataset::rounds`](crate::Dataset::rounds). The column is written as `chosen` is: in a wide table the
/// candidate's name, in a long one 1 in the row of the candidate.
///
/// # Errors
/// [`Error::File`] where a round has no such candidate, and for files that are no tables.
pub fn rule(path: &Path, schema: &Schema, column: &str) -> Result<Vec<usize>, Error> {
    if schema.layout == schema::Layout::Dsjson {
        let reason = "a rule is a column of a table, and this file has none: convert it, or write it as CSV";
        return Err(Error::column(path, 0, column, reason));
    }
    let picked = Schema {
        chosen: Some(column.into()),
        reward: None,
        propensity: None,
        previous: false,
        ..schema.clone()
    };
    let (mut rounds, mut picks) = (Source::open(path, schema)?, Source::open(path, &picked)?);
    let mut arms = Vec::new();
    let mut next = picks.next_round()?;
    while let Some(round) = rounds.next_round()? {
        // Rounds without a choice of the log, which the schema drops, may have one of the rule, and the other
        // way round.
        while next.as_ref().is_some_and(|pick| pick.line < round.line) {
            next = picks.next_round()?;
        }
        let pick = next.as_ref().filter(|pick| pick.line == round.line).and_then(|pick| pick.chosen);
        let reason = "the rule picks no candidate in this round: fill in the cell, or delete the round";
        arms.push(pick.ok_or_else(|| Error::column(path, round.line, column, reason))?);
    }
    Ok(arms)
}
