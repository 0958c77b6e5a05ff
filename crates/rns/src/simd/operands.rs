//! Operand types of the kernels: what a kernel reads and writes, and in which layout and range. The modules
//! that call kernels and the kernels themselves both depend on this file, and not on each other.

use crate::{Constant, Modulus};
use aligned_vec::{AVec, ConstAlign, avec};

/// Entries of one vector register: 512 bits of 64-bit words.
pub(crate) const LANES: usize = 8;

/// Bits of a word of a multi-word integer: the operand width of the IFMA multiplier.
pub(crate) const WORD: u32 = 52;

/// One implementation of the negacyclic transform for one ring degree N and one prime. Inputs and outputs
/// have N entries and are reduced. The inverse includes the factor 1/N, so that it undoes the forward
/// transform.
pub trait NttKernel: Send + Sync {
    /// Transforms coefficients to values, in place.
    fn forward(&self, limb: &mut [u64]) {
        self.forward_with(limb, Input::Limb, Output::Limb);
    }
    /// Transforms the coefficients that `input` names to values, and writes them as `output` says. `limb` is
    /// overwritten in any case.
    fn forward_with(&self, limb: &mut [u64], input: Input, output: Output);
    /// Transforms values to coefficients, in place.
    fn inverse(&self, limb: &mut [u64]) {
        self.inverse_with(limb, None, 1);
    }
    /// Transforms `values`, or the content of `limb` if there are none, to coefficients, multiplies them by
    /// the reduced `factor`, and writes them to `limb`.
    fn inverse_with(&self, limb: &mut [u64], values: Option<&[u64]>, factor: u64);
}

/// Where a forward transform reads its coefficients.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// From the limb itself.
    Limb,
    /// From this slice, through the lift: residues modulo another prime, or digits.
    Lifted(Lift, &'a [u64]),
}

/// Where a forward transform writes its values.
#[derive(Debug)]
pub enum Output<'a> {
    /// To the limb, reduced.
    Limb,
    /// To the limb, below 2ᵇ and not reduced, with b = [`Modulus::lazy_bits`]. [`crate::pair_products`] takes
    /// such values, so that the last reduction of the transform is spared.
    Lazy,
    /// Subtracts the values from this limb x and multiplies the difference: x ← (x − values)·w.
    Quotient(&'a mut [u64], Constant),
}

/// Maps small integers to residues modulo a prime q.
#[derive(Debug, Clone, Copy)]
pub enum Lift {
    /// Maps a residue modulo another prime p to its representative in (−p/2, p/2), modulo q.
    Residue {
        /// p.
        prime: u64,
        /// −p, which is added to residues above p/2. It is stored as it is if `exact`, and reduced modulo q
        /// if not.
        less: u64,
        /// True if the sum is reduced modulo q already.
        exact: bool,
    },
    /// Maps a digit of `bits` bits, at most [`crate::Radix::MAX_BITS`], stored with 2^(bits − 1) added.
    Digit {
        /// Bits of the digit.
        bits: u32,
        /// −2^(bits − 1), reduced modulo q.
        less: u64,
    },
}

impl Lift {
    /// The lift of residues modulo `from` to residues modulo `to`.
    pub fn new(from: &Modulus, to: &Modulus) -> Self {
        let (p, q) = (from.value(), to.value());
        // ⌊p/2⌋ and q − ⌊p/2⌋ are then below q.
        let exact = p < 2 * q;
        let less = if exact { q.wrapping_sub(p) } else { to.neg(to.reduce(p)) };
        Lift::Residue { prime: p, less, exact }
    }

    /// The lift of digits of `bits` bits to residues modulo `to`.
    pub fn of_digit(bits: u32, to: &Modulus) -> Self {
        assert!((1..=Radix::MAX_BITS).contains(&bits), "no digit of {bits} bits");
        Lift::Digit { bits, less: to.neg(to.reduce(1 << (bits - 1))) }
    }

    /// Lifts one integer. Branch-free in its value.
    #[inline(always)]
    pub(crate) fn apply(&self, to: &Modulus, x: u64) -> u64 {
        // All terms are below 2⁵⁰.
        match *self {
            Lift::Residue { prime, less, exact } => {
                let x = x.wrapping_add(less.wrapping_mul(u64::from(x > prime / 2)));
                if exact { x } else { to.mul_constant(x, to.one) }
            }
            Lift::Digit { less, .. } => to.mul_constant(x + less, to.one),
        }
    }
}

/// The `bits` low bits of `i` in reversed order.
pub fn bit_reverse(i: usize, bits: u32) -> usize {
    if bits == 0 { 0 } else { i.reverse_bits() >> (usize::BITS - bits) }
}

/// The permutation p of values under the automorphism σ: X → X^g, with `σ(a)[i] = a[p[i]]`.
///
/// It moves aligned blocks of eight values as a whole and permutes each block within itself: the exponents of
/// the values of a block are equal modulo N/4, and so are their products with g.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permutation {
    indices: Vec<u32>,
    /// For each block of eight values, the block that it moves to.
    targets: Vec<u32>,
}

impl Permutation {
    /// The permutation of the automorphism with the odd exponent `element`, in a ring of degree N = 2^`log_n`
    /// ≥ 8.
    pub fn of_automorphism(log_n: u32, element: u64) -> Self {
        assert!((3..32).contains(&log_n) && element % 2 == 1, "no automorphism of such a ring");
        let n = 1usize << log_n;
        let mask = 2 * n as u64 - 1;
        let source = |i| {
            let exponent = 2 * bit_reverse(i, log_n) as u64 + 1;
            let source = exponent.wrapping_mul(element) & mask;
            bit_reverse((source >> 1) as usize, log_n) as u32
        };
        let indices: Vec<u32> = (0..n).map(source).collect();
        let mut targets = vec![0; n / 8];
        indices.iter().step_by(8).zip(0..).for_each(|(&from, to)| targets[from as usize / 8] = to);
        Permutation { indices, targets }
    }

    /// The N indices `p[i]`.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }

    /// The target of each block: the values from 8i on move to the block from 8·`targets()[i]` on.
    pub(crate) fn targets(&self) -> &[u32] {
        &self.targets
    }
}

/// Rows of words that a sum reads, all of one word size.
pub enum Rows<'a> {
    /// Words of 64 bits.
    Wide(Vec<&'a [u64]>),
    /// Words of 32 bits, which halve the memory traffic.
    Narrow(Vec<&'a [u32]>),
}

impl Rows<'_> {
    pub(super) fn shortest(&self) -> Option<usize> {
        match self {
            Rows::Wide(rows) => rows.iter().map(|x| x.len()).min(),
            Rows::Narrow(rows) => rows.iter().map(|x| x.len()).min(),
        }
    }
}

/// A term k·x·y of a sum: the factor k and the limbs x and y, all reduced.
pub type Term<'a> = (Constant, &'a [u64], &'a [u64]);

/// The coefficients of an affine combination of rows: one factor a row, and a constant, all reduced.
pub type Affine<'a> = (&'a [u64], u64);

/// Pairs of limbs (yⱼ, zⱼ) modulo one prime, in the order in which [`crate::pair_products`] reads them: eight
/// entries of y₀, the same eight of z₀, of y₁, of z₁ and so on, then the next eight. One stream of memory
/// then serves the whole sum. Each entry takes as many bytes as its prime. Entries are stored times 2⁵²,
/// which the Montgomery reduction of the sum removes. The zⱼ may be left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimbPairs {
    n: usize,
    pairs: usize,
    /// Limbs stored for each pair: two, or one if the zⱼ are left out.
    limbs: usize,
    /// Bytes of an entry, in little-endian order.
    width: usize,
    /// The entries, then [`Self::PADDING`].
    bytes: AVec<u8, ConstAlign<64>>,
}

impl LimbPairs {
    /// Bytes behind the last entry, so that a whole register may be loaded at any entry.
    pub(crate) const PADDING: usize = 64;

    /// Packs limbs of one length, a multiple of eight, that are reduced modulo `m`.
    pub fn new(m: &Modulus, pairs: &[(&[u64], &[u64])]) -> Self {
        let n = pairs.first().map_or(0, |(y, _)| y.len());
        assert!(n.is_multiple_of(LANES) && pairs.iter().all(|(y, z)| y.len() == n && z.len() == n));
        let width = Self::width(m);
        // `AVec::resize` writes byte by byte.
        let mut bytes: AVec<u8, _> = avec![[64]| 0; Self::bytes_of(m, n, pairs.len(), true)];
        let rows = pairs.iter().flat_map(|(y, z)| [*y, *z]);
        for (row, limb) in rows.enumerate() {
            for (block, entries) in limb.chunks_exact(LANES).enumerate() {
                let at = (2 * pairs.len() * block + row) * LANES * width;
                let out = &mut bytes[at..at + LANES * width];
                match width {
                    4 => pack::<4>(m, out, entries),
                    5 => pack::<5>(m, out, entries),
                    6 => pack::<6>(m, out, entries),
                    7 => pack::<7>(m, out, entries),
                    1 => pack::<1>(m, out, entries),
                    2 => pack::<2>(m, out, entries),
                    _ => pack::<3>(m, out, entries),
                }
            }
        }
        LimbPairs { n, pairs: pairs.len(), limbs: 2, width, bytes }
    }

    /// Drops the zⱼ.
    pub fn into_firsts(self) -> Self {
        if self.limbs == 1 {
            return self;
        }
        let (row, n) = (self.row_bytes(), self.n);
        let mut bytes: AVec<u8, _> = avec![[64]| 0; n / LANES * self.pairs * row + Self::PADDING];
        for (first, pair) in bytes.chunks_exact_mut(row).zip(self.bytes.chunks_exact(2 * row)) {
            first.copy_from_slice(&pair[..row]);
        }
        LimbPairs { limbs: 1, bytes, ..self }
    }

    /// A view with the stored zⱼ. Panics if they were dropped.
    pub fn whole(&self) -> Pairs<'_> {
        assert!(self.limbs == 2, "pairs without their second halves");
        Pairs { stored: self, seconds: None }
    }

    /// A view of the first `seconds.len()` pairs that takes the zⱼ from `seconds`, each times 2⁵²
    /// ([`crate::montgomery_assign`]).
    pub fn with_seconds<'a>(&'a self, seconds: &'a [&'a [u64]]) -> Pairs<'a> {
        assert!(seconds.iter().all(|z| z.len() == self.n), "limbs of another length");
        Pairs { stored: self, seconds: Some(seconds) }
    }

    /// Whether the zⱼ are stored.
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
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    pub(crate) fn padded(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of eight entries of the stored limbs of one pair.
    pub(crate) fn pair_bytes(&self) -> usize {
        self.limbs * self.row_bytes()
    }

    /// Distance in bytes from eight entries of y₀ to the next eight.
    pub(crate) fn step(&self) -> usize {
        self.pairs * self.pair_bytes()
    }

    /// The bytes of the eight entries from `i` on, i a multiple of eight, of yⱼ (`half` 0) or of zⱼ (`half`
    /// 1).
    #[inline(always)]
    pub(crate) fn row(&self, j: usize, half: usize, i: usize) -> &[u8] {
        let at = i / LANES * self.step() + j * self.pair_bytes() + half * self.row_bytes();
        &self.bytes[at..at + self.row_bytes()]
    }

    /// Entries `i` and i + 1 of yⱼ (`half` 0) or of zⱼ (`half` 1), times 2⁵². i is even.
    #[inline(always)]
    pub(crate) fn words(&self, j: usize, half: usize, i: usize) -> [u64; 2] {
        let row = i / LANES * self.step() + j * self.pair_bytes() + half * self.row_bytes();
        let at = row + i % LANES * self.width;
        // Behind the last entry there is padding.
        let bytes = &self.bytes[at..at + self.width + 8];
        let mask = u64::MAX >> (64 - 8 * self.width);
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default()) & mask;
        [word(0), word(self.width)]
    }

    /// Writes yⱼ as reduced residues; `m` is the modulus that the pairs were packed with.
    pub fn first_into(&self, m: &Modulus, j: usize, out: &mut [u64]) {
        for (block, entries) in out.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            let row = self.row(j, 0, LANES * block);
            match self.width {
                4 => unpack::<4>(m, row, entries),
                5 => unpack::<5>(m, row, entries),
                6 => unpack::<6>(m, row, entries),
                7 => unpack::<7>(m, row, entries),
                1 => unpack::<1>(m, row, entries),
                2 => unpack::<2>(m, row, entries),
                _ => unpack::<3>(m, row, entries),
            }
        }
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes in memory of `pairs` pairs of limbs with `n` entries modulo `m`, with the zⱼ if `whole`.
    pub fn bytes_of(m: &Modulus, n: usize, pairs: usize, whole: bool) -> usize {
        (1 + usize::from(whole)) * pairs * n * Self::width(m) + Self::PADDING
    }

    /// Bytes of an entry.
    fn width(m: &Modulus) -> usize {
        m.bits().div_ceil(8) as usize
    }
}

/// Writes the Montgomery forms of eight residues as words of W bytes.
fn pack<const W: usize>(m: &Modulus, out: &mut [u8], entries: &[u64]) {
    for (out, &x) in out.as_chunks_mut::<W>().0.iter_mut().zip(entries) {
        out.copy_from_slice(&m.montgomery_factor(x).to_le_bytes()[..W]);
    }
}

/// Reads what [`pack`] wrote.
fn unpack<const W: usize>(m: &Modulus, bytes: &[u8], entries: &mut [u64; LANES]) {
    for (entry, bytes) in entries.iter_mut().zip(bytes.as_chunks::<W>().0) {
        let mut word = [0; 8];
        word[..W].copy_from_slice(bytes);
        *entry = m.montgomery(u64::from_le_bytes(word).into());
    }
}

/// The pairs (yⱼ, zⱼ) that [`crate::pair_products`] multiplies by: a view of [`LimbPairs`].
#[derive(Debug, Clone, Copy)]
pub struct Pairs<'a> {
    pub(crate) stored: &'a LimbPairs,
    /// The zⱼ of the first pairs, times 2⁵², unless the stored ones are read.
    pub(crate) seconds: Option<&'a [&'a [u64]]>,
}

impl Pairs<'_> {
    /// Number of pairs.
    pub(crate) fn count(&self) -> usize {
        self.seconds.map_or(self.stored.pairs, |z| z.len().min(self.stored.pairs))
    }
}

/// How [`crate::pair_products`] writes its sums.
#[derive(Debug, Clone, Copy, Default)]
pub struct Destination<'a> {
    /// The sums are written in this permuted order, if there is one.
    pub permutation: Option<&'a Permutation>,
    /// How a sum is combined with the output's old content.
    pub mode: Mode,
}

/// How a result is combined with the old content of its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// The result replaces it.
    #[default]
    Write,
    /// The result is added to it.
    Add,
    /// The result is subtracted from it.
    Subtract,
}

impl Mode {
    /// The new content for the reduced old content `x` and a reduced `result`. Branch-free but for the mode.
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

/// Further terms of the two accumulators of [`crate::pair_products`], as limbs modulo the same prime.
#[derive(Debug, Default)]
pub struct AccumulatorTerms<'a> {
    /// (k, x, y) adds k·x₀·y₀ to the first sum and k·(x₀·y₁ + x₁·y₀) to the second: the degree-0 and degree-1
    /// parts of a product of two ciphertexts.
    pub products: Vec<(Constant, Limbs<'a>, Limbs<'a>)>,
    /// For either sum, (k, x) adds k·x, with k reduced.
    pub multiples: [Vec<(u64, &'a [u64])>; 2],
    /// A reduced constant that is added to each entry of the first sum.
    pub constant: u64,
}

impl AccumulatorTerms<'_> {
    /// An upper bound on either sum, in units of one product of two reduced factors.
    pub(crate) fn terms(&self) -> usize {
        // k·x is reduced below 2q only.
        4 * self.products.len() + self.multiples.iter().map(Vec::len).max().unwrap_or(0) + 1
    }

    /// The products, with k times 2⁵².
    pub(crate) fn montgomery_products(&self, m: &Modulus) -> Vec<(Constant, Limbs<'_>, Limbs<'_>)> {
        let products = self.products.iter();
        products.map(|(k, x, y)| (m.constant(m.montgomery_factor(k.value)), *x, *y)).collect()
    }

    /// The multiples, with k times 2⁵².
    pub(crate) fn montgomery_multiples(&self, m: &Modulus) -> [Vec<(u64, &[u64])>; 2] {
        self.multiples
            .each_ref()
            .map(|multiples| multiples.iter().map(|(k, x)| (m.montgomery_factor(*k), *x)).collect())
    }

    pub(crate) fn lengths(&self) -> impl Iterator<Item = usize> {
        let products = self.products.iter().flat_map(|(_, x, y)| [x[0], x[1], y[0], y[1]]);
        products.chain(self.multiples.iter().flatten().map(|(_, x)| *x)).map(<[u64]>::len)
    }
}

/// The base-2ʷ decomposition of polynomials modulo the product Q of a basis: x = Σₜ dₜ·2^(start of digit t),
/// where digit dₜ of b bits has magnitude at most 2ᵇ⁻¹ and x is the representative in (−Q/2, Q/2] that
/// [`crate::BaseConverter::new`] finds. The widths are free: digits need not end where primes do.
#[derive(Debug, Clone)]
pub struct Radix {
    /// (Q/qᵢ)⁻¹ mod qᵢ.
    pub(crate) scale: Vec<u64>,
    /// 1/qᵢ, the weight of the scaled residue yᵢ in the multiple of Q to subtract.
    pub(crate) weight: Vec<f64>,
    /// For each word of x, that word of Q/qᵢ for every prime, and last that of −Q.
    pub(crate) factors: Vec<Vec<u64>>,
    /// The initial value of the sum: half the range of every digit, which makes all digits non-negative.
    pub(crate) start: Vec<u64>,
    /// The first bit and the number of bits of every digit.
    pub(crate) digits: Vec<(u32, u32)>,
}

impl Radix {
    /// The width that the narrowest digit must have, up to one bit of rounding.
    pub const MIN_BITS: u32 = 16;
    /// The width of the widest digit: transforms take it unreduced for primes of up to 41 bits.
    pub const MAX_BITS: u32 = 47;
}
