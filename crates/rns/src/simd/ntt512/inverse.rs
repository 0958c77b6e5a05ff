//! The inverse transform, from values to coefficients.

use super::*;

/// The inverse transform of `values`, or of the content of `limb`, times `factor`.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) fn inverse<const MODE: u8>(t: &VectorNtt, limb: &mut [u64], values: Option<&[u64]>, factor: u64) {
    let lanes = Lanes::new(t);
    let m = &t.modulus;
    let ends = [t.inverse_n, t.last_root].map(|w| t.exact(m.mul(w, factor)));
    let mut passes = [Pass::default(); 4];
    // Before a pass entries are below 2ˢ·q, where s is the number of stages since they were last reduced.
    let mut grown = TAIL.trailing_zeros();
    for (pass, &stages) in passes.iter_mut().zip(t.passes.iter().rev()) {
        // The differences in the last stage of the pass are below 2^(s + stages)·q.
        let reduced = MODE == LAZY && grown + stages + m.bits() > 51;
        grown = if reduced { 0 } else { grown };
        *pass = Pass { stages, grown, reduced };
        grown += stages;
    }
    let (within, across) = passes[..t.passes.len()].split_at(t.passes.len() - t.across);
    let mut blocks = 1 << across.iter().map(|pass| pass.stages).sum::<u32>();
    for (k, block) in limb.chunks_exact_mut(t.n / blocks).enumerate() {
        // The root of the first part. Roots descend as parts ascend.
        let (mut root, mut len) = ((2 * blocks - k) * (t.n / blocks / TAIL) - 1, TAIL);
        for (j, tail) in block.chunks_exact_mut(TAIL).enumerate() {
            let from = values.map(|values| &values[k * (t.n / blocks) + j * TAIL..][..TAIL]);
            inverse_tail::<MODE>(t, &lanes, tail, from, root - j);
        }
        for pass in within {
            (root, len) = (root >> pass.stages, len << pass.stages);
            for (j, part) in block.chunks_exact_mut(len).enumerate() {
                inverse_stages::<MODE>(t, &lanes, *pass, part, root - j, ends);
            }
        }
    }
    for pass in across {
        blocks >>= pass.stages;
        for (k, block) in limb.chunks_exact_mut(t.n / blocks).enumerate() {
            inverse_stages::<MODE>(t, &lanes, *pass, block, 2 * blocks - 1 - k, ends);
        }
    }
}

/// A pass over memory.
#[derive(Clone, Copy, Default)]
struct Pass {
    /// Number of stages.
    stages: u32,
    /// Number of times that entries have doubled since their last reduction, before the pass.
    grown: u32,
    /// Whether the pass first reduces its entries.
    reduced: bool,
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
#[inline]
fn inverse_stages<const MODE: u8>(
    t: &VectorNtt,
    lanes: &Lanes,
    pass: Pass,
    block: &mut [u64],
    root: usize,
    ends: [RootLanes; 2],
) {
    match (pass.stages, root) {
        (2, 1) => inverse_pass::<4, MODE, true>(t, lanes, pass, block, root, ends),
        (2, _) => inverse_pass::<4, MODE, false>(t, lanes, pass, block, root, ends),
        (_, 1) => inverse_pass::<8, MODE, true>(t, lanes, pass, block, root, ends),
        (_, _) => inverse_pass::<8, MODE, false>(t, lanes, pass, block, root, ends),
    }
}

/// The log₂ W stages that complete one block. `root` is the root of the last stage. If `SCALED`, which is for
/// the last pass, the outputs are multiplied by `scale` and `last`, which are N⁻¹·factor and N⁻¹·factor times
/// the last root, and reduced.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
fn inverse_pass<const W: usize, const MODE: u8, const SCALED: bool>(
    t: &VectorNtt,
    lanes: &Lanes,
    pass: Pass,
    block: &mut [u64],
    root: usize,
    [scale, last]: [RootLanes; 2],
) {
    let stride = block.len() / W;
    let w = inverse_roots::<W>(t, root);
    let bounds = bounds::<MODE>(lanes, pass.grown);
    for i in (0..stride).step_by(LANES * REGISTERS / W) {
        // SAFETY: the source is the block itself.
        let mut v = unsafe { load_columns::<W>(lanes, InPlace, block, i) };
        if MODE == LAZY && pass.reduced {
            v.iter_mut().for_each(|v| *v = lanes.reduce(*v));
        }
        if W == 8 {
            inverse_stage::<2, MODE>(lanes, bounds[0], &mut v, &w);
            inverse_stage::<4, MODE>(lanes, bounds[1], &mut v, &w);
        } else {
            inverse_stage::<4, MODE>(lanes, bounds[0], &mut v, &w);
        }
        let bound = bounds[W.trailing_zeros() as usize - 1];
        if SCALED {
            for j in 0..REGISTERS / 2 {
                let (x, y) = (v[j], v[j + REGISTERS / 2]);
                v[j] = lanes.mul(_mm512_add_epi64(x, y), scale);
                v[j + REGISTERS / 2] = lanes.mul(_mm512_sub_epi64(_mm512_add_epi64(y, bound), x), last);
            }
        } else {
            inverse_stage::<8, MODE>(lanes, bound, &mut v, &w);
        }
        store_columns::<W>(block, i, &v);
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
#[inline]
fn inverse_stage<const HALF: usize, const MODE: u8>(
    lanes: &Lanes,
    bound: __m512i,
    v: &mut [__m512i; REGISTERS],
    w: &[Root],
) {
    let level = REGISTERS / 2 / HALF;
    for k in 0..level {
        let root = RootLanes::splat(w[level + k]);
        for j in 2 * HALF * k..2 * HALF * k + HALF {
            (v[j], v[j + HALF]) = lanes.inverse::<MODE>(bound, v[j], v[j + HALF], root);
        }
    }
}

/// A permutation that undoes one of the forward transform's, and behind it stage `STAGE` of a group, for four
/// groups. The first and the last permutation also reverse the sixteen entries, so that roots in reverse
/// order meet their lanes; between them the two registers have exchanged their roles.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
#[inline]
fn inverse_groups<const STAGE: usize, const MODE: u8>(
    lanes: &Lanes,
    v: &mut [__m512i; REGISTERS],
    first: usize,
    groups: &[GroupRoots],
) {
    let turn = match STAGE {
        0 | 3 => [_mm512_setr_epi64(15, 13, 11, 9, 7, 5, 3, 1), _mm512_setr_epi64(14, 12, 10, 8, 6, 4, 2, 0)],
        _ => [_mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15)],
    };
    let bound = bounds::<MODE>(lanes, 0)[3 - STAGE];
    for g in first..first + 4 {
        let w = group_root::<STAGE>(lanes, &groups[7 - g]);
        let (a, b) = permute(turn, (v[2 * g], v[2 * g + 1]));
        let (x, y) = if STAGE == 0 { (a, b) } else { (b, a) };
        let (x, y) = lanes.inverse::<MODE>(bound, x, y, w);
        (v[2 * g], v[2 * g + 1]) = if STAGE == 0 { (x, y) } else { (y, x) };
    }
}

/// The first seven stages of a block, which read `from` if it is given, or the block itself. `root` is the
/// root of the mirrored block in the forward transform.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
#[inline]
fn inverse_tail<const MODE: u8>(
    t: &VectorNtt,
    lanes: &Lanes,
    block: &mut [u64],
    from: Option<&[u64]>,
    root: usize,
) {
    let w = inverse_roots::<8>(t, root);
    let groups = &t.groups[root * (TAIL / GROUP) - t.n / GROUP..][..TAIL / GROUP];
    let mut v = [lanes.q; REGISTERS];
    for (j, v) in v.iter_mut().enumerate() {
        // SAFETY: the block and `from` have 128 entries.
        *v = unsafe { load(from.unwrap_or(block), j * LANES) };
    }
    for first in [0, 4] {
        inverse_groups::<3, MODE>(lanes, &mut v, first, groups);
        inverse_groups::<2, MODE>(lanes, &mut v, first, groups);
        inverse_groups::<1, MODE>(lanes, &mut v, first, groups);
        inverse_groups::<0, MODE>(lanes, &mut v, first, groups);
    }
    let bound = bounds::<MODE>(lanes, 4);
    inverse_stage::<2, MODE>(lanes, bound[0], &mut v, &w);
    inverse_stage::<4, MODE>(lanes, bound[1], &mut v, &w);
    inverse_stage::<8, MODE>(lanes, bound[2], &mut v, &w);
    for (j, &v) in v.iter().enumerate() {
        // SAFETY: the block has 128 entries.
        unsafe { store(block, j * LANES, v) }
    }
}

/// Upper bounds on entries before each of the next four stages, if they have doubled `grown` times since
/// their last reduction.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
#[inline]
fn bounds<const MODE: u8>(lanes: &Lanes, grown: u32) -> [__m512i; 4] {
    if MODE != LAZY {
        return [lanes.two_q; 4];
    }
    let first = _mm512_sll_epi64(lanes.q, _mm_cvtsi32_si128(grown as i32));
    [first, _mm512_slli_epi64::<1>(first), _mm512_slli_epi64::<2>(first), _mm512_slli_epi64::<3>(first)]
}
