//! What an agent keeps of a bandit besides its decisions.

use crate::Error;
use rand::CryptoRng;
use schema::{NamedRound, Schema, Transform};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use user_client::explore;

/// The settings of a bandit. The server knows none of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    /// How values by name become features.
    pub(crate) transform: Option<Transform>,
    /// Who chooses the arm that is played.
    pub(crate) mode: Mode,
    /// The arm that the bandit is compared with, from 0.
    pub(crate) baseline: Option<usize>,
    /// In the mode `bandit`, the probability with which an arm is drawn uniformly in its place.
    pub(crate) epsilon: f64,
    /// Whether rewards are counted here and not sent to the server, so that the bandit learns nothing.
    pub(crate) freeze: bool,
}

/// Who chooses the arm that is played.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// The bandit.
    #[default]
    Bandit,
    /// The baseline arm is played. The bandit is asked beside it, and learns from the reward of the arm that
    /// was played.
    Shadow,
    /// The baseline arm is played, and the server is not asked. The bandit learns nothing.
    Baseline,
}

impl Settings {
    /// Refuses contexts in which the arm that is played in place of the bandit's is closed.
    pub(crate) fn check_rows(&self, rows: &[Vec<f64>]) -> Result<(), Error> {
        let row = self.baseline.and_then(|arm| rows.get(arm));
        if self.mode != Mode::Bandit && row.is_some_and(|x| !protocol::is_open(x)) {
            return Err(Error::BadField(
                "contexts: the baseline arm is closed, and the mode of the bandit plays it; open it, or take the mode `bandit`",
            ));
        }
        Ok(())
    }

    /// The arm to play in the contexts `rows`, where the bandit chose `chosen`, and the probability with
    /// which it was to be played. The model and the baseline determine it but for the uniform draw of
    /// epsilon.
    pub(crate) fn play<R: CryptoRng>(&self, chosen: usize, rows: &[Vec<f64>], rng: &mut R) -> (usize, f64) {
        match (self.mode, self.baseline) {
            (Mode::Bandit, _) | (_, None) => explore(chosen, rows, self.epsilon, rng),
            (Mode::Shadow | Mode::Baseline, Some(baseline)) => (baseline, 1.0),
        }
    }
}

/// Settings of a request. What is left out stays as it is.
#[derive(Debug, Default)]
pub(crate) struct SettingsChange {
    transform: Option<Transform>,
    mode: Option<Mode>,
    /// `Some(None)` takes the baseline away.
    baseline: Option<Option<usize>>,
    epsilon: Option<f64>,
    freeze: Option<bool>,
}

impl SettingsChange {
    /// The settings after this change.
    pub(crate) fn applied_to(self, before: &Settings) -> Result<Settings, Error> {
        let mut settings = before.clone();
        if let Some(transform) = self.transform {
            let other = "schema: the bandit has learnt with another one; create a new bandit for this one";
            if settings.transform.as_ref().is_some_and(|before| *before != transform) {
                return Err(Error::BadField(other));
            }
            settings.transform = Some(transform);
        }
        settings.mode = self.mode.unwrap_or(before.mode);
        settings.baseline = self.baseline.unwrap_or(before.baseline);
        settings.epsilon = self.epsilon.unwrap_or(before.epsilon);
        settings.freeze = self.freeze.unwrap_or(before.freeze);
        Ok(settings)
    }
}

impl Settings {
    /// Refuses settings that do not fit the bandit.
    pub(crate) fn check(&self, (d, k): (usize, usize), of_committee: bool) -> Result<(), Error> {
        if of_committee {
            let others = [
                ("mode", self.mode != Mode::Bandit),
                ("baseline", self.baseline.is_some()),
                ("epsilon", self.epsilon != 0.0),
            ];
            if let Some((what, _)) = others.into_iter().find(|(_, given)| *given) {
                let why = "it takes the reward of the arm that it decided for (play that one, and have a round of \
                           another one learnt with `helba-client committee learn`)";
                return Err(Error::NotOfCommittee { what, why });
            }
        }
        if let Some(made) =
            self.transform.as_ref().map(|t| (t.features(), t.arms())).filter(|made| *made != (d, k))
        {
            let (features, arms) = made;
            let why = format!(
                "the schema makes {features} features of {arms} candidates, and the bandit has {d} and {k}"
            );
            return Err(Error::BadConfig { why });
        }
        if self.baseline.is_some_and(|arm| arm >= k) {
            return Err(Error::BadField("baseline: it must be an arm of the bandit, counted from 0"));
        }
        if self.baseline.is_none() && self.mode != Mode::Bandit {
            return Err(Error::BadField(
                "mode: the modes shadow and baseline play the arm `baseline`: give one",
            ));
        }
        if !(0.0..=1.0).contains(&self.epsilon) {
            return Err(Error::BadField("epsilon: it must be from 0 to 1"));
        }
        Ok(())
    }
}

/// Takes the settings out of a message, and leaves its other fields: `transform`, or `schema` (an object, or
/// a text in TOML) with `examples`, from which it learns; and `mode`, `baseline`, `epsilon` and `freeze`.
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
    let mut given = |name: &str| message.remove(name);
    Ok(SettingsChange {
        transform,
        mode: given("mode").map(|mode| of_json("the setting `mode`", mode)).transpose()?,
        baseline: given("baseline").map(|arm| of_json("the setting `baseline`", arm)).transpose()?,
        epsilon: given("epsilon").map(|epsilon| of_json("the setting `epsilon`", epsilon)).transpose()?,
        freeze: given("freeze").map(|freeze| of_json("the setting `freeze`", freeze)).transpose()?,
    })
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
