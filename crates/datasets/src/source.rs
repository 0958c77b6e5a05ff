//! Rounds of a file, as its schema names their parts.

use crate::dsjson::DsjsonRounds;
use crate::error::name_of;
use crate::long::LongRounds;
use crate::time::Clock;
use crate::wide::WideRounds;
use crate::{Error, MAX_NAMES, Noted, Place};
use schema::{Cell, Encoding, Layout, Missing, NumberForm, Schema, reward_in};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// A round before its values become features.
#[derive(Debug, Clone, PartialEq)]
pub struct RawRound {
    /// Its line in the file, from 1: the first of several.
    pub line: u64,
    /// The user.
    pub user: Option<String>,
    /// The time.
    pub time: Option<Cell>,
    /// A cell for each name of the schema's context.
    pub context: Vec<Cell>,
    /// For each candidate, a cell for each name of the schema's candidate.
    pub candidates: Vec<Vec<Cell>>,
    /// Names of the candidates, where they differ from round to round.
    pub names: Vec<String>,
    /// The candidate that was chosen.
    pub chosen: Option<usize>,
    /// The rewards.
    pub observed: Observed,
    /// The sum of the probabilities with which the candidates were shown, where those of all are known.
    pub probabilities: Option<f64>,
    /// The candidate that the same user chose in the round before; `None` unless the schema asks for it.
    pub previous: Option<usize>,
}

/// The rewards of a round, from 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub enum Observed {
    /// Those of all candidates.
    Every(Vec<f64>),
    /// That of the logged action.
    Played {
        /// The action.
        arm: usize,
        /// Its reward.
        reward: f64,
        /// The probability with which it was chosen.
        propensity: Option<f64>,
    },
}

/// Rounds that were dropped, for one reason.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Dropped {
    /// The reason.
    pub reason: String,
    /// The number of rounds.
    pub rounds: u64,
    /// The line of the first.
    pub first_line: u64,
}

/// What a reader made of the next rows.
pub(crate) enum Read {
    Round(Box<RawRound>),
    /// The rows are no round, for this reason.
    Dropped {
        line: u64,
        reason: String,
    },
    End,
}

/// The rounds of a file, from first to last.
pub struct Source {
    path: PathBuf,
    schema: Schema,
    rounds: Rounds,
    arms: Vec<String>,
    /// Number of candidates; 0 before the first round, if the schema does not say it.
    k: usize,
    last: Option<HashMap<String, String>>,
    dropped: BTreeMap<String, (u64, u64)>,
    rows: u64,
    clock: Clock,
}

enum Rounds {
    Wide(WideRounds),
    Long(LongRounds),
    Dsjson(DsjsonRounds),
}

impl Source {
    /// Opens a file, and finds the columns of `schema`.
    ///
    /// # Errors
    /// [`Error::File`] with the column that is missing, or with what the header lacks.
    pub fn open(path: &Path, schema: &Schema) -> Result<Self, Error> {
        let (rounds, arms) = match schema.layout {
            Layout::Wide => {
                let rounds = WideRounds::open(path, schema)?;
                let arms = rounds.arms().to_vec();
                (Rounds::Wide(rounds), arms)
            }
            Layout::Long => (Rounds::Long(LongRounds::open(path, schema)?), schema.candidates.clone()),
            Layout::Dsjson => (Rounds::Dsjson(DsjsonRounds::open(path, schema)?), schema.candidates.clone()),
        };
        Ok(Source {
            path: path.into(),
            schema: schema.clone(),
            rounds,
            k: schema.arms.unwrap_or(arms.len()),
            arms,
            last: schema.previous.then(HashMap::new),
            dropped: BTreeMap::new(),
            rows: 0,
            clock: Clock::default(),
        })
    }

    /// The names of the candidates, in the order of the arms; their numbers from 1 where they have none.
    pub fn arms(&self) -> Vec<String> {
        match self.arms.is_empty() {
            true => (1..=self.k).map(|arm| arm.to_string()).collect(),
            false => self.arms.clone(),
        }
    }

    /// The next round; `None` after the last. Rounds that are dropped are counted.
    ///
    /// # Errors
    /// [`Error::File`] with line, column and value.
    pub fn next_round(&mut self) -> Result<Option<RawRound>, Error> {
        loop {
            let read = match &mut self.rounds {
                Rounds::Wide(rounds) => rounds.read(),
                Rounds::Long(rounds) => rounds.read(),
                Rounds::Dsjson(rounds) => rounds.read(),
            };
            let mut round = match read.map_err(|error| self.with_range(error))? {
                Read::End => return Ok(None),
                Read::Dropped { line, reason } => {
                    self.drop_round(line, reason);
                    continue;
                }
                Read::Round(round) => *round,
            };
            let k = round.candidates.len();
            if self.k == 0 && k >= 2 {
                self.k = k;
            }
            if k != self.k || k < 2 {
                let want = if self.k < 2 { "at least 2".into() } else { self.k.to_string() };
                self.drop_round(round.line, format!("the round has {k} candidates, and {want} are needed"));
                continue;
            }
            self.rows += 1;
            self.follow(&mut round)?;
            return Ok(Some(round));
        }
    }

    /// Adds to the error of a reward outside of its range the rewards of the whole file, so that the range
    /// can be set at once.
    fn with_range(&self, error: Error) -> Error {
        let Error::RewardRange { place, range, .. } = error else { return error };
        let schema = Schema { reward_range: Some(UNBOUNDED), ..self.schema.clone() };
        let seen = extremes(&self.path, &schema).ok().filter(|[least, most]| least < most);
        Error::RewardRange { place, range, seen }
    }

    fn drop_round(&mut self, line: u64, reason: String) {
        self.dropped.entry(reason).or_insert((0, line)).0 += 1;
    }

    /// Counts rounds that are earlier than their predecessor, and fills in the last choice of the user.
    fn follow(&mut self, round: &mut RawRound) -> Result<(), Error> {
        if let Some(time) = &round.time {
            self.clock.see(round.line, time);
        }
        let Some(last) = &mut self.last else { return Ok(()) };
        let name = |arm: usize| match (round.names.get(arm), self.arms.get(arm)) {
            (Some(name), _) | (None, Some(name)) => name.clone(),
            (None, None) => arm.to_string(),
        };
        let Some(user) = &round.user else { return Ok(()) };
        let names = |wanted: &String| (0..round.candidates.len()).find(|&arm| name(arm) == *wanted);
        let previous = last.get(user).and_then(names);
        if let Some(chosen) = round.chosen {
            if last.len() >= MAX_NAMES && !last.contains_key(user) {
                let reason =
                    format!("there are more than {MAX_NAMES} users: set previous = false, or split the file");
                return Err(Error::file(&self.path, round.line, reason));
            }
            last.insert(user.clone(), name(chosen));
        }
        round.previous = previous;
        Ok(())
    }

    /// A feature whose name no line of JSON so far has. Absence is a value, so that a name that is mistyped
    /// would be 0 everywhere.
    pub(crate) fn unseen(&self) -> Option<&String> {
        match &self.rounds {
            Rounds::Dsjson(rounds) => rounds.unseen(),
            Rounds::Wide(_) | Rounds::Long(_) => None,
        }
    }

    /// The rounds that were dropped so far, by reason.
    pub fn dropped(&self) -> Vec<Dropped> {
        let one = |(reason, &(rounds, first_line)): (&String, &(u64, u64))| Dropped {
            reason: reason.clone(),
            rounds,
            first_line,
        };
        self.dropped.iter().map(one).collect()
    }

    /// Notes on the rows so far: those left out, with a stray quote, or without a row in a joined table.
    pub fn notes(&self) -> Vec<Noted> {
        match &self.rounds {
            Rounds::Wide(rounds) => rounds.notes(),
            Rounds::Long(rounds) => rounds.notes(),
            Rounds::Dsjson(rounds) => rounds.notes(),
        }
    }

    /// The number of rounds so far that are earlier than their predecessor.
    pub fn late(&self) -> u64 {
        self.clock.late()
    }

    /// Why some times so far cannot be compared, with the line of the first; `None` if all can.
    pub fn times(&self) -> Option<String> {
        self.clock.fault()
    }

    /// The number of rounds so far, without those dropped.
    pub fn rounds(&self) -> u64 {
        self.rows
    }
}

/// The least and the largest reward that `schema` reads.
fn extremes(path: &Path, schema: &Schema) -> Result<[f64; 2], Error> {
    let mut source = Source::open(path, schema)?;
    let mut seen = [f64::INFINITY, f64::NEG_INFINITY];
    while let Some(round) = source.next_round()? {
        let rewards = match &round.observed {
            Observed::Every(rewards) => &rewards[..],
            Observed::Played { reward, .. } => std::slice::from_ref(reward),
        };
        seen = rewards.iter().fold(seen, |[least, most], reward| [least.min(*reward), most.max(*reward)]);
    }
    Ok(seen)
}

/// The columns of a group of features: encodings and names, and the rule for missing values.
pub(crate) struct Columns {
    pub(crate) names: Vec<String>,
    pub(crate) encodings: Vec<Encoding>,
    forms: Vec<NumberForm>,
    missing: Missing,
}

impl Columns {
    /// The columns of `map`, which is one of the two groups of `schema`.
    pub(crate) fn new(map: &BTreeMap<String, Encoding>, schema: &Schema) -> Self {
        Columns {
            names: map.keys().cloned().collect(),
            encodings: map.values().copied().collect(),
            forms: map.keys().map(|name| schema.form(name)).collect(),
            missing: schema.missing,
        }
    }

    /// The cell of the feature number `at`, in the form of its column if it is a number.
    pub(crate) fn cell(&self, at: usize, cell: Cell) -> Cell {
        if self.encodings[at].is_number() { self.forms[at].read(cell) } else { cell }
    }

    /// The cell of a feature whose name a JSON object does not have: 0, and the empty category. Those who log
    /// categories by their presence leave the others out. With `missing = "zero"` the features are zeros.
    pub(crate) fn absent(&self, at: usize) -> Cell {
        match (self.missing, self.encodings[at].is_number()) {
            (Missing::Zero, _) => Cell::Missing,
            (Missing::Drop | Missing::Mean, true) => Cell::Number(0.0),
            (Missing::Drop | Missing::Mean, false) => Cell::Text(String::new()),
        }
    }

    /// Checks the cell of the feature number `at`, which stands in `column`. `Some` is the reason to drop the
    /// round.
    pub(crate) fn check(
        &self,
        file: &Path,
        line: u64,
        (at, column): (usize, &str),
        cell: &Cell,
    ) -> Result<Option<String>, Error> {
        if cell.is_missing() && self.missing == Missing::Drop {
            return Ok(Some(without_value(&self.names[at])));
        }
        self.encodings[at].check(column, cell).map_err(|e| Error::at(file, line, e))?;
        Ok(None)
    }
}

/// Why a round without a value of the feature `name` is dropped.
pub(crate) fn without_value(name: &str) -> String {
    format!("{name} has no value")
}

/// The range with which rewards are read as they stand in the file.
const UNBOUNDED: [f64; 2] = [f64::NEG_INFINITY, f64::INFINITY];

/// The reward of a number in the file, from 0 to 1.
pub(crate) fn reward(
    file: &Path,
    line: u64,
    column: &str,
    cell: &Cell,
    [zero, one]: [f64; 2],
) -> Result<f64, Error> {
    let Some(value) = cell.number().or_else(|| cell.truth()) else {
        let reason = match cell.number_with_comma() {
            Some(_) => {
                "the reward is no finite number but with a decimal comma: add its column to `decimal_comma`"
            }
            None => {
                "the reward is no finite number, and no word such as yes or no: mend the cell, or delete the round"
            }
        };
        return Err(Error::cell(file, line, column, &cell.to_string(), reason));
    };
    if [zero, one] == UNBOUNDED {
        return Ok(value);
    }
    reward_in([zero, one], value).ok_or_else(|| {
        let place = Place { file: name_of(file), line, column: column.into(), value: Some(cell.to_string()) };
        Error::RewardRange { place, range: [zero, one], seen: None }
    })
}

/// The least probability of a logged action. Weights of smaller ones would leave the range of doubles, or
/// leave one round of a file with a weight.
const LEAST_PROBABILITY: f64 = 1e-9;

/// The probability of a logged action.
pub(crate) fn propensity(file: &Path, line: u64, column: &str, cell: &Cell) -> Result<f64, Error> {
    match cell.number() {
        Some(p) if (LEAST_PROBABILITY..=1.0).contains(&p) => Ok(p),
        _ => {
            let reason =
                "a probability of a logged action is from 1e-9 to 1: mend the cell, or delete the round";
            Err(Error::cell(file, line, column, &cell.to_string(), reason))
        }
    }
}

/// Whether a candidate is offered, by a column of 1 and 0. A cell without a value says that it is not.
pub(crate) fn is_offered(file: &Path, line: u64, column: &str, text: &str) -> Result<bool, Error> {
    let cell = Cell::parse(text);
    match cell.number().or_else(|| cell.truth()) {
        Some(1.0) => Ok(true),
        Some(0.0) => Ok(false),
        _ if cell.is_missing() => Ok(false),
        _ => {
            let reason = "it must be 1 where the candidate is offered, and 0 where it is not";
            Err(Error::cell(file, line, column, text.trim(), reason))
        }
    }
}
