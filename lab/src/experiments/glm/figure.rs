//! Both panels of figure 1.

use super::{ECOLOG, GLM_UCB, GLOC, Kind, PROVED, RS, RS_AS_RUN, SOURCE, Setting, Shape, learns, private};
use crate::experiment::{Card, Claim, Experiment, Panel, Results, Scale, numbers};
use anyhow::Result;
use glm::Link;
use glm::published::SEED;

pub(super) const LOGISTIC: Figure1 = Figure1 {
    name: "glm-fig1a",
    about: "figure 1a: logistic bandits, d = 5, S = 3.5, T = 15000",
    link: Link::Logistic,
    s: 3.5,
    rounds: 15_000,
    rows: &FIGURE_1A,
    nearly: ("nearly identical to RS-GLinUCB (here: within a tenth)", 1.1),
};

pub(super) const PROBIT: Figure1 = Figure1 {
    name: "glm-fig1b",
    about: "figure 1b: probit bandits, d = 5, S = 3, T = 5000",
    link: Link::Probit,
    s: 3.0,
    rounds: 5_000,
    rows: &FIGURE_1B,
    nearly: ("almost on par with RS-GLinUCB (here: within a quarter)", 1.25),
};

/// One panel of figure 1.
pub(super) struct Figure1 {
    name: &'static str,
    about: &'static str,
    link: Link,
    s: f64,
    rounds: u64,
    rows: &'static [FigureRow],
    /// The paper's claim about epsilon 8, and the largest ratio of regrets with which it holds.
    nearly: (&'static str, f64),
}

/// Label, policy, and last value of another implementation.
struct FigureRow(&'static str, Kind, Option<(f64, f64)>);

#[rustfmt::skip]
static FIGURE_1A: [FigureRow; 9] = [
    FigureRow(RS, Kind::Rs, Some((406., 13.))),
    FigureRow(RS_AS_RUN, Kind::RsAsRun, None),
    FigureRow(ECOLOG, Kind::Ecolog, Some((561., 3.))),
    FigureRow(GLOC, Kind::GlocPublished, Some((1456., 17.))),
    FigureRow("JointGLM as run, ε = 2", Kind::Published(2.0), Some((1421., 81.))),
    FigureRow("JointGLM as run, ε = 4", Kind::Published(4.0), Some((1088., 19.))),
    FigureRow("JointGLM as run, ε = 8", Kind::Published(8.0), Some((798., 13.))),
    FigureRow(PROVED, Kind::Proved(8.0), None),
    FigureRow("random", Kind::Random, None),
];

#[rustfmt::skip]
static FIGURE_1B: [FigureRow; 9] = [
    FigureRow(RS, Kind::Rs, Some((347., 4.))),
    FigureRow(RS_AS_RUN, Kind::RsAsRun, Some((360.8, 8.7))),
    FigureRow(GLM_UCB, Kind::GlmUcb, Some((2217., 5.))),
    FigureRow(GLOC, Kind::GlocPublished, Some((1369., 7.))),
    FigureRow("JointGLM as run, ε = 2", Kind::Published(2.0), Some((1152., 58.))),
    FigureRow("JointGLM as run, ε = 4", Kind::Published(4.0), Some((757., 25.))),
    FigureRow("JointGLM as run, ε = 8", Kind::Published(8.0), Some((548., 21.))),
    FigureRow(PROVED, Kind::Proved(8.0), None),
    FigureRow("random", Kind::Random, None),
];

impl Figure1 {
    fn title(&self) -> String {
        format!("{:?}, d = 5, S = {}", self.link, self.s)
    }
}

impl Experiment for Figure1 {
    fn card(&self) -> Card {
        Card {
            name: self.name,
            about: self.about,
            source: SOURCE,
            stand_in: None,
            seeds: [20, 2],
            notes: "The published instance and profiles, as in table 2. The paper draws curves and prints no numbers. References are \
                    means of 3 to 5 repetitions of another implementation, so that their standard errors are imprecise; that of \
                    RS-GLinUCB as run is the published code itself.",
        }
    }

    fn panels(&self, scale: Scale) -> Result<Vec<Panel>> {
        let rounds = scale.of(self.rounds, 200);
        let setting = Setting::published(SEED, Shape::published(self.link, 5, self.s), rounds)?;
        let curve = |FigureRow(label, kind, reference): &FigureRow| {
            Ok(setting.series(label, *kind)?.referenced(scale, *reference))
        };
        Ok(vec![Panel::regret_over("round", self.title(), self.rows.iter().map(curve))?])
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let last = |label: &str| results.last(&self.title(), label);
        let theirs =
            |label: &str| self.rows.iter().find(|r| r.0 == label).and_then(|r| r.2).map_or(f64::NAN, |r| r.0);
        let all = [2, 4, 8].map(private);
        let [two, four, eight] = all.each_ref().map(|label| last(label));
        let series = all.each_ref().map(|label| results.series(&self.title(), label));
        let clear = results.series(&self.title(), RS);
        let (rs, as_run) = (last(RS), last(RS_AS_RUN));
        vec![
            results.claim(
                format!("At ε = 8 the private policy is {}", self.nearly.0),
                format!(
                    "{:.0} against {:.0}, as run {:.0}",
                    theirs(&all[2]),
                    theirs(RS),
                    theirs(RS_AS_RUN)
                ),
                format!(
                    "{eight:.0} against {rs:.0}, {:.2} times; against RS-GLinUCB as run ({as_run:.0}) {:.2} times",
                    eight / rs,
                    eight / as_run
                ),
                results.ends_below(series[2], self.nearly.1, clear),
            ),
            results.claim(
                "ε = 2 costs some performance: regret falls as ε grows",
                numbers(&all.each_ref().map(|label| theirs(label))),
                numbers(&[two, four, eight]),
                results.falling(&series),
            ),
            learns(results, &[self.title()]),
            results.agreement(),
        ]
    }
}
