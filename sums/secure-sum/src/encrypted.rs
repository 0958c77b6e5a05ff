//! Sums on ciphertexts: users encrypt their values, the adder adds the ciphertexts, and a key authority
//! decrypts the sum only.
//!
//! A ciphertext carries a value by its residues modulo small coprime numbers t, as BFV does: a coefficient is
//! the residue times q/t, rounded at random, so that sums wrap modulo t. The residues of the sum give the sum
//! of integers. Further residues are those of 1 for each user and count the users, so that the authority
//! knows whether the noise of the users is sufficient. The other coefficients of c₀ are not sent.
//!
//! - Exactness: for values up to [`MAX_VALUE`] and totals up to [`MAX_TOTAL`] in absolute value, and up to
//!   [`SumRing::max_users`] users. The error of a sum of so many users has a standard deviation below a tenth
//!   of half a step q/t, so that rounding fails with probability 2⁻⁷⁵ a coefficient. The residues determine
//!   every total that so many values can have; larger totals than [`MAX_TOTAL`] are refused.
//! - Trust: adder and authority must not collude, because together they can decrypt every value, and the
//!   adder must follow the protocol. An adder that deviates can have one number of its choice opened per
//!   batch, such as the value of a single user. The authority cannot detect this, because the adder can also
//!   change the count in the ciphertext. Each batch has a key of its own, which is destroyed when its sum is
//!   opened, so that answers do not add up to a key; the crate `sum-authority` states how much one answer
//!   reveals. Where one value is too much, use the two aggregators. They check the set of users themselves,
//!   and take a fiftieth of the bytes.
//! - What the authority learns: the sum, the number of users, and the errors of the residues of the sum.
//!   These are independent of the values: the noise of encryption is, and the random rounding has a Gaussian
//!   of standard deviation √5 steps of the ciphertext, so that the distribution of its error is the same for
//!   all values within e^(−2π²·5) = 2⁻¹⁴² (Poisson summation). Rounding to the nearest integer would not do:
//!   all users of one value would have the same error.
//! - Cost: [`SumRing::value_bytes`] bytes per user, 3326 up to 2¹⁵ expected users and 12 913 above. c₁ is all
//!   but 126 of the 3326: under the public key it is no expansion of a seed, and a secret key for users,
//!   which would make it one, would let any of them decrypt with the adder.

use crate::Error;
use crate::register::Register;
use crate::share::{BatchId, ReportId, Sum};
use ckks::{Ciphertext, EvaluationKeys, Evaluator, KeyId, Params, ParamsSpec, Plaintext, PublicKey};
use fault::OutOfRange;
use privacy::Ratio;
use privacy::sampler::discrete_gaussian;
use rand::CryptoRng;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The largest absolute value of a user.
pub const MAX_VALUE: i128 = 1 << 30;
/// The largest absolute value of a total.
pub const MAX_TOTAL: i128 = 1 << 34;
/// The level of all ciphertexts, the only one.
const LEVEL: usize = 0;
/// The variance of the random rounding, in steps of a ciphertext.
const ROUNDING_VARIANCE: u64 = 5;

/// The ring that the ciphertexts of a batch are in, with the residues that they carry.
#[derive(Debug)]
pub struct SumRing {
    params: Params,
    max_users: u64,
    /// The odd, coprime moduli of the total.
    total: &'static [u64],
    /// The odd, coprime moduli of the number of users.
    users: &'static [u64],
}

/// Parameters, the most users, the moduli of the total and those of the number of users.
type Description = (ParamsSpec, u64, &'static [u64], &'static [u64]);

const RINGS: [Description; 2] = [
    (ckks::LOGN10_LOGQ25_SUM, 1 << 16, &[55, 53, 51, 49, 47, 43, 41, 37, 31], &[55, 53, 51]),
    (ckks::LOGN11_LOGQ50_SUM, 1 << 24, &[(1 << 26) - 1, (1 << 26) - 3, (1 << 26) - 5], &[(1 << 26) - 1]),
];

impl SumRing {
    /// The smallest ring for batches of which `users` users are expected. It has room for twice as many.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] above 2²³ users, whose sum could overflow.
    pub fn for_users(users: u32) -> Result<&'static Self, Error> {
        static MADE: [OnceLock<SumRing>; 2] = [const { OnceLock::new() }; 2];
        let index = RINGS.iter().position(|(_, max, ..)| u64::from(users) <= max / 2);
        let Some(index) = index else {
            return Err(OutOfRange::new("users", users, "at most 2^23 for a sum on ciphertexts").into());
        };
        if let Some(ring) = MADE[index].get() {
            return Ok(ring);
        }
        let (spec, max_users, total, users) = RINGS[index];
        let ring = Self { params: spec.validate()?, max_users, total, users };
        Ok(MADE[index].get_or_init(|| ring))
    }

    /// The parameters of keys and ciphertexts.
    pub const fn params(&self) -> &Params {
        &self.params
    }

    /// The most users of one sum.
    pub const fn max_users(&self) -> u64 {
        self.max_users
    }

    /// The bytes of one encrypted value, and of a sum.
    pub fn value_bytes(&self) -> usize {
        ckks::truncated_ciphertext_bytes(&self.params, LEVEL, self.coefficients())
    }

    /// The bytes of a public key: a seed and half a ciphertext.
    pub fn key_bytes(&self) -> usize {
        ckks::ciphertext_bytes(&self.params, LEVEL, true)
    }

    /// The number of coefficients of c₀ that are sent.
    const fn coefficients(&self) -> usize {
        self.total.len() + self.users.len()
    }

    fn q(&self) -> i128 {
        self.params.prime(LEVEL).into()
    }

    /// The coefficients of a value of one user, rounded at random.
    fn encode<R: CryptoRng>(&self, value: i128, rng: &mut R) -> Result<Vec<i64>, Error> {
        self.encode_with(value, |t| discrete_gaussian(rng, Ratio::integer(ROUNDING_VARIANCE * t.pow(2))))
    }

    /// As [`encode`](Self::encode). `noise(t)` is added before the division by t that is rounded.
    fn encode_with(
        &self,
        value: i128,
        mut noise: impl FnMut(u64) -> Result<i128, privacy::Error>,
    ) -> Result<Vec<i64>, Error> {
        let values = self.total.iter().map(|t| (t, value)).chain(self.users.iter().map(|t| (t, 1)));
        values
            .map(|(&t, value)| {
                let (noise, t) = (noise(t)?, i128::from(t));
                // A residue from -t/2 to t/2, and a quotient below q, which is below 2^50.
                let residue = (value + t / 2).rem_euclid(t) - t / 2;
                Ok((self.q() * residue + noise + t / 2).div_euclid(t) as i64)
            })
            .collect()
    }

    /// Authority side: the total and the number of users in the decrypted coefficients of a sum, centred
    /// modulo q. `None` if one is out of its range.
    pub fn decode(&self, coefficients: &[i128]) -> Option<Sum> {
        let residues = |moduli: &[u64], coefficients: &[i128]| {
            let pairs = moduli.iter().map(|t| i128::from(*t)).zip(coefficients);
            combine(pairs.map(|(t, c)| ((c * t + self.q() / 2).div_euclid(self.q()), t)))
        };
        let (of_total, of_users) = coefficients.split_at_checked(self.total.len())?;
        let (total, modulus) = residues(self.total, of_total);
        let total = if total > modulus / 2 { total - modulus } else { total };
        let users = u64::try_from(residues(self.users, of_users).0).ok()?;
        (total.abs() <= MAX_TOTAL && users <= self.max_users).then_some(Sum { total, users })
    }
}

/// The number from 0 that has these residues, each with its modulus, and the product of the moduli, which are
/// coprime and have at most 80 bits together: Garner's algorithm.
fn combine(residues: impl Iterator<Item = (i128, i128)>) -> (i128, i128) {
    residues.fold((0, 1), |(value, product), (residue, t)| {
        let digit = (residue - value).rem_euclid(t) * inverse(product.rem_euclid(t), t) % t;
        (value + product * digit, product * t)
    })
}

/// The inverse of `a` modulo `t`, to which it is coprime, by Euclid's algorithm.
const fn inverse(a: i128, t: i128) -> i128 {
    let (mut r, mut x) = ((t, a), (0, 1));
    while r.1 != 0 {
        let quotient = r.0 / r.1;
        r = (r.1, r.0 - quotient * r.1);
        x = (x.1, x.0 - quotient * x.1);
    }
    x.0.rem_euclid(t)
}

/// The bytes of an encrypted value in the largest ring.
///
/// # Errors
/// [`Error::Ckks`] if the parameters are not valid.
pub fn max_value_bytes() -> Result<usize, Error> {
    RINGS
        .iter()
        .try_fold(0, |most, (_, max, ..)| Ok(most.max(SumRing::for_users((max / 2) as u32)?.value_bytes())))
}

/// User side: encrypts `value` under the public key of the batch.
///
/// # Errors
/// [`Error::ValueTooLarge`] above [`MAX_VALUE`]; the user then drops out. [`Error::Privacy`] as
/// [`discrete_gaussian`].
pub fn encrypt<R: CryptoRng>(
    ring: &SumRing,
    key: &PublicKey,
    value: i128,
    rng: &mut R,
) -> Result<Vec<u8>, Error> {
    if value.unsigned_abs() > MAX_VALUE.unsigned_abs() {
        return Err(Error::ValueTooLarge);
    }
    let (params, coefficients) = (&ring.params, ring.encode(value, rng)?);
    let message = Plaintext::from_integers(params, &coefficients, LEVEL, params.scale(LEVEL))?;
    let ciphertext = ckks::encrypt(params, key, &message, rng);
    Ok(ckks::write_truncated_ciphertext(params, key.id(params), &ciphertext, ring.coefficients()))
}

/// Adder side: a sum of ciphertexts.
#[derive(Debug)]
pub struct Adder {
    ring: &'static SumRing,
    evaluator: Evaluator,
    key: KeyId,
    sum: Ciphertext,
}

impl Adder {
    /// An empty sum of values under the key `key`.
    pub fn new(ring: &'static SumRing, key: KeyId) -> Self {
        let evaluator = Evaluator::new(ring.params.clone(), EvaluationKeys::default());
        Self { ring, evaluator, key, sum: Ciphertext::zero(&ring.params, LEVEL) }
    }

    /// Adds the value of one user. The caller must add each user once, and [`SumRing::max_users`] at most.
    ///
    /// # Errors
    /// [`Error::Ckks`] for bytes that are no value of this ring under this key. The sum is then unchanged.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let value = read_sum(self.ring, self.key, bytes)?;
        Ok(self.evaluator.add_assign(&mut self.sum, &value)?)
    }

    /// The frame of the sum so far, for the authority.
    pub fn to_bytes(&self) -> Vec<u8> {
        let count = self.ring.coefficients();
        ckks::write_truncated_ciphertext(&self.ring.params, self.key, &self.sum, count)
    }
}

/// Adder side: the batches in memory, each with a key of its own. A batch is closed once, with all values
/// that have arrived, and accepts no further value, so that no two sums reveal their difference.
#[derive(Debug)]
pub struct Server {
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
    /// at most 40 kB, and 50 bytes per user.
    pub fn new(limit: usize, age: Duration) -> Self {
        Self { batches: Register::new(limit, age) }
    }

    /// Whether `batch` is announced.
    pub fn knows(&mut self, batch: BatchId, now: Instant) -> bool {
        self.batches.get(batch, now).is_ok()
    }

    /// Accepts values under `key` for `batch` from now on. Announcing it again changes nothing.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] as [`SumRing::for_users`]; [`Error::Announced`], [`Error::Used`],
    /// [`Error::Full`] as [`Register::announce`].
    pub fn announce(&mut self, batch: BatchId, key: KeyId, now: Instant) -> Result<(), Error> {
        let ring = SumRing::for_users(batch.at_least)?;
        let adder = || Box::new(Adder::new(ring, key));
        let new = || Ok(State::Adding { values: BTreeMap::new(), adder: adder() });
        self.batches.announce(batch, now, State::spent, drop, new)
    }

    /// Adds the value of a user under a random id. The same value counts once, however often it is sent.
    ///
    /// # Errors
    /// [`Error::NotAnnounced`], [`Error::Ckks`] for bytes that are no value under the batch's key,
    /// [`Error::Closed`], [`Error::Duplicate`]; [`Error::Full`] at [`SumRing::max_users`]. The state is then
    /// unchanged.
    pub fn submit(&mut self, batch: BatchId, id: ReportId, value: &[u8], now: Instant) -> Result<(), Error> {
        let State::Adding { values, adder } = self.batches.get(batch, now)? else {
            return Err(Error::Closed { batch: batch.number });
        };
        let digest = blake3::hash(value);
        match values.get(&id) {
            Some(held) if *held == digest => return Ok(()),
            Some(_) => return Err(Error::Duplicate { batch: batch.number }),
            None if values.len() as u64 >= adder.ring.max_users => {
                return Err(Error::Full { what: "users", limit: adder.ring.max_users as usize });
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

/// Reads the frame of a value or of a sum.
///
/// # Errors
/// [`Error::Ckks`] for bytes that are none of this ring under this key.
pub fn read_sum(ring: &SumRing, key: KeyId, bytes: &[u8]) -> Result<Ciphertext, Error> {
    let scale = ring.params.scale(LEVEL);
    Ok(ckks::read_truncated_ciphertext(&ring.params, key, LEVEL, scale, ring.coefficients(), bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    const LARGEST: [u32; 2] = [1 << 15, 1 << 23];

    /// The residues tell all totals and numbers of users apart that a batch can have, and half a step is ten
    /// standard deviations of the error of the most users: 3.2²·(4N/3 + 1) from encryption, and the rounding.
    #[test]
    fn rings_hold_what_they_promise() {
        for most in LARGEST {
            let ring = SumRing::for_users(most).unwrap();
            assert_eq!(ring.max_users, 2 * u64::from(most));
            let product = |moduli: &[u64]| moduli.iter().map(|t| i128::from(*t)).product::<i128>();
            assert!(product(ring.total) > 2 * MAX_VALUE * i128::from(ring.max_users));
            assert!(product(ring.users) > i128::from(ring.max_users));
            for moduli in [ring.total, ring.users] {
                let t = |i: usize| i128::from(moduli[i]);
                let pairs = (0..moduli.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
                assert!(pairs.clone().all(|(i, j)| t(i) * inverse(t(i), t(j)) % t(j) == 1));
                assert!(moduli.iter().all(|t| t % 2 == 1));
            }
            let variance =
                3.2f64.powi(2) * (ring.params.n() as f64 * 4.0 / 3.0 + 1.0) + ROUNDING_VARIANCE as f64 + 0.1;
            let deviation = (variance * ring.max_users as f64).sqrt();
            let widest = ring.total.iter().chain(ring.users).max().unwrap();
            assert!(ring.q() as f64 / (2 * widest) as f64 > 10.0 * deviation);
        }
        assert!(std::ptr::eq(SumRing::for_users(1).unwrap(), SumRing::for_users(1 << 15).unwrap()));
        for beyond in [(1 << 23) + 1, u32::MAX] {
            assert!(matches!(SumRing::for_users(beyond), Err(Error::OutOfRange(_))));
        }
    }

    #[test]
    fn sizes_are_as_stated() {
        let rings = LARGEST.map(|most| SumRing::for_users(most).unwrap());
        assert_eq!(rings.map(SumRing::value_bytes), [3326, 12_913]);
        assert_eq!(rings.map(SumRing::key_bytes), [3320, 12_920]);
        assert_eq!(max_value_bytes().unwrap(), 12_913);
    }

    /// Residues come back from coefficients whose errors are just below half a step of the widest modulus,
    /// and totals or numbers of users out of their range do not.
    #[test]
    fn coefficients_decode_to_what_was_encoded() {
        let mut rng = ChaCha20Rng::seed_from_u64(36);
        for ring in LARGEST.map(|most| SumRing::for_users(most).unwrap()) {
            let step = ring.q() / i128::from(*ring.total.iter().max().unwrap());
            for value in [0, 1, -1, 27, -28, MAX_VALUE, -MAX_VALUE] {
                let coefficients: Vec<i128> =
                    ring.encode(value, &mut rng).unwrap().into_iter().map(i128::from).collect();
                for error in [0, step * 2 / 5, -step * 2 / 5] {
                    let shifted: Vec<i128> = coefficients.iter().map(|c| c + error).collect();
                    assert_eq!(ring.decode(&shifted), Some(Sum { total: value, users: 1 }));
                }
                let times = |k: i128| coefficients.iter().map(|c| c * k).collect::<Vec<_>>();
                assert_eq!(ring.decode(&times(17)).is_some(), value.abs() < MAX_VALUE);
                assert_eq!(ring.decode(&times(-1)), None, "-1 users");
            }
        }
    }

    /// The sum of what the users send less the q/t of its residue, centred modulo q, for each modulus of the
    /// total.
    fn errors(
        ring: &SumRing,
        values: impl Iterator<Item = i128>,
        mut encode: impl FnMut(i128) -> Vec<i64>,
    ) -> Vec<f64> {
        let (mut sums, mut total) = (vec![0; ring.coefficients()], 0);
        for value in values {
            sums.iter_mut().zip(encode(value)).for_each(|(sum, c)| *sum += i128::from(c));
            total += value;
        }
        let error = |(t, sum): (&u64, i128)| {
            let (t, q) = (i128::from(*t), ring.q());
            let scaled = (sum * t - total.rem_euclid(t) * q + q * t / 2).rem_euclid(q * t) - q * t / 2;
            scaled as f64 / t as f64
        };
        ring.total.iter().zip(sums).map(error).collect()
    }

    /// An authority that knows all other noise looks at the errors of a sum of 10 000 users. They are those
    /// of independent rounding, with variance 5 + 1/12 each and mean 0, both if all users have one value and
    /// if half of them have twice that value and half 0, which has the same sum. Of rounding to the nearest,
    /// the errors add up and tell the two apart.
    #[test]
    fn attack_errors_of_rounding_do_not_tell_values() {
        let (mut rng, users) = (ChaCha20Rng::seed_from_u64(37), 10_000i128);
        let ring = SumRing::for_users(users as u32).unwrap();
        let five_deviations = 5.0 * ((ROUNDING_VARIANCE as f64 + 1.0 / 12.0) * users as f64).sqrt();
        for protected in [true, false] {
            let mut encode = |value| match protected {
                true => ring.encode(value, &mut rng).unwrap(),
                false => ring.encode_with(value, |_| Ok(0)).unwrap(),
            };
            let one = errors(ring, (0..users).map(|_| 27), &mut encode);
            let two = errors(ring, (0..users).map(|user| user % 2 * 54), &mut encode);
            let small = |errors: &[f64]| errors.iter().all(|e| e.abs() < five_deviations);
            assert_eq!(small(&one) && small(&two), protected, "{one:?} {two:?}");
            let far = one.iter().zip(&two).any(|(a, b)| (a - b).abs() > 2.0 * five_deviations);
            assert_eq!(far, !protected, "{one:?} {two:?}");
        }
    }
}
