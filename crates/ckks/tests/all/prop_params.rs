//! Galois elements, the chain of scales, decompositions, and frames with primes of every width.

use ckks::{
    Ciphertext, Decomposition, Error, FrameHeader, FrameKind, Gadget, GaloisElement, KeyId, KeySwitchKey,
    Params, ParamsSpec, Plaintext, PublicKey, Security, TOY_LOGN12_DEPTH21,
};
use num_complex::Complex64;
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rns::{Basis, Ntt, Poly, Radix};
use std::sync::OnceLock;

fn small() -> &'static Params {
    static PARAMS: OnceLock<Params> = OnceLock::new();
    PARAMS.get_or_init(|| spec(33, 27, 2).validate().unwrap())
}

/// Parameters whose rotations have a base-2ʷ decomposition: the one special prime is no larger than q₀.
fn base2() -> &'static Params {
    static PARAMS: OnceLock<Params> = OnceLock::new();
    let spec = ParamsSpec { log_p: &[50], ..spec(50, 40, 2) };
    PARAMS.get_or_init(|| spec.validate().unwrap())
}

fn spec(log_q0: u32, log_scale: u32, depth: usize) -> ParamsSpec {
    ParamsSpec {
        name: "toy-property",
        log_n: 10,
        log_q0,
        depth,
        log_scale,
        log_p: &[50, 50],
        products: ckks::Products::Rescaled,
        security: Security::None,
    }
}

/// A polynomial of random residues, with both ends of their range frequent.
fn random(basis: &Basis, rng: &mut ChaCha20Rng) -> Poly<Ntt> {
    let mut out = Poly::zero(basis.n(), basis.len());
    for i in 0..basis.len() {
        let q = basis.modulus(i).value();
        out.limb_mut(i).fill_with(|| match rng.next_u32() % 8 {
            0 => 0,
            1 => q - 1,
            _ => rng.next_u64() % q,
        });
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Rotations form a cyclic group of order N/2, the conjugation commutes with them and is its own inverse,
    /// and every element has an inverse.
    #[test]
    fn galois_elements_form_the_group(j in -5000i64..5000, k in any::<i64>(), log_n in 10u32..=12) {
        let params = if log_n == 10 { small() } else { toy() };
        let two_n = 2 * params.n() as u64;
        let element = |exponent| GaloisElement::new(params, exponent).unwrap();
        let times = |a: GaloisElement, b: GaloisElement| element(a.exponent() * b.exponent() % two_n);
        let rotation = |k| GaloisElement::rotation(params, k);
        let conjugation = GaloisElement::conjugation(params);
        let k = k / 2;
        prop_assert_eq!(times(rotation(j), rotation(k)), rotation(j + k));
        prop_assert_eq!(rotation(k).inverse(params), rotation(-k));
        prop_assert_eq!(rotation(k + params.max_slots() as i64), rotation(k));
        prop_assert_eq!(times(conjugation, conjugation), rotation(0));
        let both = times(conjugation, rotation(k));
        prop_assert!(times(both, both.inverse(params)).is_identity());
        let slow = (0..j.rem_euclid(params.max_slots() as i64)).fold(1, |g, _| g * 5 % two_n);
        prop_assert_eq!(rotation(j), element(slow));
        // Powers of 5 are 1 modulo 4 and −1 is not, so that no rotation is the conjugation.
        prop_assert_eq!(rotation(k).exponent() % 4, 1);
        for exponent in [2 * (k.unsigned_abs() % (two_n / 2)), two_n + 1, u64::MAX] {
            prop_assert!(GaloisElement::new(params, exponent).is_none());
        }
    }

    /// The composition of the permutations of two elements is the permutation of their product.
    #[test]
    fn permutations_compose_like_their_elements(a in 0u64..1024, b in 0u64..1024) {
        let params = small();
        let (a, b) = (2 * a + 1, 2 * b + 1);
        let permutation = |exponent| params.permutation(GaloisElement::new(params, exponent).unwrap());
        let (pa, pb) = (permutation(a), permutation(b));
        let composed: Vec<u32> = pb.indices().iter().map(|&i| pa.indices()[i as usize]).collect();
        let product = permutation(a * b % 2048);
        prop_assert_eq!(composed, product.indices());
    }

    /// scale(l − 1) = scale(l)²/q_l holds exactly in double precision, every scale is within 1/20 of a bit of
    /// Δ, the primes are distinct, and the digits are as large as their divisor allows.
    #[test]
    fn the_scale_chain_stays_near_delta(log_scale in 24u32..=44, depth in 1usize..=24, room in 2u32..=6) {
        let spec = spec(log_scale + room, log_scale, depth);
        let params = spec.validate().unwrap();
        prop_assert_eq!(params.scale(depth), f64::from(log_scale).exp2() * (1.0 - 1.0 / 256.0));
        for l in 1..=depth {
            prop_assert_eq!(params.scale(l - 1), params.scale(l).powi(2) / params.prime(l) as f64);
        }
        for l in 0..=depth {
            prop_assert!((params.scale(l).log2() - f64::from(log_scale)).abs() < 0.05, "level {}", l);
        }
        let mut primes: Vec<u64> = params.qp_basis(depth).primes().collect();
        let all = primes.len();
        primes.sort_unstable();
        primes.dedup();
        prop_assert_eq!(primes.len(), all);
        let log = |q: u64| (q as f64).log2();
        let chain: Vec<f64> = params.q_basis(depth).primes().map(log).collect();
        // The digits of a product must be small beside P times any prime that the product may be divided by.
        let least = chain[1..].iter().fold(f64::INFINITY, |least, q| least.min(*q));
        for (gadget, more) in [(params.galois_gadget(), 0.0), (params.relin_gadget(), least)] {
            check_gadget(&params, gadget, params.p_basis().log2() + more)?;
        }
    }

    /// With one special prime the decomposition is an RNS decomposition where that fits, else a base-2ʷ
    /// decomposition that adds at most the noise of one rounding; else the parameters are refused.
    #[test]
    fn one_special_prime_is_used_for_what_it_has_room_for(
        log_p in 20u32..=50, log_scale in 20u32..=44, above in 2u32..=20, depth in 1usize..=12,
    ) {
        check_one_special_prime(log_p, log_scale, above, depth)?;
    }

    /// Ciphertexts with primes of every width, at every level, equal what is read from their frames.
    #[test]
    fn ciphertext_frames_round_trip(log_q0 in 22u32..=50, below in 2u32..=10, depth in 1usize..=3, seed: u64) {
        let params = spec(log_q0, (log_q0 - below).max(20), depth).validate().unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let id = KeyId([3; 16]);
        for level in 0..=depth {
            let basis = params.q_basis(level);
            let (c0, c1) = (random(basis, &mut rng), random(basis, &mut rng));
            let ct = Ciphertext::new(c0.clone(), c1, level, params.scale(level));
            let bytes = ckks::write_ciphertext(&params, id, &ct);
            prop_assert_eq!(bytes.len(), ckks::ciphertext_bytes(&params, level, false));
            prop_assert!(ckks::read_ciphertext(&params, id, level, &bytes).unwrap() == ct);
            let seed = [level as u8; 32];
            let half = ckks::write_seeded_ciphertext(&params, id, &c0, &seed, level, params.scale(level));
            prop_assert_eq!(half.len(), ckks::ciphertext_bytes(&params, level, true));
            let read = ckks::read_ciphertext(&params, id, level, &half).unwrap();
            prop_assert!(*read.c0() == c0 && *read.c1() == ckks::uniform_c1(&params, level, &seed));
        }
    }

    /// Keys equal what is read from their frames. A frame with one changed bit or another length is refused.
    #[test]
    fn key_frames_round_trip(
        bits: bool, level in 0usize..=2, element in 0u64..1024, at: prop::sample::Index, seed: u64,
    ) {
        let params = if bits { base2() } else { small() };
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut mask = [0; 32];
        rng.fill_bytes(&mut mask);
        let public = PublicKey::new(params, random(params.q_basis(2), &mut rng), mask);
        let bytes = ckks::write_public_key(params, &public);
        let (read, id) = ckks::read_public_key(params, &bytes).unwrap();
        prop_assert!(read == public && id == public.id(params));

        let basis = params.qp_basis(level);
        // 0 stands for a relinearisation key.
        let element = (element > 0).then(|| GaloisElement::new(params, 2 * element + 1).unwrap());
        let gadget = if element.is_some() { params.galois_gadget() } else { params.relin_gadget() };
        let b = (0..gadget.digits(level)).map(|_| random(basis, &mut rng)).collect();
        let key = KeySwitchKey::new(params, gadget, level, b, mask);
        let switch = ckks::write_key_switch_key(params, id, element, &key);
        let (read_element, read) = ckks::read_key_switch_key(params, id, &switch).unwrap();
        prop_assert!(read == key && read_element == element);

        for good in [bytes, switch] {
            let at = at.index(good.len());
            let mut bad = good.clone();
            bad[at] ^= 1 << (seed % 8);
            let longer = [&good[..], &[0]].concat();
            for bad in [&bad[..], &good[..at], &longer] {
                prop_assert!(ckks::read_public_key(params, bad).is_err());
                prop_assert!(ckks::read_key_switch_key(params, id, bad).is_err());
            }
        }
    }
}

/// Checks parameters with one special prime of `log_p` bits: their gadgets if they are valid, and if they are
/// refused that no decomposition fits.
fn check_one_special_prime(
    log_p: u32,
    log_scale: u32,
    above: u32,
    depth: usize,
) -> Result<(), TestCaseError> {
    let spec = |log_p: Vec<u32>| ParamsSpec {
        log_p: log_p.leak(),
        ..spec((log_scale + above).min(50), log_scale, depth)
    };
    let Ok(params) = spec(vec![log_p]).validate() else {
        // Two more special primes leave room for every key switch. Both are wider than any prime of the chain
        // but q₀, which is chosen before them, so the chain and the first special prime are those refused.
        let params = spec(vec![log_p, 50, 50]).validate().unwrap();
        let (q, p) =
            (params.q_basis(depth), params.p_basis().primes().next().map_or(0.0, |p| (p as f64).log2()));
        prop_assert!(
            q.primes().any(|q| (q as f64).log2() > p - Gadget::SPARE_BITS),
            "every prime is a digit"
        );
        // Between nearly equal digits of at least 16 bits on average there are fewer than log₂(Q)/16 + 1, and
        // each has 15 bits or more if there are at most log₂(Q)/15. The most digits that keep both are the
        // quietest: they add more than one rounding, or the base-2ʷ decomposition would have been used.
        let bits = Radix::bits(q);
        let count = (bits / 15.0).floor().min((bits / 16.0).ceil());
        let ends: Vec<u32> =
            (1..=count as u32).map(|t| (f64::from(t) * bits / count).ceil() as u32).collect();
        let noise = roundings(&ends, p);
        prop_assert!(noise > 1.0, "{noise} roundings, refused");
        return Ok(());
    };
    let least = (1..=depth).map(|l| (params.prime(l) as f64).log2()).fold(f64::INFINITY, f64::min);
    check_gadget(&params, params.galois_gadget(), params.p_basis().log2())?;
    check_gadget(&params, params.relin_gadget(), params.p_basis().log2() + least)
}

/// The variance that the digits that end at `ends` add to a division by a number of `divisor` bits, in units
/// of the variance of its rounding: 3.2²/12 a digit, in units of 1/18.
fn roundings(ends: &[u32], divisor: f64) -> f64 {
    let starts = [0].into_iter().chain(ends.iter().copied());
    let widths = starts.zip(ends).map(|(start, &end)| f64::from(end - start));
    widths.map(|width| 10.24 * 1.5 * 4f64.powf(width - divisor)).sum()
}

/// Parameters near the edge of what one special prime allows. Q has 58 bits. Three digits of 19 and 20 bits
/// are quiet for a special prime of 23 bits. For 22 bits four digits are, but of 14 and 15 bits: too narrow.
#[test]
fn one_special_prime_at_the_edge() {
    let valid = |log_p| {
        check_one_special_prime(log_p, 25, 8, 1).unwrap();
        ParamsSpec { log_p: vec![log_p].leak(), ..spec(33, 25, 1) }.validate().is_ok()
    };
    assert_eq!([21, 22, 23].map(valid), [false, false, true]);
}

/// Checks that the digits are as large as a division by a number of `divisor` bits allows.
fn check_gadget(params: &Params, gadget: &Gadget, divisor: f64) -> Result<(), TestCaseError> {
    let depth = params.max_level();
    let chain: Vec<f64> = params.q_basis(depth).primes().map(|q| (q as f64).log2()).collect();
    let (digits, room) = (gadget.digits(depth), divisor - Gadget::SPARE_BITS);
    prop_assert!((0..=depth).all(|level| (1..=digits).contains(&gadget.digits(level))));
    match gadget.decomposition() {
        Decomposition::Rns(_) => {
            let mut next = 0;
            for j in 0..digits {
                let limbs = gadget.limbs(j, depth);
                let bits: f64 = chain[limbs.clone()].iter().sum();
                let more = chain.get(limbs.end).is_none_or(|next| bits + next > room);
                prop_assert!(limbs.start == next && !limbs.is_empty() && bits <= room && more);
                next = limbs.end;
            }
            prop_assert_eq!(next, chain.len());
        }
        Decomposition::Base2(ends) => {
            prop_assert!(chain.iter().any(|log| *log > room), "groups fit");
            let starts = [0].into_iter().chain(ends.iter().copied());
            prop_assert!(starts.zip(ends).all(|(start, end)| (15..=47).contains(&(end - start))));
            let noise = roundings(ends, divisor);
            prop_assert!(noise <= 1.0, "{noise} roundings");
            prop_assert!(f64::from(ends[digits - 1]) >= chain.iter().sum::<f64>());
            prop_assert_eq!(digits, ends.len());
        }
    }
    Ok(())
}

fn toy() -> &'static Params {
    static PARAMS: OnceLock<Params> = OnceLock::new();
    PARAMS.get_or_init(|| TOY_LOGN12_DEPTH21.validate().unwrap())
}

/// The base-2ʷ decomposition is used only where a prime is too large for a digit of its own. The weight of
/// its digits is P times the power of two of their first bit.
#[test]
fn digits_are_of_bits_where_no_group_fits() {
    let params = base2();
    let gadget = params.galois_gadget();
    assert_eq!((0..=2).map(|level| gadget.digits(level)).collect::<Vec<_>>(), [2, 3, 3]);
    let Decomposition::Base2(ends) = gadget.decomposition() else { panic!("{:?}", gadget.decomposition()) };
    let m = params.q_basis(2).modulus(1);
    let p = params.p_basis().primes().fold(1, |p, q| m.mul(p, m.reduce(q)));
    assert_eq!(gadget.weight(params, 0, 2, 1).map(|w| w.value), Some(p));
    assert_eq!(gadget.weight(params, 1, 2, 1).map(|w| w.value), Some(m.mul(p, m.pow(2, ends[0].into()))));
    assert!(gadget.weight(params, 1, 2, 3).is_none(), "nothing modulo P");
    assert!(gadget.weight(params, 1, 1, 2).is_none(), "nothing modulo P, below the top");
    assert_eq!(params.relin_gadget().decomposition(), &Decomposition::Rns(vec![1, 3]));
    assert_eq!(small().galois_gadget().decomposition(), &Decomposition::Rns(vec![3]));
    for spec in ParamsSpec::named() {
        let params = spec.validate().unwrap();
        assert!(matches!(params.galois_gadget().decomposition(), Decomposition::Rns(_)), "{}", spec.name);
    }
}

/// A key-switch key with a wrong header field is refused, even if its digest is right.
#[test]
fn key_switch_headers_are_checked() {
    let params = small();
    let id = KeyId([3; 16]);
    let b = (0..params.relin_gadget().digits(1))
        .map(|_| Poly::zero(params.n(), params.qp_basis(1).len()))
        .collect();
    let bytes = ckks::write_key_switch_key(
        params,
        id,
        None,
        &KeySwitchKey::new(params, params.relin_gadget(), 1, b, [0; 32]),
    );
    let payload = &bytes[ckks::FRAME_HEADER_BYTES..bytes.len() - ckks::FRAME_DIGEST_BYTES];
    let good = FrameHeader {
        kind: FrameKind::KeySwitchKey,
        level: 1,
        parts: params.relin_gadget().digits(1),
        element: 0,
        scale: 0.0,
    };
    let read = |header| {
        let frame = ckks::write_frame(params, id, header, payload.len(), |out| out.extend(payload));
        ckks::read_key_switch_key(params, id, &frame).map(|_| ())
    };
    assert_eq!(read(good), Ok(()));
    for bad in [
        FrameHeader { level: 0, ..good },
        FrameHeader { level: 2, ..good },
        FrameHeader { parts: good.parts + 1, ..good },
        FrameHeader { parts: 0, ..good },
        FrameHeader { element: 2, ..good },
        FrameHeader { element: 2 * params.n() as u64 + 1, ..good },
        FrameHeader { scale: 1.0, ..good },
        FrameHeader { scale: -0.0, ..good },
        FrameHeader { scale: f64::NAN, ..good },
    ] {
        assert!(matches!(read(bad), Err(Error::BadFrame(_))), "{bad:?}");
    }
}

/// A level above the top level is an error and no panic.
#[test]
fn levels_above_the_top_are_refused() {
    let params = small();
    let encoded = Plaintext::encode(params, &[Complex64::ONE], 3);
    assert!(matches!(encoded, Err(Error::OutOfLevels { need: 3, have: 2, .. })));
    let encoded = Plaintext::encode_at(params, &[Complex64::ONE], 9, 1e6);
    assert!(matches!(encoded, Err(Error::OutOfLevels { need: 9, have: 2, .. })));
    let bytes = ckks::write_ciphertext(params, KeyId([3; 16]), &Ciphertext::zero(params, 2));
    assert!(matches!(
        ckks::read_ciphertext(params, KeyId([3; 16]), 3, &bytes),
        Err(Error::OutOfLevels { .. })
    ));
}
