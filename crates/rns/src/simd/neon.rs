//! The NEON version of the kernels, for all processors of the architecture aarch64: those in double precision
//! ([`super::float`]) on two lanes. Kernels that move words one by one are the scalar ones.
//!
//! Safety of every function here: the slices of a call must have at least the length of the first. `super`
//! checks it.

use super::float::entry_points;
use super::scalar;
use super::vector::{Operation, Vector};
use crate::simd::operands::{
    AccumulatorTerms, Affine, Destination, Lift, Pairs, Permutation, Radix, Rows, Term,
};
use crate::{Constant, Modulus};
use std::arch::aarch64::*;

/// Registers of 128 bits, which every processor of the architecture has.
#[derive(Clone, Copy)]
pub(super) struct Neon;

impl Neon {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Neon
    }
}

entry_points! { Neon, "neon" }

#[target_feature(enable = "neon")]
pub(super) fn gather_into(out: &mut [u64], a: &[u64], permutation: &Permutation) {
    scalar::gather_into(out, a, permutation);
}

#[target_feature(enable = "neon")]
pub(super) fn take_residues(q: u64, out: &mut [u64], drawn: &[u8]) -> usize {
    scalar::take_residues(q, out, drawn)
}

/// Calls intrinsics that need NEON.
macro_rules! available {
    ($e:expr) => {
        // SAFETY: NEON is part of the architecture.
        unsafe { $e }
    };
}

impl Vector for Neon {
    type Doubles = float64x2_t;
    type Integers = uint64x2_t;
    type Halves = uint32x2_t;
    /// For each byte of a register its place in a register that starts with two words.
    type Packing = uint8x16_t;

    const LANES: usize = 2;
    const GROUP: usize = 8;

    #[inline(always)]
    fn call<O: Operation<Self>>(self, operation: O) {
        #[inline(never)]
        fn run<O: Operation<Neon>>(operation: O) {
            operation.run(Neon);
        }
        run(operation);
    }

    #[inline(always)]
    fn splat(self, x: f64) -> float64x2_t {
        available!(vdupq_n_f64(x))
    }

    #[inline(always)]
    fn add(self, a: float64x2_t, b: float64x2_t) -> float64x2_t {
        available!(vaddq_f64(a, b))
    }

    #[inline(always)]
    fn sub(self, a: float64x2_t, b: float64x2_t) -> float64x2_t {
        available!(vsubq_f64(a, b))
    }

    #[inline(always)]
    fn mul(self, a: float64x2_t, b: float64x2_t) -> float64x2_t {
        available!(vmulq_f64(a, b))
    }

    #[inline(always)]
    fn mul_add(self, a: float64x2_t, b: float64x2_t, c: float64x2_t) -> float64x2_t {
        available!(vfmaq_f64(c, a, b))
    }

    #[inline(always)]
    fn mul_sub_from(self, a: float64x2_t, b: float64x2_t, c: float64x2_t) -> float64x2_t {
        available!(vfmsq_f64(c, a, b))
    }

    #[inline(always)]
    fn truncate(self, x: float64x2_t) -> float64x2_t {
        available!(vrndq_f64(x))
    }

    #[inline(always)]
    fn if_greater(self, a: float64x2_t, b: float64x2_t, then: float64x2_t) -> float64x2_t {
        self.with_bits(self.and(available!(vcgtq_f64(a, b)), self.bits(then)))
    }

    #[inline(always)]
    fn bits(self, x: float64x2_t) -> uint64x2_t {
        available!(vreinterpretq_u64_f64(x))
    }

    #[inline(always)]
    fn with_bits(self, x: uint64x2_t) -> float64x2_t {
        available!(vreinterpretq_f64_u64(x))
    }

    #[inline(always)]
    fn to_doubles(self, x: uint64x2_t) -> float64x2_t {
        available!(vcvtq_f64_u64(x))
    }

    #[inline(always)]
    fn to_integers(self, x: float64x2_t) -> uint64x2_t {
        available!(vcvtq_u64_f64(x))
    }

    #[inline(always)]
    fn splat_integer(self, x: u64) -> uint64x2_t {
        available!(vdupq_n_u64(x))
    }

    #[inline(always)]
    fn add_integers(self, a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
        available!(vaddq_u64(a, b))
    }

    #[inline(always)]
    fn sub_integers(self, a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
        available!(vsubq_u64(a, b))
    }

    #[inline(always)]
    fn and(self, a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
        available!(vandq_u64(a, b))
    }

    #[inline(always)]
    fn or(self, a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
        available!(vorrq_u64(a, b))
    }

    #[inline(always)]
    fn shift_left(self, x: uint64x2_t, n: u32) -> uint64x2_t {
        available!(vshlq_u64(x, vdupq_n_s64(i64::from(n))))
    }

    #[inline(always)]
    fn shift_right(self, x: uint64x2_t, n: u32) -> uint64x2_t {
        // A negative number of bits shifts to the right.
        available!(vshlq_u64(x, vdupq_n_s64(-i64::from(n))))
    }

    #[inline(always)]
    fn splat_half(self, x: u32) -> uint32x2_t {
        available!(vdup_n_u32(x))
    }

    #[inline(always)]
    fn halves(self, x: uint64x2_t) -> uint32x2_t {
        available!(vmovn_u64(x))
    }

    #[inline(always)]
    fn mul_halves(self, a: uint32x2_t, b: uint32x2_t) -> uint64x2_t {
        available!(vmull_u32(a, b))
    }

    #[inline(always)]
    unsafe fn load(self, x: &[u64], i: usize) -> uint64x2_t {
        debug_assert!(i + Self::LANES <= x.len());
        // SAFETY: in bounds by the caller's promise.
        unsafe { vld1q_u64(x.as_ptr().add(i)) }
    }

    #[inline(always)]
    unsafe fn store(self, x: &mut [u64], i: usize, v: uint64x2_t) {
        debug_assert!(i + Self::LANES <= x.len());
        // SAFETY: in bounds by the caller's promise.
        unsafe { vst1q_u64(x.as_mut_ptr().add(i), v) }
    }

    #[inline(always)]
    unsafe fn load_f64(self, x: &[f64], i: usize) -> float64x2_t {
        debug_assert!(i + Self::LANES <= x.len());
        // SAFETY: in bounds by the caller's promise.
        unsafe { vld1q_f64(x.as_ptr().add(i)) }
    }

    #[inline(always)]
    unsafe fn load_halves(self, bytes: *const u8) -> uint32x2_t {
        // SAFETY: eight bytes are readable by the caller's promise. Loads of bytes need no alignment.
        unsafe { vreinterpret_u32_u8(vld1_u8(bytes)) }
    }

    #[inline(always)]
    unsafe fn load_widened(self, bytes: *const u8) -> uint64x2_t {
        // SAFETY: by the caller's promise.
        unsafe { vmovl_u32(self.load_halves(bytes)) }
    }

    #[inline(always)]
    unsafe fn load_repeated(self, x: &[u64], i: usize, stride: usize) -> uint64x2_t {
        match stride {
            // SAFETY: by the caller's promise.
            1 => unsafe { self.load(x, i) },
            _ => self.splat_integer(x[i / stride]),
        }
    }

    #[inline(always)]
    fn packing(self, width: usize) -> uint8x16_t {
        // An index that is out of range gives 0.
        let place = |b: usize| if b % 8 < width { (b / 8 * width + b % 8) as u8 } else { 0xff };
        let places: [u8; 16] = std::array::from_fn(place);
        // SAFETY: `places` has the size of a register.
        unsafe { vld1q_u8(places.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn load_encrypted(self, bytes: *const u8, places: uint8x16_t) -> uint64x2_t {
        // SAFETY: 16 bytes are readable by the caller's promise. Loads of bytes need no alignment.
        unsafe { vreinterpretq_u64_u8(vqtbl1q_u8(vld1q_u8(bytes), places)) }
    }

    #[inline(always)]
    fn permute(self, block: &mut [uint64x2_t; 4], indices: &[u32; 8]) {
        let mut words = [0u64; 8];
        for (j, &part) in block.iter().enumerate() {
            // SAFETY: four registers have eight entries.
            unsafe { self.store(&mut words, 2 * j, part) };
        }
        let moved = indices.map(|i| words[i as usize % 8]);
        for (j, part) in block.iter_mut().enumerate() {
            // SAFETY: as above.
            *part = unsafe { self.load(&moved, 2 * j) };
        }
    }

    #[inline(always)]
    fn transpose(self, v: &mut [float64x2_t; 8]) {
        for v in v.as_chunks_mut::<2>().0 {
            let [a, b] = *v;
            *v = available!([vtrn1q_f64(a, b), vtrn2q_f64(a, b)]);
        }
    }
}
