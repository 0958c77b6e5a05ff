//! Messages and bundles, and bytes from outside.
//!
//! One program for all files: each would link the whole crate again.

mod hostile;
mod messages;
