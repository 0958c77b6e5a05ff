//! How much a member computes at once.

use super::Error;
use host::lock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The most questions that wait while another one is being computed.
const MOST_WAITING: usize = 16;

/// One computation at a time, and a bounded number of those that wait for it.
#[derive(Default)]
pub(super) struct Turns {
    alone: Mutex<()>,
    /// The one that is computed, and those that wait.
    taken: AtomicUsize,
}

/// The turn of one question, until it is dropped.
pub(super) struct Turn<'a> {
    _place: Place<'a>,
    _alone: MutexGuard<'a, ()>,
}

struct Place<'a>(&'a Turns);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Turns {
    /// Waits until nothing else is computed.
    ///
    /// # Errors
    /// [`Error::Busy`] if as many wait as may.
    pub(super) fn take(&self) -> Result<Turn<'_>, Error> {
        let before = self.taken.fetch_add(1, Ordering::Relaxed);
        let place = Place(self);
        if before > MOST_WAITING {
            return Err(Error::Busy { waiting: MOST_WAITING });
        }
        Ok(Turn { _alone: lock(&self.alone), _place: place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// One computes, sixteen wait, and the next is refused. Those who waited have their turns one by one.
    #[test]
    fn one_computes_and_sixteen_wait() {
        let (turns, inside, done) = (Turns::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            let first = turns.take().unwrap();
            for _ in 0..MOST_WAITING {
                scope.spawn(|| {
                    let _turn = turns.take().unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two compute at once");
                    std::thread::sleep(Duration::from_millis(1));
                    inside.fetch_sub(1, Ordering::SeqCst);
                    done.fetch_add(1, Ordering::SeqCst);
                });
            }
            let began = Instant::now();
            while turns.taken.load(Ordering::SeqCst) <= MOST_WAITING {
                assert!(began.elapsed() < Duration::from_secs(60));
                std::thread::yield_now();
            }
            assert!(matches!(turns.take(), Err(Error::Busy { waiting: 16 })));
            assert_eq!(done.load(Ordering::SeqCst), 0);
            drop(first);
        });
        assert_eq!((done.into_inner(), turns.taken.load(Ordering::SeqCst)), (MOST_WAITING, 0));
        drop(turns.take().unwrap());
    }
}
