//! The agent over HTTP, with toy keys and a server in this process.
//!
//! All files are one program: a program for each would link the whole crate again.

mod agent;
mod away;
mod bandits;
mod committee;
mod configuration;
mod controls;
mod features;
mod fixture;
mod life;
mod own_keys;
mod program;
mod refusals;
mod reward;
mod score;
mod script;
mod summary;
