//! Runs of a policy in an environment, of which only checkpoints are kept.

use crate::experiment::{Run, Series};
use anyhow::Result;
use bandit::{Environment, Policy};
use privacy::source::SplitMix64;

/// The further number of a run: the share of the slots of its second half that had no regret.
pub const LATE: &str = "share of the best arm in the second half";

/// The slots at which a curve is kept: 48 slots in equal ratios, and the twentieths of `slots`, ascending.
pub fn checkpoints(slots: u64) -> Vec<u64> {
    let ratio = (slots as f64).powf(1.0 / 48.0);
    let geometric = (1..=48).map(|i| ratio.powi(i).round() as u64);
    let twentieths = (1..=20).map(|i| (slots * i).div_ceil(20));
    let mut at: Vec<u64> = geometric.chain(twentieths).filter(|t| (1..=slots).contains(t)).collect();
    at.sort_unstable();
    at.dedup();
    at
}

/// A series of cumulative regret over `slots` slots: for each seed a fresh policy plays the environment of
/// that seed. `figures` computes further numbers from the policy at the end; the run that it gets has the
/// share of pulls of each arm.
pub fn series<P, E>(
    label: impl Into<String>,
    settings: String,
    slots: u64,
    policy: impl Fn() -> Result<P> + Send + Sync + 'static,
    environment: impl Fn(u64) -> Result<E> + Send + Sync + 'static,
    figures: impl Fn(&P, Run) -> Run + Send + Sync + 'static,
) -> Series
where
    P: Policy<Context = E::Context, Feedback = E::Feedback>,
    E: Environment,
{
    let at = checkpoints(slots);
    Series::new(label, settings, move |seed| {
        let mut policy = policy()?;
        let run = regret_until(&mut policy, environment(seed)?, &at, seed, |_| None)?;
        Ok(figures(&policy, run))
    })
}

/// The run without further numbers. Where contexts change, shares of arms mean nothing.
pub fn curve_only<P>(_: &P, run: Run) -> Run {
    Run::curve(run.points)
}

/// Cumulative regret at the slots `at` (ascending). The share of pulls of each of the first eight arms is
/// kept as `share of arm i`, and that of the best arms, those without regret, in the second half of the slots
/// as [`LATE`].
///
/// Environment and policy draw from two streams of one seed, so that policies on equal seeds meet equal
/// slots. The generator is for simulation only. Once `settled` names an arm, the policy plays it to the end
/// whatever it observes: the regret of the remaining slots is computed from one play, so every round must
/// cost that arm the same.
///
/// # Errors
/// The first error of the policy or the environment.
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
    let (mut regret, mut slot, mut late) = (0.0, 0, 0);
    let slots_in_all = at.last().copied().unwrap_or(0);
    let half = slots_in_all / 2;
    let mut points = Vec::with_capacity(at.len());
    for &end in at {
        while slot < end && environment.begin(&mut slots) {
            if let Some(arm) = settled(policy) {
                let each = environment.play(arm, &mut slots)?.regret;
                regret += each * (end - slot) as f64;
                late += if each == 0.0 { end.max(half) - slot.max(half) } else { 0 };
                pulls[arm] += end - slot;
                slot = end;
                break;
            }
            slot += 1;
            let arm = policy.decide(environment.context()?, &mut own)?;
            let outcome = environment.play(arm, &mut slots)?;
            regret += outcome.regret;
            late += u64::from(slot > half && outcome.regret == 0.0);
            policy.learn(environment.context()?, arm, environment.feedback()?, &mut own)?;
            pulls[arm] += 1;
        }
        points.push((end as f64, regret));
    }
    let share = |n: &u64| *n as f64 / slot.max(1) as f64;
    let shares = pulls.iter().take(8).enumerate().map(|(i, n)| (format!("share of arm {i}"), share(n)));
    let late = (LATE.to_owned(), late as f64 / (slots_in_all - half).max(1) as f64);
    Ok(Run { points, figures: shares.chain([late]).collect() })
}
