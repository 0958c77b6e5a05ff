//! The secret half of a key committee: n members hold Shamir shares of a CKKS secret that nobody knows, and
//! any t of them answer requests. `ckks-shares` is the public half.
//!
//! | step | a member computes | what leaves it |
//! |---|---|---|
//! | dealing | a ternary secret sᵢ of its own, and a Shamir sharing of it ([`deal`]) | a sealed value for each member |
//! | public and Galois keys | the keys of sᵢ under common seeds ([`ckks_secret`]) | the keys |
//! | relinearisation key | a share of the square ([`MemberShare::relinearisation_key`]) | under a zero share |
//! | test of keys | [`MemberShare::test_key`] | smudged, under zero shares |
//! | transfer | [`MemberShare::transfer`] | under a mask and zero shares |
//! | opening | [`MemberShare::open`] | smudged, under zero shares |
//!
//! The secret is s = Σ sᵢ. A member keeps σⱼ = Σᵢ fᵢ(j), and everything weighted by it leaves under a zero
//! share: a pseudo-random polynomial that cancels in the sum over all members of the request, so that the sum
//! is all that t − 1 others and the server learn. No type of this crate that holds a secret has Debug, Clone
//! or Serialize, and each is zeroed when it is dropped.
//!
//! # Source
//! `docs/committee-protocol.md`.

#[cfg(test)]
mod attacks;
mod dealing;
mod error;
mod member;
mod pairs;
mod smudge;

pub use dealing::{Dealt, deal};
pub use error::Error;
pub use member::MemberShare;
pub use pairs::{PairKeys, PairSecret};
pub use smudge::Smudge;
