//! The same sum on ciphertexts: users encrypt their values, the server adds, a key authority opens the sum alone.
//!
//! An additive use of the approximate scheme that is exact: a value stands at scale `2^27` in the constant coefficient,
//! where the noise of a sum stays below half a step, and rounding takes it away. A one in another coefficient counts
//! users, so that the authority sees whether their noise is enough.
//!
//! - Exact for values up to [`MAX_VALUE`], totals up to [`MAX_TOTAL`] in size and [`MAX_USERS`] users. A fresh error has
//!   a standard deviation of 237, so that of a sum is below `2^20`, a 64th of the half step that would be wrong; totals
//!   stand at `2^61` of `2^62`.
//! - Trust: server and authority do not collude, and the server adds what it says. Authority and server together read
//!   every value; a server that hands the authority something else than a sum can learn the key. Where that is too much,
//!   take the two aggregators, who check the set of users themselves and move a thousandth of the bytes.
//! - Cost: [`encrypted_bytes`] bytes a user, about 65 kB.

use crate::Error;
use ckks::{
    Ciphertext, EvaluationKeys, Evaluator, KeyId, Params, ParamsSpec, Plaintext, PublicKey, Security,
};
use num_complex::Complex64;
use rand::CryptoRng;

/// One level of 27 bits above 36: log₂(QP) = 105 at N = 2¹², where 106 are allowed.
pub const LOGN12_LOGQP105_SUM: ParamsSpec = ParamsSpec {
    name: "sum-logn12-logqp105",
    log_n: 12,
    log_q0: 36,
    depth: 1,
    log_scale: 27,
    log_p: &[42],
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
/// [`Error::Field`] above [`MAX_VALUE`]; the user then drops out. [`Error::Ckks`] for other parameters.
pub fn encrypt<R: CryptoRng>(
    params: &Params,
    key: &PublicKey,
    value: i128,
    rng: &mut R,
) -> Result<Vec<u8>, Error> {
    if value.abs() > MAX_VALUE {
        // The value itself is nobody's business.
        return Err(Error::Field { field: "value", got: f64::INFINITY, want: "at most 2^30 in size" });
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

/// Authority side: reads a sum, still encrypted.
///
/// # Errors
/// [`Error::Ckks`] for bytes that are no ciphertext under this key.
pub fn read_sum(params: &Params, key: KeyId, bytes: &[u8]) -> Result<Ciphertext, Error> {
    Ok(ckks::read_ciphertext(params, key, LEVEL, bytes)?)
}
