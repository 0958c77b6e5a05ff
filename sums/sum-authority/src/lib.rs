//! The key authority of an encrypted sum ([`secure_sum::encrypted`]): it decrypts the sum of a batch, and
//! nothing else.
//!
//! For the party that holds the secret keys, which is neither a user nor the adder. Neither of them may
//! depend on this crate.
//!
//! # What an answer reveals about the key
//! An authority cannot distinguish a sum from other ciphertexts. Its answer is two linear forms of the secret
//! key, and the sender of the ciphertext chooses them. With weights of 3^j, an answer reveals 28 of the 4096
//! coefficients, 14 in the total and 14 in the number of users, and 147 answers under one key reveal all of
//! it (`attack_one_key_for_all_batches_is_learnt`). Therefore:
//! - **Each batch has a key of its own.** It is generated when the adder announces the batch, and zeroed when
//!   its sum is opened, so that it gives one answer.
//! - This answer is one of at most 2 * 2^34 + 1 totals and 2^24 numbers of users, which is 59 bits, the
//!   content of 37 coefficients. The key has 6492 bits (4096 times log2 3), of which at least 6433 remain
//!   unknown.
//! - A refusal reveals which of two checks failed, the number of users or the range. The [fourth
//!   refusal](service::AuthorityLimits) destroys the key. Three refusals and an answer have fewer than 2^63
//!   outcomes together, so that they reveal at most 63 bits, the content of 40 coefficients. Refusals of
//!   bytes that are no ciphertext depend on the bytes only, and reveal nothing about the key.
//!
//! # What `at_least` protects against
//! The number of users is in the ciphertext beside the total, and the adder can change it. The least number
//! `at_least` therefore protects against users who drop out, and not against an adder that deviates. Such an
//! adder adds 1000 to the number in the ciphertext of a single user and has it opened, once per batch, or it
//! combines about three users with different weights within the 59 bits. It learns their values with each
//! user's own part of the noise. The other values of the batch stay hidden under a destroyed key. If the
//! adder cannot be trusted with this, use two aggregators.
//!
//! A true sum reveals nothing about the key, because the answer is exact: it does not contain the noise of
//! the ciphertexts (Li, Micciancio 2021 show what that noise would reveal).

pub mod service;

use ckks::{KeyId, Params, PublicKey};
use ckks_secret::SecretKey;
use rand::CryptoRng;
use secure_sum::Sum;
use secure_sum::encrypted::{self, LOGN12_LOGQP105_SUM, MAX_TOTAL, MAX_USERS};

/// The reason why a sum was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Untrusted: bytes that are no ciphertext under this key, or a batch that is not announced.
    #[error(transparent)]
    Sum(#[from] secure_sum::Error),
    /// From the parameters.
    #[error(transparent)]
    Ckks(#[from] ckks::Error),
    /// From the operating system.
    #[error(transparent)]
    Randomness(#[from] host::NoRandomness),
    /// Capacity: too many users dropped out. The noise is too small, so that nothing is opened.
    #[error("the sum has fewer users than the {need} that its noise is sized for")]
    TooFew {
        /// The least number of users.
        need: u32,
    },
    /// Misuse: a batch with fewer users than the operator demands.
    #[error("a batch of {got} users gets no key: the operator demands at least {need} (--at-least)")]
    FewerThanDemanded {
        /// The number of users of the batch.
        got: u32,
        /// The least number that the operator demands.
        need: u32,
    },
    /// Untrusted: a batch is opened once, because a second sum would reveal the difference. Its key is
    /// destroyed.
    #[error("batch {batch} was opened, and its key is destroyed")]
    Opened {
        /// The number of the batch.
        batch: u64,
    },
    /// Untrusted: the key was destroyed after too many refused requests.
    #[error("the key of batch {batch} was destroyed after {refusals} refused requests")]
    Destroyed {
        /// The number of the batch.
        batch: u64,
        /// The number of refused requests.
        refusals: u32,
    },
    /// Untrusted: numbers that are outside the range of sums.
    #[error("the total or the number of users is outside the range of sums of up to {max_users} users", max_users = MAX_USERS)]
    OutOfRange,
}

/// The secret key of one batch. It is zeroed when this is dropped.
pub struct Authority {
    params: Params,
    secret: SecretKey,
    public: PublicKey,
    id: KeyId,
}

impl Authority {
    /// Generates a key with 128-bit security.
    ///
    /// # Errors
    /// [`Error::Ckks`] if the parameters are not valid.
    pub fn generate<R: CryptoRng>(rng: &mut R) -> Result<Self, Error> {
        let params = LOGN12_LOGQP105_SUM.validate()?;
        let secret = SecretKey::generate(&params, rng);
        let public = ckks_secret::public_key(&secret, rng);
        let id = public.id(&params);
        Ok(Self { params, secret, public, id })
    }

    /// The parameters, for users and adder.
    pub const fn params(&self) -> &Params {
        &self.params
    }

    /// The public key, for users. The adder needs its [`id`](PublicKey::id).
    pub const fn public_key(&self) -> &PublicKey {
        &self.public
    }

    /// Decrypts the sum of a batch whose noise is sized for `at_least` users. It is exact up to
    /// [`MAX_TOTAL`].
    ///
    /// # Errors
    /// [`Error::Sum`] for bytes that are no ciphertext, [`Error::TooFew`], [`Error::OutOfRange`].
    pub fn open(&self, sum: &[u8], at_least: u32) -> Result<Sum, Error> {
        let sum = encrypted::read_sum(&self.params, self.id, sum)?;
        let slot = ckks_secret::decrypt(&self.secret, &sum, 1).with(|slots| slots[0]);
        let (total, users) = (slot.re.round() as i128, slot.im.round());
        if !(0.0..=MAX_USERS as f64).contains(&users) || total.abs() > MAX_TOTAL {
            return Err(Error::OutOfRange);
        }
        if users < f64::from(at_least) {
            return Err(Error::TooFew { need: at_least });
        }
        Ok(Sum { total, users: users as u64 })
    }
}
