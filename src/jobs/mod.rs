//! Bounds on the computations of the server at a time.

mod updates;

pub(crate) use updates::Updates;

use crate::error::Error;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Admits requests to computation.
pub(crate) struct Admission {
    requests: Arc<Semaphore>,
    sizings: Arc<Semaphore>,
    metrics: Arc<Semaphore>,
}

/// A place among the requests that are computed. It is kept until all memory of the request is free.
#[derive(Debug)]
#[must_use = "a place is given back when it is dropped"]
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
}

/// The kind of work of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Work of some milliseconds.
    Short,
    /// The calibration of the noise of a new policy, which takes seconds. It takes no place of other
    /// requests.
    Sizing,
    /// Counters of all bandits. It takes no place of other requests either, so that a server at its limit can
    /// be watched.
    Metrics,
}

impl Admission {
    /// Admits at most `most` requests at a time.
    pub(crate) fn new(most: usize) -> Self {
        let semaphore = |permits: usize| Arc::new(Semaphore::new(permits.clamp(1, Semaphore::MAX_PERMITS)));
        Admission { requests: semaphore(most), sizings: semaphore(1), metrics: semaphore(2) }
    }

    /// A place for a request, which is admitted at once or refused.
    pub(crate) fn admit(&self, work: Work) -> Result<Place, Error> {
        let permit = match work {
            Work::Short => self.requests.clone().try_acquire_owned().map_err(|_| Error::Overloaded),
            Work::Metrics => self.metrics.clone().try_acquire_owned().map_err(|_| Error::Overloaded),
            Work::Sizing => self.sizings.clone().try_acquire_owned().map_err(|_| Error::SizingNoise),
        };
        Ok(Place { _permit: permit? })
    }
}

/// Runs `work` on a thread for blocking work, and gives `place` back when it is done. The work continues if
/// the client disconnects.
pub(crate) async fn run<T: Send + 'static>(
    place: Option<Place>,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let work = move || {
        let _place = place;
        work()
    };
    let lost = |_| Error::Broken("a computation panicked");
    tokio::task::spawn_blocking(work).await.map_err(lost)?
}
