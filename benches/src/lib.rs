//! Microbenchmarks: `ckks.rs`, `rns.rs` and `helba.rs` beside this folder. `examples/costs.rs` makes docs/costs.md of a record.
