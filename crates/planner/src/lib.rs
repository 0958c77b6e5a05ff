//! Plans an encrypted bandit before any key is made: the parameter set that carries the problem, and the
//! levels, keys, messages, memory and seconds that it will cost.
//!
//! For key authorities (`helba-keygen plan`) and for programs that show costs. Depths, keys and bytes are
//! exact. The operations are counted by running the server's circuits on vectors of an operation counter;
//! seconds are prices of operations, measured at one parameter set and carried over by the work in limbs.

mod choose;
mod circuits;
mod count;
mod error;
mod exchange;
mod kernel;
mod messages;
mod plan;
mod price;
mod text;

pub use choose::{Choice, Line, Wanted, choose, default_updates};
pub use error::Error;
pub use kernel::{KernelSeconds, kernel_choice};
pub use plan::{
    Depth, KeyCost, MessageCost, Operations, Problem, Report, Seconds, Traced, TracedSeconds, plan,
};
pub use rns::kernels;
