//! The noise of each step against its formula. Needs the LWE secret, which nobody keeps.

use crate::generate::generate_all;
use ckks::{KeyId, Plaintext};
use ckks_secret::SecretKey;
use protocol::Bonus;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::ops::RangeInclusive;
use tfhe::core_crypto::commons::math::random::{CompressionSeed, Seed};
use tfhe::core_crypto::prelude::*;
use tfhe_argmax::params::*;
use tfhe_argmax::{Circuit, ENTRY, Formula, SeededKeys, noise};

struct Fixture {
    ckks: SecretKey,
    keys: SeededKeys,
    /// The GLWE secret as an LWE secret.
    big: LweSecretKeyOwned<u64>,
    lwe: Vec<u32>,
    rng: ChaCha20Rng,
}

impl Fixture {
    fn new(seed: u64) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let params = ckks::LOGN13_LOGQP147_SCORES.validate().unwrap();
        let ckks = SecretKey::generate(&params, &mut rng);
        let (keys, secret, lwe) = generate_all(&ckks, KeyId([1; 16]), &mut rng).unwrap();
        let big = LweSecretKey::from_container(secret.bits.iter().map(|&bit| bit.into()).collect());
        Fixture { ckks, keys, big, lwe: lwe.to_vec(), rng }
    }

    /// A sample of `phase` under the GLWE secret, without noise.
    fn sample(&mut self, phase: u64) -> LweCiphertextOwned<u64> {
        let mut words: Vec<u64> = (0..DEGREE).map(|_| self.rng.random()).collect();
        let product = words
            .iter()
            .zip(self.big.as_ref())
            .fold(0u64, |sum, (a, s)| sum.wrapping_add(a.wrapping_mul(*s)));
        words.push(product.wrapping_add(phase));
        LweCiphertext::from_container(words, CiphertextModulus::new_native())
    }

    fn phase(&self, sample: &LweCiphertextOwned<u64>) -> u64 {
        decrypt_lwe_ciphertext(&self.big, sample).0
    }
}

/// A number on the torus as a fraction in [−½, ½).
fn fraction(x: u64) -> f64 {
    x as i64 as f64 / 64f64.exp2()
}

/// The mean of `errors` is 0 and their variance is in `want`, within five deviations of the estimate: a test
/// of normal errors fails with a probability of 10⁻⁶.
fn assert_variance(what: &str, errors: &[f64], want: RangeInclusive<f64>) {
    let (least, most, count) = (*want.start(), *want.end(), errors.len() as f64);
    let mean = errors.iter().sum::<f64>() / count;
    let variance = errors.iter().map(|e| e * e).sum::<f64>() / count;
    let [got, low, high] = [variance, least, most].map(|variance| variance.sqrt().log2());
    println!("{what}: deviation 2^{got:.2}, formula 2^{low:.2} to 2^{high:.2}");
    assert!(mean.abs() < 5.0 * (most / count).sqrt(), "{what}: mean {mean:e}");
    let relative = 5.0 * (2.0 / count).sqrt();
    assert!(variance > least * (1.0 - relative), "{what}: variance {variance:e} below {least:e}");
    assert!(variance < most * (1.0 + relative), "{what}: variance {variance:e} above {most:e}");
}

/// What a bootstrap compares: LWE key switch and centred modulus switch, 2000 samples.
#[test]
fn a_comparison_has_the_noise_of_its_formula() {
    let mut fixture = Fixture::new(21);
    let reduction = SeededLweKeyswitchKey::from_container(
        fixture.keys.reduction.clone(),
        DecompositionBaseLog(REDUCTION_BASE_LOG),
        DecompositionLevelCount(REDUCTION_LEVELS),
        LweDimension(LWE_DIMENSION).to_lwe_size(),
        CompressionSeed::from(Seed(fixture.keys.seeds[1])),
        CiphertextModulus::new_native(),
    )
    .decompress_into_lwe_keyswitch_key();
    let (mut reductions, mut comparisons) = (Vec::new(), Vec::new());
    for _ in 0..2000 {
        let phase: u64 = fixture.rng.random();
        let input = fixture.sample(phase);
        let size = LweDimension(LWE_DIMENSION).to_lwe_size();
        let mut reduced = LweCiphertext::new(0u32, size, CiphertextModulus::new_native());
        keyswitch_lwe_ciphertext_with_scalar_change(&reduction, &input, &mut reduced);
        let (mask, body) = reduced.get_mask_and_body();
        let product = |sum: u32, (a, s): (&u32, &u32)| sum.wrapping_add(a.wrapping_mul(*s));
        let found = body.data.wrapping_sub(mask.as_ref().iter().zip(&fixture.lwe).fold(0, product));
        reductions.push(fraction((u64::from(found) << 32).wrapping_sub(phase)));
        let steps = lwe_ciphertext_centered_binary_modulus_switch::<_, usize, _>(
            reduced,
            CiphertextModulusLog(LOG_STEPS),
        );
        let product = |sum: usize, (a, s): (usize, &u32)| sum.wrapping_add(a * *s as usize);
        let found = steps.body().wrapping_sub(steps.mask().zip(&fixture.lwe).fold(0, product)) as u64;
        // Half a step is what the centred switch takes off.
        let middle = (found << (64 - LOG_STEPS)).wrapping_add(1 << (63 - LOG_STEPS));
        comparisons.push(fraction(middle.wrapping_sub(phase)));
    }
    assert_variance("reduction", &reductions, noise::reduction()..=noise::reduction());
    let compared = noise::compared(0.0).powi(2);
    assert_variance("comparison", &comparisons, compared..=compared);
}

/// The noise of 100 bootstraps, in the comparisons of two arms.
#[test]
fn a_bootstrap_has_the_noise_of_its_formula() {
    let mut fixture = Fixture::new(22);
    let keys = fixture.keys.clone().expand(KeyId([1; 16])).unwrap();
    let formula = Formula {
        arms: 2,
        gap: 2048,
        log_range: 0,
        bonus: Bonus::Linear { slope: 0.0 },
        most: 1.0,
        range: 3.0,
    };
    let circuit = Circuit::new(formula, 8192).unwrap();
    let mut errors = Vec::new();
    for i in 0..100u64 {
        // Differences of ± 1/8 of the torus, far from a tie.
        let ahead = i % 2 == 0;
        let indices = [1u64 << 61, 0].map(|x| if ahead { x } else { x.wrapping_neg() });
        let indices = indices.map(|phase| fixture.sample(phase));
        let entries = circuit.entries(&keys, &indices);
        for (entry, wins) in entries.iter().zip([ahead, !ahead]) {
            let want = if wins { ENTRY } else { -ENTRY };
            errors.push(fraction(fixture.phase(entry)) - want);
        }
    }
    assert_variance("bootstrap", &errors, noise::products()..=noise::bootstrap());
}

/// The noise of the extraction and the key switch from CKKS, in indices without a width.
#[test]
fn the_switch_from_ckks_has_the_noise_of_its_formula() {
    let mut fixture = Fixture::new(23);
    let keys = fixture.keys.clone().expand(KeyId([1; 16])).unwrap();
    let arms = 16;
    let (gap, range) = (256, 3.0);
    let formula = Formula { arms, gap, log_range: 2, bonus: Bonus::Linear { slope: 0.0 }, most: 1.0, range };
    let circuit = Circuit::new(formula, 8192).unwrap();
    let params = fixture.ckks.params().clone();
    let mut errors = Vec::new();
    for _ in 0..60 {
        let u: Vec<f64> = (0..arms).map(|_| fixture.rng.random_range(-1.5..1.5)).collect();
        let mut coefficients: Vec<i64> = vec![0; 8192];
        let scale = 44f64.exp2();
        // What is beside the scores must not matter.
        for coefficient in &mut coefficients {
            *coefficient = fixture.rng.random_range(-(1i64 << 44)..1 << 44);
        }
        for (arm, u) in u.iter().enumerate() {
            coefficients[(2 * arm + 1) * gap] = (u / 4.0 * scale) as i64;
        }
        let plain = Plaintext::from_integers(&params, &coefficients, 1, scale).unwrap();
        let scores = ckks_secret::encrypt(&fixture.ckks, &plain, &mut fixture.rng).expand(&fixture.ckks);
        for (index, u) in circuit.indices(&keys, &params, &scores).unwrap().iter().zip(&u) {
            errors.push(fraction(fixture.phase(index)) - u * circuit.scale());
        }
    }
    let want = circuit.index_variance(0.0);
    assert_variance("switch from CKKS", &errors, want..=want);
}
