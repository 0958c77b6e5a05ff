//! Bundles and plans.
//!
//! All files are one program: a program for each would link the whole crate again.

mod bundles;
#[cfg(unix)]
mod interrupted;
mod plan;
#[cfg(target_os = "linux")]
mod power_loss;
