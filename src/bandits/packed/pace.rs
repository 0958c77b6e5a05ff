//! Spaces the batch updates of a bandit while many users ask, so that updates take a quarter of the
//! processors at most. Few users have every update at once.

use std::time::{Duration, Instant};

/// As many decisions in a second are many.
const MANY: u32 = 20;
/// The pause after an update, in times of its length.
const PAUSES: u32 = 3;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_pause_while_many_ask() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut pace = Pace::new(start);
        (0..30).for_each(|i| pace.ask(at(10 * i)));
        assert_eq!(pace.pause(at(300)), Duration::ZERO, "no update yet");
        pace.update(at(400), Duration::from_millis(200));
        assert_eq!(pace.pause(at(500)), Duration::from_millis(500));
        assert_eq!(pace.pause(at(1001)), Duration::ZERO);
        // The second before counts, and one without a request ends the crowd.
        pace.ask(at(1100));
        pace.update(at(1100), Duration::from_millis(200));
        assert_eq!(pace.pause(at(1200)), Duration::from_millis(500));
        pace.ask(at(2200));
        assert_eq!(pace.pause(at(2200)), Duration::ZERO);
        let mut few = Pace::new(start);
        (0..5).for_each(|i| few.ask(at(10 * i)));
        few.update(at(100), Duration::from_millis(200));
        assert_eq!(few.pause(at(100)), Duration::ZERO);
    }
}
