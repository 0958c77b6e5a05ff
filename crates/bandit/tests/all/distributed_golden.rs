//! Distributed elimination and its mechanisms, equal to recorded values; exact laws where they can be
//! counted.

use crate::intermediaries::{AdditiveShares, BitShuffle};
use bandit::distributed::{
    Elimination, EliminationConfig, IdealSum, Mechanism, Model, NoiseAt, RelaxedSum, SecureSum,
};
use bandit::{Error, Policy};
use fault::OutOfRange;
use privacy::budget::Delta;
use privacy::source::{SplitMix64, Words};
use privacy::{Definition, Ratio, Trust};

fn r(num: u128, den: u128) -> Ratio {
    Ratio::new(num, den).unwrap()
}
fn renyi(scale: u64) -> Model {
    Model::Renyi { scale: Ratio::integer(scale), delta: Delta::new(1e-5).unwrap() }
}
fn gauss(scale: u64) -> Model {
    Model::Concentrated { scale: Ratio::integer(scale), delta: Delta::new(1e-5).unwrap() }
}
fn made(model: Model, epsilon: Ratio, users: u64) -> Mechanism {
    Mechanism::new(model, epsilon, users, 0.1, 1_000_000).unwrap()
}
fn parts(m: &Mechanism) -> (u64, u64, u64) {
    (m.precision(), m.threshold(), m.modulus())
}

#[test]
fn precision_threshold_modulus() {
    let (tenth, one) = (r(1, 10), Ratio::ONE);
    for (model, epsilon, want) in [
        (Model::Pure, tenth, (4, 120, 4337)),
        (Model::Pure, one, (32, 96, 32961)),
        (renyi(10), tenth, (32, 1112, 34993)),
        (renyi(10), one, (320, 1112, 329_905)),
        (gauss(10), tenth, (32, 784, 34337)),
        (gauss(10), one, (320, 784, 329_249)),
        (Model::Local, tenth, (4, 5217, 14531)),
        (Model::Local, one, (32, 4174, 41117)),
        (Model::Shuffle, one, (16, 487, 17359)),
    ] {
        let mechanism = made(model, epsilon, 1024);
        assert_eq!((parts(&mechanism), mechanism.margin()), (want, 0), "{model:?}");
    }
    // As pure; the margin is 32 (ln(2 (1 + e)/(1 - e^(-1/32))) + ln 1/delta), rounded up.
    for (delta, margin) in [(1e-9, 839), (1e-6, 618)] {
        let mechanism = made(Model::Bits { delta: Delta::new(delta).unwrap() }, one, 1024);
        assert_eq!((parts(&mechanism), mechanism.margin()), ((32, 96, 32961), margin));
        assert_eq!(mechanism.bits(), 32 + 2 * margin);
    }
}

/// Bits a user sends before the sum.
#[test]
fn communication() {
    let bits = |model, epsilon, users, p| {
        let m = Mechanism::new(model, epsilon, users, p, 1_000_000).unwrap().modulus();
        u64::BITS - (m - 1).leading_zeros()
    };
    let (tenth, one) = (r(1, 10), Ratio::ONE);
    let columns =
        [(Model::Pure, tenth), (Model::Pure, one), (renyi(10), tenth), (renyi(10), one), (renyi(100), one)];
    for (users, p, want) in [
        (2, 0.1, [6, 5, 8, 8, 11]),
        (2, 1e-6, [9, 7, 9, 9, 12]),
        (16, 0.1, [7, 7, 9, 10, 14]),
        (16, 1e-6, [9, 8, 10, 11, 14]),
        (1 << 10, 0.1, [13, 16, 16, 19, 22]),
        (1 << 16, 0.1, [21, 25, 25, 28, 31]),
        (1 << 20, 0.1, [27, 31, 31, 34, 37]),
    ] {
        assert_eq!(columns.map(|(model, epsilon)| bits(model, epsilon, users, p)), want, "{users} {p}");
    }
}

/// Half widths with ten arms, p = 0.1, at batches 1, 5, 10, 15 of 2^b users.
#[test]
fn widths() {
    let none = [1.223873, 0.379357, 0.071931, 0.013193];
    for (model, tenth, one) in [
        (Model::None, none, none),
        (Model::Pure, [43.991697, 4.330753, 0.212107, 0.017876], [5.500656, 0.774496, 0.085949, 0.013662]),
        (renyi(10), [28.518730, 2.598511, 0.147414, 0.015659], [3.953359, 0.601272, 0.079480, 0.013440]),
        (gauss(10), [19.127733, 1.798107, 0.119740, 0.014747], [3.014259, 0.521232, 0.076712, 0.013349]),
        (
            Model::Local,
            [105.722881, 13.817863, 2.431198, 0.440417],
            [11.673774, 1.723207, 0.307858, 0.055916],
        ),
    ] {
        for (epsilon, want) in [(r(1, 10), tenth), (Ratio::ONE, one)] {
            for (b, want) in [1, 5, 10, 15].into_iter().zip(want) {
                let got = made(model, epsilon, 1 << b).width(10, b, 0.1);
                assert!((got - want).abs() <= 6e-7, "{model:?} batch {b}: {got} against {want}");
            }
        }
    }
}

/// Central and distributed noise decode alike; beyond the threshold the answer is off by m/g, as it must be.
#[test]
fn decoding_by_hand() {
    let pure = made(Model::Pure, Ratio::ONE, 4);
    assert_eq!(parts(&pure), (2, 6, 21));
    let rng = &mut SplitMix64::new(0);
    for (sum, want) in [(11, 5.5), (20, -0.5), (16, -2.5), (15, -3.0), (14, 7.0)] {
        assert_eq!(pure.analyse(sum, rng), Ok(want));
    }
    assert!(matches!(pure.analyse(21, rng), Err(Error::OutOfRange(OutOfRange { field: "sum", .. }))));
}

#[test]
fn shares_of_four_users() {
    let run = |model, epsilon, seed, rewards: [f64; 4]| {
        let (mechanism, mut rng) = (made(model, epsilon, 4), SplitMix64::new(seed));
        let shares = rewards.map(|x| mechanism.randomise(x, &mut rng).unwrap());
        let sum = IdealSum.sum(&shares, 4, mechanism.modulus(), &mut rng).unwrap();
        (parts(&mechanism), shares, sum, mechanism.analyse(sum, &mut rng).unwrap())
    };
    let (one, rewards) = (Ratio::ONE, [1.0, 0.0, 0.5, 0.25]);
    assert_eq!(run(Model::Pure, one, 42, rewards), ((2, 6, 21), [2, 0, 1, 0], 3, 1.5));
    assert_eq!(run(renyi(10), one, 42, rewards), ((20, 74, 229), [26, 226, 1, 219], 14, 0.7));
    assert_eq!(run(gauss(10), one, 42, rewards), ((20, 49, 179), [5, 13, 177, 163], 0, 0.0));
    let (sizes, shares, ..) = run(Model::Pure, r(1, 10), 5, [0.0; 4]);
    assert_eq!((sizes, shares), ((1, 30, 65), [0, 2, 0, 0]));
}

#[test]
fn encoder() {
    let mut rng = SplitMix64::new(42);
    let four = made(Model::Pure, Ratio::ONE, 16);
    assert_eq!(four.precision(), 4);
    let got: Vec<u64> = (0..20).map(|_| four.encode(0.3, &mut rng).unwrap()).collect();
    assert_eq!(got, [&[1, 1, 2][..], &[1; 17]].concat());
    // No word for what is whole; the least double is as good as 0.
    let before = rng.clone();
    assert_eq!([0.0, 0.25, 1.0, f64::MIN_POSITIVE].map(|x| four.encode(x, &mut rng).unwrap()), [0, 1, 4, 0]);
    assert_eq!(rng, before);
    for bad in [-0.1, 1.1, f64::NAN] {
        assert!(matches!(
            four.randomise(bad, &mut rng),
            Err(Error::OutOfRange(OutOfRange { field: "reward", .. }))
        ));
    }
}

/// A batch: number, means of all arms but the last, width, arms left after it.
type Batch = (u32, Vec<f64>, f64, Vec<usize>);

/// Plays 0/1 arms, one uniform a round; gives pulls, and after each batch its number, means, width and arms
/// left.
fn play(config: EliminationConfig, means: &[f64], seed: u64) -> (Vec<u64>, Vec<Batch>) {
    let horizon = config.horizon;
    let mut policy = Elimination::new(config, IdealSum).unwrap();
    let (mut arms, mut noise) = (SplitMix64::new(seed), SplitMix64::noise(seed));
    let (mut pulls, mut batches) = (vec![0; means.len()], Vec::new());
    let mut seen = Vec::new();
    for _ in 0..horizon {
        let arm = policy.decide(&(), &mut noise).unwrap();
        let reward = f64::from(arms.uniform() < means[arm]);
        let (number, width, due) = (policy.stage().batch(), policy.stage().width(), policy.left().len());
        let several = due > 1;
        policy.learn(&(), arm, &reward, &mut noise).unwrap();
        pulls[arm] += 1;
        if several {
            if policy.stage().means().len() > seen.len() {
                seen = policy.stage().means().to_vec();
            } else if policy.stage().means().is_empty() && !seen.is_empty() {
                batches.push((number, std::mem::take(&mut seen), width, policy.left().to_vec()));
            }
        }
    }
    (pulls, batches)
}

/// Runs of 4000 users, equal to the last pull: means (all but the last arm's, which closes the batch), widths
/// and arms.
#[test]
fn golden_runs() {
    let config =
        |model| EliminationConfig { confidence: 0.1, ..EliminationConfig::new(3, 4000, model, Ratio::ONE) };
    type Row = (&'static [f64], f64, &'static [usize]);
    let pure: [Row; 8] = [
        (&[1.5, 0.25], 4.571983445, &[0, 1, 2]),
        (&[0.875, 0.25], 3.076333056, &[0, 1, 2]),
        (&[0.666666667, -0.25], 1.890570483, &[0, 1, 2]),
        (&[0.875, 0.25], 1.146861668, &[0, 1, 2]),
        (&[0.942708333, 0.479166667], 0.701746361, &[0, 1, 2]),
        (&[0.931640625, 0.42578125], 0.436926688, &[0, 1, 2]),
        (&[0.896484375, 0.604166667], 0.277744081, &[0, 1]),
        (&[0.898925781], 0.175287682, &[0]),
    ];
    let skellam: [Row; 8] = [
        (&[1.0, 0.133333333], 3.465262218, &[0, 1, 2]),
        (&[1.15, 0.6125], 2.268801557, &[0, 1, 2]),
        (&[0.711206897, -0.056034483], 1.410775873, &[0, 1, 2]),
        (&[0.8546875, 0.3609375], 0.879698918, &[0, 1, 2]),
        (&[0.91995614, 0.457236842], 0.557517837, &[0, 1, 2]),
        (&[0.864257812, 0.453125], 0.360441373, &[0, 1]),
        (&[0.908785636], 0.231761694, &[0, 1]),
        (&[0.893139648], 0.155655664, &[0]),
    ];
    for (model, pulls, rows) in
        [(Model::Pure, [3236, 510, 254], pure), (renyi(10), [3364, 510, 126], skellam)]
    {
        let (got_pulls, batches) = play(config(model), &[0.9, 0.5, 0.1], 42);
        assert_eq!(got_pulls, pulls);
        assert_eq!(batches.len(), rows.len());
        for (b, ((number, means, width, left), row)) in batches.iter().zip(&rows).enumerate() {
            assert_eq!((*number as usize, &left[..]), (b + 1, row.2));
            assert!((width - row.1).abs() <= 1e-9, "{width} against {}", row.1);
            assert_eq!(means.len(), row.0.len());
            for (got, want) in means.iter().zip(row.0) {
                assert!((got - want).abs() <= 1e-9, "batch {number}: {got} against {want}");
            }
        }
    }
}

/// Without noise: widths, eliminations and regret that were worked out by hand.
#[test]
fn without_noise() {
    for (horizon, regret) in [(100u64, 45.0), (1000, 93.0)] {
        let config = EliminationConfig {
            confidence: 0.1,
            ..EliminationConfig::new(3, horizon, Model::None, Ratio::ONE)
        };
        let mut policy = Elimination::new(config, IdealSum).unwrap();
        let rng = &mut SplitMix64::new(1);
        let (mut lost, mut widths) = (0.0, vec![policy.stage().width()]);
        for _ in 0..horizon {
            let batch = policy.stage().batch();
            let arm = policy.decide(&(), rng).unwrap();
            policy.learn(&(), arm, &[1.0, 0.5, 0.0][arm], rng).unwrap();
            lost += arm as f64 / 2.0;
            if policy.stage().batch() > batch {
                widths.push(policy.stage().width());
            }
        }
        assert_eq!(lost, regret);
        let want = [1.094017, 0.878478, 0.660715, 0.486058, 0.344622, 0.249461];
        assert!(widths.iter().zip(want).all(|(got, want)| (got - want).abs() <= 6e-7), "{widths:?}");
        assert!(matches!(policy.decide(&(), rng), Err(Error::HorizonOver { .. })));
    }
}

#[test]
fn stored_and_read_back_it_goes_on() {
    for (model, noise) in
        [(Model::Pure, NoiseAt::Users), (renyi(2), NoiseAt::Sum), (Model::Central, NoiseAt::Users)]
    {
        let config = EliminationConfig { noise, ..EliminationConfig::new(3, 500, model, Ratio::ONE) };
        let mut policy = Elimination::new(config, AdditiveShares::new(3).unwrap()).unwrap();
        let (mut a, mut b) = (SplitMix64::new(3), SplitMix64::new(3));
        let reward = |t: u32| f64::from(t % 7) / 7.0;
        for t in 0..137 {
            let arm = policy.decide(&(), &mut a).unwrap();
            policy.learn(&(), arm, &reward(t), &mut a).unwrap();
        }
        b.clone_from(&a);
        let text = serde_json::to_string(&policy).unwrap();
        let mut again: Elimination<AdditiveShares> = serde_json::from_str(&text).unwrap();
        for t in 137..500 {
            let arm = policy.decide(&(), &mut a).unwrap();
            assert_eq!(again.decide(&(), &mut b), Ok(arm));
            policy.learn(&(), arm, &reward(t), &mut a).unwrap();
            again.learn(&(), arm, &reward(t), &mut b).unwrap();
        }
        assert_eq!(serde_json::to_string(&policy).unwrap(), serde_json::to_string(&again).unwrap());
        for (old, new) in [
            // A batch beyond the horizon, and none.
            ("\"number\":", "\"number\":1"),
            ("\"number\":", "\"number\":0,\"x\":"),
            ("\"left\":[", "\"left\":[9,"),
            ("\"left\":[", "\"left\":[],\"x\":["),
            ("\"means\":[", "\"means\":[0,0,0,"),
            ("\"shares\":[", "\"shares\":[4000000000000,"),
            ("\"learnt\":", "\"learnt\":1000"),
            ("\"growth\":", "\"growth\":9"),
            ("\"confidence\":0", "\"confidence\":1"),
        ] {
            assert!(
                serde_json::from_str::<Elimination<AdditiveShares>>(&text.replacen(old, new, 1)).is_err(),
                "{old}"
            );
        }
    }
}

#[test]
fn misuse_is_refused_and_changes_nothing() {
    let good = EliminationConfig::new(2, 100, Model::Pure, Ratio::ONE);
    for (field, bad) in [
        ("arms", EliminationConfig { arms: 0, ..good.clone() }),
        ("growth", EliminationConfig { growth: 1, ..good.clone() }),
        ("epsilon", EliminationConfig { epsilon: Ratio::ZERO, ..good.clone() }),
        ("horizon", EliminationConfig { horizon: 0, ..good.clone() }),
        ("confidence", EliminationConfig { confidence: 1.0, ..good.clone() }),
        ("scale", EliminationConfig { model: renyi(0), ..good.clone() }),
    ] {
        let error = Elimination::new(bad, IdealSum).unwrap_err();
        assert!(
            matches!(error, Error::OutOfRange(OutOfRange { field: f, .. }) if f == field),
            "{field}: {error}"
        );
    }
    let mut policy = Elimination::new(good, IdealSum).unwrap();
    let rng = &mut SplitMix64::new(0);
    let state = |p: &Elimination<IdealSum>| serde_json::to_string(p).unwrap();
    let before = state(&policy);
    assert!(matches!(policy.learn(&(), 0, &0.5, rng), Err(Error::OutOfTurn { arm: 0 })));
    assert_eq!(state(&policy), before);
    policy.decide(&(), rng).unwrap();
    let before = state(&policy);
    assert!(matches!(policy.learn(&(), 1, &0.5, rng), Err(Error::OutOfTurn { arm: 1 })));
    for bad in [-0.5, 1.5, f64::NAN] {
        assert!(matches!(
            policy.learn(&(), 0, &bad, rng),
            Err(Error::OutOfRange(OutOfRange { field: "reward", .. }))
        ));
    }
    assert_eq!(state(&policy), before);
    policy.learn(&(), 0, &0.5, rng).unwrap();
    assert!(matches!(policy.learn(&(), 0, &0.5, rng), Err(Error::OutOfTurn { .. })));
}

#[test]
fn a_sum_lacking_users_is_refused() {
    let rng = &mut SplitMix64::new(0);
    let (mut shared, mut bits) =
        (AdditiveShares::new(2).unwrap(), BitShuffle { bits: 100, failure: r(1, 10) });
    let sums: [&mut dyn SecureSum; 4] =
        [&mut IdealSum, &mut shared, &mut bits, &mut RelaxedSum { failure: Ratio::ZERO }];
    for sum in sums {
        assert_eq!(sum.sum(&[1, 2], 3, 5, rng), Err(Error::Shares { got: 2, users: 3 }));
        assert!(matches!(
            sum.sum(&[1, 5, 2], 3, 5, rng),
            Err(Error::OutOfRange(OutOfRange { field: "share", .. }))
        ));
        assert!(sum.sum(&[1, 4, 2], 3, 5, rng).is_ok());
    }
    assert!(AdditiveShares::new(1).is_err());
    assert_eq!(shared.join(&[3], 5), Err(Error::Shares { got: 1, users: 2 }));
    assert!(bits.ones(0, 3, 41, rng).is_err() && bits.ones(0, 3, 0, rng).is_err());
}

/// The sum equals the ideal one, and any servers but all see uniform residues, whatever the share.
#[test]
fn additive_shares_hide() {
    let (m, mut rng) = (11u64, SplitMix64::new(8));
    let mut sharing = AdditiveShares::new(3).unwrap();
    for _ in 0..200 {
        let shares: Vec<u64> = (0..9).map(|_| rng.below(u128::from(m)) as u64).collect();
        let ideal = IdealSum.sum(&shares, 9, m, &mut rng).unwrap();
        assert_eq!(sharing.sum(&shares, 9, m, &mut rng), Ok(ideal));
    }
    // Pairs of parts, all three ways, of a fixed share: 121 cells, 120 degrees of freedom; 186 is passed once
    // in 10^4.
    for (i, j) in [(0, 1), (0, 2), (1, 2)] {
        let (draws, mut counts) = (121_000, vec![0.0f64; 121]);
        for _ in 0..draws {
            let parts = sharing.split(7, m, &mut rng);
            counts[(parts[i] * m + parts[j]) as usize] += 1.0;
        }
        let chi: f64 = counts.iter().map(|c| (c - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi < 186.0, "{chi}");
    }
}

/// Law of the ones of one user, from its definition.
fn ones_law(share: u64, m: u64, k: u64, lie: f64) -> Vec<f64> {
    let mut coins = vec![0.5f64.powi(k as i32)];
    for w in 0..k {
        coins.push(coins[w as usize] * (k - w) as f64 / (w + 1) as f64);
    }
    let given: f64 = coins.iter().skip(share as usize).step_by(m as usize).sum();
    let keep = |w: usize| if w as u64 % m == share { coins[w] / given } else { 0.0 };
    (0..=k as usize).map(|w| (1.0 - lie) * keep(w) + lie / (k + 1) as f64).collect()
}

fn convolve(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; a.len() + b.len() - 1];
    for (i, x) in a.iter().enumerate() {
        out[i..i + b.len()].iter_mut().zip(b).for_each(|(o, y)| *o += x * y);
    }
    out
}

/// Largest log-ratio between inputs of equal sum, and largest probability of a wrong sum.
#[test]
fn bit_shuffle_leaks_what_it_says() {
    for (m, n, failure, ks, wrong) in [
        (
            5u64,
            2u32,
            (1, 10),
            &[(25u64, 2.279), (50, 1.497), (100, 0.984), (200, 0.659), (800, 0.308)][..],
            0.078,
        ),
        (5, 3, (1, 10), &[(25, 1.808), (50, 1.171), (100, 0.794), (200, 0.545)], 0.077),
        (7, 3, (1, 100), &[(25, 4.413), (50, 2.779), (100, 1.774), (200, 1.197)], 0.0085),
        (5, 4, (1, 20), &[(25, 1.907), (50, 1.208), (100, 0.815)], 0.039),
    ] {
        let failure = failure.0 as f64 / failure.1 as f64;
        for &(k, want) in ks {
            let laws: Vec<_> = (0..m).map(|y| ones_law(y, m, k, failure / f64::from(n))).collect();
            // Inputs as sorted lists; the shuffled count depends on no order.
            let mut inputs: Vec<(Vec<u64>, Vec<f64>)> = vec![(vec![], vec![1.0])];
            for _ in 0..n {
                let mut longer = Vec::new();
                for (list, law) in &inputs {
                    for y in list.last().copied().unwrap_or(0)..m {
                        longer.push(([&list[..], &[y]].concat(), convolve(law, &laws[y as usize])));
                    }
                }
                inputs = longer;
            }
            let (mut leak, mut worst) = (0.0f64, 0.0f64);
            for sum in 0..m {
                let same: Vec<_> =
                    inputs.iter().filter(|(list, _)| list.iter().sum::<u64>() % m == sum).collect();
                for (_, law) in &same {
                    let right: f64 = law.iter().skip(sum as usize).step_by(m as usize).sum();
                    worst = worst.max(1.0 - right);
                }
                for w in 0..inputs[0].1.len() {
                    let (low, high) = same
                        .iter()
                        .fold((f64::MAX, 0.0f64), |(l, h), (_, law)| (l.min(law[w]), h.max(law[w])));
                    leak = leak.max((high / low).ln());
                }
            }
            assert!((leak - want).abs() < 6e-4, "{m} {n} {k}: {leak} against {want}");
            assert!(worst <= failure, "{worst} against {failure}");
            // With many bits a liar is a uniform residue.
            let honest = (1.0 - failure / f64::from(n)).powi(n as i32);
            let limit = (1.0 - honest) * (1.0 - 1.0 / m as f64);
            assert!((limit - wrong).abs() <= wrong * 0.01);
            assert!(k < 100 || (worst / limit - 1.0).abs() < 0.005, "{k}: {worst} against {limit}");
        }
    }
}

/// The sampler draws from that law: chi-square over 26 counts, 25 degrees of freedom; 63 is passed once in
/// 10^4.
#[test]
fn bit_shuffle_draws_its_law() {
    let (shuffle, mut rng) = (BitShuffle { bits: 25, failure: r(1, 10) }, SplitMix64::new(4));
    for share in 0..5 {
        let (law, draws) = (ones_law(share, 5, 25, 0.05), 40_000);
        let mut counts = vec![0.0f64; 26];
        for _ in 0..draws {
            counts[shuffle.ones(share, 2, 5, &mut rng).unwrap() as usize] += 1.0;
        }
        let chi: f64 = counts
            .iter()
            .zip(&law)
            .map(|(c, p)| (c - p * f64::from(draws)).powi(2) / (p * f64::from(draws)))
            .sum();
        assert!(chi < 63.0, "{share}: {chi}");
    }
    // And it runs end to end.
    let config =
        EliminationConfig { epsilon: r(1, 4), ..EliminationConfig::new(2, 6, Model::Pure, Ratio::ONE) };
    let mut policy = Elimination::new(config, BitShuffle { bits: 4000, failure: r(1, 12) }).unwrap();
    for _ in 0..6 {
        let arm = policy.decide(&(), &mut rng).unwrap();
        policy.learn(&(), arm, &1.0, &mut rng).unwrap();
    }
}

#[test]
fn statements() {
    let of = |model| EliminationConfig::new(10, 1_000_000, model, Ratio::ONE).privacy().unwrap();
    for (model, trust) in [
        (Model::Pure, Trust::Distributed),
        (Model::Central, Trust::Central),
        (Model::Local, Trust::Local),
        (Model::Shuffle, Trust::Shuffler),
    ] {
        let s = of(model);
        assert_eq!(
            (s.definition, s.trust, s.epsilon.unwrap().get(), s.delta.get()),
            (Definition::Pure, Some(trust), 1.0, 0.0)
        );
    }
    let bits = of(Model::Bits { delta: Delta::new(1e-9).unwrap() });
    assert_eq!(
        (bits.definition, bits.trust, bits.epsilon.unwrap().get(), bits.delta.get()),
        (Definition::Approximate, Some(Trust::Shuffler), 1.0, 1e-9)
    );
    assert_eq!(of(Model::None).definition, Definition::None);
    // Continuous Gaussian noise of the same variance is 4.75273 at delta 1e-5; Skellam pays a little more.
    let (skellam, gaussian) = (of(renyi(10)), of(gauss(10)));
    assert_eq!((skellam.definition, skellam.delta.get()), (Definition::Renyi, 1e-5));
    assert!((gaussian.epsilon.unwrap().get() - 4.75273).abs() < 6e-6);
    assert!((4.75273..4.77673).contains(&skellam.epsilon.unwrap().get()));
    assert_eq!(
        serde_json::from_str::<privacy::PrivacyStatement>(&serde_json::to_string(&skellam).unwrap()).unwrap(),
        skellam
    );
}
