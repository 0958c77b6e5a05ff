//! The parties as HTTP services. Put a proxy with TLS and authentication in front.
//!
//! | request | body | answer |
//! |---|---|---|
//! | aggregator: `POST /v1/reports` | [`Report`]s | |
//! | `POST /v1/batches/{number}/{at_least}/close` | | ids, 16 bytes each |
//! | `POST /v1/batches/{number}/{at_least}/open` | ids of the set, rising | total, 8 bytes |
//! | server of ciphertexts: `POST /v1/values/{number}/{at_least}` | random id, 16 bytes; ciphertext | |
//! | `POST /v1/values/{number}/{at_least}/open` | | total and users, 24 bytes |
//! | shuffler: `POST /v1/messages/{number}` | random id, 16 bytes; messages | |
//! | `POST /v1/messages/{number}/forward` | | |
//! | server: `POST /v1/shuffled/{number}` | messages | |
//! | or a bandit's service: `POST /v1/bandits/{id}/shuffled` | [`ShuffledBatch`] | ignored |

use crate::Error;
use crate::aggregator::Aggregator;
use crate::client::Party;
use crate::encrypted::{Server, encrypted_bytes, write_opened};
use crate::local::LISTENING;
use crate::share::{BatchId, Report, element_bytes, ids};
use crate::shuffler::Shuffler;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use rand::SeedableRng;
use rand::rngs::SysRng;
use rand_chacha::ChaCha20Rng;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use wire::{MAX_JSON_BYTES, PROBLEM_JSON, Problem, ShuffledBatch};

/// Requests under way; one more is answered 503.
const IN_FLIGHT: usize = 64;
/// A body must be there after this time.
const BODY_TIMEOUT: Duration = Duration::from_secs(20);
/// Reports in one request.
const REPORTS: usize = 4096;
/// Users in one set: 16 MiB of ids.
const SET: usize = 1 << 20;

/// The routes of an aggregator.
pub fn aggregator(state: Aggregator) -> Router {
    type Shared = State<Arc<Mutex<Aggregator>>>;
    async fn submit(State(state): Shared, body: Body) -> Result<(), Error> {
        let reports = Report::read_all(&read(body, REPORTS * Report::BYTES).await?)?;
        let mut aggregator = lock(&state);
        reports.iter().try_for_each(|report| aggregator.submit(report))
    }
    async fn close(
        State(state): Shared,
        Path((number, at_least)): Path<(u64, u32)>,
    ) -> Result<Vec<u8>, Error> {
        Ok(lock(&state).close(BatchId { number, at_least })?.into_flattened())
    }
    async fn open(
        State(state): Shared,
        Path((number, at_least)): Path<(u64, u32)>,
        body: Body,
    ) -> Result<Vec<u8>, Error> {
        let body = read(body, SET * 16).await?;
        let total = lock(&state).open(BatchId { number, at_least }, ids(&body)?)?;
        Ok(element_bytes(total).to_vec())
    }
    service(
        Router::new()
            .route("/v1/reports", post(submit))
            .route("/v1/batches/{number}/{at_least}/close", post(close))
            .route("/v1/batches/{number}/{at_least}/open", post(open))
            .with_state(Arc::new(Mutex::new(state))),
    )
}

/// The routes of a server that adds ciphertexts, and has their sums opened by `authority`.
pub fn adder(state: Server, authority: Party) -> Router {
    type Shared = State<Arc<(Mutex<Server>, Party)>>;
    async fn submit(
        State(state): Shared,
        Path((number, at_least)): Path<(u64, u32)>,
        body: Body,
    ) -> Result<(), Error> {
        let limit = 16 + encrypted_bytes(lock(&state.0).params());
        let body = read(body, limit).await?;
        let (id, value) = body.split_first_chunk().ok_or(Error::Malformed { what: "no id" })?;
        lock(&state.0).submit(BatchId { number, at_least }, *id, value)
    }
    async fn open(
        State(state): Shared,
        Path((number, at_least)): Path<(u64, u32)>,
    ) -> Result<Vec<u8>, Error> {
        let open = move || {
            let batch = BatchId { number, at_least };
            let sum = lock(&state.0).close(batch)?.to_vec();
            Ok(write_opened(&state.1.open(batch, &sum)?).to_vec())
        };
        tokio::task::spawn_blocking(open).await.map_err(lost)?
    }
    service(
        Router::new()
            .route("/v1/values/{number}/{at_least}", post(submit))
            .route("/v1/values/{number}/{at_least}/open", post(open))
            .with_state(Arc::new((Mutex::new(state), authority))),
    )
}

fn lost(error: tokio::task::JoinError) -> Error {
    Error::Io { what: "a task of the service", source: std::io::Error::other(error) }
}

/// Where a shuffler hands its batches to.
#[derive(Debug, Clone)]
pub enum Destination {
    /// An [`inbox`]: messages as they are.
    Inbox(Party),
    /// A bandit of the service, by its id. Each message is a number, little endian, of at most 8 bytes; the shuffler's
    /// batches are the bandit's exchanges.
    Bandit(Party, String),
}

impl Destination {
    fn hand(&self, number: u64, users: usize, unit: usize, messages: &[u8]) -> Result<(), Error> {
        match self {
            Destination::Inbox(server) => server.post(&format!("shuffled/{number}"), messages, 0)?,
            Destination::Bandit(service, id) => {
                let value = |bytes: &[u8]| bytes.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b));
                let labels = vec![messages.chunks_exact(unit).map(value).collect()];
                let batch = ShuffledBatch { exchange: number, users: users as u64, labels };
                let body = serde_json::to_vec(&batch)
                    .map_err(|e| Error::Io { what: "writing a batch", source: e.into() })?;
                service.post(&format!("bandits/{id}/shuffled"), &body, MAX_JSON_BYTES)?
            }
        };
        Ok(())
    }
}

/// The routes of a shuffler that hands its batches to `server`.
pub fn shuffler(state: Shuffler, server: Destination) -> Router {
    type Shared = State<Arc<(Mutex<Shuffler>, Destination)>>;
    async fn submit(State(state): Shared, Path(number): Path<u64>, body: Body) -> Result<(), Error> {
        let limit = 16 + lock(&state.0).user_bytes();
        let body = read(body, limit).await?;
        let (id, messages) = body.split_first_chunk().ok_or(Error::Malformed { what: "no id" })?;
        lock(&state.0).submit(number, *id, messages)
    }
    async fn forward(State(state): Shared, Path(number): Path<u64>) -> Result<(), Error> {
        let forward = move || {
            let (messages, user_bytes, unit) = {
                let mut shuffler = lock(&state.0);
                let messages = shuffler.shuffle(number, &mut rng()?)?.to_vec();
                (messages, shuffler.user_bytes(), shuffler.unit())
            };
            state.1.hand(number, messages.len() / user_bytes, unit, &messages)?;
            lock(&state.0).sent(number);
            Ok(())
        };
        tokio::task::spawn_blocking(forward).await.map_err(lost)?
    }
    service(
        Router::new()
            .route("/v1/messages/{number}", post(submit))
            .route("/v1/messages/{number}/forward", post(forward))
            .with_state(Arc::new((Mutex::new(state), server))),
    )
}

/// The route by which a server gets shuffled batches of at most `limit` bytes: number and messages go to `batches`.
/// A batch may come twice if an answer is lost; it is the same then, and counts once.
pub fn inbox(batches: mpsc::Sender<(u64, Vec<u8>)>, limit: usize) -> Router {
    type Shared = State<(mpsc::Sender<(u64, Vec<u8>)>, usize)>;
    async fn take(State((batches, limit)): Shared, Path(number): Path<u64>, body: Body) -> Result<(), Error> {
        let messages = read(body, limit).await?;
        batches.send((number, messages)).await.map_err(|_| Error::Closed { batch: number })
    }
    service(Router::new().route("/v1/shuffled/{number}", post(take)).with_state((batches, limit)))
}

/// A generator seeded by the operating system.
///
/// # Errors
/// [`Error::NoRandomness`].
pub fn rng() -> Result<ChaCha20Rng, Error> {
    ChaCha20Rng::try_from_rng(&mut SysRng).map_err(|e| Error::NoRandomness { why: e.to_string() })
}

/// Serves `routes` until the process is ended; first says on standard output where it listens, for
/// [`Process`](crate::local::Process).
///
/// # Errors
/// [`Error::Listen`] if the address is taken, [`Error::Io`].
pub fn serve(listen: &str, routes: Router) -> Result<(), Error> {
    let io = |what| move |source| Error::Io { what, source };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().build().map_err(io("starting threads"))?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(listen)
            .await
            .map_err(|source| Error::Listen { address: listen.to_owned(), source })?;
        let address = listener.local_addr().map_err(io("asking for the port"))?;
        writeln!(std::io::stdout(), "{LISTENING}{address}").map_err(io("writing to stdout"))?;
        axum::serve(listener, routes).await.map_err(io("serving"))
    })
}

/// What every service here has: a limit on requests under way, and problems for answers to wrong paths.
pub fn service(routes: Router) -> Router {
    let places = Arc::new(Semaphore::new(IN_FLIGHT));
    let admit = move |request: Request, next: Next| {
        let place = places.clone().try_acquire_owned();
        async move {
            match place {
                Ok(_place) => next.run(request).await,
                Err(_) => Error::Overloaded.into_response(),
            }
        }
    };
    routes
        .fallback(async || Error::UnknownPath)
        .method_not_allowed_fallback(async || Error::UnknownPath)
        .layer(middleware::from_fn(admit))
}

/// A whole body of at most `limit` bytes.
///
/// # Errors
/// [`Error::TooLong`].
pub async fn read(body: Body, limit: usize) -> Result<Vec<u8>, Error> {
    match tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, limit)).await {
        Ok(Ok(bytes)) => Ok(bytes.into()),
        _ => Err(Error::TooLong { limit }),
    }
}

/// No call under the lock leaves a state half changed.
fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Error {
    fn status(&self) -> (StatusCode, &'static str) {
        match self {
            Error::Malformed { .. } => (StatusCode::BAD_REQUEST, "malformed"),
            Error::Ckks(_) => (StatusCode::BAD_REQUEST, "bad_ciphertext"),
            Error::UnknownReport { .. } => (StatusCode::BAD_REQUEST, "unknown_report"),
            Error::TooLong { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            Error::Duplicate { .. } => (StatusCode::CONFLICT, "duplicate"),
            Error::Closed { .. } => (StatusCode::CONFLICT, "closed"),
            Error::NotClosed { .. } => (StatusCode::CONFLICT, "not_closed"),
            Error::Opened { .. } => (StatusCode::CONFLICT, "opened"),
            Error::TooFew { .. } => (StatusCode::CONFLICT, "too_few"),
            Error::Full { .. } => (StatusCode::INSUFFICIENT_STORAGE, "full"),
            Error::Overloaded => (StatusCode::SERVICE_UNAVAILABLE, "overloaded"),
            Error::UnknownPath => (StatusCode::NOT_FOUND, "unknown_path"),
            Error::Unreachable { .. } | Error::Refused { .. } => {
                (StatusCode::BAD_GATEWAY, "forwarding_failed")
            }
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (status, reason) = self.status();
        problem(status, reason, self.to_string())
    }
}

/// A refusal as every service here answers it.
pub fn problem(status: StatusCode, reason: &str, detail: String) -> Response {
    let title = status.canonical_reason().unwrap_or("Error");
    let problem = Problem::new(status.as_u16(), title, detail).with_reason(reason);
    let mut response = (status, Json(problem)).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    response
}
