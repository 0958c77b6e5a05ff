//! What keys rest in: bundles, sealed bundles and access tokens.

use crate::rng;
use ckks::{Params, TOY_LOGN12_DEPTH21};
use ckks_secret::{Passphrase, SEALED_MAGIC, SecretKey};
use protocol::Shape;
use wire::{
    AccessToken, BundleKind, BundleReader, BundleWriter, Manifest, PublicBundle, SecretBundle, TokenDigest,
};
use zeroize::Zeroizing;

/// A bundle of public keys, as a server reads it.
pub(crate) fn public_bundle(input: &[u8]) {
    _ = BundleReader::new(input);
    _ = PublicBundle::read(input);
}

/// A bundle with a public key alone: it is refused only where its keys are checked for completeness.
pub(crate) fn public_bundles() -> Vec<Vec<u8>> {
    let (params, mut rng) = (params(), rng());
    let secret = SecretKey::generate(&params, &mut rng);
    let public = ckks_secret::public_key(&secret, &mut rng);
    let token = AccessToken::generate(&mut rng);
    let manifest = Manifest::new(&params, public.id(&params), Shape::for_problem(2, 2), 0, 1, token.digest());
    let mut writer = BundleWriter::new(BundleKind::Public, &manifest, Vec::new()).expect("a vector");
    writer.frame(&ckks::write_public_key(&params, &public)).expect("a vector");
    vec![writer.finish().expect("one frame").0]
}

/// A bundle with a secret key, as a user's device reads it.
pub(crate) fn secret_bundle(input: &[u8]) {
    if let Ok(bundle) = SecretBundle::read(input) {
        _ = SecretKey::from_bytes(&bundle.params, &bundle.frame);
    }
}

pub(crate) fn secret_bundles() -> Vec<Vec<u8>> {
    let (params, mut rng) = (params(), rng());
    let secret = SecretKey::generate(&params, &mut rng);
    let id = ckks_secret::public_key(&secret, &mut rng).id(&params);
    let token = AccessToken::generate(&mut rng);
    let manifest = Manifest::new(&params, id, Shape::for_problem(2, 2), 0, 2, token.digest());
    vec![SecretBundle::write(&manifest, &secret.to_bytes(id), &token, Vec::new()).expect("a vector").0]
}

/// A sealed bundle. Headers that ask for more work than an input of a fuzzer should take are left out; that
/// they are bounded is a test of `ckks-secret`.
pub(crate) fn sealed_bundle(input: &[u8]) {
    let word = |at: usize| input.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let (memory, passes) = (word(10).unwrap_or(0), word(14).unwrap_or(0));
    let most = 1 << 20;
    if (257..=most).contains(&memory) || (3..=64).contains(&passes) {
        return;
    }
    let passphrase = Passphrase::new(Zeroizing::new(b"passphrase".to_vec())).expect("it is not empty");
    _ = ckks_secret::unseal(input, &passphrase);
}

/// Headers of cheap sealed bundles, followed by bytes that do not authenticate.
pub(crate) fn sealed_bundles() -> Vec<Vec<u8>> {
    let sealed = |[memory, passes, lanes]: [u32; 3]| {
        let mut out = SEALED_MAGIC.to_vec();
        out.extend(1u16.to_le_bytes());
        [memory, passes, lanes].iter().for_each(|x| out.extend(x.to_le_bytes()));
        out.resize(120, 7);
        out
    };
    vec![sealed([64, 1, 1]), sealed([256, 2, 4]), sealed([0, 0, 0])]
}

/// An access token, as bytes, as text, and in a header.
pub(crate) fn access_token(input: &[u8]) {
    if let Ok(token) = AccessToken::from_bytes(input) {
        assert!(token.as_bytes() == input);
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(token) = AccessToken::from_hex(text) {
        assert!(TokenDigest::of_authorization(&token.authorization()) == Some(token.digest()));
    }
    _ = TokenDigest::of_authorization(text);
}

pub(crate) fn access_tokens() -> Vec<Vec<u8>> {
    let token = AccessToken::generate(&mut rng());
    vec![
        token.as_bytes().to_vec(),
        token.to_hex().as_bytes().to_vec(),
        token.authorization().as_bytes().to_vec(),
    ]
}

fn params() -> Params {
    TOY_LOGN12_DEPTH21.validate().expect("a toy set")
}
