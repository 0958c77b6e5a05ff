//! Encryption under the public key.

use crate::{Ciphertext, Params, Plaintext, PublicKey};
use rand::CryptoRng;
use rns::{Buffer, Poly, sample};
use zeroize::{Zeroize, Zeroizing};

/// Encrypts `plaintext` under the public key (b, a) as (b·u + e₀ + m, a·u + e₁), with a uniform ternary u and
/// errors e₀ and e₁. The error of a coefficient has standard deviation 3.2·√(4N/3 + 1). At N = 2¹⁵ this is
/// about 200 times that of an encryption under the secret key.
pub fn encrypt<R: CryptoRng>(
    params: &Params,
    key: &PublicKey,
    plaintext: &Plaintext,
    rng: &mut R,
) -> Ciphertext {
    let (level, basis) = (plaintext.level, params.q_basis(plaintext.level));
    let u = Zeroizing::new(sample::ternary(params.n(), rng));
    let [e0, e1] = [(); 2].map(|()| Zeroizing::new(sample::error(params.n(), rng)));
    let scratch = || Poly::scratch(basis.n(), basis.len());
    let (mut c0, mut c1) = (scratch(), scratch());
    // Limb by limb, so that the operands of a limb stay in the cache.
    Poly::for_each_limb_pair(&mut c0, &mut c1, |i, o0, o1| {
        let (m, table) = (basis.modulus(i), &basis.tables()[i]);
        let mut u_values = Buffer::scratch(basis.n());
        for (values, signed) in [(&mut *u_values, &u), (&mut *o0, &e0), (&mut *o1, &e1)] {
            rns::signed_into(m, values, signed);
            table.forward(values);
        }
        rns::mul_add_assign(m, o0, &u_values, key.b.limb(i));
        rns::add_assign(m, o0, plaintext.poly.limb(i));
        rns::mul_add_assign(m, o1, &u_values, key.a.limb(i));
        u_values.zeroize();
    });
    Ciphertext { c0, c1, level, scale: plaintext.scale }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;
    use rns::{Coeff, Ntt};

    /// A key whose two polynomials are 0: an encryption under it is (e₀ + m, e₁), which shows both errors.
    fn no_key(params: &Params) -> PublicKey {
        let zero = || Poly::zero(params.n(), params.max_level() + 1);
        PublicKey { b: zero(), a: zero(), seed: [0; 32] }
    }

    /// The first limb, centred.
    fn centred(params: &Params, poly: Poly<Ntt>, level: usize) -> Vec<i64> {
        let q = params.prime(0);
        let coefficients: Poly<Coeff> = poly.into_coeff(params.q_basis(level));
        coefficients.limb(0).iter().map(|&c| if c > q / 2 { c as i64 - q as i64 } else { c as i64 }).collect()
    }

    /// Both parts of an encryption have an error of their own, of deviation 3.2, fresh each time. Beside u·e
    /// of the key, the error e₀ adds one part in 4N/3 to the variance of a decryption, where no statistic
    /// sees it. Without it an encryption of zero is b·u, and everybody can divide by b. The mean square of N
    /// samples is within five of its deviations √(2/N).
    #[test]
    fn attack_both_parts_of_an_encryption_have_an_error() {
        let params = crate::TOY_LOGN12_DEPTH21.validate().unwrap();
        let (key, mut rng) = (no_key(&params), ChaCha20Rng::seed_from_u64(1));
        let n = params.n() as f64;
        for level in [0, 3] {
            let zero =
                Plaintext { poly: Poly::zero(params.n(), level + 1), level, scale: params.scale(level) };
            let mut errors = Vec::new();
            for _ in 0..2 {
                let Ciphertext { c0, c1, .. } = encrypt(&params, &key, &zero, &mut rng);
                errors.extend([c0, c1].map(|part| centred(&params, part, level)));
            }
            for (i, of_part) in errors.iter().enumerate() {
                let square = of_part.iter().map(|e| (e * e) as f64).sum::<f64>() / n;
                assert!((square / (3.2 * 3.2) - 1.0).abs() < 5.0 * (2.0 / n).sqrt(), "{i}: {square}");
                let product = |other: &Vec<i64>| {
                    let sum: i64 = of_part.iter().zip(other).map(|(a, b)| a * b).sum();
                    (sum as f64 / (3.2 * 3.2)).abs()
                };
                // Independent samples: the deviation of the sum of products is √N.
                assert!(errors[..i].iter().all(|other| product(other) < 5.0 * n.sqrt()), "{i}");
            }
        }
    }
}
