use crate::error::Failure;
use crate::keys::{Keys, or_raise};
use crate::work::same_process;
use host::{lock, os_rng};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Mutex;
use user_client::{Choice, Error, Pending};
use wire::{Problem, ProblemType};
use zeroize::Zeroize;

/// A decision of an encrypted bandit, with what its feedback needs. It has no Debug, because it holds
/// contexts.
#[pyclass(frozen, module = "helba._native")]
pub(crate) struct Answer {
    pub(crate) pending: Pending,
    /// Round and users of the evaluation. None of a stored decision.
    seen: Option<Seen>,
    /// The arm and the reward that were sent.
    sent: Mutex<Option<(usize, f64)>>,
}

#[derive(Clone, Copy)]
struct Seen {
    round: u64,
    users: u32,
}

impl Answer {
    pub(crate) fn new(pending: Pending, choice: &Choice) -> Self {
        let seen = Seen { round: choice.round, users: choice.users };
        Answer { pending, seen: Some(seen), sent: Mutex::default() }
    }

    /// Notes what is about to be sent: the server reads the first reward alone, and cannot say that another
    /// one differs.
    pub(crate) fn note(&self, arm: usize, reward: f64) -> Result<(), Error> {
        let mut sent = lock(&self.sent);
        match *sent {
            Some(first) if first != (arm, reward) => {
                let detail = "the feedback on this decision was sent before with another reward or arm, and the first counts";
                Err(Error::Refused(Problem { detail: detail.into(), ..ProblemType::Answered.into() }))
            }
            _ => {
                *sent = Some((arm, reward));
                Ok(())
            }
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.pending.contexts.zeroize();
    }
}

#[pymethods]
impl Answer {
    #[getter]
    fn id(&self) -> String {
        self.pending.decision.to_string()
    }

    #[getter]
    fn bandit(&self) -> &str {
        &self.pending.created.id
    }

    #[getter]
    fn server(&self) -> &str {
        &self.pending.server
    }

    #[getter]
    fn arm(&self) -> usize {
        self.pending.arm
    }

    #[getter]
    fn round(&self) -> Option<u64> {
        self.seen.map(|seen| seen.round)
    }

    #[getter]
    fn users(&self) -> Option<u32> {
        self.seen.map(|seen| seen.users)
    }

    #[getter]
    fn reliable(&self) -> bool {
        self.pending.reliable
    }

    /// The decision as bytes that holders of these keys can open.
    fn seal<'py>(&self, py: Python<'py>, keys: &Keys) -> PyResult<Bound<'py, PyBytes>> {
        let sealed = || {
            same_process()?;
            Ok(self.pending.seal(&keys.device, &mut os_rng()?)?)
        };
        or_raise(py, sealed()).map(|bytes| PyBytes::new(py, &bytes))
    }

    /// Opens the bytes of `seal`.
    #[staticmethod]
    fn unseal(py: Python<'_>, bytes: &[u8], keys: &Keys) -> PyResult<Self> {
        let opened = || -> Result<Pending, Failure> { Ok(Pending::unseal(bytes, &keys.device)?) };
        Ok(Answer { pending: or_raise(py, opened())?, seen: None, sent: Mutex::default() })
    }
}
