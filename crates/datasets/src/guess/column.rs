//! What is seen in a column, and the encoding that fits it.

use super::names::{CODE, has_word};
use crate::time::is_date;
use schema::{Cell, Encoding, Schema};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The most categories for which a one-hot encoding is proposed.
pub(super) const FEW: usize = 16;
/// The most values of a column that are told apart by name.
pub(super) const MAX_DISTINCT: usize = 256;
/// The most values of a column that are counted.
pub(super) const MAX_COUNTED: usize = 1 << 12;
/// The most texts among numbers that are kept.
const MAX_STRAYS: usize = 8;
/// The share of the values of a column of numbers that may be other texts.
const STRAY_SHARE: f64 = 0.05;

/// What was seen in a column or field.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnSeen {
    /// Its name.
    pub name: String,
    /// Number of rows in which it has a value.
    pub values: u64,
    /// Number of rows in which it has none.
    pub missing: u64,
    /// The values, up to 256 of them.
    pub distinct: BTreeSet<String>,
    /// Whether there are more.
    pub more: bool,
    /// Hashes of the values, up to [`MAX_COUNTED`].
    hashes: HashSet<u64>,
    /// The numbers if the column is read with a decimal point, and if with a decimal comma.
    numbers: [Numbers; 2],
    /// Number of words for yes and no.
    words: u64,
    /// The first line of each unit of the numbers, and of numbers without one.
    units: BTreeMap<&'static str, u64>,
    /// Number of values that are times since 1970.
    epochs: u64,
    /// Whether a number would be another one with a decimal comma.
    ambiguous: bool,
    /// Whether other columns of the file have a decimal comma.
    beside_comma: bool,
    /// Number of dates.
    dates: u64,
    /// Whether a value is a whole number with leading zeros or with more digits than a double holds.
    coded: bool,
    /// Whether each number is the one before it and 1.
    serial: bool,
    /// The lines at which texts that are no numbers stand first, and how often each does.
    strays: BTreeMap<String, (u64, u64)>,
    /// Why it may be known only after the outcome, and what to do if it is not.
    pub(super) after: Option<String>,
}

/// The numbers of a column in one form.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Numbers {
    /// How many values are numbers.
    count: u64,
    /// How many are numbers in this form only.
    alone: u64,
    range: [f64; 2],
    whole: bool,
    sum: f64,
    last: f64,
}

/// The encoding that fits a column, and what its numbers need.
pub(super) struct Fitting {
    pub(super) encoding: Encoding,
    pub(super) comma: bool,
    pub(super) no_value: Vec<String>,
    pub(super) note: Option<String>,
}

impl ColumnSeen {
    pub(super) fn new(name: &str) -> Self {
        let none = Numbers {
            count: 0,
            alone: 0,
            range: [f64::INFINITY, f64::NEG_INFINITY],
            whole: true,
            sum: 0.0,
            last: f64::NAN,
        };
        ColumnSeen {
            name: name.into(),
            values: 0,
            missing: 0,
            distinct: BTreeSet::new(),
            more: false,
            hashes: HashSet::new(),
            numbers: [none; 2],
            words: 0,
            units: BTreeMap::new(),
            epochs: 0,
            ambiguous: false,
            beside_comma: false,
            dates: 0,
            coded: false,
            serial: true,
            strays: BTreeMap::new(),
            after: None,
        }
    }

    /// Notes that it may be known only after the outcome.
    pub(super) fn doubt(&mut self, reason: &str) {
        self.after = Some(format!("{reason}. If it is known when the choice is made, add it"));
    }

    pub(super) fn see(&mut self, line: u64, cell: &Cell) {
        if cell.is_missing() {
            self.missing += 1;
            return;
        }
        self.values += 1;
        let text = cell.to_string();
        let forms = [cell.number(), cell.number_with_comma()];
        for (numbers, (number, other)) in
            self.numbers.iter_mut().zip([(forms[0], forms[1]), (forms[1], forms[0])])
        {
            let Some(x) = number else { continue };
            numbers.count += 1;
            numbers.alone += u64::from(other.is_none());
            numbers.range = [numbers.range[0].min(x), numbers.range[1].max(x)];
            numbers.whole &= x.fract() == 0.0;
            numbers.sum += x;
            self.serial &= numbers.last.is_nan() || x == numbers.last + 1.0;
            numbers.last = x;
        }
        if forms == [None, None] {
            self.words += u64::from(cell.truth().is_some());
            self.dates += u64::from(is_date(&text));
            let short: String = text.chars().take(80).collect();
            if let Some((_, times)) = self.strays.get_mut(&short) {
                *times += 1;
            } else if self.strays.len() < MAX_DISTINCT {
                self.strays.insert(short, (line, 1));
            }
        } else {
            self.units.entry(cell.unit().unwrap_or("")).or_insert(line);
            if let [Some(point), Some(comma)] = forms {
                self.ambiguous |= point != comma;
                let since_1970 = |unit: f64| (1e9 * unit..2.2e9 * unit).contains(&point);
                self.epochs += u64::from(point.fract() == 0.0 && [1.0, 1e3, 1e6].into_iter().any(since_1970));
            }
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            self.coded |= digits && (text.len() > 15 || (text.len() > 1 && text.starts_with('0')));
        }
        if self.hashes.len() < MAX_COUNTED {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            self.hashes.insert(hasher.finish());
        }
        if !self.more {
            let text: String = text.chars().take(80).collect();
            self.more = self.distinct.len() == MAX_DISTINCT && !self.distinct.contains(&text);
            if !self.more {
                self.distinct.insert(text);
            }
        }
    }

    /// Takes in what was seen in another column of the same feature.
    pub(super) fn merge(&mut self, other: &ColumnSeen) {
        self.values += other.values;
        self.missing += other.missing;
        self.more |= other.more;
        self.distinct.extend(other.distinct.iter().cloned());
        self.hashes.extend(&other.hashes);
        for (a, b) in self.numbers.iter_mut().zip(&other.numbers) {
            a.count += b.count;
            a.alone += b.alone;
            a.range = [a.range[0].min(b.range[0]), a.range[1].max(b.range[1])];
            a.whole &= b.whole;
            a.sum += b.sum;
        }
        for (unit, line) in &other.units {
            let first = self.units.entry(unit).or_insert(*line);
            *first = (*first).min(*line);
        }
        self.epochs += other.epochs;
        self.ambiguous |= other.ambiguous;
        self.beside_comma |= other.beside_comma;
        self.words += other.words;
        self.dates += other.dates;
        self.coded |= other.coded;
        self.serial &= other.serial;
        self.after = self.after.take().or_else(|| other.after.clone());
        for (text, (line, times)) in &other.strays {
            let stray = self.strays.entry(text.clone()).or_insert((*line, 0));
            *stray = (stray.0.min(*line), stray.1 + times);
        }
    }

    /// Number of different values, up to [`MAX_COUNTED`].
    pub(super) fn count(&self) -> usize {
        self.hashes.len()
    }

    /// Whether the numbers of the column have a decimal comma: some are numbers with it alone, and none with
    /// a point alone. Where all could be either, other columns of the file tell.
    pub(super) fn has_comma(&self) -> bool {
        let [point, comma] = &self.numbers;
        point.alone == 0 && (comma.alone > 0 || (self.ambiguous && self.beside_comma))
    }

    /// Says that other columns of the file have a decimal comma.
    pub(super) fn stands_beside_comma(&mut self) {
        self.beside_comma = true;
    }

    fn form(&self) -> &Numbers {
        &self.numbers[usize::from(self.has_comma())]
    }

    /// Number of values that are no numbers, in the form of most.
    pub(super) fn texts(&self) -> u64 {
        self.values - self.form().count
    }

    /// Least and largest number; infinite where there is none.
    pub(super) fn range(&self) -> [f64; 2] {
        self.form().range
    }

    /// Whether all numbers are whole.
    pub(super) fn is_whole(&self) -> bool {
        self.form().whole && self.texts() == 0
    }

    /// Whether all values are 0 or 1, as numbers or as words, and both occur.
    pub(super) fn is_binary(&self) -> bool {
        if self.values == 0 || self.more || self.distinct.len() < 2 {
            return false;
        }
        let truth = |text: &String| {
            let cell = Cell::parse(text);
            cell.number().or_else(|| cell.truth()).filter(|x| *x == 0.0 || *x == 1.0)
        };
        let values: Option<Vec<f64>> = self.distinct.iter().map(truth).collect();
        values.is_some_and(|values| values.contains(&0.0) && values.contains(&1.0))
    }

    pub(super) fn is_constant(&self) -> bool {
        !self.more && self.distinct.len() <= 1
    }

    /// Whether the values are dates or times: texts of dates, days such as 20260131, or seconds or
    /// milliseconds since 1970.
    pub(super) fn is_time(&self) -> bool {
        if self.values == 0 {
            return false;
        }
        if self.texts() > 0 {
            return self.dates == self.values;
        }
        let [least, most] = self.range();
        let within = |a: f64, b: f64| least >= a && most <= b;
        // Seconds may stand beside milliseconds.
        if self.epochs == self.values && self.count() > FEW {
            return true;
        }
        let day = |text: &String| {
            text.len() == 8 && {
                let (month, day) = (text[4..6].parse().unwrap_or(0), text[6..].parse().unwrap_or(0));
                (1..=12).contains(&month) && (1..=31).contains(&day)
            }
        };
        self.is_whole()
            && self.count() > FEW
            && within(19_000_101.0, 22_001_231.0)
            && self.distinct.iter().all(|text| text.is_ascii() && day(text))
    }

    /// What `[reward_range]` a column of rewards needs; `None` for rewards from 0 to 1.
    pub(super) fn reward_range(&self) -> Option<[f64; 2]> {
        let [least, most] = self.range();
        match () {
            () if self.form().count == 0 || (least >= 0.0 && most <= 1.0) => None,
            () if least < most => Some([least, most]),
            () if least > 0.0 => Some([0.0, least]),
            () => Some([least, 0.0]),
        }
    }

    /// Two units in one column, of which a number of one cannot be compared with one of the other.
    fn mixed_units(&self) -> Option<String> {
        let mut units: Vec<(&str, u64)> = self.units.iter().map(|(unit, line)| (*unit, *line)).collect();
        units.sort_by_key(|(_, line)| *line);
        let [(a, first), (b, second), ..] = units.as_slice() else { return None };
        let words =
            |unit: &str| if unit.is_empty() { "no unit".to_string() } else { format!("the unit {unit}") };
        Some(format!(
            "its numbers have {} (line {first}) and {} (line {second}): write all of them alike",
            words(a),
            words(b)
        ))
    }

    /// Whether the values are numbers, or words for yes and no, but for a few others, which are then texts
    /// that stand for no value.
    pub(super) fn as_numbers(&self) -> Result<Fitting, String> {
        let numbers = self.form();
        let texts = self.texts();
        // Words are numbers if nothing but 0 and 1 stands beside them.
        let agree = self.words > 0
            && (numbers.count == 0 || (numbers.whole && numbers.range[0] >= 0.0 && numbers.range[1] <= 1.0));
        let others = if agree { texts - self.words } else { texts };
        let is_word = |text: &str| agree && Cell::Text(text.into()).truth().is_some();
        let strays: Vec<(&String, &(u64, u64))> =
            self.strays.iter().filter(|(text, _)| !is_word(text)).collect();
        if let Some(said) = self.mixed_units() {
            return Err(said);
        }
        // Points set nothing apart in a file without a comma.
        let comma = self.has_comma();
        let unsure = self.ambiguous && (comma || self.distinct.iter().any(|text| text.contains(',')));
        let note = unsure.then(|| {
            let (sign, other) =
                if comma { ("a decimal comma", "a point") } else { ("a decimal point", "a comma") };
            format!("{}: its numbers are read with {sign}; with {other} some would be others", self.name)
        });
        let fitting = Fitting { encoding: Encoding::MinMax, comma, no_value: Vec::new(), note };
        let of_form = |text: &str| {
            let cell = Cell::Text(text.into());
            (if self.has_comma() { cell.number_with_comma() } else { cell.number() }).is_some()
        };
        if others == 0 {
            return Ok(fitting);
        }
        let first = strays.iter().min_by_key(|(_, (line, _))| *line);
        let place = match first {
            Some((text, (line, _))) => format!("the first is {text:?} in line {line}"),
            // Numbers in two forms: the texts of one are the others.
            None => match self.distinct.iter().find(|text| !of_form(text)) {
                Some(text) => format!("such as {text:?}, which has another decimal sign than the others"),
                None => "they have another decimal sign than the others".into(),
            },
        };
        if others == self.values {
            return Err(format!(
                "its values are no numbers, and no words such as yes and no ({place}): add a column with 1 and 0 or with numbers in its place"
            ));
        }
        let said = format!("{others} of {} values are no numbers as the others are ({place})", self.values);
        if others as f64 > (STRAY_SHARE * self.values as f64).max(1.0)
            || strays.len() > MAX_STRAYS
            || strays.iter().map(|(_, (_, times))| times).sum::<u64>() != others
            || numbers.count + self.words < 2
        {
            return Err(said);
        }
        let no_value = strays.iter().map(|(text, _)| text.to_string()).collect();
        let note =
            Some(format!("{}: {said}, and are read as no value: mend them, or leave it so", self.name));
        Ok(Fitting { no_value, note, ..fitting })
    }

    /// The encoding proposed, or the reason why the column is no feature. `rounds` is the number of rounds,
    /// where a column has one value in each.
    pub(super) fn fitting(&self) -> Result<Fitting, String> {
        if self.values == 0 {
            return Err("it has no value".into());
        }
        if self.is_constant() {
            return Err("it is constant".into());
        }
        if self.is_time() {
            return Err("it holds dates or times".into());
        }
        if let Some(reason) = &self.after {
            return Err(reason.clone());
        }
        let few = self.count() <= FEW;
        let unique =
            self.count() > FEW && self.count() as f64 > 0.5 * (self.values as f64).min(MAX_COUNTED as f64);
        let hashed = |what: String| Fitting {
            encoding: Encoding::Hash(8),
            comma: false,
            no_value: Vec::new(),
            note: Some(format!("{}: {what} share 8 features by a hash", self.name)),
        };
        let category = |what: &str| match () {
            () if few => {
                Ok(Fitting { encoding: Encoding::OneHot, comma: false, no_value: Vec::new(), note: None })
            }
            () if unique => Err(format!("nearly every row has another {what}")),
            () => Ok(hashed(format!("{} {what}s", self.counted()))),
        };
        if let Some(said) = self.mixed_units() {
            return Err(said);
        }
        let numbers = self.as_numbers();
        if self.coded {
            return category("number that is an id");
        }
        let mut fitting = match numbers {
            Ok(fitting) => fitting,
            Err(_) if self.form().count == 0 => return category("text"),
            Err(said) => {
                let fitting = category("text").map_err(|reason| format!("{reason}, and {said}"))?;
                let how = if fitting.encoding == Encoding::OneHot {
                    "all are categories"
                } else {
                    "all are hashed"
                };
                return Ok(Fitting { note: Some(format!("{}: {said}: {how}", self.name)), ..fitting });
            }
        };
        // A last category such as `3+` is none of many numbers.
        let digits = |text: &String| text.bytes().any(|byte| byte.is_ascii_digit());
        if few && fitting.no_value.iter().any(digits) {
            return category("text");
        }
        let numbers = self.form();
        if numbers.count > 0 && numbers.whole && self.words == 0 {
            if self.serial && self.count() > FEW {
                return Err("it numbers the rows".into());
            }
            if has_word(&self.name, CODE) && !self.is_binary() {
                return category("number that is an id by its name");
            }
        }
        let mean = numbers.sum / numbers.count.max(1) as f64;
        fitting.encoding = match numbers.range {
            _ if self.is_binary() => Encoding::Plain,
            // A few large values would leave nothing of the others.
            [least, most] if least >= 0.0 && most > 50.0 * mean => Encoding::Log,
            _ => Encoding::MinMax,
        };
        Ok(fitting)
    }

    fn counted(&self) -> String {
        match self.count() {
            MAX_COUNTED => format!("more than {MAX_COUNTED}"),
            n => n.to_string(),
        }
    }

    /// Number of features that an encoding makes of the column.
    pub(super) fn features(&self, encoding: Encoding) -> usize {
        match encoding {
            Encoding::OneHot => self.count(),
            Encoding::Hash(n) => n,
            _ => 1,
        }
    }
}

impl Fitting {
    /// Enters what the numbers of the column `name` need into a schema.
    pub(super) fn enter(&self, name: &str, schema: &mut Schema) {
        if self.comma {
            schema.decimal_comma.push(name.into());
        }
        for text in &self.no_value {
            if !schema.no_value.contains(text) {
                schema.no_value.push(text.clone());
            }
        }
    }
}
