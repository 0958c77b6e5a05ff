//! The four steps on ciphertexts, and configurations.
//!
//! All files are one program: a program for each would link the whole crate again.

mod answers;
mod arms;
mod config;
mod paper;
mod rounds;
mod staged;
