use crate::Error;
use std::io::Read;

/// The line of a closed arm.
const CLOSED: &str = "null";

/// Reads contexts as CSV, with one line for each arm and no header. The first of tab, semicolon and comma
/// that the first line with numbers has separates them. The line of a closed arm is `null`, and its row is
/// empty.
///
/// # Errors
/// [`Error::ContextsHeader`]; [`Error::Protocol`] with row and column of a cell that is no finite number;
/// [`Error::Csv`].
pub fn read_contexts(mut input: impl Read) -> Result<Vec<Vec<f64>>, Error> {
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).map_err(csv::Error::from)?;
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let first = lines.find(|line| line.trim_ascii() != CLOSED.as_bytes()).unwrap_or_default();
    let delimiter = [b'\t', b';'].into_iter().find(|delimiter| first.contains(delimiter)).unwrap_or(b',');
    let mut csv = csv::ReaderBuilder::new();
    let mut csv = csv.has_headers(false).flexible(true).delimiter(delimiter).from_reader(&bytes[..]);
    let mut rows = Vec::new();
    for (i, record) in csv.records().enumerate() {
        let record = record?;
        if record.len() == 1 && record[0].trim() == CLOSED {
            rows.push(Vec::new());
            continue;
        }
        let is_name = |cell: &str| !cell.trim().is_empty() && cell.trim().parse::<f64>().is_err();
        if i == 0 && !record.is_empty() && record.iter().all(is_name) {
            return Err(Error::ContextsHeader);
        }
        let cell = |(j, cell): (usize, &str)| {
            let value = cell.trim().parse().ok().filter(|v: &f64| v.is_finite());
            value.ok_or(protocol::Error::NotANumber { row: i + 1, column: j + 1 })
        };
        rows.push(record.iter().enumerate().map(cell).collect::<Result<_, _>>()?);
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
    fn closed_arms_are_lines_of_their_own() {
        for text in ["null\n1,2\nnull\n", "null\r\n1;2\r\nnull\r\n"] {
            assert_eq!(read_contexts(text.as_bytes()).unwrap(), [vec![], vec![1.0, 2.0], vec![]], "{text}");
        }
        let e = read_contexts(&b"1,2\n1,null\n"[..]).unwrap_err();
        assert!(matches!(e, Error::Protocol(protocol::Error::NotANumber { row: 2, column: 2 })), "{e}");
    }

    #[test]
    fn a_header_is_named_and_other_delimiters_are_read() {
        for header in ["price,quality\n1,2\n", "x\n1\n", "\u{feff}a;b\n1;2\n"] {
            let e = read_contexts(header.as_bytes()).unwrap_err();
            assert!(
                matches!(e, Error::ContextsHeader) && e.to_string().contains("leave it out"),
                "{header}: {e}"
            );
        }
        for text in ["1;0.5\n2;3\n", "1\t0.5\n2\t3\n", "\u{feff}1,0.5\r\n2,3\r\n"] {
            assert_eq!(read_contexts(text.as_bytes()).unwrap(), [[1.0, 0.5], [2.0, 3.0]], "{text}");
        }
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
