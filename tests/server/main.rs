//! The server from outside: bytes that are refused, state that survives, starts that fail with a sentence.

mod access;
mod again;
mod api;
mod attacks;
mod audit;
mod batches;
mod clear;
mod configuration;
mod contract;
mod durable;
mod erasure;
mod fixture;
mod hostile;
mod labels;
mod late;
mod learning;
mod life;
mod metrics;
mod misuse;
mod paper;
#[cfg(target_os = "linux")]
mod power_loss;
mod products;
mod rounds;
mod stages;
mod start;
mod tls;
mod tokens;
mod trace;
mod users;
