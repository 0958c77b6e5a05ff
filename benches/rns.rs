//! The kernels under everything: transforms and sums of one limb, and the two base conversions of a key
//! switch.
//!
//! Ids: `rns/KERNEL/n=2^15/bits=BITS/threads=1`, and the number of terms where there are several
//! (`ntt_*_tfhe`: the transform of `tfhe-ntt`, whose inverse leaves the factor N; `ntt_*_tfhe32`: its
//! transform of words of 32 bits, for primes that fit). `tfhe-ntt` runs its kernels for AVX2, and with
//! `--features tfhe-ntt-avx512` those for AVX-512. `rns/mod_up/set=SET/…`
//! takes one digit to all primes, `rns/mod_down/set=SET/…` divides one polynomial by P, both at the top with
//! the transforms. `RNS_KERNEL=scalar` measures the portable kernels, `RNS_KERNEL=avx2` those for AVX2.

mod support;

use ckks::Decomposition;
use criterion::{Criterion, criterion_group, criterion_main};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rns::{
    AccumulatorTerms, BaseConverter, Basis, Buffer, Coeff, Destination, LimbPairs, ModDown, NttTable, Output,
    Poly, Radix, Rows,
};
use std::hint::black_box;
use std::time::{Duration, Instant};
use support::{Bench, Fact};

/// Bits of a level's prime and of a special one, and of the primes that `tfhe-ntt` is fastest with.
const BITS: [u32; 3] = [30, 32, 50];
/// Limbs of a digit, and digits of a key at the top: about what the shipped sets have.
const TERMS: usize = 5;

fn timed<T>(f: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    black_box(f());
    start.elapsed()
}

fn kernels(c: &mut Criterion) {
    let mut bench = Bench::new(c);
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    for (log_n, bits) in (13..=16).flat_map(|log_n| BITS.map(|bits| (log_n, bits))) {
        let n = 1usize << log_n;
        let q = rns::primes::largest(bits, 2 * n as u64, &[]).expect("there are such primes");
        let table = NttTable::new(log_n, q).expect("a prime that is 1 modulo 2N");
        let peer = tfhe_ntt::prime64::Plan::try_new(n, q).expect("the same prime");
        let m = table.modulus();
        let mut limbs = |count| -> Vec<Vec<u64>> {
            (0..count).map(|_| (0..n).map(|_| rng.random_range(0..q)).collect()).collect()
        };
        let (x, y, z) = (limbs(TERMS), limbs(TERMS), limbs(TERMS));
        // Aligned, as the limbs of polynomials are.
        let mut limb = Buffer::scratch(n);
        limb.copy_from_slice(&limbs(1)[0]);
        let (mut out0, mut out1) = (vec![0; n], vec![0; n]);
        let coefficients: Vec<u64> = (0..TERMS).map(|_| rng.random_range(0..q)).collect();
        let mut time = |what: &str, run: &mut (dyn FnMut() + Send)| {
            let id = format!("rns/{what}/n=2^{log_n}/bits={bits}");
            bench.time(&id, false, Fact::default(), || timed(&mut *run));
        };
        // In place: each transform's output is the next one's input, reduced as it must be.
        time("ntt_forward", &mut || table.forward(black_box(&mut limb)));
        time("ntt_forward_tfhe", &mut || peer.fwd(black_box(&mut limb)));
        time("ntt_inverse", &mut || table.inverse(black_box(&mut limb)));
        time("ntt_inverse_tfhe", &mut || peer.inv(black_box(&mut limb)));
        if let Some(peer) = u32::try_from(q).ok().and_then(|q| tfhe_ntt::prime32::Plan::try_new(n, q)) {
            let mut words: Vec<u32> = limb.iter().map(|&x| x as u32).collect();
            time("ntt_forward_tfhe32", &mut || peer.fwd(black_box(&mut words)));
            time("ntt_inverse_tfhe32", &mut || peer.inv(black_box(&mut words)));
        }
        let [x, y, z] = [&x, &y, &z].map(|v| v.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let (rows, stored): (_, Vec<_>) = (Rows::Wide(x.clone()), y.into_iter().zip(z).collect());
        let pairs = LimbPairs::new(m, &stored);
        time(&format!("combine_{TERMS}"), &mut || {
            rns::combine(m, black_box(&mut out0), &rows, (&coefficients, 0));
        });
        time(&format!("pair_products_{TERMS}"), &mut || {
            rns::pair_products(
                m,
                black_box(&mut out0),
                &mut out1,
                &x,
                pairs.whole(),
                &AccumulatorTerms::default(),
                Destination::default(),
            );
        });
    }
}

fn conversions(c: &mut Criterion) {
    let mut bench = Bench::new(c);
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    for (label, spec) in support::sets() {
        let params = spec.validate().expect("sets of the benches are valid");
        let top = params.max_level();
        let mut levels = vec![top, top / 2, 2];
        levels.dedup();
        for level in levels {
            let (q, qp, p) = (params.q_basis(level), params.qp_basis(level), params.p_basis());
            // The first digit of a rotation, from values to values modulo the primes that it has not.
            let own = params.galois_gadget().limbs(0, level).len();
            let (mine, others) = qp.tables().split_at(own);
            let [mine, rest] = [mine, others].map(|t| Basis::new(params.n(), t.to_vec()));
            let (radix, converter) = match params.galois_gadget().decomposition() {
                Decomposition::Rns(_) => (None, BaseConverter::approximate(&mine, &rest)),
                Decomposition::Base2(ends) => (Radix::new(q, ends), BaseConverter::of_digit(ends[0], &rest)),
            };
            let from = if radix.is_some() { q } else { &mine };
            let source = rns::sample::uniform(from, &mut rng);
            let id = |what: &str| format!("rns/{what}/set={label}/n=2^{}/l={level}", spec.log_n);
            bench.time(&id("mod_up"), true, Fact::default(), || {
                timed(|| {
                    let limb = |i: usize, w: u64, y: &mut [u64]| {
                        from.tables()[i].inverse_with(y, Some(source.limb(i)), w);
                    };
                    let digits = match &radix {
                        Some(radix) => radix.split(from, limb),
                        None => vec![converter.scaled_residues(from, limb)],
                    };
                    let mut out = Poly::<Coeff>::scratch(params.n(), rest.len());
                    out.for_each_limb(|j, limb| converter.values(&rest, j, &digits[0], limb, Output::Limb));
                    out
                })
            });
            let divider = ModDown::new(q, p);
            let wide = rns::sample::uniform(qp, &mut rng);
            bench.time(&id("mod_down"), true, Fact::default(), || {
                let x = wide.clone();
                timed(|| divider.divide(x))
            });
        }
    }
}

criterion_group! {
    name = benches;
    config = support::config();
    targets = kernels, conversions
}
criterion_main!(benches);
