//! Bodies of requests, without a connection: their pace, their memory, and what is read of a refused one.

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header;
use hyper::body::Frame;
use service::{Bodies, Pace, Rejection, discard};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::time::{Interval, interval};

/// A body that has a part of some bytes every so often, and counts the parts that were read.
struct Parts {
    every: Interval,
    bytes: usize,
    left: usize,
    read: Arc<AtomicUsize>,
}

impl HttpBody for Parts {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        ready!(self.every.poll_tick(context));
        self.left -= 1;
        self.read.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![b' '; self.bytes])))))
    }
}

/// A request whose body has `left` parts, with its length announced or not.
fn request(every: Duration, bytes: usize, left: usize, announced: bool) -> (Request, Arc<AtomicUsize>) {
    let read = Arc::new(AtomicUsize::new(0));
    let parts = Parts { every: interval(every), bytes, left, read: read.clone() };
    let length = announced.then_some((header::CONTENT_LENGTH, bytes * left));
    let request =
        length.into_iter().fold(Request::builder(), |request, (name, length)| request.header(name, length));
    (request.body(Body::new(parts)).unwrap(), read)
}

/// A sender below the least rate is given up after its grace, however often it sends a byte. One at the rate
/// may take longer than the grace.
#[tokio::test]
async fn attack_a_byte_now_and_then_does_not_keep_a_body_open() {
    let bodies = Bodies::within(1 << 20, Pace { grace: Duration::from_secs(1), rate: 1000 });
    let (slow, read) = request(Duration::from_millis(20), 1, 500, false);
    let lost = bodies.read(slow, 1 << 20, None).await.unwrap_err();
    assert!(matches!(lost, Rejection::BodyLost { .. }), "{lost}");
    assert!((2..400).contains(&read.load(Ordering::Relaxed)), "it was given up after seconds");
    let (steady, _) = request(Duration::from_millis(50), 2000, 40, false);
    assert_eq!(bodies.read(steady, 1 << 20, None).await.unwrap().len(), 80_000);
}

/// A body counts towards the memory until whoever computes with it drops it.
#[tokio::test]
async fn bodies_hold_their_memory_until_they_are_dropped() {
    let bodies = Bodies::within(1 << 20, Pace::default());
    let send = || bodies.read(Request::new(Body::from(vec![b' '; 600_000])), 1 << 20, None);
    let held = send().await.unwrap();
    assert_eq!(send().await.unwrap_err(), Rejection::Overloaded);
    drop(held);
    assert_eq!(send().await.unwrap().len(), 600_000);
}

/// Of a refused request nothing is read that is longer than the bound or of an unknown length, and nothing
/// after some seconds, at whatever rate it comes.
#[tokio::test]
async fn attack_refused_bodies_are_read_for_a_bounded_time() {
    let soon = Duration::from_micros(1);
    for (announced, most, parts) in [(true, 999, 0), (true, 1000, 10), (false, 1000, 0)] {
        let (refused, read) = request(soon, 100, 10, announced);
        discard(refused, most).await;
        assert_eq!(read.load(Ordering::Relaxed), parts, "{announced}, {most}");
    }
    let (endless, read) = request(Duration::from_millis(100), 100_000, 400, true);
    let begun = Instant::now();
    discard(endless, u64::MAX).await;
    let parts = read.load(Ordering::Relaxed);
    assert!(begun.elapsed() < Duration::from_secs(20) && parts < 200, "{parts} parts");
}
