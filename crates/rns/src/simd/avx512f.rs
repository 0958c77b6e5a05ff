//! The version of the kernels for CPUs with AVX-512 F, DQ, BW and VL but without IFMA or VBMI: those in
//! double precision ([`super::float`]) on eight lanes.
//!
//! Safety of every function here: the CPU must have the features named in `target_feature`, and the slices
//! of a call must have at least the length of the first. `super` checks both.

use super::float::entry_points;
use super::scalar;
use super::vector::{Operation, Vector};
use crate::simd::operands::{
    AccumulatorTerms, Affine, Destination, Lift, Pairs, Permutation, Radix, Rows, Term,
};
use crate::{Constant, Modulus};
use std::arch::x86_64::*;

/// Registers of 512 bits. A value proves that the CPU has AVX-512 F, DQ, BW and VL.
#[derive(Clone, Copy)]
pub(super) struct Avx512F(());

impl Avx512F {
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl")]
    #[inline]
    pub(super) fn new() -> Self {
        Avx512F(())
    }
}

entry_points! { Avx512F, "avx512f,avx512dq,avx512bw,avx512vl" }

/// Calls intrinsics that need AVX-512.
macro_rules! available {
    ($e:expr) => {
        // SAFETY: a value of `Avx512F` proves that the CPU has these instructions.
        unsafe { $e }
    };
}

impl Vector for Avx512F {
    type Doubles = __m512d;
    type Integers = __m512i;
    /// In the lower halves of lanes. The upper halves are ignored.
    type Halves = __m512i;
    /// The width, and for each byte of a half register its place in a half register that starts with two
    /// words.
    type Packing = (usize, __m512i);

    const LANES: usize = 8;
    const GROUP: usize = 8;

    #[inline(always)]
    fn call<O: Operation<Self>>(self, operation: O) {
        #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl")]
        fn run<O: Operation<Avx512F>>(operation: O) {
            operation.run(Avx512F::new());
        }
        available!(run(operation))
    }

    #[inline(always)]
    fn splat(self, x: f64) -> __m512d {
        available!(_mm512_set1_pd(x))
    }

    #[inline(always)]
    fn add(self, a: __m512d, b: __m512d) -> __m512d {
        available!(_mm512_add_pd(a, b))
    }

    #[inline(always)]
    fn sub(self, a: __m512d, b: __m512d) -> __m512d {
        available!(_mm512_sub_pd(a, b))
    }

    #[inline(always)]
    fn mul(self, a: __m512d, b: __m512d) -> __m512d {
        available!(_mm512_mul_pd(a, b))
    }

    #[inline(always)]
    fn mul_add(self, a: __m512d, b: __m512d, c: __m512d) -> __m512d {
        available!(_mm512_fmadd_pd(a, b, c))
    }

    #[inline(always)]
    fn mul_sub_from(self, a: __m512d, b: __m512d, c: __m512d) -> __m512d {
        available!(_mm512_fnmadd_pd(a, b, c))
    }

    #[inline(always)]
    fn truncate(self, x: __m512d) -> __m512d {
        available!(_mm512_roundscale_pd::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(x))
    }

    #[inline(always)]
    fn if_greater(self, a: __m512d, b: __m512d, then: __m512d) -> __m512d {
        available!(_mm512_maskz_mov_pd(_mm512_cmp_pd_mask::<_CMP_GT_OQ>(a, b), then))
    }

    #[inline(always)]
    fn bits(self, x: __m512d) -> __m512i {
        available!(_mm512_castpd_si512(x))
    }

    #[inline(always)]
    fn with_bits(self, x: __m512i) -> __m512d {
        available!(_mm512_castsi512_pd(x))
    }

    #[inline(always)]
    fn to_doubles(self, x: __m512i) -> __m512d {
        available!(_mm512_cvtepu64_pd(x))
    }

    #[inline(always)]
    fn to_integers(self, x: __m512d) -> __m512i {
        available!(_mm512_cvttpd_epu64(x))
    }

    #[inline(always)]
    fn splat_integer(self, x: u64) -> __m512i {
        available!(_mm512_set1_epi64(x as i64))
    }

    #[inline(always)]
    fn add_integers(self, a: __m512i, b: __m512i) -> __m512i {
        available!(_mm512_add_epi64(a, b))
    }

    #[inline(always)]
    fn sub_integers(self, a: __m512i, b: __m512i) -> __m512i {
        available!(_mm512_sub_epi64(a, b))
    }

    #[inline(always)]
    fn and(self, a: __m512i, b: __m512i) -> __m512i {
        available!(_mm512_and_si512(a, b))
    }

    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        available!(_mm512_or_si512(a, b))
    }

    #[inline(always)]
    fn shift_left(self, x: __m512i, n: u32) -> __m512i {
        available!(_mm512_sll_epi64(x, _mm_cvtsi32_si128(n as i32)))
    }

    #[inline(always)]
    fn shift_right(self, x: __m512i, n: u32) -> __m512i {
        available!(_mm512_srl_epi64(x, _mm_cvtsi32_si128(n as i32)))
    }

    #[inline(always)]
    fn splat_half(self, x: u32) -> __m512i {
        self.splat_integer(u64::from(x))
    }

    #[inline(always)]
    fn halves(self, x: __m512i) -> __m512i {
        x
    }

    #[inline(always)]
    fn mul_halves(self, a: __m512i, b: __m512i) -> __m512i {
        available!(_mm512_mul_epu32(a, b))
    }

    #[inline(always)]
    unsafe fn load(self, x: &[u64], i: usize) -> __m512i {
        debug_assert!(i + Self::LANES <= x.len());
        // SAFETY: in bounds by the caller's promise; the load is unaligned.
        unsafe { _mm512_loadu_si512(x.as_ptr().add(i).cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, x: &mut [u64], i: usize, v: __m512i) {
        debug_assert!(i + Self::LANES <= x.len());
        // SAFETY: in bounds by the caller's promise; the store is unaligned.
        unsafe { _mm512_storeu_si512(x.as_mut_ptr().add(i).cast(), v) }
    }

    #[inline(always)]
    unsafe fn load_f64(self, x: &[f64], i: usize) -> __m512d {
        debug_assert!(i + Self::LANES <= x.len());
        // SAFETY: in bounds by the caller's promise; the load is unaligned.
        unsafe { _mm512_loadu_pd(x.as_ptr().add(i)) }
    }

    #[inline(always)]
    unsafe fn load_halves(self, bytes: *const u8) -> __m512i {
        // SAFETY: by the caller's promise.
        unsafe { self.load_widened(bytes) }
    }

    #[inline(always)]
    unsafe fn load_widened(self, bytes: *const u8) -> __m512i {
        // SAFETY: by the caller's promise; the load is unaligned.
        unsafe { _mm512_cvtepu32_epi64(_mm256_loadu_si256(bytes.cast())) }
    }

    #[inline(always)]
    unsafe fn load_repeated(self, x: &[u64], i: usize, stride: usize) -> __m512i {
        match stride {
            // SAFETY: by the caller's promise.
            1 => unsafe { self.load(x, i) },
            2 | 4 => {
                let words: [u64; Self::LANES] = std::array::from_fn(|l| x[(i + l) / stride]);
                // SAFETY: `words` has the size of a register.
                unsafe { self.load(&words, 0) }
            }
            _ => self.splat_integer(x[i / stride]),
        }
    }

    #[inline(always)]
    fn packing(self, width: usize) -> (usize, __m512i) {
        // An index with the upper bit set gives 0.
        let place = |b: usize| if b % 8 < width { (b % 16 / 8 * width + b % 8) as u8 } else { 0x80 };
        let places: [u8; 64] = std::array::from_fn(place);
        // SAFETY: `places` has the size of a register; the load is unaligned.
        (width, unsafe { _mm512_loadu_si512(places.as_ptr().cast()) })
    }

    #[inline(always)]
    unsafe fn load_encrypted(self, bytes: *const u8, (width, places): (usize, __m512i)) -> __m512i {
        // SAFETY: 16 bytes from every other word on are readable by the caller's promise; the loads are
        // unaligned.
        unsafe {
            let two = |k: usize| _mm_loadu_si128(bytes.add(2 * k * width).cast());
            let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(two(0)), two(1));
            let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(two(2)), two(3));
            let words = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
            _mm512_shuffle_epi8(words, places)
        }
    }

    #[inline(always)]
    fn permute(self, block: &mut [__m512i; 4], indices: &[u32; 8]) {
        // SAFETY: eight indices are in bounds; the load is unaligned. The instruction takes them modulo
        // eight.
        let lanes = unsafe { self.load_widened(indices.as_ptr().cast()) };
        block[0] = available!(_mm512_permutexvar_epi64(lanes, block[0]));
    }

    #[inline(always)]
    fn transpose(self, v: &mut [__m512d; 8]) {
        available!({
            // Pairs of entries of adjacent registers: of even entries, then of odd ones.
            let [a, b, c, d, e, f, g, h] = *v;
            let even = [
                _mm512_unpacklo_pd(a, b),
                _mm512_unpacklo_pd(c, d),
                _mm512_unpacklo_pd(e, f),
                _mm512_unpacklo_pd(g, h),
            ];
            let odd = [
                _mm512_unpackhi_pd(a, b),
                _mm512_unpackhi_pd(c, d),
                _mm512_unpackhi_pd(e, f),
                _mm512_unpackhi_pd(g, h),
            ];
            for (first, [a, b, c, d]) in [even, odd].into_iter().enumerate() {
                // Pairs 0 and 2, or 1 and 3, of two registers each.
                let (ab0, ab1) = (_mm512_shuffle_f64x2::<0x88>(a, b), _mm512_shuffle_f64x2::<0xdd>(a, b));
                let (cd0, cd1) = (_mm512_shuffle_f64x2::<0x88>(c, d), _mm512_shuffle_f64x2::<0xdd>(c, d));
                v[first] = _mm512_shuffle_f64x2::<0x88>(ab0, cd0);
                v[first + 2] = _mm512_shuffle_f64x2::<0x88>(ab1, cd1);
                v[first + 4] = _mm512_shuffle_f64x2::<0xdd>(ab0, cd0);
                v[first + 6] = _mm512_shuffle_f64x2::<0xdd>(ab1, cd1);
            }
        })
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl")]
pub(super) fn gather_into(out: &mut [u64], a: &[u64], permutation: &Permutation) {
    let (v, lanes) = (Avx512F::new(), Avx512F::LANES);
    for (i, indices) in (0..).step_by(lanes).zip(permutation.indices().as_chunks::<8>().0) {
        let from = indices[0] as usize / lanes * lanes;
        // SAFETY: i + 8 <= all lengths. The indices are below the length of the permutation, which is a
        // multiple of eight, and all in one block of eight entries.
        unsafe {
            let mut block = [v.load(a, from); 4];
            v.permute(&mut block, indices);
            v.store(out, i, block[0]);
        }
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl")]
pub(super) fn take_residues(q: u64, out: &mut [u64], drawn: &[u8]) -> usize {
    let v = Avx512F::new();
    let (mask, below) = (v.splat_integer(u64::MAX >> q.leading_zeros()), v.splat_integer(q));
    let width = q.ilog2() as usize / 8 + 1;
    let packing = v.packing(width);
    let (mut taken, mut used) = (0, 0);
    // All eight lanes are stored, whatever is accepted, so there must be room for eight.
    while taken + Avx512F::LANES <= out.len()
        && let Some(bytes) = drawn.get(used..used + 6 * width + 16)
    {
        // SAFETY: six words and 16 bytes from the seventh on are read.
        let x = v.and(unsafe { v.load_encrypted(bytes.as_ptr(), packing) }, mask);
        let kept = _mm512_cmplt_epu64_mask(x, below);
        // SAFETY: taken + 8 <= the length of out.
        unsafe { v.store(out, taken, _mm512_maskz_compress_epi64(kept, x)) };
        (taken, used) = (taken + kept.count_ones() as usize, used + Avx512F::LANES * width);
    }
    taken + scalar::take_residues(q, &mut out[taken..], &drawn[used..])
}
