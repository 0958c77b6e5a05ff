//! The keys of a committee, made by its members in processes of their own: nobody has the key at any time.
//!
//! | round | a member sends |
//! |---|---|
//! | commit | the hash of its public keys |
//! | reveal | the public keys of its own secrets |
//! | deal | to each other member, sealed: Shamir shares of its secrets, half a pair key, a part of the token |
//! | keys | its share of each relinearisation, Galois and ring-switch key |
//! | test | its shares of openings by every set of t members, of what each key makes of an encryption of 0 |
//! | verdict | the hash of the keys |
//! | confirm | its signature of the keys |
//!
//! Messages go over a [`Board`], are signed, and name all messages of the rounds before, so that two members
//! who are shown different ones notice. All that a member draws follows from one seed, which is on disk
//! before the first message. If anything is wrong before a member has signed, all open their seeds, and
//! everybody finds who deviated. Keys are those of the committee only if all have signed them.

mod blame;
mod board;
mod error;
mod evaluation;
mod memory;
mod message;
mod parts;
mod party;
mod plan;
mod proposal;
mod reshare;
mod run;
mod spent;
mod untrusted;

pub use board::{Board, RemoteBoard, Store, routes};
pub use error::Error;
pub use message::{Entry, Round, Slot};
pub use plan::Plan;
pub use proposal::{Identity, Proposal, Resharing};
pub use reshare::{Old, Reshare};
pub use run::Keygen;
pub use untrusted::{read_key_generation, read_resharing};
