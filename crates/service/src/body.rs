//! Request bodies: their media type, length, rate and memory. A body is read before the request takes a place
//! among those that are computed, so a slow sender holds nothing that other requests wait for.

use crate::Rejection;
use axum::body::{Body as HttpBody, Bytes, HttpBody as _};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// Bodies up to this length are bounded by the number of connections. Longer ones take memory from a budget.
const SMALL_BYTES: usize = 64 << 10;
/// The body of a refused request is read and discarded if it is at most this long.
pub const DISCARDED_BYTES: u64 = 64 << 20;
/// The body of a refused request is read and discarded for at most this time. Then the connection is closed.
const DISCARDED_FOR: Duration = Duration::from_secs(5);
/// Bytes of one permit of the memory budget, since a semaphore counts in 32 bits.
const UNIT: usize = 1 << 10;

/// The media type that a body must declare. A browser sends a preflight request before it lets a page of
/// another origin send either type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// `application/json`.
    Json,
    /// `application/octet-stream`.
    Binary,
}

impl Content {
    fn name(self) -> &'static str {
        match self {
            Content::Json => "application/json",
            Content::Binary => "application/octet-stream",
        }
    }

    fn is_that_of(self, headers: &HeaderMap) -> Option<bool> {
        let given = headers.get(header::CONTENT_TYPE)?.to_str().unwrap_or_default();
        let essence = given.split(';').next().unwrap_or_default().trim();
        Some(essence.eq_ignore_ascii_case(self.name()))
    }
}

/// The least rate at which a body must arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Time for which a body may arrive more slowly.
    pub grace: Duration,
    /// The least rate after that time, in bytes per second.
    pub rate: u64,
}

impl Default for Pace {
    /// Five seconds, then half a megabit per second.
    fn default() -> Self {
        Pace { grace: Duration::from_secs(5), rate: 64 << 10 }
    }
}

/// A body in memory. It holds its part of the budget until it is dropped.
#[derive(Debug)]
pub struct Body {
    bytes: Vec<u8>,
    _memory: Option<OwnedSemaphorePermit>,
}

impl Body {
    /// The bytes, which no longer count towards the budget.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Bytes that are in memory already, and take nothing from a budget.
impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Body { bytes, _memory: None }
    }
}

impl std::ops::Deref for Body {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads bodies within a budget of memory. Bodies of at most 64 KiB take nothing from the budget.
#[derive(Debug, Clone)]
pub struct Bodies {
    memory: Arc<Semaphore>,
    pace: Pace,
}

impl Bodies {
    /// A budget of `bytes`, for bodies that arrive at `pace` or faster.
    pub fn within(bytes: usize, pace: Pace) -> Self {
        let units = (bytes / UNIT).clamp(1, u32::MAX as usize);
        Bodies { memory: Arc::new(Semaphore::new(units)), pace }
    }

    /// Reads the body of `request`, of at most `limit` bytes and of the type `content`, if one is given.
    ///
    /// # Errors
    /// The body of a refused request is discarded, as [`discard`] does.
    /// [`Rejection::MediaType`], [`Rejection::BodyTooLarge`], [`Rejection::BodyLost`],
    /// [`Rejection::Overloaded`].
    pub async fn read(
        &self,
        request: Request,
        limit: usize,
        content: Option<Content>,
    ) -> Result<Body, Rejection> {
        let empty = request.body().is_end_stream();
        if let Some(content) = content
            && !content.is_that_of(request.headers()).unwrap_or(empty)
        {
            discard(request, DISCARDED_BYTES).await;
            return Err(Rejection::MediaType { want: content.name() });
        }
        let announced = announced(&request);
        if announced.is_some_and(|length| length > limit as u64) {
            discard(request, DISCARDED_BYTES).await;
            return Err(Rejection::BodyTooLarge { limit });
        }
        let most = announced.map_or(limit, |length| length as usize);
        let mut reader = Reader::new(request.into_body(), self.pace);
        let (mut bytes, mut memory) = (Vec::new(), None);
        while let Some(chunk) = reader.next().await? {
            let length = bytes.len() + chunk.len();
            if length > limit {
                return Err(Rejection::BodyTooLarge { limit });
            }
            if length > bytes.capacity() {
                // The buffer doubles as a vector does, from what no budget bounds on, but not beyond what may
                // arrive, and the budget is charged before it grows.
                let capacity = (2 * bytes.capacity()).max(SMALL_BYTES).min(most).max(length);
                if let Err(rejection) = self.charge(&mut memory, capacity) {
                    drop(bytes);
                    reader.discard().await;
                    return Err(rejection);
                }
                bytes.reserve_exact(capacity - bytes.len());
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(Body { bytes, _memory: memory })
    }

    /// Takes permits until they cover a body of `capacity` bytes.
    fn charge(&self, memory: &mut Option<OwnedSemaphorePermit>, capacity: usize) -> Result<(), Rejection> {
        if capacity <= SMALL_BYTES {
            return Ok(());
        }
        let units = capacity.div_ceil(UNIT) - memory.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let units = u32::try_from(units).map_err(|_| Rejection::Overloaded)?;
        let more = self.memory.clone().try_acquire_many_owned(units).map_err(|_| Rejection::Overloaded)?;
        match memory {
            Some(permit) => permit.merge(more),
            None => *memory = Some(more),
        }
        Ok(())
    }
}

/// Reads and discards the body of a request that is refused, for at most five seconds, if its announced
/// length is at most `most` bytes. Many clients read the answer only after they have sent everything, and
/// report a broken connection otherwise. A body that is longer or slower is not read, and the connection is
/// closed after the answer.
pub async fn discard(request: Request, most: u64) {
    if announced(&request).is_some_and(|length| length <= most) {
        Reader::new(request.into_body(), Pace::default()).discard().await;
    }
}

fn announced(request: &Request) -> Option<u64> {
    request.headers().get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A body that arrives in parts, at the pace or faster.
struct Reader {
    body: HttpBody,
    pace: Pace,
    /// When the next part must have arrived: at most the grace from now, however fast the parts before
    /// arrived, so that no memory is held for a sender that has stopped.
    deadline: Instant,
    received: u64,
}

impl Reader {
    fn new(body: HttpBody, pace: Pace) -> Self {
        Reader { body, pace, deadline: Instant::now() + pace.grace, received: 0 }
    }

    async fn next(&mut self) -> Result<Option<Bytes>, Rejection> {
        let Pace { grace, rate } = self.pace;
        let late = || Rejection::BodyLost {
            why: format!("after {} s it must arrive at {rate} bytes per second or faster", grace.as_secs()),
        };
        loop {
            let frame = std::future::poll_fn(|context| Pin::new(&mut self.body).poll_frame(context));
            let frame = tokio::time::timeout_at(self.deadline, frame).await.map_err(|_| late())?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|e| Rejection::BodyLost { why: e.to_string() })?;
            // Trailers are not part of the body.
            if let Ok(data) = frame.into_data() {
                self.received += data.len() as u64;
                let earned = Duration::from_millis(data.len() as u64 * 1000 / rate.max(1));
                self.deadline = (self.deadline + earned).min(Instant::now() + grace);
                return Ok(Some(data));
            }
        }
    }

    /// Reads and discards the rest. A body that is late, breaks off or is too long changes nothing in the
    /// answer.
    async fn discard(mut self) {
        let rest = async {
            while self.received <= DISCARDED_BYTES
                && let Ok(Some(_)) = self.next().await
            {}
        };
        // Either the rest was read, or it was too slow.
        let _ = tokio::time::timeout(DISCARDED_FOR, rest).await;
    }
}
