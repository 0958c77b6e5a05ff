//! Spaces the batch updates of a bandit while many users ask, so that updates take a tenth of the
//! processors at most. Few users have every update at once. Counts the contexts that arrive.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// As many decisions in a second are many.
const MANY: u32 = 20;
/// The pause after an update, in times of its length.
const PAUSES: u32 = 9;

/// How many users ask, and when the last update ended.
pub(super) struct Pace {
    /// The second that is counted.
    began: Instant,
    asked: u32,
    asked_before: u32,
    /// End and length of the last update.
    updated: Option<(Instant, Duration)>,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Pace { began: now, asked: 0, asked_before: 0, updated: None }
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

    /// Notes an update of this length that ends now.
    pub(super) fn update(&mut self, now: Instant, took: Duration) {
        self.updated = Some((now, took));
    }

    /// The time until the next update may begin.
    pub(super) fn pause(&self, now: Instant) -> Duration {
        let Some((end, took)) = self.updated else { return Duration::ZERO };
        let recent = now.duration_since(self.began) < Duration::from_secs(2);
        if !recent || self.asked.max(self.asked_before) < MANY {
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
        pace.update(at(400), Duration::from_millis(60));
        assert_eq!(pace.pause(at(500)), Duration::from_millis(440));
        assert_eq!(pace.pause(at(940)), Duration::ZERO);
        // The second before counts, and one without a request ends the crowd.
        pace.ask(at(1100));
        pace.update(at(1100), Duration::from_millis(200));
        assert_eq!(pace.pause(at(1200)), Duration::from_millis(1700));
        pace.ask(at(2200));
        assert_eq!(pace.pause(at(2200)), Duration::ZERO);
        let mut few = Pace::new(start);
        (0..5).for_each(|i| few.ask(at(10 * i)));
        few.update(at(100), Duration::from_millis(200));
        assert_eq!(few.pause(at(100)), Duration::ZERO);
    }
}
