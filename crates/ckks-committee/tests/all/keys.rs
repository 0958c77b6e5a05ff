use crate::committee::{Ring, SESSION, assert_near, centred, deviation, pairs, rng};
use ckks::{
    Ciphertext, Gadget, GaloisElement, KeySwitchKey, LOGN15_LOGQP147_SCORES, Params, ParamsSpec, Plaintext,
    PrefixSpec, PublicKey, TOY_LOGN11_SCORES, TOY_LOGN12_DEPTH21, TOY_LOGN12_SCORES, TOY_LOGN13_SCORES,
};
use ckks_committee::Smudge;
use ckks_secret::SecretKey;
use ckks_shares::{Error, Forms, KeyLabel, KeySum, PublicKeySum, Quorum, RANDOM_WEIGHT, SessionId};
use num_complex::Complex64;
use rns::{Modulus, Ntt, Poly, sample::SIGMA};

const SIZES: [(u8, u8); 2] = [(2, 3), (3, 5)];

/// The errors bⱼ + aⱼ·`to` − wⱼ·`from` of all digits of a key, modulo the first two primes.
pub(crate) fn key_errors(
    params: &Params,
    gadget: &Gadget,
    key: &KeySwitchKey,
    [from, to]: [&Poly<Ntt>; 2],
) -> Vec<i128> {
    let level = key.level();
    let basis = params.qp_basis(level);
    let primes: Vec<&Modulus> = (0..2).map(|i| basis.modulus(i)).collect();
    let digit = |j: usize| {
        let mut error = KeySwitchKey::mask(params, level, j, key.seed()).mul(basis, to);
        error.add_assign(basis, &key.b(params, j));
        let mut weighted = from.clone();
        weighted.for_each_limb(|i, limb| {
            let m = basis.modulus(i);
            let weight = gadget.weight(params, j, level, i);
            limb.iter_mut().for_each(|x| *x = weight.map_or(0, |w| m.mul_constant(*x, w)));
        });
        error.sub_assign(basis, &weighted);
        centred(&primes, &error.into_coeff(basis))
    };
    (0..gadget.digits(level)).flat_map(digit).collect()
}

/// Every key of the committee is an ordinary key of s = Σ sᵢ, with an error √n times that of one secret.
#[test]
fn keys_are_those_of_the_sum_of_the_secrets() {
    for (spec, (t, n)) in
        [TOY_LOGN11_SCORES, TOY_LOGN12_DEPTH21].into_iter().flat_map(|s| SIZES.map(|q| (s, q)))
    {
        let params = spec.validate().unwrap();
        let ring = Ring::new(&params, Quorum::new(t, n).unwrap(), 1);
        let (top, formula) = (params.max_level(), f64::from(n).sqrt() * SIGMA);
        let s = ring.whole(top);
        let what = |key: &str| format!("{key}, {t} of {n}, {}", params.spec().name);

        let public = ring.public_key();
        let basis = params.q_basis(top);
        let mut error = ckks::uniform_c1(&params, top, public.seed()).mul(basis, &s);
        error.add_assign(basis, public.b());
        let primes: Vec<&Modulus> = (0..2).map(|i| basis.modulus(i)).collect();
        assert_near(&what("public key"), deviation(centred(&primes, &error.into_coeff(basis))), formula);

        let element = GaloisElement::rotation(&params, 1);
        let target = s.permuted(&params.permutation(element.inverse(&params)));
        let errors = key_errors(&params, params.galois_gadget(), &ring.galois_key(element), [&s, &target]);
        assert_near(&what("rotation key"), deviation(errors), formula);

        let square = s.mul(params.qp_basis(top), &s);
        let errors = key_errors(&params, params.relin_gadget(), &ring.relinearisation_key(), [&square, &s]);
        assert_near(&what("relinearisation key"), deviation(errors), formula);
    }
}

/// The keys that take answers into the small ring are those of the sum of the secrets of both rings.
#[test]
fn ring_switch_keys_are_those_of_the_sums_of_the_secrets() {
    let spec = PrefixSpec { large: TOY_LOGN12_DEPTH21, log_n: 11, depth: 2, log_p: &[50] };
    let (answers, large) = (spec.validate().unwrap(), TOY_LOGN12_DEPTH21.validate().unwrap());
    let quorum = Quorum::new(3, 5).unwrap();
    let [small, large] = [(&answers, 7), (&large, 8)].map(|(params, seed)| Ring::new(params, quorum, seed));
    let (top, r) = (answers.max_level(), large.params.n() / answers.n());
    let m = large.params.q_basis(0).modulus(0);
    let s = large.whole(0).into_coeff(large.params.qp_basis(0));
    for number in 0..r {
        let label = KeyLabel::RingSwitch(number);
        let mut sum = KeySum::new(&answers, SESSION, label, top);
        let seed = SESSION.seed(&answers, label);
        for ((from, to), i) in large.secrets.iter().zip(&small.secrets).zip(1..) {
            sum.add(&ckks_secret::ring_switch_key_from(from, to, number, seed, &mut rng(i))).unwrap();
        }
        let component: Vec<i64> = s.limb(0)[number..].iter().step_by(r).map(|&x| m.centered(x)).collect();
        let basis = answers.qp_basis(top);
        let from = Poly::from_signed(basis, &component).into_ntt(basis);
        let key = sum.finish(quorum).unwrap();
        let errors = key_errors(&answers, answers.galois_gadget(), &key, [&from, &small.whole(top)]);
        assert_near("ring switch key, 3 of 5", deviation(errors), 5f64.sqrt() * SIGMA);
    }
}

/// Under these keys, the server multiplies and rotates as under those of one authority.
#[test]
fn products_and_rotations_are_right_under_the_keys_of_a_committee() {
    let params = TOY_LOGN12_DEPTH21.validate().unwrap();
    let ring = Ring::new(&params, Quorum::new(3, 5).unwrap(), 2);
    let rotation = GaloisElement::rotation(&params, 1);
    let (evaluator, public, mut rng) = (ring.evaluator(&[rotation]), ring.public_key(), rng(3));
    let x: Vec<Complex64> = (0..8).map(|i| Complex64::new(0.1 * f64::from(i) - 0.3, 0.0)).collect();
    let message = Plaintext::encode(&params, &x, params.max_level()).unwrap();
    let ct = ckks::encrypt(&params, &public, &message, &mut rng);
    let errors = ring.phase(&ct);
    let plain = {
        let zero = Poly::zero(params.n(), params.max_level() + 1);
        ring.phase(&ckks::Ciphertext::new(message.poly().clone(), zero, message.level(), message.scale()))
    };
    let formula = SIGMA * (4.0 * 5.0 * params.n() as f64 / 3.0 + 1.0).sqrt();
    let error = deviation(errors.iter().zip(&plain).map(|(a, b)| a - b));
    assert_near("encryption under the public key", error, formula);

    let square = evaluator.mul(&ct, &ct).unwrap();
    let turned = evaluator.rotate(&square, 1).unwrap();
    let phase: Vec<f64> = ring.phase(&turned).iter().map(|&c| c as f64 / turned.scale()).collect();
    let slots = params.encoder().slots(&phase, 8);
    for (j, got) in slots.iter().enumerate() {
        let want = x[(j + 1) % 8] * x[(j + 1) % 8];
        assert!((got - want).norm() < 2f64.powi(-15), "slot {j}: {got} for {want}");
    }
}

/// Of a share that is not on the polynomial, every set with its member opens something else, at each level,
/// and no other set: errors stay within the bound under the smudging.
#[test]
fn attack_a_share_off_the_polynomial_fails_the_key_test() {
    for (spec, level) in [(TOY_LOGN11_SCORES, 1), (TOY_LOGN12_DEPTH21, 20)] {
        let params = spec.validate().unwrap();
        for (t, n) in SIZES {
            let quorum = Quorum::new(t, n).unwrap();
            let [ring, other] = [4, 5].map(|seed| Ring::new(&params, quorum, seed));
            let (pairs, sets) = (pairs(quorum), quorum.subsets().collect::<Vec<_>>());
            // The public key is an encryption of 0.
            let (key, basis) = (ring.public_key(), params.q_basis(level));
            let c1 = PublicKey::mask(&params, false, key.seed()).truncated(basis.len());
            let forms = Forms::random(&params, level, 4, &[3; 32]);
            let own = forms.apply(&key.b().truncated(basis.len()).into_coeff(basis));
            let size = RANDOM_WEIGHT * (params.n() as f64).sqrt() * f64::from(n).sqrt() * SIGMA;
            let smudge = Smudge::at_least(1024.0 * size);
            let bound = (8.0 * f64::from(t).sqrt() * smudge.deviation()) as i128;
            let check = |wrong: Option<u8>| {
                for set in &sets {
                    let shares = set.iter().map(|j| {
                        let at = usize::from(j - 1);
                        let ring = if wrong == Some(j) { &other } else { &ring };
                        let share =
                            ring.shares[at].test_key(&pairs[at], &forms, smudge, &[*set], b"test", &c1);
                        share.unwrap().remove(0)
                    });
                    let shares: Vec<_> = shares.collect();
                    let passed = ckks_shares::all_below(&params, level, *set, &own, &shares, bound).unwrap();
                    assert_eq!(passed, !wrong.is_some_and(|j| set.contains(j)), "{set:?}, {wrong:?}");
                }
            };
            check(None);
            (1..=n).for_each(|wrong| check(Some(wrong)));
        }
    }
}

#[test]
fn foreign_and_missing_shares_of_keys_are_refused() {
    let params = TOY_LOGN11_SCORES.validate().unwrap();
    let quorum = Quorum::new(2, 3).unwrap();
    let ring = Ring::new(&params, quorum, 6);
    let label = KeyLabel::Galois(GaloisElement::rotation(&params, 1));
    let other = SessionId([8; 32]);
    let key = |session: SessionId, level| {
        let KeyLabel::Galois(element) = label else { unreachable!() };
        ckks_secret::galois_key_from(
            &ring.secrets[0],
            element,
            level,
            session.seed(&params, label),
            &mut rng(1),
        )
    };
    let top = params.max_level();
    let mut sum = KeySum::new(&params, SESSION, label, top);
    assert!(matches!(sum.add(&key(other, top)), Err(Error::Foreign(_))));
    assert!(matches!(sum.add(&key(SESSION, top - 1)), Err(Error::Foreign(_))));
    sum.add(&key(SESSION, top)).unwrap();
    assert_eq!(sum.finish(quorum).unwrap_err(), Error::ShareCount { got: 1, want: 3 });
    let mut sum = PublicKeySum::new(&params, SESSION);
    let foreign = ckks_secret::public_key(&ring.secrets[0], &mut rng(2));
    assert!(matches!(sum.add(&foreign), Err(Error::Foreign(_))));
    assert_eq!(sum.finish(quorum).unwrap_err(), Error::ShareCount { got: 0, want: 3 });
}

/// Public keys, and what is encrypted under them, of n secrets at one ring: every deviation against its
/// formula.
fn check_encryptions(spec: ParamsSpec) {
    let params = spec.validate().unwrap();
    let (top, degree) = (params.max_level(), params.n() as f64);
    let basis = params.q_basis(top);
    let primes: Vec<&Modulus> = (0..basis.len()).map(|i| basis.modulus(i)).collect();
    for n in [1u8, 3, 5] {
        let what = |name: &str| format!("{name}, n = {n}, N = {}", params.n());
        let secrets: Vec<_> =
            (0..n).map(|i| SecretKey::generate(&params, &mut rng(40 + u64::from(i)))).collect();
        let seed = SESSION.seed(&params, KeyLabel::Public);
        let keys =
            secrets.iter().zip(50..).map(|(s, i)| ckks_secret::wide_public_key_from(s, seed, &mut rng(i)));
        let keys: Vec<_> = keys.collect();
        let key = match n {
            1 => keys[0].clone(),
            n => {
                let mut sum = PublicKeySum::new(&params, SESSION);
                keys.iter().for_each(|key| sum.add(key).unwrap());
                assert!(matches!(sum.add(&keys[0].narrow(&params)), Err(Error::Foreign(_))));
                sum.finish(Quorum::new(n / 2 + 1, n).unwrap()).unwrap()
            }
        };
        assert!(key.is_wide(&params) && key.id(&params) == key.narrow(&params).id(&params));
        let wide = params.qp_basis(top);
        let mut s = Poly::zero(params.n(), wide.len());
        secrets.iter().for_each(|secret| s.add_assign(wide, &secret.values_qp(top)));
        let mut error = PublicKey::mask(&params, true, key.seed()).mul(wide, &s);
        error.add_assign(wide, key.b());
        // Modulo the special primes alone: those of Q are tested as the narrow key.
        let special: Vec<&Modulus> = (0..wide.len()).map(|i| wide.modulus(i)).skip(basis.len()).collect();
        let mut last = Poly::<Ntt>::zero(params.n(), 1);
        last.for_each_limb(|_, limb| limb.copy_from_slice(error.limb(basis.len())));
        let last = centred(&special, &last.into_coeff(params.p_basis()));
        assert_near(&what("wide public key"), deviation(last), f64::from(n).sqrt() * SIGMA);

        let scale = f64::from(22).exp2();
        let values: Vec<i64> = (0..params.n() as i64).map(|k| (k * 977) % 4_000_000 - 2_000_000).collect();
        let message = Plaintext::from_integers(&params, &values, top, scale).unwrap();
        let noise = |ct: &Ciphertext| {
            let mut phase = ct.c1().mul(basis, &s);
            phase.add_assign(basis, ct.c0());
            let phase = centred(&primes, &phase.into_coeff(basis));
            deviation(phase.into_iter().zip(&values).map(|(x, m)| x - i128::from(*m)))
        };
        let (members, mut rng) = (f64::from(n), rng(60));
        let plain = noise(&ckks::encrypt(&params, &key, &message, &mut rng));
        let formula = SIGMA * (4.0 * members * degree / 3.0 + 1.0).sqrt();
        assert_near(&what("encryption under the public key"), plain, formula);
        let wide = noise(&ckks::encrypt_wide(&params, &key, &message, &mut rng));
        assert_near(&what("wide encryption"), wide, ((1.0 + 2.0 * members * degree / 3.0) / 12.0).sqrt());
        let proven = ckks::encrypt_proven(&params, &key, &message, params.n(), b"", &mut rng);
        let proven = ckks::read_proven_ciphertext(&params, key.id(&params), scale, params.n(), &proven);
        let proven = proven.unwrap();
        proven.verify(&ckks::ProofKey::new(&params, &key.narrow(&params)), b"").unwrap();
        let proven = noise(&proven.ciphertext(&params));
        assert_near(
            &what("encryption with a proof"),
            proven,
            ((1.0 + 2.0 * members * degree / 3.0) / 12.0).sqrt(),
        );
        let low = Plaintext::from_integers(&params, &values, 0, scale).unwrap();
        let low = ckks::encrypt_wide(&params, &key, &low, &mut rng);
        let mut phase = low.c1().mul(params.q_basis(0), &s.truncated(1));
        phase.add_assign(params.q_basis(0), low.c0());
        let phase = centred(&primes[..1], &phase.into_coeff(params.q_basis(0)));
        let low = deviation(phase.into_iter().zip(&values).map(|(x, m)| x - i128::from(*m)));
        assert_near(
            &what("wide encryption at level 0"),
            low,
            ((1.0 + 2.0 * members * degree / 3.0) / 12.0).sqrt(),
        );
    }
}

/// A wide encryption has the noise of one rounding, and a plain one that of the whole public key.
#[test]
fn wide_encryptions_have_the_noise_of_one_rounding() {
    [TOY_LOGN12_SCORES, TOY_LOGN13_SCORES].into_iter().for_each(check_encryptions);
}

#[test]
#[ignore = "a large ring"]
fn wide_encryptions_of_the_largest_ring_have_the_noise_of_one_rounding() {
    check_encryptions(LOGN15_LOGQP147_SCORES);
}
