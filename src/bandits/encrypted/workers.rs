//! Threads for uploads and feedback, beside those of evaluations.
//!
//! The threads of an evaluation take its own work first, so that an upload would wait there until it ends. An
//! upload takes less than a millisecond: it is computed on one thread, since waking another takes longer than
//! it saves, and a worker waits for the next one asleep.

use crate::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, mpsc};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// Worker threads, which end with the last copy of this.
#[derive(Clone)]
pub(super) struct Workers {
    queue: mpsc::Sender<Job>,
}

impl Workers {
    /// Starts `threads` threads.
    pub(super) fn start(threads: usize) -> Result<Self, Error> {
        let (queue, jobs) = mpsc::channel();
        let jobs = Arc::new(Mutex::new(jobs));
        for i in 0..threads {
            let jobs = jobs.clone();
            let thread = std::thread::Builder::new().name(format!("upload-{i}"));
            thread.spawn(move || work(&jobs)).map_err(|_| Error::Broken("threads that do not start"))?;
        }
        Ok(Workers { queue })
    }

    /// Runs `work` on one of the threads, in the runtime of the caller. It ends even if the caller does not
    /// wait for it.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (done, result) = oneshot::channel();
        let runtime = Handle::current();
        let job = move || {
            let _entered = runtime.enter();
            // The receiver is gone if the client is.
            let _ = done.send(work());
        };
        let sent = self.queue.send(Box::new(job));
        sent.map_err(|_| Error::Broken("the threads of uploads ended"))?;
        result.await.map_err(|_| Error::Broken("a computation panicked"))?
    }
}

fn work(jobs: &Mutex<mpsc::Receiver<Job>>) {
    // Parallel iterators of a job run here, and on no other thread.
    let Ok(_alone) = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build() else {
        return tracing::error!("a thread for uploads did not start");
    };
    loop {
        let job = host::lock(jobs).recv();
        let Ok(job) = job else { return };
        // The hook of the process has reported a panic, and who waits for the result is told.
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rayon::prelude::*;

    /// Work runs on the workers alone, in the runtime of the caller; a panic ends its own job.
    #[test]
    fn work_stays_on_its_worker() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let workers = Workers::start(2).unwrap();
        for _ in 0..4 {
            let panicked = runtime.block_on(workers.run::<()>(|| panic!("a test of panics")));
            assert!(matches!(panicked, Err(Error::Broken(_))));
        }
        let name = || std::thread::current().name().map(String::from);
        let work = move || {
            let mine = name();
            let theirs: Vec<_> = (0..100).into_par_iter().map(|_| name()).collect();
            tokio::spawn(async {});
            assert!(mine.as_ref().is_some_and(|mine| mine.starts_with("upload-")));
            Ok(theirs.into_iter().all(|other| other == mine))
        };
        assert!(runtime.block_on(workers.run(work)).unwrap());
    }
}
