//! Bandits of a committee on shares, for a session of this process.

use crate::connection::{creation, json};
use crate::decision::answered;
use crate::error::Failure;
use crate::work::call;
use host::{lock, os_rng};
use protocol::BanditConfig;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::json;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use user_client::{Client, Error, KeptSession, MOST_BANDITS, SharesUser, Stop, patiently};
use wire::SharesCreated;

/// The most decisions of a call that are asked for at a time: members compute them together.
const AT_A_TIME: usize = 16;

/// The committee of a server, and this process's session with it, which begins with the first call that needs
/// it. Every method that waits takes `done`: see `helba._calls`.
#[pyclass(frozen, module = "helba._native")]
#[derive(Clone)]
pub(crate) struct Committee(Arc<Inner>);

struct Inner {
    client: Client,
    patience: Duration,
    /// The id that the program has named.
    id: Option<[u8; 32]>,
    kept: Kept,
    user: Mutex<Option<Arc<SharesUser>>>,
    /// Bandits as they were created, by their ids.
    bandits: Mutex<HashMap<String, Arc<SharesCreated>>>,
}

/// Where the session is kept.
pub(crate) enum Kept {
    /// Nowhere.
    Nowhere,
    /// In a file, which is written when the session begins.
    File(PathBuf),
    /// With the program, which gave this one.
    Program(KeptSession),
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

impl Kept {
    /// In this file, or as these bytes; nowhere without both.
    ///
    /// # Errors
    /// [`Failure::Keys`] for bytes that are no session.
    pub(crate) fn new(file: Option<PathBuf>, bytes: Option<&[u8]>) -> Result<Self, Failure> {
        let other = "the session is not one that session_bytes() has returned: give these bytes, or the path of a file";
        match (file, bytes) {
            (Some(file), _) => Ok(Kept::File(file)),
            (None, Some(bytes)) => {
                let session = KeptSession::from_bytes(bytes);
                session.map(Kept::Program).ok_or_else(|| Failure::Keys(other.into()))
            }
            (None, None) => Ok(Kept::Nowhere),
        }
    }
}

impl Committee {
    /// The committee with this id, in hexadecimal digits, with the session that is kept there.
    pub(crate) fn new(
        client: Client,
        patience: Duration,
        id: Option<&str>,
        kept: Kept,
    ) -> Result<Self, Failure> {
        let read = |text: &str| {
            wire::from_hex(text).ok_or_else(|| {
                Failure::Argument(
                    "committee must have 64 hexadecimal digits: give the id that the committee's members print".into(),
                )
            })
        };
        let id = id.map(read).transpose()?;
        if let Kept::Program(session) = &kept {
            session.is_with(id)?;
        }
        let (user, bandits) = Default::default();
        Ok(Committee(Arc::new(Inner { client, patience, id, kept, user, bandits })))
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
    /// and the most decisions of a session between two updates, and these name and tags.
    #[pyo3(signature = (configuration, rules, labels, done=None))]
    fn create(
        &self,
        py: Python<'_>,
        configuration: String,
        rules: (u16, u16),
        labels: (Option<String>, Vec<String>),
        done: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.request(py, done, move |inner, stop| {
            let config: BanditConfig = serde_json::from_str(&configuration)
                .map_err(|e| Failure::Argument(format!("the configuration cannot be read: {e}")))?;
            let creation = creation(labels)?;
            let id = inner.named()?;
            inner.patiently(stop, |client| SharesUser::check_committee(client, id))?;
            let create = |client: &Client| client.create_shares(&config.linear, rules, &creation);
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
            let bandit = inner.bandit(&id, stop)?;
            let one = contexts.len() == 1;
            for (at, rows) in contexts.iter().enumerate() {
                match SharesUser::check_contexts(&bandit, rows) {
                    Err(Error::Protocol(error)) => {
                        return Err(Failure::Contexts((!one).then_some(at), error));
                    }
                    checked => checked?,
                }
            }
            let user = inner.user(stop)?;
            let decide = |rows: &Vec<Vec<f64>>| inner.patiently(stop, |_| user.decide(&bandit, rows));
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
            let message = {
                let mut told = lock(&told.get().0);
                match &*told {
                    Some((first, _)) if *first != reward => return Err(answered().into()),
                    Some((_, message)) => message.clone(),
                    None => told.insert((reward, user.feedback_of(&label, reward)?)).1.clone(),
                }
            };
            inner.patiently(stop, |_| user.return_feedback(&id, &label, &message))?;
            let view = inner.patiently(stop, |client| client.shares_bandit(&id))?;
            json(&(view.feedbacks + view.unlearnt as u64))
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
            let bandit = inner.bandit(&id, stop)?;
            inner.patiently(stop, |_| user.erase(&bandit, &label))?;
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
    fn patiently<T>(&self, stop: &Stop, request: impl Fn(&Client) -> Result<T, Error>) -> Result<T, Failure> {
        Ok(patiently(self.patience, stop, &mut os_rng()?, |_| request(&self.client))?)
    }

    /// The id of the committee, as the program has named it or the session that is kept.
    fn named(&self) -> Result<[u8; 32], Failure> {
        match (self.id, &self.kept) {
            (Some(id), _) => Ok(id),
            (None, Kept::Program(session)) => Ok(session.committee()),
            (None, Kept::File(path)) if path.exists() => Ok(KeptSession::open(path)?.committee()),
            (None, Kept::File(path)) => Err(Error::NoSession { path: path.clone() }.into()),
            (None, Kept::Nowhere) => Err(Failure::Internal("a committee without an id")),
        }
    }

    /// The user of the session, which begins or goes on for the first call.
    fn user(&self, stop: &Stop) -> Result<Arc<SharesUser>, Failure> {
        // Held meanwhile, so that others wait for this session and begin no other one.
        let mut user = lock(&self.user);
        if let Some(user) = &*user {
            return Ok(user.clone());
        }
        let open = |client: &Client| match &self.kept {
            Kept::Nowhere => SharesUser::begin(client.clone(), self.id),
            Kept::File(path) => SharesUser::open(client.clone(), self.id, path),
            Kept::Program(session) => SharesUser::restore(client.clone(), session),
        };
        Ok(user.insert(Arc::new(self.patiently(stop, open)?)).clone())
    }

    /// The bandit with this id, as it was created.
    fn bandit(&self, id: &str, stop: &Stop) -> Result<Arc<SharesCreated>, Failure> {
        if let Some(bandit) = lock(&self.bandits).get(id) {
            return Ok(bandit.clone());
        }
        let bandit = Arc::new(self.patiently(stop, |client| client.shares_bandit(id))?.created);
        let mut all = lock(&self.bandits);
        if all.len() >= MOST_BANDITS {
            all.clear();
        }
        all.insert(id.into(), bandit.clone());
        Ok(bandit)
    }
}

fn label(decision: &str) -> Result<[u8; 32], Failure> {
    let other =
        "the id of a decision of a committee has 64 hexadecimal digits: give decision_id of the decision";
    wire::from_hex(decision).ok_or_else(|| Failure::Argument(other.into()))
}
