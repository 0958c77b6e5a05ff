//! Exactness of opened sums, and real processes.
//!
//! All files are one program: a program for each would link the whole crate again.

mod attack;
mod exactness;
mod processes;
