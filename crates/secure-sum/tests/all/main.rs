//! Sums between real processes, the shuffler, noise.
//!
//! One program for all files: each would link the whole crate again.

mod bounds;
mod common;
mod noise;
mod processes;
mod shuffler;
