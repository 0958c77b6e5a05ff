use crate::error::Failure;
use crate::keys::{Keys, or_raise};
use crate::work::same_process;
use host::{lock, os_rng};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Mutex;
use user_client::{Choice, Error, Pending, explore};
use wire::{Problem, ProblemType};
use zeroize::Zeroize;

/// A decision of an encrypted bandit, with what its feedback needs. It has no Debug, because it holds
/// contexts.
#[pyclass(frozen, module = "helba._native")]
pub(crate) struct Answer {
    pub(crate) pending: Pending,
    /// Round and users of the evaluation. None of a stored decision.
    seen: Option<Seen>,
    /// What the bandit chose, and the probability of the arm to play. None of a stored decision.
    drawn: Option<(usize, f64)>,
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
        let drawn = Some((pending.arm, 1.0));
        Answer { pending, seen: Some(seen), drawn, sent: Mutex::default() }
    }

    /// Notes what is about to be sent: the server reads the first reward alone, and cannot say that another
    /// one differs.
    pub(crate) fn note(&self, arm: usize, reward: f64) -> Result<(), Error> {
        let mut sent = lock(&self.sent);
        match *sent {
            Some(first) if first != (arm, reward) => Err(answered()),
            _ => {
                *sent = Some((arm, reward));
                Ok(())
            }
        }
    }
}

/// The refusal of a second feedback that differs from the first.
pub(crate) fn answered() -> Error {
    let detail =
        "the feedback on this decision was sent before with another reward or arm, and the first counts";
    Error::Refused(Problem { detail: detail.into(), ..ProblemType::Answered.into() })
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

    /// The arm that the bandit chose.
    #[getter]
    fn chosen(&self) -> Option<usize> {
        self.drawn.map(|(chosen, _)| chosen)
    }

    /// The probability with which the arm was to be played.
    #[getter]
    fn probability(&self) -> Option<f64> {
        self.drawn.map(|(_, probability)| probability)
    }

    /// The decision whose arm is drawn uniformly from the open ones with probability `epsilon`.
    fn explored(&self, py: Python<'_>, epsilon: f64) -> PyResult<Self> {
        let mut rng = or_raise(py, os_rng().map_err(Failure::from))?;
        let mut pending = self.pending.clone();
        let (arm, probability) = explore(pending.arm, &pending.contexts, epsilon, &mut rng);
        let drawn = Some((std::mem::replace(&mut pending.arm, arm), probability));
        Ok(Answer { pending, seen: self.seen, drawn, sent: Mutex::default() })
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
        Ok(Answer { pending: or_raise(py, opened())?, seen: None, drawn: None, sent: Mutex::default() })
    }
}
