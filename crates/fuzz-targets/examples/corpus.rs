//! Writes the seed corpus of every fuzz target: `cargo run -p fuzz-targets --example corpus -- fuzz/corpus`.

#[path = "../tests/seeds/mod.rs"]
mod seeds;

use fuzz_targets::TARGETS;
use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "fuzz/corpus".into()));
    for target in TARGETS {
        let folder = folder.join(target.name);
        std::fs::create_dir_all(&folder)?;
        for (i, seed) in seeds::seeds(target.name).into_iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{i}")), seed)?;
        }
    }
    Ok(())
}
