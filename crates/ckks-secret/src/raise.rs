use crate::decrypt::coefficients;
use crate::encrypt::{SeededCiphertext, encrypt};
use crate::{Error, SecretKey};
use ckks::{Ciphertext, Raise};
use rand::CryptoRng;
use zeroize::Zeroize;

/// Decrypts `masked` under the key of the small ring and encrypts its coefficients as slots under the key of
/// the large ring: the key holder's part of a raise.
///
/// # Errors
/// [`Error::Ckks`] if `masked` is not at the level and scale of the raise. No error depends on a decrypted
/// value.
///
/// # Panics
/// If `small` or `large` is a key of other parameters than the raise's.
pub fn raise<R: CryptoRng>(
    raise: &Raise,
    small: &SecretKey,
    large: &SecretKey,
    masked: &Ciphertext,
    rng: &mut R,
) -> Result<SeededCiphertext, Error> {
    assert!(small.params() == raise.small() && large.params() == raise.large(), "keys of this raise");
    raise.check(masked)?;
    let mut coefficients = coefficients(small, masked);
    let message = raise.encode(&coefficients);
    coefficients.zeroize();
    let mut message = message?;
    let out = encrypt(large, &message, rng);
    message.zeroize();
    Ok(out)
}
