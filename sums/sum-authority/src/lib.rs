//! The key authority of an encrypted sum ([`secure_sum::encrypted`]): opens the sum of a batch, and nothing
//! else.
//!
//! For the party that holds the secret keys, which is neither a user nor the adder: neither may depend on
//! this crate.
//!
//! # What an answer tells of the key
//! An authority cannot tell a sum from other ciphertexts, and its answer is two linear forms of the secret,
//! which whoever made the ciphertext chose. With weights of 3^j an answer shows 28 of the 4096 coefficients,
//! 14 in the total and 14 in the number of users; 147 answers under one key show all of it
//! (`attack_one_key_for_all_batches_is_learnt`). So:
//! - **Each batch has a key of its own**, made when the adder announces the batch, and zeroed when its sum is
//!   opened: a key answers once.
//! - That answer has at most 2 * 2^34 + 1 totals and 2^24 numbers of users: 59 bits. Of the 6492 bits
//!   (4096 times log2 3) of the key at least 6433 are unknown afterwards; 59 bits are what 37 whole
//!   coefficients hold.
//! - A refusal says which of two checks failed, too few users or a number out of range. The
//!   [fourth](service::AuthorityLimits) destroys the key. Three refusals and an answer have below 2^63
//!   outcomes together: at most 63 bits, what 40 coefficients hold. Refusals of bytes that are no ciphertext
//!   follow from the bytes alone, and tell nothing of the key.
//!
//! # What `at_least` can mean
//! The number of users stands in the ciphertext, beside the total, and the adder can add to it what it likes.
//! That the authority demands `at_least` users protects from users who drop out, and not from an adder that
//! deviates: such an adder adds 1000 to the number of a single user's ciphertext and has it opened, once a
//! batch; or those of about three users, at different weights within the 59 bits. It learns their values with
//! each one's own part of the noise. The others of the batch stay hidden under a key that is gone. Whoever
//! cannot trust the adder with that uses two aggregators.
//!
//! Exactness keeps true sums harmless: what is let out is the sum of the values, without the noise of the
//! ciphertexts (Li, Micciancio 2021 show what that noise would tell).

pub mod service;

use ckks::{KeyId, Params, PublicKey};
use ckks_secret::SecretKey;
use rand::CryptoRng;
use secure_sum::Sum;
use secure_sum::encrypted::{self, LOGN12_LOGQP105_SUM, MAX_TOTAL, MAX_USERS};

/// Why a sum was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Untrusted: no ciphertext under this key.
    #[error(transparent)]
    Sum(#[from] secure_sum::Error),
    /// From the parameters.
    #[error(transparent)]
    Ckks(#[from] ckks::Error),
    /// From the operating system.
    #[error(transparent)]
    Randomness(#[from] host::NoRandomness),
    /// Capacity: too many users dropped out. Their noise is too small, so nothing is let out.
    #[error("the sum is of fewer users than the {need} whose noise is needed")]
    TooFew {
        /// Users needed.
        need: u32,
    },
    /// Misuse: batches of so few users are not opened here.
    #[error("batches of {got} users get no key here, whose operator demands {need} (--at-least)")]
    FewerThanDemanded {
        /// Users of the batch.
        got: u32,
        /// Users that the operator demands.
        need: u32,
    },
    /// Untrusted: a batch is opened once, and its key is gone: a second sum would give away the difference.
    #[error("batch {batch} has been opened, and its key destroyed")]
    Opened {
        /// The batch.
        batch: u64,
    },
    /// Untrusted: the key was destroyed after too many requests that were no sums.
    #[error(
        "the key of batch {batch} was destroyed after {refusals} requests for what is no sum of enough users"
    )]
    Destroyed {
        /// The batch.
        batch: u64,
        /// Requests that were refused.
        refusals: u32,
    },
    /// Untrusted: what no sum of a batch can be.
    #[error("not a sum of at most {max_users} users, or beyond what opens exactly", max_users = MAX_USERS)]
    OutOfRange,
}

/// Holds the secret key of one batch, which is zeroed when this is dropped.
pub struct Authority {
    params: Params,
    secret: SecretKey,
    public: PublicKey,
    id: KeyId,
}

impl Authority {
    /// With a fresh key of 128-bit security.
    ///
    /// # Errors
    /// [`Error::Ckks`] if the parameters cannot be had.
    pub fn generate<R: CryptoRng>(rng: &mut R) -> Result<Self, Error> {
        let params = LOGN12_LOGQP105_SUM.validate()?;
        let secret = SecretKey::generate(&params, rng);
        let public = ckks_secret::public_key(&secret, rng);
        let id = public.id(&params);
        Ok(Self { params, secret, public, id })
    }

    /// For users and adder.
    pub const fn params(&self) -> &Params {
        &self.params
    }

    /// For users; its [`id`](PublicKey::id) for the adder.
    pub const fn public_key(&self) -> &PublicKey {
        &self.public
    }

    /// The sum of a batch whose noise is sized for `at_least` users. Exact up to [`MAX_TOTAL`].
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
