//! Encrypted sums are exact, within the range stated and no further.

use bandit::distributed::Model;
use ckks::{Ciphertext, EvaluationKeys, Evaluator, KeyId};
use privacy::Ratio;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use secure_sum::encrypted::{Adder, MAX_TOTAL, MAX_VALUE, SumRing, encrypt, read_sum};
use secure_sum::{Batch, Plan};
use sum_authority::{Authority, Error};

/// The two rings.
fn rings() -> [&'static SumRing; 2] {
    [1000, 1 << 20].map(|users| SumRing::for_users(users).unwrap())
}

fn id(authority: &Authority) -> KeyId {
    authority.public_key().id(authority.ring().params())
}

fn adder(authority: &Authority) -> Adder {
    Adder::new(authority.ring(), id(authority))
}

/// A batch of users with their noise, one of them missing: the sum is the integer sum.
#[test]
fn a_batch_is_summed_exactly() {
    let mut rng = ChaCha20Rng::seed_from_u64(31);
    let ring = SumRing::for_users(36).unwrap();
    let authority = Authority::generate(ring, &mut rng);
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
        let bytes = encrypt(ring, authority.public_key(), value, &mut rng).unwrap();
        assert_eq!(bytes.len(), ring.value_bytes());
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

/// Three thousand users of any values, of which many are the same: the sum is the integer sum in both rings.
#[test]
fn sums_of_many_users_are_exact() {
    let mut rng = ChaCha20Rng::seed_from_u64(35);
    for ring in rings() {
        let authority = Authority::generate(ring, &mut rng);
        let (mut adder, mut total) = (adder(&authority), 0);
        for user in 0..3000i128 {
            let value = match user % 3 {
                0 => 12_345,
                1 => user * user - 1_000_000,
                _ => (user % 2 * 2 - 1) * (MAX_VALUE - user),
            };
            adder.add(&encrypt(ring, authority.public_key(), value, &mut rng).unwrap()).unwrap();
            total += value;
        }
        let sum = authority.open(&adder.to_bytes(), 3000).unwrap();
        assert_eq!((sum.total, sum.users), (total, 3000));
    }
}

/// Both ends of the range, and the noise of the most users there may be: √n copies of one ciphertext have an
/// error as large as that of n users.
#[test]
fn the_range_is_as_stated() {
    let mut rng = ChaCha20Rng::seed_from_u64(32);
    for ring in rings() {
        let authority = Authority::generate(ring, &mut rng);
        let (params, key, id) = (ring.params(), authority.public_key(), id(&authority));
        let evaluator = Evaluator::new(params.clone(), EvaluationKeys::default());
        let root = ring.max_users().isqrt() as i64;
        let write = |ct: &Ciphertext| ckks::write_truncated_ciphertext(params, id, ct, coefficients(ring));
        for value in [MAX_VALUE, -MAX_VALUE, 1, -1, 0] {
            let one = read_sum(ring, id, &encrypt(ring, key, value, &mut rng).unwrap()).unwrap();
            let copies = if value.abs() == MAX_VALUE { 1 << 4 } else { root };
            let mut many = one.clone();
            evaluator.mul_integer_assign(&mut many, copies);
            let sum = authority.open(&write(&many), 1).unwrap();
            assert_eq!((sum.total, sum.users), (value * i128::from(copies), copies as u64));
            if value == MAX_VALUE {
                assert_eq!(sum.total, MAX_TOTAL);
                evaluator.add_assign(&mut many, &one).unwrap();
                assert!(matches!(authority.open(&write(&many), 1), Err(Error::OutOfRange)));
            }
        }
        for beyond in [MAX_VALUE + 1, -MAX_VALUE - 1, i128::MAX, i128::MIN] {
            assert!(encrypt(ring, key, beyond, &mut rng).is_err());
        }
    }
}

/// The number of coefficients of c₀ in a frame.
fn coefficients(ring: &SumRing) -> usize {
    let size = |count| ckks::truncated_ciphertext_bytes(ring.params(), 0, count);
    (0..64).find(|count| size(*count) == ring.value_bytes()).unwrap()
}

/// Errors of fresh ciphertexts of 0 have the standard deviation that ten of fit into half a step for the most
/// users: 3.2·√(4N/3 + 1), and rounding.
#[test]
fn noise_is_as_small_as_stated() {
    let mut rng = ChaCha20Rng::seed_from_u64(33);
    for (ring, stated) in rings().into_iter().zip([118.3, 167.3]) {
        let params = ring.params();
        let secret = ckks_secret::SecretKey::generate(params, &mut rng);
        let public = ckks_secret::public_key(&secret, &mut rng);
        let (mut square, runs) = (0.0, 200);
        for _ in 0..runs {
            let bytes = encrypt(ring, &public, 0, &mut rng).unwrap();
            let ct = read_sum(ring, public.id(params), &bytes).unwrap();
            // The first three coefficients are of the value.
            let errors = ckks_secret::decrypt_coefficients(&secret, &ct).with(|c| [c[0], c[1], c[2]]);
            square += errors.into_iter().map(|e| (e * e) as f64).sum::<f64>();
        }
        let deviation = (square / f64::from(3 * runs)).sqrt();
        // 600 samples: within 15 % at five standard deviations.
        assert!((deviation / stated - 1.0).abs() < 0.15, "{deviation}");
    }
}

#[test]
fn hostile_bytes_are_refused() {
    let mut rng = ChaCha20Rng::seed_from_u64(34);
    let [ring, large] = rings();
    let [authority, other] = [(); 2].map(|()| Authority::generate(ring, &mut rng));
    let key = authority.public_key();
    let good = encrypt(ring, key, 5, &mut rng).unwrap();
    let mut adder = adder(&authority);
    adder.add(&good).unwrap();
    let before = adder.to_bytes();
    let mut flipped = good.clone();
    flipped[1000] ^= 1;
    // Frames of other numbers of coefficients, of the other ring, and of whole ciphertexts under the same
    // key.
    let (params, id) = (ring.params(), id(&authority));
    let whole = read_sum(ring, id, &good).unwrap();
    let cut = |count| ckks::write_truncated_ciphertext(params, id, &whole, count);
    let foreign_ring = Authority::generate(large, &mut rng);
    let frames = [
        cut(coefficients(ring) - 1),
        cut(coefficients(ring) + 1),
        encrypt(large, foreign_ring.public_key(), 5, &mut rng).unwrap(),
        ckks::write_ciphertext(params, id, &whole),
        encrypt(ring, other.public_key(), 5, &mut rng).unwrap(),
        [good.clone(), vec![0]].concat(),
        good[..good.len() - 1].to_vec(),
        flipped,
        vec![7; 100],
        Vec::new(),
    ];
    for bad in frames {
        assert!(adder.add(&bad).is_err());
        assert!(matches!(authority.open(&bad, 1), Err(Error::Sum(_))));
    }
    assert_eq!(adder.to_bytes(), before);
    // The encryption of nothing is a sum of no users.
    let empty = Adder::new(ring, id);
    assert!(matches!(authority.open(&empty.to_bytes(), 1), Err(Error::TooFew { .. })));
}
