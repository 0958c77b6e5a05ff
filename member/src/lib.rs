//! A member of a committee: how its keys are made, and how it serves.
//!
//! For the program `helba-member`, and for programs that run members in their own process. A server and a
//! device of a user must not depend on this crate, which names secrets.

mod board;
mod identity;
mod keygen;
mod serve;

pub use board::{Board, routes};
pub use identity::{Error, Identity, card_from_json, card_to_json};
pub use keygen::{KEYS_FILE, MANIFEST_FILE, make_keys};
pub use serve::{Served, serve};
