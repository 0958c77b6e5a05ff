//! The key authority of an encrypted sum ([`secure_sum::encrypted`]): opens the sum of a batch, and nothing else.
//!
//! For whoever holds the secret key, which is neither the users nor the server: neither may depend on this crate.
//! Security is that of the scheme against a server that adds what it says: an authority cannot tell a sum from other
//! ciphertexts, and answers to those would give the key away bit by bit. Exactness keeps true sums harmless: what is
//! let out is the sum of the values, without the noise of the ciphertexts (Li, Micciancio 2021 show what that noise
//! would tell). Use a fresh key for each series of batches.

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
    /// Capacity: too many users dropped out. Their noise is too small, so nothing is let out.
    #[error("the sum is of fewer users than the {need} whose noise is needed")]
    TooFew {
        /// Users needed.
        need: u32,
    },
    /// Untrusted: a batch is opened once: two sums would give away their difference.
    #[error("batch {batch} has been opened for another sum")]
    Opened {
        /// The batch.
        batch: u64,
    },
    /// Capacity: the key has opened as many sums as it may.
    #[error("at most {limit} sums are opened under one key; start the authority afresh")]
    Full {
        /// The limit.
        limit: usize,
    },
    /// Untrusted: what no sum of a batch can be.
    #[error("not a sum of at most {max_users} users, or beyond what opens exactly", max_users = MAX_USERS)]
    OutOfRange,
}

/// Holds the secret key.
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

    /// For users and server.
    pub const fn params(&self) -> &Params {
        &self.params
    }

    /// For users; its [`id`](PublicKey::id) for the server.
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
