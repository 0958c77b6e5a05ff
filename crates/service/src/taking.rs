//! Bounds on answers that a peer does not read: the pace at which it must read them, below which its
//! connection ends ([`Taken`]), and the memory of all answers that are not read yet ([`Answers`]).

use crate::Pace;
use axum::body::{Body, Bytes, HttpBody};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until};

/// Answers up to this length are bounded by the number of connections. Longer ones take memory from a budget.
pub(crate) const SMALL_BYTES: u64 = 128 << 10;
/// Bytes of one permit of the budget, since a semaphore counts in 32 bits.
const UNIT: u64 = 1 << 10;

/// The pace at which a peer must take an answer. The grace is longer than for bodies: the system takes some
/// hundreds of kB before it waits for the peer, and says that there is room when a third of them is gone.
pub(crate) const TAKEN: Pace = Pace { grace: Duration::from_secs(15), rate: 64 << 10 };

/// Since when a connection waits for its peer to take something.
#[derive(Debug, Default)]
pub(crate) struct Blocked(Mutex<Option<Instant>>);

impl Blocked {
    pub(crate) fn since(&self) -> Option<Instant> {
        *host::lock(&self.0)
    }

    fn set(&self, since: Option<Instant>) {
        *host::lock(&self.0) = since;
    }
}

/// A stream whose peer must take what is written at a pace. If it does not, writing fails.
pub(crate) struct Taken<S> {
    stream: S,
    pace: Pace,
    blocked: Arc<Blocked>,
    /// When something must have been taken. `None` while nothing waits.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> Taken<S> {
    pub(crate) fn new(stream: S, pace: Pace, blocked: Arc<Blocked>) -> Self {
        Taken { stream, pace, blocked, deadline: None }
    }

    /// The outcome of a write, or `TimedOut` after the deadline. A write that waits sets the deadline to now
    /// plus the grace; each byte that is written moves it by 1/rate, to now plus the grace at most.
    fn watched(
        &mut self,
        context: &mut Context,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let Pace { grace, rate } = self.pace;
        match (written, &mut self.deadline) {
            (Poll::Ready(Ok(bytes)), Some(deadline)) => {
                let earned = Duration::from_millis(bytes as u64 * 1000 / rate.max(1));
                let next = (deadline.deadline() + earned).min(Instant::now() + grace);
                deadline.as_mut().reset(next);
                self.blocked.set(None);
                Poll::Ready(Ok(bytes))
            }
            (Poll::Pending, deadline) => {
                if self.blocked.since().is_none() {
                    self.blocked.set(Some(Instant::now()));
                }
                let deadline = deadline.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + grace)));
                ready!(deadline.as_mut().poll(context));
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer takes too little")))
            }
            (other, _) => other,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Taken<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context,
        into: &mut ReadBuf,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Taken<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watched(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context,
        bytes: &[io::IoSlice],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.watched(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// A flush that has ended leaves nothing that waits for the peer, and so no deadline.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.deadline = None;
        self.blocked.set(None);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The memory of answers that peers have not taken yet.
#[derive(Debug, Clone)]
pub(crate) struct Answers {
    memory: Arc<Semaphore>,
    units: u32,
}

impl Answers {
    pub(crate) fn within(bytes: usize) -> Self {
        let units = u32::try_from(bytes as u64 / UNIT).unwrap_or(u32::MAX).clamp(1, u32::MAX >> 3);
        Answers { memory: Arc::new(Semaphore::new(units as usize)), units }
    }

    /// The part of the budget that an answer of `bytes` needs, which is all of it for a longer answer. It is
    /// added to `held`, the units of the connection. While too few units are free, `make_room` gets their
    /// number and how many of them are missing, ends connections that hold some, and returns whether it has.
    /// `None` if it has not.
    pub(crate) async fn charge(
        &self,
        bytes: u64,
        held: &Arc<AtomicU32>,
        make_room: impl Fn(u32, u32) -> bool,
    ) -> Option<Part> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.units);
        let part = |permit| {
            held.fetch_add(units, Ordering::Relaxed);
            Part { _permit: permit, units, held: held.clone() }
        };
        loop {
            if let Ok(permit) = self.memory.clone().try_acquire_many_owned(units) {
                return Some(part(permit));
            }
            let free = u32::try_from(self.memory.available_permits()).unwrap_or(u32::MAX);
            if !make_room(units, units.saturating_sub(free)) {
                return None;
            }
            // What they held comes back when their tasks have ended.
            let soon = tokio::time::timeout(
                Duration::from_millis(100),
                self.memory.clone().acquire_many_owned(units),
            );
            if let Ok(Ok(permit)) = soon.await {
                return Some(part(permit));
            }
        }
    }
}

/// A part of the budget, until it is dropped.
pub(crate) struct Part {
    _permit: OwnedSemaphorePermit,
    units: u32,
    /// What the connection holds.
    held: Arc<AtomicU32>,
}

impl Drop for Part {
    fn drop(&mut self) {
        self.held.fetch_sub(self.units, Ordering::Relaxed);
    }
}

/// A body whose bytes hold a part of the budget until the last of them is dropped.
pub(crate) struct Charged {
    pub(crate) body: Body,
    pub(crate) memory: Arc<Part>,
}

/// Bytes with their part of the budget.
struct Held {
    bytes: Bytes,
    _memory: Arc<Part>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for Charged {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let held = |bytes| Bytes::from_owner(Held { bytes, _memory: self.memory.clone() });
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(held))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// A peer that takes a few bytes now and then is given up after its grace. One that takes them at the
    /// rate gets everything, also after the grace.
    #[tokio::test]
    async fn attack_a_peer_that_takes_little_is_given_up() {
        let pace = Pace { grace: Duration::from_secs(1), rate: 1000 };
        let written = async |bytes: usize, part: usize, pause: u64| {
            let (own, mut peer) = tokio::io::duplex(64);
            let mut taken = Taken::new(own, pace, Arc::default());
            let peer = tokio::spawn(async move {
                let mut part = vec![0; part];
                while peer.read_exact(&mut part).await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
            });
            let written = taken.write_all(&vec![7; bytes]).await;
            peer.abort();
            written
        };
        let late = written(4000, 4, 50).await.unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        written(80_000, 2000, 40).await.unwrap();
    }
}
