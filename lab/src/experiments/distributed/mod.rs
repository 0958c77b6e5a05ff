//! Figures 1 to 5 of Chowdhury, Zhou: successive elimination under distributed privacy; then experiments on
//! its parameters.
//!
//! The paper prints no numbers. References are those of an independent implementation on the same twenty
//! instances.

mod beyond;
mod clusters;
mod figures;
mod ranking;

use crate::experiment::{Decision, Experiment, PanelResult, Results, Run, Series, SeriesResult, listed};
use crate::play::{self, checkpoints, regret_until};
use anyhow::Result;
use bandit::Environment;
use bandit::distributed::{Elimination, EliminationConfig, Model, NoiseAt, NormalArms, RelaxedSum};
use bandit::stochastic::DpSe;
use beyond::{Growth, Returning, Skellam};
use figures::{FIGURE_2, FIGURE_3, Instances, Models};
use privacy::Ratio;
use privacy::budget::{Delta, Epsilon};
use privacy::laplace::HarnessLaplace;
pub(crate) use ranking::of_file;
use std::sync::Arc;

/// Figures 2 to 5 (figure 1 shows some of their curves), growth of batches, and the scale of Skellam noise.
pub const EXPERIMENTS: &[&dyn Experiment] = &[
    &Instances {
        name: "distributed-fig2",
        about: "figures 1a, 1b, 2: Dist-DP-SE, Dist-RDP-SE and DP-SE on easy arms",
        means: EASY,
        users: 1_000_000,
        rows: &FIGURE_2,
        seeds: 60,
    },
    &Instances {
        name: "distributed-fig3",
        about: "figures 1c, 3: Dist-DP-SE, Dist-RDP-SE and DP-SE on hard arms (minutes)",
        means: HARD,
        users: 10_000_000,
        rows: &FIGURE_3,
        seeds: 20,
    },
    &Models,
    &ranking::SYNTHETIC,
    &Growth,
    &Skellam,
    &Returning,
];

const SOURCE: &str = "Chowdhury, Zhou: Distributed Differential Privacy in Multi-Armed Bandits";
const SETTING: &str = "Ten arms, with rewards of deviation 0.1 around their means, clipped to [0, 1]. Seeds 0 to 19 play the \
                       twenty instances of the published code, further seeds the same instances with new noise; p = 0.1. The \
                       first panels show cumulative regret, the last ones divide it by the number of users, as the paper does. \
                       The noise of all users is drawn at once, in double precision where exact sampling would take hours, \
                       which is for simulation only.";
const EASY: (f64, f64) = (0.25, 0.75);
const HARD: (f64, f64) = (0.45, 0.55);
const EPSILONS: [(u128, u128); 3] = [(1, 10), (1, 2), (1, 1)];
/// Values of epsilon in figure 5, besides 1.
const LARGE: [(u128, u128); 2] = [(5, 1), (10, 1)];
const DP_SE: &str = "DP-SE";
const PURE: &str = "Dist-DP-SE";
const RENYI: &str = "Dist-RDP-SE, s = 10";
const FINER: &str = "Dist-RDP-SE, s = 100";

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    DpSe,
    Sums(Model, u64),
}

/// The delta at which guarantees with Skellam and discrete Gaussian noise are stated.
const DELTA: Delta = Delta::one_in(100_000);

const fn renyi(scale: u64) -> Model {
    Model::Renyi { scale: Ratio::integer(scale), delta: DELTA }
}

const fn concentrated(scale: u64) -> Model {
    Model::Concentrated { scale: Ratio::integer(scale), delta: DELTA }
}

const fn sums(model: Model, growth: u64) -> Kind {
    Kind::Sums(model, growth)
}

fn title(epsilon: (u128, u128)) -> String {
    format!("ε = {}", epsilon.0 as f64 / epsilon.1 as f64)
}

/// The environments of an experiment: one for each seed.
#[derive(Clone)]
struct Ground<E> {
    /// Part of [`Series::settings`].
    name: String,
    arms: usize,
    users: u64,
    make: Arc<dyn Fn(u64) -> Result<E> + Send + Sync>,
}

/// The published instances. Seed r plays instance r mod 20.
fn published((low, high): (f64, f64), users: u64) -> Ground<NormalArms> {
    let make = move |seed: u64| Ok(NormalArms::published((seed % 20) as u32, 10, low, high)?);
    let name = format!("{users} users; published instances in [{low}, {high}], deviation 0.1");
    Ground { name, arms: 10, users, make: Arc::new(make) }
}

fn series<E>(
    label: impl Into<String>,
    kind: Kind,
    epsilon: (u128, u128),
    ground: &Ground<E>,
) -> Result<Series>
where
    E: Environment<Context = (), Feedback = f64> + 'static,
{
    let ratio = Ratio::new(epsilon.0, epsilon.1)?;
    let Ground { name, arms, users, make } = ground;
    let (arms, users, make) = (*arms, *users, make.clone());
    match kind {
        Kind::DpSe => {
            let epsilon = Epsilon::new(ratio.to_f64())?;
            let policy = move || Ok(DpSe::new(arms, epsilon, 0.1, HarnessLaplace)?);
            let settings = format!("{name}; {:?}", policy()?);
            Ok(play::series(label, settings, users, policy, move |seed| make(seed), |_, run| run))
        }
        Kind::Sums(model, growth) => {
            let config = EliminationConfig {
                confidence: 0.1,
                growth,
                noise: NoiseAt::Simulated,
                ..EliminationConfig::new(arms, users, model, ratio)
            };
            // The probability with which Theorem 3 allows a shuffled sum to be wrong; all others are ideal.
            let failure = Ratio::new(u128::from(model == Model::Shuffle), 2 * u128::from(users))?;
            let policy = move || Elimination::new(config.clone(), RelaxedSum { failure });
            // Central and pure noise have one distribution: on one stream their runs would be equal, and
            // their comparison would show nothing.
            let stream = if model == Model::Central { 20 << 32 } else { 0 };
            let settings = format!("{name}; {:?}; stream {stream}", policy()?);
            let at = checkpoints(users);
            Ok(Series::new(label, settings, move |seed| {
                let settled = |p: &Elimination<RelaxedSum>| match p.left() {
                    [arm] => Some(*arm),
                    _ => None,
                };
                regret_until(&mut policy()?, make(seed)?, &at, seed + stream, settled)
            }))
        }
    }
}

/// The panels as the paper draws them: regret divided by the number of users.
fn time_averages(results: &Results, epsilons: &[(u128, u128)]) -> Vec<PanelResult> {
    let divided = |run: &Run| Run::curve(run.points.iter().map(|(t, r)| (*t, r / t)).collect());
    let series = |s: &SeriesResult| SeriesResult::derived(&s.label, s.runs.iter().map(divided).collect());
    let panel = |&epsilon: &(u128, u128)| {
        let panel = results.panels.iter().find(|p| p.title == title(epsilon))?;
        Some(PanelResult {
            title: format!("{}, regret by users", title(epsilon)),
            x_label: panel.x_label,
            y_label: "regret / users",
            log_x: true,
            log_y: false,
            series: panel.series.iter().map(series).collect(),
        })
    };
    epsilons.iter().filter_map(panel).collect()
}

/// Two series at one epsilon, with the title of their panel.
type Pair<'a> = (String, &'a SeriesResult, &'a SeriesResult);

/// The series `a` and `b` at each epsilon.
fn pairs<'a>(results: &'a Results, a: &str, b: &str) -> Vec<Pair<'a>> {
    let pair = |e| Some((title(e), results.series(&title(e), a)?, results.series(&title(e), b)?));
    EPSILONS.into_iter().chain(LARGE).filter_map(pair).collect()
}

/// Both means of each pair, and the paired difference, in words.
fn differences(pairs: &[Pair]) -> String {
    listed(pairs.iter().map(|(title, a, b)| {
        let (d, a, b) = (a.less(b), a.mean(), b.mean());
        format!("{title}: {a:.0} against {b:.0}, {:+.0} ± {:.0}", d.mean, d.standard_error)
    }))
}

/// Whether the first series of each pair ends below `factor` times the second.
fn below(results: &Results, pairs: &[Pair], factor: f64) -> Decision {
    Decision::all(pairs.iter().map(|(_, a, b)| results.ends_below(Some(a), factor, Some(b))))
}

/// Whether the difference within each pair is less than within the one before it.
fn narrowing(results: &Results, pairs: &[Pair]) -> Decision {
    let step = |w: &[Pair]| {
        let terms = [(1.0, w[1].1), (-1.0, w[1].2), (-1.0, w[0].1), (1.0, w[0].2)];
        results.sum(&terms.map(|(f, s)| (f, Some(s)))).below(0.0)
    };
    Decision::all(pairs.windows(2).map(step))
}

/// Whether the first series of each pair ends below the second, by most where epsilon is smallest.
fn gains_most_at_small_epsilon(results: &Results, pairs: &[Pair]) -> Decision {
    let swapped: Vec<Pair> = pairs.iter().map(|(title, a, b)| (title.clone(), *b, *a)).collect();
    let first_and_other = |other: &Pair<'_>| {
        let Some(first) = swapped.first() else { return Decision::Open(f64::NAN) };
        narrowing(results, &[first.clone(), (other.0.clone(), other.1, other.2)])
    };
    below(results, pairs, 1.0).and(Decision::all(swapped.iter().skip(1).map(first_and_other)))
}
