//! Packed decisions: the scores of many users are computed in a small ring, packed, raised by a holder of the
//! key, and evaluated at once.
//!
//! | step | file |
//! |---|---|
//! | contexts times model, packing, masks, the fold of all entries, answers | `engine` |
//! | square root, comparison and argmax of all users | [`circuit`] |
//! | feedback, batches and models | `state` |
//!
//! The server learns nothing but how many users there are. The holder of the key who raises sees values under
//! a mask that is uniform modulo q. A user sees its own arm. docs/threat-model.md has the arguments.
//!
//! Source: Algorithm 4 and section 5 of "Encrypted linear contextual bandit"; packing by Chen, Dai, Kim and
//! Song 2021. Departure: contexts never enter the ring of the deep circuit.

pub mod circuit;
mod engine;
mod rounds;
mod state;

pub use engine::{Evaluated, Masked, PackedEngine};
pub use state::{Applied, Event, PackedBandit, Task, TraceTest, Update};
