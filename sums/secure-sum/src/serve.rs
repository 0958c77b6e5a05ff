//! Bounds on the requests of all parties. `service` bounds connections, heads and bodies, and refuses foreign
//! origins. A [`Gate`] checks the token before it reads a body, and bounds the number of requests that are
//! read and computed at a time.

use crate::Error;
use crate::local::LISTENING;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use axum::middleware::{self, Next};
use axum::response::IntoResponse;
use axum::routing::MethodRouter;
use clap::Args;
use service::{Bodies, Connections, Pace, Tls, TlsArguments};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use wire::{AccessToken, TokenDigest};

/// Bounds on the number of requests at a time, and on their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLimits {
    /// Bounds on connections.
    pub connections: Connections,
    /// The least rate of a body.
    pub pace: Pace,
    /// The most requests that are computed at a time.
    pub working: usize,
    /// The most bodies that are read at a time on routes for bodies above 1 MiB.
    pub large: usize,
}

/// Routes for longer bodies read few bodies at a time.
const LARGE: usize = 1 << 20;
/// Memory for bodies. Their number is bounded by the limits of connections and of large bodies.
const BODY_MEMORY: usize = 1 << 30;

impl Default for RequestLimits {
    fn default() -> Self {
        let (life, grace) = (Some(Duration::from_secs(600)), Duration::from_secs(5));
        Self {
            connections: Connections { life, grace, ..Connections::default() },
            pace: Pace::default(),
            working: 64,
            large: 8,
        }
    }
}

/// The checks and bounds of every route of a service.
#[derive(Debug, Clone)]
pub struct Gate {
    bodies: Bodies,
    working: Arc<Semaphore>,
    large: Arc<Semaphore>,
    token: Option<TokenDigest>,
}

impl Gate {
    /// A gate with these limits. Guarded routes need `token`. Without a token they are open to everybody.
    pub fn new(limits: RequestLimits, token: Option<&AccessToken>) -> Self {
        Self {
            bodies: Bodies::within(BODY_MEMORY, limits.pace),
            working: Arc::new(Semaphore::new(limits.working)),
            large: Arc::new(Semaphore::new(limits.large)),
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
                let request = match gate.read(request, limit).await {
                    Ok(request) => request,
                    Err(error) => return error.into_response(),
                };
                let Ok(_place) = gate.working.try_acquire() else {
                    return Error::Overloaded.into_response();
                };
                next.run(request).await
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

    /// The request with its whole body.
    async fn read(&self, request: Request, limit: usize) -> Result<Request, Error> {
        let large = (limit > LARGE).then(|| self.large.try_acquire()).transpose();
        let Ok(_large) = large else { return Err(Error::Overloaded) };
        let (head, body) = request.into_parts();
        let body = self.bodies.read(Request::from_parts(head.clone(), body), limit, None).await?;
        Ok(Request::from_parts(head, Body::from(body.into_bytes())))
    }
}

fn shows(headers: &HeaderMap, token: Option<TokenDigest>) -> bool {
    let Some(token) = token else { return true };
    let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    shown.and_then(TokenDigest::of_authorization) == Some(token)
}

/// Where a service listens, and over what.
#[derive(Debug, Clone, Args)]
pub struct Listen {
    #[command(flatten)]
    tls: TlsArguments,
    /// Makes a certificate for HTTPS in this folder, if there is none yet. It names localhost, 127.0.0.1, ::1
    /// and every --host. Prints the file that the other parties trust (`--ca`) to stderr.
    #[arg(long, value_name = "DIR")]
    tls_self_signed: Option<PathBuf>,
    /// Host name for the certificate of --tls-self-signed. It may be given several times.
    #[arg(long = "host", value_name = "NAME", requires = "tls_self_signed")]
    hosts: Vec<String>,
    /// The address and the port.
    #[arg(skip)]
    address: String,
}

impl Listen {
    /// On `address`, with a port, 0 for a free one.
    pub fn on(self, address: &str) -> Self {
        Listen { address: address.into(), ..self }
    }
}

/// Prints the address on stdout, which [`Process`](crate::local::Process) reads, and serves `routes` until
/// the process receives a signal to stop.
///
/// # Errors
/// [`Error::Listen`] if the address is in use, [`Error::Tls`], [`Error::Io`].
pub fn serve(listen: &Listen, routes: Router) -> Result<(), Error> {
    run(listen, routes, |_| Ok(()))
}

/// As [`serve`], for routes that need `token`. Without a token, everybody may use these routes: the service
/// then listens on a loopback address only, and prints a warning.
///
/// # Errors
/// [`Error::NeedsToken`]; as [`serve`].
pub fn serve_guarded(listen: &Listen, routes: Router, token: Option<&AccessToken>) -> Result<(), Error> {
    run(listen, routes, |address| match token {
        Some(_) => Ok(()),
        None if address.ip().is_loopback() => {
            host::tell!(
                "warning: there is no --token-file, so that everybody who reaches {address} can announce, close and open \
                 batches; use this for trials on one machine only"
            );
            Ok(())
        }
        None => Err(Error::NeedsToken { address: address.to_string() }),
    })
}

fn run(
    listen: &Listen,
    routes: Router,
    admits: impl FnOnce(std::net::SocketAddr) -> Result<(), Error>,
) -> Result<(), Error> {
    let io = |what| move |error| Error::Io { what, error };
    host::outlive_hangups().map_err(io("listening for signals"))?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().build().map_err(io("starting threads"))?;
    runtime.block_on(async {
        let listener = TcpListener::bind(&listen.address)
            .await
            .map_err(|error| Error::Listen { address: listen.address.clone(), error })?;
        let address = listener.local_addr().map_err(io("asking for the port"))?;
        admits(address)?;
        listen.tls.check(address, listen.tls_self_signed.is_some())?;
        let own = listen.tls_self_signed.as_deref().map(|folder| (folder, listen.hosts.as_slice()));
        // A log on a full disk must not end the service.
        let log = |line: &str| host::tell!("{line}");
        let tls = listen.tls.open(own, log)?;
        if let Some(authority) = tls.as_ref().and_then(Tls::authority) {
            log(&authority.to_string());
        }
        writeln!(std::io::stdout(), "{LISTENING}{address}").map_err(io("writing to stdout"))?;
        let stop = async {
            if host::stop_signal().await.is_err() {
                std::future::pending().await
            }
        };
        let connections = RequestLimits::default().connections;
        service::serve_tls(listener, tls, routes, connections, stop).await;
        Ok(())
    })
}

/// Serves `routes` on `listener` until `end` returns. Remaining requests are then answered, or cut off after
/// the grace period.
pub async fn accept(
    listener: TcpListener,
    routes: Router,
    limits: RequestLimits,
    end: impl Future<Output = ()>,
) {
    service::serve(listener, routes, limits.connections, end).await;
}
