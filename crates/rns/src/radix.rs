//! The base-2ʷ decomposition: from residues modulo the primes of a basis to digits of some bits each.

use crate::simd::{self, operands::WORD};
use crate::{Basis, Buffer, Modulus, Radix, ScaledResidues};
use rayon::prelude::*;

impl Radix {
    /// The decomposition for polynomials modulo the primes of `from`. Digit t ends at bit `ends[t]`; as many
    /// digits are taken as the centred representative needs. Returns `None` if `ends` are too few for it, or
    /// if a digit is narrower than [`Self::MIN_BITS`] or wider than [`Self::MAX_BITS`].
    pub fn new(from: &Basis, ends: &[u32]) -> Option<Self> {
        let k = from.len();
        let bits = Self::bits(from);
        let count = 1 + ends.iter().position(|&end| bits <= f64::from(end))?;
        let starts = [0].into_iter().chain(ends.iter().copied());
        let digits: Vec<(u32, u32)> = starts
            .zip(ends)
            .take(count)
            .map(|(start, &end)| Some((start, end.checked_sub(start)?)))
            .collect::<Option<_>>()?;
        if !digits.iter().all(|(_, bits)| (Self::MIN_BITS - 1..=Self::MAX_BITS).contains(bits)) {
            return None;
        }
        let words = ends[count - 1].div_ceil(WORD) as usize;
        let product = |skip: usize| {
            let others = from.primes().enumerate().filter(|(i, _)| *i != skip);
            others.fold(WideInteger::from(1, words), |p, (_, q)| p.times(q))
        };
        let parts: Vec<WideInteger> = (0..k).map(product).chain([product(k).negated()]).collect();
        let halves = digits.iter().fold(WideInteger::from(0, words), |sum, &(start, bits)| {
            sum.plus(&WideInteger::power_of_two(start + bits - 1, words))
        });
        let scale = |i: usize| {
            let m: &Modulus = from.modulus(i);
            let others = (0..k).filter(|&j| j != i);
            m.inv(others.fold(1, |p, j| m.mul(p, m.reduce(from.modulus(j).value()))))
        };
        Some(Radix {
            scale: (0..k).map(scale).collect(),
            weight: from.primes().map(|q| 1.0 / q as f64).collect(),
            factors: (0..words).map(|w| parts.iter().map(|p| p.0[w]).collect()).collect(),
            start: halves.0,
            digits,
        })
    }

    /// Number of digits.
    pub fn digits(&self) -> usize {
        self.digits.len()
    }

    /// The number of bits that the digits of a polynomial modulo the primes of `from` must have together.
    pub fn bits(from: &Basis) -> f64 {
        // Signed digits of b bits reach 2ᵇ⁻¹·(1 − 2⁻¹⁵) upwards, and |x| may exceed Q/2 by a factor 1 + 2⁻⁴⁰.
        from.log2() + 1e-3
    }

    /// Decomposes x into digits, each in the form that [`crate::BaseConverter::of_digit`] takes. `limb(i, w,
    /// out)` writes w times limb i of x in the coefficient domain; x has all limbs of the basis.
    pub fn split(
        &self,
        from: &Basis,
        limb: impl Fn(usize, u64, &mut [u64]) + Send + Sync,
    ) -> Vec<ScaledResidues> {
        /// Coefficients that one task decomposes.
        const BLOCK: usize = 1 << 11;
        let (n, k, digits) = (from.n(), from.len(), self.digits());
        let mut rows: Vec<Buffer> = (0..k.max(digits))
            .into_par_iter()
            .map(|i| {
                let mut y = Buffer::scratch(n);
                if i < k {
                    limb(i, self.scale[i], &mut y);
                }
                y
            })
            .collect();
        let mut blocks: Vec<Vec<&mut [u64]>> = (0..n.div_ceil(BLOCK)).map(|_| Vec::new()).collect();
        for row in &mut rows {
            row.chunks_mut(BLOCK).zip(&mut blocks).for_each(|(part, block)| block.push(part));
        }
        blocks.par_iter_mut().for_each(|rows| simd::split_in_place(rows, self));
        rows.truncate(digits);
        rows.into_iter().map(ScaledResidues::digit).collect()
    }
}

/// An integer modulo 2^(52·words), the low word first.
struct WideInteger(Vec<u64>);

impl WideInteger {
    const MASK: u64 = (1 << WORD) - 1;

    fn from(x: u64, words: usize) -> Self {
        WideInteger((0..words).map(|i| if i == 0 { x } else { 0 }).collect())
    }

    fn power_of_two(bit: u32, words: usize) -> Self {
        WideInteger((0..words as u32).map(|i| if i == bit / WORD { 1 << (bit % WORD) } else { 0 }).collect())
    }

    fn times(self, factor: u64) -> Self {
        let mut carry = 0;
        WideInteger(
            self.0
                .into_iter()
                .map(|x| {
                    let t = u128::from(x) * u128::from(factor) + carry;
                    carry = t >> WORD;
                    t as u64 & Self::MASK
                })
                .collect(),
        )
    }

    fn plus(self, other: &Self) -> Self {
        let mut carry = 0;
        WideInteger(
            self.0
                .into_iter()
                .zip(&other.0)
                .map(|(x, y)| {
                    let t = x + y + carry;
                    carry = t >> WORD;
                    t & Self::MASK
                })
                .collect(),
        )
    }

    fn negated(self) -> Self {
        let one = Self::from(1, self.0.len());
        WideInteger(self.0.into_iter().map(|x| x ^ Self::MASK).collect()).plus(&one)
    }
}
