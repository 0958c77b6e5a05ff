//! The server side of HELBA: a bandit that learns from ciphertexts which it cannot decrypt.
//!
//! [`packed`] has decisions: scores of many users in a small ring, their evaluation at once, and the state
//! machine of a bandit, without I/O. [`update`] computes inverse and estimate at the end of a batch, and
//! [`refresh`] is the masked exchange that brings them back to a high level. Configuration, levels and slots
//! are in `protocol`, which devices share.
//!
//! For servers. The crate `bandit` has algorithms in the clear, and `ckks` has ciphertext operations.
//!
//! | symbol | here |
//! |---|---|
//! | V, g (sums of fresh ciphertexts) | statistics |
//! | A_j, ω_j (one ciphertext) | model |
//! | Σ xxᵀ of the batch | trace statistics |
//! | c₁, c₂, β(t) | [`Scalars`] |

mod engine;
mod error;
pub mod packed;
pub mod refresh;
mod scalars;
pub mod update;

pub use engine::Engine;
pub use error::Error;
pub use scalars::Scalars;
