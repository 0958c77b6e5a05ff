//! Parameters and known answers.
//!
//! All files are one program, because each program links the whole crate.

mod known_answers;
mod prop_params;
