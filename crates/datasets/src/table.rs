//! Rows of tables: text with delimiters, and Parquet files.

use crate::delimited::{Delimited, Found, first_row};
use crate::input::{self, Content};
use crate::join::{Join, joins};
use crate::noted::Notes;
use crate::parquet::ParquetRows;
use crate::{Error, MAX_COLUMNS, Noted};
use csv::StringRecord;
use schema::Schema;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// One row.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// Line of the file in which it begins, or row of a Parquet file, from 1.
    pub(crate) line: u64,
    /// The cells, as many as the header has names.
    pub(crate) cells: StringRecord,
}

/// The rows of a table, from first to last. Rows with too many or too few cells are left out, and counted.
pub(crate) struct Table {
    path: PathBuf,
    header: Vec<String>,
    /// The position of each column.
    positions: HashMap<String, usize>,
    rows: Rows,
    /// Why the header looks like a row.
    first_row: Option<String>,
    joins: Vec<Join>,
    notes: Notes,
}

enum Rows {
    Text(Box<Delimited>),
    Parquet(ParquetRows),
}

impl Table {
    /// Opens a table, and reads its header.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        Self::open_as(path, &Schema::default())
    }

    /// As [`Self::open`], with the header of a schema if it has one, and the tables that it joins.
    pub(crate) fn open_as(path: &Path, schema: &Schema) -> Result<Self, Error> {
        let (header, rows, first_row) = match input::open(path)? {
            Content::Parquet(raw) => {
                let (header, rows) = ParquetRows::open(path, raw)?;
                (header, Rows::Parquet(rows), None)
            }
            Content::Text(lines) => {
                let mut rows = Delimited::new(lines)?;
                if schema.header.is_empty() {
                    let first = first_row(&rows.sample());
                    let header = rows.header()?;
                    let header = header.iter().map(|name| name.trim().to_string()).collect();
                    (header, Rows::Text(Box::new(rows)), first)
                } else {
                    rows.name(&schema.header);
                    (schema.header.clone(), Rows::Text(Box::new(rows)), None)
                }
            }
        };
        let mut table = Self::with_header(path, header, rows, first_row)?;
        let joins = joins(schema, |name| table.column(name))?;
        for join in &joins {
            for name in &join.columns {
                table.positions.insert(name.clone(), table.header.len());
                table.header.push(name.clone());
            }
        }
        table.joins = joins;
        Ok(table)
    }

    fn with_header(
        path: &Path,
        header: Vec<String>,
        rows: Rows,
        first_row: Option<String>,
    ) -> Result<Self, Error> {
        if header.len() > MAX_COLUMNS {
            let reason =
                format!("there are {} columns, and {MAX_COLUMNS} are allowed: leave some out", header.len());
            return Err(Error::file(path, 1, reason));
        }
        let mut positions = HashMap::new();
        for (at, name) in header.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            if positions.insert(name.clone(), at).is_some() {
                let reason = match &first_row {
                    Some(why) => return Err(Error::file(path, 1, no_header(why))),
                    None => "two columns have this name: rename one of them",
                };
                return Err(Error::column(path, 1, name, reason));
            }
        }
        if positions.is_empty() {
            return Err(Error::file(path, 1, "there is no header: the first line must name the columns"));
        }
        if let ([name], Some(separator)) = (&header[..], odd_delimiter(&header[0])) {
            let reason = format!(
                "columns are separated by commas, semicolons, tabs or bars, and this line seems to have {separator}: replace it in \
                 all lines"
            );
            return Err(Error::column(path, 1, name, reason));
        }
        let (joins, notes) = (Vec::new(), Notes::default());
        Ok(Table { path: path.into(), header, positions, rows, first_row, joins, notes })
    }

    /// Refuses a table whose first line looks like a row.
    pub(crate) fn require_header(&self) -> Result<(), Error> {
        match &self.first_row {
            Some(why) => Err(Error::file(&self.path, 1, no_header(why))),
            None => Ok(()),
        }
    }

    pub(crate) fn header(&self) -> &[String] {
        &self.header
    }

    /// The position of a column.
    pub(crate) fn column(&self, name: &str) -> Result<usize, Error> {
        if let Some(position) = self.positions.get(name) {
            return Ok(*position);
        }
        self.require_header()?;
        let mut have: Vec<&str> = self.header.iter().map(String::as_str).take(40).collect();
        if self.header.len() > 40 {
            have.push("…");
        }
        let have = have.join(", ");
        Err(Error::column(&self.path, 1, name, format!("there is no such column: the file has {have}")))
    }

    /// Reads the next row. Returns `false` after the last.
    pub(crate) fn read(&mut self, row: &mut Row) -> Result<bool, Error> {
        let more = match &mut self.rows {
            Rows::Parquet(rows) => rows.read(row)?,
            Rows::Text(rows) => loop {
                match rows.read(row)? {
                    Found::Row => break true,
                    Found::End => break false,
                    Found::Bad { line, reason } => self.notes.leave_out(&self.path, line, reason)?,
                }
            },
        };
        if !more {
            self.notes.end(&self.path)?;
            return Ok(false);
        }
        self.notes.row();
        for join in &self.joins {
            if !join.extend(&mut row.cells) {
                self.notes.note(row.line, join.absent(&self.header));
            }
        }
        Ok(true)
    }

    /// The first row that was left out so far, and why.
    pub(crate) fn left_out(&self) -> Option<(u64, &str)> {
        self.notes.first()
    }

    /// Notes on rows: those left out, with a stray quote, or without a row in a joined table.
    pub(crate) fn notes(&self) -> Vec<Noted> {
        let mut notes = self.notes.list();
        if let Rows::Text(rows) = &self.rows
            && rows.stray.0 > 0
        {
            let what = "a quote at the beginning of a cell is read as a text, because no cell ends where the next quote is".into();
            notes.push(Noted { what, rows: rows.stray.0, first_line: rows.stray.1 });
        }
        notes
    }
}

fn no_header(why: &str) -> String {
    format!(
        "the first line looks like a row, because {why}: the file has no header. Write the names of the columns as its first line, \
         or name them in the schema, as header = [\"round\", \"item\", …]"
    )
}

/// What separates columns in a line without any of the delimiters.
fn odd_delimiter(line: &str) -> Option<&'static str> {
    [
        ("::", "two colons"),
        ("^", "carets"),
        ("~", "tildes"),
        ("\u{1}", "control characters (Ctrl-A)"),
        ("  ", "spaces"),
    ]
    .into_iter()
    .find(|(text, _)| line.matches(text).count() >= 2)
    .map(|(_, name)| name)
    .or_else(|| (line.split(' ').count() > 3).then_some("spaces"))
}
