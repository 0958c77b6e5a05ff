//! The HTTP interface: routes under `/v1`, with one file for each resource. Each handler finds the bandit,
//! reads the body, takes a place, computes and answers, in this order. A request that is refused before its
//! body is read has its body discarded. [`Route`] is the table of routes; each is guarded by its row.
//!
//! | route | file |
//! |---|---|
//! | `GET /health` | `health` |
//! | `GET /openapi.json` | `openapi` |
//! | `GET /docs`, and `GET /` and `GET /dashboard` above `/v1` | `pages` |
//! | `GET /metrics`, also above `/v1` | `metrics` |
//! | `GET /keys` | `keys` |
//! | `GET /policies` | `policies` |
//! | `GET, POST /bandits`, `GET, PATCH, DELETE /bandits/{id}` | `bandits` |
//! | `PUT /bandits/{id}/frozen`, `GET /bandits/{id}/model`, `POST /bandits/{id}/copy` | `life` |
//! | `POST /bandits/{id}/decisions` | `decisions` |
//! | `POST /bandits/{id}/decisions/{decision}/again` | `again` |
//! | `POST /bandits/{id}/decisions/{decision}/feedback` | `feedback` |
//! | `GET, POST /bandits/{id}/raises`, `GET /bandits/{id}/counters` | `raises` |
//! | `POST /bandits/{id}/shuffled` | `batches` |
//! | `GET /committee`, `GET /committee/members`, `POST /committee/sessions`, `POST /committee/members/{member}/rounds` | `committee` |

mod again;
mod bandits;
mod batches;
mod committee;
mod decisions;
mod feedback;
mod health;
mod keys;
mod life;
mod metrics;
mod openapi;
mod pages;
mod policies;
mod problem;
mod raises;

pub use openapi::document;
pub use problem::printable;

use crate::access::{Access, Caller, Route};
use crate::bandits::{Bandit, Bandits, BodyLimit, EncryptedServed, Reply, Room, Stages};
use crate::clock::Clock;
use crate::committee::Given;
use crate::error::Error;
use crate::jobs::Admission;
use crate::metrics::Metrics;
use axum::Router;
use axum::body::HttpBody;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, get, on};
use service::{Bodies, Body, CertificateEnd, Cors, DISCARDED_BYTES, Hosts, Origin, Pace};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tracing::Instrument;
use wire::{OCTET_STREAM, PaperKeys, PublicBundle, TokenDigest};

/// The body of a request without the token is read and discarded if it is at most this long.
const DISCARDED_OF_STRANGERS: u64 = 8 << 20;

/// Settings and limits of the server.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The most requests that are computed at a time, each with some tens of MB of memory. Others are
    /// answered 503.
    pub max_in_flight: usize,
    /// The most bandits, each with some tens of MB of memory.
    pub max_bandits: usize,
    /// The most bytes of request bodies above 64 KiB in memory. A request whose body does not fit is answered
    /// 503.
    pub body_memory: usize,
    /// The time after which a decision of a clear policy without feedback expires, in whole seconds, if the
    /// creation of its bandit names none.
    pub wait: Duration,
    /// The time by which they expire.
    pub clock: Clock,
    /// Host names of this server besides loopback addresses. `None` admits requests for any host. A server
    /// that listens on a loopback address needs a list: without it, a page of any site can reach the server
    /// from a browser on the same machine, under a name that resolves to the loopback address (DNS
    /// rebinding).
    pub hosts: Option<Vec<String>>,
    /// Origins of pages besides those of this server that may send requests.
    pub cors_origins: Vec<Origin>,
    /// Whether the state folder was restored from a backup. Bandits with a privacy guarantee then start again
    /// without their data, because the lost state may have released it.
    pub restored: bool,
    /// Digest of the operator's token. Without one, and without API tokens in the state folder, everybody who
    /// reaches the port can use clear policies.
    pub operator: Option<TokenDigest>,
    /// The most users who wait for encrypted decisions. Others are answered 503.
    pub max_waiting: usize,
    /// The time after which encrypted decisions are answered 503 if no holder of the key has raised their
    /// scores.
    pub raise_timeout: Duration,
    /// The time after which an evaluation whose scores were not raised leaves its turn to the next one of its
    /// bandit.
    pub raise_turn: Duration,
    /// The time that the last holder of the key who can be asked for a raise gets.
    pub last_raise: Duration,
    /// The longest time for which an evaluation in stages waits for holders of the key who are silent.
    pub stage_patience: Duration,
    /// The time that the members of a committee have for an answer, after which they count as away.
    pub member_patience: Duration,
    /// The most bytes of contexts of encrypted decisions that are kept in memory, so that evaluations can be
    /// repeated. Without memory for its contexts an evaluation is not repeated.
    pub context_memory: usize,
    /// The time after an encrypted answer within which its user may ask again.
    pub ask_again: Duration,
    /// Whether the logs of encrypted bandits are kept since their creation, for an audit.
    pub keep_log: bool,
    /// The committee whose bandits are served.
    pub committee: Option<::shares::SignedManifest>,
    /// Keys of the paper's method, whose bandits are served.
    pub paper: Option<PaperKeys>,
    /// The committee to which it moves.
    pub next_committee: Option<::shares::SignedManifest>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            max_in_flight: 32,
            max_bandits: 64,
            operator: None,
            max_waiting: 8192,
            raise_timeout: Duration::from_secs(60),
            raise_turn: Duration::from_secs(4),
            last_raise: Duration::from_secs(20),
            stage_patience: Duration::from_secs(2),
            member_patience: Duration::from_secs(5),
            context_memory: 256 << 20,
            ask_again: Duration::from_secs(10),
            keep_log: false,
            committee: None,
            paper: None,
            next_committee: None,
            body_memory: 256 << 20,
            wait: Duration::from_secs(600),
            clock: Clock::default(),
            hosts: None,
            cors_origins: Vec::new(),
            restored: false,
        }
    }
}

/// The state of a running server. Cheap to clone.
#[derive(Clone)]
pub struct AppState(Arc<Inner>);

struct Inner {
    bandits: Bandits,
    access: Access,
    admission: Admission,
    bodies: Bodies,
    hosts: Hosts,
    cors: Cors,
    stages: Stages,
    metrics: Arc<Metrics>,
    /// Which kernels run, in a sentence.
    kernel: String,
    /// None over plain HTTP.
    certificate: OnceLock<CertificateEnd>,
    /// Whether the server stops.
    stopping: watch::Sender<bool>,
}

impl AppState {
    /// Loads the bandits in `folder`, which is created if it does not exist, and continues batch updates that
    /// were interrupted. Without a bundle, the server serves clear policies only; encrypted bandits in the
    /// folder stay as they are, and requests for them are refused.
    ///
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`Error::StateInUse`], [`Error::StateFormat`], [`Error::OtherKeys`], [`Error::CorruptState`],
    /// [`Error::Log`], [`Error::FolderIsShared`], [`Error::Tokens`], and those of the disk.
    pub fn open(
        bundle: impl Into<Option<PublicBundle>>,
        folder: &Path,
        settings: Settings,
    ) -> Result<Self, Error> {
        let metrics = Arc::new(Metrics::new(Instant::now()));
        let (stages, keep_log) = (Stages::new(&settings, metrics.clone())?, settings.keep_log);
        let Settings { max_in_flight, max_bandits, operator, body_memory, hosts, restored, .. } = settings;
        let Settings { cors_origins, committee, next_committee, member_patience, paper, .. } = settings;
        let paper = paper.map(|keys| (keys, settings.raise_timeout));
        let (wait, clock) = (settings.wait.as_secs(), settings.clock);
        let room = Room { most: max_bandits, wait, clock };
        let (patience, waits) = (member_patience, settings.raise_timeout);
        let committee = committee.map(|manifest| Given { manifest, next: next_committee, patience, waits });
        let bandits = Bandits::open(
            (bundle.into(), committee),
            paper,
            folder,
            room,
            stages.clone(),
            keep_log,
            restored,
        )?;
        let of_paper = bandits.paper_manifest().ok().map(|manifest| manifest.token_digest);
        let participant = bandits.keys().ok().map(|keys| keys.manifest.token_digest).or(of_paper);
        let enroller =
            bandits.keys().ok().and_then(|keys| Some((keys.manifest.enroller?, keys.engine.key_id())));
        Ok(AppState(Arc::new(Inner {
            bandits,
            access: Access::new(participant, operator, folder, enroller)?,
            admission: Admission::new(max_in_flight),
            bodies: Bodies::within(body_memory, Pace::default()),
            hosts: Hosts(hosts),
            cors: Cors {
                origins: cors_origins,
                methods: "GET, POST, PUT, PATCH, DELETE",
                request_headers: REQUEST_HEADERS,
                answer_headers: ANSWER_HEADERS,
            },
            stages,
            metrics,
            kernel: planner::kernel_choice(),
            certificate: OnceLock::new(),
            stopping: watch::Sender::new(false),
        })))
    }

    /// Lets the metrics show when the certificate of this server ends.
    pub fn show_certificate(&self, ends: CertificateEnd) {
        // Set once, at the start.
        let _ = self.0.certificate.set(ends);
    }

    /// Takes another operator's token in the place of [`Settings::operator`], which opens nothing from then
    /// on. A server that was opened without one takes none.
    pub fn replace_operator(&self, token: TokenDigest) {
        self.0.access.replace_operator(token);
    }

    /// Answers requests that wait for tasks or messages as if there were none, now and from now on. A server
    /// that stops waits for its requests, which would take as long as these wait, up to 30 s.
    pub fn end_waits(&self) {
        self.0.stopping.send_replace(true);
    }

    /// What `waiting` returns, or `None` when [`Self::end_waits`] is called.
    async fn unless_stopping<T>(
        &self,
        waiting: impl Future<Output = Result<Option<T>, Error>>,
    ) -> Result<Option<T>, Error> {
        let mut stopping = self.0.stopping.subscribe();
        tokio::select! {
            found = waiting => found,
            _ = stopping.wait_for(|stopping| *stopping) => Ok(None),
        }
    }

    /// The number of bandits.
    pub fn bandits(&self) -> usize {
        self.0.bandits.count().0
    }

    /// The number of users in the open pack of an encrypted bandit, and 0 for other bandits.
    pub fn users_waiting(&self, id: &str) -> usize {
        self.encrypted(id).map_or(0, |bandit| bandit.users_waiting())
    }

    /// The number of raisers who wait for tasks of an encrypted bandit, and 0 for other bandits.
    pub fn raisers_waiting(&self, id: &str) -> usize {
        self.encrypted(id).map_or(0, |bandit| bandit.raisers_waiting())
    }

    /// The number of senders whose contexts an encrypted bandit evaluates alone, and 0 for other bandits.
    pub fn senders_alone(&self, id: &str) -> usize {
        self.encrypted(id).map_or(0, |bandit| bandit.senders_alone())
    }

    fn encrypted(&self, id: &str) -> Result<Arc<EncryptedServed>, Error> {
        self.0.bandits.find(id)?.encrypted(id)
    }

    /// The number of encrypted bandits whose keys are not loaded.
    pub fn keys_missing(&self) -> usize {
        self.0.bandits.count().1
    }

    /// The bandit, if the request of `caller` may be about it.
    fn find_for(&self, id: &str, caller: &Caller) -> Result<Bandit, Error> {
        caller.check_id(id)?;
        let bandit = self.0.bandits.find(id)?;
        caller.check(bandit.kind())?;
        Ok(bandit)
    }

    /// Whether requests need tokens: the server has an operator's token or API tokens.
    pub fn has_tokens(&self) -> bool {
        self.0.access.is_on()
    }

    async fn body(&self, request: Request, limit: BodyLimit) -> Result<Body, Error> {
        let body = self.0.bodies.read(request, limit.bytes, Some(limit.content)).await?;
        self.0.metrics.received(body.len());
        Ok(body)
    }
}

/// What was found before the body of `request` is read; an error after the body was discarded.
async fn found<T>(request: Request, found: Result<T, Error>) -> Result<(T, Request), Error> {
    match found {
        Ok(found) => Ok((found, request)),
        Err(error) => Err(refuse(request, error).await),
    }
}

/// Returns `error` after the body of `request` was discarded.
async fn refuse(request: Request, error: Error) -> Error {
    let most = match error {
        Error::Unauthorized { .. } | Error::ForbiddenScope { .. } => DISCARDED_OF_STRANGERS,
        _ => DISCARDED_BYTES,
    };
    service::discard(request, most).await;
    error
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let (content_type, bytes) = match self {
            Reply::Json(bytes) => ("application/json", bytes),
            Reply::Binary(bytes) => (OCTET_STREAM, bytes),
        };
        ([(header::CONTENT_TYPE, content_type)], bytes).into_response()
    }
}

/// The `ETag` of a body, a digest of it.
fn etag(body: &[u8]) -> String {
    format!("\"{}\"", &blake3::hash(body).to_hex()[..32])
}

/// `answer` with an `ETag`; 304 if the request names it in `If-None-Match`.
fn unless_same(headers: &HeaderMap, etag: &str, answer: impl FnOnce() -> Response) -> Response {
    let named = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut named = named.flat_map(|value| value.split(',')).map(str::trim);
    let same = named.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag);
    let mut response = if same { StatusCode::NOT_MODIFIED.into_response() } else { answer() };
    if let Ok(etag) = HeaderValue::from_str(etag) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    // A copy is asked about each time, and no proxy keeps one for others.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    response
}

/// The routes, under `/v1`, and the root.
pub fn app(state: AppState) -> Router {
    let guard = |route: Route| middleware::from_fn_with_state((state.clone(), route), check_token);
    let guarded = |routes: Router<AppState>, route: Route| {
        routes.route(route.path(), handler(route).route_layer(guard(route)))
    };
    let routes = Route::ALL.into_iter().fold(Router::new(), guarded);
    Router::new()
        .nest("/v1", routes)
        .route("/", get(pages::root))
        .route("/dashboard", get(pages::dashboard))
        .route("/metrics", get(metrics::prometheus).route_layer(guard(Route::Metrics)))
        .fallback(async |request: Request| Error::UnknownPath {
            path: request.uri().path().chars().take(200).collect(),
        })
        .method_not_allowed_fallback(async || Error::WrongMethod)
        .layer(middleware::from_fn_with_state(state.clone(), check_origin))
        .layer(middleware::from_fn(name_request))
        .layer(middleware::from_fn_with_state(state.clone(), count_answer))
        .with_state(state)
}

/// What answers a route.
fn handler(route: Route) -> MethodRouter<AppState> {
    let method = MethodFilter::try_from(route.method()).unwrap_or(MethodFilter::GET);
    match route {
        Route::Health => on(method, health::show),
        Route::OpenApi => on(method, openapi::show),
        Route::Docs => on(method, pages::docs),
        Route::Keys => on(method, keys::show),
        Route::Policies => on(method, policies::list),
        Route::Metrics => on(method, metrics::show),
        Route::List => on(method, bandits::list),
        Route::Create => on(method, bandits::create),
        Route::Show => on(method, bandits::show),
        Route::Relabel => on(method, bandits::relabel),
        Route::Freeze => on(method, life::freeze),
        Route::Copy => on(method, life::copy),
        Route::Delete => on(method, bandits::delete),
        Route::Decide => on(method, decisions::decide),
        Route::Again => on(method, again::again),
        Route::Feedback => on(method, feedback::feedback),
        Route::Erase => on(method, feedback::erase),
        Route::Learn => on(method, feedback::learn),
        Route::Counters => on(method, raises::counters),
        Route::Model => on(method, life::model),
        Route::Tasks => on(method, raises::wait),
        Route::Raise => on(method, raises::answer),
        Route::Shuffled => on(method, batches::receive),
        Route::Committee => on(method, committee::show),
        Route::Members => on(method, committee::members),
        Route::Session => on(method, committee::session),
        Route::Rounds => on(method, committee::rounds),
    }
}

/// Counts the answer. Its body is in memory, so that its length is known.
async fn count_answer(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let bytes = response.body().size_hint().exact().unwrap_or(0);
    state.0.metrics.answered(response.status().as_u16(), bytes);
    response
}

/// The header that names a request in the log.
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

/// Names the request in the log and in the answer: by its own header, if that is a short name, or by a random
/// number.
async fn name_request(request: Request, next: Next) -> Response {
    let is_name = |text: &[u8]| {
        (1..=64).contains(&text.len()) && text.iter().all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(c))
    };
    let given = request.headers().get(REQUEST_ID).filter(|value| is_name(value.as_bytes())).cloned();
    let id = given.or_else(|| HeaderValue::try_from(format!("{:032x}", rand::random::<u128>())).ok());
    let text = id.as_ref().and_then(|id| id.to_str().ok()).unwrap_or_default();
    // Of the highest level, so that whatever is logged has it.
    let span = tracing::error_span!("request", id = text);
    let mut response = next.run(request).instrument(span).await;
    if let Some(id) = id {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// Passes on what the row of the route permits, with its [`Caller`].
async fn check_token(
    State((state, route)): State<(AppState, Route)>,
    mut request: Request,
    next: Next,
) -> Response {
    let caller = match state.0.access.caller(route, request.headers()) {
        Ok(caller) => caller,
        Err(error) => return refuse(request, error).await.into_response(),
    };
    request.extensions_mut().insert(caller);
    if !route.waits() {
        return next.run(request).await;
    }
    // The token may be revoked or expire while the request waits for others.
    let headers = request.headers().clone();
    let response = next.run(request).await;
    match state.0.access.caller(route, &headers) {
        Ok(_) => response,
        Err(error) => error.into_response(),
    }
}

/// What pages of other origins send besides their bodies, and what they read besides that of the answer.
const REQUEST_HEADERS: &str = "authorization, content-type, helba-decisions, helba-enrolment, helba-sender, idempotency-key, \
                               if-match, if-none-match, request-id, helba-erasure";
const ANSWER_HEADERS: &str = "etag, request-id, retry-after, www-authenticate";

/// Refuses other hosts, and pages of origins that are neither this server's nor listed.
async fn check_origin(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let (hosts, cors) = (&state.0.hosts, &state.0.cors);
    let origin = cors.listed(request.headers());
    let mut response = match hosts.check_with(&request, cors) {
        Ok(()) => match cors.preflight(&request) {
            Some(answer) => answer,
            None => next.run(request).await,
        },
        Err(rejection) => refuse(request, rejection.into()).await.into_response(),
    };
    cors.mark(origin, &mut response);
    response
}
