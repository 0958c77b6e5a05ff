//! Decisions of encrypted bandits by bootstrapping against exact arithmetic, and what is refused.

mod common;

use common::{Bandit, Pair, arm, entries};
use protocol::Bonus;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use std::sync::OnceLock;
use tfhe_argmax::{Answer, Circuit, ENTRY, Error, FLOOD_BITS, Formula, MOST_ARMS, SeededKeys};

fn pair() -> &'static Pair {
    static PAIR: OnceLock<Pair> = OnceLock::new();
    PAIR.get_or_init(|| Pair::new(11))
}

fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

/// With two to 16 arms: the arm played is the best whenever it is ahead by more than the resolution, and
/// within the resolution of the best otherwise. The resolution leaves three deviations, so that one of the
/// some 300 comparisons of a decisive arm fails with a probability of 0.1 or less; the seed is fixed.
#[test]
fn the_arm_is_that_of_exact_arithmetic() {
    let (pair, mut rng) = (pair(), rng(12));
    let mut decisive = 0;
    for (d, k, decisions) in [(8, 2, 24), (7, 3, 10), (8, 4, 10), (8, 8, 4), (16, 16, 2)] {
        let bandit = Bandit::new(pair, d, k, 40, &mut rng);
        let circuit = bandit.circuit(pair).unwrap();
        for _ in 0..decisions {
            let rows = bandit.contexts(&mut rng);
            let contexts = bandit.encrypted(pair, &rows, &mut rng);
            let scores = bandit.scores(pair, &contexts);
            let answer = circuit.decide(&pair.keys, pair.evaluator.params(), &scores, &mut rng).unwrap();
            let arm = arm(&pair.secret, &answer).unwrap();
            let indices = bandit.indices(&rows);
            let best = (0..k).fold(0, |b, a| if indices[a].1 > indices[b].1 { a } else { b });
            let behind = |arm: usize| (indices[best].1 - indices[arm].1) / bandit.formula.range;
            let resolution = circuit.resolution(indices[best].0.min(indices[arm].0));
            assert!(behind(arm) < resolution, "{k} arms: arm {arm} is behind by {}", behind(arm));
            let ahead = (0..k).filter(|a| *a != best).map(behind).fold(1.0, f64::min);
            if ahead > resolution {
                decisive += 1;
                assert_eq!(arm, best, "{k} arms, ahead by {ahead}");
            }
        }
    }
    assert!(decisive > 30, "{decisive} of 50 decisions were decisive");
}

/// Of arms that tie one can be relied on, and entries are in their range: all arms have one context.
#[test]
fn of_arms_that_tie_one_wins() {
    let (pair, mut rng) = (pair(), rng(13));
    let bandit = Bandit::new(pair, 8, 4, 0, &mut rng);
    let circuit = bandit.circuit(pair).unwrap();
    let rows = vec![bandit.contexts(&mut rng).remove(0); 4];
    let scores = bandit.scores(pair, &bandit.encrypted(pair, &rows, &mut rng));
    let mut decide = || circuit.decide(&pair.keys, pair.evaluator.params(), &scores, &mut rng).unwrap();
    let (first, second) = (decide(), decide());
    for answer in [&first, &second] {
        assert!(arm(&pair.secret, answer).is_some());
        // No entry is beyond ± 1 but for the noise of the server and 16 deviations of a bootstrap.
        let most = 1.0 + ((-f64::from(FLOOD_BITS)).exp2() + 16.0 * (-15f64).exp2()) / ENTRY;
        assert!(entries(&pair.secret, answer).iter().all(|entry| entry.abs() < most));
    }
    // Two answers to one decision share no mask, and their noise differs.
    for (one, other) in first.samples.iter().zip(&second.samples) {
        let equal = one.iter().zip(other).filter(|(a, b)| a == b).count();
        assert!(equal < 4, "{equal} of {} numbers are equal", one.len());
    }
}

/// The final decode fails with a probability of 2⁻⁶⁴ or less for every number of arms.
#[test]
fn the_final_decode_fails_with_less_than_two_to_the_minus_64() {
    for arms in 2..=MOST_ARMS {
        let formula = Formula {
            arms,
            gap: 128,
            log_range: 0,
            bonus: Bonus::Root { beta: 0.5, c1: 0.0 },
            most: 1.0,
            range: 3.5,
        };
        let circuit = Circuit::new(formula, 8192).unwrap();
        assert!(circuit.failure_bits() > 64.0, "{arms} arms: 2^-{}", circuit.failure_bits());
    }
}

/// Keys for another CKKS key pair are refused with both fingerprints, and so are other keys than those that
/// are stated.
#[test]
fn keys_of_another_generation_are_refused() {
    let pair = pair();
    let other = ckks::KeyId([7; 16]);
    let generation = pair.seeded.clone().expand(other).unwrap_err();
    assert!(matches!(generation, Error::Generation { .. }));
    let keys = pair.seeded.check(other).unwrap_err();
    assert!(matches!(keys, Error::OtherKeys { .. }) && pair.seeded.check(pair.seeded.id()).is_ok());
    for error in [generation, keys] {
        let text = error.to_string();
        for id in [pair.id, other, pair.seeded.id()] {
            assert!(text.contains(&id.to_string()), "{text}");
        }
    }
}

/// Files that are cut, longer, or changed in any part are refused.
#[test]
fn bytes_that_are_no_keys_are_refused() {
    let pair = pair();
    let bytes = pair.seeded.to_bytes();
    assert_eq!(bytes.len(), SeededKeys::file_bytes(13));
    assert!(SeededKeys::from_bytes(&bytes).unwrap() == pair.seeded);
    for cut in [0, 7, 104, bytes.len() - 1] {
        let refused = SeededKeys::from_bytes(&bytes[..cut]);
        assert!(matches!(refused, Err(Error::Length { .. } | Error::BadKeys(_))), "{cut} bytes");
    }
    for at in [0, 7, 8, 24, 30, 80, 1 << 17, 1 << 20, bytes.len() - 1] {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(SeededKeys::from_bytes(&changed).is_err(), "byte {at}");
    }
    let answer = vec![0; Answer::bytes(4)];
    assert!(Answer::read(&answer, 4).is_ok() && Answer::read(&answer, 3).is_err());
}

/// Numbers and rings that do not fit are refused.
#[test]
fn formulas_that_do_not_fit_are_refused() {
    let good = Formula {
        arms: 4,
        gap: 1024,
        log_range: 0,
        bonus: Bonus::Root { beta: 0.5, c1: 0.1 },
        most: 1.1,
        range: 3.5,
    };
    assert!(Circuit::new(good, 8192).is_ok());
    for arms in [0, 1, MOST_ARMS + 1] {
        assert!(matches!(Circuit::new(Formula { arms, ..good }, 8192), Err(Error::Arms { .. })));
    }
    for formula in [
        Formula { bonus: Bonus::Linear { slope: f64::NAN }, ..good },
        Formula { bonus: Bonus::Linear { slope: -0.1 }, ..good },
        Formula { most: 0.0, ..good },
        Formula { range: 0.0, ..good },
        Formula { most: 1e9, ..good },
    ] {
        assert!(matches!(Circuit::new(formula, 8192), Err(Error::Formula(_))), "{formula:?}");
    }
    assert!(matches!(Circuit::new(Formula { gap: 1025, ..good }, 8192), Err(Error::Scores(_))));
    assert!(matches!(Circuit::new(good, 4096), Err(Error::Scores(_))));
    let pair = pair();
    let (params, circuit) = (pair.evaluator.params(), Circuit::new(good, 16384));
    let scores = ckks::Ciphertext::zero(params, 1).with_scale(44f64.exp2());
    let refused = circuit.unwrap().decide(&pair.keys, params, &scores, &mut rng(14));
    assert!(matches!(refused, Err(Error::Scores(_))));
}
