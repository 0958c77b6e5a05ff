//! Accepts connections, and bounds their number and the time that one may spend without a request.
//!
//! A connection is *waiting* while none of its requests is being answered: the head of its next request has
//! not arrived in full. At a bound, the connection that has waited longest is closed for the new one. If none
//! is waiting, the oldest connection of the address with the most connections is closed. A connection waits
//! during the handshake of TLS too.

use crate::taking::{Answers, Blocked, Charged, SMALL_BYTES, TAKEN, Taken};
use crate::tls::Tls;
use axum::Router;
use axum::body::{Body, HttpBody};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use host::lock;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// For this time after an answer, a connection is not closed for a new one: its client may still be reading.
const ANSWERED: Duration = Duration::from_secs(5);
/// The most connections that the system keeps until they are accepted, if its own bound is no lower. With
/// the 128 of the standard library, others who connect at the same time would have it drop the first packet
/// of a client, which sends it again after a second.
const BACKLOG: i32 = 4096;
/// The most bytes of a head. The read buffer of a connection may have twice as many.
const BUFFER_BYTES: usize = 64 << 10;
/// A connection whose peer has taken nothing for this time is closed for an answer that finds no memory.
const TAKES_NOTHING: Duration = Duration::from_secs(1);
/// The pause after an error of `accept` itself, such as a lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);
/// The answer to a connection beyond the bound, sent before any of its requests is read.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// The problem document of an answer that finds no memory: that of `wire::ProblemType::Overloaded`.
const OVERLOADED: &str = r#"{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"the memory for answers is full of those that others are still reading; try again in a second","reason":"overloaded"}"#;

/// The site that a request comes from, an extension of every request: the IPv4 address of the other end of
/// the connection, or the first 64 bits of its IPv6 address. Behind a proxy it is that of the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

/// Bounds on the number of open connections and on their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// The most connections. Each takes a file descriptor and up to some tens of kB.
    pub most: usize,
    /// The most connections from one address. The default is large, since all connections through a proxy
    /// have the address of the proxy.
    pub most_an_address: usize,
    /// The handshake of TLS must end within this time after the connection is accepted.
    pub handshake: Duration,
    /// The head of a request must arrive within this time after the connection is accepted or the handshake
    /// has ended, or after the last answer. Clients keep idle connections for 15 s or less.
    pub head: Duration,
    /// A connection is closed after this time, even if a request is being answered. `None` sets no such
    /// bound.
    pub life: Option<Duration>,
    /// Memory in bytes for answers above 128 KiB that peers have not read yet. A peer must read an answer at
    /// 64 KiB/s or faster after a grace of 15 s. If no memory is left, the connection whose peer has read
    /// nothing for longest, and for 1 s at least, is closed. If all peers read, it is the connection that
    /// holds most at the address that holds most. An answer with which its own address would hold as much as
    /// that one is 503, with the problem document `overloaded`.
    pub answers: usize,
    /// Time to answer the remaining requests after the service is told to stop.
    pub grace: Duration,
}

impl Default for Connections {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Connections {
            most: 512,
            most_an_address: 448,
            handshake: seconds(10),
            head: seconds(20),
            life: None,
            answers: 32 << 20,
            grace: seconds(30),
        }
    }
}

/// Serves `app` on `listener` until `stop` returns, and then answers the remaining requests. Returns whether
/// all of them were answered within [`Connections::grace`].
///
/// Must be called within a tokio runtime.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    connections: Connections,
    stop: impl Future<Output = ()>,
) -> bool {
    serve_tls(listener, None, app, connections, stop).await
}

/// As [`serve`], over HTTPS if there is a certificate. Its files are followed meanwhile, and SIGHUP no longer
/// ends the process.
pub async fn serve_tls(
    listener: TcpListener,
    tls: Option<Tls>,
    app: Router,
    connections: Connections,
    stop: impl Future<Output = ()>,
) -> bool {
    if let Err(error) = SockRef::from(&listener).listen(BACKLOG) {
        tracing::debug!(%error, "the backlog stays as it was");
    }
    let tls = tls.map(Arc::new);
    let follows = tls.clone().map(|tls| Aborts(tokio::spawn(tls.follow())));
    let open = Arc::new(Open::default());
    let answers = Answers::within(connections.answers);
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
                    let config = tls.as_ref().map(|tls| tls.config());
                    let watcher = graceful.watcher();
                    let (app, slot, open) = (app.clone(), slot.clone(), open.clone());
                    let (answers, head) = (answers.clone(), connections.head);
                    let http = Http { app, slot: slot.clone(), open, answers, head, watcher };
                    tokio::spawn(answer(stream, config, http, slot, guard, connections));
                }
                // The answer is sent if it fits the socket buffer, and the request is not read.
                None if tls.is_none() => drop(stream.try_write(FULL)),
                None => {}
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
    drop((listener, follows));
    open.close_all_waiting();
    timeout(connections.grace, graceful.shutdown()).await.is_ok()
}

/// Ends a task when it is dropped.
struct Aborts(tokio::task::JoinHandle<()>);

impl Drop for Aborts {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Answers on a connection until it ends, is closed for another one, or its time is over.
async fn answer(
    stream: TcpStream,
    tls: Option<Arc<rustls::ServerConfig>>,
    http: Http,
    slot: Arc<Slot>,
    guard: Leaves,
    connections: Connections,
) {
    // An answer of several segments must not wait for the client's acknowledgement of the first.
    let _ = stream.set_nodelay(true);
    let stream = Taken::new(stream, TAKEN, slot.blocked.clone());
    let work = async {
        let Some(config) = tls else { return http.answer(stream).await };
        match timeout(connections.handshake, TlsAcceptor::from(config).accept(stream)).await {
            Ok(Ok(stream)) => http.answer(stream).await,
            Ok(Err(error)) => tracing::debug!(%error, "a handshake failed"),
            Err(_) => tracing::debug!("a handshake took too long"),
        }
    };
    tokio::select! {
        () = work => {}
        () = slot.close.notified() => {}
        () = over(connections.life) => {}
    }
    drop(guard);
}

/// What answers the requests of one connection.
struct Http {
    app: Router,
    slot: Arc<Slot>,
    open: Arc<Open>,
    answers: Answers,
    head: Duration,
    watcher: Watcher,
}

impl Http {
    /// Answers until the connection ends.
    async fn answer(self, stream: impl AsyncRead + AsyncWrite + Unpin + 'static) {
        let Http { app, slot, open, answers, head, watcher } = self;
        let routes = TowerToHyperService::new(app);
        let peer = Peer(slot.address);
        let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
            slot.enter();
            request.extensions_mut().insert(peer);
            // The buffer takes what arrives with its last byte too, so that a longer head may fit it.
            let fits = head_bytes(&request) <= BUFFER_BYTES;
            let answer = fits.then(|| routes.call(request));
            let (slot, open, answers) = (slot.clone(), open.clone(), answers.clone());
            async move {
                let answer = match answer {
                    Some(answer) => answer.await,
                    None => Ok(too_long()),
                };
                let answer = match answer {
                    Ok(answer) => Ok(charged(answer, &answers, &open, &slot).await),
                    Err(never) => Err(never),
                };
                slot.leave();
                answer
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(head)
            .max_buf_size(BUFFER_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        if let Err(error) = watcher.watch(connection).await {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

/// The bytes of the head of a request, without white space around values.
fn head_bytes<B>(request: &hyper::Request<B>) -> usize {
    let line = request.method().as_str().len() + request.uri().to_string().len() + "  HTTP/1.1\r\n\r\n".len();
    let fields =
        request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    line + fields.sum::<usize>()
}

/// The answer to a head above the bound. Nothing else is read of its connection.
fn too_long() -> Response {
    let close = [(header::CONNECTION, HeaderValue::from_static("close"))];
    (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, close).into_response()
}

/// `answer`, whose bytes take memory of the budget until the peer has them, or [`overloaded`].
async fn charged(answer: Response, answers: &Answers, open: &Open, slot: &Slot) -> Response {
    let bytes = answer.body().size_hint().exact().filter(|bytes| *bytes > SMALL_BYTES);
    let Some(bytes) = bytes else { return answer };
    let make_room = |units, missing| open.close_of_most_memory(slot.address, units, missing);
    match answers.charge(bytes, &slot.held, make_room).await {
        Some(memory) => answer.map(|body| Body::new(Charged { body, memory: Arc::new(memory) })),
        None => overloaded(answer),
    }
}

/// The refusal in place of `answer`. It keeps the headers that do not describe the body, among them those by
/// which a page of another origin may read it, and the one that names the request in the log.
fn overloaded(answer: Response) -> Response {
    let mut headers = answer.into_parts().0.headers;
    let of_body = [header::CACHE_CONTROL, header::ETAG, header::LAST_MODIFIED, header::LINK];
    let names: Vec<HeaderName> = headers.keys().cloned().collect();
    for name in names.iter().filter(|name| name.as_str().starts_with("content-") || of_body.contains(name)) {
        headers.remove(name);
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    (StatusCode::SERVICE_UNAVAILABLE, headers, OVERLOADED).into_response()
}

/// Returns after `life`, or never if it is `None`.
async fn over(life: Option<Duration>) {
    match life {
        Some(life) => tokio::time::sleep(life).await,
        None => std::future::pending().await,
    }
}

/// The part of an address by which connections are counted: the whole IPv4 address, or the first 64 bits of
/// an IPv6 address, since one subscriber owns all addresses that share these bits.
fn site(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

/// Whether an error of `accept` concerns one connection only.
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
    blocked: Arc<Blocked>,
    /// The memory of its answers, in units of the budget.
    held: Arc<AtomicU32>,
    close: Notify,
}

#[derive(Clone, Copy)]
enum State {
    /// No request has been answered.
    New { since: Instant },
    /// A request is being answered.
    Busy,
    /// The last request was answered.
    Answered { since: Instant },
    /// The connection is about to be closed for another.
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

    fn held(&self) -> u32 {
        self.held.load(Ordering::Relaxed)
    }

    /// When the connection began to wait. `None` if it may not be closed.
    fn waits_since(&self) -> Option<Instant> {
        match *lock(&self.state) {
            State::New { since } => Some(since),
            State::Answered { since } if since.elapsed() >= ANSWERED => Some(since),
            _ => None,
        }
    }
}

/// Closes a connection for another one.
fn close(slots: &mut BTreeMap<u64, Arc<Slot>>, id: u64) -> Option<()> {
    let slot = slots.remove(&id)?;
    *lock(&slot.state) = State::Closing;
    slot.close.notify_one();
    Some(())
}

/// The connection that is closed for its memory of answers, and the units that it holds: that whose peer has
/// taken nothing for longest, or, if all peers take something, the one that holds most at the address that
/// holds most. `None` if that address holds no more than `address` would with `units` more: of addresses that
/// hold as much, none takes it from another.
fn of_most_memory(slots: &BTreeMap<u64, Arc<Slot>>, address: IpAddr, units: u32) -> Option<(u64, u32)> {
    let holding = || slots.iter().map(|(id, slot)| (*id, slot, slot.held())).filter(|(.., held)| *held > 0);
    let blocked = holding().filter_map(|(id, slot, held)| Some((slot.blocked.since()?, id, held)));
    if let Some((_, id, held)) = blocked.min().filter(|(since, ..)| since.elapsed() >= TAKES_NOTHING) {
        return Some((id, held));
    }
    let mut of = BTreeMap::<IpAddr, (u32, (u32, u64))>::new();
    for (id, slot, held) in holding() {
        let (all, most) = of.entry(slot.address).or_default();
        *all += held;
        *most = (*most).max((held, id));
    }
    let own = of.get(&address).map_or(0, |(all, _)| *all);
    let (all, (held, id)) = of.into_values().max()?;
    (all > own.saturating_add(units)).then_some((id, held))
}

impl Open {
    /// A slot for a connection from `address`. `None` if a bound is met and no connection can be closed.
    fn admit(&self, id: u64, address: IpAddr, bounds: Connections) -> Option<Arc<Slot>> {
        let (all, of_address) = self.count(address);
        if of_address >= bounds.most_an_address.max(1) {
            self.close_longest_waiting(|slot| slot.address == address)?;
        } else if all >= bounds.most.max(1) {
            self.close_longest_waiting(|_| true).or_else(|| self.close_of_most(of_address))?;
        }
        let state = Mutex::new(State::New { since: Instant::now() });
        let (blocked, held) = (Arc::default(), Arc::default());
        let slot = Arc::new(Slot { address, state, blocked, held, close: Notify::new() });
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
        close(&mut slots, id)
    }

    /// Closes connections that hold memory of answers until they held `missing` units, and returns whether
    /// any was closed. An answer of several times the length of theirs would otherwise wait for each.
    fn close_of_most_memory(&self, address: IpAddr, units: u32, missing: u32) -> bool {
        let mut slots = lock(&self.slots);
        let (mut closed, mut freed) = (false, 0);
        while !closed || freed < missing {
            let Some((id, held)) = of_most_memory(&slots, address, units) else { break };
            closed |= close(&mut slots, id).is_some();
            freed += held;
        }
        closed
    }

    /// Closes the oldest connection of the address with the most connections, even if one of its requests is
    /// being answered. Returns `None` and closes nothing if that address has at most one connection more than
    /// `than`, the number of the new connection's address.
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
        close(&mut slots, id)
    }

    fn close_all_waiting(&self) {
        for slot in lock(&self.slots).values() {
            if !matches!(*lock(&slot.state), State::Busy) {
                slot.close.notify_one();
            }
        }
    }
}

/// Removes a connection from the list when it is dropped.
struct Leaves {
    open: Arc<Open>,
    id: u64,
}

impl Drop for Leaves {
    fn drop(&mut self) {
        lock(&self.open.slots).remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A subscriber has 2⁶⁴ addresses of IPv6, and is counted once.
    #[test]
    fn attack_addresses_of_one_subscriber_are_one_site() {
        let same = |a: &str, b: &str| site(a.parse().unwrap()) == site(b.parse().unwrap());
        assert!(same("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff"));
        assert!(!same("2001:db8::1", "2001:db8:0:1::1"));
        assert!(same("::ffff:192.0.2.1", "192.0.2.1") && !same("192.0.2.1", "192.0.2.2"));
        let open = Open::default();
        let bounds = Connections { most_an_address: 1, ..Connections::default() };
        let first = open.admit(1, site("2001:db8::1".parse().unwrap()), bounds).unwrap();
        first.enter();
        assert!(open.admit(2, site("2001:db8::2".parse().unwrap()), bounds).is_none());
        assert!(open.admit(3, site("2001:db8:0:1::1".parse().unwrap()), bounds).is_some());
    }

    /// For an answer as long as several of theirs, as many connections are closed at once, and no more.
    #[test]
    fn as_many_connections_are_closed_as_an_answer_needs() {
        for (units, missing, left) in [(300, 300, 2), (300, 200, 3), (700, 600, 3), (800, 800, 4)] {
            let open = Open::default();
            let [theirs, own] = ["192.0.2.1", "192.0.2.2"].map(|address| site(address.parse().unwrap()));
            for id in 0..4 {
                let slot = open.admit(id, theirs, Connections::default()).unwrap();
                slot.held.store(200, Ordering::Relaxed);
            }
            assert_eq!(open.close_of_most_memory(own, units, missing), left < 4);
            assert_eq!(open.count(theirs).0, left, "{units} {missing}");
        }
    }
}
