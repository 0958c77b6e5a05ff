//! Times one decision of d = 8 features by bootstrapping, and what its messages and keys take.
//!
//! `RAYON_NUM_THREADS=1 cargo run --release -p tfhe-argmax-secret --example decide`

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Bandit, Pair};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use std::time::Instant;

/// Decisions for each number of arms.
const DECISIONS: usize = 9;

fn main() {
    let start = Instant::now();
    let pair = Pair::new(1);
    println!("threads {}, keys generated and expanded in {:.2?}", rayon_threads(), start.elapsed());
    println!("keys on disk {}, in memory {}", pair.seeded.to_bytes().len(), pair.keys.bytes());
    let file = pair.seeded.to_bytes();
    let start = Instant::now();
    let keys = tfhe_argmax::SeededKeys::from_bytes(&file).and_then(|keys| keys.expand(pair.id));
    println!("loaded in {:.2?}", start.elapsed());
    drop(keys);
    println!("arms,bootstraps,median_s,least_s,processor_s,answer_bytes,deviation,resolution,failure_bits");
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    for k in [2, 4, 8, 16] {
        let bandit = Bandit::new(&pair, 8, k, 100, &mut rng);
        let circuit = bandit.circuit(&pair).unwrap_or_else(|error| panic!("{error}"));
        let decide = |rng: &mut ChaCha20Rng| {
            let rows = bandit.contexts(rng);
            let contexts = bandit.encrypted(&pair, &rows, rng);
            let start = Instant::now();
            let scores = bandit.scores(&pair, &contexts);
            let answer = circuit.decide(&pair.keys, pair.evaluator.params(), &scores, rng);
            let elapsed = start.elapsed().as_secs_f64();
            (elapsed, answer.map_or(0, |answer| answer.to_bytes().len()))
        };
        let before = processor_seconds();
        let mut runs: Vec<(f64, usize)> = (0..DECISIONS).map(|_| decide(&mut rng)).collect();
        let processor = (processor_seconds() - before) / DECISIONS as f64;
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let z = 0.05;
        println!(
            "{k},{},{:.4},{:.4},{processor:.3},{},{:.5},{:.5},{:.0}",
            circuit.bootstraps(),
            runs[DECISIONS / 2].0,
            runs[0].0,
            runs[0].1,
            circuit.deviation(z),
            circuit.resolution(z),
            circuit.failure_bits()
        );
    }
}

/// Processor time of this process, with all threads, in steps of 10 ms; 0 where there is no /proc. The
/// device's encryption is part of it.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn rayon_threads() -> String {
    std::env::var("RAYON_NUM_THREADS").unwrap_or_else(|_| "all".into())
}
