//! The server side of HELBA: a bandit that learns from ciphertexts which it cannot decrypt.
//!
//! Each step of Algorithm 4 of "Encrypted linear contextual bandit" has one file, in this order:
//! [`score`] (the optimistic index), [`compare`] (argmax and trace condition), [`decide`] (both, up to the
//! answer), [`update`] (inverse and estimate), [`refresh`] (the masked exchange that brings them back to the
//! top level). [`Bandit`] is the state machine around them, without I/O. Configuration, levels and slots are
//! in `protocol`, which devices share.
//!
//! For servers. The crate `bandit` has algorithms in the clear, and `ckks` has ciphertext operations.
//!
//! | symbol | here |
//! |---|---|
//! | V, g (sums of fresh ciphertexts) | statistics |
//! | A_j, ω_j (one ciphertext) | model |
//! | Σ xxᵀ of the batch | trace statistics |
//! | c₁, c₂, β(t) | [`Scalars`] |

pub mod compare;
pub mod decide;
mod engine;
mod error;
pub mod journal;
pub mod packed;
pub mod refresh;
pub mod score;
mod state;
pub mod update;

pub use engine::{DecisionOutput, Engine};
pub use error::Error;
pub use score::Scalars;
pub use state::{
    Bandit, Change, DecisionInputs, DecisionReply, Digest, Feedback, Part, SavedState, UpdateInputs,
    UpdateOutput,
};
