//! Purchase records as a contextual bandit: an arm is a brand, and its reward is 1 if the household bought
//! it.
//!
//! A file has comma-separated values with a header: columns `id` (household) and `choice` (brand bought), and
//! one column `kind.brand` for each kind (`disp`, `feat`, `price`, ...) and brand. Other columns are ignored.
//! Two such files are part of the project; `data/README.md` names their sources.

use crate::error::{csv_error, refused};
use crate::{Environment, Error, Features, Outcome};
use rand::Rng;
use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::sync::Arc;

/// Yogurt purchases: 2412 rounds, 4 brands, `d = 7`.
pub const YOGURT: &str = include_str!("../../../../data/Yogurt.csv");
/// Cracker purchases: 3292 rounds, 4 brands, `d = 8`.
pub const CRACKER: &str = include_str!("../../../../data/Cracker.csv");

/// Purchases in the order of their file, with the features of every brand.
///
/// The features of brand b are its columns in file order, with prices (kind `price`) divided by the largest
/// price in the file; a one-hot encoding of the brand; and 1 if the household's previous purchase in the file
/// was b. All rows are divided by the largest norm of a row, so that `L = 1`. Hence `d = kinds + brands + 1`
/// and `K = brands`.
#[derive(Debug, Clone, PartialEq)]
pub struct Purchases {
    kinds: Vec<String>,
    brands: Vec<String>,
    rounds: Vec<(Features, usize)>,
}

/// The most brands.
const MAX_BRANDS: usize = 4096;

impl Purchases {
    /// Reads a file of the layout above, which is trusted: its features take the memory that they need.
    ///
    /// # Errors
    /// [`Error::File`] with the line if a column is missing (also if brands differ in their kinds) or occurs
    /// twice, there are fewer than two brands or no purchases, a cell is empty or no finite number, a choice
    /// is no brand, or no price is positive.
    pub fn read(reader: impl Read) -> Result<Self, Error> {
        let mut csv = csv::Reader::from_reader(reader);
        let header: Vec<String> = csv.headers().map_err(csv_error)?.iter().map(str::to_string).collect();
        let mut records = csv.records();
        let next = || -> Result<Option<(u64, Vec<String>)>, Error> {
            let Some(record) = records.next().transpose().map_err(csv_error)? else { return Ok(None) };
            let line = record.position().map_or(0, csv::Position::line);
            Ok(Some((line, record.iter().map(str::to_string).collect())))
        };
        Self::from_rows(&header, next, u64::MAX)
    }

    /// The purchases of the rows of such a file: `next` returns the line and the cells of the next row, as
    /// many as `header` has names.
    ///
    /// # Errors
    /// Those of `next` and of [`read`](Self::read); [`Error::File`] if features and rewards take more than
    /// `most` bytes, before they are computed.
    pub fn from_rows(
        header: &[String],
        mut next: impl FnMut() -> Result<Option<(u64, Vec<String>)>, Error>,
        most: u64,
    ) -> Result<Self, Error> {
        let layout = Layout::parse(header)?;
        let brands = layout.brands.len();
        // The features of a round, and a reward of each brand.
        let each = (brands * (layout.kinds.len() + brands + 2) * size_of::<f64>()) as u64;
        let mut cells = Vec::new();
        let mut rows = Vec::new();
        while let Some((line, record)) = next()? {
            if (rows.len() as u64 + 1).saturating_mul(each) > most {
                let reason = format!("the purchases up to here take more than {most} bytes: split the file");
                return Err(refused(line, reason));
            }
            let not_empty = |column: usize| match record[column].as_str() {
                "" => Err(refused(line, format!("column {} is empty", &header[column]))),
                cell => Ok(cell),
            };
            let household = not_empty(layout.id)?.to_owned();
            let choice = not_empty(layout.choice)?;
            let brand = layout.brands.iter().position(|b| b == choice);
            let unknown = || refused(line, format!("choice {choice:?} is none of the brands in the header"));
            let brand = brand.ok_or_else(unknown)?;
            for &column in &layout.cells {
                let cell = record[column].as_str();
                let value = cell.trim().parse().ok().filter(|v: &f64| v.is_finite());
                let not_finite =
                    || refused(line, format!("column {} is {cell:?}, not a finite number", &header[column]));
                cells.push(value.ok_or_else(not_finite)?);
            }
            rows.push((household, brand));
        }
        if rows.is_empty() {
            return Err(refused(1, "no purchases follow the header".into()));
        }
        layout.features(cells, rows)
    }

    /// The yogurt purchases of the project.
    ///
    /// # Errors
    /// Those of [`read`](Self::read), which do not occur for this file.
    pub fn yogurt() -> Result<Self, Error> {
        Self::read(YOGURT.as_bytes())
    }

    /// The cracker purchases of the project.
    ///
    /// # Errors
    /// Those of [`read`](Self::read), which do not occur for this file.
    pub fn cracker() -> Result<Self, Error> {
        Self::read(CRACKER.as_bytes())
    }

    /// Kinds of columns, in file order.
    pub fn kinds(&self) -> &[String] {
        &self.kinds
    }

    /// Brands, in file order. They are the arms.
    pub fn brands(&self) -> &[String] {
        &self.brands
    }

    /// Dimension of the features.
    pub fn d(&self) -> usize {
        self.kinds.len() + self.brands.len() + 1
    }

    /// The features of all brands and the brand bought, for each purchase in file order.
    pub fn rounds(&self) -> &[(Features, usize)] {
        &self.rounds
    }

    /// The same, without a copy.
    pub fn into_rounds(self) -> impl Iterator<Item = (Features, usize)> {
        self.rounds.into_iter()
    }

    /// The brand bought most often (the first of equals), and its share of the purchases.
    pub fn best_fixed(&self) -> (usize, f64) {
        let mut counts = vec![0.0; self.brands.len()];
        self.rounds.iter().for_each(|&(_, brand)| counts[brand] += 1.0);
        let best = crate::vector::argmax(counts.iter().copied());
        (best, counts[best] / self.rounds.len() as f64)
    }
}

/// [`Purchases`] played once in file order, without random draws.
///
/// Expected rewards are unknown, so `regret` is 1 minus the reward: the loss against a player who knows the
/// choice.
#[derive(Debug, Clone)]
pub struct PurchaseLog {
    purchases: Arc<Purchases>,
    begun: usize,
    feedback: Option<f64>,
}

impl PurchaseLog {
    /// The log before its first purchase.
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

/// The positions of the columns.
struct Layout {
    id: usize,
    choice: usize,
    kinds: Vec<String>,
    brands: Vec<String>,
    /// Columns of the first brand, kind by kind, then those of the second, and so on.
    cells: Vec<usize>,
}

impl Layout {
    fn parse(header: &[String]) -> Result<Self, Error> {
        let mut at = HashMap::new();
        let (mut known_kinds, mut known_brands) = (HashSet::new(), HashSet::new());
        let (mut kinds, mut brands) = (Vec::new(), Vec::new());
        for (column, name) in header.iter().enumerate() {
            let parts = name.split_once('.').filter(|(kind, brand)| !kind.is_empty() && !brand.is_empty());
            if let Some((kind, brand)) = parts {
                if known_kinds.insert(kind) {
                    kinds.push(kind.to_owned());
                }
                if known_brands.insert(brand) {
                    brands.push(brand.to_owned());
                }
            } else if name != "id" && name != "choice" {
                continue;
            }
            if at.insert(name.as_str(), column).is_some() {
                return Err(refused(1, format!("column {name} occurs twice")));
            }
        }
        let missing = |name: &str| refused(1, format!("column {name} is missing"));
        let column = |name: &str| at.get(name).copied().ok_or_else(|| missing(name));
        let (id, choice) = (column("id")?, column("choice")?);
        if brands.len() < 2 {
            let brands = brands.len();
            return Err(refused(1, format!("{brands} brands (columns kind.brand), at least 2 are needed")));
        }
        if brands.len() > MAX_BRANDS {
            let reason = format!("{} brands, and {MAX_BRANDS} are allowed", brands.len());
            return Err(refused(1, reason));
        }
        let names = brands.iter().flat_map(|b| kinds.iter().map(move |k| format!("{k}.{b}")));
        let cells = names.map(|name| column(&name)).collect::<Result<_, _>>()?;
        Ok(Self { id, choice, kinds, brands, cells })
    }

    /// The purchases, from the values of [`Layout::cells`] row by row, and household and brand bought of each
    /// row.
    fn features(self, mut cells: Vec<f64>, rows: Vec<(String, usize)>) -> Result<Purchases, Error> {
        let (kinds, brands) = (self.kinds.len(), self.brands.len());
        if let Some(price) = self.kinds.iter().position(|k| k == "price") {
            let max = cells.iter().skip(price).step_by(kinds).copied().fold(0.0, f64::max);
            if max <= 0.0 {
                return Err(refused(0, "no price in the file is positive".into()));
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
        for (text, want) in [
            (GOOD.replace("id,", "household,"), "line 1: column id is missing"),
            (GOOD.replace(",choice\n", ",bought\n"), "line 1: column choice is missing"),
            (GOOD.replace("feat.b", "disp.b"), "line 1: column disp.a is missing"),
            (GOOD.replace("price.b", "price.c"), "line 1: column price.b is missing"),
            (GOOD.replace("feat.b", "feat.a"), "line 1: column feat.a occurs twice"),
            (GOOD.replace(",x,b\n", ",x,c\n"), "line 2: choice \"c\" is none of the brands in the header"),
            (
                GOOD.replace("1,1,0,3,1", "1,1,0,three,1"),
                "line 3: column price.a is \"three\", not a finite number",
            ),
            (
                GOOD.replace("1,1,0,3,1", "1,1,0,inf,1"),
                "line 3: column price.a is \"inf\", not a finite number",
            ),
            (GOOD.replace("1,1,0,3,1", "1,1,,3,1"), "line 3: column feat.b is \"\", not a finite number"),
            (GOOD.replace("2,0,0,1,1,x", ",0,0,1,1,x"), "line 4: column id is empty"),
            (GOOD.lines().next().unwrap().to_owned(), "line 1: no purchases follow the header"),
            (
                "id,price.a,choice\n1,2,a\n".into(),
                "line 1: 1 brands (columns kind.brand), at least 2 are needed",
            ),
            ("id,choice\n1,a\n".into(), "line 1: 0 brands (columns kind.brand), at least 2 are needed"),
            ("id,price.a,price.b,choice\n1,0,-1,a\n".into(), "line 0: no price in the file is positive"),
            (String::new(), "line 1: column id is missing"),
        ] {
            assert_eq!(read(&text).unwrap_err().to_string(), want, "{text}");
        }
        assert!(matches!(read(&GOOD.replace("1,1,0,3,1,x,a", "1,1,0,3")), Err(Error::File { line: 3, .. })));
        assert!(matches!(
            Purchases::read(&b"id,price.a,price.b,choice\n1,2,\xff,a\n"[..]),
            Err(Error::File { line: 2, .. })
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
