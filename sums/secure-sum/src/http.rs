//! The parties as HTTP services. Routes marked with * need the token of the collector. Users need
//! no token.
//!
//! | request | body | answer |
//! |---|---|---|
//! | aggregator: `POST /v1/batches/{number}/{at_least}` * | | |
//! | `POST /v1/reports` | [`Report`]s | |
//! | `POST /v1/batches/{number}/{at_least}/close` * | | ids, 16 bytes each |
//! | `POST /v1/batches/{number}/{at_least}/open` * | ids of the set, ascending | total, 8 bytes |
//! | adder: `POST /v1/batches/{number}/{at_least}` * | | |
//! | `POST /v1/values/{number}/{at_least}` | random id, 16 bytes; ciphertext | |
//! | `POST /v1/values/{number}/{at_least}/open` * | | total and users, 24 bytes |
//! | shuffler: `POST /v1/messages/{exchange}` | random id, 16 bytes; digest of the task, 16 bytes; number of ones of each label, 8 bytes each, little endian | |
//! | `POST /v1/messages/{exchange}/forward` | | |
//!
//! Shuffler and collector read the task of a bandit from its server, `GET /v1/bandits/{id}`, and deliver a
//! [`ShuffledBatch`](wire::ShuffledBatch) to it, `POST /v1/bandits/{id}/shuffled`.

use crate::Error;
use crate::aggregator::Aggregator;
use crate::client::Party;
use crate::encrypted::{Server, SumRing, max_value_bytes, write_opened};
pub use crate::serve::{Gate, Listen, RequestLimits, accept, serve, serve_guarded};
use crate::share::{BatchId, Report, element_bytes, ids};
use crate::shuffler::{MAX_LABELS, Shuffler};
use crate::task::{BanditTask, deliver};
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use host::lock;
use service::{Hosts, Rejection};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use wire::{AccessToken, PROBLEM_JSON, Problem, ProblemType};

/// The most reports in one request.
const REPORTS: usize = 4096;
/// The most users of one set: 16 MiB of ids.
const SET: usize = 1 << 20;

/// The routes of an aggregator. Without a token everybody may announce, close and open batches.
pub fn aggregator(state: Aggregator, token: Option<&AccessToken>) -> Router {
    aggregator_within(state, token, RequestLimits::default())
}

/// As [`aggregator`], with other limits.
pub fn aggregator_within(state: Aggregator, token: Option<&AccessToken>, limits: RequestLimits) -> Router {
    type Shared = State<Arc<Mutex<Aggregator>>>;
    async fn announce(State(state): Shared, Path(batch): Path<BatchId>) -> Result<(), Error> {
        lock(&state).announce(batch, Instant::now())
    }
    async fn submit(State(state): Shared, body: Bytes) -> Result<(), Error> {
        let (reports, now) = (Report::read_all(&body)?, Instant::now());
        let mut aggregator = lock(&state);
        reports.iter().try_for_each(|report| aggregator.submit(report, now))
    }
    async fn close(State(state): Shared, Path(batch): Path<BatchId>) -> Result<Vec<u8>, Error> {
        Ok(lock(&state).close(batch, Instant::now())?.into_flattened())
    }
    async fn open(State(state): Shared, Path(batch): Path<BatchId>, body: Bytes) -> Result<Vec<u8>, Error> {
        let total = lock(&state).open(batch, ids(&body)?, Instant::now())?;
        Ok(element_bytes(total).to_vec())
    }
    let gate = Gate::new(limits, token);
    service(
        Router::new()
            .route("/v1/reports", gate.open(REPORTS * Report::BYTES, post(submit)))
            .route("/v1/batches/{number}/{at_least}", gate.guarded(0, post(announce)))
            .route("/v1/batches/{number}/{at_least}/close", gate.guarded(0, post(close)))
            .route("/v1/batches/{number}/{at_least}/open", gate.guarded(SET * 16, post(open)))
            .with_state(Arc::new(Mutex::new(state))),
    )
}

/// The routes of an adder, which asks `authority` to generate a key for each batch and to open its sum.
/// Without a token everybody may announce and open batches.
///
/// # Errors
/// As [`max_value_bytes`].
pub fn adder(state: Server, authority: Party, token: Option<&AccessToken>) -> Result<Router, Error> {
    type Shared = State<Arc<(Mutex<Server>, Party)>>;
    async fn announce(State(state): Shared, Path(batch): Path<BatchId>) -> Result<(), Error> {
        let announce = move || {
            let (server, authority) = &*state;
            if lock(server).knows(batch, Instant::now()) {
                return Ok(());
            }
            // Batches that are too large are refused as the caller's fault, and not as the authority's.
            SumRing::for_users(batch.at_least)?;
            let (_, key) = authority.make_key(batch).map_err(|e| e.of(authority))?;
            lock(server).announce(batch, key, Instant::now())
        };
        tokio::task::spawn_blocking(announce).await.map_err(lost)?
    }
    async fn submit(State(state): Shared, Path(batch): Path<BatchId>, body: Bytes) -> Result<(), Error> {
        let (id, value) = body.split_first_chunk().ok_or(Error::Malformed { what: "the id is missing" })?;
        lock(&state.0).submit(batch, *id, value, Instant::now())
    }
    async fn open(State(state): Shared, Path(batch): Path<BatchId>) -> Result<Vec<u8>, Error> {
        let open = move || {
            let (server, authority) = &*state;
            let sum = lock(server).close(batch, Instant::now())?.to_vec();
            Ok(write_opened(&authority.open(batch, &sum).map_err(|e| e.of(authority))?).to_vec())
        };
        tokio::task::spawn_blocking(open).await.map_err(lost)?
    }
    let (gate, limit) = (Gate::new(RequestLimits::default(), token), 16 + max_value_bytes()?);
    Ok(service(
        Router::new()
            .route("/v1/batches/{number}/{at_least}", gate.guarded(0, post(announce)))
            .route("/v1/values/{number}/{at_least}", gate.open(limit, post(submit)))
            .route("/v1/values/{number}/{at_least}/open", gate.guarded(0, post(open)))
            .with_state(Arc::new((Mutex::new(state), authority))),
    ))
}

fn lost(error: tokio::task::JoinError) -> Error {
    Error::Io { what: "a task of the service", error: std::io::Error::other(error) }
}

/// The least time between two questions to a bandit, unless a batch was delivered in between, after which the
/// bandit waits for another exchange.
const BETWEEN: Duration = Duration::from_secs(1);
/// The most requests that wait for the answer to a question, and the time that they wait.
const WAITING: usize = 16;
const PATIENCE: Duration = Duration::from_secs(2);

/// The routes of a shuffler for `bandit` at `server`. When a message for an unknown exchange arrives, the
/// shuffler reads the task of the bandit: one question at a time, and one per second unless a batch was
/// delivered, so that made-up numbers of exchanges cause no further questions. The shuffler delivers a
/// complete batch after it has answered the last user. If the server cannot be reached, the batch is kept,
/// and a `forward` request delivers it.
pub fn shuffler(server: Party, bandit: String) -> Router {
    struct Before {
        shuffler: Mutex<Shuffler>,
        server: Party,
        bandit: String,
        /// When the last question was asked, and the number of batches delivered before it. It is locked
        /// while a question is answered.
        asked: tokio::sync::Mutex<Option<(Instant, u64)>>,
        waiting: Semaphore,
        handed: AtomicU64,
    }
    impl Before {
        /// Begins `exchange`, if the bandit waits for it.
        async fn begin(self: Arc<Self>, exchange: u64) -> Result<(), Error> {
            let Ok(_place) = self.waiting.try_acquire() else { return Err(Error::Overloaded) };
            let Ok(mut asked) = timeout(PATIENCE, self.asked.lock()).await else {
                return Err(Error::Overloaded);
            };
            let handed = self.handed.load(Ordering::Acquire);
            let lately = asked.is_some_and(|(when, then)| then == handed && when.elapsed() < BETWEEN);
            if !lately && !lock(&self.shuffler).knows(exchange) {
                *asked = Some((Instant::now(), handed));
                let state = self.clone();
                let ask = move || {
                    let task = BanditTask::now(&state.server, &state.bandit)?;
                    match task.map(|task| task.shape()).transpose()?.flatten() {
                        Some(shape) => lock(&state.shuffler).begin(shape),
                        None => Ok(()),
                    }
                };
                let answered = tokio::task::spawn_blocking(ask).await.map_err(lost)?;
                answered.map_err(|error| error.of(&self.server))?;
            }
            if lock(&self.shuffler).knows(exchange) { Ok(()) } else { Err(Error::NotAwaited { exchange }) }
        }

        fn deliver(&self, exchange: u64) -> Result<(), Error> {
            let batch = lock(&self.shuffler).collect(exchange)?;
            let handed = deliver(&self.server, &self.bandit, &batch);
            if handed.is_ok() {
                self.handed.fetch_add(1, Ordering::Release);
            }
            lock(&self.shuffler).ended(exchange, handed.is_ok());
            handed
        }
    }
    type Shared = State<Arc<Before>>;
    async fn submit(State(state): Shared, Path(exchange): Path<u64>, body: Bytes) -> Result<(), Error> {
        let (id, rest) = body.split_first_chunk().ok_or(Error::Malformed { what: "the id is missing" })?;
        let (digest, rest) =
            rest.split_first_chunk().ok_or(Error::Malformed { what: "the digest of the task is missing" })?;
        let (numbers, []) = rest.as_chunks() else {
            return Err(Error::Malformed { what: "the numbers do not have eight bytes each" });
        };
        let numbers: Vec<u64> = numbers.iter().map(|b| u64::from_le_bytes(*b)).collect();
        if !lock(&state.shuffler).knows(exchange) {
            state.clone().begin(exchange).await?;
        }
        if lock(&state.shuffler).submit(exchange, *digest, *id, &numbers)? {
            tokio::task::spawn_blocking(move || {
                if let Err(error) = state.deliver(exchange) {
                    host::tell!(
                        "exchange {exchange} is complete, but was not delivered: {error}; deliver it with `secure-sum forward`"
                    );
                }
            });
        }
        Ok(())
    }
    async fn forward(State(state): Shared, Path(exchange): Path<u64>) -> Result<(), Error> {
        tokio::task::spawn_blocking(move || state.deliver(exchange)).await.map_err(lost)?
    }
    let gate = Gate::new(RequestLimits::default(), None);
    service(
        Router::new()
            .route("/v1/messages/{exchange}", gate.open(32 + 8 * MAX_LABELS, post(submit)))
            .route("/v1/messages/{exchange}/forward", gate.open(0, post(forward)))
            .with_state(Arc::new(Before {
                shuffler: Mutex::default(),
                server,
                bandit,
                asked: tokio::sync::Mutex::default(),
                waiting: Semaphore::new(WAITING),
                handed: AtomicU64::new(0),
            })),
    )
}

/// Adds the checks of every service to `routes`: requests that a page of another origin starts are refused,
/// and unknown paths get a problem document. The [`Gate`] of each route bounds bodies.
pub fn service(routes: Router) -> Router {
    async fn check_origin(request: Request, next: Next) -> Response {
        match Hosts(None).check(&request) {
            Ok(()) => next.run(request).await,
            Err(rejection) => Error::Request(rejection).into_response(),
        }
    }
    routes
        .fallback(async || Error::UnknownPath)
        .method_not_allowed_fallback(async || Error::UnknownPath)
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn(check_origin))
}

impl Error {
    /// Turns an error in an answer of `party` into one that is the fault of that party and not of the caller.
    fn of(self, party: &Party) -> Self {
        match self {
            Self::Unreachable { .. } | Self::Refused { .. } | Self::Io { .. } => self,
            other => Self::BadAnswer { party: party.url().into(), what: other.to_string() },
        }
    }

    fn problem(&self) -> ProblemType {
        use ProblemType as P;
        match self {
            Error::Malformed { .. } | Error::Finished => P::Malformed,
            Error::OutOfRange(_) => P::Malformed,
            Error::Ckks(_) => P::BadCiphertext,
            Error::UnknownReport { .. } => P::UnknownReport,
            Error::Request(Rejection::BodyLost { .. }) => P::BodyTimeout,
            Error::Request(Rejection::BodyTooLarge { .. }) => P::TooLarge,
            Error::Request(Rejection::MediaType { .. }) => P::MediaType,
            Error::Request(Rejection::BadHead { .. }) => P::BadHead,
            Error::Request(Rejection::WrongHost { .. }) => P::WrongHost,
            Error::Request(Rejection::ForeignOrigin { .. }) => P::ForeignOrigin,
            Error::Request(Rejection::Overloaded) | Error::Overloaded => P::Overloaded,
            Error::NoToken => P::NoToken,
            Error::NotAnnounced { .. } => P::NotAnnounced,
            Error::Announced { .. } => P::Announced,
            Error::Used { .. } => P::Used,
            Error::Duplicate { .. } => P::Duplicate,
            Error::Closed { .. } | Error::ExchangeOver { .. } => P::Closed,
            Error::NotBegun { .. } => P::NotBegun,
            Error::NotClosed { .. } => P::NotClosed,
            Error::Opened { .. } => P::Opened,
            Error::TooFew { .. } => P::TooFew,
            Error::OtherTask { .. } => P::OtherTask,
            Error::NotAwaited { .. } => P::NotAwaited,
            Error::Full { .. } => P::Full,
            Error::UnknownPath => P::UnknownPath,
            Error::Unreachable { .. } | Error::Refused { .. } => P::ForwardingFailed,
            Error::BadAnswer { .. } => P::BadAnswer,
            Error::NoNoise { .. }
            | Error::ValueTooLarge
            | Error::NeedsToken { .. }
            | Error::Tls(_)
            | Error::BadUrl(_)
            | Error::BadCertificates { .. }
            | Error::Bandit(_)
            | Error::Glm(_)
            | Error::Privacy(_)
            | Error::Listen { .. }
            | Error::Io { .. } => P::Internal,
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        problem(self.problem(), self.to_string())
    }
}

/// The answer with a problem document of this type.
pub fn problem(kind: ProblemType, detail: String) -> Response {
    let status = StatusCode::from_u16(kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, Json(Problem { detail, ..kind.into() })).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    response
}
