//! The scheme as a whole: known answers, properties, noise, determinism.
//!
//! All files are one program: a program for each would link the whole crate again.

#[path = "../common/mod.rs"]
mod common;
mod determinism;
mod engine;
mod known_answers;
mod memory;
mod prop_evaluator;
mod stat_noise;
