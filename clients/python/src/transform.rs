//! Named values to features, by the schema of an application.

use crate::error::Failure;
use crate::keys::or_raise;
use pyo3::prelude::*;
use schema::{NamedRound, OpenRound, Schema, exact_json};

/// A transformation, which messages of JSON describe.
#[pyclass(frozen, module = "helba._native")]
pub(crate) struct Transform(pub(crate) schema::Transform);

/// A schema as a text, and whether that is TOML; JSON otherwise.
pub(crate) type SchemaText = (String, bool);

#[pymethods]
impl Transform {
    /// Learns from example rounds.
    #[staticmethod]
    fn learn(py: Python<'_>, schema: SchemaText, examples: &str) -> PyResult<Self> {
        let learn = || -> Result<_, Failure> {
            let schema = schema_of(&schema)?;
            let rounds: Vec<NamedRound> = serde_json::from_slice(&exact_json(examples.as_bytes()))
                .map_err(|error| bad("the example rounds", &error))?;
            let learnt = schema::Transform::learn(&schema, &rounds);
            Ok(Transform(learnt.map_err(|error| Failure::Argument(error.to_string()))?))
        };
        or_raise(py, learn())
    }

    /// Reads what `text` has written, or `helba-client data transform`.
    #[staticmethod]
    fn read(py: Python<'_>, text: &str) -> PyResult<Self> {
        let read = serde_json::from_str(text).map_err(|error| bad("the transformation", &error));
        or_raise(py, read.map(Transform))
    }

    fn text(&self, py: Python<'_>) -> PyResult<String> {
        let broken = |_| Failure::Internal("a transformation cannot be written as JSON");
        or_raise(py, serde_json::to_string(&self.0).map_err(broken))
    }

    /// One row of features for each candidate of a round, and none for a closed one.
    fn rows(&self, py: Python<'_>, round: &str) -> PyResult<Vec<Option<Vec<f64>>>> {
        let rows = || -> Result<_, Failure> {
            let round: OpenRound = serde_json::from_slice(&exact_json(round.as_bytes()))
                .map_err(|error| Failure::Named(error.to_string()))?;
            let rows = self.0.features_of_open(round).map_err(|error| Failure::Named(error.to_string()))?;
            Ok(rows.into_iter().map(|row| Some(row).filter(|row| !row.is_empty())).collect())
        };
        or_raise(py, rows())
    }

    /// The reward, from 0 to 1, of a reward in the units of the file.
    fn reward(&self, py: Python<'_>, value: f64) -> PyResult<f64> {
        let reward = self.0.schema().reward_of(value);
        or_raise(py, reward.map_err(|error| Failure::Argument(error.to_string())))
    }

    #[getter]
    fn names(&self) -> Vec<String> {
        self.0.names()
    }

    #[getter]
    fn features(&self) -> usize {
        self.0.features()
    }

    #[getter]
    fn arms(&self) -> usize {
        self.0.arms()
    }
}

/// The schema of a text.
pub(crate) fn schema_of((text, is_toml): &SchemaText) -> Result<Schema, Failure> {
    let schema: Schema = match is_toml {
        true => toml::from_str(text).map_err(|error| of_toml(text, &error))?,
        false => serde_json::from_str(text).map_err(|error| bad("the schema", &error))?,
    };
    schema.validate().map_err(|error| Failure::Argument(format!("the schema: {error}")))?;
    Ok(schema)
}

fn bad(what: &str, error: &serde_json::Error) -> Failure {
    Failure::Argument(format!("{what} cannot be read: {error}"))
}

fn of_toml(text: &str, error: &toml::de::Error) -> Failure {
    let at = error.span().map_or(0, |span| span.start.min(text.len()));
    let line = 1 + text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count();
    Failure::Argument(format!(
        "the schema cannot be read: line {line}: {}: docs/data.md lists its entries",
        error.message()
    ))
}
