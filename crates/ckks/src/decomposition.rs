//! The decomposition of polynomials into digits for key switching.

use crate::Params;
use rayon::prelude::*;
use rns::sample::SIGMA;
use rns::{BaseConverter, Basis, Constant, Radix, ScaledResidues};
use std::ops::Range;

/// How a polynomial modulo Q is decomposed into digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decomposition {
    /// RNS decomposition: digit j consists of the limbs `ends[j − 1]..ends[j]` (Han and Ki 2020, section 3).
    /// A key switch need not transform the limbs that a digit already has.
    Rns(Vec<usize>),
    /// Base-2ʷ decomposition: digit j consists of the bits `ends[j − 1]..ends[j]` of the centred
    /// representative, wherever the primes end. One special prime is then enough, but all digits together may
    /// add as much noise as one rounding.
    Base2(Vec<u32>),
}

impl Decomposition {
    /// Serialises the decomposition into words, injectively and without one being a prefix of another for a
    /// fixed prime chain. Used in fingerprints, so the encoding must not change: groups of equal size are
    /// written as that size, other groups as 0 and their ends, and digits of bits as 0, 0 and their ends.
    pub(crate) fn words(&self) -> Vec<u64> {
        match self {
            Decomposition::Rns(ends) => {
                let (size, chain) = (ends[0], ends[ends.len() - 1]);
                if ends.iter().copied().eq((size..).step_by(size).map(|end| end.min(chain)).take(ends.len()))
                {
                    return vec![size as u64];
                }
                [0].into_iter().chain(ends.iter().map(|&end| end as u64)).collect()
            }
            Decomposition::Base2(ends) => {
                [0, 0].into_iter().chain(ends.iter().map(|&end| end.into())).collect()
            }
        }
    }
}

/// A [`Decomposition`] of a prime chain with its tables: the gadget of a key switch.
#[derive(Debug)]
pub struct Gadget {
    decomposition: Decomposition,
    /// The number of digits at each level.
    digits: Vec<usize>,
    tables: Tables,
}

#[derive(Debug)]
enum Tables {
    /// For digit j with k limbs, entry \[j\]\[k − 1\] holds its primes and the base conversion from them to
    /// all primes of QP.
    Rns(Vec<Vec<(Basis, BaseConverter)>>),
    /// The decomposition at each level, and the base conversion of each digit to all primes of QP.
    Base2(Vec<Radix>, Vec<BaseConverter>),
}

impl Gadget {
    /// The number of bits by which the product of a group of primes stays below the divisor of its key
    /// switch. Its digit then adds less noise than the rounding of the division, although approximate base
    /// conversion lets a digit of k primes grow to k times half the product of its primes.
    pub const SPARE_BITS: f64 = 6.0;
    /// The number of bits by which a digit may exceed the special primes where products are not rescaled.
    const PRIME_OVER_P: f64 = 1.5;

    /// The gadget for key switches that divide by a number of `room` bits: the RNS decomposition if every
    /// prime is [`Self::SPARE_BITS`] below that number, else the base-2ʷ decomposition; `None` if neither
    /// exists. `q` holds the primes of each level, and `full` those of QP.
    pub(crate) fn new(q: &[Basis], full: &Basis, room: f64) -> Option<Self> {
        Self::rns(q, full, room - Self::SPARE_BITS).or_else(|| Self::base2(q, full, room))
    }

    /// The RNS decomposition whose digits have at most [`Self::PRIME_OVER_P`] bits more than the product of
    /// the special primes, which has `log_p` bits; `None` if one prime alone is larger. A key switch then
    /// adds the noise of [`Self::noise_of_digits`], which may exceed that of a rounding.
    pub(crate) fn of_primes(q: &[Basis], full: &Basis, log_p: f64) -> Option<Self> {
        Self::rns(q, full, log_p + Self::PRIME_OVER_P)
    }

    /// The variance that digits of these numbers of bits add to a coefficient when their products with a key
    /// are divided by a number of `room` bits, in units of the variance of the division's rounding, N/18
    /// ([`Params::rounding_error`]): the sum of N·σ²·4^(bits − room)/12 over the digits, divided by N/18.
    pub fn noise_of_digits(bits: impl Iterator<Item = u32>, room: f64) -> f64 {
        bits.map(|bits| (2.0 * (f64::from(bits) - room)).exp2()).sum::<f64>() * SIGMA * SIGMA * 18.0 / 12.0
    }

    /// Groups consecutive primes from q₀ on, each group as large as a product of at most `room` bits allows;
    /// `None` if one prime alone is larger.
    fn rns(q: &[Basis], full: &Basis, room: f64) -> Option<Self> {
        let chain = q.last()?;
        let (mut ends, mut bits) = (Vec::new(), 0.0);
        for (i, prime) in chain.primes().enumerate() {
            let log = (prime as f64).log2();
            if log > room {
                return None;
            }
            if bits + log > room {
                ends.push(i);
                bits = 0.0;
            }
            bits += log;
        }
        ends.push(chain.len());
        let starts = [0].into_iter().chain(ends.iter().copied());
        let sizes = |(start, &end): (usize, &usize)| {
            let of = |k: usize| {
                let basis = Basis::new(chain.n(), chain.tables()[start..start + k].to_vec());
                let converter = BaseConverter::approximate(&basis, full);
                (basis, converter)
            };
            (1..=end - start).map(of).collect()
        };
        let tables = Tables::Rns(starts.zip(&ends).map(sizes).collect());
        let digits = (0..q.len()).map(|level| 1 + ends.iter().filter(|&&end| end <= level).count()).collect();
        Some(Gadget { decomposition: Decomposition::Rns(ends), digits, tables })
    }

    /// The fewest digits, of nearly equal width, that together add at most the noise of one rounding.
    fn base2(q: &[Basis], full: &Basis, room: f64) -> Option<Self> {
        let bits = Radix::bits(q.last()?);
        let least = (bits / f64::from(Radix::MAX_BITS)).ceil() as u32;
        let most = (bits / f64::from(Radix::MIN_BITS)).ceil() as u32;
        let ends = |count: u32| -> Vec<u32> {
            (1..=count).map(|t| (f64::from(t) * bits / f64::from(count)).ceil() as u32).collect()
        };
        let widths = |ends: &[u32]| -> Vec<u32> {
            [0].into_iter().chain(ends.iter().copied()).zip(ends).map(|(start, end)| end - start).collect()
        };
        let quiet = |ends: &Vec<u32>| Self::noise_of_digits(widths(ends).into_iter(), room) <= 1.0;
        let ends = (least..=most).map(ends).find(quiet)?;
        let levels: Vec<Radix> = q.iter().map(|from| Radix::new(from, &ends)).collect::<Option<_>>()?;
        let converters = widths(&ends).into_iter().map(|bits| BaseConverter::of_digit(bits, full)).collect();
        let digits = levels.iter().map(Radix::digits).collect();
        let tables = Tables::Base2(levels, converters);
        Some(Gadget { decomposition: Decomposition::Base2(ends), digits, tables })
    }

    /// The decomposition.
    pub fn decomposition(&self) -> &Decomposition {
        &self.decomposition
    }

    /// The number of digits of a key switch at `level`.
    pub fn digits(&self, level: usize) -> usize {
        self.digits[level]
    }

    /// The limbs of digit `digit` at `level`. Empty for a base-2ʷ decomposition, whose digits have no limbs.
    pub fn limbs(&self, digit: usize, level: usize) -> Range<usize> {
        match &self.decomposition {
            Decomposition::Rns(ends) => {
                let first = if digit == 0 { 0 } else { ends[digit - 1] };
                first..ends[digit].min(level + 1)
            }
            Decomposition::Base2(_) => 0..0,
        }
    }

    /// The largest number of rows of scaled residues that a digit of `level` has.
    pub fn rows(&self, level: usize) -> usize {
        (0..self.digits(level)).map(|j| self.limbs(j, level).len()).max().unwrap_or(0).max(1)
    }

    /// The number of transforms that give the values of all digits of `level` modulo `outputs` primes, which
    /// include those of the chain.
    pub fn transforms(&self, level: usize, outputs: usize) -> usize {
        let own: usize = (0..self.digits(level)).map(|j| self.limbs(j, level).len()).sum();
        self.digits(level) * outputs - own
    }

    /// The gadget factor of digit `digit` modulo limb `limb` of `level`, times P: the multiple of the secret
    /// that the digit's key encrypts there. `None` stands for 0.
    pub fn weight(&self, params: &Params, digit: usize, level: usize, limb: usize) -> Option<Constant> {
        let p = params.p_constants().get(limb).filter(|_| limb <= level)?;
        match &self.decomposition {
            Decomposition::Rns(_) => self.limbs(digit, level).contains(&limb).then_some(*p),
            Decomposition::Base2(ends) => {
                let m = params.q_basis(level).modulus(limb);
                let start = if digit == 0 { 0 } else { ends[digit - 1] };
                Some(m.constant(m.mul_constant(m.pow(2, start.into()), *p)))
            }
        }
    }

    /// Decomposes x over the primes `from` of `level`. `limb(i, w, out)` writes w times limb i of x in the
    /// coefficient domain.
    pub(crate) fn split(
        &self,
        from: &Basis,
        level: usize,
        limb: impl Fn(usize, u64, &mut [u64]) + Send + Sync,
    ) -> Vec<ScaledResidues> {
        match &self.tables {
            Tables::Rns(digits) => (0..self.digits(level))
                .into_par_iter()
                .map(|j| {
                    let limbs = self.limbs(j, level);
                    let (from, converter) = &digits[j][limbs.len() - 1];
                    converter.scaled_residues(from, |i, w, y| limb(limbs.start + i, w, y))
                })
                .collect(),
            Tables::Base2(levels, _) => levels[level].split(from, limb),
        }
    }

    /// The base conversion of digit `digit`, whose scaled residues are given, to all primes of QP.
    pub(crate) fn converter(&self, digit: usize, scaled: &ScaledResidues) -> &BaseConverter {
        match &self.tables {
            Tables::Rns(digits) => &digits[digit][scaled.limbs() - 1].1,
            Tables::Base2(_, converters) => &converters[digit],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Different decompositions of one chain have different words, and none is a prefix of another.
    #[test]
    fn decompositions_have_words_of_their_own() {
        let all = [
            Decomposition::Rns(vec![1, 2, 3, 4, 5]),
            Decomposition::Rns(vec![2, 4, 5]),
            Decomposition::Rns(vec![3, 5]),
            Decomposition::Rns(vec![1, 3, 5]),
            Decomposition::Rns(vec![2, 5]),
            Decomposition::Rns(vec![1, 2, 5]),
            Decomposition::Rns(vec![5]),
            Decomposition::Base2(vec![31, 62, 93]),
            Decomposition::Base2(vec![47, 93]),
            Decomposition::Base2(vec![46, 93]),
        ];
        for (i, a) in all.iter().enumerate() {
            for (j, b) in all.iter().enumerate() {
                // The words of two gadgets follow each other in a fingerprint, so a prefix would be
                // ambiguous.
                assert_eq!(i == j, a.words().starts_with(&b.words()), "{a:?}, {b:?}");
            }
        }
        assert_eq!(all[1].words(), [2]);
    }
}
