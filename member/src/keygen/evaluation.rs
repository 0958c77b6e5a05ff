//! The test of keys: encryptions of 0, moved by each key, are opened by every set of t members.
//!
//! The public key is an encryption of 0 with a small error. Its product with a random sparse polynomial,
//! which nobody knows before all keys are fixed, is multiplied by the public key, rotated or switched to the
//! other ring, and random forms of the result are opened modulo all primes. They are small if every key and
//! every share is right. A key with garbage in any digit or prime, and a share that is not on the polynomial
//! of the others, makes them uniform. Every set is opened, because a member may add to its own share what it
//! knows to be wrong elsewhere: in a set of honest members, nobody does.

use super::Error;
use super::parts::PublicKeys;
use super::plan::{FORMS, Plan, Ring};
use ckks::{
    Ciphertext, Decomposition, EvaluationKeys, Evaluator, Gadget, KeySwitchKey, Params, Plaintext, PublicKey,
    RingSwitch,
};
use ckks_committee::Smudge;
use ckks_shares::{Forms, KeyLabel, RANDOM_WEIGHT};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rns::sample::SIGMA;
use rns::{Ntt, Poly};
use std::sync::Arc;

/// The coefficients of a sparse polynomial, each 1 or −1.
const SPARSE: usize = 32;
/// What one opened form of a test gives away, in nats for each member of the set: ½·2⁻¹⁶
/// (docs/committee-protocol.md).
pub(super) const NATS_OF_A_FORM: f64 = 0.5 / (WIDER * WIDER);
/// How much wider the smudging of a member is than the error of a form.
const WIDER: f64 = 256.0;
/// A form is as small as it must be up to this many deviations of the smudging: 10⁻¹⁵ exceed them.
const DEVIATIONS: f64 = 8.0;

/// A message that every set of t members opens.
pub(super) struct Test {
    pub(super) ring: Ring,
    pub(super) ciphertext: Ciphertext,
    pub(super) forms: Forms,
    pub(super) smudge: Smudge,
    /// What the request means besides.
    pub(super) header: Vec<u8>,
    /// What the forms are below, with the smudging of all members of a set.
    pub(super) bound: i128,
}

/// Makes the tests of all keys, in the order of [`Plan::tests`].
pub(super) struct Tests<'a> {
    plan: &'a Plan,
    public: &'a PublicKeys,
    seed: [u8; 32],
    made: usize,
    /// The keys of the ring switch so far.
    switch: Vec<Arc<KeySwitchKey>>,
    /// The first part of a switched ciphertext, on which the rotations of answers are tested.
    switched: Option<Ciphertext>,
}

impl<'a> Tests<'a> {
    /// The tests that follow from `seed`, which depends on all keys.
    pub(super) fn new(plan: &'a Plan, public: &'a PublicKeys, seed: [u8; 32]) -> Self {
        Tests { plan, public, seed, made: 0, switch: Vec::new(), switched: None }
    }

    /// The tests of the public keys.
    ///
    /// # Errors
    /// [`Error::Ckks`].
    pub(super) fn of_public_keys(&mut self) -> Result<Vec<Test>, Error> {
        let (large, scores) = (&self.plan.large, &self.plan.scores);
        let first = self.encryption(large, &self.public.large, large.max_level());
        let first = self.test(Ring::Large, first, self.sparse_error());
        let zero = Plaintext::from_integers(scores, &[], scores.max_level(), 1.0)?;
        let wide = ckks::encrypt_wide(scores, &self.public.scores, &zero, &mut self.stream("wide"));
        Ok(vec![first, self.test(Ring::Scores, wide, self.members() * rounding(scores))])
    }

    /// The tests that key `i` makes possible.
    ///
    /// # Errors
    /// [`Error::Ckks`].
    pub(super) fn of_key(&mut self, i: usize, key: KeySwitchKey) -> Result<Vec<Test>, Error> {
        let (plan, wanted) = (self.plan, self.plan.keys[i]);
        let (params, key) = (plan.params(wanted.ring).clone(), Arc::new(key));
        let public = match wanted.ring {
            Ring::Large => self.public.large.clone(),
            Ring::Scores => self.public.scores.narrow(&params),
            Ring::Answers => return self.of_answers(i, key),
        };
        let input = self.encryption(&params, &public, wanted.level);
        let (output, error) = match wanted.label {
            KeyLabel::Galois(element) => {
                let keys = EvaluationKeys { relin: None, galois: [(element, key)].into() };
                let error =
                    self.sparse_error() + self.switch_error(&params, params.galois_gadget(), wanted.level, 0);
                (Evaluator::new(params, keys).apply(&input, element)?, error)
            }
            KeyLabel::Public | KeyLabel::Relinearisation | KeyLabel::RingSwitch(_) => {
                // The division by the last prime leaves nothing of the product of two errors.
                let prime = params.prime(wanted.level);
                let error = self.switch_error(&params, params.relin_gadget(), wanted.level, prime);
                let keys = EvaluationKeys { relin: Some(key), galois: Default::default() };
                let zero = encryption_of_zero(&params, &public, wanted.level);
                (Evaluator::new(params, keys).mul(&input, &zero)?, error)
            }
        };
        Ok(vec![self.test(wanted.ring, output, error)])
    }

    /// The test of the shares of answers: the first part of what the ring switch makes of an encryption of 0.
    ///
    /// # Errors
    /// [`Error::Ckks`].
    pub(super) fn of_switch(&mut self, switch: &RingSwitch) -> Result<Vec<Test>, Error> {
        let (plan, level) = (self.plan, self.plan.answers.max_level());
        let input = self.encryption(&plan.large, &self.public.large, level);
        let error = self.ring_switch_error(level);
        let part = switch.split(&input)?.into_iter().take(1);
        Ok(part.map(|part| self.test(Ring::Answers, part, error)).collect())
    }

    fn of_answers(&mut self, i: usize, key: Arc<KeySwitchKey>) -> Result<Vec<Test>, Error> {
        let (plan, wanted) = (self.plan, self.plan.keys[i]);
        let params = &plan.answers;
        let KeyLabel::Galois(element) = wanted.label else {
            self.switch.push(key);
            if !plan.is_last_of_switch(i) {
                return Ok(Vec::new());
            }
            let input = self.encryption(&plan.large, &self.public.large, wanted.level);
            let evaluator = Evaluator::new(params.clone(), EvaluationKeys::default());
            let switch = RingSwitch::new(&plan.large, evaluator, std::mem::take(&mut self.switch))?;
            let parts = switch.split(&input)?;
            self.switched = parts.first().cloned();
            let error = self.ring_switch_error(wanted.level);
            return Ok(parts.into_iter().map(|part| self.test(Ring::Answers, part, error)).collect());
        };
        let input =
            self.switched.as_ref().ok_or(Error::Malformed("a rotation of answers before the switch"))?;
        let keys = EvaluationKeys { relin: None, galois: [(element, key)].into() };
        let output = Evaluator::new(params.clone(), keys).apply(input, element)?;
        let error = self.switch_error(params, params.galois_gadget(), wanted.level, 0);
        Ok(vec![self.test(Ring::Answers, output, self.ring_switch_error(wanted.level) + error)])
    }

    fn members(&self) -> f64 {
        self.plan.makers().into()
    }

    /// The variance of a coefficient of a sparse multiple of the public key.
    fn sparse_error(&self) -> f64 {
        self.members() * SPARSE as f64 * SIGMA * SIGMA
    }

    /// The variance that a key switch at `level` adds to a coefficient, with a division by P and by `prime`,
    /// if it is not 0.
    fn switch_error(&self, params: &Params, gadget: &Gadget, level: usize, prime: u64) -> f64 {
        let log = |prime: u64| (prime as f64).log2();
        let room: f64 = params.p_basis().primes().map(log).sum::<f64>() + log(prime.max(1));
        let digit = |j: usize| {
            let limbs = gadget.limbs(j, level);
            let bits = limbs.clone().map(|i| log(params.prime(i))).sum::<f64>().ceil() as u32;
            // Approximate base conversion lets a digit of k primes grow to k times half their product.
            limbs.len() as f64 * Gadget::noise_of_digits([bits].into_iter(), room)
        };
        let of_digits = match gadget.decomposition() {
            Decomposition::Rns(_) => (0..gadget.digits(level)).map(digit).sum(),
            // By the choice of the digits.
            Decomposition::Base2(_) => 1.0,
        };
        self.members() * rounding(params) * (1.0 + of_digits)
    }

    /// The variance of a coefficient of a part of a switched ciphertext: each key adds its own.
    fn ring_switch_error(&self, level: usize) -> f64 {
        let (large, answers) = (&self.plan.large, &self.plan.answers);
        let parts = (large.n() / answers.n()) as f64;
        self.sparse_error() + parts * self.switch_error(answers, answers.galois_gadget(), level, 0)
    }

    /// A test of a message whose coefficients have errors of this variance.
    fn test(&mut self, ring: Ring, ciphertext: Ciphertext, error: f64) -> Test {
        let (plan, params, level) = (self.plan, self.plan.params(ring), ciphertext.level());
        let of_form = RANDOM_WEIGHT * (params.n() as f64 * error).sqrt();
        let smudge = Smudge::at_least(WIDER * of_form);
        let bound = DEVIATIONS * f64::from(plan.quorum.threshold()).sqrt() * smudge.deviation();
        let mut header = b"test of keys".to_vec();
        header.extend(plan.session.0);
        header.extend(self.seed);
        header.extend((self.made as u64).to_le_bytes());
        let forms = Forms::random(params, level, FORMS, &self.derived("forms"));
        self.made += 1;
        Test { ring, ciphertext, forms, smudge, header, bound: bound as i128 }
    }

    /// A sparse multiple of the public key at `level`.
    fn encryption(&self, params: &Params, key: &PublicKey, level: usize) -> Ciphertext {
        let mut rng = self.stream("sparse");
        let mut coefficients = vec![0i64; params.n()];
        (0..SPARSE).for_each(|_| {
            let word = rng.next_u64();
            coefficients[(word >> 1) as usize % params.n()] = if word & 1 == 0 { 1 } else { -1 };
        });
        let basis = params.q_basis(level);
        let sparse: Poly<Ntt> = Poly::from_signed(basis, &coefficients).into_ntt(basis);
        let zero = encryption_of_zero(params, key, level);
        Ciphertext::new(zero.c0().mul(basis, &sparse), zero.c1().mul(basis, &sparse), level, 1.0)
    }

    fn derived(&self, label: &str) -> [u8; 32] {
        let mut hash = blake3::Hasher::new_keyed(&self.seed);
        hash.update(&(self.made as u64).to_le_bytes()).update(label.as_bytes());
        *hash.finalize().as_bytes()
    }

    fn stream(&self, label: &str) -> ChaCha20Rng {
        ChaCha20Rng::from_seed(self.derived(label))
    }
}

/// The public key as a ciphertext: its message is 0, and its error that of the key.
fn encryption_of_zero(params: &Params, key: &PublicKey, level: usize) -> Ciphertext {
    let a = PublicKey::mask(params, false, key.seed()).truncated(level + 1);
    Ciphertext::new(key.b().truncated(level + 1), a, level, 1.0)
}

/// The variance of a coefficient of the rounding of a division, with one ternary secret.
fn rounding(params: &Params) -> f64 {
    params.n() as f64 / 18.0 + 1.0 / 12.0
}
