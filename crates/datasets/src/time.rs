//! Instants: times as people and programs write them.

use schema::Cell;

/// Whether times ascend, and what keeps them from being compared.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock {
    before: Option<(Instant, u64)>,
    late: u64,
    fault: Option<String>,
}

/// A time, and how it is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Instant {
    /// Microseconds since 1970, in universal time if the zone is known; or any number.
    micros: f64,
    scale: Scale,
}

/// What a time is counted in. Times of two scales are compared only where both are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    /// A date or a time of day with its zone.
    Zoned,
    /// A date or a time of day without one.
    Local,
    /// A number since 1970 that is too large for another: its unit.
    Since1970(&'static str),
    /// Any number, such as a day or a round.
    Number,
}

impl Clock {
    /// Takes the time of the next round in.
    pub(crate) fn see(&mut self, line: u64, time: &Cell) {
        if time.is_missing() {
            return;
        }
        let Some(now) = Instant::of(time) else {
            let text: String = time.to_string().chars().take(40).collect();
            self.fault.get_or_insert_with(|| {
                format!(
                    "times such as {text:?} in line {line} are not read, and their order is not checked: write them as \
                     2026-01-31T13:45:00Z, or as numbers"
                )
            });
            return;
        };
        if let Some((before, first)) = self.before {
            if before.scale != now.scale {
                let (a, b) = (before.scale.words(), now.scale.words());
                self.fault.get_or_insert_with(|| {
                    format!("the column of times has {a} (line {first}) and {b} (line {line}): write all of them alike")
                });
            }
            if before.comparable(now) {
                self.late += u64::from(now.micros < before.micros);
            }
        }
        self.before = Some((now, line));
    }

    /// Number of rounds that are earlier than their predecessor.
    pub(crate) fn late(&self) -> u64 {
        self.late
    }

    pub(crate) fn fault(&self) -> Option<String> {
        self.fault.clone()
    }
}

impl Scale {
    fn words(self) -> &'static str {
        match self {
            Scale::Zoned => "times with a zone",
            Scale::Local => "times without a zone",
            Scale::Since1970(unit) => unit,
            Scale::Number => "small numbers",
        }
    }
}

/// Units of numbers since 1970: the name, the least number taken for one, and microseconds. From 2001 on,
/// and to the year 5138, a number has one unit.
const UNITS: [(&str, f64, f64); 4] = [
    ("nanoseconds", 1e17, 1e-3),
    ("microseconds", 1e14, 1.0),
    ("milliseconds", 1e11, 1e3),
    ("seconds", 1e9, 1e6),
];

impl Instant {
    /// The instant of a number or of a date, with a time of day and a zone or without: `2026-01-31`,
    /// `2026-01-31T13:45:00.5+01:00`, `31.01.2026 13:45`. Dates with slashes that do not begin with the year
    /// have two readings, and are none.
    pub(crate) fn of(cell: &Cell) -> Option<Self> {
        let number = match cell {
            Cell::Number(number) => Some(*number),
            Cell::Text(text) => text.parse::<f64>().ok(),
            Cell::Missing => None,
        };
        if let Some(number) = number.filter(|number| number.is_finite()) {
            let unit = UNITS.iter().find(|(_, least, _)| number >= *least && number < 1e20);
            return Some(match unit {
                Some((name, _, micros)) => Instant { micros: number * micros, scale: Scale::Since1970(name) },
                None => Instant { micros: number, scale: Scale::Number },
            });
        }
        let Cell::Text(text) = cell else { return None };
        date_time(text)
    }

    fn comparable(self, other: Self) -> bool {
        let absolute = |scale| matches!(scale, Scale::Zoned | Scale::Since1970(_));
        self.scale == other.scale || (absolute(self.scale) && absolute(other.scale))
    }
}

/// Whether a text is a date or a time, and no number.
pub(crate) fn is_date(text: &str) -> bool {
    text.parse::<f64>().is_err() && (date_time(text).is_some() || slashed(text))
}

/// Whether a text is a date with slashes, day and month in whatever order: `3/14/2026 9:30`.
fn slashed(text: &str) -> bool {
    let date = text.split([' ', 'T']).next().unwrap_or_default();
    let parts: Vec<&str> = date.split('/').collect();
    parts.len() == 3 && parts.iter().all(|part| (1..=4).contains(&part.len()) && part.parse::<u16>().is_ok())
}

fn date_time(text: &str) -> Option<Instant> {
    let text = text.trim();
    let split = text.find(['T', 't', ' ']);
    let (date, rest) = split.map_or((text, ""), |at| (&text[..at], text[at + 1..].trim()));
    let days = days(date)?;
    let (time, zone) = zone(rest)?;
    let seconds = if time.is_empty() { 0.0 } else { seconds(time)? };
    let micros = (days as f64 * 86_400.0 + seconds - f64::from(zone.unwrap_or(0)) * 60.0) * 1e6;
    Some(Instant { micros, scale: if zone.is_some() { Scale::Zoned } else { Scale::Local } })
}

/// Days since 1970-01-01 of `2026-01-31`, `2026/1/31` or `31.1.2026`, in the Gregorian calendar.
fn days(date: &str) -> Option<i64> {
    let by = date.chars().find(|c| matches!(c, '-' | '/' | '.'))?;
    let parts: Vec<i64> = date
        .split(by)
        .map(|part| part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok())?)
        .collect::<Option<_>>()?;
    let first = date.split(by).next().unwrap_or_default();
    let (year, month, day) = match (parts.as_slice(), by, first.len()) {
        (&[year, month, day], '-' | '/', 4) => (year, month, day),
        (&[day, month, year], '.', 1 | 2) => (year, month, day),
        _ => return None,
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=length).contains(&day) || !(1..=9999).contains(&year) {
        return None;
    }
    // Days from 0000-03-01, with leap days at the end of the year (Hinnant, "chrono-compatible low-level date
    // algorithms", `days_from_civil`).
    let year = year - i64::from(month <= 2);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year - 719_468)
}

/// The time of day before a zone, and the minutes by which the zone is ahead of universal time.
fn zone(text: &str) -> Option<(&str, Option<i32>)> {
    if let Some(time) = ["Z", "z", "UTC", "GMT"].iter().find_map(|zone| text.strip_suffix(zone)) {
        return Some((time.trim_end(), Some(0)));
    }
    let Some(at) = text.rfind(['+', '-', '\u{2212}']) else { return Some((text, None)) };
    let (time, zone) = text.split_at(at);
    let ahead = if zone.starts_with('+') { 1 } else { -1 };
    let digits: String = zone.chars().skip(1).filter(|c| *c != ':').collect();
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let minutes = match digits.len() {
        1 | 2 => digits.parse::<i32>().ok()? * 60,
        4 => digits[..2].parse::<i32>().ok()? * 60 + digits[2..].parse::<i32>().ok()?,
        _ => return None,
    };
    (minutes <= 14 * 60).then_some((time.trim_end(), Some(ahead * minutes)))
}

/// Seconds since midnight of `13:45`, `13:45:30.25`, or `1:45 PM`.
fn seconds(time: &str) -> Option<f64> {
    let upper = time.to_ascii_uppercase();
    let (time, half) = match (upper.strip_suffix("AM"), upper.strip_suffix("PM")) {
        (Some(time), _) => (time.trim_end(), Some(0.0)),
        (_, Some(time)) => (time.trim_end(), Some(12.0)),
        _ => (upper.as_str(), None),
    };
    let mut parts = time.split(':');
    let whole = |part: &str, most: f64| {
        let digits = (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| part.parse::<f64>().ok())?.filter(|value| *value <= most)
    };
    let hour = whole(parts.next()?, if half.is_some() { 12.0 } else { 24.0 })?;
    let minute = whole(parts.next()?, 59.0)?;
    let second = match parts.next() {
        None => 0.0,
        Some(part) => {
            let (seconds, fraction) = part.split_once(['.', ',']).unwrap_or((part, ""));
            let fraction = if fraction.is_empty() {
                0.0
            } else {
                fraction
                    .bytes()
                    .all(|b| b.is_ascii_digit())
                    .then(|| format!("0.{fraction}").parse::<f64>().ok())??
            };
            whole(seconds, 60.0)? + fraction
        }
    };
    let hour = half.map_or(hour, |half| hour % 12.0 + half);
    parts.next().is_none().then_some(hour * 3600.0 + minute * 60.0 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(text: &str) -> Option<f64> {
        Instant::of(&Cell::parse(text)).map(|instant| instant.micros)
    }

    /// Instants of GNU date: `date -u -d TEXT +%s`.
    #[test]
    fn times_are_instants() {
        for (text, seconds) in [
            ("2026-03-29T01:30:00+01:00", 1_774_744_200.0),
            ("2026-03-29T00:45:00Z", 1_774_745_100.0),
            ("2026-03-28T20:50:00-04:00", 1_774_745_400.0),
            ("2026-03-28 20:50:00 -0400", 1_774_745_400.0),
            ("2024-02-29", 1_709_164_800.0),
            ("29.02.2024 12:00", 1_709_208_000.0),
            ("2024/02/29 12:00:00.5", 1_709_208_000.5),
            ("2024-02-29 1:15 PM", 1_709_212_500.0),
            ("1969-12-31T23:59:59Z", -1.0),
            ("1774745100", 1_774_745_100.0),
            ("1774745100000", 1_774_745_100.0),
        ] {
            assert_eq!(micros(text), Some(seconds * 1e6), "{text}");
        }
        for text in [
            "2026-02-30",
            "2026-13-01",
            "03/04/2026",
            "week 3",
            "2026-03-29T25:00Z",
            "2026-03-29T10:00+99:00",
        ] {
            assert_eq!(micros(text), None, "{text}");
        }
        assert!(is_date("03/04/2026") && is_date("2026-01-01") && !is_date("3") && !is_date("tea"));
    }

    fn seen(texts: &[&str]) -> (u64, Option<String>) {
        let mut clock = Clock::default();
        for (line, text) in texts.iter().enumerate() {
            clock.see(line as u64 + 2, &Cell::parse(text));
        }
        (clock.late(), clock.fault())
    }

    /// Times with zones are compared as instants, and what cannot be compared is said.
    #[test]
    fn zones_and_units_are_compared() {
        let ascending = ["2026-03-29T01:30:00+01:00", "2026-03-29T00:45:00Z", "2026-03-28T20:50:00-04:00"];
        assert_eq!(seen(&ascending), (0, None));
        assert_eq!(seen(&["2026-03-29T00:45:00Z", "2026-03-29T01:30:00+01:00"]), (1, None));
        assert_eq!(seen(&["9", "10", "11", "3"]), (1, None));
        let (late, fault) = seen(&["1774745100", "1774745101000", "1774745102"]);
        assert_eq!(late, 0);
        let fault = fault.unwrap();
        assert!(fault.contains("seconds (line 2)") && fault.contains("milliseconds (line 3)"), "{fault}");
        let (late, fault) = seen(&["2026-03-29T00:45:00Z", "2026-03-29T00:30:00"]);
        assert!(late == 0 && fault.unwrap().contains("without a zone"));
        let (late, fault) = seen(&["spring", "autumn"]);
        assert!(late == 0 && fault.unwrap().contains("\"spring\" in line 2"));
    }
}
