//! Playing a policy for long, keeping only the checkpoints.

use crate::experiment::Run;
use anyhow::Result;
use bandit::{Environment, Policy};
use privacy::source::SplitMix64;

/// Slots at which curves are kept: 48 at equal ratios, and the twentieths of the whole.
pub fn checkpoints(slots: u64) -> Vec<u64> {
    let ratio = (slots as f64).powf(1.0 / 48.0);
    let geometric = (1..=48).map(|i| ratio.powi(i).round() as u64);
    let twentieths = (1..=20).map(|i| (slots * i).div_ceil(20));
    let mut at: Vec<u64> = geometric.chain(twentieths).filter(|t| (1..=slots).contains(t)).collect();
    at.sort_unstable();
    at.dedup();
    at
}

/// Cumulative regret at the slots `at` (ascending). The share of pulls of each of the first eight arms is
/// kept as `share of arm i`.
///
/// Two streams from one seed: policies on equal seeds meet equal slots. The generator is for simulation only.
///
/// # Errors
/// Those of either side.
pub fn regret<P, E>(mut policy: P, environment: E, at: &[u64], seed: u64) -> Result<Run>
where
    P: Policy<Context = E::Context, Feedback = E::Feedback>,
    E: Environment,
{
    regret_until(&mut policy, environment, at, seed, |_| None)
}

/// As [`regret`], for a policy that is looked at afterwards. Once `settled` names an arm, the policy plays it
/// to the end whatever comes: the rest is reckoned, not played, so that every round must cost that arm the
/// same.
///
/// # Errors
/// Those of either side.
pub fn regret_until<P, E>(
    policy: &mut P,
    mut environment: E,
    at: &[u64],
    seed: u64,
    settled: impl Fn(&P) -> Option<usize>,
) -> Result<Run>
where
    P: Policy<Context = E::Context, Feedback = E::Feedback>,
    E: Environment,
{
    let (mut slots, mut own) = (SplitMix64::new(seed), SplitMix64::noise(seed));
    let mut pulls = vec![0u64; environment.arms()];
    let (mut regret, mut slot) = (0.0, 0);
    let mut points = Vec::with_capacity(at.len());
    for &end in at {
        while slot < end && environment.begin(&mut slots) {
            if let Some(arm) = settled(policy) {
                regret += environment.play(arm, &mut slots)?.regret * (end - slot) as f64;
                pulls[arm] += end - slot;
                slot = end;
                break;
            }
            slot += 1;
            let arm = policy.decide(environment.context()?, &mut own)?;
            regret += environment.play(arm, &mut slots)?.regret;
            policy.learn(environment.context()?, arm, environment.feedback()?, &mut own)?;
            pulls[arm] += 1;
        }
        points.push((end as f64, regret));
    }
    let share = |n: &u64| *n as f64 / slot.max(1) as f64;
    let shares = pulls.iter().take(8).enumerate().map(|(i, n)| (format!("share of arm {i}"), share(n)));
    Ok(Run { points, figures: shares.collect() })
}
