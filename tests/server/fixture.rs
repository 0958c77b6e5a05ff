//! Toy keys, a device, and servers in process and out of it.

use crate::contract;
use ckks::Plaintext;
use ckks_secret::SecretKey;
use helba_server::{AppState, Connections, Settings, app, serve};
use num_complex::Complex64;
use protocol::{BanditConfig, Exchanging, Shape, Updates, WidthShape};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;
use wire::{AccessToken, Created, Problem, PublicBundle, SecretBundle};

/// Features and arms of every bandit here.
pub(crate) const D: usize = 2;
pub(crate) const K: usize = 2;

/// Of the program, in the tests' output.
const LOG: &str = "error";

/// A key pair, in memory and in files.
pub(crate) struct Keys {
    pub(crate) bundle: PublicBundle,
    secret: SecretKey,
    small: SecretKey,
    device: user_client::Device,
    folder: PathBuf,
}

impl Keys {
    fn generate(seed: u64, toy: bool, width: WidthShape) -> Self {
        Self::generate_for(seed, toy, width, Updates::Slots, (D, K, Exchanging::One))
    }

    fn generate_for(
        seed: u64,
        toy: bool,
        width: WidthShape,
        updates: Updates,
        (d, k, exchanges): (usize, usize, Exchanging),
    ) -> Self {
        // Statics are never dropped, so that a temporary folder would stay after each run.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("server-keys-{seed}"));
        std::fs::create_dir_all(&folder).unwrap();
        let security = if toy { keygen::Security::None } else { keygen::Security::Classical128 };
        let request = keygen::Request {
            keys: Default::default(),
            shape: Shape::for_problem(d, k),
            security,
            width,
            exchanges,
            updates,
            created: 0,
        };
        let (mut public, mut secret) = (Vec::new(), Vec::new());
        keygen::generate(request, &mut public, &mut secret, &mut ChaCha20Rng::seed_from_u64(seed), |_, _| ())
            .unwrap();
        for (name, bundle) in [("public.bundle", &public), ("secret.bundle", &secret)] {
            // Whole at any time, for other runs of these tests.
            let own = folder.join(format!("{name}.{}", std::process::id()));
            std::fs::write(&own, bundle).unwrap();
            std::fs::rename(own, folder.join(name)).unwrap();
        }
        let bundle = PublicBundle::read(&public[..]).unwrap();
        let device = user_client::Device::read(&secret[..]).unwrap();
        let secrets = SecretBundle::read(&secret[..]).unwrap();
        let (secret, _) = SecretKey::from_bytes(&bundle.params, &secrets.frame).unwrap();
        let scores = secrets.scores;
        let (small, _) = SecretKey::from_bytes(&scores.params, &scores.frame).unwrap();
        Keys { bundle, secret, small, device, folder }
    }

    pub(crate) fn token(&self) -> &AccessToken {
        self.device.token()
    }

    /// The secret key of the ring of scores.
    pub(crate) fn small(&self) -> &SecretKey {
        &self.small
    }

    /// The holder of the secret keys.
    pub(crate) fn device(&self) -> &user_client::Device {
        &self.device
    }

    pub(crate) fn public_file(&self) -> PathBuf {
        self.folder.join("public.bundle")
    }

    pub(crate) fn secret_file(&self) -> PathBuf {
        self.folder.join("secret.bundle")
    }
}

/// The key pair of most tests.
pub(crate) fn keys() -> &'static Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    KEYS.get_or_init(|| Keys::generate(1, true, WidthShape::Root))
}

/// Somebody else's.
pub(crate) fn other_keys() -> &'static Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    KEYS.get_or_init(|| Keys::generate(2, true, WidthShape::Root))
}

/// Of a tangent alone, so that evaluations have a ring of their own.
pub(crate) fn tangent_keys() -> &'static Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    KEYS.get_or_init(|| Keys::generate(4, true, WidthShape::Tangent))
}

/// Of updates by products.
pub(crate) fn product_keys() -> &'static Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    KEYS.get_or_init(|| {
        Keys::generate_for(6, true, WidthShape::Tangent, Updates::Products, (D, K, Exchanging::One))
    })
}

/// Of decisions in stages, for 17 to 32 features and 5 to 8 arms.
pub(crate) fn stage_keys() -> &'static Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    KEYS.get_or_init(|| {
        Keys::generate_for(7, true, WidthShape::Tangent, Updates::Products, (32, 8, Exchanging::Staged))
    })
}

/// At 128 bits of security: seconds to make, some hundred MB.
pub(crate) fn real_keys() -> &'static Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    KEYS.get_or_init(|| Keys::generate(3, false, WidthShape::Root))
}

/// An answer: status and body.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    #[track_caller]
    pub(crate) fn ok(self) -> Vec<u8> {
        assert!(self.status < 300, "{}: {}", self.status, String::from_utf8_lossy(&self.body));
        self.body
    }

    /// The problem document, which an answer that is not a success must be.
    #[track_caller]
    pub(crate) fn problem(self) -> Problem {
        assert_eq!(self.content_type, wire::PROBLEM_JSON, "{}", self.status);
        let problem: Problem = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(problem.status, self.status);
        assert!(!problem.detail.is_empty());
        problem
    }
}

/// Speaks HTTP and holds the secret key.
pub(crate) struct Device {
    base: String,
    agent: ureq::Agent,
    pub(crate) keys: &'static Keys,
    /// Sent with every request.
    bearer: Option<String>,
}

impl Device {
    pub(crate) fn new(address: SocketAddr, keys: &'static Keys) -> Self {
        let agent =
            ureq::Agent::config_builder().http_status_as_error(false).max_idle_connections(0).build().into();
        let bearer = Some(keys.device.token().authorization().to_string());
        Device { base: format!("http://{address}/v1"), agent, keys, bearer }
    }

    /// The address of the server, for clients.
    pub(crate) fn server(&self) -> &str {
        self.base.trim_end_matches("/v1")
    }

    /// As this one, with another token or none.
    pub(crate) fn with_token(&self, token: Option<&AccessToken>) -> Self {
        let bearer = token.map(|token| token.authorization().to_string());
        Device { base: self.base.clone(), agent: self.agent.clone(), keys: self.keys, bearer }
    }

    /// As this one, with another value of the header.
    pub(crate) fn with_bearer(&self, bearer: &str) -> Self {
        let bearer = Some(bearer.to_string());
        Device { base: self.base.clone(), agent: self.agent.clone(), keys: self.keys, bearer }
    }

    /// The header of its token, for tests that speak HTTP by hand.
    pub(crate) fn authorization(&self) -> String {
        format!("Authorization: {}", self.bearer.as_deref().unwrap_or_default())
    }

    fn authorized<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        match &self.bearer {
            Some(bearer) => request.header("authorization", bearer),
            None => request,
        }
    }

    pub(crate) fn try_post(&self, path: &str, body: &[u8]) -> Result<Answer, ureq::Error> {
        let request = self.authorized(self.agent.post(format!("{}{path}", self.base)));
        match content_type(path, body) {
            Some(content_type) => request.content_type(content_type),
            None => request,
        }
        .send(body)
        .map(|response| answer("post", path, response))
    }

    pub(crate) fn post(&self, path: &str, body: &[u8]) -> Answer {
        self.try_post(path, body).unwrap()
    }

    /// As [`Self::post`], with another header.
    pub(crate) fn post_with(&self, path: &str, (name, value): (&str, &str), body: &[u8]) -> Answer {
        let request = self.authorized(self.agent.post(format!("{}{path}", self.base)));
        let content_type = content_type(path, body).unwrap_or(wire::OCTET_STREAM);
        let request = request.content_type(content_type).header(name, value);
        answer("post", path, request.send(body).unwrap())
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        answer("get", path, self.authorized(self.agent.get(format!("{}{path}", self.base))).call().unwrap())
    }

    /// The answer to a request for a path above `/v1`.
    pub(crate) fn above(&self, path: &str) -> Answer {
        let mut response =
            self.authorized(self.agent.get(format!("{}{path}", self.server()))).call().unwrap();
        let content_type = response.headers().get("content-type").map(|v| v.to_str().unwrap().to_string());
        Answer {
            status: response.status().as_u16(),
            content_type: content_type.unwrap_or_default(),
            body: response.body_mut().read_to_vec().unwrap(),
        }
    }

    /// As [`Self::get`], with the headers of the answer.
    pub(crate) fn get_with_headers(&self, path: &str) -> (ureq::http::HeaderMap, Vec<u8>) {
        let response = self.authorized(self.agent.get(format!("{}{path}", self.base))).call().unwrap();
        (response.headers().clone(), answer("get", path, response).ok())
    }

    /// A change of name and tags, if they have this `ETag`.
    pub(crate) fn patch(&self, path: &str, etag: Option<&str>, body: &[u8]) -> Answer {
        let request = self.authorized(self.agent.patch(format!("{}{path}", self.base)));
        let request = request.content_type("application/json");
        let request = match etag {
            Some(etag) => request.header("if-match", etag),
            None => request,
        };
        answer("patch", path, request.send(body).unwrap())
    }

    pub(crate) fn put(&self, path: &str, body: &[u8]) -> Answer {
        let request = self.authorized(self.agent.put(format!("{}{path}", self.base)));
        answer("put", path, request.content_type("application/json").send(body).unwrap())
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        answer(
            "delete",
            path,
            self.authorized(self.agent.delete(format!("{}{path}", self.base))).call().unwrap(),
        )
    }

    pub(crate) fn create(&self, config: &BanditConfig) -> Created {
        serde_json::from_slice(&self.post("/bandits", &serde_json::to_vec(config).unwrap()).ok()).unwrap()
    }

    /// A frame of the deep ring at any level.
    pub(crate) fn encrypt(&self, level: usize, rng: &mut ChaCha20Rng) -> Vec<u8> {
        let plaintext = Plaintext::encode(&self.keys.bundle.params, &[Complex64::ONE], level).unwrap();
        ckks_secret::encrypt(&self.keys.secret, &plaintext, rng)
            .to_bytes(&self.keys.secret, self.keys.bundle.key_id)
    }
}

/// What clients say of such a body. One that is empty is of no type.
fn content_type(path: &str, body: &[u8]) -> Option<&'static str> {
    let json = path == "/bandits" || path.ends_with("/shuffled");
    match body.first()? {
        b'{' | b'[' | b' ' => Some("application/json"),
        _ => Some(if json { "application/json" } else { wire::OCTET_STREAM }),
    }
}

/// The answer to a request for `path` below `/v1`, which is one of those that the server describes.
fn answer(method: &str, path: &str, mut response: ureq::http::Response<ureq::Body>) -> Answer {
    let content_type = response.headers().get("content-type").map(|v| v.to_str().unwrap().to_string());
    let answer = Answer {
        status: response.status().as_u16(),
        content_type: content_type.unwrap_or_default(),
        body: response.body_mut().with_config().limit(64 << 20).read_to_vec().unwrap(),
    };
    contract::check(method, path, &answer);
    answer
}

/// `frame` after `change`, with a digest that fits again: what a forger would send.
pub(crate) fn forged(frame: &[u8], change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut out = frame.to_vec();
    let end = out.len() - ckks::FRAME_DIGEST_BYTES;
    change(&mut out[..end]);
    let digest = blake3::hash(&out[..end]);
    out[end..].copy_from_slice(digest.as_bytes());
    out
}

/// A server in this process.
pub(crate) struct InProcess {
    pub(crate) address: SocketAddr,
    pub(crate) state: AppState,
    pub(crate) folder: TempDir,
    // Dropped last, with the server in it.
    _runtime: tokio::runtime::Runtime,
}

impl InProcess {
    pub(crate) fn start(settings: Settings) -> Self {
        Self::open(TempDir::new().unwrap(), settings)
    }

    /// Whose policies in the clear belong to the bearers of `operator`.
    pub(crate) fn start_operated(operator: &AccessToken) -> Self {
        let settings = Settings { operator: Some(operator.digest()), ..Settings::default() };
        Self::open(TempDir::new().unwrap(), settings)
    }

    /// Ended and started again on what it has stored.
    pub(crate) fn restart(self) -> Self {
        self.restart_with(Settings::default())
    }

    pub(crate) fn restart_with(self, settings: Settings) -> Self {
        let InProcess { folder, state, _runtime: runtime, .. } = self;
        drop((runtime, state));
        Self::open(folder, settings)
    }

    fn open(folder: TempDir, settings: Settings) -> Self {
        Self::open_with(folder, settings, Connections::default())
    }

    pub(crate) fn open_with(folder: TempDir, settings: Settings, connections: Connections) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (address, state) = runtime.block_on(async {
            // With keys of the paper's method there are no others.
            let bundle = settings.paper.is_none().then(|| keys().bundle.clone());
            let state = AppState::open(bundle, folder.path(), settings).unwrap();
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(serve(listener, app(state.clone()), connections, std::future::pending()));
            (address, state)
        });
        InProcess { address, state, folder, _runtime: runtime }
    }

    pub(crate) fn device(&self) -> Device {
        Device::new(self.address, keys())
    }
}

pub(crate) fn command(keys: &Path, state: &Path, listen: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_helba-server"));
    command.arg("--toy").arg("--keys").arg(keys).arg("--state").arg(state).args(["--listen", listen]);
    command.env("RUST_LOG", LOG);
    command
}

/// The program itself.
pub(crate) struct Program {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
}

impl Program {
    pub(crate) fn start(state: &Path) -> Self {
        Self::spawn(&mut command(&keys().public_file(), state, "127.0.0.1:0"))
    }

    /// Without `--keys`: policies in the clear alone.
    pub(crate) fn start_without_keys(state: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_helba-server"));
        command.arg("--state").arg(state).args(["--listen", "127.0.0.1:0"]).env("RUST_LOG", "warn");
        Self::spawn(command.stderr(std::fs::File::create(state.with_extension("log")).unwrap()))
    }

    /// For tests that limit the size of files: the signal that comes with it would end the process.
    pub(crate) fn start_ignoring_file_size_signal(state: &Path) -> Self {
        let inner = command(&keys().public_file(), state, "127.0.0.1:0");
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
            .arg(inner.get_program())
            .args(inner.get_args())
            .env("RUST_LOG", LOG);
        Self::spawn(&mut shell)
    }

    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").expect("the first line on stdout");
        Program { address: address.parse().unwrap(), child }
    }

    pub(crate) fn device(&self) -> Device {
        Device::new(self.address, keys())
    }

    /// As `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Already gone in most tests.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the program says when it does not start: stderr, after a check that it failed with a sentence and no
/// panic.
#[track_caller]
pub(crate) fn refused(keys: &Path, state: &Path, listen: &str) -> String {
    let Output { status, stderr, stdout } = command(keys, state, listen).output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert!(stdout.is_empty());
    // Lines before it are the log's.
    let said = stderr.lines().last().unwrap();
    assert!(said.starts_with("error: ") && !stderr.contains("panicked"), "{stderr}");
    said.to_string()
}

/// A port that somebody uses.
pub(crate) fn busy_port() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// Every file below a folder.
pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| if path.is_dir() { files_below(&path) } else { vec![path] };
    entries.flat_map(below).collect()
}

/// Reads until the peer closes or says nothing more, for tests that speak HTTP by hand.
pub(crate) fn read_head(stream: &mut std::net::TcpStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n == 1) {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}
