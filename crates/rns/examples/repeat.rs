//! `repeat OPERATION BITS TIMES`: runs one operation modulo a prime of BITS bits at N = 2¹³ so many times,
//! for programs that count instructions, and prints the nanoseconds of the median run. `RNS_KERNEL` picks the
//! kernels.

use rns::{
    AccumulatorTerms, Destination, Input, Lift, LimbPairs, Modulus, NttTable, Output, Permutation, Rows,
};
use std::hint::black_box;
use std::time::Instant;

const LOG_N: u32 = 13;
/// Limbs of a digit, and digits of a key.
const TERMS: usize = 5;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, operation, bits, times] = &arguments[..] else { panic!("repeat OPERATION BITS TIMES") };
    let times: usize = times.parse().expect("a number of times");
    let n = 1usize << LOG_N;
    let prime = |bits, except: &[u64]| {
        rns::primes::largest(bits, 2 * n as u64, except).expect("there are such primes")
    };
    let q = prime(bits.parse().expect("a number of bits"), &[]);
    let table = NttTable::new(LOG_N, q).expect("a prime that is 1 modulo 2N");
    let m = table.modulus();
    let limb = |seed: u64| -> Vec<u64> {
        (0..n as u64).map(|i| (i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) % q).collect()
    };
    let limbs: Vec<Vec<u64>> = (0..3 * TERMS as u64).map(limb).collect();
    let (mut x, mut out) = (limb(99), limb(98));
    let terms = |from: usize| -> Vec<&[u64]> { limbs[from..from + TERMS].iter().map(|x| &x[..]).collect() };
    let mut run: Box<dyn FnMut()> = match operation.as_str() {
        "none" => Box::new(|| ()),
        "ntt_forward" => Box::new(|| table.forward(black_box(&mut x))),
        "ntt_inverse" => Box::new(|| table.inverse(black_box(&mut x))),
        // The limb of another prime, divided off: what rescaling does for each limb that stays.
        "rescale" => {
            let other = Modulus::new(prime(m.bits(), &[q])).expect("an odd prime");
            let (lift, w) = (Lift::new(&other, m), m.constant(3));
            let (limbs, x, out, table) = (&limbs, &mut x, &mut out, &table);
            Box::new(move || {
                table.forward_with(
                    out,
                    Input::Lifted(lift, black_box(&limbs[0])),
                    Output::Quotient(&mut *x, w),
                );
            })
        }
        "mul" => Box::new(|| rns::mul_into(m, black_box(&mut x), &limbs[0], &limbs[1])),
        "add" => Box::new(|| rns::add_assign(m, black_box(&mut x), &limbs[0])),
        "combine" => {
            let (rows, factors) = (Rows::Wide(terms(0)), [q / 3; TERMS]);
            let x = &mut x;
            Box::new(move || rns::combine(m, black_box(&mut *x), &rows, (&factors, 0)))
        }
        "pair_products" => {
            let stored: Vec<_> = terms(TERMS).into_iter().zip(terms(2 * TERMS)).collect();
            let (pairs, digits) = (LimbPairs::new(m, &stored), terms(0));
            let (x, out) = (&mut x, &mut out);
            Box::new(move || {
                let (plus, to) = (AccumulatorTerms::default(), Destination::default());
                rns::pair_products(m, black_box(&mut *x), &mut *out, &digits, pairs.whole(), &plus, to);
            })
        }
        "gather" => {
            let permutation = Permutation::of_automorphism(LOG_N, 5);
            let (limbs, x) = (&limbs, &mut x);
            Box::new(move || rns::gather_into(black_box(&mut *x), &limbs[0], &permutation))
        }
        _ => panic!("no such operation"),
    };
    let mut nanoseconds: Vec<u128> = (0..times)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_nanos()
        })
        .collect();
    nanoseconds.sort_unstable();
    if let Some(median) = nanoseconds.get(times / 2) {
        println!("{}", median);
    }
}
