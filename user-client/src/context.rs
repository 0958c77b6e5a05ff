use crate::Error;
use std::io::Read;

/// Reads contexts as CSV, with one line for each arm and no header.
///
/// # Errors
/// [`Error::Protocol`] with row and column of a cell that is no finite number, [`Error::Csv`].
pub fn read_contexts(input: impl Read) -> Result<Vec<Vec<f64>>, Error> {
    let mut csv = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(input);
    let mut rows = Vec::new();
    for (i, record) in csv.records().enumerate() {
        let cell = |(j, cell): (usize, &str)| {
            let value = cell.trim().parse().ok().filter(|v: &f64| v.is_finite());
            value.ok_or(protocol::Error::NotANumber { row: i + 1, column: j + 1 })
        };
        rows.push(record?.iter().enumerate().map(cell).collect::<Result<_, _>>()?);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_read_line_by_line() {
        assert_eq!(read_contexts(&b"1,0.5\n-1e-3, 2\n"[..]).unwrap(), [[1.0, 0.5], [-1e-3, 2.0]]);
        // Lengths are the bandit's to judge.
        assert_eq!(read_contexts(&b"1\n1,2\n"[..]).unwrap(), [vec![1.0], vec![1.0, 2.0]]);
    }

    #[test]
    fn bad_cells_are_named() {
        for text in ["1,2\n3,four\n", "1,2\n3,NaN\n", "1,2\n3,inf\n", "1,2\n3,\n"] {
            let e = read_contexts(text.as_bytes()).unwrap_err();
            let Error::Protocol(e) = e else { panic!("{text}: {e}") };
            assert_eq!(e, protocol::Error::NotANumber { row: 2, column: 2 }, "{text}");
        }
        assert!(matches!(read_contexts(&b"\xff,1\n"[..]), Err(Error::Csv(_))));
    }
}
