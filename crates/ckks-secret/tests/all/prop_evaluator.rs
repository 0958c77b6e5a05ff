//! Every operation is compared with complex arithmetic, at random levels and numbers of slots; misuse gives
//! its typed error.

use crate::common::{ROTATIONS, Variance, assert_holds, encrypt, fixture, rng, rotated, values};
use ckks::{Ciphertext, DiagonalTransform, Error, EvaluationKeys, Evaluator, GaloisElement, Op, Plaintext};
use num_complex::Complex64;
use proptest::prelude::*;
use std::sync::Arc;

type Slots = Vec<Complex64>;

fn zip(a: &[Complex64], b: &[Complex64], f: impl Fn(Complex64, Complex64) -> Complex64) -> Slots {
    a.iter().zip(b).map(|(&x, &y)| f(x, y)).collect()
}

fn canonical(ct: &Ciphertext, level: usize) -> bool {
    ct.level() == level && ct.scale() == fixture().params.scale(level)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sums_and_constants(level in 0usize..=21, log_size in 0u32..=11, complex: bool, k in -1000i64..1000, seed: u64) {
        let (f, mut rng) = (fixture(), rng(seed));
        let variance = |fresh, encodings, roundings| Variance::of(&f.params, fresh, encodings, roundings);
        let (a, b) = (values(1 << log_size, complex, &mut rng), values(1 << log_size, complex, &mut rng));
        let (x, y) = (encrypt(f, &a, level, &mut rng), encrypt(f, &b, level, &mut rng));
        assert_holds(f, &x, &a, variance(1.0, 0.0, 0.0));
        let mut out = x.clone();
        f.eval.add_assign(&mut out, &y).unwrap();
        assert_holds(f, &out, &zip(&a, &b, |p, q| p + q), variance(2.0, 0.0, 0.0));
        let mut out = x.clone();
        f.eval.sub_assign(&mut out, &y).unwrap();
        assert_holds(f, &out, &zip(&a, &b, |p, q| p - q), variance(2.0, 0.0, 0.0));
        let mut out = x.clone();
        f.eval.neg_assign(&mut out);
        assert_holds(f, &out, &zip(&a, &a, |p, _| -p), variance(1.0, 0.0, 0.0));
        let mut out = x.clone();
        f.eval.add_plain_assign(&mut out, &Plaintext::encode(&f.params, &b, level).unwrap()).unwrap();
        assert_holds(f, &out, &zip(&a, &b, |p, q| p + q), variance(1.0, 1.0, 0.0));
        let mut out = x.clone();
        f.eval.add_constant_assign(&mut out, b[0]).unwrap();
        assert_holds(f, &out, &zip(&a, &a, |p, _| p + b[0]), variance(1.0, 1.0, 0.0));
        let mut out = x.clone();
        f.eval.mul_i_assign(&mut out);
        assert_holds(f, &out, &zip(&a, &a, |p, _| p * Complex64::I), variance(1.0, 0.0, 0.0));
        // The product k·a must stay below q₀/(2·scale), which is about 500 at level 0; larger factors need a
        // larger modulus.
        let k = if level == 0 { k % 100 } else { k };
        let mut out = x;
        f.eval.mul_integer_assign(&mut out, k);
        assert_holds(f, &out, &zip(&a, &a, |p, _| p * k as f64), variance((k * k) as f64, 0.0, 0.0));
    }

    #[test]
    fn products(level in 1usize..=21, log_size in 0u32..=11, complex: bool, seed: u64) {
        let (f, mut rng) = (fixture(), rng(seed));
        let (a, b) = (values(1 << log_size, complex, &mut rng), values(1 << log_size, complex, &mut rng));
        let (x, y) = (encrypt(f, &a, level, &mut rng), encrypt(f, &b, level, &mut rng));
        // The error of each operand is multiplied by the value of the other, which is at most √2.
        let product = f.eval.mul(&x, &y).unwrap();
        prop_assert!(canonical(&product, level - 1));
        assert_holds(f, &product, &zip(&a, &b, |p, q| p * q), Variance::of(&f.params, 4.0, 0.0, 1.0));
        let square = f.eval.mul(&x, &x).unwrap();
        assert_holds(f, &square, &zip(&a, &a, |p, q| p * q), Variance::of(&f.params, 8.0, 0.0, 1.0));
        let plain = f.eval.mul_plain(&x, &f.eval.encode_factor(&b, level).unwrap()).unwrap();
        prop_assert!(canonical(&plain, level - 1));
        assert_holds(f, &plain, &zip(&a, &b, |p, q| p * q), Variance::of(&f.params, 2.0, 2.0, 1.0));
    }

    #[test]
    fn sums_of_products(
        level in 1usize..=21,
        log_size in 0u32..=11,
        picks in prop::collection::vec((0usize..5, 0usize..3, 0usize..3), 1..5),
        factors in prop::collection::vec(-3.0f64..3.0, 0..4),
        constant in -3.0f64..3.0,
        seed: u64,
    ) {
        let (f, mut rng) = (fixture(), rng(seed));
        let size = 1usize << log_size;
        let vectors: Vec<Slots> = (0..3).map(|_| values(size, true, &mut rng)).collect();
        let cts: Vec<Ciphertext> = vectors.iter().map(|v| encrypt(f, v, level, &mut rng)).collect();
        // Each product has a factor of its own, so that a wrong pairing is detected.
        let products: Vec<(i64, usize, usize)> =
            picks.iter().enumerate().map(|(i, &(k, a, b))| ([1, -3, 20, 0, -1][(i + k) % 5], a, b)).collect();
        let mut want = vec![Complex64::new(constant, 0.0); size];
        for &(k, a, b) in &products {
            want = zip(&want, &zip(&vectors[a], &vectors[b], |p, q| p * q), |p, q| p + k as f64 * q);
        }
        for (c, v) in factors.iter().zip(&vectors) {
            want = zip(&want, v, |p, q| p + c * q);
        }
        let with: Vec<_> = products.iter().map(|&(k, a, b)| (k, &cts[a], &cts[b])).collect();
        let terms: Vec<(f64, &Ciphertext)> = factors.iter().copied().zip(&cts).collect();
        let scale = f.params.scale(level - 1);
        let sum = f.eval.sum_of_products(&with, &terms, constant, level - 1, scale).unwrap();
        prop_assert!(canonical(&sum, level - 1));
        // The error of one operand enters several products, so that amplitudes add; a product contributes
        // 2·√2.
        let amplitude = products.iter().map(|(k, _, _)| 8f64.sqrt() * k.abs() as f64).sum::<f64>()
            + factors.iter().map(|c| c.abs()).sum::<f64>();
        assert_holds(f, &sum, &want, Variance::of(&f.params, amplitude * amplitude, 1.0, 1.0));
    }

    #[test]
    fn levels_and_scales(level in 1usize..=21, down in 1usize..=21, log_size in 0u32..=11, complex: bool, seed: u64) {
        let (f, mut rng) = (fixture(), rng(seed));
        let a = values(1 << log_size, complex, &mut rng);
        let x = encrypt(f, &a, level, &mut rng);
        let target = level.saturating_sub(down);
        let adjusted = f.eval.adjust(&x, target).unwrap();
        prop_assert!(canonical(&adjusted, target));
        assert_holds(f, &adjusted, &a, Variance::of(&f.params, 1.0, 0.0, 1.0));
        let scale = f.params.scale(target) * 1.01;
        let adjusted = f.eval.adjust_to(&x, target, scale).unwrap();
        prop_assert!(adjusted.level() == target && adjusted.scale() == scale);
        assert_holds(f, &adjusted, &a, Variance::of(&f.params, 1.1, 0.0, 1.0));
        let dropped = f.eval.drop_level(&x, target).unwrap();
        prop_assert!(dropped.level() == target && dropped.scale() == x.scale());
        assert_holds(f, &dropped, &a, Variance::of(&f.params, 1.0, 0.0, 0.0));
        // Rescaling divides message and error by q. A message encoded at q times the scale is then at its
        // scale again. Here it is encoded at q/8, because values reach √2 and encoded coefficients must stay
        // below 2⁶².
        let large = Plaintext::encode_at(&f.params, &a, level, x.scale() * f.params.prime(level) as f64 / 8.0).unwrap();
        let large = ckks_secret::encrypt(&f.secret, &large, &mut rng).expand(&f.secret);
        let rescaled = f.eval.rescale(large).unwrap();
        prop_assert!(rescaled.level() == level - 1);
        prop_assert!((rescaled.scale() / x.scale() * 8.0 - 1.0).abs() < 1e-12);
        assert_holds(f, &rescaled, &a, Variance::of(&f.params, 0.0, 0.1, 1.0));
    }

    #[test]
    fn rotations_and_conjugation(level in 0usize..=21, log_size in 0u32..=11, complex: bool, picks: [prop::sample::Index; 4], seed: u64) {
        let (f, mut rng) = (fixture(), rng(seed));
        let a = values(1 << log_size, complex, &mut rng);
        let x = encrypt(f, &a, level, &mut rng);
        let error = Variance::of(&f.params, 1.0, 0.0, 1.0);
        let conjugate = f.eval.conjugate(&x).unwrap();
        assert_holds(f, &conjugate, &zip(&a, &a, |p, _| p.conj()), error);
        let ks: Vec<i64> = picks.iter().map(|i| *i.get(&ROTATIONS)).chain([0, 2048, -2047]).collect();
        for (ct, k) in f.eval.rotate_many(&x, &ks).unwrap().iter().zip(&ks) {
            prop_assert!(canonical(ct, level));
            assert_holds(f, ct, &rotated(&a, *k), error);
            // A shared decomposition gives the same bits as one for each rotation.
            prop_assert!(*ct == f.eval.rotate(&x, *k).unwrap());
        }
        let terms: Vec<(i64, bool)> = ks.iter().enumerate().map(|(i, &k)| (k, i % 2 == 1)).collect();
        let sum = f.eval.sum_of_rotations(&x, &terms).unwrap();
        prop_assert!(canonical(&sum, level));
        let mut want = vec![Complex64::ZERO; a.len()];
        for &(k, negative) in &terms {
            want = zip(&want, &rotated(&a, k), |p, q| if negative { p - q } else { p + q });
        }
        // Rotations may coincide, so that amplitudes add. All share one division.
        let count = terms.len() as f64;
        assert_holds(f, &sum, &want, Variance::of(&f.params, count * count, 0.0, 1.0));
        // Sums without an added term, with the identity first, and of identities only; and an identity after
        // subtracted terms.
        let taken_off: Vec<(i64, bool)> = ks.iter().rev().map(|&k| (k, true)).collect();
        for terms in [&taken_off[..], &[(0, true), (1, false), (0, false)], &[(0, false)], &[(0, true), (0, true)], &[(1, true), (0, false)], &[(0, true), (0, false)]] {
            let mut want = vec![Complex64::ZERO; a.len()];
            for &(k, negative) in terms {
                want = zip(&want, &rotated(&a, k), |p, q| if negative { p - q } else { p + q });
            }
            let sum = f.eval.sum_of_rotations(&x, terms).unwrap();
            let count = terms.len() as f64;
            assert_holds(f, &sum, &want, Variance::of(&f.params, count * count, 0.0, 1.0));
        }
        assert_holds(f, &f.eval.sum_of_rotations(&x, &[]).unwrap(), &vec![Complex64::ZERO; a.len()], Variance(0.0));
    }

    #[test]
    fn linear_transforms(level in 1usize..=21, log_size in 0u32..=11, complex: bool, giant in 0usize..4, picks in prop::collection::vec((0usize..5, 0usize..6), 1..10), seed: u64) {
        let (f, mut rng) = (fixture(), rng(seed));
        let size = 1usize << log_size;
        let a = values(size, complex, &mut rng);
        // A pair of steps may occur twice: a transform is the sum of its terms.
        let terms: Vec<(usize, i64, Slots)> =
            picks.iter().map(|&(n, b)| (n, [0, 1, 2, 3, 5, -7][b], values(size, complex, &mut rng))).collect();
        let giant = [16, 64, 512, -1][giant];
        let mut want = vec![Complex64::ZERO; size];
        for (n, b, d) in &terms {
            want = zip(&want, &zip(d, &rotated(&a, *n as i64 * giant + b), |p, q| p * q), |p, q| p + q);
        }
        let count = terms.len() as f64;
        let t = f.eval.encode_transform(&DiagonalTransform { giant, terms }, level).unwrap();
        let out = f.eval.linear(&encrypt(f, &a, level, &mut rng), &t).unwrap();
        prop_assert!(canonical(&out, level - 1));
        // Diagonals may multiply the error of the same slot, so that amplitudes add: the variance is count²
        // times that of one. Each giant step adds one rounding, and the last division adds another.
        assert_holds(f, &out, &want, Variance::of(&f.params, 2.0 * count * count, 2.0 * count * count, 6.0));
    }

    #[test]
    fn linear_combinations(levels in prop::collection::vec(1usize..=21, 1..6), log_size in 0u32..=11, complex: bool, constant in -3.0f64..3.0, seed: u64) {
        let (f, mut rng) = (fixture(), rng(seed));
        let size = 1usize << log_size;
        let c = values(levels.len(), false, &mut rng);
        let vectors: Vec<Slots> = levels.iter().map(|_| values(size, complex, &mut rng)).collect();
        let cts: Vec<Ciphertext> =
            levels.iter().zip(&vectors).map(|(&l, v)| encrypt(f, v, l, &mut rng)).collect();
        let terms: Vec<(f64, &Ciphertext)> = c.iter().map(|c| c.re).zip(&cts).collect();
        let out = f.eval.linear_combination(&terms, constant).unwrap();
        prop_assert!(canonical(&out, levels.iter().min().unwrap() - 1));
        let mut want = vec![Complex64::new(constant, 0.0); size];
        for (c, v) in c.iter().zip(&vectors) {
            want = zip(&want, v, |p, q| p + c.re * q);
        }
        assert_holds(f, &out, &want, Variance::of(&f.params, c.len() as f64, 0.0, 1.0));
    }

    /// The error of an encryption under the public key has standard deviation 3.2·√(4N/3 + 1) in each
    /// coefficient.
    #[test]
    fn public_key_encryption(level in 0usize..=21, log_size in 0u32..=11, complex: bool, seed: u64) {
        let (f, mut rng) = (fixture(), rng(seed));
        let a = values(1 << log_size, complex, &mut rng);
        let m = Plaintext::encode(&f.params, &a, level).unwrap();
        let ct = ckks::encrypt(&f.params, &f.public, &m, &mut rng);
        let times = 4.0 * f.params.n() as f64 / 3.0 + 1.0;
        assert_holds(f, &ct, &a, Variance::of(&f.params, times * 1.05, 0.0, 0.0));
    }
}

/// A transform of a ciphertext whose scale is not canonical has the right message at the scale that it
/// states.
#[test]
fn linear_keeps_track_of_the_scale() {
    let (f, mut rng) = (fixture(), rng(1));
    let a = values(64, true, &mut rng);
    let m = Plaintext::encode_at(&f.params, &a, 5, f.params.scale(5) * 1.5).unwrap();
    let x = ckks_secret::encrypt(&f.secret, &m, &mut rng).expand(&f.secret);
    let t = DiagonalTransform { giant: 0, terms: vec![(0, 1, vec![Complex64::ONE])] };
    let out = f.eval.linear(&x, &f.eval.encode_transform(&t, 5).unwrap()).unwrap();
    assert_holds(f, &out, &rotated(&a, 1), Variance::of(&f.params, 1.5, 1.0, 2.0));
}

#[test]
fn missing_keys_are_named() {
    let (f, mut rng) = (fixture(), rng(2));
    let x = encrypt(f, &[Complex64::ONE], 6, &mut rng);
    let none = Evaluator::new(f.params.clone(), EvaluationKeys::default());
    let missing = |op, element, level| Err::<(), _>(Error::MissingKey { op, element, level });
    let element = GaloisElement::rotation(&f.params, 7).exponent();
    assert_eq!(none.mul(&x, &x).map(|_| ()), missing(Op::Mul, 0, 6));
    assert_eq!(f.eval.rotate(&x, 7).map(|_| ()), missing(Op::Rotate, element, 6));
    assert_eq!(f.eval.rotate_many(&x, &[1, 7]).map(|_| ()), missing(Op::Rotate, element, 6));
    assert_eq!(
        f.eval.sum_of_rotations(&x, &[(1, false), (7, true)]).map(|_| ()),
        missing(Op::Rotate, element, 6)
    );
    assert_eq!(none.conjugate(&x).map(|_| ()), missing(Op::Conjugate, 8191, 6));
    for (giant, baby) in [(7, 0), (0, 7)] {
        let t = DiagonalTransform { giant, terms: vec![(1, baby, vec![Complex64::ONE])] };
        let t = f.eval.encode_transform(&t, 6).unwrap();
        assert_eq!(f.eval.linear(&x, &t).map(|_| ()), missing(Op::Linear, element, 6));
    }
    // A key for lower levels does not work above its level.
    let relin = Some(Arc::new(ckks_secret::relin_key(&f.secret, 5, &mut rng)));
    let g = GaloisElement::rotation(&f.params, 1);
    let galois = [(g, Arc::new(ckks_secret::galois_key(&f.secret, g, 5, &mut rng)))].into();
    let low = Evaluator::new(f.params.clone(), EvaluationKeys { relin, galois });
    assert_eq!(low.mul(&x, &x).map(|_| ()), missing(Op::Mul, 0, 6));
    assert_eq!(low.rotate(&x, 1).map(|_| ()), missing(Op::Rotate, g.exponent(), 6));
    // A rotation key in place of a relinearisation key has another decomposition, and the reverse.
    let EvaluationKeys { relin, galois } = low.keys().clone();
    let swapped = EvaluationKeys {
        relin: galois.get(&g).cloned(),
        galois: relin.map(|key| (g, key)).into_iter().collect(),
    };
    let swapped = Evaluator::new(f.params.clone(), swapped);
    let y = encrypt(f, &[Complex64::ONE], 5, &mut rng);
    assert_eq!(swapped.mul(&y, &y).map(|_| ()), missing(Op::Mul, 0, 5));
    assert_eq!(swapped.rotate(&y, 1).map(|_| ()), missing(Op::Rotate, g.exponent(), 5));
    let a = values(256, true, &mut rng);
    for level in 0..=5 {
        let x = encrypt(f, &a, level, &mut rng);
        let error = Variance::of(&f.params, 8.0, 0.0, 1.0);
        assert_holds(f, &low.rotate(&x, 1).unwrap(), &rotated(&a, 1), error);
        if level > 0 {
            assert_holds(f, &low.mul(&x, &x).unwrap(), &zip(&a, &a, |p, q| p * q), error);
        }
    }
}

#[test]
fn misuse_is_refused_with_its_own_error() {
    let (f, mut rng) = (fixture(), rng(3));
    let (eval, one) = (&f.eval, [Complex64::ONE]);
    let (mut x, y) = (encrypt(f, &one, 4, &mut rng), encrypt(f, &one, 3, &mut rng));
    let before = x.clone();
    let level = |op| Err::<(), _>(Error::LevelMismatch { op, left: 4, right: 3 });
    assert_eq!(eval.add_assign(&mut x, &y), level(Op::Add));
    assert_eq!(eval.sub_assign(&mut x, &y), level(Op::Add));
    assert_eq!(eval.mul(&x, &y).map(|_| ()), level(Op::Mul));
    let low = Plaintext::encode(&f.params, &one, 3).unwrap();
    assert_eq!(eval.add_plain_assign(&mut x, &low), level(Op::Add));
    assert_eq!(eval.mul_plain(&x, &low).map(|_| ()), level(Op::MulPlain));
    let t = DiagonalTransform { giant: 0, terms: vec![(0, 1, one.to_vec())] };
    assert_eq!(eval.linear(&x, &eval.encode_transform(&t, 3).unwrap()).map(|_| ()), level(Op::Linear));

    let other = Plaintext::encode_at(&f.params, &one, 4, x.scale() * 1.001).unwrap();
    let other_ct = ckks_secret::encrypt(&f.secret, &other, &mut rng).expand(&f.secret);
    for result in [
        eval.add_assign(&mut x, &other_ct),
        eval.sub_assign(&mut x, &other_ct),
        eval.add_plain_assign(&mut x, &other),
    ] {
        assert!(matches!(result, Err(Error::ScaleMismatch { op: Op::Add, .. })));
    }
    // A refused operation leaves its operand unchanged.
    assert!(x == before);

    let bottom = encrypt(f, &one, 0, &mut rng);
    let out = |op, need, have| Err::<(), _>(Error::OutOfLevels { op, need, have });
    assert_eq!(eval.mul(&bottom, &bottom).map(|_| ()), out(Op::Mul, 1, 0));
    assert_eq!(eval.rescale(bottom.clone()).map(|_| ()), out(Op::Rescale, 1, 0));
    let m = Plaintext::encode(&f.params, &one, 0).unwrap();
    assert_eq!(eval.mul_plain(&bottom, &m).map(|_| ()), out(Op::Rescale, 1, 0));
    assert_eq!(
        eval.linear_combination(&[(1.0, &x), (1.0, &bottom)], 0.0).map(|_| ()),
        out(Op::MulPlain, 1, 0)
    );
    assert_eq!(eval.linear_combination(&[], 0.0).map(|_| ()), out(Op::MulPlain, 1, 0));
    assert_eq!(eval.encode_factor(&one, 0).map(|_| ()), out(Op::MulPlain, 1, 0));
    assert_eq!(eval.encode_transform(&t, 0).map(|_| ()), out(Op::Linear, 1, 0));
    assert_eq!(eval.drop_level(&x, 5).map(|_| ()), out(Op::DropLevel, 5, 4));
    assert_eq!(eval.adjust_to(&x, 4, x.scale()).map(|_| ()), out(Op::DropLevel, 5, 4));
    assert!(eval.adjust(&x, 4).unwrap() == x);
    // Levels above the top level.
    assert_eq!(eval.adjust(&x, 22).map(|_| ()), out(Op::DropLevel, 22, 4));
    assert_eq!(eval.drop_level(&x, 22).map(|_| ()), out(Op::DropLevel, 22, 4));
    assert_eq!(eval.encode_factor(&one, 22).map(|_| ()), out(Op::MulPlain, 22, 21));
    assert_eq!(eval.encode_transform(&t, 22).map(|_| ()), out(Op::Linear, 22, 21));

    for bad in [f64::NAN, f64::INFINITY, 1e40] {
        let refused = |r: Result<(), Error>| matches!(r, Err(Error::ValueRange { .. }));
        assert!(refused(eval.linear_combination(&[(bad, &x)], 0.0).map(|_| ())), "{bad}");
        assert!(refused(eval.linear_combination(&[(1.0, &x)], bad).map(|_| ())), "{bad}");
        assert!(refused(eval.add_constant_assign(&mut x, Complex64::new(bad, 0.0))), "{bad}");
        assert!(refused(eval.encode_factor(&[Complex64::new(0.0, bad)], 4).map(|_| ())), "{bad}");
    }
    for len in [0, 3, 4096] {
        let diagonal = vec![Complex64::ONE; len];
        let t = DiagonalTransform { giant: 0, terms: vec![(0, 1, diagonal.clone())] };
        for r in [eval.encode_transform(&t, 4).map(|_| ()), eval.encode_factor(&diagonal, 4).map(|_| ())] {
            assert!(matches!(r, Err(Error::SlotCount { got, max: 2048, .. }) if got == len));
        }
    }
    assert!(x == before);
}
