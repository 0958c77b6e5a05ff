//! Frames of ciphertexts and keys.

use ckks::{KeyId, Params, ParamsSpec, Security};
use ckks_secret::SecretKey;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use std::sync::OnceLock;

/// Small parameters of all frames, with primes of several widths, 32 bits among them.
pub const SPEC: ParamsSpec = ParamsSpec {
    name: "toy-fuzz",
    log_n: 10,
    log_q0: 41,
    depth: 2,
    log_scale: 32,
    log_p: &[48, 45],
    products: ckks::Products::Rescaled,
    security: Security::None,
};

/// The parameters, and the id of the key pair that is generated from seed 1.
fn fixture() -> &'static (Params, KeyId) {
    static KEYS: OnceLock<(Params, KeyId)> = OnceLock::new();
    KEYS.get_or_init(|| {
        let (params, mut rng) = (SPEC.validate().expect("a toy set"), ChaCha20Rng::seed_from_u64(1));
        let secret = SecretKey::generate(&params, &mut rng);
        let id = ckks_secret::public_key(&secret, &mut rng).id(&params);
        (params, id)
    })
}

/// Calls `parse` with the input, and with the input followed by its digest, which a fuzzer would not find.
fn with_digest(input: &[u8], parse: impl Fn(&[u8])) {
    parse(input);
    let mut framed = input.to_vec();
    framed.extend(blake3::hash(input).as_bytes());
    parse(&framed);
}

/// The number of coefficients in frames of truncated and partial ciphertexts.
pub const COEFFICIENTS: usize = 12;

/// A ciphertext of any kind at every level. One that is read is written again with the same bytes, or with c₁
/// expanded if it was seeded, and with all coefficients if it was partial, as feedback is. Or one polynomial.
pub(crate) fn ciphertext(input: &[u8]) {
    let (params, id) = fixture();
    with_digest(input, |bytes| {
        for level in 0..=params.max_level() + 1 {
            let scale = params.scale(level.min(params.max_level()));
            let read = ckks::read_ciphertext(params, *id, level, bytes).or_else(|_| {
                ckks::read_partial_ciphertext(params, *id, level, scale, 0..COEFFICIENTS, bytes)
            });
            let Ok(read) = read else { continue };
            let written = ckks::write_ciphertext(params, *id, &read);
            let again = ckks::read_ciphertext(params, *id, level, &written).expect("it was written");
            assert!(again == read, "a ciphertext is read differently when it is written again");
        }
        for level in 0..=params.max_level() + 1 {
            let read = ckks::read_truncated_ciphertext(
                params,
                *id,
                level,
                params.scale(level.min(params.max_level())),
                COEFFICIENTS,
                bytes,
            );
            let Ok(read) = read else { continue };
            assert!(ckks::write_truncated_ciphertext(params, *id, &read, COEFFICIENTS) == bytes);
        }
    });
}

/// A public key, a key-switch key or a key of a ring switch. One that is read is written again with the same
/// bytes.
pub(crate) fn key(input: &[u8]) {
    let (params, id) = fixture();
    with_digest(input, |bytes| {
        if let Ok((key, read_id)) = ckks::read_public_key(params, bytes) {
            assert!(ckks::write_public_key(params, &key) == bytes && key.id(params) == read_id);
        }
        if let Ok((element, key)) = ckks::read_key_switch_key(params, *id, bytes) {
            assert!(ckks::write_key_switch_key(params, *id, element, &key) == bytes);
        }
        if let Ok((number, key)) = ckks::read_ring_switch_key(params, *id, bytes) {
            assert!(ckks::write_ring_switch_key(params, *id, number, &key) == bytes);
        }
    });
}

/// A secret key. One that is read is written again with the same bytes.
pub(crate) fn secret_key(input: &[u8]) {
    let (params, _) = fixture();
    with_digest(input, |bytes| {
        if let Ok((key, id)) = SecretKey::from_bytes(params, bytes) {
            assert!(*key.to_bytes(id) == bytes);
        }
    });
}
