//! What a device computes, from fixed seeds: keys, encoding, encryption, decryption and the encryption of a
//! masked ciphertext anew; and the transforms and products below them. `.ci/wasm` compares the digests of a
//! build for WebAssembly with those of a native build. No program depends on this crate.

mod kernels;

use ckks::{LOGN13_LOGQP147_SCORES, ParamsSpec, Plaintext, TOY_LOGN12_DEPTH21};
use ckks_secret::{SecretKey, decrypt, encrypt, public_key, recrypt};
use num_complex::Complex64;
use rand::{CryptoRng, SeedableRng};
use rand_chacha::ChaCha20Rng;

/// Values are multiples of 1/STEPS. Half of that is 12 standard deviations of the noise of an encryption
/// under the public key in the ring of scores, the largest here: a decryption rounds to the value exactly.
const STEPS: f64 = 8.0;

/// One set of parameters and what is computed with it.
struct Case {
    spec: ParamsSpec,
    /// Level of the ciphertexts that are decrypted. The modulus has 64 bits above the scale, as re-encryption
    /// needs.
    level: usize,
    /// Number of slots of the message.
    slots: usize,
}

const CASES: [Case; 2] = [
    Case { spec: LOGN13_LOGQP147_SCORES, level: 1, slots: 1 << 12 },
    Case { spec: TOY_LOGN12_DEPTH21, level: 2, slots: 1 << 6 },
];

/// What is computed, as words, and the BLAKE3 digest of its bytes. Frames are hashed as they are sent, an
/// encoded message and the results of kernels as residues, eight little-endian bytes each.
///
/// # Panics
/// If a decryption is not the message.
pub fn digests() -> Vec<(String, blake3::Hash)> {
    kernels::digests().chain(CASES.iter().flat_map(case_digests)).collect()
}

fn case_digests(case: &Case) -> Vec<(String, blake3::Hash)> {
    let params = case.spec.validate().expect("a named set");
    let mut rng = ChaCha20Rng::seed_from_u64(13);
    let secret = SecretKey::generate(&params, &mut rng);
    let public = public_key(&secret, &mut rng);
    let id = public.id(&params);
    let message = message(case.slots, &mut rng);
    let plain = Plaintext::encode(&params, &message, case.level).expect("as many slots as the ring has");

    let under_public = ckks::encrypt(&params, &public, &plain, &mut rng);
    let under_secret = encrypt(&secret, &plain, &mut rng);
    let sent = under_secret.to_bytes(&secret, id);
    let received = ckks::read_ciphertext(&params, id, case.level, &sent).expect("the frame just written");
    for ciphertext in [&under_public, &received] {
        decrypt(&secret, ciphertext, case.slots).with(|slots| assert_is(slots, &message));
    }
    let top = params.max_level();
    let anew = recrypt(&secret, &received, top, case.slots, &mut rng).expect("64 bits above the scale");
    let residues: Vec<u8> = plain.poly().data().iter().flat_map(|x| x.to_le_bytes()).collect();
    [
        ("secret key", secret.to_bytes(id).to_vec()),
        ("public key", ckks::write_public_key(&params, &public)),
        ("encoded message", residues),
        ("encryption under the public key", ckks::write_ciphertext(&params, id, &under_public)),
        ("encryption under the secret key", sent),
        ("re-encryption", anew.to_bytes(&secret, id)),
    ]
    .map(|(what, bytes)| (format!("{}: {what}", case.spec.name), blake3::hash(&bytes)))
    .into()
}

/// Slot values with both parts in [−1, 1), multiples of 1/STEPS.
fn message<R: CryptoRng>(slots: usize, rng: &mut R) -> Vec<Complex64> {
    let mut value = || f64::from(rng.next_u32() % (2 * STEPS as u32)) / STEPS - 1.0;
    (0..slots).map(|_| Complex64::new(value(), value())).collect()
}

fn assert_is(slots: &[Complex64], message: &[Complex64]) {
    assert_eq!(slots.len(), message.len());
    let rounded = |x: f64| (x * STEPS).round() / STEPS;
    for (j, (got, want)) in slots.iter().zip(message).enumerate() {
        assert!(rounded(got.re) == want.re && rounded(got.im) == want.im, "slot {j}: {got}, not {want}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A digest that repeats for fixed seeds, and of different bytes, is one that builds can be compared by.
    #[test]
    fn digests_repeat_and_differ() {
        let (first, second) = (digests(), digests());
        assert_eq!(first, second);
        let different: BTreeSet<_> = first.iter().map(|(_, digest)| *digest.as_bytes()).collect();
        assert_eq!(different.len(), first.len());
    }
}
