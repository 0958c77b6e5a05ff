//! Hides a message from the holder of the secret key, and the origin of a ciphertext: masks, noise, fresh
//! encryptions of zero. Everything here needs the public key alone.
//!
//! | operation | hides |
//! |---|---|
//! | [`mask_assign`], [`unmask_assign`] | the message, statistically, under a mask expanded from a seed |
//! | [`flood_assign`] | the error of the message, under uniform noise of a width the caller chooses |
//! | [`mask_all_but_constant_assign`] | all coefficients of the message but one, under masks that are uniform modulo q |
//! | [`rerandomise_assign`] | the ciphertexts this one was computed from, as the scheme hides messages |

use crate::wide::from_wide;
use crate::{Ciphertext, Params, Plaintext, PublicKey, encrypt};
use rand::{CryptoRng, Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rns::{Basis, Ntt, Poly};

/// The seed of a mask.
pub type MaskSeed = [u8; 32];

/// Draws a fresh seed.
pub fn mask_seed<R: CryptoRng>(rng: &mut R) -> MaskSeed {
    rns::sample::seed(rng)
}

/// Draws a fresh seed for the mask of `ciphertext`. It is hashed with the ciphertext, so that no two have one
/// mask even where `rng` repeats itself, as in a copy of a machine.
pub fn mask_seed_for<R: CryptoRng>(ciphertext: &Ciphertext, rng: &mut R) -> MaskSeed {
    mask_seed_of(std::slice::from_ref(ciphertext), &mask_seed(rng))
}

/// The seed of the mask of these ciphertexts, from a secret `key`: the same ciphertexts have the same mask,
/// so that an exchange that is resumed sends the same bytes, and other ciphertexts have another one.
pub fn mask_seed_of(ciphertexts: &[Ciphertext], key: &MaskSeed) -> MaskSeed {
    let mut hasher = blake3::Hasher::new_keyed(key);
    let mut bytes = Vec::new();
    for ciphertext in ciphertexts {
        hasher.update(&(ciphertext.level as u64).to_le_bytes());
        for limb in (0..=ciphertext.level).flat_map(|i| ciphertext.limbs(i)) {
            // Whole limbs: byte by byte takes longer than the hash.
            bytes.resize(8 * limb.len(), 0);
            bytes
                .chunks_exact_mut(8)
                .zip(limb)
                .for_each(|(bytes, x)| bytes.copy_from_slice(&x.to_le_bytes()));
            hasher.update(&bytes);
        }
    }
    *hasher.finalize().as_bytes()
}

/// b, the width of a mask at `level`: its coefficients are uniform in [−2^(b − 1), 2^(b − 1)). That is two
/// bits below the modulus, so that a message under the mask does not wrap, and at most 126.
pub fn mask_bits(params: &Params, level: usize) -> u32 {
    (params.log_q(level) as u32 - 2).min(126)
}

/// Adds the mask that `seed` expands to at the ciphertext's level to every coefficient of the message.
pub fn mask_assign(params: &Params, a: &mut Ciphertext, seed: &MaskSeed) {
    let basis = params.q_basis(a.level);
    a.c0.add_assign(basis, &mask(params, a.level, seed, 1, basis));
}

/// Subtracts the mask that `seed` expands to at `level` from a message of `slots` values that came back at
/// another level, in a fresh encryption.
///
/// Only every N/(2·slots)-th coefficient of such a message is not 0, and only these carry the mask. The
/// coefficients between them held noise when the mask was added, and the fresh encryption left it out.
pub fn unmask_assign(params: &Params, a: &mut Ciphertext, level: usize, slots: usize, seed: &MaskSeed) {
    let basis = params.q_basis(a.level);
    a.c0.sub_assign(basis, &mask(params, level, seed, params.max_slots() / slots, basis));
}

/// Adds uniform noise of ± 2^−`bits` times the scale to every coefficient.
pub fn flood_assign<R: CryptoRng>(params: &Params, a: &mut Ciphertext, bits: u32, rng: &mut R) {
    let basis = params.q_basis(a.level);
    let noise: Vec<i64> = (0..params.n()).map(|_| flood(a.scale, bits, rng)).collect();
    a.c0.add_assign(basis, &Poly::from_signed(basis, &noise).into_ntt(basis));
}

/// Uniform noise of ± 2^−`bits` times the scale.
pub(crate) fn flood<R: CryptoRng>(scale: f64, bits: u32, rng: &mut R) -> i64 {
    let width = 1i64 << (scale.log2().round() as i32 - bits as i32).max(1);
    (rng.next_u64() as i64 & (2 * width - 1)) - width
}

/// Adds a mask that is uniform modulo q to every coefficient of the message but the constant one, which is
/// all that the holder of the key then learns.
pub fn mask_all_but_constant_assign<R: CryptoRng>(params: &Params, a: &mut Ciphertext, rng: &mut R) {
    let basis = params.q_basis(a.level);
    let mut mask = rns::sample::uniform(basis, rng).into_coeff(basis);
    mask.for_each_limb(|_, limb| limb[0] = 0);
    a.c0.add_assign(basis, &mask.into_ntt(basis));
}

/// Adds a fresh encryption of zero under `key`. The error grows by that of [`encrypt`].
pub fn rerandomise_assign<R: CryptoRng>(params: &Params, key: &PublicKey, a: &mut Ciphertext, rng: &mut R) {
    let poly = Poly::zero(params.n(), a.level + 1);
    let zero = encrypt(params, key, &Plaintext { poly, level: a.level, scale: a.scale }, rng);
    let basis = params.q_basis(a.level);
    a.c0.add_assign(basis, &zero.c0);
    a.c1.add_assign(basis, &zero.c1);
}

/// The coefficients of the mask that `seed` expands to at `level`.
pub(crate) fn mask_coefficients(params: &Params, level: usize, seed: &MaskSeed) -> Vec<i128> {
    let bits = mask_bits(params, level);
    let mut rng = ChaCha20Rng::from_seed(*seed);
    let coefficient = |_| {
        let word = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
        (word >> (128 - bits)) as i128 - (1i128 << (bits - 1))
    };
    (0..params.n()).map(coefficient).collect()
}

/// The coefficients of the mask that `seed` stands for at `level`: uniform in [−q/2, q/2).
pub(crate) fn uniform_mask(params: &Params, level: usize, seed: &MaskSeed) -> Vec<i128> {
    let q: i128 = params.q_basis(level).primes().map(i128::from).product();
    let bits = i128::BITS - q.leading_zeros();
    let mut rng = ChaCha20Rng::from_seed(*seed);
    let mut uniform = move || loop {
        let word = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
        let value = (word >> (128 - bits)) as i128;
        if value < q {
            return value - q / 2;
        }
    };
    (0..params.n()).map(|_| uniform()).collect()
}

/// The mask of `seed` at `level` as a polynomial over `basis`; only every `stride`-th coefficient is kept.
fn mask(params: &Params, level: usize, seed: &MaskSeed, stride: usize, basis: &Basis) -> Poly<Ntt> {
    from_wide(basis, &mask_coefficients(params, level, seed), stride).into_ntt(basis)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only its own seed removes a mask. For a message of fewer slots, only the coefficients of that message
    /// are unmasked.
    #[test]
    fn masks_go_away_under_their_seed() {
        let params = crate::TOY_LOGN12_DEPTH21.validate().unwrap();
        let zero = Ciphertext::zero(&params, 2);
        let mut masked = zero.clone();
        mask_assign(&params, &mut masked, &[1; 32]);
        assert!(masked != zero);
        for (slots, seed, same) in [
            (params.max_slots(), 1, true),
            (params.max_slots(), 2, false),
            (params.max_slots() / 4, 1, false),
        ] {
            let mut unmasked = masked.clone();
            unmask_assign(&params, &mut unmasked, 2, slots, &[seed; 32]);
            assert_eq!(unmasked == zero, same, "{slots} slots, seed {seed}");
        }
    }
}
