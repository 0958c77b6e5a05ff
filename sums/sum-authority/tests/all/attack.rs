//! A server that deviates: it hands the authority ciphertexts of its own making.

use ckks::{Ciphertext, KeyId, Params, PublicKey};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use rns::{Ntt, Poly};
use secure_sum::encrypted::{LOGN12_LOGQP105_SUM, encrypt};
use secure_sum::{BatchId, Sum};
use std::time::Instant;
use sum_authority::service::{AuthorityLimits, Opener};
use sum_authority::{Authority, Error};

/// Coefficients that one answer shows, in the total and again in the number of users.
const EACH: usize = 14;
/// Of a batch, as the server claims.
const USERS: u32 = 1000;

fn polynomial(params: &Params, coefficients: &[i64]) -> Poly<Ntt> {
    let basis = params.q_basis(1);
    Poly::from_signed(basis, coefficients).into_ntt(basis)
}

/// A sum of `2^23` users: `c1` has the weights `3^j` at the powers `first + j`, so that the phase shows the
/// secret's coefficients `n - first - j` at 0 and `n/2 - first - j` at n/2, as digits of base 3.
fn probe(params: &Params, key: KeyId, first: usize) -> Vec<u8> {
    let (n, step) = (params.n(), params.scale(1).round() as i64);
    let (mut c0, mut c1) = (vec![0; n], vec![0; n]);
    c0[n / 2] = step << 23;
    for j in 0..EACH.min(n / 2 + 1 - first) {
        c1[first + j] = step * 3i64.pow(j as u32);
    }
    let probe = Ciphertext::new(polynomial(params, &c0), polynomial(params, &c1), 1, params.scale(1));
    ckks::write_ciphertext(params, key, &probe)
}

/// Digits -1, 0 and 1 of base 3.
fn digits(mut value: i128) -> [i64; EACH] {
    [(); EACH].map(|()| {
        let digit = (value + 1).rem_euclid(3) - 1;
        value = (value - digit) / 3;
        digit as i64
    })
}

/// What the answers say of all coefficients, and how many answers that took.
fn learn(params: &Params, mut ask: impl FnMut(u64, usize) -> Result<Sum, Error>) -> (Vec<i64>, u64) {
    let (n, mut answers) = (params.n(), 0);
    let mut secret = vec![0; n];
    for first in (1..=n / 2).step_by(EACH) {
        answers += 1;
        let sum = ask(answers, first).unwrap();
        let (high, low) = (digits(-sum.total), digits(i128::from(sum.users) - (1 << 23)));
        for j in 0..EACH.min(n / 2 + 1 - first) {
            (secret[n - first - j], secret[n / 2 - first - j]) = (high[j], low[j]);
        }
    }
    (secret, answers)
}

/// The value in a user's ciphertext, if `secret` is its key's: below 2^8, so that one prime holds it.
fn value(params: &Params, key: KeyId, secret: &[i64], bytes: &[u8]) -> f64 {
    let (basis, ct) = (params.q_basis(0), ckks::read_ciphertext(params, key, 1, bytes).unwrap());
    let secret = Poly::from_signed(basis, secret).into_ntt(basis);
    let mut phase = ct.c1().truncated(1);
    phase.mul_assign(basis, &secret);
    phase.add_assign(basis, &ct.c0().truncated(1));
    let (residue, q) = (phase.into_coeff(basis).limb(0)[0] as i64, params.prime(0) as i64);
    (if residue > q / 2 { residue - q } else { residue }) as f64 / params.scale(1)
}

fn user(params: &Params, key: &PublicKey, rng: &mut ChaCha20Rng) -> Vec<u8> {
    encrypt(params, key, 77, rng).unwrap()
}

/// Under one key for all batches, 147 answers show it whole: a single user's value is then read.
#[test]
fn attack_one_key_for_all_batches_is_learnt() {
    let mut rng = ChaCha20Rng::seed_from_u64(51);
    let authority = Authority::generate(&mut rng).unwrap();
    let (params, key) = (authority.params(), authority.public_key());
    let id = key.id(params);
    let (secret, answers) = learn(params, |_, first| authority.open(&probe(params, id, first), USERS));
    assert_eq!(answers, 147);
    let read = value(params, id, &secret, &user(params, key, &mut rng));
    assert_eq!(read.round(), 77.0, "{read}");
}

/// The same with a key for each batch: every answer is of another key, a second one under the same key is
/// refused, and what comes together reads nobody's value.
#[test]
fn attack_a_key_for_each_batch_is_not_learnt() {
    let (mut rng, now) = (ChaCha20Rng::seed_from_u64(52), Instant::now());
    let params = LOGN12_LOGQP105_SUM.validate().unwrap();
    let mut opener = Opener::new(AuthorityLimits::default());
    let batch = |number| BatchId { number, at_least: USERS };
    let mut values = Vec::new();
    let (secret, answers) = learn(&params, |number, first| {
        let bytes = opener.make(batch(number), now, &mut rng)?;
        let (key, id) = ckks::read_public_key(&params, &bytes)?;
        values.push((id, user(&params, &key, &mut rng)));
        let answer = opener.open(batch(number), &probe(&params, id, first), now);
        let next = 1 + (first + EACH) % 2000;
        let again = opener.open(batch(number), &probe(&params, id, next), now);
        assert!(matches!(again, Err(Error::Opened { .. })), "{again:?}");
        answer
    });
    assert_eq!((answers, opener.refused()), (147, 147));
    let read = values.iter().filter(|(id, bytes)| (value(&params, *id, &secret, bytes) - 77.0).abs() < 0.5);
    // A wrong key gives a value uniform on 512: of 147 one in two such runs hits one, 8 has probability 1e-9.
    assert!(read.count() < 8);
}

/// Probes whose answer is a refusal: the fourth destroys the key, so that four bits are all they tell. An
/// authority that counts none answers as many as are asked, and opens the sum afterwards.
#[test]
fn attack_refused_probes_destroy_the_key() {
    let (mut rng, now) = (ChaCha20Rng::seed_from_u64(53), Instant::now());
    let params = LOGN12_LOGQP105_SUM.validate().unwrap();
    let batch = BatchId { number: 1, at_least: 2 };
    for (refusals, destroyed) in [(AuthorityLimits::default().refusals, true), (u32::MAX, false)] {
        let mut opener = Opener::new(AuthorityLimits { refusals, ..AuthorityLimits::default() });
        let (key, id) = ckks::read_public_key(&params, &opener.make(batch, now, &mut rng).unwrap()).unwrap();
        let one = user(&params, &key, &mut rng);
        // What is no ciphertext tells nothing of the key, and does it no harm.
        for _ in 0..10 {
            assert!(matches!(opener.open(batch, &one[1..], now), Err(Error::Sum(_))));
        }
        let mut answered = 0;
        for _ in 0..20 {
            match opener.open(batch, &one, now) {
                Err(Error::TooFew { need: 2 }) => answered += 1,
                Err(Error::Destroyed { refusals: 4, .. }) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((answered, opener.refused()), (if destroyed { 4 } else { 20 }, 30));
        let whole = opener.open(batch, &probe(&params, id, 1), now);
        assert_eq!(matches!(whole, Err(Error::Destroyed { .. })), destroyed);
        assert!(opener.key(batch, now).is_err());
    }
}
