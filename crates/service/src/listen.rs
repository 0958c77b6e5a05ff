//! Accepts connections and bounds how many there are, and for how long one may be without a request.
//!
//! A connection is *waiting* while no request of it is being answered: its head has not come, or not all of
//! it, or the last answer has been given. Where a bound is met, the connection that has waited longest makes
//! room. Where none waits, the oldest connection of the address that has the most does.

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::timeout;

/// For this time after an answer a connection is not closed to make room: its client may still read.
const ANSWERED: Duration = Duration::from_secs(5);
/// Bytes of a head, and of a connection's read buffer, at most.
const BUFFER_BYTES: usize = 64 << 10;
/// Pause after an error of `accept` itself, such as no free file descriptor.
const PAUSE: Duration = Duration::from_millis(50);
/// The answer to a connection beyond the bound, sent before any of its requests is read.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Bounds on open connections, in number and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// Connections in all. Each takes a file descriptor and up to some tens of kB.
    pub most: usize,
    /// Connections from one address. The default is large, since behind a proxy all have the proxy's address.
    pub most_an_address: usize,
    /// The head of a request must be there after this time, and the next one after the last answer. Clients
    /// keep connections for 15 s and less.
    pub head: Duration,
    /// A connection is closed after this time, whatever is under way; `None` bounds it by its requests alone.
    pub life: Option<Duration>,
    /// Time for requests under way once the service is told to stop.
    pub grace: Duration,
}

impl Default for Connections {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Connections { most: 512, most_an_address: 448, head: seconds(20), life: None, grace: seconds(30) }
    }
}

/// Serves `app` on `listener` until `stop`, and then until the requests under way have been answered. Returns
/// whether they were, within [`Connections::grace`].
///
/// Must be called within a tokio runtime.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    connections: Connections,
    stop: impl Future<Output = ()>,
) -> bool {
    let open = Arc::new(Open::default());
    let graceful = GracefulShutdown::new();
    let mut stop = pin!(stop);
    for id in 0u64.. {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        match accepted {
            Ok((stream, peer)) => match open.admit(id, site(peer.ip()), connections) {
                Some(slot) => {
                    let guard = Leaves { open: open.clone(), id };
                    let work = answer(stream, app.clone(), slot, guard, connections, graceful.watcher());
                    tokio::spawn(work);
                }
                // As much of it as fits without waiting; the rest of what the client sends is not read.
                None => drop(stream.try_write(FULL)),
            },
            Err(error) => {
                tracing::debug!(%error, "a connection was not accepted");
                if !is_of_the_peer(&error) {
                    open.close_longest_waiting(|_| true);
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
    drop(listener);
    open.close_all_waiting();
    timeout(connections.grace, graceful.shutdown()).await.is_ok()
}

async fn answer(
    stream: TcpStream,
    app: Router,
    slot: Arc<Slot>,
    guard: Leaves,
    connections: Connections,
    watcher: hyper_util::server::graceful::Watcher,
) {
    // An answer of several segments must not wait for the client's acknowledgement of the first.
    let _ = stream.set_nodelay(true);
    let routes = TowerToHyperService::new(app);
    let of_requests = slot.clone();
    let service = service_fn(move |request| {
        of_requests.enter();
        let (answer, slot) = (routes.call(request), of_requests.clone());
        async move {
            let answer = answer.await;
            slot.leave();
            answer
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(connections.head)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        ended = watcher.watch(connection) => if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        },
        () = slot.close.notified() => {}
        () = over(connections.life) => {}
    }
    drop(guard);
}

/// Returns when `life` is over.
async fn over(life: Option<Duration>) {
    match life {
        Some(life) => tokio::time::sleep(life).await,
        None => std::future::pending().await,
    }
}

/// The part of an address by which connections are counted: all of an IPv4 address, and the first 64 bits of
/// an IPv6 address, since one subscriber has all addresses that share them.
fn site(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

/// Errors of `accept` that concern the one connection alone.
fn is_of_the_peer(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// The connections that are open.
#[derive(Default)]
struct Open {
    slots: Mutex<BTreeMap<u64, Arc<Slot>>>,
}

/// One connection.
struct Slot {
    address: IpAddr,
    state: Mutex<State>,
    close: Notify,
}

#[derive(Clone, Copy)]
enum State {
    /// No request so far.
    New { since: Instant },
    /// A request is answered.
    Busy,
    /// The last request was answered.
    Answered { since: Instant },
    /// It is about to be closed for another.
    Closing,
}

impl Slot {
    fn enter(&self) {
        let mut state = lock(&self.state);
        if !matches!(*state, State::Closing) {
            *state = State::Busy;
        }
    }

    fn leave(&self) {
        let mut state = lock(&self.state);
        if !matches!(*state, State::Closing) {
            *state = State::Answered { since: Instant::now() };
        }
    }

    /// When the connection began to wait; `None` if it may not be closed.
    fn waits_since(&self) -> Option<Instant> {
        match *lock(&self.state) {
            State::New { since } => Some(since),
            State::Answered { since } if since.elapsed() >= ANSWERED => Some(since),
            _ => None,
        }
    }
}

impl Open {
    /// A slot for a connection from `address`; `None` if the bounds are met and no connection waits.
    fn admit(&self, id: u64, address: IpAddr, bounds: Connections) -> Option<Arc<Slot>> {
        let (all, of_address) = self.count(address);
        if of_address >= bounds.most_an_address.max(1) {
            self.close_longest_waiting(|slot| slot.address == address)?;
        } else if all >= bounds.most.max(1) {
            self.close_longest_waiting(|_| true).or_else(|| self.close_of_most(of_address))?;
        }
        let state = Mutex::new(State::New { since: Instant::now() });
        let slot = Arc::new(Slot { address, state, close: Notify::new() });
        lock(&self.slots).insert(id, slot.clone());
        Some(slot)
    }

    fn count(&self, address: IpAddr) -> (usize, usize) {
        let slots = lock(&self.slots);
        (slots.len(), slots.values().filter(|slot| slot.address == address).count())
    }

    fn close_longest_waiting(&self, among: impl Fn(&Slot) -> bool) -> Option<()> {
        let mut slots = lock(&self.slots);
        let waiting = slots.iter().filter(|(_, slot)| among(slot));
        let waiting = waiting.filter_map(|(id, slot)| Some((slot.waits_since()?, *id)));
        let (_, id) = waiting.min()?;
        let slot = slots.remove(&id)?;
        *lock(&slot.state) = State::Closing;
        slot.close.notify_one();
        Some(())
    }

    /// Closes the oldest connection of the address that has the most, even if a request of it is under way,
    /// unless the newcomer's address would then have more, which has `than` now.
    fn close_of_most(&self, than: usize) -> Option<()> {
        let mut slots = lock(&self.slots);
        let mut of = BTreeMap::<IpAddr, (usize, u64)>::new();
        for (id, slot) in slots.iter() {
            of.entry(slot.address).or_insert((0, *id)).0 += 1;
        }
        let (count, id) = of.into_values().max_by_key(|(count, _)| *count)?;
        if count <= than + 1 {
            return None;
        }
        let slot = slots.remove(&id)?;
        *lock(&slot.state) = State::Closing;
        slot.close.notify_one();
        Some(())
    }

    fn close_all_waiting(&self) {
        for slot in lock(&self.slots).values() {
            if !matches!(*lock(&slot.state), State::Busy) {
                slot.close.notify_one();
            }
        }
    }
}

/// Takes a connection off the list when it ends, however it ends.
struct Leaves {
    open: Arc<Open>,
    id: u64,
}

impl Drop for Leaves {
    fn drop(&mut self) {
        lock(&self.open.slots).remove(&self.id);
    }
}

/// A panic elsewhere leaves nothing half done behind these locks: what they guard is replaced as a whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
