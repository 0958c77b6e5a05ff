//! Parameters and known answers.
//!
//! All files are one program: a program for each would link the whole crate again.

mod known_answers;
mod prop_params;
