//! Limbs in the order in which a sum over them reads them.

use crate::{Constant, Modulus};
use aligned_vec::{AVec, ConstAlign};

/// Entries of a limb that lie side by side: those of a vector register.
pub(crate) const LANES: usize = 8;

/// Pairs of limbs (yⱼ, zⱼ) modulo one prime as [`crate::pair_products`] reads them: eight entries of y₀, the same eight of
/// z₀, of y₁, of z₁ and so on, then the next eight. That is one stream from memory instead of many, and of half
/// the bytes if the prime is below 2³². Entries are stored times 2⁵², which the reduction of the sum takes off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimbPairs {
    n: usize,
    pairs: usize,
    words: Words,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Words {
    Narrow(AVec<u32, ConstAlign<64>>),
    Wide(AVec<u64, ConstAlign<64>>),
}

impl LimbPairs {
    /// From limbs of one length, a multiple of eight, reduced modulo `m`.
    pub fn new(m: &Modulus, pairs: &[(&[u64], &[u64])]) -> Self {
        let n = pairs.first().map_or(0, |(y, _)| y.len());
        assert!(n.is_multiple_of(LANES) && pairs.iter().all(|(y, z)| y.len() == n && z.len() == n));
        let mut words = AVec::new(0);
        words.resize(2 * pairs.len() * n, 0);
        let rows = pairs.iter().flat_map(|(y, z)| [*y, *z]);
        for (row, limb) in rows.enumerate() {
            for (block, entries) in limb.chunks_exact(LANES).enumerate() {
                let at = (2 * pairs.len() * block + row) * LANES;
                let stored = entries.iter().map(|&x| m.montgomery_factor(x));
                words[at..at + LANES].iter_mut().zip(stored).for_each(|(o, x)| *o = x);
            }
        }
        let words = if Self::entry_bytes(m) == size_of::<u32>() {
            Words::Narrow(AVec::from_iter(0, words.iter().map(|&w| w as u32)))
        } else {
            Words::Wide(words)
        };
        LimbPairs { n, pairs: pairs.len(), words }
    }

    /// Entries of a limb.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Number of pairs.
    pub fn pairs(&self) -> usize {
        self.pairs
    }

    pub(crate) fn words(&self) -> &Words {
        &self.words
    }

    /// Entry `i` of yⱼ and of zⱼ, times 2⁵².
    #[inline(always)]
    pub(crate) fn entry(&self, j: usize, i: usize) -> [u64; 2] {
        let at = |row: usize| (2 * self.pairs * (i / LANES) + row) * LANES + i % LANES;
        let word = |at: usize| match &self.words {
            Words::Narrow(words) => u64::from(words[at]),
            Words::Wide(words) => words[at],
        };
        [word(at(2 * j)), word(at(2 * j + 1))]
    }

    /// Writes yⱼ; `m` is the modulus it was made with.
    pub fn first_into(&self, m: &Modulus, j: usize, out: &mut [u64]) {
        out.iter_mut().enumerate().for_each(|(i, o)| *o = m.montgomery(u128::from(self.entry(j, i)[0])));
    }

    /// Bytes it takes in memory.
    pub fn bytes(&self) -> usize {
        match &self.words {
            Words::Narrow(words) => size_of_val(&words[..]),
            Words::Wide(words) => size_of_val(&words[..]),
        }
    }

    /// Bytes an entry takes.
    pub fn entry_bytes(m: &Modulus) -> usize {
        if m.value() <= u64::from(u32::MAX) { size_of::<u32>() } else { size_of::<u64>() }
    }
}

type Limbs<'a> = [&'a [u64]; 2];

/// What [`crate::pair_products`] adds to its sums, limbs of one prime.
#[derive(Debug, Default)]
pub struct Addends<'a> {
    /// (k, x, y): adds k·x₀·y₀ to the first sum and k·(x₀·y₁ + x₁·y₀) to the second.
    pub products: Vec<(Constant, Limbs<'a>, Limbs<'a>)>,
    /// (k, x) for either sum: adds k·x, k reduced.
    pub multiples: [Vec<(u64, &'a [u64])>; 2],
    /// Added to each entry of the first sum, reduced.
    pub constant: u64,
}

impl Addends<'_> {
    /// How many products of reduced factors either sum is at most worth.
    pub(crate) fn terms(&self) -> usize {
        // x is only reduced below 2q.
        4 * self.products.len() + self.multiples.iter().map(Vec::len).max().unwrap_or(0) + 1
    }

    pub(crate) fn lengths(&self) -> impl Iterator<Item = usize> {
        let products = self.products.iter().flat_map(|(_, x, y)| [x[0], x[1], y[0], y[1]]);
        products.chain(self.multiples.iter().flatten().map(|(_, x)| *x)).map(<[u64]>::len)
    }
}
