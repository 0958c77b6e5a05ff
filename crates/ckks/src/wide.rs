//! Encoding and decoding of integers that are too wide for floating point: masked values of up to 99 bits in
//! slots, and of up to 104 in coefficients, 100 at N = 2¹⁶.
//!
//! Both maps are linear up to a rounding far below the mask. So the image of a masked value, less that of the
//! mask, is the image of the value, whoever computes the two. All arithmetic is on integers and
//! gives the same on every machine.

use crate::{Error, Op};
use rns::{Basis, Coeff, Poly};
use std::sync::{Arc, OnceLock};
use zeroize::Zeroizing;

/// Real and imaginary part of a slot, as integers.
pub type WideSlot = [i128; 2];

/// Both parts of a slot are below 2 to this power in size.
pub const MAX_WIDE_BITS: u32 = 99;

/// The number of bits after the point of the values in a transform. They have at most [`MAX_WIDE_BITS`] + ½
/// bits before it, so that a sum of two is below 2¹²⁴.
const FRACTION: u32 = 23;
/// Coefficients that are decoded are below 2 to this power in size at N ≤ 2¹², and below half of that for
/// each further power ([`WideEncoder::coefficient_bits`]).
pub const MAX_WIDE_COEFFICIENT_BITS: u32 = 104;

/// The number of bits after the point while slots are decoded. With them a slot, the sum of N coefficients,
/// is below 2¹²⁴.
pub(crate) const DECODED_FRACTION: u32 = 8;
/// The number of bits after the point of roots of unity and factors.
const ROOT_FRACTION: u32 = 124;
/// π·2¹²⁴, rounded down.
const PI: i128 = 0x3243_F6A8_885A_308D_3131_98A2_E037_0734;

/// The inverse of the canonical embedding on integers, for all N/2 slots of ring degree N. Slots and
/// coefficients are those of [`crate::Encoder`].
#[derive(Debug, Clone)]
pub struct WideEncoder {
    /// For each stage, from the largest block of slots down, e^(−2πi·5ʲ/(4·len)) for j below len/2, where len
    /// is the size of its blocks.
    stages: Vec<Vec<WideSlot>>,
}

impl WideEncoder {
    /// The encoder for ring degree 2^`log_n`, for `log_n` from 2 to 16.
    pub fn new(log_n: u32) -> Self {
        let stage = |log_len: u32| {
            let order = 4usize << log_len;
            let powers = std::iter::successors(Some(1), |power| Some(power * 5 % order));
            powers.take(order / 8).map(|power| root(order - power, log_len + 2)).collect()
        };
        WideEncoder { stages: (1..log_n).rev().map(stage).collect() }
    }

    /// As [`Self::new`], and made once: all exchanges of a ring share it.
    pub(crate) fn shared(log_n: u32) -> Arc<Self> {
        static MADE: [OnceLock<Arc<WideEncoder>>; 17] = [const { OnceLock::new() }; 17];
        MADE[log_n as usize].get_or_init(|| Arc::new(WideEncoder::new(log_n))).clone()
    }

    /// N.
    pub(crate) fn degree(&self) -> usize {
        2 << self.stages.len()
    }

    /// The N coefficients of the polynomial with these N/2 slots, multiplied by `factor` and rounded to
    /// integers, which are off by at most ½ + 2⁻¹⁶.
    ///
    /// # Errors
    /// [`Error::SlotCount`] unless there are N/2 slots; [`Error::ValueRange`] if a part of a slot is not
    /// below 2^[`MAX_WIDE_BITS`] in size, or if the factor is not above 0 and at most 1.
    pub fn coefficients(&self, slots: &[WideSlot], factor: f64) -> Result<Vec<i128>, Error> {
        let size = 1 << self.stages.len();
        if slots.len() != size {
            return Err(Error::SlotCount { op: Op::Encode, got: slots.len(), max: size });
        }
        let limit = 1i128 << MAX_WIDE_BITS;
        // Without a branch that depends on a value.
        let too_wide = slots.iter().flatten().fold(false, |wide, x| wide | (*x <= -limit) | (*x >= limit));
        if too_wide || !(factor > 0.0 && factor <= 1.0) {
            return Err(Error::ValueRange { op: Op::Encode, scale: factor.log2() });
        }
        let factor = (factor * f64::from(ROOT_FRACTION).exp2()) as i128;
        let mut v = Zeroizing::new(Vec::with_capacity(size));
        v.extend(slots.iter().map(|slot| slot.map(|x| x << FRACTION)));
        for (stage, roots) in self.stages.iter().enumerate() {
            for block in v.chunks_exact_mut(size >> stage) {
                let (low, high) = block.split_at_mut(roots.len());
                for ((x, y), w) in low.iter_mut().zip(high).zip(roots) {
                    // Each stage halves, so that values do not grow and the division by N/2 is done.
                    let difference = [(x[0] - y[0]) >> 1, (x[1] - y[1]) >> 1];
                    *x = [(x[0] + y[0]) >> 1, (x[1] + y[1]) >> 1];
                    *y = times(difference, *w);
                }
            }
        }
        let bits = self.stages.len() as u32;
        let integer = |x: i128| (product(x, factor) + (1 << (FRACTION - 1))) >> FRACTION;
        let mut out = vec![0; 2 * size];
        for (i, [re, im]) in v.iter().enumerate() {
            let at = rns::bit_reverse(i, bits);
            (out[at], out[at + size]) = (integer(*re), integer(*im));
        }
        Ok(out)
    }
}

impl WideEncoder {
    /// Coefficients that are decoded are below 2 to this power in size.
    pub fn coefficient_bits(&self) -> u32 {
        MAX_WIDE_COEFFICIENT_BITS - (self.degree().ilog2()).saturating_sub(12)
    }

    /// The N/2 slots of the polynomial with these N coefficients. They have [`DECODED_FRACTION`]
    /// bits after the point, and are off by less than N·2⁻⁸: each of log₂(N/2) stages doubles the error and
    /// adds that of a product, less than 2⁻⁸·√2.
    pub(crate) fn slots(&self, coefficients: &[i128]) -> Result<Zeroizing<Vec<WideSlot>>, Error> {
        let size = 1usize << self.stages.len();
        if coefficients.len() != 2 * size {
            return Err(Error::CoefficientCount { got: coefficients.len(), max: 2 * size });
        }
        let limit = 1i128 << self.coefficient_bits();
        let too_wide = coefficients.iter().fold(false, |wide, x| wide | (*x <= -limit) | (*x >= limit));
        if too_wide {
            return Err(Error::ValueRange { op: Op::Encode, scale: f64::from(self.coefficient_bits()) });
        }
        let bits = self.stages.len() as u32;
        let mut v = Zeroizing::new(Vec::with_capacity(size));
        v.extend((0..size).map(|i| {
            let at = rns::bit_reverse(i, bits);
            [coefficients[at] << DECODED_FRACTION, coefficients[at + size] << DECODED_FRACTION]
        }));
        for (stage, roots) in self.stages.iter().enumerate().rev() {
            for block in v.chunks_exact_mut(size >> stage) {
                let (low, high) = block.split_at_mut(roots.len());
                for ((x, y), [re, im]) in low.iter_mut().zip(high).zip(roots) {
                    let turned = times(*y, [*re, -im]);
                    *y = [x[0] - turned[0], x[1] - turned[1]];
                    *x = [x[0] + turned[0], x[1] + turned[1]];
                }
            }
        }
        Ok(v)
    }

    /// The real parts of slots, from N coefficients. Entry i of the result is the slot `terms[i].0` times
    /// `terms[i].1`, rounded to an integer.
    pub(crate) fn real_slots(
        &self,
        coefficients: &[i128],
        terms: &[(usize, f64)],
    ) -> Result<Vec<i128>, Error> {
        let slots = self.slots(coefficients)?;
        let term = |&(slot, factor): &(usize, f64)| {
            let [re, _] = *slots.get(slot).ok_or(Error::SlotCount {
                op: Op::Encode,
                got: slot + 1,
                max: slots.len(),
            })?;
            if factor.is_nan() || factor.abs() > 1.0 {
                return Err(Error::ValueRange { op: Op::Encode, scale: factor.abs().log2() });
            }
            Ok(rounded(re, factor))
        };
        terms.iter().map(term).collect()
    }
}

/// x times a factor of at most 2 in size, rounded to an integer. x is below 2^[`MAX_WIDE_BITS`] in size.
pub(crate) fn scaled(x: i128, factor: f64) -> i128 {
    rounded(x << DECODED_FRACTION, factor)
}

/// x times a factor of at most 2 in size, rounded to an integer. x has [`DECODED_FRACTION`] bits after the
/// point, and is at most 2¹²⁴ with them.
fn rounded(x: i128, factor: f64) -> i128 {
    let factor = (factor * f64::from(ROOT_FRACTION).exp2()) as i128;
    (product(x, factor) + (1 << (DECODED_FRACTION - 1))) >> DECODED_FRACTION
}

/// The polynomial with every `stride`-th of these N coefficients.
pub(crate) fn from_wide(basis: &Basis, coefficients: &[i128], stride: usize) -> Poly<Coeff> {
    let mut out = Poly::zero(basis.n(), basis.len());
    out.for_each_limb(|i, limb| {
        for (x, &c) in limb.iter_mut().zip(coefficients).step_by(stride) {
            *x = basis.modulus(i).reduce_i128(c);
        }
    });
    out
}

/// x·w/2¹²⁴, rounded down, for x of at most 2¹²⁴ and w of at most 2¹²⁵ in size.
#[inline(always)]
fn product(x: i128, w: i128) -> i128 {
    let split = |x: i128| ((x >> 64), (x as u64));
    let ((x1, x0), (w1, w0)) = (split(x), split(w));
    let low = (u128::from(x0) * u128::from(w0)) >> 64;
    // The first two are at most 2¹²⁴ and 2¹²⁵, and the last one is below 2⁶⁴.
    let middle = x1 * i128::from(w0) + i128::from(x0) * w1 + low as i128;
    ((x1 * w1) << (128 - ROOT_FRACTION)) + (middle >> (ROOT_FRACTION - 64))
}

#[inline(always)]
fn times(x: WideSlot, w: WideSlot) -> WideSlot {
    [product(x[0], w[0]) - product(x[1], w[1]), product(x[0], w[1]) + product(x[1], w[0])]
}

/// e^(2πi·k/2^`log_order`) in fixed point, off by less than 2⁻¹¹⁸.
fn root(k: usize, log_order: u32) -> WideSlot {
    // k = octant·2^(log_order − 3) + rest. In an odd octant the angle is measured back from its end.
    let scaled = k << 3;
    let (octant, rest) = (scaled >> log_order & 7, (scaled & ((1 << log_order) - 1)) as i128);
    let angle = if octant % 2 == 0 { rest } else { (1 << log_order) - rest };
    // π/4·angle/2^log_order, without a product that is too wide.
    let low = PI & ((1 << log_order) - 1);
    let x = ((PI >> log_order) * angle + ((low * angle) >> log_order)) >> 2;
    let one = 1i128 << ROOT_FRACTION;
    let square = product(x, x);
    // Taylor's series from its last term: 1 − x²/(m(m + 1))·(1 − x²/((m + 2)(m + 3))·(…)). x ≤ π/4.
    let series = |first: i128| {
        (0..16).rev().map(|i| first + 2 * i).fold(one, |sum, m| one - product(square, sum) / (m * (m + 1)))
    };
    let (cos, sin) = (series(1), product(x, series(2)));
    match octant {
        0 => [cos, sin],
        1 => [sin, cos],
        2 => [-sin, cos],
        3 => [-cos, sin],
        4 => [-cos, -sin],
        5 => [-sin, -cos],
        6 => [sin, -cos],
        _ => [cos, -sin],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Encoder;
    use num_complex::Complex64;
    use rand::{Rng, RngExt, SeedableRng};
    use rand_chacha::ChaCha20Rng;

    /// w_j·w_k = w_(j + k) to 116 bits, and each root is the one of its angle to the precision of doubles: no
    /// other numbers have both properties.
    #[test]
    fn roots_multiply_as_their_angles_add() {
        for log_order in [3, 5, 12, 17] {
            let order = 1usize << log_order;
            let mut rng = ChaCha20Rng::seed_from_u64(1);
            for _ in 0..2000 {
                let [j, k] = [(); 2].map(|()| rng.random_range(0..order));
                let (both, sum) =
                    (times(root(j, log_order), root(k, log_order)), root((j + k) % order, log_order));
                for part in 0..2 {
                    assert!((both[part] - sum[part]).abs() < 1 << 8, "{j} {k} of {order}");
                }
                let angle = std::f64::consts::TAU * j as f64 / order as f64;
                let close = |x: i128, y: f64| (x as f64 / f64::from(ROOT_FRACTION).exp2() - y).abs() < 1e-15;
                assert!(
                    close(root(j, log_order)[0], angle.cos()) && close(root(j, log_order)[1], angle.sin())
                );
            }
        }
        // √2/2 to 124 bits: its square is a half.
        let eighth = root(1, 3);
        assert!(eighth[0] == eighth[1]);
        assert!((product(eighth[0], eighth[0]) - (1 << (ROOT_FRACTION - 1))).abs() < 1 << 6);
    }

    #[test]
    fn products_are_those_of_halves() {
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        for _ in 0..10_000 {
            let [x, w] = [(); 2].map(|()| {
                let wide = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
                wide as i128 >> rng.random_range(4..100)
            });
            // 256 bits in four words, multiplied word by word on magnitudes.
            let [a, b] =
                [x, w].map(|x| [x.unsigned_abs() as u64, (x.unsigned_abs() >> 64) as u64].map(u128::from));
            let (ll, lh, hl, hh) = (a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1]);
            let (carry, wraps) = lh.overflowing_add(hl);
            let (carry, more) = carry.overflowing_add(ll >> 64);
            let high = hh + (carry >> 64) + ((u128::from(wraps) + u128::from(more)) << 64);
            let low = carry << 64 | u128::from(ll as u64);
            let magnitude = (high << 4 | low >> ROOT_FRACTION) as i128;
            let exact = low & ((1 << ROOT_FRACTION) - 1) == 0;
            let expected = if (x < 0) != (w < 0) { -magnitude - i128::from(!exact) } else { magnitude };
            // Up to the carry of the low half that is left out.
            assert!((product(x, w) - expected).abs() <= 1, "{x} {w}");
        }
    }

    /// For values that doubles represent, both encoders return the same coefficients, up to rounding. The
    /// encoding of a masked value less that of the mask is within 2 of the encoding of the value.
    #[test]
    fn masks_go_away_after_encoding() {
        for log_n in [10, 13, 15] {
            let slots = 1usize << (log_n - 1);
            let mut rng = ChaCha20Rng::seed_from_u64(3);
            let mut part = |bits: u32| ((rng.next_u64() as i128) - (1 << 63)) >> (64 - bits);
            let values: Vec<WideSlot> = (0..slots).map(|_| [part(44), part(44)]).collect();
            let masks: Vec<WideSlot> =
                (0..slots).map(|_| [part(48) << 48 | part(40), part(48) << 48]).collect();
            let masked: Vec<WideSlot> =
                values.iter().zip(&masks).map(|(v, m)| [v[0] + m[0], v[1] + m[1]]).collect();
            let (wide, factor) = (WideEncoder::new(log_n), 0.99609375 / 4096.0);
            let [plain, mask, sum] =
                [&values, &masks, &masked].map(|v| wide.coefficients(v, factor).unwrap());
            let doubles: Vec<Complex64> =
                values.iter().map(|v| Complex64::new(v[0] as f64, v[1] as f64)).collect();
            let float = Encoder::new(log_n).coefficients(&doubles).unwrap();
            for i in 0..2 * slots {
                assert!((plain[i] as f64 - float[i] * factor).abs() < 0.51, "{log_n} {i}");
                assert!((sum[i] - mask[i] - plain[i]).abs() <= 2, "{log_n} {i}");
            }
        }
    }

    /// Slots are those of the encoder in floating point, up to the stated error. So are those of a masked
    /// message less those of the mask, whatever its size.
    #[test]
    fn masks_go_away_after_decoding() {
        for log_n in [3, 4, 10, 12, 15, 16] {
            let n = 1usize << log_n;
            let mut rng = ChaCha20Rng::seed_from_u64(4);
            let mut part = |bits: u32| ((rng.next_u64() as i128) - (1 << 63)) >> (64 - bits);
            let values: Vec<i128> = (0..n).map(|_| part(36)).collect();
            let masks: Vec<i128> = (0..n).map(|_| part(48) << 51 | part(50)).collect();
            let masked: Vec<i128> = values.iter().zip(&masks).map(|(v, m)| v + m).collect();
            let wide = WideEncoder::new(log_n);
            let [plain, mask, sum] = [&values, &masks, &masked].map(|v| wide.slots(v).unwrap());
            let floats: Vec<f64> = values.iter().map(|v| *v as f64).collect();
            let float = Encoder::new(log_n).slots(&floats, n / 2);
            let unit = f64::from(DECODED_FRACTION).exp2();
            for i in 0..n / 2 {
                for (part, float) in [float[i].re, float[i].im].into_iter().enumerate() {
                    let got = plain[i][part] as f64 / unit;
                    assert!((got - float).abs() < n as f64 / unit, "{log_n} {i}: {got} for {float}");
                    let off = (sum[i][part] - mask[i][part] - plain[i][part]).abs();
                    assert!(off < 2 * n as i128, "{log_n} {i}: {off}");
                }
            }
            let terms = [(1, 0.5), (0, -1.0)];
            let want = [floats_of(plain[1][0], unit) / 2.0, -floats_of(plain[0][0], unit)];
            for (got, want) in wide.real_slots(&values, &terms).unwrap().into_iter().zip(want) {
                assert!((got as f64 - want).abs() < 0.6, "{got} for {want}");
            }
            assert!(matches!(wide.real_slots(&values, &[(n / 2, 1.0)]), Err(Error::SlotCount { .. })));
            assert!(matches!(wide.real_slots(&values, &[(0, 1.5)]), Err(Error::ValueRange { .. })));
            // The widest coefficients, all of one sign, fit a slot of the largest size.
            let limit = 1i128 << wide.coefficient_bits();
            let widest = wide.slots(&vec![limit - 1; n]).unwrap();
            let largest = widest.iter().flatten().map(|x| x.unsigned_abs()).max().unwrap();
            assert!(largest < 1 << 124 && largest > (limit as u128) << 8, "{log_n}");
            let refused = wide.slots(&vec![limit; n]);
            assert!(matches!(refused, Err(Error::ValueRange { .. })), "{log_n}");
        }
        let too_wide = [1i128 << MAX_WIDE_COEFFICIENT_BITS; 8];
        assert!(matches!(WideEncoder::new(3).slots(&too_wide), Err(Error::ValueRange { .. })));
        assert!(matches!(WideEncoder::new(3).slots(&[0; 4]), Err(Error::CoefficientCount { .. })));
    }

    fn floats_of(value: i128, unit: f64) -> f64 {
        value as f64 / unit
    }

    #[test]
    fn what_is_too_wide_is_refused() {
        let encoder = WideEncoder::new(10);
        let limit = 1i128 << MAX_WIDE_BITS;
        let mut slots = vec![[limit - 1, 1 - limit]; 512];
        let widest = encoder.coefficients(&slots, 1.0).unwrap();
        assert!((widest[0] - (limit - 1)).abs() < 2 && (widest[512] - (1 - limit)).abs() < 2);
        for bad in [limit, -limit, i128::MIN] {
            slots[7][1] = bad;
            assert!(matches!(encoder.coefficients(&slots, 1.0), Err(Error::ValueRange { .. })));
        }
        slots[7][1] = 0;
        assert!(matches!(encoder.coefficients(&slots[..256], 1.0), Err(Error::SlotCount { .. })));
        for factor in [0.0, -1.0, 1.5, f64::NAN] {
            assert!(matches!(encoder.coefficients(&slots, factor), Err(Error::ValueRange { .. })));
        }
    }
}
