//! Calls that wait: for the server, or for cryptography. Each runs on a thread of its own, without the
//! interpreter, so that other threads of the program go on and Ctrl-C ends the wait.

use crate::error::{Failure, raised};
use host::lock;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::Duration;
use user_client::Stop;

/// The time between two looks for a signal.
const TICK: Duration = Duration::from_millis(50);

/// The result of a call, and what the thread does after the caller has the result.
pub(crate) type Worked<T> = Result<(T, Option<Box<dyn FnOnce() + Send>>), Failure>;

/// Runs `work` and returns its result as `convert` makes it. With `done`, returns None at once, and the
/// thread calls `done(result, None)` or `done(None, error)` when it has ended. When a signal has ended the
/// wait, the argument of `work` is stopped, so that it repeats no request.
pub(crate) fn call<T: Send + 'static>(
    py: Python<'_>,
    done: Option<Py<PyAny>>,
    work: impl FnOnce(&Stop) -> Worked<T> + Send + 'static,
    convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    same_process().map_err(|failure| raised(py, failure))?;
    let stop = Stop::default();
    let of_thread = stop.clone();
    let work = move || match catch_unwind(AssertUnwindSafe(|| work(&of_thread))) {
        Ok(Ok((result, after))) => (Ok(result), after),
        Ok(Err(failure)) => (Err(failure), None),
        Err(_) => (Err(Failure::Internal("a call panicked")), None),
    };
    if done.is_some() && *ENDED.read().unwrap_or_else(PoisonError::into_inner) {
        return Err(raised(py, Failure::Ended));
    }
    let Some(done) = done else {
        let (send, mut receive) = sync_channel(1);
        spawn(py, move || {
            let (result, after) = work();
            // A caller that a signal has ended wants no result.
            let _ = send.send(result);
            after.into_iter().for_each(|after| after());
        })?;
        loop {
            let receive = &mut receive;
            match py.detach(move || receive.recv_timeout(TICK)) {
                Ok(result) => return convert(py, result.map_err(|failure| raised(py, failure))?),
                Err(RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| stop.stop())?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(raised(py, Failure::Internal("a thread ended without a result")));
                }
            }
        }
    };
    spawn(py, move || {
        let (result, after) = work();
        // After the interpreter has ended nobody waits.
        attach(|py| {
            let result = result.map_err(|failure| raised(py, failure)).and_then(|result| convert(py, result));
            let told = match result {
                Ok(result) => done.call1(py, (result, py.None())),
                Err(error) => done.call1(py, (py.None(), error.into_value(py))),
            };
            told.map_or_else(|error| error.write_unraisable(py, None), drop);
        });
        after.into_iter().for_each(|after| after());
    })?;
    Ok(py.None())
}

/// Whether the interpreter ends. A thread that enters it holds the lock for reading.
static ENDED: RwLock<bool> = RwLock::new(false);

/// Runs `run` in the interpreter, unless it ends. A thread that enters an interpreter while that is torn down
/// can abort the process (seen with Python 3.11), and nothing tells it in time.
fn attach<T>(run: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    let ended = ENDED.read().unwrap_or_else(PoisonError::into_inner);
    if *ended { None } else { Python::try_attach(run) }
}

/// Waits until no thread of this module is in the interpreter, and lets none enter from then on. The package
/// calls it when the program ends.
#[pyfunction]
pub(crate) fn end(py: Python<'_>) {
    // A process that was forked off has none of the threads, and may have their locks.
    if same_process().is_ok() {
        py.detach(|| *ENDED.write().unwrap_or_else(PoisonError::into_inner) = true);
    }
}

fn spawn(py: Python<'_>, work: impl FnOnce() + Send + 'static) -> PyResult<()> {
    let made = std::thread::Builder::new().name("helba".into()).spawn(work);
    made.map(drop).map_err(|_| raised(py, Failure::Internal("the system starts no thread")))
}

/// Refuses a process that was forked off after the first call: it has the locks of its parent, and none of
/// its threads, so that it would wait for ever.
pub(crate) fn same_process() -> Result<(), Failure> {
    static FIRST: AtomicU32 = AtomicU32::new(0);
    let this = std::process::id();
    match FIRST.compare_exchange(0, this, Ordering::Relaxed, Ordering::Relaxed) {
        Err(first) if first != this => Err(Failure::Forked),
        _ => Ok(()),
    }
}

/// Logs a line at `level`, a method of the logger `helba` of the standard library.
pub(crate) fn log(level: &'static str, line: &str) {
    attach(|py| {
        let logger = py.import("logging").and_then(|logging| logging.call_method1("getLogger", ("helba",)));
        let logged = logger.and_then(|logger| logger.call_method1(level, ("%s", line)));
        logged.map_or_else(|error| error.write_unraisable(py, None), drop);
    });
}

/// Counts work that nobody waits for until the end of the program.
#[derive(Clone, Default)]
pub(crate) struct Unawaited(Arc<(Mutex<usize>, Condvar)>);

impl Unawaited {
    /// Counts until the result is dropped.
    pub(crate) fn begin(&self) -> Begun {
        *lock(&self.0.0) += 1;
        Begun(self.clone())
    }

    /// Waits until nothing is under way, at most for `time`. Returns whether nothing is.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let waited = self.0.1.wait_timeout_while(lock(&self.0.0), time, |count| *count > 0);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

pub(crate) struct Begun(Unawaited);

impl Drop for Begun {
    fn drop(&mut self) {
        *lock(&self.0.0.0) -= 1;
        self.0.0.1.notify_all();
    }
}
