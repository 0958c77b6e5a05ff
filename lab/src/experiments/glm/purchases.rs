//! Recorded purchases under the logistic link.

use super::{ECOLOG, PROVED, RS, joint_series};
use crate::experiment::{Card, Claim, Experiment, Panel, PanelResult, Results, Scale, SeriesResult, listed};
use crate::experiments::helba::{best_fixed, hit_rate, oful_on, policy_on, shop_panel};
use crate::play::curve_only;
use anyhow::Result;
use bandit::datasets::Purchases;
use bandit::{Schedule, UniformRandom};
use datasets::{Dataset, DatasetLog};
use glm::baseline::{Ecolog, Gloc};
use glm::joint::JointConfig;
use glm::{Link, Problem};
use privacy::budget::Epsilon;
use std::sync::Arc;

/// Recorded purchases under the logistic link.
pub(super) struct Shopping;

impl Experiment for Shopping {
    fn card(&self) -> Card {
        Card {
            name: "glm-purchases",
            about: "beyond the paper: share of real purchases predicted under the logistic link, and by OFUL",
            source: "Sarmasarkar: Shuffle and Joint Differential Privacy for Generalized Linear Contextual Bandits; data: see data/README.md",
            stand_in: None,
            seeds: [40, 2],
            notes: "Real purchases in file order. An arm is a brand, and its reward is 1 if the household bought it. S = 3, κ of the \
                    whole ball, δ = 0.01. RS-GLinUCB and the private profiles have γ = 1, β = 0.3, and OFUL has a width of 0.5. These \
                    were chosen by hand for these data, which the accounting of ε does not cover; GLOC and ECOLog have the widths of \
                    their theorems. The paper has no real data. Private runs vary widely (ranges are in brackets): in about 3000 rounds \
                    of noisy statistics there are 0 to 3 estimates only, whose errors determine the other rounds. Without any estimate \
                    the noise in the metric determines the arms, which may be worse than chance.",
        }
    }

    fn panels(&self, scale: Scale) -> Result<Vec<Panel>> {
        let mut panels = Vec::new();
        for (name, read) in SHOPS {
            let data = Arc::new(Dataset::from(read()?));
            let rounds = scale.of(data.rounds().len() as u64, 200);
            let (k, s, link) = (data.arms().len(), 3.0, Link::Logistic);
            let problem =
                Problem { d: data.d(), k, link, s, kappa: link.kappa(s), delta: 0.01, horizon: rounds };
            let log = DatasetLog::new(data.clone());
            let joint = |label: &str, config: JointConfig| {
                let log = log.clone();
                hit_rate(joint_series(label, name, config, move |_| Ok(log.clone())))
            };
            let clear = JointConfig {
                gamma: 1.0,
                beta: 0.3,
                explore_at: 0.5,
                ..JointConfig::rs_glinucb(problem.clone())
            };
            let mut series = vec![
                oful_on(name, &data, Schedule::EveryRound, rounds)?,
                joint(RS, clear),
                policy_on("GLOC", name, Gloc::new(problem.clone())?, &log, rounds, curve_only),
                policy_on(ECOLOG, name, Ecolog::new(problem.clone())?, &log, rounds, curve_only),
            ];
            for epsilon in [1.0, 8.0, 64.0] {
                let config = JointConfig::private(problem.clone(), Epsilon::new(epsilon)?, 1.0, 0.3)?;
                series.push(joint(&format!("JointGLM, proved, ε = {epsilon}"), config));
            }
            series.push(policy_on("random", name, UniformRandom, &log, rounds, curve_only));
            series.push(best_fixed("best fixed brand", name, &data, rounds));
            panels.push(shop_panel(name, series));
        }
        Ok(panels)
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let cell = |s: &SeriesResult| {
            let finals = s.finals();
            let (least, most) =
                finals.iter().fold((f64::INFINITY, 0.0f64), |(a, b), v| (a.min(*v), b.max(*v)));
            format!("{} {} % ({least:.1} to {most:.1})", s.label, s.shown(1))
        };
        let judge = |(panel, (_, read)): (&PanelResult, Shop)| {
            let fixed = read().map_or(f64::NAN, |d| 100.0 * d.best_fixed().1);
            let claim = |text: &str, decision| {
                let text = format!("{}: {text}", panel.title);
                let row = listed(panel.series.iter().map(cell));
                results.own(text, format!("best fixed brand {fixed:.1} %"), row, decision)
            };
            let gap = results.sum(&[(1.0, panel.series("OFUL")), (-1.0, panel.series(RS))]);
            [
                claim("RS-GLinUCB is within 2 points of OFUL", gap.below(2.0)),
                claim(
                    "the proved profile at ε = 8 beats every fixed brand",
                    results.sum(&[(1.0, panel.series(PROVED))]).above(fixed),
                ),
            ]
        };
        results.panels.iter().zip(SHOPS).flat_map(judge).collect()
    }
}

/// Title and data.
type Shop = (&'static str, fn() -> Result<Purchases, bandit::Error>);

const SHOPS: [Shop; 2] =
    [("Yogurt, 2412 purchases", Purchases::yogurt), ("Cracker, 3292 purchases", Purchases::cracker)];
