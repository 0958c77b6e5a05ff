//! What every HTTP service here does before a request reaches a route. No bandit and no cryptography.
//!
//! | bound | module | against |
//! |---|---|---|
//! | connections in all, by address, and in time | `listen` | memory and descriptors held by idle peers |
//! | bytes and seconds of a head | `listen` | heads that never end |
//! | hosts that a request may name, origins that may start it | `origin` | pages that use a visitor's browser |
//! | type, length, rate and memory of a body | `body` | bodies that never end, or do not fit |

mod body;
mod listen;
mod origin;

pub use body::{Bodies, Body, Content, DISCARDED_BYTES, Pace, discard};
pub use listen::{Connections, serve};
pub use origin::{Hosts, is_loopback};

/// Why a request was refused before it reached a route.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// Untrusted: a body above its limit; it was not read.
    #[error("the body is longer than {limit} bytes, the most that this request can need")]
    BodyTooLarge {
        /// Bytes allowed.
        limit: usize,
    },
    /// Untrusted: a body that did not arrive.
    #[error("the body did not arrive: {why}")]
    BodyLost {
        /// What happened.
        why: String,
    },
    /// Untrusted: a body of another type than the request takes.
    #[error("the body must be of type {want}: say so in the header `Content-Type`")]
    MediaType {
        /// The type that it must be.
        want: &'static str,
    },
    /// Capacity: the bodies under way take all the memory that there is for them.
    #[error("the server is busy with as many requests as it takes at a time; try again in a second")]
    Overloaded,
    /// Untrusted: a request for another server, which a browser sends here if that name points here.
    #[error(
        "this server is not `{host}`: ask for it by a loopback address or localhost, or start it with --host and its name"
    )]
    WrongHost {
        /// What the request named.
        host: String,
    },
    /// Untrusted: a request that a page of another origin started.
    #[error(
        "requests that a page of `{origin}` starts are refused; if the page is this service's own, its proxy must pass on the page's `Host`, or `--host` of helba-server must name it"
    )]
    ForeignOrigin {
        /// Where the page is from.
        origin: String,
    },
}
