//! Runs and formulas worked out elsewhere (plain Python on SplitMix64), equal to the last pull; slow twins.

use bandit::stochastic::{
    AnytimeLazyUcb, BernoulliArms, DpSe, Epoch, FollowTheNoisyLeader, FullInformation, HybridUcb, NoisyMax,
    SETTING_3, Tree, Ucb1, report_noisy_max,
};
use bandit::{Environment, Policy, play};
use privacy::budget::{Epsilon, Neighbours};
use privacy::laplace::{GridLaplace, HarnessLaplace, LaplaceNoise, ScriptedLaplace};
use privacy::source::SplitMix64;
use proptest::prelude::*;

fn eps(epsilon: f64) -> Epsilon {
    Epsilon::new(epsilon).unwrap()
}

fn leader(epsilon: f64, neighbours: Neighbours) -> NoisyMax {
    NoisyMax::Leader { epsilon: eps(epsilon), neighbours }
}

const MEANS: [f64; 3] = [0.9, 0.6, 0.3];

/// Arms played against Bernoulli arms on seed 42.
fn arms(policy: &mut impl Policy<Context = (), Feedback = f64>, means: &[f64], rounds: usize) -> Vec<usize> {
    let mut environment = BernoulliArms::new(means).unwrap();
    let (mut rng, mut noise) = (SplitMix64::new(42), SplitMix64::noise(42));
    play(policy, &mut environment, rounds, &mut rng, &mut noise).unwrap().arms
}

/// Plays a policy of one arm; its mean after each pull.
fn means_of_one_arm<P: Policy<Context = (), Feedback = f64>>(
    mut policy: P,
    rewards: &[f64],
    mean: impl Fn(&P) -> f64,
) -> (Vec<f64>, P) {
    let mut rng = SplitMix64::new(0);
    let means = rewards.iter().map(|x| {
        assert_eq!(policy.decide(&(), &mut rng).unwrap(), 0);
        policy.learn(&(), 0, x, &mut rng).unwrap();
        mean(&policy)
    });
    (means.collect(), policy)
}

fn assert_close(got: impl IntoIterator<Item = f64>, want: &[f64], error: f64) {
    let got: Vec<f64> = got.into_iter().collect();
    assert_eq!(got.len(), want.len());
    assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() <= error), "got {got:?}, want {want:?}");
}

#[test]
fn anytime_lazy_ucb_one_arm_by_hand() {
    let policy = AnytimeLazyUcb::new(1, eps(0.5), ScriptedLaplace::new([0.25, -1.0, 2.0])).unwrap();
    let mean = |p: &AnytimeLazyUcb<_>| p.means().next().unwrap();
    let (means, policy) = means_of_one_arm(policy, &[1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0], mean);
    assert_eq!(means, [1.25, 1.25, 0.0, 0.0, 0.0, 0.0, 1.25]);
    assert_eq!(policy.noise().scales(), [2.0; 3]);
    assert_eq!((policy.sizes().next(), policy.pulls().next()), (Some(4), Some(7)));
}

/// mean 0.6 and 8 observations behind it: the indices of eq. 3, 4 and of eq. 35 in round 100 at epsilon 0.5.
#[test]
fn indices_of_the_papers_formulas() {
    // Pulls 8 to 15 fill the array of 8; its sum is 4 and its noise 0.8.
    let mut script = vec![0.0; 4];
    script[3] = 0.8;
    let rewards: Vec<f64> = (0..15).map(|i| f64::from(i % 2)).collect();
    let policy = AnytimeLazyUcb::new(1, eps(0.5), ScriptedLaplace::new(script)).unwrap();
    let (means, policy) = means_of_one_arm(policy, &rewards, |p| p.means().next().unwrap());
    assert_eq!(means[14] * 8.0, rewards[7..15].iter().sum::<f64>() + 0.8);
    let from_mean = |index: f64, mean: f64| index - mean + 0.6;
    assert_close([from_mean(policy.index(0, 100).unwrap(), means[14])], &[5.368008081930302], 1e-12);

    let hybrid = HybridUcb::new(1, eps(0.5), Tree::Corrected, ScriptedLaplace::new([0.0; 8])).unwrap();
    let (means, hybrid) = means_of_one_arm(hybrid, &rewards[..8], |p| p.means().next().unwrap());
    assert_close([from_mean(hybrid.index(0, 100).unwrap(), means[7])], &[86.74091529280489], 1e-12);
    assert!(policy.index(1, 100).is_err() && hybrid.index(1, 100).is_err());
}

#[test]
fn anytime_lazy_ucb_on_seed_42() {
    let runs_of = |arms: &[usize]| -> Vec<(usize, usize)> {
        arms.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect()
    };
    for (epsilon, pulls, means, runs) in [
        (
            1.0,
            [1234, 511, 255],
            [0.8978052076, 0.6028049014, 0.29844558],
            vec![
                (0, 1),
                (1, 1),
                (2, 1),
                (0, 2),
                (2, 2),
                (1, 2),
                (0, 4),
                (2, 4),
                (1, 4),
                (0, 8),
                (2, 8),
                (1, 8),
                (0, 16),
                (1, 16),
            ],
        ),
        (
            0.2,
            [978, 511, 511],
            [0.8803958256, 0.553087007, 0.3359577001],
            vec![
                (0, 1),
                (1, 1),
                (2, 1),
                (0, 2),
                (2, 2),
                (1, 2),
                (2, 4),
                (0, 4),
                (1, 4),
                (0, 8),
                (2, 8),
                (1, 8),
                (0, 16),
                (2, 16),
            ],
        ),
    ] {
        let mut policy = AnytimeLazyUcb::new(3, eps(epsilon), HarnessLaplace).unwrap();
        let arms = arms(&mut policy, &MEANS, 2000);
        assert_eq!(policy.pulls().collect::<Vec<_>>(), pulls);
        assert_close(policy.means(), &means, 1e-10);
        assert_eq!(policy.pulls().map(|o| (o + 1).ilog2()).sum::<u32>(), 27);
        assert_eq!(runs_of(&arms)[..runs.len()], runs[..]);
    }
}

/// Algorithm 1 as first written down: every array kept, every index computed in every round.
struct Arrays {
    arrays: Vec<Vec<Vec<f64>>>,
    means: Vec<f64>,
    epsilon: f64,
    learnt: u64,
}

impl Arrays {
    fn new(k: usize, epsilon: f64) -> Self {
        Self { arrays: vec![vec![vec![]]; k], means: vec![0.0; k], epsilon, learnt: 0 }
    }

    fn decide(&self) -> usize {
        let (t, k) = (self.learnt + 1, self.arrays.len());
        if t <= k as u64 {
            return self.learnt as usize;
        }
        let index = |arm: usize| {
            let size = self.arrays[arm][self.arrays[arm].len() - 2].len() as f64;
            self.means[arm]
                + (3.0 * (t as f64).ln() / size).sqrt()
                + 3.0 * (t as f64).ln() / (self.epsilon * size)
        };
        (1..k).fold(0, |best, arm| if index(arm) > index(best) { arm } else { best })
    }

    fn learn(&mut self, arm: usize, reward: f64, noise: &mut impl LaplaceNoise, rng: &mut SplitMix64) {
        self.learnt += 1;
        let arrays = &mut self.arrays[arm];
        let (r, last) = (arrays.len() - 1, arrays.last_mut().unwrap());
        last.push(reward);
        if last.len() == 1 << r {
            let sum = noise.add(last.iter().sum(), 1.0 / self.epsilon, rng).unwrap();
            self.means[arm] = sum / last.len() as f64;
            arrays.push(vec![]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// The O(1) form, which looks far ahead, plays what the array form plays. Grid noise makes ties likely.
    #[test]
    fn anytime_lazy_ucb_equals_its_array_form(seed: u64, means in prop::collection::vec(0.0..1.0f64, 1..7),
        log2_epsilon in -6.0..7.0f64, coarse: bool) {
        let epsilon = log2_epsilon.exp2();
        if coarse {
            equal_to_arrays(seed, &means, epsilon, GridLaplace::new(2).unwrap())?;
        } else {
            equal_to_arrays(seed, &means, epsilon, HarnessLaplace)?;
        }
    }
}

fn equal_to_arrays(
    seed: u64,
    means: &[f64],
    epsilon: f64,
    mut noise: impl bandit::stochastic::Noise,
) -> Result<(), TestCaseError> {
    let mut fast = AnytimeLazyUcb::new(means.len(), eps(epsilon), noise.clone()).unwrap();
    let mut slow = Arrays::new(means.len(), epsilon);
    let mut environment = BernoulliArms::new(means).unwrap();
    let mut rng = SplitMix64::new(seed);
    let (mut fast_rng, mut slow_rng) = (SplitMix64::noise(seed), SplitMix64::noise(seed));
    for round in 0..20_000 {
        environment.begin(&mut rng);
        let arm = fast.decide(&(), &mut fast_rng).unwrap();
        prop_assert_eq!(arm, slow.decide(), "round {}", round);
        let reward = environment.play(arm, &mut rng).unwrap().reward;
        fast.learn(&(), arm, &reward, &mut fast_rng).unwrap();
        slow.learn(arm, reward, &mut noise, &mut slow_rng);
    }
    Ok(())
}

#[test]
fn hybrid_ucb_one_arm_by_hand() {
    let script: Vec<f64> = (1..=20).map(f64::from).collect();
    let policy = HybridUcb::new(1, eps(1.0), Tree::Corrected, ScriptedLaplace::new(script)).unwrap();
    let (means, policy) = means_of_one_arm(policy, &[1.0; 8], |p| p.means().next().unwrap());
    assert_close(means, &[2.0, 2.0 + 0.5, 7.0 / 3.0, 3.0, 2.8, 3.5, 18.0 / 7.0, 3.375], 1e-15);
    assert_eq!(policy.noise().scales(), [2.0, 2.0, 2.0, 4.0, 4.0, 4.0, 2.0, 6.0]);
}

#[test]
fn hybrid_ucb_without_noise_is_the_running_mean() {
    let rewards: Vec<f64> = (0..300).map(|i| f64::from(i * i % 7) / 8.0).collect();
    for tree in [Tree::Corrected, Tree::Paper] {
        let policy = HybridUcb::new(1, eps(1.0), tree, ScriptedLaplace::new(vec![0.0; 400])).unwrap();
        let (means, _) = means_of_one_arm(policy, &rewards, |p| p.means().next().unwrap());
        let running: Vec<f64> = (1..=300).map(|n| rewards[..n].iter().sum::<f64>() / n as f64).collect();
        assert_close(means, &running, 1e-14);
    }
}

#[test]
fn hybrid_ucb_on_seed_42() {
    let run = |epsilon, tree| {
        let mut policy = HybridUcb::new(3, eps(epsilon), tree, HarnessLaplace).unwrap();
        arms(&mut policy, &MEANS, 2000);
        (policy.pulls().collect::<Vec<_>>(), policy.means().collect::<Vec<_>>())
    };
    for (epsilon, pulls, means) in [
        (1.0, [772, 644, 584], [0.8398586921, 0.6775719701, 0.1212751595]),
        (0.2, [703, 632, 665], [0.5084062213, -0.770349627, 0.5278669418]),
    ] {
        let got = run(epsilon, Tree::Corrected);
        assert_eq!(got.0, pulls);
        assert_close(got.1, &means, 1e-10);
    }
    assert_eq!(run(1.0, Tree::Paper).0, [749, 695, 556]);
    assert_eq!(run(0.2, Tree::Paper).0, [693, 659, 648]);
}

#[test]
fn dp_se_epochs_of_the_paper() {
    let beta = 0.5f64.powi(22);
    for (number, epsilon, rounds, h, c) in [
        (1, 0.1, 2921, 0.056936, 0.062461),
        (1, 0.5, 2426, 0.062475, 0.015041),
        (1, 8.0, 2426, 0.062475, 0.000940),
        (2, 0.1, 10408, 0.031247, 0.018862),
        (2, 0.5, 10408, 0.031247, 0.003772),
        (2, 8.0, 10408, 0.031247, 0.000236),
        (3, 0.1, 43287, 0.015625, 0.004722),
        (3, 0.5, 43287, 0.015625, 0.000944),
        (3, 8.0, 43287, 0.015625, 0.000059),
        (4, 0.1, 177856, 0.007812, 0.001182),
        (4, 0.5, 177856, 0.007812, 0.000236),
        (4, 8.0, 177856, 0.007812, 0.000015),
    ] {
        let epoch = Epoch::new(5, number, beta, eps(epsilon));
        assert_eq!(epoch.rounds, rounds);
        assert_close([epoch.h, epoch.c], &[h, c], 6e-7);
    }
}

#[test]
fn dp_se_on_seed_42() {
    let run = |means: &[f64], epsilon: f64, rounds: usize| {
        let mut policy = DpSe::new(means.len(), eps(epsilon), 1.0 / rounds as f64, HarnessLaplace).unwrap();
        let first = policy.epoch();
        let mut pulls = vec![0; means.len()];
        arms(&mut policy, means, rounds).into_iter().for_each(|arm| pulls[arm] += 1);
        assert_eq!(policy.left().collect::<Vec<_>>(), [0]);
        (first, policy.means().iter().map(|m| m.unwrap()).collect::<Vec<_>>(), pulls)
    };
    let (epoch, means, pulls) = run(&[0.9, 0.3], 1.0, 20_000);
    assert_eq!(epoch.rounds, 1624);
    assert_close([epoch.h, epoch.c], &[0.06247185640925987, 0.0073786509200837215], 1e-15);
    assert_close(means, &[0.897961772391, 0.300553929918], 1e-12);
    assert_eq!(pulls, [18376, 1624]);
    let (epoch, means, pulls) = run(&MEANS, 0.5, 200_000);
    assert_eq!(epoch.rounds, 1971);
    assert_close([epoch.h, epoch.c], &[0.06247095007454396, 0.014907132719754615], 1e-15);
    assert_close(means, &[0.909984696462, 0.601826060058, 0.300560521994], 1e-12);
    assert_eq!(pulls, [196058, 1971, 1971]);
}

#[test]
fn noisy_max_by_hand() {
    let mut noise = ScriptedLaplace::new([0.5, -1.0, 1.4]);
    // 3.5, 3, 3.4
    assert_eq!(report_noisy_max([3.0, 4.0, 2.0], 2.0, &mut noise, &mut SplitMix64::new(0)), Ok(0));
    assert_eq!(noise.scales(), [2.0; 3]);
}

#[test]
fn the_noisy_leader_on_seed_42() {
    let run = |max: NoisyMax| {
        let mut policy = FollowTheNoisyLeader::new(3, max, HarnessLaplace).unwrap();
        let mut environment = FullInformation(BernoulliArms::new(&[0.4, 0.5, 0.6]).unwrap());
        let (mut rng, mut noise) = (SplitMix64::new(42), SplitMix64::noise(42));
        let history = play(&mut policy, &mut environment, 1023, &mut rng, &mut noise).unwrap();
        let epochs: Vec<usize> = (0..10).map(|s| history.arms[(1 << s) - 1]).collect();
        (epochs, (history.regret() * 10.0).round() / 10.0)
    };
    let near = (vec![0, 0, 1, 0, 0, 1, 2, 2, 2, 2], 9.0);
    assert_eq!(run(leader(2.0, Neighbours::ReplaceOne)), near); // scale 1
    assert_eq!(run(leader(1.0, Neighbours::AddRemove)), near);
    assert_eq!(run(leader(1.0, Neighbours::ReplaceOne)), near);
    let far = (vec![0, 0, 1, 0, 0, 1, 0, 0, 2, 2], 47.4);
    assert_eq!(run(leader(0.2, Neighbours::ReplaceOne)), far); // scale 10
    assert_eq!(run(NoisyMax::EverySum { epsilon: eps(0.3) }), far);
}

/// T = 10: epochs of 1, 2, 4 and 3 rounds, the last cut short; K draws after rounds 1, 3 and 7, none else.
#[test]
fn the_noisy_leader_draws_at_the_end_of_an_epoch_only() {
    let noise = ScriptedLaplace::new([0.0; 6]);
    let mut policy = FollowTheNoisyLeader::new(2, leader(0.5, Neighbours::ReplaceOne), noise).unwrap();
    let mut rng = SplitMix64::new(0);
    let mut draws = Vec::new();
    for _ in 0..10 {
        let arm = policy.decide(&(), &mut rng).unwrap();
        policy.learn(&(), arm, &[0.25, 0.75], &mut rng).unwrap();
        draws.push(policy.noise().scales().len());
    }
    assert_eq!(draws, [2, 2, 4, 4, 4, 4, 6, 6, 6, 6]);
    assert_eq!(policy.noise().scales(), [4.0; 6]);
    assert_eq!((policy.decide(&(), &mut rng), policy.rounds_left()), (Ok(1), 5));
}

/// Many rounds at once leave what they leave one by one.
#[test]
fn sums_of_rounds_are_rounds() {
    let new = || FollowTheNoisyLeader::new(2, leader(0.5, Neighbours::ReplaceOne), HarnessLaplace).unwrap();
    let (mut one, mut many) = (new(), new());
    let (mut rng_one, mut rng_many) = (SplitMix64::noise(3), SplitMix64::noise(3));
    for rounds in [1, 2, 1, 3, 5, 3, 16, 32] {
        let arm = many.decide(&(), &mut rng_many).unwrap();
        many.learn_sums(arm, rounds, &[0.25 * rounds as f64, 0.5 * rounds as f64], &mut rng_many).unwrap();
        for _ in 0..rounds {
            assert_eq!(one.decide(&(), &mut rng_one).unwrap(), arm);
            one.learn(&(), arm, &[0.25, 0.5], &mut rng_one).unwrap();
        }
        assert_eq!(serde_json::to_value(&one).unwrap(), serde_json::to_value(&many).unwrap());
    }
    let arm = many.decide(&(), &mut rng_many).unwrap();
    assert!(many.learn_sums(arm, many.rounds_left() + 1, &[0.0; 2], &mut rng_many).is_err());
    assert!(many.learn_sums(arm, 1, &[0.0, 1.5], &mut rng_many).is_err());
}

/// UCB1 against its definition, computed afresh each round.
#[test]
fn ucb1_equals_its_definition() {
    let mut arms = BernoulliArms::new(&SETTING_3).unwrap();
    let (mut policy, mut rng) = (Ucb1::new(5).unwrap(), SplitMix64::new(1));
    let mut seen = vec![Vec::<f64>::new(); 5];
    for t in 1..5000u32 {
        arms.begin(&mut rng);
        let arm = policy.decide(&(), &mut rng).unwrap();
        let index = |x: &Vec<f64>| {
            let o = x.len() as f64;
            if x.is_empty() {
                f64::INFINITY
            } else {
                x.iter().sum::<f64>() / o + (2.0 * f64::from(t).ln() / o).sqrt()
            }
        };
        let best = seen.iter().map(index).fold(0.0, f64::max);
        assert!(index(&seen[arm]) == best || (index(&seen[arm]) - best).abs() < 1e-12);
        let reward = arms.play(arm, &mut rng).unwrap().reward;
        policy.learn(&(), arm, &reward, &mut rng).unwrap();
        seen[arm].push(reward);
    }
    assert_eq!(policy.pulls().collect::<Vec<_>>(), seen.iter().map(|x| x.len() as u64).collect::<Vec<_>>());
}
