//! For `times.mjs`, which measures in Node: call k of `main` runs operation k modulo 4, TIMES times. A module
//! for wasm32-unknown-unknown has no clock and no arguments.

use rns::{Modulus, NttTable};
use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

const LOG_N: u32 = 13;
const TIMES: usize = 50;

fn main() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    static TABLE: OnceLock<NttTable> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let q = rns::primes::largest(32, 2 << LOG_N, &[]).expect("there are such primes");
        NttTable::new(LOG_N, q).expect("a prime that is 1 modulo 2N")
    });
    let m: &Modulus = table.modulus();
    let mut x: Vec<u64> =
        (0..1u64 << LOG_N).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % m.value()).collect();
    let y = x.clone();
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    for _ in 0..TIMES {
        match call % 4 {
            0 => _ = black_box(&mut x),
            1 => table.forward(black_box(&mut x)),
            2 => table.inverse(black_box(&mut x)),
            _ => rns::mul_into(m, black_box(&mut x), &y, &y),
        }
    }
}
