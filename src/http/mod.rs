//! The HTTP interface: routes under `/v1`, one file a resource. Each handler finds the bandit, reads the
//! body, takes a place, computes and answers, in this order; a rejection before the body is read discards the
//! body.
//!
//! | route | file |
//! |---|---|
//! | `GET /health` | `health` |
//! | `GET /keys` | `keys` |
//! | `GET /policies` | `policies` |
//! | `GET, POST /bandits`, `GET, DELETE /bandits/{id}` | `bandits` |
//! | `POST /bandits/{id}/decisions` | `decisions` |
//! | `POST /bandits/{id}/decisions/{decision}/feedback` | `feedback` |
//! | `POST /bandits/{id}/shuffled` | `batches` |

mod access;
mod bandits;
mod batches;
mod decisions;
mod feedback;
mod health;
mod keys;
mod policies;
mod problem;

pub use problem::printable;

use crate::bandits::{Bandits, BodyLimit, Reply, Room, Served};
use crate::error::Error;
use crate::jobs::Admission;
use access::Access;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use service::{Bodies, Body, DISCARDED_BYTES, Hosts, Pace};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use wire::{OCTET_STREAM, PublicBundle, TokenDigest};

/// A refused request's body is read and discarded up to this many bytes where the token is missing.
const DISCARDED_OF_STRANGERS: u64 = 8 << 20;

/// Limits on what the server takes on.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Requests computed at a time, each some tens of MB of memory; one more is answered 503.
    pub max_in_flight: usize,
    /// Bandits kept; each takes some tens of MB of memory.
    pub max_bandits: usize,
    /// Bytes of request bodies in memory at a time, beside those of 64 KiB and less; one that does not fit is
    /// answered 503.
    pub body_memory: usize,
    /// For this time an open decision is kept, and new decisions that would replace it are refused.
    pub hold: Duration,
    /// Names of this server beside loopback addresses, which the `Host` of a request must be one of; `None`
    /// admits any. A server that listens on a loopback address needs this: a page of any site can otherwise
    /// reach it from a browser on the same machine, under a name that points there (DNS rebinding).
    pub hosts: Option<Vec<String>>,
    /// The state folder comes from a backup: what bandits with a privacy promise hold of single answers is
    /// dropped, since the state that was lost may have released it.
    pub restored: bool,
    /// Digest of the operator's token. Without one, clear policies are open to whoever reaches the port.
    pub operator: Option<TokenDigest>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            max_in_flight: 32,
            max_bandits: 64,
            operator: None,
            body_memory: 256 << 20,
            hold: Duration::from_secs(60),
            hosts: None,
            restored: false,
        }
    }
}

/// A running server's state. Cheap to clone.
#[derive(Clone)]
pub struct AppState(Arc<Inner>);

struct Inner {
    bandits: Bandits,
    access: Access,
    admission: Admission,
    bodies: Bodies,
    hosts: Hosts,
}

impl AppState {
    /// Takes the keys of `bundle` and the bandits kept in `folder`, which is made if it is not there, and
    /// goes on with batch updates that were interrupted. Without a bundle it serves clear policies alone;
    /// encrypted bandits in the folder stay as they are, and requests for them are refused.
    ///
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`Error::StateInUse`], [`Error::StateFormat`], [`Error::OtherKeys`], [`Error::CorruptBlob`],
    /// [`Error::CorruptState`], [`Error::FolderIsShared`], and those of the disk.
    pub fn open(
        bundle: impl Into<Option<PublicBundle>>,
        folder: &Path,
        settings: Settings,
    ) -> Result<Self, Error> {
        let Settings { max_in_flight, max_bandits, operator, body_memory, hold, hosts, restored } = settings;
        let room = Room { most: max_bandits, clear_is_open: operator.is_none(), hold };
        let bandits = Bandits::open(bundle.into(), folder, room, restored)?;
        let participant = bandits.keys().ok().map(|keys| keys.manifest.token_digest);
        Ok(AppState(Arc::new(Inner {
            bandits,
            access: Access { participant, operator },
            admission: Admission::new(max_in_flight),
            bodies: Bodies::within(body_memory, Pace::default()),
            hosts: Hosts(hosts),
        })))
    }

    /// Number of bandits kept.
    pub fn bandits(&self) -> usize {
        self.0.bandits.count().0
    }

    /// Encrypted bandits among them whose keys are not loaded.
    pub fn keys_missing(&self) -> usize {
        self.0.bandits.count().1
    }

    /// The bandit, if the sender of `headers` may change it.
    fn find_for(&self, id: &str, headers: &HeaderMap) -> Result<Arc<dyn Served>, Error> {
        let bandit = self.0.bandits.find(id);
        // Bandits without keys are encrypted ones, whose senders need a token too.
        bandit.and_then(|bandit| self.0.access.check(headers, bandit.kind()).map(|()| bandit))
    }

    async fn body(&self, request: Request, limit: BodyLimit) -> Result<Body, Error> {
        Ok(self.0.bodies.read(request, limit.bytes, Some(limit.content)).await?)
    }
}

/// Returns `error` after the body of `request` is read and discarded, if it is not too long.
async fn refuse(request: Request, error: Error) -> Error {
    let most = match error {
        Error::Unauthorized { .. } => DISCARDED_OF_STRANGERS,
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

/// The routes, under `/v1`.
pub fn app(state: AppState) -> Router {
    let routes = Router::new()
        .route("/health", get(health::show))
        .route("/keys", get(keys::show))
        .route("/policies", get(policies::list))
        .route("/bandits", get(bandits::list).post(bandits::create))
        .route("/bandits/{id}", get(bandits::show).delete(bandits::delete))
        .route("/bandits/{id}/decisions", post(decisions::decide))
        .route("/bandits/{id}/decisions/{decision}/feedback", post(feedback::feedback))
        .route("/bandits/{id}/shuffled", post(batches::receive));
    Router::new()
        .nest("/v1", routes)
        .fallback(async |request: Request| Error::UnknownPath {
            path: request.uri().path().chars().take(200).collect(),
        })
        .method_not_allowed_fallback(async || Error::WrongMethod)
        .layer(middleware::from_fn_with_state(state.clone(), check_origin))
        .with_state(state)
}

async fn check_origin(State(state): State<AppState>, request: Request, next: Next) -> Response {
    match state.0.hosts.check(&request) {
        Ok(()) => next.run(request).await,
        Err(rejection) => refuse(request, rejection.into()).await.into_response(),
    }
}
