//! Files and data frames of choices and logged decisions: checks, evaluations, transformations and rounds,
//! without a server. Data frames arrive as files of comma-separated values.

use crate::error::Failure;
use crate::transform::{SchemaText, Transform, schema_of};
use crate::work::{Worked, call};
use datasets::{Dataset, Observed, Prepared, check, propose, rule};
use evaluation::EvaluationSettings;
use pyo3::prelude::*;
use serde_json::json;
use std::path::PathBuf;

/// The numbers, as JSON, and the lines of text.
type Report = (String, Vec<String>);

/// What a schema makes of a file; without a schema, a proposed one and what it makes of the file.
#[pyfunction]
pub(crate) fn check_data(
    py: Python<'_>,
    path: PathBuf,
    shown: String,
    schema: Option<SchemaText>,
) -> PyResult<Py<PyAny>> {
    let work = move || -> Result<Report, Failure> {
        let data = Data { path, shown };
        if let Some(schema) = schema {
            let checked = data.said(check(&data.prepared(schema)?))?;
            return Ok((data.json(&checked)?, data.lines(checked.lines())));
        }
        let proposal = data.said(propose(&data.path))?;
        let toml = data.named(&proposal.toml);
        let checked = proposal.checked.map_err(|error| {
            let why = data.named(&error.to_string());
            Failure::Data(format!(
                "{why}\nThe proposed schema, which must be mended before it can be used:\n{toml}"
            ))
        })?;
        let lines = toml.lines().map(str::to_string).chain([String::new()]).chain(checked.lines()).collect();
        let found = json!({ "toml": toml, "schema": proposal.schema, "checked": checked });
        Ok((data.json(&found)?, data.lines(lines)))
    };
    report(py, work)
}

/// Policies side by side on the rounds of a file.
#[pyfunction]
pub(crate) fn evaluate_data(
    py: Python<'_>,
    path: PathBuf,
    shown: String,
    schema: Option<SchemaText>,
    policies: Vec<String>,
    epsilon: f64,
    seeds: u64,
    rounds: Option<usize>,
    grid: Vec<(String, Vec<f64>)>,
    policy_column: Option<String>,
    decisions: Option<PathBuf>,
) -> PyResult<Py<PyAny>> {
    let work = move || -> Result<Report, Failure> {
        let data = Data { path, shown };
        let rule = match (policy_column, &schema) {
            (Some(column), Some(schema)) => {
                let picks = data.said(rule(&data.path, &schema_of(schema)?, &column))?;
                Some((column, picks))
            }
            (Some(_), None) => {
                return Err(Failure::Argument(
                    "policy_column needs a schema, which says how candidates are written".into(),
                ));
            }
            (None, _) => None,
        };
        let dataset = data.dataset(schema)?;
        let settings = EvaluationSettings {
            policies,
            epsilon,
            seeds,
            rounds: rounds.unwrap_or(usize::MAX),
            grid,
            rule,
            keep_picks: decisions.is_some(),
        };
        let report = evaluation::evaluate(&dataset, &settings);
        let report = report.map_err(|error| Failure::Data(format!("{}: {error}", data.shown)))?;
        if let Some(path) = decisions {
            report.write_decisions(&dataset, &path).map_err(|error| {
                Failure::Argument(format!(
                    "the file of decisions {} cannot be written: {error}",
                    path.display()
                ))
            })?;
        }
        Ok((data.json(&report)?, data.lines(report.lines())))
    };
    report(py, work)
}

/// The transformation that a schema learns from a file.
#[pyfunction]
pub(crate) fn fit_transform(
    py: Python<'_>,
    path: PathBuf,
    shown: String,
    schema: SchemaText,
) -> PyResult<Py<PyAny>> {
    let work = move || Ok((Data { path, shown }.prepared(schema)?.transform().clone(), None));
    call(py, None, move |_| work(), |py, learnt| Ok(Py::new(py, Transform(learnt))?.into_any()))
}

/// What makes features of values: a schema, which learns from the file, or what was learnt from another one.
#[derive(FromPyObject)]
pub(crate) enum FeaturesBy {
    Schema(SchemaText),
    Learnt(Py<Transform>),
}

/// Rounds whose rewards are all known: names of arms and of features, contexts and rewards.
type Rounds = (Vec<String>, Vec<String>, Vec<Vec<Vec<f64>>>, Vec<Vec<f64>>);
/// Logged rounds: names of arms and of features, contexts, the arms that were played, and their rewards.
type LoggedRounds = (Vec<String>, Vec<String>, Vec<Vec<Vec<f64>>>, Vec<usize>, Vec<f64>);

/// The rounds of a file in which the rewards of all candidates are known.
#[pyfunction]
pub(crate) fn rounds_of_data(
    py: Python<'_>,
    path: PathBuf,
    shown: String,
    features: FeaturesBy,
) -> PyResult<Py<PyAny>> {
    let work = move || -> Worked<Rounds> {
        let data = Data { path, shown };
        let prepared = data.to_learn(features)?;
        let dataset = data.said(Dataset::load(&prepared))?;
        let (mut contexts, mut rewards) = (Vec::new(), Vec::new());
        for round in dataset.rounds() {
            let Observed::Every(every) = &round.observed else {
                return Err(Failure::Data(format!(
                    "{} has the reward of one arm in each round only: `helba.Logged.of` reads it for `Bandit.learn`, and \
                     `helba.evaluate` compares policies on it",
                    data.shown
                )));
            };
            contexts.push(round.features.rows().map(<[f64]>::to_vec).collect());
            rewards.push(every.clone());
        }
        let names = prepared.transform().names();
        Ok(((dataset.arms().to_vec(), names, contexts, rewards), None))
    };
    call(py, None, move |_| work(), |py, rounds| Ok(rounds.into_pyobject(py)?.into_any().unbind()))
}

/// The rounds of a file in which the reward of the arm that was played is known.
#[pyfunction]
pub(crate) fn logged_rounds_of_data(
    py: Python<'_>,
    path: PathBuf,
    shown: String,
    features: FeaturesBy,
) -> PyResult<Py<PyAny>> {
    let work = move || -> Worked<LoggedRounds> {
        let data = Data { path, shown };
        let prepared = data.to_learn(features)?;
        let dataset = data.said(Dataset::load(&prepared))?;
        let (mut contexts, mut played, mut rewards) = (Vec::new(), Vec::new(), Vec::new());
        for round in dataset.rounds() {
            let Observed::Played { arm, reward, .. } = round.observed else {
                return Err(Failure::Data(format!(
                    "{} has the rewards of all arms in each round: `helba.Rounds.of` reads it. For a log, name the columns of the \
                     arm and of its reward, as `chosen` and `reward`",
                    data.shown
                )));
            };
            contexts.push(round.features.rows().map(<[f64]>::to_vec).collect());
            played.push(arm);
            rewards.push(reward);
        }
        let names = prepared.transform().names();
        Ok(((dataset.arms().to_vec(), names, contexts, played, rewards), None))
    };
    call(py, None, move |_| work(), |py, rounds| Ok(rounds.into_pyobject(py)?.into_any().unbind()))
}

fn report(
    py: Python<'_>,
    work: impl FnOnce() -> Result<Report, Failure> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    call(
        py,
        None,
        move |_| Ok((work()?, None)),
        |py, report| Ok(report.into_pyobject(py)?.into_any().unbind()),
    )
}

/// A file, and the name by which messages call it.
struct Data {
    path: PathBuf,
    shown: String,
}

impl Data {
    fn prepared(&self, schema: SchemaText) -> Result<Prepared, Failure> {
        let schema = schema_of(&schema)?;
        self.said(Prepared::fit(&self.path, &schema))
    }

    /// The file, whose rounds are learnt. A score of theirs must not come from their own rewards.
    fn to_learn(&self, features: FeaturesBy) -> Result<Prepared, Failure> {
        let schema = match features {
            FeaturesBy::Schema(text) => schema_of(&text)?,
            FeaturesBy::Learnt(transform) => {
                let transform = &transform.get().0;
                return self.said(Prepared::with(&self.path, transform.schema(), transform.clone()));
            }
        };
        if schema.score.is_some() {
            return Err(Failure::Data(format!(
                "the schema has a score, which would be learnt from the rewards of {}: learn it from other rows, as transform = \
                 helba.Transform.fit(earlier, schema), and give the transform in the place of the schema",
                self.shown
            )));
        }
        self.said(Prepared::fit(&self.path, &schema))
    }

    fn dataset(&self, schema: Option<SchemaText>) -> Result<Dataset, Failure> {
        if let Some(schema) = schema {
            return self.said(Dataset::load(&self.prepared(schema)?));
        }
        self.said(Dataset::known(&self.path))?.ok_or_else(|| {
            Failure::Data(format!(
                "{}: its columns are those of no layout that needs no schema: give one, as schema=…; \
                 `helba.check(data)` proposes it",
                self.shown
            ))
        })
    }

    fn said<T>(&self, result: Result<T, datasets::Error>) -> Result<T, Failure> {
        result.map_err(|error| Failure::Data(self.named(&error.to_string())))
    }

    /// The text with the name of the data in the place of its path.
    fn named(&self, text: &str) -> String {
        text.replace(&self.path.display().to_string(), &self.shown)
    }

    fn lines(&self, lines: Vec<String>) -> Vec<String> {
        lines.iter().map(|line| self.named(line)).collect()
    }

    fn json(&self, value: &impl serde::Serialize) -> Result<String, Failure> {
        serde_json::to_string(value).map_err(|_| Failure::Internal("a report cannot be written as JSON"))
    }
}
