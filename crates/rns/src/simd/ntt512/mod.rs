//! The negacyclic transform on AVX-512 IFMA: the butterflies of Longa and Naehrig 2016, with up to three
//! stages in each pass over memory and the last seven stages in registers.
//!
//! | symbol | here |
//! |---|---|
//! | R = 2⁵² | radix of the Montgomery multiplication |
//! | ψ^bitrev(i) | root i; block k of the stage with 2ʲ blocks has root 2ʲ + k |
//! | w̄ ≡ w·R mod q | the stored form of a root w, beside w̄/q or −w̄/q modulo R |
//!
//! There are two ways to multiply any y < R by a root (Montgomery 1985). hi and lo are the halves of a
//! product.
//!
//! - Exact products have w̄ < q. With m = y·w̄/q mod R, lo(y·w̄) = lo(m·q), so that y·w ≡ hi(y·w̄) − hi(m·q),
//!   in (−q, q).
//! - Chained products are for primes of at most [`CHAINED_BITS`] bits. With m = −y·w̄/q mod R, lo(y·w̄) +
//!   lo(m·q) = R unless both are 0, so that y·w ≡ hi(y·w̄) + hi(m·q) + 1. This needs no subtraction, because
//!   the multiplier also adds. An odd w̄ < 2q and y ≠ 0 ensure m ≠ 0. If y < R/2, then hi(y·w̄) + hi(m·q) + 1
//!   − q is in (−q, q).
//!
//! The inverse transform reads the same roots in reverse order: root 2ʲ + k times root 2ʲ⁺¹ − 1 − k is ψᴺ =
//! −1.
//!
//! Safety of every function here: the CPU must have the features named in `target_feature`. Only
//! [`VectorNtt::new`] builds a table, and it checks the features.

mod forward;
mod inverse;

use super::avx512::{load, splat, store};
use super::{Kernel, kernels};
use crate::Modulus;
use crate::modulus::inverse_modulo_word;
use crate::simd::operands::{Input, LANES, Lift, NttKernel, Output};
use forward::{Digit, Lifted, Quotient, Unreduced, forward};
use inverse::inverse;
use std::arch::x86_64::*;

/// Entries that the last four stages transform within two registers.
const GROUP: usize = 16;
/// Registers that hold entries, of the 32 of the CPU.
const REGISTERS: usize = 16;
/// Entries that the last seven stages transform within all [`REGISTERS`].
const TAIL: usize = 128;
/// R − 1.
const MASK: u64 = (1 << 52) - 1;
/// Words of a block that fits the first-level cache, where it stays for all its remaining stages.
const BLOCK: usize = 1 << 12;
/// The largest size of a prime for chained products without any reduction between forward stages: entries
/// start below 2q and grow by less than 2q in each stage, so that the last of sixteen stages reads entries
/// below 32q, which must be at most R/2.
const CHAINED_BITS: u32 = 46;
/// The largest size of a prime for which inverse stages reduce only before those passes that need it: entries
/// double in each stage, and the last of the first seven stages takes differences below 2⁷q, which must be at
/// most R/2.
const INVERSE_LAZY_BITS: u32 = 44;

/// Mode of a pass: chained products, no reduction.
const LAZY: u8 = 0;
/// Mode of the first forward pass: as [`LAZY`], after it has added q, or the offset of its [`Source`], to the
/// input, so that no entry is 0.
const FIRST: u8 = 1;
/// Mode of an inverse pass: chained products, entries reduced below 2q in every stage.
const MIDDLE: u8 = 2;
/// Mode of a pass: exact products, entries reduced in every stage below 4q (forward) or 2q (inverse).
const TIGHT: u8 = 3;

/// A stored root: w̄, and the factor by which y gives m.
type Root = [u64; 2];

/// The roots w̄ of the last four stages of sixteen adjacent entries: one root with its second word, then two,
/// four and eight.
#[repr(align(64))]
struct GroupRoots([u64; GROUP]);

/// The transform for one prime and a ring degree N ≥ 512.
pub(crate) struct VectorNtt {
    modulus: Modulus,
    n: usize,
    /// 1/q modulo R for exact products, −1/q for chained ones.
    factor: u64,
    /// The roots with index below N/16.
    roots: Vec<Root>,
    groups: Vec<GroupRoots>,
    /// N⁻¹ mod q.
    inverse_n: u64,
    /// N⁻¹ times the root of the last inverse stage, mod q.
    last_root: u64,
    /// The number of stages of each pass over memory, two or three, in ascending order. Four stages would
    /// read sixteen streams whose strides map to one set of the cache, which has fewer ways.
    passes: Vec<u32>,
    /// The number of passes, at least one, before a block fits the cache.
    across: usize,
}

impl VectorNtt {
    /// The smallest ring degree that this kernel transforms.
    const MIN_N: usize = 4 * TAIL;

    /// The transform of length n, a power of two, with the root `psi` of order 2n; `None` if this process
    /// does not run the kernels for IFMA, or n is out of range.
    pub(crate) fn new(modulus: Modulus, n: usize, psi: u64) -> Option<Self> {
        if kernels() != Kernel::Avx512Ifma || !(Self::MIN_N..=1 << 16).contains(&n) {
            return None;
        }
        let q = modulus.value();
        let q_inverse = inverse_modulo_word(q);
        let exact = |w: u64| {
            let w = ((u128::from(w) << 52) % u128::from(q)) as u64;
            [w, w.wrapping_mul(q_inverse) & MASK]
        };
        let chained = modulus.bits() <= CHAINED_BITS;
        let factor = if chained { q_inverse.wrapping_neg() } else { q_inverse } & MASK;
        let root = |w: u64| {
            let [w, m] = exact(w);
            if !chained {
                return [w, m];
            }
            // q is odd, so that w or w + q is odd.
            let w = if w % 2 == 0 { w + q } else { w };
            [w, w.wrapping_mul(factor) & MASK]
        };
        let log_n = n.trailing_zeros();
        let mut roots = vec![[0; 2]; n];
        let mut p = 1;
        for i in 0..n {
            roots[crate::bit_reverse(i, log_n)] = root(p);
            p = modulus.mul(p, psi);
        }
        let groups = (0..n / GROUP)
            .map(|g| {
                let mut words = [0; GROUP];
                [words[0], words[1]] = roots[n / 16 + g];
                for stage in 1..4 {
                    let (blocks, first) = (1 << stage, (n / 16 + g) << stage);
                    let out = &mut words[blocks..2 * blocks];
                    out.iter_mut().zip(&roots[first..]).for_each(|(o, r)| *o = r[0]);
                }
                GroupRoots(words)
            })
            .collect();
        let inverse_n = modulus.inv(n as u64);
        // ψ^(N/2) is root 1.
        let last_root = modulus.mul(modulus.pow(psi, n as u64 / 2), inverse_n);
        let stages = (n / TAIL).trailing_zeros();
        let passes = stages.div_ceil(3);
        let passes: Vec<u32> = (0..passes).map(|i| (stages + i) / passes).collect();
        let fits = |&across: &usize| n >> passes[..across].iter().sum::<u32>() <= BLOCK;
        let across = (1..passes.len()).find(fits).unwrap_or(passes.len());
        roots.truncate(n / GROUP);
        roots.shrink_to_fit();
        Some(VectorNtt { modulus, n, factor, roots, groups, inverse_n, last_root, passes, across })
    }
}

impl VectorNtt {
    /// Transforms coefficients that exceed the range stated at [`Source::load`] by less than `above`.
    ///
    /// SAFETY: the CPU must have the features of `target_feature`.
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    unsafe fn forward_from(&self, limb: &mut [u64], source: impl Source, output: Output, above: u64) {
        let q = self.modulus.value();
        // SAFETY: `forward_with` checked that all slices have one length.
        unsafe {
            match output {
                Output::Lazy if self.modulus.lazy_bits() > self.modulus.bits() => {
                    forward::<FIRST, LAZY>(self, limb, source, Unreduced);
                }
                Output::Limb | Output::Lazy if self.chained() => {
                    forward::<FIRST, LAZY>(self, limb, source, InPlace);
                }
                Output::Limb | Output::Lazy => forward::<TIGHT, TIGHT>(self, limb, source, InPlace),
                Output::Quotient(x, w) if self.chained() => {
                    // Entries end below 34q + above; another q still leaves them below R.
                    let above = splat((34 + above.div_ceil(q)) * q);
                    forward::<FIRST, LAZY>(
                        self,
                        limb,
                        source,
                        Quotient::<true> { x, w: self.exact(w.value), above },
                    );
                }
                Output::Quotient(x, w) => {
                    let sink = Quotient::<false> { x, w: self.exact(w.value), above: splat(q) };
                    forward::<TIGHT, TIGHT>(self, limb, source, sink);
                }
            }
        }
    }

    /// Whether coefficients that exceed q by less than `above` can be transformed unreduced. Chained entries
    /// are then larger by less than `above` in every stage.
    fn takes(&self, above: u64, output: &Output) -> bool {
        let lazy = self.modulus.lazy_bits();
        let bits = match output {
            Output::Lazy if lazy > self.modulus.bits() => lazy.min(51),
            _ => 51,
        };
        self.chained() && above + 34 * self.modulus.value() <= 1 << bits
    }

    fn chained(&self) -> bool {
        self.modulus.bits() <= CHAINED_BITS
    }

    /// The stored form of the residue `w` as a factor of exact products.
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    fn exact(&self, w: u64) -> RootLanes {
        let inverse = if self.chained() { self.factor.wrapping_neg() } else { self.factor };
        let w = self.modulus.montgomery_factor(w);
        RootLanes::splat([w, w.wrapping_mul(inverse) & MASK])
    }
}

impl NttKernel for VectorNtt {
    fn forward_with(&self, limb: &mut [u64], input: Input, output: Output) {
        let held = if let Input::Lifted(_, from) = input { from.len() } else { self.n };
        let kept = if let Output::Quotient(x, _) = &output { x.len() } else { self.n };
        assert_eq!([limb.len(), held, kept], [self.n; 3], "limb of another ring degree");
        // SAFETY: `new` checked the features of the CPU.
        unsafe {
            match input {
                Input::Limb => self.forward_from(limb, InPlace, output, 0),
                Input::Lifted(Lift::Residue { prime, less, exact }, from) => {
                    let (q, half) = (self.modulus.value(), splat(prime / 2));
                    if exact {
                        let source = Lifted::<true> { from, half, less: splat(less), first: splat(q) };
                        self.forward_from(limb, source, output, 0);
                    } else if self.takes(prime, &output) {
                        // The multiple of q that makes all representatives positive.
                        let first = splat((prime / 2 / q + 1) * q);
                        let less = splat(prime.wrapping_neg());
                        self.forward_from(limb, Lifted::<true> { from, half, less, first }, output, prime);
                    } else {
                        let source = Lifted::<false> { from, half, less: splat(less), first: splat(q) };
                        self.forward_from(limb, source, output, 0);
                    }
                }
                Input::Lifted(Lift::Digit { bits, less }, from) => {
                    let (digit, less) = (1 << bits, splat(less));
                    if self.takes(digit, &output) {
                        self.forward_from(limb, Digit::<FIRST> { from, less }, output, digit);
                    } else if !self.chained() {
                        // Exact entries may start below 4q; a digit is below 2⁴⁷ < 2q here.
                        self.forward_from(limb, Digit::<TIGHT> { from, less }, output, 0);
                    } else {
                        self.forward_from(limb, Digit::<LAZY> { from, less }, output, 0);
                    }
                }
            }
        }
    }

    fn inverse_with(&self, limb: &mut [u64], values: Option<&[u64]>, factor: u64) {
        let held = values.map_or(self.n, <[u64]>::len);
        assert_eq!([limb.len(), held], [self.n; 2], "limb of another ring degree");
        // SAFETY: `new` checked the features of the CPU.
        unsafe {
            if self.modulus.bits() <= INVERSE_LAZY_BITS {
                inverse::<LAZY>(self, limb, values, factor);
            } else if self.chained() {
                inverse::<MIDDLE>(self, limb, values, factor);
            } else {
                inverse::<TIGHT>(self, limb, values, factor);
            }
        }
    }
}

/// The constants of the butterflies, broadcast to all lanes.
#[derive(Clone, Copy)]
struct Lanes {
    q: __m512i,
    two_q: __m512i,
    minus_q: __m512i,
    one: __m512i,
    two: __m512i,
    /// The offset of 2x − sum in [`Lanes::forward`].
    twice_lift: __m512i,
    factor: __m512i,
    /// ⌊R/q⌋.
    barrett: __m512i,
}

/// Stored roots: one root broadcast to all lanes, or one root in each lane.
#[derive(Clone, Copy)]
struct RootLanes(__m512i, __m512i);

impl RootLanes {
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    #[inline]
    fn splat(root: Root) -> Self {
        RootLanes(splat(root[0]), splat(root[1]))
    }
}

impl Lanes {
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    #[inline]
    fn new(table: &VectorNtt) -> Self {
        let q = table.modulus.value();
        let chained = table.modulus.bits() <= CHAINED_BITS;
        Lanes {
            q: splat(q),
            two_q: splat(2 * q),
            minus_q: splat(q.wrapping_neg()),
            one: splat(1),
            two: splat(2),
            twice_lift: splat(if chained { 2 * q - 2 } else { 2 * q }),
            factor: splat(table.factor),
            barrett: splat((1 << 52) / q),
        }
    }

    /// Computes the second words of the roots w̄.
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    #[inline]
    fn root(&self, w: __m512i) -> RootLanes {
        RootLanes(w, _mm512_madd52lo_epu64(_mm512_setzero_si512(), w, self.factor))
    }

    /// c − c_less + y·w, by exact products.
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    #[inline]
    fn exact(&self, c: __m512i, c_less: __m512i, y: __m512i, w: RootLanes) -> __m512i {
        let m = _mm512_madd52lo_epu64(_mm512_setzero_si512(), y, w.1);
        _mm512_sub_epi64(_mm512_madd52hi_epu64(c, y, w.0), _mm512_madd52hi_epu64(c_less, m, self.q))
    }

    /// c − 1 + y·w, by chained products; the result is congruent to this and larger by up to 2q.
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    #[inline]
    fn chained(&self, c: __m512i, y: __m512i, w: RootLanes) -> __m512i {
        let m = _mm512_madd52lo_epu64(_mm512_setzero_si512(), y, w.1);
        _mm512_madd52hi_epu64(_mm512_madd52hi_epu64(c, y, w.0), m, self.q)
    }

    /// y·w mod q, reduced, by exact products.
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    #[inline]
    fn mul(&self, y: __m512i, w: RootLanes) -> __m512i {
        let zero = _mm512_setzero_si512();
        let t = self.exact(zero, zero, y, w);
        _mm512_min_epu64(t, _mm512_add_epi64(t, self.q))
    }

    /// x mod q for x < 2⁵².
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    #[inline]
    fn reduce(&self, x: __m512i) -> __m512i {
        let zero = _mm512_setzero_si512();
        let estimate = _mm512_madd52hi_epu64(zero, x, self.barrett);
        // The estimated quotient is short by at most one, so the remainder is below 2q.
        let r = _mm512_sub_epi64(x, _mm512_madd52lo_epu64(zero, estimate, self.q));
        _mm512_min_epu64(r, _mm512_sub_epi64(r, self.q))
    }

    /// The forward butterfly x ± y·w. In mode [`TIGHT`], inputs in [0, 4q) give outputs in (0, 4q).
    ///
    /// Otherwise inputs x in [a, b] and y in [1, R/2) give outputs in (a, b + 2q). A chained sum is too small
    /// by 1. Instead of a correction in every stage, x starts with an excess of one for each sum that it
    /// enters before it is next used as a y or the pass ends ([`run`]). Both outputs have that excess less
    /// one.
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    #[inline]
    fn forward<const MODE: u8>(&self, x: __m512i, y: __m512i, w: RootLanes) -> (__m512i, __m512i) {
        let (x, sum) = if MODE == TIGHT {
            let x = _mm512_min_epu64(x, _mm512_sub_epi64(x, self.two_q));
            (x, self.exact(x, self.minus_q, y, w))
        } else {
            (x, self.chained(x, y, w))
        };
        // 2x < R.
        (sum, _mm512_sub_epi64(_mm512_madd52lo_epu64(self.twice_lift, x, self.two), sum))
    }

    /// The inverse butterfly x + y and (y − x)·w, where w is the negated inverse root. In mode [`LAZY`],
    /// inputs below `bound` (2ˢ·q) give outputs below twice `bound`. Otherwise `bound` is 2q, and inputs in
    /// [0, 2q) give outputs in [0, 2q).
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    #[inline]
    fn inverse<const MODE: u8>(
        &self,
        bound: __m512i,
        x: __m512i,
        y: __m512i,
        w: RootLanes,
    ) -> (__m512i, __m512i) {
        let mut sum = _mm512_add_epi64(x, y);
        if MODE != LAZY {
            sum = _mm512_min_epu64(sum, _mm512_sub_epi64(sum, self.two_q));
        }
        // The difference is never 0, as chained products require.
        let difference = _mm512_sub_epi64(_mm512_add_epi64(y, bound), x);
        let product = if MODE == TIGHT {
            self.exact(self.q, _mm512_setzero_si512(), difference, w)
        } else {
            self.chained(self.one, difference, w)
        };
        (sum, product)
    }
}

/// Where a pass reads its entries.
trait Source: Copy {
    /// Loads eight entries from index `at` on. For the first pass they are below q, unless
    /// [`VectorNtt::takes`] larger ones.
    ///
    /// SAFETY: `at + 8 <= limb.len()`, the source must have the length of `limb`, and the CPU must have the
    /// features of the transform.
    unsafe fn load(self, lanes: &Lanes, limb: &[u64], at: usize) -> __m512i;

    /// The offset that a pass of mode [`FIRST`] adds, so that no entry is 0.
    fn first(self, lanes: &Lanes) -> __m512i {
        lanes.q
    }
}

/// Reads from and writes to the limb itself.
#[derive(Clone, Copy)]
struct InPlace;

impl Source for InPlace {
    #[inline(always)]
    unsafe fn load(self, _: &Lanes, limb: &[u64], at: usize) -> __m512i {
        // SAFETY: by the caller's promise.
        unsafe { load(limb, at) }
    }
}

/// Loads the columns of a pass from entry i on that fill the registers. The block has W parts; with C = 16/W,
/// register jC + c holds the eight entries from i + 8c on of part j.
///
/// SAFETY: `source` must have the length of `block`.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
#[inline]
unsafe fn load_columns<const W: usize>(
    lanes: &Lanes,
    source: impl Source,
    block: &[u64],
    i: usize,
) -> [__m512i; REGISTERS] {
    let mut v = [lanes.q; REGISTERS];
    for (j, v) in v.iter_mut().enumerate() {
        // SAFETY: the W parts make up the block, and each has C registers from i on.
        *v = unsafe { source.load(lanes, block, column_index::<W>(block, i, j)) };
    }
    v
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
#[inline]
fn store_columns<const W: usize>(block: &mut [u64], i: usize, v: &[__m512i; REGISTERS]) {
    for (j, &v) in v.iter().enumerate() {
        let at = column_index::<W>(block, i, j);
        // SAFETY: as for `load_columns`.
        unsafe { store(block, at, v) }
    }
}

#[inline]
fn column_index<const W: usize>(block: &[u64], i: usize, j: usize) -> usize {
    let columns = REGISTERS / W;
    i + j / columns * (block.len() / W) + j % columns * LANES
}

/// The W − 1 roots of a pass; those of its stage with 2ʲ blocks have the indices from 2ʲ on.
#[inline]
fn forward_roots<const W: usize>(t: &VectorNtt, root: usize) -> [Root; W] {
    let mut w = [[0; 2]; W];
    for level in (0..W.trailing_zeros()).map(|s| 1 << s) {
        w[level..2 * level].copy_from_slice(&t.roots[root * level..][..level]);
    }
    w
}

/// The roots of an inverse pass: those of [`forward_roots`], in reverse order within each stage.
#[inline]
fn inverse_roots<const W: usize>(t: &VectorNtt, root: usize) -> [Root; W] {
    let mut w = forward_roots(t, root);
    for level in (0..W.trailing_zeros()).map(|s| 1 << s) {
        w[level..2 * level].reverse();
    }
    w
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
#[inline]
fn permute(by: [__m512i; 2], (a, b): (__m512i, __m512i)) -> (__m512i, __m512i) {
    (_mm512_permutex2var_epi64(a, by[0], b), _mm512_permutex2var_epi64(a, by[1], b))
}

/// The roots of stage `STAGE` of the four stages of a group, one in each lane.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
#[inline]
fn group_root<const STAGE: usize>(lanes: &Lanes, g: &GroupRoots) -> RootLanes {
    let w = &g.0;
    // SAFETY: the loads read words 2 to 3, 4 to 7 and 8 to 15 of sixteen.
    unsafe {
        match STAGE {
            0 => RootLanes::splat([w[0], w[1]]),
            1 => lanes.root(_mm512_broadcast_i64x2(_mm_loadu_si128(w.as_ptr().add(2).cast()))),
            2 => lanes.root(_mm512_broadcast_i64x4(_mm256_loadu_si256(w.as_ptr().add(4).cast()))),
            _ => lanes.root(load(w, 8)),
        }
    }
}
