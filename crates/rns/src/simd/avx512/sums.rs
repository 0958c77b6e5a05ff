//! Sums of products, accumulated without reduction and reduced once at the end.

use super::super::scalar::{self, by_size, factors};
use super::{Lanes, Reduction, Word, Words, load, splat, store, whole};
use crate::Modulus;
use crate::simd::operands::{AccumulatorTerms, Affine, Destination, LANES, Mode, Pairs, Rows, Term};
use std::arch::x86_64::*;

/// `x` as an array of its first N slices; N is `x.len()`.
fn array<'a, const N: usize, W>(x: &[&'a [W]]) -> [&'a [W]; N] {
    std::array::from_fn(|i| x[i])
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(in crate::simd) fn combine_into(m: &Modulus, out: &mut [u64], x: &Rows, c: Affine) {
    by_size!(x, combine_rows(m, out, @, c))
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
fn combine_rows(m: &Modulus, out: &mut [u64], x: &[&[impl Word]], c: Affine) {
    let c = &factors(m, x.len(), c);
    match row_reduction(x) {
        Some(r) => by_terms!(x.len(), combine(m, out, x, c, r), scalar::combine(m, out, x, c, 0)),
        None => scalar::combine(m, out, x, c, 0),
    }
}

/// The reduction of a sum over rows whose entries are below 2⁵⁰ and fit their words.
fn row_reduction<W: Word>(x: &[&[W]]) -> Option<Reduction> {
    Reduction::of(x.len(), (8 * size_of::<W>() as u32).min(50))
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
fn combine<const N: usize>(m: &Modulus, out: &mut [u64], x: &[&[impl Word]], c: &[u64], r: Reduction) {
    /// Registers that are accumulated at the same time.
    const WIDE: usize = 2;
    let (l, end) = (Lanes::new(m), out.len() / (LANES * WIDE) * (LANES * WIDE));
    let xs: [&[_]; N] = array(x);
    let cs: [__m512i; N] = std::array::from_fn(|j| splat(c[j]));
    let constant = splat(c[N]);
    for i in (0..end).step_by(LANES * WIDE) {
        let mut low = [constant; WIDE];
        let mut high = [_mm512_setzero_si512(); WIDE];
        for j in 0..N {
            for w in 0..WIDE {
                // SAFETY: i + 8·WIDE <= end <= all lengths.
                let v = unsafe { Word::load(xs[j], i + LANES * w) };
                low[w] = _mm512_madd52lo_epu64(low[w], v, cs[j]);
                high[w] = _mm512_madd52hi_epu64(high[w], v, cs[j]);
            }
        }
        for w in 0..WIDE {
            // SAFETY: as above.
            unsafe { store(out, i + LANES * w, l.montgomery(high[w], low[w], r)) }
        }
    }
    scalar::combine(m, &mut out[end..], x, c, end);
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(in crate::simd) fn combine_pair_into(
    m: [&Modulus; 2],
    out0: &mut [u64],
    out1: &mut [u64],
    x: &Rows,
    c: [Affine; 2],
) {
    by_size!(x, combine_pair_rows(m, out0, out1, @, c))
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
fn combine_pair_rows(
    m: [&Modulus; 2],
    out0: &mut [u64],
    out1: &mut [u64],
    x: &[&[impl Word]],
    c: [Affine; 2],
) {
    let (c0, c1) = (&factors(m[0], x.len(), c[0]), &factors(m[1], x.len(), c[1]));
    let slow = |out0: &mut [u64], out1: &mut [u64]| {
        scalar::combine(m[0], out0, x, c0, 0);
        scalar::combine(m[1], out1, x, c1, 0);
    };
    match row_reduction(x) {
        Some(r) => by_terms!(x.len(), combine_pair(m, out0, out1, x, [c0, c1], r), slow(out0, out1)),
        None => slow(out0, out1),
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
fn combine_pair<const N: usize>(
    m: [&Modulus; 2],
    out0: &mut [u64],
    out1: &mut [u64],
    x: &[&[impl Word]],
    c: [&[u64]; 2],
    r: Reduction,
) {
    let (l, end) = ([Lanes::new(m[0]), Lanes::new(m[1])], whole(out0.len()));
    let xs: [&[_]; N] = array(x);
    let c0: [__m512i; N] = std::array::from_fn(|j| splat(c[0][j]));
    let c1: [__m512i; N] = std::array::from_fn(|j| splat(c[1][j]));
    let (zero, constant0, constant1) = (_mm512_setzero_si512(), splat(c[0][N]), splat(c[1][N]));
    for i in (0..end).step_by(LANES) {
        let (mut low0, mut high0, mut low1, mut high1) = (constant0, zero, constant1, zero);
        for j in 0..N {
            // SAFETY: i + 8 <= end <= all lengths.
            let v = unsafe { Word::load(xs[j], i) };
            low0 = _mm512_madd52lo_epu64(low0, v, c0[j]);
            high0 = _mm512_madd52hi_epu64(high0, v, c0[j]);
            low1 = _mm512_madd52lo_epu64(low1, v, c1[j]);
            high1 = _mm512_madd52hi_epu64(high1, v, c1[j]);
        }
        // SAFETY: as above.
        unsafe {
            store(out0, i, l[0].montgomery(high0, low0, r));
            store(out1, i, l[1].montgomery(high1, low1, r));
        }
    }
    scalar::combine(m[0], &mut out0[end..], x, c[0], end);
    scalar::combine(m[1], &mut out1[end..], x, c[1], end);
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(in crate::simd) fn sum_of_products_into(m: &Modulus, out: &mut [u64], terms: &[Term]) {
    let (l, end) = (Lanes::new(m), whole(out.len()));
    // k·x is reduced below 2q only, so that each term counts twice.
    let Some(r) = Reduction::of(2 * terms.len(), m.bits()) else {
        return scalar::sum_of_products_into(m, out, terms);
    };
    let products: Vec<Term> =
        terms.iter().map(|&(k, x, y)| (m.constant(m.montgomery_factor(k.value)), x, y)).collect();
    for i in (0..end).step_by(LANES) {
        let (mut low, mut high) = (_mm512_setzero_si512(), _mm512_setzero_si512());
        for (k, x, y) in &products {
            // SAFETY: i + 8 <= end <= all lengths.
            let (x, y) = unsafe { (load(x, i), load(y, i)) };
            let x = l.mul_constant_lazy(x, splat(k.value), splat(k.quotient));
            low = _mm512_madd52lo_epu64(low, x, y);
            high = _mm512_madd52hi_epu64(high, x, y);
        }
        // SAFETY: as above.
        unsafe { store(out, i, l.montgomery(high, low, r)) }
    }
    let rest: Vec<Term> = terms.iter().map(|(k, x, y)| (*k, &x[end..], &y[end..])).collect();
    scalar::sum_of_products_into(m, &mut out[end..], &rest);
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma,avx512vbmi")]
pub(in crate::simd) fn pair_products_into(
    m: &Modulus,
    out0: &mut [u64],
    out1: &mut [u64],
    x: &[&[u64]],
    pairs: Pairs,
    plus: &AccumulatorTerms,
    destination: Destination,
) {
    let slow = |out0: &mut [u64], out1: &mut [u64]| {
        scalar::pair_products_into(m, out0, out1, x, pairs, plus, destination)
    };
    let Some(r) = Reduction::of_all([(x.len(), m.lazy_bits()), (plus.terms(), m.bits())]) else {
        return slow(out0, out1);
    };
    by_terms!(x.len(), pair_products(m, out0, out1, x, pairs, plus, (destination, r)), slow(out0, out1))
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma,avx512vbmi")]
fn pair_products<const N: usize>(
    m: &Modulus,
    out0: &mut [u64],
    out1: &mut [u64],
    x: &[&[u64]],
    pairs: Pairs,
    plus: &AccumulatorTerms,
    (Destination { permutation, mode }, r): (Destination, Reduction),
) {
    let l = Lanes::new(m);
    let xs: [&[u64]; N] = array(x);
    /// Distance of the prefetch in bytes. Without it, one stream of memory is half as fast as several.
    const AHEAD: usize = 1 << 12;
    /// Bytes of a register and of a cache line.
    const LINE: usize = 64;
    // Bytes of eight entries of one limb, of one pair, and of all pairs.
    let (row, pair, step) = (pairs.stored.row_bytes(), pairs.stored.pair_bytes(), pairs.stored.step());
    let bytes = pairs.stored.padded();
    let seconds: Option<[&[u64]; N]> = pairs.seconds.map(array);
    assert!(N <= pairs.count() && out0.len().is_multiple_of(LANES), "more terms than pairs");
    assert!(bytes.len() >= out0.len() / LANES * step + LINE, "pairs shorter than the sum");
    let words = Words::new(row / LANES);
    let (zero, constant) = (_mm512_setzero_si512(), splat(m.montgomery_factor(plus.constant)));
    let products = plus.montgomery_products(m);
    let [multiples0, multiples1] = plus.montgomery_multiples(m);
    for (i, block) in (0..out0.len()).step_by(LANES).zip((0..).step_by(step)) {
        for line in (block..block + N * pair).step_by(LINE) {
            _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().wrapping_add(line + AHEAD).cast());
        }
        let (mut low0, mut high0, mut low1, mut high1) = (constant, zero, zero, zero);
        let mut add0 = |x: __m512i, y: __m512i| {
            low0 = _mm512_madd52lo_epu64(low0, x, y);
            high0 = _mm512_madd52hi_epu64(high0, x, y);
        };
        let mut add1 = |x: __m512i, y: __m512i| {
            low1 = _mm512_madd52lo_epu64(low1, x, y);
            high1 = _mm512_madd52hi_epu64(high1, x, y);
        };
        for (j, x) in xs.iter().enumerate() {
            let entries = |at: usize| {
                debug_assert!(at + LINE <= bytes.len());
                // SAFETY: the entries of block i/8 start at or before i/8·step + step − row, and `bytes` has
                // a register of padding behind the last block. The loads are unaligned.
                unsafe {
                    let first = bytes.as_ptr().add(at);
                    if row == 4 * LANES {
                        // This load never crosses a cache line; a load of a whole register sometimes does.
                        return _mm512_cvtepu32_epi64(_mm256_loadu_si256(first.cast()));
                    }
                    words.spread(_mm512_loadu_epi8(first.cast()))
                }
            };
            // SAFETY: i + 8 <= all lengths.
            let x = unsafe { load(x, i) };
            add0(x, entries(block + j * pair));
            add1(
                x,
                match seconds {
                    // SAFETY: i + 8 <= all lengths.
                    Some(z) => unsafe { load(z[j], i) },
                    None => entries(block + j * pair + row),
                },
            );
        }
        for (k, x, y) in &products {
            let (value, quotient) = (splat(k.value), splat(k.quotient));
            // SAFETY: i + 8 <= all lengths.
            let [x0, x1, y0, y1] = unsafe { [load(x[0], i), load(x[1], i), load(y[0], i), load(y[1], i)] };
            let x0 = l.mul_constant_lazy(x0, value, quotient);
            let x1 = l.mul_constant_lazy(x1, value, quotient);
            add0(x0, y0);
            add1(x0, y1);
            add1(x1, y0);
        }
        for (k, x) in &multiples0 {
            // SAFETY: as above.
            add0(unsafe { load(x, i) }, splat(*k));
        }
        for (k, x) in &multiples1 {
            // SAFETY: as above.
            add1(unsafe { load(x, i) }, splat(*k));
        }
        let (sum0, sum1) = (l.montgomery(high0, low0, r), l.montgomery(high1, low1, r));
        let (at, sums) = match permutation {
            None => (i, [sum0, sum1]),
            Some(permutation) => {
                let at = permutation.targets()[i / LANES] as usize * LANES;
                let lanes = &permutation.indices()[at..at + LANES];
                // SAFETY: `lanes` has eight indices. The permute instruction takes them modulo eight.
                let lanes = unsafe { _mm512_cvtepu32_epi64(_mm256_loadu_epi32(lanes.as_ptr().cast())) };
                (at, [sum0, sum1].map(|sum| _mm512_permutexvar_epi64(lanes, sum)))
            }
        };
        for (out, sum) in [&mut *out0, &mut *out1].into_iter().zip(sums) {
            // SAFETY: at + 8 <= all lengths: `at` is i, or the permutation, which is as long as a sum, has
            // eight indices from `at` on.
            unsafe {
                let sum = match mode {
                    Mode::Write => sum,
                    Mode::Add => l.reduce_once(_mm512_add_epi64(load(out, at), sum)),
                    Mode::Subtract => {
                        l.reduce_once(_mm512_sub_epi64(_mm512_add_epi64(load(out, at), l.q), sum))
                    }
                };
                store(out, at, sum);
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(in crate::simd) fn inner_products_short_into(
    m: &Modulus,
    out0: &mut [u64],
    out1: &mut [u64],
    x: &[&[u64]],
    y: &[&[u64]],
    z: &[&[u64]],
) {
    let stride = x.first().map_or(1, |x| out0.len() / x.len());
    let fits = LANES.is_multiple_of(stride) || stride.is_multiple_of(LANES);
    let even = x.iter().all(|x| x.len() * stride == out0.len()) && out0.len().is_multiple_of(LANES);
    match Reduction::of(x.len(), m.bits()) {
        Some(r) if fits && even => by_terms!(
            x.len(),
            inner_products_short(m, out0, out1, x, y, z, (stride, r)),
            scalar::inner_products_short_into(m, out0, out1, x, y, z)
        ),
        _ => scalar::inner_products_short_into(m, out0, out1, x, y, z),
    }
}

/// `stride` must divide eight or be a multiple of eight, `out0.len()` must be a multiple of both, and every x
/// must have `out0.len() / stride` entries.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
fn inner_products_short<const N: usize>(
    m: &Modulus,
    out0: &mut [u64],
    out1: &mut [u64],
    x: &[&[u64]],
    y: &[&[u64]],
    z: &[&[u64]],
    (stride, r): (usize, Reduction),
) {
    let l = Lanes::new(m);
    let (xs, ys, zs) = (array::<N, _>(x), array::<N, _>(y), array::<N, _>(z));
    let zero = _mm512_setzero_si512();
    let block = stride.max(LANES);
    // The number of entries of x that a register of the output takes, and the entry for each lane.
    let entries = LANES.div_ceil(stride);
    let (mask, lanes): (u8, [u64; LANES]) =
        (((1u16 << entries) - 1) as u8, std::array::from_fn(|i| (i / stride) as u64));
    // SAFETY: `lanes` has eight words.
    let lanes = unsafe { load(&lanes, 0) };
    for start in (0..out0.len()).step_by(block) {
        let x: [__m512i; N] = std::array::from_fn(|j| {
            let held = &xs[j][start / stride..][..entries];
            // SAFETY: the mask loads the words of `held` only.
            _mm512_permutexvar_epi64(lanes, unsafe { _mm512_maskz_loadu_epi64(mask, held.as_ptr().cast()) })
        });
        for i in (start..start + block).step_by(LANES) {
            let (mut low0, mut high0, mut low1, mut high1) = (zero, zero, zero, zero);
            for (j, &x) in x.iter().enumerate() {
                // SAFETY: a block is a multiple of eight, so i + 8 <= start + block <= all lengths.
                let (y, z) = unsafe { (load(ys[j], i), load(zs[j], i)) };
                low0 = _mm512_madd52lo_epu64(low0, x, y);
                high0 = _mm512_madd52hi_epu64(high0, x, y);
                low1 = _mm512_madd52lo_epu64(low1, x, z);
                high1 = _mm512_madd52hi_epu64(high1, x, z);
            }
            // SAFETY: as above.
            unsafe {
                store(out0, i, l.montgomery(high0, low0, r));
                store(out1, i, l.montgomery(high1, low1, r));
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(in crate::simd) fn rounded_sum_into(out: &mut [u64], x: &Rows, f: &[f64]) {
    by_size!(x, rounded_sum(out, @, f))
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
fn rounded_sum(out: &mut [u64], x: &[&[impl Word]], f: &[f64]) {
    let end = whole(out.len());
    for i in (0..end).step_by(LANES) {
        let mut sum = _mm512_set1_pd(0.5);
        for (x, &f) in x.iter().zip(f) {
            // SAFETY: i + 8 <= end <= all lengths.
            let v = _mm512_cvtepu64_pd(unsafe { Word::load(x, i) });
            sum = _mm512_add_pd(sum, _mm512_mul_pd(v, _mm512_set1_pd(f)));
        }
        // SAFETY: as above.
        unsafe { store(out, i, _mm512_cvttpd_epu64(sum)) }
    }
    scalar::rounded_sum(&mut out[end..], x, f, end);
}
