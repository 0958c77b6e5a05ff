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
    let level = plaintext.level;
    let basis = params.q_basis(level);
    // u, e₀ and e₁ are as secret as the message.
    let u = Zeroizing::new(sample::ternary(basis.n(), rng));
    let [e0, e1] = [(); 2].map(|()| Zeroizing::new(sample::error(basis.n(), rng)));
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
