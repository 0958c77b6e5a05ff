//! Rows of Parquet files with flat columns, uncompressed or compressed by Snappy, gzip or zstd.

mod pages;

use crate::input::Raw;
use crate::table::Row;
use crate::{Error, MAX_LINE};
use host::without_panic;
use parquet::basic::LogicalType;
use parquet::file::reader::{ChunkReader, FileReader, Length, SerializedFileReader};
use parquet::record::Field;
use parquet::record::reader::RowIter;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// The most bytes of a row group, by the word of the file.
const MAX_GROUP: i64 = 1 << 30;
/// The most cells of a file, by its own word. A few bytes may stand for any number of empty ones.
const MAX_CELLS: i64 = 1 << 32;

const TOO_LONG: &str = "a row is longer than 1 MiB: shorten its texts";

pub(crate) struct ParquetRows {
    path: PathBuf,
    rows: RowIter<'static>,
    row: u64,
}

impl Length for Raw {
    fn len(&self) -> u64 {
        self.length()
    }
}

impl ChunkReader for Raw {
    type T = BufReader<Raw>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        Ok(BufReader::new(self.from(start)?))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<bytes::Bytes> {
        let mut bytes = Vec::new();
        self.from(start)?.take(length as u64).read_to_end(&mut bytes)?;
        match bytes.len() == length {
            true => Ok(bytes.into()),
            false => Err(parquet::errors::ParquetError::EOF("the file ends before its data".into())),
        }
    }
}

impl ParquetRows {
    /// Opens a file. Returns the names of its columns too.
    pub(crate) fn open(path: &Path, raw: Raw) -> Result<(Vec<String>, Self), Error> {
        let fault = |reason: String| Error::file(path, 0, format!("cannot be read as Parquet: {reason}"));
        let opened = without_panic(|| {
            let reader = SerializedFileReader::new(raw.from(0).map_err(|e| e.to_string())?);
            let reader = reader.map_err(|e| e.to_string())?;
            pages::check(&raw, reader.metadata()).map(|()| reader)
        });
        let reader = opened.and_then(|opened| opened).map_err(fault)?;
        let about = reader.metadata();
        if let Some(group) = about.row_groups().iter().find(|group| group.total_byte_size() > MAX_GROUP) {
            let bytes = group.total_byte_size();
            return Err(fault(format!(
                "a row group has {bytes} bytes, and {MAX_GROUP} are allowed: write smaller groups"
            )));
        }
        let columns = about.file_metadata().schema().get_fields();
        let rows = about.row_groups().iter().fold(0i64, |sum, group| sum.saturating_add(group.num_rows()));
        if rows.saturating_mul(columns.len() as i64) > MAX_CELLS {
            return Err(fault(format!("it has {rows} rows, and {MAX_CELLS} cells are allowed: split it")));
        }
        let name = |field: &std::sync::Arc<parquet::schema::types::Type>| {
            let flat = field.is_primitive()
                && !matches!(field.get_basic_info().logical_type_ref(), Some(LogicalType::Variant { .. }));
            match flat {
                true => Ok(field.name().to_string()),
                false => {
                    Err(Error::column(path, 0, field.name(), "it holds lists or groups: write flat columns"))
                }
            }
        };
        let header = columns.iter().map(name).collect::<Result<_, _>>()?;
        let rows = RowIter::from_file_into(Box::new(reader));
        Ok((header, ParquetRows { path: path.into(), rows, row: 0 }))
    }

    pub(crate) fn read(&mut self, row: &mut Row) -> Result<bool, Error> {
        row.cells.clear();
        self.row += 1;
        row.line = self.row;
        let damaged =
            |e: String| Error::file(&self.path, self.row, format!("cannot be read as Parquet: {e}"));
        let rows = &mut self.rows;
        let Some(next) = without_panic(|| rows.next()).map_err(damaged)? else { return Ok(false) };
        let next = next.map_err(|e| damaged(e.to_string()))?;
        for (name, field) in next.get_column_iter() {
            row.cells.push_field(&match field {
                Field::Null => String::new(),
                Field::Bool(value) => u8::from(*value).to_string(),
                Field::Byte(x) => x.to_string(),
                Field::Short(x) => x.to_string(),
                Field::Int(x) | Field::Date(x) | Field::TimeMillis(x) => x.to_string(),
                Field::Long(x)
                | Field::TimeMicros(x)
                | Field::TimestampMillis(x)
                | Field::TimestampMicros(x) => x.to_string(),
                Field::UByte(x) => x.to_string(),
                Field::UShort(x) => x.to_string(),
                Field::UInt(x) => x.to_string(),
                Field::ULong(x) => x.to_string(),
                Field::Float(x) => x.to_string(),
                Field::Double(x) => x.to_string(),
                // The bound counts a text before it is copied.
                Field::Str(text) if row.cells.as_slice().len() + text.len() > MAX_LINE => {
                    return Err(Error::column(&self.path, self.row, name, TOO_LONG));
                }
                Field::Str(text) => text.clone(),
                Field::Bytes(bytes) if row.cells.as_slice().len() + bytes.len() > MAX_LINE => {
                    return Err(Error::column(&self.path, self.row, name, TOO_LONG));
                }
                // A text that its writer did not mark as one.
                Field::Bytes(bytes) if std::str::from_utf8(bytes.data()).is_ok() => {
                    String::from_utf8_lossy(bytes.data()).into_owned()
                }
                Field::Decimal(_) | Field::Float16(_) => field.to_string(),
                other => {
                    let reason =
                        "a value of this type is no number and no text: write the column as one of them";
                    return Err(Error::cell(&self.path, self.row, name, &other.to_string(), reason));
                }
            });
        }
        Ok(true)
    }
}
