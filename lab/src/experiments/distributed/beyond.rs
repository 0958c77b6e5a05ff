//! Experiments beyond the figures: the growth of batches, and the scale of Skellam noise.

use super::*;
use crate::experiment::{Card, Claim, Decision, Interval, Panel, Reference, Scale, numbers};
use bandit::distributed::Mechanism;
use privacy::budget::Rho;

/// Regret over the growth factor of batches.
pub(super) struct Growth;

const GROWTHS: [u64; 4] = [2, 4, 8, 16];

fn growth_title(epsilon: (u128, u128), growth: u64) -> String {
    format!("{}, growth {growth}", title(epsilon))
}

impl Experiment for Growth {
    fn card(&self) -> Card {
        Card {
            name: "distributed-growth",
            about: "beyond the figures: how fast batches grow (2 in the text, 4 in the published code)",
            source: SOURCE,
            stand_in: None,
            seeds: [60, 2],
            notes: SETTING,
        }
    }

    fn panels(&self, scale: Scale) -> Result<Vec<Panel>> {
        let users = scale.of(1_000_000, 10_000);
        let ground = published(EASY, users);
        let mut panels = Vec::new();
        for epsilon in [EPSILONS[0], EPSILONS[2]] {
            for growth in GROWTHS {
                let rows = [(PURE, Model::Pure), (RENYI, renyi(10)), ("no privacy", Model::None)];
                let curve = |(label, model)| series(label, sums(model, growth), epsilon, &ground);
                let title = growth_title(epsilon, growth);
                panels.push(Panel::regret_over_log("user", title, rows.into_iter().map(curve))?);
            }
        }
        Ok(panels)
    }

    fn derived(&self, results: &Results) -> Vec<PanelResult> {
        let over = |epsilon| {
            let at = GROWTHS.map(|g| (growth_title(epsilon, g), g as f64));
            results.finals_over(&format!("{}: last regret over growth", title(epsilon)), "growth", at)
        };
        [EPSILONS[0], EPSILONS[2]].map(over).into()
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let finals = |epsilon, label: &str| GROWTHS.map(|g| results.last(&growth_title(epsilon, g), label));
        let cells: Vec<_> = [EPSILONS[0], EPSILONS[2]]
            .into_iter()
            .flat_map(|e| [PURE, RENYI].map(|label| (format!("{}, {label}", title(e)), finals(e, label))))
            .collect();
        let at = |epsilon, label: &str| GROWTHS.map(|g| results.series(&growth_title(epsilon, g), label));
        let rows = || [EPSILONS[0], EPSILONS[2]].into_iter().flat_map(|e| [PURE, RENYI].map(|l| at(e, l)));
        let ours = || {
            listed(cells.iter().map(|(name, [a, b, c, d])| format!("{name}: {a:.0}, {b:.0}, {c:.0}, {d:.0}")))
        };
        vec![
            results.claim("Any constant growth keeps the order of regret (here: 2, 4, 8, 16 within a factor of 2)", "2 and 4 differ by 5 to 15 %", ours(), Decision::all(rows().map(|row| results.alike(&row, 2.0)))),
            results.own("Growth 4, as in the published code, is better than 2, as in the text", "13265 against 14281 and 4480 against 5209 (pure), 8784 against 10128 and 3975 against 4581 (s = 10)", ours(), Decision::all(rows().map(|row| results.ends_below(row[1], 1.0, row[0])))),
        ]
    }
}

/// Regret where users return.
pub(super) struct Returning;

/// The most batches that a user takes part in.
const BATCHES: [u32; 4] = [1, 4, 16, 64];
const ADVANCED: &str = "composition of (ε, δ)";
const RDP: &str = "composition of Rényi divergences";

fn batches_title(batches: u32) -> String {
    format!("{batches} batches a user")
}

/// The parameter of one batch with which `batches` of them cost a user (1, 1e-5): by the advanced composition
/// of appendix I for pure noise, and by adding up concentrated divergences of ε²/2.
fn of_one_batch(batches: u32) -> Result<[(u128, u128); 2]> {
    let (epsilon, delta) = (1.0, DELTA.get());
    let advanced = epsilon / (2.0 * (2.0 * f64::from(batches) * (2.0 / delta).ln()).sqrt());
    let rho = Rho::within(Epsilon::new(epsilon)?, DELTA)?.get();
    // Rounded down, so that no more is spent.
    let grid = |e: f64| ((e * 1e6).floor() as u128, 1_000_000);
    Ok([grid(advanced), grid((2.0 * rho / f64::from(batches)).sqrt())])
}

impl Experiment for Returning {
    fn card(&self) -> Card {
        Card {
            name: "distributed-returning",
            about: "appendix I: users who return for several batches, by two ways to add up what it costs them",
            source: SOURCE,
            stand_in: None,
            seeds: [60, 2],
            notes: "Easy arms as in figure 2, growth 4. Each user may take part in so many batches, and all of them together cost (1, 1e-5). \
                    By the advanced composition of the appendix a batch may cost 1/(2 √(2B ln(2/δ))), with discrete Laplace noise; by \
                    adding up concentrated divergences, which bound Rényi divergences of every order, its discrete Gaussian noise has a \
                    share of ρ. The paper computes bounds and has no figure. The simulation draws each user once, which is the worst case \
                    for none: returning users change what is spent, not the rewards.",
        }
    }

    fn panels(&self, scale: Scale) -> Result<Vec<Panel>> {
        let ground = published(EASY, scale.of(1_000_000, 10_000));
        let panel = |batches: u32| {
            let [advanced, concentrated_epsilon] = of_one_batch(batches)?;
            let curves = [
                series(ADVANCED, sums(Model::Pure, 4), advanced, &ground),
                series(RDP, sums(concentrated(10), 4), concentrated_epsilon, &ground),
            ];
            Panel::regret_over_log("user", batches_title(batches), curves)
        };
        BATCHES.into_iter().map(panel).collect()
    }

    fn derived(&self, results: &Results) -> Vec<PanelResult> {
        let at = BATCHES.map(|b| (batches_title(b), f64::from(b)));
        vec![results.finals_over("last regret over batches a user", "batches a user", at)]
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let at = |b: u32, label: &str| results.series(&batches_title(b), label);
        let cell = |b: u32| {
            let last = |label: &str| results.last(&batches_title(b), label);
            format!("{}: {:.0} against {:.0}", batches_title(b), last(RDP), last(ADVANCED))
        };
        vec![results.claim(
            "Adding up Rényi divergences saves a factor that grows with ln(1/δ) over advanced composition (here: the regret is lower, \
             for 1, 4, 16 and 64 batches)",
            "no result",
            listed(BATCHES.map(cell)),
            Decision::all(BATCHES.map(|b| results.ends_below(at(b, RDP), 1.0, at(b, ADVANCED)))),
        )]
    }
}

/// Regret, guarantee and length of shares over the scale of Skellam noise.
pub(super) struct Skellam;

const SCALES: [u64; 5] = [1, 2, 5, 10, 100];
const GUARANTEE: &str = "guarantee (ε', 1e-5) over s";
const BITS: &str = "bits of a share over users of a batch";

fn scale_title(scale: u64) -> String {
    format!("s = {scale}")
}

/// A curve that does not depend on the seed, with a reference at any length of the runs.
fn fixed(label: String, points: Vec<(f64, f64)>, last: f64) -> Series {
    let settings = format!("{label}: {points:?}");
    let series = Series::new(label, settings, move |_| Ok(Run::curve(points.clone())));
    Series { reference: Some(Reference { mean: last, standard_error: 0.0 }), ..series }
}

impl Experiment for Skellam {
    fn card(&self) -> Card {
        Card {
            name: "distributed-skellam",
            about: "beyond the figures: the scale of Skellam noise, its regret, guarantee and bits",
            source: SOURCE,
            stand_in: None,
            seeds: [60, 2],
            notes: "Easy arms as in figure 2, growth 4. The guarantee is the Renyi bound of Lemma 3 for batches of any size, converted \
                    to (ε', 1e-5) at its best order. Bits are those of the modulus at p = 0.1. Both are computed without random draws.",
        }
    }

    fn panels(&self, scale: Scale) -> Result<Vec<Panel>> {
        let users = scale.of(1_000_000, 10_000);
        let ground = published(EASY, users);
        let mut panels = Vec::new();
        for s in SCALES {
            let curve = |epsilon| series(title(epsilon), sums(renyi(s), 4), epsilon, &ground);
            panels.push(Panel::regret_over_log("user", scale_title(s), EPSILONS.into_iter().map(curve))?);
        }
        let mut guarantees = Vec::new();
        for (epsilon, last) in EPSILONS.into_iter().zip([0.37531, 2.16813, 4.75295]) {
            let ratio = Ratio::new(epsilon.0, epsilon.1)?;
            let mut points = Vec::new();
            for s in SCALES {
                // The bound is largest for a batch of one user.
                let stated = renyi(s).privacy(ratio, 1, users)?.epsilon;
                points.push((s as f64, stated.map_or(f64::NAN, Epsilon::get)));
            }
            guarantees.push(fixed(title(epsilon), points, last));
        }
        let panel = |title: &str, x_label, y_label, series| Panel {
            title: title.into(),
            x_label,
            y_label,
            log_x: true,
            log_y: false,
            series,
        };
        panels.push(panel(GUARANTEE, "s", "ε'", guarantees));
        let mut bits = Vec::new();
        for (label, model, epsilon, last) in [
            ("pure", Model::Pure, EPSILONS[0], 27.0),
            ("pure", Model::Pure, EPSILONS[2], 31.0),
            ("s = 10", renyi(10), EPSILONS[0], 31.0),
            ("s = 10", renyi(10), EPSILONS[2], 34.0),
            ("s = 100", renyi(100), EPSILONS[2], 37.0),
        ] {
            let ratio = Ratio::new(epsilon.0, epsilon.1)?;
            let mut points = Vec::new();
            for log in 1..=20 {
                let modulus = Mechanism::new(model, ratio, 1 << log, 0.1, users)?.modulus();
                points.push(((1u64 << log) as f64, f64::from(u64::BITS - (modulus - 1).leading_zeros())));
            }
            bits.push(fixed(format!("{label}, {}", title(epsilon)), points, last));
        }
        panels.push(panel(BITS, "users", "bits", bits));
        Ok(panels)
    }

    fn derived(&self, results: &Results) -> Vec<PanelResult> {
        vec![results.finals_over("last regret over s", "s", SCALES.map(|s| (scale_title(s), s as f64)))]
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let row = |e| SCALES.map(|s| results.last(&scale_title(s), &title(e)));
        let rows = EPSILONS.map(|e| (title(e), row(e)));
        let guarantees = EPSILONS.map(|e| {
            let points =
                results.series(GUARANTEE, &title(e)).and_then(|s| s.runs.first()).map(|r| r.points.clone());
            (title(e), points.unwrap_or_default())
        });
        let largest = EPSILONS.map(|e| 0.5 * (e.0 as f64 / e.1 as f64).powi(2));
        vec![
            results.claim(
                "The higher the scale s, the lower the regret (in the mean, at every step)",
                "s = 10 to 100: 8784 to 7914, 4551 to 4426, 3975 to 3974",
                format!(
                    "at s = 1, 2, 5, 10, 100: {}",
                    listed(rows.iter().map(|(title, v)| { format!("{title}: {}", numbers(v)) }))
                ),
                Decision::all(
                    EPSILONS.map(|e| {
                        results.falling(&SCALES.map(|s| results.series(&scale_title(s), &title(e))))
                    }),
                ),
            ),
            results.claim(
                "For large s the guarantee is that of ε²/2-concentrated privacy",
                "pure concentrated privacy converts to 0.37529, 2.16801, 4.75273",
                listed(guarantees.iter().zip(largest).map(|((title, points), rho)| {
                    let row: Vec<_> = points.iter().map(|p| format!("{:.5}", p.1)).collect();
                    format!("{title} (ρ = {rho:.3}): {}", row.join(", "))
                })),
                Decision::all(guarantees.iter().zip([0.37529, 2.16801, 4.75273]).map(
                    |((_, points), limit)| {
                        let last = points.last().map_or(f64::NAN, |p| p.1);
                        Interval::new(last, 0.0).within(limit, 1e-3 * limit)
                    },
                )),
            ),
            results.agreement(),
        ]
    }
}
