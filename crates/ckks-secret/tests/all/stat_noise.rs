//! The measured noise is compared with the formulas by which parameters are chosen. Seeds are fixed. A false
//! alarm is only possible after an unrelated change of the random draws: its probability is below 10⁻⁸ for
//! each assertion on a variance or a mean (six standard deviations), and 10⁻⁶ for each chi-square test.

use crate::common::{Fixture, TOY_ONE_SPECIAL_PRIME, fixture, fixture_cut_by_bits, rng};
use ckks::{
    Ciphertext, Decomposition, EvaluationKeys, Evaluator, Gadget, GaloisElement, KeyId, Params, ParamsSpec,
    Plaintext,
};
use ckks_secret::{SecretKey, decrypt};
use num_complex::Complex64;
use rns::sample::SIGMA;
use std::sync::Arc;

/// The coefficients of the error of a ciphertext of zero, in units of the message before division by the
/// scale.
fn error(f: &Fixture, ct: &Ciphertext) -> Vec<f64> {
    decrypt(&f.secret, ct, f.params.max_slots()).with(|slots| {
        let coefficients = f.params.encoder().coefficients(slots).unwrap();
        coefficients.iter().map(|c| c * ct.scale()).collect()
    })
}

fn zero(f: &Fixture, level: usize) -> Plaintext {
    Plaintext::encode(&f.params, &[Complex64::ZERO], level).unwrap()
}

/// The coefficients of a secret key, read from its frame, which has two bits for each.
fn coefficients(secret: &SecretKey) -> Vec<i64> {
    let frame = secret.to_bytes(KeyId([0; 16]));
    let payload = &frame[ckks::FRAME_HEADER_BYTES..frame.len() - ckks::FRAME_DIGEST_BYTES];
    payload.iter().flat_map(|&b| (0..4).map(move |i| i64::from(b >> (2 * i) & 3) - 1)).collect()
}

/// ‖s‖², the number of non-zero coefficients.
fn weight(f: &Fixture) -> f64 {
    coefficients(&f.secret).iter().map(|&c| (c * c) as f64).sum()
}

fn variance(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64
}

/// Checks that the mean is zero and the variance as expected, within six standard deviations of their
/// estimates; the variance may also deviate by the relative `slack`.
#[track_caller]
fn assert_noise(x: &[f64], want: f64, slack: f64) {
    let count = x.len() as f64;
    let mean = x.iter().sum::<f64>() / count;
    assert!(mean.abs() <= 6.0 * (want / count).sqrt(), "mean {mean}");
    let ratio = variance(x) / want;
    assert!((ratio - 1.0).abs() <= 6.0 * (2.0 / count).sqrt() + slack, "variance {ratio} of that wanted");
}

#[test]
fn secrets_are_uniform_ternary() {
    let (f, mut rng) = (fixture(), rng(50));
    let mut counts = [0f64; 3];
    let keys = 64;
    let mut last = Vec::new();
    for _ in 0..keys {
        let s = coefficients(&SecretKey::generate(&f.params, &mut rng));
        assert!(s.len() == f.params.n() && s != last);
        s.iter().for_each(|&c| counts[(c + 1) as usize] += 1.0);
        last = s;
    }
    let expected = (keys * f.params.n()) as f64 / 3.0;
    let chi2: f64 = counts.iter().map(|c| (c - expected).powi(2) / expected).sum();
    // The 1 − 10⁻⁶ quantile of chi-square with 2 degrees of freedom is 2·ln 10⁶.
    assert!(chi2 < 27.6, "{chi2}");
}

/// The error of an encryption under the secret key is the discrete Gaussian.
#[test]
fn a_fresh_symmetric_error_is_the_discrete_gaussian() {
    let (f, mut rng) = (fixture(), rng(51));
    let mut all = Vec::new();
    for level in [0, 1, 2, 10, 21].repeat(4) {
        let ct = ckks_secret::encrypt(&f.secret, &zero(f, level), &mut rng).expand(&f.secret);
        all.extend(error(f, &ct));
    }
    assert_noise(&all, SIGMA * SIGMA, 0.0);
    let density = |k: i64| (-((k * k) as f64) / (2.0 * SIGMA * SIGMA)).exp();
    let total: f64 = (-32..=32).map(density).sum();
    let chi2: f64 = (-10..=10)
        .map(|k: i64| {
            let expected = all.len() as f64 * density(k) / total;
            let got = all.iter().filter(|x| x.round() as i64 == k).count() as f64;
            (got - expected).powi(2) / expected
        })
        .sum();
    // There are 21 cells; the 1 − 10⁻⁶ quantile of chi-square with 21 degrees of freedom is 67.
    assert!(chi2 < 67.0, "{chi2}");
    // All errors are integers within the bound of the sampler.
    assert!(all.iter().all(|x| (x - x.round()).abs() < 1e-3 && x.abs() < 32.5));
}

/// The error of an encryption under the public key is e·u + e₀ + e₁·s with ternary u, of variance σ²·(2N/3 +
/// ‖s‖² + 1). The error e of the key is drawn once; its squared norm is within a relative 6·√(2/N) of its
/// mean.
#[test]
fn a_public_key_error_follows_the_formula() {
    let (f, mut rng) = (fixture(), rng(52));
    let n = f.params.n() as f64;
    let mut all = Vec::new();
    for level in [0, 3, 12, 21].repeat(4) {
        all.extend(error(f, &ckks::encrypt(&f.params, &f.public, &zero(f, level), &mut rng)));
    }
    let want = SIGMA * SIGMA * (2.0 * n / 3.0 + weight(f) + 1.0);
    assert_noise(&all, want, 3.0 * (2.0 / n).sqrt());
    // The documented standard deviation 3.2·√(4N/3 + 1) holds to 7 %.
    assert!((want / (SIGMA * SIGMA * (4.0 * n / 3.0 + 1.0)) - 1.0).abs() < 0.07);
}

/// A rescaling rounds two polynomials, one of which is multiplied by the secret, which adds variance (1 +
/// ‖s‖²)/12 to each coefficient. `Params::rounding_error` takes N/18 for it.
fn rounding(f: &Fixture) -> f64 {
    let want = (1.0 + weight(f)) / 12.0;
    let formula = f.params.rounding_error().powi(2) / f.params.n() as f64;
    // ‖s‖² has mean 2N/3 and variance 2N/9.
    assert!((want / formula - 1.0).abs() <= 6.0 * (0.5 / f.params.n() as f64).sqrt());
    want
}

#[test]
fn rescaling_adds_one_rounding() {
    let (f, mut rng) = (fixture(), rng(53));
    let mut all = Vec::new();
    for level in [1, 2, 11, 21].repeat(4) {
        let ct = ckks_secret::encrypt(&f.secret, &zero(f, level), &mut rng).expand(&f.secret);
        // The error of the encryption is divided by a prime of 32 bits, and is negligible then.
        all.extend(error(f, &f.eval.rescale(ct).unwrap()));
    }
    assert_noise(&all, rounding(f), 0.0);
}

/// The variance that a key switch adds besides the rounding: the sum of N·σ²·k·B²/12 over its digits, divided
/// by the square of the divisor. B is the range of a digit, and k the number of its primes, or 1 in a base-2ʷ
/// decomposition.
fn digits_error(params: &Params, gadget: &Gadget, level: usize, log_divisor: f64) -> f64 {
    let log: Vec<f64> = params.q_basis(level).primes().map(|q| (q as f64).log2()).collect();
    let digit = |j: usize| match gadget.decomposition() {
        Decomposition::Rns(_) => {
            let digit = &log[gadget.limbs(j, level)];
            digit.len() as f64 * (2.0 * (digit.iter().sum::<f64>() - log_divisor)).exp2()
        }
        Decomposition::Base2(ends) => {
            let start = if j == 0 { 0 } else { ends[j - 1] };
            (2.0 * (f64::from(ends[j] - start) - log_divisor)).exp2()
        }
    };
    (0..gadget.digits(level)).map(digit).sum::<f64>() * params.n() as f64 * SIGMA * SIGMA / 12.0
}

fn rotation_error(f: &Fixture, level: usize) -> f64 {
    digits_error(&f.params, f.params.galois_gadget(), level, f.params.p_basis().log2())
}

/// The variance that the digits of a product add; it is divided by P and the prime of its level.
fn product_error(f: &Fixture, level: usize) -> f64 {
    let log_divisor = f.params.p_basis().log2() + (f.params.prime(level) as f64).log2();
    digits_error(&f.params, f.params.relin_gadget(), level, log_divisor)
}

#[test]
fn a_key_switch_adds_one_rounding() {
    let (f, mut rng) = (fixture(), rng(54));
    let (mut all, mut hoisted) = (Vec::new(), Vec::new());
    let levels = [0, 3, 12, 21].repeat(4);
    for &level in &levels {
        let ct = ckks_secret::encrypt(&f.secret, &zero(f, level), &mut rng).expand(&f.secret);
        all.extend(error(f, &f.eval.rotate(&ct, 5).unwrap()));
        // Three rotations add one rounding in all.
        let sum = f.eval.sum_of_rotations(&ct, &[(1, false), (3, true), (777, false)]).unwrap();
        hoisted.extend(error(f, &sum));
        // The digits are six bits below P, so that their error is small beside the rounding.
        assert!(rotation_error(f, level) < 0.1 * rounding(f));
    }
    let mean = levels.iter().map(|&l| rotation_error(f, l)).sum::<f64>() / levels.len() as f64;
    let fresh = SIGMA * SIGMA;
    assert_noise(&all, rounding(f) + fresh + mean, 0.0);
    // Three images of one error under different rotations are nearly independent.
    assert_noise(&hoisted, rounding(f) + 3.0 * (fresh + mean), 0.02);
}

/// In a base-2ʷ decomposition a rotation at any level adds one rounding and the error of the digits, which is
/// at most one rounding.
#[test]
fn digits_of_bits_add_no_more_than_a_rounding() {
    let (f, mut rng) = (fixture_cut_by_bits(), rng(57));
    assert!(matches!(f.params.galois_gadget().decomposition(), Decomposition::Base2(_)));
    let levels: Vec<usize> = (0..=8).collect::<Vec<_>>().repeat(4);
    let (mut all, mut hoisted) = (Vec::new(), Vec::new());
    for &level in &levels {
        let ct = ckks_secret::encrypt(&f.secret, &zero(f, level), &mut rng).expand(&f.secret);
        all.extend(error(f, &f.eval.rotate(&ct, 5).unwrap()));
        hoisted.extend(error(f, &f.eval.sum_of_rotations(&ct, &[(1, false), (3, true)]).unwrap()));
        assert!(rotation_error(f, level) < rounding(f), "level {level}");
    }
    let mean = levels.iter().map(|&l| rotation_error(f, l)).sum::<f64>() / levels.len() as f64;
    let fresh = SIGMA * SIGMA;
    // The last digit is not uniform in its range.
    assert_noise(&all, rounding(f) + fresh + mean, 0.05);
    assert_noise(&hoisted, rounding(f) + 2.0 * (fresh + mean), 0.05);
}

/// The same for keys of lower levels, and for products with a base-2ʷ decomposition.
#[test]
fn digits_of_bits_work_below_the_top_and_for_products() {
    let spec = ParamsSpec { log_scale: 20, depth: 2, log_p: &[30], ..TOY_ONE_SPECIAL_PRIME };
    let params = spec.validate().unwrap();
    assert!(
        [params.relin_gadget(), params.galois_gadget()]
            .iter()
            .all(|g| matches!(g.decomposition(), Decomposition::Base2(_)))
    );
    let mut rng = rng(58);
    let secret = SecretKey::generate(&params, &mut rng);
    let values = crate::common::values(params.max_slots(), true, &mut rng);
    let g = GaloisElement::rotation(&params, 3);
    for top in 0..=2 {
        let relin = Some(Arc::new(ckks_secret::relin_key(&secret, top, &mut rng)));
        let galois = Arc::new(ckks_secret::galois_key(&secret, g, top, &mut rng));
        let eval = Evaluator::new(params.clone(), EvaluationKeys { relin, galois: [(g, galois)].into() });
        for level in 0..=top {
            let m = Plaintext::encode(&params, &values, level).unwrap();
            let ct = ckks_secret::encrypt(&secret, &m, &mut rng).expand(&secret);
            let near = |ct: &Ciphertext, want: &[Complex64]| {
                decrypt(&secret, ct, values.len()).with(|got| {
                    let worst = got.iter().zip(want).map(|(g, w)| (g - w).norm()).fold(0.0, f64::max);
                    assert!(worst < 0.02, "keys of level {top}, level {level}: {worst}");
                });
            };
            near(&eval.rotate(&ct, 3).unwrap(), &crate::common::rotated(&values, 3));
            if level > 0 {
                let squares: Vec<Complex64> = values.iter().map(|v| v * v).collect();
                near(&eval.mul(&ct, &ct).unwrap(), &squares);
            }
        }
    }
}

/// A product is relinearised and rescaled in one division. It adds one rounding and the error of the digits,
/// divided by one more prime.
#[test]
fn a_product_adds_one_rounding() {
    let (f, mut rng) = (fixture(), rng(55));
    let mut all = Vec::new();
    let levels = [1, 2, 12, 21].repeat(4);
    for &level in &levels {
        let mut encrypt = || ckks_secret::encrypt(&f.secret, &zero(f, level), &mut rng).expand(&f.secret);
        // A product of two encryptions of zero: the product of their errors, of variance N·σ⁴ over the square
        // of a prime, is negligible.
        all.extend(error(f, &f.eval.mul(&encrypt(), &encrypt()).unwrap()));
        assert!(product_error(f, level) < 0.1 * rounding(f));
    }
    let mean = levels.iter().map(|&l| product_error(f, l)).sum::<f64>() / levels.len() as f64;
    assert_noise(&all, rounding(f) + mean, 0.0);
}

/// In slots the formula is a mean. The variance of slot j is proportional to 1 + |s_j|², which in some slots
/// is ln(N/2) times the mean, for every ciphertext under one key.
#[test]
fn rounding_errors_of_slots_are_uneven_as_the_secret_is() {
    let (f, mut rng) = (fixture(), rng(56));
    let slots = f.params.max_slots();
    let s: Vec<f64> = coefficients(&f.secret).iter().map(|&c| c as f64).collect();
    let s = f.params.encoder().slots(&s, slots);
    let mut got = vec![0.0; slots];
    let draws = 64;
    for _ in 0..draws {
        let ct = ckks_secret::encrypt(&f.secret, &zero(f, 2), &mut rng).expand(&f.secret);
        let ct = f.eval.rescale(ct).unwrap();
        decrypt(&f.secret, &ct, slots).with(|v| {
            got.iter_mut()
                .zip(v.iter())
                .for_each(|(g, z)| *g += (z * ct.scale()).norm_sqr() / f64::from(draws));
        });
    }
    let want: Vec<f64> = s.iter().map(|s| f.params.n() as f64 / 12.0 * (1.0 + s.norm_sqr())).collect();
    let ratios: Vec<f64> = got.iter().zip(&want).map(|(g, w)| g / w).collect();
    // Each ratio is the mean of 64 exponential variables.
    let mean = ratios.iter().sum::<f64>() / slots as f64;
    assert!((mean - 1.0).abs() < 6.0 / (f64::from(draws) * slots as f64).sqrt(), "{mean}");
    assert!(ratios.iter().all(|r| (0.3..2.5).contains(r)));
    let average = f.params.rounding_error().powi(2);
    let worst = want.iter().fold(0f64, |m, w| m.max(*w)) / average;
    assert!((4.0..16.0).contains(&worst), "{worst}");
}
