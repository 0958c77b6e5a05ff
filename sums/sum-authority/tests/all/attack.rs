//! A server that deviates: it hands the authority ciphertexts of its own making.

use ckks::{Ciphertext, KeyId, PublicKey};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use rns::{Ntt, Poly};
use secure_sum::encrypted::{SumRing, encrypt, read_sum};
use secure_sum::{BatchId, Sum};
use std::time::Instant;
use sum_authority::service::{AuthorityLimits, Opener};
use sum_authority::{Authority, Error};

/// Of a batch, as the server claims.
const USERS: u32 = 1000;
/// The number of users in the answer to a probe that reveals no coefficient.
const BASE: i64 = 3000;
/// Two coefficients that hold a residue of the number of users: index, modulus, and the number of users with
/// residue 1 there and 0 in the other two, whose moduli are two of 55, 53 and 51.
const SEEN: [(usize, i64, u64); 2] = [(9, 55, 18_921), (10, 53, 36_465)];

fn ring() -> &'static SumRing {
    SumRing::for_users(USERS).unwrap()
}

fn polynomial(ring: &SumRing, coefficients: &[i64]) -> Poly<Ntt> {
    let basis = ring.params().q_basis(0);
    Poly::from_signed(basis, coefficients).into_ntt(basis)
}

/// A sum of [`BASE`] users and total 0 whose c₁ is `sign` times a small number w at X^shift, and whose c₀ is
/// w/2 below the next residue in the coefficients of [`SEEN`]. There the residue rises by one if the
/// coefficient of X^shift times the secret has the sign `sign`. All other residues round w away.
fn probe(ring: &SumRing, key: KeyId, shift: usize, sign: i64) -> Vec<u8> {
    let (params, q) = (ring.params(), ring.params().prime(0) as i64);
    let (mut c0, mut c1, w) = (vec![0; params.n()], vec![0; params.n()], q / 400);
    c1[shift] = sign * w;
    for (k, t, _) in SEEN {
        c0[k] = (2 * (BASE % t) + 1) * q / (2 * t) - w / 2;
    }
    c0[11] = BASE % 51 * q / 51;
    let probe = Ciphertext::new(polynomial(ring, &c0), polynomial(ring, &c1), 0, params.scale(0));
    ckks::write_truncated_ciphertext(params, key, &probe, 12)
}

/// What the answers say of all coefficients, and how many answers that took.
fn learn(ring: &SumRing, mut ask: impl FnMut(u64, usize, i64) -> Result<Sum, Error>) -> (Vec<i64>, u64) {
    let (n, mut answers) = (ring.params().n(), 0);
    let mut secret = vec![0; n];
    for shift in (0..n).step_by(2) {
        for sign in [1, -1] {
            answers += 1;
            let rises = ask(answers, shift, sign).unwrap().users - BASE as u64;
            let [(_, _, first), (_, _, second)] = SEEN;
            for ((k, ..), risen) in SEEN
                .into_iter()
                .zip([rises == first || rises == first + second, rises == second || rises == first + second])
            {
                // X^n is -1.
                let wrapped = if shift > k { -1 } else { 1 };
                if risen {
                    secret[(n + k - shift) % n] = sign * wrapped;
                }
            }
        }
    }
    (secret, answers)
}

/// The value in a user's ciphertext, if `secret` is its key's.
fn value(ring: &SumRing, key: KeyId, secret: &[i64], bytes: &[u8]) -> Option<Sum> {
    let (basis, ct) = (ring.params().q_basis(0), read_sum(ring, key, bytes).unwrap());
    let mut phase = ct.c1().truncated(1);
    phase.mul_assign(basis, &polynomial(ring, secret));
    phase.add_assign(basis, ct.c0());
    let (phase, q) = (phase.into_coeff(basis), i128::from(ring.params().prime(0)));
    let centred = |c: i128| if c > q / 2 { c - q } else { c };
    ring.decode(&phase.limb(0)[..12].iter().map(|c| centred(i128::from(*c))).collect::<Vec<_>>())
}

const VALUE: Sum = Sum { total: 77, users: 1 };

fn user(key: &PublicKey, rng: &mut ChaCha20Rng) -> Vec<u8> {
    encrypt(ring(), key, VALUE.total, rng).unwrap()
}

/// Under one key for all batches, 1024 answers show it whole: a single user's value is then read.
#[test]
fn attack_one_key_for_all_batches_is_learnt() {
    let mut rng = ChaCha20Rng::seed_from_u64(51);
    let (ring, authority) = (ring(), Authority::generate(ring(), &mut rng));
    let (key, id) = (authority.public_key(), authority.public_key().id(ring.params()));
    let (secret, answers) =
        learn(ring, |_, shift, sign| authority.open(&probe(ring, id, shift, sign), USERS));
    assert_eq!(answers, 1024);
    assert_eq!(value(ring, id, &secret, &user(key, &mut rng)), Some(VALUE));
}

/// The same with a key for each batch: every answer is of another key, a second one under the same key is
/// refused, and what comes together reads nobody's value.
#[test]
fn attack_a_key_for_each_batch_is_not_learnt() {
    let (mut rng, now, ring) = (ChaCha20Rng::seed_from_u64(52), Instant::now(), ring());
    let mut opener = Opener::new(AuthorityLimits::default());
    let batch = |number| BatchId { number, at_least: USERS };
    let mut values = Vec::new();
    let (secret, answers) = learn(ring, |number, shift, sign| {
        let bytes = opener.make(batch(number), now, &mut rng)?;
        let (key, id) = ckks::read_public_key(ring.params(), &bytes).unwrap();
        values.push((id, user(&key, &mut rng)));
        let answer = opener.open(batch(number), &probe(ring, id, shift, sign), now);
        let again = opener.open(batch(number), &probe(ring, id, shift + 1, sign), now);
        assert!(matches!(again, Err(Error::Opened { .. })), "{again:?}");
        answer
    });
    assert_eq!((answers, opener.refused()), (1024, 1024));
    // A wrong key gives residues of a total and a number of users that are in their ranges with probability
    // 2^-15, and then any of 2^50.
    assert!(values.iter().all(|(id, bytes)| value(ring, *id, &secret, bytes) != Some(VALUE)));
}

/// Probes whose answer is a refusal: the fourth destroys the key, so that four bits are all they tell. An
/// authority that counts none answers as many as are asked, and opens the sum afterwards.
#[test]
fn attack_refused_probes_destroy_the_key() {
    let (mut rng, now, ring) = (ChaCha20Rng::seed_from_u64(53), Instant::now(), ring());
    let batch = BatchId { number: 1, at_least: 2 };
    for (refusals, destroyed) in [(AuthorityLimits::default().refusals, true), (u32::MAX, false)] {
        let mut opener = Opener::new(AuthorityLimits { refusals, ..AuthorityLimits::default() });
        let made = opener.make(batch, now, &mut rng).unwrap();
        let (key, id) = ckks::read_public_key(ring.params(), &made).unwrap();
        let one = user(&key, &mut rng);
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
        let whole = opener.open(batch, &probe(ring, id, 1, 1), now);
        assert_eq!(matches!(whole, Err(Error::Destroyed { .. })), destroyed);
        assert!(opener.key(batch, now).is_err());
    }
}
