use crate::decrypt::coefficients;
use crate::encrypt::{SeededCiphertext, encrypt};
use crate::{Error, SecretKey};
use ckks::{Ciphertext, Exchange, KeyId, Padded, Plaintext, RAISE_FACTORS, SlotsToCoefficients};
use rand::{CryptoRng, RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rayon::prelude::*;
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
    let group = std::slice::from_ref(exchange);
    Ok(exchange_group(group, from, to, masked, factors, rng)?.pop().unwrap_or_default())
}

/// As [`exchange`], for each exchange of a group, which have one masked side and go to one ring: what is
/// masked is decrypted once.
///
/// # Errors
/// As [`exchange`]; [`ckks::Error::BadParams`] for exchanges of different masked sides.
///
/// # Panics
/// As [`exchange`].
pub fn exchange_group<R: CryptoRng>(
    group: &[Exchange],
    from: &SecretKey,
    to: &SecretKey,
    masked: &[Ciphertext],
    factors: &[f64],
    rng: &mut R,
) -> Result<Vec<Vec<SeededCiphertext>>, Error> {
    assert!(group.iter().all(|exchange| *to.params() == exchange.to().params), "keys of this exchange");
    let messages = exchanged(group, from, masked, factors)?;
    let mut one = |message| (message, ChaCha20Rng::from_rng(rng));
    let drawn: Vec<Vec<_>> = messages.iter().map(|of| of.iter().map(&mut one).collect()).collect();
    let encrypted = |of: Vec<(&Plaintext, ChaCha20Rng)>| {
        of.into_par_iter().map(|(message, mut rng)| encrypt(to, message, &mut rng)).collect()
    };
    Ok(drawn.into_par_iter().map(encrypted).collect())
}

/// As [`exchange`], of one message for users who hold no key: the frame, under the identifier `id`, of its
/// coefficients under their pads ([`ckks::write_padded`]).
///
/// # Errors
/// As [`exchange`] and [`ckks::write_padded`]; [`ckks::Error::CiphertextCount`] for an exchange that makes
/// several ciphertexts.
///
/// # Panics
/// As [`exchange`].
pub fn exchange_under_pads(
    exchange: &Exchange,
    from: &SecretKey,
    masked: &[Ciphertext],
    factors: &[f64],
    id: KeyId,
    users: &[Padded<'_>],
) -> Result<Vec<u8>, Error> {
    let messages = exchanged(std::slice::from_ref(exchange), from, masked, factors)?.concat();
    let messages = Zeroizing::new(messages);
    match &messages[..] {
        [message] => Ok(ckks::write_padded(&exchange.to().params, id, message, users)?),
        more => Err(ckks::Error::CiphertextCount { got: more.len(), want: 1 }.into()),
    }
}

/// The messages of the exchanges of a group.
fn exchanged(
    group: &[Exchange],
    from: &SecretKey,
    masked: &[Ciphertext],
    factors: &[f64],
) -> Result<Zeroizing<Vec<Vec<Plaintext>>>, Error> {
    for exchange in group {
        assert!(*from.params() == exchange.from().params, "keys of this exchange");
        exchange.check(masked)?;
    }
    let inputs: Vec<_> = masked.par_iter().map(|ct| Zeroizing::new(coefficients(from, ct))).collect();
    Ok(Zeroizing::new(Exchange::encode_group(group, &inputs, factors)?))
}

/// As [`exchange`], of one ciphertext for one: the key holder's part of a raise ([`ckks::Places`]).
///
/// # Errors
/// As [`exchange`]; [`ckks::Error::CiphertextCount`] for an exchange of several.
///
/// # Panics
/// As [`exchange`].
pub fn raise<R: CryptoRng>(
    raise: &Exchange,
    small: &SecretKey,
    large: &SecretKey,
    masked: &Ciphertext,
    factors: [f64; RAISE_FACTORS],
    rng: &mut R,
) -> Result<SeededCiphertext, Error> {
    let mut fresh = exchange(raise, small, large, std::slice::from_ref(masked), &factors, rng)?;
    match (fresh.pop(), fresh.len()) {
        (Some(only), 0) => Ok(only),
        (_, more) => Err(ckks::Error::CiphertextCount { got: more + 1, want: 1 }.into()),
    }
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
    assert!(small.params() == exchange.small(), "keys of this exchange");
    Ok(encrypt(small, &*slots_as_coefficients(exchange, large, masked)?, rng))
}

/// As [`slots_to_coefficients`], for users who hold no key: the frame, under the identifier `id`, of the
/// coefficients under their pads ([`ckks::write_padded`]).
///
/// # Errors
/// As [`slots_to_coefficients`] and [`ckks::write_padded`].
///
/// # Panics
/// As [`slots_to_coefficients`].
pub fn slots_under_pads(
    exchange: &SlotsToCoefficients,
    large: &SecretKey,
    masked: &Ciphertext,
    id: KeyId,
    users: &[Padded<'_>],
) -> Result<Vec<u8>, Error> {
    let message = slots_as_coefficients(exchange, large, masked)?;
    Ok(ckks::write_padded(exchange.small(), id, &message, users)?)
}

/// The message of [`slots_to_coefficients`].
fn slots_as_coefficients(
    exchange: &SlotsToCoefficients,
    large: &SecretKey,
    masked: &Ciphertext,
) -> Result<Zeroizing<Plaintext>, Error> {
    assert!(large.params() == exchange.large(), "keys of this exchange");
    exchange.check(masked)?;
    let mut coefficients = Zeroizing::new(coefficients(large, masked));
    let bits = exchange.coefficient_bits();
    coefficients.iter_mut().for_each(|c| *c = narrowed(*c, bits));
    Ok(Zeroizing::new(exchange.encode(&coefficients)?))
}

/// The constant coefficient of `masked`, as an integer at its scale, plus uniform noise of ± 2^−`bits` times
/// the scale: what a key holder answers to a server that takes the mask off
/// ([`Exchange::unmasked_constant`]). Without the noise, the answer would contain the encryption error, from
/// which the server learns the key.
///
/// # Errors
/// [`Error::Ckks`] if `masked` is not the masked side of the exchange.
///
/// # Panics
/// If `secret` is a key of other parameters than the exchange's.
pub fn flooded_constant<R: CryptoRng>(
    exchange: &Exchange,
    secret: &SecretKey,
    masked: &Ciphertext,
    bits: u32,
    rng: &mut R,
) -> Result<i128, Error> {
    assert!(*secret.params() == exchange.from().params, "the key of this exchange");
    exchange.check(std::slice::from_ref(masked))?;
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
