//! The first rows of a table, in memory: what readings of it are weighed on.

use crate::Error;
use crate::table::{Row, Table};
use schema::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

/// The most cells, and the most bytes of their texts, that are kept.
const MAX_CELLS: usize = 1 << 24;
const MAX_BYTES: usize = 1 << 27;
/// The share of rounds that may be odd.
const ODD: f64 = 0.1;

/// Rows of a table, column by column.
pub(super) struct Sample {
    /// The line of each row.
    pub(super) lines: Vec<u64>,
    columns: HashMap<String, usize>,
    /// The number of the text of each cell.
    codes: Vec<Vec<u32>>,
    texts: Vec<Vec<String>>,
}

/// The values that rounds share, and the lines of odd rounds with what is odd.
pub(super) type Common = (BTreeSet<String>, Vec<(u64, String)>);

/// Rows that stand together and share the columns of a key.
pub(super) struct Groups {
    /// The first row of each, and the number of rows at the end.
    starts: Vec<usize>,
    /// The size that most have.
    pub(super) size: usize,
    /// The share that have it.
    pub(super) constant: f64,
    /// All sizes.
    pub(super) sizes: BTreeSet<usize>,
}

impl Sample {
    /// Reads rows, and shows each to `see`; those beyond the most that are kept too.
    pub(super) fn read(path: &Path, mut see: impl FnMut(&Row)) -> Result<(Self, u64), Error> {
        let mut table = Table::open(path)?;
        let header = table.header().to_vec();
        let width = header.len();
        let columns = header.iter().cloned().enumerate().map(|(i, name)| (name, i)).collect();
        let mut sample = Sample {
            lines: Vec::new(),
            columns,
            codes: vec![Vec::new(); width],
            texts: vec![Vec::new(); width],
        };
        let mut known: Vec<HashMap<String, u32>> = vec![HashMap::new(); width];
        let (mut row, mut rows, mut bytes) = (Row::default(), 0, 0);
        while table.read(&mut row)? {
            rows += 1;
            see(&row);
            if sample.lines.len() * width >= MAX_CELLS || bytes >= MAX_BYTES {
                continue;
            }
            sample.lines.push(row.line);
            for (i, cell) in row.cells.iter().take(width).enumerate() {
                let cell = cell.trim();
                let code = match known[i].get(cell) {
                    Some(code) => *code,
                    None => {
                        let code = known[i].len() as u32;
                        bytes += 2 * cell.len() + 64;
                        known[i].insert(cell.into(), code);
                        sample.texts[i].push(cell.into());
                        code
                    }
                };
                sample.codes[i].push(code);
            }
        }
        Ok((sample, rows))
    }

    pub(super) fn rows(&self) -> usize {
        self.lines.len()
    }

    fn codes(&self, column: &str) -> &[u32] {
        self.columns.get(column).map_or(&[], |at| &self.codes[*at])
    }

    /// The texts of a column, row by row.
    pub(super) fn texts(&self, column: &str) -> impl Iterator<Item = &str> {
        let at = self.columns.get(column).copied();
        let texts = at.map_or(&[][..], |at| &self.texts[at]);
        self.codes(column).iter().map(move |code| texts[*code as usize].as_str())
    }

    /// The numbers of a column, row by row, in the form of a schema.
    pub(super) fn numbers(&self, column: &str, comma: bool) -> Vec<Option<f64>> {
        let at = self.columns.get(column).copied();
        let number = |text: &String| {
            let cell = Cell::parse(text);
            (if comma { cell.number_with_comma() } else { cell.number() }).or_else(|| cell.truth())
        };
        let texts: Vec<Option<f64>> = at.map_or(Vec::new(), |at| self.texts[at].iter().map(number).collect());
        self.codes(column).iter().map(|code| texts[*code as usize]).collect()
    }

    /// Whether each value of `of` stands beside one value of `column` only, and both have several. A few rows
    /// tell nothing.
    pub(super) fn follows(&self, column: &str, of: &str) -> bool {
        let mut seen: HashMap<u32, u32> = HashMap::new();
        let mut values = HashSet::new();
        for (a, b) in self.codes(of).iter().zip(self.codes(column)) {
            if *seen.entry(*a).or_insert(*b) != *b {
                return false;
            }
            values.insert(*b);
        }
        values.len() > 1 && seen.len() > 1 && self.rows() >= 3 * seen.len()
    }

    /// The runs of rows with equal values in `key`; `None` if a key comes again after others, or no row
    /// shares one.
    pub(super) fn groups(&self, key: &[String]) -> Option<Groups> {
        let codes: Vec<&[u32]> = key.iter().map(|name| self.codes(name)).collect();
        if codes.iter().any(|codes| codes.is_empty()) {
            return None;
        }
        let (mut starts, mut seen) = (Vec::new(), HashSet::new());
        for row in 0..self.rows() {
            if row == 0 || codes.iter().any(|codes| codes[row] != codes[row - 1]) {
                let values: Vec<u32> = codes.iter().map(|codes| codes[row]).collect();
                if !seen.insert(values) {
                    return None;
                }
                starts.push(row);
            }
        }
        starts.push(self.rows());
        let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
        for pair in starts.windows(2) {
            *sizes.entry(pair[1] - pair[0]).or_insert(0) += 1;
        }
        let (&size, &most) = sizes.iter().max_by_key(|(_, n)| **n)?;
        let rounds = starts.len() - 1;
        let sizes: BTreeSet<usize> = sizes.into_keys().collect();
        let several = sizes.last().is_some_and(|largest| *largest > 1);
        several.then(|| Groups { starts, size, constant: most as f64 / rounds as f64, sizes })
    }

    /// The columns that have fewer runs of equal values than rows: those that rows of a round may share.
    pub(super) fn running(&self, names: &[&str]) -> Vec<String> {
        let runs = |codes: &[u32]| 1 + codes.windows(2).filter(|pair| pair[0] != pair[1]).count();
        let together = |name: &&&str| {
            let runs = runs(self.codes(name));
            runs > 1 && 3 * runs <= 2 * self.rows()
        };
        names.iter().filter(together).map(|name| name.to_string()).collect()
    }
}

impl Groups {
    pub(super) fn rounds(&self) -> usize {
        self.starts.len() - 1
    }

    pub(super) fn each(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        self.starts.windows(2).map(|pair| pair[0]..pair[1])
    }

    /// Whether nearly all rounds pass `test`.
    pub(super) fn most(&self, test: impl Fn(std::ops::Range<usize>) -> bool) -> bool {
        self.share(test) >= 1.0 - ODD
    }

    pub(super) fn share(&self, test: impl Fn(std::ops::Range<usize>) -> bool) -> f64 {
        self.each().filter(|round| test(round.clone())).count() as f64 / self.rounds() as f64
    }

    /// Whether nearly all rounds have one size.
    pub(super) fn are_constant(&self) -> bool {
        self.constant >= 1.0 - ODD
    }

    /// Whether a column has another value in each row of nearly all rounds.
    pub(super) fn tell_apart(&self, sample: &Sample, column: &str) -> bool {
        let codes = sample.codes(column);
        self.most(|round| codes[round.clone()].iter().collect::<HashSet<_>>().len() == round.len())
    }

    /// Whether a column has several values in some round.
    pub(super) fn vary(&self, sample: &Sample, column: &str) -> bool {
        let codes = sample.codes(column);
        self.each().any(|round| codes[round.clone()].windows(2).any(|pair| pair[0] != pair[1]))
    }

    /// The values of a column that nearly all rounds have, each once; and what is odd in the others, with the
    /// lines at which they begin.
    pub(super) fn common(&self, sample: &Sample, column: &str) -> Option<Common> {
        let texts: Vec<&str> = sample.texts(column).collect();
        let mut sets: HashMap<BTreeSet<&str>, usize> = HashMap::new();
        for round in self.each() {
            let set: BTreeSet<&str> = texts[round.clone()].iter().copied().collect();
            if set.len() == round.len() {
                *sets.entry(set).or_insert(0) += 1;
            }
        }
        let (common, times) = sets.into_iter().max_by(|a, b| (a.1, &b.0).cmp(&(b.1, &a.0)))?;
        if common.len() < 2 || (times as f64) < (1.0 - ODD) * self.rounds() as f64 {
            return None;
        }
        let odd = |round: std::ops::Range<usize>| {
            let own = &texts[round.clone()];
            let twice = own.iter().find(|text| own.iter().filter(|other| other == text).count() > 1);
            let absent = common.iter().find(|text| !own.contains(text));
            let stranger = own.iter().find(|text| !common.contains(**text));
            let what = match (twice, stranger, absent) {
                (Some(text), ..) => format!("has {text:?} twice"),
                (_, Some(text), _) => format!("has {text:?}, which others do not"),
                (.., Some(text)) => format!("lacks {text:?}"),
                (None, None, None) => return None,
            };
            Some((sample.lines[round.start], what))
        };
        let odd = self.each().filter_map(odd).collect();
        Some((common.into_iter().map(str::to_string).collect(), odd))
    }
}
