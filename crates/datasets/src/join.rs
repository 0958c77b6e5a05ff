//! A table whose columns stand beside those of another one.

use crate::table::{Row, Table};
use crate::{Error, MAX_NAMES, MAX_TABLE};
use csv::StringRecord;
use schema::{JoinedTable, Schema};
use std::collections::HashMap;
use std::path::Path;

/// The rows of a table, by their keys.
pub(crate) struct Join {
    /// The name of the table, and that of its columns in the joined rows.
    name: String,
    pub(crate) columns: Vec<String>,
    /// The position of the key in the rows that it is joined to.
    pub(crate) key: usize,
    rows: HashMap<String, StringRecord>,
}

impl Join {
    /// Reads the table `name` of a schema, whose key stands at `key` in the rows that it is joined to.
    pub(crate) fn open(
        name: &str,
        JoinedTable { file, key: ours, their_key }: &JoinedTable,
        key: usize,
    ) -> Result<Self, Error> {
        let path: &Path = file;
        let mut table = Table::open(path)?;
        let their_key = their_key.as_ref().unwrap_or(ours);
        let theirs = table.column(their_key)?;
        let columns = table.header().iter().map(|column| format!("{name}.{column}")).collect();
        let (mut rows, mut row, mut bytes) = (HashMap::new(), Row::default(), 0);
        while table.read(&mut row)? {
            let fault = |reason: String| Error::cell(path, row.line, their_key, &row.cells[theirs], reason);
            bytes += row.cells.as_slice().len();
            if bytes > MAX_TABLE || rows.len() == MAX_NAMES {
                return Err(fault(format!(
                    "the table has more than {MAX_TABLE} bytes or {MAX_NAMES} rows: leave out columns and rows that no round needs"
                )));
            }
            let id = row.cells[theirs].trim().to_string();
            if rows.insert(id, row.cells.clone()).is_some() {
                return Err(fault("two rows have this key: keep one of them".into()));
            }
        }
        Ok(Join { name: name.into(), columns, key, rows })
    }

    /// Appends the cells of the key's row to `cells`, or empty ones where there is none. Returns whether
    /// there is one.
    pub(crate) fn extend(&self, cells: &mut StringRecord) -> bool {
        let found = self.rows.get(cells[self.key].trim());
        match found {
            Some(row) => row.iter().for_each(|cell| cells.push_field(cell)),
            None => self.columns.iter().for_each(|_| cells.push_field("")),
        }
        found.is_some()
    }

    /// What is said of rows whose key the table does not have.
    pub(crate) fn absent(&self, header: &[String]) -> String {
        format!(
            "the table {} has no row for their {}, so that its columns are empty",
            self.name, header[self.key]
        )
    }
}

/// The tables of a schema that are joined to rows, read.
pub(crate) fn joins(
    schema: &Schema,
    column: impl Fn(&str) -> Result<usize, Error>,
) -> Result<Vec<Join>, Error> {
    let of_rows = schema.tables.iter().filter(|(_, table)| !table.is_of_candidates());
    of_rows.map(|(name, table)| Join::open(name, table, column(&table.key)?)).collect()
}

/// The values of a candidate in the tables that have a row for each candidate, by the names of their columns.
pub(crate) type OfCandidate = HashMap<String, String>;

/// The values of each of `arms` in these tables.
pub(crate) fn of_candidates(schema: &Schema, arms: &[String]) -> Result<Vec<OfCandidate>, Error> {
    let mut values = vec![OfCandidate::new(); arms.len()];
    for (name, table) in schema.tables.iter().filter(|(_, table)| table.is_of_candidates()) {
        let Some(their_key) = &table.their_key else {
            let reason = "name the column of the candidates' names in this table: their_key = \"COLUMN\"";
            return Err(Error::file(&table.file, 0, reason));
        };
        let join = Join::open(name, table, 0)?;
        for (arm, values) in arms.iter().zip(&mut values) {
            let row = join.rows.get(arm.trim()).ok_or_else(|| {
                let reason = "the table has no row for this candidate: add it, or leave the candidate out";
                Error::cell(&table.file, 0, their_key, arm, reason)
            })?;
            values.extend(join.columns.iter().cloned().zip(row.iter().map(str::to_string)));
        }
    }
    Ok(values)
}
