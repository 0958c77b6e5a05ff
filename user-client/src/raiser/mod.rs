//! A holder of the key that answers the tasks of encrypted bandits, beside their devices: the program
//! `helba-raiser`.
//!
//! It opens connections and accepts none. It keeps no state, because a task whose answer is lost is given to
//! the next holder of the key. What it decrypts is masked, and no line of its log depends on it.

mod backoff;
mod signals;
mod stop;

pub use signals::until_signal;
pub use stop::Stop;

use crate::bandit::has_ended;
use crate::{BanditDevice, Client, Device, Error, MaskedTask};
use backoff::Backoff;
use protocol::TaskKind;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::Created;

/// The most bandits of a raiser.
pub const MOST_BANDITS: usize = 64;
/// The most requests of a raiser that wait for tasks of one bandit.
pub const MOST_WAITING: usize = 8;
/// Seconds for which a request waits for a task.
const WAIT: u64 = 30;
/// The least time between two requests without a task.
const LEAST_WAIT: Duration = Duration::from_secs(1);
/// After [`Stop::stop`], answers that are being computed or sent get this time.
const GRACE: Duration = Duration::from_secs(10);
/// The longest line of the log.
const MOST_CHARS: usize = 400;
/// The name of the server in the log.
const SERVER: &str = "the server";

/// What a raiser serves.
#[derive(Debug, Clone)]
pub struct RaiserOptions {
    /// The ids of its bandits. If there are none, all encrypted bandits that the server lists.
    pub bandits: BTreeSet<String>,
    /// The number of requests that wait for tasks of each bandit, from 1 to [`MOST_WAITING`]. Each answers
    /// one task at a time. With two, one waits while the other answers, so that no device is asked.
    pub waiting: usize,
    /// The time between two looks for new bandits.
    pub rescan: Duration,
}

impl Default for RaiserOptions {
    /// All bandits, two requests for each, and a look for new ones every ten seconds.
    fn default() -> Self {
        RaiserOptions { bandits: BTreeSet::new(), waiting: 2, rescan: Duration::from_secs(10) }
    }
}

/// Answers tasks until it is stopped.
pub struct Raiser {
    shared: Arc<Shared>,
    options: RaiserOptions,
    threads: BTreeMap<String, JoinHandle<()>>,
}

/// What the threads share.
struct Shared {
    client: Client,
    device: Arc<Device>,
    stop: Stop,
    rng: Mutex<ChaCha20Rng>,
    log: Box<dyn Fn(&str) + Send + Sync>,
    /// What was logged last about the server and about each bandit that has a fault.
    faults: Mutex<BTreeMap<String, String>>,
}

impl Raiser {
    /// A raiser with the keys of `device`. `log` gets the lines of the log.
    pub fn new(
        client: Client,
        device: impl Into<Arc<Device>>,
        options: RaiserOptions,
        stop: Stop,
        rng: ChaCha20Rng,
        log: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        let (device, rng, log) = (device.into(), Mutex::new(rng), Box::new(log));
        let faults = Mutex::default();
        let shared = Arc::new(Shared { client, device, stop, rng, log, faults });
        Raiser { shared, options, threads: BTreeMap::new() }
    }

    /// Checks that the server has the keys of this raiser, and answers the tasks of its bandits. Returns
    /// after [`Stop::stop`], when every answer that was begun has been sent, but after 10 s at the latest. A
    /// server that cannot be reached is asked again, with growing pauses.
    ///
    /// # Errors
    /// [`Error::WrongKeys`] for a server with other keys or
    /// parameters; [`Error::Refused`], [`Error::BadAnswer`] if the server does not know the token, has no
    /// keys or is no server of bandits.
    pub fn run(mut self) -> Result<(), Error> {
        let shared = self.shared.clone();
        let ended = self.run_until_stopped();
        // After an error the other threads stop too.
        shared.stop.stop();
        if !shared.stop.wait_until_idle(GRACE) {
            shared.log("stopped while answers were being sent");
        }
        ended
    }

    fn run_until_stopped(&mut self) -> Result<(), Error> {
        let shared = self.shared.clone();
        let Some(manifest) = shared.patiently(|| shared.client.keys())? else { return Ok(()) };
        shared.device.check_manifest(&manifest)?;
        // A server that does not know the token refuses this, where it would list no bandit to strangers.
        if shared.patiently(|| shared.client.bandits())?.is_none() {
            return Ok(());
        }
        shared.log(&format!("raising for {} with key {}", shared.client.server(), manifest.ring.key_id));
        loop {
            let Some(found) = shared.patiently(|| self.find())? else { return Ok(()) };
            self.serve(found);
            if shared.stop.wait(self.options.rescan) {
                return Ok(());
            }
        }
    }

    /// The bandits to serve.
    fn find(&self) -> Result<Vec<Created>, Error> {
        let shared = &self.shared;
        if self.options.bandits.is_empty() {
            let listed = shared.client.bandits()?;
            let bandit = listed.into_iter().filter(|bandit| bandit["plan"].is_object());
            let read = |bandit| serde_json::from_value(bandit).map_err(|e| Error::BadAnswer(e.to_string()));
            return bandit.map(read).collect();
        }
        let mut found = Vec::new();
        for id in &self.options.bandits {
            match shared.client.encrypted(id) {
                Ok(view) => found.push(view.created),
                Err(error) if error.is_temporary() => return Err(error),
                // It may be created later.
                Err(error) => shared.fault(id, &error),
            }
        }
        Ok(found)
    }

    /// Starts a thread for each bandit without one. A thread has ended if its bandit was deleted, or does not
    /// fit the keys, or if the server refused a request.
    fn serve(&mut self, found: Vec<Created>) {
        let shared = &self.shared;
        self.threads.retain(|_, thread| !thread.is_finished());
        let known =
            |id: &String| found.iter().any(|bandit| bandit.id == *id) || self.options.bandits.contains(id);
        host::lock(&shared.faults).retain(|id, _| known(id));
        for bandit in found {
            if self.threads.contains_key(&bandit.id) {
                continue;
            }
            if self.threads.len() == MOST_BANDITS {
                let text = format!(
                    "there are more than {MOST_BANDITS} encrypted bandits: start another raiser for some, with --bandit"
                );
                return shared.fault(SERVER, &text);
            }
            let (id, shared, waiting) = (bandit.id.clone(), shared.clone(), self.options.waiting);
            let thread = std::thread::spawn(move || shared.serve(&bandit, waiting));
            self.threads.insert(id, thread);
        }
    }
}

impl Shared {
    /// Answers the tasks of a bandit until the raiser is stopped, or the server refuses a request.
    fn serve(&self, bandit: &Created, waiting: usize) {
        let bandit = match self.device.join(bandit) {
            Ok(bandit) => bandit,
            Err(error) => return self.fault(&bandit.id, &error),
        };
        std::thread::scope(|scope| {
            for _ in 0..waiting.clamp(1, MOST_WAITING) {
                scope.spawn(|| self.answer_tasks(&bandit));
            }
        });
    }

    fn answer_tasks(&self, bandit: &BanditDevice) {
        let (id, mut rng) = (&bandit.created().id, self.fork_rng());
        let mut backoff = Backoff::default();
        while !self.stop.is_stopped() {
            match self.answer_next(bandit, &mut rng) {
                Ok(()) => {
                    backoff = Backoff::default();
                    self.works(id);
                }
                // Another holder of the key was faster.
                Err(error) if has_ended(&error) => {}
                Err(error) => {
                    self.fault(id, &error);
                    let refused = matches!(error, Error::Refused(_)) && !error.is_temporary();
                    if refused || self.stop.wait(backoff.pause(&mut rng)) {
                        return;
                    }
                }
            }
        }
    }

    /// Waits for tasks and answers them, each in a request of its own, so that the first is not delayed.
    fn answer_next(&self, bandit: &BanditDevice, rng: &mut ChaCha20Rng) -> Result<(), Error> {
        let (id, limits, asked) = (&bandit.created().id, bandit.limits(), Instant::now());
        let Some(reply) = self.client.raises(id, limits, WAIT)? else {
            self.stop.wait(LEAST_WAIT.saturating_sub(asked.elapsed()));
            return Ok(());
        };
        let Some(_busy) = self.stop.begin() else { return Ok(()) };
        let tasks = bandit.read(&reply)?.tasks;
        if tasks.is_empty() {
            return Err(Error::BadAnswer("it has no task".into()));
        }
        let mut answer = |task: &MaskedTask| -> Result<(), Error> {
            let began = Instant::now();
            let answer = bandit.raise(std::slice::from_ref(task), None, rng)?;
            let computed = began.elapsed().as_millis();
            self.client.post_raises(id, limits, &answer)?;
            let (kind, sent) = (name(task.kind()), began.elapsed().as_millis());
            self.log(&format!("bandit {id}: {kind} in {computed} ms, sent after {sent} ms"));
            Ok(())
        };
        // One task that another has answered does not keep the others from being answered.
        tasks.iter().map(&mut answer).fold(Ok(()), Result::and)
    }

    /// The result of `request`, repeated with growing pauses while the server cannot answer. `None` after the
    /// raiser was stopped.
    fn patiently<T>(&self, mut request: impl FnMut() -> Result<T, Error>) -> Result<Option<T>, Error> {
        let (mut backoff, mut rng) = (Backoff::default(), self.fork_rng());
        loop {
            match request() {
                Err(error) if error.is_temporary() => {
                    self.fault(SERVER, &error);
                    if self.stop.wait(backoff.pause(&mut rng)) {
                        return Ok(None);
                    }
                }
                done => {
                    self.works(SERVER);
                    return done.map(Some);
                }
            }
        }
    }

    fn fork_rng(&self) -> ChaCha20Rng {
        ChaCha20Rng::from_rng(&mut *host::lock(&self.rng))
    }

    /// Logs a fault, unless it was the last one that was logged about `what`.
    fn fault(&self, what: &str, fault: &dyn std::fmt::Display) {
        let fault = fault.to_string();
        let mut faults = host::lock(&self.faults);
        if faults.get(what) != Some(&fault) {
            self.log(&format!("{}: {fault}", subject(what)));
            faults.insert(what.to_string(), fault);
        }
    }

    /// Logs the end of a fault.
    fn works(&self, what: &str) {
        if host::lock(&self.faults).remove(what).is_some() {
            self.log(&format!("{}: works again", subject(what)));
        }
    }

    /// Logs a line. Parts of it come from the server, so that it is cut, and control characters are escaped.
    fn log(&self, line: &str) {
        (self.log)(&host::visible(&line.chars().take(MOST_CHARS).collect::<String>()));
    }
}

/// The result of `request`, repeated with growing pauses while the server cannot be reached or has no place,
/// until `within` is over or `stop` is given. The request gets `rng`, from which pauses are drawn too. It
/// must be one that may be sent twice.
///
/// # Errors
/// Those of the last `request`.
pub fn patiently<T, R: Rng>(
    within: Duration,
    stop: &Stop,
    rng: &mut R,
    mut request: impl FnMut(&mut R) -> Result<T, Error>,
) -> Result<T, Error> {
    let (began, mut backoff) = (Instant::now(), Backoff::default());
    loop {
        match request(rng) {
            Err(error) if error.is_temporary() => {
                let pause = backoff.pause(rng);
                if began.elapsed() + pause > within || stop.wait(pause) {
                    return Err(error);
                }
            }
            done => return done,
        }
    }
}

fn subject(what: &str) -> String {
    if what == SERVER { SERVER.into() } else { format!("bandit {what}") }
}

fn name(kind: TaskKind) -> &'static str {
    match kind {
        TaskKind::Scores { .. } => "scores raised",
        TaskKind::Sum => "sum raised",
        TaskKind::Model => "model encrypted anew",
        TaskKind::Answers => "answers encrypted anew",
        TaskKind::Pads => "pads of uploads encrypted",
        TaskKind::Product { .. } => "step of an update exchanged",
        TaskKind::Stage { .. } => "step of an evaluation exchanged",
    }
}
