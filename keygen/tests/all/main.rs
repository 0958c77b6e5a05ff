//! Bundles and plans.
//!
//! One program for all files: each would link the whole crate again.

mod bundles;
mod plan;
