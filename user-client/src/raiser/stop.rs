use host::lock;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The order to stop, which all threads of a raiser share. Clones are the same order.
#[derive(Clone, Default)]
pub struct Stop(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    stopped: bool,
    /// The number of threads that compute or send an answer.
    busy: usize,
}

impl Stop {
    /// Gives the order. Answers that were begun are sent, and no other is begun.
    pub fn stop(&self) {
        lock(&self.0.state).stopped = true;
        self.0.changed.notify_all();
    }

    /// Whether the order was given.
    pub fn is_stopped(&self) -> bool {
        lock(&self.0.state).stopped
    }

    /// Sleeps until the order is given, at most for `time`. Returns whether it was.
    pub fn wait(&self, time: Duration) -> bool {
        self.wait_while(time, |state| !state.stopped)
    }

    /// Sleeps until no thread is busy, at most for `time`. Returns whether none is.
    pub fn wait_until_idle(&self, time: Duration) -> bool {
        self.wait_while(time, |state| state.busy > 0)
    }

    fn wait_while(&self, time: Duration, condition: impl Fn(&State) -> bool) -> bool {
        let state = lock(&self.0.state);
        let waited = self.0.changed.wait_timeout_while(state, time, |state| condition(state));
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Marks this thread as busy until the result is dropped. `None` after the order.
    pub fn begin(&self) -> Option<Busy<'_>> {
        let mut state = lock(&self.0.state);
        if state.stopped {
            return None;
        }
        state.busy += 1;
        Some(Busy(self))
    }
}

pub struct Busy<'a>(&'a Stop);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        lock(&self.0.0.state).busy -= 1;
        self.0.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever sleeps wakes up, what was begun is waited for, and nothing new begins.
    #[test]
    fn a_stop_wakes_sleepers_and_waits_for_answers() {
        let (stop, short, long) = (Stop::default(), Duration::from_millis(10), Duration::from_secs(60));
        assert!(!stop.wait(short) && stop.wait_until_idle(short));
        let busy = stop.begin().unwrap();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| stop.wait(long));
            stop.stop();
            assert!(sleeper.join().unwrap());
            assert!(!stop.wait_until_idle(short) && stop.begin().is_none());
            let waiter = scope.spawn(|| stop.wait_until_idle(long));
            drop(busy);
            assert!(waiter.join().unwrap());
        });
    }
}
