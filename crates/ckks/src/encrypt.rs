//! Encryption under the public key.

use crate::{Ciphertext, Params, Plaintext, PublicKey};
use rand::CryptoRng;
use rns::{Poly, sample};

/// Encrypts `plaintext`: (b·u + e₀ + m, a·u + e₁) with ternary u. The error has a standard deviation of about
/// 3.2·√(4N/3 + 1) a coefficient, some 200 times that of an encryption under the secret key.
pub fn encrypt<R: CryptoRng>(
    params: &Params,
    key: &PublicKey,
    plaintext: &Plaintext,
    rng: &mut R,
) -> Ciphertext {
    let level = plaintext.level;
    let basis = params.q_basis(level);
    let u = Poly::from_signed(basis, &sample::ternary(basis.n(), rng)).into_ntt(basis);
    let mut c0 = u.mul(basis, &key.b);
    c0.add_assign(basis, &sample::error_poly(basis, rng).into_ntt(basis));
    c0.add_assign(basis, &plaintext.poly);
    let mut c1 = u.mul(basis, &key.a);
    c1.add_assign(basis, &sample::error_poly(basis, rng).into_ntt(basis));
    Ciphertext { c0, c1, level, scale: plaintext.scale }
}
