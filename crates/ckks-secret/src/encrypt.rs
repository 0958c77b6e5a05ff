use crate::SecretKey;
use ckks::{Ciphertext, KeyId, Plaintext};
use rand::CryptoRng;
use rns::sample::{self, Seed};
use rns::{Ntt, Poly};

/// A ciphertext made under the secret key: c₁ is the uniform polynomial of a seed, so it travels in half the
/// bytes, and its error has standard deviation 3.2 a coefficient.
pub struct SeededCiphertext {
    c0: Poly<Ntt>,
    seed: Seed,
    level: usize,
    scale: f64,
}

/// Encrypts `plaintext` under `secret`.
pub fn encrypt<R: CryptoRng>(secret: &SecretKey, plaintext: &Plaintext, rng: &mut R) -> SeededCiphertext {
    encrypt_poly(secret, plaintext.poly(), plaintext.level(), plaintext.scale(), rng)
}

pub(crate) fn encrypt_poly<R: CryptoRng>(
    secret: &SecretKey,
    message: &Poly<Ntt>,
    level: usize,
    scale: f64,
    rng: &mut R,
) -> SeededCiphertext {
    let params = secret.params();
    let basis = params.q_basis(level);
    let seed = sample::seed(rng);
    let mut c0 = ckks::uniform_c1(params, level, &seed).mul(basis, secret.values());
    c0.neg_assign(basis);
    c0.add_assign(basis, &sample::error_poly(basis, rng).into_ntt(basis));
    c0.add_assign(basis, message);
    SeededCiphertext { c0, seed, level, scale }
}

impl SeededCiphertext {
    /// Its frame.
    pub fn to_bytes(&self, secret: &SecretKey, id: KeyId) -> Vec<u8> {
        ckks::write_seeded_ciphertext(secret.params(), id, &self.c0, &self.seed, self.level, self.scale)
    }

    /// With c₁ written out.
    pub fn expand(self, secret: &SecretKey) -> Ciphertext {
        let c1 = ckks::uniform_c1(secret.params(), self.level, &self.seed);
        Ciphertext::new(self.c0, c1, self.level, self.scale)
    }
}
