//! The server of encrypted bandits and of bandits with clear policies. It receives ciphertexts and returns
//! ciphertexts. It holds public and evaluation keys only, and none of its dependencies has a type for a
//! secret key. A clear policy runs under the trust model that its privacy statement names.
//!
//! For operators, as the program `helba-server`, and for programs that run the server in their own process:
//! [`app`] returns its router. A request passes through the folders in this order, and no folder calls one
//! above it:
//!
//! | folder | does |
//! |---|---|
//! | `http` | routes, bodies and answers, with one file for each resource |
//! | `access` | tokens: the table of routes and scopes, and the file of API tokens |
//! | `bandits` | the loaded bandits of all kinds |
//! | `committee` | the committee: its members, sessions and bandits |
//! | `jobs` | bounds on the computations at a time, and batch updates in the background |
//! | `store` | states and rows of clear policies on disk |
//!
//! `policy` adds the card of HELBA to those of the crate `policies`. `metrics` counts times and bytes.
//!
//! The cost of a request is bounded before it is read: connections by [`Connections`], bodies by the size of
//! the ciphertexts that they hold and by [`Settings::body_memory`], computations by
//! [`Settings::max_in_flight`], and bandits by [`Settings::max_bandits`].

mod access;
mod bandits;
mod clock;
mod committee;
mod error;
mod http;
mod jobs;
mod metrics;
mod policy;
mod store;

pub use access::{
    ApiToken, Forbidden, MOST_TOKENS, Needs, NewToken, RemovedUsersList, Route, Scope, TokenFault, TokensFile,
};
pub use bandits::{Audited, Audits, audit};
pub use clock::Clock;
pub use committee::CommitteeError;
pub use error::{Error, Kind};
pub use host::stop_signal;
pub use http::{AppState, Settings, app, document, printable};
pub use service::{Connections, Tls, TlsArguments, TlsError, serve, serve_tls};
