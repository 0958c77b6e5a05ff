//! The forward transform, from coefficients to values.

use super::*;

/// Reads residues modulo another prime and lifts them. If `EXACT`, the lifted integers are in the range of
/// the first pass and need no reduction.
#[derive(Clone, Copy)]
pub(super) struct Lifted<'a, const EXACT: bool> {
    pub(super) from: &'a [u64],
    pub(super) half: __m512i,
    /// Added to residues above `half`.
    pub(super) less: __m512i,
    /// A multiple of q that is added to every entry.
    pub(super) first: __m512i,
}

impl<const EXACT: bool> Source for Lifted<'_, EXACT> {
    #[inline(always)]
    unsafe fn load(self, lanes: &Lanes, _: &[u64], at: usize) -> __m512i {
        // SAFETY: by the caller's promise. Both terms are below 2⁵⁰.
        unsafe {
            let x = load(self.from, at);
            let x = _mm512_mask_add_epi64(x, _mm512_cmpgt_epu64_mask(x, self.half), x, self.less);
            if EXACT { x } else { lanes.reduce(x) }
        }
    }

    #[inline(always)]
    fn first(self, _: &Lanes) -> __m512i {
        self.first
    }
}

/// Reads digits, each stored with half its range added, for a pass that starts in mode `START`. In mode
/// [`LAZY`] they are reduced first.
#[derive(Clone, Copy)]
pub(super) struct Digit<'a, const START: u8> {
    pub(super) from: &'a [u64],
    /// −2^(bits − 1) mod q, which is not 0, since q is odd.
    pub(super) less: __m512i,
}

impl<const START: u8> Source for Digit<'_, START> {
    #[inline(always)]
    unsafe fn load(self, lanes: &Lanes, _: &[u64], at: usize) -> __m512i {
        // SAFETY: by the caller's promise. Both terms are below 2⁵⁰.
        unsafe {
            let x = load(self.from, at);
            match START {
                FIRST => x,
                TIGHT => _mm512_add_epi64(x, self.less),
                _ => lanes.reduce(_mm512_add_epi64(x, self.less)),
            }
        }
    }

    #[inline(always)]
    fn first(self, lanes: &Lanes) -> __m512i {
        if START == FIRST { self.less } else { lanes.q }
    }
}

/// Where the last pass writes its values.
pub(super) trait Sink {
    /// Writes eight unreduced values of the last stage, which belong to the entries from `at` on of the limb.
    /// `tail` holds the entries of the limb from `at − i` on.
    ///
    /// SAFETY: `at + 8` must be at most the length of the limb and `i + 8` that of `tail`, and the CPU must
    /// have the features of the transform.
    unsafe fn store(&mut self, lanes: &Lanes, tail: &mut [u64], i: usize, at: usize, v: __m512i);
}

impl Sink for InPlace {
    #[inline(always)]
    unsafe fn store(&mut self, lanes: &Lanes, tail: &mut [u64], i: usize, _: usize, v: __m512i) {
        // SAFETY: by the caller's promise.
        unsafe { store(tail, i, lanes.reduce(v)) }
    }
}

/// Writes the values to the limb without reduction.
pub(super) struct Unreduced;

impl Sink for Unreduced {
    #[inline(always)]
    unsafe fn store(&mut self, _: &Lanes, tail: &mut [u64], i: usize, _: usize, v: __m512i) {
        // SAFETY: by the caller's promise.
        unsafe { store(tail, i, v) }
    }
}

/// Writes x ← (x − v)·w for a limb x and the values v. If `LAZY`, v is not reduced before the subtraction.
pub(super) struct Quotient<'a, const LAZY: bool> {
    pub(super) x: &'a mut [u64],
    pub(super) w: RootLanes,
    /// A multiple of q that is at least v.
    pub(super) above: __m512i,
}

impl<const LAZY: bool> Sink for Quotient<'_, LAZY> {
    #[inline(always)]
    unsafe fn store(&mut self, lanes: &Lanes, _: &mut [u64], _: usize, at: usize, v: __m512i) {
        // SAFETY: by the caller's promise, x being as long as the limb.
        unsafe {
            let v = if LAZY { v } else { lanes.reduce(v) };
            let difference = _mm512_sub_epi64(_mm512_add_epi64(load(self.x, at), self.above), v);
            store(self.x, at, lanes.mul(difference, self.w));
        }
    }
}

/// The forward transform. The first pass has mode `START`, the others have mode `MODE`.
///
/// SAFETY: `source` and `sink` must have the length of `limb`.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn forward<const START: u8, const MODE: u8>(
    t: &VectorNtt,
    limb: &mut [u64],
    source: impl Source,
    mut sink: impl Sink,
) {
    let lanes = Lanes::new(t);
    let (across, within) = t.passes.split_at(t.across);
    let mut blocks = 1;
    for &stages in across {
        for (k, block) in limb.chunks_exact_mut(t.n / blocks).enumerate() {
            // SAFETY: the first pass takes the whole limb as its block; the others read their own block.
            unsafe {
                match blocks {
                    1 => forward_stages::<START>(t, &lanes, stages, block, 1, source),
                    _ => forward_stages::<MODE>(t, &lanes, stages, block, blocks + k, InPlace),
                }
            }
        }
        blocks <<= stages;
    }
    for (k, block) in limb.chunks_exact_mut(t.n / blocks).enumerate() {
        let (mut root, mut len) = (blocks + k, block.len());
        for &stages in within {
            for (j, part) in block.chunks_exact_mut(len).enumerate() {
                // SAFETY: as above.
                unsafe { forward_stages::<MODE>(t, &lanes, stages, part, root + j, InPlace) };
            }
            (root, len) = (root << stages, len >> stages);
        }
        let start = k * block.len();
        for (j, tail) in block.chunks_exact_mut(TAIL).enumerate() {
            // SAFETY: `tail` is the part of the limb from `start + j * TAIL` on.
            unsafe { forward_tail::<MODE>(t, &lanes, tail, root + j, start + j * TAIL, &mut sink) };
        }
    }
}

/// SAFETY: `source` must have the length of `block`.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
#[inline]
unsafe fn forward_stages<const MODE: u8>(
    t: &VectorNtt,
    lanes: &Lanes,
    stages: u32,
    block: &mut [u64],
    root: usize,
    source: impl Source,
) {
    // SAFETY: by the caller's promise.
    unsafe {
        match stages {
            2 => forward_pass::<4, MODE>(t, lanes, block, root, source),
            _ => forward_pass::<8, MODE>(t, lanes, block, root, source),
        }
    }
}

/// Transforms one block by log₂ W stages. `root` is the root of the first stage; the length of the block is a
/// multiple of 128·W.
///
/// SAFETY: `source` must have the length of `block`.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn forward_pass<const W: usize, const MODE: u8>(
    t: &VectorNtt,
    lanes: &Lanes,
    block: &mut [u64],
    root: usize,
    source: impl Source,
) {
    let stride = block.len() / W;
    let w = forward_roots::<W>(t, root);
    let first = source.first(lanes);
    for i in (0..stride).step_by(LANES * REGISTERS / W) {
        // SAFETY: by the caller's promise.
        let mut v = unsafe { load_columns::<W>(lanes, source, block, i) };
        if MODE != TIGHT {
            for (j, v) in v[..REGISTERS / 2].iter_mut().enumerate() {
                *v = _mm512_add_epi64(*v, splat(run(j * W / REGISTERS, W)));
            }
        }
        if MODE == FIRST {
            for v in &mut v {
                *v = _mm512_add_epi64(*v, first);
            }
        }
        forward_stage::<8, MODE>(lanes, &mut v, &w);
        forward_stage::<4, MODE>(lanes, &mut v, &w);
        if W == 8 {
            forward_stage::<2, MODE>(lanes, &mut v, &w);
        }
        store_columns::<W>(block, i, &v);
    }
}

/// The number of stages in which part `j` of `w` is an x before it is first a y or the pass ends: the number
/// of leading zeros of j as a number of log₂ w bits.
const fn run(j: usize, w: usize) -> u64 {
    (w.ilog2() - (j + 1).next_power_of_two().ilog2()) as u64
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
#[inline]
fn forward_stage<const HALF: usize, const MODE: u8>(lanes: &Lanes, v: &mut [__m512i; REGISTERS], w: &[Root]) {
    let level = REGISTERS / 2 / HALF;
    for k in 0..level {
        let root = RootLanes::splat(w[level + k]);
        for j in 2 * HALF * k..2 * HALF * k + HALF {
            (v[j], v[j + HALF]) = lanes.forward::<MODE>(v[j], v[j + HALF], root);
        }
    }
}

/// The permutation that interleaves two registers: entry i of the pair comes from entry ⌊i/2⌋ + 8·(i mod 2).
/// With the bits of an index written (v, l₂, l₁, l₀), where v selects the register, the entry at (v, l₂, l₁,
/// l₀) moves to (l₂, l₁, l₀, v). Butterflies are always between the two registers. Four stages with this
/// permutation behind each therefore pair the entries by v, l₂, l₁ and l₀ in turn, and leave every entry in
/// its place.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
#[inline]
fn turns() -> [__m512i; 2] {
    [_mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15)]
}

/// Stage `STAGE` of a group and the permutation behind it, for four groups from `first` on. Four independent
/// groups hide the latency of the multiplications.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
#[inline]
fn forward_groups<const STAGE: usize, const MODE: u8>(
    lanes: &Lanes,
    v: &mut [__m512i; REGISTERS],
    first: usize,
    groups: &[GroupRoots],
) {
    let turn = turns();
    for g in first..first + 4 {
        let w = group_root::<STAGE>(lanes, &groups[g]);
        let (x, y) = lanes.forward::<MODE>(v[2 * g], v[2 * g + 1], w);
        (v[2 * g], v[2 * g + 1]) = permute(turn, (x, y));
    }
}

/// The last seven stages of the block with root `root`. Its first entry is entry `at` of the limb.
///
/// SAFETY: `sink` must have all entries of the limb that `block` covers.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
#[inline]
unsafe fn forward_tail<const MODE: u8>(
    t: &VectorNtt,
    lanes: &Lanes,
    block: &mut [u64],
    root: usize,
    at: usize,
    sink: &mut impl Sink,
) {
    let w = forward_roots::<8>(t, root);
    let groups = &t.groups[root * (TAIL / GROUP) - t.n / GROUP..][..TAIL / GROUP];
    let mut v = [lanes.q; REGISTERS];
    for (j, v) in v.iter_mut().enumerate() {
        // SAFETY: the block has 128 entries.
        *v = unsafe { load(block, j * LANES) };
    }
    if MODE != TIGHT {
        for (j, v) in v[..8].iter_mut().enumerate() {
            let ahead = match j {
                0 => _mm512_setr_epi64(7, 6, 5, 5, 4, 4, 4, 4),
                _ => splat(run(j, 16)),
            };
            *v = _mm512_add_epi64(*v, ahead);
        }
    }
    forward_stage::<8, MODE>(lanes, &mut v, &w);
    forward_stage::<4, MODE>(lanes, &mut v, &w);
    forward_stage::<2, MODE>(lanes, &mut v, &w);
    for first in [0, 4] {
        forward_groups::<0, MODE>(lanes, &mut v, first, groups);
        forward_groups::<1, MODE>(lanes, &mut v, first, groups);
        forward_groups::<2, MODE>(lanes, &mut v, first, groups);
        forward_groups::<3, MODE>(lanes, &mut v, first, groups);
    }
    for (j, &v) in v.iter().enumerate() {
        // SAFETY: the block has 128 entries; the rest is the caller's promise.
        unsafe { sink.store(lanes, block, j * LANES, at + j * LANES, v) }
    }
}
