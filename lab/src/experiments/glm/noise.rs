//! Regret over epsilon and T.

use super::{EXPLORATIONS, Kind, NO_NOISE, RUNNING, SOURCE, Setting, Shape, WARM_UPS};
use crate::experiment::{Card, Claim, Experiment, Panel, PanelResult, Reference, Results, Scale};
use anyhow::Result;
use glm::joint::{Estimate, Growth, JointConfig, Published, Region, Release, WarmUp};
use glm::{Descent, Link};
use privacy::budget::{Delta, Epsilon, Rho, Sensitivity};
use privacy::composition::per_release;
use privacy::tree::Tree;
use std::fmt::Write as _;

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
            about: "beyond the figures: the proved profile over ε and T (a quarter of an hour)",
            source: SOURCE,
            notes: "Probit, d = 2, K = 10, S = 2, fresh instances, δ = 1e-3, both widths 2. Rounds \
                    explore only while κγ² > λ; where λ, which the noise sets, is larger, κ enters nowhere and nothing is eliminated. \
                    Noise is drawn as deployed, from integers.",
        }
    }

    fn seeds(&self, scale: Scale) -> u64 {
        scale.of(5, 2)
    }

    fn panels(&self, scale: Scale) -> Result<Vec<Panel>> {
        let horizons: &[u64] = scale.of(&HORIZONS, &[200, 400, 600, 800]);
        let mut panels = Vec::new();
        for (&rounds, title) in horizons.iter().zip(HORIZONS.map(horizon_title)) {
            let setting =
                Setting::fresh(Shape { link: Link::Probit, d: 2, k: 10, s: 2.0, delta: 1e-3 }, rounds);
            let mut series = Vec::new();
            for epsilon in BUDGETS {
                series.push(setting.series(&budget(epsilon), Kind::Proved(epsilon), None)?);
            }
            let clear = JointConfig {
                lambda: 1.0,
                gamma: 2.0,
                beta: 2.0,
                explore_at: 1.0 / (4.0 * setting.problem.kappa),
                ..JointConfig::rs_glinucb(setting.problem.clone())
            };
            series.push(setting.joint(NO_NOISE, clear)?);
            series.push(setting.series("random", Kind::Random, None)?);
            panels.push(Panel::regret_over("round", title, series));
        }
        Ok(panels)
    }

    fn derived(&self, results: &Results) -> Vec<PanelResult> {
        let titles = HORIZONS.map(horizon_title);
        let at: Vec<_> = titles.iter().map(String::as_str).zip(HORIZONS.map(|t| t as f64)).collect();
        vec![results.finals_over("last regret over T", "T", &at)]
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let get = |rounds: u64, label: &str| results.series(&horizon_title(rounds), label);
        let value = |rounds, label: &str| get(rounds, label).map_or(f64::NAN, |s| s.last().mean);
        let half = HORIZONS[1];
        let falls = BUDGETS.map(|e| value(half, &budget(e)));
        let mut log = String::new();
        for e in BUDGETS {
            let figure = |name| get(half, &budget(e)).and_then(|s| s.figure(name)).unwrap_or(f64::NAN);
            // Writing to a string does not fail.
            let _ = write!(
                log,
                "ε = {e}: regret {:.0} ± {:.0}, {:.0} explorations, {:.1} + {:.1} estimates; ",
                value(half, &budget(e)),
                get(half, &budget(e)).map_or(f64::NAN, |s| s.last().standard_error),
                figure(EXPLORATIONS),
                figure(WARM_UPS),
                figure(RUNNING)
            );
        }
        let slope = |label: &str| (value(HORIZONS[3], label) / value(HORIZONS[1], label)).ln() / 20f64.ln();
        let slopes = BUDGETS.map(|e| slope(&budget(e)));
        let ratio = value(half, &budget(1.0)) / value(half, &budget(4.0));
        vec![
            Claim {
                paper: "Regret falls as ε grows (T = 50000; here: the mean, at every step)".into(),
                reference: "another profile of the same structure: 5326 at ε = 1, 1735 at 4, 423 at 16, 85 without noise".into(),
                ours: format!("{log}without noise {:.0}, random {:.0}", value(half, NO_NOISE), value(half, "random")),
                verdict: results.verdict(falls.windows(2).all(|w| w[0] > w[1])),
            },
            Claim {
                paper: "(No claim of the paper, expected of the noise terms of Theorem 6.2:) ε = 1 costs 2 to 4 times what ε = 4 costs (T = 50000)".into(),
                reference: "3.1 times".into(),
                ours: format!("{ratio:.2} times"),
                verdict: results.verdict((2.0..=4.0).contains(&ratio)),
            },
            Claim {
                paper: "Theorem 6.2: regret grows like the root of T up to logarithms (exponent from T = 5e4 to 1e6 at most 0.6)".into(),
                reference: "no figure".into(),
                ours: format!(
                    "ε = 1, 2, …, 64: {}; without noise {:.2}",
                    slopes.map(|s| format!("{s:.2}")).join(", "),
                    slope(NO_NOISE)
                ),
                verdict: results.verdict(slopes.iter().all(|s| *s <= 0.6)),
            },
        ]
    }
}

/// Algorithm 2 with a third of the budget for each of its parts.
pub(super) struct Thirds;

/// Title, rounds and width gamma of a panel of [`Thirds`]; then its rows.
struct Third(&'static str, u64, f64, &'static [ThirdRow]);

/// Noise (none or epsilon); of another implementation, from two runs, regret with its error, and
/// explorations.
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

impl Third {
    fn label(epsilon: Option<f64>) -> String {
        epsilon.map_or(NO_NOISE.into(), budget)
    }
}

/// Algorithm 2: a third of epsilon and delta for each tree and for each family of estimates, whose budgets
/// are split over their calls and steps; `lambda` is the root of 2 times the bound on the noise that fails
/// with probability 0.02. Exact where `epsilon` is none.
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
            about: "beyond the figures: algorithm 2 as it stands, a third of the budget each",
            source: SOURCE,
            notes: "Probit, d = 2, K = 10, S = 2, the instance of seed 7, δ = 1e-3, β = 2; nothing of what the published code does besides \
                    the algorithm. No privacy is stated: the accounting by thirds does not stand, see docs/joint-privacy.md. κ is that of the \
                    instance. References are two runs each, whose \
                    errors say little: at ε = 4 ours, which are skewed, are a fifth lower, 3.0 and 3.3 errors at five seeds, 2.5 and 3.0 at ten.",
        }
    }

    fn seeds(&self, scale: Scale) -> u64 {
        scale.of(10, 2)
    }

    fn panels(&self, scale: Scale) -> Result<Vec<Panel>> {
        let mut panels = Vec::new();
        for Third(title, rounds, gamma, rows) in &THIRDS {
            let full = scale == Scale::Full;
            let shape = Shape { link: Link::Probit, d: 2, k: 10, s: 2.0, delta: 1e-3 };
            let setting = Setting::published(7, shape, if full { *rounds } else { 200 })?;
            let curve = |(epsilon, reference): &ThirdRow| -> Result<_> {
                let label = Third::label(*epsilon);
                let mut series = setting.joint(&label, thirds(&setting, *epsilon, *gamma)?)?;
                let reference = reference.filter(|_| full);
                series.reference =
                    reference.map(|((mean, standard_error), _)| Reference { mean, standard_error });
                Ok(series)
            };
            let mut series: Vec<_> = rows.iter().map(curve).collect::<Result<_>>()?;
            series.push(setting.series("random", Kind::Random, None)?);
            panels.push(Panel::regret_over("round", *title, series));
        }
        Ok(panels)
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let mut cells = Vec::new();
        let mut near = true;
        for Third(title, _, _, rows) in &THIRDS {
            for (epsilon, reference) in *rows {
                let want = reference.map(|r| r.1);
                let label = Third::label(*epsilon);
                let got =
                    results.series(title, &label).and_then(|s| s.figure(EXPLORATIONS)).unwrap_or(f64::NAN);
                let bracket = want.map_or(String::new(), |w| format!(" ({w:.0})"));
                cells.push(format!("{title}, {label}: {got:.0}{bracket}"));
                near &= epsilon.is_some() || want.is_none_or(|w| got == w);
            }
        }
        vec![
            Claim {
                paper: "(No claim of the paper:) explorations; without noise they follow from the arms alone"
                    .into(),
                reference: "in brackets".into(),
                ours: cells.join("; "),
                verdict: results.verdict(near),
            },
            results.agreement(),
        ]
    }
}
