//! The scalar version of every kernel. Functions are always inlined, because vector versions compile some of
//! them again for wider registers.

use super::operands::{
    AccumulatorTerms, Affine, Destination, LANES, Lift, Pairs, Permutation, Radix, Rows, Term, WORD,
};
use crate::{Constant, Modulus};

const MASK52: u128 = (1 << 52) - 1;

#[inline(always)]
pub(super) fn add_assign(m: &Modulus, a: &mut [u64], b: &[u64]) {
    for (x, &y) in a.iter_mut().zip(b) {
        *x = m.add(*x, y);
    }
}

#[inline(always)]
pub(super) fn sub_assign(m: &Modulus, a: &mut [u64], b: &[u64]) {
    for (x, &y) in a.iter_mut().zip(b) {
        *x = m.sub(*x, y);
    }
}

#[inline(always)]
pub(super) fn sum_and_difference(m: &Modulus, a: &mut [u64], b: &mut [u64]) {
    for (x, y) in a.iter_mut().zip(b) {
        (*x, *y) = (m.add(*x, *y), m.sub(*x, *y));
    }
}

#[inline(always)]
pub(super) fn neg_assign(m: &Modulus, a: &mut [u64]) {
    for x in a {
        *x = m.neg(*x);
    }
}

#[inline(always)]
pub(super) fn mul_assign(m: &Modulus, a: &mut [u64], b: &[u64]) {
    for (x, &y) in a.iter_mut().zip(b) {
        *x = m.mul(*x, y);
    }
}

#[inline(always)]
pub(super) fn mul_into(m: &Modulus, out: &mut [u64], a: &[u64], b: &[u64]) {
    for ((o, &x), &y) in out.iter_mut().zip(a).zip(b) {
        *o = m.mul(x, y);
    }
}

#[inline(always)]
pub(super) fn mul_add_assign(m: &Modulus, acc: &mut [u64], a: &[u64], b: &[u64]) {
    for ((o, &x), &y) in acc.iter_mut().zip(a).zip(b) {
        *o = m.add(*o, m.mul(x, y));
    }
}

#[inline(always)]
pub(super) fn mul_constant_assign(m: &Modulus, a: &mut [u64], w: Constant) {
    for x in a {
        *x = m.mul_constant(*x, w);
    }
}

#[inline(always)]
pub(super) fn mul_constant_add(m: &Modulus, acc: &mut [u64], x: &[u64], w: Constant) {
    for (o, &x) in acc.iter_mut().zip(x) {
        *o = m.add(*o, m.mul_constant(x, w));
    }
}

#[inline(always)]
pub(super) fn add_constant(m: &Modulus, a: &mut [u64], c: u64) {
    for x in a {
        *x = m.add(*x, c);
    }
}

#[inline(always)]
pub(super) fn lift_into(m: &Modulus, out: &mut [u64], x: &[u64], lift: Lift) {
    for (o, &x) in out.iter_mut().zip(x) {
        *o = lift.apply(m, x);
    }
}

pub(super) fn split_in_place(rows: &mut [&mut [u64]], radix: &Radix) {
    let len = rows.first().map_or(0, |row| row.len());
    let mut words = vec![0; radix.start.len() + 1];
    for i in 0..len {
        let (mut high, mut carry) = (0u64, 0u64);
        let multiple = rows.iter().zip(&radix.weight).fold(0.5, |sum, (y, &f)| sum + y[i] as f64 * f) as u64;
        for ((word, factors), &start) in words.iter_mut().zip(&radix.factors).zip(&radix.start) {
            let y = rows[..radix.weight.len()].iter().map(|y| y[i]).chain([multiple]);
            let products = y.zip(factors).map(|(y, &f)| u128::from(y) * u128::from(f));
            let (low, above) = products
                .fold((0, 0), |(low, above), p| (low + (p & MASK52) as u64, above + (p >> WORD) as u64));
            let t = low + high + start + carry;
            (*word, carry, high) = (t & MASK52 as u64, t >> WORD, above);
        }
        for (out, &(first, bits)) in rows.iter_mut().zip(&radix.digits) {
            let (word, shift) = ((first / WORD) as usize, first % WORD);
            // A digit has fewer bits than a word, so that it spans at most two.
            let two = u128::from(words[word]) | u128::from(words[word + 1]) << WORD;
            out[i] = (two >> shift) as u64 & ((1 << bits) - 1);
        }
    }
}

/// Calls `f` on the rows, whichever word size they have.
macro_rules! by_size {
    ($rows:expr, $f:ident($($before:expr,)* @ $(, $after:expr)*)) => {
        match $rows {
            Rows::Wide(rows) => $f($($before,)* rows $(, $after)*),
            Rows::Narrow(rows) => $f($($before,)* rows $(, $after)*),
        }
    };
}
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) use by_size;

#[inline(always)]
pub(super) fn combine_into(m: &Modulus, out: &mut [u64], x: &Rows, c: Affine) {
    by_size!(x, combine_rows(m, out, @, c))
}

#[inline(always)]
fn combine_rows<W: Copy + Into<u64>>(m: &Modulus, out: &mut [u64], x: &[&[W]], c: Affine) {
    combine(m, out, x, &factors(m, x.len(), c), 0);
}

/// The Montgomery forms of the factors, with the constant behind them.
pub(super) fn factors(m: &Modulus, rows: usize, (factors, constant): Affine) -> Vec<u64> {
    assert_eq!(factors.len(), rows, "a factor for each row");
    factors.iter().chain([&constant]).map(|&c| m.montgomery_factor(c)).collect()
}

/// [`combine_into`] from entry `start` of x on, with the coefficients of [`factors`].
#[inline(always)]
pub(super) fn combine<W: Copy + Into<u64>>(
    m: &Modulus,
    out: &mut [u64],
    x: &[&[W]],
    c: &[u64],
    start: usize,
) {
    /// Sums that are accumulated at the same time.
    const WIDE: usize = 4;
    let constant = u128::from(c[x.len()]);
    let once = Modulus::reduces_once([(x.len() + 1, (8 * size_of::<W>() as u32).min(50))]);
    let mut blocks = out.chunks_exact_mut(WIDE);
    let mut i = start;
    for block in &mut blocks {
        let mut sums = [constant; WIDE];
        for (x, &c) in x.iter().zip(c) {
            for (sum, &x) in sums.iter_mut().zip(&x[i..i + WIDE]) {
                *sum += u128::from(x.into()) * u128::from(c);
            }
        }
        block.iter_mut().zip(sums).for_each(|(o, sum)| *o = m.montgomery_sum(sum, once));
        i += WIDE;
    }
    for (i, o) in (i..).zip(blocks.into_remainder()) {
        let term = |(x, &c): (&&[W], &u64)| u128::from(x[i].into()) * u128::from(c);
        *o = m.montgomery(x.iter().zip(c).map(term).sum::<u128>() + constant);
    }
}

#[inline(always)]
pub(super) fn combine_pair_into(
    m: [&Modulus; 2],
    out0: &mut [u64],
    out1: &mut [u64],
    x: &Rows,
    c: [Affine; 2],
) {
    combine_into(m[0], out0, x, c[0]);
    combine_into(m[1], out1, x, c[1]);
}

#[inline(always)]
pub(super) fn sum_of_products_into(m: &Modulus, out: &mut [u64], terms: &[Term]) {
    for (i, o) in out.iter_mut().enumerate() {
        let term = |(k, x, y): &Term| m.mul(m.mul_constant(x[i], *k), y[i]);
        *o = terms.iter().fold(0, |sum, t| m.add(sum, term(t)));
    }
}

#[inline(always)]
pub(super) fn gather_into(out: &mut [u64], a: &[u64], permutation: &Permutation) {
    for (o, &i) in out.iter_mut().zip(permutation.indices()) {
        *o = a[i as usize];
    }
}

#[inline(always)]
pub(super) fn pair_products_into(
    m: &Modulus,
    out0: &mut [u64],
    out1: &mut [u64],
    x: &[&[u64]],
    pairs: Pairs,
    plus: &AccumulatorTerms,
    Destination { permutation, mode }: Destination,
) {
    assert!(x.len() <= pairs.count(), "more terms than pairs");
    assert!(x.len() + plus.terms() <= 1 << 13, "more terms than the accumulator can hold");
    let constant = u128::from(m.montgomery_factor(plus.constant));
    let products = plus.montgomery_products(m);
    let multiples = plus.montgomery_multiples(m);
    let once = Modulus::reduces_once([(x.len(), m.lazy_bits()), (plus.terms(), m.bits())]);
    let short = (25..=32).contains(&m.bits()) && m.lazy_bits() <= 32 && pairs.seconds.is_none();
    for i in (0..out0.len()).step_by(LANES) {
        let mut sums = if short { short_pair_sums(x, pairs, i) } else { pair_sums(x, pairs, i) };
        let mul = |a: u64, b: u64| u128::from(a) * u128::from(b);
        for (l, [s0, s1]) in sums.iter_mut().enumerate() {
            for (k, x, y) in &products {
                let x = x.map(|x| m.mul_constant(x[i + l], *k));
                *s0 += mul(x[0], y[0][i + l]);
                *s1 += mul(x[0], y[1][i + l]) + mul(x[1], y[0][i + l]);
            }
            for (s, multiples) in [&mut *s0, &mut *s1].into_iter().zip(&multiples) {
                *s += multiples.iter().map(|(k, x)| mul(x[i + l], *k)).sum::<u128>();
            }
        }
        let mut values = [[0; 2]; LANES];
        for ([v0, v1], [s0, s1]) in values.iter_mut().zip(sums) {
            (*v0, *v1) = (m.montgomery_sum(s0 + constant, once), m.montgomery_sum(s1, once));
        }
        let at = permutation.map_or(i, |p| p.targets()[i / LANES] as usize * LANES);
        let (o0, o1) = (&mut out0[at..at + LANES], &mut out1[at..at + LANES]);
        for (l, (o0, o1)) in o0.iter_mut().zip(o1).enumerate() {
            let [s0, s1] = values[permutation.map_or(l, |p| p.indices()[at + l] as usize % LANES)];
            *o0 = mode.apply(m, *o0, s0);
            *o1 = mode.apply(m, *o1, s1);
        }
    }
}

/// [`pair_sums`] of factors below 2³², of which those that are stored have four bytes. Products are summed up
/// modulo 2⁶⁴, and their upper halves apart, so that compilers compute several in a vector.
#[inline(always)]
fn short_pair_sums(x: &[&[u64]], pairs: Pairs, i: usize) -> [[u128; 2]; LANES] {
    let mut sums = [[0; 2]; LANES];
    for half in 0..2 {
        let (mut low, mut high) = ([0u64; LANES], [0u64; LANES]);
        for (j, x) in x.iter().enumerate() {
            let entries = pairs.stored.row(j, half, i).as_chunks::<4>().0;
            for (((low, high), &x), &y) in low.iter_mut().zip(&mut high).zip(&x[i..i + LANES]).zip(entries) {
                let product = u64::from(x as u32) * u64::from(u32::from_le_bytes(y));
                *low = low.wrapping_add(product);
                *high += product >> 32;
            }
        }
        for ((sum, low), high) in sums.iter_mut().zip(low).zip(high) {
            // The lower halves add up to less than 2⁶⁴.
            sum[half] = (u128::from(high) << 32) + u128::from(low.wrapping_sub(high << 32));
        }
    }
    sums
}

/// The sums Σ xⱼ·yⱼ and Σ xⱼ·zⱼ for eight entries from `i` on.
#[inline(always)]
fn pair_sums(x: &[&[u64]], pairs: Pairs, i: usize) -> [[u128; 2]; LANES] {
    let mut sums = [[0; 2]; LANES];
    // Two entries at a time, so that their sums stay in registers.
    for (i, sums) in (i..).step_by(2).zip(sums.as_chunks_mut::<2>().0) {
        let mut two = [[0u128; 2]; 2];
        for (j, x) in x.iter().enumerate() {
            let (x, y) = (&x[i..i + 2], pairs.stored.words(j, 0, i));
            let z = match pairs.seconds {
                None => pairs.stored.words(j, 1, i),
                Some(seconds) => [seconds[j][i], seconds[j][i + 1]],
            };
            for l in 0..2 {
                two[l][0] += u128::from(x[l]) * u128::from(y[l]);
                two[l][1] += u128::from(x[l]) * u128::from(z[l]);
            }
        }
        *sums = two;
    }
    sums
}

#[inline(always)]
pub(super) fn inner_products_short_into(
    m: &Modulus,
    out0: &mut [u64],
    out1: &mut [u64],
    x: &[&[u64]],
    y: &[&[u64]],
    z: &[&[u64]],
) {
    let stride = x.first().map_or(1, |x| out0.len() / x.len());
    for (i, (o0, o1)) in out0.iter_mut().zip(out1).enumerate() {
        let (mut s0, mut s1) = (0u128, 0u128);
        for ((x, y), z) in x.iter().zip(y).zip(z) {
            let x = u128::from(x[i / stride]);
            s0 += x * u128::from(y[i]);
            s1 += x * u128::from(z[i]);
        }
        *o0 = m.montgomery(s0);
        *o1 = m.montgomery(s1);
    }
}

#[inline(always)]
pub(super) fn rounded_sum_into(out: &mut [u64], x: &Rows, f: &[f64]) {
    by_size!(x, rounded_sum(out, @, f, 0))
}

/// [`rounded_sum_into`] from entry `start` of x on.
#[inline(always)]
pub(super) fn rounded_sum<W: Copy + Into<u64>>(out: &mut [u64], x: &[&[W]], f: &[f64], start: usize) {
    for (i, o) in out.iter_mut().enumerate() {
        let mut sum = 0.5;
        for (x, &f) in x.iter().zip(f) {
            let x: u64 = x[start + i].into();
            sum += x as f64 * f;
        }
        *o = sum as u64;
    }
}

#[inline(always)]
pub(super) fn signed_into(m: &Modulus, out: &mut [u64], x: &[i64]) {
    for (o, &x) in out.iter_mut().zip(x) {
        *o = m.reduce_i64(x);
    }
}

#[inline(always)]
pub(super) fn signed_ranks_into(out: &mut [i64], words: &[u64], table: &[u64]) {
    for (o, &word) in out.iter_mut().zip(words) {
        let (sign, uniform) = ((word & 1) as i64, word >> 1);
        let rank: i64 = table.iter().map(|&t| i64::from(uniform >= t)).sum();
        *o = (rank ^ -sign) + sign;
    }
}

#[inline(always)]
pub(super) fn take_residues(q: u64, out: &mut [u64], drawn: &[u8]) -> usize {
    let (mask, width) = (u64::MAX >> q.leading_zeros(), q.ilog2() as usize / 8 + 1);
    let (mut taken, mut rest) = (0, drawn);
    while let Some(bytes) = rest.get(..width) {
        // Every word is written, and the next overwrites it if it is rejected. A branch would be
        // mispredicted: up to every other word is rejected.
        let Some(x) = out.get_mut(taken) else { break };
        // Eight bytes are read where there are as many, and the mask drops those of later words.
        let at = drawn.len() - rest.len();
        let word = match drawn.get(at..at + 8) {
            Some(eight) => u64::from_le_bytes(eight.try_into().unwrap_or_default()),
            None => bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
        };
        rest = &rest[width..];
        *x = word & mask;
        taken += usize::from(*x < q);
    }
    taken
}
