//! Parameters and known answers.
//!
//! One program for all files: each would link the whole crate again.

mod known_answers;
mod prop_params;
