//! Bundles, sealed bundles and access tokens.

use ckks_secret::{Passphrase, SecretKey};
use wire::{AccessToken, BundleReader, PublicBundle, SecretBundle, TokenDigest};
use zeroize::Zeroizing;

/// A bundle of public keys, as a server reads it.
pub(crate) fn public_bundle(input: &[u8]) {
    _ = BundleReader::new(input);
    _ = PublicBundle::read(input);
}

/// A bundle with a secret key, as a user's device reads it.
pub(crate) fn secret_bundle(input: &[u8]) {
    if let Ok(bundle) = SecretBundle::read(input) {
        _ = SecretKey::from_bytes(&bundle.params, &bundle.frame);
        _ = SecretKey::from_bytes(&bundle.scores.params, &bundle.scores.frame);
    }
}

/// A sealed bundle. Inputs whose header asks for much work are skipped; a test of `ckks-secret` checks the
/// bounds.
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
