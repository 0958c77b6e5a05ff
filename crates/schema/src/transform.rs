//! The transformation: a schema with what it took from data.

use crate::fit::{length, number};
use crate::{
    Cell, Encoding, Error, MAX_CANDIDATES, MAX_WIDE, Missing, NormRule, Projection, Schema, ScoreModel,
    ScoreRule,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Computes features of candidates from named values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Transform {
    stored: Stored,
    /// The schema of the features before a projection or a score.
    of_wide: Schema,
    wide: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    schema: Schema,
    arms: usize,
    candidate: Vec<Column>,
    context: Vec<Column>,
    projection: Option<Projected>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    score: Option<ScoreModel>,
    /// The number that rows are divided by.
    divisor: f64,
}

/// A column with what was learnt about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) learnt: Learnt,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Learnt {
    /// (x - shift) · factor, of ln(1 + x) if `log`; `mean` replaces a missing x.
    Number { shift: f64, factor: f64, log: bool, mean: f64 },
    /// Categories in the order of their features.
    OneHot { categories: Vec<String> },
    /// FNV-1a modulo the number of features.
    Hash { features: usize },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Projected {
    /// One row for each feature after the projection.
    pub(crate) matrix: Vec<Vec<f64>>,
    /// Mean square of the rows after the projection, divided by that before. 1 for random signs, which keep
    /// it on average over seeds.
    pub(crate) kept: f64,
}

/// The candidates of a round, as a transformation sees them besides their values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// The arm that the user of this round chose last.
    pub previous: Option<usize>,
}

impl TryFrom<Stored> for Transform {
    type Error = Error;

    fn try_from(stored: Stored) -> Result<Self, Error> {
        let Stored { schema, arms, candidate, context, projection, score, divisor } = &stored;
        schema.validate()?;
        let broken =
            |what: &str| Error::schema("transformation", format!("{what}: convert the data once more"));
        let fits = |columns: &[Column], names: &BTreeMap<String, Encoding>| {
            columns.len() == names.len()
                && columns
                    .iter()
                    .zip(names)
                    .all(|(c, (name, encoding))| c.name == *name && c.is_of(*encoding))
        };
        if !fits(candidate, &schema.candidate) || !fits(context, &schema.context) {
            return Err(broken("its columns are not those of its schema"));
        }
        if !(1..=MAX_CANDIDATES).contains(arms) || !divisor.is_finite() || *divisor <= 0.0 {
            return Err(broken("its number of arms or its divisor is out of range"));
        }
        let made = Transform::new(schema.clone(), *arms, candidate.clone(), context.clone());
        if !(1..=MAX_WIDE).contains(&made.wide) {
            return Err(broken("its number of features is out of range"));
        }
        if let Some(Projected { matrix, kept }) = projection {
            let row = |row: &Vec<f64>| row.len() == made.wide && row.iter().all(|x| x.is_finite());
            let rows = schema.project.map(|p| p.features);
            if rows != Some(matrix.len()) || !matrix.iter().all(row) || !kept.is_finite() {
                return Err(broken("its projection has another shape"));
            }
        }
        let model = match (&schema.score, score) {
            (Some(_), Some(model)) => model.fits(made.score_groups(), made.wide),
            (rule, model) => rule.is_none() && model.is_none(),
        };
        if !model {
            return Err(broken("its score has another shape"));
        }
        Ok(Transform { stored, ..made })
    }
}

impl From<Transform> for Stored {
    fn from(transform: Transform) -> Stored {
        transform.stored
    }
}

impl Column {
    pub(crate) fn is_finite(&self) -> bool {
        match &self.learnt {
            Learnt::Number { shift, factor, mean, .. } => [shift, factor, mean].iter().all(|x| x.is_finite()),
            Learnt::OneHot { .. } | Learnt::Hash { .. } => true,
        }
    }

    fn is_of(&self, encoding: Encoding) -> bool {
        self.is_finite()
            && match (&self.learnt, encoding) {
                (Learnt::Number { log, .. }, _) => {
                    encoding.is_number() && *log == (encoding == Encoding::Log)
                }
                (Learnt::OneHot { categories }, _) => {
                    encoding == Encoding::OneHot && categories.len() <= crate::MAX_CATEGORIES
                }
                (Learnt::Hash { features }, Encoding::Hash(n)) => *features == n,
                (Learnt::Hash { .. }, _) => false,
            }
    }

    fn features(&self) -> usize {
        match &self.learnt {
            Learnt::Number { .. } => 1,
            Learnt::OneHot { categories } => categories.len(),
            Learnt::Hash { features } => *features,
        }
    }

    fn names(&self) -> Vec<String> {
        let name = &self.name;
        match &self.learnt {
            Learnt::Number { .. } => vec![name.clone()],
            Learnt::OneHot { categories } => categories.iter().map(|c| format!("{name}={c}")).collect(),
            Learnt::Hash { features } => (0..*features).map(|i| format!("{name}#{i}")).collect(),
        }
    }

    /// The features of a value. `None` if it is missing and rounds without it are dropped.
    fn encode(&self, cell: &Cell, missing: Missing) -> Result<Vec<f64>, Error> {
        let mut features = vec![0.0; self.features()];
        match &self.learnt {
            Learnt::Number { shift, factor, log, mean } => {
                let encoding = if *log { Encoding::Log } else { Encoding::Plain };
                let value = match (cell, missing) {
                    (Cell::Missing, Missing::Zero) => return Ok(features),
                    (Cell::Missing, Missing::Mean) => *mean,
                    (cell, _) => number(&self.name, encoding, cell)?,
                };
                features[0] = ((if *log { value.ln_1p() } else { value }) - shift) * factor;
                if !features[0].is_finite() {
                    return Err(Error::cell(
                        &self.name,
                        cell,
                        "its feature is beyond double precision: mend the cell",
                    ));
                }
            }
            _ if cell.is_missing() => {
                if missing == Missing::Drop {
                    return Err(Error::cell(&self.name, cell, "there is no value: set missing = \"zero\""));
                }
            }
            Learnt::OneHot { categories } => {
                let category = cell.to_string();
                if let Ok(at) = categories.binary_search(&category) {
                    features[at] = 1.0;
                }
            }
            Learnt::Hash { features: n } => {
                let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
                let hash = cell.to_string().bytes().fold(0xCBF2_9CE4_8422_2325, step);
                features[(hash % *n as u64) as usize] = 1.0;
            }
        }
        Ok(features)
    }
}

impl Transform {
    pub(crate) fn new(schema: Schema, arms: usize, candidate: Vec<Column>, context: Vec<Column>) -> Self {
        let of_wide = if schema.score.is_some() { schema.before_score() } else { schema.clone() };
        let stored = Stored { schema, arms, candidate, context, projection: None, score: None, divisor: 1.0 };
        let mut transform = Transform { stored, of_wide, wide: 0 };
        transform.wide = transform.wide_names().len();
        transform
    }

    pub(crate) fn with_projection(mut self, projected: Projected) -> Self {
        self.stored.projection = Some(projected);
        self
    }

    /// The transformation with the same columns, whose schema asks for score features in place of a
    /// projection.
    ///
    /// # Errors
    /// Those of [`Schema::validate`]; [`Error::Schema`] for more than [`MAX_WIDE`] features.
    pub fn before_score(&self) -> Result<Self, Error> {
        let schema = Schema { project: None, score: Some(ScoreRule::default()), ..self.schema().clone() };
        schema.validate()?;
        let Stored { arms, candidate, context, .. } = &self.stored;
        let transform = Transform::new(schema, *arms, candidate.clone(), context.clone());
        if transform.wide > MAX_WIDE {
            let reason = format!("{} features come before it, and {MAX_WIDE} are possible", transform.wide);
            return Err(Error::schema("score", reason));
        }
        Ok(transform)
    }

    pub(crate) fn set_score(&mut self, model: ScoreModel) {
        self.stored.score = Some(model);
    }

    pub(crate) fn with_longest(mut self, longest: f64) -> Self {
        // Rows of score features are at most 1 long.
        if self.stored.schema.norm == NormRule::Divide && self.stored.score.is_none() {
            self.stored.divisor = longest;
        }
        self
    }

    /// The schema.
    pub fn schema(&self) -> &Schema {
        &self.stored.schema
    }

    /// Number of candidates of a round, K.
    pub fn arms(&self) -> usize {
        self.stored.arms
    }

    /// Number of features before the projection or the score, D.
    pub fn wide(&self) -> usize {
        self.wide
    }

    /// Number of features of a candidate, d.
    pub fn features(&self) -> usize {
        if self.stored.score.is_some() {
            return self.score_features();
        }
        self.stored.projection.as_ref().map_or(self.wide, |p| p.matrix.len())
    }

    /// The projection that the schema asks for, if there are more features than it keeps.
    pub fn projects(&self) -> Option<Projection> {
        self.schema().project.filter(|p| p.features < self.wide)
    }

    /// The mean square of the rows after a projection to principal components, divided by that before; 1
    /// without one.
    pub fn mean_square_kept(&self) -> f64 {
        self.stored.projection.as_ref().map_or(1.0, |p| p.kept)
    }

    /// The number that every row is divided by.
    pub fn divisor(&self) -> f64 {
        self.stored.divisor
    }

    /// The model of the score features.
    pub fn score(&self) -> Option<&ScoreModel> {
        self.stored.score.as_ref()
    }

    /// Names of the features: those of columns and categories, or `x1`, `x2`, … after a projection, or
    /// `score` and those of the candidates.
    pub fn names(&self) -> Vec<String> {
        if self.stored.score.is_some() {
            let mut names = vec!["score".to_string()];
            match self.features() {
                2 => names.push("bias".into()),
                _ => names.extend(self.identity()),
            }
            return names;
        }
        match &self.stored.projection {
            Some(p) => (1..=p.matrix.len()).map(|i| format!("x{i}")).collect(),
            None => self.wide_names(),
        }
    }

    fn identity(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.arms()).map(|arm| format!("candidate={}", self.arm(arm)))
    }

    /// Names of the features before the projection or the score: the bias, features of the candidate, those
    /// of the context, products, the candidate's one-hot, the last choice.
    pub fn wide_names(&self) -> Vec<String> {
        let (schema, Stored { candidate, context, .. }) = (&self.of_wide, &self.stored);
        let identity: Vec<String> = self.identity().collect();
        let block = |name: &String| -> Vec<String> {
            let column = candidate.iter().chain(context).find(|c| c.name == *name);
            column.map_or_else(|| identity.clone(), Column::names)
        };
        let mut names = Vec::new();
        names.extend(schema.bias.then(|| "bias".to_string()));
        names.extend(candidate.iter().flat_map(Column::names));
        names.extend(context.iter().filter(|_| !schema.interactions_only).flat_map(Column::names));
        for [a, b] in &schema.interactions {
            let (a, b) = (block(a), block(b));
            names.extend(a.iter().flat_map(|a| b.iter().map(move |b| format!("{a}*{b}"))));
        }
        if schema.identity {
            names.extend(identity);
        }
        names.extend(schema.previous.then(|| "previous".to_string()));
        names
    }

    /// The name of an arm: that of its candidate, or its number from 1.
    pub fn arm(&self, arm: usize) -> String {
        self.schema().candidates.get(arm).cloned().unwrap_or_else(|| (arm + 1).to_string())
    }

    /// The features before the projection or the score: K rows of D numbers. `context` and each candidate
    /// have one cell for each name in the schema, in the order of the names.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Cell`].
    pub fn wide_rows(
        &self,
        context: &[Cell],
        candidates: &[Vec<Cell>],
        position: Position,
    ) -> Result<Vec<f64>, Error> {
        let (schema, Stored { arms, candidate: columns, context: shared, .. }) =
            (&self.of_wide, &self.stored);
        check("candidates", candidates.len(), *arms)?;
        check("context values", context.len(), shared.len())?;
        let missing = schema.missing;
        let context: Vec<Vec<f64>> = shared
            .iter()
            .zip(context)
            .map(|(column, cell)| column.encode(cell, missing))
            .collect::<Result<_, _>>()?;
        let mut rows = Vec::with_capacity(arms * self.wide);
        for (arm, cells) in candidates.iter().enumerate() {
            check("values of a candidate", cells.len(), columns.len())?;
            let own: Vec<Vec<f64>> = columns
                .iter()
                .zip(cells)
                .map(|(column, cell)| column.encode(cell, missing))
                .collect::<Result<_, _>>()?;
            let identity: Vec<f64> = (0..*arms).map(|i| f64::from(i == arm)).collect();
            let block = |name: &String| -> &[f64] {
                let position = |columns: &[Column]| columns.iter().position(|c| c.name == *name);
                match (position(columns), position(shared)) {
                    (Some(at), _) => &own[at],
                    (None, Some(at)) => &context[at],
                    (None, None) => &identity,
                }
            };
            rows.extend(schema.bias.then_some(1.0));
            rows.extend(own.iter().flatten());
            rows.extend(context.iter().filter(|_| !schema.interactions_only).flatten());
            for [a, b] in &schema.interactions {
                let (a, b) = (block(a), block(b));
                rows.extend(a.iter().flat_map(|a| b.iter().map(move |b| a * b)));
            }
            if schema.identity {
                rows.extend(&identity);
            }
            rows.extend(schema.previous.then_some(f64::from(position.previous == Some(arm))));
        }
        Ok(rows)
    }

    /// The features after the projection or the score, before rows are divided or clipped: K rows of d
    /// numbers.
    ///
    /// # Errors
    /// Those of [`wide_rows`](Self::wide_rows).
    pub fn projected_rows(
        &self,
        context: &[Cell],
        candidates: &[Vec<Cell>],
        position: Position,
    ) -> Result<Vec<f64>, Error> {
        let rows = self.wide_rows(context, candidates, position)?;
        if let Some(model) = &self.stored.score {
            let features = self.features();
            let mut made = Vec::with_capacity(self.arms() * features);
            for (arm, row) in rows.chunks_exact(self.wide).enumerate() {
                model.extend(&mut made, arm, row, features);
            }
            return Ok(made);
        }
        let Some(Projected { matrix, .. }) = &self.stored.projection else { return Ok(rows) };
        let product =
            |row: &[f64], weights: &Vec<f64>| -> f64 { row.iter().zip(weights).map(|(x, w)| x * w).sum() };
        Ok(rows.chunks_exact(self.wide).flat_map(|row| matrix.iter().map(move |w| product(row, w))).collect())
    }

    /// The features: K rows of d numbers, each of a norm of at most 1, and the number of rows that had to be
    /// shortened for it.
    ///
    /// # Errors
    /// Those of [`wide_rows`](Self::wide_rows).
    pub fn rows(
        &self,
        context: &[Cell],
        candidates: &[Vec<Cell>],
        position: Position,
    ) -> Result<(Vec<f64>, usize), Error> {
        let mut rows = self.projected_rows(context, candidates, position)?;
        let divisor = self.divisor();
        let mut shortened = 0;
        for row in rows.chunks_exact_mut(self.features()) {
            row.iter_mut().for_each(|x| *x /= divisor);
            let norm = length(row);
            if norm > 1.0 {
                // The longest row of the data may be an ulp longer than 1.
                shortened += usize::from(norm > 1.0 + 1e-12);
                row.iter_mut().for_each(|x| *x /= norm);
            }
        }
        Ok((rows, shortened))
    }

    /// The same from values by name. Names that the schema does not have are left out.
    ///
    /// # Errors
    /// Those of [`rows`](Self::rows); a name that is not given is a missing value.
    pub fn named_rows(
        &self,
        context: &BTreeMap<String, Cell>,
        candidates: &[BTreeMap<String, Cell>],
        position: Position,
    ) -> Result<(Vec<f64>, usize), Error> {
        let cell = |column: &Column, values: &BTreeMap<String, Cell>| {
            let cell = values.get(&column.name).cloned().unwrap_or(Cell::Missing);
            match &column.learnt {
                Learnt::Number { .. } => self.schema().form(&column.name).read(cell),
                Learnt::OneHot { .. } | Learnt::Hash { .. } => cell,
            }
        };
        let of = |columns: &[Column], values: &BTreeMap<String, Cell>| -> Vec<Cell> {
            columns.iter().map(|column| cell(column, values)).collect()
        };
        let Stored { candidate, context: shared, .. } = &self.stored;
        let candidates: Vec<Vec<Cell>> = candidates.iter().map(|values| of(candidate, values)).collect();
        self.rows(&of(shared, context), &candidates, position)
    }
}

fn check(what: &'static str, got: usize, want: usize) -> Result<(), Error> {
    if got == want { Ok(()) } else { Err(Error::Shape { what, got, want }) }
}
