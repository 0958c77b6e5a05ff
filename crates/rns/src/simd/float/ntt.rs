//! The negacyclic transform in double precision: the butterflies of Longa and Naehrig 2016, with up to three
//! stages in each pass over memory and the last stages in registers. Between passes the words of a limb hold
//! doubles.
//!
//! Root i is ψ^bitrev(i), centred; block k of the stage with 2ʲ blocks has root 2ʲ + k. The inverse transform
//! reads the same roots in reverse order: root 2ʲ + k times root 2ʲ⁺¹ − 1 − k is ψᴺ = −1.
//!
//! A product of x by a centred root is at most (½ + |x|·2⁻⁵³)·q in magnitude, for |x| ≤ 2⁵² ([`Lanes::mul`]).
//!
//! The last stages transform groups of GROUP registers of LANES entries each ([`Vector`]): first stages
//! between registers, whose roots are those of one block each, then stages within registers, which are
//! transposed for them. The roots of the stages within are stored in the order of lanes.

use super::super::vector::{Operation, Vector};
use super::{Lanes, Lifter, centered};
use crate::Modulus;
use crate::simd::operands::{Input, NttKernel, Output};

/// Registers of a tile: the last stages transform those of one tile at the same time, to hide the latency of
/// products.
const TILE: usize = 8;
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

/// Runs `$body` for each `$stage` from 0 to `$stages` − 1, at most 2, as a constant: loops with a constant
/// number of rounds are unrolled, so that their values stay in registers.
macro_rules! each_stage {
    ($stages:expr, $stage:ident => $body:expr) => {
        if $stages > 0 {
            const $stage: u32 = 0;
            $body;
        }
        if $stages > 1 {
            const $stage: u32 = 1;
            $body;
        }
        if $stages > 2 {
            const $stage: u32 = 2;
            $body;
        }
    };
}

/// The transform for one prime and a ring degree of at least [`Self::MIN_N`].
pub(in crate::simd) struct FloatNtt<V: Vector> {
    vector: V,
    modulus: Modulus,
    n: usize,
    /// The roots. From N/LANES on they belong to stages within registers. Those of stage j within, counted
    /// from 0, are stored in sets of LANES·2ʲ: every 2ʲ-th of a set from its first on, then every 2ʲ-th from
    /// its second on, and so on.
    roots: Vec<f64>,
    /// N⁻¹ mod q.
    inverse_n: u64,
    /// N⁻¹ times the root of the last inverse stage, mod q.
    last_root: u64,
    /// The number of stages of each pass over memory, two or three, in ascending order.
    passes: Vec<u32>,
    /// The number of passes, at least one, before a block fits the cache.
    across: usize,
}

impl<V: Vector> FloatNtt<V> {
    /// Entries of a group.
    const TAIL: usize = V::GROUP * V::LANES;
    /// Stages of a group.
    const STAGES: u32 = Self::TAIL.trailing_zeros();
    /// Stages of a group within registers.
    const WITHIN: u32 = V::LANES.trailing_zeros();
    /// The smallest ring degree that this kernel transforms: a pass of two stages comes before the groups.
    const MIN_N: usize = 4 * Self::TAIL;

    /// The transform of length n, a power of two, with the root `psi` of order 2n; `None` if n is out of
    /// range.
    pub(in crate::simd) fn new(vector: V, modulus: Modulus, n: usize, psi: u64) -> Option<Self> {
        if !(Self::MIN_N..=1 << 16).contains(&n) {
            return None;
        }
        let log_n = n.trailing_zeros();
        let mut roots = vec![0.0; n];
        let mut p = 1;
        for i in 0..n {
            roots[crate::bit_reverse(i, log_n)] = centered(&modulus, p);
            p = modulus.mul(p, psi);
        }
        for stride in (0..Self::WITHIN).map(|stage| 1 << stage) {
            let first = n / V::LANES * stride;
            for set in roots[first..2 * first].chunks_exact_mut(V::LANES * stride) {
                let natural = set.to_vec();
                let ordered = (0..stride).flat_map(|c| natural[c..].iter().step_by(stride));
                set.iter_mut().zip(ordered).for_each(|(to, &from)| *to = from);
            }
        }
        let inverse_n = modulus.inv(n as u64);
        // ψ^(N/2) is root 1.
        let last_root = modulus.mul(modulus.pow(psi, n as u64 / 2), inverse_n);
        let stages = log_n - Self::STAGES;
        let passes = stages.div_ceil(3);
        let passes: Vec<u32> = (0..passes).map(|i| (stages + i) / passes).collect();
        let fits = |&across: &usize| n >> passes[..across].iter().sum::<u32>() <= BLOCK;
        let across = (1..passes.len()).find(fits).unwrap_or(passes.len());
        Some(FloatNtt { vector, modulus, n, roots, inverse_n, last_root, passes, across })
    }

    /// The W − 1 roots of a pass; those of its stage with 2ʲ blocks have the indices from 2ʲ on.
    #[inline(always)]
    fn pass_roots<const W: usize>(&self, v: V, root: usize) -> [V::Doubles; W] {
        let mut w = [v.splat(0.0); W];
        for level in (0..W.trailing_zeros()).map(|s| 1 << s) {
            let roots = &self.roots[root * level..][..level];
            w[level..2 * level].iter_mut().zip(roots).for_each(|(w, &root)| *w = v.splat(root));
        }
        w
    }

    /// Runs the pass of `stages` stages that starts with `root`.
    #[inline(always)]
    fn forward_stages<const MODE: u8, S: Source<V>>(
        &self,
        lanes: &Lanes<V>,
        stages: u32,
        block: &mut [u64],
        root: usize,
        source: S,
    ) {
        assert!(source.covers(block), "input of another length");
        match stages {
            2 => lanes.v.call(ForwardPass::<4, MODE, V, S> { table: self, lanes, block, root, source }),
            _ => lanes.v.call(ForwardPass::<8, MODE, V, S> { table: self, lanes, block, root, source }),
        }
    }

    /// The last stages of all groups of a block, a whole number of tiles. The first group has root `root`,
    /// and its first entry is entry `at` of the limb.
    #[inline(always)]
    fn forward_tails<const MODE: u8>(
        &self,
        lanes: &Lanes<V>,
        block: &mut [u64],
        root: usize,
        at: usize,
        sink: &mut impl Sink<V>,
    ) {
        let v = lanes.v;
        let across = Self::STAGES - Self::WITHIN;
        assert!(sink.covers(at + block.len()), "output of another length");
        for (k, tail) in block.chunks_exact_mut(TILE * V::LANES).enumerate() {
            let first = root + TILE / V::GROUP * k;
            let mut x = [lanes.zero; TILE];
            for (j, x) in x.iter_mut().enumerate() {
                // SAFETY: a tile has so many registers.
                *x = unsafe { InPlace.load(v, tail, j * V::LANES) };
            }
            each_stage!(across, STAGE => self.forward_across::<MODE>(lanes, &mut x, first, STAGE));
            v.transpose(&mut x);
            each_stage!(Self::WITHIN, STAGE => self.forward_within::<MODE>(lanes, &mut x, first, STAGE));
            v.transpose(&mut x);
            for (j, x) in x.into_iter().enumerate() {
                let i = j * V::LANES;
                // SAFETY: the tile starts at entry k·TILE·LANES of the block; the sink was checked above.
                unsafe { sink.store(lanes, tail, i, at + k * TILE * V::LANES + i, x) };
            }
        }
    }

    /// Stage `stage` of a tile between registers. The first group has root `first`.
    #[inline(always)]
    fn forward_across<const MODE: u8>(
        &self,
        lanes: &Lanes<V>,
        x: &mut [V::Doubles; TILE],
        first: usize,
        stage: u32,
    ) {
        let half = V::GROUP >> (stage + 1);
        // The blocks of all groups of the tile are numbered consecutively.
        for b in 0..TILE / (2 * half) {
            let w = lanes.v.splat(self.roots[(first << stage) + b]);
            for j in 2 * half * b..2 * half * b + half {
                let tight = MODE == TIGHT && stage == 0;
                (x[j], x[j + half]) = forward_butterfly(lanes, x[j], x[j + half], w, tight);
            }
        }
    }

    /// Stage `stage` of a tile within registers, which are transposed. The first group has root `first`.
    #[inline(always)]
    fn forward_within<const MODE: u8>(
        &self,
        lanes: &Lanes<V>,
        x: &mut [V::Doubles; TILE],
        first: usize,
        stage: u32,
    ) {
        let (half, blocks) = (V::LANES >> (stage + 1), 1 << stage);
        for set in 0..TILE / V::LANES {
            for b in 0..blocks {
                let w = self.roots_within(lanes, first, set, stage, b);
                let from = set * V::LANES + 2 * half * b;
                for j in from..from + half {
                    // There are at most four stages without a reduction.
                    let tight = MODE == TIGHT && stage == 0 && Self::STAGES > 4;
                    (x[j], x[j + half]) = forward_butterfly(lanes, x[j], x[j + half], w, tight);
                }
            }
        }
    }

    /// The roots of block `b` in each of the LANES registers of a set, at stage `stage` within registers. The
    /// first group of the tile has root `first`.
    #[inline(always)]
    fn roots_within(&self, lanes: &Lanes<V>, first: usize, set: usize, stage: u32, b: usize) -> V::Doubles {
        let at = ((first * V::GROUP + set * V::LANES) << stage) + b * V::LANES;
        // SAFETY: the roots of a stage are whole sets of LANES, and end before the next stage or the table.
        unsafe { lanes.v.load_f64(&self.roots, at) }
    }

    /// Runs the pass of `stages` stages that ends with `root`.
    #[inline(always)]
    fn inverse_stages<const MODE: u8>(
        &self,
        lanes: &Lanes<V>,
        stages: u32,
        block: &mut [u64],
        root: usize,
        ends: [V::Doubles; 2],
    ) {
        let v = lanes.v;
        let table = self;
        match (stages, root) {
            (2, 1) => v.call(InversePass::<4, MODE, true, V> { table, lanes, block, root, ends }),
            (2, _) => v.call(InversePass::<4, MODE, false, V> { table, lanes, block, root, ends }),
            (_, 1) => v.call(InversePass::<8, MODE, true, V> { table, lanes, block, root, ends }),
            (_, _) => v.call(InversePass::<8, MODE, false, V> { table, lanes, block, root, ends }),
        }
    }

    /// The first stages of all groups of a block, which read `from` if it is given, or the block itself. Its
    /// first group is group `first` of the limb.
    #[inline(always)]
    fn inverse_tails<const MODE: u8>(
        &self,
        lanes: &Lanes<V>,
        block: &mut [u64],
        from: Option<&[u64]>,
        first: usize,
    ) {
        let v = lanes.v;
        let groups = self.n / Self::TAIL;
        let across = Self::STAGES - Self::WITHIN;
        for (k, tail) in block.chunks_exact_mut(TILE * V::LANES).enumerate() {
            // The first of the mirrored groups in the forward transform.
            let mirrored = 2 * groups - (first + (k + 1) * (TILE / V::GROUP));
            let from = from.map_or(&*tail, |from| &from[k * TILE * V::LANES..][..TILE * V::LANES]);
            // Registers in reverse order, so that lanes meet the roots of the mirrored groups.
            let mut x = [lanes.zero; TILE];
            for (j, x) in x.iter_mut().enumerate() {
                // SAFETY: a tile has so many registers.
                *x = unsafe { v.load_doubles(from, (TILE - 1 - j) * V::LANES) };
            }
            v.transpose(&mut x);
            each_stage!(Self::WITHIN, STAGE => self.inverse_within::<MODE>(lanes, &mut x, mirrored, STAGE));
            v.transpose(&mut x);
            x.reverse();
            each_stage!(across, STAGE => self.inverse_across::<MODE>(lanes, &mut x, mirrored, STAGE));
            for (j, x) in x.into_iter().enumerate() {
                // SAFETY: as above.
                unsafe { v.store(tail, j * V::LANES, v.bits(x)) };
            }
        }
    }

    /// Stage `stage` of a tile within registers, which are transposed and in reverse order. The first of the
    /// mirrored groups has root `mirrored`.
    #[inline(always)]
    fn inverse_within<const MODE: u8>(
        &self,
        lanes: &Lanes<V>,
        x: &mut [V::Doubles; TILE],
        mirrored: usize,
        stage: u32,
    ) {
        let (half, blocks) = (1 << stage, V::LANES >> (stage + 1));
        for set in 0..TILE / V::LANES {
            for b in 0..blocks {
                let w = self.roots_within(lanes, mirrored, set, Self::WITHIN - 1 - stage, blocks - 1 - b);
                let from = set * V::LANES + 2 * half * b;
                for j in from..from + half {
                    let center = Self::centers(MODE, stage);
                    (x[j], x[j + half]) = inverse_butterfly(lanes, x[j], x[j + half], w, center);
                }
            }
        }
    }

    /// Stage `stage` of a tile between registers. The first of the mirrored groups has root `mirrored`.
    #[inline(always)]
    fn inverse_across<const MODE: u8>(
        &self,
        lanes: &Lanes<V>,
        x: &mut [V::Doubles; TILE],
        mirrored: usize,
        stage: u32,
    ) {
        let (half, across) = (1 << stage, Self::STAGES - Self::WITHIN);
        let blocks = TILE / (2 * half);
        for b in 0..blocks {
            let w = lanes.v.splat(self.roots[(mirrored << (across - 1 - stage)) + blocks - 1 - b]);
            for j in 2 * half * b..2 * half * b + half {
                let center = Self::centers(MODE, Self::WITHIN + stage);
                (x[j], x[j + half]) = inverse_butterfly(lanes, x[j], x[j + half], w, center);
            }
        }
    }

    /// Whether stage `stage` of a group in an inverse transform centres its sums.
    #[inline(always)]
    fn centers(mode: u8, stage: u32) -> bool {
        match mode {
            LAZY => false,
            // There are at most four stages without a reduction.
            PASS => stage + 1 == Self::STAGES || Self::STAGES > 4 && stage + 1 == Self::WITHIN,
            _ => stage % 2 == 1 || stage + 1 == Self::STAGES,
        }
    }
}

/// The forward transform of the entries that `source` reads; `sink` writes the values.
struct Forward<'a, const MODE: u8, V: Vector, S, K> {
    table: &'a FloatNtt<V>,
    limb: &'a mut [u64],
    source: S,
    sink: K,
}

impl<const MODE: u8, V: Vector, S: Source<V>, K: Sink<V>> Operation<V> for Forward<'_, MODE, V, S, K> {
    #[inline(always)]
    fn run(self, v: V) {
        let Forward { table, limb, source, mut sink } = self;
        let lanes = Lanes::new(v, &table.modulus);
        let (across, within) = table.passes.split_at(table.across);
        let mut blocks = 1;
        for &stages in across {
            for (k, block) in limb.chunks_exact_mut(table.n / blocks).enumerate() {
                match blocks {
                    1 => table.forward_stages::<MODE, S>(&lanes, stages, block, 1, source),
                    _ => table.forward_stages::<MODE, InPlace>(&lanes, stages, block, blocks + k, InPlace),
                }
            }
            blocks <<= stages;
        }
        if within.is_empty() {
            // Blocks may be shorter than a tile.
            return table.forward_tails::<MODE>(&lanes, limb, blocks, 0, &mut sink);
        }
        for (k, block) in limb.chunks_exact_mut(table.n / blocks).enumerate() {
            let (mut root, mut len) = (blocks + k, block.len());
            for &stages in within {
                for (j, part) in block.chunks_exact_mut(len).enumerate() {
                    table.forward_stages::<MODE, InPlace>(&lanes, stages, part, root + j, InPlace);
                }
                (root, len) = (root << stages, len >> stages);
            }
            table.forward_tails::<MODE>(&lanes, block, root, k * block.len(), &mut sink);
        }
    }
}

/// Transforms one block by log₂ W stages. `root` is the root of the first stage; the length of the block is a
/// multiple of LANES·W, and `source` has as many entries.
struct ForwardPass<'a, const W: usize, const MODE: u8, V: Vector, S> {
    table: &'a FloatNtt<V>,
    lanes: &'a Lanes<V>,
    block: &'a mut [u64],
    root: usize,
    source: S,
}

impl<const W: usize, const MODE: u8, V: Vector, S: Source<V>> Operation<V>
    for ForwardPass<'_, W, MODE, V, S>
{
    #[inline(always)]
    fn run(self, v: V) {
        let ForwardPass { table, lanes: &lanes, block, root, source } = self;
        let (w, stride) = (table.pass_roots::<W>(v, root), block.len() / W);
        for i in (0..stride).step_by(V::LANES) {
            let mut x = [lanes.q; W];
            for (j, x) in x.iter_mut().enumerate() {
                // SAFETY: the W parts make up the block, and i + LANES <= stride.
                *x = unsafe { source.load(v, block, i + j * stride) };
            }
            let mut half = W / 2;
            while half > 0 {
                let level = W / 2 / half;
                for k in 0..level {
                    for j in 2 * half * k..2 * half * k + half {
                        let tight = MODE == TIGHT && level == 1;
                        (x[j], x[j + half]) =
                            forward_butterfly(&lanes, x[j], x[j + half], w[level + k], tight);
                    }
                }
                half /= 2;
            }
            for (j, &x) in x.iter().enumerate() {
                // SAFETY: as above.
                unsafe { v.store(block, i + j * stride, v.bits(x)) }
            }
        }
    }
}

/// The inverse transform of `values`, or of the content of `limb`, times `factor`.
struct Inverse<'a, const MODE: u8, V: Vector> {
    table: &'a FloatNtt<V>,
    limb: &'a mut [u64],
    values: Option<&'a [u64]>,
    factor: u64,
}

impl<const MODE: u8, V: Vector> Operation<V> for Inverse<'_, MODE, V> {
    #[inline(always)]
    fn run(self, v: V) {
        let Inverse { table, limb, values, factor } = self;
        let (m, lanes) = (&table.modulus, Lanes::new(v, &table.modulus));
        let end = |w: u64| v.splat(centered(m, m.mul(w, factor)));
        let ends = [end(table.inverse_n), end(table.last_root)];
        let (across, within) = table.passes.split_at(table.across);
        let mut blocks: usize = 1 << across.iter().sum::<u32>();
        let tail = FloatNtt::<V>::TAIL;
        if within.is_empty() {
            // Blocks may be shorter than a tile.
            table.inverse_tails::<MODE>(&lanes, limb, values, 0);
        } else {
            let size = table.n / blocks;
            for (k, block) in limb.chunks_exact_mut(size).enumerate() {
                let values = values.map(|values| &values[k * size..][..size]);
                table.inverse_tails::<MODE>(&lanes, block, values, k * size / tail);
                // The root of the first part. Roots descend as parts ascend.
                let (mut root, mut len) = ((2 * blocks - k) * (size / tail) - 1, tail);
                for &stages in within.iter().rev() {
                    (root, len) = (root >> stages, len << stages);
                    for (j, part) in block.chunks_exact_mut(len).enumerate() {
                        table.inverse_stages::<MODE>(&lanes, stages, part, root - j, ends);
                    }
                }
            }
        }
        for &stages in across.iter().rev() {
            blocks >>= stages;
            for (k, block) in limb.chunks_exact_mut(table.n / blocks).enumerate() {
                table.inverse_stages::<MODE>(&lanes, stages, block, 2 * blocks - 1 - k, ends);
            }
        }
    }
}

/// The log₂ W stages that complete one block. `root` is the root of the last stage. If `SCALED`, which is for
/// the last pass, the outputs are multiplied by `ends`, which are N⁻¹·factor and N⁻¹·factor times the last
/// root, and reduced.
struct InversePass<'a, const W: usize, const MODE: u8, const SCALED: bool, V: Vector> {
    table: &'a FloatNtt<V>,
    lanes: &'a Lanes<V>,
    block: &'a mut [u64],
    root: usize,
    ends: [V::Doubles; 2],
}

impl<const W: usize, const MODE: u8, const SCALED: bool, V: Vector> Operation<V>
    for InversePass<'_, W, MODE, SCALED, V>
{
    #[inline(always)]
    fn run(self, v: V) {
        let InversePass { table, lanes: &lanes, block, root, ends: [scale, last] } = self;
        let (mut w, stride) = (table.pass_roots::<W>(v, root), block.len() / W);
        for level in (0..W.trailing_zeros()).map(|s| 1 << s) {
            w[level..2 * level].reverse();
        }
        for i in (0..stride).step_by(V::LANES) {
            let mut x = [lanes.q; W];
            for (j, x) in x.iter_mut().enumerate() {
                // SAFETY: the W parts make up the block, and i + LANES <= stride.
                *x = unsafe { InPlace.load(v, block, i + j * stride) };
            }
            let mut half = 1;
            while half < W / 2 {
                let level = W / 2 / half;
                for k in 0..level {
                    for j in 2 * half * k..2 * half * k + half {
                        // The second of three stages.
                        let center = MODE == TIGHT && half == 2;
                        (x[j], x[j + half]) =
                            inverse_butterfly(&lanes, x[j], x[j + half], w[level + k], center);
                    }
                }
                half *= 2;
            }
            for j in 0..W / 2 {
                let (a, b) = (x[j], x[j + W / 2]);
                if !SCALED {
                    (x[j], x[j + W / 2]) = inverse_butterfly(&lanes, a, b, w[1], MODE != LAZY);
                    continue;
                }
                let sum = lanes.mul(v.add(a, b), scale);
                let difference = lanes.mul(v.sub(b, a), last);
                // Products are below q in magnitude; for the largest primes they may reach q.
                let (sum, difference) = match MODE {
                    TIGHT => (lanes.reduce(sum), lanes.reduce(difference)),
                    _ => (lanes.reduce_once(sum), lanes.reduce_once(difference)),
                };
                (x[j], x[j + W / 2]) = (v.with_bits(sum), v.with_bits(difference));
            }
            for (j, &x) in x.iter().enumerate() {
                // SAFETY: as above.
                unsafe { v.store(block, i + j * stride, v.bits(x)) }
            }
        }
    }
}

impl<V: Vector> FloatNtt<V> {
    fn forward_to<S: Source<V>, K: Sink<V>>(&self, limb: &mut [u64], source: S, sink: K) {
        let table = self;
        if self.modulus.bits() <= FORWARD_LAZY_BITS {
            self.vector.call(Forward::<LAZY, V, S, K> { table, limb, source, sink });
        } else {
            self.vector.call(Forward::<TIGHT, V, S, K> { table, limb, source, sink });
        }
    }

    fn forward_from<S: Source<V>>(&self, limb: &mut [u64], source: S, output: Output) {
        match output {
            Output::Limb | Output::Lazy => self.forward_to(limb, source, Reduced),
            Output::Quotient(x, w) => {
                self.forward_to(limb, source, Quotient { x, w: centered(&self.modulus, w.value) });
            }
        }
    }
}

impl<V: Vector> NttKernel for FloatNtt<V> {
    fn forward_with(&self, limb: &mut [u64], input: Input, output: Output) {
        let held = if let Input::Lifted(_, from) = input { from.len() } else { self.n };
        let kept = if let Output::Quotient(x, _) = &output { x.len() } else { self.n };
        assert_eq!([limb.len(), held, kept], [self.n; 3], "limb of another ring degree");
        match input {
            Input::Limb => self.forward_from(limb, Reduced, output),
            Input::Lifted(lift, from) => {
                self.forward_from(limb, Lifted { lifter: Lifter::new(lift), from }, output)
            }
        }
    }

    fn inverse_with(&self, limb: &mut [u64], values: Option<&[u64]>, factor: u64) {
        let held = values.map_or(self.n, <[u64]>::len);
        assert_eq!([limb.len(), held], [self.n; 2], "limb of another ring degree");
        let (bits, table) = (self.modulus.bits(), self);
        if bits + self.n.trailing_zeros() <= INVERSE_LAZY_BITS {
            self.vector.call(Inverse::<LAZY, V> { table, limb, values, factor });
        } else if bits <= INVERSE_PASS_BITS {
            self.vector.call(Inverse::<PASS, V> { table, limb, values, factor });
        } else {
            self.vector.call(Inverse::<TIGHT, V> { table, limb, values, factor });
        }
    }
}

/// x ± y·w. x is centred before if `center`.
#[inline(always)]
fn forward_butterfly<V: Vector>(
    lanes: &Lanes<V>,
    x: V::Doubles,
    y: V::Doubles,
    w: V::Doubles,
    center: bool,
) -> (V::Doubles, V::Doubles) {
    let (x, t) = (if center { lanes.center(x) } else { x }, lanes.mul(y, w));
    (lanes.v.add(x, t), lanes.v.sub(x, t))
}

/// x + y and (y − x)·w, where w is the negated inverse root. The sum is centred if `center`.
#[inline(always)]
fn inverse_butterfly<V: Vector>(
    lanes: &Lanes<V>,
    x: V::Doubles,
    y: V::Doubles,
    w: V::Doubles,
    center: bool,
) -> (V::Doubles, V::Doubles) {
    let sum = lanes.v.add(x, y);
    (if center { lanes.center(sum) } else { sum }, lanes.mul(lanes.v.sub(y, x), w))
}

/// Where a forward pass reads its entries.
trait Source<V: Vector>: Copy {
    /// Whether the source has as many entries as the block.
    fn covers(self, block: &[u64]) -> bool;
    /// Loads the entries from index `at` on, of at most 2q or 2⁴⁹ in magnitude for the first pass.
    ///
    /// SAFETY: `at + LANES <= limb.len()`, and the source must cover `limb`.
    unsafe fn load(self, v: V, limb: &[u64], at: usize) -> V::Doubles;
}

/// The doubles in the words of the limb.
#[derive(Clone, Copy)]
struct InPlace;

impl<V: Vector> Source<V> for InPlace {
    #[inline(always)]
    fn covers(self, _: &[u64]) -> bool {
        true
    }

    #[inline(always)]
    unsafe fn load(self, v: V, limb: &[u64], at: usize) -> V::Doubles {
        // SAFETY: by the caller's promise.
        unsafe { v.with_bits(v.load(limb, at)) }
    }
}

/// Reduced residues in the limb: what a transform reads and what it writes.
#[derive(Clone, Copy)]
struct Reduced;

impl<V: Vector> Source<V> for Reduced {
    #[inline(always)]
    fn covers(self, _: &[u64]) -> bool {
        true
    }

    #[inline(always)]
    unsafe fn load(self, v: V, limb: &[u64], at: usize) -> V::Doubles {
        // SAFETY: by the caller's promise.
        unsafe { v.load_doubles(limb, at) }
    }
}

/// Lifted integers.
#[derive(Clone, Copy)]
struct Lifted<'a> {
    lifter: Lifter,
    from: &'a [u64],
}

impl<V: Vector> Source<V> for Lifted<'_> {
    #[inline(always)]
    fn covers(self, block: &[u64]) -> bool {
        self.from.len() >= block.len()
    }

    #[inline(always)]
    unsafe fn load(self, v: V, _: &[u64], at: usize) -> V::Doubles {
        // SAFETY: by the caller's promise.
        unsafe { self.lifter.load(v, self.from, at) }
    }
}

/// Where the last pass writes its values.
trait Sink<V: Vector> {
    /// Whether there are at least `n` entries.
    fn covers(&self, n: usize) -> bool;
    /// Writes unreduced values of the last stage, which belong to the entries from `at` on of the limb.
    /// `tail` holds the entries of the limb from `at − i` on.
    ///
    /// SAFETY: the sink must cover `at + LANES`, and `i + LANES` must be at most the length of `tail`.
    unsafe fn store(&mut self, lanes: &Lanes<V>, tail: &mut [u64], i: usize, at: usize, x: V::Doubles);
}

impl<V: Vector> Sink<V> for Reduced {
    #[inline(always)]
    fn covers(&self, _: usize) -> bool {
        true
    }

    #[inline(always)]
    unsafe fn store(&mut self, lanes: &Lanes<V>, tail: &mut [u64], i: usize, _: usize, x: V::Doubles) {
        // SAFETY: by the caller's promise.
        unsafe { lanes.v.store(tail, i, lanes.reduce(x)) }
    }
}

/// Writes x ← (x − v)·w for a limb x and the values v.
struct Quotient<'a> {
    x: &'a mut [u64],
    w: f64,
}

impl<V: Vector> Sink<V> for Quotient<'_> {
    #[inline(always)]
    fn covers(&self, n: usize) -> bool {
        self.x.len() >= n
    }

    #[inline(always)]
    unsafe fn store(&mut self, lanes: &Lanes<V>, _: &mut [u64], _: usize, at: usize, x: V::Doubles) {
        let v = lanes.v;
        // SAFETY: by the caller's promise. The difference to a centred value is below 3q/2, so the product is
        // below q.
        unsafe {
            let difference = v.sub(v.load_doubles(self.x, at), lanes.center(x));
            v.store(self.x, at, lanes.reduce_once(lanes.mul(difference, v.splat(self.w))));
        }
    }
}
