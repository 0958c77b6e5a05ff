//! Purchase records as a contextual bandit: propose a brand, earn 1 if the household then bought it.
//!
//! Layout of a file: comma-separated with a header; `id` (household), `choice` (brand bought), and one column
//! `kind.brand` for each kind (`disp`, `feat`, `price`, ...) and brand. Other columns are ignored. Two such
//! files come with the project; `data/README.md` says where they are from.

use crate::{Environment, Error, Features, Outcome};
use rand::Rng;
use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

/// Yogurt purchases: 2412 rounds, 4 brands, `d = 7`.
pub const YOGURT: &str = include_str!("../../../../data/Yogurt.csv");
/// Cracker purchases: 3292 rounds, 4 brands, `d = 8`.
pub const CRACKER: &str = include_str!("../../../../data/Cracker.csv");

/// Purchases in the order of their file, with the features of every brand.
///
/// Features of brand b, all kinds in file order: its columns, prices (kind `price`) divided by the largest
/// price in the file; a one-hot of the brand; 1 if the household's previous purchase in the file was b. Then
/// all rows are divided by the largest norm of any, so that `L = 1`. Hence `d = kinds + brands + 1` and `K =
/// brands`.
#[derive(Debug, Clone, PartialEq)]
pub struct Purchases {
    kinds: Vec<String>,
    brands: Vec<String>,
    rounds: Vec<(Features, usize)>,
}

impl Purchases {
    /// Reads a file of the layout above.
    ///
    /// # Errors
    /// What is wrong with the file, with the line: [`Error::MissingColumn`] (also where brands differ in
    /// their kinds), [`Error::DuplicateColumn`], [`Error::TooFewBrands`], [`Error::UnknownBrand`],
    /// [`Error::NotANumber`], [`Error::EmptyCell`], [`Error::NoPositivePrice`], [`Error::NoRows`],
    /// [`Error::Csv`].
    pub fn read(reader: impl Read) -> Result<Self, Error> {
        let mut csv = csv::Reader::from_reader(reader);
        let header = csv.headers().map_err(csv_error)?.clone();
        let layout = Layout::parse(&header)?;
        let mut cells = Vec::new();
        let mut rows = Vec::new();
        for record in csv.records() {
            let record = record.map_err(csv_error)?;
            let line = record.position().map_or(0, csv::Position::line);
            let not_empty = |column: usize| match &record[column] {
                "" => Err(Error::EmptyCell { line, column: header[column].to_owned() }),
                cell => Ok(cell),
            };
            let household = not_empty(layout.id)?.to_owned();
            let choice = not_empty(layout.choice)?;
            let brand = layout.brands.iter().position(|b| b == choice);
            let brand = brand.ok_or_else(|| Error::UnknownBrand { line, brand: choice.to_owned() })?;
            for &column in &layout.cells {
                let cell = &record[column];
                let value = cell.trim().parse().ok().filter(|v: &f64| v.is_finite());
                cells.push(value.ok_or_else(|| Error::NotANumber {
                    line,
                    column: header[column].to_owned(),
                    value: cell.to_owned(),
                })?);
            }
            rows.push((household, brand));
        }
        if rows.is_empty() {
            return Err(Error::NoRows);
        }
        layout.features(cells, rows)
    }

    /// The yogurt purchases that come with the project.
    ///
    /// # Errors
    /// None in practice: a test reads them.
    pub fn yogurt() -> Result<Self, Error> {
        Self::read(YOGURT.as_bytes())
    }

    /// The cracker purchases that come with the project.
    ///
    /// # Errors
    /// None in practice: a test reads them.
    pub fn cracker() -> Result<Self, Error> {
        Self::read(CRACKER.as_bytes())
    }

    /// Kinds of column, in file order.
    pub fn kinds(&self) -> &[String] {
        &self.kinds
    }

    /// Brands, in file order: the arms.
    pub fn brands(&self) -> &[String] {
        &self.brands
    }

    /// Dimension of the features.
    pub fn d(&self) -> usize {
        self.kinds.len() + self.brands.len() + 1
    }

    /// In file order, the features of all brands and the brand bought.
    pub fn rounds(&self) -> &[(Features, usize)] {
        &self.rounds
    }

    /// The brand bought most often (the first of equals), and its share of the purchases.
    pub fn best_fixed(&self) -> (usize, f64) {
        let mut counts = vec![0.0; self.brands.len()];
        self.rounds.iter().for_each(|&(_, brand)| counts[brand] += 1.0);
        let best = crate::vector::argmax(counts.iter().copied());
        (best, counts[best] / self.rounds.len() as f64)
    }
}

/// [`Purchases`] played in file order, once. Draws nothing.
///
/// What households would have done is unknown in expectation, so `regret` is 1 less the reward: the loss
/// against whoever knows the choice beforehand.
#[derive(Debug, Clone)]
pub struct PurchaseLog {
    purchases: Arc<Purchases>,
    begun: usize,
    feedback: Option<f64>,
}

impl PurchaseLog {
    /// From the first purchase on.
    pub fn new(purchases: Arc<Purchases>) -> Self {
        Self { purchases, begun: 0, feedback: None }
    }

    fn current(&self) -> Result<&(Features, usize), Error> {
        self.begun.checked_sub(1).and_then(|i| self.purchases.rounds.get(i)).ok_or(Error::NoRound)
    }
}

impl Environment for PurchaseLog {
    type Context = Features;
    type Feedback = f64;

    fn arms(&self) -> usize {
        self.purchases.brands.len()
    }

    fn begin(&mut self, _: &mut dyn Rng) -> bool {
        let more = self.begun < self.purchases.rounds.len();
        self.begun += usize::from(more);
        self.feedback = None;
        more
    }

    fn context(&self) -> Result<&Features, Error> {
        Ok(&self.current()?.0)
    }

    fn play(&mut self, arm: usize, _: &mut dyn Rng) -> Result<Outcome, Error> {
        let bought = self.current()?.1;
        if arm >= self.arms() {
            return Err(Error::Arm { arm, k: self.arms() });
        }
        let reward = f64::from(arm == bought);
        self.feedback = Some(reward);
        Ok(Outcome { reward, regret: 1.0 - reward })
    }

    fn feedback(&self) -> Result<&f64, Error> {
        self.feedback.as_ref().ok_or(Error::NoRound)
    }
}

/// Which column is what.
struct Layout {
    id: usize,
    choice: usize,
    kinds: Vec<String>,
    brands: Vec<String>,
    /// Columns of the first brand, kind by kind, then those of the second, and so on.
    cells: Vec<usize>,
}

impl Layout {
    fn parse(header: &csv::StringRecord) -> Result<Self, Error> {
        let mut at = HashMap::new();
        let (mut kinds, mut brands) = (Vec::new(), Vec::new());
        for (column, name) in header.iter().enumerate() {
            let parts = name.split_once('.').filter(|(kind, brand)| !kind.is_empty() && !brand.is_empty());
            if let Some((kind, brand)) = parts {
                push_new(&mut kinds, kind);
                push_new(&mut brands, brand);
            } else if name != "id" && name != "choice" {
                continue;
            }
            if at.insert(name, column).is_some() {
                return Err(Error::DuplicateColumn { column: name.to_owned() });
            }
        }
        let column = |name: &str| {
            at.get(name).copied().ok_or_else(|| Error::MissingColumn { column: name.to_owned() })
        };
        let (id, choice) = (column("id")?, column("choice")?);
        if brands.len() < 2 {
            return Err(Error::TooFewBrands { brands: brands.len() });
        }
        let names = brands.iter().flat_map(|b| kinds.iter().map(move |k| format!("{k}.{b}")));
        let cells = names.map(|name| column(&name)).collect::<Result<_, _>>()?;
        Ok(Self { id, choice, kinds, brands, cells })
    }

    /// `cells`: the values of [`Layout::cells`] for one row after the other; `rows`: household and brand
    /// bought.
    fn features(self, mut cells: Vec<f64>, rows: Vec<(String, usize)>) -> Result<Purchases, Error> {
        let (kinds, brands) = (self.kinds.len(), self.brands.len());
        if let Some(price) = self.kinds.iter().position(|k| k == "price") {
            let max = cells.iter().skip(price).step_by(kinds).copied().fold(0.0, f64::max);
            if max <= 0.0 {
                return Err(Error::NoPositivePrice);
            }
            cells.iter_mut().skip(price).step_by(kinds).for_each(|p| *p /= max);
        }
        let d = kinds + brands + 1;
        let mut last: HashMap<String, usize> = HashMap::new();
        let mut rounds = Vec::with_capacity(rows.len());
        for (row, (household, choice)) in cells.chunks_exact(kinds * brands).zip(rows) {
            let before = last.insert(household, choice);
            let mut values = Vec::with_capacity(brands * d);
            for (brand, own) in row.chunks_exact(kinds).enumerate() {
                values.extend_from_slice(own);
                values.extend((0..brands).map(|b| f64::from(b == brand)));
                values.push(f64::from(before == Some(brand)));
            }
            rounds.push((Features::new(values, d)?, choice));
        }
        // At least 1: every row holds a one-hot.
        let max_norm = rounds.iter().map(|(f, _)| f.max_norm()).fold(1.0, f64::max);
        rounds.iter_mut().for_each(|(f, _)| f.scale(max_norm.recip()));
        Ok(Purchases { kinds: self.kinds, brands: self.brands, rounds })
    }
}

fn push_new(names: &mut Vec<String>, name: &str) {
    if !names.iter().any(|n| n == name) {
        names.push(name.to_owned());
    }
}

fn csv_error(e: csv::Error) -> Error {
    Error::Csv { line: e.position().map_or(0, csv::Position::line), reason: e.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "id,feat.a,feat.b,price.a,price.b,note,choice\n1,0,1,2,4,x,b\n1,1,0,3,1,x,a\n2,0,0,1,1,x,a\n";

    fn read(text: &str) -> Result<Purchases, Error> {
        Purchases::read(text.as_bytes())
    }

    #[test]
    fn features_are_what_the_page_says() {
        let p = read(GOOD).unwrap();
        assert_eq!(
            (p.kinds(), p.brands(), p.d()),
            (&["feat", "price"].map(String::from)[..], &["a", "b"].map(String::from)[..], 5)
        );
        // The longest row is b's in the first purchase: feat, price and one-hot are all 1.
        let norm = 3f64.sqrt();
        let want = [
            ([0.0, 0.5, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0], 1),
            ([1.0, 0.75, 1.0, 0.0, 0.0, 0.0, 0.25, 0.0, 1.0, 1.0], 0),
            ([0.0, 0.25, 1.0, 0.0, 0.0, 0.0, 0.25, 0.0, 1.0, 0.0], 0),
        ];
        for ((features, choice), (values, brand)) in p.rounds().iter().zip(want) {
            assert_eq!(*choice, brand);
            for (got, want) in features.rows().flatten().zip(values) {
                assert!((got * norm - want).abs() < 1e-15);
            }
        }
        assert_eq!(p.best_fixed(), (0, 2.0 / 3.0));
    }

    #[test]
    fn bad_files_are_refused() {
        let line = |n: u64, column: &str, value: &str| Error::NotANumber {
            line: n,
            column: column.into(),
            value: value.into(),
        };
        let missing = |column: &str| Error::MissingColumn { column: column.into() };
        for (text, want) in [
            (GOOD.replace("id,", "household,"), missing("id")),
            (GOOD.replace(",choice\n", ",bought\n"), missing("choice")),
            (GOOD.replace("feat.b", "disp.b"), missing("disp.a")),
            (GOOD.replace("price.b", "price.c"), missing("price.b")),
            (GOOD.replace("feat.b", "feat.a"), Error::DuplicateColumn { column: "feat.a".into() }),
            (GOOD.replace(",x,b\n", ",x,c\n"), Error::UnknownBrand { line: 2, brand: "c".into() }),
            (GOOD.replace("1,1,0,3,1", "1,1,0,three,1"), line(3, "price.a", "three")),
            (GOOD.replace("1,1,0,3,1", "1,1,0,inf,1"), line(3, "price.a", "inf")),
            (GOOD.replace("1,1,0,3,1", "1,1,,3,1"), line(3, "feat.b", "")),
            (GOOD.replace("2,0,0,1,1,x", ",0,0,1,1,x"), Error::EmptyCell { line: 4, column: "id".into() }),
            (GOOD.lines().next().unwrap().to_owned(), Error::NoRows),
            ("id,price.a,choice\n1,2,a\n".into(), Error::TooFewBrands { brands: 1 }),
            ("id,choice\n1,a\n".into(), Error::TooFewBrands { brands: 0 }),
            ("id,price.a,price.b,choice\n1,0,-1,a\n".into(), Error::NoPositivePrice),
            (String::new(), missing("id")),
        ] {
            assert_eq!(read(&text), Err(want), "{text}");
        }
        assert!(matches!(read(&GOOD.replace("1,1,0,3,1,x,a", "1,1,0,3")), Err(Error::Csv { line: 3, .. })));
        assert!(matches!(
            Purchases::read(&b"id,price.a,price.b,choice\n1,2,\xff,a\n"[..]),
            Err(Error::Csv { line: 2, .. })
        ));
    }

    #[test]
    fn columns_may_stand_in_any_order_and_prices_may_be_missing() {
        let shuffled = read("choice,price.b,feat.a,feat.b,price.a,id\nb,4,0,1,2,1\n").unwrap();
        assert_eq!(shuffled.kinds(), ["price", "feat"]);
        assert_eq!(shuffled.brands(), ["b", "a"]);
        assert_eq!(shuffled.rounds()[0].1, 0);
        assert_eq!(read("id,disp.a,disp.b,choice\n1,0,1,a\n").unwrap().d(), 4);
    }
}
