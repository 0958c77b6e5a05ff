//! Writes the seed corpus of every fuzz target: `cargo run -p fuzz-targets --example corpus -- fuzz/corpus`.

use fuzz_targets::TARGETS;
use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "fuzz/corpus".into()));
    for target in TARGETS {
        let seeds = folder.join(target.name);
        std::fs::create_dir_all(&seeds)?;
        for (i, seed) in (target.seeds)().into_iter().enumerate() {
            std::fs::write(seeds.join(format!("seed-{i}")), seed)?;
        }
    }
    Ok(())
}
