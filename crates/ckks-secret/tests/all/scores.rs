//! Scores of many users in the small ring: products, packing, and the raise into the slots of the large ring.

use crate::common::rng;
use ckks::{
    Ciphertext, EvaluationKeys, Evaluator, Exchange, LOGN13_LOGQP147_SCORES, LOGN15_LOGQP825_DEPTH17,
    MAX_WIDE_COEFFICIENT_BITS, Packer, Params, Places, Plaintext, SlotsToCoefficients, Term, pack_elements,
};
use ckks_secret::{SecretKey, decrypt, decrypt_coefficients, raise, slots_to_coefficients};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha20Rng;
use rns::{Coeff, Poly};
use std::sync::{Arc, OnceLock};

/// log₂ of the scale of a product.
const LOG_PRODUCT: u32 = 44;
/// Features and arms of the smallest, a middle and the largest problem of one product.
const PROBLEMS: [(usize, usize); 3] = [(2, 2), (8, 8), (16, 16)];

struct Ring {
    params: Params,
    secret: SecretKey,
    evaluator: Evaluator,
}

/// The small ring with keys for the gap of two arms, and so for every other.
fn small() -> &'static Ring {
    static RING: OnceLock<Ring> = OnceLock::new();
    RING.get_or_init(|| {
        let params = LOGN13_LOGQP147_SCORES.validate().unwrap();
        let mut rng = rng(41);
        let (secret, level) = (SecretKey::generate(&params, &mut rng), params.max_level());
        let relin = Some(Arc::new(ckks_secret::relin_key(&secret, level, &mut rng)));
        let mut keys = EvaluationKeys { relin, ..EvaluationKeys::default() };
        for element in pack_elements(&params, params.n() / 4).unwrap() {
            let key = ckks_secret::galois_key(&secret, element, level, &mut rng);
            keys.galois.insert(element, Arc::new(key));
        }
        Ring { evaluator: Evaluator::new(params.clone(), keys), params, secret }
    })
}

/// A value at the scale of contexts and of the model.
fn integer(value: f64) -> i64 {
    (value * small().params.scale(0)).round() as i64
}

fn encrypt(coefficients: &[i64], rng: &mut ChaCha20Rng) -> Ciphertext {
    let Ring { params, secret, .. } = small();
    let level = params.max_level();
    let plain = Plaintext::from_integers(params, coefficients, level, params.scale(level)).unwrap();
    ckks_secret::encrypt(secret, &plain, rng).expand(secret)
}

/// A context of unit norm, lifted: x_i² and 2·x_i·x_j for i < j, then x_j.
fn lifted(x: &[f64]) -> Vec<f64> {
    let pair = |i: usize, j: usize| x[i] * x[j] * if i == j { 1.0 } else { 2.0 };
    let pairs = (0..x.len()).flat_map(|i| (i..x.len()).map(move |j| pair(i, j)));
    pairs.chain(x.iter().copied()).collect()
}

fn unit(d: usize, rng: &mut ChaCha20Rng) -> Vec<f64> {
    let x: Vec<f64> = (0..d).map(|_| rng.random_range(-1.0..1.0)).collect();
    let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
    x.into_iter().map(|x| x / norm).collect()
}

/// A problem with a model, in the clear and encrypted, and what a gap's inverse makes of it.
struct Scored {
    arms: usize,
    gap: usize,
    /// Σ A_ij·x_i·x_j and ω·x as functions of a lifted context.
    model: [Vec<f64>; 2],
    encrypted: Ciphertext,
}

impl Scored {
    fn new(d: usize, arms: usize, rng: &mut ChaCha20Rng) -> Self {
        let n = small().params.n();
        let (room, count) = (n / arms, d * (d + 3) / 2);
        assert!(count <= room / 2);
        let mut model = [vec![0.0; count], vec![0.0; count]];
        // |A| ≤ 1 and |ω| ≤ 1/2, as the protocol scales them.
        let outer = unit(d, rng);
        let pairs = (0..d).flat_map(|i| (i..d).map(move |j| (i, j)));
        pairs.enumerate().for_each(|(f, (i, j))| model[0][f] = outer[i] * outer[j]);
        model[1][count - d..].iter_mut().zip(unit(d, rng)).for_each(|(w, x)| *w = x / 2.0);
        let mut coefficients = vec![0i64; n];
        for (shift, half) in [(0, &model[0]), (room / 2, &model[1])] {
            for (f, &v) in half.iter().enumerate() {
                let value = integer(v);
                // X^(shift − f), and X^−f = −X^(N − f).
                match shift >= f {
                    true => coefficients[shift - f] += value,
                    false => coefficients[n + shift - f] -= value,
                }
            }
        }
        let mut encrypted = encrypt(&coefficients, rng);
        small().evaluator.divide_exactly_assign(&mut encrypted, (room / 2).ilog2());
        Scored { arms, gap: room / 2, model, encrypted }
    }

    /// The exact scores of an arm.
    fn exact(&self, x: &[f64]) -> [f64; 2] {
        let lifted = lifted(x);
        [0, 1].map(|half| lifted.iter().zip(&self.model[half]).map(|(x, m)| x * m).sum())
    }

    /// The encrypted scores of a user, still divided by the gap.
    fn scores(&self, contexts: &[Vec<f64>], rng: &mut ChaCha20Rng) -> Ciphertext {
        let mut coefficients = vec![0i64; small().params.n()];
        for (arm, x) in contexts.iter().enumerate() {
            let first = &mut coefficients[arm * 2 * self.gap..];
            for (c, v) in first.iter_mut().zip(lifted(x)) {
                *c = integer(v);
            }
        }
        let contexts = encrypt(&coefficients, rng);
        small().evaluator.mul_unrescaled(&contexts, &self.encrypted).unwrap()
    }

    /// Slot j = (arm·users + user)·arms of the large ring from the coefficients of user and arm, for as many
    /// users as an evaluation of so many slots holds.
    fn places(&self, slots: usize, positions: &[usize]) -> Places {
        let users = slots / (self.arms * self.arms);
        let mut places = vec![[None; 2]; slots];
        for arm in 0..self.arms {
            for (user, position) in positions.iter().enumerate() {
                let first = 2 * arm * self.gap + position;
                places[(arm * users + user) * self.arms] = [Some(first), Some(first + self.gap)];
            }
        }
        Places::parts(&places)
    }
}

/// Adds uniform garbage modulo q to every coefficient but the multiples of `gap`.
fn spoil(ct: &Ciphertext, gap: usize, rng: &mut ChaCha20Rng) -> Ciphertext {
    let params = &small().params;
    let basis = params.q_basis(ct.level());
    let mut garbage = Poly::<Coeff>::zero(params.n(), basis.len());
    for i in 0..basis.len() {
        let q = basis.modulus(i).value();
        for (k, x) in garbage.limb_mut(i).iter_mut().enumerate() {
            *x = if k % gap == 0 { 0 } else { rng.next_u64() % q };
        }
    }
    let mut c0 = ct.c0().clone();
    c0.add_assign(basis, &garbage.into_ntt(basis));
    Ciphertext::new(c0, ct.c1().clone(), ct.level(), ct.scale())
}

/// Packed, masked and raised, the scores of every user are those of the clear, whatever else the uploads of
/// the others hold, and whether the pack is full or not. The key holder sees masked values alone.
#[test]
fn attack_garbage_beside_the_scores_reaches_nobody() {
    let large = LOGN15_LOGQP825_DEPTH17.validate().unwrap();
    let mut rng = rng(42);
    let large_secret = SecretKey::generate(&large, &mut rng);
    let Ring { params, secret, evaluator } = small();
    for ((d, arms), users) in PROBLEMS.into_iter().zip([37, 64, 64]) {
        let scored = Scored::new(d, arms, &mut rng);
        let level = large.max_level() - 3;
        let mut packer =
            Packer::new(evaluator, scored.gap, params.max_level(), f64::from(LOG_PRODUCT).exp2()).unwrap();
        let (mut positions, mut exact) = (Vec::new(), Vec::new());
        for user in 0..users {
            let contexts: Vec<Vec<f64>> = (0..arms).map(|_| unit(d, &mut rng)).collect();
            let mut scores = scored.scores(&contexts, &mut rng);
            if user % 3 == 1 {
                scores = spoil(&scores, scored.gap, &mut rng);
            }
            positions.push(packer.push(evaluator.undivided(&scores)).unwrap());
            exact.push(contexts.iter().map(|x| scored.exact(x)).collect::<Vec<_>>());
        }
        let mut packed = packer.finish().unwrap();
        let places = scored.places(large.max_slots(), &positions);
        let raising = places.exchange(params, &large, LOG_PRODUCT, level).unwrap();
        let seed = ckks::mask_seed(&mut rng);
        raising.mask_assign(std::slice::from_mut(&mut packed), &seed).unwrap();
        let mut raised = raise(&raising, secret, &large_secret, &packed, [1.0; 3], &mut rng)
            .unwrap()
            .expand(&large_secret);
        // What the key holder has read is as wide as the mask: nothing like a score.
        decrypt(&large_secret, &raised, large.max_slots())
            .with(|slots| assert!(slots[0].re.abs() > 1e6, "{}", slots[0]));
        raising
            .unmask_assign(std::slice::from_mut(&mut raised), &raising.encode_mask(&seed, &[1.0; 3]).unwrap())
            .unwrap();
        assert_eq!((raised.level(), raised.scale()), (level, large.scale(level)));

        let per_evaluation = large.max_slots() / (arms * arms);
        decrypt(&large_secret, &raised, large.max_slots()).with(|slots| {
            let mut worst = 0.0f64;
            for (user, scores) in exact.iter().enumerate() {
                for (arm, &[z, u]) in scores.iter().enumerate() {
                    let got = slots[(arm * per_evaluation + user) * arms];
                    worst = worst.max((got.re - z).abs()).max((got.im - u).abs());
                }
            }
            // The noise of both encryptions, times the other factor at its scale.
            let bits = -worst.log2();
            println!("{d} features, {arms} arms: {bits:.1} bits in the worst of {users} users");
            assert!(bits > 13.0, "{d} {arms}: {bits}");
            let empty: f64 = (slots.iter().enumerate())
                .filter(|(j, _)| j % arms != 0 || j / arms % per_evaluation >= users)
                .map(|(_, slot)| slot.norm())
                .fold(0.0, f64::max);
            assert!(empty < 2f64.powi(-16), "places that nobody took: 2^{:.1}", empty.log2());
        });
    }
}

/// A raise places differences of sums of coefficients, each coefficient times the factor of its group, with
/// the precision of its encryptions. Each side rounds products with factors to units of the scale, so
/// that the masks go away. The widest masks are no error, since an error would depend on a decrypted value.
#[test]
fn raises_place_differences_of_sums() {
    let mut rng = rng(50);
    let Ring { params, secret, .. } = small();
    let large = ckks::TOY_LOGN12_DEPTH21.validate().unwrap();
    let large_secret = SecretKey::generate(&large, &mut rng);
    let (count, slots, unit) = (48usize, large.max_slots(), f64::from(LOG_PRODUCT).exp2());
    let mut sums: Vec<[Option<usize>; 3]> =
        (0..count).map(|i| [Some(2 * i), Some(2 * i + 1), None]).collect();
    sums.push([None, None, Some(2 * count)]);
    let named = |j: usize| match j % 15 {
        0 => [None; 2],
        1..=3 => [Some(j % (count + 1)), None],
        4..=6 => [None, Some(7 * j % count)],
        _ => [Some(j % (count + 1)), Some(7 * j % count)],
    };
    let places = Places { sums: sums.clone(), slots: (0..slots).map(named).collect(), differences: true };
    let raising = places.exchange(params, &large, LOG_PRODUCT, 11).unwrap();
    let values: Vec<f64> = (0..2 * count + 1).map(|_| rng.random_range(-0.9..0.9)).collect();
    let mut coefficients: Vec<i64> = values.iter().map(|v| (v * unit).round() as i64).collect();
    coefficients.resize(params.n(), 0);
    let message = Plaintext::from_integers(params, &coefficients, params.max_level(), unit).unwrap();
    for factors in [[0.3, 1.7, 0.9], [0.01, 0.0, 40.0], [1.0; 3]] {
        let mut packed = ckks_secret::encrypt(secret, &message, &mut rng).expand(secret);
        let seed = ckks::mask_seed(&mut rng);
        raising.mask_assign(std::slice::from_mut(&mut packed), &seed).unwrap();
        let raised = raise(&raising, secret, &large_secret, &packed, factors, &mut rng).unwrap();
        let mut raised = raised.expand(&large_secret);
        raising
            .unmask_assign(std::slice::from_mut(&mut raised), &raising.encode_mask(&seed, &factors).unwrap())
            .unwrap();
        let sum = |sum: Option<usize>| -> f64 {
            let named = sum.map_or([None; 3], |sum| sums[sum]);
            named.iter().zip(factors).filter_map(|(k, factor)| k.map(|k| values[k] * factor)).sum()
        };
        decrypt(&large_secret, &raised, slots).with(|got| {
            for (j, got) in got.iter().enumerate() {
                let [first, second] = named(j).map(sum);
                let off = (got.re - (first - second)).abs().max(got.im.abs());
                assert!(off < 2f64.powi(-21), "slot {j}: {got}, not {first} - {second}");
            }
        });
    }
    let half: i128 = params.q_basis(params.max_level()).primes().map(i128::from).product::<i128>() / 2;
    let widest: Vec<i128> = (0..params.n()).map(|k| if k / 2 % 2 == 0 { -half } else { half }).collect();
    for factors in [[0.3, 0.3, 0.3], [0.25, 0.75, 0.1], [0.0, 1.0, 0.0]] {
        raising.encode(&[&widest], &factors).unwrap();
    }
    for factors in [[-0.1, 1.0, 1.0], [f64::NAN, 1.0, 1.0], [f64::INFINITY, 1.0, 1.0], [2e5, 2e5, 0.0]] {
        let refused = raising.encode(&[&widest], &factors);
        assert!(matches!(refused, Err(ckks::Error::ValueRange { .. })), "{factors:?}: {refused:?}");
    }
}

/// A key holder who also sends contexts makes an entry of the model as large as q by a huge context, raises
/// its own scores, and looks for the entry's sign in what it decrypts. The uniform mask leaves no trace of
/// it. The control is a mask of 95 bits, which is wide enough for the scores of honest contexts: the sign
/// shows.
#[test]
fn attack_huge_contexts_do_not_show_the_model_to_a_key_holder() {
    let mut rng = rng(45);
    let Ring { params, secret, evaluator } = small();
    let large = LOGN15_LOGQP825_DEPTH17.validate().unwrap();
    let large_secret = SecretKey::generate(&large, &mut rng);
    let scored = Scored::new(2, 2, &mut rng);
    let entry = scored.model[0][0];
    let mut huge = encrypt(&[integer(1.0)], &mut rng);
    evaluator.mul_integer_assign(&mut huge, ((1.0 / entry.abs()).log2().floor() + 52.0).exp2() as i64);
    let scores = evaluator.mul_unrescaled(&huge, &scored.encrypted).unwrap();
    let scale = f64::from(LOG_PRODUCT).exp2();
    let mut packer = Packer::new(evaluator, scored.gap, params.max_level(), scale).unwrap();
    packer.push(evaluator.undivided(&scores)).unwrap();
    let packed = packer.finish().unwrap();
    let places = scored.places(large.max_slots(), &[0]);
    let raising = places.exchange(params, &large, LOG_PRODUCT, 14).unwrap();
    let mut seen = |narrow: bool| {
        let signs = (0..24).filter(|_| {
            let (mut masked, seed) = (packed.clone(), ckks::mask_seed(&mut rng));
            if narrow {
                ckks::mask_assign(params, &mut masked, &seed);
            } else {
                raising.mask_assign(std::slice::from_mut(&mut masked), &seed).unwrap();
            }
            let raised = raise(&raising, secret, &large_secret, &masked, [1.0; 3], &mut rng).unwrap();
            let raised = raised.expand(&large_secret);
            decrypt(&large_secret, &raised, large.max_slots())
                .with(|slots| (slots[0].re > 0.0) == (entry > 0.0))
        });
        signs.count()
    };
    assert_eq!(seen(true), 24);
    let uniform = seen(false);
    assert!((4..=20).contains(&uniform), "{uniform} of 24");
}

#[test]
fn raises_refuse_another_level_or_scale() {
    let mut rng = rng(46);
    let Ring { params, secret, .. } = small();
    let large = LOGN15_LOGQP825_DEPTH17.validate().unwrap();
    let large_secret = SecretKey::generate(&large, &mut rng);
    let mut places = vec![[None; 2]; large.max_slots()];
    places[0] = [Some(0), None];
    let raising = Places::parts(&places).exchange(params, &large, LOG_PRODUCT, 14).unwrap();
    let pack = |level: usize, scale: u32| Ciphertext::zero(params, level).with_scale(f64::from(scale).exp2());
    let mut level = |mut ct: Ciphertext| {
        let masked = raising.mask_assign(std::slice::from_mut(&mut ct), &[1; 32]);
        let raised = raise(&raising, secret, &large_secret, &ct, [1.0; 3], &mut rng);
        (masked.is_ok(), raised.is_ok())
    };
    assert_eq!(level(pack(1, LOG_PRODUCT)), (true, true));
    assert_eq!(level(pack(0, LOG_PRODUCT)), (false, false));
    assert_eq!(level(pack(1, 22)), (false, false));
    let mut lower = Ciphertext::zero(&large, 13);
    let mask = raising.encode_mask(&[1; 32], &[1.0; 3]).unwrap();
    assert!(matches!(
        raising.unmask_assign(std::slice::from_mut(&mut lower), &mask),
        Err(ckks::Error::LevelMismatch { .. })
    ));
}

/// No raise reads or writes beside its rings, and no mask of another level is taken off.
#[test]
fn attack_raises_beside_their_rings_are_refused() {
    let params = &small().params;
    let large = ckks::TOY_LOGN12_DEPTH21.validate().unwrap();
    let (slots, top, level) = (large.max_slots(), large.max_level(), 14);
    let new = |small: &Params, places: Places, log_scale: u32, level: usize| {
        places.exchange(small, &large, log_scale, level)
    };
    let naming = |coefficient: usize| {
        let mut places = vec![[None; 2]; slots];
        places[1] = [None, Some(coefficient)];
        Places::parts(&places)
    };
    let raising = new(params, naming(params.n() - 1), LOG_PRODUCT, level).unwrap();
    let mut unknown = naming(0);
    unknown.slots[0] = [Some(1), None];
    for count in [slots - 1, slots + 1] {
        let refused = new(params, Places::parts(&vec![[None; 2]; count]), LOG_PRODUCT, level);
        assert!(matches!(refused, Err(ckks::Error::SlotCount { .. })), "{refused:?}");
    }
    for places in [unknown, naming(params.n())] {
        let refused = new(params, places, LOG_PRODUCT, level);
        assert!(matches!(refused, Err(ckks::Error::CoefficientCount { .. })), "{refused:?}");
    }
    let low = large.scale(level).log2() as u32 - 1;
    let refused = new(params, naming(0), LOG_PRODUCT, top + 1);
    assert!(matches!(refused, Err(ckks::Error::OutOfLevels { .. })), "{refused:?}");
    for level in [level, level - 1] {
        let refused = new(params, naming(0), low, level);
        assert!(matches!(refused, Err(ckks::Error::ScaleMismatch { .. })), "{refused:?}");
    }
    // q of a small ring has at most 99 bits, so that a masked value fits the encoder.
    let refused = new(&large, naming(0), LOG_PRODUCT, level);
    assert!(matches!(refused, Err(ckks::Error::BadParams(_))), "{refused:?}");
    for count in [params.n() - 1, params.n() + 1] {
        let refused = raising.encode(&[vec![0; count]], &[1.0; 3]);
        assert!(matches!(refused, Err(ckks::Error::CoefficientCount { .. })));
    }
    let mut raised = Ciphertext::zero(&large, level);
    let mask = |level| {
        let raising: Exchange = new(params, naming(params.n() - 1), LOG_PRODUCT, level).unwrap();
        raising.encode_mask(&[1; 32], &[1.0; 3]).unwrap()
    };
    let refused = raising.unmask_assign(std::slice::from_mut(&mut raised), &mask(level - 1));
    assert!(matches!(refused, Err(ckks::Error::LevelMismatch { .. })), "{refused:?}");
    raising.unmask_assign(std::slice::from_mut(&mut raised), &mask(level)).unwrap();
}

/// No exchange of a model reads or writes beside its rings, and a key holder takes no model of another level.
#[test]
fn attack_models_beside_their_rings_are_refused() {
    let mut rng = rng(48);
    let Ring { params, secret, .. } = small();
    let large = ckks::TOY_LOGN12_DEPTH21.validate().unwrap();
    let (level, slots, scale) = (2, 4, large.scale(5));
    let change = params.scale(params.max_level()) / scale;
    let term = |slot: usize, coefficient: usize, factor: f64| Term { slot, coefficient, factor };
    let new = |level: usize, slots: usize, term: Term| {
        SlotsToCoefficients::new(&large, params, level, slots, scale, &[term])
    };
    let good = term(slots - 1, params.n() - 1, 1.0 / change);
    let exchange = new(level, slots, good).unwrap();
    new(level, large.max_slots(), good).unwrap();
    let refused = new(large.max_level() + 1, slots, good);
    assert!(matches!(refused, Err(ckks::Error::OutOfLevels { .. })), "{refused:?}");
    for (slots, term) in
        [(1, term(0, 0, 1.0)), (6, good), (2 * large.max_slots(), good), (slots, term(slots, 0, 1.0))]
    {
        let refused = new(level, slots, term);
        assert!(matches!(refused, Err(ckks::Error::SlotCount { .. })), "{refused:?}");
    }
    let refused = new(level, slots, term(0, params.n(), 1.0));
    assert!(matches!(refused, Err(ckks::Error::CoefficientCount { .. })), "{refused:?}");
    for factor in [f64::NAN, 1.01 / change, -1.01 / change] {
        let refused = new(level, slots, term(0, 0, factor));
        assert!(matches!(refused, Err(ckks::Error::ValueRange { .. })), "{factor}: {refused:?}");
    }
    let large_secret = SecretKey::generate(&large, &mut rng);
    let mut answered = |level| {
        let model = Ciphertext::zero(&large, level);
        slots_to_coefficients(&exchange, &large_secret, secret, &model, &mut rng).map(drop)
    };
    answered(level).unwrap();
    for other in [level - 1, level + 1] {
        let refused = answered(other);
        let mismatch = matches!(refused, Err(ckks_secret::Error::Ckks(ckks::Error::LevelMismatch { .. })));
        assert!(mismatch, "{refused:?}");
    }
}

/// A server sends c₁ = X^−k under the name of a masked model, with a constant that puts the coefficient at
/// the limit of the wide decoder. If a key holder refused what the decoder does not take, each refusal would
/// show whether s_k is 1, which the control demonstrates. A key holder answers all of them alike.
#[test]
fn attack_refusals_of_a_model_give_the_key_away() {
    let mut rng = rng(47);
    let Ring { params: small_params, secret: small_secret, .. } = small();
    let large = ckks::TOY_LOGN12_DEPTH21.validate().unwrap();
    let secret = SecretKey::generate(&large, &mut rng);
    let (level, slots, n) = (2, 4, large.n());
    let exchange = SlotsToCoefficients::new(&large, small_params, level, slots, large.scale(5), &[]).unwrap();
    assert!(large.log_q(level) > f64::from(MAX_WIDE_COEFFICIENT_BITS) + 1.0, "the set can reach the limit");
    let basis = large.q_basis(level);
    let monomial = |at: usize, value: i128| {
        let mut poly = Poly::<Coeff>::zero(n, basis.len());
        poly.for_each_limb(|i, limb| limb[at] = basis.modulus(i).reduce_i128(value));
        poly.into_ntt(basis)
    };
    let limit = (1i128 << MAX_WIDE_COEFFICIENT_BITS) - 1;
    let keys = decrypt_coefficients(
        &secret,
        &Ciphertext::new(monomial(0, 0), monomial(0, 1), level, large.scale(level)),
    );
    let mut refused = 0;
    for k in 0..40 {
        // X^−k = −X^(N − k).
        let c1 = if k == 0 { monomial(0, 1) } else { monomial(n - k, -1) };
        let ct = Ciphertext::new(monomial(0, limit), c1, level, large.scale(level));
        let naive = decrypt_coefficients(&secret, &ct).with(|c| exchange.encode(c).is_err());
        assert_eq!(naive, keys.with(|s| s[k] == 1), "{k}");
        refused += u32::from(naive);
        slots_to_coefficients(&exchange, &secret, small_secret, &ct, &mut rng).unwrap();
    }
    assert!((4..=26).contains(&refused), "{refused}");
}

/// The control: garbage at a multiple of the gap does reach the neighbour, so the test above would see it.
#[test]
fn garbage_where_scores_are_is_seen() {
    let mut rng = rng(43);
    let Ring { params, evaluator, .. } = small();
    let scored = Scored::new(2, 2, &mut rng);
    let scale = f64::from(LOG_PRODUCT).exp2();
    let scores = scored.scores(&[unit(2, &mut rng), unit(2, &mut rng)], &mut rng);
    let pack = |first: Ciphertext| {
        let mut packer = Packer::new(evaluator, scored.gap, params.max_level(), scale).unwrap();
        packer.push(evaluator.undivided(&first)).unwrap();
        packer.finish().unwrap()
    };
    let (clean, spoilt) = (pack(scores.clone()), pack(spoil(&scores, 2 * scored.gap, &mut rng)));
    let mut difference = spoilt;
    evaluator.sub_assign(&mut difference, &clean).unwrap();
    let bits = |ct: &Ciphertext| {
        let largest = |slots: &ckks_secret::Slots| slots.iter().map(|z| z.norm()).fold(0.0, f64::max);
        decrypt(&small().secret, ct, params.max_slots()).with(largest).log2()
    };
    assert!(bits(&difference) > 20.0, "{}", bits(&difference));
}

/// Inputs and blocks of inputs, in any order, have their useful coefficients where the pack says, and what
/// else they hold reaches nothing. A block fits in whole or not at all.
#[test]
fn blocks_of_inputs_are_packed_as_inputs() {
    let mut rng = rng(48);
    let Ring { params, secret, evaluator } = small();
    let (arms, log_gap) = (16, 8);
    let gap = 1usize << log_gap;
    let scale = f64::from(LOG_PRODUCT).exp2();
    let mut packer = Packer::new(evaluator, gap, params.max_level(), scale).unwrap();
    let mut exact: Vec<Option<f64>> = vec![None; params.n()];
    for (log, fits) in
        [(0, true), (3, true), (0, true), (5, true), (2, true), (0, true), (6, true), (6, true), (6, false)]
    {
        let step = gap >> log;
        let value = |at: usize| (at % 97) as f64 / 97.0 + (log + 1) as f64;
        let mut coefficients = vec![0i64; params.n()];
        let useful = (0..params.n()).step_by(step);
        useful.clone().for_each(|at| coefficients[at] = (value(at) * scale) as i64);
        let message = Plaintext::from_integers(params, &coefficients, params.max_level(), scale).unwrap();
        let fresh = ckks_secret::encrypt(secret, &message, &mut rng).expand(secret);
        let mut input = spoil(&fresh, step, &mut rng);
        evaluator.divide_exactly_assign(&mut input, log_gap);
        assert_eq!(packer.after(log) <= gap, fits, "{log}");
        let first = match packer.push_block(evaluator.undivided(&input), log) {
            Ok(first) => first,
            Err(error) => {
                assert!(!fits && matches!(error, ckks::Error::PackFull { .. }), "{error}");
                continue;
            }
        };
        assert!(first < step);
        for at in useful {
            assert!(exact[at + first].replace(value(at)).is_none(), "two inputs at {}", at + first);
        }
    }
    assert_eq!(packer.len(), gap);
    let packed = packer.finish().unwrap();
    assert_eq!(exact.iter().flatten().count(), 2 * arms * (1 + 8 + 1 + 32 + 4 + 1 + 64 + 64));
    decrypt_coefficients(secret, &packed).with(|coefficients| {
        for (at, (got, want)) in coefficients.iter().zip(&exact).enumerate() {
            let error = (*got as f64 / scale - want.unwrap_or(0.0)).abs();
            assert!(error < 2f64.powi(-16), "{at}: {got} for {want:?}");
        }
    });
}

/// Key switches of a pack add far less than a product's own noise, which leaves fewer than 18 bits of the
/// 44 of its scale in the worst score.
#[test]
fn packing_adds_less_noise_than_products_have() {
    let mut rng = rng(44);
    let Ring { params, secret, evaluator } = small();
    for arms in [2, 16] {
        let gap = params.n() / (2 * arms);
        let mut whole = encrypt(&[], &mut rng).with_scale(1.0);
        let mut packer = Packer::new(evaluator, gap, params.max_level(), 1.0).unwrap();
        let mut divided = whole.clone();
        evaluator.divide_exactly_assign(&mut divided, gap.ilog2());
        packer.push(evaluator.undivided(&divided)).unwrap();
        evaluator.sub_assign(&mut whole, &packer.finish().unwrap()).unwrap();
        // The multiples of the gap alone: 2·arms coefficients, whose sum of squares is that of the slots.
        let squares = |slots: &ckks_secret::Slots| slots.iter().map(|z| z.norm_sqr()).sum::<f64>();
        let noise = (decrypt(secret, &whole, arms).with(squares) / (2 * arms * arms) as f64).sqrt();
        println!("{arms} arms: packing adds 2^{:.1} to a coefficient", noise.log2());
        assert!((2f64.powi(8)..2f64.powi(20)).contains(&noise), "{noise}");
    }
}

#[test]
fn packs_refuse_what_does_not_fit() {
    let Ring { params, evaluator, .. } = small();
    let level = params.max_level();
    for gap in [0, 1, 3, 2 * params.n()] {
        assert!(matches!(pack_elements(params, gap), Err(ckks::Error::PackGap { .. })), "{gap}");
    }
    // There are keys for a gap of N/4 and below.
    let wider = Packer::new(evaluator, params.n() / 2, level, 1.0);
    assert!(matches!(wider, Err(ckks::Error::MissingKey { .. })));
    let mut packer = Packer::new(evaluator, 2, level, 1.0).unwrap();
    let empty = |level: usize, scale: f64| Ciphertext::zero(params, level).with_scale(scale);
    let zero = |level: usize, scale: f64| evaluator.undivided(&empty(level, scale));
    assert!(matches!(packer.push(zero(level, 2.0)), Err(ckks::Error::ScaleMismatch { .. })));
    assert!(matches!(packer.push(zero(level - 1, 1.0)), Err(ckks::Error::LevelMismatch { .. })));
    assert_eq!((packer.len(), packer.capacity()), (0, 2));
    assert_eq!([0, 1].map(|_| packer.push(zero(level, 1.0)).unwrap()), [0, 1]);
    assert!(matches!(packer.push(zero(level, 1.0)), Err(ckks::Error::PackFull { capacity: 2 })));
    let none = Packer::new(evaluator, 2, level, 1.0).unwrap().finish().unwrap();
    assert_eq!(none, empty(level, 1.0));
}
