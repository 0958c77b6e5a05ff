//! Experiments and their results.

use crate::made::Origin;
pub use crate::verdict::{Claim, Decision, Interval, Verdict};
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
    /// What stands in for the paper's data in verdicts, if the data cannot be had.
    pub stand_in: Option<&'static str>,
    /// Default number of independent repetitions: of full runs, and of quick ones.
    pub seeds: [u64; 2],
}

/// The text of [`Results::agreement`].
pub const AGREES: &str = "The last values are those of an independent implementation, within three errors of both \
                          sides, but for one series in twenty";

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
    /// Whether the vertical axis is logarithmic.
    pub log_y: bool,
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
        Ok(Panel { title: title.into(), x_label, y_label: "regret", log_x: false, log_y: false, series })
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

/// The further number of a run that computes on a thread of its own: the processor time of that thread.
pub const SECONDS: &str = "seconds";

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

/// The number of repetitions from which claims are judged: with fewer, the errors themselves are too
/// uncertain.
pub const JUDGED: u64 = 10;

/// The results of an experiment.
#[derive(Debug)]
pub struct Results {
    /// Length of the runs.
    pub scale: Scale,
    /// Number of repetitions.
    pub seeds: u64,
    /// As in [`Card`].
    pub stand_in: Option<&'static str>,
    /// Where the runs come from.
    pub origin: Origin,
    /// The panels of [`Experiment::panels`], then those of [`Experiment::derived`].
    pub panels: Vec<PanelResult>,
}

/// The results of a series: one run for each seed, from seed 0.
#[derive(Debug, Clone)]
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

/// Joins the parts of a sentence by semicolons.
pub fn listed(parts: impl IntoIterator<Item = String>) -> String {
    parts.into_iter().collect::<Vec<_>>().join("; ")
}

/// `values` as whole numbers, joined by commas.
pub fn numbers(values: &[f64]) -> String {
    values.iter().map(|v| format!("{v:.0}")).collect::<Vec<_>>().join(", ")
}

impl Results {
    /// A claim of the paper.
    pub fn claim(
        &self,
        text: impl Into<String>,
        reference: impl Into<String>,
        ours: impl Into<String>,
        decision: Decision,
    ) -> Claim {
        let (verdict, wanted) = self.verdict(decision);
        Claim {
            text: text.into(),
            of_paper: true,
            stand_in: self.stand_in,
            reference: reference.into(),
            ours: ours.into(),
            verdict,
            wanted,
        }
    }

    /// A claim of this project.
    pub fn own(
        &self,
        text: impl Into<String>,
        reference: impl Into<String>,
        ours: impl Into<String>,
        decision: Decision,
    ) -> Claim {
        Claim { of_paper: false, ..self.claim(text, reference, ours, decision) }
    }

    /// The verdict that follows from `decision`, and the number of runs that would decide.
    pub fn verdict(&self, decision: Decision) -> (Verdict, Option<u64>) {
        match (self.scale, decision) {
            (Scale::Quick, _) => (Verdict::NotTested, None),
            (Scale::Full, _) if self.seeds < JUDGED => (Verdict::NotDecided, Some(JUDGED)),
            (Scale::Full, Decision::Yes) => (Verdict::Holds, None),
            (Scale::Full, Decision::No) => (Verdict::DoesNotHold, None),
            (Scale::Full, Decision::Open(times)) => {
                // So many runs that nobody would make them are no advice.
                let runs = (times * self.seeds as f64).ceil();
                (Verdict::NotDecided, (runs <= 1e6).then(|| (runs as u64).max(self.seeds + 1)))
            }
        }
    }

    /// The warning that precedes all results of runs that are too short or too few.
    pub fn caution(&self) -> Option<String> {
        match (self.scale, self.seeds) {
            (Scale::Quick, _) => {
                Some(format!("Quick run: {} seeds, shortened; no figure is the paper's.", self.seeds))
            }
            (_, seeds) if seeds < JUDGED => Some(format!("{seeds} seeds: too few to judge claims by.")),
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
        // A series of any panel, since some panels have more than others.
        let mut labels: Vec<&str> = Vec::new();
        for series in panels.iter().flat_map(|(p, _)| &p.series) {
            if !labels.contains(&series.label.as_str()) {
                labels.push(&series.label);
            }
        }
        let series: Vec<_> = labels.into_iter().map(curve).collect();
        let values = || series.iter().flat_map(|s| s.curve()).map(|p| p.1.mean);
        let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        PanelResult {
            title: title.to_owned(),
            x_label,
            y_label: panels.first().map_or("", |(p, _)| p.y_label),
            log_x: true,
            // Values that differ by more than an order of magnitude.
            log_y: least > 0.0 && most > 12.0 * least,
            series,
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
        let reference = "in the tables";
        let rest = if apart.is_empty() { String::new() } else { format!("; not {}", apart.join("; ")) };
        let ours = match seen.len() {
            0 => "nothing to compare".into(),
            all => format!("{agree} of {all}{rest}"),
        };
        // One in a hundred may disagree by chance, and heavy tails add to it.
        let decision = match seen.len() {
            0 => Decision::Open(f64::NAN),
            all if agree as f64 >= 0.95 * all as f64 => Decision::Yes,
            _ => Decision::No,
        };
        Claim { stand_in: None, ..self.own(AGREES, reference, ours, decision) }
    }

    /// The mean over seeds of a sum of last values, each with a factor. NaN if one of the series is missing.
    pub fn sum(&self, terms: &[(f64, Option<&SeriesResult>)]) -> Interval {
        let runs = terms.iter().map(|(_, s)| s.map_or(0, |s| s.runs.len())).min().unwrap_or(0);
        let of = |seed: usize| {
            terms.iter().filter_map(|(f, s)| Some(f * s.as_ref()?.runs.get(seed)?.last())).sum::<f64>()
        };
        Interval::of(&(0..runs).map(of).collect::<Vec<_>>())
    }

    /// Whether `a` ends below `factor` times `b`.
    pub fn ends_below(&self, a: Option<&SeriesResult>, factor: f64, b: Option<&SeriesResult>) -> Decision {
        self.sum(&[(1.0, a), (-factor, b)]).below(0.0)
    }

    /// Whether `a` ends above `factor` times `b`.
    pub fn ends_above(&self, a: Option<&SeriesResult>, factor: f64, b: Option<&SeriesResult>) -> Decision {
        self.sum(&[(1.0, a), (-factor, b)]).above(0.0)
    }

    /// Whether each of the series ends below `factor` times each other.
    pub fn alike(&self, series: &[Option<&SeriesResult>], factor: f64) -> Decision {
        let pairs = series.iter().enumerate().flat_map(|(i, a)| {
            series.iter().enumerate().filter(move |(j, _)| *j != i).map(move |(_, b)| (*a, *b))
        });
        Decision::all(pairs.map(|(a, b)| self.ends_below(a, factor, b)))
    }

    /// Whether each of the series ends below the one before it.
    pub fn falling(&self, series: &[Option<&SeriesResult>]) -> Decision {
        Decision::all(series.windows(2).map(|w| self.ends_below(w[1], 1.0, w[0])))
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

    /// Number of runs that end above three times the median. If there are any, they dominate the mean.
    pub fn stuck(&self) -> usize {
        let limit = 3.0 * self.median();
        self.finals().iter().filter(|v| **v > limit).count()
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

    /// The mean with its interval of the value at `slot` less `factor` times that at `earlier`.
    pub fn growth(&self, slot: f64, factor: f64, earlier: f64) -> Interval {
        let at =
            |run: &Run, slot: f64| run.points.iter().take_while(|p| p.0 <= slot).last().map_or(0.0, |p| p.1);
        Interval::of(&self.runs.iter().map(|r| at(r, slot) - factor * at(r, earlier)).collect::<Vec<_>>())
    }

    /// A further number of [`Run::figures`], with its interval.
    pub fn figure_interval(&self, name: &str) -> Interval {
        Interval::of(&self.runs.iter().filter_map(|r| r.figures.get(name).copied()).collect::<Vec<_>>())
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
        let results = |scale, seeds| Results {
            scale,
            seeds,
            stand_in: None,
            origin: Origin::default(),
            panels: Vec::new(),
        };
        for (scale, seeds, verdict, says) in [
            (Scale::Full, 10, (Verdict::Holds, None), None),
            (Scale::Full, 9, (Verdict::NotDecided, Some(10)), Some("too few")),
            (Scale::Quick, 10, (Verdict::NotTested, None), Some("Quick run: 10 seeds")),
        ] {
            let results = results(scale, seeds);
            assert_eq!(results.verdict(Decision::Yes), verdict);
            assert_eq!(results.caution().is_some(), says.is_some());
            assert!(says.is_none_or(|says| results.caution().unwrap().contains(says)));
            assert!(matches!(results.agreement().verdict, Verdict::NotTested | Verdict::NotDecided));
        }
        let results = results(Scale::Full, 20);
        assert_eq!(results.verdict(Decision::No), (Verdict::DoesNotHold, None));
        assert_eq!(results.verdict(Decision::Open(2.0)), (Verdict::NotDecided, Some(40)));
        assert_eq!(results.verdict(Decision::Open(f64::NAN)), (Verdict::NotDecided, None));
        assert_eq!(results.verdict(Decision::Open(0.5)), (Verdict::NotDecided, Some(21)));
    }

    /// Both sides of a comparison enter its error, seed by seed.
    #[test]
    fn comparisons_are_paired() {
        let results = Results {
            scale: Scale::Full,
            seeds: 10,
            stand_in: None,
            origin: Origin::default(),
            panels: Vec::new(),
        };
        let noise: Vec<f64> = (0..10).map(|i| f64::from(i * 7 % 10)).collect();
        let a = series(&noise.iter().map(|n| 100.0 + n).collect::<Vec<_>>());
        let b = series(&noise.iter().map(|n| 100.5 + n).collect::<Vec<_>>());
        let (a, b) = (Some(&a), Some(&b));
        assert_eq!(results.ends_below(a, 1.0, b), Decision::Yes);
        assert_eq!(results.ends_above(a, 1.0, b), Decision::No);
        assert_eq!(results.falling(&[b, a]), Decision::Yes);
        assert_eq!(results.falling(&[a, b]), Decision::No);
        assert_eq!(results.alike(&[a, b], 1.1), Decision::Yes);
        assert_eq!(results.alike(&[a, b], 1.0), Decision::No);
        assert!(matches!(results.ends_below(a, 1.0, None), Decision::Open(_)));
    }
}
