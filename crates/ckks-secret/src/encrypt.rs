use crate::SecretKey;
use ckks::{Ciphertext, KeyId, Plaintext};
use rand::CryptoRng;
use rns::sample::{self, Seed};
use rns::{Buffer, Ntt, Poly};
use zeroize::{Zeroize, Zeroizing};

/// A ciphertext that was encrypted under the secret key. c₁ is a uniform polynomial that is stored as its
/// seed, so that the frame has half the size. The error of each coefficient has standard deviation 3.2.
pub struct SeededCiphertext {
    c0: Poly<Ntt>,
    seed: Seed,
    level: usize,
    scale: f64,
}

/// Encrypts `plaintext` under `secret` as (m + e − c₁·s, c₁) with a uniform c₁ and an error e.
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
    let errors = Zeroizing::new(sample::error(basis.n(), rng));
    let mut c0 = Poly::scratch(basis.n(), basis.len());
    // Limb by limb, so that the operands of a limb stay in the cache.
    c0.for_each_limb(|i, limb| {
        let m = basis.modulus(i);
        rns::signed_into(m, limb, &errors);
        basis.tables()[i].forward(limb);
        rns::add_assign(m, limb, message.limb(i));
        let mut mask = Buffer::scratch(limb.len());
        ckks::uniform_c1_limb(params, i, &seed, &mut mask);
        let mut product = Buffer::scratch(limb.len());
        rns::mul_into(m, &mut product, &mask, secret.values().limb(i));
        rns::sub_assign(m, limb, &product);
        // The mask is public; its product with the secret is not.
        product.zeroize();
    });
    SeededCiphertext { c0, seed, level, scale }
}

impl SeededCiphertext {
    /// The frame of the ciphertext, under the key identifier `id`.
    pub fn to_bytes(&self, secret: &SecretKey, id: KeyId) -> Vec<u8> {
        ckks::write_seeded_ciphertext(secret.params(), id, &self.c0, &self.seed, self.level, self.scale)
    }

    /// The frame of the first `count` coefficients, under the key identifier `id`. What else the message
    /// holds cannot be decrypted from it.
    pub fn to_partial_bytes(&self, secret: &SecretKey, id: KeyId, count: usize) -> Vec<u8> {
        let params = secret.params();
        let c0 = self.c0.clone().into_coeff(params.q_basis(self.level));
        ckks::write_partial_ciphertext(params, id, &c0, 0..count, &self.seed, self.level, self.scale)
    }

    /// The ciphertext with c₁ expanded from its seed.
    pub fn expand(self, secret: &SecretKey) -> Ciphertext {
        let c1 = ckks::uniform_c1(secret.params(), self.level, &self.seed);
        Ciphertext::new(self.c0, c1, self.level, self.scale)
    }
}
