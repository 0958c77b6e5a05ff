//! Exact products of polynomials modulo X^N + 1 with coefficients modulo 2⁶⁴: residues modulo three primes
//! hold every sum of products that is needed here, and are combined again.

use crate::Error;
use crate::params::{DEGREE, SWITCH_BASE_LOG};
use rns::{Basis, Ntt, NttTable, Poly};
use std::sync::Arc;

/// Bits of a prime. A sum of 2⁵ products of polynomials with words of 2⁶³ and digits of 2²² in size is below
/// 2¹⁰¹.
const PRIME_BITS: u32 = 48;

/// The transforms modulo three primes.
#[derive(Debug, Clone)]
pub(crate) struct Exact {
    basis: Basis,
    /// q₀⁻¹ mod q₁; (q₀·q₁)⁻¹ and q₁⁻¹ mod q₂.
    inverses: [u64; 3],
}

impl Exact {
    pub(crate) fn new() -> Result<Self, Error> {
        let never = |_| Error::BadKeys("there is no prime for their transform");
        let mut primes = Vec::new();
        for _ in 0..3 {
            primes.push(rns::primes::largest(PRIME_BITS, 2 * DEGREE as u64, &primes).map_err(never)?);
        }
        let table = |q: &u64| NttTable::new(DEGREE.ilog2(), *q).map(Arc::new).map_err(never);
        let basis = Basis::new(DEGREE, primes.iter().map(table).collect::<Result<_, _>>()?);
        let (q1, q2) = (basis.modulus(1), basis.modulus(2));
        let [p0, p1] = [primes[0], primes[1]];
        let product = q2.mul(q2.reduce(p0), q2.reduce(p1));
        let inverses = [q1.inv(q1.reduce(p0)), q2.inv(product), q2.inv(q2.reduce(p1))];
        Ok(Exact { basis, inverses })
    }

    /// The values of a polynomial with these coefficients, in [−2⁶³, 2⁶³).
    pub(crate) fn values(&self, coefficients: &[u64]) -> Poly<Ntt> {
        let mut out = Poly::scratch(DEGREE, self.basis.len());
        out.for_each_limb(|i, limb| {
            let q = self.basis.modulus(i);
            limb.iter_mut().zip(coefficients).for_each(|(x, word)| *x = q.reduce_i64(*word as i64));
        });
        out.into_ntt(&self.basis)
    }

    /// Σ a·b of the pairs, modulo 2⁶⁴.
    pub(crate) fn sum<'a>(&self, pairs: impl Iterator<Item = (&'a Poly<Ntt>, &'a Poly<Ntt>)>) -> Vec<u64> {
        let mut sum: Poly<Ntt> = Poly::zero(DEGREE, self.basis.len());
        pairs.for_each(|(a, b)| sum.mul_add_assign(&self.basis, a, b));
        let sum = sum.into_coeff(&self.basis);
        let [p0, p1, p2] = [0, 1, 2].map(|i| self.basis.modulus(i).value());
        let (q1, q2) = (self.basis.modulus(1), self.basis.modulus(2));
        let combine = |i: usize| {
            let [x0, x1, x2] = [0, 1, 2].map(|limb| sum.limb(limb)[i]);
            // x = x₀ + q₀·(y₁ + q₁·y₂).
            let y1 = q1.mul(q1.sub(x1, q1.reduce(x0)), self.inverses[0]);
            let y2 = q2.sub(
                q2.mul(q2.sub(x2, q2.reduce(x0)), self.inverses[1]),
                q2.mul(q2.reduce(y1), self.inverses[2]),
            );
            // x is far below q₀·q₁·q₂/2 in size.
            let y2 = if y2 > p2 / 2 { y2.wrapping_sub(p2) } else { y2 };
            x0.wrapping_add(p0.wrapping_mul(y1.wrapping_add(p1.wrapping_mul(y2))))
        };
        (0..DEGREE).map(combine).collect()
    }

    /// The digits of words, nearest multiples of 2⁶⁴⁻²³ over it, in [−2²², 2²²).
    pub(crate) fn digits(&self, words: &[u64]) -> Poly<Ntt> {
        let half = 1i64 << (SWITCH_BASE_LOG - 1);
        let digit = |word: &u64| {
            let rounded = ((word >> (63 - SWITCH_BASE_LOG)) + 1) as i64 >> 1;
            (if rounded >= half { rounded - 2 * half } else { rounded }) as u64
        };
        self.values(&words.iter().map(digit).collect::<Vec<u64>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha20Rng;

    /// Sums of 16 products of digits and words equal those of the schoolbook modulo 2⁶⁴, with words at the
    /// ends of their range too.
    #[test]
    fn sums_are_those_of_the_schoolbook() {
        let (exact, mut rng) = (Exact::new().unwrap(), ChaCha20Rng::seed_from_u64(31));
        let mut want = vec![0u64; DEGREE];
        let mut pairs = Vec::new();
        for part in 0..16 {
            let words: Vec<u64> =
                (0..DEGREE).map(|_| if part == 0 { 1 << 63 } else { rng.random() }).collect();
            // Few coefficients, so that the schoolbook is short; all at the end of the range in the first
            // part.
            let mut digits = vec![0u64; DEGREE];
            for _ in 0..40 {
                let digit = if part == 0 { -1i64 << 22 } else { rng.random_range(-(1i64 << 22)..1 << 22) };
                digits[rng.random_range(0..DEGREE)] = digit as u64;
            }
            for (i, d) in digits.iter().enumerate().filter(|(_, d)| **d != 0) {
                for (j, w) in words.iter().enumerate() {
                    let product = d.wrapping_mul(*w);
                    match i + j < DEGREE {
                        true => want[i + j] = want[i + j].wrapping_add(product),
                        false => want[i + j - DEGREE] = want[i + j - DEGREE].wrapping_sub(product),
                    }
                }
            }
            pairs.push((exact.values(&digits), exact.values(&words)));
        }
        assert_eq!(exact.sum(pairs.iter().map(|(a, b)| (a, b))), want);
    }

    /// A digit is the nearest one, and the ends of the torus are one point.
    #[test]
    fn digits_are_the_nearest() {
        let exact = Exact::new().unwrap();
        let unit = 1u64 << (64 - SWITCH_BASE_LOG);
        let words: Vec<u64> = (0..DEGREE as u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
        let one: Vec<u64> = std::iter::once(1).chain(std::iter::repeat_n(0, DEGREE - 1)).collect();
        let digits = exact.sum(std::iter::once((&exact.digits(&words), &exact.values(&one))));
        for (word, digit) in words.iter().zip(digits) {
            let error = word.wrapping_sub(digit.wrapping_mul(unit)) as i64;
            assert!(error.unsigned_abs() <= unit / 2, "{word}: {digit}");
            assert!((digit as i64).unsigned_abs() <= 1 << (SWITCH_BASE_LOG - 1));
        }
    }
}
