//! Sums of products, accumulated without reduction and reduced once at the end.

#![expect(clippy::too_many_arguments, reason = "the operands of a kernel, and the vector")]

use super::super::scalar::{self, by_size};
use super::super::vector::{PACKED, Vector};
use super::{Lanes, ROUND, centered, whole};
use crate::Modulus;
use crate::simd::operands::{
    AccumulatorTerms, Affine, Destination, LANES as BLOCK, Mode, Pairs, Radix, Rows, Term, WORD,
};

/// 1.5·2¹⁰³. A sum of this and a number below 2¹⁰² in magnitude is rounded to a multiple of 2⁵¹.
const ROUND_HIGH: f64 = 1.5 * (1u128 << 103) as f64;
/// Bits of the low part of a sum.
const LOW: u32 = 51;

/// Sums of products of lanes.
trait Sum<V: Vector>: Copy {
    /// A factor of a product.
    type Factor: Copy;
    /// The power of two that the high parts of a sum count.
    const SHIFT: u32;
    fn factor(v: V, x: V::Integers) -> Self::Factor;
    /// Stored entries of [`crate::LimbPairs`].
    ///
    /// SAFETY: [`PACKED`] bytes from `bytes` on must be readable.
    unsafe fn stored(v: V, packing: V::Packing, bytes: *const u8) -> Self::Factor;
    /// An empty sum that `terms` products will be added to.
    fn new(v: V, terms: usize) -> Self;
    fn add(&mut self, v: V, x: Self::Factor, y: Self::Factor);
    /// The sum as high·2^SHIFT + low, with both below 2⁵².
    fn parts(self, v: V) -> (V::Doubles, V::Doubles);
}

/// Sums of at most 2¹¹ products of factors below 2³²: modulo 2⁶⁴, and of the upper halves of the products.
#[derive(Clone, Copy)]
struct Short<V: Vector>(V::Integers, V::Integers);

impl<V: Vector> Sum<V> for Short<V> {
    type Factor = V::Halves;
    const SHIFT: u32 = 32;

    #[inline(always)]
    fn factor(v: V, x: V::Integers) -> V::Halves {
        v.halves(x)
    }

    #[inline(always)]
    unsafe fn stored(v: V, _: V::Packing, bytes: *const u8) -> V::Halves {
        // SAFETY: by the caller's promise. Entries of 25 to 32 bits have four bytes.
        unsafe { v.load_halves(bytes) }
    }

    #[inline(always)]
    fn new(v: V, _: usize) -> Self {
        Short(v.splat_integer(0), v.splat_integer(0))
    }

    #[inline(always)]
    fn add(&mut self, v: V, x: V::Halves, y: V::Halves) {
        let product = v.mul_halves(x, y);
        self.0 = v.add_integers(self.0, product);
        self.1 = v.add_integers(self.1, v.shift_right(product, 32));
    }

    #[inline(always)]
    fn parts(self, v: V) -> (V::Doubles, V::Doubles) {
        // The lower halves add up to less than 2⁴³.
        let low = v.sub_integers(self.0, v.shift_left(self.1, 32));
        (v.to_doubles(self.1), v.to_doubles(low))
    }
}

/// Sums of products of factors below 2⁵⁰, of which [`terms`] are added up: of the products rounded to
/// multiples of 2⁵¹, and of the rest.
#[derive(Clone, Copy)]
struct Long<V: Vector>(V::Integers, V::Integers);

/// The number of products of factors below 2^`bits` in all whose sum is below 2¹⁰³.
fn terms(bits: u32) -> usize {
    1 << (103 - bits).min(10)
}

impl<V: Vector> Sum<V> for Long<V> {
    type Factor = V::Doubles;
    const SHIFT: u32 = LOW;

    #[inline(always)]
    fn factor(v: V, x: V::Integers) -> V::Doubles {
        v.to_doubles(x)
    }

    #[inline(always)]
    unsafe fn stored(v: V, packing: V::Packing, bytes: *const u8) -> V::Doubles {
        // SAFETY: by the caller's promise.
        v.to_doubles(unsafe { v.load_encrypted(bytes, packing) })
    }

    #[inline(always)]
    fn new(v: V, terms: usize) -> Self {
        // A rounded product has the bits of ROUND_HIGH plus its multiple of 2⁵¹, and its rest those of ROUND
        // plus the rest. The low sum starts at 2⁶² more, so that it is positive.
        let high = ROUND_HIGH.to_bits().wrapping_mul(terms as u64).wrapping_neg();
        let low = ROUND.to_bits().wrapping_mul(terms as u64).wrapping_neg();
        Long(v.splat_integer(high.wrapping_sub(1 << (62 - LOW))), v.splat_integer(low.wrapping_add(1 << 62)))
    }

    #[inline(always)]
    fn add(&mut self, v: V, x: V::Doubles, y: V::Doubles) {
        let (round, both) = (v.splat(ROUND_HIGH), v.splat(ROUND_HIGH + ROUND));
        let high = v.mul_add(x, y, round);
        let low = v.mul_add(x, y, v.sub(both, high));
        self.0 = v.add_integers(self.0, v.bits(high));
        self.1 = v.add_integers(self.1, v.bits(low));
    }

    #[inline(always)]
    fn parts(self, v: V) -> (V::Doubles, V::Doubles) {
        let high = v.add_integers(self.0, v.shift_right(self.1, LOW));
        let low = v.and(self.1, v.splat_integer((1 << LOW) - 1));
        (v.to_doubles(high), v.to_doubles(low))
    }
}

/// The factors that reduce a sum of products.
#[derive(Clone, Copy)]
struct Weights<V: Vector> {
    lanes: Lanes<V>,
    high: V::Doubles,
    low: V::Doubles,
}

impl<V: Vector> Weights<V> {
    /// For sums whose high parts count 2^`shift`, which are multiplied by the reduced `factor`.
    #[inline(always)]
    fn new(v: V, m: &Modulus, shift: u32, factor: u64) -> Self {
        let high = m.mul(factor, m.reduce(1 << shift));
        Weights {
            lanes: Lanes::new(v, m),
            high: v.splat(centered(m, high)),
            low: v.splat(centered(m, factor)),
        }
    }

    /// For sums that are divided by 2⁵².
    #[inline(always)]
    fn montgomery(v: V, m: &Modulus, shift: u32) -> Self {
        Self::new(v, m, shift, m.montgomery(1))
    }

    /// The weighted sum modulo q, at most 2q in magnitude.
    #[inline(always)]
    fn apply(&self, (high, low): (V::Doubles, V::Doubles)) -> V::Doubles {
        self.lanes.v.add(self.lanes.mul(high, self.high), self.lanes.mul(low, self.low))
    }
}

/// `sum` ← sum + x modulo q. The sum is centred before, unless x is the first of several terms.
#[inline(always)]
fn add_to<V: Vector>(l: &Lanes<V>, sum: &mut V::Doubles, x: V::Doubles, first: bool) {
    *sum = l.v.add(if first { *sum } else { l.center(*sum) }, x);
}

#[inline(always)]
pub(in crate::simd) fn pair_products_into<V: Vector>(
    v: V,
    m: &Modulus,
    out0: &mut [u64],
    out1: &mut [u64],
    x: &[&[u64]],
    pairs: Pairs,
    plus: &AccumulatorTerms,
    destination: Destination,
) {
    // On these kernels `lazy_bits` is the size of the prime: all factors are below 2^bits.
    match m.bits() {
        25..=32 => pair_products::<V, Short<V>>(v, m, out0, out1, x, pairs, plus, destination),
        _ => pair_products::<V, Long<V>>(v, m, out0, out1, x, pairs, plus, destination),
    }
}

#[inline(always)]
fn pair_products<V: Vector, S: Sum<V>>(
    v: V,
    m: &Modulus,
    out0: &mut [u64],
    out1: &mut [u64],
    x: &[&[u64]],
    pairs: Pairs,
    plus: &AccumulatorTerms,
    Destination { permutation, mode }: Destination,
) {
    // Registers of a block.
    let registers = BLOCK / V::LANES;
    let (n, stored) = (out0.len(), pairs.stored);
    let (row, pair, step) = (stored.row_bytes(), stored.pair_bytes(), stored.step());
    let (bytes, width) = (stored.padded(), row / BLOCK);
    assert!(x.len() <= pairs.count() && n.is_multiple_of(BLOCK), "more terms than pairs");
    assert!(bytes.len() >= n / BLOCK * step + PACKED, "pairs shorter than the sum");
    let (packing, weights) = (v.packing(width), Weights::montgomery(v, m, S::SHIFT));
    let l = weights.lanes;
    let at_a_time = terms(2 * m.bits());
    let constant = v.splat(centered(m, plus.constant));
    let products: Vec<_> = plus.products.iter().map(|(k, x, y)| (centered(m, k.value), x, y)).collect();
    let multiples = plus
        .multiples
        .each_ref()
        .map(|multiples| -> Vec<_> { multiples.iter().map(|(k, x)| (centered(m, *k), *x)).collect() });
    for (i, block) in (0..n).step_by(BLOCK).zip((0..).step_by(step)) {
        // The registers of both sums.
        let mut totals = [[constant, l.zero]; 4];
        for (first, x) in (0..).step_by(at_a_time).zip(x.chunks(at_a_time)) {
            let mut sums = [[S::new(v, x.len()); 2]; 4];
            for (j, x) in (first..).zip(x) {
                let at = block + j * pair;
                for (b, sums) in sums[..registers].iter_mut().enumerate() {
                    let at = at + b * V::LANES * width;
                    debug_assert!(at + PACKED <= bytes.len());
                    // SAFETY: the entries of a block end before the padding, which is as long as what is
                    // read from any of them on; i + 8 <= all lengths.
                    unsafe {
                        let x = S::factor(v, v.load(x, i + b * V::LANES));
                        sums[0].add(v, x, S::stored(v, packing, bytes.as_ptr().add(at)));
                        let z = match pairs.seconds {
                            Some(z) => S::factor(v, v.load(z[j], i + b * V::LANES)),
                            None => S::stored(v, packing, bytes.as_ptr().add(at + row)),
                        };
                        sums[1].add(v, x, z);
                    }
                }
            }
            for (totals, sums) in totals[..registers].iter_mut().zip(sums) {
                for (total, sum) in totals.iter_mut().zip(sums) {
                    add_to(&l, total, weights.apply(sum.parts(v)), first == 0);
                }
            }
        }
        for (b, [total0, total1]) in totals[..registers].iter_mut().enumerate() {
            let at = i + b * V::LANES;
            // SAFETY: i + 8 <= all lengths.
            unsafe {
                for (k, x, y) in &products {
                    let k = v.splat(*k);
                    let (x0, x1) = (l.mul(v.load_doubles(x[0], at), k), l.mul(v.load_doubles(x[1], at), k));
                    let (y0, y1) = (v.load_doubles(y[0], at), v.load_doubles(y[1], at));
                    add_to(&l, total0, l.mul(x0, y0), false);
                    add_to(&l, total1, l.mul(x0, y1), false);
                    add_to(&l, total1, l.mul(x1, y0), false);
                }
                for (k, x) in &multiples[0] {
                    add_to(&l, total0, l.mul(v.load_doubles(x, at), v.splat(*k)), false);
                }
                for (k, x) in &multiples[1] {
                    add_to(&l, total1, l.mul(v.load_doubles(x, at), v.splat(*k)), false);
                }
            }
        }
        let at = permutation.map_or(i, |p| p.targets()[i / BLOCK] as usize * BLOCK);
        for (h, out) in [&mut *out0, &mut *out1].into_iter().enumerate() {
            let mut sums = [v.splat_integer(0); 4];
            for (sum, total) in sums[..registers].iter_mut().zip(&totals) {
                *sum = l.reduce(total[h]);
            }
            if let Some(permutation) = permutation {
                v.permute(&mut sums, &permutation.indices().as_chunks().0[at / BLOCK]);
            }
            for (b, &sum) in sums[..registers].iter().enumerate() {
                let at = at + b * V::LANES;
                // SAFETY: at + LANES <= all lengths: `at` is in a block from i on, or in one that the
                // permutation, which is as long as a sum, has as a target.
                unsafe {
                    let sum = match mode {
                        Mode::Write => sum,
                        Mode::Add => l.reduce(v.add(v.load_doubles(out, at), v.to_doubles(sum))),
                        Mode::Subtract => l.reduce(v.sub(v.load_doubles(out, at), v.to_doubles(sum))),
                    };
                    v.store(out, at, sum);
                }
            }
        }
    }
}

#[inline(always)]
pub(in crate::simd) fn inner_products_short_into<V: Vector>(
    v: V,
    m: &Modulus,
    out0: &mut [u64],
    out1: &mut [u64],
    x: &[&[u64]],
    y: &[&[u64]],
    z: &[&[u64]],
) {
    let stride = x.first().map_or(1, |x| out0.len() / x.len());
    let even = x.iter().all(|x| x.len() * stride == out0.len());
    if !even || !stride.is_power_of_two() || !out0.len().is_multiple_of(V::LANES) {
        return scalar::inner_products_short_into(m, out0, out1, x, y, z);
    }
    match m.bits() {
        ..=32 => inner_products_short::<V, Short<V>>(v, m, out0, out1, x, y, z, stride),
        _ => inner_products_short::<V, Long<V>>(v, m, out0, out1, x, y, z, stride),
    }
}

/// The stride must be a power of two and every x have `out0.len() / stride` entries; `out0.len()` must be a
/// multiple of the number of lanes.
#[inline(always)]
fn inner_products_short<V: Vector, S: Sum<V>>(
    v: V,
    m: &Modulus,
    out0: &mut [u64],
    out1: &mut [u64],
    x: &[&[u64]],
    y: &[&[u64]],
    z: &[&[u64]],
    stride: usize,
) {
    let (weights, at_a_time) = (Weights::montgomery(v, m, S::SHIFT), terms(2 * m.bits()));
    for i in (0..out0.len()).step_by(V::LANES) {
        let mut totals = [weights.lanes.zero; 2];
        for first in (0..x.len()).step_by(at_a_time) {
            let terms = first..x.len().min(first + at_a_time);
            let mut sums = [S::new(v, terms.len()); 2];
            for j in terms {
                // SAFETY: i + LANES <= the lengths of y and z, and (i + LANES − 1)/stride is below the length
                // of x.
                unsafe {
                    let x = S::factor(v, v.load_repeated(x[j], i, stride));
                    sums[0].add(v, x, S::factor(v, v.load(y[j], i)));
                    sums[1].add(v, x, S::factor(v, v.load(z[j], i)));
                }
            }
            for (total, sum) in totals.iter_mut().zip(sums) {
                add_to(&weights.lanes, total, weights.apply(sum.parts(v)), first == 0);
            }
        }
        // SAFETY: i + LANES <= both lengths.
        unsafe {
            v.store(out0, i, weights.lanes.reduce(totals[0]));
            v.store(out1, i, weights.lanes.reduce(totals[1]));
        }
    }
}

#[inline(always)]
pub(in crate::simd) fn combine_into<V: Vector>(v: V, m: &Modulus, out: &mut [u64], x: &Rows, c: Affine) {
    combine_from(v, m, out, x, c, &cut_factors(m, x, c), 0);
}

/// The factors of a combination, as its rows are multiplied by them: as the bits of a double for wide rows,
/// or cut in two for narrow ones, at bit [`cut`].
fn cut_factors(m: &Modulus, x: &Rows, (c, _): Affine) -> Vec<[u64; 2]> {
    let as_stored = |&c: &u64| match x {
        Rows::Wide(_) => [(c as f64).to_bits(), 0],
        Rows::Narrow(rows) => {
            let cut = cut(m, rows.len());
            [c & ((1 << cut) - 1), c >> cut]
        }
    };
    c.iter().map(as_stored).collect()
}

/// The bit at which factors of rows of 32-bit words are cut, so that products can be added up in a lane.
/// Sums of up to eight products of 48 bits fit doubles as they are.
fn cut(m: &Modulus, rows: usize) -> u32 {
    if m.bits() <= 32 && rows <= 8 { SHORT_CUT } else { LONG_CUT }
}

/// The bit at which factors of at most 32 bits are cut.
const SHORT_CUT: u32 = 16;
/// The bit at which other factors are cut.
const LONG_CUT: u32 = 25;

/// Registers of a combination that are accumulated at the same time.
const WIDE: usize = 4;

/// [`combine_into`] from entry `start` of x on, with the factors of [`cut_factors`].
#[inline(always)]
fn combine_from<V: Vector>(
    v: V,
    m: &Modulus,
    out: &mut [u64],
    x: &Rows,
    c: Affine,
    factors: &[[u64; 2]],
    start: usize,
) {
    let done = match x {
        Rows::Wide(rows) => combine_wide(v, m, out, rows, (factors, c.1), start),
        Rows::Narrow(rows) if cut(m, rows.len()) == SHORT_CUT => {
            combine_narrow::<V, SHORT_CUT, SHORT_CUT>(v, m, out, rows, (factors, c.1), start)
        }
        Rows::Narrow(rows) => combine_narrow::<V, LONG_CUT, LOW>(v, m, out, rows, (factors, c.1), start),
    };
    let (out, start) = (&mut out[done..], start + done);
    if !out.is_empty() {
        by_size!(x, combine_rest(m, out, @, c, start));
    }
}

fn combine_rest<W: Copy + Into<u64>>(m: &Modulus, out: &mut [u64], x: &[&[W]], c: Affine, start: usize) {
    scalar::combine(m, out, x, &scalar::factors(m, x.len(), c), start);
}

/// [`combine_from`] for rows of 64-bit words, whose entries are below 2⁵⁰. Returns the number of entries
/// written.
#[inline(always)]
fn combine_wide<V: Vector>(
    v: V,
    m: &Modulus,
    out: &mut [u64],
    x: &[&[u64]],
    (c, constant): (&[[u64; 2]], u64),
    start: usize,
) -> usize {
    let (weights, end) = (Weights::new(v, m, LOW, 1), out.len() / (V::LANES * WIDE) * (V::LANES * WIDE));
    assert!(c.len() == x.len(), "a factor for each row");
    let at_a_time = terms(50 + m.bits());
    for i in (0..end).step_by(V::LANES * WIDE) {
        let mut totals = [v.splat(centered(m, constant)); WIDE];
        for (k, (x, c)) in x.chunks(at_a_time).zip(c.chunks(at_a_time)).enumerate() {
            let mut sums = [Long::new(v, x.len()); WIDE];
            for (x, &[c, _]) in x.iter().zip(c) {
                let c = v.splat(f64::from_bits(c));
                for (w, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: start + i + WIDE·LANES <= all lengths.
                    sum.add(v, unsafe { v.load_doubles(x, start + i + w * V::LANES) }, c);
                }
            }
            for (total, sum) in totals.iter_mut().zip(sums) {
                let (high, low) = sum.parts(v);
                let low = v.add(low, weights.lanes.mul(high, weights.high));
                add_to(&weights.lanes, total, low, k == 0);
            }
        }
        for (w, total) in totals.into_iter().enumerate() {
            // SAFETY: i + WIDE·LANES <= end <= the length.
            unsafe { v.store(out, i + w * V::LANES, weights.lanes.reduce(total)) }
        }
    }
    end
}

/// [`combine_from`] for rows of 32-bit words, with factors cut at bit `CUT`. The high part of a sum counts
/// 2^`SHIFT`. Returns the number of entries written.
#[inline(always)]
fn combine_narrow<V: Vector, const CUT: u32, const SHIFT: u32>(
    v: V,
    m: &Modulus,
    out: &mut [u64],
    x: &[&[u32]],
    (c, constant): (&[[u64; 2]], u64),
    start: usize,
) -> usize {
    /// Products of 57 bits that are added up.
    const TERMS: usize = 32;
    let (weights, end) = (Weights::new(v, m, SHIFT, 1), out.len() / (V::LANES * WIDE) * (V::LANES * WIDE));
    assert!(c.len() == x.len(), "a factor for each row");
    for i in (0..end).step_by(V::LANES * WIDE) {
        let mut totals = [v.splat(centered(m, constant)); WIDE];
        for (k, (x, c)) in x.chunks(TERMS).zip(c.chunks(TERMS)).enumerate() {
            let mut sums = [[v.splat_integer(0); 2]; WIDE];
            for (x, c) in x.iter().zip(c) {
                let (low, high) = (v.splat_half(c[0] as u32), v.splat_half(c[1] as u32));
                for (w, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: start + i + WIDE·LANES <= all lengths.
                    let x = unsafe { v.load_halves(x.as_ptr().add(start + i + w * V::LANES).cast()) };
                    sum[0] = v.add_integers(sum[0], v.mul_halves(x, low));
                    sum[1] = v.add_integers(sum[1], v.mul_halves(x, high));
                }
            }
            for (total, [mut low, mut high]) in totals.iter_mut().zip(sums) {
                if SHIFT != CUT {
                    // The same sum with a low part of SHIFT bits.
                    high = v.add_integers(high, v.shift_right(low, CUT));
                    let middle = v.and(high, v.splat_integer((1 << (SHIFT - CUT)) - 1));
                    let low_bits = v.and(low, v.splat_integer((1 << CUT) - 1));
                    low = v.or(low_bits, v.shift_left(middle, CUT));
                    high = v.shift_right(high, SHIFT - CUT);
                }
                let high = weights.lanes.mul(v.to_doubles(high), weights.high);
                add_to(&weights.lanes, total, v.add(v.to_doubles(low), high), k == 0);
            }
        }
        for (w, total) in totals.into_iter().enumerate() {
            // SAFETY: i + WIDE·LANES <= end <= the length.
            unsafe { v.store(out, i + w * V::LANES, weights.lanes.reduce(total)) }
        }
    }
    end
}

#[inline(always)]
pub(in crate::simd) fn combine_pair_into<V: Vector>(
    v: V,
    m: [&Modulus; 2],
    out0: &mut [u64],
    out1: &mut [u64],
    x: &Rows,
    c: [Affine; 2],
) {
    /// Entries that are combined for both moduli while they are in the first-level cache.
    const PIECE: usize = 256;
    let factors = [cut_factors(m[0], x, c[0]), cut_factors(m[1], x, c[1])];
    for ((out0, out1), start) in out0.chunks_mut(PIECE).zip(out1.chunks_mut(PIECE)).zip((0..).step_by(PIECE))
    {
        combine_from(v, m[0], out0, x, c[0], &factors[0], start);
        combine_from(v, m[1], out1, x, c[1], &factors[1], start);
    }
}

#[inline(always)]
pub(in crate::simd) fn sum_of_products_into<V: Vector>(v: V, m: &Modulus, out: &mut [u64], terms: &[Term]) {
    let (l, end) = (Lanes::new(v, m), whole::<V>(out.len()));
    for i in (0..end).step_by(V::LANES) {
        let mut sum = l.zero;
        for (k, x, y) in terms {
            // SAFETY: i + LANES <= end <= all lengths.
            let [x, y] = unsafe { [v.load_doubles(x, i), v.load_doubles(y, i)] };
            let x = l.mul(x, v.splat(k.value as f64));
            add_to(&l, &mut sum, l.mul(x, y), false);
        }
        // SAFETY: as above.
        unsafe { v.store(out, i, l.reduce(sum)) }
    }
    let rest: Vec<Term> = terms.iter().map(|(k, x, y)| (*k, &x[end..], &y[end..])).collect();
    scalar::sum_of_products_into(m, &mut out[end..], &rest);
}

#[inline(always)]
pub(in crate::simd) fn rounded_sum_into<V: Vector>(v: V, out: &mut [u64], x: &Rows, f: &[f64]) {
    let end = whole::<V>(out.len());
    for i in (0..end).step_by(V::LANES) {
        let mut sum = v.splat(0.5);
        // SAFETY: i + LANES <= end <= all lengths. The product is rounded before it is added, as in the
        // scalar version.
        unsafe {
            match x {
                Rows::Wide(rows) => {
                    for (x, &f) in rows.iter().zip(f) {
                        sum = v.add(sum, v.mul(v.load_doubles(x, i), v.splat(f)));
                    }
                }
                Rows::Narrow(rows) => {
                    for (x, &f) in rows.iter().zip(f) {
                        let x = v.load_widened(x.as_ptr().add(i).cast());
                        sum = v.add(sum, v.mul(v.to_doubles(x), v.splat(f)));
                    }
                }
            }
            v.store(out, i, v.to_integers(v.truncate(sum)));
        }
    }
    by_size!(x, rounded_rest(&mut out[end..], @, f, end));
}

fn rounded_rest<W: Copy + Into<u64>>(out: &mut [u64], x: &[&[W]], f: &[f64], start: usize) {
    scalar::rounded_sum(out, x, f, start);
}

/// The largest number of words of an integer that is decomposed, plus one.
const MOST_WORDS: usize = 16;
/// The largest number of terms of a word's sum.
const MOST_TERMS: usize = 16;

#[inline(always)]
pub(in crate::simd) fn split_in_place<V: Vector>(v: V, rows: &mut [&mut [u64]], radix: &Radix) {
    let (len, terms) = (rows.first().map_or(0, |row| row.len()), radix.weight.len() + 1);
    if !len.is_multiple_of(V::LANES) || radix.start.len() >= MOST_WORDS || terms > MOST_TERMS {
        return scalar::split_in_place(rows, radix);
    }
    let factors: Vec<f64> = radix.factors.iter().flatten().map(|&f| f as f64).collect();
    let zero = v.splat_integer(0);
    // Each word is written before it is read, except the last, which stays 0.
    let mut words = [zero; MOST_WORDS];
    for i in (0..len).step_by(V::LANES) {
        let mut y = [v.splat(0.0); MOST_TERMS];
        let mut multiple = v.splat(0.5);
        for ((y, row), &f) in y.iter_mut().zip(rows.iter()).zip(&radix.weight) {
            // SAFETY: all rows have one length, a multiple of the number of lanes.
            *y = unsafe { v.load_doubles(row, i) };
            multiple = v.add(multiple, v.mul(*y, v.splat(f)));
        }
        y[terms - 1] = v.truncate(multiple);
        let (mut above, mut carry) = (zero, zero);
        for ((word, factors), &start) in words.iter_mut().zip(factors.chunks(terms)).zip(&radix.start) {
            let mut sum = Long::new(v, terms);
            for (&y, &f) in y.iter().zip(factors) {
                sum.add(v, y, v.splat(f));
            }
            let Long(high, low) = sum;
            // The low sum has 2⁶² too much, which is taken off the high one: 2⁶² = 2¹¹·2⁵¹. The sum is
            // high·2⁵¹ + low, and the word takes its lowest 52 bits.
            let high = v.add_integers(high, v.shift_right(low, LOW));
            let low = v.and(low, v.splat_integer((1 << LOW) - 1));
            let low = v.or(low, v.shift_left(v.and(high, v.splat_integer(1)), LOW));
            let t = v.add_integers(v.add_integers(low, above), v.add_integers(carry, v.splat_integer(start)));
            *word = v.and(t, v.splat_integer((1 << WORD) - 1));
            (carry, above) = (v.shift_right(t, WORD), v.shift_right(high, 1));
        }
        for (out, &(first, bits)) in rows.iter_mut().zip(&radix.digits) {
            let (word, shift) = ((first / WORD) as usize, first % WORD);
            let low = v.shift_right(words[word], shift);
            let high = v.shift_left(words[word + 1], WORD - shift);
            let digit = v.and(v.or(low, high), v.splat_integer((1 << bits) - 1));
            // SAFETY: as above.
            unsafe { v.store(out, i, digit) };
        }
    }
}
