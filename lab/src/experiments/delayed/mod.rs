//! Figures 2 to 5 of Wang, Wang, Huang: composite and anonymous feedback.
//!
//! The paper prints no numbers. It does not state the horizon, the repetitions and the distribution of
//! rewards of the stochastic figures: here T = 1e5, 20 runs, and totals are Bernoulli variates. The data sets
//! of figure 5 may not be redistributed, and are replaced by synthetic ones.

mod adversarial;
mod stochastic;

use crate::experiment::{Experiment, Series};
use crate::play;
use adversarial::{Bought, Clicks, Coupons};
use anyhow::Result;
use bandit::delayed::Composite;
use bandit::{Error, Policy};
use std::fmt::Debug;
use stochastic::{FIGURE_2, FIGURE_3, FIGURE_4, Stochastic, Stuck};

/// Figures 2 to 5, and an experiment on runs that settle on a wrong arm.
pub const EXPERIMENTS: &[&dyn Experiment] = &[
    &Stochastic {
        name: "anonymous-fig2",
        about: "figure 2: ARS-UCB and ODAAF under random delays",
        cases: &FIGURE_2,
    },
    &Stochastic {
        name: "anonymous-fig3",
        about: "figure 3: ARS-UCB and ODAAF on intervals",
        cases: &FIGURE_3,
    },
    &Stochastic {
        name: "anonymous-fig4",
        about: "figure 4: ARS-UCB on vectors without end",
        cases: &FIGURE_4,
    },
    &Clicks,
    &Coupons,
    &Bought,
    &Stuck,
];

const SOURCE: &str =
    "Wang, Wang, Huang: Adaptive Algorithms for Multi-armed Bandit with Composite and Anonymous Feedback";

/// The regret of `policy` in `environment`. Both are constructed once at once, so that refused parameters
/// show before the first run.
fn series<P>(
    label: impl Into<String>,
    policy: impl Fn() -> Result<P, Error> + Send + Sync + 'static,
    environment: &Composite,
    slots: u64,
) -> Result<Series>
where
    P: Policy<Context = (), Feedback = f64> + Debug,
{
    let rewards = format!("{:?}", environment.rewards());
    on(label, &rewards, policy, environment, slots)
}

/// [`series`] with a name for its rewards.
fn on<P>(
    label: impl Into<String>,
    rewards: &str,
    policy: impl Fn() -> Result<P, Error> + Send + Sync + 'static,
    environment: &Composite,
    slots: u64,
) -> Result<Series>
where
    P: Policy<Context = (), Feedback = f64> + Debug,
{
    let settings = format!("{slots} slots; {:?}; {rewards}; {:?}", policy()?, environment.delivery());
    let environment = environment.clone();
    let policy = move || Ok(policy()?);
    Ok(play::series(label, settings, slots, policy, move |_| Ok(environment.clone()), |_, run| run))
}
