//! What an agent keeps of a bandit besides its decisions.

use crate::Error;
use protocol::BanditConfig;
use schema::{NamedRound, Schema, Transform};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The settings of a bandit. The server knows none of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    /// How values by name become features.
    pub(crate) transform: Option<Transform>,
}

/// Settings of a request. What is left out stays as it is.
#[derive(Debug, Default)]
pub(crate) struct SettingsChange {
    transform: Option<Transform>,
}

impl SettingsChange {
    /// The settings after this change.
    ///
    /// # Errors
    /// [`Error::BadField`] for another transformation than the bandit has: its model is one of the first.
    pub(crate) fn applied_to(self, before: &Settings) -> Result<Settings, Error> {
        let mut settings = before.clone();
        if let Some(transform) = self.transform {
            let other = "schema: the bandit has learnt with another one; create a new bandit for this one";
            if settings.transform.as_ref().is_some_and(|before| *before != transform) {
                return Err(Error::BadField(other));
            }
            settings.transform = Some(transform);
        }
        Ok(settings)
    }
}

impl Settings {
    /// Refuses settings that do not fit the bandit.
    ///
    /// # Errors
    /// [`Error::BadConfig`].
    pub(crate) fn check(&self, config: &BanditConfig) -> Result<(), Error> {
        let (d, k) = (config.linear.d, config.linear.k);
        if let Some(made) =
            self.transform.as_ref().map(|t| (t.features(), t.arms())).filter(|made| *made != (d, k))
        {
            let (features, arms) = made;
            let why = format!(
                "the schema makes {features} features of {arms} candidates, and the bandit has {d} and {k}"
            );
            return Err(Error::BadConfig { why });
        }
        Ok(())
    }
}

/// Takes the settings out of a message, and leaves its other fields: `transform`, or `schema` (an object, or
/// a text in TOML) with `examples`, from which it learns.
///
/// # Errors
/// [`Error::BadJson`], [`Error::Features`], [`Error::BadField`].
pub(crate) fn settings_of(message: &mut Map<String, Value>) -> Result<SettingsChange, Error> {
    let [transform, schema, examples] = ["transform", "schema", "examples"].map(|name| message.remove(name));
    let transform = match (transform, schema, examples) {
        (None, None, None) => None,
        (Some(transform), None, None) => Some(of_json("a transformation", transform)?),
        (None, Some(schema), examples) => {
            let schema: Schema = match schema {
                Value::String(text) => toml::from_str(&text).map_err(|error| of_toml(&text, &error))?,
                schema => of_json("a schema", schema)?,
            };
            let examples: Vec<NamedRound> =
                examples.map(|examples| of_json("example rounds", examples)).transpose()?.unwrap_or_default();
            Some(Transform::learn(&schema, &examples)?)
        }
        _ => {
            return Err(Error::BadField(
                "schema: send `transform`, or `schema` with `examples`, and not both",
            ));
        }
    };
    Ok(SettingsChange { transform })
}

fn of_json<T: for<'de> Deserialize<'de>>(what: &'static str, value: Value) -> Result<T, Error> {
    serde_json::from_value(value).map_err(|e| Error::BadJson { what, why: e.to_string() })
}

fn of_toml(text: &str, error: &toml::de::Error) -> Error {
    let at = error.span().map_or(0, |span| span.start.min(text.len()));
    let line = 1 + text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count();
    let why = format!("line {line}: {}: docs/data.md lists the entries of a schema", error.message());
    Error::BadJson { what: "a schema", why }
}
