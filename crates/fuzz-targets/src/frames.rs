//! Frames of ciphertexts and keys.

use crate::rng;
use ckks::{Ciphertext, FRAME_DIGEST_BYTES, GaloisElement, KeyId, Params, ParamsSpec, Plaintext, Security};
use ckks_secret::SecretKey;
use num_complex::Complex64;
use std::sync::OnceLock;

/// Small parameters with primes of several widths, 32 bits among them.
const SPEC: ParamsSpec = ParamsSpec {
    name: "toy-fuzz",
    log_n: 10,
    log_q0: 41,
    depth: 2,
    log_scale: 32,
    log_p: &[48, 45],
    products: ckks::Products::Rescaled,
    security: Security::None,
};

struct Keys {
    params: Params,
    secret: SecretKey,
    id: KeyId,
    frames: Vec<Vec<u8>>,
}

fn fixture() -> &'static Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    KEYS.get_or_init(|| {
        let (params, mut rng) = (SPEC.validate().expect("a toy set"), rng());
        let secret = SecretKey::generate(&params, &mut rng);
        let public = ckks_secret::public_key(&secret, &mut rng);
        let id = public.id(&params);
        let g = GaloisElement::rotation(&params, 1);
        let relin = ckks_secret::relin_key(&secret, 1, &mut rng);
        let galois = ckks_secret::galois_key(&secret, g, 0, &mut rng);
        let frames = vec![
            ckks::write_public_key(&params, &public),
            ckks::write_key_switch_key(&params, id, None, &relin),
            ckks::write_key_switch_key(&params, id, Some(g), &galois),
        ];
        Keys { params, secret, id, frames }
    })
}

/// Calls `parse` with the input, and with the input and its digest, which a fuzzer would not find.
fn with_digest(input: &[u8], parse: impl Fn(&[u8])) {
    parse(input);
    let mut framed = input.to_vec();
    framed.extend(blake3::hash(input).as_bytes());
    parse(&framed);
}

/// The frames, and the frames without the digest that [`with_digest`] appends.
fn and_undigested(frames: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let bare: Vec<Vec<u8>> = frames.iter().map(|f| f[..f.len() - FRAME_DIGEST_BYTES].to_vec()).collect();
    frames.into_iter().chain(bare).collect()
}

/// A ciphertext of either kind at every level. One that is read is written again with the same bytes, or with
/// c₁ expanded if it was seeded.
pub(crate) fn ciphertext(input: &[u8]) {
    let Keys { params, id, .. } = fixture();
    with_digest(input, |bytes| {
        for level in 0..=params.max_level() + 1 {
            let Ok(read) = ckks::read_ciphertext(params, *id, level, bytes) else { continue };
            let written = ckks::write_ciphertext(params, *id, &read);
            let again = ckks::read_ciphertext(params, *id, level, &written).expect("it was written");
            assert!(again == read, "a ciphertext is read differently when it is written again");
        }
    });
}

pub(crate) fn ciphertexts() -> Vec<Vec<u8>> {
    let (Keys { params, secret, id, .. }, mut rng) = (fixture(), rng());
    let mut frames = Vec::new();
    for level in 0..=params.max_level() {
        let message = Plaintext::encode(params, &[Complex64::ONE], level).expect("one value");
        let seeded = ckks_secret::encrypt(secret, &message, &mut rng);
        frames.push(seeded.to_bytes(secret, *id));
        let whole: Ciphertext = seeded.expand(secret);
        frames.push(ckks::write_ciphertext(params, *id, &whole));
    }
    and_undigested(frames)
}

/// A public key or a key-switch key. One that is read is written again with the same bytes.
pub(crate) fn key(input: &[u8]) {
    let Keys { params, id, .. } = fixture();
    with_digest(input, |bytes| {
        if let Ok((key, read_id)) = ckks::read_public_key(params, bytes) {
            assert!(ckks::write_public_key(params, &key) == bytes && key.id(params) == read_id);
        }
        if let Ok((element, key)) = ckks::read_key_switch_key(params, *id, bytes) {
            assert!(ckks::write_key_switch_key(params, *id, element, &key) == bytes);
        }
    });
}

pub(crate) fn keys() -> Vec<Vec<u8>> {
    and_undigested(fixture().frames.clone())
}

/// A secret key. One that is read is written again with the same bytes.
pub(crate) fn secret_key(input: &[u8]) {
    let Keys { params, .. } = fixture();
    with_digest(input, |bytes| {
        if let Ok((key, id)) = SecretKey::from_bytes(params, bytes) {
            assert!(*key.to_bytes(id) == bytes);
        }
    });
}

pub(crate) fn secret_keys() -> Vec<Vec<u8>> {
    let Keys { secret, id, .. } = fixture();
    and_undigested(vec![secret.to_bytes(*id).to_vec()])
}
