//! Microbenchmarks: `ckks.rs`, `rns.rs` and `helba.rs` beside this folder. `examples/costs.rs` writes
//! docs/costs.md from a record.
