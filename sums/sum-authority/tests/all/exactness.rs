//! Encrypted sums are exact, within the range stated and no further.

use bandit::distributed::Model;
use ckks::{EvaluationKeys, Evaluator};
use privacy::Ratio;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use secure_sum::encrypted::{Adder, MAX_TOTAL, MAX_USERS, MAX_VALUE, encrypt, encrypted_bytes};
use secure_sum::{Batch, Plan};
use sum_authority::{Authority, Error};

fn adder(authority: &Authority) -> Adder {
    Adder::new(authority.params(), authority.public_key().id(authority.params()))
}

/// A batch of users with their noise, one of them missing: the sum is the integer sum.
#[test]
fn a_batch_is_summed_exactly() {
    let mut rng = ChaCha20Rng::seed_from_u64(31);
    let authority = Authority::generate(&mut rng).unwrap();
    let missing = Ratio::new(1, 10).unwrap();
    let plan = Plan {
        model: Model::Pure,
        epsilon: Ratio::ONE,
        invited: 40,
        missing,
        colluding: Ratio::ZERO,
        confidence: 0.1,
        horizon: 100,
    };
    let batch = Batch::new(&plan).unwrap();
    let (mut adder, mut total) = (adder(&authority), 0);
    for user in 0..39 {
        let value = batch.randomise(f64::from(user) / 40.0, &mut rng).unwrap();
        let bytes = encrypt(authority.params(), authority.public_key(), value, &mut rng).unwrap();
        assert_eq!(bytes.len(), encrypted_bytes(authority.params()));
        adder.add(&bytes).unwrap();
        total += value;
        if user == 34 {
            assert!(matches!(
                authority.open(&adder.to_bytes(), batch.at_least()),
                Err(Error::TooFew { need: 36 })
            ));
        }
    }
    let sum = authority.open(&adder.to_bytes(), batch.at_least()).unwrap();
    assert_eq!((sum.total, sum.users), (total, 39));
}

/// Both ends of the range, and the noise of the most users there may be: `2^12` copies of one ciphertext have
/// an error as large as that of `2^24` users.
#[test]
fn the_range_is_as_stated() {
    let mut rng = ChaCha20Rng::seed_from_u64(32);
    let authority = Authority::generate(&mut rng).unwrap();
    let (params, key) = (authority.params(), authority.public_key());
    let id = key.id(params);
    let evaluator = Evaluator::new(params.clone(), EvaluationKeys::default());
    for value in [MAX_VALUE, -MAX_VALUE, 1, -1, 0] {
        let bytes = encrypt(params, key, value, &mut rng).unwrap();
        let one = ckks::read_ciphertext(params, id, 1, &bytes).unwrap();
        let copies = if value.abs() == MAX_VALUE { 1 << 4 } else { 1 << 12 };
        let mut many = one.clone();
        evaluator.mul_integer_assign(&mut many, copies);
        let sum = authority.open(&ckks::write_ciphertext(params, id, &many), 1).unwrap();
        assert_eq!((sum.total, sum.users), (value * i128::from(copies), copies as u64));
        if value == MAX_VALUE {
            assert_eq!(sum.total, MAX_TOTAL);
            evaluator.add_assign(&mut many, &one).unwrap();
            let beyond = authority.open(&ckks::write_ciphertext(params, id, &many), 1);
            assert!(matches!(beyond, Err(Error::OutOfRange)));
        }
    }
    for beyond in [MAX_VALUE + 1, -MAX_VALUE - 1, i128::MAX, i128::MIN + 1] {
        assert!(encrypt(params, key, beyond, &mut rng).is_err());
    }
}

/// The errors of `2^24` independent users stay 60 standard deviations below half a step: measured on fresh
/// ones.
#[test]
fn noise_is_as_small_as_stated() {
    let mut rng = ChaCha20Rng::seed_from_u64(33);
    let params = secure_sum::encrypted::LOGN12_LOGQP105_SUM.validate().unwrap();
    let secret = ckks_secret::SecretKey::generate(&params, &mut rng);
    let public = ckks_secret::public_key(&secret, &mut rng);
    let (mut square, runs) = (0.0, 200);
    for _ in 0..runs {
        let bytes = encrypt(&params, &public, 12345, &mut rng).unwrap();
        let ct = ckks::read_ciphertext(&params, public.id(&params), 1, &bytes).unwrap();
        let slot = ckks_secret::decrypt(&secret, &ct, 1).with(|slots| slots[0]);
        let error = [slot.re - 12345.0, slot.im - 1.0].map(|e| e * params.scale(1));
        square += (error[0].powi(2) + error[1].powi(2)) / 2.0;
    }
    let deviation = (square / f64::from(runs)).sqrt();
    // 400 samples: within 18 % at five standard deviations.
    assert!((deviation / 237.0 - 1.0).abs() < 0.18, "{deviation}");
    let half_step = params.scale(1) / 2.0;
    assert!(237.0 * (MAX_USERS as f64).sqrt() * 60.0 < half_step);
}

#[test]
fn hostile_bytes_are_refused() {
    let mut rng = ChaCha20Rng::seed_from_u64(34);
    let (authority, other) = (Authority::generate(&mut rng).unwrap(), Authority::generate(&mut rng).unwrap());
    let good = encrypt(authority.params(), authority.public_key(), 5, &mut rng).unwrap();
    let mut adder = adder(&authority);
    adder.add(&good).unwrap();
    let before = adder.to_bytes();
    let mut flipped = good.clone();
    flipped[1000] ^= 1;
    for bad in [&[][..], &[7; 100], &good[..good.len() - 1], &flipped, &[good.clone(), vec![0]].concat()] {
        assert!(adder.add(bad).is_err());
        assert!(authority.open(bad, 1).is_err());
    }
    let foreign = encrypt(other.params(), other.public_key(), 5, &mut rng).unwrap();
    assert!(adder.add(&foreign).is_err());
    assert_eq!(adder.to_bytes(), before);
    // The encryption of nothing is a sum of no users.
    let empty = Adder::new(authority.params(), authority.public_key().id(authority.params()));
    assert!(matches!(authority.open(&empty.to_bytes(), 1), Err(Error::TooFew { .. })));
}
