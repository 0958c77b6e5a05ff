//! The AVX2 version of the kernels, for CPUs with AVX2 and FMA: those in double precision ([`super::float`])
//! on four lanes.
//!
//! Safety of every function here: the CPU must have the features named in `target_feature`, and the slices
//! of a call must have at least the length of the first. `super` checks both.

use super::float::{TWO_52, entry_points};
use super::scalar;
use super::vector::{Operation, Vector};
use crate::simd::operands::{
    AccumulatorTerms, Affine, Destination, Lift, Pairs, Permutation, Radix, Rows, Term,
};
use crate::{Constant, Modulus};
use std::arch::x86_64::*;

/// Registers of 256 bits. A value proves that the CPU has AVX2 and FMA.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

impl Avx2 {
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub(super) fn new() -> Self {
        Avx2(())
    }
}

entry_points! { Avx2, "avx2,fma" }

#[target_feature(enable = "avx2,fma")]
pub(super) fn gather_into(out: &mut [u64], a: &[u64], permutation: &Permutation) {
    let (v, lanes) = (Avx2::new(), Avx2::LANES);
    for (i, indices) in (0..).step_by(2 * lanes).zip(permutation.indices().as_chunks::<8>().0) {
        let from = indices[0] as usize / (2 * lanes) * (2 * lanes);
        // SAFETY: i + 8 <= all lengths. The indices are below the length of the permutation, which is a
        // multiple of eight, and all in one block of eight entries.
        unsafe {
            let mut block =
                [v.load(a, from), v.load(a, from + lanes), v.splat_integer(0), v.splat_integer(0)];
            v.permute(&mut block, indices);
            v.store(out, i, block[0]);
            v.store(out, i + lanes, block[1]);
        }
    }
}

/// Calls intrinsics that need AVX2 or FMA.
macro_rules! available {
    ($e:expr) => {
        // SAFETY: a value of `Avx2` proves that the CPU has these instructions.
        unsafe { $e }
    };
}

impl Vector for Avx2 {
    type Doubles = __m256d;
    type Integers = __m256i;
    /// In the lower halves of lanes. The upper halves are ignored.
    type Halves = __m256i;
    /// The width, and for each byte of a half register its place in a half register that starts with two
    /// words.
    type Packing = (usize, __m256i);

    const LANES: usize = 4;
    const GROUP: usize = 4;

    #[inline(always)]
    fn call<O: Operation<Self>>(self, operation: O) {
        #[target_feature(enable = "avx2,fma")]
        fn run<O: Operation<Avx2>>(operation: O) {
            operation.run(Avx2::new());
        }
        available!(run(operation))
    }

    #[inline(always)]
    fn splat(self, x: f64) -> __m256d {
        available!(_mm256_set1_pd(x))
    }

    #[inline(always)]
    fn add(self, a: __m256d, b: __m256d) -> __m256d {
        available!(_mm256_add_pd(a, b))
    }

    #[inline(always)]
    fn sub(self, a: __m256d, b: __m256d) -> __m256d {
        available!(_mm256_sub_pd(a, b))
    }

    #[inline(always)]
    fn mul(self, a: __m256d, b: __m256d) -> __m256d {
        available!(_mm256_mul_pd(a, b))
    }

    #[inline(always)]
    fn mul_add(self, a: __m256d, b: __m256d, c: __m256d) -> __m256d {
        available!(_mm256_fmadd_pd(a, b, c))
    }

    #[inline(always)]
    fn mul_sub_from(self, a: __m256d, b: __m256d, c: __m256d) -> __m256d {
        available!(_mm256_fnmadd_pd(a, b, c))
    }

    #[inline(always)]
    fn truncate(self, x: __m256d) -> __m256d {
        available!(_mm256_round_pd::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(x))
    }

    #[inline(always)]
    fn if_greater(self, a: __m256d, b: __m256d, then: __m256d) -> __m256d {
        available!(_mm256_and_pd(_mm256_cmp_pd::<_CMP_GT_OQ>(a, b), then))
    }

    #[inline(always)]
    fn bits(self, x: __m256d) -> __m256i {
        available!(_mm256_castpd_si256(x))
    }

    #[inline(always)]
    fn with_bits(self, x: __m256i) -> __m256d {
        available!(_mm256_castsi256_pd(x))
    }

    #[inline(always)]
    fn to_doubles(self, x: __m256i) -> __m256d {
        let magic = self.splat(TWO_52);
        available!(_mm256_sub_pd(_mm256_or_pd(_mm256_castsi256_pd(x), magic), magic))
    }

    #[inline(always)]
    fn to_integers(self, x: __m256d) -> __m256i {
        let magic = self.splat(TWO_52);
        available!(_mm256_castpd_si256(_mm256_xor_pd(_mm256_add_pd(x, magic), magic)))
    }

    #[inline(always)]
    fn splat_integer(self, x: u64) -> __m256i {
        available!(_mm256_set1_epi64x(x as i64))
    }

    #[inline(always)]
    fn add_integers(self, a: __m256i, b: __m256i) -> __m256i {
        available!(_mm256_add_epi64(a, b))
    }

    #[inline(always)]
    fn sub_integers(self, a: __m256i, b: __m256i) -> __m256i {
        available!(_mm256_sub_epi64(a, b))
    }

    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        available!(_mm256_and_si256(a, b))
    }

    #[inline(always)]
    fn or(self, a: __m256i, b: __m256i) -> __m256i {
        available!(_mm256_or_si256(a, b))
    }

    #[inline(always)]
    fn shift_left(self, x: __m256i, n: u32) -> __m256i {
        available!(_mm256_sll_epi64(x, _mm_cvtsi32_si128(n as i32)))
    }

    #[inline(always)]
    fn shift_right(self, x: __m256i, n: u32) -> __m256i {
        available!(_mm256_srl_epi64(x, _mm_cvtsi32_si128(n as i32)))
    }

    #[inline(always)]
    fn splat_half(self, x: u32) -> __m256i {
        self.splat_integer(u64::from(x))
    }

    #[inline(always)]
    fn halves(self, x: __m256i) -> __m256i {
        x
    }

    #[inline(always)]
    fn mul_halves(self, a: __m256i, b: __m256i) -> __m256i {
        available!(_mm256_mul_epu32(a, b))
    }

    #[inline(always)]
    unsafe fn load(self, x: &[u64], i: usize) -> __m256i {
        debug_assert!(i + Self::LANES <= x.len());
        // SAFETY: in bounds by the caller's promise; the load is unaligned.
        unsafe { _mm256_loadu_si256(x.as_ptr().add(i).cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, x: &mut [u64], i: usize, v: __m256i) {
        debug_assert!(i + Self::LANES <= x.len());
        // SAFETY: in bounds by the caller's promise; the store is unaligned.
        unsafe { _mm256_storeu_si256(x.as_mut_ptr().add(i).cast(), v) }
    }

    #[inline(always)]
    unsafe fn load_f64(self, x: &[f64], i: usize) -> __m256d {
        debug_assert!(i + Self::LANES <= x.len());
        // SAFETY: in bounds by the caller's promise; the load is unaligned.
        unsafe { _mm256_loadu_pd(x.as_ptr().add(i)) }
    }

    #[inline(always)]
    unsafe fn load_halves(self, bytes: *const u8) -> __m256i {
        // SAFETY: by the caller's promise.
        unsafe { self.load_widened(bytes) }
    }

    #[inline(always)]
    unsafe fn load_widened(self, bytes: *const u8) -> __m256i {
        // SAFETY: by the caller's promise; the load is unaligned.
        unsafe { _mm256_cvtepu32_epi64(_mm_loadu_si128(bytes.cast())) }
    }

    #[inline(always)]
    unsafe fn load_repeated(self, x: &[u64], i: usize, stride: usize) -> __m256i {
        match stride {
            // SAFETY: by the caller's promise.
            1 => unsafe { self.load(x, i) },
            2 => {
                debug_assert!(i / 2 + 2 <= x.len());
                // SAFETY: two entries are in bounds by the caller's promise; the load is unaligned.
                let two = available!(_mm_loadu_si128(x.as_ptr().add(i / 2).cast()));
                available!(_mm256_permute4x64_epi64::<0b0101_0000>(_mm256_castsi128_si256(two)))
            }
            _ => self.splat_integer(x[i / stride]),
        }
    }

    #[inline(always)]
    fn packing(self, width: usize) -> (usize, __m256i) {
        // An index with the upper bit set gives 0.
        let place = |b: usize| if b % 8 < width { (b % 16 / 8 * width + b % 8) as u8 } else { 0x80 };
        let places: [u8; 32] = std::array::from_fn(place);
        // SAFETY: `places` has the size of a register; the load is unaligned.
        (width, unsafe { _mm256_loadu_si256(places.as_ptr().cast()) })
    }

    #[inline(always)]
    unsafe fn load_encrypted(self, bytes: *const u8, (width, places): (usize, __m256i)) -> __m256i {
        // SAFETY: 16 bytes from the first word and from the third word on are readable by the caller's
        // promise; the loads are unaligned.
        unsafe {
            let low = _mm_loadu_si128(bytes.cast());
            let high = _mm_loadu_si128(bytes.add(2 * width).cast());
            _mm256_shuffle_epi8(_mm256_set_m128i(high, low), places)
        }
    }

    #[inline(always)]
    fn permute(self, block: &mut [__m256i; 4], indices: &[u32; 8]) {
        let [low, high, ..] = *block;
        for (half, out) in block[..2].iter_mut().enumerate() {
            // SAFETY: four indices from 4·half on are in bounds; the load is unaligned.
            let lanes =
                unsafe { _mm256_cvtepu32_epi64(_mm_loadu_si128(indices.as_ptr().add(4 * half).cast())) };
            // Indices of halves of lanes, which the instruction takes modulo eight; bit 2 of an index says
            // which register.
            let first = self.add_integers(lanes, lanes);
            let second = self.or(first, self.splat_integer(1));
            let halves = self.or(first, self.shift_left(second, 32));
            let from_low = self.with_bits(available!(_mm256_permutevar8x32_epi32(low, halves)));
            let from_high = self.with_bits(available!(_mm256_permutevar8x32_epi32(high, halves)));
            let which = self.with_bits(self.shift_left(lanes, 61));
            *out = self.bits(available!(_mm256_blendv_pd(from_low, from_high, which)));
        }
    }

    #[inline(always)]
    fn transpose(self, v: &mut [__m256d; 8]) {
        for v in v.as_chunks_mut::<4>().0 {
            let [a, b, c, d] = *v;
            *v = available!({
                let (ab0, ab1) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
                let (cd0, cd1) = (_mm256_unpacklo_pd(c, d), _mm256_unpackhi_pd(c, d));
                [
                    _mm256_permute2f128_pd::<0x20>(ab0, cd0),
                    _mm256_permute2f128_pd::<0x20>(ab1, cd1),
                    _mm256_permute2f128_pd::<0x31>(ab0, cd0),
                    _mm256_permute2f128_pd::<0x31>(ab1, cd1),
                ]
            });
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
    let v = Avx2::new();
    let (mask, below) = (v.splat_integer(u64::MAX >> q.leading_zeros()), v.splat_integer(q));
    let width = q.ilog2() as usize / 8 + 1;
    let packing = v.packing(width);
    let (mut taken, mut used) = (0, 0);
    // All four lanes are stored, whatever is accepted, so there must be room for four.
    while taken + Avx2::LANES <= out.len()
        && let Some(bytes) = drawn.get(used..used + 2 * width + 16)
    {
        // SAFETY: two words and a half register from the third on are read.
        let x = v.and(unsafe { v.load_encrypted(bytes.as_ptr(), packing) }, mask);
        let kept = _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(below, x))) as usize;
        // SAFETY: an entry of the table has the size of a register; taken + 4 <= the length of out.
        unsafe {
            let lanes = _mm256_loadu_si256(KEPT[kept].as_ptr().cast());
            v.store(out, taken, _mm256_permutevar8x32_epi32(x, lanes));
        }
        (taken, used) = (taken + kept.count_ones() as usize, used + Avx2::LANES * width);
    }
    taken + scalar::take_residues(q, &mut out[taken..], &drawn[used..])
}
