//! The version of the kernels for WebAssembly with vectors of 128 bits, two 64-bit lanes. Transforms and
//! products of two limbs are computed on integers for primes of at most [`MAX_BITS`] bits: the widest product
//! of the instruction set is that of 32-bit integers. Everything else is the scalar version.
//!
//! The build chooses it, because a module with instructions that its host lacks does not load.

pub(super) use super::scalar::{
    add_assign, add_constant, combine_into, combine_pair_into, gather_into, inner_products_short_into,
    lift_into, mul_constant_add, mul_constant_assign, neg_assign, pair_products_into, rounded_sum_into,
    signed_into, signed_ranks_into, split_in_place, sub_assign, sum_and_difference, sum_of_products_into,
    take_residues,
};

use super::operands::{Input, NttKernel, Output, bit_reverse};
use super::scalar;
use crate::Modulus;
use crate::modulus::inverse_modulo_word;
use std::arch::wasm32::*;

/// Bits of the widest prime whose residues are 32-bit integers.
const MAX_BITS: u32 = 32;

/// a ← a·b.
pub(super) fn mul_assign(m: &Modulus, a: &mut [u64], b: &[u64]) {
    let Some(product) = Product::new(m) else { return scalar::mul_assign(m, a, b) };
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks_mut::<2>(), b.as_chunks::<2>());
    for (x, y) in a.iter_mut().zip(b) {
        *x = words(product.of(vector(*x), vector(*y)));
    }
    scalar::mul_assign(m, a_rest, b_rest);
}

/// out ← a·b.
pub(super) fn mul_into(m: &Modulus, out: &mut [u64], a: &[u64], b: &[u64]) {
    let Some(product) = Product::new(m) else { return scalar::mul_into(m, out, a, b) };
    let (out, out_rest) = out.as_chunks_mut::<2>();
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<2>(), b.as_chunks::<2>());
    for ((o, x), y) in out.iter_mut().zip(a).zip(b) {
        *o = words(product.of(vector(*x), vector(*y)));
    }
    scalar::mul_into(m, out_rest, a_rest, b_rest);
}

/// acc ← acc + a·b.
pub(super) fn mul_add_assign(m: &Modulus, acc: &mut [u64], a: &[u64], b: &[u64]) {
    let Some(product) = Product::new(m) else { return scalar::mul_add_assign(m, acc, a, b) };
    let (acc, acc_rest) = acc.as_chunks_mut::<2>();
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<2>(), b.as_chunks::<2>());
    for ((o, x), y) in acc.iter_mut().zip(a).zip(b) {
        *o = words(product.prime.add(vector(*o), product.of(vector(*x), vector(*y))));
    }
    scalar::mul_add_assign(m, acc_rest, a_rest, b_rest);
}

#[inline(always)]
fn vector(x: [u64; 2]) -> v128 {
    bytemuck::cast(x)
}

#[inline(always)]
fn words(x: v128) -> [u64; 2] {
    bytemuck::cast(x)
}

/// The low halves of both 64-bit lanes, in the first two 32-bit lanes.
#[inline(always)]
fn low(x: v128) -> v128 {
    u32x4_shuffle::<0, 2, 0, 2>(x, x)
}

/// The high halves of both 64-bit lanes, in the first two 32-bit lanes.
#[inline(always)]
fn high(x: v128) -> v128 {
    u32x4_shuffle::<1, 3, 1, 3>(x, x)
}

/// A prime q < 2³² in all lanes, of 64 and of 32 bits.
#[derive(Clone, Copy)]
struct Prime {
    wide: v128,
    short: v128,
}

impl Prime {
    /// `None` if `m` has more than [`MAX_BITS`] bits.
    fn new(m: &Modulus) -> Option<Self> {
        let q = m.value();
        (m.bits() <= MAX_BITS).then(|| Prime { wide: u64x2_splat(q), short: u32x4_splat(q as u32) })
    }

    /// x mod q for x < 2q.
    #[inline(always)]
    fn reduce_once(self, x: v128) -> v128 {
        let d = i64x2_sub(x, self.wide);
        // All bits of a lane are set where d is negative.
        i64x2_add(d, v128_and(i64x2_shr(d, 63), self.wide))
    }

    /// a + b mod q for reduced a and b.
    #[inline(always)]
    fn add(self, a: v128, b: v128) -> v128 {
        self.reduce_once(i64x2_add(a, b))
    }

    /// a − b mod q for reduced a and b.
    #[inline(always)]
    fn sub(self, a: v128, b: v128) -> v128 {
        self.reduce_once(i64x2_add(a, i64x2_sub(self.wide, b)))
    }

    /// y·w mod q for y < 2³².
    #[inline(always)]
    fn times(self, y: v128, w: Factor) -> v128 {
        let y = low(y);
        // The estimated quotient is short by less than y/2³² + 1 < 2.
        let estimate = high(u64x2_extmul_low_u32x4(y, w.quotient));
        let multiple = u64x2_extmul_low_u32x4(estimate, self.short);
        self.reduce_once(i64x2_sub(u64x2_extmul_low_u32x4(y, w.value), multiple))
    }
}

/// Residues w in the first two 32-bit lanes, with their Shoup quotients ⌊w·2³²/q⌋.
#[derive(Clone, Copy)]
struct Factor {
    value: v128,
    quotient: v128,
}

/// A residue w and its Shoup quotient ⌊w·2³²/q⌋.
type Root = [u32; 2];

fn root(m: &Modulus, w: u64) -> Root {
    [w as u32, ((w << 32) / m.value()) as u32]
}

impl Factor {
    /// The same residue in both lanes.
    #[inline(always)]
    fn splat([value, quotient]: Root) -> Self {
        Factor { value: u32x4_splat(value), quotient: u32x4_splat(quotient) }
    }

    #[inline(always)]
    fn of(pair: [Root; 2]) -> Self {
        let both: v128 = bytemuck::cast(pair);
        Factor { value: low(both), quotient: high(both) }
    }
}

/// Products of two residues: a Montgomery reduction with radix 2³², and a product by 2³².
struct Product {
    prime: Prime,
    /// 1/q modulo 2³², in all 32-bit lanes.
    inverse: v128,
    radix: Factor,
}

impl Product {
    fn new(m: &Modulus) -> Option<Self> {
        let inverse = u32x4_splat(inverse_modulo_word(m.value()) as u32);
        let radix = Factor::splat(root(m, (1 << 32) % m.value()));
        Some(Product { prime: Prime::new(m)?, inverse, radix })
    }

    /// a·b mod q.
    #[inline(always)]
    fn of(&self, a: v128, b: v128) -> v128 {
        let q = self.prime;
        let c = u64x2_extmul_low_u32x4(low(a), low(b));
        // c − k·q is a multiple of 2³², so that the high halves, both below q, differ by (c − k·q)/2³².
        let k = i32x4_mul(low(c), self.inverse);
        let multiple = u64x2_extmul_low_u32x4(k, q.short);
        let reduced = q.sub(u64x2_shr(c, 32), u64x2_shr(multiple, 32));
        q.times(reduced, self.radix)
    }
}

/// The transform for a prime of at most [`MAX_BITS`] bits: Cooley-Tukey and Gentleman-Sande butterflies
/// (Longa and Naehrig 2016) with Shoup products of 32-bit integers. Every value is reduced in every stage.
pub(super) struct Simd128Ntt {
    modulus: Modulus,
    prime: Prime,
    /// Entry i is ψ^bitrev(i).
    roots: Vec<Root>,
    inverse_roots: Vec<Root>,
    inverse_n: u64,
}

impl Simd128Ntt {
    /// `None` if the prime has more than [`MAX_BITS`] bits, or n < 4.
    pub(super) fn new(modulus: Modulus, n: usize, psi: u64) -> Option<Self> {
        let prime = Prime::new(&modulus).filter(|_| n >= 4)?;
        let powers = |base: u64| {
            let mut out = vec![[0; 2]; n];
            let mut p = 1;
            for i in 0..n {
                out[bit_reverse(i, n.trailing_zeros())] = root(&modulus, p);
                p = modulus.mul(p, base);
            }
            out
        };
        let (roots, inverse_roots) = (powers(psi), powers(modulus.inv(psi)));
        Some(Simd128Ntt { modulus, prime, roots, inverse_roots, inverse_n: modulus.inv(n as u64) })
    }
}

/// Calls `f` on the entries i and i + half of a block of 2·half entries, two i at a time.
#[inline(always)]
fn columns(block: &mut [u64], f: impl Fn(v128, v128) -> (v128, v128)) {
    let (first, second) = block.split_at_mut(block.len() / 2);
    for (x, y) in first.as_chunks_mut::<2>().0.iter_mut().zip(second.as_chunks_mut::<2>().0) {
        let (sum, difference) = f(vector(*x), vector(*y));
        (*x, *y) = (words(sum), words(difference));
    }
}

/// Calls `f` on the entries 2i and 2i + 1 and on the i-th of `roots`, two i at a time.
#[inline(always)]
fn neighbours(limb: &mut [u64], roots: &[Root], f: impl Fn(v128, v128, Factor) -> (v128, v128)) {
    for (v, &w) in limb.as_chunks_mut::<4>().0.iter_mut().zip(roots.as_chunks::<2>().0) {
        let [a, b, c, d] = *v;
        let (ab, cd) = (vector([a, b]), vector([c, d]));
        let (x, y) = f(u64x2_shuffle::<0, 2>(ab, cd), u64x2_shuffle::<1, 3>(ab, cd), Factor::of(w));
        let ([a, b], [c, d]) = (words(u64x2_shuffle::<0, 2>(x, y)), words(u64x2_shuffle::<1, 3>(x, y)));
        *v = [a, b, c, d];
    }
}

impl NttKernel for Simd128Ntt {
    fn forward_with(&self, limb: &mut [u64], input: Input, output: Output) {
        let (m, q) = (&self.modulus, self.prime);
        if let Input::Lifted(lift, from) = input {
            lift_into(m, limb, from, lift);
        }
        let butterfly = |x: v128, y: v128, w: Factor| {
            let t = q.times(y, w);
            (q.add(x, t), q.sub(x, t))
        };
        let (mut half, mut blocks) = (limb.len() / 2, 1);
        while half > 1 {
            for (block, &w) in limb.chunks_exact_mut(2 * half).zip(&self.roots[blocks..]) {
                let w = Factor::splat(w);
                columns(block, |x, y| butterfly(x, y, w));
            }
            (half, blocks) = (half / 2, 2 * blocks);
        }
        neighbours(limb, &self.roots[blocks..], butterfly);
        if let Output::Quotient(x, w) = output {
            let w = Factor::splat(root(m, w.value));
            for (x, v) in x.as_chunks_mut::<2>().0.iter_mut().zip(limb.as_chunks::<2>().0) {
                *x = words(q.times(q.sub(vector(*x), vector(*v)), w));
            }
        }
    }

    fn inverse_with(&self, limb: &mut [u64], values: Option<&[u64]>, factor: u64) {
        let (m, q) = (&self.modulus, self.prime);
        if let Some(values) = values {
            limb.copy_from_slice(values);
        }
        let butterfly = |x: v128, y: v128, w: Factor| (q.add(x, y), q.times(q.sub(x, y), w));
        let mut blocks = limb.len() / 2;
        neighbours(limb, &self.inverse_roots[blocks..], butterfly);
        blocks /= 2;
        while blocks > 1 {
            let size = limb.len() / blocks;
            for (block, &w) in limb.chunks_exact_mut(size).zip(&self.inverse_roots[blocks..]) {
                let w = Factor::splat(w);
                columns(block, |x, y| butterfly(x, y, w));
            }
            blocks /= 2;
        }
        // The last stage, and the factor.
        let scale = m.mul(self.inverse_n, factor);
        let last = Factor::splat(root(m, m.mul(scale, u64::from(self.inverse_roots[1][0]))));
        let scale = Factor::splat(root(m, scale));
        columns(limb, |x, y| (q.times(q.add(x, y), scale), q.times(q.sub(x, y), last)));
    }
}
