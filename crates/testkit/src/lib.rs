//! What tests, benches and examples of several crates share: key pairs with fixed seeds ([`Party`],
//! [`ScoresParty`]), the exact twin of an encrypted bandit ([`ClearTwin`]), messages and bundles
//! ([`samples`]), the layout of matrices ([`newton`]), the effect of a loss of power ([`power_loss`]), a slow
//! line ([`late_line`]), the signals that children of tests begin with, and the tables of the configuration
//! reference ([`mod@reference`]). It holds secret keys: only dev-dependencies may name it, which
//! `tests/custody.rs` checks.

mod late;
pub mod newton;
pub mod power_loss;
pub mod reference;
pub mod samples;
#[cfg(unix)]
mod signals;
mod twin;

pub use late::late_line;
#[cfg(unix)]
pub use signals::default_signals;
pub use twin::ClearTwin;

use circuits::Chebyshev;
use ckks::{
    Ciphertext, EvaluationKeys, Evaluator, GaloisElement, KeyId, KeyStorage, Params, Plaintext, PublicKey,
    RingKeys, RingSwitch,
};
use ckks_secret::SecretKey;
use num_complex::Complex64;
use protocol::{AnswerKeys, KeyPlan, ScoreRing};
use rand::{CryptoRng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::sync::Arc;

/// All keys of one pair, for tests that play every party.
pub struct Party {
    /// The parameters.
    pub params: Params,
    /// The secret key.
    pub secret: SecretKey,
    /// The public key.
    pub public: PublicKey,
    /// The evaluation keys.
    pub keys: EvaluationKeys,
    /// The generator that the keys were drawn from, and encryptions are.
    pub rng: ChaCha20Rng,
}

impl Party {
    /// A key pair from `seed`, with a relinearisation key up to `relin_level` and a key for each Galois
    /// element up to its level. Keys are drawn in this order: secret, public, relinearisation, Galois keys as
    /// listed.
    pub fn generate(
        params: &Params,
        relin_level: usize,
        galois: impl IntoIterator<Item = (GaloisElement, usize, KeyStorage)>,
        seed: u64,
    ) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let secret = SecretKey::generate(params, &mut rng);
        let public = ckks_secret::public_key(&secret, &mut rng);
        let relin = Some(Arc::new(ckks_secret::relin_key(&secret, relin_level, &mut rng)));
        let mut keys = EvaluationKeys { relin, ..EvaluationKeys::default() };
        for (element, level, storage) in galois {
            let key = ckks_secret::galois_key(&secret, element, level, &mut rng).stored_as(storage);
            keys.galois.insert(element, Arc::new(key));
        }
        Party { params: params.clone(), secret, public, keys, rng }
    }

    /// A key pair from `seed` with the keys of `plan`.
    ///
    /// # Errors
    /// As [`ckks::ParamsSpec::validate`].
    pub fn for_plan(plan: &KeyPlan, seed: u64) -> Result<Self, ckks::Error> {
        let params = plan.params.validate()?;
        let galois =
            plan.galois.iter().map(|key| (key.automorphism.element(&params), key.level, key.storage));
        Ok(Self::generate(&params, plan.relin_level, galois, seed))
    }

    /// As [`Self::for_plan`], for the ring of evaluations of the plan, if it has one.
    ///
    /// # Errors
    /// As [`ckks::ParamsSpec::validate`].
    pub fn for_decisions(plan: &KeyPlan, seed: u64) -> Result<Option<Self>, ckks::Error> {
        let Some(keys) = &plan.decisions else { return Ok(None) };
        let params = keys.params.validate()?;
        let galois =
            keys.galois.iter().map(|key| (key.automorphism.element(&params), key.level, key.storage));
        Ok(Some(Self::generate(&params, params.max_level(), galois, seed)))
    }

    /// The name of the key pair.
    pub fn key_id(&self) -> KeyId {
        self.public.id(&self.params)
    }

    /// The public keys.
    pub fn ring_keys(&self) -> RingKeys {
        RingKeys { evaluator: self.evaluator(), public_key: self.public.clone(), key_id: self.key_id() }
    }

    /// An evaluator with all evaluation keys.
    pub fn evaluator(&self) -> Evaluator {
        Evaluator::new(self.params.clone(), self.keys.clone())
    }

    /// `slots`, encrypted under the secret key at `level`.
    ///
    /// # Panics
    /// If the values do not fit the parameters.
    pub fn encrypt(&mut self, slots: &[Complex64], level: usize) -> Ciphertext {
        let message = Plaintext::encode(&self.params, slots, level).expect("values that fit");
        ckks_secret::encrypt(&self.secret, &message, &mut self.rng).expand(&self.secret)
    }
}

/// The keys of the ring of scores of one pair, for tests that play every party.
pub struct ScoresParty {
    /// The parameters.
    pub params: Params,
    /// The secret key.
    pub secret: SecretKey,
    /// The public key.
    pub public: PublicKey,
    /// The relinearisation key and the keys of [`ckks::pack_elements`], at the top level.
    pub keys: EvaluationKeys,
}

impl ScoresParty {
    /// The keys of `ring`.
    ///
    /// # Errors
    /// As [`ckks::ParamsSpec::validate`]; [`ckks::Error::PackGap`] for a gap that no pack has.
    pub fn generate<R: CryptoRng>(ring: ScoreRing, rng: &mut R) -> Result<Self, ckks::Error> {
        let params = ring.params.validate()?;
        let (secret, top) = (SecretKey::generate(&params, rng), params.max_level());
        let public = ckks_secret::public_key(&secret, rng);
        let relin = Some(Arc::new(ckks_secret::relin_key(&secret, top, rng)));
        let mut keys = EvaluationKeys { relin, ..EvaluationKeys::default() };
        for element in ckks::pack_elements(&params, ring.gap)? {
            keys.galois.insert(element, Arc::new(ckks_secret::galois_key(&secret, element, top, rng)));
        }
        Ok(ScoresParty { params, secret, public, keys })
    }

    /// The name of the key pair.
    pub fn key_id(&self) -> KeyId {
        self.public.id(&self.params)
    }

    /// Coefficients at the scale 2^`log_scale`, encrypted under the secret key at the top level.
    ///
    /// # Panics
    /// If there are more coefficients than the ring has.
    pub fn encrypt<R: CryptoRng>(
        &self,
        coefficients: &[i64],
        log_scale: u32,
        rng: &mut R,
    ) -> ckks_secret::SeededCiphertext {
        let (level, scale) = (self.params.max_level(), f64::from(log_scale).exp2());
        let message = Plaintext::from_integers(&self.params, coefficients, level, scale);
        ckks_secret::encrypt(&self.secret, &message.expect("coefficients that fit"), rng)
    }
}

/// The ring switch of `plan` from the ring of evaluations of `large` to answers, under the secret `scores` of
/// the ring of scores.
///
/// # Panics
/// If the plan is not one of these rings.
pub fn ring_switch<R: CryptoRng>(
    large: &SecretKey,
    scores: &SecretKey,
    plan: &AnswerKeys,
    rng: &mut R,
) -> RingSwitch {
    let params = plan.params.validate().expect("parameters of answers");
    let secret = scores.under(&params);
    let switch = (0..plan.switch).map(|j| Arc::new(ckks_secret::ring_switch_key(large, &secret, j, rng)));
    let switch = switch.collect();
    let mut keys = EvaluationKeys::default();
    for &k in &plan.rotations {
        let element = GaloisElement::rotation(&params, k);
        let key = ckks_secret::galois_key(&secret, element, params.max_level(), rng);
        keys.galois.insert(element, Arc::new(key));
    }
    RingSwitch::new(large.params(), Evaluator::new(params, keys), switch).expect("a plan of these rings")
}

/// The best approximation of sqrt((u + 1)/2) for u in [-1, 1] by a polynomial of `degree`.
///
/// # Panics
/// If the degree is not supported.
pub fn square_root(degree: usize) -> Chebyshev {
    let basis: Vec<usize> = (0..=degree).collect();
    let root = Chebyshev::minimax(&basis, |u| (0.5 * (u + 1.0)).max(0.0).sqrt(), -1.0, 1.0);
    root.expect("a supported degree").0
}

/// The largest `|value(x) - want(x)|` on `points + 1` points of [`low`, `high`] that are denser at its ends.
pub fn worst_error(
    value: impl Fn(f64) -> f64,
    want: impl Fn(f64) -> f64,
    [low, high]: [f64; 2],
    points: usize,
) -> f64 {
    (0..=points)
        .map(|k| {
            let turn = (std::f64::consts::PI * k as f64 / points.max(1) as f64).cos();
            let x = 0.5 * (low + high) - 0.5 * (high - low) * turn;
            (value(x) - want(x)).abs()
        })
        .fold(0.0, f64::max)
}
