//! Named values to features, by the schema of an application.

use crate::{Failure, Result};
use schema::{NamedRound, OpenRound, Schema};
use serde_json::json;
use wasm_bindgen::prelude::*;

/// A transformation, which is public: it holds no value of a user.
#[wasm_bindgen]
pub struct Transform(schema::Transform);

#[wasm_bindgen]
impl Transform {
    /// Learns from example rounds. Both are JSON.
    ///
    /// # Errors
    /// `ValueError`.
    pub fn learn(schema: &str, examples: &str) -> Result<Transform> {
        let schema: Schema = read("the schema", schema)?;
        schema.validate().map_err(|error| Failure::value(format!("the schema: {error}")))?;
        let rounds: Vec<NamedRound> = read("the example rounds", examples)?;
        Ok(Transform(schema::Transform::learn(&schema, &rounds).map_err(Failure::value)?))
    }

    /// Reads what [`Transform::text`] has written, or `helba-client data transform`.
    ///
    /// # Errors
    /// `ValueError`.
    pub fn read(text: &str) -> Result<Transform> {
        read("the transformation", text).map(Transform)
    }

    /// The transformation as JSON.
    ///
    /// # Errors
    /// `ValueError`.
    pub fn text(&self) -> Result<String> {
        serde_json::to_string(&self.0)
            .map_err(|_| Failure::value("the transformation cannot be written as JSON"))
    }

    /// The names of the features, and the numbers of features and candidates, as JSON.
    pub fn describe(&self) -> String {
        json!({ "names": self.0.names(), "features": self.0.features(), "arms": self.0.arms() }).to_string()
    }

    /// One row of features for each candidate of a round, both as JSON, where closed ones are null.
    ///
    /// # Errors
    /// `ValueError`.
    pub fn rows(&self, round: &str) -> Result<String> {
        let round: OpenRound = serde_json::from_str(round).map_err(Failure::value)?;
        let rows = self.0.features_of_open(round).map_err(Failure::value)?;
        let rows: Vec<_> = rows.iter().map(|row| Some(row).filter(|row| !row.is_empty())).collect();
        serde_json::to_string(&rows).map_err(|_| Failure::value("the features cannot be written as JSON"))
    }

    /// The reward, from 0 to 1, of a reward in the units of the schema's `reward_range`.
    ///
    /// # Errors
    /// `ValueError`, with the range and the value.
    pub fn reward(&self, value: f64) -> Result<f64> {
        self.0.schema().reward_of(value).map_err(Failure::value)
    }
}

fn read<T: serde::de::DeserializeOwned>(what: &str, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| Failure::value(format!("{what} cannot be read: {error}")))
}
