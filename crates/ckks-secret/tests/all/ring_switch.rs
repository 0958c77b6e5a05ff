//! Ciphertexts of a large ring, split into ciphertexts of a small one, and slots moved between them.

use crate::common::rng;
use ckks::{
    EvaluationKeys, Evaluator, Fold, GaloisElement, KeyId, KeySwitchKey, LOGN15_LOGQP825_DEPTH17, Move,
    Params, ParamsSpec, Plaintext, PrefixSpec, RingSwitch, TOY_LOGN12_DEPTH21, TOY_LOGN14_DEPTH22,
};
use ckks_secret::{SecretKey, decrypt};
use num_complex::Complex64;
use rand::RngExt;
use rand_chacha::ChaCha20Rng;
use std::sync::Arc;

struct Rings {
    large: SecretKey,
    small: SecretKey,
    switch: RingSwitch,
}

fn prefix(large: ParamsSpec, log_n: u32) -> PrefixSpec {
    PrefixSpec { large, log_n, depth: 2, log_p: &[50] }
}

fn switch_keys(large: &SecretKey, small: &SecretKey, rng: &mut ChaCha20Rng) -> Vec<Arc<KeySwitchKey>> {
    let r = large.params().n() / small.params().n();
    (0..r).map(|j| Arc::new(ckks_secret::ring_switch_key(large, small, j, rng))).collect()
}

impl Rings {
    /// Both rings, with keys for the rotations by −1, …, −most to the left in the small one.
    fn new(large: ParamsSpec, log_n: u32, most: i64, rng: &mut ChaCha20Rng) -> Self {
        let params = prefix(large, log_n).validate().unwrap();
        let (large, small) =
            (SecretKey::generate(&large.validate().unwrap(), rng), SecretKey::generate(&params, rng));
        let mut keys = EvaluationKeys::default();
        for k in 1..=most {
            let element = GaloisElement::rotation(&params, -k);
            let key = ckks_secret::galois_key(&small, element, params.max_level(), rng);
            keys.galois.insert(element, Arc::new(key));
        }
        let evaluator = Evaluator::new(params, keys);
        let switch = RingSwitch::new(large.params(), evaluator, switch_keys(&large, &small, rng)).unwrap();
        Rings { large, small, switch }
    }

    fn params(&self) -> &Params {
        self.small.params()
    }

    fn encrypt(&self, slots: &[Complex64], level: usize, rng: &mut ChaCha20Rng) -> ckks::Ciphertext {
        let message = Plaintext::encode(self.large.params(), slots, level).unwrap();
        ckks_secret::encrypt(&self.large, &message, rng).expand(&self.large)
    }

    fn slots(&self, ct: &ckks::Ciphertext) -> Vec<Complex64> {
        decrypt(&self.small, ct, self.params().max_slots()).with(|slots| slots.to_vec())
    }
}

fn random_slots(count: usize, rng: &mut ChaCha20Rng) -> Vec<Complex64> {
    let mut value = || rng.random_range(-1.0..1.0);
    (0..count).map(|_| Complex64::new(value(), value())).collect()
}

/// Every slot of the large ring is the sum of the slots of its parts times roots, for two, four and eight
/// parts, and a fold puts every slot that it moves where it says, and 0 elsewhere. The first is wrong by the
/// noise of an encryption and a rounding of the small ring; the second by r of them and a rounding.
#[test]
fn parts_hold_the_slots_of_the_whole() {
    let mut rng = rng(90);
    for (large, log_n) in [(TOY_LOGN12_DEPTH21, 11), (TOY_LOGN14_DEPTH22, 11), (LOGN15_LOGQP825_DEPTH17, 13)]
    {
        let rings = Rings::new(large, log_n, 3, &mut rng);
        let (n, half) = (rings.large.params().n(), rings.params().max_slots());
        let r = rings.switch.parts();
        assert_eq!(r, n >> log_n);
        for level in [1, 2] {
            let slots = random_slots(n / 2, &mut rng);
            let parts = rings.switch.split(&rings.encrypt(&slots, level, &mut rng)).unwrap();
            assert!(parts.iter().all(|part| part.level() == level));
            let decrypted: Vec<_> = parts.iter().map(|part| rings.slots(part)).collect();
            // Standard deviations of a slot: of a rounding, and 3.2·√N' of the encryption. A rounding is a
            // product of two polynomials, so that the square of a slot is one of two exponential variables:
            // more than 12 deviations have a probability of 2·10⁻¹⁰, and all slots here of 2·10⁻⁵.
            let rounding = rings.params().rounding_error() + 3.2 * (2.0 * half as f64).sqrt();
            let bound = 12.0 * rounding * (r as f64).sqrt() / rings.params().scale(level);
            let mut power = 1;
            for (j, want) in slots.iter().enumerate() {
                let root = |k: usize| {
                    let exponent = (k * power % (2 * n)) as f64;
                    Complex64::from_polar(1.0, std::f64::consts::PI * exponent / n as f64)
                };
                let got: Complex64 = (0..r).map(|k| root(k) * decrypted[k][j % half]).sum();
                assert!((got - want).norm() < bound, "slot {j} of {n}: {:e}", (got - want).norm());
                power = power * 5 % (2 * n);
            }

            let step = 8.max(r);
            let segment = |i: usize| (i * half..(i + 1) * half).step_by(step).collect::<Vec<_>>();
            let used = r.min(4);
            let moves: Vec<Move> =
                (0..used).map(|i| Move { slots: segment(i), rotation: -(i as i64) }).collect();
            let fold = Fold::new(&rings.switch, level, &moves).unwrap();
            let folded = fold.apply(&rings.switch, &parts).unwrap();
            assert_eq!((folded.level(), folded.scale()), (level - 1, rings.params().scale(level - 1)));
            let folded = rings.slots(&folded);
            // Each of r plaintexts is wrong by a rounding to integers: √(N'/12) in a slot at its scale, and
            // the values that it multiplies are at most 2 in size.
            let encoding = 2.0 * (half as f64 / 6.0 * r as f64).sqrt();
            let bound = bound + 12.0 * (rounding + encoding) / rings.params().scale(level - 1);
            for (j, got) in folded.iter().enumerate() {
                let moved = j % step < used;
                let want = if moved { slots[j % step * half + j - j % step] } else { Complex64::ZERO };
                assert!((got - want).norm() < bound, "slot {j}: {:e}", (got - want).norm());
            }
        }
    }
}

/// What does not fit is refused before anything is computed.
#[test]
fn ring_switches_refuse_what_does_not_fit() {
    let mut rng = rng(91);
    let rings = Rings::new(TOY_LOGN12_DEPTH21, 11, 1, &mut rng);
    let Rings { large, small, switch } = &rings;
    let keys = switch_keys(large, small, &mut rng);
    let new = |small: &Params, keys: &[Arc<KeySwitchKey>]| {
        let evaluator = Evaluator::new(small.clone(), EvaluationKeys::default());
        RingSwitch::new(large.params(), evaluator, keys.to_vec()).map(drop)
    };
    let params = rings.params();
    assert!(new(params, &keys).is_ok());
    assert!(matches!(new(params, &keys[..1]), Err(ckks::Error::RingParts { got: 1, want: 2 })));
    let other = prefix(TOY_LOGN14_DEPTH22, 11).validate().unwrap();
    assert!(matches!(new(&other, &keys), Err(ckks::Error::BadParams(_))), "primes of another set");
    let low = Arc::new(ckks_secret::galois_key(small, GaloisElement::rotation(params, 1), 1, &mut rng));
    let low = new(params, &[keys[0].clone(), low]);
    assert!(matches!(low, Err(ckks::Error::MissingKey { element: 1, level: 2, .. })), "{low:?}");
    let high = rings.encrypt(&[Complex64::ONE], 3, &mut rng);
    assert!(matches!(switch.split(&high), Err(ckks::Error::OutOfLevels { need: 3, have: 2, .. })));

    let fold = |slots: Vec<usize>, level| Fold::new(switch, level, &[Move { slots, rotation: -1 }]);
    let half = params.max_slots();
    assert!(fold(vec![0, half], 1).is_err(), "two slots of one residue");
    assert!(fold(vec![2 * half], 1).is_err() && fold(vec![0], 0).is_err() && fold(vec![0], 3).is_err());
    let fold = fold(vec![0], 1).unwrap();
    let parts = switch.split(&rings.encrypt(&[Complex64::ONE], 2, &mut rng)).unwrap();
    assert!(matches!(fold.apply(switch, &parts), Err(ckks::Error::LevelMismatch { .. })));
    assert!(matches!(fold.apply(switch, &parts[..1]), Err(ckks::Error::RingParts { .. })));
    assert!(Fold::new(switch, 1, &[]).unwrap().apply(switch, &parts).is_err());
    let far = Fold::new(switch, 2, &[Move { slots: vec![0], rotation: -2 }]).unwrap();
    assert!(matches!(far.apply(switch, &parts), Err(ckks::Error::MissingKey { .. })));
}

/// Keys of a ring switch travel in frames of their own kind, with their number.
#[test]
fn keys_of_a_ring_switch_travel_in_frames() {
    let mut rng = rng(92);
    let rings = Rings::new(TOY_LOGN12_DEPTH21, 11, 1, &mut rng);
    let (params, id) = (rings.params(), KeyId([5; 16]));
    for (number, key) in switch_keys(&rings.large, &rings.small, &mut rng).iter().enumerate() {
        let frame = ckks::write_ring_switch_key(params, id, number, key);
        let (read_number, read) = ckks::read_ring_switch_key(params, id, &frame).unwrap();
        assert!(read_number == number && read == **key);
        assert!(ckks::read_key_switch_key(params, id, &frame).is_err(), "another kind");
        assert!(ckks::read_ring_switch_key(params, KeyId([6; 16]), &frame).is_err(), "another key");
        assert!(ckks::read_ring_switch_key(rings.large.params(), id, &frame).is_err(), "another ring");
        for cut in [0, 55, 88, frame.len() - 1] {
            assert!(ckks::read_ring_switch_key(params, id, &frame[..cut]).is_err());
        }
        let mut bad = frame.clone();
        bad[100] ^= 1;
        assert!(ckks::read_ring_switch_key(params, id, &bad).is_err(), "a flipped bit");
        let element = GaloisElement::rotation(params, 1);
        let galois = ckks::write_key_switch_key(params, id, Some(element), key);
        assert!(ckks::read_ring_switch_key(params, id, &galois).is_err(), "another kind");
    }
}
