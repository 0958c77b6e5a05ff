//! A member of a key committee.

mod keys;
pub mod serve;

pub use keys::{MemberKeys, MemberShares};
