//! Microbenchmarks: `ckks.rs`, `rns.rs` and `helba.rs` beside this folder. `examples/costs.rs` writes a
//! record of them.
