//! A member of a committee on shares: how its keys are made, and how it serves.

mod board;
mod keygen;
mod serve;

pub use board::{Board, routes};
pub use keygen::{KEYS_FILE, MANIFEST_FILE, make_keys};
pub use serve::{Served, serve};
