//! Packs coefficients of many ciphertexts into one.

use crate::{Ciphertext, Error, Evaluator, GaloisElement, Op, Params, Undivided};
use rns::{Ntt, Poly};

/// Packs ciphertexts as they arrive (Chen, Dai, Kim and Song 2021, algorithm 2, begun at the stage whose
/// automorphism fixes X^g).
///
/// The useful coefficients of an input are those of the multiples of the gap g, a power of two. The
/// coefficient c of X^(k·g) of input i becomes g·c at X^(k·g + r), where r is i with its log₂ g bits
/// reversed. Whatever the other coefficients of the inputs hold cancels exactly, because packing is an
/// identity in ℤ_q\[X\]/(Xᴺ + 1), of which the key switches leave only their noise. Inputs are multiplied by
/// g⁻¹ modulo q beforehand ([`Evaluator::divide_exactly_assign`]), or are products with such an operand.
///
/// At most log₂ g ciphertexts are kept. Each input costs less than one automorphism on average, and
/// [`Packer::finish`] at most log₂ g. Inputs and packs are [`Undivided`]: of two packs only the part that is
/// decomposed is divided by P, so that an automorphism takes nine transforms of a limb, where it takes twelve
/// alone, and a product before it six.
#[derive(Debug)]
pub struct Packer {
    evaluator: Evaluator,
    level: usize,
    scale: f64,
    stages: Vec<Stage>,
    /// Entry k is the pack of 2ᵏ inputs, if the number of inputs has that bit.
    packs: Vec<Option<Undivided>>,
    count: usize,
}

/// Two packs a and b become (a + X^δ·b) + σ(a − X^δ·b) with σ: X ↦ X^(1 + N/δ), which negates X^δ and fixes
/// X^2δ.
#[derive(Debug)]
struct Stage {
    element: GaloisElement,
    /// X^δ modulo QP.
    shift: Poly<Ntt>,
}

/// The automorphisms of a [`Packer`] with this gap, one for each stage. Those of a smaller gap are among
/// them.
///
/// # Errors
/// [`Error::PackGap`] unless `gap` is a power of two from 2 to N.
pub fn pack_elements(params: &Params, gap: usize) -> Result<Vec<GaloisElement>, Error> {
    let n = params.n();
    if !gap.is_power_of_two() || !(2..=n).contains(&gap) {
        return Err(Error::PackGap { got: gap, max: n });
    }
    let shifts = std::iter::successors(Some(gap / 2), |shift| (*shift > 1).then_some(shift / 2));
    Ok(shifts.filter_map(|shift| GaloisElement::new(params, (1 + n / shift) as u64)).collect())
}

impl Packer {
    /// An empty pack of ciphertexts at `level` and `scale` with useful coefficients at the multiples of
    /// `gap`, for an evaluator with keys for [`pack_elements`].
    ///
    /// # Errors
    /// [`Error::PackGap`]; [`Error::OutOfLevels`] if `level` is above the top level; [`Error::MissingKey`]
    /// without a key.
    pub fn new(evaluator: &Evaluator, gap: usize, level: usize, scale: f64) -> Result<Self, Error> {
        let params = evaluator.params();
        params.check_level(Op::Pack, level)?;
        for element in pack_elements(params, gap)? {
            evaluator.keys().galois(params, Op::Pack, element, level)?;
        }
        let basis = params.qp_basis(level);
        let stage = |(k, element)| {
            let mut monomial = vec![0i64; params.n()];
            monomial[gap >> (k + 1)] = 1;
            Stage { element, shift: Poly::from_signed(basis, &monomial).into_ntt(basis) }
        };
        let stages: Vec<Stage> = pack_elements(params, gap)?.into_iter().enumerate().map(stage).collect();
        let packs = vec![None; stages.len() + 1];
        Ok(Packer { evaluator: evaluator.clone(), level, scale, stages, packs, count: 0 })
    }

    /// The number of ciphertexts that a pack holds: g.
    pub fn capacity(&self) -> usize {
        1 << self.stages.len()
    }

    /// The number of positions that are taken: inputs, and those that stay empty before blocks.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a ciphertext, and returns r, the distance of its coefficients from the multiples of g.
    ///
    /// # Errors
    /// [`Error::PackFull`] after g ciphertexts; [`Error::LevelMismatch`], [`Error::ScaleMismatch`]. The pack
    /// is then unchanged.
    pub fn push(&mut self, input: Undivided) -> Result<usize, Error> {
        self.push_block(input, 0)
    }

    /// Adds a block of 2^`log` inputs that are in one ciphertext: input b has its useful coefficients at
    /// X^(k·g + b·s) with s = g/2^`log`. Returns r < s, where those of input b are at X^(k·g + r + b·s) of
    /// the pack. It costs as much as one input, and at most one automorphism for each stage below `log` that
    /// closes packs of fewer inputs; positions between them and the block stay empty.
    ///
    /// # Errors
    /// As [`Self::push`], with [`Error::PackFull`] if no such block fits after the earlier inputs. The pack
    /// is then unchanged.
    pub fn push_block(&mut self, mut block: Undivided, log: usize) -> Result<usize, Error> {
        if self.after(log) > self.capacity() {
            return Err(Error::PackFull { capacity: self.capacity() });
        }
        let expected = (self.level, self.scale);
        self.evaluator.same(Op::Pack, (block.level, block.scale), expected)?;
        let before = self.count;
        if let Some(smaller) = self.close(log)? {
            self.count = before.next_multiple_of(1 << log) - (1 << log);
            self.carry(log, smaller)?;
        }
        // Each stage that the block skips doubles what it keeps.
        if log > 0 {
            let basis = self.evaluator.params().qp_basis(self.level);
            block.parts.iter_mut().for_each(|part| part.mul_integer_assign(basis, 1 << log));
        }
        self.carry(log, block)
    }

    /// The number of positions that are taken after a block of 2^`log` inputs, if it fits.
    pub fn after(&self, log: usize) -> usize {
        self.count.next_multiple_of(1 << log) + (1 << log)
    }

    /// Adds a pack of 2^k inputs, where the number of inputs is a multiple of 2^k.
    fn carry(&mut self, log: usize, mut pack: Undivided) -> Result<usize, Error> {
        let mut k = log;
        while let Some(earlier) = self.packs[k].take() {
            pack = self.merge(k, earlier, Some(pack))?;
            k += 1;
        }
        self.packs[k] = Some(pack);
        let position = rns::bit_reverse(self.count, self.stages.len() as u32);
        self.count += 1 << log;
        Ok(position)
    }

    /// Takes the packs of fewer than 2^`log` inputs as one pack of 2^`log`, if there are any.
    fn close(&mut self, log: usize) -> Result<Option<Undivided>, Error> {
        let mut later: Option<Undivided> = None;
        for k in 0..log {
            later = match (self.packs[k].take(), later) {
                (Some(earlier), later) => Some(self.merge(k, earlier, later)?),
                (None, Some(pack)) => Some(self.merge(k, pack, None)?),
                (None, None) => None,
            };
        }
        Ok(later)
    }

    /// The pack of all ciphertexts. Coefficients at unused positions hold noise alone.
    ///
    /// # Errors
    /// None after [`Self::new`] has found the keys.
    pub fn finish(mut self) -> Result<Ciphertext, Error> {
        let later = self.close(self.stages.len())?;
        let full = self.packs.pop().flatten();
        let empty =
            || Ciphertext { scale: self.scale, ..Ciphertext::zero(self.evaluator.params(), self.level) };
        Ok(full.or(later).map_or_else(empty, |pack| self.evaluator.divided(pack)))
    }

    /// The pack of two packs of stage `k`. Without a second pack, its positions stay empty.
    fn merge(&self, k: usize, mut first: Undivided, second: Option<Undivided>) -> Result<Undivided, Error> {
        let Stage { element, shift } = &self.stages[k];
        let basis = self.evaluator.params().qp_basis(self.level);
        let (mut sum, difference) = match second {
            Some(mut second) => {
                for (first, second) in first.parts.iter_mut().zip(&mut second.parts) {
                    second.mul_assign(basis, shift);
                    first.sum_and_difference_assign(basis, second);
                }
                (first, second)
            }
            None => (first.clone(), first),
        };
        self.evaluator.add_image_assign(Op::Pack, &mut sum, difference, *element)?;
        Ok(sum)
    }
}
