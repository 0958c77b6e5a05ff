//! A file with its schema and what was learnt from it.

use crate::error::name_of;
use crate::input::open_text;
use crate::score::{self, RewardNoise, Scored};
use crate::source::Source;
use crate::{Dropped, Error, Noted, Observed, RawRound};
use schema::{ColumnFit, ColumnSummary, Layout, MomentFit, NormFit, Position, Schema, Transform};
use std::path::{Path, PathBuf};

/// The most bytes of a schema file.
const MAX_SCHEMA: u64 = 1 << 20;
/// The most bytes of a transformation: 512 coefficients of 4096 candidates, of some 20 bytes each.
const MAX_TRANSFORM: u64 = 64 << 20;

/// Reads a schema from a TOML file.
///
/// # Errors
/// [`Error::File`] with the line of an entry that is none of a schema; [`Error::Schema`] for entries that
/// contradict each other.
pub fn read_schema(path: &Path) -> Result<Schema, Error> {
    let text = open_text(path)?.whole(MAX_SCHEMA)?;
    let mut schema: Schema = toml::from_str(&text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = 1 + text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count();
        Error::file(
            path,
            line as u64,
            format!("{}: docs/data.md lists the entries of a schema", fault::in_words(error.message())),
        )
    })?;
    let checked = schema.validate();
    checked.map_err(|error| Error::Schema { file: name_of(path), error })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    schema.tables.values_mut().for_each(|table| table.file = folder.join(&table.file));
    Ok(schema)
}

/// Reads a transformation from the JSON that `helba-client data transform` prints.
///
/// # Errors
/// [`Error::File`] for a file that is none.
pub fn read_transform(path: &Path) -> Result<Transform, Error> {
    let text = open_text(path)?.whole(MAX_TRANSFORM)?;
    serde_json::from_str(&text).map_err(|error| {
        let reason = format!("it is no transformation, as `helba-client data transform` prints one: {error}");
        Error::file(path, error.line() as u64, reason)
    })
}

/// A file, its schema, and the transformation that was learnt from it.
#[derive(Debug, Clone)]
pub struct Prepared {
    path: PathBuf,
    schema: Schema,
    transform: Transform,
    crossed: Vec<Transform>,
    explained: Option<f64>,
    arms: Vec<String>,
    columns: Vec<ColumnSummary>,
    rounds: u64,
    dropped: Vec<Dropped>,
    notes: Vec<Noted>,
    late: u64,
    times: Option<String>,
    longest: f64,
}

/// A round with its features.
#[derive(Debug, Clone, PartialEq)]
pub struct TransformedRound {
    /// The round as it was read.
    pub raw: RawRound,
    /// K rows of d features.
    pub rows: Vec<f64>,
    /// Number of rows that were shortened to norm 1.
    pub shortened: usize,
}

impl Prepared {
    /// Reads `path` two to four times, and learns the transformation that `schema` describes. Features are
    /// learnt from all rounds of the file. Rewards are learnt for score features alone, and each round of the
    /// file has the score of a model that was learnt without its reward.
    ///
    /// - Cost: O(rows) and, with principal components or a score, O(rows·D²) and decompositions of order D.
    ///
    /// # Errors
    /// [`Error::File`] with line, column and value of what cannot be read; [`Error::Schema`].
    pub fn fit(path: &Path, schema: &Schema) -> Result<Self, Error> {
        Self::learn(path, schema, None)
    }

    /// The same, with noise in all that is learnt from rewards. What is explained is not known then.
    ///
    /// # Errors
    /// Those of [`fit`](Self::fit); [`Error::Schema`] for a score that cannot be protected so: that of a
    /// column, or with features that are computed from rewards.
    pub fn fit_with_noise(path: &Path, schema: &Schema, noise: &mut RewardNoise) -> Result<Self, Error> {
        Self::learn(path, schema, Some(noise))
    }

    fn learn(path: &Path, schema: &Schema, noise: Option<&mut RewardNoise>) -> Result<Self, Error> {
        let fault = |error| Error::Schema { file: name_of(path), error };
        let First { fit, rounds, dropped, notes, late, times, arms } = First::read(path, schema)?;
        let columns = fit.summaries().cloned().collect();
        let mut transform = fit.finish(arms.len()).map_err(fault)?;
        if transform.projects().is_some() {
            let mut moments = MomentFit::new(&transform);
            each(path, schema, rounds, |round| {
                let rows = transform.wide_rows(&round.context, &round.candidates, position(&round));
                moments.see(&rows.map_err(|e| Error::at(path, round.line, e))?);
                Ok(())
            })?;
            transform = moments.finish(transform);
        }
        let Scored { transform, crossed, explained } = score::learn(path, schema, rounds, transform, noise)?;
        let norms = norms(path, schema, rounds, &transform)?;
        let longest = norms.longest();
        let transform = norms.finish(transform).map_err(fault)?;
        let (path, schema) = (path.into(), schema.clone());
        Ok(Prepared {
            path,
            schema,
            transform,
            crossed,
            explained,
            arms,
            columns,
            rounds,
            dropped,
            notes,
            late,
            times,
            longest,
        })
    }

    /// Reads `path` twice, and learns nothing from it: its rounds are transformed by what was learnt from
    /// another file, such as one of earlier rounds. `schema` says where choices and rewards stand, and must
    /// name the same features with the same encodings.
    ///
    /// # Errors
    /// Those of [`fit`](Self::fit); [`Error::Schema`] for other features, or another number of candidates.
    pub fn with(path: &Path, schema: &Schema, transform: Transform) -> Result<Self, Error> {
        let of = transform.schema();
        let fault = |key: &str, reason: String| Error::Schema {
            file: name_of(path),
            error: schema::Error::Schema { key: key.into(), reason },
        };
        let features = |schema: &Schema| {
            (schema.candidate.clone(), schema.context.clone(), schema.missing, schema.previous)
        };
        if features(of) != features(schema) {
            let reason = "the transformation was learnt for other columns, encodings, missing or previous: give the schema the \
                          entries that it has";
            return Err(fault("[candidate]", reason.into()));
        }
        let First { fit, rounds, dropped, notes, late, times, arms } = First::read(path, schema)?;
        if arms.len() != transform.arms() {
            let reason = format!(
                "the rounds have {} candidates, and the transformation was learnt for {}: convert this file without it",
                arms.len(),
                transform.arms()
            );
            return Err(fault("candidates", reason));
        }
        let longest = norms(path, schema, rounds, &transform)?.longest();
        Ok(Prepared {
            path: path.into(),
            schema: schema.clone(),
            transform,
            crossed: Vec::new(),
            explained: None,
            arms,
            columns: fit.summaries().cloned().collect(),
            rounds,
            dropped,
            notes,
            late,
            times,
            longest,
        })
    }

    /// Calls `take` with every round, in the order of the file.
    ///
    /// # Errors
    /// The first error of `take`; [`Error::File`] if the file has changed.
    pub fn each(&self, mut take: impl FnMut(TransformedRound) -> Result<(), Error>) -> Result<(), Error> {
        let mut turns = self.crossed.iter().cycle();
        each(&self.path, &self.schema, self.rounds, |raw| {
            let transform = turns.next().unwrap_or(&self.transform);
            let made = transform.rows(&raw.context, &raw.candidates, position(&raw));
            let (rows, shortened) = made.map_err(|e| Error::at(&self.path, raw.line, e))?;
            take(TransformedRound { raw, rows, shortened })
        })
    }

    /// The number of transformations that rounds take turns in.
    pub(crate) fn folds(&self) -> usize {
        self.crossed.len().max(1)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The schema.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The transformation: of rounds that the file does not have, if a score was learnt.
    pub fn transform(&self) -> &Transform {
        &self.transform
    }

    /// Names of the candidates, in the order of the arms.
    pub fn arms(&self) -> &[String] {
        &self.arms
    }

    /// Whether an arm is the same candidate in all rounds: in wide tables, and where the schema lists names.
    pub fn fixed(&self) -> bool {
        self.schema.layout == Layout::Wide || !self.schema.candidates.is_empty()
    }

    /// What was found in the columns of features.
    pub fn columns(&self) -> &[ColumnSummary] {
        &self.columns
    }

    /// Number of rounds, without those dropped.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// The rounds that were dropped, by reason.
    pub fn dropped(&self) -> &[Dropped] {
        &self.dropped
    }

    /// Notes on rows of the file: those left out, with a stray quote, or without a row in a joined table.
    pub fn notes(&self) -> &[Noted] {
        &self.notes
    }

    /// Number of rounds that are earlier than their predecessor.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// The share of the variance of rewards that the score explains on rounds that it has not seen. `None`
    /// where no score is learnt.
    pub fn explained(&self) -> Option<f64> {
        self.explained
    }

    /// Why some times cannot be compared, such as a missing zone; `None` if all can.
    pub fn times(&self) -> Option<&str> {
        self.times.as_deref()
    }

    /// Length of the longest row before rows are divided or shortened.
    pub fn longest(&self) -> f64 {
        self.longest
    }

    /// Refuses a file in which only the rewards of logged actions are known.
    ///
    /// # Errors
    /// [`Error::Logged`].
    pub fn require_every_reward(&self) -> Result<(), Error> {
        if self.schema.is_logged() { Err(logged(&self.path)) } else { Ok(()) }
    }
}

/// What the first pass over a file finds.
struct First {
    fit: ColumnFit,
    rounds: u64,
    dropped: Vec<Dropped>,
    notes: Vec<Noted>,
    late: u64,
    times: Option<String>,
    arms: Vec<String>,
}

impl First {
    fn read(path: &Path, schema: &Schema) -> Result<Self, Error> {
        let fault = |error| Error::Schema { file: name_of(path), error };
        let mut source = Source::open(path, schema)?;
        let mut fit = ColumnFit::new(schema).map_err(fault)?;
        while let Some(round) = source.next_round()? {
            let seen = fit.see(&round.context, &round.candidates);
            seen.map_err(|e| Error::at(path, round.line, e))?;
        }
        let (rounds, dropped, late) = (source.rounds(), source.dropped(), source.late());
        if rounds == 0 {
            let reason = match dropped.iter().max_by_key(|d| d.rounds) {
                Some(d) => format!(
                    "all {} rounds are dropped, most because {} (first in line {}): mend the file or the schema",
                    dropped.iter().map(|d| d.rounds).sum::<u64>(),
                    d.reason,
                    d.first_line
                ),
                None => "no rounds follow the header".into(),
            };
            return Err(Error::file(path, 0, reason));
        }
        if let Some(name) = source.unseen() {
            return Err(Error::column(path, 0, name, "no line has a value of this name: mend the schema"));
        }
        let (notes, times, arms) = (source.notes(), source.times(), source.arms());
        Ok(First { fit, rounds, dropped, notes, late, times, arms })
    }
}

/// The lengths of the rows of all rounds, before they are divided or shortened.
fn norms(path: &Path, schema: &Schema, rounds: u64, transform: &Transform) -> Result<NormFit, Error> {
    let mut norms = NormFit::default();
    each(path, schema, rounds, |round| {
        let rows = transform.projected_rows(&round.context, &round.candidates, position(&round));
        norms.see(&rows.map_err(|e| Error::at(path, round.line, e))?, transform.features());
        Ok(())
    })?;
    Ok(norms)
}

pub(crate) fn logged(path: &Path) -> Error {
    Error::Logged { file: name_of(path) }
}

pub(crate) fn position(round: &RawRound) -> Position {
    Position { previous: round.previous }
}

/// Calls `take` with each of `rounds` rounds.
pub(crate) fn each(
    path: &Path,
    schema: &Schema,
    rounds: u64,
    mut take: impl FnMut(RawRound) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut source = Source::open(path, schema)?;
    while let Some(round) = source.next_round()? {
        take(round)?;
    }
    if source.rounds() != rounds {
        let reason = format!(
            "the file had {rounds} rounds when it was read first, and has {} now: start again when nobody writes it",
            source.rounds()
        );
        return Err(Error::file(path, 0, reason));
    }
    Ok(())
}

impl Observed {
    /// The reward of an arm, if it is known.
    pub fn reward(&self, arm: usize) -> Option<f64> {
        match self {
            Observed::Every(rewards) => rewards.get(arm).copied(),
            Observed::Played { arm: played, reward, .. } => (arm == *played).then_some(*reward),
        }
    }
}
