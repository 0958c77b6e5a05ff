//! The device against an engine, and the client against HTTP.
//!
//! One program for all files: each would link the whole crate again.

mod device;
mod http;
