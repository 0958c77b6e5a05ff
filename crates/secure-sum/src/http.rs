//! The parties as HTTP services. Put a proxy with TLS and authentication in front.
//!
//! | request | body | answer |
//! |---|---|---|
//! | aggregator: `POST /v1/reports` | [`Report`]s | |
//! | `POST /v1/batches/{number}/{at_least}/close` | | ids, 16 bytes each |
//! | `POST /v1/batches/{number}/{at_least}/open` | ids of the set, rising | total, 8 bytes |
//! | server of ciphertexts: `POST /v1/values/{number}/{at_least}` | random id, 16 bytes; ciphertext | |
//! | `POST /v1/values/{number}/{at_least}/open` | | total and users, 24 bytes |
//! | shuffler: `POST /v1/messages/{exchange}` | random id, 16 bytes; what the user was told, 16 bytes; ones of each label, 8 bytes each, little endian | |
//! | `POST /v1/messages/{exchange}/forward` | | |
//!
//! Shuffler and collector ask a bandit's service what it waits for, `GET /v1/bandits/{id}`, and hand it a
//! [`ShuffledBatch`](wire::ShuffledBatch), `POST /v1/bandits/{id}/shuffled`.

use crate::Error;
use crate::aggregator::Aggregator;
use crate::awaiting::{Awaiting, hand};
use crate::client::Party;
use crate::encrypted::{Server, encrypted_bytes, write_opened};
use crate::local::LISTENING;
use crate::share::{BatchId, Report, element_bytes, ids};
use crate::shuffler::{MAX_LABELS, Shuffler};
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
use tokio::sync::Semaphore;
use wire::{PROBLEM_JSON, Problem};

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

/// The routes of a shuffler before `bandit` of the service at `server`. What a batch looks like it asks the bandit, when
/// somebody sends bits for an exchange that is new; a batch that is whole it hands on by itself, and whoever came last is
/// answered before that. Where the server cannot be reached the batch is kept, and `forward` tries again.
pub fn shuffler(server: Party, bandit: String) -> Router {
    struct Before {
        shuffler: Mutex<Shuffler>,
        server: Party,
        bandit: String,
    }
    impl Before {
        fn begin(&self, exchange: u64) -> Result<(), Error> {
            let awaiting = Awaiting::now(&self.server, &self.bandit)?;
            let shape =
                awaiting.map(|a| a.shape()).transpose()?.flatten().filter(|shape| shape.exchange == exchange);
            lock(&self.shuffler).begin(shape.ok_or(Error::NotAwaited { exchange })?)
        }

        fn hand(&self, exchange: u64) -> Result<(), Error> {
            let batch = lock(&self.shuffler).hand(exchange)?;
            let handed = hand(&self.server, &self.bandit, &batch);
            lock(&self.shuffler).ended(exchange, handed.is_ok());
            handed
        }
    }
    type Shared = State<Arc<Before>>;
    async fn submit(State(state): Shared, Path(exchange): Path<u64>, body: Body) -> Result<(), Error> {
        let body = read(body, 32 + 8 * MAX_LABELS).await?;
        let (id, rest) = body.split_first_chunk().ok_or(Error::Malformed { what: "no id" })?;
        let (told, rest) =
            rest.split_first_chunk().ok_or(Error::Malformed { what: "not what the user was told" })?;
        let (numbers, []) = rest.as_chunks() else {
            return Err(Error::Malformed { what: "not eight bytes a label" });
        };
        let numbers: Vec<u64> = numbers.iter().map(|b| u64::from_le_bytes(*b)).collect();
        if !lock(&state.shuffler).knows(exchange) {
            let state = state.clone();
            tokio::task::spawn_blocking(move || state.begin(exchange)).await.map_err(lost)??;
        }
        if lock(&state.shuffler).submit(exchange, *told, *id, &numbers)? {
            tokio::task::spawn_blocking(move || {
                if let Err(error) = state.hand(exchange) {
                    eprintln!("exchange {exchange} is whole and kept, `forward` tries again: {error}");
                }
            });
        }
        Ok(())
    }
    async fn forward(State(state): Shared, Path(exchange): Path<u64>) -> Result<(), Error> {
        tokio::task::spawn_blocking(move || state.hand(exchange)).await.map_err(lost)?
    }
    service(
        Router::new()
            .route("/v1/messages/{exchange}", post(submit))
            .route("/v1/messages/{exchange}/forward", post(forward))
            .with_state(Arc::new(Before { shuffler: Mutex::default(), server, bandit })),
    )
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
            Error::ToldOtherwise { .. } => (StatusCode::CONFLICT, "told_otherwise"),
            Error::NotAwaited { .. } => (StatusCode::CONFLICT, "not_awaited"),
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
