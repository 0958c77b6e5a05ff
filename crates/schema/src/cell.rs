//! A value with a name: a cell of a table, or a field of a JSON object.

use crate::Schema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// A number, a text, or nothing.
///
/// Ids, categories, candidates and users are compared as texts, by the form that [`fmt::Display`] writes: a
/// text as it stands, so that `007` and `7`, or `1` and `1.0`, are two. A number of JSON, Parquet or Python
/// has no zeros that could be kept: it is the shortest text, and 1 and 1.0 are both `1`. A value becomes a
/// number only where an encoding, a reward or a probability asks for one ([`Self::number`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// No value.
    Missing,
    /// A number, which may be infinite or not a number until an encoding refuses it.
    Number(f64),
    /// A text, which may be that of a number.
    Text(String),
}

/// Texts that stand for no value, besides the empty one.
const MISSING: [&str; 12] =
    ["NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", "None", "?", "N.A."];

/// Words for 1 and for 0, in any case.
const TRUTH: [(&str, &str); 4] = [("true", "false"), ("yes", "no"), ("y", "n"), ("t", "f")];

/// The least number of which not all whole numbers around it are doubles.
const INEXACT: u64 = 1 << 53;

impl Cell {
    /// The cell of a text: spaces around it are left out, and the empty text, `NA`, `N/A`, `n/a`, `#N/A`,
    /// `<NA>`, `N.A.`, `NaN`, `null`, `None` and `?` are no value.
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        if text.is_empty() || MISSING.contains(&text) { Cell::Missing } else { Cell::Text(text.into()) }
    }

    /// The cell of a whole number of a typed format. One that a double does not hold exactly stays a text.
    pub fn whole(value: i128) -> Self {
        match value.unsigned_abs() < u128::from(INEXACT) {
            true => Cell::Number(value as f64),
            false => Cell::Text(value.to_string()),
        }
    }

    /// Whether there is no value.
    pub fn is_missing(&self) -> bool {
        matches!(self, Cell::Missing)
    }

    /// The number, if it is a finite one: of a text also with a percent sign (`12 %` is 0.12), with the sign
    /// or the code of a currency (`$1,200.50`, `3 EUR`), and with thousands set apart by commas, spaces or
    /// apostrophes.
    pub fn number(&self) -> Option<f64> {
        match self {
            Cell::Number(value) if value.is_finite() => Some(*value),
            Cell::Text(text) => number_of(text, false),
            _ => None,
        }
    }

    /// The same, of a text with a decimal comma, in which points set thousands apart: `1.234,5`.
    pub fn number_with_comma(&self) -> Option<f64> {
        match self {
            Cell::Text(text) => number_of(text, true),
            cell => cell.number(),
        }
    }

    /// What stands before or after the digits of a text, if it is a number with a unit: `%`, or the sign or
    /// the code of a currency.
    pub fn unit(&self) -> Option<&'static str> {
        let Cell::Text(text) = self else { return None };
        let text = text.trim_start_matches(['-', '+', '\u{2212}']);
        let of = |unit: &&&str| text.starts_with(**unit) || text.ends_with(**unit);
        ["%"].iter().chain(&CURRENCIES).find(of).copied()
    }

    /// 1 for `true`, `yes`, `y` and `t`, in any case, and 0 for `false`, `no`, `n` and `f`.
    pub fn truth(&self) -> Option<f64> {
        let Cell::Text(text) = self else { return None };
        let is = |word: &str| text.eq_ignore_ascii_case(word);
        TRUTH.iter().find_map(|(yes, no)| if is(yes) { Some(1.0) } else { is(no).then_some(0.0) })
    }
}

/// The number as it is written shortest, the text as it stands, and nothing for no value. Categories and
/// names are compared in this form.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Missing => Ok(()),
            Cell::Number(value) => write!(f, "{value}"),
            Cell::Text(text) => f.write_str(text),
        }
    }
}

/// How the numbers of a column are written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NumberForm {
    comma: bool,
    no_value: Vec<String>,
}

impl Schema {
    /// How the numbers of the feature or column `name` are written.
    pub fn form(&self, name: &str) -> NumberForm {
        let comma = self.decimal_comma.iter().any(|column| column == name);
        NumberForm { comma, no_value: self.no_value.clone() }
    }
}

impl NumberForm {
    /// The number of a text that is one in this form, no value for those of `no_value`, else the cell itself.
    pub fn read(&self, cell: Cell) -> Cell {
        let Cell::Text(text) = &cell else { return cell };
        if self.no_value.contains(text) {
            return Cell::Missing;
        }
        let number = if self.comma { cell.number_with_comma() } else { cell.number() };
        number.or_else(|| cell.truth()).map_or(cell, Cell::Number)
    }
}

/// Signs and codes of currencies, which stand before or after a number.
const CURRENCIES: [&str; 24] = [
    "$", "€", "£", "¥", "₹", "₩", "₺", "₽", "₫", "₪", "฿", "USD", "EUR", "GBP", "CHF", "JPY", "CNY", "INR",
    "CAD", "AUD", "SEK", "NOK", "DKK", "PLN",
];

fn number_of(text: &str, comma: bool) -> Option<f64> {
    // `inf` and `infinity` are words here: no table writes a number so.
    if let Some(number) = text.parse::<f64>().ok().filter(|_| !comma || !text.contains('.')) {
        return number.is_finite().then_some(number);
    }
    let (mut rest, mut negative, mut scale) = (text.trim(), false, 1.0);
    let sign = |rest: &mut &str, negative: &mut bool| {
        if let Some(after) = rest.strip_prefix(['-', '\u{2212}']).or_else(|| rest.strip_prefix('+')) {
            *negative = !rest.starts_with('+');
            *rest = after.trim_start();
        }
    };
    sign(&mut rest, &mut negative);
    if let Some(before) = rest.strip_suffix('%') {
        (rest, scale) = (before.trim_end(), 0.01);
    } else if let Some(before) = CURRENCIES.iter().find_map(|unit| rest.strip_suffix(unit)) {
        rest = before.trim_end();
    } else if let Some(after) = CURRENCIES.iter().find_map(|unit| rest.strip_prefix(unit)) {
        rest = after.trim_start();
        if !negative {
            sign(&mut rest, &mut negative);
        }
    }
    let value = grouped(rest, comma)?.parse::<f64>().ok()?;
    let value = if scale < 1.0 { value / 100.0 } else { value };
    Some(if negative { -value } else { value }).filter(|value| value.is_finite())
}

/// The digits of a number without a sign, whose thousands may be set apart.
fn grouped(text: &str, comma: bool) -> Option<Cow<'_, str>> {
    let (point, group) = if comma { (',', '.') } else { ('.', ',') };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = match text.split_once(point) {
        Some((whole, fraction)) if digits(fraction) => (whole, fraction),
        Some(_) => return None,
        None => (text, ""),
    };
    let with = |whole: &str| match fraction.is_empty() {
        true => whole.to_string(),
        false => format!("{whole}.{fraction}"),
    };
    if digits(whole) {
        return Some(Cow::Owned(with(whole)));
    }
    let apart = |c: char| c == group || matches!(c, ' ' | '\'' | '’' | '\u{a0}' | '\u{2009}' | '\u{202f}');
    let by = whole.chars().find(|c| apart(*c))?;
    let mut groups = whole.split(by);
    let first = groups.next().filter(|first| digits(first) && first.len() <= 3 && !first.starts_with('0'))?;
    let mut joined = first.to_string();
    for next in groups {
        if next.len() != 3 || !digits(next) {
            return None;
        }
        joined.push_str(next);
    }
    Some(Cow::Owned(with(&joined)))
}

/// A JSON text in which whole numbers beyond 64 bits are texts, so that an id keeps its digits: readers of
/// JSON make doubles of them. Bytes that are no JSON stay as they are, up to such numbers.
pub fn exact_json(json: &[u8]) -> Cow<'_, [u8]> {
    let (mut out, mut copied) = (Vec::new(), 0);
    let (mut at, mut quoted) = (0, false);
    while let Some(&byte) = json.get(at) {
        match byte {
            b'\\' if quoted => at += 1,
            b'"' => quoted = !quoted,
            b'-' | b'0'..=b'9' if !quoted => {
                let more = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
                let length = json[at..].iter().take_while(more).count();
                let token = &json[at..at + length];
                let digits = token.strip_prefix(b"-").unwrap_or(token);
                if digits.len() >= 19
                    && digits.iter().all(u8::is_ascii_digit)
                    && str::from_utf8(token)
                        .is_ok_and(|text| text.parse::<i64>().is_err() && text.parse::<u64>().is_err())
                {
                    out.extend_from_slice(&json[copied..at]);
                    out.push(b'"');
                    out.extend_from_slice(token);
                    out.push(b'"');
                    copied = at + length;
                }
                at += length - 1;
            }
            _ => {}
        }
        at += 1;
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    out.extend_from_slice(&json[copied..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Option<f64> {
        Cell::parse(text).number()
    }

    /// Numbers as people write them, and texts that are none.
    #[test]
    fn numbers_are_read_as_people_write_them() {
        for (text, want) in [
            ("1.5", 1.5),
            (" -2 ", -2.0),
            ("1e3", 1000.0),
            ("12%", 0.12),
            ("33.3 %", 0.333),
            ("$1,234.50", 1234.5),
            ("-$5", -5.0),
            ("$-5", -5.0),
            ("3 EUR", 3.0),
            ("€ 3", 3.0),
            ("1,234", 1234.0),
            ("1,234,567.5", 1_234_567.5),
            ("1 234", 1234.0),
            ("1'234'567", 1_234_567.0),
            ("1\u{a0}234", 1234.0),
            ("\u{2212}7", -7.0),
        ] {
            let got = number(text).unwrap_or_else(|| panic!("{text} is no number"));
            assert!((got - want).abs() < 1e-12, "{text}: {got}");
        }
        for text in
            ["1,5", "0,123", "12,34,567", "1,23", "$", "%", "inf", "-", "1-2", "1.2.3", "a1", "1,234 5"]
        {
            assert_eq!(number(text), None, "{text}");
        }
        for (text, want) in [
            ("1,5", 1.5),
            ("1.234,5", 1234.5),
            ("1.234", 1234.0),
            ("7", 7.0),
            ("2,5 %", 0.025),
            ("3,50 €", 3.5),
        ] {
            assert_eq!(Cell::parse(text).number_with_comma(), Some(want), "{text}");
        }
        assert_eq!(Cell::parse("0.5").number_with_comma(), None);
        assert_eq!(
            ["Yes", "N", "TRUE", "maybe"].map(|word| Cell::parse(word).truth()),
            [Some(1.0), Some(0.0), Some(1.0), None]
        );
    }

    /// Ids are texts: zeros and digits stay, whatever format has them.
    #[test]
    fn ids_are_texts() {
        for text in ["0108775015", "7", "007", "1.0", "6221888200042590281", "1e3", "+1"] {
            assert_eq!(Cell::parse(text).to_string(), text);
        }
        let id = 6_221_888_200_042_590_281;
        assert_eq!(Cell::whole(id).to_string(), id.to_string());
        assert_ne!(Cell::whole(id), Cell::whole(id + 1));
        assert_eq!(Cell::whole(i128::from(INEXACT) - 1).to_string(), "9007199254740991");
        // A typed number has one form.
        assert_eq!(Cell::whole(1).to_string(), Cell::Number(1.0).to_string());
        assert_eq!(Cell::whole(id).number(), Some(6_221_888_200_042_590_281.0));
    }

    /// Whole numbers beyond 64 bits become texts, and all else stays.
    #[test]
    fn long_numbers_of_json_keep_their_digits() {
        let text = br#"{"a": 62218882000425902817777, "b": [-12345678901234567890123, 18446744073709551615], "c": 1e300,
            "d": "say \"62218882000425902817777\" 62218882000425902817777", "e": 123456789012345678901.5}"#;
        let exact = exact_json(text);
        let value: serde_json::Value = serde_json::from_slice(&exact).unwrap();
        assert_eq!(value["a"], "62218882000425902817777");
        assert_eq!(value["b"][0], "-12345678901234567890123");
        assert_eq!(value["b"][1], u64::MAX);
        assert_eq!(value["d"], "say \"62218882000425902817777\" 62218882000425902817777");
        assert!(value["e"].is_f64() && value["c"].is_f64());
        assert!(matches!(exact_json(b"{\"a\": 12, \"b"), Cow::Borrowed(_)));
        assert!(matches!(exact_json(b"\"\\"), Cow::Borrowed(_)));
    }
}
