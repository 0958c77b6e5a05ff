//! Rows of tables: comma-separated values, and Parquet files.

use crate::{Error, MAX_COLUMNS, MAX_LINE};
use csv::StringRecord;
use std::cell::Cell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// One row.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// Line of the file, or row of a Parquet file, from 1.
    pub(crate) line: u64,
    /// The cells, as many as the header has names.
    pub(crate) cells: StringRecord,
}

/// The rows of a table, from first to last.
pub(crate) struct Table {
    path: PathBuf,
    header: Vec<String>,
    /// The position of each column.
    positions: HashMap<String, usize>,
    rows: Rows,
}

enum Rows {
    Csv {
        reader: Box<csv::Reader<Metered>>,
        left: Rc<Cell<usize>>,
    },
    #[cfg(feature = "parquet")]
    Parquet(crate::parquet::ParquetRows),
}

impl Table {
    /// Opens a table, and reads its header.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        if path.extension().is_some_and(|e| e == "parquet") {
            return Self::open_parquet(path);
        }
        let delimiter = delimiter(path)?;
        let left = Rc::new(Cell::new(MAX_LINE));
        let metered = Metered { file: open(path)?, left: left.clone() };
        let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(metered);
        let header = reader.headers().map_err(|e| csv_error(path, &e))?;
        let header: Vec<String> = header.iter().map(|name| name.trim().to_string()).collect();
        left.set(MAX_LINE);
        Self::with_header(path, header, Rows::Csv { reader: Box::new(reader), left })
    }

    fn with_header(path: &Path, header: Vec<String>, rows: Rows) -> Result<Self, Error> {
        if header.len() > MAX_COLUMNS {
            let reason =
                format!("there are {} columns, and {MAX_COLUMNS} are allowed: leave some out", header.len());
            return Err(Error::file(path, 1, reason));
        }
        let mut positions = HashMap::new();
        for (at, name) in header.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            if positions.insert(name.clone(), at).is_some() {
                return Err(Error::column(path, 1, name, "two columns have this name: rename one of them"));
            }
        }
        if positions.is_empty() {
            return Err(Error::file(path, 1, "there is no header: the first line must name the columns"));
        }
        Ok(Table { path: path.into(), header, positions, rows })
    }

    #[cfg(feature = "parquet")]
    fn open_parquet(path: &Path) -> Result<Self, Error> {
        let (header, rows) = crate::parquet::ParquetRows::open(path)?;
        Self::with_header(path, header, Rows::Parquet(rows))
    }

    #[cfg(not(feature = "parquet"))]
    fn open_parquet(path: &Path) -> Result<Self, Error> {
        let reason = "this program was built without Parquet: build it with `--features parquet`, or write the table as CSV";
        Err(Error::file(path, 0, reason))
    }

    pub(crate) fn header(&self) -> &[String] {
        &self.header
    }

    /// The position of a column.
    pub(crate) fn column(&self, name: &str) -> Result<usize, Error> {
        self.positions.get(name).copied().ok_or_else(|| {
            let mut have: Vec<&str> = self.header.iter().map(String::as_str).take(40).collect();
            if self.header.len() > 40 {
                have.push("…");
            }
            let have = have.join(", ");
            Error::column(&self.path, 1, name, format!("there is no such column: the file has {have}"))
        })
    }

    /// Reads the next row. Returns `false` after the last.
    pub(crate) fn read(&mut self, row: &mut Row) -> Result<bool, Error> {
        match &mut self.rows {
            Rows::Csv { reader, left } => {
                left.set(MAX_LINE);
                let more = reader.read_record(&mut row.cells).map_err(|e| csv_error(&self.path, &e))?;
                row.line = row.cells.position().map_or(0, csv::Position::line);
                Ok(more)
            }
            #[cfg(feature = "parquet")]
            Rows::Parquet(rows) => rows.read(row),
        }
    }
}

/// A file from which only so many bytes can be read between two rows: a quote that is never closed would
/// otherwise make the rest of the file one cell.
struct Metered {
    file: File,
    left: Rc<Cell<usize>>,
}

impl Read for Metered {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.file.read(buffer)?;
        match self.left.get().checked_sub(got) {
            Some(left) => self.left.set(left),
            None => return Err(io::Error::new(io::ErrorKind::FileTooLarge, TOO_LONG)),
        }
        Ok(got)
    }
}

pub(crate) const TOO_LONG: &str =
    "a row is longer than 1 MiB: look for a quote that is not closed, or shorten the row";

pub(crate) fn open(path: &Path) -> Result<File, Error> {
    let file = File::open(path).map_err(|e| Error::file(path, 0, format!("cannot be opened: {e}")))?;
    match file.metadata() {
        Ok(about) if about.is_dir() => Err(Error::file(path, 0, "this is a folder: name a file in it")),
        _ => Ok(file),
    }
}

/// The character among comma, semicolon, tab and bar that the first line has most often; the first of equals.
fn delimiter(path: &Path) -> Result<u8, Error> {
    let mut start = Vec::new();
    let most = MAX_LINE as u64;
    open(path)?.take(most).read_to_end(&mut start).map_err(|e| Error::file(path, 0, e.to_string()))?;
    if start.starts_with(b"PAR1") {
        return Err(Error::file(path, 0, "this is a Parquet file: give it a name that ends in .parquet"));
    }
    let line = start.split(|byte| matches!(byte, b'\n' | b'\r')).next().unwrap_or_default();
    let count = |wanted: u8| {
        let mut quoted = false;
        line.iter()
            .filter(|&&byte| {
                quoted ^= byte == b'"';
                !quoted && byte == wanted
            })
            .count()
    };
    let best = [b',', b';', b'\t', b'|'].into_iter().rev().max_by_key(|&wanted| count(wanted));
    Ok(best.unwrap_or(b','))
}

fn csv_error(path: &Path, error: &csv::Error) -> Error {
    let line = error.position().map_or(0, csv::Position::line);
    let reason = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => format!(
            "the row has {len} cells and the header has {expected_len} names: look for a missing or an unquoted delimiter"
        ),
        csv::ErrorKind::Utf8 { .. } => "the row is not UTF-8: save the file as UTF-8".into(),
        csv::ErrorKind::Io(error) => error.to_string(),
        _ => error.to_string(),
    };
    Error::file(path, line, reason)
}
