//! A member of a key committee: its keys, and what it answers a server.
//!
//! For the program `helba-member`, and for programs that run members in their own process. A server and a
//! device of a user must not depend on this crate, which names secrets.

pub mod keygen;
mod keys;
pub mod serve;
pub mod shares;

pub use keys::{KeysError, MemberKeys, MemberShares};
