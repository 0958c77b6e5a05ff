//! Noise against the formulas that parameters are chosen by. Seeds are fixed; the false-alarm rates say how likely a
//! correct program fails after an unrelated change of what is drawn: below 10⁻⁸ for each assertion on a variance or
//! mean (six standard deviations), 10⁻⁶ for each chi-square.

use crate::common::{Fixture, TOY_ONE_SPECIAL_PRIME, fixture, fixture_cut_by_bits, rng};
use ckks::{
    Ciphertext, Cut, EvaluationKeys, Evaluator, Gadget, GaloisElement, KeyId, Params, ParamsSpec, Plaintext,
};
use ckks_secret::{SecretKey, decrypt};
use num_complex::Complex64;
use rns::sample::SIGMA;
use std::sync::Arc;

/// The coefficients of a ciphertext of zero, in units of the message before division by the scale: its error.
fn error(f: &Fixture, ct: &Ciphertext) -> Vec<f64> {
    decrypt(&f.secret, ct, f.params.max_slots()).with(|slots| {
        let coefficients = f.params.encoder().coefficients(slots).unwrap();
        coefficients.iter().map(|c| c * ct.scale()).collect()
    })
}

fn zero(f: &Fixture, level: usize) -> Plaintext {
    Plaintext::encode(&f.params, &[Complex64::ZERO], level).unwrap()
}

/// The coefficients of a secret, from its frame: two bits each.
fn coefficients(secret: &SecretKey) -> Vec<i64> {
    let frame = secret.to_bytes(KeyId([0; 16]));
    let payload = &frame[ckks::FRAME_HEADER_BYTES..frame.len() - ckks::FRAME_DIGEST_BYTES];
    payload.iter().flat_map(|&b| (0..4).map(move |i| i64::from(b >> (2 * i) & 3) - 1)).collect()
}

/// ‖s‖², the number of coefficients that are not zero.
fn weight(f: &Fixture) -> f64 {
    coefficients(&f.secret).iter().map(|&c| (c * c) as f64).sum()
}

fn variance(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64
}

/// Mean zero, and the variance wanted, to within six standard deviations of their estimates and `slack` (relative).
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
    // The 1 − 10⁻⁶ quantile of chi-square with 2 degrees of freedom: 2·ln 10⁶.
    assert!(chi2 < 27.6, "{chi2}");
}

/// Under the secret key the error is the discrete Gaussian itself.
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
    // 21 cells: the 1 − 10⁻⁶ quantile with 21 degrees of freedom is 67.
    assert!(chi2 < 67.0, "{chi2}");
    // Whole numbers, all within the bound of the sampler.
    assert!(all.iter().all(|x| (x - x.round()).abs() < 1e-3 && x.abs() < 32.5));
}

/// e·u + e₀ + e₁·s with ternary u: σ²·(2N/3 + ‖s‖² + 1). The public key's own error e is drawn once; its weight is
/// within 6·√(2/N) of the mean.
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
    // What the documentation says: 3.2·√(4N/3 + 1), to 7 %.
    assert!((want / (SIGMA * SIGMA * (4.0 * n / 3.0 + 1.0)) - 1.0).abs() < 0.07);
}

/// The rounding of two polynomials, one of them times the secret: (1 + ‖s‖²)/12 a coefficient, for which
/// `Params::rounding_error` puts N/18.
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
        // The error of the encryption is divided by a prime of 32 bits: nothing is left of it.
        all.extend(error(f, &f.eval.rescale(ct).unwrap()));
    }
    assert_noise(&all, rounding(f), 0.0);
}

/// What a key switch adds besides the rounding: Σ over digits of N·σ²·k·B²/12, divided by the square of the divisor, for
/// groups of k primes; k is 1 for digits of bits.
fn digits_error(params: &Params, gadget: &Gadget, level: usize, log_divisor: f64) -> f64 {
    let log: Vec<f64> = params.q_basis(level).primes().map(|q| (q as f64).log2()).collect();
    let digit = |j: usize| match gadget.cut() {
        Cut::Limbs(_) => {
            let digit = &log[gadget.limbs(j, level)];
            digit.len() as f64 * (2.0 * (digit.iter().sum::<f64>() - log_divisor)).exp2()
        }
        Cut::Bits(ends) => {
            let start = if j == 0 { 0 } else { ends[j - 1] };
            (2.0 * (f64::from(ends[j] - start) - log_divisor)).exp2()
        }
    };
    (0..gadget.digits(level)).map(digit).sum::<f64>() * params.n() as f64 * SIGMA * SIGMA / 12.0
}

fn rotation_error(f: &Fixture, level: usize) -> f64 {
    digits_error(&f.params, f.params.galois_gadget(), level, f.params.p_basis().log2())
}

/// A product is divided by P and the prime of its level.
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
        // Three rotations, and still one rounding.
        let sum = f.eval.sum_of_rotations(&ct, &[(1, false), (3, true), (777, false)]).unwrap();
        hoisted.extend(error(f, &sum));
        // The digits stay six bits below P, so that this is small beside the rounding.
        assert!(rotation_error(f, level) < 0.1 * rounding(f));
    }
    let mean = levels.iter().map(|&l| rotation_error(f, l)).sum::<f64>() / levels.len() as f64;
    let fresh = SIGMA * SIGMA;
    assert_noise(&all, rounding(f) + fresh + mean, 0.0);
    // Three images of one error under the group are as good as independent.
    assert_noise(&hoisted, rounding(f) + 3.0 * (fresh + mean), 0.02);
}

/// Digits of bits, at every level: one rounding and what they leave, which is no more than it.
#[test]
fn digits_of_bits_add_no_more_than_a_rounding() {
    let (f, mut rng) = (fixture_cut_by_bits(), rng(57));
    assert!(matches!(f.params.galois_gadget().cut(), Cut::Bits(_)));
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
    // The last digit is not uniform.
    assert_noise(&all, rounding(f) + fresh + mean, 0.05);
    assert_noise(&hoisted, rounding(f) + 2.0 * (fresh + mean), 0.05);
}

/// Keys for lower levels, and products whose digits are of bits too.
#[test]
fn digits_of_bits_work_below_the_top_and_for_products() {
    let spec = ParamsSpec { log_scale: 20, depth: 2, log_p: &[30], ..TOY_ONE_SPECIAL_PRIME };
    let params = spec.validate().unwrap();
    assert!([params.relin_gadget(), params.galois_gadget()].iter().all(|g| matches!(g.cut(), Cut::Bits(_))));
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

/// A product is relinearised and rescaled in one division: one rounding, and the digits' error, which is over another prime.
#[test]
fn a_product_adds_one_rounding() {
    let (f, mut rng) = (fixture(), rng(55));
    let mut all = Vec::new();
    let levels = [1, 2, 12, 21].repeat(4);
    for &level in &levels {
        let mut encrypt = || ckks_secret::encrypt(&f.secret, &zero(f, level), &mut rng).expand(&f.secret);
        // Zero times zero: the product of the errors, N·σ⁴ over a prime squared, is nothing.
        all.extend(error(f, &f.eval.mul(&encrypt(), &encrypt()).unwrap()));
        assert!(product_error(f, level) < 0.1 * rounding(f));
    }
    let mean = levels.iter().map(|&l| product_error(f, l)).sum::<f64>() / levels.len() as f64;
    assert_noise(&all, rounding(f) + mean, 0.0);
}

/// In slots the formula is a mean: slot j has a variance in proportion to 1 + |s_j|², which some slots exceed by the
/// factor ln(N/2), for every ciphertext under one key.
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
    // Each ratio is a mean of 64 exponential variables.
    let mean = ratios.iter().sum::<f64>() / slots as f64;
    assert!((mean - 1.0).abs() < 6.0 / (f64::from(draws) * slots as f64).sqrt(), "{mean}");
    assert!(ratios.iter().all(|r| (0.3..2.5).contains(r)));
    let average = f.params.rounding_error().powi(2);
    let worst = want.iter().fold(0f64, |m, w| m.max(*w)) / average;
    assert!((4.0..16.0).contains(&worst), "{worst}");
}
