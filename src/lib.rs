//! The server: ciphertexts in, ciphertexts out. It holds public and evaluation keys only, and cannot name a
//! secret one. Beside encrypted bandits it serves clear policies, each under the trust model that its privacy
//! statement names.
//!
//! For operators, through the program `helba-server`, and for whoever wants to run it inside another process:
//! [`app`] is its router. A request passes through the folders in this order, and none calls back:
//!
//! | folder | does |
//! |---|---|
//! | `http` | routes, tokens, bodies, answers; one file a resource |
//! | `bandits` | the bandits in use: encrypted ones, and those with a clear policy |
//! | `jobs` | how much is computed at a time; batch updates in the background |
//! | `store` | states, rows and ciphertexts on the disk |
//!
//! `policy` is HELBA's card beside those of the registry in the crate `policies`.
//!
//! What a request may cost is bounded before it is read: connections by [`Connections`], bodies by the size
//! of the ciphertexts they can hold and by [`Settings::body_memory`], requests computed by
//! [`Settings::max_in_flight`], bandits by [`Settings::max_bandits`].

mod bandits;
mod error;
mod http;
mod jobs;
mod policy;
mod store;

pub use error::{Error, Kind};
pub use http::{AppState, Settings, app, printable};
pub use service::{Connections, serve, stop_signal};
