//! The AVX2 version of the kernels, for CPUs with AVX2 and FMA. AVX2 multiplies no integers of more than 32
//! bits, so residues are multiplied in double precision: with a fused multiply-add the rounding error of a
//! product is itself exact. Sums of products of 32-bit residues take the integer multiplier. Entries behind
//! the last whole register are left to the scalar version.
//!
//! Functions of the standard library that call a closure, such as `map` of an array, have no target
//! features, and a closure with some is not inlined in them: hot code has loops instead.
//!
//! Safety of every function here: the CPU must have the features named in `target_feature`, and the slices
//! of a call must have at least the length of the first. `super` checks both.

mod sums;

pub(super) use sums::{
    combine_into, combine_pair_into, inner_products_short_into, pair_products_into, rounded_sum_into,
    split_in_place, sum_of_products_into,
};

use super::scalar;
use crate::simd::operands::{Lift, Permutation};
use crate::{Constant, Modulus};
use std::arch::x86_64::*;

/// Entries of a register.
pub(super) const LANES: usize = 4;
/// 2⁵², the first double whose last bit counts ones.
const TWO_52: f64 = (1u64 << 52) as f64;
/// 1.5·2⁵². A sum of this and a number below 2⁵¹ in magnitude is rounded to an integer.
const ROUND: f64 = 1.5 * TWO_52;

macro_rules! recompiled {
    ($($name:ident($($arg:ident: $ty:ty),*);)*) => {$(
        #[target_feature(enable = "avx2,fma")]
        pub(super) fn $name($($arg: $ty),*) {
            scalar::$name($($arg),*);
        }
    )*};
}

recompiled! {
    add_assign(m: &Modulus, a: &mut [u64], b: &[u64]);
    sub_assign(m: &Modulus, a: &mut [u64], b: &[u64]);
    neg_assign(m: &Modulus, a: &mut [u64]);
    add_constant(m: &Modulus, a: &mut [u64], c: u64);
    signed_ranks_into(out: &mut [i64], words: &[u64], table: &[u64]);
}

/// A prime in all lanes. Residues are doubles that hold integers.
#[derive(Clone, Copy)]
pub(super) struct Lanes {
    pub(super) q: __m256d,
    /// 1/q, rounded.
    inverse: __m256d,
    round: __m256d,
}

impl Lanes {
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub(super) fn new(m: &Modulus) -> Self {
        let q = m.value() as f64;
        Lanes { q: _mm256_set1_pd(q), inverse: _mm256_set1_pd(1.0 / q), round: _mm256_set1_pd(ROUND) }
    }

    /// x·w modulo q, for integers of at most 2⁵² in magnitude with a quotient |x·w|/q ≤ 2⁵¹. The result is at
    /// most (½ + |x·w|/q·2⁻⁵²)·q in magnitude.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub(super) fn mul(&self, x: __m256d, w: __m256d) -> __m256d {
        let high = _mm256_mul_pd(x, w);
        let low = _mm256_fmsub_pd(x, w, high);
        // The product and 1/q are rounded once each, and the quotient to an integer. The remainder is exact,
        // as is its difference to the rounded product, which is an integer below 2⁵².
        let quotient = _mm256_sub_pd(_mm256_fmadd_pd(high, self.inverse, self.round), self.round);
        _mm256_add_pd(_mm256_fnmadd_pd(quotient, self.q, high), low)
    }

    /// x modulo q, at most q/2 in magnitude, for |x| ≤ 2⁵².
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub(super) fn center(&self, x: __m256d) -> __m256d {
        let quotient = _mm256_sub_pd(_mm256_fmadd_pd(x, self.inverse, self.round), self.round);
        _mm256_fnmadd_pd(quotient, self.q, x)
    }

    /// x mod q for |x| < q, as integers.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub(super) fn reduce_once(&self, x: __m256d) -> __m256i {
        let negative = _mm256_cmp_pd::<_CMP_LT_OQ>(x, _mm256_setzero_pd());
        to_integers(_mm256_add_pd(x, _mm256_and_pd(negative, self.q)))
    }

    /// x mod q for |x| ≤ 2⁵², as integers.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub(super) fn reduce(&self, x: __m256d) -> __m256i {
        self.reduce_once(self.center(x))
    }
}

/// The double nearest to zero that is w modulo q, for a reduced w.
pub(super) fn centered(m: &Modulus, w: u64) -> f64 {
    m.centered(w) as f64
}

/// Integers below 2⁵² as doubles.
#[target_feature(enable = "avx2,fma")]
#[inline]
pub(super) fn to_doubles(x: __m256i) -> __m256d {
    let magic = _mm256_set1_pd(TWO_52);
    _mm256_sub_pd(_mm256_or_pd(_mm256_castsi256_pd(x), magic), magic)
}

/// Doubles that hold integers from 0 to 2⁵² − 1 as integers.
#[target_feature(enable = "avx2,fma")]
#[inline]
pub(super) fn to_integers(x: __m256d) -> __m256i {
    let magic = _mm256_set1_pd(TWO_52);
    _mm256_castpd_si256(_mm256_xor_pd(_mm256_add_pd(x, magic), magic))
}

/// SAFETY: `i + 4 <= x.len()`.
#[target_feature(enable = "avx2,fma")]
#[inline]
pub(super) unsafe fn load(x: &[u64], i: usize) -> __m256i {
    debug_assert!(i + LANES <= x.len());
    // SAFETY: in bounds by the caller's promise; the load is unaligned.
    unsafe { _mm256_loadu_si256(x.as_ptr().add(i).cast()) }
}

/// The doubles of four integers below 2⁵².
///
/// SAFETY: `i + 4 <= x.len()`.
#[target_feature(enable = "avx2,fma")]
#[inline]
pub(super) unsafe fn load_doubles(x: &[u64], i: usize) -> __m256d {
    // SAFETY: by the caller's promise.
    to_doubles(unsafe { load(x, i) })
}

/// SAFETY: `i + 4 <= x.len()`.
#[target_feature(enable = "avx2,fma")]
#[inline]
pub(super) unsafe fn store(x: &mut [u64], i: usize, v: __m256i) {
    debug_assert!(i + LANES <= x.len());
    // SAFETY: in bounds by the caller's promise; the store is unaligned.
    unsafe { _mm256_storeu_si256(x.as_mut_ptr().add(i).cast(), v) }
}

/// The largest multiple of four that is at most `n`.
fn whole(n: usize) -> usize {
    n / LANES * LANES
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn mul_assign(m: &Modulus, a: &mut [u64], b: &[u64]) {
    let (l, end) = (Lanes::new(m), whole(a.len()));
    for i in (0..end).step_by(LANES) {
        // SAFETY: i + 4 <= end <= both lengths.
        unsafe { store(a, i, l.reduce_once(l.mul(load_doubles(a, i), load_doubles(b, i)))) }
    }
    scalar::mul_assign(m, &mut a[end..], &b[end..]);
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn mul_into(m: &Modulus, out: &mut [u64], a: &[u64], b: &[u64]) {
    let (l, end) = (Lanes::new(m), whole(out.len()));
    for i in (0..end).step_by(LANES) {
        // SAFETY: i + 4 <= end <= all lengths.
        unsafe { store(out, i, l.reduce_once(l.mul(load_doubles(a, i), load_doubles(b, i)))) }
    }
    scalar::mul_into(m, &mut out[end..], &a[end..], &b[end..]);
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn mul_add_assign(m: &Modulus, acc: &mut [u64], a: &[u64], b: &[u64]) {
    let (l, end) = (Lanes::new(m), whole(acc.len()));
    for i in (0..end).step_by(LANES) {
        // SAFETY: i + 4 <= end <= all lengths.
        unsafe {
            let product = l.mul(load_doubles(a, i), load_doubles(b, i));
            store(acc, i, l.reduce(_mm256_add_pd(load_doubles(acc, i), product)));
        }
    }
    scalar::mul_add_assign(m, &mut acc[end..], &a[end..], &b[end..]);
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn mul_constant_assign(m: &Modulus, a: &mut [u64], w: Constant) {
    let (l, end) = (Lanes::new(m), whole(a.len()));
    let factor = _mm256_set1_pd(centered(m, w.value));
    for i in (0..end).step_by(LANES) {
        // SAFETY: i + 4 <= end <= the length. The product of a word of 52 bits may be as large as q.
        unsafe { store(a, i, l.reduce(l.mul(load_doubles(a, i), factor))) }
    }
    scalar::mul_constant_assign(m, &mut a[end..], w);
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn mul_constant_add(m: &Modulus, acc: &mut [u64], x: &[u64], w: Constant) {
    let (l, end) = (Lanes::new(m), whole(acc.len()));
    let factor = _mm256_set1_pd(centered(m, w.value));
    for i in (0..end).step_by(LANES) {
        // SAFETY: i + 4 <= end <= both lengths.
        unsafe {
            let product = l.mul(load_doubles(x, i), factor);
            store(acc, i, l.reduce(_mm256_add_pd(load_doubles(acc, i), product)));
        }
    }
    scalar::mul_constant_add(m, &mut acc[end..], &x[end..], w);
}

/// Reads small integers that a [`Lift`] maps to residues. They have at most 2⁴⁹ in magnitude.
#[derive(Clone, Copy)]
pub(super) struct Lifter {
    /// Taken off all words.
    offset: __m256d,
    /// Words above `half` lose `prime`.
    half: __m256d,
    prime: __m256d,
}

impl Lifter {
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub(super) fn new(lift: Lift) -> Self {
        let (offset, half, prime) = match lift {
            Lift::Residue { prime, .. } => (0, prime / 2, prime),
            // No word is above 2⁵².
            Lift::Digit { bits, .. } => (1 << (bits - 1), 1 << 52, 0),
        };
        let [offset, half, prime] = [offset, half, prime].map(|x| _mm256_set1_pd(x as f64));
        Lifter { offset, half, prime }
    }

    /// SAFETY: `i + 4 <= x.len()`.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub(super) unsafe fn load(&self, x: &[u64], i: usize) -> __m256d {
        // SAFETY: by the caller's promise.
        let x = unsafe { load_doubles(x, i) };
        let less = _mm256_and_pd(_mm256_cmp_pd::<_CMP_GT_OQ>(x, self.half), self.prime);
        _mm256_sub_pd(_mm256_sub_pd(x, self.offset), less)
    }
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn lift_into(m: &Modulus, out: &mut [u64], x: &[u64], lift: Lift) {
    let (l, lifter, end) = (Lanes::new(m), Lifter::new(lift), whole(out.len()));
    for i in (0..end).step_by(LANES) {
        // SAFETY: i + 4 <= end <= both lengths.
        unsafe { store(out, i, l.reduce(lifter.load(x, i))) }
    }
    scalar::lift_into(m, &mut out[end..], &x[end..], lift);
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn signed_into(m: &Modulus, out: &mut [u64], x: &[i64]) {
    let (l, end) = (Lanes::new(m), whole(out.len()));
    let weight = _mm256_set1_pd(centered(m, m.reduce(1 << 32)));
    for i in (0..end).step_by(LANES) {
        // SAFETY: i + 4 <= end <= both lengths; the load is unaligned.
        let x = unsafe { _mm256_loadu_si256(x.as_ptr().add(i).cast()) };
        // x + 2⁶³ is positive, and its upper half is that of x plus 2³¹.
        let upper = _mm256_srli_epi64::<32>(_mm256_xor_si256(x, _mm256_set1_epi64x(i64::MIN)));
        let upper = _mm256_sub_pd(to_doubles(upper), _mm256_set1_pd((1u64 << 31) as f64));
        let lower = to_doubles(_mm256_and_si256(x, _mm256_set1_epi64x(0xffff_ffff)));
        // SAFETY: as above.
        unsafe { store(out, i, l.reduce(_mm256_add_pd(l.mul(upper, weight), lower))) }
    }
    scalar::signed_into(m, &mut out[end..], &x[end..]);
}

/// Spreads four words of 1 to 7 bytes each to four lanes.
#[derive(Clone, Copy)]
pub(super) struct Words {
    width: usize,
    /// For each byte of a half register its place in a half register that starts with two words.
    places: __m256i,
}

impl Words {
    /// Bytes from the first word on that are read: two words, and a half register from the third on.
    pub(super) fn read(width: usize) -> usize {
        2 * width + 16
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn new(width: usize) -> Self {
        // An index with the upper bit set gives 0.
        let place = |b: usize| if b % 8 < width { (b % 16 / 8 * width + b % 8) as u8 } else { 0x80 };
        let places: [u8; 32] = std::array::from_fn(place);
        // SAFETY: `places` has the size of a register; the load is unaligned.
        Words { width, places: unsafe { _mm256_loadu_si256(places.as_ptr().cast()) } }
    }

    /// SAFETY: [`Self::read`] bytes from `bytes` on must be readable.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub(super) unsafe fn load(&self, bytes: *const u8) -> __m256i {
        // SAFETY: by the caller's promise; the loads are unaligned.
        unsafe {
            let low = _mm_loadu_si128(bytes.cast());
            let high = _mm_loadu_si128(bytes.add(2 * self.width).cast());
            _mm256_shuffle_epi8(_mm256_set_m128i(high, low), self.places)
        }
    }
}

/// For each set of lanes, the halves of those lanes, in order, as indices of 32-bit words.
const KEPT: [[u32; 8]; 16] = {
    let mut table = [[0; 8]; 16];
    let mut set = 0;
    while set < 16 {
        let (mut lane, mut kept) = (0, 0);
        while lane < 4 {
            if set >> lane & 1 == 1 {
                table[set][2 * kept] = 2 * lane;
                table[set][2 * kept + 1] = 2 * lane + 1;
                kept += 1;
            }
            lane += 1;
        }
        set += 1;
    }
    table
};

#[target_feature(enable = "avx2,fma")]
pub(super) fn take_residues(q: u64, out: &mut [u64], drawn: &[u8]) -> usize {
    let (mask, below) =
        (_mm256_set1_epi64x((u64::MAX >> q.leading_zeros()) as i64), _mm256_set1_epi64x(q as i64));
    let width = q.ilog2() as usize / 8 + 1;
    let words = Words::new(width);
    let (mut taken, mut used) = (0, 0);
    // All four lanes are stored, whatever is accepted, so there must be room for four.
    while taken + LANES <= out.len()
        && let Some(bytes) = drawn.get(used..used + Words::read(width))
    {
        // SAFETY: `bytes` has the bytes that are read.
        let x = _mm256_and_si256(unsafe { words.load(bytes.as_ptr()) }, mask);
        let kept = _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(below, x))) as usize;
        // SAFETY: an entry of the table has the size of a register; taken + 4 <= the length of out.
        unsafe {
            let lanes = _mm256_loadu_si256(KEPT[kept].as_ptr().cast());
            store(out, taken, _mm256_permutevar8x32_epi32(x, lanes));
        }
        (taken, used) = (taken + kept.count_ones() as usize, used + LANES * width);
    }
    taken + scalar::take_residues(q, &mut out[taken..], &drawn[used..])
}

/// Four entries of a block of eight, given as two registers, by their indices modulo eight.
///
/// SAFETY: `indices` must have four entries.
#[target_feature(enable = "avx2,fma")]
#[inline]
pub(super) unsafe fn pick(block: [__m256i; 2], indices: &[u32]) -> __m256i {
    debug_assert!(indices.len() >= LANES);
    // SAFETY: by the caller's promise; the load is unaligned.
    let lanes = unsafe { _mm256_cvtepu32_epi64(_mm_loadu_si128(indices.as_ptr().cast())) };
    // Indices of halves of lanes, which the instruction takes modulo eight; bit 2 of an index says which
    // register.
    let first = _mm256_add_epi64(lanes, lanes);
    let halves =
        _mm256_or_si256(first, _mm256_slli_epi64::<32>(_mm256_or_si256(first, _mm256_set1_epi64x(1))));
    let low = _mm256_castsi256_pd(_mm256_permutevar8x32_epi32(block[0], halves));
    let high = _mm256_castsi256_pd(_mm256_permutevar8x32_epi32(block[1], halves));
    let second = _mm256_castsi256_pd(_mm256_slli_epi64::<61>(lanes));
    _mm256_castpd_si256(_mm256_blendv_pd(low, high, second))
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn gather_into(out: &mut [u64], a: &[u64], permutation: &Permutation) {
    for i in (0..out.len()).step_by(LANES) {
        let indices = &permutation.indices()[i..i + LANES];
        let block = indices[0] as usize / (2 * LANES) * (2 * LANES);
        // SAFETY: i + 4 <= all lengths. The indices are below the length of the permutation, which is a
        // multiple of eight, and all in one block of eight entries.
        unsafe { store(out, i, pick([load(a, block), load(a, block + LANES)], indices)) }
    }
}
