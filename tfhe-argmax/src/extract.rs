//! From a CKKS ciphertext of the ring of scores to samples on the torus of 64 bits.
//!
//! With Y = Xʳ, r = N'/N and s = Σⱼ Xʲ·sⱼ(Y), the coefficients at multiples of r of c₀ + c₁·s are those of
//! m₀(Y) = c₀₀ + c₁₀·s₀ + Σ_{j > 0} Y·c₁,ᵣ₋ⱼ·sⱼ: a GLWE ciphertext of dimension r and degree N under (s₀ …
//! sᵣ₋₁), which a key switch takes to the TFHE secret.

use crate::Keys;
use crate::params::DEGREE;
use ckks::{Ciphertext, Params};
use rns::{Basis, Coeff, Poly};
use tfhe::core_crypto::prelude::*;

/// A residue modulo a prime q, times a constant, as a fraction of q in units of 2⁻⁶⁴.
struct Scaled<'a> {
    residues: &'a [u64],
    modulus: &'a rns::Modulus,
    factor: rns::Constant,
    /// ⌊2¹²⁸/q⌋.
    reciprocal: u128,
}

impl Scaled<'_> {
    /// The fraction of residue `i`, less than two units too small.
    fn fraction(&self, i: usize) -> u64 {
        let y = u128::from(self.modulus.mul_constant(self.residues[i], self.factor));
        let (high, low) = (self.reciprocal >> 64, self.reciprocal & u128::from(u64::MAX));
        (y * high + ((y * low) >> 64)) as u64
    }
}

/// The coefficients at multiples of r = N'/N of the message of `scores`, times `factor`/Q, on the torus: a
/// GLWE ciphertext under the TFHE secret. Q is the modulus of the level of `scores`, and `factor` an integer.
/// No rounding but of the last bits before the key switch: x/Q is the sum of (x·(Q/q)⁻¹ mod q)/q over the
/// primes q of Q, up to an integer.
pub(crate) fn glwe(
    keys: &Keys,
    params: &Params,
    scores: &Ciphertext,
    factor: i128,
) -> GlweCiphertextOwned<u64> {
    let (n, parts, basis) = (params.n(), keys.switch.len(), params.q_basis(scores.level()));
    let [c0, c1] = [scores.c0(), scores.c1()].map(|part| part.clone().into_coeff(basis));
    let (body, mask) = (torus(basis, &c0, factor), torus(basis, &c1, factor));
    // b − Σ aⱼ·sⱼ is the message here, and c₀ + c₁·s there.
    let part = |j: usize| {
        let word = |i: usize| match (j, i) {
            (0, i) => mask(i * parts).wrapping_neg(),
            // Yᴺ = −1.
            (j, 0) => mask(n - j),
            (j, i) => mask(i * parts - j).wrapping_neg(),
        };
        keys.exact.digits(&(0..DEGREE).map(word).collect::<Vec<u64>>())
    };
    let digits: Vec<_> = (0..parts).map(part).collect();
    let [new_mask, new_body] =
        [0, 1].map(|half| keys.exact.sum(digits.iter().zip(keys.switch.iter().map(|key| &key[half]))));
    let words = new_mask.into_iter().map(u64::wrapping_neg);
    let bodies = new_body.into_iter().enumerate().map(|(i, x)| body(i * parts).wrapping_sub(x));
    let words = words.chain(bodies).collect();
    GlweCiphertext::from_container(words, PolynomialSize(DEGREE), CiphertextModulus::new_native())
}

/// Coefficient i of `poly` times `factor`/Q, on the torus.
fn torus<'a>(basis: &'a Basis, poly: &'a Poly<Coeff>, factor: i128) -> impl Fn(usize) -> u64 + 'a {
    let primes: Vec<u64> = basis.primes().collect();
    let limb = |(i, q): (usize, &u64)| {
        let modulus = basis.modulus(i);
        let others = primes.iter().enumerate().filter(|(j, _)| *j != i);
        let others = others.fold(1, |product, (_, p)| modulus.mul(product, modulus.reduce(*p)));
        let factor = modulus.mul(modulus.reduce_i128(factor), modulus.inv(others));
        // 2¹²⁸ − 1 and 2¹²⁸ have the same quotient, because q is odd.
        let reciprocal = u128::MAX / u128::from(*q);
        Scaled { residues: poly.limb(i), modulus, factor: modulus.constant(factor), reciprocal }
    };
    let limbs: Vec<Scaled<'_>> = primes.iter().enumerate().map(limb).collect();
    move |i| limbs.iter().fold(0u64, |sum, limb| sum.wrapping_add(limb.fraction(i)))
}
