//! The authority as an HTTP service. Put a proxy with TLS and authentication in front: only the server may have sums
//! opened.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `GET /v1/key` | | the public key |
//! | `POST /v1/sums/{number}/{at_least}` | an encrypted sum | total and users, 24 bytes |

use crate::{Authority, Error};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use secure_sum::encrypted::{encrypted_bytes, write_opened};
use secure_sum::{BatchId, Sum, http};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What keeps a server from asking too much: one sum a batch, of enough users, and so many batches.
pub struct Opener {
    authority: Authority,
    at_least: u32,
    limit: usize,
    /// Digest of the sum, for repeated requests, and what was answered.
    opened: BTreeMap<u64, (blake3::Hash, Sum)>,
}

impl Opener {
    /// Opens at most `limit` sums, none of fewer than `at_least` users, whatever the server says.
    pub fn new(authority: Authority, at_least: u32, limit: usize) -> Self {
        Self { authority, at_least, limit, opened: BTreeMap::new() }
    }

    /// The sum of `batch`. Asking again with the same bytes gives the same answer.
    ///
    /// # Errors
    /// As [`Authority::open`]; [`Error::Opened`], [`Error::Full`]. What is refused is not recorded.
    pub fn open(&mut self, batch: BatchId, sum: &[u8]) -> Result<Sum, Error> {
        let digest = blake3::hash(sum);
        match self.opened.get(&batch.number) {
            Some((of, answer)) if *of == digest => return Ok(*answer),
            Some(_) => return Err(Error::Opened { batch: batch.number }),
            None if self.opened.len() >= self.limit => return Err(Error::Full { limit: self.limit }),
            None => {}
        }
        let answer = self.authority.open(sum, batch.at_least.max(self.at_least))?;
        self.opened.insert(batch.number, (digest, answer));
        Ok(answer)
    }
}

/// The routes of the authority.
pub fn routes(opener: Opener) -> Router {
    type Shared = State<Arc<Mutex<Opener>>>;
    async fn open(
        State(state): Shared,
        Path((number, at_least)): Path<(u64, u32)>,
        body: Body,
    ) -> Result<Vec<u8>, Error> {
        let limit = encrypted_bytes(lock(&state).authority.params());
        let sum = http::read(body, limit).await?;
        let opened = lock(&state).open(BatchId { number, at_least }, &sum)?;
        Ok(write_opened(&opened).to_vec())
    }
    let authority = &opener.authority;
    let key = ckks::write_public_key(authority.params(), authority.public_key());
    http::service(
        Router::new()
            .route("/v1/key", get(async move || key.clone()))
            .route("/v1/sums/{number}/{at_least}", post(open))
            .with_state(Arc::new(Mutex::new(opener))),
    )
}

/// No call under the lock leaves a state half changed.
fn lock(state: &Mutex<Opener>) -> std::sync::MutexGuard<'_, Opener> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (status, reason) = match self {
            Error::Sum(error) => return error.into_response(),
            Error::TooFew { .. } => (StatusCode::CONFLICT, "too_few"),
            Error::Opened { .. } => (StatusCode::CONFLICT, "opened"),
            Error::Full { .. } => (StatusCode::INSUFFICIENT_STORAGE, "full"),
            Error::OutOfRange => (StatusCode::BAD_REQUEST, "out_of_range"),
            Error::Ckks(_) => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        };
        http::problem(status, reason, self.to_string())
    }
}
