//! Sums on ciphertexts: users encrypt their values, the adder adds the ciphertexts, and a key authority
//! decrypts the sum only.
//!
//! The sums are exact although CKKS is approximate. A value is the constant coefficient at scale `2^27`. The
//! noise of a sum stays below half a step, and rounding removes it. Another coefficient is 1 for each user
//! and counts the users, so that the authority knows whether the noise of the users is sufficient.
//!
//! - Exactness: for values up to [`MAX_VALUE`] and totals up to [`MAX_TOTAL`] in absolute value, and up to
//!   [`MAX_USERS`] users. A fresh error has a standard deviation of 237, so that the error of a sum has one
//!   below `2^20`, a 64th of half a step. A total is at most `2^61`, and the modulus allows `2^62`.
//! - Trust: adder and authority must not collude, because together they can decrypt every value, and the
//!   adder must follow the protocol. An adder that deviates can have one number of its choice opened per
//!   batch, such as the value of a single user. The authority cannot detect this, because the adder can also
//!   change the count in the ciphertext. Each batch has a key of its own, which is destroyed when its sum is
//!   opened, so that answers do not add up to a key; the crate `sum-authority` states how much one answer
//!   reveals. Where one value is too much, use the two aggregators. They check the set of users themselves,
//!   and take a thousandth of the bytes.
//! - Cost: [`encrypted_bytes`] bytes per user, about 65 kB.

use crate::Error;
use crate::register::Register;
use crate::share::{BatchId, ReportId, Sum};
use ckks::{
    Ciphertext, EvaluationKeys, Evaluator, KeyId, Params, ParamsSpec, Plaintext, PublicKey, Security,
};
use num_complex::Complex64;
use rand::CryptoRng;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// One level of 27 bits above 36: log₂(QP) = 105 at N = 2¹², where 106 are allowed.
pub const LOGN12_LOGQP105_SUM: ParamsSpec = ParamsSpec {
    name: "sum-logn12-logqp105",
    log_n: 12,
    log_q0: 36,
    depth: 1,
    log_scale: 27,
    log_p: &[42],
    products: ckks::Products::Rescaled,
    security: Security::Classical128,
};

/// The largest absolute value of a user.
pub const MAX_VALUE: i128 = 1 << 30;
/// The largest absolute value of a total.
pub const MAX_TOTAL: i128 = 1 << 34;
/// The most users of one sum.
pub const MAX_USERS: u64 = 1 << 24;
/// The level of all ciphertexts, which is the top level.
const LEVEL: usize = 1;

/// The bytes of one encrypted value, and of a sum.
pub fn encrypted_bytes(params: &Params) -> usize {
    ckks::ciphertext_bytes(params, LEVEL, false)
}

/// User side: encrypts `value` under the public key of the batch.
///
/// # Errors
/// [`Error::ValueTooLarge`] above [`MAX_VALUE`]; the user then drops out. [`Error::Ckks`] under other
/// parameters.
pub fn encrypt<R: CryptoRng>(
    params: &Params,
    key: &PublicKey,
    value: i128,
    rng: &mut R,
) -> Result<Vec<u8>, Error> {
    if value.abs() > MAX_VALUE {
        return Err(Error::ValueTooLarge);
    }
    // One slot holds two coefficients: the constant one is the real part, the count is the imaginary part.
    let message = Plaintext::encode(params, &[Complex64::new(value as f64, 1.0)], LEVEL)?;
    Ok(ckks::write_ciphertext(params, key.id(params), &ckks::encrypt(params, key, &message, rng)))
}

/// Adder side: a sum of ciphertexts.
#[derive(Debug)]
pub struct Adder {
    evaluator: Evaluator,
    key: KeyId,
    sum: Ciphertext,
}

impl Adder {
    /// An empty sum of values under the key `key`.
    pub fn new(params: &Params, key: KeyId) -> Self {
        let evaluator = Evaluator::new(params.clone(), EvaluationKeys::default());
        Self { evaluator, key, sum: Ciphertext::zero(params, LEVEL) }
    }

    /// Adds the value of one user. The caller must add each user once.
    ///
    /// # Errors
    /// [`Error::Ckks`] for bytes that are no ciphertext under this key. The sum is then unchanged.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let value = ckks::read_ciphertext(self.evaluator.params(), self.key, LEVEL, bytes)?;
        Ok(self.evaluator.add_assign(&mut self.sum, &value)?)
    }

    /// The frame of the sum so far, for the authority.
    pub fn to_bytes(&self) -> Vec<u8> {
        ckks::write_ciphertext(self.evaluator.params(), self.key, &self.sum)
    }
}

/// Adder side: the batches in memory, each with a key of its own. A batch is closed once, with all values
/// that have arrived, and accepts no further value, so that no two sums reveal their difference.
#[derive(Debug)]
pub struct Server {
    params: Params,
    batches: Register<State>,
}

#[derive(Debug)]
enum State {
    /// The sum, and the digests of its values.
    Adding { values: BTreeMap<ReportId, blake3::Hash>, adder: Box<Adder> },
    /// The frame of the sum, still encrypted.
    Closed(Vec<u8>),
}

impl State {
    const fn spent(&self) -> bool {
        matches!(self, Self::Closed(_))
    }
}

impl Server {
    /// An adder of at most `limit` batches, closed ones included, which are deleted after `age`. Each takes
    /// about 130 kB, and 50 bytes per user.
    pub fn new(params: &Params, limit: usize, age: Duration) -> Self {
        Self { params: params.clone(), batches: Register::new(limit, age) }
    }

    /// The parameters of values and sums.
    pub const fn params(&self) -> &Params {
        &self.params
    }

    /// Whether `batch` is announced.
    pub fn knows(&mut self, batch: BatchId, now: Instant) -> bool {
        self.batches.get(batch, now).is_ok()
    }

    /// Accepts values under `key` for `batch` from now on. Announcing it again changes nothing.
    ///
    /// # Errors
    /// [`Error::Announced`], [`Error::Used`], [`Error::Full`] as [`Register::announce`].
    pub fn announce(&mut self, batch: BatchId, key: KeyId, now: Instant) -> Result<(), Error> {
        let adder = || Box::new(Adder::new(&self.params, key));
        let new = || Ok(State::Adding { values: BTreeMap::new(), adder: adder() });
        self.batches.announce(batch, now, State::spent, drop, new)
    }

    /// Adds the value of a user under a random id. The same value counts once, however often it is sent.
    ///
    /// # Errors
    /// [`Error::NotAnnounced`], [`Error::Ckks`] for bytes that are no ciphertext under the batch's key,
    /// [`Error::Closed`], [`Error::Duplicate`], [`Error::Full`]. The state is then unchanged.
    pub fn submit(&mut self, batch: BatchId, id: ReportId, value: &[u8], now: Instant) -> Result<(), Error> {
        let State::Adding { values, adder } = self.batches.get(batch, now)? else {
            return Err(Error::Closed { batch: batch.number });
        };
        let digest = blake3::hash(value);
        match values.get(&id) {
            Some(held) if *held == digest => return Ok(()),
            Some(_) => return Err(Error::Duplicate { batch: batch.number }),
            None if values.len() as u64 >= MAX_USERS => {
                return Err(Error::Full { what: "users", limit: MAX_USERS as usize });
            }
            None => {}
        }
        adder.add(value)?;
        values.insert(id, digest);
        Ok(())
    }

    /// Closes `batch` and returns the frame of its sum, for the authority. Each call returns the same frame.
    ///
    /// # Errors
    /// [`Error::NotAnnounced`]; [`Error::TooFew`], after which the batch still accepts values.
    pub fn close(&mut self, batch: BatchId, now: Instant) -> Result<&[u8], Error> {
        let state = self.batches.get(batch, now)?;
        if let State::Adding { values, adder } = state {
            if (values.len() as u64) < u64::from(batch.at_least) {
                return Err(Error::TooFew { got: values.len() as u64, need: batch.at_least.into() });
            }
            *state = State::Closed(adder.to_bytes());
        }
        match state {
            State::Closed(sum) => Ok(sum),
            State::Adding { .. } => Err(Error::NotClosed { batch: batch.number }), // closed above
        }
    }
}

/// The bytes of an opened sum: total and number of users, little endian.
pub const SUM_BYTES: usize = 24;

/// The bytes of an opened sum.
pub fn write_opened(sum: &Sum) -> [u8; SUM_BYTES] {
    let mut out = [0; SUM_BYTES];
    out[..16].copy_from_slice(&sum.total.to_le_bytes());
    out[16..].copy_from_slice(&sum.users.to_le_bytes());
    out
}

/// Reads the bytes of [`write_opened`].
///
/// # Errors
/// [`Error::Malformed`] for another length.
pub fn read_opened(bytes: &[u8]) -> Result<Sum, Error> {
    let cut = Error::Malformed { what: "not an opened sum" };
    match (bytes.len(), bytes.first_chunk(), bytes.last_chunk()) {
        (SUM_BYTES, Some(total), Some(users)) => {
            Ok(Sum { total: i128::from_le_bytes(*total), users: u64::from_le_bytes(*users) })
        }
        _ => Err(cut),
    }
}

/// Authority side: reads the frame of a sum.
///
/// # Errors
/// [`Error::Ckks`] for bytes that are no ciphertext under this key.
pub fn read_sum(params: &Params, key: KeyId, bytes: &[u8]) -> Result<Ciphertext, Error> {
    Ok(ckks::read_ciphertext(params, key, LEVEL, bytes)?)
}
