//! The same sum on ciphertexts: users encrypt their values, the server adds, a key authority opens the sum
//! alone.
//!
//! An additive use of the approximate scheme that is exact: a value stands at scale `2^27` in the constant
//! coefficient, where the noise of a sum stays below half a step, and rounding takes it away. A one in
//! another coefficient counts users, so that the authority sees whether their noise is enough.
//!
//! - Exact for values up to [`MAX_VALUE`], totals up to [`MAX_TOTAL`] in size and [`MAX_USERS`] users. A
//!   fresh error has a standard deviation of 237, so that of a sum is below `2^20`, a 64th of the half step
//!   that would be wrong; totals stand at `2^61` of `2^62`.
//! - Trust: adder and authority do not collude, and the adder follows the protocol. Together they read every
//!   value. An adder that hands the authority something other than a sum has one number of its choice opened,
//!   such as the value of a single user: the authority cannot tell, since the number of users stands in the
//!   ciphertext too, where the adder writes what it likes. Each batch has a key of its own, which is
//!   destroyed when its sum is opened, so that the key is not learnt answer by answer (crate `sum-authority`
//!   says how much one answer tells). If one value is too much, use the two aggregators, which check the set
//!   of users themselves and move a thousandth of the bytes.
//! - Cost: [`encrypted_bytes`] bytes a user, about 65 kB.

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

/// Size of a value, at most.
pub const MAX_VALUE: i128 = 1 << 30;
/// Size of a total, at most.
pub const MAX_TOTAL: i128 = 1 << 34;
/// Users in one sum, at most.
pub const MAX_USERS: u64 = 1 << 24;
/// Ciphertexts stand at the top.
const LEVEL: usize = 1;

/// Bytes of one encrypted value, and of a sum.
pub fn encrypted_bytes(params: &Params) -> usize {
    ckks::ciphertext_bytes(params, LEVEL, false)
}

/// User side: `value` under the authority's public key.
///
/// # Errors
/// [`Error::ValueTooLarge`] above [`MAX_VALUE`]; the user then drops out. [`Error::Ckks`] for other
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

/// Server side: adds up what it cannot read.
#[derive(Debug)]
pub struct Adder {
    evaluator: Evaluator,
    key: KeyId,
    sum: Ciphertext,
}

impl Adder {
    /// For values under the key of that name.
    pub fn new(params: &Params, key: KeyId) -> Self {
        let evaluator = Evaluator::new(params.clone(), EvaluationKeys::default());
        Self { evaluator, key, sum: Ciphertext::zero(params, LEVEL) }
    }

    /// Adds one user's value. Each user must be added once.
    ///
    /// # Errors
    /// [`Error::Ckks`] for bytes that are no ciphertext under this key; the sum is then unchanged.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let value = ckks::read_ciphertext(self.evaluator.params(), self.key, LEVEL, bytes)?;
        Ok(self.evaluator.add_assign(&mut self.sum, &value)?)
    }

    /// The sum so far, for the authority.
    pub fn to_bytes(&self) -> Vec<u8> {
        ckks::write_ciphertext(self.evaluator.params(), self.key, &self.sum)
    }
}

/// Adder side: the sums under way, in memory. A batch is closed once, for all whose values came; then it
/// takes no more, so that no two sums give away their difference. Each batch has a key of its own.
#[derive(Debug)]
pub struct Server {
    params: Params,
    batches: Register<State>,
}

#[derive(Debug)]
enum State {
    /// Digests of the values that are in the sum.
    Adding { values: BTreeMap<ReportId, blake3::Hash>, adder: Box<Adder> },
    /// The sum, still encrypted.
    Closed(Vec<u8>),
}

impl State {
    const fn spent(&self) -> bool {
        matches!(self, Self::Closed(_))
    }
}

impl Server {
    /// Keeps `limit` batches, closed ones included, each for at most `age`: about 130 kB each, and 50 bytes a
    /// user.
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

    /// Takes values under `key` for `batch` from now on. Announcing it again changes nothing.
    ///
    /// # Errors
    /// [`Error::Announced`], [`Error::Used`], [`Error::Full`] as [`Register::room`].
    pub fn announce(&mut self, batch: BatchId, key: KeyId, now: Instant) -> Result<(), Error> {
        if self.batches.room(batch, now, State::spent, drop)? {
            let adder = Box::new(Adder::new(&self.params, key));
            self.batches.keep(batch, now, State::Adding { values: BTreeMap::new(), adder });
        }
        Ok(())
    }

    /// Adds a user's value, under a random id. Sending it twice counts it once.
    ///
    /// # Errors
    /// [`Error::NotAnnounced`], [`Error::Ckks`] for bytes that are no ciphertext under the batch's key,
    /// [`Error::Closed`], [`Error::Duplicate`], [`Error::Full`]; the state is then unchanged.
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

    /// The sum of all values of `batch`, for the authority; the same each time.
    ///
    /// # Errors
    /// [`Error::NotAnnounced`]; [`Error::TooFew`]: the batch then still takes values.
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

/// Bytes of an opened sum: total and users, little endian.
pub const SUM_BYTES: usize = 24;

/// An opened sum as it travels.
pub fn write_opened(sum: &Sum) -> [u8; SUM_BYTES] {
    let mut out = [0; SUM_BYTES];
    out[..16].copy_from_slice(&sum.total.to_le_bytes());
    out[16..].copy_from_slice(&sum.users.to_le_bytes());
    out
}

/// The sum that [`write_opened`] wrote.
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

/// Authority side: reads a sum, still encrypted.
///
/// # Errors
/// [`Error::Ckks`] for bytes that are no ciphertext under this key.
pub fn read_sum(params: &Params, key: KeyId, bytes: &[u8]) -> Result<Ciphertext, Error> {
    Ok(ckks::read_ciphertext(params, key, LEVEL, bytes)?)
}
