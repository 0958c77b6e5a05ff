use crate::Params;
use rns::{Ntt, Poly};
use std::ops::Range;
use zeroize::Zeroize;

/// An encoded message: a polynomial at a level, with the scale that its coefficients were multiplied by.
#[derive(Debug, Clone, PartialEq)]
pub struct Plaintext {
    pub(crate) poly: Poly<Ntt>,
    pub(crate) level: usize,
    pub(crate) scale: f64,
}

/// For secret messages: the buffer of a dropped plaintext returns to a pool and is not zeroed there.
impl Zeroize for Plaintext {
    fn zeroize(&mut self) {
        self.poly.zeroize();
    }
}

impl Plaintext {
    /// The message of this polynomial.
    ///
    /// # Panics
    /// If it has another number of limbs than `level + 1`.
    pub fn new(poly: Poly<Ntt>, level: usize, scale: f64) -> Self {
        assert!(poly.limbs() == level + 1, "a level has as many limbs and one more");
        Plaintext { poly, level, scale }
    }

    /// The polynomial.
    pub fn poly(&self) -> &Poly<Ntt> {
        &self.poly
    }

    /// The level.
    pub fn level(&self) -> usize {
        self.level
    }

    /// The scale Δ.
    pub fn scale(&self) -> f64 {
        self.scale
    }
}

/// A ciphertext (c₀, c₁) of degree 1 with c₀ + c₁·s ≈ Δ·m for the secret s, the scale Δ and the message m.
#[derive(Debug, Clone, PartialEq)]
pub struct Ciphertext {
    pub(crate) c0: Poly<Ntt>,
    pub(crate) c1: Poly<Ntt>,
    pub(crate) level: usize,
    pub(crate) scale: f64,
}

/// A ciphertext times P modulo QP: what key switches give before their division by P. Sums of them are
/// divided once.
#[derive(Debug, Clone)]
pub struct Undivided {
    pub(crate) parts: [Poly<Ntt>; 2],
    pub(crate) level: usize,
    pub(crate) scale: f64,
}

impl Ciphertext {
    /// The ciphertext with these parts.
    ///
    /// # Panics
    /// If c₀ or c₁ has another number of limbs than `level + 1`.
    pub fn new(c0: Poly<Ntt>, c1: Poly<Ntt>, level: usize, scale: f64) -> Self {
        assert!(c0.limbs() == level + 1 && c1.limbs() == level + 1, "a level has as many limbs and one more");
        Ciphertext { c0, c1, level, scale }
    }

    /// The level: the index of the last limb.
    pub fn level(&self) -> usize {
        self.level
    }

    /// The scale Δ.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// The same polynomials at another stated scale, which multiplies the message by the old scale over the
    /// new.
    #[must_use]
    pub fn with_scale(self, scale: f64) -> Self {
        Ciphertext { scale, ..self }
    }

    /// The part c₀.
    pub fn c0(&self) -> &Poly<Ntt> {
        &self.c0
    }

    /// The part c₁.
    pub fn c1(&self) -> &Poly<Ntt> {
        &self.c1
    }

    /// The ciphertext with all coefficients of c₀ outside of `kept` set to 0, so that the message has noise
    /// as wide as the modulus there, and can be decrypted in `kept` alone.
    pub fn with_coefficients(self, params: &Params, kept: Range<usize>) -> Self {
        let basis = params.q_basis(self.level);
        let mut c0 = self.c0.into_coeff(basis);
        c0.for_each_limb(|_, limb| {
            limb[..kept.start].fill(0);
            limb[kept.end..].fill(0);
        });
        Ciphertext { c0: c0.into_ntt(basis), ..self }
    }

    /// Limb `i` of c₀ and of c₁.
    pub(crate) fn limbs(&self, i: usize) -> [&[u64]; 2] {
        [self.c0.limb(i), self.c1.limb(i)]
    }

    /// The trivial encryption (0, 0) of zero, which is neutral for addition and hides nothing.
    pub fn zero(params: &Params, level: usize) -> Self {
        let zero = Poly::zero(params.n(), level + 1);
        Ciphertext { c0: zero.clone(), c1: zero, level, scale: params.scale(level) }
    }
}
