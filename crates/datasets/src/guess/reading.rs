//! Rival readings of a file, weighed on its evidence.

use super::Draft;
use schema::Schema;

/// The least evidence with which a reading is proposed.
const ENOUGH: i32 = 3;
/// Two readings whose evidence differs by less are a question to the user.
const CLOSE: i32 = 2;

/// One way to read a file, with its evidence and the schema that it would have.
pub(super) struct Reading {
    /// What kind of reading it is: two of one kind are no rivals.
    pub(super) kind: Kind,
    /// The reading in words, for messages.
    pub(super) what: String,
    /// The entries of a schema that decide for it.
    pub(super) entries: String,
    /// What speaks for it, less what speaks against it.
    pub(super) evidence: i32,
    /// The evidence in words.
    pub(super) why: Vec<String>,
    /// The proposal, or why there can be none.
    pub(super) made: Result<Draft, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A row is a round, in which one of all candidates was chosen.
    Choice,
    /// A row is a round, in which the reward of one action is known.
    Log,
    /// A row is a round, in which the rewards of all candidates are known.
    Rewards,
    /// A row is a candidate of a round.
    Long,
}

/// Points of evidence, with words for each.
#[derive(Default)]
pub(super) struct Evidence {
    pub(super) points: i32,
    pub(super) why: Vec<String>,
}

impl Evidence {
    pub(super) fn add(&mut self, points: i32, why: impl Into<String>) {
        if points != 0 {
            self.points += points;
            self.why.push(format!("{}{}", if points < 0 { "not that " } else { "" }, why.into()));
        }
    }
}

impl Reading {
    /// The reading with the most evidence, with a note on the next. Two that are close are refused.
    pub(super) fn best(mut readings: Vec<Reading>) -> Result<Draft, Option<String>> {
        // The first of equals stays the first.
        readings.sort_by_key(|reading| -reading.evidence);
        readings.retain(|reading| reading.evidence >= ENOUGH);
        let mut readings = readings.into_iter();
        let Some(best) = readings.next() else { return Err(None) };
        let rival = readings.find(|reading| best.is_rival(reading));
        if let Some(rival) = &rival
            && best.evidence - rival.evidence < CLOSE
        {
            let say = |reading: &Reading| {
                let but = match &reading.made {
                    Ok(_) => String::new(),
                    Err(reason) => format!("; but {reason}"),
                };
                format!("{} ({}): {}{but}", reading.what, reading.why.join(", "), reading.entries)
            };
            return Err(Some(format!(
                "two readings fit this file about equally well. Either {}. Or {}. Write the schema of the right one by \
                 docs/data.md",
                say(&best),
                say(rival)
            )));
        }
        let mut draft = best.made.map_err(|reason| Some(format!("read as {}, {reason}", best.what)))?;
        if let Some(rival) = rival {
            draft.notes.insert(
                0,
                format!(
                    "Read as {} (evidence {}: {}). Next would be {} (evidence {}: {}): {}",
                    best.what,
                    best.evidence,
                    best.why.join(", "),
                    rival.what,
                    rival.evidence,
                    rival.why.join(", "),
                    rival.entries
                ),
            );
        }
        Ok(draft)
    }

    /// Whether two readings make different rounds of the file.
    fn is_rival(&self, other: &Reading) -> bool {
        let same = |a: &Schema, b: &Schema| match self.kind {
            Kind::Log => a.chosen == b.chosen && a.reward == b.reward,
            Kind::Choice | Kind::Rewards => {
                a.pattern == b.pattern && a.chosen == b.chosen && a.reward == b.reward
            }
            // A choice and a reward of 1 are the same.
            Kind::Long => {
                let key =
                    |schema: &Schema| (schema.round.clone(), schema.chosen.clone().or(schema.reward.clone()));
                key(a) == key(b)
            }
        };
        match (&self.made, &other.made) {
            (Ok(a), Ok(b)) => self.kind != other.kind || !same(&a.schema, &b.schema),
            _ => self.kind != other.kind,
        }
    }
}
