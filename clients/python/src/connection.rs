//! Requests to a server. Messages of clear bandits, configurations and states travel as JSON.

use crate::committee::Committee;
use crate::decision::Answer;
use crate::error::Failure;
use crate::keys::{Keys, needed, or_raise};
use crate::work::{Unawaited, call, log, same_process};
use host::{lock, os_rng};
use protocol::{BanditConfig, DecisionId, WidthShape};
use pyo3::prelude::*;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use user_client::{
    AnyBandit, BanditDevice, Client, Creation, Device, Error, Listing, LoggedRound, MOST_BANDITS, Pending,
    PlayedRound, Stop, patiently, request_key,
};
use wire::{AccessToken, ClearFeedback, Created, Labels, LabelsPatch, ProblemType};

/// The configuration of an encrypted bandit with all defaults, as JSON.
#[pyfunction]
pub(crate) fn default_configuration(py: Python<'_>, features: usize, arms: usize) -> PyResult<String> {
    or_raise(py, json(&BanditConfig::new(features, arms)))
}

/// The configuration `text` with this exploration, as `BanditConfig::exploring` says, and a warning if the
/// bandit can then lock in on one arm.
#[pyfunction]
#[pyo3(signature = (text, width=None, alpha=None, rewards=None))]
pub(crate) fn exploring(
    py: Python<'_>,
    text: &str,
    width: Option<&str>,
    alpha: Option<f64>,
    rewards: Option<[f64; 2]>,
) -> PyResult<(String, Option<String>)> {
    let bad = |e: &dyn std::fmt::Display| Failure::Argument(e.to_string());
    let read = serde_json::from_str(text).map_err(|e| Failure::Argument(format!("the configuration: {e}")));
    let mut config: BanditConfig = or_raise(py, read)?;
    let shape = match width {
        None => None,
        Some("root") => Some(WidthShape::Root),
        Some(_) => Some(WidthShape::Tangent),
    };
    if shape.is_some() || alpha.is_some() || rewards.is_some() {
        config = or_raise(py, config.exploring(shape, alpha, rewards).map_err(|e| bad(&e)))?;
    }
    let range = rewards.map_or(1.0, |[low, high]| high - low);
    let warning = config.linear.lock_in_warning(config.effective(config.horizon), range);
    Ok((or_raise(py, json(&config))?, warning))
}

/// A server, and the keys of its encrypted bandits if there are any. Every method that waits takes `done`:
/// see `helba._calls`.
#[pyclass(frozen, module = "helba._native")]
pub(crate) struct Connection(Arc<Inner>);

struct Inner {
    client: Client,
    /// The device of the keys.
    device: Option<Arc<Device>>,
    patience: Duration,
    /// The bandits that the device has joined, by their ids.
    joined: Mutex<HashMap<String, Joined>>,
    /// Answers to tasks that no decision waits for.
    tasks: Unawaited,
    /// The committee that the program has named.
    committee: Option<Committee>,
}

type Joined = Arc<BanditDevice<'static>>;

impl Connection {
    pub(crate) fn keys(&self) -> Option<Arc<Device>> {
        self.0.device.clone()
    }

    pub(crate) fn client(&self) -> Client {
        self.0.client.clone()
    }
}

#[pymethods]
impl Connection {
    #[new]
    fn new(
        py: Python<'_>,
        url: &str,
        keys: Option<&Keys>,
        token: Option<&str>,
        token_file: Option<PathBuf>,
        ca: Option<PathBuf>,
        patience: f64,
        committee: Option<&str>,
        session_file: Option<PathBuf>,
        session: Option<&[u8]>,
    ) -> PyResult<Self> {
        let make = || -> Result<_, Failure> {
            same_process()?;
            let client = match ca {
                Some(ca) => Client::with_ca(url, &ca).map_err(named)?,
                None => Client::new(url)?,
            };
            let device = keys.map(|keys| keys.device.clone());
            let bad = |e: wire::Error| Failure::Argument(format!("token: {e}"));
            let client = match (token, token_file, &device) {
                (Some(token), ..) => client.with_token(AccessToken::from_hex(token).map_err(bad)?),
                (None, Some(file), _) => client.with_token(AccessToken::open(&file).map_err(bad)?),
                (None, None, Some(device)) => client.with_device(device),
                (None, None, None) => client,
            };
            let patience = Duration::try_from_secs_f64(patience);
            let patience = patience.map_err(|_| {
                Failure::Argument("patience: it must be a number of seconds that is not negative".into())
            })?;
            let committee = Committee::new(&client, patience, committee, session_file, session)?;
            let (joined, tasks) = Default::default();
            Ok(Connection(Arc::new(Inner { client, device, patience, joined, tasks, committee })))
        };
        or_raise(py, make())
    }

    /// The address of the server.
    #[getter]
    fn server(&self) -> &str {
        self.0.client.server()
    }

    /// Whether there are keys.
    #[getter]
    fn has_keys(&self) -> bool {
        self.0.device.is_some()
    }

    /// The committee, if the program has named one.
    #[getter]
    fn committee(&self) -> Option<Committee> {
        self.0.committee.clone()
    }

    /// Whether requests carry a token without encryption to another machine.
    #[getter]
    fn shows_token(&self) -> bool {
        self.0.client.shows_token()
    }

    /// Creates an encrypted bandit with this configuration, and these name and tags.
    #[pyo3(signature = (configuration, labels, done=None))]
    fn create(
        &self,
        py: Python<'_>,
        configuration: String,
        labels: (Option<String>, Vec<String>),
        done: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.request(py, done, move |inner, stop| {
            let device = needed(inner.device.clone())?;
            let config: BanditConfig = serde_json::from_str(&configuration)
                .map_err(|e| Failure::Argument(format!("the configuration cannot be read: {e}")))?;
            let creation = creation(labels)?;
            // Keys that the server does not have create nothing.
            let created =
                inner.patiently(stop, |client| client.create_encrypted_for(&device, &config, &creation))?;
            inner.join(&created.of)?;
            json(&created)
        })
    }

    /// Creates a bandit with a clear policy, and these name and tags.
    #[pyo3(signature = (policy, parameters, labels, done=None))]
    fn create_policy(
        &self,
        py: Python<'_>,
        policy: String,
        parameters: String,
        labels: (Option<String>, Vec<String>),
        done: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.request(py, done, move |inner, stop| {
            let parameters: serde_json::Map<_, _> = serde_json::from_str(&parameters)
                .map_err(|e| Failure::Argument(format!("the parameters are no JSON object: {e}")))?;
            let creation = creation(labels)?;
            let create = |client: &Client| client.create_policy_as(&policy, parameters.clone(), &creation);
            json(&inner.patiently(stop, create)?)
        })
    }

    /// Changes name and tags of a bandit, by a JSON merge patch, and returns them.
    #[pyo3(signature = (id, patch, done=None))]
    fn label(
        &self,
        py: Python<'_>,
        id: String,
        patch: String,
        done: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.request(py, done, move |inner, stop| {
            let patch: LabelsPatch =
                serde_json::from_str(&patch).map_err(|e| Failure::Argument(format!("name and tags: {e}")))?;
            json(&inner.patiently(stop, |client| client.relabel(&id, &patch, None))?)
        })
    }

    /// Creates a copy of an encrypted bandit, with these changes of its configuration, name and tags.
    #[pyo3(signature = (id, changes, labels, done=None))]
    fn copy(
        &self,
        py: Python<'_>,
        id: String,
        changes: String,
        labels: (Option<String>, Vec<String>),
        done: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.request(py, done, move |inner, stop| {
            let changes: serde_json::Map<_, _> = serde_json::from_str(&changes)
                .map_err(|e| Failure::Argument(format!("the changes are no JSON object: {e}")))?;
            let creation = creation(labels)?;
            json(&inner.patiently(stop, |client| client.copy(&id, &changes, &creation))?)
        })
    }

    /// The model of an encrypted bandit, in the clear.
    #[pyo3(signature = (id, done=None))]
    fn export(&self, py: Python<'_>, id: String, done: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        self.request(py, done, move |inner, stop| {
            let joined = inner.joined(&id, stop)?;
            let reply = inner.patiently(stop, |client| client.model(&id, joined.limits()))?;
            json(&joined.export(&reply)?)
        })
    }

    /// Freezes or thaws an encrypted bandit, and returns its counters.
    #[pyo3(signature = (id, frozen, done=None))]
    fn freeze(
        &self,
        py: Python<'_>,
        id: String,
        frozen: bool,
        done: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.request(py, done, move |inner, stop| {
            json(&inner.patiently(stop, |client| client.freeze(&id, frozen))?)
        })
    }

    /// The policies that the server offers.
    #[pyo3(signature = (done=None))]
    fn policies(&self, py: Python<'_>, done: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        self.request(py, done, |inner, stop| json(&inner.patiently(stop, |client| client.policies())?))
    }

    /// The bandits that the token gives access to, as they were created; with this name and tag, if given.
    #[pyo3(signature = (name, tag, done=None))]
    fn bandits(
        &self,
        py: Python<'_>,
        name: Option<String>,
        tag: Option<String>,
        done: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let listing = Listing { name, tag };
        self.request(py, done, move |inner, stop| {
            json(&inner.patiently(stop, |client| client.bandits_of(&listing))?)
        })
    }

    /// The configuration and the state of a bandit of either kind.
    #[pyo3(signature = (id, done=None))]
    fn view(&self, py: Python<'_>, id: String, done: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        self.request(py, done, move |inner, stop| {
            json(&inner.patiently(stop, |client| client.labelled(&id))?)
        })
    }

    /// Deletes a bandit.
    #[pyo3(signature = (id, done=None))]
    fn delete(&self, py: Python<'_>, id: String, done: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        self.request(py, done, move |inner, _| {
            inner.client.delete(&id)?;
            lock(&inner.joined).remove(&id);
            Ok("null".into())
        })
    }

    /// Decisions of an encrypted bandit on these contexts, in requests of as many as fit. Tasks that the
    /// server gives besides are answered afterwards.
    #[pyo3(signature = (id, contexts, done=None))]
    fn decide(
        &self,
        py: Python<'_>,
        id: String,
        contexts: Vec<Vec<Vec<f64>>>,
        done: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let inner = self.0.clone();
        let work = move |stop: &Stop| {
            let joined = inner.joined(&id, stop)?;
            let one = contexts.len() == 1;
            for (at, rows) in contexts.iter().enumerate() {
                if let Err(Error::Protocol(error)) = joined.check_contexts(rows) {
                    return Err(Failure::Contexts((!one).then_some(at), error));
                }
            }
            let (mut answers, mut rounds) = (Vec::with_capacity(contexts.len()), Vec::new());
            let mut contexts = contexts.into_iter().peekable();
            while contexts.peek().is_some() {
                let load = contexts.by_ref().take(joined.most_decisions()).collect();
                let (made, round) = inner.decide(&joined, load, stop)?;
                answers.extend(made);
                rounds.extend((!round.tasks.is_empty()).then_some(round));
            }
            if rounds.is_empty() {
                return Ok((answers, None));
            }
            let begun = inner.tasks.begin();
            let after: Box<dyn FnOnce() + Send> = Box::new(move || {
                rounds.into_iter().for_each(|round| inner.answer_tasks(&joined, round));
                drop(begun);
            });
            Ok((answers, Some(after)))
        };
        call(py, done, work, |py, answers| Ok(answers.into_pyobject(py)?.into_any().unbind()))
    }

    /// Checks contexts of an encrypted bandit as `decide` does, without waiting, if the device has joined it.
    fn check(&self, py: Python<'_>, id: &str, contexts: Vec<Vec<f64>>) -> PyResult<()> {
        let joined = lock(&self.0.joined).get(id).cloned();
        let checked = match joined.map(|joined| joined.check_contexts(&contexts)) {
            Some(Err(Error::Protocol(error))) => Err(Failure::Contexts(None, error)),
            _ => Ok(()),
        };
        or_raise(py, checked)
    }

    /// The most decisions of a request to an encrypted bandit.
    #[pyo3(signature = (id, done=None))]
    fn most_decisions(&self, py: Python<'_>, id: String, done: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        self.request(py, done, move |inner, stop| json(&inner.joined(&id, stop)?.most_decisions()))
    }

    /// The counters of all devices of an encrypted bandit, opened.
    #[pyo3(signature = (id, done=None))]
    fn counters(&self, py: Python<'_>, id: String, done: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        self.request(py, done, move |inner, stop| {
            let joined = inner.joined(&id, stop)?;
            let reply = inner.patiently(stop, |client| client.counters(&id, joined.limits()))?;
            json(&joined.open_counters(&reply)?)
        })
    }

    /// The counters of a bandit of a committee, which its members have opened.
    #[pyo3(signature = (id, done=None))]
    fn counters_of_committee(
        &self,
        py: Python<'_>,
        id: String,
        done: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.request(py, done, move |inner, stop| {
            json(&inner.patiently(stop, |client| client.counters_of_committee(&id))?)
        })
    }

    /// Returns the reward of a decision of an encrypted bandit, for its arm or the one that was played
    /// instead.
    #[pyo3(signature = (answer, arm, reward, done=None))]
    fn feedback(
        &self,
        py: Python<'_>,
        answer: Py<Answer>,
        arm: Option<usize>,
        reward: f64,
        done: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.request(py, done, move |inner, stop| {
            let (answer, mut rng) = (answer.get(), os_rng()?);
            let pending = &answer.pending;
            let arm = arm.unwrap_or(pending.arm);
            let features = pending.contexts.get(arm).ok_or_else(|| {
                let last = pending.contexts.len().saturating_sub(1);
                Failure::Argument(format!("arm is {arm}, and arms are numbered from 0 to {last}"))
            })?;
            let joined = inner.join(&pending.created)?;
            let body = joined.feedback(arm, features, reward, pending.question.as_ref(), &mut rng)?;
            answer.note(arm, reward)?;
            let (id, decision) = (&pending.created.id, pending.decision);
            let receipt = inner.patiently(stop, |client| client.feedback_encrypted(id, decision, &body));
            inner.note();
            json(&receipt?)
        })
    }

    /// A decision of a bandit with a clear policy.
    #[pyo3(signature = (id, contexts, done=None))]
    fn decide_clear(
        &self,
        py: Python<'_>,
        id: String,
        contexts: Option<Vec<Vec<f64>>>,
        done: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.request(py, done, move |inner, stop| {
            // A decision whose answer is lost is made once.
            let key = request_key(&mut os_rng()?);
            json(&inner.patiently(stop, |client| client.decide_clear_once(&id, contexts.clone(), &key))?)
        })
    }

    /// Returns the feedback on a decision of a clear policy.
    #[pyo3(signature = (id, decision, feedback, done=None))]
    fn feedback_clear(
        &self,
        py: Python<'_>,
        id: String,
        decision: String,
        feedback: String,
        done: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.request(py, done, move |inner, stop| {
            let feedback: ClearFeedback = serde_json::from_str(&feedback)
                .map_err(|e| Failure::Argument(format!("the feedback cannot be read: {e}")))?;
            json(&inner.patiently(stop, |client| client.feedback_clear(&id, &decision, &feedback))?)
        })
    }

    /// Erases the feedback on a decision of an encrypted bandit.
    #[pyo3(signature = (id, decision, done=None))]
    fn erase(
        &self,
        py: Python<'_>,
        id: String,
        decision: String,
        done: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.request(py, done, move |inner, stop| {
            let decision = decision.parse::<DecisionId>().map_err(|e| Failure::Argument(e.to_string()))?;
            json(&inner.patiently(stop, |client| client.erase_feedback(&id, decision))?)
        })
    }

    /// Has an encrypted bandit learn logged rounds in bulk: of each the arm that was played, its features and
    /// its reward. What was learnt by the same name is not learnt again.
    #[pyo3(signature = (id, name, rounds, done=None))]
    fn learn(
        &self,
        py: Python<'_>,
        id: String,
        name: String,
        rounds: Vec<(usize, Vec<f64>, f64)>,
        done: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.request(py, done, move |inner, stop| {
            let joined = inner.joined(&id, stop)?;
            let of = |(arm, features, reward)| LoggedRound { arm, features, reward };
            let rounds: Vec<LoggedRound> = rounds.into_iter().map(of).collect();
            // A request that is lost is made again under the same name, and counts once.
            let learnt = inner.patiently(stop, |client| {
                let mut rng = os_rng().map_err(Error::from)?;
                joined.learn(client, &name, &rounds, &mut rng, |_| ())
            })?;
            let (rounds, status) = (learnt.rounds, learnt.status);
            json(&serde_json::json!({ "rounds": rounds, "name": name, "feedbacks": status.feedbacks,
                "model_feedbacks": status.model_feedbacks }))
        })
    }

    /// Waits until the answers to tasks that were begun are sent, at most for so many seconds. Returns
    /// whether they are.
    #[pyo3(signature = (seconds, done=None))]
    fn flush(&self, py: Python<'_>, seconds: f64, done: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        let most = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        self.request(py, done, move |inner, _| json(&inner.tasks.wait(most)))
    }
}

impl Connection {
    /// A call whose result is JSON.
    fn request(
        &self,
        py: Python<'_>,
        done: Option<Py<PyAny>>,
        work: impl FnOnce(&Inner, &Stop) -> Result<String, Failure> + Send + 'static,
    ) -> PyResult<Py<PyAny>> {
        let inner = self.0.clone();
        call(
            py,
            done,
            move |stop| Ok((work(&inner, stop)?, None)),
            |py, text| Ok(text.into_pyobject(py)?.into_any().unbind()),
        )
    }
}

impl Inner {
    /// The result of a request that may be sent twice, repeated while the server is away.
    fn patiently<T>(&self, stop: &Stop, request: impl Fn(&Client) -> Result<T, Error>) -> Result<T, Failure> {
        let mut rng = os_rng()?;
        let done = patiently(self.patience, stop, &mut rng, |_| request(&self.client));
        Ok(done.inspect_err(|error| self.forget(error))?)
    }

    /// The device as one of the bandit `id`, which it joins for the first call.
    fn joined(&self, id: &str, stop: &Stop) -> Result<Joined, Failure> {
        needed(self.device.clone())?;
        if let Some(joined) = lock(&self.joined).get(id) {
            return Ok(joined.clone());
        }
        match self.patiently(stop, |client| client.any_bandit(id))? {
            AnyBandit::Encrypted(view) => self.join(&view.created),
            AnyBandit::Clear(_) => Err(Failure::Argument(format!("the bandit {id} has a clear policy"))),
            AnyBandit::Committee(_) => Err(Failure::Argument(format!("the bandit {id} is of a committee"))),
        }
    }

    fn join(&self, created: &Created) -> Result<Joined, Failure> {
        let device = needed(self.device.clone())?;
        let mut all = lock(&self.joined);
        if let Some(joined) = all.get(&created.id).filter(|joined| joined.created() == created) {
            return Ok(joined.clone());
        }
        let joined = Arc::new(device.join_shared(created)?);
        if all.len() >= MOST_BANDITS {
            all.clear();
        }
        all.insert(created.id.clone(), joined.clone());
        Ok(joined)
    }

    /// One request for decisions. The round that is returned has the tasks alone.
    fn decide(
        &self,
        joined: &Joined,
        contexts: Vec<Vec<Vec<f64>>>,
        stop: &Stop,
    ) -> Result<(Vec<Answer>, PlayedRound<()>), Failure> {
        let rows: Vec<&[Vec<f64>]> = contexts.iter().map(Vec::as_slice).collect();
        let ask = |rng: &mut _| joined.decide_several(&self.client, &rows, rng);
        let made = patiently(self.patience, stop, &mut os_rng()?, ask);
        let round = made.inspect_err(|error| self.forget(error))?;
        let PlayedRound { choice, tasks, sent, received, repeats, unrepeated } = round;
        if let Some(error) = &unrepeated {
            log("warning", &format!("an unreliable decision was not repeated: {error}"));
        }
        self.note();
        let answers = contexts.into_iter().zip(&choice).map(|(contexts, choice)| {
            let pending = Pending {
                server: self.client.server().into(),
                contexts,
                created: joined.created().clone(),
                decision: choice.id,
                arm: choice.arm,
                reliable: choice.reliable,
                question: choice.question.clone(),
            };
            Answer::new(pending, choice)
        });
        Ok((answers.collect(), PlayedRound { choice: (), tasks, sent, received, repeats, unrepeated }))
    }

    /// The decisions count in any case, and the server gives tasks without an answer to somebody else.
    fn answer_tasks(&self, joined: &Joined, mut round: PlayedRound<()>) {
        let answered = os_rng().map_err(|e| e.to_string()).and_then(|mut rng| {
            joined.answer_tasks(&self.client, &mut round, &mut rng).map_err(|e| e.to_string())
        });
        if let Err(error) = answered {
            log("warning", &format!("a task of bandit {} was not answered: {error}", joined.created().id));
        }
    }

    /// Leaves a bandit that the server does not know any more.
    fn forget(&self, error: &Error) {
        if let Error::Refused(problem) = error
            && problem.reason.as_deref() == Some(ProblemType::UnknownBandit.reason())
        {
            lock(&self.joined).clear();
        }
    }

    /// Logs that the key gives no further answers, or asks no more.
    fn note(&self) {
        if let Some(device) = &self.device {
            device.answers_spent().iter().for_each(|spent| log("warning", &spent.to_string()));
            device.repeats_spent().iter().for_each(|spent| log("warning", &spent.to_string()));
        }
    }
}

/// A creation of one bandit with this name and these tags, which may be sent again.
pub(crate) fn creation((name, tags): (Option<String>, Vec<String>)) -> Result<Creation, Failure> {
    Ok(Creation::new(Labels { name, tags }, &mut os_rng()?))
}

/// The file of certificates in errors is an argument here.
fn named(error: Error) -> Failure {
    match error {
        Error::Io { .. } => Failure::Argument(format!("ca: {error}")),
        error => error.into(),
    }
}

pub(crate) fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|_| Failure::Internal("a message cannot be written as JSON"))
}
