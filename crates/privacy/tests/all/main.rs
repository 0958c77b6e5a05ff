//! Samplers, accounting and audits from outside.
//!
//! One program for all files: each would link the whole crate again.

mod accounting;
mod audit;
mod golden;
mod stat_samplers;
mod sums;
