//! Serves HTTP and HTTPS (`tls`), and bounds what a request may cost before it reaches a route. It knows no
//! bandit and no ciphertext.
//!
//! | bound | module | protects against |
//! |---|---|---|
//! | connections in all, by address, and in time | `listen` | memory and descriptors held by idle peers |
//! | seconds of a handshake | `listen` | handshakes that never end |
//! | bytes and seconds of a head | `listen` | heads that never end |
//! | rate at which a peer takes an answer, memory of answers | `listen`, `taking` | memory of answers that nobody reads |
//! | hosts that a request may name, origins that may start it | `origin`, `cors` | pages that use a visitor's browser |
//! | type, length, rate and memory of a body | `body` | bodies that never end, or do not fit |

mod body;
mod cors;
mod listen;
mod origin;
mod taking;
mod tls;
mod validity;

pub use body::{Bodies, Body, Content, DISCARDED_BYTES, Pace, discard};
pub use cors::{BadOrigin, Cors, Origin};
pub use listen::{Connections, Peer, serve, serve_tls};
pub use origin::Hosts;
pub use tls::{CertificateEnd, OwnAuthority, Tls, TlsArguments, TlsError};

/// Why a request was refused before it reached a route.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// Untrusted: a body that is longer than the request can need.
    #[error("the body is longer than {limit} bytes, the most that this request can need")]
    BodyTooLarge {
        /// The longest length, in bytes.
        limit: usize,
    },
    /// Untrusted: a body that broke off or arrived too slowly.
    #[error("the body did not arrive: {why}")]
    BodyLost {
        /// The cause.
        why: String,
    },
    /// Untrusted: a body that is not declared as the media type of the request.
    #[error("the body must be declared as {want} in the header `Content-Type`")]
    MediaType {
        /// The media type of the request.
        want: &'static str,
    },
    /// Capacity: the bodies that are being read take all the memory of the budget.
    #[error("the server is at its limit of requests; try again in a second")]
    Overloaded,
    /// Untrusted: a header that comes twice where it may come once, or that is not what it must be.
    #[error("the header `{name}` {why}")]
    BadHead {
        /// The name of the header.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Untrusted: a request for another host. A browser sends one if the name of that host resolves to this
    /// server.
    #[error(
        "this server is not `{host}`: use a loopback address or localhost, or start the server with `--host NAME`"
    )]
    WrongHost {
        /// The host that the request named.
        host: String,
    },
    /// Untrusted: a request that a page of another origin started.
    #[error(
        "a page of `{origin}` may not send requests to this server; if the page belongs to this server, its proxy must pass the header `Host` on, or `--host` of helba-server must name its host; pages of other origins are named by `--cors-origin`"
    )]
    ForeignOrigin {
        /// The origin of the page.
        origin: String,
    },
}
