//! Numbers that members hand to themselves.

use crate::{Field, Label};
use serde::{Deserialize, Serialize};

/// Numbers of a computation that are there after it: m = x + λ for each number x, with λ from the seeds of
/// the slot in which it was computed. Whoever stores a record learns nothing of the numbers, and a member's
/// shares of them follow from its keys.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The batch of slots.
    pub batch: Label,
    /// The slot's place in the batch.
    pub slot: u32,
    /// m of each number.
    pub numbers: Vec<Field>,
}
