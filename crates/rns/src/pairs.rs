//! Limbs in the order in which a sum over them reads them.

use crate::{Constant, Modulus, Permutation, simd};
use aligned_vec::{AVec, ConstAlign};

/// Entries of a limb that lie side by side: those of a vector register.
pub(crate) const LANES: usize = 8;

/// Pairs of limbs (yⱼ, zⱼ) modulo one prime as [`crate::pair_products`] reads them: eight entries of y₀, the same eight of
/// z₀, of y₁, of z₁ and so on, then the next eight. That is one stream from memory instead of many, and it has no byte that
/// the prime does not need. Entries are stored times 2⁵², which the reduction of the sum takes off. The zⱼ may be left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimbPairs {
    n: usize,
    pairs: usize,
    /// Limbs stored of a pair: both, or yⱼ alone.
    limbs: usize,
    /// Bytes of an entry, the low one first.
    width: usize,
    /// The entries, then [`Self::PADDING`].
    bytes: AVec<u8, ConstAlign<64>>,
}

impl LimbPairs {
    /// Bytes after the last entry, so that a register may be read at any entry.
    pub(crate) const PADDING: usize = 64;

    /// From limbs of one length, a multiple of eight, reduced modulo `m`.
    pub fn new(m: &Modulus, pairs: &[(&[u64], &[u64])]) -> Self {
        let n = pairs.first().map_or(0, |(y, _)| y.len());
        assert!(n.is_multiple_of(LANES) && pairs.iter().all(|(y, z)| y.len() == n && z.len() == n));
        let width = Self::width(m);
        let mut bytes = AVec::new(0);
        bytes.resize(Self::bytes_of(m, n, pairs.len(), true), 0);
        let rows = pairs.iter().flat_map(|(y, z)| [*y, *z]);
        for (row, limb) in rows.enumerate() {
            for (block, entries) in limb.chunks_exact(LANES).enumerate() {
                let at = (2 * pairs.len() * block + row) * LANES * width;
                for (out, &x) in bytes[at..].chunks_exact_mut(width).zip(entries) {
                    out.copy_from_slice(&m.montgomery_factor(x).to_le_bytes()[..width]);
                }
            }
        }
        LimbPairs { n, pairs: pairs.len(), limbs: 2, width, bytes }
    }

    /// Without the zⱼ.
    pub fn into_firsts(self) -> Self {
        if self.limbs == 1 {
            return self;
        }
        let (row, n) = (self.row_bytes(), self.n);
        let mut bytes = AVec::new(0);
        bytes.resize(n / LANES * self.pairs * row + Self::PADDING, 0);
        for (first, pair) in bytes.chunks_exact_mut(row).zip(self.bytes.chunks_exact(2 * row)) {
            first.copy_from_slice(&pair[..row]);
        }
        LimbPairs { limbs: 1, bytes, ..self }
    }

    /// With the zⱼ that are stored.
    pub fn whole(&self) -> Pairs<'_> {
        assert!(self.limbs == 2, "pairs without their second halves");
        Pairs { stored: self, seconds: None }
    }

    /// With these zⱼ, for the first pairs, in place of any stored.
    pub fn with_seconds<'a>(&'a self, seconds: &'a [&'a [u64]]) -> Pairs<'a> {
        assert!(seconds.iter().all(|z| z.len() == self.n), "limbs of another length");
        Pairs { stored: self, seconds: Some(seconds) }
    }

    /// Makes zⱼ what [`Self::with_seconds`] takes.
    pub fn prepare_second(m: &Modulus, z: &mut [u64]) {
        simd::mul_constant_assign(m, z, m.word);
    }

    /// The zⱼ are stored.
    pub fn is_whole(&self) -> bool {
        self.limbs == 2
    }

    /// Entries of a limb.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Number of pairs.
    pub fn pairs(&self) -> usize {
        self.pairs
    }

    /// Bytes of eight entries of one limb.
    pub(crate) fn row_bytes(&self) -> usize {
        LANES * self.width
    }

    /// All entries and the padding.
    pub(crate) fn padded(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of eight entries of what is stored of a pair.
    pub(crate) fn pair_bytes(&self) -> usize {
        self.limbs * self.row_bytes()
    }

    /// Bytes from eight entries of y₀ to the next eight.
    pub(crate) fn step(&self) -> usize {
        self.pairs * self.pair_bytes()
    }

    /// Entry `i` of yⱼ (`half` 0) or of zⱼ (1), times 2⁵².
    #[inline(always)]
    pub(crate) fn entry(&self, j: usize, half: usize, i: usize) -> u64 {
        let row = i / LANES * self.step() + j * self.pair_bytes() + half * self.row_bytes();
        let at = row + i % LANES * self.width;
        let mut word = [0; 8];
        word[..self.width].copy_from_slice(&self.bytes[at..at + self.width]);
        u64::from_le_bytes(word)
    }

    /// Writes yⱼ; `m` is the modulus it was made with.
    pub fn first_into(&self, m: &Modulus, j: usize, out: &mut [u64]) {
        out.iter_mut().enumerate().for_each(|(i, o)| *o = m.montgomery(u128::from(self.entry(j, 0, i))));
    }

    /// Bytes it takes in memory.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes that `pairs` pairs of limbs of `n` entries modulo `m` take, with their zⱼ or without.
    pub fn bytes_of(m: &Modulus, n: usize, pairs: usize, whole: bool) -> usize {
        (1 + usize::from(whole)) * pairs * n * Self::width(m) + Self::PADDING
    }

    /// Bytes an entry takes: as many as its prime.
    fn width(m: &Modulus) -> usize {
        m.bits().div_ceil(8) as usize
    }
}

/// What [`crate::pair_products`] multiplies with.
#[derive(Debug, Clone, Copy)]
pub struct Pairs<'a> {
    pub(crate) stored: &'a LimbPairs,
    /// zⱼ times 2⁵² for the first pairs, unless they are stored.
    pub(crate) seconds: Option<&'a [&'a [u64]]>,
}

impl Pairs<'_> {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.seconds.map_or(self.stored.pairs, |z| z.len().min(self.stored.pairs))
    }

    /// Entry `i` of yⱼ and of zⱼ, times 2⁵².
    #[inline(always)]
    pub(crate) fn entry(&self, j: usize, i: usize) -> [u64; 2] {
        let z = self.seconds.map_or_else(|| self.stored.entry(j, 1, i), |z| z[j][i]);
        [self.stored.entry(j, 0, i), z]
    }
}

/// What [`crate::pair_products`] does with its sums.
#[derive(Debug, Clone, Copy, Default)]
pub struct Target<'a> {
    /// Moves them.
    pub to: Option<&'a Permutation>,
    /// What becomes of what is there.
    pub mode: Mode,
}

/// What becomes of what stands where a result goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// It is lost.
    #[default]
    Write,
    /// The result is added to it.
    Add,
    /// The result is taken off it.
    Subtract,
}

impl Mode {
    /// What stands there afterwards, `x` and `result` being reduced. Branch-free but for the mode.
    #[inline(always)]
    pub(crate) fn apply(self, m: &Modulus, x: u64, result: u64) -> u64 {
        match self {
            Mode::Write => result,
            Mode::Add => m.add(x, result),
            Mode::Subtract => m.sub(x, result),
        }
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
