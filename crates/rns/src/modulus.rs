//! Arithmetic modulo one prime of at most 50 bits.
//!
//! Constants and Montgomery factors use 52-bit words, the operand width of the IFMA multiplier; what is
//! stored in memory times 2⁵² is the same on every processor. `docs/arithmetic.md` states the ranges and why
//! they hold.

use crate::simd::{Kernel, kernels};

/// A prime modulus q < 2⁵⁰ with the precomputed constants of its reductions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modulus {
    q: u64,
    /// ⌊2^(n+50) / q⌋ for an n-bit q: Barrett's constant.
    pub(crate) barrett: u64,
    /// n − 2 for an n-bit q.
    pub(crate) shift: u32,
    /// The [`Constant`] 1: a product by it reduces a 52-bit word.
    pub(crate) one: Constant,
    /// The [`Constant`] 2⁵², the weight of the high word of a sum of products.
    pub(crate) word: Constant,
    /// −1/q modulo 2⁵²: Montgomery's constant.
    pub(crate) minus_inverse: u64,
    /// ⌊2⁶⁴/q⌋: the Shoup quotient of 1 for a 64-bit word.
    reciprocal: u64,
}

/// A residue w that is prepared for many products, with its Shoup quotient ⌊w·2⁵²/q⌋.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constant {
    /// The residue.
    pub value: u64,
    pub(crate) quotient: u64,
}

const MASK52: u64 = (1 << 52) - 1;

/// 1/q modulo 2⁵² for an odd q.
pub(crate) fn inverse_modulo_word(q: u64) -> u64 {
    // Newton's iteration from x = q, which is correct to three bits (q·q ≡ 1 modulo 8). Each step doubles the
    // bits.
    (0..5).fold(q, |x, _| x.wrapping_mul(2u64.wrapping_sub(q.wrapping_mul(x)))) & MASK52
}

impl Modulus {
    /// The largest supported size of a prime, in bits.
    pub const MAX_BITS: u32 = 50;

    /// The modulus `q`, which the caller guarantees to be prime. Returns `None` unless 3 ≤ q < 2⁵⁰ and q is
    /// odd.
    pub fn new(q: u64) -> Option<Self> {
        if q < 3 || q.is_multiple_of(2) || q >> Self::MAX_BITS != 0 {
            return None;
        }
        let bits = 64 - q.leading_zeros();
        let mut modulus = Modulus {
            q,
            barrett: ((1u128 << (bits + 50)) / u128::from(q)) as u64,
            shift: bits - 2,
            one: Constant { value: 1, quotient: (1u64 << 52) / q },
            word: Constant { value: 0, quotient: 0 },
            minus_inverse: inverse_modulo_word(q).wrapping_neg() & MASK52,
            // An odd q does not divide 2⁶⁴.
            reciprocal: u64::MAX / q,
        };
        modulus.word = modulus.constant((1u64 << 52) % q);
        Some(modulus)
    }

    /// The prime.
    pub fn value(&self) -> u64 {
        self.q
    }

    /// The size of the prime in bits.
    pub fn bits(&self) -> u32 {
        self.shift + 2
    }

    /// The size b in bits of the values that a lazy transform leaves ([`crate::Output::Lazy`]). With IFMA,
    /// for primes of at most 44 bits, 34q < 2ᵇ; for primes of at most 41 bits also 34q + 2⁴⁷ < 2ᵇ, which
    /// leaves room for the widest digit. For wider primes, and on the other kernels, values are reduced and
    /// b is the size of q.
    pub fn lazy_bits(&self) -> u32 {
        match kernels() {
            Kernel::Avx512Ifma if self.bits() <= 44 => (self.bits() + 6).max(48),
            _ => self.bits(),
        }
    }

    /// Prepares `w` modulo q for repeated products.
    pub fn constant(&self, w: u64) -> Constant {
        let value = w % self.q;
        Constant { value, quotient: ((u128::from(value) << 52) / u128::from(self.q)) as u64 }
    }

    /// a + b mod q for reduced a and b.
    #[inline(always)]
    pub fn add(&self, a: u64, b: u64) -> u64 {
        self.reduce_once(a + b)
    }

    /// a − b mod q for reduced a and b.
    #[inline(always)]
    pub fn sub(&self, a: u64, b: u64) -> u64 {
        self.reduce_once(a + self.q - b)
    }

    /// −a mod q for reduced a.
    #[inline(always)]
    pub fn neg(&self, a: u64) -> u64 {
        self.reduce_once(self.q - a)
    }

    /// x mod q for x < 2q. Branch-free.
    #[inline(always)]
    pub(crate) fn reduce_once(&self, x: u64) -> u64 {
        x.min(x.wrapping_sub(self.q))
    }

    /// a·b mod q for reduced a and b (Barrett reduction). Branch-free.
    #[inline(always)]
    pub fn mul(&self, a: u64, b: u64) -> u64 {
        let c = u128::from(a) * u128::from(b);
        let estimate = (u128::from((c >> self.shift) as u64) * u128::from(self.barrett)) >> 52;
        // c < 2²ⁿ and the estimated quotient is short by at most 2, so the remainder is below 3q < 2⁵².
        let r = (c as u64).wrapping_sub((estimate as u64).wrapping_mul(self.q)) & MASK52;
        let r = r.min(r.wrapping_sub(2 * self.q));
        self.reduce_once(r)
    }

    /// x·w mod q for x < 2⁵² (Shoup multiplication). Branch-free.
    #[inline(always)]
    pub fn mul_constant(&self, x: u64, w: Constant) -> u64 {
        self.reduce_once(self.mul_constant_lazy(x, w))
    }

    /// x·w modulo q in [0, 2q), for x < 2⁵².
    #[inline(always)]
    pub(crate) fn mul_constant_lazy(&self, x: u64, w: Constant) -> u64 {
        let estimate = ((u128::from(x) * u128::from(w.quotient)) >> 52) as u64;
        x.wrapping_mul(w.value).wrapping_sub(estimate.wrapping_mul(self.q)) & MASK52
    }

    /// a·2⁵² mod q for a < 2⁵²: the form of a factor in a sum of products that [`Self::montgomery`] reduces.
    #[inline(always)]
    pub(crate) fn montgomery_factor(&self, a: u64) -> u64 {
        self.mul_constant(a, self.word)
    }

    /// sum/2⁵² mod q for a sum below 2¹¹⁵ (Montgomery 1985).
    #[inline(always)]
    pub(crate) fn montgomery(&self, sum: u128) -> u64 {
        self.montgomery_sum(sum, false)
    }

    /// [`Self::montgomery`]; `once` promises that the sum is below 2⁵²·q ([`Self::reduces_once`]).
    #[inline(always)]
    pub(crate) fn montgomery_sum(&self, sum: u128, once: bool) -> u64 {
        let m = (sum as u64).wrapping_mul(self.minus_inverse) & MASK52;
        // m is chosen such that the low 52 bits of sum + m·q are zero. The quotient is below q + sum/2⁵².
        let quotient = ((sum + u128::from(m) * u128::from(self.q)) >> 52) as u64;
        if once { self.reduce_once(quotient) } else { self.reduce(quotient) }
    }

    /// Whether a sum of so many products of a factor below 2^bits and a reduced factor, given as (number,
    /// bits), is below 2⁵²·q.
    pub(crate) fn reduces_once<const N: usize>(terms: [(usize, u32); N]) -> bool {
        terms.iter().map(|(terms, bits)| (*terms as u128) << bits).sum::<u128>() <= 1 << 52
    }

    /// x mod q for any x. Branch-free.
    #[inline(always)]
    pub fn reduce(&self, x: u64) -> u64 {
        // The estimated quotient is short by less than x/2⁶⁴ + 1 < 2.
        let estimate = (u128::from(x) * u128::from(self.reciprocal)) >> 64;
        self.reduce_once(x - estimate as u64 * self.q)
    }

    /// x mod q for any signed x. Branch-free.
    #[inline]
    pub fn reduce_i64(&self, x: i64) -> u64 {
        let magnitude = self.reduce(x.unsigned_abs());
        let negative = (x >> 63) as u64;
        let negated = self.neg(magnitude);
        magnitude ^ ((magnitude ^ negated) & negative)
    }

    /// x mod q for any signed 128-bit x. Branch-free.
    #[inline]
    pub fn reduce_i128(&self, x: i128) -> u64 {
        // Words of 52 bits, the highest first.
        let high = self.mul_constant(self.reduce_i64((x >> 104) as i64), self.word);
        let middle = self.add(high, self.reduce((x >> 52) as u64 & MASK52));
        self.add(self.mul_constant(middle, self.word), self.reduce(x as u64 & MASK52))
    }

    /// aᵉ mod q. The running time depends on e, which must be public.
    pub fn pow(&self, mut a: u64, mut e: u64) -> u64 {
        let mut r = 1;
        while e > 0 {
            if e & 1 == 1 {
                r = self.mul(r, a);
            }
            a = self.mul(a, a);
            e >>= 1;
        }
        r
    }

    /// a⁻¹ mod q for a reduced, non-zero a.
    pub fn inv(&self, a: u64) -> u64 {
        self.pow(a, self.q - 2)
    }

    /// The representative of the reduced `a` in (−q/2, q/2].
    #[inline]
    pub fn centered(&self, a: u64) -> i64 {
        if a > self.q / 2 { a as i64 - self.q as i64 } else { a as i64 }
    }
}
