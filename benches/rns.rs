//! One limb of the largest ring in use: the transform and the two kernels that key switching spends its time in.
//!
//! Ids: `rns/KERNEL/n=2^15/BITS`, and the number of terms where there are several; `RNS_KERNEL=scalar` measures the
//! portable kernels.

use criterion::{Criterion, criterion_group, criterion_main};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rns::NttTable;
use std::hint::black_box;

const LOG_N: u32 = 15;
/// Bits of a level's prime and of a special one.
const BITS: [u32; 2] = [32, 46];
/// Limbs of a digit, and digits of a key at the top: about what the shipped sets have.
const TERMS: usize = 5;

fn kernels(c: &mut Criterion) {
    let n = 1usize << LOG_N;
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    for bits in BITS {
        let q = rns::primes::largest(bits, 2 * n as u64, &[]).expect("there are such primes");
        let table = NttTable::new(LOG_N, q).expect("a prime that is 1 modulo 2N");
        let m = table.modulus();
        let id = |what: &str| format!("rns/{what}/n=2^{LOG_N}/bits={bits}");
        let mut limbs = |count| -> Vec<Vec<u64>> {
            (0..count).map(|_| (0..n).map(|_| rng.random_range(0..q)).collect()).collect()
        };
        let (x, y, z) = (limbs(TERMS), limbs(TERMS), limbs(TERMS));
        let mut limb = limbs(1).remove(0);
        let (mut out0, mut out1) = (vec![0; n], vec![0; n]);
        let coefficients: Vec<u64> = (0..TERMS).map(|_| rng.random_range(0..q)).collect();

        // In place: each transform's output is the next one's input, reduced as it must be.
        c.bench_function(&id("ntt_forward"), |b| b.iter(|| table.forward(black_box(&mut limb))));
        c.bench_function(&id("ntt_inverse"), |b| b.iter(|| table.inverse(black_box(&mut limb))));
        let [x, y, z] = [&x, &y, &z].map(|v| v.iter().map(Vec::as_slice).collect::<Vec<_>>());
        c.bench_function(&format!("{}/terms={TERMS}", id("combine")), |b| {
            b.iter(|| rns::combine(m, black_box(&mut out0), &x, &coefficients))
        });
        c.bench_function(&format!("{}/terms={TERMS}", id("inner_products")), |b| {
            b.iter(|| rns::inner_products(m, black_box(&mut out0), &mut out1, &x, &y, &z))
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = kernels
}
criterion_main!(benches);
