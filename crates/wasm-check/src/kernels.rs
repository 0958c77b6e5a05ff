//! Transforms and pointwise products of one limb, for primes on both sides of what a kernel takes.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rns::{Input, Lift, Modulus, NttTable, Output};

/// Bits of the primes. The kernels for WebAssembly's vectors take up to 32.
const BITS: [u32; 6] = [20, 30, 31, 32, 33, 49];
/// log₂ of the lengths: the shortest, the next, and that of the ring of scores.
const LOG_N: [u32; 3] = [4, 5, 13];

pub(crate) fn digests() -> impl Iterator<Item = (String, blake3::Hash)> {
    BITS.into_iter().map(|bits| {
        let mut hasher = blake3::Hasher::new();
        LOG_N.iter().for_each(|&log_n| {
            results(bits, log_n, &mut |limb| {
                limb.iter().for_each(|x| _ = hasher.update(&x.to_le_bytes()));
            })
        });
        (format!("transforms and products modulo a prime of {bits} bits"), hasher.finalize())
    })
}

/// Hands every result to `take`.
fn results(bits: u32, log_n: u32, take: &mut impl FnMut(&[u64])) {
    let n = 1usize << log_n;
    let prime = |bits, except: &[u64]| rns::primes::largest(bits, 2 * n as u64, except).expect("a prime");
    let (q, p) = (prime(bits, &[]), prime(40, &[]));
    let table = NttTable::new(log_n, q).expect("a prime that is 1 modulo 2N");
    let m = table.modulus();
    let lift = Lift::new(&Modulus::new(p).expect("an odd prime"), m);
    let mut rng = ChaCha20Rng::seed_from_u64(u64::from(bits));
    // Both ends of the range are frequent.
    let mut limb = |bound: u64| -> Vec<u64> {
        (0..n)
            .map(|_| match rng.next_u32() % 8 {
                0 => 0,
                1 => bound - 1,
                _ => rng.next_u64() % bound,
            })
            .collect()
    };
    let (a, b, from, factor) = (limb(q), limb(q), limb(p), m.constant(q - 2));
    for limb in [&a, &b, &vec![q - 1; n]] {
        let (mut values, mut coefficients) = (limb.clone(), limb.clone());
        table.forward(&mut values);
        table.inverse_with(&mut coefficients, Some(limb), factor.value);
        take(&values);
        take(&coefficients);
        table.inverse(&mut values);
        assert_eq!(values, *limb, "the inverse transform undoes the transform");
    }
    let (mut values, mut divided) = (a.clone(), b.clone());
    table.forward_with(&mut values, Input::Lifted(lift, &from), Output::Limb);
    take(&values);
    table.forward_with(&mut values, Input::Lifted(lift, &from), Output::Quotient(&mut divided, factor));
    take(&divided);
    // Of every length, so that the last entries fill no vector.
    for n in [n, n - 1] {
        let (a, b) = (&a[..n], &b[..n]);
        let (mut product, mut sum) = (vec![0; n], a.to_vec());
        rns::mul_into(m, &mut product, a, b);
        rns::mul_add_assign(m, &mut sum, a, b);
        take(&product);
        take(&sum);
    }
}
