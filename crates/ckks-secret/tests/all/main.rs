//! The scheme as a whole: known answers, properties, noise, determinism.
//!
//! All files are one program, because each program links the whole crate.

#[path = "../common/mod.rs"]
mod common;
mod determinism;
mod engine;
mod known_answers;
mod memory;
mod prop_evaluator;
mod scores;
mod stat_noise;
