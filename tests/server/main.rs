//! The server from outside: bytes that are refused, state that survives, starts that fail with a sentence.

mod access;
mod attacks;
mod batches;
mod clear;
mod fixture;
mod hostile;
mod packed;
mod packed_again;
mod packed_audit;
mod packed_durable;
mod packed_hostile;
mod packed_rounds;
mod packed_trace;
#[cfg(target_os = "linux")]
mod power_loss;
mod start;
