//! Exchanges of numbers with a holder of the key, by public linear maps.

use crate::common::rng;
use ckks::{
    Ciphertext, Domain, Error, Exchange, MapTerm, Params, Plaintext, Side, SumTerm, TOY_LOGN11_SCORES,
};
use ckks_secret::{SecretKey, decrypt_coefficients};
use num_complex::Complex64;
use rand::RngExt;
use rand_chacha::ChaCha20Rng;
use std::collections::HashMap;
use std::sync::OnceLock;

/// A ring, its key and a public key.
struct Ring {
    params: Params,
    secret: SecretKey,
    public: ckks::PublicKey,
}

impl Ring {
    fn new(spec: ckks::ParamsSpec, seed: u64) -> Self {
        let (params, mut rng) = (spec.validate().unwrap(), rng(seed));
        let secret = SecretKey::generate(&params, &mut rng);
        let public = ckks_secret::public_key(&secret, &mut rng);
        Ring { params, secret, public }
    }
}

fn scores() -> &'static Ring {
    static RING: OnceLock<Ring> = OnceLock::new();
    RING.get_or_init(|| Ring::new(TOY_LOGN11_SCORES, 61))
}

fn deep() -> &'static Ring {
    static RING: OnceLock<Ring> = OnceLock::new();
    RING.get_or_init(|| Ring::new(ckks::TOY_LOGN12_DEPTH11, 62))
}

/// The ring of a side, by its domain: coefficients are in the ring of scores, slots in the deep one.
fn ring(domain: Domain) -> &'static Ring {
    match domain {
        Domain::Coefficients => scores(),
        Domain::Slots => deep(),
    }
}

fn masked_side(domain: Domain, ciphertexts: usize) -> Side {
    match domain {
        Domain::Coefficients => Side::coefficients(&scores().params, ciphertexts, 50),
        Domain::Slots => Side::slots(&deep().params, ciphertexts, 1).unwrap(),
    }
}

fn fresh_side(domain: Domain, ciphertexts: usize) -> Side {
    match domain {
        Domain::Coefficients => Side::coefficients(&scores().params, ciphertexts, 28),
        Domain::Slots => Side::slots(&deep().params, ciphertexts, 6).unwrap(),
    }
}

/// An encryption of the numbers at the places of one ciphertext of a side.
fn encrypt(side: &Side, numbers: &[f64], rng: &mut ChaCha20Rng) -> Ciphertext {
    let Ring { params, secret, .. } = ring(side.domain);
    let message = match side.domain {
        Domain::Coefficients => {
            let integers: Vec<i64> = numbers.iter().map(|x| (x * side.scale).round() as i64).collect();
            Plaintext::from_integers(params, &integers, side.level, side.scale).unwrap()
        }
        Domain::Slots => {
            let slots: Vec<_> =
                numbers.chunks_exact(2).map(|pair| Complex64::new(pair[0], pair[1])).collect();
            Plaintext::encode(params, &slots, side.level).unwrap()
        }
    };
    ckks_secret::encrypt(secret, &message, rng).expand(secret)
}

/// The numbers at the places of these ciphertexts.
fn numbers(side: &Side, ciphertexts: &[Ciphertext]) -> Vec<f64> {
    let Ring { params, secret, .. } = ring(side.domain);
    let of = |ct: &Ciphertext| match side.domain {
        Domain::Coefficients => decrypt_coefficients(secret, ct)
            .with(|c| c.iter().map(|c| *c as f64 / side.scale).collect::<Vec<_>>()),
        Domain::Slots => ckks_secret::decrypt(secret, ct, params.max_slots())
            .with(|s| s.iter().flat_map(|z| [z.re, z.im]).collect()),
    };
    ciphertexts.iter().flat_map(of).collect()
}

/// The server and the holder of the key: masked, decrypted, mapped, encrypted, unmasked.
fn exchanged(
    exchange: &Exchange,
    mut ciphertexts: Vec<Ciphertext>,
    factors: &[f64],
    rng: &mut ChaCha20Rng,
) -> Vec<Ciphertext> {
    let (from, to) = (ring(exchange.from().domain), ring(exchange.to().domain));
    let seed = ckks::mask_seed_of(&ciphertexts, &[7; 32]);
    exchange.mask_assign(&mut ciphertexts, &seed).unwrap();
    ciphertexts.iter_mut().for_each(|ct| ckks::rerandomise_assign(&from.params, &from.public, ct, rng));
    let fresh =
        ckks_secret::exchange(exchange, &from.secret, &to.secret, &ciphertexts, factors, rng).unwrap();
    let mut fresh: Vec<_> = fresh.into_iter().map(|ct| ct.expand(&to.secret)).collect();
    exchange.unmask_assign(&mut fresh, &exchange.encode_mask(&seed, factors).unwrap()).unwrap();
    fresh
}

/// The variance of the error of each output of a linear map, whose `weights` say by how much it has which
/// input. In units of a coefficient:
///
/// - A masked input has the error 3.2·√(4N/3 + 1) of the encryption of zero that re-randomises it, 3.2 of its
///   own encryption, and the rounding of its message, 1/√12.
/// - An output has 3.2 of its encryption, and a rounding for the number and one for the mask in each term, or
///   of slots in each coefficient.
///
/// The real part of a slot is a sum of N coefficients by cosines, so that its error is √(N/2) times as large,
/// and those of different places are independent. A rescaling takes no part.
fn error_variances(from: &Side, to: &Side, weights: &[HashMap<usize, f64>]) -> Vec<f64> {
    let unit = |side: &Side| match side.domain {
        Domain::Coefficients => side.scale.powi(-2),
        Domain::Slots => side.params.n() as f64 / 2.0 * side.scale.powi(-2),
    };
    let (sigma, rounding) = (rns::sample::SIGMA.powi(2), 1.0 / 12.0);
    let masked = unit(from) * (sigma * (4.0 * from.params.n() as f64 / 3.0 + 2.0) + rounding);
    let of = |weights: &HashMap<usize, f64>| {
        let roundings = if to.domain == Domain::Slots { 1 } else { weights.len() };
        masked * weights.values().map(|w| w * w).sum::<f64>()
            + unit(to) * (sigma + 2.0 * rounding * roundings as f64)
    };
    weights.iter().map(of).collect()
}

/// Between coefficients and slots in all four ways, of two ciphertexts, the server and the holder of the key
/// have the sums of terms with their weights and factors. Of 4,096 or 8,192 outputs the largest error is
/// between 2 and 6.5 of its own deviations ([`error_variances`]); normal ones are outside with a
/// probability of 10⁻⁶ or less.
#[test]
fn exchanges_are_linear_maps() {
    let mut rng = rng(63);
    let domains = [Domain::Coefficients, Domain::Slots];
    let ways = domains.into_iter().flat_map(|from| domains.map(|to| (from, to)));
    for (from, to, sums) in ways.flat_map(|(from, to)| [0, 500].map(|sums| (from, to, sums))) {
        let (from, to) = (masked_side(from, 2), fresh_side(to, 2));
        let [inputs, outputs] = [&from, &to].map(|side| 2 * side.params.n());
        let ends = if sums > 0 { sums } else { outputs };
        let factors = [0.7301, 1.0 / 3.0, 0.0];
        let weights = [1.0, -1.0, 0.5, -0.25];
        let mut terms: Vec<MapTerm> = (0..2 * ends)
            .map(|_| MapTerm {
                from: rng.random_range(0..inputs),
                to: rng.random_range(0..ends),
                weight: weights[rng.random_range(0..4)],
                group: rng.random_range(0..3),
            })
            .collect();
        // The difference of a number with itself is exactly 0, and no number at all is 0.
        terms.retain(|term| term.to > 1);
        terms.extend([1.0, -1.0].map(|weight| MapTerm { from: 5, to: 1, weight, group: 0 }));
        let mut want = vec![0.0; outputs];
        let mut made: Vec<HashMap<usize, f64>> = vec![HashMap::new(); outputs];
        let values: Vec<f64> = (0..inputs).map(|_| rng.random_range(-1.0..1.0)).collect();
        for term in &terms {
            let weight = term.weight * factors[term.group];
            want[term.to] += weight * values[term.from];
            *made[term.to].entry(term.from).or_default() += weight;
        }
        let exchange = match sums {
            0 => Exchange::new(from.clone(), to.clone(), terms).unwrap(),
            _ => {
                let sum = std::mem::replace(&mut want, vec![0.0; outputs]);
                let sum_made = std::mem::replace(&mut made, vec![HashMap::new(); outputs]);
                // Each sum less another, and one less itself.
                let of = |sum: usize, to: usize, negative: bool| SumTerm { sum, to, negative };
                let pairs = (0..outputs).map(|to| (to, to % sums, if to == 1 { 1 } else { 7 * to % sums }));
                let of_sums: Vec<_> =
                    pairs.flat_map(|(to, a, b)| [of(a, to, false), of(b, to, true)]).collect();
                for SumTerm { sum: from, to, negative } in &of_sums {
                    let sign = if *negative { -1.0 } else { 1.0 };
                    want[*to] += sign * sum[*from];
                    for (input, weight) in &sum_made[*from] {
                        *made[*to].entry(*input).or_default() += sign * weight;
                    }
                }
                Exchange::of_sums(from.clone(), to.clone(), sums, terms, of_sums).unwrap()
            }
        };
        let ciphertexts = values.chunks_exact(from.params.n()).map(|v| encrypt(&from, v, &mut rng)).collect();
        let fresh = exchanged(&exchange, ciphertexts, &factors, &mut rng);
        let got = numbers(&to, &fresh);
        let variances = error_variances(&from, &to, &made);
        let worst = got.iter().zip(&want).zip(variances).map(|((a, b), v)| (a - b).abs() / v.sqrt());
        let worst = worst.fold(0.0, f64::max);
        let (from, to) = (from.domain, to.domain);
        assert!((2.0..6.5).contains(&worst), "{from:?} to {to:?}, {sums} sums: {worst:.2} deviations");
    }
}

/// The image of a masked number, less that of the mask, is within one unit of that of the number, for the
/// smallest and the largest numbers and for factors that are no powers of two. No encryption takes part.
#[test]
fn masks_go_away_within_a_unit() {
    let Ring { params, .. } = scores();
    let (from, to) = (Side::coefficients(params, 1, 60), Side::coefficients(params, 1, 30));
    let terms = (0..params.n()).map(|k| MapTerm { from: k, to: k, weight: 1.0, group: 0 }).collect();
    let exchange = Exchange::new(from, to, terms).unwrap();
    let q: i128 = params.q_basis(params.max_level()).primes().map(i128::from).product();
    let mut rng = rng(64);
    for factor in [1.0, 0.7301, 1e-6, 8191.7, 1.9 * 30f64.exp2()] {
        let size = |bits: u32, rng: &mut ChaCha20Rng| rng.random_range(-(1i128 << bits)..1i128 << bits);
        let values: Vec<i128> = (0..params.n()).map(|k| size(k as u32 % 62, &mut rng)).collect();
        let masks: Vec<i128> = (0..params.n()).map(|_| rng.random_range(-q / 2..q / 2)).collect();
        let masked: Vec<i128> = values
            .iter()
            .zip(&masks)
            .map(|(v, m)| {
                let sum = (v + m).rem_euclid(q);
                if sum > q / 2 { sum - q } else { sum }
            })
            .collect();
        let [masked, mask] = [&masked, &masks].map(|v| exchange.encode(&[v], &[factor]).unwrap().remove(0));
        // Under a key, the difference is what a ciphertext without noise has.
        let basis = params.q_basis(params.max_level());
        let mut difference = Ciphertext::zero(params, params.max_level()).with_scale(masked.scale());
        let eval = ckks::Evaluator::new(params.clone(), ckks::EvaluationKeys::default());
        eval.add_plain_assign(&mut difference, &masked).unwrap();
        let mut negative = Ciphertext::zero(params, params.max_level()).with_scale(mask.scale());
        eval.add_plain_assign(&mut negative, &mask).unwrap();
        eval.sub_assign(&mut difference, &negative).unwrap();
        assert_eq!(basis.len(), 2);
        decrypt_coefficients(&scores().secret, &difference).with(|got| {
            for (got, value) in got.iter().zip(&values) {
                let want = *value as f64 * factor / 30f64.exp2();
                let unit = 1.01 + want.abs() * 2f64.powi(-50);
                // A value of 62 bits wraps with probability 2^-36.
                assert!((*got as f64 - want).abs() <= unit, "{factor}: {got} for {want}");
            }
        });
    }
}

/// What the holder of the key decrypts is uniform modulo q, and so is what a holder that copies a neighbour
/// has, for zeros and for the largest messages: chi-square over 64 cells of 2,048 coefficients in 100
/// exchanges. The control is the same statistic of messages without a mask.
#[test]
fn attack_a_holder_sees_uniform_numbers() {
    let mut rng = rng(65);
    let Ring { params, secret, public } = scores();
    let n = params.n();
    let (from, to) = (Side::coefficients(params, 1, 60), Side::coefficients(params, 1, 30));
    let exchange = Exchange::new(from.clone(), to, vec![]).unwrap();
    let q: i128 = params.q_basis(params.max_level()).primes().map(i128::from).product();
    let statistic = |seen: &[i128]| {
        let mut cells = [0f64; 64];
        seen.iter().for_each(|c| cells[((c + q / 2).clamp(0, q - 1) / (q / 64 + 1)) as usize] += 1.0);
        let expected = seen.len() as f64 / 64.0;
        cells.iter().map(|count| (count - expected).powi(2) / expected).sum::<f64>()
    };
    for size in [0i128, 1, 1 << 60, q / 2 - 1] {
        let (mut masked, mut plain) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            let mut ct = [Ciphertext::zero(params, params.max_level()).with_scale(from.scale)];
            let mut message = ckks_poly(params, size);
            std::mem::swap(&mut ct[0], &mut message);
            ckks::rerandomise_assign(params, public, &mut ct[0], &mut rng);
            decrypt_coefficients(secret, &ct[0]).with(|c| plain.extend_from_slice(c));
            let seed = ckks::mask_seed_of(&ct, &ckks::mask_seed(&mut rng));
            exchange.mask_assign(&mut ct, &seed).unwrap();
            decrypt_coefficients(secret, &ct[0]).with(|c| masked.extend_from_slice(c));
        }
        assert_eq!(masked.len(), 100 * n);
        // The 1 − 10⁻⁶ quantile of chi-square with 63 degrees of freedom is 129.
        let (got, control) = (statistic(&masked), statistic(&plain));
        assert!(got < 129.0, "{size}: {got}");
        assert!(control > 1e5, "{size}: {control}");
    }
}

/// A trivial encryption of the same number in all coefficients.
fn ckks_poly(params: &Params, value: i128) -> Ciphertext {
    let basis = params.q_basis(params.max_level());
    let mut poly = rns::Poly::<rns::Coeff>::zero(params.n(), basis.len());
    poly.for_each_limb(|i, limb| limb.fill(basis.modulus(i).reduce_i128(value)));
    let zero = rns::Poly::<rns::Coeff>::zero(params.n(), basis.len());
    Ciphertext::new(poly.into_ntt(basis), zero.into_ntt(basis), params.max_level(), 60f64.exp2())
}

/// One ciphertext has one mask, whoever resumes the exchange, and another one has another.
#[test]
fn masks_come_from_the_ciphertext() {
    let mut rng = rng(66);
    let side = masked_side(Domain::Coefficients, 1);
    let zeros = vec![0.0; side.params.n()];
    let [a, b] = [(); 2].map(|()| [encrypt(&side, &zeros, &mut rng)]);
    let seeds = [(&a, 1), (&b, 1), (&a, 2)].map(|(ct, key)| ckks::mask_seed_of(ct, &[key; 32]));
    assert_eq!(seeds[0], ckks::mask_seed_of(&a, &[1; 32]));
    assert!(seeds[0] != seeds[1] && seeds[0] != seeds[2] && seeds[1] != seeds[2]);
}

/// Two parties whose exchanges have the same hash compute the same. Each part of an exchange is in it.
#[test]
fn hashes_name_all_that_is_computed() {
    let side = |domain| masked_side(domain, 1);
    let term = MapTerm { from: 1, to: 2, weight: 1.0, group: 0 };
    let hash = |from: Side, to: Side, term: MapTerm, factors: &[f64]| {
        Exchange::new(from, to, vec![term]).unwrap().hash(factors)
    };
    let c = Domain::Coefficients;
    let first = hash(side(c), fresh_side(c, 1), term, &[0.5]);
    assert_eq!(first, hash(side(c), fresh_side(c, 1), term, &[0.5]));
    let others = [
        hash(side(Domain::Slots), fresh_side(c, 1), term, &[0.5]),
        hash(side(c), fresh_side(Domain::Slots, 1), term, &[0.5]),
        hash(masked_side(c, 2), fresh_side(c, 1), term, &[0.5]),
        hash(side(c), fresh_side(c, 2), term, &[0.5]),
        hash(Side { level: 0, ..side(c) }, fresh_side(c, 1), term, &[0.5]),
        hash(side(c), Side { scale: 8.0, ..fresh_side(c, 1) }, term, &[0.5]),
        hash(side(c), fresh_side(c, 1), MapTerm { from: 2, ..term }, &[0.5]),
        hash(side(c), fresh_side(c, 1), MapTerm { to: 1, ..term }, &[0.5]),
        hash(side(c), fresh_side(c, 1), MapTerm { weight: -1.0, ..term }, &[0.5]),
        hash(side(c), fresh_side(c, 1), MapTerm { group: 1, ..term }, &[0.5]),
        hash(side(c), fresh_side(c, 1), term, &[0.25]),
    ];
    let of_sums = |sums: usize, output: SumTerm| {
        Exchange::of_sums(side(c), fresh_side(c, 1), sums, vec![term], vec![output]).unwrap().hash(&[0.5])
    };
    let output = SumTerm { sum: 2, to: 2, negative: false };
    let of_sums = [
        of_sums(3, output),
        of_sums(4, output),
        of_sums(3, SumTerm { sum: 1, ..output }),
        of_sums(3, SumTerm { to: 1, ..output }),
        of_sums(3, SumTerm { negative: true, ..output }),
    ];
    let others: Vec<_> = others.into_iter().chain(of_sums).collect();
    for (i, other) in others.iter().enumerate() {
        assert!(*other != first && !others[..i].contains(other), "{i}");
    }
}

/// No exchange reads or writes beside its rings; ciphertexts of another number, ring, level or scale, and
/// factors that it excludes are refused by the holder of the key and by the server.
#[test]
fn attack_what_is_not_of_the_exchange_is_refused() {
    let mut rng = rng(67);
    let c = Domain::Coefficients;
    let (from, to) = (masked_side(c, 1), fresh_side(c, 1));
    let n = from.params.n();
    let term = MapTerm { from: n - 1, to: n - 1, weight: 1.0, group: 0 };
    let new = |from: Side, to: Side, term| Exchange::new(from, to, vec![term]);
    let exchange = new(from.clone(), to.clone(), term).unwrap();
    for term in [MapTerm { from: n, ..term }, MapTerm { to: n, ..term }] {
        let refused = new(from.clone(), to.clone(), term);
        assert!(matches!(refused, Err(Error::CoefficientCount { .. })), "{refused:?}");
    }
    for (sum, place) in [(3, 0), (0, n)] {
        let output = SumTerm { sum, to: place, negative: false };
        let terms = vec![MapTerm { to: 2, ..term }];
        let refused = Exchange::of_sums(from.clone(), to.clone(), 3, terms, vec![output]);
        assert!(matches!(refused, Err(Error::CoefficientCount { .. })), "{refused:?}");
    }
    for weight in [0.0, f64::NAN, f64::INFINITY] {
        let refused = new(from.clone(), to.clone(), MapTerm { weight, ..term });
        assert!(matches!(refused, Err(Error::ValueRange { .. })), "{refused:?}");
    }
    let refused = new(Side { level: 2, ..from.clone() }, to.clone(), term);
    assert!(matches!(refused, Err(Error::OutOfLevels { .. })), "{refused:?}");
    let refused = new(Side { ciphertexts: 0, ..from.clone() }, to.clone(), term);
    assert!(matches!(refused, Err(Error::CiphertextCount { .. })), "{refused:?}");
    let wide = Side::slots(&deep().params, 1, 3).unwrap();
    let refused = new(wide, to.clone(), term);
    assert!(matches!(refused, Err(Error::BadParams(_))), "{refused:?}");
    assert!(Side::slots(&deep().params, 1, 99).is_err());

    let change = 22f64.exp2();
    for factors in [&[][..], &[-1.0], &[f64::NAN], &[2.01 * change]] {
        let refused = exchange.encode_mask(&[1; 32], factors);
        assert!(matches!(refused, Err(Error::ValueRange { .. })), "{factors:?}: {refused:?}");
    }
    exchange.check_factors(&[2.0 * change]).unwrap();
    let secret = &scores().secret;
    let mut answered = |masked: &[Ciphertext]| match ckks_secret::exchange(
        &exchange,
        secret,
        secret,
        masked,
        &[1.0],
        &mut rng,
    ) {
        Ok(fresh) => Ok(fresh.into_iter().map(|ct| ct.expand(secret)).collect::<Vec<_>>()),
        Err(ckks_secret::Error::Ckks(error)) => Err(error),
        Err(other) => panic!("{other}"),
    };
    let zero = |level: usize, scale: f64| Ciphertext::zero(&from.params, level).with_scale(scale);
    let mut fresh = answered(&[zero(1, from.scale)]).unwrap();
    assert!(matches!(answered(&[]), Err(Error::CiphertextCount { .. })));
    assert!(matches!(answered(&[zero(0, from.scale)]), Err(Error::LevelMismatch { .. })));
    assert!(matches!(answered(&[zero(1, 2.0)]), Err(Error::ScaleMismatch { .. })));
    let other = Ciphertext::zero(&deep().params, 1).with_scale(from.scale);
    assert!(matches!(answered(&[other]), Err(Error::CoefficientCount { .. })));

    let mask = exchange.encode_mask(&[1; 32], &[1.0]).unwrap();
    exchange.unmask_assign(&mut fresh, &mask).unwrap();
    assert!(matches!(exchange.unmask_assign(&mut [], &mask), Err(Error::CiphertextCount { .. })));
    assert!(matches!(exchange.unmask_assign(&mut fresh, &[]), Err(Error::CiphertextCount { .. })));
    let refused = exchange.unmask_assign(&mut [zero(1, from.scale)], &mask);
    assert!(matches!(refused, Err(Error::ScaleMismatch { .. })), "{refused:?}");
}

/// The exchanges of a group, whose slots are decoded once, are those of each alone: the holder encrypts the
/// same numbers, and the server finds the same images of the mask. Exchanges of other ciphertexts are no
/// group.
#[test]
fn groups_are_their_exchanges() {
    let (mut rng, from) = (rng(67), masked_side(Domain::Slots, 2));
    let n = from.params.n();
    let of = |from: &Side, step: usize| {
        let terms = (0..n).map(|to| MapTerm { from: (step * to + 1) % n, to, weight: 0.5, group: 0 });
        Exchange::new(from.clone(), fresh_side(Domain::Slots, 1), terms.collect()).unwrap()
    };
    let group = [of(&from, 3), of(&from, 7)];
    let values: Vec<f64> = (0..2 * n).map(|_| rng.random_range(-1.0..1.0)).collect();
    let masked: Vec<Ciphertext> = values.chunks(n).map(|values| encrypt(&from, values, &mut rng)).collect();
    let secret = &deep().secret;
    let fresh = ckks_secret::exchange_group(&group, secret, secret, &masked, &[1.0], &mut rng).unwrap();
    let images = Exchange::encode_masks(&group, &[9; 32], &[1.0]).unwrap();
    for ((exchange, fresh), image) in group.iter().zip(fresh).zip(images) {
        assert_eq!(image, exchange.encode_mask(&[9; 32], &[1.0]).unwrap());
        let fresh: Vec<Ciphertext> = fresh.into_iter().map(|ct| ct.expand(secret)).collect();
        let alone = ckks_secret::exchange(exchange, secret, secret, &masked, &[1.0], &mut rng).unwrap();
        let alone: Vec<Ciphertext> = alone.into_iter().map(|ct| ct.expand(secret)).collect();
        let [got, want] = [&fresh, &alone].map(|all| numbers(exchange.to(), all));
        // Both have an error of their own, of 3.2 units in each coefficient, 2⁻²² in a slot.
        assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-5));
    }
    let other = of(&masked_side(Domain::Slots, 1), 3);
    let refused = Exchange::encode_masks(&[group[0].clone(), other], &[9; 32], &[1.0]);
    assert!(matches!(refused, Err(Error::BadParams(_))));
}
