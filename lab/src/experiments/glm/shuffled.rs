//! An experiment on ShuffleGLM.

use super::{Kind, NO_NOISE, SOURCE, Setting, Shape};
use crate::experiment::{Card, Claim, Experiment, Interval, Panel, Results, Scale, SeriesResult};
use anyhow::Result;
use glm::shuffle::{Estimator, Protection, ShuffleConfig, ShuffleGlm, batch_sizes};
use glm::{Instance, Link};
use privacy::budget::Epsilon;
use std::sync::Arc;

/// The regret of ShuffleGLM over the size of its noise. The paper has no experiment on it.
pub(super) struct Shuffled;

const PANEL: &str = "logistic, d = 2, K = 5, T = 40000";
const STATED: &str = "noise as stated, ε = 4";
const CALIBRATED: &str = "calibrated bits, ε = 4";

impl Experiment for Shuffled {
    fn card(&self) -> Card {
        Card {
            name: "glm-shuffle",
            about: "beyond the figures: the regret of ShuffleGLM over the size of its noise",
            source: SOURCE,
            stand_in: None,
            seeds: [200, 2],
            notes: "The paper has no experiment on ShuffleGLM; with the constants of its theorems the first batch alone is longer than \
                    4e7 rounds. Logistic, d = 2, K = 5, θ = (1.2, 1.6), fresh arms, T = 40000 in batches of 3000, 1169 and the rest, \
                    γ = 1, 20 descent steps, δ = 1e-3, ε = 4. Runs with a fraction of the noise have no privacy; calibrated bits have \
                    the least noise that is private by the exact divergence. References with noise are means of 300 runs of a second \
                    implementation in numpy. A first implementation had two runs each, 952 and 1069, 8130 and 9184, 18890 and 12191; \
                    three of the last four are in the upper fifth of the 300.",
        }
    }

    fn panels(&self, scale: Scale) -> Result<Vec<Panel>> {
        let (rounds, first) = scale.of((40_000, 3000), (400, 100));
        let batches = batch_sizes(rounds, 3, first)?;
        let epsilon = Epsilon::new(4.0)?;
        let arms = Setting::fresh(Shape { link: Link::Logistic, d: 2, k: 5, s: 2.0, delta: 1e-3 }, rounds);
        let fresh = arms.instance.clone();
        let setting = Setting {
            name: format!("{}, theta (1.2, 1.6)", arms.name),
            instance: Arc::new(move |seed| {
                Ok(Arc::new(Instance::new(vec![1.2, 1.6], fresh(seed)?.sets().to_vec())?))
            }),
            ..arms
        };
        let scaled = |factor| Protection::Scaled { epsilon, factor };
        let mut series = Vec::new();
        for (label, protection, reference) in [
            (NO_NOISE, Protection::None, Some((802.0, 19.0))),
            ("0.002 of the noise", scaled(0.002), Some((1167.0, 7.9))),
            ("0.02 of the noise", scaled(0.02), Some((4535.0, 211.0))),
            (STATED, scaled(1.0), Some((8805.0, 354.0))),
            (CALIBRATED, Protection::Calibrated { epsilon }, None),
        ] {
            let exact = protection == Protection::None;
            let config = ShuffleConfig {
                problem: setting.problem.clone(),
                reward_max: 1.0,
                batches: batches.clone(),
                lambda: if exact { 2.0 } else { 0.05 * 20.0 * 2.0 * (rounds as f64).ln() },
                gamma: 1.0,
                design_factor: 2.0,
                colluding: 0.0,
                estimator: if exact { Estimator::Exact } else { Estimator::Descent { steps: 20 } },
                protection,
            };
            let curve = setting.of(label, move || Ok(ShuffleGlm::new(config.clone())?))?;
            series.push(curve.referenced(scale, reference));
        }
        series.push(setting.series("random", Kind::Random)?);
        Ok(vec![Panel::regret_over("round", PANEL, series.into_iter().map(Ok))?])
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let last = |label: &str| results.last(PANEL, label);
        let random = last("random");
        let judged = |label: &str| {
            let finals = results.series(PANEL, label).map_or(Vec::new(), SeriesResult::finals);
            let (learnt, runs) = (finals.iter().filter(|v| **v <= 0.5 * random).count(), finals.len());
            let ours = format!(
                "{:.0} on average, at most half of random play ({random:.0}) in {learnt} of {runs} runs; without noise {:.0}",
                last(label),
                last(NO_NOISE)
            );
            (ours, Interval::share(learnt, runs).above(0.9))
        };
        let ((stated, on_stated), (calibrated, on_calibrated)) = (judged(STATED), judged(CALIBRATED));
        vec![
            results.claim(
                "Theorem 5.1: sub-linear regret under (ε, δ)-shuffle privacy, noise as stated (here: at T = 40000 and ε = 4, half \
                 of random play or less in nine runs of ten)",
                "8805 ± 354 on average of 300 runs, a tenth of them below 1260",
                stated,
                on_stated,
            ),
            // The paper has no such noise.
            results.own(
                "The same with bits calibrated by the exact divergence",
                "the stated protocol has 700 to 800 times the noise that its sums need",
                calibrated,
                on_calibrated,
            ),
            results.agreement(),
        ]
    }
}
