//! The authority as an HTTP service. Routes marked with * need the token of the adder, because
//! only the adder may have keys generated and sums opened. Without a token everybody may.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `POST /v1/keys/{number}/{at_least}` * | | the public key of the batch, the same for each request |
//! | `GET /v1/keys/{number}/{at_least}` | | the same key, after it was generated |
//! | `POST /v1/sums/{number}/{at_least}` * | an encrypted sum | total and users, 24 bytes |

use crate::{Authority, Error};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use host::lock;
use rand::CryptoRng;
use secure_sum::encrypted::{SumRing, max_value_bytes, write_opened};
use secure_sum::http::{Gate, RequestLimits};
use secure_sum::register::Register;
use secure_sum::{BatchId, Sum, http};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wire::{AccessToken, ProblemType};

/// Bounds on the number of keys, on their age, and on the refusals after which a key is destroyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthorityLimits {
    /// The least number of users of a batch, whatever the adder asks for.
    pub at_least: u32,
    /// The most batches at a time, about 0.1 MB each. Opened batches make room for new ones.
    pub keys: usize,
    /// The age at which a key is destroyed, by the next request.
    pub age: Duration,
    /// The number of refusals after decryption at which a key is destroyed.
    pub refusals: u32,
}

impl Default for AuthorityLimits {
    fn default() -> Self {
        Self { at_least: 2, keys: 256, age: Duration::from_secs(24 * 3600), refusals: 4 }
    }
}

/// Keeps one key for each batch and opens one sum under it, so that an adder learns little about any key.
pub struct Opener {
    limits: AuthorityLimits,
    batches: Register<Key>,
    refused: u64,
}

enum Key {
    Whole {
        authority: Box<Authority>,
        refusals: u32,
    },
    /// The digest of the sum, to recognise repeated requests, and the answer.
    Opened {
        of: blake3::Hash,
        answer: Sum,
    },
    Destroyed {
        refusals: u32,
    },
}

impl Key {
    const fn spent(&self) -> bool {
        !matches!(self, Self::Whole { .. })
    }

    fn public(&self, batch: u64) -> Result<Vec<u8>, Error> {
        match self {
            Self::Whole { authority, .. } => {
                Ok(ckks::write_public_key(authority.ring().params(), authority.public_key()))
            }
            Self::Opened { .. } => Err(Error::Opened { batch }),
            Self::Destroyed { refusals } => Err(Error::Destroyed { batch, refusals: *refusals }),
        }
    }
}

impl Opener {
    /// An opener without any key.
    pub fn new(limits: AuthorityLimits) -> Self {
        Self { limits, batches: Register::new(limits.keys, limits.age), refused: 0 }
    }

    /// Generates a key for `batch` and returns its public half. Each call returns the same key.
    ///
    /// # Errors
    /// [`Error::FewerThanDemanded`]; [`Error::Sum`] as [`SumRing::for_users`]; [`Error::Opened`] and
    /// [`Error::Destroyed`] after the key was destroyed; as [`Register::announce`].
    pub fn make<R: CryptoRng>(
        &mut self,
        batch: BatchId,
        now: Instant,
        rng: &mut R,
    ) -> Result<Vec<u8>, Error> {
        if batch.at_least < self.limits.at_least {
            return Err(Error::FewerThanDemanded { got: batch.at_least, need: self.limits.at_least });
        }
        let ring = SumRing::for_users(batch.at_least)?;
        let new = || -> Result<_, Error> {
            Ok(Key::Whole { authority: Box::new(Authority::generate(ring, rng)), refusals: 0 })
        };
        self.batches.announce(batch, now, Key::spent, drop, new)?;
        self.key(batch, now)
    }

    /// The public key of `batch`, for its users.
    ///
    /// # Errors
    /// [`secure_sum::Error::NotAnnounced`], [`Error::Opened`], [`Error::Destroyed`].
    pub fn key(&mut self, batch: BatchId, now: Instant) -> Result<Vec<u8>, Error> {
        self.batches.expire(now);
        self.batches.get(batch, now)?.public(batch.number)
    }

    /// Decrypts the sum of `batch`, whose key is then zeroed. A repeated request with the same bytes gets the
    /// same answer.
    ///
    /// # Errors
    /// As [`Authority::open`] and [`key`](Self::key). Refusals after decryption count, and the last one that
    /// the limits allow destroys the key.
    pub fn open(&mut self, batch: BatchId, sum: &[u8], now: Instant) -> Result<Sum, Error> {
        let (number, most) = (batch.number, self.limits.refusals);
        self.batches.expire(now);
        let result =
            self.batches.get(batch, now).map_err(Error::from).and_then(|key| key.open(batch, sum, most));
        if let Err(error) = &result {
            self.refused += 1;
            // The line holds numbers and texts of this program, and no text of the caller.
            host::tell!("batch {number} is not opened, refusal {} since the start: {error}", self.refused);
        }
        result
    }

    /// The number of requests that were refused so far.
    pub const fn refused(&self) -> u64 {
        self.refused
    }
}

impl Key {
    fn open(&mut self, batch: BatchId, sum: &[u8], most: u32) -> Result<Sum, Error> {
        let of = blake3::hash(sum);
        let (authority, refusals) = match self {
            Self::Opened { of: opened, answer } if *opened == of => return Ok(*answer),
            Self::Opened { .. } => return Err(Error::Opened { batch: batch.number }),
            Self::Destroyed { refusals } => {
                return Err(Error::Destroyed { batch: batch.number, refusals: *refusals });
            }
            Self::Whole { authority, refusals } => (authority, refusals),
        };
        let answer = authority.open(sum, batch.at_least);
        match &answer {
            Ok(answer) => *self = Self::Opened { of, answer: *answer },
            Err(Error::TooFew { .. } | Error::OutOfRange) => {
                *refusals += 1;
                if *refusals >= most {
                    *self = Self::Destroyed { refusals: *refusals };
                }
            }
            // This refusal depends on the bytes only.
            Err(_) => {}
        }
        answer
    }
}

/// The routes of the authority.
///
/// # Errors
/// [`Error::Sum`] if the parameters are not valid.
pub fn routes(opener: Opener, token: Option<&AccessToken>) -> Result<Router, Error> {
    type Shared = State<Arc<Mutex<Opener>>>;
    async fn make(State(state): Shared, Path(batch): Path<BatchId>) -> Result<Vec<u8>, Error> {
        lock(&state).make(batch, Instant::now(), &mut host::os_rng()?)
    }
    async fn key(State(state): Shared, Path(batch): Path<BatchId>) -> Result<Vec<u8>, Error> {
        lock(&state).key(batch, Instant::now())
    }
    async fn open(State(state): Shared, Path(batch): Path<BatchId>, body: Bytes) -> Result<Vec<u8>, Error> {
        let opened = lock(&state).open(batch, &body, Instant::now())?;
        Ok(write_opened(&opened).to_vec())
    }
    let (gate, bytes) = (Gate::new(RequestLimits::default(), token), max_value_bytes()?);
    let keys = gate.guarded(0, post(make)).merge(gate.open(0, get(key)));
    Ok(http::service(
        Router::new()
            .route("/v1/keys/{number}/{at_least}", keys)
            .route("/v1/sums/{number}/{at_least}", gate.guarded(bytes, post(open)))
            .with_state(Arc::new(Mutex::new(opener))),
    ))
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let kind = match self {
            Error::Sum(error) => return error.into_response(),
            Error::TooFew { .. } | Error::FewerThanDemanded { .. } => ProblemType::TooFew,
            Error::Opened { .. } => ProblemType::Opened,
            Error::Destroyed { .. } => ProblemType::Destroyed,
            Error::OutOfRange => ProblemType::OutOfRange,
            Error::Randomness(_) => ProblemType::Internal,
        };
        http::problem(kind, self.to_string())
    }
}
