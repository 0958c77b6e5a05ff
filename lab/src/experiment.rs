//! Experiments, their results, and the verdicts on a paper's claims.

use anyhow::Result;
use bandit::Summary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The description of an experiment.
#[derive(Debug, Clone, Copy)]
pub struct Card {
    /// Name on the command line, in kebab case.
    pub name: &'static str,
    /// One line: the figure or table, and its subject.
    pub about: &'static str,
    /// Authors and title of the paper.
    pub source: &'static str,
    /// What a reader must know to compare with the paper: substitutes for data, and settings that the paper
    /// does not state.
    pub notes: &'static str,
    /// Default number of independent repetitions: of full runs, and of quick ones.
    pub seeds: [u64; 2],
}

/// One figure or table of a paper.
pub trait Experiment: Sync {
    /// The description that `list` and the report show.
    fn card(&self) -> Card;

    /// Default number of independent repetitions.
    fn seeds(&self, scale: Scale) -> u64 {
        let [full, quick] = self.card().seeds;
        scale.of(full, quick)
    }

    /// All panels to compute. Series with equal [`Series::settings`] are run once, also across panels.
    ///
    /// # Errors
    /// If a policy or an environment refuses its parameters.
    fn panels(&self, scale: Scale) -> Result<Vec<Panel>>;

    /// Panels computed from the results of the others, such as last values over a parameter.
    fn derived(&self, _: &Results) -> Vec<PanelResult> {
        Vec::new()
    }

    /// A page of tables in Markdown, for experiments whose numbers the project's documents quote.
    fn page(&self, _: &Results) -> Option<String> {
        None
    }

    /// The paper's claims with verdicts. At [`Scale::Quick`] no claim is judged.
    fn claims(&self, results: &Results) -> Vec<Claim>;
}

/// Length of the runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Runs of seconds, which show that everything works.
    Quick,
    /// Runs as long as the paper's.
    Full,
}

impl Scale {
    /// `full` for full runs, `quick` for quick ones.
    pub fn of<T>(self, full: T, quick: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
        }
    }
}

/// One picture: mean curves over slots, each with a band of one standard error.
#[derive(Debug)]
pub struct Panel<S = Series> {
    /// Title above the picture.
    pub title: String,
    /// Label of the horizontal axis.
    pub x_label: &'static str,
    /// Label of the vertical axis.
    pub y_label: &'static str,
    /// Whether the horizontal axis is logarithmic.
    pub log_x: bool,
    /// Curves, in legend order.
    pub series: Vec<S>,
}

/// The results of a panel.
pub type PanelResult = Panel<SeriesResult>;

impl Panel {
    /// Regret over `x_label`.
    ///
    /// # Errors
    /// The first error among `series`.
    pub fn regret_over(
        x_label: &'static str,
        title: impl Into<String>,
        series: impl IntoIterator<Item = Result<Series>>,
    ) -> Result<Self> {
        let series = series.into_iter().collect::<Result<_>>()?;
        Ok(Panel { title: title.into(), x_label, y_label: "regret", log_x: false, series })
    }

    /// Regret over the logarithm of `x_label`.
    ///
    /// # Errors
    /// The first error among `series`.
    pub fn regret_over_log(
        x_label: &'static str,
        title: impl Into<String>,
        series: impl IntoIterator<Item = Result<Series>>,
    ) -> Result<Self> {
        Ok(Panel { log_x: true, ..Self::regret_over(x_label, title, series)? })
    }
}

/// One repetition of a series, as a function of the seed.
type Repetition = Box<dyn Fn(u64) -> Result<Run> + Send + Sync>;

/// One curve, as a function of the seed.
pub struct Series {
    /// Label in the legend, unique within its panel.
    pub label: String,
    /// Everything but the seed that determines the outcome. Kept runs are identified by it.
    pub settings: String,
    /// The last value computed by another implementation.
    pub reference: Option<Reference>,
    /// Computes the repetition of a seed.
    pub run: Repetition,
}

impl Series {
    /// A series without a reference.
    pub fn new(
        label: impl Into<String>,
        settings: String,
        run: impl Fn(u64) -> Result<Run> + Send + Sync + 'static,
    ) -> Self {
        Self { label: label.into(), settings, reference: None, run: Box::new(run) }
    }

    /// The same with a reference, mean and standard error, that holds for full runs only.
    pub fn referenced(mut self, scale: Scale, reference: impl Into<Option<(f64, f64)>>) -> Self {
        let reference = reference.into().filter(|_| scale == Scale::Full);
        self.reference = reference.map(|(mean, standard_error)| Reference { mean, standard_error });
        self
    }
}

/// Mean and standard error of the last value, computed by another implementation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Reference {
    /// Mean.
    pub mean: f64,
    /// Standard error of the mean.
    pub standard_error: f64,
}

/// One repetition of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Slot (or the parameter on the horizontal axis) and value; the slots are equal for all seeds.
    pub points: Vec<(f64, f64)>,
    /// Further numbers by name, such as shares of pulls and numbers of updates.
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

/// The results of an experiment.
#[derive(Debug)]
pub struct Results {
    /// Length of the runs.
    pub scale: Scale,
    /// Number of repetitions.
    pub seeds: u64,
    /// Whether there are enough repetitions to judge claims: 10, or the experiment's default if that is
    /// smaller.
    pub enough: bool,
    /// The panels of [`Experiment::panels`], then those of [`Experiment::derived`].
    pub panels: Vec<PanelResult>,
}

/// The results of a series: one run for each seed, from seed 0.
#[derive(Debug)]
pub struct SeriesResult {
    /// As in [`Series`].
    pub label: String,
    /// As in [`Series`]; empty for a derived series.
    pub settings: String,
    /// As in [`Series`].
    pub reference: Option<Reference>,
    /// Runs by seed.
    pub runs: Vec<Run>,
}

/// A claim of the paper, and the numbers found here.
#[derive(Debug, Clone, Serialize)]
pub struct Claim {
    /// The claim.
    pub paper: String,
    /// The result of an independent implementation.
    pub reference: String,
    /// The result of these runs.
    pub ours: String,
    /// The verdict on the claim.
    pub verdict: Verdict,
}

/// The verdict on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// These runs agree with the claim.
    Holds,
    /// These runs contradict the claim.
    DoesNotHold,
    /// These runs are too short or too few to judge the claim.
    NotTested,
}

impl Verdict {
    /// The verdict in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::DoesNotHold => "does not hold",
            Self::NotTested => "not tested at this length",
        }
    }
}

/// Joins the parts of a sentence by semicolons.
pub fn listed(parts: impl IntoIterator<Item = String>) -> String {
    parts.into_iter().collect::<Vec<_>>().join("; ")
}

/// The largest of `values` divided by the smallest.
pub fn spread(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max) / values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// `values` as whole numbers, joined by commas.
pub fn numbers(values: &[f64]) -> String {
    values.iter().map(|v| format!("{v:.0}")).collect::<Vec<_>>().join(", ")
}

impl Results {
    /// A claim that holds if `holds` does, unless the runs are too short or too few.
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

    /// The verdict that follows from `holds`, unless the runs are too short or too few.
    pub fn verdict(&self, holds: bool) -> Verdict {
        match (self.scale, self.enough, holds) {
            (Scale::Quick, ..) | (_, false, _) => Verdict::NotTested,
            (Scale::Full, _, true) => Verdict::Holds,
            (Scale::Full, _, false) => Verdict::DoesNotHold,
        }
    }

    /// The warning that precedes all results of runs that are too short or too few.
    pub fn caution(&self) -> Option<String> {
        match (self.scale, self.enough) {
            (Scale::Quick, _) => {
                Some(format!("Quick run: {} seeds, shortened; no figure is the paper's.", self.seeds))
            }
            (_, false) => Some(format!("{} seeds: too few to judge claims by.", self.seeds)),
            _ => None,
        }
    }

    /// Last values over a parameter, one curve for each label of the first panel. `at` holds the title of
    /// each panel and the value of the parameter in it.
    pub fn finals_over(
        &self,
        title: &str,
        x_label: &'static str,
        at: impl IntoIterator<Item = (String, f64)>,
    ) -> PanelResult {
        let panel = |(t, x): (String, f64)| Some((self.panels.iter().find(|p| p.title == t)?, x));
        let panels: Vec<_> = at.into_iter().filter_map(panel).collect();
        let curve = |label: &str| {
            let series: Vec<_> = panels.iter().filter_map(|(p, x)| Some((p.series(label)?, *x))).collect();
            let seeds = series.iter().map(|(s, _)| s.runs.len()).min().unwrap_or(0);
            let run =
                |seed: usize| Run::curve(series.iter().map(|(s, x)| (*x, s.runs[seed].last())).collect());
            SeriesResult::derived(label, (0..seeds).map(run).collect())
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

    /// The mean of the last values of the series `label` in the panel `title`; NaN if there is none.
    pub fn last(&self, title: &str, label: &str) -> f64 {
        self.series(title, label).map_or(f64::NAN, SeriesResult::mean)
    }

    /// The number of series with a reference that agree with it; each series counts once.
    pub fn agreement(&self) -> Claim {
        // By settings: a series that occurs in two panels counts once.
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
        let paper = "(No claim of the paper: our own check of the last values.)";
        if seen.is_empty() {
            let reference = "values of an independent implementation, for runs of full length";
            let ours = "nothing to compare".into();
            return Claim {
                paper: paper.into(),
                reference: reference.into(),
                ours,
                verdict: Verdict::NotTested,
            };
        }
        let rest = if apart.is_empty() { String::new() } else { format!("; not {}", apart.join("; ")) };
        self.claim(
            paper,
            "last values of an independent implementation, in the tables",
            format!("{agree} of {} within three standard errors{rest}", seen.len()),
            // One in a hundred may disagree by chance, and heavy tails add to it.
            agree as f64 >= 0.95 * seen.len() as f64,
        )
    }
}

impl PanelResult {
    /// The series of this label.
    pub fn series(&self, label: &str) -> Option<&SeriesResult> {
        self.series.iter().find(|s| s.label == label)
    }

    /// The mean of the last values of the series `label`; NaN if there is none.
    pub fn last(&self, label: &str) -> f64 {
        self.series(label).map_or(f64::NAN, SeriesResult::mean)
    }
}

impl SeriesResult {
    /// A series computed from other results.
    pub fn derived(label: &str, runs: Vec<Run>) -> Self {
        Self { label: label.to_owned(), settings: String::new(), reference: None, runs }
    }

    /// Last values, by seed.
    pub fn finals(&self) -> Vec<f64> {
        self.runs.iter().map(Run::last).collect()
    }

    /// Mean of the last values, with its standard error, which is 0 for a single run.
    pub fn last(&self) -> Summary {
        summary(&self.finals())
    }

    /// Mean of the last values.
    pub fn mean(&self) -> f64 {
        self.last().mean
    }

    /// The last values as `mean ± standard error`, with this number of decimals.
    pub fn shown(&self, decimals: usize) -> String {
        let Summary { mean, standard_error } = self.last();
        format!("{mean:.decimals$} ± {standard_error:.decimals$}")
    }

    /// Last values less those of `other`, paired by seed, since equal seeds draw equal slots.
    pub fn less(&self, other: &Self) -> Summary {
        let pairs = self.runs.iter().zip(&other.runs);
        summary(&pairs.map(|(a, b)| a.last() - b.last()).collect::<Vec<_>>())
    }

    /// The ratio of the mean of the last values to that of `other`.
    pub fn over(&self, other: &Self) -> f64 {
        self.mean() / other.mean()
    }

    /// Whether the mean paired difference to `other` is below zero by two standard errors or more.
    pub fn ends_below(&self, other: &Self) -> bool {
        let Summary { mean, standard_error } = self.less(other);
        mean < -2.0 * standard_error
    }

    /// Median of the last values; 0 if there are none.
    pub fn median(&self) -> f64 {
        let mut finals = self.finals();
        finals.sort_by(f64::total_cmp);
        let (upper, lower) = (finals.len() / 2, finals.len().saturating_sub(1) / 2);
        match (finals.get(lower), finals.get(upper)) {
            (Some(a), Some(b)) => 0.5 * (a + b),
            _ => 0.0,
        }
    }

    /// Share of runs that end above three times the median. If it is positive, these runs dominate the mean.
    pub fn stuck(&self) -> f64 {
        let limit = 3.0 * self.median();
        self.finals().iter().filter(|v| **v > limit).count() as f64 / self.runs.len().max(1) as f64
    }

    /// Whether the mean is within three standard errors of the reference, plus half a unit of the reference's
    /// last digit, since some runs do not vary at all. `None` without a reference.
    pub fn agrees(&self) -> Option<bool> {
        let reference = self.reference?;
        let last = self.last();
        let error = last.standard_error.hypot(reference.standard_error);
        let digits = format!("{}", reference.mean).split_once('.').map_or(0, |(_, d)| d.len());
        let rounding = 0.5 * 10f64.powi(-(digits as i32)) + 1e-9;
        Some((last.mean - reference.mean).abs() <= 3.0 * error + rounding)
    }

    /// Slot, and mean with standard error, along the curve.
    pub fn curve(&self) -> Vec<(f64, Summary)> {
        let Some(first) = self.runs.first() else { return Vec::new() };
        let at = |i: usize| self.runs.iter().filter_map(|r| r.points.get(i)).map(|p| p.1).collect::<Vec<_>>();
        first.points.iter().enumerate().map(|(i, p)| (p.0, summary(&at(i)))).collect()
    }

    /// Mean at the last point at or before `slot`; 0 before the first point.
    pub fn at(&self, slot: f64) -> f64 {
        self.curve().iter().take_while(|p| p.0 <= slot).last().map_or(0.0, |p| p.1.mean)
    }

    /// Mean of a further number of [`Run::figures`].
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
        SeriesResult::derived("", last.iter().map(|v| Run::curve(vec![(1.0, *v)])).collect())
    }

    #[test]
    fn medians_are_in_the_middle() {
        for (last, median) in [(&[][..], 0.0), (&[3.0], 3.0), (&[4.0, 1.0], 2.5), (&[9.0, 1.0, 2.0], 2.0)] {
            assert_eq!(series(last).median(), median);
        }
    }

    /// Runs that are too short or too few judge no claim, and the report says so.
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
