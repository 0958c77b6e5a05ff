use crate::Params;
use rns::{Ntt, Poly};
use zeroize::Zeroize;

/// An encoded message: a polynomial at a level with a scale.
#[derive(Debug, Clone, PartialEq)]
pub struct Plaintext {
    pub(crate) poly: Poly<Ntt>,
    pub(crate) level: usize,
    pub(crate) scale: f64,
}

/// For messages that are secret; its large buffer goes back to a pool when it is dropped.
impl Zeroize for Plaintext {
    fn zeroize(&mut self) {
        self.poly.zeroize();
    }
}

impl Plaintext {
    /// The polynomial.
    pub fn poly(&self) -> &Poly<Ntt> {
        &self.poly
    }

    /// Level.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Scale Δ.
    pub fn scale(&self) -> f64 {
        self.scale
    }
}

/// A ciphertext of degree 1: (c₀, c₁) with c₀ + c₁·s ≈ Δ·m.
#[derive(Debug, Clone, PartialEq)]
pub struct Ciphertext {
    pub(crate) c0: Poly<Ntt>,
    pub(crate) c1: Poly<Ntt>,
    pub(crate) level: usize,
    pub(crate) scale: f64,
}

impl Ciphertext {
    /// From its parts, which must have `level + 1` limbs each.
    pub fn new(c0: Poly<Ntt>, c1: Poly<Ntt>, level: usize, scale: f64) -> Self {
        debug_assert!(c0.limbs() == level + 1 && c1.limbs() == level + 1);
        Ciphertext { c0, c1, level, scale }
    }

    /// Level: index of the last active limb.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Scale Δ.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// The same polynomials, read at another scale: the message is multiplied by the old scale over the new one.
    #[must_use]
    pub fn with_scale(self, scale: f64) -> Self {
        Ciphertext { scale, ..self }
    }

    /// c₀.
    pub fn c0(&self) -> &Poly<Ntt> {
        &self.c0
    }

    /// c₁.
    pub fn c1(&self) -> &Poly<Ntt> {
        &self.c1
    }

    /// Limb `i` of c₀ and of c₁.
    pub(crate) fn limbs(&self, i: usize) -> [&[u64]; 2] {
        [self.c0.limb(i), self.c1.limb(i)]
    }

    /// The encryption of zero that hides nothing: neutral for addition.
    pub fn zero(params: &Params, level: usize) -> Self {
        let zero = Poly::zero(params.n(), level + 1);
        Ciphertext { c0: zero.clone(), c1: zero, level, scale: params.scale(level) }
    }
}
