//! The figures of `data/README.md`, to the digits printed there.

use bandit::datasets::{PurchaseLog, Purchases};
use bandit::{Arithmetic, Features, HelbaClear};
use bandit::{Error, History, LinearConfig, Oful, Policy, Schedule, UniformRandom, Width, play};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::sync::Arc;

fn config(data: &Purchases, schedule: Schedule) -> LinearConfig {
    LinearConfig {
        d: data.d(),
        k: data.brands().len(),
        lambda: 1.0,
        delta: 0.01,
        l: 1.0,
        s: 1.0,
        sigma: 0.5,
        c: 1.0,
        eta: 0.1,
        width: Width::Constant { alpha: 0.5 },
        schedule,
        tie_seed: 0,
    }
}

fn run<P: Policy<Context = Features, Feedback = f64>>(
    policy: &mut P,
    data: &Arc<Purchases>,
    seed: u64,
) -> History {
    let rng = || ChaCha8Rng::seed_from_u64(seed);
    play(policy, &mut PurchaseLog::new(data.clone()), usize::MAX, &mut rng(), &mut rng()).unwrap()
}

fn three_digits(value: f64) -> String {
    format!("{value:.3}")
}

/// Best fixed brand, OFUL and the lazy rule: deterministic, so every digit counts.
#[test]
fn table_of_the_data_page() -> Result<(), Error> {
    for (data, rounds, d, fixed, every_round, lazy, lazy_updates) in [
        (Purchases::yogurt()?, 2412, 7, "0.402", "0.842", "0.842", 62),
        (Purchases::cracker()?, 3292, 8, "0.544", "0.764", "0.754", 66),
    ] {
        let data = Arc::new(data);
        assert_eq!((data.rounds().len(), data.d(), data.brands().len()), (rounds, d, 4));
        assert_eq!(three_digits(data.best_fixed().1), fixed);

        let mut oful = Oful::every_round(config(&data, Schedule::EveryRound))?;
        assert_eq!(three_digits(run(&mut oful, &data, 0).mean_reward()), every_round);
        assert_eq!(oful.ridge().updates(), rounds as u64);

        let config = config(&data, Schedule::TraceOrGrowth);
        let mut policy = Oful::new(config)?;
        assert_eq!(three_digits(run(&mut policy, &data, 0).mean_reward()), lazy);
        assert_eq!(policy.ridge().updates(), lazy_updates);
        assert!(policy.ridge().updates() < config.max_batches(rounds as u64));
    }
    Ok(())
}

/// Random play: 20 seeds, mean within 4 standard errors of 1/4 and of the page's single run.
#[test]
fn random_play_hits_one_in_four() -> Result<(), Error> {
    for (data, page) in [(Purchases::yogurt()?, 0.242), (Purchases::cracker()?, 0.257)] {
        let data = Arc::new(data);
        let n = data.rounds().len() as f64;
        let one_run = (0.25 * 0.75 / n).sqrt();
        let mean = (0..20).map(|s| run(&mut UniformRandom, &data, s).mean_reward()).sum::<f64>() / 20.0;
        assert!((mean - 0.25).abs() < 4.0 * one_run / 20f64.sqrt(), "{mean}");
        assert!((mean - page).abs() < 4.0 * one_run);
    }
    Ok(())
}

/// HELBA's own index adds `c1` under the root, which fades as t_j^(-2): the hit rate stays that of the lazy
/// rule.
#[test]
fn helba_matches_the_lazy_rule() -> Result<(), Error> {
    let data = Arc::new(Purchases::yogurt()?);
    let mut helba = HelbaClear::new(config(&data, Schedule::TraceOrGrowth), Arithmetic::Exact)?;
    let rate = run(&mut helba, &data, 0).mean_reward();
    assert!((rate - 0.842).abs() < 0.005, "{rate}");
    assert!((60..=64).contains(&helba.ridge().updates()));
    Ok(())
}
