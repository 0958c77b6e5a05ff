//! Generalised linear policies from outside: published values, privacy, stored state.
//!
//! All files are one program: a program for each would link the whole crate again.

mod audit_joint;
mod figures;
mod joint_privacy;
mod joint_trace;
mod known_answers;
mod paper_table;
mod shuffle;
mod state;
