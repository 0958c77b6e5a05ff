//! The key authority of an encrypted sum ([`secure_sum::encrypted`]): it decrypts the sum of a batch, and
//! nothing else.
//!
//! For the party that holds the secret keys, which is neither a user nor the adder. Neither of them may
//! depend on this crate.
//!
//! # What an answer reveals about the key
//! An authority cannot distinguish a sum from other ciphertexts. Its answer is two linear forms of the secret
//! key, and the sender of the ciphertext chooses them. Ciphertexts whose coefficients are next to where
//! rounding changes, and whose c₁ is a small multiple of a power of X, reveal two bits of the 1024 ternary
//! coefficients an answer, in the number of users: 1024 answers under one key reveal all of it
//! (`attack_one_key_for_all_batches_is_learnt`). Therefore:
//! - **Each batch has a key of its own.** It is generated when the adder announces the batch, and zeroed when
//!   its sum is opened, so that it gives one answer.
//! - This answer is one of at most 2 * 2^34 + 1 totals and 2^16 + 1 numbers of users, which is 51 bits. The
//!   key has 1623 bits (1024 times log2 3), of which at least 1571 remain unknown. In the larger ring it is
//!   59 of 3246 bits.
//! - A refusal reveals which of two checks failed, the number of users or the range. The [fourth
//!   refusal](service::AuthorityLimits) destroys the key. Three refusals and an answer have fewer than 2^55
//!   outcomes together (2^63 in the larger ring), so that they reveal at most 55 bits, the content of 35
//!   coefficients. A ring of degree 1024 - 35 with 25 bits keeps the ratio of degree and modulus that the
//!   table allows for 1024 and 26 bits (an estimate: known coefficients shorten the lattice by as many).
//!   Refusals of bytes that are no ciphertext depend on the bytes only, and reveal nothing about the key.
//!
//! # What `at_least` protects against
//! The number of users is in the ciphertext beside the total, and the adder can change it. The least number
//! `at_least` therefore protects against users who drop out, and not against an adder that deviates. Such an
//! adder adds 1000 to the number in the ciphertext of a single user and has it opened, once per batch, or it
//! combines a few users with different weights within the bits of an answer. It learns their values with each
//! user's own part of the noise. The other values of the batch stay hidden under a destroyed key. If the
//! adder cannot be trusted with this, use two aggregators.
//!
//! A true sum reveals nothing about the key, because the answer is exact: it does not contain the noise of
//! the ciphertexts (Li, Micciancio 2021 show what that noise would reveal). It is rounded off, so that there
//! is nothing to flood.

pub mod service;

use ckks::{KeyId, PublicKey};
use ckks_secret::SecretKey;
use rand::CryptoRng;
use secure_sum::Sum;
use secure_sum::encrypted::{self, MAX_TOTAL, SumRing};

/// The reason why a sum was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Untrusted: bytes that are no ciphertext under this key, or a batch that is not announced.
    #[error(transparent)]
    Sum(#[from] secure_sum::Error),
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
    #[error("the total is above {max_total} in absolute value, or more users are counted than the ring of the batch holds", max_total = MAX_TOTAL)]
    OutOfRange,
}

/// The secret key of one batch. It is zeroed when this is dropped.
pub struct Authority {
    ring: &'static SumRing,
    secret: SecretKey,
    public: PublicKey,
    id: KeyId,
}

impl Authority {
    /// Generates a key with 128-bit security.
    pub fn generate<R: CryptoRng>(ring: &'static SumRing, rng: &mut R) -> Self {
        let secret = SecretKey::generate(ring.params(), rng);
        let public = ckks_secret::public_key(&secret, rng);
        let id = public.id(ring.params());
        Self { ring, secret, public, id }
    }

    /// The ring, for users and adder.
    pub const fn ring(&self) -> &'static SumRing {
        self.ring
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
        let sum = encrypted::read_sum(self.ring, self.id, sum)?;
        let coefficients = ckks_secret::decrypt_coefficients(&self.secret, &sum);
        let sum = coefficients.with(|c| self.ring.decode(c)).ok_or(Error::OutOfRange)?;
        if sum.users < u64::from(at_least) {
            return Err(Error::TooFew { need: at_least });
        }
        Ok(sum)
    }
}
