//! Runs every fuzz target on its seeds, on random inputs and on mutated seeds. Seeds are fixed, so that a
//! failure repeats.

mod seeds;

use fuzz_targets::TARGETS;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::path::Path;

/// Changes an input in one to four places: bits, bytes, small and large numbers, its end, or a part repeated.
fn mutated(seed: &[u8], rng: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..rng.random_range(1..=4) {
        if bytes.is_empty() {
            bytes.push(rng.random());
        }
        // Headers and lengths come first in most formats.
        let near = if rng.random() { bytes.len().min(80) } else { bytes.len() };
        let at = rng.random_range(0..near);
        match rng.random_range(0..7) {
            0 => bytes[at] ^= 1 << rng.random_range(0..8),
            1 => {
                bytes[at] =
                    *[0, 1, b'0', b'"', b'-', b'[', 0x7f, 0x80, 0xff].get(rng.random_range(0..9)).unwrap()
            }
            2 => bytes.truncate(at),
            3 => bytes.push(rng.random()),
            4 => drop(bytes.remove(at)),
            5 => {
                let number: u32 = if rng.random() { rng.random_range(0..64) } else { rng.random() };
                bytes.iter_mut().skip(at).zip(number.to_le_bytes()).for_each(|(b, n)| *b = n);
            }
            _ => {
                let end = (at + rng.random_range(1..40)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
    bytes
}

#[test]
fn every_target_returns_for_every_input() {
    for target in TARGETS {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let seeds = seeds::seeds(target.name);
        for seed in &seeds {
            (target.run)(seed);
        }
        for i in 0..target.inputs {
            let input = if i % 8 == 0 {
                let mut random = vec![0; rng.random_range(0..300)];
                rng.fill_bytes(&mut random);
                random
            } else {
                mutated(&seeds[i % seeds.len()], &mut rng)
            };
            (target.run)(&input);
        }
    }
}

/// `fuzz/` has a file for each target, and each file names its target.
#[test]
fn fuzz_has_every_target() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    for target in TARGETS {
        let file = std::fs::read_to_string(folder.join(format!("fuzz_targets/{}.rs", target.name))).unwrap();
        assert!(file.contains(&format!("fuzz_targets::run(\"{}\"", target.name)), "{}", target.name);
        assert!(manifest.contains(&format!("name = \"{}\"", target.name)), "{}", target.name);
    }
    assert_eq!(std::fs::read_dir(folder.join("fuzz_targets")).unwrap().count(), TARGETS.len());
}
