//! Figures 2 to 5 of Wang, Wang, Huang: composite and anonymous feedback.
//!
//! The paper prints no numbers. Horizon, repetitions and reward law of the stochastic figures are ours
//! (Bernoulli totals, T = 1e5, 20 runs), and so are the stand-ins for the data sets of figure 5, which may
//! not be redistributed.

mod adversarial;
mod stochastic;

use crate::experiment::{Experiment, Reference, Series};
use crate::play::{checkpoints, regret};
use adversarial::{Clicks, Coupons};
use anyhow::Result;
use bandit::delayed::Composite;
use bandit::{Error, Policy};
use std::fmt::Debug;
use stochastic::{FIGURE_2, FIGURE_3, FIGURE_4, Stochastic, Stuck};

/// Figures 2 to 5, and the runs that settle on a wrong arm.
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
    &Stuck,
];

const SOURCE: &str =
    "Wang, Wang, Huang: Adaptive Algorithms for Multi-armed Bandit with Composite and Anonymous Feedback";

/// One curve of `policy` against `environment`; both constructors are tried at once, so that bad settings
/// show early.
fn series<P>(
    label: impl Into<String>,
    policy: impl Fn() -> Result<P, Error> + Send + Sync + 'static,
    environment: &Composite,
    slots: u64,
    reference: Option<(f64, f64)>,
) -> Result<Series>
where
    P: Policy<Context = (), Feedback = f64> + Debug,
{
    // The fresh policy with all its fields, and what the environment is made of.
    let (rewards, delivery) = (environment.rewards(), environment.delivery());
    let settings = format!("{slots} slots; {:?}; {rewards:?}; {delivery:?}", policy()?);
    let (environment, at) = (environment.clone(), checkpoints(slots));
    Ok(Series {
        label: label.into(),
        settings,
        reference: reference.map(|(mean, standard_error)| Reference { mean, standard_error }),
        run: Box::new(move |seed| regret(policy()?, environment.clone(), &at, seed)),
    })
}
