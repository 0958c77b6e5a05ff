//! From when until when certificates are valid (RFC 5280, section 4.1.2.5).

use rustls::pki_types::CertificateDer;
use std::time::SystemTime;

const DAY: i64 = 24 * 3600;
/// A certificate that ends within this time is to be renewed, or within a third of its life if that is less.
const SOON: i64 = 14 * DAY;
const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The tag of the version of a certificate, which those of version 1 do not have.
const VERSION: u8 = 0xa0;

/// A time in seconds since 1970, negative before.
pub(crate) fn now() -> i64 {
    match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_secs()).map_or(i64::MIN, |seconds| -seconds),
    }
}

/// One end of the time in which a certificate is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
struct End {
    seconds: i64,
    /// As people read it.
    text: String,
}

/// The time in which a certificate is valid, both ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Validity {
    begins: End,
    ends: End,
}

impl Validity {
    /// That of a certificate. `None` for bytes that are none.
    pub(crate) fn of(certificate: &CertificateDer) -> Option<Self> {
        let (outer, _) = tagged(certificate, SEQUENCE)?;
        let (mut fields, _) = tagged(outer, SEQUENCE)?;
        if let Some((_, after)) = tagged(fields, VERSION) {
            fields = after;
        }
        // Serial number, algorithm and issuer.
        for _ in 0..3 {
            fields = element(fields)?.2;
        }
        let (times, _) = tagged(fields, SEQUENCE)?;
        let (tag, begins, rest) = element(times)?;
        let begins = time(tag, begins)?;
        let (tag, ends, _) = element(rest)?;
        Some(Validity { begins, ends: time(tag, ends)? })
    }

    /// When it ends, in seconds since 1970.
    pub(crate) fn ends(&self) -> i64 {
        self.ends.seconds
    }

    /// Why no device takes it at this time.
    pub(crate) fn fault(&self, now: i64) -> Option<String> {
        if now > self.ends.seconds {
            return Some(format!("expired on {}", self.ends.text));
        }
        (now < self.begins.seconds).then(|| format!("is not valid yet, but from {} on", self.begins.text))
    }

    /// What its owner should know at this time.
    pub(crate) fn warning(&self, now: i64) -> Option<String> {
        let left = self.ends.seconds.saturating_sub(now);
        let soon = SOON.min(self.ends.seconds.saturating_sub(self.begins.seconds) / 3);
        let ends = || (left < soon).then(|| format!("ends on {}, in {} days", self.ends.text, left / DAY));
        self.fault(now).or_else(ends)
    }
}

/// The first element: its tag, its content, and what follows it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // Lengths of certificates fit three bytes.
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// The content of the first element, which must have this tag, and what follows it.
fn tagged(bytes: &[u8], want: u8) -> Option<(&[u8], &[u8])> {
    element(bytes).filter(|(tag, ..)| *tag == want).map(|(_, content, rest)| (content, rest))
}

/// `YYMMDDhhmmssZ` from 1950 to 2049, or `YYYYMMDDhhmmssZ`.
fn time(tag: u8, text: &[u8]) -> Option<End> {
    let digits = text.strip_suffix(b"Z")?;
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => {
            let year = number(&digits[..2])?;
            (if year < 50 { 2000 + year } else { 1900 + year }, &digits[2..])
        }
        (GENERALIZED_TIME, 14) => (number(&digits[..4])?, &digits[4..]),
        _ => return None,
    };
    let fields: Vec<i64> = rest.chunks(2).map(number).collect::<Option<_>>()?;
    let &[month, day, hour, minute, second] = &fields[..] else { return None };
    let fits =
        (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 61;
    let seconds = days(year, month, day) * DAY + hour * 3600 + minute * 60 + second;
    let text = format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC");
    fits.then_some(End { seconds, text })
}

fn number(digits: &[u8]) -> Option<i64> {
    digits
        .iter()
        .try_fold(0, |number, digit| digit.is_ascii_digit().then(|| 10 * number + i64::from(digit - b'0')))
}

/// Days from 1970-01-01 to a date of the Gregorian calendar, by years that begin in March, so that a leap day
/// is the last one.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_years = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // 719468 days from 0000-03-01 to 1970-01-01.
    of_years + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    fn certificate(begins: (i32, u8, u8), ends: (i32, u8, u8)) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(vec!["localhost".into()]).unwrap();
        params.not_before = date_time_ymd(begins.0, begins.1, begins.2);
        params.not_after = date_time_ymd(ends.0, ends.1, ends.2);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    /// Against the calendar of another crate, over both forms of times.
    #[test]
    fn dates_are_those_of_the_certificate() {
        for begins in [(1950, 1, 1), (1969, 12, 31), (1970, 1, 1), (2000, 2, 29), (2020, 1, 1)] {
            for ends in
                [(2021, 1, 1), (2024, 2, 29), (2049, 12, 31), (2050, 1, 1), (2100, 3, 1), (4096, 1, 1)]
            {
                let got = Validity::of(&certificate(begins, ends)).unwrap();
                let want = [begins, ends].map(|(y, m, d)| date_time_ymd(y, m, d).unix_timestamp());
                assert_eq!([got.begins.seconds, got.ends()], want, "{begins:?} {ends:?}");
            }
        }
        let got = Validity::of(&certificate((2020, 1, 1), (2021, 7, 9))).unwrap();
        assert_eq!(got.ends.text, "2021-07-09 00:00 UTC");
    }

    #[test]
    fn what_is_said_depends_on_the_time() {
        let validity = Validity::of(&certificate((2020, 1, 1), (2021, 1, 1))).unwrap();
        let at = |y, m, d| validity.warning(date_time_ymd(y, m, d).unix_timestamp()).unwrap_or_default();
        assert!(at(2019, 12, 31).contains("not valid yet, but from 2020-01-01"));
        assert!(at(1969, 1, 1).contains("not valid yet"));
        assert_eq!(at(2020, 12, 1), "");
        assert_eq!(at(2020, 12, 20), "ends on 2021-01-01 00:00 UTC, in 12 days");
        assert_eq!(at(2021, 1, 2), "expired on 2021-01-01 00:00 UTC");
        assert!(validity.fault(date_time_ymd(2020, 12, 20).unix_timestamp()).is_none());
        // One of six days is to be renewed in its last two.
        let short = Validity::of(&certificate((2020, 1, 1), (2020, 1, 7))).unwrap();
        let at = |d| short.warning(date_time_ymd(2020, 1, d).unix_timestamp());
        assert!(at(2).is_none() && at(4).is_none() && at(6).is_some());
    }

    #[test]
    fn bytes_that_are_no_certificate_have_no_dates() {
        let whole = certificate((2020, 1, 1), (2021, 1, 1));
        for end in 0..whole.len() {
            let _ = Validity::of(&CertificateDer::from(whole[..end].to_vec()));
        }
        for at in 0..whole.len() {
            for byte in [0, 0x30, 0x7f, 0x80, 0x84, 0xff] {
                let mut bytes = whole.to_vec();
                bytes[at] = byte;
                let _ = Validity::of(&CertificateDer::from(bytes));
            }
        }
        assert_eq!(Validity::of(&CertificateDer::from(Vec::new())), None);
        assert_eq!(time(UTC_TIME, b"2013010000"), None);
        assert_eq!(time(GENERALIZED_TIME, b"20211301000000Z"), None);
    }
}
