//! HELBA's server side: a bandit that learns from ciphertexts it cannot read.
//!
//! The steps of Algorithm 4 of "Encrypted linear contextual bandit" are one file each, read in this order:
//! [`score`] (the optimistic index), [`compare`] (argmax and trace condition), [`decide`] (both, up to the
//! answer), [`update`] (inverse and estimate), [`refresh`] (the masked exchange that brings them back to the
//! top level). [`Bandit`] is the state machine around them, without I/O. Configuration, levels and slots are
//! in `protocol`, which devices share.
//!
//! For servers. Algorithms in the clear are in `bandit`, ciphertext operations in `ckks`.
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
