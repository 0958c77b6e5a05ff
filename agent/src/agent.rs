//! The running agent: its bandits, the raiser beside them, and the end of both.

use crate::Error;
use crate::committee::Committee;
use crate::decision_log::{DecisionLog, Line, LogOptions};
use crate::desk::Desk;
use crate::error::Holder;
use crate::http::app;
use crate::pending::{Bounds, Pending};
use crate::settings::Settings;
use crate::store;
use host::lock;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use service::{Bodies, Connections, Hosts, Pace, Tls};
use std::collections::BTreeMap;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::net::TcpListener;
use user_client::{
    AnyBandit, Client, CommitteeSession, Device, Keep, KeptSession, MOST_BANDITS, Raiser, RaiserOptions,
    Stop, patiently,
};
use wire::TokenDigest;
use zeroize::Zeroizing;

/// Memory for bodies above 64 KiB, which are those with schemas and examples.
const BODY_MEMORY: usize = 8 << 20;
/// After the requests were answered, the threads of bandits get this time to end.
const GRACE: Duration = Duration::from_secs(10);

/// Settings and limits of an agent.
#[derive(Debug, Clone)]
pub struct Options {
    /// The digest of the local token, which every request but that for health carries.
    pub token: TokenDigest,
    /// Host names of the agent besides loopback addresses. `None` admits requests for any host, which an
    /// agent on a loopback address must not (DNS rebinding).
    pub hosts: Option<Vec<String>>,
    /// The most decisions that wait for feedback. The oldest are forgotten.
    pub most_pending: usize,
    /// The time after which a decision without feedback is forgotten.
    pub pending_age: Duration,
    /// The time for which requests to a server that cannot be reached are repeated.
    pub patience: Duration,
    /// The time between two looks for new bandits to raise for.
    pub rescan: Duration,
    /// The bounds of the log of decisions, or no log.
    pub decision_log: Option<LogOptions>,
    /// Whether trace questions are kept for the feedback. The device says how many are answered.
    pub trace_answers: bool,
}

impl Options {
    /// The defaults: 65,536 pending decisions for a week, repeats for ten seconds, a look for new bandits
    /// every ten seconds, a log of decisions, and loopback addresses as hosts.
    pub fn new(token: TokenDigest) -> Self {
        Options {
            token,
            hosts: Some(Vec::new()),
            most_pending: 1 << 16,
            pending_age: Duration::from_secs(7 * 24 * 3600),
            patience: Duration::from_secs(10),
            rescan: Duration::from_secs(10),
            decision_log: Some(LogOptions::default()),
            trace_answers: false,
        }
    }
}

/// What an agent has of its bandits.
pub enum Credentials {
    /// The secret bundle of encrypted bandits.
    Keys(Arc<Device>),
    /// A session with a committee.
    Session(KeptSession),
}

impl From<Device> for Credentials {
    fn from(device: Device) -> Self {
        Credentials::Keys(device.into())
    }
}

impl From<KeptSession> for Credentials {
    fn from(session: KeptSession) -> Self {
        Credentials::Session(session)
    }
}

impl Credentials {
    /// The key of the pending decisions on disk.
    fn store_key(&self) -> Zeroizing<[u8; 32]> {
        match self {
            Credentials::Keys(device) => device.derive_key(store::CONTEXT),
            Credentials::Session(session) => session.derive_key(store::CONTEXT),
        }
    }
}

/// Whose bandits the agent offers.
pub(crate) enum Of {
    /// Those of its keys.
    Keys(Arc<Device>),
    /// Those of a committee.
    Committee(Box<Committee>),
}

/// An agent, with its pending decisions open. Cheap to clone.
#[derive(Clone)]
pub struct Agent(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) of: Of,
    pub(crate) client: Client,
    pub(crate) stop: Stop,
    pub(crate) options: Options,
    pub(crate) pending: Pending,
    decisions: Option<DecisionLog>,
    /// Whether the last lines of the log of decisions could be written.
    logs: Mutex<bool>,
    pub(crate) bodies: Bodies,
    pub(crate) hosts: Hosts,
    rng: Mutex<ChaCha20Rng>,
    desks: Mutex<BTreeMap<String, Open>>,
    /// Held while a bandit is joined, which takes tens of milliseconds.
    opening: Mutex<()>,
    log: Arc<dyn Fn(&str) + Send + Sync>,
}

/// The desk of a bandit, and the thread that its threads belong to.
type Open = (Arc<Desk>, std::thread::JoinHandle<()>);

impl Agent {
    /// An agent with these credentials for the server of `client`, which keeps pending decisions in `folder`.
    /// `log` gets the lines of the log. Nothing is sent.
    ///
    /// # Errors
    /// [`Error::StateInUse`], [`Error::Unsealable`], and those of the disk.
    pub fn open(
        client: Client,
        credentials: impl Into<Credentials>,
        folder: &Path,
        options: Options,
        rng: ChaCha20Rng,
        log: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let (credentials, log) = (credentials.into(), Arc::new(log));
        let bounds = Bounds { most: options.most_pending.max(1), age: options.pending_age };
        let pending = Pending::open(folder, &credentials.store_key(), bounds)?;
        let of = match credentials {
            Credentials::Keys(device) => Of::Keys(device),
            Credentials::Session(session) => {
                let session = CommitteeSession::new(client.clone(), Keep::Program(None, session));
                Of::Committee(Box::new(Committee::new(session)))
            }
        };
        let decisions = options.decision_log.map(|bounds| DecisionLog::open(folder, bounds)).transpose()?;
        Ok(Agent(Arc::new(Inner {
            of,
            client,
            stop: Stop::default(),
            pending,
            decisions,
            logs: Mutex::new(true),
            bodies: Bodies::within(BODY_MEMORY, Pace::default()),
            hosts: Hosts(options.hosts.clone()),
            options,
            rng: Mutex::new(rng),
            desks: Mutex::default(),
            opening: Mutex::new(()),
            log,
        })))
    }

    /// Serves `listener` until `stop` returns, and beside it raises for the bandits of the server, if it has
    /// keys. Requests that were begun are answered. Returns whether all were answered within
    /// [`Connections::grace`].
    ///
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    /// As [`Raiser::run`]: a server with other keys, or one that does not know the token. A server that
    /// cannot be reached ends nothing.
    pub async fn run(
        self,
        listener: TcpListener,
        tls: Option<Tls>,
        connections: Connections,
        stop: impl Future<Output = ()>,
    ) -> Result<bool, Error> {
        let inner = self.0.clone();
        let options = RaiserOptions { rescan: inner.options.rescan, ..RaiserOptions::default() };
        let (log, of_raiser) = (inner.log.clone(), inner.stop.clone());
        let raiser = match &inner.of {
            // Of a user with a key of its own, the owner's raiser answers.
            Of::Keys(device) if device.enrolment().is_some() => None,
            Of::Keys(device) => {
                let (client, device, rng) = (inner.client.clone(), device.clone(), inner.fork_rng());
                Some(Raiser::new(client, device, options, of_raiser, rng, move |line| log(line)))
            }
            Of::Committee(_) => None,
        };
        let raises = raiser.is_some();
        let mut raising = pin!(async {
            match raiser {
                Some(raiser) => tokio::task::spawn_blocking(|| raiser.run()).await,
                // There is none.
                None => std::future::pending().await,
            }
        });
        let mut ended = None;
        let stop = async {
            tokio::select! {
                () = stop => {}
                result = &mut raising => ended = Some(result),
            }
        };
        let answered = service::serve_tls(listener, tls, app(self), connections, stop).await;
        inner.stop.stop();
        let raised = match ended {
            Some(ended) => ended,
            None if raises => raising.await,
            None => Ok(Ok(())),
        };
        let closing = tokio::task::spawn_blocking(move || inner.close());
        closing.await.map_err(|_| Error::Broken("the end panicked"))??;
        raised.map_err(|_| Error::Broken("the raiser panicked"))??;
        Ok(answered)
    }

    /// The desk of a bandit, which is opened for the first request.
    pub(crate) async fn desk(&self, id: &str) -> Result<Arc<Desk>, Error> {
        if let Some(desk) = self.0.opened(id) {
            return Ok(desk);
        }
        let (inner, id) = (self.0.clone(), id.to_string());
        blocking(move || inner.open_desk(&id)).await
    }
}

impl Inner {
    /// The desk of a bandit, if there is one.
    fn opened(&self, id: &str) -> Option<Arc<Desk>> {
        lock(&self.desks).get(id).map(|(desk, _)| desk.clone())
    }

    /// The device of the keys, which the bandit `id` needs.
    pub(crate) fn device(&self, id: &str) -> Result<Arc<Device>, Error> {
        match &self.of {
            Of::Keys(device) => Ok(device.clone()),
            Of::Committee(_) => Err(Error::OfOthers { id: id.into(), by: Holder::Keys }),
        }
    }

    fn open_desk(self: &Arc<Self>, id: &str) -> Result<Arc<Desk>, Error> {
        let ask = |_: &mut ChaCha20Rng| self.client.any_bandit(id);
        let created = match patiently(self.options.patience, &self.stop, &mut self.fork_rng(), ask)? {
            AnyBandit::Encrypted(view) => view.created,
            AnyBandit::Committee(_) => return Err(Error::OfOthers { id: id.into(), by: Holder::Committee }),
            AnyBandit::Clear(_) => return Err(Error::NotEncrypted { what: format!("bandit {id}") }),
        };
        let device = self.device(id)?;
        let _opening = lock(&self.opening);
        if let Some(desk) = self.opened(id) {
            return Ok(desk);
        }
        if lock(&self.desks).len() >= MOST_BANDITS {
            return Err(Error::TooManyBandits { most: MOST_BANDITS });
        }
        let (desk, thread) = Desk::open(self, device, created)?;
        lock(&self.desks).insert(id.to_string(), (desk.clone(), thread));
        Ok(desk)
    }

    /// Keeps the settings of a bandit, durably.
    pub(crate) fn set(&self, id: &str, settings: Settings) -> Result<(), Error> {
        self.pending.set(id, settings, now(), &mut self.fork_rng())
    }

    /// Closes the desk of a bandit that the server does not know any more.
    pub(crate) fn forget(&self, id: &str) {
        if let Some((desk, _)) = lock(&self.desks).remove(id) {
            desk.close();
        }
    }

    /// Ends the threads of all bandits, waits for them, and makes what they kept durable.
    fn close(&self) -> Result<(), Error> {
        let desks = std::mem::take(&mut *lock(&self.desks));
        desks.values().for_each(|(desk, _)| desk.close());
        let began = Instant::now();
        while desks.values().any(|(_, thread)| !thread.is_finished()) && began.elapsed() < GRACE {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.pending.sync()
    }

    pub(crate) fn fork_rng(&self) -> ChaCha20Rng {
        ChaCha20Rng::from_rng(&mut *lock(&self.rng))
    }

    pub(crate) fn log(&self, line: &str) {
        (self.log)(line);
    }

    /// Appends lines to the log of decisions, if there is one. A decision does not depend on it: an error is
    /// logged, once until lines are written again.
    pub(crate) fn log_decisions(&self, lines: Vec<Line>) {
        let Some(log) = &self.decisions else { return };
        let mut logs = lock(&self.logs);
        match log.append(&lines) {
            Ok(()) => *logs = true,
            Err(error) if std::mem::replace(&mut *logs, false) => {
                self.log(&format!("decisions are missing in the log of decisions: {error}"));
            }
            Err(_) => {}
        }
    }

    /// Logs that the alarm of a bandit begins or ends, by whether it was given before and is now.
    pub(crate) fn log_alarm(&self, bandit: &str, alarm: [bool; 2]) {
        match alarm {
            [false, true] => self.log(&format!(
                "ALARM: many of the last answers of bandit {bandit} were outside their range: do not rely on its arms. A sender of \
                 contexts or the server deviates from the protocol, or the keys are wrong; `summary` has the numbers"
            )),
            [true, false] => self.log(&format!("the alarm of bandit {bandit} is over")),
            _ => {}
        }
    }

    /// Logs why unreliable decisions were not asked for again, and that the key gives no further answers.
    pub(crate) fn note(&self, unrepeated: Option<&user_client::Error>) {
        if let Some(error) = unrepeated {
            self.log(&format!("an unreliable decision was not repeated: {error}"));
        }
        let Of::Keys(device) = &self.of else { return };
        if let Some(spent) = device.repeats_spent() {
            self.log(&spent.to_string());
        }
        if let Some(spent) = device.answers_spent() {
            self.log(&spent.to_string());
        }
    }
}

/// Runs `work`, which waits for the server, on a thread for it.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::Broken("a request panicked"))?
}

/// The time in seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
