//! Where kept runs come from: program, date, time taken.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Whether that is processor time. Otherwise it is time by the clock, as in files without this field.
    #[serde(default)]
    pub processor: bool,
}

/// Seconds that the calling thread has been on a processor; `None` where the system does not say.
pub fn processor_seconds() -> Option<f64> {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Some(time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9)
    }
    #[cfg(not(unix))]
    None
}

/// Measures one run: the processor time of the thread that starts it, or time by the clock.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    processor: Option<f64>,
    clock: Instant,
}

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Self {
        Self { processor: processor_seconds(), clock: Instant::now() }
    }

    /// The origin of a run that ends now, on this thread but for `elsewhere` seconds of processor time on
    /// others.
    pub fn made(&self, elsewhere: f64) -> Made {
        let on_processor =
            self.processor.zip(processor_seconds()).map(|(start, end)| end - start + elsewhere);
        let seconds = on_processor.unwrap_or_else(|| self.clock.elapsed().as_secs_f64());
        Made { program: program().into(), at: now(), seconds, processor: on_processor.is_some() }
    }
}

/// The origin of all runs of an experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Origin {
    /// Number of runs by program.
    pub runs: BTreeMap<String, u64>,
    /// When the first and the last ended, in seconds since 1970.
    pub between: Option<(u64, u64)>,
    /// What all runs took, in seconds.
    pub seconds: f64,
    /// The number of runs whose time is by the clock, see [`Made::processor`].
    pub by_clock: u64,
}

impl Origin {
    /// Counts one run.
    pub fn add(&mut self, made: &Made) {
        self.join(&Self {
            runs: [(made.program.clone(), 1)].into(),
            between: Some((made.at, made.at)),
            seconds: made.seconds,
            by_clock: u64::from(!made.processor),
        });
    }

    /// Counts the runs of another experiment.
    pub fn join(&mut self, other: &Self) {
        other.runs.iter().for_each(|(name, n)| *self.runs.entry(name.clone()).or_default() += n);
        let ends = self.between.into_iter().chain(other.between);
        self.between = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        self.seconds += other.seconds;
        self.by_clock += other.by_clock;
    }

    /// Programs, dates and time in a sentence.
    pub fn words(&self) -> String {
        let programs: Vec<_> =
            self.runs.iter().map(|(name, n)| format!("{n} runs by helba-lab {name}")).collect();
        let dates = self.between.map_or(String::new(), |(first, last)| match (date(first), date(last)) {
            (a, b) if a == b => format!(", {a}"),
            (a, b) => format!(", {a} to {b}"),
        });
        format!("{}{dates}; {}", programs.join(", "), self.time())
    }

    /// What all runs took, and how it was measured.
    pub fn time(&self) -> String {
        let all: u64 = self.runs.values().sum();
        let how = match self.by_clock {
            0 => "of processor time",
            n if n == all => "by the clock, added up over runs",
            _ => "added up over runs, of some by the clock and of others of the processor",
        };
        format!("{} {how}", duration(self.seconds))
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
        let made = Made { program: program().into(), at: 86_400 * 2, seconds: 90.0, processor: true };
        origin.add(&made);
        assert!(
            origin.words().starts_with(&format!("1 runs by helba-lab {}, 1970-01-03; 90.0 s", program()))
        );
        assert!(origin.words().ends_with("90.0 s of processor time"));
        assert_eq!(origin.caution(), None);
        // A file without the field has time by the clock.
        let earlier: Made =
            serde_json::from_str(r#"{"program": "0.0.1", "at": 0, "seconds": 60.0}"#).unwrap();
        assert!(!earlier.processor);
        origin.add(&earlier);
        assert!(
            origin.words().contains("1970-01-01 to 1970-01-03; 2.5 minutes added up over runs, of some by")
        );
        let mut by_clock = Origin::default();
        by_clock.add(&earlier);
        assert!(by_clock.words().ends_with("60.0 s by the clock, added up over runs"));
        assert!(origin.caution().unwrap().starts_with("1 runs were kept"));
    }

    /// A thread that sleeps takes none of the time that it takes by the clock.
    #[cfg(unix)]
    #[test]
    fn sleep_is_no_processor_time() {
        let watch = Stopwatch::start();
        std::thread::sleep(Duration::from_millis(300));
        let asleep = watch.made(0.0);
        assert!(asleep.processor && asleep.seconds < 0.2, "{asleep:?}");
        let mut sum = 0u64;
        while watch.made(0.0).seconds < 0.1 {
            sum = std::hint::black_box(sum + 1);
        }
        let busy = watch.made(5.0).seconds;
        assert!(busy >= 5.1 && busy <= 5.1 + watch.clock.elapsed().as_secs_f64(), "{busy}");
    }
}
