//! Keys, ciphertexts and error bounds that the tests share.
#![allow(dead_code, reason = "each test file uses its part")]

use ckks::{
    Ciphertext, EvaluationKeys, Evaluator, GaloisElement, Params, ParamsSpec, Plaintext, PublicKey, Security,
    TOY_LOGN12_DEPTH21,
};
use ckks_secret::{SecretKey, decrypt};
use num_complex::Complex64;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::sync::{Arc, OnceLock};

/// Rotations that have keys: every power of two below N/2, and some others.
pub(crate) const ROTATIONS: [i64; 17] =
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 3, 5, 777, 1500, -1, -7];

pub(crate) struct Fixture {
    pub(crate) params: Params,
    pub(crate) secret: SecretKey,
    pub(crate) public: PublicKey,
    pub(crate) eval: Evaluator,
}

pub(crate) fn fixture() -> &'static Fixture {
    static FIXTURE: OnceLock<Fixture> = OnceLock::new();
    FIXTURE.get_or_init(|| Fixture::new(TOY_LOGN12_DEPTH21))
}

/// Parameters with one special prime that is smaller than q₀, so that rotations have a base-2ʷ decomposition.
pub(crate) const TOY_ONE_SPECIAL_PRIME: ParamsSpec = ParamsSpec {
    name: "toy-one-special-prime",
    log_n: 12,
    log_q0: 50,
    depth: 8,
    log_scale: 40,
    log_p: &[50],
    products: ckks::Products::Rescaled,
    security: Security::None,
};

pub(crate) fn fixture_cut_by_bits() -> &'static Fixture {
    static FIXTURE: OnceLock<Fixture> = OnceLock::new();
    FIXTURE.get_or_init(|| Fixture::new(TOY_ONE_SPECIAL_PRIME))
}

impl Fixture {
    fn new(spec: ParamsSpec) -> Self {
        let params = spec.validate().unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(100);
        let (secret, top) = (SecretKey::generate(&params, &mut rng), params.max_level());
        let public = ckks_secret::public_key(&secret, &mut rng);
        let relin = Some(Arc::new(ckks_secret::relin_key(&secret, top, &mut rng)));
        let mut keys = EvaluationKeys { relin, ..EvaluationKeys::default() };
        let rotations = ROTATIONS.iter().map(|&k| GaloisElement::rotation(&params, k));
        for g in rotations.chain([GaloisElement::conjugation(&params)]) {
            keys.galois.insert(g, Arc::new(ckks_secret::galois_key(&secret, g, top, &mut rng)));
        }
        Fixture { eval: Evaluator::new(params.clone(), keys), params, secret, public }
    }
}

pub(crate) fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

/// Random values with real and imaginary parts in [−1, 1], or real values.
pub(crate) fn values(size: usize, complex: bool, rng: &mut ChaCha20Rng) -> Vec<Complex64> {
    let mut unit = || f64::from(rng.next_u32()) / 2f64.powi(31) - 1.0;
    (0..size).map(|_| Complex64::new(unit(), if complex { unit() } else { 0.0 })).collect()
}

/// An encryption under the secret key at the canonical scale.
pub(crate) fn encrypt(f: &Fixture, v: &[Complex64], level: usize, rng: &mut ChaCha20Rng) -> Ciphertext {
    let m = Plaintext::encode(&f.params, v, level).unwrap();
    ckks_secret::encrypt(&f.secret, &m, rng).expand(&f.secret)
}

pub(crate) fn rotated(v: &[Complex64], k: i64) -> Vec<Complex64> {
    let mut out = v.to_vec();
    out.rotate_left(k.rem_euclid(v.len() as i64) as usize);
    out
}

/// The variance of the coefficients of an error, in units of the message before division by the scale.
///
/// Errors are judged by their coefficients, which are Gaussian with one variance. Slots have unequal
/// variances: a rounding adds e₀ + e₁·s, whose variance in slot j is proportional to 1 + |s_j|², and some
/// |s_j|² are ln(N/2) times the mean.
#[derive(Clone, Copy)]
pub(crate) struct Variance(pub(crate) f64);

impl Variance {
    /// The sum of the errors of `fresh` encryptions under the secret key, with the rounding of their
    /// encoding, of `encodings` further encodings, and of `roundings` rescalings or key switches.
    pub(crate) fn of(params: &Params, fresh: f64, encodings: f64, roundings: f64) -> Self {
        let (n, sigma) = (params.n() as f64, rns::sample::SIGMA);
        Variance(
            fresh * (sigma * sigma + 1.0 / 12.0)
                + encodings / 12.0
                // The weights of secrets differ by a few percent, and a digit of a key switch is at most
                // 2⁻⁶·P.
                + roundings * 1.05 * params.rounding_error().powi(2) / n,
        )
    }
}

/// Checks that every coefficient of the error is within 7.5 standard deviations, which a correct one exceeds
/// with probability 10⁻¹³. Constants are rounded to 32 bits; the additional 2⁻³⁰ covers that rounding.
#[track_caller]
pub(crate) fn assert_holds(f: &Fixture, ct: &Ciphertext, want: &[Complex64], variance: Variance) {
    let bound = 7.5 * variance.0.sqrt() / ct.scale() + 2f64.powi(-30);
    decrypt(&f.secret, ct, want.len()).with(|got| {
        let error: Vec<Complex64> = got.iter().zip(want).map(|(a, b)| a - b).collect();
        let coefficients = f.params.encoder().coefficients(&error).unwrap();
        let worst = coefficients.iter().fold(0f64, |m, c| m.max(c.abs()));
        assert!(
            worst <= bound,
            "{} slots at level {}: a coefficient is off by 2^{:.2}, bound 2^{:.2}",
            want.len(),
            ct.level(),
            worst.log2(),
            bound.log2()
        );
    });
}
