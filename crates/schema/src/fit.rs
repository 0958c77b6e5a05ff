//! What a transformation takes from data, in one to three passes over the rounds.

use crate::transform::{Column, Learnt, Projected};
use crate::{Cell, Encoding, Error, MAX_CATEGORIES, MAX_WIDE, ProjectionRule, Schema, Transform, eigen};
use std::collections::{BTreeMap, BTreeSet};

/// First pass: least and largest values, means and categories of every column.
#[derive(Debug, Clone)]
pub struct ColumnFit {
    schema: Schema,
    candidate: Vec<ColumnSummary>,
    context: Vec<ColumnSummary>,
}

/// What the first pass found in a column.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnSummary {
    /// The name in the schema.
    pub name: String,
    /// Its encoding.
    pub encoding: Encoding,
    /// Number of values.
    pub values: u64,
    /// Number of cells without a value.
    pub missing: u64,
    /// Least number; infinite if there is none.
    pub least: f64,
    /// Largest number; minus infinity if there is none.
    pub largest: f64,
    /// Mean of the numbers.
    pub mean: f64,
    /// Sum of the squared distances from the mean.
    squares: f64,
    /// Categories, for a one-hot encoding.
    pub categories: BTreeSet<String>,
}

impl ColumnSummary {
    fn new((name, encoding): (&String, &Encoding)) -> Self {
        ColumnSummary {
            name: name.clone(),
            encoding: *encoding,
            values: 0,
            missing: 0,
            least: f64::INFINITY,
            largest: f64::NEG_INFINITY,
            mean: 0.0,
            squares: 0.0,
            categories: BTreeSet::new(),
        }
    }

    /// Standard deviation of the numbers, with divisor n.
    pub fn deviation(&self) -> f64 {
        (self.squares / self.values.max(1) as f64).sqrt()
    }

    fn see(&mut self, cell: &Cell) -> Result<(), Error> {
        if cell.is_missing() {
            self.missing += 1;
            return Ok(());
        }
        self.values += 1;
        if self.encoding.is_number() {
            let value = number(&self.name, self.encoding, cell)?;
            self.least = self.least.min(value);
            self.largest = self.largest.max(value);
            let from_mean = value - self.mean;
            self.mean += from_mean / self.values as f64;
            self.squares += from_mean * (value - self.mean);
        } else if self.encoding == Encoding::OneHot {
            let category = cell.to_string();
            if !self.categories.contains(&category) {
                if self.categories.len() == MAX_CATEGORIES {
                    let reason = format!(
                        "it is category number {}, and one-hot takes {MAX_CATEGORIES}: use \"hash:N\"",
                        MAX_CATEGORIES + 1
                    );
                    return Err(Error::cell(&self.name, cell, reason));
                }
                self.categories.insert(category);
            }
        }
        Ok(())
    }

    fn learnt(self) -> Result<Column, Error> {
        let mean = self.mean;
        let inverse = |size: f64| if size > 0.0 { size.recip() } else { 0.0 };
        let scale = |shift: f64, factor: f64, log: bool| Learnt::Number { shift, factor, log, mean };
        let (least, largest) =
            if self.least <= self.largest { (self.least, self.largest) } else { (0.0, 0.0) };
        let learnt = match self.encoding {
            Encoding::Plain => scale(0.0, 1.0, false),
            Encoding::Max => scale(0.0, inverse(least.abs().max(largest.abs())), false),
            Encoding::MinMax => scale(least, inverse(largest - least), false),
            Encoding::Standard => scale(mean, inverse(self.deviation()), false),
            Encoding::Log => scale(0.0, inverse(largest.ln_1p()), true),
            Encoding::OneHot => Learnt::OneHot { categories: self.categories.into_iter().collect() },
            Encoding::Hash(features) => Learnt::Hash { features },
        };
        let column = Column { name: self.name, learnt };
        if !column.is_finite() {
            let reason = "its numbers leave the range of double precision: divide the column by a constant";
            return Err(Error::schema(column.name, reason));
        }
        Ok(column)
    }
}

impl Encoding {
    /// Refuses a value that is no missing one and that this encoding does not take. `column` names it in the
    /// error.
    ///
    /// # Errors
    /// [`Error::Cell`].
    pub fn check(self, column: &str, cell: &Cell) -> Result<(), Error> {
        if self.is_number() && !cell.is_missing() { number(column, self, cell).map(drop) } else { Ok(()) }
    }
}

/// The number of a cell, in the domain of its encoding.
pub(crate) fn number(column: &str, encoding: Encoding, cell: &Cell) -> Result<f64, Error> {
    let Some(value) = cell.number().or_else(|| cell.truth()) else {
        let reason = match cell.number_with_comma() {
            Some(_) => "it is no finite number but with a decimal comma: add the column to `decimal_comma`",
            None => {
                "it is no finite number: mend the cell, or encode the column as \"one-hot\" or \"hash:N\""
            }
        };
        return Err(Error::cell(column, cell, reason));
    };
    if encoding == Encoding::Log && value < 0.0 {
        return Err(Error::cell(
            column,
            cell,
            "\"log\" takes numbers from 0: use \"min-max\" or \"standard\"",
        ));
    }
    Ok(value)
}

impl ColumnFit {
    /// Before the first round.
    ///
    /// # Errors
    /// Those of [`Schema::validate`].
    pub fn new(schema: &Schema) -> Result<Self, Error> {
        schema.validate()?;
        Ok(ColumnFit {
            candidate: schema.candidate.iter().map(ColumnSummary::new).collect(),
            context: schema.context.iter().map(ColumnSummary::new).collect(),
            // A transformation takes named values, and knows no files.
            schema: Schema { header: Vec::new(), tables: BTreeMap::new(), ..schema.clone() },
        })
    }

    /// Takes a round in: `context` and each of `candidates` have one cell for each name in the schema, in
    /// the order of the names.
    ///
    /// # Errors
    /// [`Error::Cell`] for a value that its encoding does not take.
    pub fn see(&mut self, context: &[Cell], candidates: &[Vec<Cell>]) -> Result<(), Error> {
        for (column, cell) in self.context.iter_mut().zip(context) {
            column.see(cell)?;
        }
        for candidate in candidates {
            for (column, cell) in self.candidate.iter_mut().zip(candidate) {
                column.see(cell)?;
            }
        }
        Ok(())
    }

    /// What was found: the columns of candidates, then those of the context.
    pub fn summaries(&self) -> impl Iterator<Item = &ColumnSummary> {
        self.candidate.iter().chain(&self.context)
    }

    /// The transformation to rounds of `arms` candidates, without a projection, and with rows divided by 1.
    ///
    /// # Errors
    /// [`Error::Schema`] for more than [`MAX_WIDE`] features, and for numbers beyond double precision.
    pub fn finish(self, arms: usize) -> Result<Transform, Error> {
        let learn = |columns: Vec<ColumnSummary>| {
            columns.into_iter().map(ColumnSummary::learnt).collect::<Result<Vec<_>, _>>()
        };
        let transform = Transform::new(self.schema, arms, learn(self.candidate)?, learn(self.context)?);
        let wide = transform.wide();
        if wide > MAX_WIDE {
            let reason = format!(
                "the columns make {wide} features, and {MAX_WIDE} are possible: leave some out, or use \"hash:N\" with a smaller N"
            );
            return Err(Error::schema("[candidate]", reason));
        }
        if wide == 0 {
            return Err(Error::schema("[candidate]", "the columns make no feature: name others"));
        }
        Ok(transform)
    }
}

/// Second pass, for principal components: the second moments of the rows. Memory: D² numbers.
///
/// Nothing is subtracted: a policy without an intercept needs the direction that all rows share, which
/// components of the covariance would drop.
#[derive(Debug, Clone)]
pub struct MomentFit {
    rows: u64,
    wide: usize,
    /// Sums of the products of features.
    products: Vec<f64>,
}

impl MomentFit {
    /// Before the first round of `transform`.
    pub fn new(transform: &Transform) -> Self {
        let wide = transform.wide();
        MomentFit { rows: 0, wide, products: vec![0.0; wide * wide] }
    }

    /// Takes the rows of a round in, as [`Transform::wide_rows`] returns them.
    pub fn see(&mut self, rows: &[f64]) {
        for row in rows.chunks_exact(self.wide) {
            self.rows += 1;
            for (i, x) in row.iter().enumerate().filter(|(_, x)| **x != 0.0) {
                let products = &mut self.products[i * self.wide..][..self.wide];
                products.iter_mut().zip(row).for_each(|(p, y)| *p += x * y);
            }
        }
    }

    /// The projection of `transform`: principal components of the rows seen, or random signs.
    pub fn finish(self, transform: Transform) -> Transform {
        let Some(project) = transform.projects() else { return transform };
        let MomentFit { rows, wide, products } = self;
        let projected = match project.by {
            ProjectionRule::Components => {
                let moments = products.iter().map(|sum| sum / rows.max(1) as f64).collect();
                let (values, vectors) = eigen::symmetric(moments, wide);
                let all: f64 = values.iter().sum();
                let kept: f64 = values.iter().take(project.features).sum();
                let matrix = vectors.into_iter().take(project.features).collect();
                Projected { matrix, kept: if all > 0.0 { kept / all } else { 1.0 } }
            }
            ProjectionRule::Random => {
                Projected { matrix: random_signs(project.seed, project.features, wide), kept: 1.0 }
            }
        };
        transform.with_projection(projected)
    }
}

/// A matrix of `rows` rows with entries ±1/√rows, whose signs are the lowest bits of the words of SplitMix64
/// from `seed`, row by row: a set bit is a minus.
///
/// # Source
/// Achlioptas, "Database-friendly random projections", 2003, Theorem 1.1 with signs; Steele, Lea, Flood,
/// "Fast splittable pseudorandom number generators", 2014.
fn random_signs(seed: u64, rows: usize, columns: usize) -> Vec<Vec<f64>> {
    let size = (rows as f64).sqrt().recip();
    let mut state = seed;
    let mut sign = |_| {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        if (z ^ z >> 31) & 1 == 1 { -size } else { size }
    };
    (0..rows).map(|_| (0..columns).map(&mut sign).collect()).collect()
}

/// Last pass: the longest row, and how many are longer than 1.
#[derive(Debug, Clone, Default)]
pub struct NormFit {
    longest: f64,
    rows: u64,
    longer: u64,
}

impl NormFit {
    /// Takes the rows of a round in, as [`Transform::projected_rows`] returns them.
    pub fn see(&mut self, rows: &[f64], features: usize) {
        for row in rows.chunks_exact(features) {
            let norm = length(row);
            self.longest = self.longest.max(norm);
            self.rows += 1;
            self.longer += u64::from(norm > 1.0);
        }
    }

    /// Length of the longest row.
    pub fn longest(&self) -> f64 {
        self.longest
    }

    /// The share of rows that are longer than 1 before any rule is applied.
    pub fn longer(&self) -> f64 {
        self.longer as f64 / self.rows.max(1) as f64
    }

    /// The transformation with its rule for long rows.
    ///
    /// # Errors
    /// [`Error::Schema`] if every row is zero or the longest is beyond double precision.
    pub fn finish(self, transform: Transform) -> Result<Transform, Error> {
        if self.longest <= 0.0 || !self.longest.is_finite() {
            let reason =
                "every row of features is zero or beyond double precision: name other columns or encodings";
            return Err(Error::schema("[candidate]", reason));
        }
        Ok(transform.with_longest(self.longest))
    }
}

/// Euclidean norm.
pub(crate) fn length(row: &[f64]) -> f64 {
    row.iter().map(|x| x * x).sum::<f64>().sqrt()
}
