//! The server side of HELBA: a bandit that learns from ciphertexts which it cannot decrypt.
//!
//! The scores of many users are computed in a small ring, packed, raised by a holder of the key, and
//! evaluated at once. The state machine of a bandit is without I/O. Configuration, levels and slots are in
//! `protocol`, which devices share.
//!
//! | step | file |
//! |---|---|
//! | contexts times model, packing, masks, the fold of all entries, answers | [`Engine`] |
//! | square root, comparison and argmax of all users | [`circuit`] |
//! | feedback, batches and models | [`EncryptedBandit`] |
//! | inverse and estimate at the end of a batch | [`update`], on ciphertexts [`DeepEngine`] |
//! | evaluations in stages, for up to 64 features and 256 arms | [`StagedEngine`] |
//! | the masked exchange that brings a model back to a high level | [`refresh`] |
//! | all steps with the paper's own circuits, for its toy problem | [`paper`] |
//!
//! The server decrypts nothing: it learns how many users there are, and when. The holder of the key who
//! raises sees values under a mask that is uniform modulo q. A user sees its own arm. docs/threat-model.md
//! has the arguments.
//!
//! Source: Algorithm 4 and section 5 of "Encrypted linear contextual bandit"; packing by Chen, Dai, Kim and
//! Song 2021. Departure: contexts never enter the ring of the deep circuit.
//!
//! For servers. The crate `bandit` has algorithms in the clear, and `ckks` has ciphertext operations.
//!
//! | symbol | here |
//! |---|---|
//! | V, g (sums of fresh ciphertexts) | statistics |
//! | A_j, ω_j (one ciphertext) | model |
//! | Σ xxᵀ of the batch | trace statistics |
//! | c₁, c₂, β(t) | [`Scalars`] |

pub mod circuit;
mod deep;
mod engine;
mod error;
pub mod paper;
pub mod products;
pub mod refresh;
mod scalars;
mod staged;
mod state;
pub mod update;

pub use deep::DeepEngine;
pub use engine::{Engine, Evaluated, Masked};
pub use error::Error;
pub use scalars::Scalars;
pub use staged::{StageReply, StagedEngine, StagedEvaluation, staged_factors};
pub use state::{Applied, COLD, EncryptedBandit, Event, ScoresModel, Step, Task, TraceTest, Update};
