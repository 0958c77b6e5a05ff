use crate::decrypt::coefficients;
use crate::encrypt::{SeededCiphertext, encrypt};
use crate::{Error, SecretKey};
use ckks::{Ciphertext, Raise, SlotsToCoefficients};
use rand::CryptoRng;
use zeroize::Zeroize;

/// Decrypts `masked` under the key of the small ring and encrypts its coefficients, times `factor`, as slots
/// under the key of the large ring: the key holder's part of a raise.
///
/// # Errors
/// [`Error::Ckks`] if `masked` is not at the level and scale of the raise, and for a factor that it excludes.
/// No error depends on a decrypted value.
///
/// # Panics
/// If `small` or `large` is a key of other parameters than the raise's.
pub fn raise<R: CryptoRng>(
    raise: &Raise,
    small: &SecretKey,
    large: &SecretKey,
    masked: &Ciphertext,
    factor: f64,
    rng: &mut R,
) -> Result<SeededCiphertext, Error> {
    assert!(small.params() == raise.small() && large.params() == raise.large(), "keys of this raise");
    raise.check(masked)?;
    let mut coefficients = coefficients(small, masked);
    let message = raise.encode(&coefficients, factor);
    coefficients.zeroize();
    let mut message = message?;
    let out = encrypt(large, &message, rng);
    message.zeroize();
    Ok(out)
}

/// Decrypts `masked` under the key of the large ring and encrypts its slots as coefficients under the key of
/// the small ring: the key holder's part of [`SlotsToCoefficients`].
///
/// # Errors
/// [`Error::Ckks`] if `masked` is not at the level of the exchange. No error depends on a decrypted value of a
/// message that was masked as [`ckks::mask_assign`] does.
///
/// # Panics
/// If `small` or `large` is a key of other parameters than the exchange's.
pub fn slots_to_coefficients<R: CryptoRng>(
    exchange: &SlotsToCoefficients,
    large: &SecretKey,
    small: &SecretKey,
    masked: &Ciphertext,
    rng: &mut R,
) -> Result<SeededCiphertext, Error> {
    assert!(
        small.params() == exchange.small() && large.params() == exchange.large(),
        "keys of this exchange"
    );
    exchange.check(masked)?;
    let mut coefficients = coefficients(large, masked);
    let message = exchange.encode(&coefficients);
    coefficients.zeroize();
    let mut message = message?;
    let out = encrypt(small, &message, rng);
    message.zeroize();
    Ok(out)
}
