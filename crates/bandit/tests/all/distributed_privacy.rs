//! What a batch gives away: exact ratios, users who do not answer, and attacks on real shares.
//!
//! Attacks: events are fixed beforehand; all bounds hold together with probability above 0.999.

use bandit::distributed::{
    EliminationConfig, IdealSum, MOST_DELTA, Mechanism, Model, NoiseAt, SecureSum, Stage,
};
use fault::OutOfRange;
use privacy::audit::epsilon_at_least;
use privacy::budget::Delta;
use privacy::source::SplitMix64;
use privacy::{Ratio, sampler};
use rand::Rng;

fn r(num: u128, den: u128) -> Ratio {
    Ratio::new(num, den).unwrap()
}
fn made(model: Model, users: u64) -> Mechanism {
    Mechanism::new(model, Ratio::ONE, users, 0.1, 1_000_000).unwrap()
}
fn renyi() -> Model {
    Model::Renyi { scale: Ratio::integer(10), delta: Delta::new(1e-5).unwrap() }
}
fn gauss() -> Model {
    Model::Concentrated { scale: Ratio::integer(10), delta: Delta::new(1e-5).unwrap() }
}

/// Largest log-ratio of a difference of two Polya(`index`, e^-rate) at a shift of `g`: the true pure epsilon.
fn worst_ratio(index: f64, rate: f64, g: usize) -> f64 {
    let reach = (60.0 / rate) as usize + g;
    let mut one = vec![1.0f64];
    for x in 0..reach {
        one.push(one[x] * (x as f64 + index) / (x as f64 + 1.0) * (-rate).exp());
    }
    // Symmetric, so distances from 0 are enough: P(d) up to a constant.
    let law: Vec<f64> = (0..reach / 2).map(|d| one.iter().zip(&one[d..]).map(|(p, q)| p * q).sum()).collect();
    let at = |x: i64| law[x.unsigned_abs() as usize];
    let g = g as i64;
    (-g..reach as i64 / 2 - g).map(|x| (at(x) / at(x + g)).ln().abs()).fold(0.0, f64::max)
}

/// Precision and noise of one batch belong together: the ratio is epsilon, and is not with the precision of
/// another.
#[test]
fn pure_ratio_is_exact() {
    for users in [16, 64, 256] {
        let g = made(Model::Pure, users).precision();
        let epsilon = worst_ratio(1.0, 1.0 / g as f64, g as usize);
        assert!((epsilon - 1.0).abs() <= 1e-9, "{epsilon}");
        let other = made(Model::Pure, 4 * users).precision();
        assert!(worst_ratio(1.0, 1.0 / g as f64, other as usize) > 1.9);
    }
}

fn bits(delta: f64) -> Model {
    Model::Bits { delta: Delta::new(delta).unwrap() }
}

/// P of the number of ones that a user sends, of whose reward `steps` steps are left, when noise beyond
/// `margin` is cut off.
fn ones_law(users: u64, rate: f64, g: usize, margin: usize, steps: usize) -> Vec<f64> {
    let (index, reach) = (1.0 / users as f64, (60.0 / rate) as usize + margin);
    let mut one = vec![(1.0 - (-rate).exp()).powf(index)];
    for x in 0..reach {
        one.push(one[x] * (x as f64 + index) / (x as f64 + 1.0) * (-rate).exp());
    }
    let mut law = vec![0.0; g + 2 * margin + 1];
    for (plus, p) in one.iter().enumerate() {
        for (minus, q) in one.iter().enumerate() {
            let ones = (margin + steps + plus).saturating_sub(minus).min(g + 2 * margin);
            law[ones] += p * q;
        }
    }
    law
}

fn convolved(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; a.len() + b.len() - 1];
    for (i, x) in a.iter().enumerate() {
        b.iter().enumerate().for_each(|(j, y)| sum[i + j] += x * y);
    }
    sum
}

/// The delta of a batch's number of ones at `epsilon`: the worst hockey-stick divergence over who else earned
/// what.
fn exact_delta(users: u64, epsilon: f64, g: usize, margin: usize) -> f64 {
    let [none, all] = [0, g].map(|steps| ones_law(users, epsilon / g as f64, g, margin, steps));
    let worst = |earners: u64| {
        let others = (1..users)
            .fold(vec![1.0], |law, user| convolved(&law, if user <= earners { &all } else { &none }));
        let (p, q) = (convolved(&others, &none), convolved(&others, &all));
        let divergence = |p: &[f64], q: &[f64]| -> f64 {
            p.iter().zip(q).map(|(p, q)| (p - epsilon.exp() * q).max(0.0)).sum()
        };
        divergence(&p, &q).max(divergence(&q, &p))
    };
    (0..users).map(worst).fold(0.0, f64::max)
}

/// Noise that is cut off costs no more than the delta that was asked for, and with half of the margin it
/// does.
#[test]
fn cut_off_noise_costs_its_delta() {
    for (users, epsilon, delta) in [(2, 1, 1e-6), (3, 1, 1e-4), (4, 2, 1e-3), (16, 1, 1e-5)] {
        let mechanism = Mechanism::new(bits(delta), Ratio::integer(epsilon), users, 0.1, 1_000_000).unwrap();
        let (g, margin) = (mechanism.precision() as usize, mechanism.margin() as usize);
        let exact = |margin| exact_delta(users, epsilon as f64, g, margin);
        let (whole, half) = (exact(margin), exact(margin / 2));
        println!("{users} users, margin {margin}: {whole:e} of {delta:e}; half of it {half:e}");
        assert!(whole <= delta && half > delta, "{users}: {whole} and {half}, stated {delta}");
    }
    let none = Mechanism::new(bits(0.0), Ratio::ONE, 4, 0.1, 100);
    assert!(matches!(none, Err(bandit::Error::OutOfRange(OutOfRange { field: "delta", .. }))));
}

/// A quarter of a batch's users is made up, and tells what they added, which leaves the noise of the others.
/// With noise sized for all users, the epsilon is above the promised one; with noise sized without those, it
/// is not, also where noise is cut off. The threshold covers the noise of all.
#[test]
fn attack_made_up_users_leave_enough_noise() {
    let sized = |model, colluding| {
        Mechanism::with_colluding(model, Ratio::ONE, 16, colluding, 0.1, 1_000_000).unwrap()
    };
    for (colluding, holds) in [(0, false), (4, true)] {
        let mechanism = sized(Model::Pure, colluding);
        assert_eq!((mechanism.users(), mechanism.honest()), (16, 16 - colluding));
        let g = mechanism.precision();
        let left = worst_ratio(12.0 / mechanism.honest() as f64, 1.0 / g as f64, g as usize);
        assert_eq!(left <= 1.0 + 1e-9, holds, "{left}");
    }
    for (model, users) in [(renyi(), 16), (gauss(), 16)] {
        let mechanism = Mechanism::with_colluding(model, Ratio::ONE, users, 4, 0.1, 1_000_000).unwrap();
        let (mut rng, g) = (SplitMix64::new(80), mechanism.precision() as f64);
        let mut square = 0.0;
        for _ in 0..20_000 {
            square += (mechanism.noise(&mut rng).unwrap() as f64).powi(2) / 20_000.0;
        }
        // Of 12 together the variance is g²; five standard errors of the mean of squares.
        assert!((12.0 * square / (g * g) - 1.0).abs() < 5.0 * (2.0f64 / 20_000.0).sqrt(), "{model:?}");
    }
    // Of four users two are real.
    let cut = Mechanism::with_colluding(bits(1e-4), Ratio::ONE, 4, 2, 0.1, 1_000_000).unwrap();
    let (g, margin) = (cut.precision() as usize, cut.margin() as usize);
    assert!(exact_delta(2, 1.0, g, margin) <= 1e-4);
    for model in [Model::Pure, renyi(), gauss(), bits(1e-6)] {
        let (mechanism, mut rng) = (sized(model, 8), SplitMix64::new(81));
        let beyond = (0..2000).filter(|_| {
            let noise: i128 = (0..16).map(|_| mechanism.noise(&mut rng).unwrap()).sum();
            noise.unsigned_abs() > u128::from(mechanism.threshold())
        });
        // 0.1 of them, and five standard deviations.
        assert!(beyond.count() < 268, "{model:?}");
    }
    for (model, colluding) in [(Model::Central, 1), (Model::Local, 1), (Model::Pure, 16), (Model::Pure, 17)] {
        let refused = Mechanism::with_colluding(model, Ratio::ONE, 16, colluding, 0.1, 100);
        assert!(
            matches!(refused, Err(bandit::Error::OutOfRange(OutOfRange { field: "colluding", .. }))),
            "{model:?}"
        );
    }
}

/// A run states its guarantee at a delta that means something, and says what its noise counts on.
#[test]
fn runs_state_their_guarantee_at_a_small_delta() {
    let config = |delta| {
        let delta = Delta::new(delta).unwrap();
        EliminationConfig::new(2, 1000, Model::Renyi { scale: Ratio::ONE, delta }, Ratio::ONE)
    };
    assert!(Stage::new(config(MOST_DELTA)).is_ok());
    for delta in [0.011, 0.99] {
        let refused = Stage::new(config(delta)).unwrap_err().to_string();
        assert!(refused.contains("delta is") && refused.contains("at most 0.01"), "{refused}");
    }
    let part = EliminationConfig { colluding: r(1, 4), ..config(1e-6) };
    assert!(part.privacy().unwrap().sentence.contains("all users of a batch but a part of 0.25"));
    // Rounded up: of the first batch's two one.
    assert_eq!([1, 2, 3].map(|number| part.mechanism(number).unwrap().honest()), [1, 3, 6]);
    for bad in [
        EliminationConfig { colluding: r(5, 4), ..part.clone() },
        EliminationConfig { noise: NoiseAt::Sum, ..part },
    ] {
        assert!(matches!(
            Stage::new(bad),
            Err(bandit::Error::OutOfRange(OutOfRange { field: "colluding", .. }))
        ));
    }
}

/// What a device sends has that law: chi-square, 4 degrees of freedom, 30 has probability 5e-6.
#[test]
fn ones_have_their_law() {
    let mechanism = made(bits(0.99), 2);
    let (g, margin) = (mechanism.precision() as usize, mechanism.margin() as usize);
    let mut rng = SplitMix64::new(78);
    for (reward, steps) in [(0.0, 0), (0.5, 1), (1.0, g)] {
        let law = ones_law(2, 1.0 / g as f64, g, 1, steps);
        assert!((law.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        // Cut off further, to a margin of 1, so that all of it is seen.
        let mut seen = vec![0.0; law.len()];
        for _ in 0..40_000 {
            let ones = mechanism.ones(reward, &mut rng).unwrap() as i64 - margin as i64 + 1;
            seen[ones.clamp(0, g as i64 + 2) as usize] += 1.0;
        }
        let chi: f64 = seen.iter().zip(&law).map(|(s, p)| (s - 40_000.0 * p).powi(2) / (40_000.0 * p)).sum();
        assert!(law.len() == 5 && chi < 30.0, "{reward}: {chi}");
    }
}

/// The number of ones stands for the sum of the shares that the same words make, over the whole range of the
/// count.
#[test]
fn counts_are_sums_of_shares() {
    for (users, delta) in [(1, 0.5), (9, 0.9), (64, 1e-6)] {
        let mechanism = made(bits(delta), users);
        let [mut first, mut second] = [SplitMix64::new(79), SplitMix64::new(79)];
        let (mut ones, mut shares) = (0, Vec::new());
        for user in 0..users {
            let reward = user as f64 / users as f64;
            let each = mechanism.ones(reward, &mut first).unwrap();
            assert!(each <= mechanism.bits());
            ones += u128::from(each);
            shares.push(mechanism.randomise(reward, &mut second).unwrap());
        }
        let sum = IdealSum.sum(&shares, users, mechanism.modulus(), &mut first).unwrap();
        assert_eq!(mechanism.count(ones).unwrap(), sum);
        let all = u128::from(users * mechanism.bits());
        assert!(mechanism.count(0).is_ok() && mechanism.count(all).is_ok());
        assert!(matches!(
            mechanism.count(all + 1),
            Err(bandit::Error::OutOfRange(OutOfRange { field: "ones", .. }))
        ));
    }
}

/// If a fraction of the users answers only (or the rest tell the server their noise), the others have this
/// epsilon.
#[test]
fn users_who_do_not_answer_cost_the_others() {
    for (users, e, g, want) in [
        (16, 1.0, 4, [1.0, 1.153, 1.438, 2.113, 3.217]),
        (64, 0.5, 4, [0.5, 0.620, 0.862, 1.507, 2.641]),
        (256, 1.0, 16, [1.0, 1.176, 1.526, 2.445, 3.998]),
    ] {
        let epsilon = if e == 1.0 { Ratio::ONE } else { r(1, 2) };
        assert_eq!(Mechanism::new(Model::Pure, epsilon, users, 0.1, 100).unwrap().precision(), g);
        for (fraction, want) in [1.0, 0.9, 0.75, 0.5, 0.25].into_iter().zip(want) {
            let got = worst_ratio(fraction, e / g as f64, g as usize);
            assert!((got - want).abs() < 6e-4, "{users} {fraction}: {got} against {want}");
        }
    }
}

/// Epsilon shown by `event` when the first user's reward is 1 (`true`) and 0.
fn shown(runs: u64, delta: f64, mut event: impl FnMut(f64, &mut dyn Rng) -> bool) -> f64 {
    let mut rng = SplitMix64::new(77);
    let hits = [1.0, 0.0].map(|reward| (0..runs).filter(|_| event(reward, &mut rng)).count() as u64);
    epsilon_at_least(runs, hits, Delta::new(delta).unwrap(), 1e-5).unwrap()
}

/// The server's estimate from real shares; all but the first user have reward 0.
fn estimate(mechanism: &Mechanism, reward: f64, rng: &mut dyn Rng) -> f64 {
    let users = mechanism.users();
    let shares: Vec<u64> = (0..users)
        .map(|user| mechanism.randomise(if user == 0 { reward } else { 0.0 }, rng).unwrap())
        .collect();
    let sum = IdealSum.sum(&shares, users, mechanism.modulus(), rng).unwrap();
    mechanism.analyse(sum, rng).unwrap()
}

#[track_caller]
fn below(what: &str, shown: f64, stated: f64) {
    println!("{what}: at least {shown:.3}, stated {stated:.3}");
    assert!(shown < stated, "{shown} shown, {stated} stated");
    assert!(shown > 0.4 * stated, "an attack that shows {shown} of {stated} says nothing");
}

#[track_caller]
fn above(what: &str, shown: f64, stated: f64) {
    println!("{what}: at least {shown:.3}, stated {stated:.3}: too little noise");
    assert!(shown > stated, "noise too small shows only {shown} of {stated}");
}

fn attacks(runs: u64) {
    for model in [Model::Pure, Model::Central] {
        let mechanism = made(model, 4);
        below(&format!("{model:?}"), shown(runs, 0.0, |x, rng| estimate(&mechanism, x, rng) >= 1.0), 1.0);
    }
    // Half of epsilon is the sum's own.
    let shuffled = made(Model::Shuffle, 4);
    below("sum of Shuffle", shown(runs, 0.0, |x, rng| estimate(&shuffled, x, rng) >= 1.0), 0.5);
    // In bits, as a shuffler counts them; its epsilon is the whole.
    let counted = made(bits(1e-9), 4);
    let sum_of_ones = |x: f64, rng: &mut dyn Rng| {
        let rewards = [x, 0.0, 0.0, 0.0];
        let ones: u128 = rewards.iter().map(|x| u128::from(counted.ones(*x, rng).unwrap())).sum();
        counted.analyse(counted.count(ones).unwrap(), rng).unwrap()
    };
    below("sum of Bits", shown(runs, 1e-9, |x, rng| sum_of_ones(x, rng) >= 1.0), 1.0);
    // A single message; those above the half of the modulus are negative.
    let local = made(Model::Local, 4);
    let (g, half) = (local.precision(), local.modulus() / 2);
    below("Local", shown(runs, 0.0, |x, rng| (g..half).contains(&local.randomise(x, rng).unwrap())), 1.0);
    // Tails of noise near the Gaussian of deviation 1 (very negative noise wraps to 5 and above), rare: twice
    // the runs. What is stated is epsilon at delta 1e-5.
    for model in [renyi(), gauss()] {
        let stated = model.privacy(Ratio::ONE, 4, 1_000_000).unwrap();
        let (epsilon, delta) = (stated.epsilon.unwrap().get(), stated.delta.get());
        let mechanism = made(model, 4);
        below(
            &format!("{model:?}"),
            shown(2 * runs, delta, |x, rng| (3.0..5.0).contains(&estimate(&mechanism, x, rng))),
            epsilon,
        );
    }

    // Noise too small, in four ways. Half of the users answer:
    let mechanism = made(Model::Pure, 16);
    let g = mechanism.precision() as f64;
    let noise =
        |users: u64, rng: &mut dyn Rng| (0..users).map(|_| mechanism.noise(rng).unwrap() as f64).sum::<f64>();
    above("half of the users", shown(runs, 0.0, |x, rng| x * g + noise(8, rng) == g), 1.0);
    // one Polya variate a user in place of a difference (nothing below 0 then):
    let rate = Ratio::ONE.over(Ratio::integer(mechanism.precision())).unwrap();
    let single =
        |rng: &mut dyn Rng| (0..16).map(|_| sampler::polya(rng, 16, rate).unwrap() as f64).sum::<f64>();
    above("single variates", shown(runs, 0.0, |x, rng| (1.0 - x) * g + single(rng) < g), 1.0);
    // noise of a batch of 4 under the precision of 16:
    let smaller = made(Model::Pure, 4);
    let small = |rng: &mut dyn Rng| (0..4).map(|_| smaller.noise(rng).unwrap() as f64).sum::<f64>();
    above("noise of a smaller batch", shown(runs, 0.0, |x, rng| x * g + small(rng) >= g), 1.0);
    // and one user of nine who adds Skellam or Gaussian noise.
    for model in [renyi(), gauss()] {
        let stated = model.privacy(Ratio::ONE, 9, 1_000_000).unwrap();
        let mechanism = made(model, 9);
        let g = mechanism.precision() as f64;
        let event = |x: f64, rng: &mut dyn Rng| x * g + mechanism.noise(rng).unwrap() as f64 >= 1.1 * g;
        above(
            &format!("one user of nine, {model:?}"),
            shown(runs, stated.delta.get(), event),
            stated.epsilon.unwrap().get(),
        );
    }
}

/// Few runs bound less: what they must show for noise that is too small is the same.
#[test]
fn attacks_show_less_than_is_stated() {
    attacks(20_000);
}

#[test]
#[ignore = "long: a million pairs a mechanism"]
fn attacks_of_a_million_show_less_than_is_stated() {
    attacks(1_000_000);
}

/// Chi-square of homogeneity between estimates of two mechanisms, 24 degrees of freedom: 60 is passed once in
/// 10^4.
fn apart(runs: u64, mechanisms: [&Mechanism; 2]) -> f64 {
    let mut rng = SplitMix64::new(6);
    let mut counts = [[0.0f64; 25]; 2];
    for (counts, mechanism) in counts.iter_mut().zip(mechanisms) {
        for _ in 0..runs {
            let steps = estimate(mechanism, 0.3, &mut rng) * mechanism.precision() as f64;
            counts[(steps as i64 + 12).clamp(0, 24) as usize] += 1.0;
        }
    }
    (0..25).map(|c| (counts[0][c] - counts[1][c]).powi(2) / (counts[0][c] + counts[1][c]).max(1.0)).sum()
}

/// One discrete Laplace at the server, or one spread over the users: the estimates have the same law. Of an
/// epsilon a tenth smaller they have not, and that is seen.
fn laws_of_central_and_distributed(runs: u64, users: u64) {
    let [pure, central] = [Model::Pure, Model::Central].map(|model| made(model, users));
    let chi = apart(runs, [&pure, &central]);
    assert!(chi < 60.0, "{chi}");
    let smaller = Mechanism::new(Model::Central, r(9, 10), users, 0.1, 1_000_000).unwrap();
    assert_eq!(smaller.precision(), central.precision());
    let chi = apart(runs, [&pure, &smaller]);
    assert!(chi > 60.0, "{chi}");
}

#[test]
fn central_and_distributed_cannot_be_told_apart() {
    laws_of_central_and_distributed(20_000, 4);
}

#[test]
#[ignore = "long: half a minute"]
fn central_and_distributed_cannot_be_told_apart_by_more() {
    laws_of_central_and_distributed(100_000, 16);
}
