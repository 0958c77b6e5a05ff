//! Shares of a committee that computes without a lattice key: the field, the keys of its subsets, what
//! devices send, and how opened numbers are read.
//!
//! A committee has n members, of whom t − 1 may be hostile, with 2t − 1 ≤ n ≤ 3t − 2 ([`Threshold`]). Numbers
//! are shared modulo p = 2¹²⁷ − 1 ([`Field`]) by polynomials of degree t − 1: the share of member j is the
//! value at j, and the number the value at 0. For each [`Subset`] of n − t + 1 members there is a key that
//! its members have. Random numbers and pads follow from these keys and a [`Label`], so that nobody sends
//! anything for them ([`Sharing`]; Cramer, Damgård, Ishai 2005).
//!
//! | symbol | here |
//! |---|---|
//! | t, n | [`Threshold::t`], [`Threshold::members`] |
//! | A, f_A | [`Subset`], and its polynomial, which is 1 at 0 and 0 at who is not in A ([`Sharing`]) |
//! | k_A | [`Key`] |
//! | r_A | a number of [`Stream`] |
//! | B | [`Pads::bits`] |
//!
//! t − 1 members lack the key of one subset, whose part of each sum of r_A is as random to them as its bits.
//! The types of secrets have no Debug, Clone or Serialize, and are zeroed when they are dropped.

mod device;
mod error;
mod field;
mod label;
mod manifest;
mod message;
pub mod moves;
mod pads;
pub mod preparation;
mod record;
mod session;
mod squares;
mod subsets;
pub mod talk;
mod tree;

pub use device::{Decision, Device, KeptSession};
pub use error::Error;
pub use field::Field;
pub use label::{Key, Kind, Label, Stream};
pub use manifest::{Card, Manifest, Proposal, SignedManifest};
pub use message::Message;
pub use pads::{Pads, Row};
pub use record::Record;
pub use session::{
    Answer, AnswerPlace, Feedback, MAC_BYTES, MemberSession, Nonce, Request, Session, SessionId,
    SessionSecret, same,
};
pub use squares::three_squares;
pub use subsets::{Opened, Reader, Sharing, Subset, Threshold, factors};
pub use tree::{DecisionId, DecisionState, Paths, Tree};
