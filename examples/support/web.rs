//! The shop in a browser (clients/web): its files, which the server process serves beside its interface, and
//! the key authority, which hands the secret bundle to pages from another process.

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::extract::{Path as Segment, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use wire::AccessToken;

/// Features and arms of the shop: attributes of products, and places on the shelf.
pub(crate) const PROBLEM: (usize, usize) = (4, 4);

/// The paths of the page, each that of a file in clients/web, with their media types.
const FILES: [(&str, &str); 14] = [
    ("demo/index.html", "text/html; charset=utf-8"),
    ("demo/shop.css", "text/css; charset=utf-8"),
    ("demo/shop.js", SCRIPT),
    ("demo/products.js", SCRIPT),
    ("demo/icon.svg", "image/svg+xml"),
    ("js/index.js", SCRIPT),
    ("js/errors.js", SCRIPT),
    ("js/http.js", SCRIPT),
    ("js/values.js", SCRIPT),
    ("js/device.js", SCRIPT),
    ("js/worker.js", SCRIPT),
    ("pkg/simd128.js", SCRIPT),
    ("pkg/portable.js", SCRIPT),
    ("pkg/simd128_bg.wasm", MODULE),
];
const PORTABLE: (&str, &str) = ("pkg/portable_bg.wasm", MODULE);
const SCRIPT: &str = "text/javascript; charset=utf-8";
const MODULE: &str = "application/wasm";

/// The folder of the package.
fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/web")
}

/// Compiles the device for browsers, if it is not up to date.
pub(crate) fn build() -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut pack = Command::new(cargo);
    pack.args(["run", "--quiet", "--locked", "-p", "pack"]).current_dir(package());
    let status = pack.stdout(Stdio::null()).status().context("cannot start cargo")?;
    ensure!(status.success(), "the browser's device was not built; the lines above say why");
    Ok(())
}

/// The page, and with it where it may fetch the key. The server that serves it holds no secret.
pub(crate) fn pages(authority: SocketAddr) -> Result<Router> {
    let policy = format!(
        "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; img-src 'self'; \
         connect-src 'self' http://{authority}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let headers: [(HeaderName, HeaderValue); 5] = [
        (header::CONTENT_SECURITY_POLICY, HeaderValue::try_from(policy)?),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    ];
    let mut router = Router::new();
    for (path, media) in FILES.into_iter().chain([PORTABLE]) {
        let file = package().join(path);
        let bytes = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let media = (header::CONTENT_TYPE, HeaderValue::from_static(media));
        let headers: HeaderMap = headers.iter().cloned().chain([media]).collect();
        let bytes: &'static [u8] = bytes.leak();
        let serve = async move || (headers, bytes);
        let route = path.strip_suffix("index.html").unwrap_or(path);
        router = router.route(&format!("/{route}"), get(serve));
    }
    Ok(router)
}

/// Hands out the secret bundle, once for each link. It is the key authority's, and listens on a port of its
/// own, so that no request for a key reaches the server.
pub(crate) struct Authority {
    listener: std::net::TcpListener,
    address: SocketAddr,
}

struct Handout {
    bundle: PathBuf,
    /// The page's address.
    page: String,
    authority: SocketAddr,
    /// The code of the link that was printed last.
    code: Mutex<AccessToken>,
    /// Is given every new link.
    tell: Box<dyn Fn(&str) + Send + Sync>,
}

impl Authority {
    /// Takes a free loopback port.
    pub(crate) fn bind() -> Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        Ok(Authority { address: listener.local_addr()?, listener })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Hands the bundle to the page at `page`, until the process ends. `tell` is given the first link, and a
    /// new one after each that was used.
    pub(crate) async fn serve(
        self,
        bundle: PathBuf,
        page: String,
        tell: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<()> {
        let code = Mutex::new(AccessToken::generate(&mut user_client::os_rng()?));
        let handout = Handout { bundle, page, authority: self.address, code, tell: Box::new(tell) };
        handout.announce();
        let router = Router::new().route("/keys/{code}", get(hand_out)).with_state(Arc::new(handout));
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        helba_server::serve(listener, router, helba_server::Connections::default(), std::future::pending())
            .await;
        Ok(())
    }
}

impl Handout {
    fn announce(&self) {
        let code = self.code.lock().unwrap_or_else(PoisonError::into_inner).to_hex();
        (self.tell)(&format!("{}/demo/#authority={}&code={}", self.page, self.authority.port(), *code));
    }

    /// The bundle, if the code is that of the last link. The code is used up then.
    fn take(&self, code: &str) -> Option<Vec<u8>> {
        let code = AccessToken::from_hex(code).ok()?;
        let mut last = self.code.lock().unwrap_or_else(PoisonError::into_inner);
        // Digests are compared in constant time.
        if code.digest() != last.digest() {
            return None;
        }
        *last = AccessToken::generate(&mut user_client::os_rng().ok()?);
        std::fs::read(&self.bundle).ok()
    }
}

async fn hand_out(
    State(handout): State<Arc<Handout>>,
    Segment(code): Segment<String>,
    request: Request,
) -> Response {
    // The code alone lets a page have the key. A foreign host or site gets nothing even with it.
    let text = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let local =
        |authority: &str| authority.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_loopback());
    let origin = text(header::ORIGIN).to_string();
    if !local(text(header::HOST)) || !origin.strip_prefix("http://").is_some_and(local) {
        return StatusCode::FORBIDDEN.into_response();
    }
    let Ok(origin) = HeaderValue::try_from(origin) else { return StatusCode::FORBIDDEN.into_response() };
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, origin),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::CONTENT_TYPE, HeaderValue::from_static(wire::OCTET_STREAM)),
    ];
    match handout.take(&code) {
        Some(bundle) => {
            handout.announce();
            (headers, bundle).into_response()
        }
        None => (StatusCode::NOT_FOUND, headers).into_response(),
    }
}

/// Asks the desktop to open `link`, by a file that only its owner can read: the arguments of a program are
/// shown to all users of a machine. Where there is no desktop, nothing happens.
pub(crate) fn open(link: &str, folder: &Path) -> Result<()> {
    let desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let opener = match std::env::consts::OS {
        "macos" => "open",
        "linux" | "freebsd" if desktop => "xdg-open",
        _ => return Ok(()),
    };
    let path = folder.join("open.html");
    let html = format!(
        "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url={}\">",
        link.replace('&', "&amp;")
    );
    let mut file = std::fs::OpenOptions::new();
    file.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut file, 0o600);
    std::io::Write::write_all(&mut file.open(&path)?, html.as_bytes())?;
    // A desktop without the program opens nothing, and the link was printed.
    let _ = Command::new(opener).arg(&path).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    Ok(())
}
