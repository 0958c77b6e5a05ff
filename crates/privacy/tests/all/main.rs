//! Samplers, accounting and audits from outside.
//!
//! All files are one program: a program for each would link the whole crate again.

mod accounting;
mod audit;
mod golden;
mod stat_samplers;
mod sums;
