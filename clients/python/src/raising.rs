use crate::connection::Connection;
use crate::error::Failure;
use crate::keys::{needed, or_raise};
use crate::work::{call, log, same_process};
use host::{lock, os_rng};
use pyo3::prelude::*;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use user_client::{MOST_WAITING, Raiser, RaiserOptions, Stop};

/// A raiser on a thread of its own.
#[pyclass(frozen, module = "helba._native")]
pub(crate) struct Raising {
    stop: Stop,
    ended: Arc<Ended>,
}

#[derive(Default)]
struct Ended {
    /// None while it runs.
    result: Mutex<Option<Result<(), Option<Failure>>>>,
    changed: Condvar,
}

#[pymethods]
impl Raising {
    /// Starts a raiser for these bandits, or for all of the server if there are none, with so many requests
    /// that wait for tasks of each bandit.
    #[new]
    fn new(py: Python<'_>, connection: &Connection, bandits: Vec<String>, waiting: usize) -> PyResult<Self> {
        let start = || {
            same_process()?;
            let device = needed(connection.keys())?;
            if !(1..=MOST_WAITING).contains(&waiting) {
                return Err(Failure::Argument(format!(
                    "waiting is {waiting}, it must be from 1 to {MOST_WAITING}"
                )));
            }
            let options =
                RaiserOptions { bandits: bandits.into_iter().collect(), waiting, ..RaiserOptions::default() };
            let (stop, ended) = (Stop::default(), Arc::new(Ended::default()));
            let client = connection.client();
            let raiser =
                Raiser::new(client, device, options, stop.clone(), os_rng()?, |line| log("info", line));
            let of_thread = ended.clone();
            let made = std::thread::Builder::new().name("helba-raiser".into()).spawn(move || {
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| raiser.run()));
                let result = match result {
                    Ok(ended) => ended.map_err(|error| Some(error.into())),
                    Err(_) => Err(Some(Failure::Internal("the raiser panicked"))),
                };
                *lock(&of_thread.result) = Some(result);
                of_thread.changed.notify_all();
            });
            made.map_err(|_| Failure::Internal("the system starts no thread"))?;
            Ok(Raising { stop, ended })
        };
        or_raise(py, start())
    }

    /// Gives the order to stop, and returns at once.
    fn stop(&self) {
        self.stop.stop();
    }

    /// Waits until the raiser has ended, at most for so many seconds. Returns whether it has. Raises its
    /// error, once.
    #[pyo3(signature = (seconds=None, done=None))]
    fn wait(&self, py: Python<'_>, seconds: Option<f64>, done: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        let ended = self.ended.clone();
        let most = seconds.map_or(Duration::MAX, |s| Duration::try_from_secs_f64(s).unwrap_or_default());
        let work = move |stop: &Stop| {
            let began = std::time::Instant::now();
            let mut result = lock(&ended.result);
            while result.is_none() && began.elapsed() < most && !stop.is_stopped() {
                let left = most.saturating_sub(began.elapsed()).min(Duration::from_millis(500));
                result = ended.changed.wait_timeout(result, left).unwrap_or_else(PoisonError::into_inner).0;
            }
            match result.as_mut() {
                Some(Err(failure)) => failure.take().map_or(Ok((true, None)), Err),
                Some(Ok(())) => Ok((true, None)),
                None => Ok((false, None)),
            }
        };
        call(py, done, work, |py, ended| Ok(ended.into_pyobject(py)?.to_owned().into_any().unbind()))
    }
}

impl Drop for Raising {
    fn drop(&mut self) {
        self.stop.stop();
    }
}
