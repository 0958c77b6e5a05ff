//! Exactness of opened sums, and real processes.
//!
//! One program for all files: each would link the whole crate again.

mod attack;
mod exactness;
mod processes;
