//! The four steps on ciphertexts, and configurations.
//!
//! One program for all files: each would link the whole crate again.

mod config;
mod rounds;
