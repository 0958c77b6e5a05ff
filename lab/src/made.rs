//! Where kept runs come from: program, date, time taken.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Version, commit, and the first digits of the digest of the program. The digest tells programs of one
/// commit apart that were built from changed files.
pub fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let file = std::env::current_exe().and_then(std::fs::read).unwrap_or_default();
        let digest = blake3::hash(&file).to_hex();
        format!("{}, commit {}, build {}", env!("CARGO_PKG_VERSION"), env!("LAB_COMMIT"), &digest[..12])
    })
}

/// The seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// `seconds` since 1970 as a date.
pub fn date(seconds: u64) -> String {
    let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string();
    time.split('T').next().unwrap_or_default().to_owned()
}

/// The origin of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Made {
    /// [`program`] that made it.
    pub program: String,
    /// When it ended, in seconds since 1970.
    pub at: u64,
    /// How long it took on one core.
    pub seconds: f64,
}

/// The origin of all runs of an experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Origin {
    /// Number of runs by program.
    pub runs: BTreeMap<String, u64>,
    /// When the first and the last ended, in seconds since 1970.
    pub between: Option<(u64, u64)>,
    /// What all runs took on one core, in seconds.
    pub seconds: f64,
}

impl Origin {
    /// Counts one run.
    pub fn add(&mut self, made: &Made) {
        *self.runs.entry(made.program.clone()).or_default() += 1;
        let (first, last) = self.between.unwrap_or((made.at, made.at));
        self.between = Some((first.min(made.at), last.max(made.at)));
        self.seconds += made.seconds;
    }

    /// Programs, dates and time in a sentence.
    pub fn words(&self) -> String {
        let programs: Vec<_> =
            self.runs.iter().map(|(name, n)| format!("{n} runs by helba-lab {name}")).collect();
        let dates = self.between.map_or(String::new(), |(first, last)| match (date(first), date(last)) {
            (a, b) if a == b => format!(", {a}"),
            (a, b) => format!(", {a} to {b}"),
        });
        format!("{}{dates}; {} on one core", programs.join(", "), duration(self.seconds))
    }

    /// The warning if other programs than this one made some of the runs.
    pub fn caution(&self) -> Option<String> {
        let others: u64 = self.runs.iter().filter(|(name, _)| *name != program()).map(|(_, n)| n).sum();
        (others > 0).then(|| {
            format!("{others} runs were kept from another build: if a policy has changed since, delete the folder runs.")
        })
    }
}

/// Seconds in words.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.1} s"),
        s if s < 6000.0 => format!("{:.1} minutes", s / 60.0),
        s => format!("{:.1} hours", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_name_programs_dates_and_time() {
        let mut origin = Origin::default();
        assert_eq!(origin.caution(), None);
        origin.add(&Made { program: program().into(), at: 86_400 * 2, seconds: 90.0 });
        assert!(
            origin.words().starts_with(&format!("1 runs by helba-lab {}, 1970-01-03; 90.0 s", program()))
        );
        assert_eq!(origin.caution(), None);
        origin.add(&Made { program: "0.0.1".into(), at: 0, seconds: 60.0 });
        assert!(origin.words().contains("1970-01-01 to 1970-01-03; 2.5 minutes"));
        assert!(origin.caution().unwrap().starts_with("1 runs were kept"));
    }
}
