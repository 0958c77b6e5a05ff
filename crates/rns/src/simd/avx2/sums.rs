//! Sums of products, accumulated without reduction and reduced once at the end.

use super::super::scalar::{self, by_size};
use super::{LANES, Lanes, Words, centered, load, load_doubles, pick, store, to_doubles, to_integers, whole};
use crate::Modulus;
use crate::simd::operands::{AccumulatorTerms, Affine, Destination, Mode, Pairs, Radix, Rows, Term, WORD};
use std::arch::x86_64::*;

/// Entries of a block in the order of [`crate::LimbPairs`], in registers.
const BLOCK: usize = 2;

/// 1.5·2¹⁰³. A sum of this and a number below 2¹⁰² in magnitude is rounded to a multiple of 2⁵¹.
const ROUND_HIGH: f64 = 1.5 * (1u128 << 103) as f64;
/// 1.5·2⁵².
const ROUND: f64 = 1.5 * (1u64 << 52) as f64;
/// Bits of the low part of a sum.
const LOW: i32 = 51;

/// Sums of products of lanes.
trait Sum: Copy {
    /// What a sum multiplies.
    type Factor: Copy;
    /// The power of two that the high parts of a sum count.
    const SHIFT: i32;
    /// SAFETY: the CPU must have AVX2 and FMA, as for all functions of the trait.
    unsafe fn factor(x: __m256i) -> Self::Factor;
    /// Four stored entries of [`crate::LimbPairs`].
    ///
    /// SAFETY: [`Words::read`] bytes from `bytes` on must be readable.
    unsafe fn stored(words: &Words, bytes: *const u8) -> Self::Factor;
    /// An empty sum that `terms` products will be added to.
    unsafe fn new(terms: usize) -> Self;
    unsafe fn add(&mut self, x: Self::Factor, y: Self::Factor);
    /// The sum as high·2^SHIFT + low, with both below 2⁵².
    unsafe fn parts(self) -> (__m256d, __m256d);
}

/// Sums of at most 2¹¹ products of factors below 2³²: modulo 2⁶⁴, and of the upper halves of the products.
#[derive(Clone, Copy)]
struct Short(__m256i, __m256i);

impl Sum for Short {
    type Factor = __m256i;
    const SHIFT: i32 = 32;

    #[inline(always)]
    unsafe fn factor(x: __m256i) -> __m256i {
        x
    }

    #[inline(always)]
    unsafe fn stored(_: &Words, bytes: *const u8) -> __m256i {
        // SAFETY: by the caller's promise; the load is unaligned. Entries of 25 to 32 bits have four bytes.
        unsafe { _mm256_cvtepu32_epi64(_mm_loadu_si128(bytes.cast())) }
    }

    #[inline(always)]
    unsafe fn new(_: usize) -> Self {
        // SAFETY: by the caller's promise.
        unsafe { Short(_mm256_setzero_si256(), _mm256_setzero_si256()) }
    }

    #[inline(always)]
    unsafe fn add(&mut self, x: __m256i, y: __m256i) {
        // SAFETY: by the caller's promise.
        unsafe {
            let product = _mm256_mul_epu32(x, y);
            self.0 = _mm256_add_epi64(self.0, product);
            self.1 = _mm256_add_epi64(self.1, _mm256_srli_epi64::<32>(product));
        }
    }

    #[inline(always)]
    unsafe fn parts(self) -> (__m256d, __m256d) {
        // SAFETY: by the caller's promise. The lower halves add up to less than 2⁴³.
        unsafe {
            let low = _mm256_sub_epi64(self.0, _mm256_slli_epi64::<32>(self.1));
            (to_doubles(self.1), to_doubles(low))
        }
    }
}

/// Sums of products of factors below 2⁵⁰, of which [`Long::terms`] are added up: of the products rounded to
/// multiples of 2⁵¹, and of the rest.
#[derive(Clone, Copy)]
struct Long(__m256i, __m256i);

impl Long {
    /// The number of products of factors below 2^`bits` in all whose sum is below 2¹⁰³.
    fn terms(bits: u32) -> usize {
        1 << (103 - bits).min(10)
    }
}

impl Sum for Long {
    type Factor = __m256d;
    const SHIFT: i32 = LOW;

    #[inline(always)]
    unsafe fn factor(x: __m256i) -> __m256d {
        // SAFETY: by the caller's promise.
        unsafe { to_doubles(x) }
    }

    #[inline(always)]
    unsafe fn stored(words: &Words, bytes: *const u8) -> __m256d {
        // SAFETY: by the caller's promise.
        unsafe { to_doubles(words.load(bytes)) }
    }

    #[inline(always)]
    unsafe fn new(terms: usize) -> Self {
        // A rounded product has the bits of ROUND_HIGH plus its multiple of 2⁵¹, and its rest those of ROUND
        // plus the rest. The low sum starts at 2⁶² more, so that it is positive.
        let without = |x: f64| (x.to_bits().wrapping_mul(terms as u64)).wrapping_neg();
        let high = without(ROUND_HIGH).wrapping_sub(1 << (62 - LOW));
        let low = without(ROUND).wrapping_add(1 << 62);
        // SAFETY: by the caller's promise.
        unsafe { Long(_mm256_set1_epi64x(high as i64), _mm256_set1_epi64x(low as i64)) }
    }

    #[inline(always)]
    unsafe fn add(&mut self, x: __m256d, y: __m256d) {
        // SAFETY: by the caller's promise.
        unsafe {
            let (round, both) = (_mm256_set1_pd(ROUND_HIGH), _mm256_set1_pd(ROUND_HIGH + ROUND));
            let high = _mm256_fmadd_pd(x, y, round);
            let low = _mm256_fmadd_pd(x, y, _mm256_sub_pd(both, high));
            self.0 = _mm256_add_epi64(self.0, _mm256_castpd_si256(high));
            self.1 = _mm256_add_epi64(self.1, _mm256_castpd_si256(low));
        }
    }

    #[inline(always)]
    unsafe fn parts(self) -> (__m256d, __m256d) {
        // SAFETY: by the caller's promise.
        unsafe {
            let high = _mm256_add_epi64(self.0, _mm256_srli_epi64::<LOW>(self.1));
            let low = _mm256_and_si256(self.1, _mm256_set1_epi64x((1 << LOW) - 1));
            (to_doubles(high), to_doubles(low))
        }
    }
}

/// The factors that reduce a sum of products.
#[derive(Clone, Copy)]
struct Weights {
    lanes: Lanes,
    high: __m256d,
    low: __m256d,
}

impl Weights {
    /// For sums whose high parts count 2^`shift`, which are multiplied by the reduced `factor`.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn new(m: &Modulus, shift: i32, factor: u64) -> Self {
        let weight = |w: u64| _mm256_set1_pd(centered(m, w));
        let high = m.mul(factor, m.reduce(1 << shift));
        Weights { lanes: Lanes::new(m), high: weight(high), low: weight(factor) }
    }

    /// For sums that are divided by 2⁵².
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn montgomery(m: &Modulus, shift: i32) -> Self {
        Self::new(m, shift, m.montgomery(1))
    }

    /// The weighted sum modulo q, at most 2q in magnitude.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn apply(&self, (high, low): (__m256d, __m256d)) -> __m256d {
        _mm256_add_pd(self.lanes.mul(high, self.high), self.lanes.mul(low, self.low))
    }
}

/// `sum` ← sum + x modulo q, where the sum is centred before if it is not the first of several.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn add_to(l: &Lanes, sum: &mut __m256d, x: __m256d, first: bool) {
    *sum = _mm256_add_pd(if first { *sum } else { l.center(*sum) }, x);
}

#[target_feature(enable = "avx2,fma")]
pub(in crate::simd) fn pair_products_into(
    m: &Modulus,
    out0: &mut [u64],
    out1: &mut [u64],
    x: &[&[u64]],
    pairs: Pairs,
    plus: &AccumulatorTerms,
    destination: Destination,
) {
    // On this kernel `lazy_bits` is the size of the prime: all factors are below 2^bits.
    match m.bits() {
        25..=32 => pair_products::<Short>(m, out0, out1, x, pairs, plus, destination),
        _ => pair_products::<Long>(m, out0, out1, x, pairs, plus, destination),
    }
}

#[target_feature(enable = "avx2,fma")]
fn pair_products<S: Sum>(
    m: &Modulus,
    out0: &mut [u64],
    out1: &mut [u64],
    x: &[&[u64]],
    pairs: Pairs,
    plus: &AccumulatorTerms,
    Destination { permutation, mode }: Destination,
) {
    let (n, stored) = (out0.len(), pairs.stored);
    let (row, pair, step) = (stored.row_bytes(), stored.pair_bytes(), stored.step());
    let (bytes, width) = (stored.padded(), row / (BLOCK * LANES));
    assert!(x.len() <= pairs.count() && n.is_multiple_of(BLOCK * LANES), "more terms than pairs");
    assert!(bytes.len() >= n / (BLOCK * LANES) * step + 64, "pairs shorter than the sum");
    let (words, weights) = (Words::new(width), Weights::montgomery(m, S::SHIFT));
    let l = weights.lanes;
    let at_a_time = Long::terms(2 * m.bits());
    let zero = _mm256_setzero_pd();
    let constant = _mm256_set1_pd(centered(m, plus.constant));
    let products: Vec<_> =
        plus.products.iter().map(|(k, x, y)| (_mm256_set1_pd(centered(m, k.value)), x, y)).collect();
    let multiples = plus.multiples.each_ref().map(|multiples| -> Vec<_> {
        multiples.iter().map(|(k, x)| (_mm256_set1_pd(centered(m, *k)), *x)).collect()
    });
    for (i, block) in (0..n).step_by(BLOCK * LANES).zip((0..).step_by(step)) {
        // Four entries of both sums, and the next four.
        let mut totals = [[constant, zero]; BLOCK];
        for (first, x) in (0..).step_by(at_a_time).zip(x.chunks(at_a_time)) {
            // SAFETY: the CPU has the features of this function.
            let mut sums = [[unsafe { S::new(x.len()) }; 2]; BLOCK];
            for (j, x) in (first..).zip(x) {
                let at = block + j * pair;
                for (b, sums) in sums.iter_mut().enumerate() {
                    let at = at + b * LANES * width;
                    debug_assert!(at + Words::read(width) <= bytes.len());
                    // SAFETY: the entries of a block end before the padding, which is longer than what is
                    // read from the last four on; i + 8 <= all lengths; the CPU has the features of this
                    // function.
                    unsafe {
                        let x = S::factor(load(x, i + b * LANES));
                        sums[0].add(x, S::stored(&words, bytes.as_ptr().add(at)));
                        let z = match pairs.seconds {
                            Some(z) => S::factor(load(z[j], i + b * LANES)),
                            None => S::stored(&words, bytes.as_ptr().add(at + row)),
                        };
                        sums[1].add(x, z);
                    }
                }
            }
            for (totals, sums) in totals.iter_mut().zip(sums) {
                for (total, sum) in totals.iter_mut().zip(sums) {
                    // SAFETY: the CPU has the features of this function.
                    add_to(&l, total, weights.apply(unsafe { sum.parts() }), first == 0);
                }
            }
        }
        for (b, totals) in totals.iter_mut().enumerate() {
            // SAFETY: i + 8 <= all lengths.
            let read = |x: &[u64]| unsafe { load_doubles(x, i + b * LANES) };
            let [total0, total1] = totals;
            for (k, x, y) in &products {
                let (x0, x1) = (l.mul(read(x[0]), *k), l.mul(read(x[1]), *k));
                let (y0, y1) = (read(y[0]), read(y[1]));
                add_to(&l, total0, l.mul(x0, y0), false);
                add_to(&l, total1, l.mul(x0, y1), false);
                add_to(&l, total1, l.mul(x1, y0), false);
            }
            for (k, x) in &multiples[0] {
                add_to(&l, total0, l.mul(read(x), *k), false);
            }
            for (k, x) in &multiples[1] {
                add_to(&l, total1, l.mul(read(x), *k), false);
            }
        }
        let at = permutation.map_or(i, |p| p.targets()[i / (BLOCK * LANES)] as usize * BLOCK * LANES);
        for (h, out) in [&mut *out0, &mut *out1].into_iter().enumerate() {
            let mut sums = [l.reduce(totals[0][h]), l.reduce(totals[1][h])];
            if let Some(permutation) = permutation {
                let lanes = permutation.indices()[at..at + BLOCK * LANES].as_chunks::<LANES>().0;
                // SAFETY: there are four indices for each register.
                sums = unsafe { [pick(sums, &lanes[0]), pick(sums, &lanes[1])] };
            }
            for (b, sum) in sums.into_iter().enumerate() {
                let at = at + b * LANES;
                // SAFETY: at + 4 <= all lengths: `at` is in a block from i on, or in one that the
                // permutation, which is as long as a sum, has as a target.
                unsafe {
                    let sum = match mode {
                        Mode::Write => sum,
                        Mode::Add => l.reduce(_mm256_add_pd(load_doubles(out, at), to_doubles(sum))),
                        Mode::Subtract => l.reduce(_mm256_sub_pd(load_doubles(out, at), to_doubles(sum))),
                    };
                    store(out, at, sum);
                }
            }
        }
    }
}

#[target_feature(enable = "avx2,fma")]
pub(in crate::simd) fn inner_products_short_into(
    m: &Modulus,
    out0: &mut [u64],
    out1: &mut [u64],
    x: &[&[u64]],
    y: &[&[u64]],
    z: &[&[u64]],
) {
    let stride = x.first().map_or(1, |x| out0.len() / x.len());
    let even = x.iter().all(|x| x.len() * stride == out0.len());
    if !even || !stride.is_power_of_two() || !out0.len().is_multiple_of(LANES) {
        return scalar::inner_products_short_into(m, out0, out1, x, y, z);
    }
    match m.bits() {
        ..=32 => inner_products_short::<Short>(m, out0, out1, x, y, z, stride),
        _ => inner_products_short::<Long>(m, out0, out1, x, y, z, stride),
    }
}

/// The stride must be a power of two and every x have `out0.len() / stride` entries; `out0.len()` must be a
/// multiple of four.
#[target_feature(enable = "avx2,fma")]
fn inner_products_short<S: Sum>(
    m: &Modulus,
    out0: &mut [u64],
    out1: &mut [u64],
    x: &[&[u64]],
    y: &[&[u64]],
    z: &[&[u64]],
    stride: usize,
) {
    let (weights, at_a_time) = (Weights::montgomery(m, S::SHIFT), Long::terms(2 * m.bits()));
    for i in (0..out0.len()).step_by(LANES) {
        let mut totals = [_mm256_setzero_pd(); 2];
        for first in (0..x.len()).step_by(at_a_time) {
            let terms = first..x.len().min(first + at_a_time);
            // SAFETY: the CPU has the features of this function.
            let mut sums = [unsafe { S::new(terms.len()) }; 2];
            for j in terms {
                let x = x[j];
                // SAFETY: i + 4 <= the lengths of y and z, and (i + 3)/stride is below the length of x.
                unsafe {
                    let x = match stride {
                        1 => load(x, i),
                        2 => {
                            let two = _mm256_castsi128_si256(_mm_loadu_si128(x.as_ptr().add(i / 2).cast()));
                            _mm256_permute4x64_epi64::<0b0101_0000>(two)
                        }
                        _ => _mm256_set1_epi64x(x[i / stride] as i64),
                    };
                    let x = S::factor(x);
                    sums[0].add(x, S::factor(load(y[j], i)));
                    sums[1].add(x, S::factor(load(z[j], i)));
                }
            }
            for (total, sum) in totals.iter_mut().zip(sums) {
                // SAFETY: the CPU has the features of this function.
                add_to(&weights.lanes, total, weights.apply(unsafe { sum.parts() }), first == 0);
            }
        }
        // SAFETY: i + 4 <= both lengths.
        unsafe {
            store(out0, i, weights.lanes.reduce(totals[0]));
            store(out1, i, weights.lanes.reduce(totals[1]));
        }
    }
}

#[target_feature(enable = "avx2,fma")]
pub(in crate::simd) fn combine_into(m: &Modulus, out: &mut [u64], x: &Rows, c: Affine) {
    combine_from(m, out, x, c, &cut_factors(m, x, c), 0);
}

/// The factors of a combination, as its rows are multiplied by them: as the bits of a double for wide rows,
/// or cut in two for narrow ones, at bit [`cut`].
fn cut_factors(m: &Modulus, x: &Rows, (c, _): Affine) -> Vec<[i64; 2]> {
    let as_stored = |&c: &u64| match x {
        Rows::Wide(_) => [(c as f64).to_bits() as i64, 0],
        Rows::Narrow(rows) => {
            let cut = cut(m, rows.len());
            [(c & ((1 << cut) - 1)) as i64, (c >> cut) as i64]
        }
    };
    c.iter().map(as_stored).collect()
}

/// The bit at which factors of rows of 32-bit words are cut, so that products can be added up in a lane.
/// Sums of up to eight products of 48 bits fit doubles as they are.
fn cut(m: &Modulus, rows: usize) -> i32 {
    if m.bits() <= 32 && rows <= 8 { SHORT_CUT } else { LONG_CUT }
}

/// The bit at which factors of at most 32 bits are cut.
const SHORT_CUT: i32 = 16;
/// The bit at which other factors are cut.
const LONG_CUT: i32 = 25;

/// [`combine_into`] from entry `start` of x on, with the factors of [`cut_factors`].
#[target_feature(enable = "avx2,fma")]
fn combine_from(m: &Modulus, out: &mut [u64], x: &Rows, c: Affine, factors: &[[i64; 2]], start: usize) {
    let done = match x {
        Rows::Wide(rows) => combine_wide(m, out, rows, (factors, c.1), start),
        Rows::Narrow(rows) if cut(m, rows.len()) == SHORT_CUT => {
            combine_narrow::<SHORT_CUT, SHORT_CUT>(m, out, rows, (factors, c.1), start)
        }
        Rows::Narrow(rows) => combine_narrow::<LONG_CUT, LOW>(m, out, rows, (factors, c.1), start),
    };
    let (out, start) = (&mut out[done..], start + done);
    if !out.is_empty() {
        by_size!(x, combine_rest(m, out, @, c, start));
    }
}

fn combine_rest<W: Copy + Into<u64>>(m: &Modulus, out: &mut [u64], x: &[&[W]], c: Affine, start: usize) {
    scalar::combine(m, out, x, &scalar::factors(m, x.len(), c), start);
}

/// The entries are below 2⁵⁰. Returns the number of entries written.
#[target_feature(enable = "avx2,fma")]
fn combine_wide(
    m: &Modulus,
    out: &mut [u64],
    x: &[&[u64]],
    (c, constant): (&[[i64; 2]], u64),
    start: usize,
) -> usize {
    /// Registers that are accumulated at the same time.
    const WIDE: usize = 4;
    let (weights, end) = (Weights::new(m, Long::SHIFT, 1), out.len() / (LANES * WIDE) * (LANES * WIDE));
    assert!(c.len() == x.len(), "a factor for each row");
    let at_a_time = Long::terms(50 + m.bits());
    for i in (0..end).step_by(LANES * WIDE) {
        let mut totals = [_mm256_set1_pd(centered(m, constant)); WIDE];
        for (k, (x, c)) in x.chunks(at_a_time).zip(c.chunks(at_a_time)).enumerate() {
            // SAFETY: the CPU has the features of this function; start + i + 4·WIDE <= all lengths.
            unsafe {
                let mut sums = [Long::new(x.len()); WIDE];
                for (x, &[c, _]) in x.iter().zip(c) {
                    let c = _mm256_castsi256_pd(_mm256_set1_epi64x(c));
                    for (w, sum) in sums.iter_mut().enumerate() {
                        sum.add(load_doubles(x, start + i + w * LANES), c);
                    }
                }
                for (total, sum) in totals.iter_mut().zip(sums) {
                    let (high, low) = sum.parts();
                    let low = _mm256_add_pd(low, weights.lanes.mul(high, weights.high));
                    add_to(&weights.lanes, total, low, k == 0);
                }
            }
        }
        for (w, total) in totals.into_iter().enumerate() {
            // SAFETY: i + 4·WIDE <= end <= the length.
            unsafe { store(out, i + w * LANES, weights.lanes.reduce(total)) }
        }
    }
    end
}

/// Factors are cut at bit `CUT`, and the high part of a sum counts 2^`SHIFT`. Returns the number of entries
/// written.
#[target_feature(enable = "avx2,fma")]
fn combine_narrow<const CUT: i32, const SHIFT: i32>(
    m: &Modulus,
    out: &mut [u64],
    x: &[&[u32]],
    (c, constant): (&[[i64; 2]], u64),
    start: usize,
) -> usize {
    /// Registers that are accumulated at the same time.
    const WIDE: usize = 4;
    /// Products of 57 bits that are added up.
    const TERMS: usize = 32;
    let (weights, end) = (Weights::new(m, SHIFT, 1), out.len() / (LANES * WIDE) * (LANES * WIDE));
    assert!(c.len() == x.len(), "a factor for each row");
    let mask = |bits: i32| _mm256_set1_epi64x((1 << bits) - 1);
    for i in (0..end).step_by(LANES * WIDE) {
        let mut totals = [_mm256_set1_pd(centered(m, constant)); WIDE];
        for (k, (x, c)) in x.chunks(TERMS).zip(c.chunks(TERMS)).enumerate() {
            let mut sums = [[_mm256_setzero_si256(); 2]; WIDE];
            for (x, c) in x.iter().zip(c) {
                let (low, high) = (_mm256_set1_epi64x(c[0]), _mm256_set1_epi64x(c[1]));
                for (w, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: start + i + 4·WIDE <= all lengths; the load is unaligned.
                    let x = unsafe {
                        _mm256_cvtepu32_epi64(_mm_loadu_si128(x.as_ptr().add(start + i + w * LANES).cast()))
                    };
                    sum[0] = _mm256_add_epi64(sum[0], _mm256_mul_epu32(x, low));
                    sum[1] = _mm256_add_epi64(sum[1], _mm256_mul_epu32(x, high));
                }
            }
            for (total, [mut low, mut high]) in totals.iter_mut().zip(sums) {
                if SHIFT != CUT {
                    // The same sum with a low part of SHIFT bits.
                    high = _mm256_add_epi64(high, _mm256_srli_epi64::<CUT>(low));
                    let middle = _mm256_and_si256(high, mask(SHIFT - CUT));
                    low = _mm256_or_si256(_mm256_and_si256(low, mask(CUT)), _mm256_slli_epi64::<CUT>(middle));
                    high = _mm256_srl_epi64(high, _mm_cvtsi32_si128(SHIFT - CUT));
                }
                let high = weights.lanes.mul(to_doubles(high), weights.high);
                add_to(&weights.lanes, total, _mm256_add_pd(to_doubles(low), high), k == 0);
            }
        }
        for (w, total) in totals.into_iter().enumerate() {
            // SAFETY: i + 4·WIDE <= end <= the length.
            unsafe { store(out, i + w * LANES, weights.lanes.reduce(total)) }
        }
    }
    end
}

#[target_feature(enable = "avx2,fma")]
pub(in crate::simd) fn combine_pair_into(
    m: [&Modulus; 2],
    out0: &mut [u64],
    out1: &mut [u64],
    x: &Rows,
    c: [Affine; 2],
) {
    /// Entries that are combined for both moduli while they are in the first-level cache.
    const PIECE: usize = 256;
    let factors = [cut_factors(m[0], x, c[0]), cut_factors(m[1], x, c[1])];
    for ((out0, out1), start) in out0.chunks_mut(PIECE).zip(out1.chunks_mut(PIECE)).zip((0..).step_by(PIECE))
    {
        combine_from(m[0], out0, x, c[0], &factors[0], start);
        combine_from(m[1], out1, x, c[1], &factors[1], start);
    }
}

#[target_feature(enable = "avx2,fma")]
pub(in crate::simd) fn sum_of_products_into(m: &Modulus, out: &mut [u64], terms: &[Term]) {
    let (l, end) = (Lanes::new(m), whole(out.len()));
    for i in (0..end).step_by(LANES) {
        let mut sum = _mm256_setzero_pd();
        for (k, x, y) in terms {
            // SAFETY: i + 4 <= end <= all lengths.
            let [x, y] = unsafe { [load_doubles(x, i), load_doubles(y, i)] };
            let x = l.mul(x, _mm256_set1_pd(k.value as f64));
            add_to(&l, &mut sum, l.mul(x, y), false);
        }
        // SAFETY: as above.
        unsafe { store(out, i, l.reduce(sum)) }
    }
    let rest: Vec<Term> = terms.iter().map(|(k, x, y)| (*k, &x[end..], &y[end..])).collect();
    scalar::sum_of_products_into(m, &mut out[end..], &rest);
}

#[target_feature(enable = "avx2,fma")]
pub(in crate::simd) fn rounded_sum_into(out: &mut [u64], x: &Rows, f: &[f64]) {
    let end = whole(out.len());
    for i in (0..end).step_by(LANES) {
        let mut sum = _mm256_set1_pd(0.5);
        // SAFETY: i + 4 <= end <= all lengths; the load of short words is unaligned. The product is rounded
        // before it is added, as in the scalar version.
        unsafe {
            match x {
                Rows::Wide(rows) => {
                    for (x, &f) in rows.iter().zip(f) {
                        sum = _mm256_add_pd(sum, _mm256_mul_pd(load_doubles(x, i), _mm256_set1_pd(f)));
                    }
                }
                Rows::Narrow(rows) => {
                    for (x, &f) in rows.iter().zip(f) {
                        let x = _mm256_cvtepu32_epi64(_mm_loadu_si128(x.as_ptr().add(i).cast()));
                        sum = _mm256_add_pd(sum, _mm256_mul_pd(to_doubles(x), _mm256_set1_pd(f)));
                    }
                }
            }
            let whole = _mm256_round_pd::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(sum);
            store(out, i, to_integers(whole));
        }
    }
    by_size!(x, rounded_rest(&mut out[end..], @, f, end));
}

fn rounded_rest<W: Copy + Into<u64>>(out: &mut [u64], x: &[&[W]], f: &[f64], start: usize) {
    scalar::rounded_sum(out, x, f, start);
}

/// The largest number of words of an integer that is decomposed, plus one.
const MOST_WORDS: usize = 16;
/// The largest number of terms of a word's sum.
const MOST_TERMS: usize = 16;

#[target_feature(enable = "avx2,fma")]
pub(in crate::simd) fn split_in_place(rows: &mut [&mut [u64]], radix: &Radix) {
    let (len, terms) = (rows.first().map_or(0, |row| row.len()), radix.weight.len() + 1);
    if !len.is_multiple_of(LANES) || radix.start.len() >= MOST_WORDS || terms > MOST_TERMS {
        return scalar::split_in_place(rows, radix);
    }
    let factors: Vec<f64> = radix.factors.iter().flatten().map(|&f| f as f64).collect();
    let splat = |x: u64| _mm256_set1_epi64x(x as i64);
    let zero = _mm256_setzero_si256();
    // Each word is written before it is read, except the last, which stays 0.
    let mut words = [zero; MOST_WORDS];
    for i in (0..len).step_by(LANES) {
        let mut y = [_mm256_setzero_pd(); MOST_TERMS];
        let mut multiple = _mm256_set1_pd(0.5);
        for ((y, row), &f) in y.iter_mut().zip(rows.iter()).zip(&radix.weight) {
            // SAFETY: all rows have one length, a multiple of four.
            *y = unsafe { load_doubles(row, i) };
            multiple = _mm256_add_pd(multiple, _mm256_mul_pd(*y, _mm256_set1_pd(f)));
        }
        y[terms - 1] = _mm256_round_pd::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(multiple);
        let (mut above, mut carry) = (zero, zero);
        for ((word, factors), &start) in words.iter_mut().zip(factors.chunks(terms)).zip(&radix.start) {
            // SAFETY: the CPU has the features of this function.
            let Long(high, low) = unsafe {
                let mut sum = Long::new(terms);
                for (&y, &f) in y.iter().zip(factors) {
                    sum.add(y, _mm256_set1_pd(f));
                }
                sum
            };
            // The low sum has 2⁶² too much, which is taken off the high one: 2⁶² = 2¹¹·2⁵¹. The sum is
            // high·2⁵¹ + low, and the word takes its lowest 52 bits.
            let high = _mm256_add_epi64(high, _mm256_srli_epi64::<LOW>(low));
            let low = _mm256_and_si256(low, splat((1 << LOW) - 1));
            let low = _mm256_or_si256(low, _mm256_slli_epi64::<LOW>(_mm256_and_si256(high, splat(1))));
            let t = _mm256_add_epi64(_mm256_add_epi64(low, above), _mm256_add_epi64(carry, splat(start)));
            *word = _mm256_and_si256(t, splat((1 << WORD) - 1));
            (carry, above) = (_mm256_srli_epi64::<{ WORD as i32 }>(t), _mm256_srli_epi64::<1>(high));
        }
        for (out, &(first, bits)) in rows.iter_mut().zip(&radix.digits) {
            let (word, shift) = ((first / WORD) as usize, first % WORD);
            let low = _mm256_srl_epi64(words[word], _mm_cvtsi32_si128(shift as i32));
            let high = _mm256_sll_epi64(words[word + 1], _mm_cvtsi32_si128((WORD - shift) as i32));
            let digit = _mm256_and_si256(_mm256_or_si256(low, high), splat((1 << bits) - 1));
            // SAFETY: as above.
            unsafe { store(out, i, digit) };
        }
    }
}
