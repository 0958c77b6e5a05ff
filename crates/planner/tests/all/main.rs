//! Predictions against keys, levels and the record.
//!
//! All files are one program: a program for each would link the whole crate again.

mod plan;
