//! What forgetting gains where the best arm changes, and what it costs where it does not.

use crate::experiment::{Card, Claim, Experiment, Panel, Results, Scale, Series, listed};
use crate::play::{self, curve_only};
use anyhow::Result;
use bandit::sampling::standard_normal;
use bandit::vector::dot;
use bandit::{
    Arithmetic, Environment, Error, Features, Forgetting, HelbaClear, LinearConfig, Outcome, Schedule,
    WidthShape,
};
use rand::{Rng, RngExt};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Discounts and windows on a parameter that is drawn anew, and on one that stays.
pub const EXPERIMENTS: &[&dyn Experiment] = &[&DriftExperiment];

/// Rounds between two draws of the parameter.
const PERIOD: u64 = 2_000;
const ROUNDS: u64 = 20_000;
const NONE: &str = "all feedback alike";

/// Label, discount, window.
const ROWS: [(&str, Option<f64>, Option<u64>); 9] = [
    (NONE, None, None),
    ("discount 0.9995", Some(0.9995), None),
    ("discount 0.999", Some(0.999), None),
    ("discount 0.998", Some(0.998), None),
    ("discount 0.995", Some(0.995), None),
    ("discount 0.99", Some(0.99), None),
    ("window 2000", None, Some(2000)),
    ("window 1000", None, Some(1000)),
    ("window 500", None, Some(500)),
];

const ARMS: &str = "4 arms, the best one drawn anew";
const CONTEXTS: &str = "8 arms of 8 features, θ drawn anew";
const STILL: &str = "8 arms of 8 features, θ stays";

/// Rewards whose parameter is drawn anew every `period` rounds, with Gaussian noise.
#[derive(Debug, Clone)]
struct Drift {
    /// Whether features are the number of the arm, and the parameter is one good arm among others.
    named: bool,
    period: u64,
    round: u64,
    theta: Vec<f64>,
    features: Features,
    noise: f64,
    reward: f64,
}

impl Drift {
    fn new(named: bool, d: usize, period: u64) -> Result<Self> {
        let identity = (0..d * d).map(|i| f64::from(u8::from(i / d == i % d))).collect();
        let features = Features::new(identity, d)?;
        Ok(Drift { named, period, round: 0, theta: vec![0.0; d], features, noise: 0.0, reward: 0.0 })
    }

    fn means(&self) -> impl Iterator<Item = f64> {
        self.features.rows().map(|x| dot(x, &self.theta))
    }
}

/// A vector of norm 1 in a direction that is uniform.
fn unit(d: usize, rng: &mut dyn Rng) -> Vec<f64> {
    let mut x: Vec<f64> = (0..d).map(|_| standard_normal(rng)).collect();
    // A little below 1, so that rounding leaves no norm above it.
    let norm = dot(&x, &x).sqrt() * (1.0 + 1e-12);
    x.iter_mut().for_each(|entry| *entry /= norm);
    x
}

impl Environment for Drift {
    type Context = Features;
    type Feedback = f64;

    fn arms(&self) -> usize {
        self.features.k()
    }

    fn begin(&mut self, rng: &mut dyn Rng) -> bool {
        let d = self.theta.len();
        if self.round.is_multiple_of(self.period) {
            self.theta = match self.named {
                true => {
                    let best = rng.random_range(0..d);
                    (0..d).map(|arm| if arm == best { 0.7 } else { 0.4 }).collect()
                }
                false => unit(d, rng),
            };
        }
        if !self.named {
            let rows = (0..d).flat_map(|_| unit(d, rng)).collect();
            // As many rows of the same length as before.
            let Ok(features) = Features::new(rows, d) else { return false };
            self.features = features;
        }
        self.round += 1;
        self.noise = 0.3 * standard_normal(rng);
        true
    }

    fn context(&self) -> Result<&Features, Error> {
        Ok(&self.features)
    }

    fn play(&mut self, arm: usize, _: &mut dyn Rng) -> Result<Outcome, Error> {
        let (k, best) = (self.arms(), self.means().fold(f64::MIN, f64::max));
        let mean = self.means().nth(arm).ok_or(Error::Arm { arm, k })?;
        self.reward = mean + self.noise;
        Ok(Outcome { reward: self.reward, regret: best - mean })
    }

    fn feedback(&self) -> Result<&f64, Error> {
        Ok(&self.reward)
    }
}

/// The settings of a new encrypted bandit.
fn config(d: usize) -> LinearConfig {
    let schedule = Schedule::GrowthOrEvery { rounds: 16 };
    let width = WidthShape::Tangent.width(0.5);
    LinearConfig { d, k: d, l: 1.0, delta: 0.05, width, schedule, ..LinearConfig::figure_1() }
}

struct DriftExperiment;

impl Experiment for DriftExperiment {
    fn card(&self) -> Card {
        Card {
            name: "helba-drift",
            about: "beyond the paper: forgetting, where the best arm changes and where it does not",
            source: "discount: Russac, Vernade, Cappé 2019; window: Cheung, Simchi-Levi, Zhu 2019; algorithm: HELBA",
            stand_in: None,
            seeds: [40, 2],
            notes: "HELBA in the clear with exact arithmetic and without delay of updates, with the weights of the encrypted server; λ = 1, \
                    L = 1, growth_or_every 16, tangent of width ½, Gaussian noise of 0.3. Arms have one-hot features and means 0.4, the best \
                    one 0.7. Features and θ are uniform on the unit sphere. Equal seeds draw equal rounds.",
        }
    }

    fn panels(&self, scale: Scale) -> Result<Vec<Panel>> {
        let rounds = scale.of(ROUNDS, 400);
        [(ARMS, true, 4, PERIOD), (CONTEXTS, false, 8, PERIOD), (STILL, false, 8, u64::MAX)]
            .map(|(title, named, d, period)| {
                let row = |(label, discount, window): (&str, Option<f64>, Option<u64>)| -> Result<Series> {
                    let (config, forgetting) = (config(d), Forgetting::new(discount, window)?);
                    let settings = format!("{rounds} rounds; {title}; {forgetting:?}; {config:?}");
                    let policy =
                        move || Ok(HelbaClear::new(config, Arithmetic::Exact)?.forgetting(forgetting)?);
                    let environment = move |_| Drift::new(named, d, period);
                    Ok(play::series(label, settings, rounds, policy, environment, curve_only))
                };
                Panel::regret_over("round", title, ROWS.map(row))
            })
            .into_iter()
            .collect()
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let best = |title: &str| {
            let labels = ROWS.iter().map(|(label, ..)| *label).filter(|label| label.starts_with("discount"));
            labels.min_by(|a, b| results.last(title, a).total_cmp(&results.last(title, b))).unwrap_or(NONE)
        };
        let shown = |title: &str, label: &str| {
            let series = results.series(title, label);
            format!("{title}: {label} {}", series.map_or(String::new(), |series| series.shown(0)))
        };
        let drift = |title: &str, factor: f64| {
            results.ends_below(results.series(title, best(title)), factor, results.series(title, NONE))
        };
        let both = |title: &str| listed([best(title), NONE].map(|label| shown(title, label)));
        vec![
            results.own(
                "Where θ is drawn anew every 2,000 rounds, the best discount has a quarter or less of the regret of feedback that counts alike",
                "none",
                both(CONTEXTS),
                drift(CONTEXTS, 0.25),
            ),
            results.own(
                "Where the best one of 4 arms is drawn anew, the best discount has three quarters or less of that regret",
                "none",
                both(ARMS),
                drift(ARMS, 0.75),
            ),
            results.own(
                "Where nothing changes, a discount has more regret than feedback that counts alike",
                "none",
                listed(["discount 0.998", NONE].map(|label| shown(STILL, label))),
                results.ends_above(
                    results.series(STILL, "discount 0.998"),
                    1.0,
                    results.series(STILL, NONE),
                ),
            ),
        ]
    }

    fn page(&self, results: &Results) -> Option<String> {
        let mut out = PAGE.to_string();
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "\nRegret after {ROUNDS} rounds, mean ± standard error of {} seeds, and as a share of that without forgetting:\n",
            results.seeds
        );
        let _ = writeln!(out, "| setting | {ARMS} | {CONTEXTS} | {STILL} |\n|---|---:|---:|---:|");
        for (label, ..) in ROWS {
            let cell = |title: &str| {
                let (series, none) = (results.series(title, label)?, results.series(title, NONE)?);
                Some(format!("{} ({:.2})", series.shown(0), series.mean() / none.mean()))
            };
            let cells = [ARMS, CONTEXTS, STILL].map(|title| cell(title).unwrap_or_default()).join(" | ");
            let _ = writeln!(out, "| {label} | {cells} |");
        }
        out.push_str(&peers()?);
        Some(out)
    }
}

const PAGE: &str = include_str!("drift.txt");

/// What `lab/peers/drift.py` has kept: regret by seed.
const PEERS: &str = include_str!("../../peers/kept/drift.json");

/// The table beside other libraries, which play the same rewards.
fn peers() -> Option<String> {
    let kept: BTreeMap<String, Vec<f64>> = serde_json::from_str(PEERS).ok()?;
    let seeds = kept.values().next()?.len();
    let mut out = format!(
        "\nBeside other libraries, which forget nothing: 4 arms without features, success of 0.7 for the best one and of 0.4 for the others, {ROUNDS} rounds, the same rewards\n\
         for all (`lab/peers/drift.py`; mabwiser 2.7.4, contextualbandits 0.3.30, their defaults). Regret, mean ± standard error of {seeds} seeds:\n\n\
         | policy | regret |\n|---|---:|\n"
    );
    for (name, values) in &kept {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
        let _ = writeln!(out, "| {name} | {mean:.0} ± {:.0} |", (squares / (n - 1.0) / n).sqrt());
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bandit::Policy;
    use privacy::source::SplitMix64;

    #[test]
    fn the_page_has_what_is_kept() {
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/forgetting.md");
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page.starts_with(PAGE) && page.ends_with(&peers().unwrap()));
    }

    /// After changes of the parameter a bandit that forgets follows, and one that does not stays behind: in
    /// the table by a factor of 9.
    #[test]
    fn a_discount_follows_the_parameter() {
        let regret = |discount: Option<f64>| {
            let mut rng = SplitMix64::new(3);
            let (mut world, mut all) = (Drift::new(false, 8, PERIOD).unwrap(), 0.0);
            let forgetting = Forgetting::new(discount, None).unwrap();
            let mut policy =
                HelbaClear::new(config(8), Arithmetic::Exact).unwrap().forgetting(forgetting).unwrap();
            for _ in 0..5 * PERIOD {
                world.begin(&mut rng);
                let arm = policy.decide(&world.features.clone(), &mut rng).unwrap();
                all += world.play(arm, &mut rng).unwrap().regret;
                policy.learn(&world.features.clone(), arm, &world.reward.clone(), &mut rng).unwrap();
            }
            all
        };
        let (with, without) = (regret(Some(0.995)), regret(None));
        assert!(with < 0.5 * without, "{with}, {without}");
    }
}
