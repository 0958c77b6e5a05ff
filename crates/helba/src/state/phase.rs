//! The phases of a batch and its update. Each phase owns the ciphertexts that exist in this phase only.

use super::Part;
use ckks::{Ciphertext, MaskSeed};
use protocol::{Factors, Plan};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The phase of a batch. `C` is a ciphertext in memory, and the digest of a ciphertext in a store.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Phase<C> {
    /// Feedback is added to the batch.
    Open,
    /// The batch is closed at `at` feedbacks, and its update is due or runs. Of these, `untested` arrived
    /// since the batch before was closed or, under the trace condition, since the trace was known to be below
    /// C.
    Closing {
        at: u64,
        untested: u64,
        /// The residual of the next model.
        residual: f64,
        /// The statistics when the batch was closed.
        snapshot: C,
    },
    /// The next model waits, under a mask, for a user who encrypts it again.
    Refreshing { at: u64, residual: f64, id: u64, seed: MaskSeed, masked: C },
}

impl<C> Phase<C> {
    pub(super) fn try_map<D, E>(self, read: &mut impl FnMut(Part, C) -> Result<D, E>) -> Result<Phase<D>, E> {
        Ok(match self {
            Phase::Open => Phase::Open,
            Phase::Closing { at, untested, residual, snapshot } => {
                Phase::Closing { at, untested, residual, snapshot: read(Part::Snapshot, snapshot)? }
            }
            Phase::Refreshing { at, residual, id, seed, masked } => {
                Phase::Refreshing { at, residual, id, seed, masked: read(Part::Masked, masked)? }
            }
        })
    }
}

/// The inputs of a batch update.
#[derive(Debug, Clone)]
pub struct UpdateInputs {
    pub(crate) plan: Plan,
    pub(crate) snapshot: Arc<Ciphertext>,
    pub(crate) model: Arc<Ciphertext>,
    pub(crate) factors: Factors,
    pub(crate) closed_at: u64,
}

/// The result of a batch update: a masked model.
#[derive(Debug, Clone)]
pub struct UpdateOutput {
    pub(crate) masked: Ciphertext,
    pub(crate) seed: MaskSeed,
    pub(crate) closed_at: u64,
    /// Seconds of wall time in each phase.
    pub seconds: Vec<(String, f64)>,
}
