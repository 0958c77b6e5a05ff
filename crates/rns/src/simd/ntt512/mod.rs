//! The negacyclic transform on AVX-512 IFMA: the butterflies of Longa and Naehrig 2016, up to three stages a pass over
//! memory and the seven last ones in registers.
//!
//! | symbol | here |
//! |---|---|
//! | R = 2⁵² | radix of the Montgomery products |
//! | ψ^bitrev(i) | root i: of the stage with 2ʲ blocks, block k has root 2ʲ + k |
//! | w̄ ≡ w·R mod q | a root as it is stored, with w̄/q or −w̄/q modulo R |
//!
//! Products by roots (Montgomery 1985), for any y below R:
//!
//! - Exact, w̄ < q: with m = y·w̄/q mod R the low halves of y·w̄ and m·q are equal, so y·w ≡ hi(y·w̄) − hi(m·q), in (−q, q).
//! - Chained, for primes of [`CHAINED_BITS`]: with m = −y·w̄/q mod R the low halves sum to R unless both are 0, so
//!   y·w ≡ hi(y·w̄) + hi(m·q) + 1: no subtraction, as the multiplier adds. An odd w̄ < 2q and y ≠ 0 keep m from 0. If
//!   y < R/2, hi(y·w̄) + hi(m·q) + 1 − q is in (−q, q).
//!
//! The inverse reads the same roots backwards: root 2ʲ + k times root 2ʲ⁺¹ − 1 − k is ψᴺ = −1.
//!
//! Safety of every function here: the CPU must have the features named in `target_feature`; only [`VectorNtt::new`]
//! makes a table, and it asks.

mod forward;
mod inverse;

use super::avx512::{load, splat, store};
use super::{Kernel, kernels};
use crate::Modulus;
use crate::modulus::inverse_modulo_word;
use crate::ntt::{Input, Lift, NttKernel, Output};
use crate::pairs::LANES;
use forward::{Digit, Lifted, Quotient, Unreduced, forward};
use inverse::inverse;
use std::arch::x86_64::*;

/// Points that the last four stages transform within two registers.
const GROUP: usize = 16;
/// Registers that hold values, of thirty-two.
const REGISTERS: usize = 16;
/// Points that the last seven stages transform within all of them.
const TAIL: usize = 128;
/// R − 1.
const MASK: u64 = (1 << 52) - 1;
/// Words of a block that stays in the first-level cache until it is done.
const BLOCK: usize = 1 << 12;
/// Chained products, and no reduction in a forward stage: values start below 2q and grow by less than 2q a stage, so that
/// the last of sixteen finds them below 32q, which is at most R/2 up to here.
const CHAINED_BITS: u32 = 46;
/// No reduction in an inverse stage but before a pass that needs one: values double at each, and the last of the first seven takes
/// differences below 2⁷q, which is at most R/2 up to here.
const INVERSE_LAZY_BITS: u32 = 44;

/// Chained products, no reduction.
const LAZY: u8 = 0;
/// The same for the first forward pass, which adds q to its input or what else makes residues of it, so that nothing is 0.
const FIRST: u8 = 1;
/// Chained products, inverse values kept below 2q.
const MIDDLE: u8 = 2;
/// Exact products, values kept below 4q (forward) or 2q (inverse).
const TIGHT: u8 = 3;

/// w̄ and the factor of m.
type Root = [u64; 2];

/// Roots of the four stages of sixteen neighbours: one (with its second word), two, four, eight.
#[repr(align(64))]
struct GroupRoots([u64; GROUP]);

/// The transform for one prime and N ≥ 512.
pub(crate) struct VectorNtt {
    modulus: Modulus,
    n: usize,
    /// 1/q modulo R, or −1/q for chained products.
    factor: u64,
    /// Roots below N/16, in order.
    roots: Vec<Root>,
    groups: Vec<GroupRoots>,
    /// N⁻¹, and the last inverse root times it, as residues.
    inverse_n: u64,
    last_root: u64,
    /// Stages of each pass before those within registers: twos, then threes. (Fours would be sixteen streams at strides
    /// that share a set of the cache, which has fewer ways.)
    passes: Vec<u32>,
    /// How many of them come before the blocks fit the cache; at least one.
    across: usize,
}

impl VectorNtt {
    /// Smallest ring degree.
    const MIN_N: usize = 4 * TAIL;

    /// The transform with root `psi` of order 2n, if this process runs the vector kernels; n is a power of two.
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
            // q is odd, so that one of the two is.
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
    /// Of coefficients that are larger by less than `above` than [`Source::load`] has them.
    ///
    /// SAFETY: the CPU has what the transform needs.
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    unsafe fn forward_from(&self, limb: &mut [u64], source: impl Source, output: Output, above: u64) {
        let q = self.modulus.value();
        // SAFETY: the caller checked that all have one length.
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
                    // Values end below 34q more, and with another q that is below R.
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

    /// Whether coefficients that are larger by less than `above` need not be reduced: chained values are then larger by as much
    /// throughout.
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

    /// The residue `w` as a factor of exact products.
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
        // SAFETY: `new` asked the CPU.
        unsafe {
            match input {
                Input::Limb => self.forward_from(limb, InPlace, output, 0),
                Input::Lifted(Lift::Residue { prime, less, exact }, from) => {
                    let (q, half) = (self.modulus.value(), splat(prime / 2));
                    if exact {
                        let source = Lifted::<true> { from, half, less: splat(less), first: splat(q) };
                        self.forward_from(limb, source, output, 0);
                    } else if self.takes(prime, &output) {
                        // The multiple of q that makes all positive.
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
                        // Exact values start below 4q: such primes have as many bits as the widest digit.
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
        // SAFETY: `new` asked the CPU.
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

/// What every butterfly needs, in all lanes.
#[derive(Clone, Copy)]
struct Lanes {
    q: __m512i,
    two_q: __m512i,
    minus_q: __m512i,
    one: __m512i,
    two: __m512i,
    /// What twice x, less a sum, wants: see [`Lanes::forward`].
    twice_lift: __m512i,
    factor: __m512i,
    /// ⌊R/q⌋.
    barrett: __m512i,
}

/// A root in all lanes, or one a lane.
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

    /// Completes the roots w̄.
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    #[inline]
    fn root(&self, w: __m512i) -> RootLanes {
        RootLanes(w, _mm512_madd52lo_epu64(_mm512_setzero_si512(), w, self.factor))
    }

    /// c + y·w, exact, less `c_less`.
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    #[inline]
    fn exact(&self, c: __m512i, c_less: __m512i, y: __m512i, w: RootLanes) -> __m512i {
        let m = _mm512_madd52lo_epu64(_mm512_setzero_si512(), y, w.1);
        _mm512_sub_epi64(_mm512_madd52hi_epu64(c, y, w.0), _mm512_madd52hi_epu64(c_less, m, self.q))
    }

    /// c − 1 + y·w + (up to 2q), chained.
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    #[inline]
    fn chained(&self, c: __m512i, y: __m512i, w: RootLanes) -> __m512i {
        let m = _mm512_madd52lo_epu64(_mm512_setzero_si512(), y, w.1);
        _mm512_madd52hi_epu64(_mm512_madd52hi_epu64(c, y, w.0), m, self.q)
    }

    /// y·w, exact and reduced.
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
        // Short by at most one, so the remainder is below 2q.
        let r = _mm512_sub_epi64(x, _mm512_madd52lo_epu64(zero, estimate, self.q));
        _mm512_min_epu64(r, _mm512_sub_epi64(r, self.q))
    }

    /// x ± y·w. Tight: [0, 4q) → (0, 4q).
    ///
    /// Lazy: [a, b] → (a, b + 2q) for y in [1, R/2). A chained sum is short by 1; so that nothing need be added, x is ahead
    /// by as many ones as sums follow before it is next a y, or done ([`run`]). Both outputs are then ahead by one less.
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

    /// x + y and (y − x)·w; w is the negated inverse root. Lazy: below `bound` (q·2ˢ) → below twice that. Otherwise `bound`
    /// is 2q: [0, 2q) → [0, 2q).
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
        // Never 0.
        let difference = _mm512_sub_epi64(_mm512_add_epi64(y, bound), x);
        let product = if MODE == TIGHT {
            self.exact(self.q, _mm512_setzero_si512(), difference, w)
        } else {
            self.chained(self.one, difference, w)
        };
        (sum, product)
    }
}

/// Where a pass finds its values.
trait Source: Copy {
    /// Eight values from entry `at` of the limb on: below q for the first pass, unless [`VectorNtt::takes`] larger ones.
    ///
    /// SAFETY: `at + 8 <= limb.len()`, the length of what the source holds; the CPU has what the transform needs.
    unsafe fn load(self, lanes: &Lanes, limb: &[u64], at: usize) -> __m512i;

    /// What the first pass adds in [`FIRST`]: then nothing is 0.
    fn first(self, lanes: &Lanes) -> __m512i {
        lanes.q
    }
}

/// In the limb.
#[derive(Clone, Copy)]
struct InPlace;

impl Source for InPlace {
    #[inline(always)]
    unsafe fn load(self, _: &Lanes, limb: &[u64], at: usize) -> __m512i {
        // SAFETY: by the caller's promise.
        unsafe { load(limb, at) }
    }
}

/// Columns of a pass from entry i on, as many as fill the registers: v_{jC + c} has the entries from i + 8c on of part j,
/// of W; C is 16/W.
///
/// SAFETY: what `source` holds has the length of `block`.
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
        // SAFETY: W parts are the length, and C vectors from i on are in each.
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

/// The W − 1 roots of a pass, those of its stage with 2ʲ blocks from 2ʲ on.
#[inline]
fn forward_roots<const W: usize>(t: &VectorNtt, root: usize) -> [Root; W] {
    let mut w = [[0; 2]; W];
    for level in (0..W.trailing_zeros()).map(|s| 1 << s) {
        w[level..2 * level].copy_from_slice(&t.roots[root * level..][..level]);
    }
    w
}

/// The same backwards: of each stage, block k has the root that mirrors it.
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

/// The roots of one of a group's four stages, each lane its own.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
#[inline]
fn group_root<const STAGE: usize>(lanes: &Lanes, g: &GroupRoots) -> RootLanes {
    let w = &g.0;
    // SAFETY: words 2 and 3, 4 to 7 and 8 to 15 of sixteen.
    unsafe {
        match STAGE {
            0 => RootLanes::splat([w[0], w[1]]),
            1 => lanes.root(_mm512_broadcast_i64x2(_mm_loadu_si128(w.as_ptr().add(2).cast()))),
            2 => lanes.root(_mm512_broadcast_i64x4(_mm256_loadu_si256(w.as_ptr().add(4).cast()))),
            _ => lanes.root(load(w, 8)),
        }
    }
}
