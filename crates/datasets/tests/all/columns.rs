//! Parquet files.

use crate::{foreign, schema};
use datasets::{Dataset, Prepared, guess, propose, read_schema};
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Writes a table as Parquet with Snappy: columns whose cells are all numbers as doubles, others as texts; an
/// empty cell is a null.
fn write(path: &Path, header: &[String], rows: &[Vec<String>]) {
    let number =
        |column: usize| rows.iter().all(|row| row[column].is_empty() || row[column].parse::<f64>().is_ok());
    let field = |(i, name): (usize, &String)| match number(i) {
        true => format!("optional double {name};"),
        false => format!("optional binary {name} (UTF8);"),
    };
    let fields: String = header.iter().enumerate().map(field).collect();
    let message = Arc::new(parse_message_type(&format!("message table {{ {fields} }}")).unwrap());
    let properties = Arc::new(WriterProperties::builder().set_compression(Compression::SNAPPY).build());
    let mut writer = SerializedFileWriter::new(File::create(path).unwrap(), message, properties).unwrap();
    // Two row groups.
    for rows in rows.chunks(rows.len().div_ceil(2).max(1)) {
        let mut group = writer.next_row_group().unwrap();
        for i in 0..header.len() {
            let mut column = group.next_column().unwrap().unwrap();
            let present: Vec<i16> = rows.iter().map(|row| i16::from(!row[i].is_empty())).collect();
            let cells = rows.iter().map(|row| row[i].as_str()).filter(|cell| !cell.is_empty());
            if number(i) {
                let cells: Vec<f64> = cells.map(|cell| cell.parse().unwrap()).collect();
                column.typed::<DoubleType>().write_batch(&cells, Some(&present), None).unwrap();
            } else {
                let cells: Vec<ByteArray> = cells.map(ByteArray::from).collect();
                column.typed::<ByteArrayType>().write_batch(&cells, Some(&present), None).unwrap();
            }
            column.close().unwrap();
        }
        group.close().unwrap();
    }
    writer.close().unwrap();
}

/// The same tables as CSV and as Parquet are the same rounds, and the same schema is proposed.
#[test]
fn tables_in_parquet_are_those_in_csv() {
    for name in ["cars", "ratings"] {
        let text = std::fs::read_to_string(foreign(&format!("{name}.csv"))).unwrap().replace(';', ",");
        let mut rows = text.lines().map(|line| line.split(',').map(str::to_string).collect::<Vec<_>>());
        let header = rows.next().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("table.parquet");
        write(&file, &header, &rows.collect::<Vec<_>>());
        let path = foreign(&format!("{name}.toml"));
        let csv = Dataset::open(&foreign(&format!("{name}.csv")), Some(&path)).unwrap();
        assert_eq!(Dataset::open(&file, Some(&path)).unwrap(), csv);
        assert_eq!(guess(&file).unwrap().schema, guess(&foreign(&format!("{name}.csv"))).unwrap().schema);
        assert!(read_schema(&path).is_ok());
    }
}

/// Errors name the row and the column; a file that was cut or changed is refused.
#[test]
fn bad_parquet_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("table.parquet");
    let cells = |row: &[&str]| row.iter().map(|cell| cell.to_string()).collect::<Vec<_>>();
    let rows = [cells(&["1", "2", "a"]), cells(&["1", "two", "b"])];
    write(&file, &cells(&["x_a", "x_b", "y"]), &rows);
    let schema = schema(
        "layout = \"wide\"\npattern = \"{feature}_{candidate}\"\nchosen = \"y\"\n[candidate]\nx = \"none\"\n",
    );
    let error = Prepared::fit(&file, &schema).unwrap_err().to_string();
    assert!(error.contains("table.parquet, line 2, column x_b, value \"two\""), "{error}");
    let bytes = std::fs::read(&file).unwrap();
    for cut in (0..bytes.len()).step_by(29) {
        std::fs::write(&file, &bytes[..cut]).unwrap();
        assert!(Prepared::fit(&file, &schema).is_err());
    }
}

/// A page of 2.6 kB says that it has 2³¹ − 1 bytes when it is unpacked, and is refused before they are
/// reserved; of a file whose bytes are changed, one at a time, nothing ends the process.
#[test]
fn attack_pages_reserve_no_memory_and_damage_ends_no_process() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("table.parquet");
    let bomb = include_bytes!("../files/claims-two-gigabytes.parquet");
    std::fs::write(&file, bomb).unwrap();
    let error = propose(&file).unwrap_err().to_string();
    assert!(error.contains("more than 1073741824 bytes when they are unpacked"), "{error}");
    let cells = |row: &[&str]| row.iter().map(|cell| cell.to_string()).collect::<Vec<_>>();
    let rows: Vec<_> = (0..20).map(|i| cells(&[&i.to_string(), "2", ["a", "b"][i % 2]])).collect();
    write(&file, &cells(&["x_a", "x_b", "y"]), &rows);
    let whole = std::fs::read(&file).unwrap();
    for at in 0..whole.len() {
        for byte in [0, 0x7F, 0xFF] {
            let mut damaged = whole.clone();
            damaged[at] = byte;
            std::fs::write(&file, damaged).unwrap();
            let _ = propose(&file);
        }
    }
}

/// A text that the file has once, in its dictionary, is refused where it is too long for a row, and where
/// many rows of one round repeat it.
#[test]
fn attack_repeated_texts_take_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("table.parquet");
    let header = ["r", "x", "y", "t"].map(String::from);
    let schema = folder.path().join("s.toml");
    let text = "layout = \"long\"\nround = [\"r\"]\nchosen = \"y\"\n[candidate]\nx = \"none\"\n";
    std::fs::write(&schema, text).unwrap();
    for (length, rows, wants) in
        [(2 << 20, 2, "a row is longer than 1 MiB"), (1 << 19, 200, "more than 67108864 bytes")]
    {
        let long = "t".repeat(length);
        let row = |i: usize| vec!["1".into(), i.to_string(), u8::from(i == 0).to_string(), long.clone()];
        write(&file, &header, &(0..rows).map(row).collect::<Vec<_>>());
        let got = Dataset::open(&file, Some(&schema)).unwrap_err().to_string();
        assert!(got.contains(wants), "{got}");
    }
}
