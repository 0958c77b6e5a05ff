//! The rounds of a file, in memory.

use crate::error::name_of;
use crate::input::begins_with_brace;
use crate::prepare::logged;
use crate::table::{Row, Table};
use crate::{Error, MAX_DATASET, Observed, Prepared, read_schema, read_transform};
use bandit::datasets::Purchases;
use bandit::{Environment, Features, Outcome};
use rand::Rng;
use schema::{Encoding, Layout, NormRule, Schema};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Features and rewards of all rounds of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    arms: Vec<String>,
    fixed: bool,
    features: usize,
    rounds: Vec<DataRound>,
    folds: usize,
    reward_range: Option<[f64; 2]>,
}

/// One round.
#[derive(Debug, Clone, PartialEq)]
pub struct DataRound {
    /// The features of all candidates.
    pub features: Features,
    /// The rewards.
    pub observed: Observed,
    /// The sum of the probabilities with which the candidates were shown, where those of all are known.
    pub probabilities: Option<f64>,
}

impl Dataset {
    /// The rounds of a file: with a schema, of any file that it describes; without one, of a file in the
    /// layout of `data/README.md` or one that [`convert`](crate::convert()) wrote. Every reward is known.
    ///
    /// # Errors
    /// Those of [`any`](Self::any); [`Error::Logged`] where only rewards of logged actions are known.
    pub fn open(path: &Path, schema: Option<&Path>) -> Result<Self, Error> {
        let dataset = Self::any(path, schema)?;
        if dataset.rounds.iter().any(|round| !matches!(round.observed, Observed::Every(_))) {
            return Err(logged(path));
        }
        Ok(dataset)
    }

    /// The same, also where only the rewards of logged actions are known.
    ///
    /// # Errors
    /// [`Error::File`] with line, column and value; [`Error::Schema`]; [`Error::TooLarge`] beyond
    /// [`MAX_DATASET`].
    pub fn any(path: &Path, schema: Option<&Path>) -> Result<Self, Error> {
        if let Some(schema) = schema {
            return Self::load(&Prepared::fit(path, &read_schema(schema)?)?);
        }
        let reason = "the header is that of no layout this program knows: `helba-client data check FILE > schema.toml` writes a \
                      schema, and --schema schema.toml names it";
        match Self::known(path)? {
            Some(dataset) => Ok(dataset),
            None if begins_with_brace(path)? => Err(Error::file(path, 1, reason)),
            None => {
                Table::open(path)?.require_header()?;
                Err(Error::file(path, 1, reason))
            }
        }
    }

    /// The rounds of a file that a bandit learns in bulk, transformed as its devices transform theirs.
    ///
    /// # Errors
    /// Those of [`any`](Self::any), and of [`Prepared::with`]; [`Error::Scored`] for a schema with a score
    /// and no transformation: the score of these rounds would know their rewards.
    pub fn to_learn(path: &Path, schema: Option<&Path>, transform: Option<&Path>) -> Result<Self, Error> {
        let Some(file) = schema else { return Self::any(path, None) };
        let schema = read_schema(file)?;
        let prepared = match transform {
            Some(transform) => Prepared::with(path, &schema, read_transform(transform)?)?,
            None if schema.score.is_some() => {
                return Err(Error::Scored { schema: name_of(file), file: name_of(path) });
            }
            None => Prepared::fit(path, &schema)?,
        };
        Self::load(&prepared)
    }

    /// The rounds of a file in the layout of `data/README.md`, or of one that
    /// [`convert`](crate::convert()) wrote; `None` for any other, which needs a schema.
    ///
    /// # Errors
    /// Those of [`any`](Self::any).
    pub fn known(path: &Path) -> Result<Option<Self>, Error> {
        if begins_with_brace(path)? {
            return Ok(None);
        }
        let mut table = Table::open(path)?;
        let header = table.header().to_vec();
        if let Some(schema) = converted(&header) {
            return Self::load(&Prepared::fit(path, &schema)?).map(Some);
        }
        if ["id", "choice"].iter().all(|name| header.iter().any(|have| have == name)) {
            let mut row = Row::default();
            let next = || match table.read(&mut row) {
                Ok(more) => Ok(more.then(|| (row.line, row.cells.iter().map(str::to_string).collect()))),
                Err(Error::File { place, reason }) => Err(bandit::Error::File { line: place.line, reason }),
                Err(error) => Err(bandit::Error::File { line: 0, reason: error.to_string() }),
            };
            let purchases = Purchases::from_rows(&header, next, MAX_DATASET);
            return purchases.map(|purchases| Some(Self::from(purchases))).map_err(|error| match error {
                bandit::Error::File { line, reason } => Error::file(path, line, reason),
                error => Error::file(path, 0, error.to_string()),
            });
        }
        Ok(None)
    }

    /// The rounds of a prepared file.
    ///
    /// # Errors
    /// [`Error::TooLarge`] beyond [`MAX_DATASET`]; [`Error::File`] if the file has changed.
    pub fn load(prepared: &Prepared) -> Result<Self, Error> {
        let (arms, features) = (prepared.arms().len(), prepared.transform().features());
        // With the rewards of a round, and what a round takes besides.
        let each = (arms * (features + 1) * size_of::<f64>() + size_of::<DataRound>()) as u64;
        let bytes = prepared.rounds().saturating_mul(each);
        if bytes > MAX_DATASET {
            let (file, rounds) = (name_of(prepared.path()), prepared.rounds());
            return Err(Error::TooLarge { file, rounds, arms, features, bytes, most: MAX_DATASET });
        }
        let mut rounds = Vec::with_capacity(prepared.rounds() as usize);
        prepared.each(|round| {
            let line = round.raw.line;
            let features = Features::new(round.rows, features);
            let features = features.map_err(|e| Error::file(prepared.path(), line, e.to_string()))?;
            let (observed, probabilities) = (round.raw.observed, round.raw.probabilities);
            rounds.push(DataRound { features, observed, probabilities });
            Ok(())
        })?;
        let fixed = prepared.fixed();
        let (folds, reward_range) = (prepared.folds(), prepared.schema().reward_range);
        Ok(Dataset { arms: prepared.arms().to_vec(), fixed, features, rounds, folds, reward_range })
    }

    /// The number of folds of the rounds, of which round t is in number t modulo them: where features have a
    /// score, that of a round is learnt from the rewards of the other folds. 1 where no feature is learnt
    /// from rewards.
    pub fn folds(&self) -> usize {
        self.folds
    }

    /// The numbers in the file that are reward 0 and reward 1, where its schema sets them.
    pub fn reward_range(&self) -> Option<[f64; 2]> {
        self.reward_range
    }

    /// Rounds that a program has made: the names of the candidates, whether they are the same in all rounds,
    /// and the rounds, each with a row of `d` features for each of them.
    ///
    /// # Panics
    /// If a round has another shape.
    pub fn from_rounds(arms: Vec<String>, fixed: bool, d: usize, rounds: Vec<DataRound>) -> Self {
        let fits = |round: &DataRound| round.features.k() == arms.len() && round.features.d() == d;
        assert!(rounds.iter().all(fits), "every round has {} rows of {d} features", arms.len());
        Dataset { arms, fixed, features: d, rounds, folds: 1, reward_range: None }
    }

    /// Names of the candidates, in the order of the arms.
    pub fn arms(&self) -> &[String] {
        &self.arms
    }

    /// Whether an arm is the same candidate in all rounds.
    pub fn fixed(&self) -> bool {
        self.fixed
    }

    /// Number of features of a candidate, d.
    pub fn d(&self) -> usize {
        self.features
    }

    /// The rounds, in the order of the file.
    pub fn rounds(&self) -> &[DataRound] {
        &self.rounds
    }

    /// The arm with the largest sum of known rewards in these rounds (the first of equals), and that sum
    /// divided by their number. Rounds that the file does not have are left out.
    pub fn best_fixed(&self, rounds: Range<usize>) -> (usize, f64) {
        let end = rounds.end.min(self.rounds.len());
        let rounds = &self.rounds[rounds.start.min(end)..end];
        let sum = |arm| rounds.iter().filter_map(|round| round.observed.reward(arm)).sum::<f64>();
        let sums: Vec<f64> = (0..self.arms.len()).map(sum).collect();
        let best = bandit::vector::argmax(sums.iter().copied());
        (best, sums[best] / rounds.len().max(1) as f64)
    }
}

impl From<Purchases> for Dataset {
    fn from(purchases: Purchases) -> Self {
        let (arms, features) = (purchases.brands().to_vec(), purchases.d());
        let k = arms.len();
        let round = |(features, bought): (Features, usize)| DataRound {
            features,
            observed: Observed::Every((0..k).map(|arm| f64::from(arm == bought)).collect()),
            probabilities: None,
        };
        let rounds = purchases.into_rounds().map(round).collect();
        Dataset { arms, fixed: true, features, rounds, folds: 1, reward_range: None }
    }
}

/// The schema of a file that [`convert`](crate::convert()) wrote; `None` if the header is that of another.
pub(crate) fn converted(header: &[String]) -> Option<Schema> {
    let has = |name: &str| header.iter().any(|have| have == name);
    let features: Vec<(&str, &str)> = header.iter().filter_map(|name| name.split_once('.')).collect();
    let candidate = features
        .iter()
        .filter(|(kind, _)| kind.starts_with('x'))
        .map(|(kind, _)| (kind.to_string(), Encoding::Plain));
    let schema = Schema {
        layout: Layout::Wide,
        candidate: candidate.collect(),
        norm: NormRule::Clip,
        ..Schema::default()
    };
    if schema.candidate.is_empty() || !has("round") {
        return None;
    }
    if features.iter().any(|(kind, _)| *kind == "reward") {
        return Some(Schema { reward: Some("reward.{candidate}".into()), ..schema });
    }
    let logged = Schema {
        chosen: Some("action".into()),
        reward: Some("reward".into()),
        propensity: has("propensity").then(|| "propensity".into()),
        ..schema
    };
    (has("action") && has("reward")).then_some(logged)
}

/// A [`Dataset`] whose rewards are all known, played once in the order of the file, without random draws.
///
/// Expected rewards are unknown, so `regret` is 1 minus the reward: the loss against a player who always
/// earns the largest reward there is.
#[derive(Debug, Clone)]
pub struct DatasetLog {
    dataset: Arc<Dataset>,
    begun: usize,
    feedback: Option<f64>,
}

impl DatasetLog {
    /// The log before its first round.
    pub fn new(dataset: Arc<Dataset>) -> Self {
        Self { dataset, begun: 0, feedback: None }
    }

    fn current(&self) -> Result<&DataRound, bandit::Error> {
        let round = self.begun.checked_sub(1).and_then(|i| self.dataset.rounds.get(i));
        round.ok_or(bandit::Error::NoRound)
    }
}

impl Environment for DatasetLog {
    type Context = Features;
    type Feedback = f64;

    fn arms(&self) -> usize {
        self.dataset.arms.len()
    }

    fn begin(&mut self, _: &mut dyn Rng) -> bool {
        let more = self.begun < self.dataset.rounds.len();
        self.begun += usize::from(more);
        self.feedback = None;
        more
    }

    fn context(&self) -> Result<&Features, bandit::Error> {
        Ok(&self.current()?.features)
    }

    fn play(&mut self, arm: usize, _: &mut dyn Rng) -> Result<Outcome, bandit::Error> {
        let Observed::Every(rewards) = &self.current()?.observed else { return Err(bandit::Error::NoRound) };
        let k = rewards.len();
        let reward = *rewards.get(arm).ok_or(bandit::Error::Arm { arm, k })?;
        self.feedback = Some(reward);
        Ok(Outcome { reward, regret: 1.0 - reward })
    }

    fn feedback(&self) -> Result<&f64, bandit::Error> {
        self.feedback.as_ref().ok_or(bandit::Error::NoRound)
    }
}
