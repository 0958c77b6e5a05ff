//! Bandits of a committee, for a session of this process.

use crate::connection::{creation, json};
use crate::decision::answered;
use crate::error::Failure;
use crate::work::call;
use host::{lock, os_rng};
use protocol::BanditConfig;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::json;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use user_client::{
    Client, CommitteeSession, CommitteeUser, Error, Keep, KeptSession, OF_KEYS_ALONE, Stop, patiently,
};

/// The most decisions of a call that are asked for at a time: members compute them together.
const AT_A_TIME: usize = 16;

/// The committee of a server, and this process's session with it, which begins with the first call that needs
/// it. Every method that waits takes `done`: see `helba._calls`.
#[pyclass(frozen, module = "helba._native")]
#[derive(Clone)]
pub(crate) struct Committee(Arc<Inner>);

struct Inner {
    session: CommitteeSession,
    patience: Duration,
}

/// The parameters of bandits under keys that those of a committee do not have, and why.
#[pyfunction]
pub(crate) fn of_keys_alone() -> Vec<(&'static str, &'static str)> {
    OF_KEYS_ALONE.to_vec()
}

/// The feedback on a decision that was sent. The server takes the same message again, and no other one.
#[pyclass(frozen, module = "helba._native")]
#[derive(Default)]
pub(crate) struct Told(Mutex<Option<(f64, Vec<u8>)>>);

#[pymethods]
impl Told {
    #[new]
    fn new() -> Self {
        Told::default()
    }
}

impl Committee {
    /// The committee with this id, in hexadecimal digits, and the session that is kept in a file or given as
    /// bytes; none without all of them.
    pub(crate) fn new(
        client: &Client,
        patience: Duration,
        id: Option<&str>,
        file: Option<PathBuf>,
        bytes: Option<&[u8]>,
    ) -> Result<Option<Self>, Failure> {
        let no_id =
            "committee must have 64 hexadecimal digits: give the id that the committee's members print";
        let no_session = "the session is not one that session_bytes() has returned: give these bytes, or the path of a file";
        let read = |text| wire::from_hex(text).ok_or_else(|| Failure::Argument(no_id.into()));
        let keep = match (id.map(read).transpose()?, file, bytes) {
            (None, None, None) => return Ok(None),
            (Some(id), None, None) => Keep::Nowhere(id),
            (id, Some(file), _) => Keep::File(id, file),
            (id, None, Some(bytes)) => {
                let session = KeptSession::from_bytes(bytes);
                let session = session.ok_or_else(|| Failure::Keys(no_session.into()))?;
                Keep::Program(id, session)
            }
        };
        let session = CommitteeSession::new(client.clone().telling(tell), keep);
        Ok(Some(Committee(Arc::new(Inner { session, patience }))))
    }
}

#[pymethods]
impl Committee {
    /// The bytes from which the session goes on.
    #[pyo3(signature = (done=None))]
    fn session(&self, py: Python<'_>, done: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        let inner = self.0.clone();
        let work = move |stop: &Stop| Ok((inner.user(stop)?.session(), None));
        call(py, done, work, |py, session| Ok(PyBytes::new(py, session.bytes()).into_any().unbind()))
    }

    /// Creates a bandit with the linear bandit of this configuration, the least number of sessions of a batch
    /// and the most decisions of a session between two batches, the range of rewards, and these name and
    /// tags.
    #[pyo3(signature = (configuration, rules, rewards, labels, done=None))]
    fn create(
        &self,
        py: Python<'_>,
        configuration: String,
        rules: (u16, u16),
        rewards: Option<[f64; 2]>,
        labels: (Option<String>, Vec<String>),
        done: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.request(py, done, move |inner, stop| {
            let config: BanditConfig = serde_json::from_str(&configuration)
                .map_err(|e| Failure::Argument(format!("the configuration cannot be read: {e}")))?;
            let creation = creation(labels)?;
            let create = || inner.session.create(&config.linear, rules, rewards, config.counters, &creation);
            json(&inner.patiently(stop, create)?)
        })
    }

    /// Decisions on these contexts.
    #[pyo3(signature = (id, contexts, done=None))]
    fn decide(
        &self,
        py: Python<'_>,
        id: String,
        contexts: Vec<Vec<Vec<f64>>>,
        done: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.request(py, done, move |inner, stop| {
            let bandit = inner.patiently(stop, || inner.session.bandit(&id))?;
            let one = contexts.len() == 1;
            for (at, rows) in contexts.iter().enumerate() {
                match CommitteeUser::check_contexts(&bandit, rows) {
                    Err(Error::Protocol(error)) => {
                        return Err(Failure::Contexts((!one).then_some(at), error));
                    }
                    checked => checked?,
                }
            }
            let user = inner.user(stop)?;
            let decide = |rows: &Vec<Vec<f64>>| inner.patiently(stop, || user.decide(&bandit, rows));
            let mut made = Vec::with_capacity(contexts.len());
            for together in contexts.chunks(AT_A_TIME) {
                let decided: Vec<_> = std::thread::scope(|scope| {
                    let threads: Vec<_> = together.iter().map(|rows| scope.spawn(|| decide(rows))).collect();
                    let panicked = |_| Err(Failure::Internal("a decision panicked"));
                    threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
                });
                for decision in decided {
                    let decision = decision?;
                    // Rounds of other bandits are counted from 1.
                    made.push(json!({
                        "bandit": id, "decision": ckks::Hex(&decision.label).to_string(),
                        "arm": decision.arm, "round": decision.round + 1,
                    }));
                }
            }
            json(&made)
        })
    }

    /// Returns the reward of a decision, and the number of feedbacks of the bandit. `told` has what was sent
    /// before.
    #[pyo3(signature = (id, decision, reward, told, done=None))]
    fn feedback(
        &self,
        py: Python<'_>,
        id: String,
        decision: String,
        reward: f64,
        told: Py<Told>,
        done: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.request(py, done, move |inner, stop| {
            let (label, user) = (label(&decision)?, inner.user(stop)?);
            let bandit = inner.patiently(stop, || inner.session.bandit(&id))?;
            CommitteeUser::check_reward(&bandit, reward)?;
            let message = {
                let mut told = lock(&told.get().0);
                match &*told {
                    Some((first, _)) if *first != reward => return Err(answered().into()),
                    Some((_, message)) => message.clone(),
                    None => {
                        told.insert((reward, user.feedback_of(&label, reward, &mut os_rng()?)?)).1.clone()
                    }
                }
            };
            inner.patiently(stop, || user.return_feedback(&id, &label, &message))?;
            json(&inner.patiently(stop, || user.feedbacks(&id))?)
        })
    }

    /// Has the feedback on a decision erased.
    #[pyo3(signature = (id, decision, done=None))]
    fn erase(
        &self,
        py: Python<'_>,
        id: String,
        decision: String,
        done: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.request(py, done, move |inner, stop| {
            let (label, user) = (label(&decision)?, inner.user(stop)?);
            let bandit = inner.patiently(stop, || inner.session.bandit(&id))?;
            inner.patiently(stop, || user.erase(&bandit, &label))?;
            Ok("null".into())
        })
    }
}

impl Committee {
    /// A call whose result is JSON.
    fn request(
        &self,
        py: Python<'_>,
        done: Option<Py<PyAny>>,
        work: impl FnOnce(&Inner, &Stop) -> Result<String, Failure> + Send + 'static,
    ) -> PyResult<Py<PyAny>> {
        let inner = self.0.clone();
        let work = move |stop: &Stop| Ok((work(&inner, stop)?, None));
        call(py, done, work, |py, text| Ok(text.into_pyobject(py)?.into_any().unbind()))
    }
}

impl Inner {
    /// The result of a request that may be sent twice, repeated while the server or members are away.
    fn patiently<T>(&self, stop: &Stop, request: impl Fn() -> Result<T, Error>) -> Result<T, Failure> {
        Ok(patiently(self.patience, stop, &mut os_rng()?, |_| request())?)
    }

    /// The user of the session, which begins or goes on for the first call.
    fn user(&self, stop: &Stop) -> Result<Arc<CommitteeUser>, Failure> {
        self.patiently(stop, || self.session.user())
    }
}

/// A warning of the logger `helba`.
fn tell(sentence: &str) {
    // None while the interpreter ends.
    let _ = Python::try_attach(|py| -> PyResult<()> {
        let logger = py.import("logging")?.call_method1("getLogger", ("helba",))?;
        logger.call_method1("warning", (sentence,)).map(drop)
    });
}

fn label(decision: &str) -> Result<[u8; 32], Failure> {
    let other =
        "the id of a decision of a committee has 64 hexadecimal digits: give decision_id of the decision";
    wire::from_hex(decision).ok_or_else(|| Failure::Argument(other.into()))
}
