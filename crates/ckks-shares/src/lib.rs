//! The public half of a key committee: what servers and devices compute from the shares of its members.
//!
//! n members hold Shamir shares of a CKKS secret that nobody knows ([`Quorum`]). Any t of them open a linear
//! form of a message ([`Forms`]) or move a message to another ring or level ([`Transfer`]), and t − 1 of them
//! learn nothing. A share that leaves a member carries a zero share, which cancels in the sum over the
//! members of the request ([`ActiveSet`]), so that whoever adds shares learns the sum only.
//!
//! This crate names no secret. Members compute shares with `ckks-committee`.
//!
//! # Source
//! `docs/committee-protocol.md`. The parts are those of Mouchet et al. 2021 (multiparty CKKS), Shamir 1979,
//! and zero sharing by pairwise keys (Cramer, Damgård and Ishai 2005).

mod error;
mod keys;
mod opening;
mod quorum;
mod range;
mod request;
mod transfer;

pub use error::Error;
pub use keys::{KeyLabel, KeySum, PublicKeySum, SessionId};
pub use opening::{Forms, OpeningShare, RANDOM_WEIGHT, all_below, open};
pub use quorum::{ActiveSet, MOST_MEMBERS, Quorum};
pub use range::{ROUNDS, RangeCheck};
pub use request::{RequestId, RequestKind};
pub use transfer::{CHECK_BITS, Raised, RotationShare, Transfer, TransferShare, rotate, transfer};
