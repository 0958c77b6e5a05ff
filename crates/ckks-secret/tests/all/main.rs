//! The scheme as a whole: known answers, properties, noise, determinism.
//!
//! All files are one program, because each program links the whole crate.

#[path = "../common/mod.rs"]
mod common;
mod determinism;
// Other systems have other instructions and symbol tables.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod disassembly;
mod engine;
mod exchange;
mod known_answers;
mod memory;
mod prop_evaluator;
mod ring_switch;
mod scores;
mod stat_noise;
