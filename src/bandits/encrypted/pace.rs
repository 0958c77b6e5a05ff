//! Spaces the batch updates of a bandit while many users ask, so that updates take a tenth of the
//! processors at most. Few users have every update at once. Counts the contexts that arrive.
//!
//! Many ask who send [`MANY`] requests a second, or [`SHARED`] that the last evaluation answers at once. An
//! update in slots begins after the pause with the feedback of its batch; one by products takes what has
//! come until then too ([`Event::Closed`](helba::Event::Closed)).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// As many decisions in a second are many.
const MANY: u32 = 20;
/// As many requests in one evaluation are many.
const SHARED: usize = 8;
/// The pause after an update, in times of its length.
const PAUSES: u32 = 9;

/// How many users ask, and when the last update ended.
pub(super) struct Pace {
    /// The second that is counted.
    began: Instant,
    asked: u32,
    asked_before: u32,
    /// The requests of the last evaluation.
    shared: usize,
    /// The time that the steps of the update under way have taken.
    steps: Duration,
    /// End and length of the last update.
    updated: Option<(Instant, Duration)>,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Pace { began: now, asked: 0, asked_before: 0, shared: 0, steps: Duration::ZERO, updated: None }
    }

    /// Counts a request for a decision.
    pub(super) fn ask(&mut self, now: Instant) {
        let seconds = now.duration_since(self.began).as_secs();
        if seconds > 0 {
            self.asked_before = if seconds == 1 { self.asked } else { 0 };
            (self.began, self.asked) = (now, 0);
        }
        self.asked += 1;
    }

    /// Notes an evaluation of so many requests.
    pub(super) fn evaluate(&mut self, requests: usize) {
        self.shared = requests;
    }

    /// Notes a step of an update.
    pub(super) fn step(&mut self, took: Duration) {
        self.steps += took;
    }

    /// Notes that an update ends now, and returns the length of its steps.
    pub(super) fn update(&mut self, now: Instant) -> Duration {
        let took = std::mem::take(&mut self.steps);
        self.updated = Some((now, took));
        took
    }

    /// The time until the next update may begin.
    pub(super) fn pause(&self, now: Instant) -> Duration {
        let Some((end, took)) = self.updated else { return Duration::ZERO };
        let recent = now.duration_since(self.began) < Duration::from_secs(2);
        let many = self.asked.max(self.asked_before) >= MANY || self.shared >= SHARED;
        if !recent || !many {
            return Duration::ZERO;
        }
        (took * PAUSES).saturating_sub(now.duration_since(end))
    }
}

/// How many requests for decisions have arrived, and how many of them are in a pack, were answered or ended.
#[derive(Default)]
pub(super) struct Arrivals {
    arrived: AtomicU64,
    placed: AtomicU64,
}

/// A request that is not in a pack yet.
pub(super) struct OnTheWay(Arc<Arrivals>);

impl Arrivals {
    pub(super) fn arrived(&self) -> u64 {
        self.arrived.load(Relaxed)
    }

    pub(super) fn placed(&self) -> u64 {
        self.placed.load(Relaxed)
    }
}

impl OnTheWay {
    pub(super) fn new(arrivals: Arc<Arrivals>) -> Self {
        arrivals.arrived.fetch_add(1, Relaxed);
        OnTheWay(arrivals)
    }
}

impl Drop for OnTheWay {
    fn drop(&mut self) {
        self.0.placed.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request whose client left while it waited is not waited for.
    #[test]
    fn requests_that_end_are_not_on_their_way() {
        let arrivals = Arc::new(Arrivals::default());
        let (first, second) = (OnTheWay::new(arrivals.clone()), OnTheWay::new(arrivals.clone()));
        drop(second);
        assert_eq!((arrivals.arrived(), arrivals.placed()), (2, 1));
        drop(first);
        assert_eq!((arrivals.arrived(), arrivals.placed()), (2, 2));
    }

    #[test]
    fn updates_pause_while_many_ask() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut pace = Pace::new(start);
        (0..30).for_each(|i| pace.ask(at(10 * i)));
        assert_eq!(pace.pause(at(300)), Duration::ZERO, "no update yet");
        pace.step(Duration::from_millis(40));
        pace.step(Duration::from_millis(20));
        assert_eq!(pace.update(at(400)), Duration::from_millis(60));
        assert_eq!(pace.pause(at(500)), Duration::from_millis(440));
        assert_eq!(pace.pause(at(940)), Duration::ZERO);
        // The second before counts, and one without a request ends the crowd.
        pace.ask(at(1100));
        pace.step(Duration::from_millis(200));
        pace.update(at(1100));
        assert_eq!(pace.pause(at(1200)), Duration::from_millis(1700));
        pace.ask(at(2200));
        assert_eq!(pace.pause(at(2200)), Duration::ZERO);
        let mut few = Pace::new(start);
        (0..5).for_each(|i| few.ask(at(10 * i)));
        few.step(Duration::from_millis(200));
        few.update(at(100));
        assert_eq!(few.pause(at(100)), Duration::ZERO);
        // Few that one evaluation answers at once are many, on a machine that decides slowly.
        few.evaluate(SHARED);
        assert_eq!(few.pause(at(100)), Duration::from_millis(1800));
        few.evaluate(1);
        assert_eq!(few.pause(at(100)), Duration::ZERO);
    }
}
