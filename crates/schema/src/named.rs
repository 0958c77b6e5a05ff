//! Rounds as an application has them: values by name, without a file.

use crate::{
    Cell, ColumnFit, Encoding, Error, Missing, MomentFit, NormFit, NormRule, Position, ProjectionRule,
    RangeFit, Schema, ScoreModel, Transform,
};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;

/// A round with its values by name.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedRound {
    /// Values of the context, which all candidates share.
    #[serde(default)]
    pub context: Named,
    /// Values of each candidate, in the order of the arms.
    pub candidates: Vec<Named>,
    /// The arm that the user of this round chose last, if the schema asks for it.
    #[serde(default)]
    pub previous: Option<usize>,
}

/// Values by name: numbers, texts, truth values, which are 1 and 0, and null for no value. A text is read as
/// the cell of a table is ([`Cell::parse`]). An error of the format names the value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Named(pub BTreeMap<String, Cell>);

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OfNames)
    }
}

struct OfNames;

impl<'de> Visitor<'de> for OfNames {
    type Value = Named;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object of named values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named, A::Error> {
        let mut values = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value::<Value>();
            let Value(cell) = value.map_err(|error| A::Error::custom(format!("{name}: {error}")))?;
            if values.insert(name.clone(), cell).is_some() {
                return Err(A::Error::custom(format!("{name}: it is given twice")));
            }
        }
        Ok(Named(values))
    }
}

/// One of the [`Named`] values.
struct Value(Cell);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OfValue).map(Value)
    }
}

struct OfValue;

impl Visitor<'_> for OfValue {
    type Value = Cell;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a number, a text, true, false or null")
    }

    fn visit_unit<E>(self) -> Result<Cell, E> {
        Ok(Cell::Missing)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Cell, E> {
        Ok(Cell::Number(f64::from(value)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Cell, E> {
        Ok(Cell::Number(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Cell, E> {
        Ok(Cell::whole(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Cell, E> {
        Ok(Cell::whole(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Cell, E> {
        Ok(Cell::parse(value))
    }
}

impl Transform {
    /// The transformation of `schema` that is learnt from `rounds`, as it is from the rounds of a file. A
    /// schema that learns nothing from data needs no round, if it says how many candidates there are.
    ///
    /// # Errors
    /// Those of [`Schema::validate`], [`ColumnFit::finish`] and [`NormFit::finish`]; [`Error::Schema`] for a
    /// schema that needs rounds, without any; [`Error::Named`] for a value, with its place.
    pub fn learn(schema: &Schema, rounds: &[NamedRound]) -> Result<Self, Error> {
        let mut fit = ColumnFit::new(schema)?;
        if schema.score.as_ref().is_some_and(|score| score.column.is_none()) {
            let reason = "it is learnt from rewards, which example rounds do not have: take the transformation that `helba-client \
                          data transform` learns from a file, or name the column of a model's predictions";
            return Err(Error::schema("score", reason));
        }
        let Some(first) = rounds.first() else {
            if let Some((entry, why)) = schema.learns() {
                return Err(Error::schema(entry, format!("{why}, and there is no example round")));
            }
            let named = Some(schema.candidates.len()).filter(|names| *names > 0);
            let missing = || {
                Error::schema("arms", "missing: without example rounds, say how many candidates a round has")
            };
            let arms = named.or(schema.arms).ok_or_else(missing)?;
            let transform = fit.finish(arms)?;
            let moments = MomentFit::new(&transform);
            return Ok(moments.finish(transform));
        };
        let arms = first.candidates.len();
        let at = |index: usize| move |error: Error| error.within(&format!("examples[{index}]"));
        let mut cells = Vec::with_capacity(rounds.len());
        for (index, round) in rounds.iter().enumerate() {
            let (context, candidates) = schema.cells(round, arms).map_err(at(index))?;
            fit.see(&context, &candidates).map_err(at(index))?;
            cells.push((context, candidates, Position { previous: round.previous }));
        }
        let mut transform = fit.finish(arms)?;
        if transform.projects().is_some() {
            let mut moments = MomentFit::new(&transform);
            for (context, candidates, position) in &cells {
                moments.see(&transform.wide_rows(context, candidates, *position)?);
            }
            transform = moments.finish(transform);
        }
        if let Some(coefficients) = transform.column_model() {
            let of_column = transform.clone().with_score(ScoreModel::unscaled(coefficients.clone()))?;
            let mut range = RangeFit::default();
            for (context, candidates, position) in &cells {
                range.see(&of_column.predictions(context, candidates, *position)?);
            }
            transform =
                transform.with_score(ScoreModel { coefficients, range: range.finish()?, privacy: None })?;
        }
        let mut norms = NormFit::default();
        for (context, candidates, position) in &cells {
            norms.see(&transform.projected_rows(context, candidates, *position)?, transform.features());
        }
        norms.finish(transform)
    }

    /// The features of a round: K rows of d numbers, each of a norm of at most 1. In contrast to
    /// [`Self::named_rows`], a name that the schema does not have is an error, as is one that is not given if
    /// the schema drops rounds without it. A category that was not learnt has zeros.
    ///
    /// # Errors
    /// [`Error::Shape`] for the number of candidates; [`Error::Named`] with the place of the value, such as
    /// `candidates[1].price`.
    pub fn features_of(&self, round: &NamedRound) -> Result<Vec<Vec<f64>>, Error> {
        let (context, candidates) = self.schema().cells(round, self.arms())?;
        let (rows, _) = self.rows(&context, &candidates, Position { previous: round.previous })?;
        Ok(rows.chunks_exact(self.features()).map(<[f64]>::to_vec).collect())
    }
}

/// A round to decide about. In contrast to a [`NamedRound`], candidates may be closed: they are null.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenRound {
    /// Values of the context, which all candidates share.
    #[serde(default)]
    pub context: Named,
    /// Values of each candidate, in the order of the arms; `None` of a closed one.
    pub candidates: Vec<Option<Named>>,
    /// The arm that the user of this round chose last, if the schema asks for it.
    #[serde(default)]
    pub previous: Option<usize>,
}

impl Transform {
    /// As [`Self::features_of`], with an empty row for each closed candidate.
    ///
    /// # Errors
    /// As [`Self::features_of`]; [`Error::Named`] if no candidate is open.
    pub fn features_of_open(&self, round: OpenRound) -> Result<Vec<Vec<f64>>, Error> {
        let OpenRound { context, candidates, previous } = round;
        let candidates: Vec<Option<&Named>> = candidates.iter().map(Option::as_ref).collect();
        let (context, cells) = self.schema().cells_of(&context, &candidates, previous, self.arms())?;
        let Some(open) = cells.iter().flatten().next().cloned() else {
            return Err(Error::Named { place: "candidates".into(), reason: "all of them are closed".into() });
        };
        // The features of a candidate do not depend on those of others.
        let cells: Vec<Vec<Cell>> =
            cells.into_iter().map(|cells| cells.unwrap_or_else(|| open.clone())).collect();
        let (rows, _) = self.rows(&context, &cells, Position { previous })?;
        let row = |(x, candidate): (&[f64], &Option<&Named>)| candidate.map_or(Vec::new(), |_| x.to_vec());
        Ok(rows.chunks_exact(self.features()).zip(&candidates).map(row).collect())
    }
}

impl Schema {
    /// The first entry that takes something from data, and what it takes.
    fn learns(&self) -> Option<(String, String)> {
        let fixed = |encoding: &Encoding| matches!(encoding, Encoding::Plain | Encoding::Hash(_));
        let mut columns = self.candidate.iter().chain(&self.context);
        if let Some((name, encoding)) = columns.find(|(_, encoding)| !fixed(encoding)) {
            return Some((name.clone(), format!("\"{encoding}\" learns from data")));
        }
        let random = |by| by == ProjectionRule::Random;
        if self.project.is_some_and(|project| !random(project.by)) {
            return Some((
                "project".into(),
                "components are learnt from data: by = \"random\" is not".into(),
            ));
        }
        if self.score.is_some() {
            return Some(("score".into(), "the range of predictions is learnt from data".into()));
        }
        if self.missing == Missing::Mean {
            return Some(("missing".into(), "means are learnt from data: \"zero\" needs none".into()));
        }
        (self.norm == NormRule::Divide)
            .then(|| ("norm".into(), "\"divide\" learns the longest row from data: \"clip\" does not".into()))
    }

    /// The cells of a round of `arms` candidates, in the order of the names.
    fn cells(&self, round: &NamedRound, arms: usize) -> Result<(Vec<Cell>, Vec<Vec<Cell>>), Error> {
        let candidates: Vec<Option<&Named>> = round.candidates.iter().map(Some).collect();
        let (context, cells) = self.cells_of(&round.context, &candidates, round.previous, arms)?;
        Ok((context, cells.into_iter().flatten().collect()))
    }

    /// As [`Self::cells`], with `None` for closed candidates.
    #[allow(clippy::type_complexity, reason = "a pair that is taken apart by the callers")]
    fn cells_of(
        &self,
        context: &Named,
        candidates: &[Option<&Named>],
        previous: Option<usize>,
        arms: usize,
    ) -> Result<(Vec<Cell>, Vec<Option<Vec<Cell>>>), Error> {
        let got = candidates.len();
        if got != arms {
            return Err(Error::Shape { what: "candidates", got, want: arms });
        }
        if let Some(arm) = previous.filter(|arm| *arm >= arms || !self.previous) {
            let reason = match self.previous {
                true => format!("{arm} is no arm: they are 0 to {}", arms - 1),
                false => {
                    "the schema has no feature for it: set previous = true there, or leave it out".into()
                }
            };
            return Err(Error::Named { place: "previous".into(), reason });
        }
        let context = self.named_cells("context", &self.context, context)?;
        let of_candidate = |(at, values): (usize, &Option<&Named>)| {
            values.map(|v| self.named_cells(&format!("candidates[{at}]"), &self.candidate, v)).transpose()
        };
        let cells = candidates.iter().enumerate().map(of_candidate).collect::<Result<_, _>>()?;
        Ok((context, cells))
    }

    fn named_cells(
        &self,
        place: &str,
        names: &BTreeMap<String, Encoding>,
        Named(values): &Named,
    ) -> Result<Vec<Cell>, Error> {
        if let Some(name) = values.keys().find(|name| !names.contains_key(*name)) {
            let known: Vec<&str> = names.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none there".into() } else { known.join(", ") };
            let reason = format!("the schema has no such feature; it has {known}");
            return Err(Error::Named { place: format!("{place}.{name}"), reason });
        }
        let cell = |(name, encoding): (&String, &Encoding)| {
            let cell = values.get(name).cloned().unwrap_or(Cell::Missing);
            let cell = if encoding.is_number() { self.form(name).read(cell) } else { cell };
            let place = || format!("{place}.{name}");
            if cell.is_missing() && self.missing == Missing::Drop {
                let reason = "it has no value: give one, or set missing = \"mean\" or \"zero\" in the schema";
                return Err(Error::Named { place: place(), reason: reason.into() });
            }
            encoding.check(&place(), &cell)?;
            Ok(cell)
        };
        names.iter().map(cell).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(json: &str) -> NamedRound {
        serde_json::from_str(json).unwrap()
    }

    fn schema(json: &str) -> Schema {
        serde_json::from_str(json).unwrap()
    }

    /// The transformation that is learnt from rounds has the features that are computed by hand.
    #[test]
    fn features_are_learnt_from_example_rounds() {
        let schema = schema(
            r#"{"layout": "dsjson", "bias": true, "candidate": {"price": "min-max", "brand": "one-hot"},
                "context": {"age": "max"}, "interactions": [["price", "age"]]}"#,
        );
        let examples = [
            round(
                r#"{"context": {"age": 20}, "candidates": [{"price": 2, "brand": "a"}, {"price": 4, "brand": "b"}]}"#,
            ),
            round(
                r#"{"context": {"age": 40}, "candidates": [{"price": 3, "brand": "b"}, {"price": 6, "brand": "a"}]}"#,
            ),
        ];
        let transform = Transform::learn(&schema, &examples).unwrap();
        assert_eq!((transform.arms(), transform.features()), (2, 6));
        assert_eq!(transform.names(), ["bias", "brand=a", "brand=b", "price", "age", "price*age"]);
        // The longest row is that of price 6 and age 40: 1, 1, 0, 1, 1, 1.
        let longest = 5f64.sqrt();
        assert!((transform.divisor() - longest).abs() < 1e-12);
        let asked = round(
            r#"{"context": {"age": "30"}, "candidates": [{"price": 3, "brand": "b"}, {"price": 5, "brand": "new"}]}"#,
        );
        let want = [[1.0, 0.0, 1.0, 0.25, 0.75, 0.1875], [1.0, 0.0, 0.0, 0.75, 0.75, 0.5625]];
        let rows = transform.features_of(&asked).unwrap();
        for (row, want) in rows.iter().zip(&want) {
            for (x, want) in row.iter().zip(want) {
                assert!((x - want / longest).abs() < 1e-12, "{rows:?}");
            }
        }
    }

    /// Open candidates have the features that they have without closed ones, whose rows are empty.
    #[test]
    fn closed_candidates_have_no_features() {
        let schema = schema(
            r#"{"layout": "dsjson", "arms": 3, "norm": "clip", "identity": true, "candidate": {"price": "none"}}"#,
        );
        let transform = Transform::learn(&schema, &[]).unwrap();
        let open = |json: &str| transform.features_of_open(serde_json::from_str(json).unwrap());
        let all =
            transform.features_of(&round(r#"{"candidates": [{"price": 1}, {"price": 2}, {"price": 3}]}"#));
        let [_, second, _] = &all.unwrap()[..] else { panic!() };
        let rows = open(r#"{"candidates": [null, {"price": 2}, null]}"#).unwrap();
        assert_eq!(rows, [vec![], second.clone(), vec![]]);
        let error = open(r#"{"candidates": [null, {"price": "two"}, null]}"#).unwrap_err().to_string();
        assert!(error.contains("candidates[1].price"), "{error}");
        let error = open(r#"{"candidates": [null, null, null]}"#).unwrap_err().to_string();
        assert!(error.contains("closed"), "{error}");
    }

    /// Errors name the value, and where it stands.
    #[test]
    fn errors_name_the_feature() {
        let schema = schema(
            r#"{"layout": "dsjson", "arms": 2, "norm": "clip", "candidate": {"price": "none", "brand": "hash:2"}}"#,
        );
        let transform = Transform::learn(&schema, &[]).unwrap();
        let fault = |candidates: &str| {
            let round = round(&format!(r#"{{"candidates": {candidates}}}"#));
            transform.features_of(&round).unwrap_err().to_string()
        };
        let good = r#"{"price": 1, "brand": "a"}"#;
        for (candidates, said) in [
            (
                format!(r#"[{good}, {{"price": 1, "brand": "a", "colour": 1}}]"#),
                "candidates[1].colour: the schema has no such feature; it has brand, price",
            ),
            (format!(r#"[{good}, {{"price": 1}}]"#), "candidates[1].brand: it has no value"),
            (
                format!(r#"[{{"price": "high", "brand": "a"}}, {good}]"#),
                "candidates[0].price is \"high\": it is no finite number",
            ),
            (format!("[{good}]"), "the round has 1 candidates, the schema has 2"),
        ] {
            assert!(fault(&candidates).starts_with(said), "{}", fault(&candidates));
        }
        for (bad, said) in [
            (r#"{"candidates": [{"price": [1]}]}"#, "price: invalid type: sequence, expected a number"),
            (r#"{"candidates": [{"price": 1, "price": 2}]}"#, "price: it is given twice"),
            (r#"{"candidates": [], "contexts": []}"#, "unknown field"),
        ] {
            let error = serde_json::from_str::<NamedRound>(bad).unwrap_err().to_string();
            assert!(error.starts_with(said), "{error}");
        }
        let previous =
            NamedRound { previous: Some(0), ..round(&format!(r#"{{"candidates": [{good}, {good}]}}"#)) };
        assert!(
            transform.features_of(&previous).unwrap_err().to_string().starts_with("previous: the schema")
        );
    }

    /// What learns from data says so when there is none.
    #[test]
    fn a_schema_that_learns_needs_examples() {
        for (entry, said) in [
            (r#""candidate": {"price": "max"}"#, "schema, price: \"max\" learns from data"),
            (r#""candidate": {"price": "none"}"#, "schema, norm: \"divide\""),
            (r#""norm": "clip", "missing": "mean", "candidate": {"price": "none"}"#, "schema, missing"),
            (
                r#""norm": "clip", "project": {"features": 1}, "candidate": {"price": "none"}"#,
                "schema, project",
            ),
            (r#""norm": "clip", "candidate": {"price": "none"}"#, "schema, arms: missing"),
        ] {
            let schema = schema(&format!(r#"{{"layout": "dsjson", {entry}}}"#));
            let error = Transform::learn(&schema, &[]).unwrap_err().to_string();
            assert!(error.starts_with(said), "{error}");
        }
        let schema = schema(r#"{"layout": "dsjson", "candidate": {"price": "max"}}"#);
        let examples = [
            round(r#"{"candidates": [{"price": 1}, {"price": 2}]}"#),
            round(r#"{"candidates": [{"price": 1}, {}]}"#),
        ];
        let error = Transform::learn(&schema, &examples).unwrap_err().to_string();
        assert!(error.starts_with("examples[1].candidates[1].price: it has no value"), "{error}");
    }
}
