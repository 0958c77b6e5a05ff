//! Every operation of the engine is compared with the same operation on plain values.

use ckks::{
    DiagonalTransform, EvaluationKeys, Evaluator, GaloisElement, Params, Plaintext, TOY_LOGN12_DEPTH21,
};
use ckks_secret::{SecretKey, measure};
use num_complex::Complex64;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::sync::{Arc, OnceLock};

const SLOTS: usize = 256;

struct Fixture {
    params: Params,
    secret: SecretKey,
    eval: Evaluator,
    public: ckks::PublicKey,
}

fn fixture() -> &'static Fixture {
    static FIXTURE: OnceLock<Fixture> = OnceLock::new();
    FIXTURE.get_or_init(|| {
        let params = TOY_LOGN12_DEPTH21.validate().unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let secret = SecretKey::generate(&params, &mut rng);
        let top = params.max_level();
        let public = ckks_secret::public_key(&secret, &mut rng);
        let mut keys = EvaluationKeys {
            relin: Some(Arc::new(ckks_secret::relin_key(&secret, top, &mut rng))),
            ..EvaluationKeys::default()
        };
        for k in [1, 2, 3, 4, 5, -1, 16, 64, 2047] {
            let g = GaloisElement::rotation(&params, k);
            keys.galois.insert(g, Arc::new(ckks_secret::galois_key(&secret, g, top, &mut rng)));
        }
        let g = GaloisElement::conjugation(&params);
        keys.galois.insert(g, Arc::new(ckks_secret::galois_key(&secret, g, top, &mut rng)));
        let eval = Evaluator::new(params.clone(), keys);
        Fixture { params, secret, eval, public }
    })
}

fn values(seed: u64) -> Vec<Complex64> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut unit = || rng.next_u32() as f64 / 2f64.powi(31) - 1.0;
    (0..SLOTS).map(|_| Complex64::new(unit(), unit())).collect()
}

fn encrypt(v: &[Complex64], level: usize, seed: u64) -> ckks::Ciphertext {
    let f = fixture();
    let m = Plaintext::encode(&f.params, v, level).unwrap();
    ckks_secret::encrypt(&f.secret, &m, &mut ChaCha20Rng::seed_from_u64(seed)).expand(&f.secret)
}

#[track_caller]
fn assert_bits(ct: &ckks::Ciphertext, want: &[Complex64], bits: f64) {
    let p = measure(&fixture().secret, ct, want);
    assert!(p.worst_bits >= bits, "{p}, wanted {bits} bits");
}

fn map2(a: &[Complex64], b: &[Complex64], f: impl Fn(Complex64, Complex64) -> Complex64) -> Vec<Complex64> {
    a.iter().zip(b).map(|(&x, &y)| f(x, y)).collect()
}

#[test]
fn encryption_under_either_key_decrypts() {
    let f = fixture();
    let v = values(2);
    for level in [0, 3, f.params.max_level()] {
        assert_bits(&encrypt(&v, level, 3), &v, 21.0);
        let m = Plaintext::encode(&f.params, &v, level).unwrap();
        let ct = ckks::encrypt(&f.params, &f.public, &m, &mut ChaCha20Rng::seed_from_u64(4));
        assert_bits(&ct, &v, 15.0);
    }
}

#[test]
fn arithmetic_matches_plain_values_at_every_level() {
    let f = fixture();
    let (a, b) = (values(5), values(6));
    for level in [1, 2, 4, 9, f.params.max_level()] {
        let (x, y) = (encrypt(&a, level, 7), encrypt(&b, level, 8));
        let mut sum = x.clone();
        f.eval.add_assign(&mut sum, &y).unwrap();
        assert_bits(&sum, &map2(&a, &b, |p, q| p + q), 20.0);
        f.eval.sub_assign(&mut sum, &y).unwrap();
        f.eval.mul_i_assign(&mut sum);
        f.eval.neg_assign(&mut sum);
        f.eval.mul_integer_assign(&mut sum, 3);
        f.eval.add_constant_assign(&mut sum, Complex64::new(0.5, -0.25)).unwrap();
        let want = map2(&a, &b, |p, _| p * Complex64::new(0.0, -3.0) + Complex64::new(0.5, -0.25));
        assert_bits(&sum, &want, 18.0);
        let product = f.eval.mul(&x, &y).unwrap();
        assert_eq!((product.level(), product.scale()), (level - 1, f.params.scale(level - 1)));
        assert_bits(&product, &map2(&a, &b, |p, q| p * q), 18.0);
        let m = f.eval.encode_factor(&b, level).unwrap();
        assert_bits(&f.eval.mul_plain(&x, &m).unwrap(), &map2(&a, &b, |p, q| p * q), 18.0);
        let combined = f.eval.linear_combination(&[(0.3, &x), (-1.7, &y)], 0.125).unwrap();
        assert_bits(&combined, &map2(&a, &b, |p, q| 0.3 * p - 1.7 * q + 0.125), 18.0);
    }
}

#[test]
fn rotations_move_slots_to_the_left() {
    let f = fixture();
    let a = values(9);
    for level in [0, 5, f.params.max_level()] {
        let x = encrypt(&a, level, 10);
        for k in [1i64, 2, -1, 64] {
            let mut want = a.clone();
            want.rotate_left(k.rem_euclid(SLOTS as i64) as usize);
            assert_bits(&f.eval.rotate(&x, k).unwrap(), &want, 18.0);
        }
        let want: Vec<_> = a.iter().map(|z| z.conj()).collect();
        assert_bits(&f.eval.conjugate(&x).unwrap(), &want, 18.0);
        let many = f.eval.rotate_many(&x, &[1, 0, 3]).unwrap();
        for (ct, k) in many.iter().zip([1, 0, 3]) {
            let mut want = a.clone();
            want.rotate_left(k);
            assert_bits(ct, &want, 18.0);
        }
    }
}

#[test]
fn linear_transforms_match_the_dense_matrix() {
    let f = fixture();
    let a = values(11);
    let terms: Vec<(usize, i64, Vec<Complex64>)> = [(0, 0), (0, 1), (1, 0), (1, 2), (4, 1), (3, -1)]
        .iter()
        .enumerate()
        .map(|(i, &(n, b))| (n, b, values(20 + i as u64)))
        .collect();
    let mut want = vec![Complex64::ZERO; SLOTS];
    for (n, b, d) in &terms {
        for j in 0..SLOTS {
            want[j] += d[j] * a[(j as i64 + 16 * *n as i64 + b).rem_euclid(SLOTS as i64) as usize];
        }
    }
    let t = DiagonalTransform { giant: 16, terms };
    for level in [1, 6, f.params.max_level()] {
        let encoded = f.eval.encode_transform(&t, level).unwrap();
        let out = f.eval.linear(&encrypt(&a, level, 12), &encoded).unwrap();
        assert_eq!(out.level(), level - 1);
        assert_bits(&out, &want, 16.5);
    }
}

#[test]
fn a_chain_of_products_keeps_its_scale_to_the_last_level() {
    let f = fixture();
    let a: Vec<_> = values(13).iter().map(|z| z / z.norm()).collect();
    let (mut ct, mut want) = (encrypt(&a, f.params.max_level(), 14), a.clone());
    while ct.level() > 0 {
        ct = f.eval.mul(&ct, &ct).unwrap();
        want = map2(&want, &want, |p, q| p * q);
        // Squaring doubles the error. The expected values are set to the decrypted ones, so that each step is
        // judged alone.
        assert_bits(&ct, &want, 17.0);
        ct = encrypt(&want, ct.level(), 15);
    }
    assert!(f.eval.mul(&ct, &ct).is_err());
}

#[test]
fn adjust_reaches_every_lower_level() {
    let f = fixture();
    let a = values(16);
    let ct = encrypt(&a, f.params.max_level(), 17);
    for level in 0..f.params.max_level() {
        let out = f.eval.adjust(&ct, level).unwrap();
        assert_eq!((out.level(), out.scale()), (level, f.params.scale(level)));
        assert_bits(&out, &a, 19.0);
    }
    assert!(f.eval.adjust(&f.eval.adjust(&ct, 3).unwrap(), 4).is_err());
}

#[test]
fn recryption_of_a_masked_value_raises_the_level_exactly() {
    let f = fixture();
    let a = values(18);
    let low = encrypt(&a, 2, 19);
    let high = ckks_secret::recrypt(&f.secret, &low, 21, SLOTS, &mut ChaCha20Rng::seed_from_u64(20))
        .unwrap()
        .expand(&f.secret);
    // The scale of level 21 is 2³², but the message was scaled for level 2.
    assert_eq!((high.level(), high.scale()), (21, f.params.scale(21)));
    let a: Vec<_> = a.iter().map(|z| z * (low.scale() / high.scale())).collect();
    assert_bits(&high, &a, 20.5);
    assert!(
        ckks_secret::recrypt(&f.secret, &encrypt(&a, 0, 1), 21, SLOTS, &mut ChaCha20Rng::seed_from_u64(1))
            .is_err()
    );
}

#[test]
fn frames_return_what_was_written_and_refuse_what_was_not() {
    let f = fixture();
    let (params, id) = (&f.params, f.public.id(&f.params));
    let v = values(21);
    let m = Plaintext::encode(params, &v, 4).unwrap();
    let seeded = ckks_secret::encrypt(&f.secret, &m, &mut ChaCha20Rng::seed_from_u64(22));
    let bytes = seeded.to_bytes(&f.secret, id);
    let ct = seeded.expand(&f.secret);
    assert_eq!(bytes.len(), ckks::ciphertext_bytes(params, 4, true));
    assert_eq!(ckks::read_ciphertext(params, id, 4, &bytes).unwrap(), ct);
    let full = ckks::write_ciphertext(params, id, &ct);
    assert_eq!(ckks::read_ciphertext(params, id, 4, &full).unwrap(), ct);
    assert!(matches!(ckks::read_ciphertext(params, id, 3, &full), Err(ckks::Error::BadFrame(_))));
    assert!(matches!(ckks::read_ciphertext(params, id, 5, &full), Err(ckks::Error::WrongLevel { .. })));
    for at in [0, 5, 7, 9, 30, 41, 43, 50, 60, full.len() - 40, full.len() - 1] {
        let mut bad = full.clone();
        bad[at] ^= 1;
        assert!(ckks::read_ciphertext(params, id, 4, &bad).is_err(), "byte {at}");
    }
    for len in [0, 10, 87, 88, full.len() / 2, full.len() - 1] {
        assert!(ckks::read_ciphertext(params, id, 4, &full[..len]).is_err());
    }
    let (public, read_id) =
        ckks::read_public_key(params, &ckks::write_public_key(params, &f.public)).unwrap();
    assert!(public == f.public && read_id == id);
    let relin = f.eval.keys().relin.as_ref().unwrap();
    let (element, key) =
        ckks::read_key_switch_key(params, id, &ckks::write_key_switch_key(params, id, None, relin)).unwrap();
    assert!(element.is_none() && key == **relin);
    let (secret, _) = SecretKey::from_bytes(params, &f.secret.to_bytes(id)).unwrap();
    assert!(measure(&secret, &ct, &v).worst_bits > 21.0);
    assert!(SecretKey::from_bytes(params, &full).is_err());
}
