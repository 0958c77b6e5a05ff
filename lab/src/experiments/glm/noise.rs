//! Experiments on the regret of JointGLM over epsilon and T.

use super::{EXPLORATIONS, Kind, NO_NOISE, RUNNING, SOURCE, Setting, Shape, WARM_UPS};
use crate::experiment::{
    Card, Claim, Decision, Experiment, Panel, PanelResult, Results, Scale, SeriesResult, listed,
};
use anyhow::Result;
use glm::joint::{Estimate, Growth, JointConfig, Published, Region, Release, WarmUp};
use glm::{Descent, Link};
use privacy::budget::{Delta, Epsilon, Rho, Sensitivity};
use privacy::composition::per_release;
use privacy::tree::Tree;

/// Regret of the proved profile over epsilon and over T.
pub(super) struct Noise;

const BUDGETS: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
const HORIZONS: [u64; 4] = [10_000, 50_000, 200_000, 1_000_000];

fn horizon_title(rounds: u64) -> String {
    format!("T = {rounds}")
}

fn budget(epsilon: f64) -> String {
    format!("ε = {epsilon}")
}

impl Experiment for Noise {
    fn card(&self) -> Card {
        Card {
            name: "glm-noise",
            about: "beyond the figures: the proved profile over ε and T (half an hour)",
            source: SOURCE,
            stand_in: None,
            seeds: [10, 2],
            notes: "Probit, d = 2, K = 10, S = 2, fresh instances, δ = 1e-3, both widths 2. Rounds explore only while κγ² > λ. If λ, \
                    which depends on the noise, is larger, κ has no effect and no arm is eliminated. Noise is drawn from integers, as \
                    in deployments.",
        }
    }

    fn panels(&self, scale: Scale) -> Result<Vec<Panel>> {
        let horizons: &[u64] = scale.of(&HORIZONS, &[200, 400, 600, 800]);
        let mut panels = Vec::new();
        for (&rounds, title) in horizons.iter().zip(HORIZONS.map(horizon_title)) {
            let setting =
                Setting::fresh(Shape { link: Link::Probit, d: 2, k: 10, s: 2.0, delta: 1e-3 }, rounds);
            let mut series = Vec::new();
            for epsilon in BUDGETS {
                series.push(setting.series(&budget(epsilon), Kind::Proved(epsilon)));
            }
            let clear = JointConfig {
                lambda: 1.0,
                gamma: 2.0,
                beta: 2.0,
                explore_at: 1.0 / (4.0 * setting.problem.kappa),
                ..JointConfig::rs_glinucb(setting.problem.clone())
            };
            series.push(Ok(setting.joint(NO_NOISE, clear)));
            series.push(setting.series("random", Kind::Random));
            panels.push(Panel::regret_over("round", title, series)?);
        }
        Ok(panels)
    }

    fn derived(&self, results: &Results) -> Vec<PanelResult> {
        let at = HORIZONS.map(|t| (horizon_title(t), t as f64));
        vec![results.finals_over("last regret over T", "T", at)]
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let value = |rounds, label: &str| results.last(&horizon_title(rounds), label);
        let half = HORIZONS[1];
        let at = |rounds, label: &str| results.series(&horizon_title(rounds), label);
        let falls = BUDGETS.map(|e| at(half, &budget(e)));
        let log = BUDGETS.map(|e| {
            let series = results.series(&horizon_title(half), &budget(e));
            let figure = |name| series.and_then(|s| s.figure(name)).unwrap_or(f64::NAN);
            format!(
                "ε = {e}: regret {}, {:.0} explorations, {:.1} + {:.1} estimates; ",
                series.map_or("NaN ± NaN".into(), |s| s.shown(0)),
                figure(EXPLORATIONS),
                figure(WARM_UPS),
                figure(RUNNING)
            )
        });
        let slope = |label: &str| (value(HORIZONS[3], label) / value(HORIZONS[1], label)).ln() / 20f64.ln();
        let slopes = BUDGETS.map(|e| slope(&budget(e)));
        let ratio = value(half, &budget(1.0)) / value(half, &budget(4.0));
        vec![
            results.claim(
                "Regret falls as ε grows (T = 50000; here: the mean, at every step)",
                "another profile of the same structure: 5326 at ε = 1, 1735 at 4, 423 at 16, 85 without noise",
                format!(
                    "{}without noise {:.0}, random {:.0}",
                    log.concat(),
                    value(half, NO_NOISE),
                    value(half, "random")
                ),
                results.falling(&falls),
            ),
            results.own(
                "ε = 1 costs 2 to 4 times what ε = 4 costs (T = 50000), as expected of the noise terms of Theorem 6.2",
                "3.1 times",
                format!("{ratio:.2} times"),
                results
                    .ends_above(at(half, &budget(1.0)), 2.0, at(half, &budget(4.0)))
                    .and(results.ends_below(at(half, &budget(1.0)), 4.0, at(half, &budget(4.0)))),
            ),
            results.claim(
                "Theorem 6.2: regret grows like the root of T up to logarithms (exponent from T = 5e4 to 1e6 at most 0.6)",
                "no result",
                format!(
                    "ε = 1, 2, …, 64: {}; without noise {:.2}",
                    slopes.map(|s| format!("{s:.2}")).join(", "),
                    slope(NO_NOISE)
                ),
                Decision::all(BUDGETS.map(|e| {
                    let label = budget(e);
                    results.ends_below(at(HORIZONS[3], &label), 20f64.powf(0.6), at(HORIZONS[1], &label))
                })),
            ),
        ]
    }
}

/// The regret of Algorithm 2 with a third of the budget for each of its parts.
pub(super) struct Thirds;

/// Title, rounds, width gamma, and rows of a panel of [`Thirds`].
struct Third(&'static str, u64, f64, &'static [ThirdRow]);

/// Epsilon, which is `None` without noise; and from two runs of another implementation the regret with its
/// error, and the number of explorations.
type ThirdRow = (Option<f64>, Option<((f64, f64), f64)>);

static THIRDS: [Third; 4] = [
    Third(
        "T = 50000, γ = 2",
        50_000,
        2.0,
        &[
            (None, Some(((84.7, 0.3), 161.0))),
            (Some(16.0), Some(((423.0, 7.0), 0.0))),
            (Some(4.0), Some(((1735.0, 115.0), 0.0))),
            (Some(1.0), Some(((5326.0, 37.0), 0.0))),
        ],
    ),
    Third(
        "T = 40000, γ = 5",
        40_000,
        5.0,
        &[(None, Some(((452.9, 1.8), 1005.0))), (Some(4.0), Some(((1795.0, 113.0), 10.0)))],
    ),
    Third(
        "T = 40000, γ = 10",
        40_000,
        10.0,
        &[(None, Some(((1727.7, 2.2), 4025.0))), (Some(4.0), Some(((2184.0, 22.0), 2943.0)))],
    ),
    Third(
        "T = 1000000, γ = 2",
        1_000_000,
        2.0,
        &[
            (None, None),
            (Some(64.0), None),
            (Some(32.0), None),
            (Some(16.0), None),
            (Some(8.0), None),
            (Some(4.0), None),
            (Some(2.0), None),
            (Some(1.0), None),
        ],
    ),
];

fn label(epsilon: Option<f64>) -> String {
    epsilon.map_or(NO_NOISE.into(), budget)
}

/// The configuration of Algorithm 2 with a third of epsilon and delta for the trees, and a third for each
/// family of estimates, which is divided among their calls and steps. `lambda` is the root of 2 times a bound
/// on the noise that fails with probability 0.02. Without an `epsilon` nothing has noise.
fn thirds(setting: &Setting, epsilon: Option<f64>, gamma: f64) -> Result<JointConfig> {
    let problem = setting.problem.clone();
    let (d, t) = (problem.d as f64, problem.horizon as f64);
    let exact = JointConfig {
        lambda: 1.0,
        gamma,
        beta: 2.0,
        explore_at: 1.0 / (gamma * gamma * problem.kappa),
        growth: Growth::Determinant(2.0),
        warm_up: WarmUp::PowersOfTwo,
        estimate: Estimate::Exact { lambda: 1.0 },
        published: Published::default(),
        ..JointConfig::rs_glinucb(problem)
    };
    let Some(epsilon) = epsilon else { return Ok(exact) };
    let horizon = exact.problem.horizon;
    let (epsilon, delta) = (Epsilon::new(epsilon / 3.0)?, Delta::new(exact.problem.delta / 3.0)?);
    let rho = Rho::within(epsilon, delta)?;
    let tree = |l2: f64| -> Result<f64> { Ok(Tree::sigma(rho, Sensitivity::new(l2)?, horizon)) };
    let (sigma_v, sigma_h) = (tree(1.0)?, tree(1.0 / setting.kappa_star)?);
    let prefix = sigma_v * f64::from(Tree::levels(horizon)).sqrt();
    let lambda = 2f64.sqrt() * prefix * ((2.0 * d).sqrt() + (2.0 * (2.0 * t / 0.02).ln()).sqrt());
    let warm_up = t.log2().floor() as u32 + 1;
    let running = (d * (2.0 + 2.0 * t / (lambda * d)).log2()).ceil() as u32 + 2;
    let descent = Descent {
        steps: 30,
        clip: 1.0,
        step: 2.0,
        constant: false,
        burn_in: 0,
        last: true,
        regulariser: 0.0,
    };
    let of = |calls: u32| -> Result<f64> {
        let (epsilon, delta) = per_release(calls, epsilon, delta)?;
        let step = Rho::within(epsilon, delta)?.get() / f64::from(descent.steps);
        Ok(Rho::new(step)?.sigma(Sensitivity::new(2.0 * descent.clip)?))
    };
    Ok(JointConfig {
        lambda,
        release: Release::Separate { sigma_v, sigma_h },
        estimate: Estimate::Descent {
            descent,
            sigma_warm_up: of(warm_up)?,
            sigma_running: of(running)?,
            discrete: false,
        },
        region: Region::Ball,
        max_warm_up_calls: warm_up,
        max_running_calls: running,
        ..exact
    })
}

impl Experiment for Thirds {
    fn card(&self) -> Card {
        Card {
            name: "glm-thirds",
            about: "beyond the figures: algorithm 2 as published, with a third of the budget for each part",
            source: SOURCE,
            stand_in: None,
            seeds: [10, 2],
            notes: "Probit, d = 2, K = 10, S = 2, the instance of seed 7, δ = 1e-3, β = 2, without the published code's deviations from \
                    the algorithm. No privacy is stated, since the accounting by thirds is wrong, see docs/joint-privacy.md. κ is that \
                    of the instance. References are means of two runs, whose standard errors are imprecise: at ε = 4 the regret here, \
                    which has a skewed distribution, is a fifth lower, by 3.0 and 3.3 errors at five seeds, and 2.5 and 3.0 at ten.",
        }
    }

    fn panels(&self, scale: Scale) -> Result<Vec<Panel>> {
        let panel = |Third(title, rounds, gamma, rows): &Third| {
            let shape = Shape { link: Link::Probit, d: 2, k: 10, s: 2.0, delta: 1e-3 };
            let setting = Setting::published(7, shape, scale.of(*rounds, 200))?;
            let curve = |(epsilon, reference): &ThirdRow| {
                let series = setting.joint(&label(*epsilon), thirds(&setting, *epsilon, *gamma)?);
                Ok(series.referenced(scale, reference.map(|r| r.0)))
            };
            let random = std::iter::once_with(|| setting.series("random", Kind::Random));
            Panel::regret_over("round", *title, rows.iter().map(curve).chain(random))
        };
        THIRDS.iter().map(panel).collect()
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let mut cells = Vec::new();
        let mut near = Vec::new();
        for Third(title, _, _, rows) in &THIRDS {
            for (epsilon, reference) in *rows {
                let (want, label) = (reference.map(|r| r.1), label(*epsilon));
                let explorations = |s: &SeriesResult| s.figure(EXPLORATIONS);
                let got = results.series(title, &label).and_then(explorations).unwrap_or(f64::NAN);
                let bracket = want.map_or(String::new(), |w| format!(" ({w:.0})"));
                cells.push(format!("{title}, {label}: {got:.0}{bracket}"));
                if let (None, Some(want), Some(series)) = (epsilon, want, results.series(title, &label)) {
                    near.push(series.figure_interval(EXPLORATIONS).within(want, 0.5));
                }
            }
        }
        vec![
            results.own(
                "Without noise the explorations are those of an independent implementation: they follow from the arms alone",
                "in brackets",
                listed(cells),
                Decision::all(near),
            ),
            results.agreement(),
        ]
    }
}
