//! Sums between real processes, the shuffler, noise.
//!
//! All files are one program: a program for each would link the whole crate again.

mod bounds;
mod common;
mod noise;
mod processes;
mod shuffler;
