//! Rows of text whose cells stand between delimiters.

use crate::input::TextLines;
use crate::table::Row;
use crate::{Error, MAX_LINE};
use csv::StringRecord;
use std::collections::{HashSet, VecDeque};
use std::path::Path;

/// The most lines that a quoted cell spans.
const MAX_SPAN: usize = 1000;
/// The delimiters, the first of equals first.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// The rows of a text, from first to last. Empty lines are none.
///
/// A cell that begins with a quote ends with the next quote that a delimiter or the end of a line follows; in
/// between, two quotes stand for one, and delimiters and ends of lines for themselves. Any other quote is a
/// text. So is one that would make a cell of the first line and others most of which are whole rows by
/// themselves: no cell holds rows, and inches and titles that were cut do end or begin with a single quote.
pub(crate) struct Delimited {
    lines: TextLines,
    delimiter: u8,
    /// The number of names in the header; 0 before it is read.
    columns: usize,
    /// Lines that were read while the end of a quoted cell was looked for, with their numbers.
    ahead: VecDeque<(u64, Vec<u8>)>,
    /// The last line before which a quoted cell was looked for in vain: no cell that begins before it ends
    /// there.
    endless: u64,
    /// Cells of the header, if a row may repeat it.
    header: StringRecord,
    /// Rows in which a quote at the beginning of a cell is a text: their number, and the line of the first.
    pub(crate) stray: (u64, u64),
}

/// What was read.
pub(crate) enum Found {
    Row,
    /// Lines that are no row, for this reason.
    Bad {
        line: u64,
        reason: String,
    },
    End,
}

impl Delimited {
    /// The rows of `lines`, with the delimiter that fits its first lines best.
    pub(crate) fn new(mut lines: TextLines) -> Result<Self, Error> {
        let named = lines.sample().first().and_then(|line| named_delimiter(line));
        let delimiter = named.unwrap_or_else(|| delimiter(&lines.sample()));
        if named.is_some() {
            lines.read(&mut Vec::new())?;
        }
        let (ahead, header) = (VecDeque::new(), StringRecord::new());
        Ok(Delimited { lines, delimiter, columns: 0, ahead, endless: 0, header, stray: (0, 0) })
    }

    /// The first rows, as far as they are whole within the sample, without the line that names a delimiter.
    pub(crate) fn sample(&self) -> Vec<StringRecord> {
        let lines = self.lines.sample();
        let named = lines.first().and_then(|line| named_delimiter(line)).is_some();
        let lines = lines.into_iter().skip(usize::from(named)).filter(|line| !line.trim_ascii().is_empty());
        let row = |line: &[u8]| {
            let mut cells = StringRecord::new();
            split(std::str::from_utf8(line).ok()?, self.delimiter, true, &mut cells);
            Some(cells)
        };
        lines.filter_map(row).collect()
    }

    /// Reads the header.
    pub(crate) fn header(&mut self) -> Result<StringRecord, Error> {
        let mut row = Row::default();
        if let Found::Bad { line, reason } = self.read(&mut row)? {
            return Err(Error::file(self.lines.path(), line, reason));
        }
        self.columns = row.cells.len();
        self.header = row.cells.clone();
        Ok(row.cells)
    }

    /// Names that the file does not have, so that its first line is a row.
    pub(crate) fn name(&mut self, names: &[String]) {
        self.columns = names.len();
        self.header = names.iter().map(String::as_str).collect();
    }

    /// Reads the next row.
    pub(crate) fn read(&mut self, row: &mut Row) -> Result<Found, Error> {
        loop {
            let Some((line, bytes)) = self.next_line()? else { return Ok(Found::End) };
            row.line = line;
            let text = utf8(self.lines.path(), line, &bytes)?;
            if text.trim().is_empty() {
                continue;
            }
            let whole = split(text, self.delimiter, false, &mut row.cells) || self.spanned(text, row)?;
            if !whole {
                split(text, self.delimiter, true, &mut row.cells);
            }
            let (got, want) = (row.cells.len(), self.columns);
            if want == 0 {
                return Ok(Found::Row);
            }
            // Programs that write sheets fill rows up with empty cells.
            if got > want && row.cells.iter().skip(want).all(|cell| cell.trim().is_empty()) {
                row.cells.truncate(want);
            }
            let fits = row.cells.len() == want;
            if row.cells.iter().all(|cell| cell.trim().is_empty()) {
                continue;
            }
            if fits && row.cells == self.header {
                return Ok(Found::Bad { line, reason: "it is the header once more".into() });
            }
            if fits && !whole {
                self.stray = (self.stray.0 + 1, if self.stray.0 == 0 { line } else { self.stray.1 });
            }
            return Ok(match (fits, whole) {
                (true, _) => Found::Row,
                (false, true) => Found::Bad {
                    line,
                    reason: format!(
                        "the row has {got} cells and the header has {want} names: look for a missing or an unquoted delimiter"
                    ),
                },
                (false, false) => Found::Bad {
                    line,
                    reason: "a quote at the beginning of a cell is not closed: close it, or leave it out"
                        .into(),
                },
            });
        }
    }

    fn next_line(&mut self) -> Result<Option<(u64, Vec<u8>)>, Error> {
        if let Some(next) = self.ahead.pop_front() {
            return Ok(Some(next));
        }
        let mut bytes = Vec::new();
        Ok(self.lines.read(&mut bytes)?.map(|line| (line, bytes)))
    }

    /// Whether the row that begins with the line `first` ends in a later line, behind the quote that closes
    /// its last open cell. Its cells are then in `row`, and its lines are read.
    fn spanned(&mut self, first: &str, row: &mut Row) -> Result<bool, Error> {
        if row.line < self.endless {
            return Ok(false);
        }
        let mut text = first.to_string();
        let (delimiter, columns) = (self.delimiter, self.columns);
        let mut alone = StringRecord::new();
        let mut is_row = |line: &str| {
            split(line, delimiter, true, &mut alone);
            columns > 1 && alone.len() == columns
        };
        let (first_is_row, mut rows) = (is_row(first), 0);
        for at in 0..MAX_SPAN - 1 {
            if at == self.ahead.len() {
                let mut bytes = Vec::new();
                let Some(line) = self.lines.read(&mut bytes)? else { return Ok(false) };
                self.ahead.push_back((line, bytes));
            }
            let (line, bytes) = &self.ahead[at];
            let next = utf8(self.lines.path(), *line, bytes)?;
            if text.len() + next.len() > MAX_LINE {
                self.endless = *line;
                return Ok(false);
            }
            text.push('\n');
            text.push_str(next);
            rows += usize::from(is_row(next));
            match ends_open(next, delimiter) {
                Some(true) => {}
                None => return Ok(false),
                Some(false) => {
                    let is_cell =
                        (!first_is_row || 2 * rows <= at) && split(&text, delimiter, false, &mut row.cells);
                    if is_cell {
                        self.ahead.drain(..=at);
                    }
                    return Ok(is_cell);
                }
            }
        }
        self.endless = self.ahead.back().map_or(0, |(line, _)| *line);
        Ok(false)
    }
}

fn utf8<'a>(path: &Path, line: u64, bytes: &'a [u8]) -> Result<&'a str, Error> {
    std::str::from_utf8(bytes).map_err(|_| {
        let reason = "the row is not UTF-8: save the file as UTF-8, or convert it, as `iconv -f WINDOWS-1252 -t UTF-8 FILE` does";
        Error::file(path, line, reason)
    })
}

/// Splits a text at the delimiters outside of quoted cells. Returns whether every quoted cell ends; where one
/// does not, its quote is a text if `open` says so, and else nothing is split.
fn split(text: &str, delimiter: u8, open: bool, cells: &mut StringRecord) -> bool {
    cells.clear();
    let mut rest = text;
    let mut closed = true;
    loop {
        let next = match quoted(rest, delimiter) {
            Quoted::Cell(cell, next) => {
                cells.push_field(&cell);
                next
            }
            Quoted::Open if !open => return false,
            kind => {
                closed &= !matches!(kind, Quoted::Open);
                let (cell, next) = match memchr(rest, delimiter) {
                    Some(at) => (&rest[..at], Some(&rest[at + 1..])),
                    None => (rest, None),
                };
                // A cell that begins with a quote that is a text does not end behind other lines.
                if !open && cell.contains('\n') {
                    return false;
                }
                cells.push_field(cell);
                next
            }
        };
        match next {
            Some(next) => rest = next,
            None => return closed,
        }
    }
}

fn memchr(text: &str, byte: u8) -> Option<usize> {
    text.as_bytes().iter().position(|found| *found == byte)
}

/// Whether a quoted cell is open at the end of a line if one is at its beginning; `None` if a quote in the
/// line neither closes that cell nor stands for itself, so that it was none.
fn ends_open(line: &str, delimiter: u8) -> Option<bool> {
    let mut rest = line;
    loop {
        let Some((_, after)) = rest.split_once('"') else { return Some(true) };
        let behind = after.trim_start_matches(' ');
        match behind.as_bytes().first() {
            Some(b'"') if behind.len() == after.len() => rest = &after[1..],
            Some(byte) if *byte == delimiter => {
                let mut cells = StringRecord::new();
                return Some(!split(&behind[1..], delimiter, false, &mut cells));
            }
            Some(_) => return None,
            None => return Some(false),
        }
    }
}

/// What begins at the beginning of a cell.
enum Quoted<'a> {
    /// A quoted cell, and what follows its delimiter, if there is one.
    Cell(String, Option<&'a str>),
    /// A quote that no other one closes.
    Open,
    /// No quoted cell.
    None,
}

fn quoted(text: &str, delimiter: u8) -> Quoted<'_> {
    let Some(mut rest) = text.trim_start_matches(' ').strip_prefix('"') else { return Quoted::None };
    let mut cell = String::new();
    loop {
        let Some((within, after)) = rest.split_once('"') else { return Quoted::Open };
        cell.push_str(within);
        let behind = after.trim_start_matches(' ');
        match behind.as_bytes().first() {
            None => return Quoted::Cell(cell, None),
            Some(byte) if *byte == delimiter => return Quoted::Cell(cell, Some(&behind[1..])),
            Some(b'"') if behind.len() == after.len() => {
                cell.push('"');
                rest = &after[1..];
            }
            Some(b'\n') => return Quoted::Open,
            Some(_) => return Quoted::None,
        }
    }
}

/// The delimiter of a first line such as `sep=;`, which Excel writes and reads.
fn named_delimiter(line: &[u8]) -> Option<u8> {
    let line = line.trim_ascii().trim_ascii_end();
    let line = line.strip_prefix(b"\"").and_then(|line| line.strip_suffix(b"\"")).unwrap_or(line);
    let (name, delimiter) = line.split_at_checked(4)?;
    let named = name.eq_ignore_ascii_case(b"sep=");
    named.then(|| DELIMITERS.into_iter().find(|known| delimiter == [*known])).flatten()
}

/// The delimiter that gives the most rows as many cells as the first line has; the one with the most cells of
/// those that nearly all rows agree with.
fn delimiter(lines: &[&[u8]]) -> u8 {
    let lines: Vec<&str> = lines.iter().filter_map(|line| std::str::from_utf8(line).ok()).collect();
    let mut lines = lines.into_iter().filter(|line| !line.trim().is_empty()).take(200);
    let Some(header) = lines.next() else { return DELIMITERS[0] };
    let rows: Vec<&str> = lines.collect();
    let mut cells = StringRecord::new();
    // A quote at an end of a cell is one of a quoted cell that holds the delimiter.
    let mut count = |line: &str, delimiter| {
        split(line, delimiter, true, &mut cells);
        let cut = cells.iter().any(|cell| cell.starts_with('"') || cell.ends_with('"'));
        if cut { 0 } else { cells.len() }
    };
    let mut seen: Vec<(f64, usize, u8)> = Vec::new();
    for delimiter in DELIMITERS {
        let columns = count(header, delimiter);
        if columns > 1 {
            let agree = rows.iter().filter(|row| count(row, delimiter) == columns).count();
            seen.push((agree as f64 / rows.len().max(1) as f64, columns, delimiter));
        }
    }
    let most = seen.iter().map(|(share, ..)| *share).fold(0.0, f64::max);
    let near = seen.into_iter().filter(|(share, ..)| *share >= most - 0.1).rev();
    near.max_by_key(|(_, columns, _)| *columns).map_or(DELIMITERS[0], |(.., delimiter)| delimiter)
}

/// Why the first of these rows looks like a row and not like names of columns; `None` if it does not.
///
/// A name is a text over numbers, or a text that no row has in its column. A row has a number over numbers,
/// or a text that other rows repeat. Numbers are names where they count the columns, as data frames without
/// names write them, and where they are years that follow each other.
pub(crate) fn first_row(rows: &[StringRecord]) -> Option<String> {
    let (first, rows) = rows.split_first()?;
    let number = |cell: &str| cell.trim().parse::<f64>().is_ok_and(f64::is_finite);
    let whole: Vec<i64> = first.iter().filter_map(|cell| cell.trim().parse().ok()).collect();
    let follow = whole.len() > 1 && whole.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]));
    let counted = whole.len() == first.len() && whole.first().is_some_and(|least| (0..=1).contains(least));
    let years = follow && whole.iter().all(|year| (1900..2100).contains(year));
    if rows.len() < 2 || follow && counted || years {
        return None;
    }
    let mut seen = None;
    let named = |(_, name): &(usize, &str)| !schema::Cell::parse(name).is_missing();
    for (at, name) in first.iter().map(str::trim).enumerate().filter(named) {
        let column =
            || rows.iter().filter_map(|row| row.get(at)).map(str::trim).filter(|cell| !cell.is_empty());
        let (values, numbers) = (column().count(), column().filter(|cell| number(cell)).count());
        let distinct = column().collect::<HashSet<_>>().len();
        match number(name) {
            true if numbers > 0 && numbers * 2 >= values => {
                seen = seen.or(Some(format!("it has the number {name} where a name is expected")));
            }
            false if numbers > 0 && numbers * 2 >= values => return None,
            false if distinct < values && column().any(|cell| cell == name) => {
                seen = seen.or(Some(format!("it has {name:?}, which other rows have in that column too")));
            }
            _ => {}
        }
    }
    seen
}
