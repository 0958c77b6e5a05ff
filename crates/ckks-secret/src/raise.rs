use crate::decrypt::coefficients;
use crate::encrypt::{SeededCiphertext, encrypt};
use crate::{Error, SecretKey};
use ckks::{Ciphertext, Exchange, Plaintext, RAISE_FACTORS, Raise, SlotsToCoefficients, UniformRefresh};
use rand::{CryptoRng, RngExt};
use zeroize::{Zeroize, Zeroizing};

/// Decrypts `masked` under the key `from` and encrypts what it becomes with these factors
/// ([`Exchange::encode`]) under the key `to`: the key holder's part of an exchange.
///
/// # Errors
/// [`Error::Ckks`] if `masked` is not on the masked side of the exchange, and for factors that it excludes.
/// No error depends on a decrypted value.
///
/// # Panics
/// If `from` or `to` is a key of other parameters than the exchange's.
pub fn exchange<R: CryptoRng>(
    exchange: &Exchange,
    from: &SecretKey,
    to: &SecretKey,
    masked: &[Ciphertext],
    factors: &[f64],
    rng: &mut R,
) -> Result<Vec<SeededCiphertext>, Error> {
    let of_exchange = *from.params() == exchange.from().params && *to.params() == exchange.to().params;
    assert!(of_exchange, "keys of this exchange");
    exchange.check(masked)?;
    let inputs: Vec<_> = masked.iter().map(|ct| Zeroizing::new(coefficients(from, ct))).collect();
    let mut messages = exchange.encode(&inputs, factors)?;
    let out = messages.iter().map(|message| encrypt(to, message, rng)).collect();
    messages.iter_mut().for_each(Plaintext::zeroize);
    Ok(out)
}

/// Decrypts `masked` under the key of the small ring and encrypts what its coefficients become with these
/// factors ([`Raise::encode`]) under the key of the large ring: the key holder's part of a raise.
///
/// # Errors
/// [`Error::Ckks`] if `masked` is not at the level and scale of the raise, and for factors that it excludes.
/// No error depends on a decrypted value.
///
/// # Panics
/// If `small` or `large` is a key of other parameters than the raise's.
pub fn raise<R: CryptoRng>(
    raise: &Raise,
    small: &SecretKey,
    large: &SecretKey,
    masked: &Ciphertext,
    factors: [f64; RAISE_FACTORS],
    rng: &mut R,
) -> Result<SeededCiphertext, Error> {
    assert!(small.params() == raise.small() && large.params() == raise.large(), "keys of this raise");
    raise.check(masked)?;
    let mut coefficients = coefficients(small, masked);
    let message = raise.encode(&coefficients, factors);
    coefficients.zeroize();
    let mut message = message?;
    let out = encrypt(large, &message, rng);
    message.zeroize();
    Ok(out)
}

/// Decrypts `masked` under the key of the large ring and encrypts its slots as coefficients under the key of
/// the small ring: the key holder's part of [`SlotsToCoefficients`].
///
/// Coefficients of a message that was masked as the exchange does are below 2 to
/// [`SlotsToCoefficients::coefficient_bits`] in size. Larger ones, of a server that deviates, are reduced to
/// that width: whether an answer comes must not depend on them, because a server that chooses the ciphertext
/// would learn a linear form in the secret key from every refusal.
///
/// # Errors
/// [`Error::Ckks`] if `masked` is not at the level of the exchange. No error depends on a decrypted value.
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
    let bits = exchange.coefficient_bits();
    coefficients.iter_mut().for_each(|c| *c = narrowed(*c, bits));
    let message = exchange.encode(&coefficients);
    coefficients.zeroize();
    let mut message = message?;
    let out = encrypt(small, &message, rng);
    message.zeroize();
    Ok(out)
}

/// Decrypts `masked` and encrypts it anew at the higher level of `refresh`: the key holder's part of a
/// [`UniformRefresh`].
///
/// # Errors
/// [`Error::Ckks`] if `masked` is not at the level of the refresh. No error depends on a decrypted value.
///
/// # Panics
/// If `secret` is a key of other parameters than the refresh's.
pub fn refresh<R: CryptoRng>(
    refresh: &UniformRefresh,
    secret: &SecretKey,
    masked: &Ciphertext,
    rng: &mut R,
) -> Result<SeededCiphertext, Error> {
    assert!(secret.params() == refresh.params(), "the key of this refresh");
    refresh.check(masked)?;
    let mut coefficients = coefficients(secret, masked);
    let message = refresh.encode(&coefficients);
    coefficients.zeroize();
    let mut message = message?;
    let out = encrypt(secret, &message, rng);
    message.zeroize();
    Ok(out)
}

/// The constant coefficient of `masked`, as an integer at its scale, plus uniform noise of ± 2^−`bits` times
/// the scale: what a key holder answers to a server that takes the mask off
/// ([`UniformRefresh::unmasked_constant`]). Without the noise, the answer would contain the encryption error,
/// from which the server learns the key.
///
/// # Errors
/// [`Error::Ckks`] if `masked` is not at the level of the refresh.
///
/// # Panics
/// If `secret` is a key of other parameters than the refresh's.
pub fn flooded_constant<R: CryptoRng>(
    refresh: &UniformRefresh,
    secret: &SecretKey,
    masked: &Ciphertext,
    bits: u32,
    rng: &mut R,
) -> Result<i128, Error> {
    assert!(secret.params() == refresh.params(), "the key of this refresh");
    refresh.check(masked)?;
    let width = 1i128 << (masked.scale().log2().round() as i32 - bits as i32).max(1);
    let mut coefficients = coefficients(secret, masked);
    let answer = coefficients[0] + rng.random_range(-width..width);
    coefficients.zeroize();
    Ok(answer)
}

/// `c` modulo 2^(b + 1), centred and below 2ᵇ in size, for b = `bits`. −2ᵇ becomes −2ᵇ + 1. No branch.
fn narrowed(c: i128, bits: u32) -> i128 {
    let unused = i128::BITS - 1 - bits;
    let c = (c << unused) >> unused;
    c + i128::from(c == -(1 << bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_numbers_stay_and_wide_ones_wrap() {
        for bits in [ckks::MAX_WIDE_COEFFICIENT_BITS, 101] {
            let limit = 1i128 << bits;
            for c in [0, 1, -1, limit - 1, 1 - limit] {
                assert_eq!(narrowed(c, bits), c);
            }
            for (wide, want) in [
                (limit, 1 - limit),
                (-limit, 1 - limit),
                (limit + 5, 5 - limit),
                (-limit - 5, limit - 5),
                (i128::MAX, -1),
                (i128::MIN, 0),
            ] {
                assert_eq!(narrowed(wide, bits), want, "{wide}");
            }
        }
    }
}
