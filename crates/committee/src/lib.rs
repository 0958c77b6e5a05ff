//! What members of a committee compute on shares of t of them: decisions and updates of HELBA, which nobody
//! sees, under keys of which t − 1 members know nothing together.
//!
//! | who | holds | learns |
//! |---|---|---|
//! | a member | [`MemberKeys`]: a key of each subset that it is in, one with each other member | nothing |
//! | who carries messages and adds up | records, requests and opened numbers, all under masks | nothing |
//! | a device | the keys of its session | the arm of each of its requests |
//!
//! A circuit is written once, against [`Machine`]: [`decide`](decide::decide) and [`learn`](learn::learn).
//! Before an input is there, a set of members prepares *slots* for it ([`prepare`](prepare::prepare)):
//! products of its masks and random bits, which are checked before one of them serves. Then each member shows
//! one number for each step of the circuit ([`Run`]), and every opened number is read from shares of which 2t
//! − 1 must be on one polynomial. A member that errs while slots are prepared is seen before they serve, and
//! named once their seeds are opened; one that errs later is seen at once.
//!
//! No type of this crate that holds a secret has Debug, Clone or Serialize. Nothing here does I/O.

pub mod clear;
pub mod compare;
mod conversation;
pub mod decide;
mod error;
pub mod keygen;
mod keys;
pub mod learn;
mod machine;
pub mod member;
pub mod moves;
mod online;
pub mod prepare;
pub mod scalars;

pub use clear::{Bound, Clear};
pub use conversation::{Ask, Conversation, Next, Port, Reply};
pub use error::Error;
pub use keys::MemberKeys;
pub use machine::{Bits, CircuitId, Gate, Linear, Machine, walk};
pub use online::{Lane, Part, Plan, Run, Slot, Wire};

#[cfg(test)]
mod tests;
