//! Kernels in double precision, for instruction sets with a fused multiply-add and no wide integer
//! multiplier: with a fused multiply-add the rounding error of a product is itself exact. Sums of products of
//! 32-bit residues take the integer multiplier. Entries behind the last whole register are left to the scalar
//! version. Each kernel is written once, for any [`Vector`].
//!
//! Everything here is inlined in the functions of [`entry_points`], which enable the instructions. Closures
//! that are given registers might not be inlined there: hot code has loops instead.
//!
//! Safety of every function here: the slices of a call must have at least the length of the first. `super`
//! checks it.

mod ntt;
mod sums;

pub(super) use ntt::FloatNtt;
pub(super) use sums::{
    combine_into, combine_pair_into, inner_products_short_into, pair_products_into, rounded_sum_into,
    split_in_place, sum_of_products_into,
};

use super::scalar;
use super::vector::Vector;
use crate::simd::operands::Lift;
use crate::{Constant, Modulus};

/// 2⁵², the first double whose last bit counts ones.
pub(super) const TWO_52: f64 = (1u64 << 52) as f64;
/// 1.5·2⁵². A sum of this and a number below 2⁵¹ in magnitude is rounded to an integer.
const ROUND: f64 = 1.5 * TWO_52;

/// Defines the kernels of a module with the vector `$vector`, compiled with `$features`.
macro_rules! entry_points {
    ($vector:ident, $features:literal) => {
        $crate::simd::float::entry_points! { $vector, $features;
            add_assign(m: &Modulus, a: &mut [u64], b: &[u64]);
            sub_assign(m: &Modulus, a: &mut [u64], b: &[u64]);
            sum_and_difference(m: &Modulus, a: &mut [u64], b: &mut [u64]);
            neg_assign(m: &Modulus, a: &mut [u64]);
            add_constant(m: &Modulus, a: &mut [u64], c: u64);
            signed_ranks_into(out: &mut [i64], words: &[u64], table: &[u64]);
            mul_assign(m: &Modulus, a: &mut [u64], b: &[u64]);
            mul_into(m: &Modulus, out: &mut [u64], a: &[u64], b: &[u64]);
            mul_add_assign(m: &Modulus, acc: &mut [u64], a: &[u64], b: &[u64]);
            mul_constant_assign(m: &Modulus, a: &mut [u64], w: Constant);
            mul_constant_add(m: &Modulus, acc: &mut [u64], x: &[u64], w: Constant);
            lift_into(m: &Modulus, out: &mut [u64], x: &[u64], lift: Lift);
            signed_into(m: &Modulus, out: &mut [u64], x: &[i64]);
            combine_into(m: &Modulus, out: &mut [u64], x: &Rows, c: Affine);
            combine_pair_into(m: [&Modulus; 2], out0: &mut [u64], out1: &mut [u64], x: &Rows, c: [Affine; 2]);
            sum_of_products_into(m: &Modulus, out: &mut [u64], terms: &[Term]);
            pair_products_into(m: &Modulus, out0: &mut [u64], out1: &mut [u64], x: &[&[u64]], pairs: Pairs, plus: &AccumulatorTerms, destination: Destination);
            inner_products_short_into(m: &Modulus, out0: &mut [u64], out1: &mut [u64], x: &[&[u64]], y: &[&[u64]], z: &[&[u64]]);
            rounded_sum_into(out: &mut [u64], x: &Rows, f: &[f64]);
            split_in_place(rows: &mut [&mut [u64]], radix: &Radix);
        }
    };
    ($vector:ident, $features:literal; $($name:ident($($arg:ident: $ty:ty),*);)*) => {$(
        #[target_feature(enable = $features)]
        pub(super) fn $name($($arg: $ty),*) {
            $crate::simd::float::$name($vector::new(), $($arg),*);
        }
    )*};
}
pub(super) use entry_points;

/// Kernels whose scalar version is compiled again for wider registers.
macro_rules! recompiled {
    ($($name:ident($($arg:ident: $ty:ty),*);)*) => {$(
        #[inline(always)]
        pub(super) fn $name<V: Vector>(_: V, $($arg: $ty),*) {
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

/// A prime in all lanes. Residues are doubles that hold integers.
#[derive(Clone, Copy)]
struct Lanes<V: Vector> {
    v: V,
    q: V::Doubles,
    /// 1/q, rounded.
    inverse: V::Doubles,
    round: V::Doubles,
    zero: V::Doubles,
}

impl<V: Vector> Lanes<V> {
    #[inline(always)]
    fn new(v: V, m: &Modulus) -> Self {
        let q = m.value() as f64;
        Lanes { v, q: v.splat(q), inverse: v.splat(1.0 / q), round: v.splat(ROUND), zero: v.splat(0.0) }
    }

    /// x·w modulo q, for integers of at most 2⁵² in magnitude with a quotient |x·w|/q ≤ 2⁵¹. The result is at
    /// most (½ + |x·w|/q·2⁻⁵²)·q in magnitude.
    #[inline(always)]
    fn mul(&self, x: V::Doubles, w: V::Doubles) -> V::Doubles {
        let high = self.v.mul(x, w);
        let minus_low = self.v.mul_sub_from(x, w, high);
        // The product and 1/q are rounded once each, and the quotient to an integer. The remainder is exact,
        // as is its difference to the rounded product, which is an integer below 2⁵².
        let quotient = self.v.sub(self.v.mul_add(high, self.inverse, self.round), self.round);
        self.v.sub(self.v.mul_sub_from(quotient, self.q, high), minus_low)
    }

    /// x modulo q, at most q/2 in magnitude, for |x| ≤ 2⁵².
    #[inline(always)]
    fn center(&self, x: V::Doubles) -> V::Doubles {
        let quotient = self.v.sub(self.v.mul_add(x, self.inverse, self.round), self.round);
        self.v.mul_sub_from(quotient, self.q, x)
    }

    /// x mod q for |x| < q, as integers.
    #[inline(always)]
    fn reduce_once(&self, x: V::Doubles) -> V::Integers {
        self.v.to_integers(self.v.add(x, self.v.if_greater(self.zero, x, self.q)))
    }

    /// x mod q for |x| ≤ 2⁵², as integers.
    #[inline(always)]
    fn reduce(&self, x: V::Doubles) -> V::Integers {
        self.reduce_once(self.center(x))
    }
}

/// The double nearest to zero that is w modulo q, for a reduced w.
fn centered(m: &Modulus, w: u64) -> f64 {
    m.centered(w) as f64
}

/// The largest multiple of the number of lanes that is at most `n`.
#[inline(always)]
fn whole<V: Vector>(n: usize) -> usize {
    n / V::LANES * V::LANES
}

#[inline(always)]
pub(super) fn mul_assign<V: Vector>(v: V, m: &Modulus, a: &mut [u64], b: &[u64]) {
    let (l, end) = (Lanes::new(v, m), whole::<V>(a.len()));
    for i in (0..end).step_by(V::LANES) {
        // SAFETY: i + LANES <= end <= both lengths.
        unsafe { v.store(a, i, l.reduce_once(l.mul(v.load_doubles(a, i), v.load_doubles(b, i)))) }
    }
    scalar::mul_assign(m, &mut a[end..], &b[end..]);
}

#[inline(always)]
pub(super) fn mul_into<V: Vector>(v: V, m: &Modulus, out: &mut [u64], a: &[u64], b: &[u64]) {
    let (l, end) = (Lanes::new(v, m), whole::<V>(out.len()));
    for i in (0..end).step_by(V::LANES) {
        // SAFETY: i + LANES <= end <= all lengths.
        unsafe { v.store(out, i, l.reduce_once(l.mul(v.load_doubles(a, i), v.load_doubles(b, i)))) }
    }
    scalar::mul_into(m, &mut out[end..], &a[end..], &b[end..]);
}

#[inline(always)]
pub(super) fn mul_add_assign<V: Vector>(v: V, m: &Modulus, acc: &mut [u64], a: &[u64], b: &[u64]) {
    let (l, end) = (Lanes::new(v, m), whole::<V>(acc.len()));
    for i in (0..end).step_by(V::LANES) {
        // SAFETY: i + LANES <= end <= all lengths.
        unsafe {
            let product = l.mul(v.load_doubles(a, i), v.load_doubles(b, i));
            v.store(acc, i, l.reduce(v.add(v.load_doubles(acc, i), product)));
        }
    }
    scalar::mul_add_assign(m, &mut acc[end..], &a[end..], &b[end..]);
}

#[inline(always)]
pub(super) fn mul_constant_assign<V: Vector>(v: V, m: &Modulus, a: &mut [u64], w: Constant) {
    let (l, end) = (Lanes::new(v, m), whole::<V>(a.len()));
    let factor = v.splat(centered(m, w.value));
    for i in (0..end).step_by(V::LANES) {
        // SAFETY: i + LANES <= end <= the length. The product of a word of 52 bits may be as large as q.
        unsafe { v.store(a, i, l.reduce(l.mul(v.load_doubles(a, i), factor))) }
    }
    scalar::mul_constant_assign(m, &mut a[end..], w);
}

#[inline(always)]
pub(super) fn mul_constant_add<V: Vector>(v: V, m: &Modulus, acc: &mut [u64], x: &[u64], w: Constant) {
    let (l, end) = (Lanes::new(v, m), whole::<V>(acc.len()));
    let factor = v.splat(centered(m, w.value));
    for i in (0..end).step_by(V::LANES) {
        // SAFETY: i + LANES <= end <= both lengths.
        unsafe {
            let product = l.mul(v.load_doubles(x, i), factor);
            v.store(acc, i, l.reduce(v.add(v.load_doubles(acc, i), product)));
        }
    }
    scalar::mul_constant_add(m, &mut acc[end..], &x[end..], w);
}

/// Reads small integers that a [`Lift`] maps to residues. They have at most 2⁴⁹ in magnitude.
#[derive(Clone, Copy)]
struct Lifter {
    /// Subtracted from all words.
    offset: f64,
    /// `prime` is subtracted from words above `half`.
    half: f64,
    prime: f64,
}

impl Lifter {
    fn new(lift: Lift) -> Self {
        let (offset, half, prime) = match lift {
            Lift::Residue { prime, .. } => (0u64, prime / 2, prime),
            // No word is above 2⁵².
            Lift::Digit { bits, .. } => (1 << (bits - 1), 1 << 52, 0),
        };
        Lifter { offset: offset as f64, half: half as f64, prime: prime as f64 }
    }

    /// SAFETY: `i + LANES <= x.len()`.
    #[inline(always)]
    unsafe fn load<V: Vector>(&self, v: V, x: &[u64], i: usize) -> V::Doubles {
        // SAFETY: by the caller's promise.
        let x = unsafe { v.load_doubles(x, i) };
        let less = v.if_greater(x, v.splat(self.half), v.splat(self.prime));
        v.sub(v.sub(x, v.splat(self.offset)), less)
    }
}

#[inline(always)]
pub(super) fn lift_into<V: Vector>(v: V, m: &Modulus, out: &mut [u64], x: &[u64], lift: Lift) {
    let (l, lifter, end) = (Lanes::new(v, m), Lifter::new(lift), whole::<V>(out.len()));
    for i in (0..end).step_by(V::LANES) {
        // SAFETY: i + LANES <= end <= both lengths.
        unsafe { v.store(out, i, l.reduce(lifter.load(v, x, i))) }
    }
    scalar::lift_into(m, &mut out[end..], &x[end..], lift);
}

#[inline(always)]
pub(super) fn signed_into<V: Vector>(v: V, m: &Modulus, out: &mut [u64], x: &[i64]) {
    let (l, end) = (Lanes::new(v, m), whole::<V>(out.len()));
    let weight = v.splat(centered(m, m.reduce(1 << 32)));
    let (sign, low) = (v.splat_integer(1 << 63), v.splat_integer(0xffff_ffff));
    let bias = v.splat((1u64 << 31) as f64);
    let words: &[u64] = bytemuck::cast_slice(x);
    for i in (0..end).step_by(V::LANES) {
        // SAFETY: i + LANES <= end <= both lengths.
        let x = unsafe { v.load(words, i) };
        // x + 2⁶³ is positive, and its upper half is that of x plus 2³¹.
        let upper = v.shift_right(v.add_integers(x, sign), 32);
        let upper = v.sub(v.to_doubles(upper), bias);
        let lower = v.to_doubles(v.and(x, low));
        // SAFETY: as above.
        unsafe { v.store(out, i, l.reduce(v.add(l.mul(upper, weight), lower))) }
    }
    scalar::signed_into(m, &mut out[end..], &x[end..]);
}
