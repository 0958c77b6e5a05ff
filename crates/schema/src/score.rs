//! Score features: a prediction of each candidate's reward, and which candidate it is.
//!
//! Of arm a with the prediction p (in units of the reward) and with q = (p - c)/h, cut to the interval from
//! -1 to 1, the row is
//!
//! - (q, e_a)/√2, K + 1 features, where candidates are fixed and K + 1 is at most
//!   [`KEY_FEATURES`](crate::KEY_FEATURES); e_a is the one-hot of the arm;
//! - (q, 1)/√2 otherwise.
//!
//! Its norm is at most 1. A linear model of rewards that are centred by c is h√2·q, plus what the candidate
//! differs from its predictions: a bandit starts from the model of history, and corrects its scale and each
//! arm. c is the mean of the predictions of history, h their largest distance from it.

use crate::{Cell, Error, KEY_FEATURES, Position, Transform};
use serde::{Deserialize, Serialize};

/// A linear prediction of the reward from the features before the score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreModel {
    /// Coefficients of the features of [`Transform::wide_names`]: for each arm, or once for all candidates.
    pub coefficients: Vec<Vec<f64>>,
    /// c and h.
    pub range: ScoreRange,
    /// The noise that protects rewards of the file, if there is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privacy: Option<ScorePrivacy>,
}

/// The coefficients are (`epsilon`, `delta`)-differentially private with respect to the rewards of one round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScorePrivacy {
    /// ε.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
}

/// The predictions that become -1 and 1: `centre` less and plus `half`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreRange {
    /// c.
    pub centre: f64,
    /// h, which is positive.
    pub half: f64,
}

/// The range of some predictions, seen one after the other.
#[derive(Debug, Clone)]
pub struct RangeFit {
    seen: u64,
    sum: f64,
    least: f64,
    largest: f64,
}

impl Default for RangeFit {
    fn default() -> Self {
        RangeFit { seen: 0, sum: 0.0, least: f64::INFINITY, largest: f64::NEG_INFINITY }
    }
}

impl RangeFit {
    /// Takes predictions in.
    pub fn see(&mut self, predictions: &[f64]) {
        for p in predictions {
            self.seen += 1;
            self.sum += p;
            (self.least, self.largest) = (self.least.min(*p), self.largest.max(*p));
        }
    }

    /// The mean of the predictions, and their largest distance from it, which is 1 where all are equal.
    ///
    /// # Errors
    /// [`Error::Schema`] if there is none, or if they are beyond double precision.
    pub fn finish(self) -> Result<ScoreRange, Error> {
        let centre = self.sum / self.seen as f64;
        let half = (self.largest - centre).max(centre - self.least);
        if self.seen == 0 || !centre.is_finite() || !half.is_finite() {
            let reason = "the predictions are beyond double precision: divide the columns by a constant";
            return Err(Error::schema("score", reason));
        }
        // Below the rounding errors of a mean all predictions are equal.
        let equal = half <= 1e-12 * centre.abs() || half == 0.0;
        Ok(ScoreRange { centre, half: if equal { 1.0 } else { half } })
    }
}

impl ScoreModel {
    /// The model whose predictions are not scaled, before their range is known.
    pub fn unscaled(coefficients: Vec<Vec<f64>>) -> Self {
        ScoreModel { coefficients, range: ScoreRange { centre: 0.0, half: 1.0 }, privacy: None }
    }

    /// The prediction of a candidate, which is `arm`, from its features before the score.
    pub fn predict(&self, arm: usize, row: &[f64]) -> f64 {
        // One row of coefficients serves all arms.
        let coefficients = self.coefficients.get(arm).unwrap_or(&self.coefficients[0]);
        coefficients.iter().zip(row).map(|(w, x)| w * x).sum()
    }

    /// Appends the features of a candidate, of which there are `features`.
    pub(crate) fn extend(&self, rows: &mut Vec<f64>, arm: usize, row: &[f64], features: usize) {
        let ScoreRange { centre, half } = self.range;
        let unit = std::f64::consts::FRAC_1_SQRT_2;
        rows.push(unit * ((self.predict(arm, row) - centre) / half).clamp(-1.0, 1.0));
        // With one more feature, it is 1 for all candidates.
        rows.extend((0..features - 1).map(|i| if i == arm || features == 2 { unit } else { 0.0 }));
    }

    /// Whether the model computes finite predictions of `groups` kinds from `wide` features.
    pub(crate) fn fits(&self, groups: usize, wide: usize) -> bool {
        let ScoreRange { centre, half } = self.range;
        let finite = |row: &Vec<f64>| row.len() == wide && row.iter().all(|w| w.is_finite());
        self.coefficients.len() == groups
            && self.coefficients.iter().all(finite)
            && centre.is_finite()
            && half.is_finite()
            && half > 0.0
    }
}

impl Transform {
    /// How many rows of coefficients a score has: one for each fixed candidate, else one for all.
    pub fn score_groups(&self) -> usize {
        let own =
            self.schema().is_fixed() && self.schema().score.as_ref().is_some_and(|s| s.column.is_none());
        if own { self.arms() } else { 1 }
    }

    /// The number of score features: K + 1, or 2.
    pub(crate) fn score_features(&self) -> usize {
        let fits = self.schema().is_fixed() && self.arms() < KEY_FEATURES;
        if fits { self.arms() + 1 } else { 2 }
    }

    /// The transformation whose score is that of `model`.
    ///
    /// # Errors
    /// [`Error::Schema`] if the schema has no `score`, or if the coefficients have another shape or are not
    /// finite.
    pub fn with_score(mut self, model: ScoreModel) -> Result<Self, Error> {
        if self.schema().score.is_none() || !model.fits(self.score_groups(), self.wide()) {
            return Err(Error::schema(
                "score",
                "the model of the rewards has another shape: learn it once more",
            ));
        }
        self.set_score(model);
        Ok(self)
    }

    /// The predictions of a round's candidates, by the model of [`score`](Self::score). None without one.
    ///
    /// # Errors
    /// Those of [`wide_rows`](Self::wide_rows).
    pub fn predictions(
        &self,
        context: &[Cell],
        candidates: &[Vec<Cell>],
        position: Position,
    ) -> Result<Vec<f64>, Error> {
        let Some(model) = self.score() else { return Ok(Vec::new()) };
        let rows = self.wide_rows(context, candidates, position)?;
        let rows = rows.chunks_exact(self.wide()).enumerate();
        Ok(rows.map(|(arm, row)| model.predict(arm, row)).collect())
    }

    /// The coefficients whose prediction is the column that the schema names; `None` if it names none.
    pub fn column_model(&self) -> Option<Vec<Vec<f64>>> {
        // The features are the intercept and the column.
        self.schema().score.as_ref()?.column.as_ref().map(|_| vec![vec![0.0, 1.0]])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ColumnFit, NamedRound, Schema};

    fn schema(json: &str) -> Schema {
        serde_json::from_str(json).unwrap()
    }

    fn round(json: &str) -> NamedRound {
        serde_json::from_str(json).unwrap()
    }

    /// Rows by hand: of the context of 2 and a price of 3, arm 0 has 0.1 + 0.2·2 + 0.05·3 = 0.65 and arm 1
    /// has 0.3 - 0.1·2 + 0.1·1 = 0.2, around 0.4 with the half 0.5.
    #[test]
    fn features_are_the_prediction_and_the_candidate() {
        let schema = schema(
            r#"{"layout": "dsjson", "candidates": ["a", "b"], "score": {}, "interactions": [["age", "candidate"]],
                "interactions_only": true, "candidate": {"price": "none"}, "context": {"age": "none"}}"#,
        );
        let transform = ColumnFit::new(&schema).unwrap().finish(2).unwrap();
        assert_eq!(transform.wide_names(), ["bias", "price", "age"]);
        let range = ScoreRange { centre: 0.4, half: 0.5 };
        let coefficients = vec![vec![0.1, 0.05, 0.2], vec![0.3, 0.1, -0.1]];
        let transform = transform.with_score(ScoreModel { coefficients, range, privacy: None }).unwrap();
        assert_eq!(transform.names(), ["score", "candidate=a", "candidate=b"]);
        let asked = round(r#"{"context": {"age": 2}, "candidates": [{"price": 3}, {"price": 1}]}"#);
        let unit = 0.5f64.sqrt();
        let rows = transform.features_of(&asked).unwrap();
        for (x, want) in rows.concat().iter().zip([0.5 * unit, unit, 0.0, -0.4 * unit, 0.0, unit]) {
            assert!((x - want).abs() < 1e-15, "{rows:?}");
        }
        // Beyond the range of history, the score is cut.
        let far = round(r#"{"context": {"age": 90}, "candidates": [{"price": 3}, {"price": 1}]}"#);
        let rows = transform.features_of(&far).unwrap();
        assert_eq!((rows[0][0], rows[1][0]), (unit, -unit));
        // The message that an agent and the Python package read.
        let stored = serde_json::to_string(&transform).unwrap();
        assert_eq!(serde_json::from_str::<Transform>(&stored).unwrap(), transform);
        for bad in [
            stored.replace("0.05", "1e999"),
            stored.replace("[0.1,0.05,0.2],", ""),
            stored.replace("\"half\":0.5", "\"half\":0"),
        ] {
            assert!(serde_json::from_str::<Transform>(&bad).is_err(), "{bad}");
        }
    }

    /// More candidates than keys carry, and those that differ from round to round, have two features.
    #[test]
    fn what_has_no_place_is_left_to_the_score() {
        for (candidates, features) in [(15, 16), (16, 2)] {
            let names: Vec<String> = (0..candidates).map(|i| format!("c{i}")).collect();
            let schema = Schema {
                candidates: names,
                ..schema(r#"{"layout": "dsjson", "score": {}, "context": {"age": "none"}}"#)
            };
            let transform = ColumnFit::new(&schema).unwrap().finish(candidates).unwrap();
            let range = ScoreRange { centre: 0.0, half: 1.0 };
            let coefficients = vec![vec![0.5, 0.0]; candidates];
            let transform = transform.with_score(ScoreModel { coefficients, range, privacy: None }).unwrap();
            assert_eq!(transform.features(), features);
            assert_eq!(transform.names().len(), features);
            let asked = NamedRound {
                candidates: vec![Default::default(); candidates],
                ..round(r#"{"context": {"age": 1}, "candidates": []}"#)
            };
            let rows = transform.features_of(&asked).unwrap();
            let unit = 0.5f64.sqrt();
            assert!(rows.iter().all(|row| row.len() == features && row[0] == 0.5 * unit));
            assert!(rows.iter().all(|row| (row.iter().map(|x| x * x).sum::<f64>() - 0.625).abs() < 1e-15));
        }
    }

    /// The predictions of another model are the score, and their range is learnt from examples.
    #[test]
    fn a_column_is_a_score() {
        let schema = schema(
            r#"{"layout": "dsjson", "score": {"column": "p"}, "candidates": ["a", "b"], "candidate": {"p": "none"}}"#,
        );
        let examples = [
            round(r#"{"candidates": [{"p": 0.1}, {"p": 0.3}]}"#),
            round(r#"{"candidates": [{"p": 0.2}, {"p": 0.6}]}"#),
        ];
        let transform = Transform::learn(&schema, &examples).unwrap();
        let rows = transform.features_of(&examples[0]).unwrap();
        let unit = 0.5f64.sqrt();
        // The mean is 0.3, and the farthest is 0.6.
        for (x, want) in rows.concat().iter().zip([-2.0 / 3.0, 1.0, 0.0, 0.0, 0.0, 1.0]) {
            assert!((x - want * unit).abs() < 1e-15, "{rows:?}");
        }
        let fault = |json: &str| {
            Transform::learn(&serde_json::from_str(json).unwrap(), &examples).unwrap_err().to_string()
        };
        let said = fault(
            r#"{"layout": "dsjson", "score": {"column": "p"}, "candidate": {"p": "none", "price": "max"}}"#,
        );
        assert!(said.starts_with("schema, score, column: "), "{said}");
        let said = fault(r#"{"layout": "dsjson", "score": {}, "candidate": {"p": "none"}}"#);
        assert!(said.starts_with("schema, score: it is learnt from rewards"), "{said}");
        let said = fault(
            r#"{"layout": "dsjson", "score": {}, "project": {"features": 1}, "candidate": {"p": "none"}}"#,
        );
        assert!(said.starts_with("schema, project: "), "{said}");
    }
}
