//! JSON lines of VowpalWabbit's kind: a logged decision on each line.
//!
//! `_label_Action` (from 1) or `_labelIndex` (from 0) names the action, `_label_cost` its cost,
//! `_label_probability` its probability. `c` holds the values that candidates share, and in `_multi` an
//! object for each candidate. The path to a value, joined by dots, is its name.
//!
//! Source: VowpalWabbit's wiki, pages "DSJSON" and "JSON". There, properties that begin with `_` at the top
//! of an example are no features; here none are, at any depth.

use crate::input::{TextLines, open_text};
use crate::noted::Notes;
use crate::source::{Columns, Observed, RawRound, Read, propensity, reward};
use crate::{Error, MAX_PATHS, Noted};
use schema::{Cell, NumberForm, Schema, exact_json};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub(crate) struct DsjsonRounds {
    lines: Lines,
    candidate: Columns,
    context: Columns,
    arms: usize,
    reward: Option<String>,
    range: [f64; 2],
    propensity: Option<String>,
    /// How rewards and probabilities are written.
    forms: [NumberForm; 2],
    user: Option<String>,
    time: Option<String>,
    /// Names of features that no line so far has.
    unseen: BTreeSet<String>,
}

/// The number of a line, and its object.
type NumberedLine = (u64, Map<String, Value>);

/// The objects of a file, one on each line that is not empty. Lines that hold none are left out, and counted.
pub(crate) struct Lines {
    path: PathBuf,
    lines: TextLines,
    bytes: Vec<u8>,
    notes: Notes,
}

impl Lines {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        Ok(Lines { path: path.into(), lines: open_text(path)?, bytes: Vec::new(), notes: Notes::default() })
    }

    /// The next object with the number of its line; `None` at the end.
    pub(crate) fn read(&mut self) -> Result<Option<NumberedLine>, Error> {
        while let Some(line) = self.lines.read(&mut self.bytes)? {
            if self.bytes.trim_ascii().is_empty() {
                continue;
            }
            match serde_json::from_slice(&exact_json(&self.bytes)) {
                Ok(object) => {
                    self.notes.row();
                    return Ok(Some((line, object)));
                }
                Err(error) => {
                    let reason = format!(
                        "the line is no JSON object ({error}): each line must hold one object and nothing else"
                    );
                    self.notes.leave_out(&self.path, line, reason)?;
                }
            }
        }
        self.notes.end(&self.path)?;
        Ok(None)
    }
}

/// The values of one line, by the paths to them.
pub(crate) struct Flattener<'a> {
    path: &'a Path,
    line: u64,
    /// The bytes that further paths may have. A long name with many values below it has a path for each.
    left: usize,
}

/// The longest path to a value, in bytes.
const MAX_PATH: usize = 4096;

impl<'a> Flattener<'a> {
    pub(crate) fn new(path: &'a Path, line: u64) -> Self {
        Flattener { path, line, left: MAX_PATHS }
    }

    /// The values in `value`, each under the path to it, without names that begin with `_`.
    pub(crate) fn flatten(&mut self, value: &Value) -> Result<BTreeMap<String, Cell>, Error> {
        let mut into = BTreeMap::new();
        self.below("", value, &mut into)?;
        Ok(into)
    }

    fn below(&mut self, prefix: &str, value: &Value, into: &mut BTreeMap<String, Cell>) -> Result<(), Error> {
        match value {
            Value::Object(map) => {
                for (name, value) in map.iter().filter(|(name, _)| !name.starts_with('_')) {
                    let path = self.join(prefix, name)?;
                    self.below(&path, value, into)?;
                }
            }
            Value::Array(values) => {
                for (i, value) in values.iter().enumerate() {
                    // A text of a list is a tag: it is there, wherever it stands in the list.
                    if let Value::String(tag) = value {
                        let path = self.join(prefix, tag)?;
                        into.insert(path, Cell::Number(1.0));
                        continue;
                    }
                    let path = self.join(prefix, &i.to_string())?;
                    self.below(&path, value, into)?;
                }
            }
            value => {
                if let Some(cell) = scalar(value).filter(|_| !prefix.is_empty()) {
                    into.insert(prefix.into(), cell);
                }
            }
        }
        Ok(())
    }

    fn join(&mut self, prefix: &str, name: &str) -> Result<String, Error> {
        let length = prefix.len() + 1 + name.len();
        self.left = match self.left.checked_sub(length) {
            Some(left) if length <= MAX_PATH => left,
            _ => {
                let reason = format!(
                    "the names of its values are too long: a path has at most {MAX_PATH} bytes, and those of a line \
                     {MAX_PATHS} together"
                );
                return Err(Error::file(self.path, self.line, reason));
            }
        };
        Ok(if prefix.is_empty() { name.to_string() } else { format!("{prefix}.{name}") })
    }
}

/// The cell of a value; `None` for a list or an object.
fn scalar(value: &Value) -> Option<Cell> {
    match value {
        Value::Object(_) | Value::Array(_) => None,
        Value::Null => Some(Cell::Missing),
        Value::Bool(value) => Some(Cell::Number(f64::from(*value))),
        Value::Number(number) => Some(match number.as_i128() {
            Some(whole) => Cell::whole(whole),
            None => number.as_f64().map_or(Cell::Missing, Cell::Number),
        }),
        Value::String(text) => Some(Cell::parse(text)),
    }
}

/// The objects of the candidates; `None` if the line is no decision.
pub(crate) fn candidates(object: &Map<String, Value>) -> Option<&Vec<Value>> {
    object.get("c")?.get("_multi")?.as_array()
}

impl DsjsonRounds {
    pub(crate) fn open(path: &Path, schema: &Schema) -> Result<Self, Error> {
        Ok(DsjsonRounds {
            lines: Lines::open(path)?,
            candidate: Columns::new(&schema.candidate, schema),
            context: Columns::new(&schema.context, schema),
            arms: schema.arms.unwrap_or(schema.candidates.len()),
            reward: schema.reward.clone(),
            range: schema.rewards(),
            propensity: schema.propensity.clone(),
            forms: [&schema.reward, &schema.propensity]
                .map(|name| schema.form(name.as_deref().unwrap_or_default())),
            user: schema.user.clone(),
            time: schema.time.clone(),
            unseen: schema.candidate.keys().chain(schema.context.keys()).cloned().collect(),
        })
    }

    pub(crate) fn notes(&self) -> Vec<Noted> {
        self.lines.notes.list()
    }

    /// A name of the schema that no line so far has.
    pub(crate) fn unseen(&self) -> Option<&String> {
        self.unseen.first()
    }

    pub(crate) fn read(&mut self) -> Result<Read, Error> {
        let Some((line, object)) = self.lines.read()? else { return Ok(Read::End) };
        let path = &self.lines.path;
        let drop = |reason: String| Ok(Read::Dropped { line, reason });
        let Some(multi) = candidates(&object) else {
            return drop("the line is no decision: it has no c with _multi".into());
        };
        if object.get("_skipLearn").and_then(Value::as_bool) == Some(true) {
            return drop("_skipLearn is true".into());
        }
        if let Some(value) = object.get("pdrop").filter(|value| value.as_f64() != Some(0.0)) {
            let reason = "lines were left out of the log with this probability, and no estimate here weights by \
                          it: log all lines";
            return Err(Error::cell(path, line, "pdrop", &value.to_string(), reason));
        }
        let k = multi.len();
        if self.arms != 0 && k != self.arms {
            return drop(format!("the round has {k} candidates, and {} are needed", self.arms));
        }
        self.arms = k;
        let mut flattener = Flattener::new(path, line);
        let shared = flattener.flatten(&object["c"])?;
        if !self.unseen.is_empty() {
            self.unseen.retain(|name| !shared.contains_key(name));
        }
        let cells = |columns: &Columns, values: &BTreeMap<String, Cell>| -> Result<_, Error> {
            let mut cells = Vec::with_capacity(columns.names.len());
            for (at, name) in columns.names.iter().enumerate() {
                let cell = match values.get(name) {
                    Some(cell) => columns.cell(at, cell.clone()),
                    None => columns.absent(at),
                };
                if let Some(reason) = columns.check(path, line, (at, name), &cell)? {
                    return Ok(Err(reason));
                }
                cells.push(cell);
            }
            Ok(Ok(cells))
        };
        let context = match cells(&self.context, &shared)? {
            Ok(context) => context,
            Err(reason) => return drop(reason),
        };
        let mut own = Vec::with_capacity(k);
        for candidate in multi {
            let values = flattener.flatten(candidate)?;
            if !self.unseen.is_empty() {
                self.unseen.retain(|name| !values.contains_key(name));
            }
            match cells(&self.candidate, &values)? {
                Ok(cells) => own.push(cells),
                Err(reason) => return drop(reason),
            }
        }
        let field = |name: &str| match object.get(name) {
            None => shared.get(name).cloned().unwrap_or(Cell::Missing),
            Some(value) => scalar(value).unwrap_or(Cell::Missing),
        };
        let arm = match action(path, line, &field, k)? {
            Some(arm) => arm,
            None => return drop("it names no action in _label_Action or _labelIndex".into()),
        };
        let rewarded = self.reward.as_deref().unwrap_or("_label_cost");
        let value = self.forms[0].read(field(rewarded));
        if value.is_missing() {
            return drop(format!("{rewarded} has no value"));
        }
        let reward = reward(path, line, rewarded, &value, self.range)?;
        let likely = self.propensity.as_deref().unwrap_or("_label_probability");
        let value = self.forms[1].read(field(likely));
        let propensity = match (value.is_missing(), &self.propensity) {
            (true, None) => None,
            _ => Some(propensity(path, line, likely, &value)?),
        };
        Ok(Read::Round(Box::new(RawRound {
            line,
            user: self.user.as_deref().map(|name| field(name).to_string()),
            time: self.time.as_deref().map(field),
            context,
            candidates: own,
            names: Vec::new(),
            chosen: Some(arm),
            observed: Observed::Played { arm, reward, propensity },
            probabilities: sum_of_probabilities(&object, k),
            previous: None,
        })))
    }
}

/// The sum of `p`, where it has a number for each of `k` candidates.
fn sum_of_probabilities(object: &Map<String, Value>, k: usize) -> Option<f64> {
    let all = object.get("p")?.as_array().filter(|all| all.len() == k)?;
    all.iter().map(Value::as_f64).sum()
}

/// The action of a decision among `k`, from 0.
fn action(path: &Path, line: u64, field: &impl Fn(&str) -> Cell, k: usize) -> Result<Option<usize>, Error> {
    let read = |name: &str, first: f64| -> Result<Option<usize>, Error> {
        let cell = field(name);
        if cell.is_missing() {
            return Ok(None);
        }
        let arm = cell.number().map(|number| number - first);
        match arm.filter(|arm| *arm >= 0.0 && arm.fract() == 0.0 && *arm < k as f64) {
            Some(arm) => Ok(Some(arm as usize)),
            None => {
                let last = k as f64 - 1.0 + first;
                let reason = format!(
                    "the actions of this line are {first} to {last}: mend the number, or delete the line"
                );
                Err(Error::cell(path, line, name, &cell.to_string(), reason))
            }
        }
    };
    let (action, index) = (read("_label_Action", 1.0)?, read("_labelIndex", 0.0)?);
    if let (Some(action), Some(index)) = (action, index)
        && action != index
    {
        let reason = format!("_label_Action names action {} of the line: mend one of the two", action + 1);
        return Err(Error::cell(path, line, "_labelIndex", &index.to_string(), reason));
    }
    Ok(action.or(index))
}
