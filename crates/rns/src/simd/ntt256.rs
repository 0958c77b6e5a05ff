//! The negacyclic transform on AVX2 with FMA: the butterflies of Longa and Naehrig 2016 in double precision,
//! with up to three stages in each pass over memory and the last four stages in registers. Between passes the
//! words of a limb hold doubles.
//!
//! Root i is ψ^bitrev(i), centred; block k of the stage with 2ʲ blocks has root 2ʲ + k. The inverse transform
//! reads the same roots in reverse order: root 2ʲ + k times root 2ʲ⁺¹ − 1 − k is ψᴺ = −1.
//!
//! A product of x by a centred root is at most (½ + |x|·2⁻⁵³)·q in magnitude, for |x| ≤ 2⁵² ([`Lanes::mul`]).
//!
//! Safety of every function here: the CPU must have the features named in `target_feature`. Only
//! [`Ntt256::new`] builds a table, and it checks the features.

use super::avx2::{LANES, Lanes, Lifter, centered, load, load_doubles, store};
use super::{Kernel, kernels};
use crate::Modulus;
use crate::simd::operands::{Input, NttKernel, Output};
use std::arch::x86_64::*;

/// Entries that the last four stages transform within four registers.
const TAIL: usize = 16;
/// Words of a block that fits the first-level cache, where it stays for all its remaining stages.
const BLOCK: usize = 1 << 12;
/// The largest size of a prime for forward transforms without any reduction between stages: entries start
/// below 2q and grow by less than (½ + |x|·2⁻⁵³)·q in each stage, to less than 14q in sixteen stages.
const FORWARD_LAZY_BITS: u32 = 48;
/// The largest size of a prime for which inverse stages reduce only sums of the last stage of each pass:
/// entries start below q, and differences of the fourth stage are below 16q.
const INVERSE_PASS_BITS: u32 = 48;
/// The largest size in bits of the product of q and the ring degree for inverse transforms without any
/// reduction.
const INVERSE_LAZY_BITS: u32 = 51;

/// Mode of a pass: no reduction.
const LAZY: u8 = 0;
/// Mode of an inverse pass: the last stage centres its sums.
const PASS: u8 = 1;
/// Mode of a forward pass: the first stage centres the x of its butterflies. Of an inverse pass: of two
/// adjacent stages at least one centres its sums, and the last does.
const TIGHT: u8 = 2;

/// The transform for one prime and a ring degree N ≥ 64.
pub(crate) struct Ntt256 {
    modulus: Modulus,
    n: usize,
    /// The roots with index below N/2.
    roots: Vec<f64>,
    /// The roots of the last stage: those of four even blocks, then those of the four odd ones between.
    last_roots: Vec<f64>,
    /// N⁻¹ mod q.
    inverse_n: u64,
    /// N⁻¹ times the root of the last inverse stage, mod q.
    last_root: u64,
    /// The number of stages of each pass over memory, two or three, in ascending order.
    passes: Vec<u32>,
    /// The number of passes, at least one, before a block fits the cache.
    across: usize,
}

impl Ntt256 {
    /// The smallest ring degree that this kernel transforms.
    const MIN_N: usize = 4 * TAIL;

    /// The transform of length n, a power of two, with the root `psi` of order 2n; `None` if this process
    /// does not run the AVX2 kernels, or n is out of range.
    pub(crate) fn new(modulus: Modulus, n: usize, psi: u64) -> Option<Self> {
        if kernels() != Kernel::Avx2 || !(Self::MIN_N..=1 << 16).contains(&n) {
            return None;
        }
        let log_n = n.trailing_zeros();
        let mut roots = vec![0.0; n];
        let mut p = 1;
        for i in 0..n {
            roots[crate::bit_reverse(i, log_n)] = centered(&modulus, p);
            p = modulus.mul(p, psi);
        }
        let eights = roots[n / 2..].as_chunks::<8>().0.iter();
        let last_roots = eights.flat_map(|w| [w[0], w[2], w[4], w[6], w[1], w[3], w[5], w[7]]).collect();
        roots.truncate(n / 2);
        roots.shrink_to_fit();
        let inverse_n = modulus.inv(n as u64);
        // ψ^(N/2) is root 1.
        let last_root = modulus.mul(modulus.pow(psi, n as u64 / 2), inverse_n);
        let stages = (n / TAIL).trailing_zeros();
        let passes = stages.div_ceil(3);
        let passes: Vec<u32> = (0..passes).map(|i| (stages + i) / passes).collect();
        let fits = |&across: &usize| n >> passes[..across].iter().sum::<u32>() <= BLOCK;
        let across = (1..passes.len()).find(fits).unwrap_or(passes.len());
        Some(Ntt256 { modulus, n, roots, last_roots, inverse_n, last_root, passes, across })
    }

    /// SAFETY: the CPU must have the features of `target_feature`, and all slices must have N entries.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn forward_from(&self, limb: &mut [u64], source: impl Source, output: Output) {
        let lazy = self.modulus.bits() <= FORWARD_LAZY_BITS;
        // SAFETY: by the caller's promise.
        unsafe {
            match output {
                Output::Limb | Output::Lazy if lazy => self.forward_all::<LAZY>(limb, source, Reduced),
                Output::Limb | Output::Lazy => self.forward_all::<TIGHT>(limb, source, Reduced),
                Output::Quotient(x, w) => {
                    let sink = Quotient { x, w: _mm256_set1_pd(centered(&self.modulus, w.value)) };
                    if lazy {
                        self.forward_all::<LAZY>(limb, source, sink);
                    } else {
                        self.forward_all::<TIGHT>(limb, source, sink);
                    }
                }
            }
        }
    }

    /// SAFETY: as for [`Self::forward_from`].
    #[target_feature(enable = "avx2,fma")]
    unsafe fn forward_all<const MODE: u8>(&self, limb: &mut [u64], source: impl Source, mut sink: impl Sink) {
        let lanes = Lanes::new(&self.modulus);
        let (across, within) = self.passes.split_at(self.across);
        let mut blocks = 1;
        for &stages in across {
            for (k, block) in limb.chunks_exact_mut(self.n / blocks).enumerate() {
                // SAFETY: the first pass takes the whole limb as its block; the others read their own block.
                unsafe {
                    match blocks {
                        1 => self.forward_stages::<MODE>(&lanes, stages, block, 1, source),
                        _ => self.forward_stages::<MODE>(&lanes, stages, block, blocks + k, InPlace),
                    }
                }
            }
            blocks <<= stages;
        }
        if within.is_empty() {
            // SAFETY: the block is the limb.
            return unsafe { self.forward_tails::<MODE>(&lanes, limb, blocks, 0, &mut sink) };
        }
        for (k, block) in limb.chunks_exact_mut(self.n / blocks).enumerate() {
            let (mut root, mut len) = (blocks + k, block.len());
            for &stages in within {
                for (j, part) in block.chunks_exact_mut(len).enumerate() {
                    // SAFETY: as above.
                    unsafe { self.forward_stages::<MODE>(&lanes, stages, part, root + j, InPlace) };
                }
                (root, len) = (root << stages, len >> stages);
            }
            // SAFETY: `block` is the part of the limb from `k * block.len()` on.
            unsafe { self.forward_tails::<MODE>(&lanes, block, root, k * block.len(), &mut sink) };
        }
    }

    /// SAFETY: `source` must have the length of `block`.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    unsafe fn forward_stages<const MODE: u8>(
        &self,
        lanes: &Lanes,
        stages: u32,
        block: &mut [u64],
        root: usize,
        source: impl Source,
    ) {
        // SAFETY: by the caller's promise.
        unsafe {
            match stages {
                2 => self.forward_pass::<4, MODE>(lanes, block, root, source),
                _ => self.forward_pass::<8, MODE>(lanes, block, root, source),
            }
        }
    }

    /// Transforms one block by log₂ W stages. `root` is the root of the first stage; the length of the block
    /// is a multiple of 4·W.
    ///
    /// SAFETY: `source` must have the length of `block`.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn forward_pass<const W: usize, const MODE: u8>(
        &self,
        lanes: &Lanes,
        block: &mut [u64],
        root: usize,
        source: impl Source,
    ) {
        let (w, stride) = (self.pass_roots::<W>(root), block.len() / W);
        for i in (0..stride).step_by(LANES) {
            let mut v = [lanes.q; W];
            for (j, v) in v.iter_mut().enumerate() {
                // SAFETY: the W parts make up the block, and i + 4 <= stride.
                *v = unsafe { source.load(block, i + j * stride) };
            }
            let mut half = W / 2;
            while half > 0 {
                let level = W / 2 / half;
                for k in 0..level {
                    for j in 2 * half * k..2 * half * k + half {
                        let x = if MODE == TIGHT && level == 1 { lanes.center(v[j]) } else { v[j] };
                        (v[j], v[j + half]) = forward_butterfly(lanes, x, v[j + half], w[level + k]);
                    }
                }
                half /= 2;
            }
            for (j, &v) in v.iter().enumerate() {
                // SAFETY: as above.
                unsafe { store_doubles(block, i + j * stride, v) }
            }
        }
    }

    /// The W − 1 roots of a pass; those of its stage with 2ʲ blocks have the indices from 2ʲ on.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn pass_roots<const W: usize>(&self, root: usize) -> [__m256d; W] {
        let mut w = [_mm256_setzero_pd(); W];
        for level in (0..W.trailing_zeros()).map(|s| 1 << s) {
            let roots = &self.roots[root * level..][..level];
            w[level..2 * level].iter_mut().zip(roots).for_each(|(w, &root)| *w = _mm256_set1_pd(root));
        }
        w
    }

    /// The last four stages of all groups of a block, an even number. The first group has root `root`, and
    /// its first entry is entry `at` of the limb.
    ///
    /// SAFETY: `sink` must have all entries of the limb that `block` covers.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn forward_tails<const MODE: u8>(
        &self,
        lanes: &Lanes,
        block: &mut [u64],
        root: usize,
        at: usize,
        sink: &mut impl Sink,
    ) {
        /// Groups that are transformed at the same time, to hide the latency of the products.
        const SIDE: usize = 2;
        let groups = self.n / TAIL;
        for (k, tail) in block.as_chunks_mut::<{ SIDE * TAIL }>().0.iter_mut().enumerate() {
            let g = [root - groups + SIDE * k, root - groups + SIDE * k + 1];
            let zero = _mm256_setzero_pd();
            let (mut w8, mut w4) = ([zero; SIDE], [[zero; 2]; SIDE]);
            let (mut w2, mut w1) = ([zero; SIDE], [[zero; 2]; SIDE]);
            let mut v = [[zero; 4]; SIDE];
            // SAFETY: a group has sixteen entries; its roots of the last two stages are four and eight.
            unsafe {
                for s in 0..SIDE {
                    let first = groups + g[s];
                    w8[s] = _mm256_set1_pd(self.roots[first]);
                    w4[s] =
                        [_mm256_set1_pd(self.roots[2 * first]), _mm256_set1_pd(self.roots[2 * first + 1])];
                    w2[s] = load_roots(&self.roots, 4 * first);
                    w1[s] =
                        [load_roots(&self.last_roots, 8 * g[s]), load_roots(&self.last_roots, 8 * g[s] + 4)];
                    for (j, v) in v[s].iter_mut().enumerate() {
                        *v = InPlace.load(tail, s * TAIL + j * LANES);
                    }
                    if MODE == TIGHT {
                        (v[s][0], v[s][1]) = (lanes.center(v[s][0]), lanes.center(v[s][1]));
                    }
                }
                for (v, w) in v.iter_mut().zip(w8) {
                    (v[0], v[2]) = forward_butterfly(lanes, v[0], v[2], w);
                    (v[1], v[3]) = forward_butterfly(lanes, v[1], v[3], w);
                }
                for (v, w) in v.iter_mut().zip(w4) {
                    (v[0], v[1]) = forward_butterfly(lanes, v[0], v[1], w[0]);
                    (v[2], v[3]) = forward_butterfly(lanes, v[2], v[3], w[1]);
                }
                v = [transpose(v[0]), transpose(v[1])];
                for (v, w) in v.iter_mut().zip(w2) {
                    (v[0], v[2]) = forward_butterfly(lanes, v[0], v[2], w);
                    (v[1], v[3]) = forward_butterfly(lanes, v[1], v[3], w);
                }
                for (v, w) in v.iter_mut().zip(w1) {
                    (v[0], v[1]) = forward_butterfly(lanes, v[0], v[1], w[0]);
                    (v[2], v[3]) = forward_butterfly(lanes, v[2], v[3], w[1]);
                }
                for (s, v) in v.into_iter().enumerate() {
                    for (j, v) in transpose(v).into_iter().enumerate() {
                        let i = s * TAIL + j * LANES;
                        sink.store(lanes, tail, i, at + k * SIDE * TAIL + i, v);
                    }
                }
            }
        }
    }

    /// The inverse transform of `values`, or of the content of `limb`, times `factor`.
    #[target_feature(enable = "avx2,fma")]
    fn inverse_all<const MODE: u8>(&self, limb: &mut [u64], values: Option<&[u64]>, factor: u64) {
        let (m, lanes) = (&self.modulus, Lanes::new(&self.modulus));
        let ends = [self.inverse_n, self.last_root].map(|w| _mm256_set1_pd(centered(m, m.mul(w, factor))));
        let (across, within) = self.passes.split_at(self.across);
        let mut blocks: usize = 1 << across.iter().sum::<u32>();
        let size = self.n / blocks;
        for (k, block) in limb.chunks_exact_mut(size).enumerate() {
            self.inverse_tails::<MODE>(
                &lanes,
                block,
                values.map(|v| &v[k * size..][..size]),
                k * size / TAIL,
            );
            // The root of the first part. Roots descend as parts ascend.
            let (mut root, mut len) = ((2 * blocks - k) * (size / TAIL) - 1, TAIL);
            for &stages in within.iter().rev() {
                (root, len) = (root >> stages, len << stages);
                for (j, part) in block.chunks_exact_mut(len).enumerate() {
                    self.inverse_stages::<MODE>(&lanes, stages, part, root - j, ends);
                }
            }
        }
        for &stages in across.iter().rev() {
            blocks >>= stages;
            for (k, block) in limb.chunks_exact_mut(self.n / blocks).enumerate() {
                self.inverse_stages::<MODE>(&lanes, stages, block, 2 * blocks - 1 - k, ends);
            }
        }
    }

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn inverse_stages<const MODE: u8>(
        &self,
        lanes: &Lanes,
        stages: u32,
        block: &mut [u64],
        root: usize,
        ends: [__m256d; 2],
    ) {
        match (stages, root) {
            (2, 1) => self.inverse_pass::<4, MODE, true>(lanes, block, root, ends),
            (2, _) => self.inverse_pass::<4, MODE, false>(lanes, block, root, ends),
            (_, 1) => self.inverse_pass::<8, MODE, true>(lanes, block, root, ends),
            (_, _) => self.inverse_pass::<8, MODE, false>(lanes, block, root, ends),
        }
    }

    /// The log₂ W stages that complete one block. `root` is the root of the last stage. If `SCALED`, which
    /// is for the last pass, the outputs are multiplied by `scale` and `last`, which are N⁻¹·factor and
    /// N⁻¹·factor times the last root, and reduced.
    #[target_feature(enable = "avx2,fma")]
    fn inverse_pass<const W: usize, const MODE: u8, const SCALED: bool>(
        &self,
        lanes: &Lanes,
        block: &mut [u64],
        root: usize,
        [scale, last]: [__m256d; 2],
    ) {
        let (mut w, stride) = (self.pass_roots::<W>(root), block.len() / W);
        for level in (0..W.trailing_zeros()).map(|s| 1 << s) {
            w[level..2 * level].reverse();
        }
        for i in (0..stride).step_by(LANES) {
            let mut v = [lanes.q; W];
            for (j, v) in v.iter_mut().enumerate() {
                // SAFETY: the W parts make up the block, and i + 4 <= stride.
                *v = unsafe { InPlace.load(block, i + j * stride) };
            }
            let mut half = 1;
            while half < W / 2 {
                let level = W / 2 / half;
                for k in 0..level {
                    for j in 2 * half * k..2 * half * k + half {
                        // The second of three stages.
                        let center = MODE == TIGHT && half == 2;
                        (v[j], v[j + half]) =
                            inverse_butterfly(lanes, v[j], v[j + half], w[level + k], center);
                    }
                }
                half *= 2;
            }
            for j in 0..W / 2 {
                let (x, y) = (v[j], v[j + W / 2]);
                if !SCALED {
                    (v[j], v[j + W / 2]) = inverse_butterfly(lanes, x, y, w[1], MODE != LAZY);
                    continue;
                }
                let sum = lanes.mul(_mm256_add_pd(x, y), scale);
                let difference = lanes.mul(_mm256_sub_pd(y, x), last);
                // Products are below q, but for the largest primes perhaps not quite.
                let (sum, difference) = match MODE {
                    TIGHT => (lanes.reduce(sum), lanes.reduce(difference)),
                    _ => (lanes.reduce_once(sum), lanes.reduce_once(difference)),
                };
                (v[j], v[j + W / 2]) = (_mm256_castsi256_pd(sum), _mm256_castsi256_pd(difference));
            }
            for (j, &v) in v.iter().enumerate() {
                // SAFETY: as above.
                unsafe { store_doubles(block, i + j * stride, v) }
            }
        }
    }

    /// The first four stages of all groups of a block, which read `from` if it is given, or the block
    /// itself. Its first group is group `first` of the limb.
    #[target_feature(enable = "avx2,fma")]
    fn inverse_tails<const MODE: u8>(
        &self,
        lanes: &Lanes,
        block: &mut [u64],
        from: Option<&[u64]>,
        first: usize,
    ) {
        let groups = self.n / TAIL;
        for (k, tail) in block.as_chunks_mut::<TAIL>().0.iter_mut().enumerate() {
            // The mirrored group in the forward transform.
            let g = groups - 1 - (first + k);
            let w8 = _mm256_set1_pd(self.roots[groups + g]);
            let w40 = _mm256_set1_pd(self.roots[2 * (groups + g) + 1]);
            let w41 = _mm256_set1_pd(self.roots[2 * (groups + g)]);
            let from = from.map_or(&tail[..], |from| &from[k * TAIL..][..TAIL]);
            // SAFETY: a group has sixteen entries; its roots of the last two stages are four and eight.
            unsafe {
                let w2 = load_roots(&self.roots, 4 * (groups + g));
                let (even, odd) =
                    (load_roots(&self.last_roots, 8 * g), load_roots(&self.last_roots, 8 * g + 4));
                // Registers in reverse order, so that lanes meet the roots of the mirrored group.
                let mut v = [w2; 4];
                for (j, v) in v.iter_mut().enumerate() {
                    *v = load_doubles(from, (3 - j) * LANES);
                }
                let tight = MODE == TIGHT;
                let [a, b, c, d] = transpose(v);
                let (a, b) = inverse_butterfly(lanes, a, b, odd, false);
                let (c, d) = inverse_butterfly(lanes, c, d, even, false);
                let (a, c) = inverse_butterfly(lanes, a, c, w2, tight);
                let (b, d) = inverse_butterfly(lanes, b, d, w2, tight);
                let [d, c, b, a] = transpose([a, b, c, d]);
                let (a, b) = inverse_butterfly(lanes, a, b, w40, false);
                let (c, d) = inverse_butterfly(lanes, c, d, w41, false);
                let (a, c) = inverse_butterfly(lanes, a, c, w8, MODE != LAZY);
                let (b, d) = inverse_butterfly(lanes, b, d, w8, MODE != LAZY);
                for (j, v) in [a, b, c, d].into_iter().enumerate() {
                    store_doubles(tail, j * LANES, v);
                }
            }
        }
    }
}

impl NttKernel for Ntt256 {
    fn forward_with(&self, limb: &mut [u64], input: Input, output: Output) {
        let held = if let Input::Lifted(_, from) = input { from.len() } else { self.n };
        let kept = if let Output::Quotient(x, _) = &output { x.len() } else { self.n };
        assert_eq!([limb.len(), held, kept], [self.n; 3], "limb of another ring degree");
        // SAFETY: `new` checked the features of the CPU.
        unsafe {
            match input {
                Input::Limb => self.forward_from(limb, Reduced, output),
                Input::Lifted(lift, from) => {
                    self.forward_from(limb, Lifted { lifter: Lifter::new(lift), from }, output);
                }
            }
        }
    }

    fn inverse_with(&self, limb: &mut [u64], values: Option<&[u64]>, factor: u64) {
        let held = values.map_or(self.n, <[u64]>::len);
        assert_eq!([limb.len(), held], [self.n; 2], "limb of another ring degree");
        let bits = self.modulus.bits();
        // SAFETY: `new` checked the features of the CPU.
        unsafe {
            if bits + self.n.trailing_zeros() <= INVERSE_LAZY_BITS {
                self.inverse_all::<LAZY>(limb, values, factor);
            } else if bits <= INVERSE_PASS_BITS {
                self.inverse_all::<PASS>(limb, values, factor);
            } else {
                self.inverse_all::<TIGHT>(limb, values, factor);
            }
        }
    }
}

/// x ± y·w.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn forward_butterfly(lanes: &Lanes, x: __m256d, y: __m256d, w: __m256d) -> (__m256d, __m256d) {
    let t = lanes.mul(y, w);
    (_mm256_add_pd(x, t), _mm256_sub_pd(x, t))
}

/// x + y and (y − x)·w, where w is the negated inverse root. The sum is centred if `center`.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn inverse_butterfly(lanes: &Lanes, x: __m256d, y: __m256d, w: __m256d, center: bool) -> (__m256d, __m256d) {
    let sum = _mm256_add_pd(x, y);
    (if center { lanes.center(sum) } else { sum }, lanes.mul(_mm256_sub_pd(y, x), w))
}

/// Register i of the result has entry i of every register.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn transpose([a, b, c, d]: [__m256d; 4]) -> [__m256d; 4] {
    let (ab0, ab1) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
    let (cd0, cd1) = (_mm256_unpacklo_pd(c, d), _mm256_unpackhi_pd(c, d));
    [
        _mm256_permute2f128_pd::<0x20>(ab0, cd0),
        _mm256_permute2f128_pd::<0x20>(ab1, cd1),
        _mm256_permute2f128_pd::<0x31>(ab0, cd0),
        _mm256_permute2f128_pd::<0x31>(ab1, cd1),
    ]
}

/// SAFETY: `i + 4 <= roots.len()`.
#[target_feature(enable = "avx2,fma")]
#[inline]
unsafe fn load_roots(roots: &[f64], i: usize) -> __m256d {
    debug_assert!(i + LANES <= roots.len());
    // SAFETY: in bounds by the caller's promise; the load is unaligned.
    unsafe { _mm256_loadu_pd(roots.as_ptr().add(i)) }
}

/// Stores doubles in words.
///
/// SAFETY: `i + 4 <= x.len()`.
#[target_feature(enable = "avx2,fma")]
#[inline]
unsafe fn store_doubles(x: &mut [u64], i: usize, v: __m256d) {
    // SAFETY: by the caller's promise.
    unsafe { store(x, i, _mm256_castpd_si256(v)) }
}

/// Where a forward pass reads its entries.
trait Source: Copy {
    /// Loads four entries from index `at` on, of at most 2q or 2⁴⁹ in magnitude for the first pass.
    ///
    /// SAFETY: `at + 4 <= limb.len()`, the source must have the length of `limb`, and the CPU must have the
    /// features of the transform.
    unsafe fn load(self, limb: &[u64], at: usize) -> __m256d;
}

/// The doubles in the words of the limb.
#[derive(Clone, Copy)]
struct InPlace;

impl Source for InPlace {
    #[inline(always)]
    unsafe fn load(self, limb: &[u64], at: usize) -> __m256d {
        // SAFETY: by the caller's promise.
        unsafe { _mm256_castsi256_pd(load(limb, at)) }
    }
}

/// Reduced residues in the limb: what a transform reads and what it writes.
#[derive(Clone, Copy)]
struct Reduced;

impl Source for Reduced {
    #[inline(always)]
    unsafe fn load(self, limb: &[u64], at: usize) -> __m256d {
        // SAFETY: by the caller's promise.
        unsafe { load_doubles(limb, at) }
    }
}

/// Lifted integers.
#[derive(Clone, Copy)]
struct Lifted<'a> {
    lifter: Lifter,
    from: &'a [u64],
}

impl Source for Lifted<'_> {
    #[inline(always)]
    unsafe fn load(self, _: &[u64], at: usize) -> __m256d {
        // SAFETY: by the caller's promise.
        unsafe { self.lifter.load(self.from, at) }
    }
}

/// Where the last pass writes its values.
trait Sink {
    /// Writes four unreduced values of the last stage, which belong to the entries from `at` on of the limb.
    /// `tail` holds the entries of the limb from `at − i` on.
    ///
    /// SAFETY: `at + 4` must be at most the length of the limb and `i + 4` that of `tail`, and the CPU must
    /// have the features of the transform.
    unsafe fn store(&mut self, lanes: &Lanes, tail: &mut [u64], i: usize, at: usize, v: __m256d);
}

impl Sink for Reduced {
    #[inline(always)]
    unsafe fn store(&mut self, lanes: &Lanes, tail: &mut [u64], i: usize, _: usize, v: __m256d) {
        // SAFETY: by the caller's promise.
        unsafe { store(tail, i, lanes.reduce(v)) }
    }
}

/// Writes x ← (x − v)·w for a limb x and the values v.
struct Quotient<'a> {
    x: &'a mut [u64],
    w: __m256d,
}

impl Sink for Quotient<'_> {
    #[inline(always)]
    unsafe fn store(&mut self, lanes: &Lanes, _: &mut [u64], _: usize, at: usize, v: __m256d) {
        // SAFETY: by the caller's promise, x being as long as the limb. The difference to a centred value is
        // below 3q/2, so the product is below q.
        unsafe {
            let difference = _mm256_sub_pd(load_doubles(self.x, at), lanes.center(v));
            store(self.x, at, lanes.reduce_once(lanes.mul(difference, self.w)));
        }
    }
}
