//! What an experiment is, and what comes of it.

use anyhow::Result;
use bandit::Summary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a reader is told of an experiment.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Card {
    /// For the command line, in kebab case.
    pub name: &'static str,
    /// One line: which figure or table, and of what.
    pub about: &'static str,
    /// Authors and title of the paper.
    pub source: &'static str,
    /// What a reader must know to compare with the paper: stand-ins for data, settings that the paper leaves
    /// open.
    pub notes: &'static str,
}

/// One figure or table of a paper.
pub trait Experiment: Sync {
    /// What `list` and the report say of it.
    fn card(&self) -> Card;

    /// Independent repetitions unless the command line says otherwise.
    fn seeds(&self, scale: Scale) -> u64;

    /// All that is to be run. Panels may share series: equal [`Series::settings`] are run once.
    ///
    /// # Errors
    /// If a setting is refused by what it is a setting of.
    fn panels(&self, scale: Scale) -> Result<Vec<Panel>>;

    /// Panels drawn from the others, such as last values over a parameter.
    fn derived(&self, _: &Results) -> Vec<PanelResult> {
        Vec::new()
    }

    /// A page of tables in Markdown, for experiments whose figures the project's documents repeat.
    fn page(&self, _: &Results) -> Option<String> {
        None
    }

    /// The paper's claims, judged. At [`Scale::Quick`] the runs are too short to judge by.
    fn claims(&self, results: &Results) -> Vec<Claim>;
}

/// How long the runs are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Seconds: shows that everything works.
    Quick,
    /// As in the paper.
    Full,
}

impl Scale {
    /// What the full length takes, or the quick one.
    pub fn of<T>(self, full: T, quick: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
        }
    }
}

/// One picture: mean curves over slots, a band of one standard error around each.
pub struct Panel {
    /// Above the picture.
    pub title: String,
    /// Below the horizontal axis.
    pub x_label: &'static str,
    /// Beside the vertical axis.
    pub y_label: &'static str,
    /// Logarithmic horizontal axis.
    pub log_x: bool,
    /// Curves, in legend order.
    pub series: Vec<Series>,
}

impl Panel {
    /// Regret over `x_label`.
    pub fn regret_over(x_label: &'static str, title: impl Into<String>, series: Vec<Series>) -> Self {
        Panel { title: title.into(), x_label, y_label: "regret", log_x: false, series }
    }

    /// Regret over the logarithm of `x_label`.
    pub fn regret_over_log(x_label: &'static str, title: impl Into<String>, series: Vec<Series>) -> Self {
        Panel { log_x: true, ..Self::regret_over(x_label, title, series) }
    }
}

/// One curve, as a function of the seed.
pub struct Series {
    /// For the legend; unique in its panel.
    pub label: String,
    /// Everything that decides the outcome but the seed: finished runs are recognised by it.
    pub settings: String,
    /// Last value as another implementation found it.
    pub reference: Option<Reference>,
    /// One repetition.
    pub run: Box<dyn Fn(u64) -> Result<Run> + Send + Sync>,
}

/// Mean and standard error of the last value, made elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Reference {
    /// Mean.
    pub mean: f64,
    /// Standard error of the mean.
    pub standard_error: f64,
}

/// One repetition of one series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Slot (or whatever the horizontal axis is) and value; the same slots for every seed.
    pub points: Vec<(f64, f64)>,
    /// Further figures by name: shares of pulls, numbers of updates.
    pub figures: BTreeMap<String, f64>,
}

impl Run {
    /// A curve without further figures.
    pub fn curve(points: Vec<(f64, f64)>) -> Self {
        Self { points, figures: BTreeMap::new() }
    }

    /// The last value; 0 for an empty curve.
    pub fn last(&self) -> f64 {
        self.points.last().map_or(0.0, |p| p.1)
    }
}

/// What an experiment came to.
#[derive(Debug)]
pub struct Results {
    /// Length of the runs.
    pub scale: Scale,
    /// Repetitions.
    pub seeds: u64,
    /// Whether claims are judged by so many: 10, or the experiment's own number if that is smaller.
    pub enough: bool,
    /// In the order of [`Experiment::panels`], then those of [`Experiment::derived`].
    pub panels: Vec<PanelResult>,
}

/// What one panel came to.
#[derive(Debug)]
pub struct PanelResult {
    /// As in [`Panel`].
    pub title: String,
    /// As in [`Panel`].
    pub x_label: &'static str,
    /// As in [`Panel`].
    pub y_label: &'static str,
    /// As in [`Panel`].
    pub log_x: bool,
    /// As in [`Panel`].
    pub series: Vec<SeriesResult>,
}

/// What one series came to: one run a seed, from seed 0.
#[derive(Debug)]
pub struct SeriesResult {
    /// As in [`Series`].
    pub label: String,
    /// As in [`Series`]; empty where the series is derived.
    pub settings: String,
    /// As in [`Series`].
    pub reference: Option<Reference>,
    /// By seed.
    pub runs: Vec<Run>,
}

/// A claim of the paper beside what we found.
#[derive(Debug, Clone, Serialize)]
pub struct Claim {
    /// What the paper says.
    pub paper: String,
    /// What an independent implementation found.
    pub reference: String,
    /// What these runs found.
    pub ours: String,
    /// The judgement on the paper's claim.
    pub verdict: Verdict,
}

/// Judgement on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As the paper says.
    Holds,
    /// Not as the paper says, in these runs.
    DoesNotHold,
    /// These runs are too short to tell.
    NotTested,
}

impl Verdict {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::DoesNotHold => "does not hold",
            Self::NotTested => "not tested at this length",
        }
    }
}

/// Findings in one line of a claim.
pub fn listed(parts: impl IntoIterator<Item = String>) -> String {
    parts.into_iter().collect::<Vec<_>>().join("; ")
}

impl Results {
    /// A claim, judged by `holds` unless the runs are short.
    pub fn claim(
        &self,
        paper: impl Into<String>,
        reference: impl Into<String>,
        ours: impl Into<String>,
        holds: bool,
    ) -> Claim {
        let verdict = self.verdict(holds);
        Claim { paper: paper.into(), reference: reference.into(), ours: ours.into(), verdict }
    }

    /// Judges by `holds`, unless the runs are short or few.
    pub fn verdict(&self, holds: bool) -> Verdict {
        match (self.scale, self.enough, holds) {
            (Scale::Quick, ..) | (_, false, _) => Verdict::NotTested,
            (Scale::Full, _, true) => Verdict::Holds,
            (Scale::Full, _, false) => Verdict::DoesNotHold,
        }
    }

    /// What a reader must know before any figure, where runs are short or few.
    pub fn caution(&self) -> Option<String> {
        match (self.scale, self.enough) {
            (Scale::Quick, _) => {
                Some(format!("Quick run: {} seeds, shortened; no figure is the paper's.", self.seeds))
            }
            (_, false) => Some(format!("{} seeds: too few to judge claims by.", self.seeds)),
            _ => None,
        }
    }

    /// Last values over a parameter, one curve a label: `at` names each panel that holds a value of it, and
    /// the value.
    pub fn finals_over(&self, title: &str, x_label: &'static str, at: &[(&str, f64)]) -> PanelResult {
        let panels: Vec<_> =
            at.iter().filter_map(|(t, x)| Some((self.panels.iter().find(|p| p.title == *t)?, *x))).collect();
        let curve = |label: &str| {
            let series: Vec<_> = panels.iter().filter_map(|(p, x)| Some((p.series(label)?, *x))).collect();
            let seeds = series.iter().map(|(s, _)| s.runs.len()).min().unwrap_or(0);
            let run =
                |seed: usize| Run::curve(series.iter().map(|(s, x)| (*x, s.runs[seed].last())).collect());
            SeriesResult {
                label: label.to_owned(),
                settings: String::new(),
                reference: None,
                runs: (0..seeds).map(run).collect(),
            }
        };
        let labels = panels.first().map_or(&[][..], |(p, _)| &p.series);
        PanelResult {
            title: title.to_owned(),
            x_label,
            y_label: panels.first().map_or("", |(p, _)| p.y_label),
            log_x: true,
            series: labels.iter().map(|s| curve(&s.label)).collect(),
        }
    }

    /// The series of this label in the panel of this title.
    pub fn series(&self, title: &str, label: &str) -> Option<&SeriesResult> {
        self.panels.iter().find(|p| p.title == title)?.series(label)
    }

    /// Every series that has a reference, once, and how many of them agree with it.
    pub fn agreement(&self) -> Claim {
        // By settings: a series that stands in two panels counts once.
        let mut seen = BTreeMap::new();
        for panel in &self.panels {
            for series in &panel.series {
                if let Some(agrees) = series.agrees() {
                    seen.insert(&series.settings, (format!("{}, {}", panel.title, series.label), agrees));
                }
            }
        }
        let agree = seen.values().filter(|(_, agrees)| *agrees).count();
        let apart: Vec<_> = seen.values().filter(|s| !s.1).map(|(name, _)| name.as_str()).collect();
        if seen.is_empty() {
            return Claim {
                paper: "(No claim of the paper: our own check of the last values.)".into(),
                reference: "values of an independent implementation, for runs of full length".into(),
                ours: "nothing to compare".into(),
                verdict: Verdict::NotTested,
            };
        }
        let rest = if apart.is_empty() { String::new() } else { format!("; not {}", apart.join("; ")) };
        Claim {
            paper: "(No claim of the paper: our own check of the last values.)".into(),
            reference: "last values of an independent implementation, in the tables".into(),
            ours: format!("{agree} of {} within three standard errors{rest}", seen.len()),
            // One in a hundred may be apart by chance, and heavy tails add to it.
            verdict: self.verdict(agree as f64 >= 0.95 * seen.len() as f64),
        }
    }
}

impl PanelResult {
    /// The series of this label.
    pub fn series(&self, label: &str) -> Option<&SeriesResult> {
        self.series.iter().find(|s| s.label == label)
    }
}

impl SeriesResult {
    /// Last values, by seed.
    pub fn finals(&self) -> Vec<f64> {
        self.runs.iter().map(Run::last).collect()
    }

    /// Mean of the last values; standard error 0 for a single run.
    pub fn last(&self) -> Summary {
        summary(&self.finals())
    }

    /// Last values less those of `other`, seed by seed: on equal seeds both met equal slots.
    pub fn less(&self, other: &Self) -> Summary {
        let pairs = self.runs.iter().zip(&other.runs);
        summary(&pairs.map(|(a, b)| a.last() - b.last()).collect::<Vec<_>>())
    }

    /// How many times the mean of the last values of `other` this one's is.
    pub fn over(&self, other: &Self) -> f64 {
        self.last().mean / other.last().mean
    }

    /// Whether this ends below `other` by two standard errors, seed by seed.
    pub fn ends_below(&self, other: &Self) -> bool {
        let Summary { mean, standard_error } = self.less(other);
        mean < -2.0 * standard_error
    }

    /// Middle of the last values, the mean of two if their number is even; 0 without any.
    pub fn median(&self) -> f64 {
        let mut finals = self.finals();
        finals.sort_by(f64::total_cmp);
        let (upper, lower) = (finals.len() / 2, finals.len().saturating_sub(1) / 2);
        match (finals.get(lower), finals.get(upper)) {
            (Some(a), Some(b)) => 0.5 * (a + b),
            _ => 0.0,
        }
    }

    /// Share of runs that end above three times the median: the mean then speaks of these alone.
    pub fn stuck(&self) -> f64 {
        let limit = 3.0 * self.median();
        self.finals().iter().filter(|v| **v > limit).count() as f64 / self.runs.len().max(1) as f64
    }

    /// Whether the last value is within three standard errors of the reference, if there is one, and half of
    /// the last digit that the reference is given to: some runs do not vary at all.
    pub fn agrees(&self) -> Option<bool> {
        let reference = self.reference?;
        let last = self.last();
        let error = last.standard_error.hypot(reference.standard_error);
        let digits = format!("{}", reference.mean).split_once('.').map_or(0, |(_, d)| d.len());
        let rounding = 0.5 * 10f64.powi(-(digits as i32)) + 1e-9;
        Some((last.mean - reference.mean).abs() <= 3.0 * error + rounding)
    }

    /// Slot, mean and standard error, along the curve.
    pub fn curve(&self) -> Vec<(f64, Summary)> {
        let Some(first) = self.runs.first() else { return Vec::new() };
        let at = |i: usize| self.runs.iter().filter_map(|r| r.points.get(i)).map(|p| p.1).collect::<Vec<_>>();
        first.points.iter().enumerate().map(|(i, p)| (p.0, summary(&at(i)))).collect()
    }

    /// Mean at the last point that is `slot` or before; 0 before the first.
    pub fn at(&self, slot: f64) -> f64 {
        self.curve().iter().take_while(|p| p.0 <= slot).last().map_or(0.0, |p| p.1.mean)
    }

    /// Mean of a further figure.
    pub fn figure(&self, name: &str) -> Option<f64> {
        let values: Vec<f64> = self.runs.iter().filter_map(|r| r.figures.get(name).copied()).collect();
        (!values.is_empty()).then(|| summary(&values).mean)
    }
}

fn summary(values: &[f64]) -> Summary {
    Summary::of(values)
        .unwrap_or_else(|| Summary { mean: values.first().copied().unwrap_or(0.0), standard_error: 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(last: &[f64]) -> SeriesResult {
        let runs = last.iter().map(|v| Run::curve(vec![(1.0, *v)])).collect();
        SeriesResult { label: String::new(), settings: String::new(), reference: None, runs }
    }

    #[test]
    fn medians_are_in_the_middle() {
        for (last, median) in [(&[][..], 0.0), (&[3.0], 3.0), (&[4.0, 1.0], 2.5), (&[9.0, 1.0, 2.0], 2.0)] {
            assert_eq!(series(last).median(), median);
        }
    }

    /// Short or few runs judge nothing, and say so.
    #[test]
    fn few_runs_judge_nothing() {
        let results = |scale, enough| Results { scale, seeds: 3, enough, panels: Vec::new() };
        for (scale, enough, verdict, says) in [
            (Scale::Full, true, Verdict::Holds, None),
            (Scale::Full, false, Verdict::NotTested, Some("too few")),
            (Scale::Quick, true, Verdict::NotTested, Some("Quick run: 3 seeds")),
        ] {
            let results = results(scale, enough);
            assert_eq!(results.verdict(true), verdict);
            assert_eq!(results.caution().is_some(), says.is_some());
            assert!(says.is_none_or(|says| results.caution().unwrap().contains(says)));
            assert_eq!(results.agreement().verdict, Verdict::NotTested);
        }
    }
}
