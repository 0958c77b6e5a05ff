//! Decryption, and the re-encryption of a masked ciphertext.

use crate::encrypt::{SeededCiphertext, encrypt_poly};
use crate::{Error, Private, SecretKey};
use ckks::Ciphertext;
use num_complex::Complex64;
use rand::CryptoRng;
use rns::{BaseConverter, Coeff, Constant, Modulus, Ntt, Poly};
use zeroize::{Zeroize, Zeroizing};

/// Decrypted slot values. The type exists so that they can be zeroed.
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

/// Decrypted coefficients. The type exists so that they can be zeroed.
pub struct Coefficients(Vec<i128>);

impl Zeroize for Coefficients {
    fn zeroize(&mut self) {
        self.0.zeroize();
    }
}

impl std::ops::Deref for Coefficients {
    type Target = [i128];
    fn deref(&self) -> &[i128] {
        &self.0
    }
}

/// Decryption reads the first limbs only: at most three, whose product has at most [`MAX_BITS`] bits. A
/// message times its scale is far smaller than that.
const LIMBS_READ: usize = 3;
/// The largest log₂ of a modulus whose centred residues [`coefficients`] computes in `i128`.
const MAX_BITS: f64 = 126.0;

/// c₀ + c₁·s modulo the first `limbs` primes, in the coefficient domain.
fn phase(secret: &SecretKey, ct: &Ciphertext, limbs: usize) -> Poly<Coeff> {
    let basis = secret.params().q_basis(limbs - 1);
    let mut phase: Poly<Ntt> = ct.c1().truncated(limbs);
    phase.mul_assign(basis, secret.values());
    phase.add_assign(basis, ct.c0());
    phase.into_coeff(basis)
}

/// The coefficients of c₀ + c₁·s, centred modulo the product of the first primes. They are exact if they are
/// below half of that product.
pub(crate) fn coefficients(secret: &SecretKey, ct: &Ciphertext) -> Vec<i128> {
    let fits = |&l: &usize| secret.params().log_q(l - 1) <= MAX_BITS;
    let limbs = (1..=(ct.level() + 1).min(LIMBS_READ)).rev().find(fits).unwrap_or(1);
    let mut poly = phase(secret, ct, limbs);
    let basis = secret.params().q_basis(limbs - 1);
    // Garner's algorithm: c = d₀ + q₀·(d₁ + q₁·d₂), where each digit is computed modulo its prime.
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
            // `above` is −1 if the value is above half of the product, else 0. No branch.
            let above = (product / 2 - value) >> 127;
            value - (above & product)
        })
        .collect();
    poly.zeroize();
    out
}

/// Decrypts the first `slots` slots, a power of two up to N/2. The message must have that period.
pub fn decrypt(secret: &SecretKey, ct: &Ciphertext, slots: usize) -> Private<Slots> {
    let mut integers = coefficients(secret, ct);
    let mut real: Vec<f64> = integers.iter().map(|&c| to_f64(c) / ct.scale()).collect();
    integers.zeroize();
    let values = secret.params().encoder().slots(&real, slots);
    real.zeroize();
    Private::new(Slots(values))
}

/// Decrypts all N coefficients, as integers at the scale of `ct`. They are centred modulo the first limbs, at
/// most three with 126 bits together.
pub fn decrypt_coefficients(secret: &SecretKey, ct: &Ciphertext) -> Private<Coefficients> {
    Private::new(Coefficients(coefficients(secret, ct)))
}

/// Decrypts all N coefficients for others than the holder of the key. To each an error is added, of the
/// distribution of those of an encryption: to whoever has the ciphertext, a coefficient with its error is one
/// more sample of that kind, and says as much of the key as one more encryption does.
///
/// `rng` must follow from the key and from the ciphertext: other errors of the same ciphertext would average
/// out. Whoever makes the ciphertext may choose c₁ so small that the errors hide nothing: the decryption must
/// not reach a party that would do so.
pub fn decrypt_with_errors<R: CryptoRng>(secret: &SecretKey, ct: &Ciphertext, rng: &mut R) -> Vec<i128> {
    let mut out = coefficients(secret, ct);
    let errors = Zeroizing::new(rns::sample::error(out.len(), rng));
    out.iter_mut().zip(errors.iter()).for_each(|(c, error)| *c += i128::from(*error));
    out
}

/// Converts `c` to a float by the two words of its magnitude, without the branches of the built-in conversion
/// from `i128`. The result equals that of the built-in conversion for |c| < 2⁶³, and is within one unit in
/// the last place elsewhere.
fn to_f64(c: i128) -> f64 {
    let sign = c >> 127;
    let magnitude = ((c ^ sign) - sign) as u128;
    let value = (magnitude >> 64) as u64 as f64 * 2f64.powi(64) + (magnitude as u64 as f64);
    (1 + 2 * sign as i64) as f64 * value
}

/// Decrypts the constant coefficient of c₀ + c₁·s, as a residue modulo q₀.
pub fn constant_coefficient(secret: &SecretKey, ct: &Ciphertext) -> Private<u64> {
    let mut phase = phase(secret, ct, 1);
    let value = phase.limb(0)[0];
    phase.zeroize();
    Private::new(value)
}

/// Decrypts `masked` and encrypts its polynomial again at a higher `level`: the user's part of a refresh. The
/// result has the canonical scale of `level`, to which the message must have been scaled before it was
/// masked. The masked coefficients must be below a quarter of the modulus of `masked`.
///
/// A message of `slots` values, a power of two up to N/2, is a polynomial in X^(N/(2·slots)). Its other
/// coefficients hold noise only and are set to zero, so that the remaining noise has the period of the
/// message.
///
/// # Errors
/// [`Error::TooLow`] if the modulus of `masked` has less than 64 bits above its scale, which is too little
/// for a mask.
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
    use ckks::Plaintext;
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    /// The errors are those of an encryption, and the same for the same generator.
    #[test]
    fn decryptions_for_others_have_errors() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let secret = SecretKey::generate(&ckks::TOY_LOGN11_SCORES.validate().unwrap(), &mut rng);
        let message = Plaintext::from_integers(secret.params(), &[5, -7], 0, 1024.0).unwrap();
        let ct = crate::encrypt(&secret, &message, &mut rng).expand(&secret);
        let with = |seed| decrypt_with_errors(&secret, &ct, &mut ChaCha20Rng::seed_from_u64(seed));
        let errors: Vec<i128> = with(2).iter().zip(coefficients(&secret, &ct)).map(|(a, b)| a - b).collect();
        assert!(errors.iter().all(|error| error.abs() <= i128::from(rns::sample::ERROR_BOUND)));
        let squares = errors.iter().map(|error| error * error).sum::<i128>() as f64 / errors.len() as f64;
        assert!((squares.sqrt() - rns::sample::SIGMA).abs() < 0.2, "{squares}");
        assert!(with(2) == with(2) && with(2) != with(3));
    }

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
