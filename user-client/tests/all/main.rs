//! The device against an engine, and the client against HTTP.
//!
//! All files are one program: a program for each would link the whole crate again.

mod arms;
mod bandit;
mod data;
mod device;
mod http;
mod own_keys;
mod raiser;
mod server;
mod staged;
mod tool;
