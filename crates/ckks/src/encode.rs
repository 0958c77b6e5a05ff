//! Encoding: from slot values to a polynomial with integer coefficients at a scale, and back.

use crate::{Error, Op, Params, Plaintext};
use num_complex::Complex64;
use rns::Poly;
use zeroize::{Zeroize, Zeroizing};

/// The canonical embedding for ring degree N. Slot j is the polynomial's value at ζ^(5ʲ) with ζ = e^(πi/N).
///
/// A vector may have any length n ≤ N/2 that is a power of two. It stands for its periodic continuation to
/// N/2 slots, which is a polynomial in X^(N/2n).
#[derive(Debug, Clone)]
pub struct Encoder {
    n: usize,
    /// Entry k is e^(2πik/2N).
    roots: Vec<Complex64>,
    /// Entry j is 5ʲ mod 2N.
    powers: Vec<usize>,
}

impl Encoder {
    /// The encoder for ring degree 2^`log_n`.
    pub fn new(log_n: u32) -> Self {
        let n = 1usize << log_n;
        let roots = (0..2 * n)
            .map(|k| Complex64::from_polar(1.0, std::f64::consts::PI * k as f64 / n as f64))
            .collect();
        let powers = std::iter::successors(Some(1usize), |p| Some(p * 5 % (2 * n))).take(n / 2).collect();
        Encoder { n, roots, powers }
    }

    /// The real coefficients, before scaling, of the polynomial with these n slots. It is a polynomial in
    /// X^(N/2n), and its 2n coefficients are returned.
    ///
    /// # Errors
    /// [`Error::SlotCount`] unless the number of values is a power of two up to N/2.
    pub fn coefficients(&self, slots: &[Complex64]) -> Result<Vec<f64>, Error> {
        let size = slots.len();
        if !size.is_power_of_two() || size > self.n / 2 {
            return Err(Error::SlotCount { op: Op::Encode, got: size, max: self.n / 2 });
        }
        let mut v = slots.to_vec();
        let mut len = size;
        while len > 1 {
            let (half, gap) = (len / 2, 2 * self.n / (4 * len));
            for block in v.chunks_exact_mut(len) {
                let (low, high) = block.split_at_mut(half);
                for (j, (x, y)) in low.iter_mut().zip(high).enumerate() {
                    let w = self.roots[(4 * len - self.powers[j] % (4 * len)) * gap % (2 * self.n)];
                    (*x, *y) = (*x + *y, (*x - *y) * w);
                }
            }
            len = half;
        }
        bit_reverse(&mut v);
        // Entry i is the coefficient of X^(i·N/(2·size)).
        let mut out = Vec::with_capacity(2 * size);
        out.extend(v.iter().map(|z| z.re).chain(v.iter().map(|z| z.im)).map(|c| c / size as f64));
        zero_slots(&mut v);
        Ok(out)
    }

    /// The first `size` slots, a power of two up to N/2, of the polynomial in X^(N/(2·size)) with these N
    /// coefficients. Other coefficients than those of powers of X^(N/(2·size)) are not read.
    pub fn slots(&self, coefficients: &[f64], size: usize) -> Vec<Complex64> {
        let gap = self.n / 2 / size;
        let mut v: Vec<Complex64> = (0..size)
            .map(|i| Complex64::new(coefficients[i * gap], coefficients[self.n / 2 + i * gap]))
            .collect();
        bit_reverse(&mut v);
        let mut len = 2;
        while len <= size {
            let (half, gap) = (len / 2, 2 * self.n / (4 * len));
            for block in v.chunks_exact_mut(len) {
                let (low, high) = block.split_at_mut(half);
                for (j, (x, y)) in low.iter_mut().zip(high).enumerate() {
                    let t = *y * self.roots[(self.powers[j] % (4 * len)) * gap];
                    (*x, *y) = (*x + t, *x - t);
                }
            }
            len *= 2;
        }
        v
    }

    /// The coefficients of [`Self::coefficients`], multiplied by `scale` and rounded to integers.
    ///
    /// # Errors
    /// As [`Self::coefficients`]; [`Error::ValueRange`] if a value is not finite or an integer reaches 2⁶².
    pub fn integers(&self, slots: &[Complex64], scale: f64) -> Result<Vec<i64>, Error> {
        let coefficients = Zeroizing::new(self.coefficients(slots)?);
        let mut out = Zeroizing::new(Vec::with_capacity(coefficients.len()));
        for c in coefficients.iter() {
            let x = (c * scale).round();
            if x.abs() >= (1u64 << 62) as f64 || x.is_nan() {
                return Err(Error::ValueRange { op: Op::Encode, scale: scale.log2() });
            }
            out.push(x as i64);
        }
        Ok(std::mem::take(&mut *out))
    }
}

/// Zeroes slot values that may be secret.
pub fn zero_slots(slots: &mut [Complex64]) {
    for z in slots {
        z.re.zeroize();
        z.im.zeroize();
    }
}

fn bit_reverse(v: &mut [Complex64]) {
    let bits = v.len().trailing_zeros();
    for i in 0..v.len() {
        let j = rns::bit_reverse(i, bits);
        if i < j {
            v.swap(i, j);
        }
    }
}

impl Plaintext {
    /// The polynomial with these integer coefficients, from that of X⁰ on, at `level` and `scale`. Missing
    /// coefficients are 0.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] if `level` is above the top level; [`Error::CoefficientCount`] if there are
    /// more than N.
    pub fn from_integers(
        params: &Params,
        coefficients: &[i64],
        level: usize,
        scale: f64,
    ) -> Result<Self, Error> {
        params.check_level(Op::Encode, level)?;
        if coefficients.len() > params.n() {
            return Err(Error::CoefficientCount { got: coefficients.len(), max: params.n() });
        }
        let basis = params.q_basis(level);
        Ok(Plaintext { poly: Poly::from_signed(basis, coefficients).into_ntt(basis), level, scale })
    }

    /// Encodes slot values at the canonical scale of `level`.
    ///
    /// # Errors
    /// As [`Self::encode_at`].
    pub fn encode(params: &Params, slots: &[Complex64], level: usize) -> Result<Self, Error> {
        params.check_level(Op::Encode, level)?;
        Self::encode_at(params, slots, level, params.scale(level))
    }

    /// Encodes slot values at `level` and any scale.
    ///
    /// # Errors
    /// As [`Encoder::integers`]; [`Error::OutOfLevels`] if `level` is above the top level.
    pub fn encode_at(params: &Params, slots: &[Complex64], level: usize, scale: f64) -> Result<Self, Error> {
        params.check_level(Op::Encode, level)?;
        let integers = Zeroizing::new(params.encoder().integers(slots, scale)?);
        Ok(Plaintext { poly: Poly::from_signed_sparse(params.q_basis(level), &integers), level, scale })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slow_slot(coefficients: &[f64], n: usize, j: usize) -> Complex64 {
        let power = (0..j).fold(1usize, |p, _| p * 5 % (2 * n));
        coefficients
            .iter()
            .enumerate()
            .map(|(k, &c)| {
                c * Complex64::from_polar(
                    1.0,
                    std::f64::consts::PI * ((power * k) % (2 * n)) as f64 / n as f64,
                )
            })
            .sum()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]
        /// The fast embedding equals its definition, for every number of slots.
        #[test]
        fn encoding_equals_its_definition(log_size in 0u32..=9, values in proptest::collection::vec(-1.0f64..1.0, 1024)) {
            let (n, size) = (1024, 1usize << log_size);
            let encoder = Encoder::new(10);
            let slots: Vec<Complex64> = (0..size).map(|i| Complex64::new(values[i], values[size + i])).collect();
            let short = encoder.coefficients(&slots).unwrap();
            let mut coefficients = vec![0.0; n];
            short.iter().enumerate().for_each(|(i, &c)| coefficients[i * n / short.len()] = c);
            for j in [0, 1, size / 2, size - 1] {
                prop_assert!((slow_slot(&coefficients, n, j) - slots[j % size]).norm() < 1e-11);
                // Further slots repeat the given ones.
                prop_assert!((slow_slot(&coefficients, n, j + size) - slots[j % size]).norm() < 1e-11);
            }
            for (a, b) in encoder.slots(&coefficients, size).iter().zip(&slots) {
                prop_assert!((a - b).norm() < 1e-12);
            }
        }
    }

    #[test]
    fn bad_slot_counts_and_values_are_refused() {
        let encoder = Encoder::new(10);
        for len in [0, 3, 1024] {
            assert!(encoder.coefficients(&vec![Complex64::ONE; len]).is_err());
        }
        for bad in [f64::NAN, f64::INFINITY, 1e300] {
            assert!(encoder.integers(&[Complex64::new(bad, 0.0)], 1e9).is_err());
        }
    }
}
