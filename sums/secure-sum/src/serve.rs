//! How services take requests: connections, heads, bodies and work are bounded, in this order.
//!
//! | bound | for |
//! |---|---|
//! | connections at a time; the next one waits to be accepted | memory: each holds at most one body |
//! | seconds for a whole head, and for an idle connection to begin one | heads that never end |
//! | the token, where a route needs one | nobody else's body is read |
//! | seconds for the first 64 KiB of a body, and a rate from there on | bodies that never end |
//! | requests computed at a time, counted once their body is there; one more gets 503 | slow senders |
//!
//! Whoever opens all connections there may be keeps others out for as long as heads may take: a proxy must
//! bound the connections of each address.

use crate::Error;
use crate::local::LISTENING;
use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use axum::middleware::{self, Next};
use axum::response::IntoResponse;
use axum::routing::MethodRouter;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::io::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use wire::{AccessToken, TokenDigest};

/// How much a service takes at a time, and how long it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Connections at a time.
    pub connections: usize,
    /// Time for a head, and for an idle connection to begin one.
    pub head: Duration,
    /// Time for the first 64 KiB of a body.
    pub body: Duration,
    /// Bytes that must arrive in a second from there on, on average.
    pub rate: u32,
    /// Requests computed at a time.
    pub working: usize,
    /// Bodies read at a time on routes that take more than 1 MiB.
    pub large: usize,
    /// Time for a connection with all its requests.
    pub connection: Duration,
    /// Time for connections to end when the service is stopped.
    pub stop: Duration,
}

/// Bytes of a body for which there is a fixed time.
const SMALL: usize = 1 << 16;
/// Routes with a limit above this read few bodies at a time.
const LARGE: usize = 1 << 20;

impl Default for Bounds {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            connections: 512,
            // Callers keep idle connections for 15 seconds.
            head: seconds(20),
            body: seconds(5),
            rate: 1 << 16,
            working: 64,
            large: 8,
            connection: seconds(600),
            stop: seconds(5),
        }
    }
}

/// The checks and bounds before every route of a service.
#[derive(Debug, Clone)]
pub struct Gate {
    bounds: Bounds,
    working: Arc<Semaphore>,
    large: Arc<Semaphore>,
    token: Option<TokenDigest>,
}

impl Gate {
    /// Checks requests against `bounds`. Guarded routes need `token`; without one they are open to everybody.
    pub fn new(bounds: Bounds, token: Option<&AccessToken>) -> Self {
        Self {
            bounds,
            working: Arc::new(Semaphore::new(bounds.working)),
            large: Arc::new(Semaphore::new(bounds.large)),
            token: token.map(AccessToken::digest),
        }
    }

    /// A route that is open to everybody, with bodies of at most `limit` bytes.
    pub fn open<S>(&self, limit: usize, route: MethodRouter<S>) -> MethodRouter<S>
    where
        S: Clone + Send + Sync + 'static,
    {
        let gate = self.clone();
        route.route_layer(middleware::from_fn(move |request: Request, next: Next| {
            let gate = gate.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = match gate.read(body, limit).await {
                    Ok(body) => body,
                    Err(error) => return error.into_response(),
                };
                let Ok(_place) = gate.working.try_acquire() else {
                    return Error::Overloaded.into_response();
                };
                next.run(Request::from_parts(head, Body::from(body))).await
            }
        }))
    }

    /// A route for requests with the token, with bodies of at most `limit` bytes.
    pub fn guarded<S>(&self, limit: usize, route: MethodRouter<S>) -> MethodRouter<S>
    where
        S: Clone + Send + Sync + 'static,
    {
        let token = self.token;
        self.open(limit, route).route_layer(middleware::from_fn(
            move |request: Request, next: Next| async move {
                if shows(request.headers(), token) {
                    next.run(request).await
                } else {
                    Error::NoToken.into_response()
                }
            },
        ))
    }

    async fn read(&self, mut body: Body, limit: usize) -> Result<Bytes, Error> {
        if body.size_hint().lower() > limit as u64 {
            return Err(Error::TooLong { limit });
        }
        let large = (limit > LARGE).then(|| self.large.try_acquire()).transpose();
        let Ok(_large) = large else { return Err(Error::Overloaded) };
        let (begin, mut whole) = (Instant::now(), Vec::new());
        loop {
            let beyond = whole.len().saturating_sub(SMALL) as u64;
            let waits = self.bounds.body + Duration::from_secs(beyond) / self.bounds.rate.max(1);
            let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
            let data = match timeout_at(begin + waits, frame).await {
                Ok(None) => return Ok(whole.into()),
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
                Ok(Some(Err(_))) | Err(_) => return Err(Error::BodyLost),
            };
            if data.len() > limit - whole.len() {
                return Err(Error::TooLong { limit });
            }
            whole.extend_from_slice(&data);
        }
    }
}

fn shows(headers: &HeaderMap, token: Option<TokenDigest>) -> bool {
    let Some(token) = token else { return true };
    let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    shown.and_then(TokenDigest::of_authorization) == Some(token)
}

/// Serves `routes` until the process is told to end; first says on standard output where it listens, for
/// [`Process`](crate::local::Process).
///
/// # Errors
/// [`Error::Listen`] if the address is taken, [`Error::Io`].
pub fn serve(listen: &str, routes: Router) -> Result<(), Error> {
    run(listen, routes, |_| Ok(()))
}

/// As [`serve`] for routes some of which need `token`. Without one everybody may ask them: it then listens on
/// a loopback address only, and says so.
///
/// # Errors
/// [`Error::NeedsToken`]; as [`serve`].
pub fn serve_guarded(listen: &str, routes: Router, token: Option<&AccessToken>) -> Result<(), Error> {
    run(listen, routes, |address| match token {
        Some(_) => Ok(()),
        None if address.ip().is_loopback() => {
            eprintln!(
                "warning: started without --token-file: whoever reaches {address} may announce, close and open batches. This is \
                 for trials on one machine"
            );
            Ok(())
        }
        None => Err(Error::NeedsToken { address: address.to_string() }),
    })
}

fn run(
    listen: &str,
    routes: Router,
    admits: impl FnOnce(std::net::SocketAddr) -> Result<(), Error>,
) -> Result<(), Error> {
    let io = |what| move |source| Error::Io { what, source };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().build().map_err(io("starting threads"))?;
    runtime.block_on(async {
        let listener = TcpListener::bind(listen)
            .await
            .map_err(|source| Error::Listen { address: listen.to_owned(), source })?;
        let address = listener.local_addr().map_err(io("asking for the port"))?;
        admits(address)?;
        writeln!(std::io::stdout(), "{LISTENING}{address}").map_err(io("writing to stdout"))?;
        accept(listener, routes, Bounds::default(), told_to_end()).await;
        Ok(())
    })
}

/// Serves `routes` to those who connect, until `end`; requests under way are then answered.
pub async fn accept(listener: TcpListener, routes: Router, bounds: Bounds, end: impl Future<Output = ()>) {
    let mut http = auto::Builder::new(TokioExecutor::new()).http1_only();
    http.http1().timer(TokioTimer::new()).header_read_timeout(bounds.head);
    let (places, graceful) = (Arc::new(Semaphore::new(bounds.connections)), GracefulShutdown::new());
    let mut end = std::pin::pin!(end);
    loop {
        let next = async {
            // Never closed.
            let place = places.clone().acquire_owned().await.ok()?;
            Some((listener.accept().await, place))
        };
        let (stream, place) = tokio::select! {
            next = next => match next {
                Some((Ok((stream, _)), place)) => (stream, place),
                // No descriptors left, or a caller who has gone again.
                _ => {
                    sleep(Duration::from_millis(20)).await;
                    continue;
                }
            },
            () = &mut end => break,
        };
        // Answers are short, so none is delayed to wait for more data.
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(routes.clone());
        let connection = http.serve_connection(TokioIo::new(stream), service).into_owned();
        let connection = timeout(bounds.connection, graceful.watch(connection));
        tokio::spawn(async move {
            // An error here means that the caller closed the connection.
            let _ = connection.await;
            drop(place);
        });
    }
    drop(listener);
    // What is not answered by then is cut off.
    let _ = timeout(bounds.stop, graceful.shutdown()).await;
}

/// When the process gets an interrupt or, on Unix, a signal to terminate.
async fn told_to_end() {
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    let terminate = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => _ = signal.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminate = std::future::pending::<()>();
    tokio::select! {
        () = interrupt => {}
        () = terminate => {}
    }
}
