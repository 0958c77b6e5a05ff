//! The version of the kernels for CPUs with AVX-512 F, DQ, VL, BW, IFMA and VBMI. Products use the 52-bit
//! multiply-add of IFMA. The other kernels are the scalar version compiled for 512-bit registers. Entries
//! behind the last whole register are left to the scalar version.
//!
//! Safety of every function here: the CPU must have the features named in `target_feature`, and the slices of
//! a call must have at least the length of the first. `super` checks both.

use super::scalar;
use crate::simd::operands::{LANES, Lift, Permutation, Radix, WORD};
use crate::{Constant, Modulus};
use std::arch::x86_64::*;

/// Calls `$f::<N>` with the number of terms as a constant N ≤ 16, so that pointers and constants stay in
/// registers. Evaluates `$otherwise` for longer sums.
macro_rules! by_terms {
    ($terms:expr, $f:ident($($arg:expr),*), $otherwise:expr) => {
        match $terms {
            1 => $f::<1>($($arg),*),
            2 => $f::<2>($($arg),*),
            3 => $f::<3>($($arg),*),
            4 => $f::<4>($($arg),*),
            5 => $f::<5>($($arg),*),
            6 => $f::<6>($($arg),*),
            7 => $f::<7>($($arg),*),
            8 => $f::<8>($($arg),*),
            9 => $f::<9>($($arg),*),
            10 => $f::<10>($($arg),*),
            11 => $f::<11>($($arg),*),
            12 => $f::<12>($($arg),*),
            13 => $f::<13>($($arg),*),
            14 => $f::<14>($($arg),*),
            15 => $f::<15>($($arg),*),
            16 => $f::<16>($($arg),*),
            _ => $otherwise,
        }
    };
}

mod sums;

pub(super) use sums::{
    combine_into, combine_pair_into, inner_products_short_into, pair_products_into, rounded_sum_into,
    sum_of_products_into,
};

macro_rules! recompiled {
    ($($name:ident($($arg:ident: $ty:ty),*);)*) => {$(
        #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
        pub(super) fn $name($($arg: $ty),*) {
            scalar::$name($($arg),*);
        }
    )*};
}

recompiled! {
    add_assign(m: &Modulus, a: &mut [u64], b: &[u64]);
    sub_assign(m: &Modulus, a: &mut [u64], b: &[u64]);
    sum_and_difference(m: &Modulus, a: &mut [u64], b: &mut [u64]);
    neg_assign(m: &Modulus, a: &mut [u64]);
    add_constant(m: &Modulus, a: &mut [u64], c: u64);
    signed_ranks_into(out: &mut [i64], words: &[u64], table: &[u64]);
}

/// A word of memory that is widened to a 64-bit lane when it is loaded.
trait Word: Copy + Into<u64> {
    /// SAFETY: `i + 8 <= words.len()`, and the CPU has AVX-512 F.
    unsafe fn load(words: &[Self], i: usize) -> __m512i;
}

impl Word for u64 {
    #[inline(always)]
    unsafe fn load(words: &[u64], i: usize) -> __m512i {
        // SAFETY: by the caller's promises.
        unsafe { load(words, i) }
    }
}

impl Word for u32 {
    #[inline(always)]
    unsafe fn load(words: &[u32], i: usize) -> __m512i {
        debug_assert!(i + LANES <= words.len());
        // SAFETY: by the caller's promises; the load is unaligned.
        unsafe { _mm512_cvtepu32_epi64(_mm256_loadu_si256(words.as_ptr().add(i).cast())) }
    }
}

/// The constants of a modulus, broadcast to all lanes.
struct Lanes {
    q: __m512i,
    two_q: __m512i,
    barrett: __m512i,
    right: __m128i,
    left: __m128i,
    word: (__m512i, __m512i),
    one_quotient: __m512i,
    minus_inverse: __m512i,
    mask: __m512i,
}

#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn splat(x: u64) -> __m512i {
    _mm512_set1_epi64(x as i64)
}

/// SAFETY: `i + 8 <= x.len()`.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) unsafe fn load(x: &[u64], i: usize) -> __m512i {
    debug_assert!(i + LANES <= x.len());
    // SAFETY: in bounds by the caller's promise; the load is unaligned.
    unsafe { _mm512_loadu_epi64(x.as_ptr().add(i).cast()) }
}

/// SAFETY: `i + 8 <= x.len()`.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) unsafe fn store(x: &mut [u64], i: usize, v: __m512i) {
    debug_assert!(i + LANES <= x.len());
    // SAFETY: in bounds by the caller's promise; the store is unaligned.
    unsafe { _mm512_storeu_epi64(x.as_mut_ptr().add(i).cast(), v) }
}

impl Lanes {
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn new(m: &Modulus) -> Self {
        Lanes {
            q: splat(m.value()),
            two_q: splat(2 * m.value()),
            barrett: splat(m.barrett),
            right: _mm_cvtsi64_si128(i64::from(m.shift)),
            left: _mm_cvtsi64_si128(52 - i64::from(m.shift)),
            word: (splat(m.word.value), splat(m.word.quotient)),
            one_quotient: splat(m.one.quotient),
            minus_inverse: splat(m.minus_inverse),
            mask: splat((1 << 52) - 1),
        }
    }

    /// x mod q for x < 2q.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn reduce_once(&self, x: __m512i) -> __m512i {
        _mm512_min_epu64(x, _mm512_sub_epi64(x, self.q))
    }

    /// x mod q for x < 4q.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn reduce_twice(&self, x: __m512i) -> __m512i {
        self.reduce_once(_mm512_min_epu64(x, _mm512_sub_epi64(x, self.two_q)))
    }

    /// a·b mod q for reduced a and b, as `Modulus::mul`.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    fn mul(&self, a: __m512i, b: __m512i) -> __m512i {
        let zero = _mm512_setzero_si512();
        let low = _mm512_madd52lo_epu64(zero, a, b);
        let high = _mm512_madd52hi_epu64(zero, a, b);
        let top = _mm512_or_si512(_mm512_sll_epi64(high, self.left), _mm512_srl_epi64(low, self.right));
        let estimate = _mm512_madd52hi_epu64(zero, top, self.barrett);
        let r = _mm512_sub_epi64(low, _mm512_madd52lo_epu64(zero, estimate, self.q));
        self.reduce_twice(_mm512_and_si512(r, self.mask))
    }

    /// x·w modulo q in [0, 2q) for x < 2⁵², as `Modulus::mul_constant_lazy`.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    fn mul_constant_lazy(&self, x: __m512i, value: __m512i, quotient: __m512i) -> __m512i {
        let zero = _mm512_setzero_si512();
        let estimate = _mm512_madd52hi_epu64(zero, x, quotient);
        let product = _mm512_madd52lo_epu64(zero, x, value);
        let r = _mm512_sub_epi64(product, _mm512_madd52lo_epu64(zero, estimate, self.q));
        _mm512_and_si512(r, self.mask)
    }

    /// (high·2⁵² + low)/2⁵² mod q for a 64-bit low accumulator, as `Modulus::montgomery`.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    fn montgomery(&self, high: __m512i, low: __m512i, reduction: Reduction) -> __m512i {
        // The multiplier reads only the low 52 bits of its factors.
        let m = _mm512_madd52lo_epu64(_mm512_setzero_si512(), low, self.minus_inverse);
        let carry = _mm512_srli_epi64::<52>(_mm512_madd52lo_epu64(low, m, self.q));
        let t = _mm512_add_epi64(_mm512_madd52hi_epu64(high, m, self.q), carry);
        match reduction {
            Reduction::Once => self.reduce_once(t),
            Reduction::Twice => self.reduce_twice(t),
            Reduction::Thrice => {
                let four_q = _mm512_add_epi64(self.two_q, self.two_q);
                self.reduce_twice(_mm512_min_epu64(t, _mm512_sub_epi64(t, four_q)))
            }
        }
    }

    /// high·2⁵² + low mod q for a 64-bit low accumulator: the carry, then `Modulus::fold`.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    fn fold(&self, high: __m512i, low: __m512i) -> __m512i {
        let high = _mm512_add_epi64(high, _mm512_srli_epi64::<52>(low));
        let low = _mm512_and_si512(low, self.mask);
        let zero = _mm512_setzero_si512();
        let estimate = _mm512_madd52hi_epu64(zero, low, self.one_quotient);
        let low = _mm512_sub_epi64(low, _mm512_madd52lo_epu64(zero, estimate, self.q));
        let low = _mm512_and_si512(low, self.mask);
        let high = self.mul_constant_lazy(high, self.word.0, self.word.1);
        self.reduce_twice(_mm512_add_epi64(high, low))
    }
}

/// The number of conditional subtractions that reduce a sum of products after [`Lanes::montgomery`] has
/// divided it by 2⁵². A sum of `terms` products of a factor below 2^`bits` and a reduced factor is then below
/// q·(1 + terms·2^bits/2⁵²).
#[derive(Clone, Copy, PartialEq)]
enum Reduction {
    Once,
    Twice,
    Thrice,
}

impl Reduction {
    /// The reduction for `terms` products whose unreduced factor is below 2^`bits`; `None` if three
    /// subtractions do not suffice.
    fn of(terms: usize, bits: u32) -> Option<Self> {
        Self::of_all([(terms, bits)])
    }

    fn of_all<const N: usize>(terms: [(usize, u32); N]) -> Option<Self> {
        // The accumulators hold no more terms than this.
        if terms.iter().map(|(terms, _)| terms).sum::<usize>() > 1 << 11 {
            return None;
        }
        match terms.iter().map(|(terms, bits)| (*terms as u64) << bits).sum::<u64>() {
            bound if bound <= 1 << 52 => Some(Reduction::Once),
            bound if bound <= 3 << 52 => Some(Reduction::Twice),
            bound if bound <= 7 << 52 => Some(Reduction::Thrice),
            _ => None,
        }
    }
}

/// The largest multiple of eight that is at most `n`.
fn whole(n: usize) -> usize {
    n / LANES * LANES
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) fn mul_assign(m: &Modulus, a: &mut [u64], b: &[u64]) {
    let (l, end) = (Lanes::new(m), whole(a.len()));
    for i in (0..end).step_by(LANES) {
        // SAFETY: i + 8 <= end <= both lengths.
        unsafe { store(a, i, l.mul(load(a, i), load(b, i))) }
    }
    scalar::mul_assign(m, &mut a[end..], &b[end..]);
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) fn mul_into(m: &Modulus, out: &mut [u64], a: &[u64], b: &[u64]) {
    let (l, end) = (Lanes::new(m), whole(out.len()));
    for i in (0..end).step_by(LANES) {
        // SAFETY: i + 8 <= end <= all lengths.
        unsafe { store(out, i, l.mul(load(a, i), load(b, i))) }
    }
    scalar::mul_into(m, &mut out[end..], &a[end..], &b[end..]);
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) fn mul_add_assign(m: &Modulus, acc: &mut [u64], a: &[u64], b: &[u64]) {
    let (l, end) = (Lanes::new(m), whole(acc.len()));
    for i in (0..end).step_by(LANES) {
        // SAFETY: i + 8 <= end <= all lengths.
        unsafe {
            let sum = _mm512_add_epi64(load(acc, i), l.mul(load(a, i), load(b, i)));
            store(acc, i, l.reduce_once(sum));
        }
    }
    scalar::mul_add_assign(m, &mut acc[end..], &a[end..], &b[end..]);
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) fn mul_constant_assign(m: &Modulus, a: &mut [u64], w: Constant) {
    let (l, end) = (Lanes::new(m), whole(a.len()));
    let (value, quotient) = (splat(w.value), splat(w.quotient));
    for i in (0..end).step_by(LANES) {
        // SAFETY: i + 8 <= end <= the length.
        unsafe { store(a, i, l.reduce_once(l.mul_constant_lazy(load(a, i), value, quotient))) }
    }
    scalar::mul_constant_assign(m, &mut a[end..], w);
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) fn mul_constant_add(m: &Modulus, acc: &mut [u64], x: &[u64], w: Constant) {
    let (l, end) = (Lanes::new(m), whole(acc.len()));
    let (value, quotient) = (splat(w.value), splat(w.quotient));
    for i in (0..end).step_by(LANES) {
        // SAFETY: i + 8 <= end <= both lengths.
        unsafe {
            let product = l.reduce_once(l.mul_constant_lazy(load(x, i), value, quotient));
            store(acc, i, l.reduce_once(_mm512_add_epi64(load(acc, i), product)));
        }
    }
    scalar::mul_constant_add(m, &mut acc[end..], &x[end..], w);
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) fn lift_into(m: &Modulus, out: &mut [u64], x: &[u64], lift: Lift) {
    let (l, end) = (Lanes::new(m), whole(out.len()));
    // No word is above u64::MAX, so the lift of a digit never adds `less`.
    let (half, less, plus, exact) = match lift {
        Lift::Residue { prime, less, exact } => (prime / 2, less, 0, exact),
        Lift::Digit { less, .. } => (u64::MAX, 0, less, false),
    };
    let (half, less, plus, one) = (splat(half), splat(less), splat(plus), splat(m.one.value));
    for i in (0..end).step_by(LANES) {
        // SAFETY: i + 8 <= end <= both lengths.
        unsafe {
            let x = _mm512_add_epi64(load(x, i), plus);
            let x = _mm512_mask_add_epi64(x, _mm512_cmpgt_epu64_mask(x, half), x, less);
            let reduced = if exact { x } else { l.reduce_once(l.mul_constant_lazy(x, one, l.one_quotient)) };
            store(out, i, reduced);
        }
    }
    scalar::lift_into(m, &mut out[end..], &x[end..], lift);
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) fn split_in_place(rows: &mut [&mut [u64]], radix: &Radix) {
    let len = rows.first().map_or(0, |row| row.len());
    if !len.is_multiple_of(LANES) || radix.start.len() >= MOST_WORDS {
        return scalar::split_in_place(rows, radix);
    }
    by_terms!(radix.scale.len(), split(rows, radix), scalar::split_in_place(rows, radix))
}

/// The largest number of words of an integer that is decomposed, plus one.
const MOST_WORDS: usize = 16;

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
fn split<const N: usize>(rows: &mut [&mut [u64]], radix: &Radix) {
    let (zero, mask) = (_mm512_setzero_si512(), splat((1 << WORD) - 1));
    let weight: [f64; N] = std::array::from_fn(|j| radix.weight[j]);
    let factors: Vec<(&[u64; N], u64)> =
        radix.factors.iter().filter_map(|f| Some((f.first_chunk()?, *f.get(N)?))).collect();
    // Each word is written before it is read, except the last, which stays 0.
    let mut words = [zero; MOST_WORDS];
    let len = rows.first().map_or(0, |row| row.len());
    for i in (0..len).step_by(LANES) {
        // SAFETY: all rows have one length, a multiple of eight.
        let y: [__m512i; N] = std::array::from_fn(|j| unsafe { load(rows[j], i) });
        let mut multiple = _mm512_set1_pd(0.5);
        for (&y, &f) in y.iter().zip(&weight) {
            multiple = _mm512_add_pd(multiple, _mm512_mul_pd(_mm512_cvtepu64_pd(y), _mm512_set1_pd(f)));
        }
        let multiple = _mm512_cvttpd_epu64(multiple);
        let (mut above, mut carry) = (zero, zero);
        for ((word, (factors, last)), &start) in words.iter_mut().zip(&factors).zip(&radix.start) {
            let (mut low, mut high) = (splat(start), zero);
            for (&y, &factor) in y.iter().zip(*factors) {
                low = _mm512_madd52lo_epu64(low, y, splat(factor));
                high = _mm512_madd52hi_epu64(high, y, splat(factor));
            }
            // The multiple of Q is ready last, after a chain of additions.
            low = _mm512_madd52lo_epu64(low, multiple, splat(*last));
            high = _mm512_madd52hi_epu64(high, multiple, splat(*last));
            let t = _mm512_add_epi64(_mm512_add_epi64(low, above), carry);
            (*word, carry, above) = (_mm512_and_si512(t, mask), _mm512_srli_epi64::<{ WORD }>(t), high);
        }
        for (out, &(first, bits)) in rows.iter_mut().zip(&radix.digits) {
            let (word, shift) = ((first / WORD) as usize, first % WORD);
            let low = _mm512_srlv_epi64(words[word], splat(shift.into()));
            let high = _mm512_sllv_epi64(words[word + 1], splat((WORD - shift).into()));
            let digit = _mm512_and_si512(_mm512_or_si512(low, high), splat((1 << bits) - 1));
            // SAFETY: as above.
            unsafe { store(out, i, digit) };
        }
    }
}

/// The entries of `a` at the eight indices from `permutation[i]` on.
///
/// SAFETY: i must be a multiple of 8, and `a` as long as the permutation.
#[target_feature(enable = "avx512f,avx512vl")]
#[inline]
unsafe fn gathered(a: &[u64], permutation: &Permutation, i: usize) -> __m512i {
    let indices = &permutation.indices()[i..i + LANES];
    // SAFETY: `indices` has eight entries. They are below the length of the permutation, and all in one block
    // of eight entries from a multiple of eight on. The permute instruction takes lanes modulo eight.
    unsafe {
        let block = load(a, indices[0] as usize / LANES * LANES);
        let lanes = _mm512_cvtepu32_epi64(_mm256_loadu_epi32(indices.as_ptr().cast()));
        _mm512_permutexvar_epi64(lanes, block)
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) fn gather_into(out: &mut [u64], a: &[u64], permutation: &Permutation) {
    for i in (0..out.len()).step_by(LANES) {
        // SAFETY: i + 8 <= all lengths.
        unsafe { store(out, i, gathered(a, permutation, i)) }
    }
}

/// Spreads eight words of 1 to 8 bytes each, side by side in a register, to eight lanes.
#[derive(Clone, Copy)]
struct Words {
    places: __m512i,
    kept: u64,
}

impl Words {
    /// For words of `width` bytes, 1 to 8.
    #[target_feature(enable = "avx512f,avx512bw")]
    fn new(width: usize) -> Self {
        // Byte b of a word goes to byte b of its lane.
        let places: [u8; 64] =
            std::array::from_fn(|b| if b % 8 < width { (b / 8 * width + b % 8) as u8 } else { 0 });
        let kept = (0..64).filter(|b| b % 8 < width).fold(0u64, |mask, b| mask | 1 << b);
        // SAFETY: both have the size of a register; the load is unaligned.
        Words { places: unsafe { _mm512_loadu_epi8(places.as_ptr().cast()) }, kept }
    }

    /// One word in each lane.
    #[target_feature(enable = "avx512f,avx512vbmi")]
    #[inline]
    fn spread(self, bytes: __m512i) -> __m512i {
        _mm512_maskz_permutexvar_epi8(self.kept, self.places, bytes)
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) fn signed_into(m: &Modulus, out: &mut [u64], x: &[i64]) {
    let (l, end, zero) = (Lanes::new(m), whole(out.len()), _mm512_setzero_si512());
    for i in (0..end).step_by(LANES) {
        // SAFETY: i + 8 <= end <= both lengths; the load is unaligned.
        let x = unsafe { _mm512_loadu_epi64(x.as_ptr().add(i)) };
        let magnitude = _mm512_abs_epi64(x);
        let reduced = l.fold(_mm512_srli_epi64::<52>(magnitude), _mm512_and_si512(magnitude, l.mask));
        let negative = _mm512_cmplt_epi64_mask(x, zero);
        let signed = l.reduce_once(_mm512_mask_sub_epi64(reduced, negative, l.q, reduced));
        // SAFETY: as above.
        unsafe { store(out, i, signed) }
    }
    scalar::signed_into(m, &mut out[end..], &x[end..]);
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma,avx512bw,avx512vbmi")]
pub(super) fn take_residues(q: u64, out: &mut [u64], drawn: &[u8]) -> usize {
    let (mask, below, width) = (splat(u64::MAX >> q.leading_zeros()), splat(q), q.ilog2() as usize / 8 + 1);
    let (words, loaded) = (Words::new(width), u64::MAX >> (64 - LANES * width));
    let (mut taken, mut used) = (0, 0);
    // All eight lanes are stored, whatever is accepted, so there must be room for eight.
    while taken + LANES <= out.len()
        && let Some(bytes) = drawn.get(used..used + LANES * width)
    {
        // SAFETY: the mask loads eight words of `width` bytes, the length of `bytes`.
        let x = words.spread(unsafe { _mm512_maskz_loadu_epi8(loaded, bytes.as_ptr().cast()) });
        let x = _mm512_and_si512(x, mask);
        let kept = _mm512_cmplt_epu64_mask(x, below);
        // SAFETY: taken + 8 <= the length of out.
        unsafe { store(out, taken, _mm512_maskz_compress_epi64(kept, x)) };
        (taken, used) = (taken + kept.count_ones() as usize, used + bytes.len());
    }
    taken + scalar::take_residues(q, &mut out[taken..], &drawn[used..])
}
