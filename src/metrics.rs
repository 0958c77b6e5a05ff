//! What the server measures of itself: the times of its steps, the bytes of bodies, and the statuses of
//! answers. All of it is counters of a fixed number, which start at 0 with the process. They hold sizes and
//! times, which the server sees anyway, and nothing of contents.

use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A step of a request or of the work behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The contexts of an encrypted decision are read and multiplied by the model.
    Scores,
    /// Its scores are added to the pack.
    Pack,
    /// A sealed pack waits for a holder of the key.
    Raise,
    /// The circuit on the raised scores of all users of a pack.
    Evaluation,
    /// The entries of a pack of several requests wait for a holder of the key.
    Exchange,
    /// The answers of all users of a pack.
    Answers,
    /// An encrypted feedback is counted and on disk.
    Feedback,
    /// The inverse and the estimate of a batch.
    Update,
    /// A decision of a clear policy is made and on disk.
    ClearDecision,
    /// A feedback of a clear policy is counted and on disk.
    ClearFeedback,
}

impl Step {
    /// All steps.
    pub(crate) const ALL: [Step; 10] = [
        Step::Scores,
        Step::Pack,
        Step::Raise,
        Step::Evaluation,
        Step::Exchange,
        Step::Answers,
        Step::Feedback,
        Step::Update,
        Step::ClearDecision,
        Step::ClearFeedback,
    ];

    /// The name in answers.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Step::Scores => "scores",
            Step::Pack => "pack",
            Step::Raise => "raise",
            Step::Evaluation => "evaluation",
            Step::Exchange => "exchange",
            Step::Answers => "answers",
            Step::Feedback => "feedback",
            Step::Update => "update",
            Step::ClearDecision => "clear_decision",
            Step::ClearFeedback => "clear_feedback",
        }
    }
}

/// The upper ends of the intervals in which times are counted, in microseconds. One more interval has all
/// longer times.
pub(crate) const BOUNDS: [u64; 18] = [
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    30_000_000,
    100_000_000,
];

/// The counters of a server.
pub(crate) struct Metrics {
    started: Instant,
    steps: [Histogram; Step::ALL.len()],
    received: AtomicU64,
    sent: AtomicU64,
    asked_again: AtomicU64,
    /// By the first digit of the status, from 1.
    answers: [AtomicU64; 5],
}

/// Times, counted in intervals.
#[derive(Default)]
struct Histogram {
    counts: [AtomicU64; BOUNDS.len() + 1],
    microseconds: AtomicU64,
}

/// The times of a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct StepTimes {
    pub(crate) step: &'static str,
    /// How often it was done.
    pub(crate) count: u64,
    /// The seconds of all together.
    pub(crate) seconds: f64,
    /// How many took as long as each bound or less, and more than the bound before.
    pub(crate) counts: Vec<u64>,
}

/// Bytes of bodies, and answers by the class of their status.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Traffic {
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
    /// Answers with a status from 200 to 299, from 300, from 400 and from 500.
    pub(crate) answers: [u64; 4],
}

impl Metrics {
    /// Counters at 0.
    pub(crate) fn new(started: Instant) -> Self {
        let (steps, answers) = Default::default();
        let [received, sent, asked_again] = Default::default();
        Metrics { started, steps, received, sent, asked_again, answers }
    }

    /// Counts a step that took so long.
    pub(crate) fn took(&self, step: Step, time: Duration) {
        let Histogram { counts, microseconds } = &self.steps[step as usize];
        let time = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let at = BOUNDS.partition_point(|bound| *bound < time);
        counts[at].fetch_add(1, Ordering::Relaxed);
        microseconds.fetch_add(time, Ordering::Relaxed);
    }

    /// Counts the bytes of a body that was read.
    pub(crate) fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts an answer with this status and so many bytes.
    pub(crate) fn answered(&self, status: u16, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
        let class = usize::from(status / 100).clamp(1, self.answers.len());
        self.answers[class - 1].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an encrypted decision that was asked for again.
    pub(crate) fn asked_again(&self) {
        self.asked_again.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of encrypted decisions that were asked for again, since their device saw an answer outside
    /// its range.
    pub(crate) fn all_asked_again(&self) -> u64 {
        self.asked_again.load(Ordering::Relaxed)
    }

    /// The time since the server was started.
    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// The times of all steps.
    pub(crate) fn steps(&self) -> Vec<StepTimes> {
        let times = |step: Step| {
            let Histogram { counts, microseconds } = &self.steps[step as usize];
            let counts: Vec<u64> = counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
            let seconds = microseconds.load(Ordering::Relaxed) as f64 * 1e-6;
            StepTimes { step: step.name(), count: counts.iter().sum(), seconds, counts }
        };
        Step::ALL.into_iter().map(times).collect()
    }

    /// The bytes and answers so far.
    pub(crate) fn traffic(&self) -> Traffic {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let answers = [1, 2, 3, 4].map(|class| load(&self.answers[class]));
        Traffic { received_bytes: load(&self.received), sent_bytes: load(&self.sent), answers }
    }
}

/// The upper ends of the intervals in seconds.
pub(crate) fn bounds() -> [f64; BOUNDS.len()] {
    BOUNDS.map(|bound| bound as f64 / 1e6)
}

/// The memory of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Memory {
    /// Resident now.
    pub(crate) resident_bytes: u64,
    /// The most that was resident.
    pub(crate) peak_bytes: u64,
}

impl Memory {
    /// That of this process, from `/proc/self/status`. `None` where there is no such file.
    pub(crate) fn now() -> Option<Self> {
        Self::of(&std::fs::read_to_string("/proc/self/status").ok()?)
    }

    fn of(status: &str) -> Option<Self> {
        let bytes = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field))?;
            let kibibytes = line.trim_start_matches(':').trim().strip_suffix(" kB")?;
            kibibytes.trim().parse::<u64>().ok()?.checked_mul(1024)
        };
        Some(Memory { resident_bytes: bytes("VmRSS")?, peak_bytes: bytes("VmHWM")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_in_their_intervals() {
        let metrics = Metrics::new(Instant::now());
        let micros = [0, 100, 101, 100_000_000, 100_000_001];
        micros.into_iter().for_each(|time| metrics.took(Step::Pack, Duration::from_micros(time)));
        metrics.took(Step::Update, Duration::MAX);
        let steps = metrics.steps();
        let [pack, update] = [Step::Pack, Step::Update].map(|step| &steps[step as usize]);
        assert_eq!((pack.step, pack.count), ("pack", 5));
        assert!((pack.seconds - 200.000202).abs() < 1e-9, "{}", pack.seconds);
        let mut counts = vec![0; BOUNDS.len() + 1];
        (counts[0], counts[1], counts[17], counts[18]) = (2, 1, 1, 1);
        assert_eq!(pack.counts, counts);
        assert_eq!((update.count, update.counts[18]), (1, 1));
        assert!(steps.iter().zip(Step::ALL).all(|(times, step)| times.step == step.name()));
        assert!(BOUNDS.is_sorted());
    }

    #[test]
    fn answers_are_counted_by_their_class() {
        let metrics = Metrics::new(Instant::now());
        for status in [200, 204, 304, 404, 499, 500, 599, 999] {
            metrics.answered(status, 10);
        }
        metrics.received(7);
        let want = Traffic { received_bytes: 7, sent_bytes: 80, answers: [2, 1, 2, 3] };
        assert_eq!(metrics.traffic(), want);
    }

    #[test]
    fn memory_is_read_from_the_status_of_the_process() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t3\n";
        assert_eq!(Memory::of(status), Some(Memory { resident_bytes: 1 << 20, peak_bytes: 2 << 20 }));
        for bad in ["", "VmRSS:\t1 kB\n", "VmRSS:\tx kB\nVmHWM:\t1 kB\n", "VmRSS:\t1\nVmHWM:\t1 kB"] {
            assert_eq!(Memory::of(bad), None, "{bad:?}");
        }
        #[cfg(target_os = "linux")]
        assert!(Memory::now().is_some_and(|memory| memory.resident_bytes > 1 << 20));
    }
}
