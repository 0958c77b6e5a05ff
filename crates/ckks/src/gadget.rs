//! How a key switch cuts a polynomial into digits.

use crate::Params;
use rayon::prelude::*;
use rns::sample::SIGMA;
use rns::{BaseConverter, Basis, Constant, ScaledResidues, Radix};
use std::ops::Range;

/// Where digits end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cut {
    /// Before these limbs: a digit is the residues modulo a group of primes (Han, Ki 2020). A key switch spares the transforms of
    /// each digit's own limbs.
    Limbs(Vec<usize>),
    /// Before these bits: a digit is some bits of a whole number, whatever the primes are. One special prime is then enough, but all
    /// digits together add up to one rounding's noise.
    Bits(Vec<u32>),
}

impl Cut {
    /// What tells it from every other cut of the same chain: the size of the groups if they have one; else a 0, for bits two, and the ends.
    pub(crate) fn words(&self) -> Vec<u64> {
        match self {
            Cut::Limbs(ends) => {
                let (size, chain) = (ends[0], ends[ends.len() - 1]);
                if ends.iter().copied().eq((size..).step_by(size).map(|end| end.min(chain)).take(ends.len()))
                {
                    return vec![size as u64];
                }
                [0].into_iter().chain(ends.iter().map(|&end| end as u64)).collect()
            }
            Cut::Bits(ends) => [0, 0].into_iter().chain(ends.iter().map(|&end| end.into())).collect(),
        }
    }
}

/// How a key switch cuts the chain into digits.
#[derive(Debug)]
pub struct Gadget {
    cut: Cut,
    /// At each level.
    digits: Vec<usize>,
    tables: Tables,
}

#[derive(Debug)]
enum Tables {
    /// [digit][limbs in it − 1]: its primes, and from them to every prime of QP.
    Limbs(Vec<Vec<(Basis, BaseConverter)>>),
    /// For each level, and from each digit to every prime of QP.
    Bits(Vec<Radix>, Vec<BaseConverter>),
}

impl Gadget {
    /// Bits that a group of primes stays below what its key switch is divided by, so that it adds less noise than that division's
    /// rounding, although a digit of k primes is only kept within k times its half.
    pub const SPARE_BITS: f64 = 6.0;

    /// The gadget for digits that are divided by a number of `room` bits: of limbs, or of bits if some prime is too large for that; `None`
    /// if there is none. `q` are the primes of each level, `full` those of QP.
    pub(crate) fn new(q: &[Basis], full: &Basis, room: f64) -> Option<Self> {
        Self::of_limbs(q, full, room - Self::SPARE_BITS).or_else(|| Self::of_bits(q, full, room))
    }

    /// Variance that digits of so many bits add to a coefficient when their products with a key are divided by a number of `room` bits,
    /// in those of the division's rounding, N/18 ([`Params::rounding_error`]): Σ N·σ²·4^(bits − room)/12.
    pub fn noise_of_bits(bits: impl Iterator<Item = u32>, room: f64) -> f64 {
        bits.map(|bits| (2.0 * (f64::from(bits) - room)).exp2()).sum::<f64>() * SIGMA * SIGMA * 18.0 / 12.0
    }

    /// Groups of primes from q₀ on, each as many as have at most `room` bits together.
    fn of_limbs(q: &[Basis], full: &Basis, room: f64) -> Option<Self> {
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
        let tables = Tables::Limbs(starts.zip(&ends).map(sizes).collect());
        let digits = (0..q.len()).map(|level| 1 + ends.iter().filter(|&&end| end <= level).count()).collect();
        Some(Gadget { cut: Cut::Limbs(ends), digits, tables })
    }

    /// The fewest digits that add no more noise than the rounding, of one width as nearly as may be.
    fn of_bits(q: &[Basis], full: &Basis, room: f64) -> Option<Self> {
        let bits = Radix::bits(q.last()?);
        let least = (bits / f64::from(Radix::MAX_BITS)).ceil() as u32;
        let most = (bits / f64::from(Radix::MIN_BITS)).ceil() as u32;
        let ends = |count: u32| -> Vec<u32> {
            (1..=count).map(|t| (f64::from(t) * bits / f64::from(count)).ceil() as u32).collect()
        };
        let widths = |ends: &[u32]| -> Vec<u32> {
            [0].into_iter().chain(ends.iter().copied()).zip(ends).map(|(start, end)| end - start).collect()
        };
        let quiet = |ends: &Vec<u32>| Self::noise_of_bits(widths(ends).into_iter(), room) <= 1.0;
        let ends = (least..=most).map(ends).find(quiet)?;
        let levels: Vec<Radix> = q.iter().map(|from| Radix::new(from, &ends)).collect::<Option<_>>()?;
        let converters = widths(&ends).into_iter().map(|bits| BaseConverter::of_digit(bits, full)).collect();
        let digits = levels.iter().map(Radix::digits).collect();
        Some(Gadget { cut: Cut::Bits(ends), digits, tables: Tables::Bits(levels, converters) })
    }

    /// Where digits end.
    pub fn cut(&self) -> &Cut {
        &self.cut
    }

    /// Digits that a key switch at `level` takes.
    pub fn digits(&self, level: usize) -> usize {
        self.digits[level]
    }

    /// The limbs of digit `digit` among those of `level`, if it has its own.
    pub fn limbs(&self, digit: usize, level: usize) -> Range<usize> {
        match &self.cut {
            Cut::Limbs(ends) => {
                let first = if digit == 0 { 0 } else { ends[digit - 1] };
                first..ends[digit].min(level + 1)
            }
            Cut::Bits(_) => 0..0,
        }
    }

    /// Rows that the values of a digit of `level` are made of, at most.
    pub fn rows(&self, level: usize) -> usize {
        (0..self.digits(level)).map(|j| self.limbs(j, level).len()).max().unwrap_or(0).max(1)
    }

    /// Transforms that make values modulo `outputs` primes, the chain's among them, of the digits of `level`.
    pub fn transforms(&self, level: usize, outputs: usize) -> usize {
        let own: usize = (0..self.digits(level)).map(|j| self.limbs(j, level).len()).sum();
        self.digits(level) * outputs - own
    }

    /// What digit `digit` counts for modulo limb `limb` of `level`, times P: what its key holds of the secret there. `None` is 0.
    pub fn weight(&self, params: &Params, digit: usize, level: usize, limb: usize) -> Option<Constant> {
        let p = params.p_constants().get(limb).filter(|_| limb <= level)?;
        match &self.cut {
            Cut::Limbs(_) => self.limbs(digit, level).contains(&limb).then_some(*p),
            Cut::Bits(ends) => {
                let m = params.q_basis(level).modulus(limb);
                let start = if digit == 0 { 0 } else { ends[digit - 1] };
                Some(m.constant(m.mul_constant(m.pow(2, start.into()), *p)))
            }
        }
    }

    /// The digits of x over the primes `from` of `level`; `limb(i, w, out)` writes w times limb i of x in the coefficient domain.
    pub(crate) fn split(
        &self,
        from: &Basis,
        level: usize,
        limb: impl Fn(usize, u64, &mut [u64]) + Send + Sync,
    ) -> Vec<ScaledResidues> {
        match &self.tables {
            Tables::Limbs(digits) => (0..self.digits(level))
                .into_par_iter()
                .map(|j| {
                    let limbs = self.limbs(j, level);
                    let (from, converter) = &digits[j][limbs.len() - 1];
                    converter.scaled_residues(from, |i, w, y| limb(limbs.start + i, w, y))
                })
                .collect(),
            Tables::Bits(levels, _) => levels[level].split(from, limb),
        }
    }

    /// From digit `digit`, as it was prepared, to every prime of QP.
    pub(crate) fn converter(&self, digit: usize, prepared: &ScaledResidues) -> &BaseConverter {
        match &self.tables {
            Tables::Limbs(digits) => &digits[digit][prepared.limbs() - 1].1,
            Tables::Bits(_, converters) => &converters[digit],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two cuts of one chain are never told apart by their kind alone, nor confused.
    #[test]
    fn cuts_have_words_of_their_own() {
        let cuts = [
            Cut::Limbs(vec![1, 2, 3, 4, 5]),
            Cut::Limbs(vec![2, 4, 5]),
            Cut::Limbs(vec![3, 5]),
            Cut::Limbs(vec![1, 3, 5]),
            Cut::Limbs(vec![2, 5]),
            Cut::Limbs(vec![1, 2, 5]),
            Cut::Limbs(vec![5]),
            Cut::Bits(vec![31, 62, 93]),
            Cut::Bits(vec![47, 93]),
            Cut::Bits(vec![46, 93]),
        ];
        for (i, a) in cuts.iter().enumerate() {
            for (j, b) in cuts.iter().enumerate() {
                // Neither is the beginning of the other: the words of two gadgets follow each other.
                assert_eq!(i == j, a.words().starts_with(&b.words()), "{a:?}, {b:?}");
            }
        }
        // Groups of one size have the word they always had.
        assert_eq!(cuts[1].words(), [2]);
    }
}
