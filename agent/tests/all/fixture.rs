//! Toy keys, a server that counts requests, and an agent beside it.

use axum::extract::Request;
use axum::middleware::{self, Next};
use helba_agent::{Agent, Error, Options};
use helba_server::{AppState, Connections, Settings};
use protocol::{BanditConfig, Shape, Status};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use user_client::{Client, Device};
use wire::{AccessToken, BanditView, Counted, Created, Decided, Problem, PublicBundle};

/// Features and arms of every bandit here.
pub(crate) const D: usize = 2;
pub(crate) const K: usize = 2;

/// How much less than the best index of the twin that of the arm played may be: the resolution of the
/// comparison on toy keys, as in the tests of the server.
pub(crate) const RESOLUTION: f64 = 1e-2;

/// Both bundles of the server's keys.
pub(crate) fn keys() -> &'static (Vec<u8>, Vec<u8>) {
    static KEYS: OnceLock<(Vec<u8>, Vec<u8>)> = OnceLock::new();
    KEYS.get_or_init(|| bundles(1))
}

/// Toy keys.
pub(crate) fn bundles(seed: u64) -> (Vec<u8>, Vec<u8>) {
    bundles_for(D, K, seed)
}

/// Toy keys of bandits with `d` features and `k` arms.
pub(crate) fn bundles_for(d: usize, k: usize, seed: u64) -> (Vec<u8>, Vec<u8>) {
    let request = keygen::Request {
        keys: Default::default(),
        shape: Shape::for_problem(d, k),
        security: keygen::Security::None,
        width: Default::default(),
        exchanges: Default::default(),
        updates: Default::default(),
        created: 0,
    };
    let (mut public, mut secret) = (Vec::new(), Vec::new());
    keygen::generate(request, &mut public, &mut secret, &mut rng(seed), |_, _| ()).unwrap();
    (public, secret)
}

pub(crate) fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

pub(crate) fn token() -> AccessToken {
    AccessToken::from_bytes(&[7; 32]).unwrap()
}

/// A server in this process.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// The number of requests for decisions.
    pub(crate) asked: Arc<AtomicUsize>,
    /// The bodies of all requests.
    pub(crate) seen: Arc<Mutex<Vec<Vec<u8>>>>,
    /// Whether replies to feedback are lost, whose connections end without one.
    pub(crate) loses: Arc<AtomicBool>,
    /// Whether answers to decisions are changed on their way.
    pub(crate) garbles: Arc<AtomicBool>,
    state: Option<AppState>,
    runtime: Option<Runtime>,
}

impl Server {
    pub(crate) fn start(folder: &Path) -> Self {
        Self::start_at("127.0.0.1:0", folder)
    }

    pub(crate) fn start_at(listen: &str, folder: &Path) -> Self {
        Self::start_with(listen, folder, &keys().0)
    }

    pub(crate) fn start_with(listen: &str, folder: &Path, public: &[u8]) -> Self {
        let (runtime, asked) = (Runtime::new().unwrap(), Arc::new(AtomicUsize::new(0)));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let loses = Arc::new(AtomicBool::new(false));
        let garbles = Arc::new(AtomicBool::new(false));
        let recorded = (asked.clone(), seen.clone(), loses.clone(), garbles.clone());
        let record = middleware::from_fn(move |request: Request, next: Next| {
            let (asked, seen, loses, garbles) = recorded.clone();
            async move {
                let loses = request.uri().path().ends_with("/feedback") && loses.load(Ordering::Relaxed);
                let path = request.uri().path();
                let answers = ["/decisions", "/again", "/raises"].iter().any(|end| path.ends_with(end));
                let answers = answers && request.method() == "POST";
                let garbles = answers && garbles.load(Ordering::Relaxed);
                if request.uri().path().ends_with("/decisions") {
                    asked.fetch_add(1, Ordering::Relaxed);
                }
                let (head, body) = request.into_parts();
                let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
                seen.lock().unwrap().push(body.to_vec());
                let reply = next.run(Request::from_parts(head, body.into())).await;
                if loses {
                    std::panic::resume_unwind(Box::new("the reply is lost"));
                }
                if !garbles {
                    return reply;
                }
                let (head, body) = reply.into_parts();
                let mut body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default().to_vec();
                garble(&mut body);
                axum::response::Response::from_parts(head, body.into())
            }
        });
        let (address, state) = runtime.block_on(async {
            let bundle = PublicBundle::read(public).unwrap();
            let state = AppState::open(bundle, &folder.join("server"), Settings::default()).unwrap();
            let listener = TcpListener::bind(listen).await.unwrap();
            let address = listener.local_addr().unwrap();
            let app = helba_server::app(state.clone()).layer(record);
            let never = std::future::pending();
            tokio::spawn(helba_server::serve(listener, app, Connections::default(), never));
            (address, state)
        });
        Server { address, asked, seen, loses, garbles, state: Some(state), runtime: Some(runtime) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A client without an agent.
    pub(crate) fn client(&self) -> Client {
        let token = Device::read(&keys().1[..]).unwrap().token().clone();
        Client::new(&self.url()).unwrap().with_token(token)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop((self.runtime.take(), self.state.take()));
    }
}

/// Changes a bit of every ciphertext in a reply and makes its digest fit, which authenticates nothing: each
/// is a ciphertext still, and decrypts to nonsense.
fn garble(reply: &mut [u8]) {
    let starts: Vec<usize> =
        (4..reply.len().saturating_sub(4)).filter(|at| reply[*at..][..4] == ckks::FRAME_MAGIC).collect();
    for start in starts {
        let length = u32::from_le_bytes(reply[start - 4..start].try_into().unwrap()) as usize;
        let Some(frame) = reply.get_mut(start..start + length) else { continue };
        let (payload, digest) = frame.split_at_mut(length - 32);
        payload[payload.len() / 2] ^= 1;
        digest.copy_from_slice(blake3::hash(payload).as_bytes());
    }
}

/// An agent in this process.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) log: Arc<Mutex<Vec<String>>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<Result<bool, Error>>>,
}

pub(crate) fn options() -> Options {
    Options { rescan: Duration::from_millis(100), ..Options::new(token().digest()) }
}

impl Running {
    pub(crate) fn start(server: &str, folder: &Path) -> Self {
        Self::start_with(server, folder, options())
    }

    pub(crate) fn start_with(server: &str, folder: &Path, options: Options) -> Self {
        Self::start_as(server, folder, options, &keys().1)
    }

    pub(crate) fn start_as(server: &str, folder: &Path, options: Options, secret: &[u8]) -> Self {
        let (agent, log) = open(server, secret, folder, options).unwrap();
        let (stop, stopped) = oneshot::channel();
        let (listening, address) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            Runtime::new().unwrap().block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                listening.send(listener.local_addr().unwrap()).unwrap();
                agent.run(listener, None, Connections::default(), async { drop(stopped.await) }).await
            })
        });
        Running { address: address.recv().unwrap(), log, stop: Some(stop), thread: Some(thread) }
    }

    /// Stops the agent, which answers what was begun.
    pub(crate) fn stop(mut self) -> Result<bool, Error> {
        self.end()
    }

    fn end(&mut self) -> Result<bool, Error> {
        drop(self.stop.take());
        self.thread.take().map_or(Ok(true), |thread| thread.join().unwrap())
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn http(&self) -> Http {
        Http::new(self.url(), Some(token()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = self.end();
        }
    }
}

/// An agent that does not run yet, and its log.
#[expect(clippy::type_complexity, reason = "it is taken apart at once")]
pub(crate) fn open(
    server: &str,
    secret: &[u8],
    folder: &Path,
    options: Options,
) -> Result<(Agent, Arc<Mutex<Vec<String>>>), Error> {
    let device = Device::read(secret).unwrap();
    let client = Client::new(server).unwrap().with_token(device.token().clone());
    let log = Arc::new(Mutex::new(Vec::new()));
    let lines = log.clone();
    let write = move |line: &str| lines.lock().unwrap().push(line.to_string());
    Ok((Agent::open(client, device, folder, options, rng(5), write)?, log))
}

/// An application, which speaks JSON.
#[derive(Clone)]
pub(crate) struct Http {
    pub(crate) base: String,
    pub(crate) agent: ureq::Agent,
    token: Option<AccessToken>,
}

impl Http {
    pub(crate) fn new(base: String, token: Option<AccessToken>) -> Self {
        let config = ureq::Agent::config_builder().http_status_as_error(false).max_idle_connections(0);
        Http { base, agent: config.build().into(), token }
    }

    pub(crate) fn authorized<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        match &self.token {
            Some(token) => request.header("authorization", token.authorization().as_str()),
            None => request,
        }
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        let request = self.authorized(self.agent.post(format!("{}/v1{path}", self.base)));
        answer(request.content_type("application/json").send(body.to_string()).unwrap())
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        answer(self.authorized(self.agent.get(format!("{}/v1{path}", self.base))).call().unwrap())
    }

    pub(crate) fn patch(&self, bandit: &str, body: &Value) -> Answer {
        let request = self.authorized(self.agent.patch(format!("{}/v1/bandits/{bandit}", self.base)));
        answer(request.content_type("application/json").send(body.to_string()).unwrap())
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Answer {
        let request = self.authorized(self.agent.put(format!("{}/v1{path}", self.base)));
        answer(request.content_type("application/json").send(body.to_string()).unwrap())
    }

    pub(crate) fn delete(&self, bandit: &str) -> Answer {
        let request = self.agent.delete(format!("{}/v1/bandits/{bandit}", self.base));
        answer(self.authorized(request).call().unwrap())
    }

    /// A new encrypted bandit.
    pub(crate) fn create(&self) -> String {
        let config = serde_json::to_value(config()).unwrap();
        self.post("/bandits", &config).ok::<Created>().id
    }

    pub(crate) fn decide(&self, bandit: &str, rows: &[Vec<f64>]) -> Answer {
        self.post(&format!("/bandits/{bandit}/decisions"), &json!({"contexts": rows}))
    }

    /// Asks with a body.
    pub(crate) fn decided_by(&self, bandit: &str, body: &Value) -> Answer {
        self.post(&format!("/bandits/{bandit}/decisions"), body)
    }

    pub(crate) fn decided(&self, bandit: &str, rows: &[Vec<f64>]) -> Decided {
        self.decide(bandit, rows).ok()
    }

    pub(crate) fn feedback(&self, bandit: &str, decision: &str, reward: f64) -> Answer {
        let path = format!("/bandits/{bandit}/decisions/{decision}/feedback");
        self.post(&path, &json!({"reward": reward}))
    }

    pub(crate) fn counted(&self, bandit: &str, decision: &str, reward: f64) -> Counted {
        self.feedback(bandit, decision, reward).ok()
    }

    pub(crate) fn status(&self, bandit: &str) -> Status {
        self.get(&format!("/bandits/{bandit}")).ok::<BanditView>().status
    }
}

pub(crate) fn config() -> BanditConfig {
    BanditConfig::new(D, K)
}

/// An answer: status, type and body.
pub(crate) struct Answer(pub(crate) u16, pub(crate) String, pub(crate) Vec<u8>);

pub(crate) fn answer(mut response: ureq::http::Response<ureq::Body>) -> Answer {
    let content_type = response.headers().get("content-type").map(|v| v.to_str().unwrap().to_string());
    let body = response.body_mut().read_to_vec().unwrap();
    Answer(response.status().as_u16(), content_type.unwrap_or_default(), body)
}

impl Answer {
    #[track_caller]
    pub(crate) fn ok<T: DeserializeOwned>(self) -> T {
        assert!(self.0 < 300, "{}: {}", self.0, String::from_utf8_lossy(&self.2));
        serde_json::from_slice(&self.2).unwrap()
    }

    /// Status and reason of the problem document, which an answer that is not a success must be.
    #[track_caller]
    pub(crate) fn problem(self) -> (u16, String) {
        assert_eq!(self.1, wire::PROBLEM_JSON, "{}: {}", self.0, String::from_utf8_lossy(&self.2));
        let problem: Problem = serde_json::from_slice(&self.2).unwrap();
        assert_eq!(problem.status, self.0);
        assert!(!problem.detail.is_empty());
        (self.0, problem.reason.unwrap_or_default())
    }
}

/// Waits until `done`, at most a minute.
#[track_caller]
pub(crate) fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn folder() -> TempDir {
    TempDir::new().unwrap()
}

/// A folder, a server and an agent in it, and an application of the agent.
pub(crate) fn started() -> (TempDir, Server, Running, Http) {
    let folder = folder();
    let server = Server::start(folder.path());
    let agent = Running::start(&server.url(), folder.path());
    let app = agent.http();
    (folder, server, agent, app)
}

/// Rows of norm 1.
pub(crate) fn random_rows(rng: &mut ChaCha20Rng) -> Vec<Vec<f64>> {
    use rand::RngExt;
    let mut unit = || {
        let angle = rng.random_range(0.0..std::f64::consts::TAU);
        vec![f64::cos(angle), f64::sin(angle)]
    };
    (0..K).map(|_| unit()).collect()
}

/// What pays in every test here.
pub(crate) fn reward(x: &[f64]) -> f64 {
    0.8 * x[0] - 0.6 * x[1]
}
