//! From residues to digits in base two.

use crate::{Basis, Buffer, Modulus, Prepared, simd};
use rayon::prelude::*;

/// Bits of the words that whole numbers are kept in here: those of the vector multiplier.
pub(crate) const WORD: u32 = 52;

/// Cuts polynomials into digits of some bits each, wherever the primes of their basis end: x = Σ dₜ·2^(start of digit t) with
/// |dₜ| ≤ 2^(bits of digit t − 1), for the representative x in (−Q/2, Q/2] as [`crate::BaseConverter::new`] finds it.
#[derive(Debug, Clone)]
pub struct Radix {
    /// (Q/qᵢ)⁻¹ mod qᵢ.
    pub(crate) scale: Vec<u64>,
    /// 1/qᵢ: what yᵢ counts for in the multiple of Q to take off.
    pub(crate) weight: Vec<f64>,
    /// For each word of x, that of Q/qᵢ for every prime and last that of −Q.
    pub(crate) factors: Vec<Vec<u64>>,
    /// What the sum starts from: half of every digit's range, which makes digits positive.
    pub(crate) start: Vec<u64>,
    /// The first bit and the bits of every digit.
    pub(crate) digits: Vec<(u32, u32)>,
}

impl Radix {
    /// The narrowest digit, give or take one that rounding leaves.
    pub const MIN_BITS: u32 = 16;
    /// The widest digit: transforms take it unreduced for primes of up to 41 bits.
    pub const MAX_BITS: u32 = 47;

    /// For polynomials modulo the primes of `from`: the first digits of those that end at the bits `ends`, as many as hold the
    /// representative; `None` if all do not, or one is too narrow or too wide.
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
            others.fold(Words::from(1, words), |p, (_, q)| p.times(q))
        };
        let parts: Vec<Words> = (0..k).map(product).chain([product(k).negated()]).collect();
        let halves = digits.iter().fold(Words::from(0, words), |sum, &(start, bits)| {
            sum.plus(&Words::power_of_two(start + bits - 1, words))
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

    /// How many there are.
    pub fn digits(&self) -> usize {
        self.digits.len()
    }

    /// Bits that the digits of polynomials modulo the primes of `from` have at least, all together.
    pub fn bits(from: &Basis) -> f64 {
        // Digits reach half of their range less 2⁻¹⁵ of it, and x may pass Q/2 by 2⁻⁴⁰ of that.
        from.log2() + 1e-3
    }

    /// The digits of x, each as [`crate::BaseConverter::of_digit`] takes it. `limb(i, w, out)` writes w times limb i of x, in the coefficient
    /// domain; x has all limbs of the basis.
    pub fn split(&self, from: &Basis, limb: impl Fn(usize, u64, &mut [u64]) + Send + Sync) -> Vec<Prepared> {
        /// Coefficients that one task cuts.
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
        rows.into_iter().map(Prepared::digit).collect()
    }
}

/// A whole number modulo 2^(52·words), the low word first.
struct Words(Vec<u64>);

impl Words {
    const MASK: u64 = (1 << WORD) - 1;

    fn from(x: u64, words: usize) -> Self {
        Words((0..words).map(|i| if i == 0 { x } else { 0 }).collect())
    }

    fn power_of_two(bit: u32, words: usize) -> Self {
        Words((0..words as u32).map(|i| if i == bit / WORD { 1 << (bit % WORD) } else { 0 }).collect())
    }

    fn times(self, factor: u64) -> Self {
        let mut carry = 0;
        Words(
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
        Words(
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
        Words(self.0.into_iter().map(|x| x ^ Self::MASK).collect()).plus(&one)
    }
}
