//! The cost of public schedules: regret and batch updates, compared with the paper's trace condition.

use super::helba::{UPDATES, series};
use crate::experiment::{
    Card, Claim, Decision, Experiment, Panel, PanelResult, Results, Scale, Series, SeriesResult, listed,
};
use anyhow::Result;
use bandit::toy::Toy;
use bandit::{Arithmetic, HelbaClear, LinearConfig, Schedule, WidthShape};
use privacy::source::SplitMix64;
use std::fmt::Write as _;

/// A comparison of public schedules, among them the default of encrypted bandits, with the paper's.
pub const EXPERIMENTS: &[&dyn Experiment] = &[&Schedules];

const SIZES: [usize; 3] = [2, 8, 16];
/// Number of context sets of a problem: so many that each set is drawn rarely.
const CONTEXTS: usize = 1000;
const PAPER: &str = "trace_or_growth, eta 0.1 (the paper's)";
const SHIPPED: &str = "growth_or_every 16, eta 0.1 (the default)";

/// Label, schedule, growth.
const ROWS: [(&str, Schedule, f64); 12] = [
    ("every_round", Schedule::EveryRound, 0.1),
    (PAPER, Schedule::TraceOrGrowth, 0.1),
    ("growth_or_every 8, eta 0.1", Schedule::GrowthOrEvery { rounds: 8 }, 0.1),
    (SHIPPED, Schedule::GrowthOrEvery { rounds: 16 }, 0.1),
    ("growth_or_every 16, eta 0.5", Schedule::GrowthOrEvery { rounds: 16 }, 0.5),
    ("every 16", Schedule::Every { rounds: 16 }, 0.1),
    ("growth_or_every 64, eta 0.1", Schedule::GrowthOrEvery { rounds: 64 }, 0.1),
    ("growth_or_every 128, eta 0.1", Schedule::GrowthOrEvery { rounds: 128 }, 0.1),
    ("growth_or_every 256, eta 0.1", Schedule::GrowthOrEvery { rounds: 256 }, 0.1),
    ("every 64", Schedule::Every { rounds: 64 }, 0.1),
    ("every 128", Schedule::Every { rounds: 128 }, 0.1),
    ("every 256", Schedule::Every { rounds: 256 }, 0.1),
];

/// The settings of an encrypted bandit, for `d` features and `k` arms.
fn config(d: usize, k: usize, schedule: Schedule, eta: f64) -> LinearConfig {
    LinearConfig {
        d,
        k,
        l: 1.0,
        delta: 0.05,
        eta,
        width: WidthShape::default().width(0.5),
        schedule,
        ..LinearConfig::figure_1()
    }
}

struct Schedules;

impl Experiment for Schedules {
    fn card(&self) -> Card {
        Card {
            name: "helba-schedules",
            about: "beyond the paper: regret under public schedules and under the paper's trace condition",
            source: "Garcelon, Perchet, Pirotta: Encrypted Linear Contextual Bandit; the public schedules are this project's",
            stand_in: None,
            seeds: [100, 2],
            notes: "HELBA in the clear with exact arithmetic and without delay of updates. Each round draws one of 1000 context sets; \
                    features are uniform in ±1/√d, θ is uniform on the unit sphere, and the Gaussian noise has deviation 0.5; λ = 1, C = 1, \
                    tangent of width 0.5. Equal seeds draw equal rounds, so differences are paired.",
        }
    }

    fn panels(&self, scale: Scale) -> Result<Vec<Panel>> {
        let rounds = scale.of(10_000, 200);
        let mut panels = Vec::new();
        for k in SIZES {
            for d in SIZES {
                let problem = config(d, k, Schedule::EveryRound, 0.1);
                let toy = move |seed: u64| {
                    // The problem is drawn from its own stream, which is not that of the rounds.
                    Toy::new(&problem, CONTEXTS, &mut SplitMix64::new(seed ^ 0x7363_6865_6475_6C65))
                };
                let row = |&(label, schedule, eta): &(&str, Schedule, f64)| -> Result<Series> {
                    let config = config(d, k, schedule, eta);
                    let policy = move || HelbaClear::new(config, Arithmetic::Exact);
                    series(label, "1000 context sets", policy, HelbaClear::ridge, toy, rounds)
                };
                panels.push(Panel::regret_over("round", format!("K = {k}, d = {d}"), ROWS.iter().map(row))?);
            }
        }
        Ok(panels)
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let mut parts = Vec::new();
        let mut below = Vec::new();
        for panel in &results.panels {
            let (Some(paper), Some(shipped)) = (panel.series(PAPER), panel.series(SHIPPED)) else { continue };
            let difference = shipped.less(paper);
            let share = 100.0 * difference.mean / paper.mean();
            below.push(results.ends_below(Some(shipped), 1.05, Some(paper)));
            parts.push(format!("{} {share:+.1} %", panel.title));
        }
        vec![results.own(
            "The default public schedule costs at most 5 % of the trace condition's regret, in every problem",
            "none",
            listed(parts),
            Decision::all(below),
        )]
    }

    fn page(&self, results: &Results) -> Option<String> {
        let rounds = results.panels.first()?.series.first()?.runs.first()?.points.last()?.0;
        let mut out = format!(
            "# What a public schedule costs\n\n\
             Generated by `cargo run --release -p helba-lab -- experiment helba-schedules --page docs/schedules.md`.\n\n\
             A schedule says when a batch ends: when an encrypted bandit computes its inverse and estimate anew. A public one follows from the numbers of rounds alone:\n\
             devices answer nothing. The paper's trace condition (`trace_or_growth`) costs an answer of one bit a round, a bit of a decryption\n\
             ([threat-model.md](threat-model.md)).\n\n\
             After {rounds} rounds, in the row of the trace condition its regret, in the others the paired difference from it as a share of it: means of {} seeds\n\
             ± a standard error ([record](../benches/record/2026-11-29-schedules.csv)). HELBA in the clear with exact arithmetic, models renewed\n\
             at once; 1000 context sets, one of them drawn in every round, features uniform in ±1/√d, θ uniform on the unit sphere, Gaussian noise of 0.5; λ = 1, C = 1,\n\
             tangent of width ½.\n",
            results.seeds
        );
        // Writing to a string cannot fail.
        let titles: Vec<&str> = results.panels.iter().map(|p| p.title.as_str()).collect();
        let _ = writeln!(
            out,
            "\n| schedule | updates | {} |\n|---|---:|{}",
            titles.join(" | "),
            "---:|".repeat(titles.len())
        );
        for (i, s) in results.panels.first()?.series.iter().enumerate() {
            let cells: Option<Vec<String>> =
                results.panels.iter().map(|p| Some(cell(p.series.get(i)?, p.series(PAPER)?))).collect();
            let updates: Option<Vec<f64>> = results
                .panels
                .iter()
                .map(|p| Some(p.series.get(i)?.figure(UPDATES).unwrap_or(f64::NAN)))
                .collect();
            let (least, most) = range(&updates?);
            let [least, most] = [least, most].map(|updates| format!("{updates:.0}"));
            let updates = if least == most { least } else { format!("{least} to {most}") };
            let _ = writeln!(out, "| {} | {updates} | {} |", s.label, cells?.join(" | "));
        }
        out.push_str(&verdict(&results.panels)?);
        Some(out)
    }
}

/// The regret of the trace condition, and for other schedules the difference from it as a share.
fn cell(s: &SeriesResult, paper: &SeriesResult) -> String {
    if s.label == paper.label {
        return s.shown(1);
    }
    let (difference, share) = (s.less(paper), 100.0 / paper.mean());
    format!("{:+.1} ± {:.1} %", share * difference.mean, share * difference.standard_error)
}

fn range(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::MAX, f64::MIN), |(a, b), &x| (a.min(x), b.max(x)))
}

/// The range of the default's differences over all problems, in words.
fn verdict(panels: &[PanelResult]) -> Option<String> {
    let shares: Option<Vec<f64>> = panels
        .iter()
        .map(|p| {
            let (paper, shipped) = (p.series(PAPER)?, p.series(SHIPPED)?);
            Some(100.0 * shipped.less(paper).mean / paper.mean())
        })
        .collect();
    let shares = shares?;
    let (least, most) = range(&shares);
    Some(format!(
        "\nOver all problems the default's regret differs from the trace condition's by {least:+.1} % to {most:+.1} % of it. The default\n\
         takes four Newton steps an update, as the trace condition does; batches of 64 take five, and a third of the updates.\n\n\
         Once there is a model, batches of up to 256 rounds cost nothing that these seeds show: no row of `growth_or_every` with eta 0.1 is worse by two standard errors. Those of\n\
         `every` have the price of the beginning, when nobody learns from the first 64, 128 or 256 rounds; it is the larger the faster a problem is learnt. Updates by products\n\
         wait while many ask, whatever the schedule says, and then take all feedback that has come: of 64 clients at 64 features and arms some 170. Such a bandit pays\n\
         for the first batch, which its users begin before anybody has answered, and hardly for later ones.\n"
    ))
}
