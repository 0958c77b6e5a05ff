//! The phases of a batch and its update. Each phase owns the ciphertexts that exist in it alone.

use super::Part;
use ckks::{Ciphertext, MaskSeed};
use protocol::{Factors, Plan};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Where a batch stands. `C` is what stands for a ciphertext: the ciphertext itself in memory, its digest in
/// a store.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Phase<C> {
    /// Feedback is counted into the batch.
    Open,
    /// The batch is closed at `at` feedbacks and its update is due or runs. Of these, `untested` came since
    /// the batch before was closed or, where the schedule asks, since the trace was last known to be below C.
    Closing {
        at: u64,
        untested: u64,
        /// That of the next model.
        residual: f64,
        /// The statistics when the batch was closed.
        snapshot: C,
    },
    /// The next model is computed and waits, masked, for a user who encrypts it anew.
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

/// What a batch update reads.
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
    /// Wall time by phase.
    pub seconds: Vec<(String, f64)>,
}
