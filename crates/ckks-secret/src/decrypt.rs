//! From ciphertexts back to values, and the device's side of a refresh.

use crate::encrypt::{SeededCiphertext, encrypt_poly};
use crate::{Error, Private, SecretKey};
use ckks::Ciphertext;
use num_complex::Complex64;
use rand::CryptoRng;
use rns::{BaseConverter, Coeff, Constant, Modulus, Ntt, Poly};
use zeroize::Zeroize;

/// Slot values; a wrapper so that they can be zeroed.
pub struct Slots(Vec<Complex64>);

impl Zeroize for Slots {
    fn zeroize(&mut self) {
        for z in &mut self.0 {
            z.re.zeroize();
            z.im.zeroize();
        }
    }
}

impl std::ops::Deref for Slots {
    type Target = [Complex64];
    fn deref(&self) -> &[Complex64] {
        &self.0
    }
}

/// The most limbs of a ciphertext that decryption reads, as far as their product fits an `i128` (two of 50 bits, three
/// of 42): far more than a message and its scale have.
const LIMBS_READ: usize = 3;
const MAX_BITS: f64 = 126.0;

fn phase(secret: &SecretKey, ct: &Ciphertext, limbs: usize) -> Poly<Coeff> {
    let basis = secret.params().q_basis(limbs - 1);
    let mut phase: Poly<Ntt> = ct.c1().truncated(limbs);
    phase.mul_assign(basis, secret.values());
    phase.add_assign(basis, ct.c0());
    phase.into_coeff(basis)
}

/// The centred coefficients modulo the first few primes, exact for |c| below half their product.
pub(crate) fn coefficients(secret: &SecretKey, ct: &Ciphertext) -> Vec<i128> {
    let fits = |&l: &usize| secret.params().log_q(l - 1) <= MAX_BITS;
    let limbs = (1..=(ct.level() + 1).min(LIMBS_READ)).rev().find(fits).unwrap_or(1);
    let mut poly = phase(secret, ct, limbs);
    let basis = secret.params().q_basis(limbs - 1);
    // Garner: c = d₀ + q₀·(d₁ + q₁·d₂), each digit from the residue modulo its prime in word arithmetic.
    let m: Vec<&Modulus> = (0..limbs).map(|i| basis.modulus(i)).collect();
    let inverse: Vec<Vec<Constant>> = (0..limbs)
        .map(|i| (0..i).map(|j| m[i].constant(m[i].inv(m[i].reduce(m[j].value())))).collect())
        .collect();
    let product: i128 = basis.primes().map(i128::from).product();
    let out = (0..basis.n())
        .map(|k| {
            let mut digits = [0; LIMBS_READ];
            let (mut value, mut weight) = (0i128, 1i128);
            for i in 0..limbs {
                let residue = poly.limb(i)[k];
                digits[i] = (0..i).fold(residue, |x, j| {
                    m[i].mul_constant(m[i].sub(x, m[i].reduce(digits[j])), inverse[i][j])
                });
                value += weight * i128::from(digits[i]);
                weight *= i128::from(m[i].value());
            }
            // −1 where the value is above half of the product; no branch.
            let above = (product / 2 - value) >> 127;
            value - (above & product)
        })
        .collect();
    poly.zeroize();
    out
}

/// The first `slots` slot values; the message must have that period (a power of two up to N/2).
pub fn decrypt(secret: &SecretKey, ct: &Ciphertext, slots: usize) -> Private<Slots> {
    let mut integers = coefficients(secret, ct);
    let mut real: Vec<f64> = integers.iter().map(|&c| to_f64(c) / ct.scale()).collect();
    integers.zeroize();
    let values = secret.params().encoder().slots(&real, slots);
    real.zeroize();
    Private::new(Slots(values))
}

/// `c` as a float, by the words of its magnitude: the conversion of an `i128` branches on its size. Exact
/// where that conversion is exact, and within one unit in the last place elsewhere.
fn to_f64(c: i128) -> f64 {
    let sign = c >> 127;
    let magnitude = ((c ^ sign) - sign) as u128;
    let value = (magnitude >> 64) as u64 as f64 * 2f64.powi(64) + (magnitude as u64 as f64);
    (1 + 2 * sign as i64) as f64 * value
}

/// The constant coefficient of c₀ + c₁·s modulo q₀.
pub fn constant_coefficient(secret: &SecretKey, ct: &Ciphertext) -> Private<u64> {
    let mut phase = phase(secret, ct, 1);
    let value = phase.limb(0)[0];
    phase.zeroize();
    Private::new(value)
}

/// Encrypts the polynomial that `masked` decrypts to, coefficient by coefficient, at a higher `level`: the device's
/// part of a refresh. It comes out with the canonical scale of `level`, for which its maker must have scaled the message; the
/// mask must keep every coefficient below a quarter of the modulus.
///
/// A message of `slots` values (a power of two up to N/2) is a polynomial in X^(N/2·slots); other coefficients hold noise only
/// and are left out, so that the noise that stays has the message's period.
///
/// # Errors
/// [`Error::TooLow`] if `masked` has less than 64 bits above its scale, which no mask can hide.
pub fn recrypt<R: CryptoRng>(
    secret: &SecretKey,
    masked: &Ciphertext,
    level: usize,
    slots: usize,
    rng: &mut R,
) -> Result<SeededCiphertext, Error> {
    let params = secret.params();
    let (low, have) = (masked.level(), params.log_q(masked.level()));
    let need = masked.scale().log2().ceil() as u32 + 64;
    if have < f64::from(need) {
        return Err(Error::TooLow { need, level: low, have });
    }
    let (from, to) = (params.q_basis(low), params.q_basis(level));
    let mut poly = phase(secret, masked, low + 1);
    let mut lifted = Poly::<Coeff>::zero(params.n(), level + 1);
    let converter = BaseConverter::unpacked(from, to);
    let mut prepared = converter.scaled_residues_coeff(from, |i| poly.limb(i));
    lifted.for_each_limb(|j, limb| {
        if j <= low {
            limb.copy_from_slice(poly.limb(j));
        } else {
            converter.output(to, j, &prepared, limb);
        }
    });
    let stride = params.max_slots() / slots;
    lifted.for_each_limb(|_, limb| {
        limb.iter_mut().enumerate().filter(|(k, _)| k % stride != 0).for_each(|(_, x)| *x = 0);
    });
    prepared.zeroize();
    poly.zeroize();
    let mut message = lifted.into_ntt(to);
    let out = encrypt_poly(secret, &message, level, params.scale(level), rng);
    message.zeroize();
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_those_of_the_integers() {
        for bits in 0..126 {
            for c in [
                (1i128 << bits) - 1,
                1 << bits,
                (1 << bits) + 1,
                (0x5DEE_CE66_D123_4567_89AB_CDEF << 32) >> (125 - bits),
            ] {
                for c in [c, -c] {
                    let (got, want) = (to_f64(c), c as f64);
                    assert!((got - want).abs() <= want.abs() * f64::EPSILON, "{c}: {got}, {want}");
                    assert!(bits > 62 || got == want, "{c}");
                }
            }
        }
    }
}
