//! AVX-512 versions. Products use the 52-bit multiply-add of IFMA; everything else is the scalar twin
//! compiled for 512-bit registers. Tails shorter than a register go to the twin.
//!
//! Safety of every function here: the CPU must have the features named in `target_feature`, and slices of
//! one call must have the length of the first (`super` checks both).

use super::scalar;
use crate::{Constant, Modulus};
use std::arch::x86_64::*;

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
    neg_assign(m: &Modulus, a: &mut [u64]);
    add_constant(m: &Modulus, a: &mut [u64], c: u64);
    signed_ranks_into(out: &mut [i64], words: &[u64], table: &[u64]);
}

const LANES: usize = 8;

/// A modulus broadcast to all lanes.
struct Lanes {
    q: __m512i,
    two_q: __m512i,
    barrett: __m512i,
    right: __m128i,
    left: __m128i,
    word: (__m512i, __m512i),
    one_quotient: __m512i,
    mask: __m512i,
}

#[target_feature(enable = "avx512f")]
pub(super) fn splat(x: u64) -> __m512i {
    _mm512_set1_epi64(x as i64)
}

/// SAFETY: `i + 8 <= x.len()`.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn load(x: &[u64], i: usize) -> __m512i {
    debug_assert!(i + LANES <= x.len());
    // SAFETY: in bounds by the caller's promise; the load is unaligned.
    unsafe { _mm512_loadu_epi64(x.as_ptr().add(i).cast()) }
}

/// SAFETY: `i + 8 <= x.len()`.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn store(x: &mut [u64], i: usize, v: __m512i) {
    debug_assert!(i + LANES <= x.len());
    // SAFETY: in bounds by the caller's promise; the store is unaligned.
    unsafe { _mm512_storeu_epi64(x.as_mut_ptr().add(i).cast(), v) }
}

impl Lanes {
    #[target_feature(enable = "avx512f")]
    fn new(m: &Modulus) -> Self {
        Lanes {
            q: splat(m.value()),
            two_q: splat(2 * m.value()),
            barrett: splat(m.barrett),
            right: _mm_cvtsi64_si128(i64::from(m.shift)),
            left: _mm_cvtsi64_si128(52 - i64::from(m.shift)),
            word: (splat(m.word.value), splat(m.word.quotient)),
            one_quotient: splat(m.one.quotient),
            mask: splat((1 << 52) - 1),
        }
    }

    /// x mod q for x < 2q.
    #[target_feature(enable = "avx512f")]
    fn reduce_once(&self, x: __m512i) -> __m512i {
        _mm512_min_epu64(x, _mm512_sub_epi64(x, self.q))
    }

    /// x mod q for x < 4q.
    #[target_feature(enable = "avx512f")]
    fn reduce_twice(&self, x: __m512i) -> __m512i {
        self.reduce_once(_mm512_min_epu64(x, _mm512_sub_epi64(x, self.two_q)))
    }

    /// a·b, both reduced: `Modulus::mul`.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn mul(&self, a: __m512i, b: __m512i) -> __m512i {
        let zero = _mm512_setzero_si512();
        let low = _mm512_madd52lo_epu64(zero, a, b);
        let high = _mm512_madd52hi_epu64(zero, a, b);
        let top = _mm512_or_si512(_mm512_sll_epi64(high, self.left), _mm512_srl_epi64(low, self.right));
        let estimate = _mm512_madd52hi_epu64(zero, top, self.barrett);
        let r = _mm512_sub_epi64(low, _mm512_madd52lo_epu64(zero, estimate, self.q));
        self.reduce_twice(_mm512_and_si512(r, self.mask))
    }

    /// x·w, x < 2⁵², in [0, 2q): `Modulus::mul_constant_lazy`.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn mul_constant_lazy(&self, x: __m512i, value: __m512i, quotient: __m512i) -> __m512i {
        let zero = _mm512_setzero_si512();
        let estimate = _mm512_madd52hi_epu64(zero, x, quotient);
        let product = _mm512_madd52lo_epu64(zero, x, value);
        let r = _mm512_sub_epi64(product, _mm512_madd52lo_epu64(zero, estimate, self.q));
        _mm512_and_si512(r, self.mask)
    }

    /// high·2⁵² + low for a 64-bit low accumulator: `Modulus::fold` after the carry.
    #[target_feature(enable = "avx512f,avx512ifma")]
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

/// The multiple of eight not above `n`.
fn whole(n: usize) -> usize {
    n / LANES * LANES
}

fn tails<'a>(x: &[&'a [u64]], start: usize) -> Vec<&'a [u64]> {
    x.iter().map(|x| &x[start..]).collect()
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
pub(super) fn sub_mul_constant_assign(m: &Modulus, a: &mut [u64], b: &[u64], w: Constant) {
    let (l, end) = (Lanes::new(m), whole(a.len()));
    let (value, quotient) = (splat(w.value), splat(w.quotient));
    for i in (0..end).step_by(LANES) {
        // SAFETY: i + 8 <= end <= both lengths.
        unsafe {
            let x = _mm512_sub_epi64(_mm512_add_epi64(load(a, i), l.q), load(b, i));
            store(a, i, l.reduce_once(l.mul_constant_lazy(x, value, quotient)));
        }
    }
    scalar::sub_mul_constant_assign(m, &mut a[end..], &b[end..], w);
}

/// Calls `$f::<N>` with the number of terms as a constant, so that pointers and constants stay in registers; longer sums
/// go to the twin.
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
            _ => $otherwise,
        }
    };
}

/// `x` as an array of its first N slices; N is `x.len()`.
fn array<'a, const N: usize>(x: &[&'a [u64]]) -> [&'a [u64]; N] {
    std::array::from_fn(|i| x[i])
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) fn combine_into(m: &Modulus, out: &mut [u64], x: &[&[u64]], c: &[u64]) {
    by_terms!(x.len(), combine(m, out, x, c), scalar::combine_into(m, out, x, c))
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
fn combine<const N: usize>(m: &Modulus, out: &mut [u64], x: &[&[u64]], c: &[u64]) {
    /// Registers in flight.
    const WIDE: usize = 2;
    let (l, end) = (Lanes::new(m), out.len() / (LANES * WIDE) * (LANES * WIDE));
    let xs: [&[u64]; N] = array(x);
    let cs: [__m512i; N] = std::array::from_fn(|j| splat(c[j]));
    for i in (0..end).step_by(LANES * WIDE) {
        let mut low = [_mm512_setzero_si512(); WIDE];
        let mut high = [_mm512_setzero_si512(); WIDE];
        for j in 0..N {
            for w in 0..WIDE {
                // SAFETY: i + 8·WIDE <= end <= all lengths.
                let v = unsafe { load(xs[j], i + LANES * w) };
                low[w] = _mm512_madd52lo_epu64(low[w], v, cs[j]);
                high[w] = _mm512_madd52hi_epu64(high[w], v, cs[j]);
            }
        }
        for w in 0..WIDE {
            // SAFETY: as above.
            unsafe { store(out, i + LANES * w, l.fold(high[w], low[w])) }
        }
    }
    if end < out.len() {
        scalar::combine_into(m, &mut out[end..], &tails(x, end), c);
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) fn combine_pair_into(
    m: [&Modulus; 2],
    out0: &mut [u64],
    out1: &mut [u64],
    x: &[&[u64]],
    c: [&[u64]; 2],
) {
    by_terms!(x.len(), combine_pair(m, out0, out1, x, c), scalar::combine_pair_into(m, out0, out1, x, c))
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
fn combine_pair<const N: usize>(
    m: [&Modulus; 2],
    out0: &mut [u64],
    out1: &mut [u64],
    x: &[&[u64]],
    c: [&[u64]; 2],
) {
    let (l, end) = ([Lanes::new(m[0]), Lanes::new(m[1])], whole(out0.len()));
    let xs: [&[u64]; N] = array(x);
    let c0: [__m512i; N] = std::array::from_fn(|j| splat(c[0][j]));
    let c1: [__m512i; N] = std::array::from_fn(|j| splat(c[1][j]));
    let zero = _mm512_setzero_si512();
    for i in (0..end).step_by(LANES) {
        let (mut low0, mut high0, mut low1, mut high1) = (zero, zero, zero, zero);
        for j in 0..N {
            // SAFETY: i + 8 <= end <= all lengths.
            let v = unsafe { load(xs[j], i) };
            low0 = _mm512_madd52lo_epu64(low0, v, c0[j]);
            high0 = _mm512_madd52hi_epu64(high0, v, c0[j]);
            low1 = _mm512_madd52lo_epu64(low1, v, c1[j]);
            high1 = _mm512_madd52hi_epu64(high1, v, c1[j]);
        }
        // SAFETY: as above.
        unsafe {
            store(out0, i, l[0].fold(high0, low0));
            store(out1, i, l[1].fold(high1, low1));
        }
    }
    if end < out0.len() {
        scalar::combine_pair_into(m, &mut out0[end..], &mut out1[end..], &tails(x, end), c);
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) fn products_times_constant_add(
    m: &Modulus,
    acc: &mut [u64],
    x: &[&[u64]],
    y: &[&[u64]],
    w: Constant,
) {
    by_terms!(
        x.len(),
        products_times_constant(m, acc, x, y, w),
        scalar::products_times_constant_add(m, acc, x, y, w)
    )
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
fn products_times_constant<const N: usize>(
    m: &Modulus,
    acc: &mut [u64],
    x: &[&[u64]],
    y: &[&[u64]],
    w: Constant,
) {
    let (l, end) = (Lanes::new(m), whole(acc.len()));
    let (xs, ys) = (array::<N>(x), array::<N>(y));
    let (value, quotient) = (splat(w.value), splat(w.quotient));
    for i in (0..end).step_by(LANES) {
        let (mut low, mut high) = (_mm512_setzero_si512(), _mm512_setzero_si512());
        for j in 0..N {
            // SAFETY: i + 8 <= end <= all lengths.
            let (x, y) = unsafe { (load(xs[j], i), load(ys[j], i)) };
            low = _mm512_madd52lo_epu64(low, x, y);
            high = _mm512_madd52hi_epu64(high, x, y);
        }
        let product = l.reduce_once(l.mul_constant_lazy(l.fold(high, low), value, quotient));
        // SAFETY: as above.
        unsafe { store(acc, i, l.reduce_once(_mm512_add_epi64(load(acc, i), product))) }
    }
    if end < acc.len() {
        scalar::products_times_constant_add(m, &mut acc[end..], &tails(x, end), &tails(y, end), w);
    }
}

/// Entries of `a` at eight indices from `permutation[i]` on.
///
/// SAFETY: `i + 8 <= permutation.len()`, `a` is not empty and has at most 2³¹ entries.
#[target_feature(enable = "avx512f,avx512vl")]
unsafe fn gathered(a: &[u64], permutation: &[u32], i: usize) -> __m512i {
    debug_assert!(i + LANES <= permutation.len() && !a.is_empty());
    // SAFETY: the indices are read in bounds by the caller's promise and then cut to the last entry of `a`.
    unsafe {
        let indices = _mm256_loadu_epi32(permutation.as_ptr().add(i).cast());
        let indices = _mm256_min_epu32(indices, _mm256_set1_epi32((a.len() - 1) as i32));
        _mm512_i32gather_epi64::<8>(indices, a.as_ptr().cast())
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) fn gather_add(m: &Modulus, acc: &mut [u64], a: &[u64], permutation: &[u32], negative: bool) {
    let (l, end) = (Lanes::new(m), if a.len() < 1 << 31 { whole(acc.len()) } else { 0 });
    for i in (0..end).step_by(LANES) {
        // SAFETY: i + 8 <= end <= all lengths, which are not 0 then.
        unsafe {
            let x = gathered(a, permutation, i);
            let x = if negative { _mm512_sub_epi64(l.q, x) } else { x };
            store(acc, i, l.reduce_once(_mm512_add_epi64(load(acc, i), x)));
        }
    }
    for (o, &i) in acc[end..].iter_mut().zip(&permutation[end..]) {
        let x = a[(a.len() - 1).min(i as usize)];
        *o = if negative { m.sub(*o, x) } else { m.add(*o, x) };
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) fn gather_into(out: &mut [u64], a: &[u64], permutation: &[u32]) {
    let end = if a.len() < 1 << 31 { whole(out.len()) } else { 0 };
    for i in (0..end).step_by(LANES) {
        // SAFETY: i + 8 <= end <= all lengths, which are not 0 then.
        unsafe { store(out, i, gathered(a, permutation, i)) }
    }
    for (o, &i) in out[end..].iter_mut().zip(&permutation[end..]) {
        *o = a[(a.len() - 1).min(i as usize)];
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) fn inner_products_into(
    m: &Modulus,
    out0: &mut [u64],
    out1: &mut [u64],
    x: &[&[u64]],
    y: &[&[u64]],
    z: &[&[u64]],
) {
    by_terms!(
        x.len(),
        inner_products(m, out0, out1, x, y, z),
        scalar::inner_products_into(m, out0, out1, x, y, z)
    )
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
fn inner_products<const N: usize>(
    m: &Modulus,
    out0: &mut [u64],
    out1: &mut [u64],
    x: &[&[u64]],
    y: &[&[u64]],
    z: &[&[u64]],
) {
    let (l, end) = (Lanes::new(m), whole(out0.len()));
    let (xs, ys, zs) = (array::<N>(x), array::<N>(y), array::<N>(z));
    let zero = _mm512_setzero_si512();
    for i in (0..end).step_by(LANES) {
        let (mut low0, mut high0, mut low1, mut high1) = (zero, zero, zero, zero);
        for j in 0..N {
            // SAFETY: i + 8 <= end <= all lengths.
            let (x, y, z) = unsafe { (load(xs[j], i), load(ys[j], i), load(zs[j], i)) };
            low0 = _mm512_madd52lo_epu64(low0, x, y);
            high0 = _mm512_madd52hi_epu64(high0, x, y);
            low1 = _mm512_madd52lo_epu64(low1, x, z);
            high1 = _mm512_madd52hi_epu64(high1, x, z);
        }
        // SAFETY: as above.
        unsafe {
            store(out0, i, l.fold(high0, low0));
            store(out1, i, l.fold(high1, low1));
        }
    }
    if end < out0.len() {
        let (x, y, z) = (tails(x, end), tails(y, end), tails(z, end));
        scalar::inner_products_into(m, &mut out0[end..], &mut out1[end..], &x, &y, &z);
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) fn inner_products_short_into(
    m: &Modulus,
    out0: &mut [u64],
    out1: &mut [u64],
    x: &[&[u64]],
    y: &[&[u64]],
    z: &[&[u64]],
) {
    let stride = x.first().map_or(1, |x| out0.len() / x.len());
    if !stride.is_multiple_of(LANES) || x.iter().any(|x| x.len() * stride != out0.len()) {
        return scalar::inner_products_short_into(m, out0, out1, x, y, z);
    }
    by_terms!(
        x.len(),
        inner_products_short(m, out0, out1, x, y, z, stride),
        scalar::inner_products_short_into(m, out0, out1, x, y, z)
    )
}

/// `stride` is a multiple of eight, and every x has `out0.len() / stride` entries.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
fn inner_products_short<const N: usize>(
    m: &Modulus,
    out0: &mut [u64],
    out1: &mut [u64],
    x: &[&[u64]],
    y: &[&[u64]],
    z: &[&[u64]],
    stride: usize,
) {
    let l = Lanes::new(m);
    let (xs, ys, zs) = (array::<N>(x), array::<N>(y), array::<N>(z));
    let zero = _mm512_setzero_si512();
    for start in (0..out0.len()).step_by(stride) {
        let x: [__m512i; N] = std::array::from_fn(|j| splat(xs[j][start / stride]));
        for i in (start..start + stride).step_by(LANES) {
            let (mut low0, mut high0, mut low1, mut high1) = (zero, zero, zero, zero);
            for (j, &x) in x.iter().enumerate() {
                // SAFETY: stride is a multiple of eight, so i + 8 <= start + stride <= all lengths.
                let (y, z) = unsafe { (load(ys[j], i), load(zs[j], i)) };
                low0 = _mm512_madd52lo_epu64(low0, x, y);
                high0 = _mm512_madd52hi_epu64(high0, x, y);
                low1 = _mm512_madd52lo_epu64(low1, x, z);
                high1 = _mm512_madd52hi_epu64(high1, x, z);
            }
            // SAFETY: as above.
            unsafe {
                store(out0, i, l.fold(high0, low0));
                store(out1, i, l.fold(high1, low1));
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) fn rounded_sum_into(out: &mut [u64], x: &[&[u64]], f: &[f64]) {
    let end = whole(out.len());
    for i in (0..end).step_by(LANES) {
        let mut sum = _mm512_set1_pd(0.5);
        for (x, &f) in x.iter().zip(f) {
            // SAFETY: i + 8 <= end <= all lengths.
            let v = _mm512_cvtepu64_pd(unsafe { load(x, i) });
            sum = _mm512_add_pd(sum, _mm512_mul_pd(v, _mm512_set1_pd(f)));
        }
        // SAFETY: as above.
        unsafe { store(out, i, _mm512_cvttpd_epu64(sum)) }
    }
    if end < out.len() {
        scalar::rounded_sum_into(&mut out[end..], &tails(x, end), f);
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
