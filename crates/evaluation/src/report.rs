//! What an evaluation found: numbers, a recommendation by a stated rule, a table, a picture.

use crate::{Error, Unfit, WeightTest};
use datasets::{Dataset, Observed};
use serde::Serialize;
use serde_json::{Map, Value};
use std::io::{BufWriter, Write};
use std::path::Path;

/// The most curves of the picture, besides the baselines.
const CURVES: usize = 6;
/// The least number of effective rounds on which a recommendation rests.
const LEAST_EFFECTIVE: f64 = 50.0;

/// Policies and baselines on the rounds of a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EvaluationReport {
    /// Number of rounds.
    pub rounds: usize,
    /// Number of candidates of a round.
    pub candidates: usize,
    /// Number of features of a candidate.
    pub features: usize,
    /// What `measured` is.
    pub measure: Measure,
    /// Number of runs of each policy.
    pub seeds: u64,
    /// Baselines first, then policies.
    pub entries: Vec<Entry>,
    /// Policies that were left out.
    pub unfit: Vec<Unfit>,
    /// Why nothing can be recommended from this file, whatever policies earned.
    pub doubts: Vec<String>,
    /// What may go wrong with policies as they are configured.
    pub warnings: Vec<String>,
    /// The smallest difference of the scores of two candidates, in units of reward, that the encrypted bandit
    /// compares reliably after the last round. Of two that are closer it may play either.
    pub resolution: f64,
    /// The numbers in the file that are reward 0 and reward 1, if its schema sets them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reward_range: Option<[f64; 2]>,
    /// The resolution in units of the file, if its schema sets the range of rewards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution_in_file: Option<f64>,
    /// What follows from the numbers.
    pub recommendation: Recommendation,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// The mean reward of a replay.
    Replay,
    /// The doubly robust estimate of the mean reward.
    DoublyRobust,
    /// The mean of a model of rewards, because the log has no probabilities. It is biased where the model is
    /// wrong.
    Direct,
}

/// A number with the ends of its interval of 95 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// A mean reward as the file writes rewards.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct InFile {
    /// The number.
    pub value: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Half of the length of the interval.
    pub half_width: f64,
}

impl Estimate {
    /// The mean reward where `zero` and `one` of the file are reward 0 and reward 1.
    pub fn in_file(&self, [zero, one]: [f64; 2]) -> InFile {
        let of = |reward: f64| zero + (one - zero) * reward;
        let (a, b) = (of(self.low), of(self.high));
        InFile { value: of(self.value), low: a.min(b), high: a.max(b), half_width: (b - a).abs() / 2.0 }
    }
}

/// A policy or baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// Its name, with the values of the grid.
    pub name: String,
    /// Whether it is a baseline.
    pub baseline: bool,
    /// The mean reward: replayed, the doubly robust estimate, or that of a model.
    pub measured: Estimate,
    /// The same in units of the file, if its schema sets the range of rewards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_in_file: Option<InFile>,
    /// The IPS estimate, from logged actions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ips: Option<Estimate>,
    /// The SNIPS estimate, from logged actions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snips: Option<Estimate>,
    /// Number of rounds with equal weights that would estimate as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effective_rounds: Option<f64>,
    /// The mean of the weights, which is 1 if the probabilities of the log are true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<WeightTest>,
    /// Standard deviation of the measure between runs: how far a single run is off.
    pub deviation_of_runs: f64,
    /// Epsilon of the guarantee, if there is one.
    pub epsilon: Option<f64>,
    /// Delta of the guarantee, if there is one.
    pub delta: Option<f64>,
    /// The guarantee in words.
    pub privacy: Option<String>,
    /// The parameters of the policy.
    pub parameters: Option<Map<String, Value>>,
    /// Whether it is the encrypted bandit.
    pub encrypted: bool,
    /// Why no keys carry it, if it is the encrypted bandit and none do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_keys: Option<String>,
    /// The lower end of the least difference to a baseline, at 95 % for all policies together. `None` for
    /// baselines.
    pub above_baselines: Option<f64>,
    /// The difference to a baseline that would be found in four of five such files. `None` for baselines.
    pub detects: Option<f64>,
    /// The mean term of the measure at each place of the orders; of baselines by round of the file.
    #[serde(skip)]
    pub curve: Vec<f64>,
    /// The arms picked, run by run and in each by round of the file, if they are kept.
    #[serde(skip)]
    pub picks: Vec<Vec<u32>>,
}

impl Entry {
    /// Why the policy is not compared with the baselines, if it is not.
    fn aside(&self) -> Option<String> {
        let few = self.effective_rounds.filter(|rounds| *rounds < LEAST_EFFECTIVE);
        match (&self.no_keys, &self.weights) {
            (Some(reason), _) => Some(reason.clone()),
            (_, Some(test)) if test.below => Some(format!(
                "its weights average {:.2} and not 1: the log seldom or never shows what it picks, or its probabilities are too large",
                test.mean
            )),
            _ => few.map(|rounds| {
                format!("it has {rounds:.0} effective rounds, and {LEAST_EFFECTIVE} are needed")
            }),
        }
    }
}

/// What follows from the numbers, by the rule in `rule`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recommendation {
    /// The policy, or the baseline if no policy is shown to be better; `None` if the file does not tell.
    pub policy: Option<String>,
    /// The same among policies with a privacy guarantee; `None` if none of them is shown to be better.
    pub private: Option<String>,
    /// The encrypted bandit, if it is shown to be better and there are keys for it.
    pub encrypted: Option<String>,
    /// The rule.
    pub rule: &'static str,
    /// The recommendation in a paragraph.
    pub paragraph: String,
}

const RULE: &str = "A policy is better than the baselines if its mean reward exceeds that of each of them, at 95 % for all policies and \
                    values of a grid together: of many policies that are no better, one would look so by chance, so that they share the \
                    5 % (Bonferroni). Among those that are, the one with the highest lower end of its interval is recommended; if none is, \
                    the best baseline. Bandits on ciphertexts that no keys carry are left aside, and with logged actions policies with \
                    fewer than 50 effective rounds or weights that do not average 1. Intervals in the table are for one policy each.";

pub(crate) fn recommend(entries: &[Entry], measure: Measure, doubts: &[String]) -> Recommendation {
    let nothing =
        |paragraph| Recommendation { policy: None, private: None, encrypted: None, rule: RULE, paragraph };
    if !doubts.is_empty() {
        return nothing(format!("Nothing is recommended. {}.", doubts.join(". ")));
    }
    let aside: Vec<(&Entry, String)> =
        entries.iter().filter(|e| !e.baseline).filter_map(|e| Some((e, e.aside()?))).collect();
    let compared: Vec<&Entry> = entries
        .iter()
        .filter(|e| !e.baseline && aside.iter().all(|(other, _)| other.name != e.name))
        .collect();
    let shown = |e: &Entry| {
        let Estimate { value, low, high } = e.measured;
        format!("{} ({value:.3}, 95 % interval {low:.3} to {high:.3})", e.name)
    };
    let Some(baseline) =
        entries.iter().filter(|e| e.baseline).max_by(|a, b| a.measured.value.total_cmp(&b.measured.value))
    else {
        return nothing("Nothing is known.".into());
    };
    let least = |e: &Entry| e.above_baselines.unwrap_or(f64::NEG_INFINITY);
    let best = |among: &dyn Fn(&Entry) -> bool| {
        let better = compared.iter().copied().filter(|e| least(e) > 0.0 && among(e));
        // The first of equals: helba comes first.
        better.fold(None, |best: Option<&Entry>, e| {
            best.filter(|b| b.measured.low >= e.measured.low).or(Some(e))
        })
    };
    let (policy, private, encrypted) =
        (best(&|_| true), best(&|e| e.epsilon.is_some()), best(&|e| e.encrypted));
    let policies = entries.iter().filter(|e| !e.baseline).count();
    let together = format!("at 95 % for the {policies} policies together");
    let mut text = match policy {
        Some(policy) => format!(
            "Recommended: {}. The best baseline is {}. The policy is better than each baseline by at least {:.3}, {together}.",
            shown(policy),
            shown(baseline),
            least(policy)
        ),
        None if compared.is_empty() => {
            format!("No policy can be compared with {}.", shown(baseline))
        }
        None => format!("No policy is shown to be better than {}, {together}.", shown(baseline)),
    };
    if let Some(best) = policy {
        let within = |e: &&&Entry| e.name != best.name && e.measured.high >= best.measured.low;
        let others: Vec<String> = compared.iter().filter(within).map(|e| e.name.clone()).collect();
        if !others.is_empty() {
            text += &format!(" Intervals that overlap with it: {}.", others.join(", "));
        }
    }
    text += &match encrypted {
        Some(e) if policy.is_some_and(|policy| policy.encrypted) => {
            format!(" It runs on ciphertexts; keys carry {}.", e.name)
        }
        Some(e) => format!(" On ciphertexts: {}.", shown(e)),
        None if entries.iter().any(|e| e.encrypted) => {
            " No bandit on ciphertexts is shown to be better than the baselines.".into()
        }
        None => String::new(),
    };
    text += &match private {
        Some(p) => {
            let epsilon = p.epsilon.unwrap_or(f64::INFINITY);
            format!(" With a privacy guarantee: {}, at epsilon {epsilon:.3}.", shown(p))
        }
        None => " No policy with a privacy guarantee is shown to be better than the baselines.".into(),
    };
    for (e, reason) in &aside {
        text += &format!(" Left aside: {}: {reason}.", shown(e));
    }
    let finest = compared.iter().filter_map(|e| Some((e, e.detects?)));
    if let Some((e, detects)) = finest.max_by(|(a, _), (b, _)| a.measured.value.total_cmp(&b.measured.value))
    {
        text += &format!(
            " These rounds tell a policy such as {} from the baselines if the mean rewards differ by {detects:.3} or more, in four of \
             five such files.",
            e.name
        );
    }
    if measure == Measure::DoublyRobust {
        text += " Policies learnt in every round from a reward drawn by a model of the log, and the estimates correct the values for its errors.";
    }
    Recommendation {
        policy: Some(policy.unwrap_or(baseline).name.clone()),
        private: private.map(|e| e.name.clone()),
        encrypted: encrypted.map(|e| e.name.clone()),
        rule: RULE,
        paragraph: text,
    }
}

impl EvaluationReport {
    /// The entry of this name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The table, the recommendation and its rule, as lines of text.
    pub fn lines(&self) -> Vec<String> {
        let logged = self.measure == Measure::DoublyRobust;
        let measured = match self.measure {
            Measure::Replay => "by replay",
            Measure::DoublyRobust => "estimated from logged actions",
            Measure::Direct => {
                "by a model of rewards, for there are no probabilities (biased where the model is wrong)"
            }
        };
        let mut lines = vec![format!(
            "{} rounds, {} candidates, {} features; mean reward {measured}; intervals of 95 % for the mean reward of {} rounds, over {} \
             runs with the rounds in random orders",
            self.rounds, self.candidates, self.features, self.rounds, self.seeds
        )];
        let name = match self.measure {
            Measure::Replay => "mean",
            Measure::DoublyRobust => "DR",
            Measure::Direct => "model",
        };
        let mut head = format!("{:36} {name:>7} {:>18}", "", "95 %");
        if self.reward_range.is_some() {
            head += &format!(" {:>22}", "in units of the file");
        }
        if logged {
            head += &format!(
                " {:>7} {:>18} {:>7} {:>18} {:>9} {:>7}",
                "IPS", "95 %", "SNIPS", "95 %", "effective", "weight"
            );
        }
        lines.push(head + &format!(" {:>8} {:>8}", "runs ±", "epsilon"));
        let mut sorted: Vec<&Entry> = self.entries.iter().collect();
        sorted.sort_by(|a, b| b.measured.value.total_cmp(&a.measured.value));
        for e in sorted {
            let cell =
                |e: Estimate| format!(" {:7.4} {:>18}", e.value, format!("{:.4} to {:.4}", e.low, e.high));
            let mut line = format!(
                "{:36}{}",
                if e.baseline { format!("[{}]", e.name) } else { e.name.clone() },
                cell(e.measured)
            );
            if let Some(InFile { value, half_width, .. }) = e.measured_in_file {
                line += &format!(" {:>22}", format!("{value:.4} ± {half_width:.4}"));
            }
            if let (Some(ips), Some(snips), Some(effective)) = (e.ips, e.snips, e.effective_rounds) {
                let weight = e.weights.as_ref().map_or(1.0, |test| test.mean);
                line += &format!("{}{} {effective:9.0} {weight:7.3}", cell(ips), cell(snips));
            }
            line += &match e.baseline {
                true => String::new(),
                false => format!(
                    " {:8.4} {:>8}",
                    e.deviation_of_runs,
                    e.epsilon.map_or("-".into(), |x| format!("{x:.3}"))
                ),
            };
            lines.push(line.trim_end().into());
        }
        for Unfit { policy, reason } in &self.unfit {
            lines.push(format!("left out: {policy}: {reason}"));
        }
        lines.extend(self.warnings.iter().map(|warning| format!("warning: {warning}")));
        if let Some([zero, one]) = self.reward_range {
            lines.push(format!(
                "Rewards 0 and 1 are {zero} and {one} in the file: a difference of 0.01 is one of {:.4} there",
                0.01 * (one - zero).abs()
            ));
        }
        if self.entries.iter().any(|e| e.encrypted) {
            let in_file =
                self.resolution_in_file.map_or(String::new(), |x| format!(" ({x:.4} in units of the file)"));
            lines.push(format!(
                "On ciphertexts, after {} rounds a device may play a candidate whose score is up to {:.4} of reward{in_file} below the \
                 best one's (docs/throughput.md, Ties)",
                self.rounds, self.resolution
            ));
        }
        lines.push(String::new());
        lines.push(self.recommendation.paragraph.clone());
        lines.push(format!("Rule: {}", self.recommendation.rule));
        lines
    }

    /// What was picked, as lines of a table, the header first: policy, run, round of the file from 1,
    /// candidate, and of logged actions the weight of the round. `take` gets each line.
    ///
    /// # Errors
    /// The first error of `take`.
    pub fn decisions<E>(
        &self,
        dataset: &Dataset,
        mut take: impl FnMut(std::fmt::Arguments<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let weighted = self.measure == Measure::DoublyRobust;
        take(format_args!("policy,run,round,candidate{}", if weighted { ",weight" } else { "" }))?;
        for entry in &self.entries {
            for (run, picks) in entry.picks.iter().enumerate() {
                for (t, (pick, round)) in picks.iter().zip(dataset.rounds()).enumerate() {
                    let (name, arm) = (quoted(&entry.name), *pick as usize);
                    let candidate = quoted(dataset.arms().get(arm).map_or("", String::as_str));
                    let t = t + 1;
                    match round.observed {
                        Observed::Played { arm: logged, propensity: Some(p), .. } if weighted => {
                            let weight = if arm == logged { 1.0 / p } else { 0.0 };
                            take(format_args!("{name},{run},{t},{candidate},{weight}"))?;
                        }
                        _ => take(format_args!("{name},{run},{t},{candidate}"))?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes the lines of [`decisions`](Self::decisions) to a file, whole or not at all.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_decisions(&self, dataset: &Dataset, path: &Path) -> std::io::Result<()> {
        let draft = host::Draft::create(path)?;
        let mut writer = BufWriter::new(draft.file());
        self.decisions(dataset, |line| writeln!(writer, "{line}"))?;
        writer.flush()?;
        drop(writer);
        draft.finish()
    }

    /// The mean of the measure up to each round, averaged over runs, of the baselines and the best policies,
    /// as an SVG document. Bands are 1.96 standard errors of a mean over so many rounds, without that over
    /// runs.
    ///
    /// # Errors
    /// [`Error::Plot`] if there is nothing to draw.
    pub fn svg(&self, title: &str) -> Result<String, Error> {
        let mut policies: Vec<&Entry> = self.entries.iter().filter(|e| !e.baseline).collect();
        policies.sort_by(|a, b| b.measured.value.total_cmp(&a.measured.value));
        let shown = policies.into_iter().take(CURVES).chain(self.entries.iter().filter(|e| e.baseline));
        let curve = |e: &'_ Entry| {
            let (mut sum, mut squares, mut points) = (0.0, 0.0, Vec::new());
            let step = (e.curve.len() / 400).max(1);
            for (t, x) in e.curve.iter().enumerate() {
                (sum, squares) = (sum + x, squares + x * x);
                let n = (t + 1) as f64;
                // The first rounds say nothing, and would set the scale of the picture.
                if t >= 20 && (t % step == 0 || t + 1 == e.curve.len()) {
                    let (mean, spread) = (sum / n, (squares / n - (sum / n).powi(2)).max(0.0));
                    let half = 1.96 * (spread / n).sqrt();
                    points.push(plot::Point { x: n, low: mean - half, y: mean, high: mean + half });
                }
            }
            points
        };
        let curves = shown
            .enumerate()
            .map(|(i, e)| plot::Curve { name: &e.name, style: plot::Style::of(i), points: curve(e) })
            .collect();
        let y_label = match self.measure {
            Measure::Replay => "mean reward so far",
            Measure::DoublyRobust => "mean reward so far, doubly robust",
            Measure::Direct => "mean reward so far, by a model",
        };
        Ok(plot::Figure { title, x_label: "round", y_label, log_x: false, log_y: false, curves }.svg()?)
    }
}

/// A cell of comma-separated values.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.into(),
    }
}
