//! What an evaluation found: numbers, a recommendation by a stated rule, a table, a picture.

use crate::{Error, Unfit};
use serde::Serialize;
use serde_json::{Map, Value};

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
    /// Number of seeds of each policy.
    pub seeds: u64,
    /// Number of resamples behind the intervals.
    pub resamples: u64,
    /// Baselines first, then policies.
    pub entries: Vec<Entry>,
    /// Policies that were left out.
    pub unfit: Vec<Unfit>,
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

/// A policy or baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Whether it is a baseline.
    pub baseline: bool,
    /// The mean reward: replayed, or the doubly robust estimate.
    pub measured: Estimate,
    /// The IPS estimate, from logged actions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ips: Option<Estimate>,
    /// The SNIPS estimate, from logged actions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snips: Option<Estimate>,
    /// Number of rounds with equal weights that would estimate as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effective_rounds: Option<f64>,
    /// Standard deviation of the measure between seeds.
    pub deviation_of_seeds: f64,
    /// Epsilon of the guarantee, if there is one.
    pub epsilon: Option<f64>,
    /// Delta of the guarantee, if there is one.
    pub delta: Option<f64>,
    /// The guarantee in words.
    pub privacy: Option<String>,
    /// The parameters of the policy.
    pub parameters: Option<Map<String, Value>>,
    /// The least difference to a baseline, at 95 % for all policies that are compared together. `None` for
    /// baselines, and for policies with too few effective rounds.
    pub above_baselines: Option<f64>,
    /// Terms of the measure by round.
    #[serde(skip)]
    pub terms: Vec<f64>,
}

impl Entry {
    /// Whether the policy has enough rounds to be compared with the baselines.
    pub(crate) fn is_compared(&self) -> bool {
        !self.baseline && self.effective_rounds.is_none_or(|rounds| rounds >= LEAST_EFFECTIVE)
    }
}

/// What follows from the numbers, by the rule in `rule`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recommendation {
    /// The policy, or the baseline if no policy is shown to be better; `None` if too little is known.
    pub policy: Option<String>,
    /// The same among policies with a privacy guarantee; `None` if none of them is shown to be better.
    pub private: Option<String>,
    /// The rule.
    pub rule: &'static str,
    /// The recommendation in a paragraph.
    pub paragraph: String,
}

const RULE: &str = "A policy is better than the baselines if its mean reward exceeds that of each of them, at 95 % for all policies \
                    together: of many policies that are no better, one would look so by chance, which is corrected for (the largest \
                    studentised difference over bootstrap resamples; White, A Reality Check for Data Snooping, 2000). Among those that \
                    are, the one with the highest lower end of its interval is recommended; if none is, the best baseline. With logged \
                    actions, policies with fewer than 50 effective rounds are left aside. Intervals in the table are for one policy each.";

pub(crate) fn recommend(entries: &[Entry], measure: Measure) -> Recommendation {
    let shown = |e: &Entry| {
        let Estimate { value, low, high } = e.measured;
        format!("{} ({value:.3}, 95 % interval {low:.3} to {high:.3})", e.name)
    };
    let baseline =
        entries.iter().filter(|e| e.baseline).max_by(|a, b| a.measured.value.total_cmp(&b.measured.value));
    let least = |e: &Entry| e.above_baselines.unwrap_or(f64::NEG_INFINITY);
    let best = |private: bool| {
        entries
            .iter()
            .filter(|e| least(e) > 0.0 && (!private || e.epsilon.is_some()))
            // The first of equals: helba comes first.
            .fold(None, |best: Option<&Entry>, e| {
                best.filter(|b| b.measured.low >= e.measured.low).or(Some(e))
            })
    };
    let (policy, private) = (best(false), best(true));
    let compared = entries.iter().filter(|e| e.is_compared()).count();
    let aside = entries.iter().filter(|e| !e.baseline && !e.is_compared()).count();
    let mut text = match (policy, baseline) {
        (Some(policy), Some(baseline)) => {
            format!(
                "Recommended: {}. The best baseline is {}. The policy is better than each baseline by at least {:.3}, at 95 % for the \
                 {compared} policies compared.",
                shown(policy),
                shown(baseline),
                least(policy)
            )
        }
        (None, Some(baseline)) => format!(
            "No policy is shown to be better than {}, at 95 % for the {compared} policies compared.",
            shown(baseline)
        ),
        (Some(policy), None) => format!("Recommended: {}.", shown(policy)),
        (None, None) => "Nothing is known.".into(),
    };
    let others = |best: &Entry| {
        let within = |e: &&Entry| !e.baseline && e.name != best.name && e.measured.high >= best.measured.low;
        entries.iter().filter(within).map(|e| e.name.clone()).collect::<Vec<_>>()
    };
    if let Some(others) = policy.map(others).filter(|others| !others.is_empty()) {
        text += &format!(" Intervals that overlap with it: {}.", others.join(", "));
    }
    text += &match private {
        Some(p) => {
            let epsilon = p.epsilon.unwrap_or(f64::INFINITY);
            format!(" With a privacy guarantee: {}, at epsilon {epsilon:.3}.", shown(p))
        }
        None => " No policy with a privacy guarantee is shown to be better than the baselines.".into(),
    };
    if aside > 0 {
        text += &format!(
            " {aside} policies have fewer than {LEAST_EFFECTIVE} effective rounds, and are left aside."
        );
    }
    if measure == Measure::DoublyRobust {
        text += " Estimates hold for policies that learn from the rounds whose logged action is theirs.";
    }
    Recommendation {
        policy: policy.or(baseline).map(|e| e.name.clone()),
        private: private.map(|e| e.name.clone()),
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
        let mut lines = vec![format!(
            "{} rounds, {} candidates, {} features; mean reward {}; intervals of 95 % by {} bootstrap resamples of rounds and of {} \
             seeds",
            self.rounds,
            self.candidates,
            self.features,
            if logged { "estimated from logged actions" } else { "by replay" },
            self.resamples,
            self.seeds
        )];
        let mut head = format!("{:36} {:>7} {:>18}", "", if logged { "DR" } else { "mean" }, "95 %");
        if logged {
            head += &format!(" {:>7} {:>18} {:>7} {:>18} {:>9}", "IPS", "95 %", "SNIPS", "95 %", "effective");
        }
        lines.push(head + &format!(" {:>8} {:>8}", "seeds ±", "epsilon"));
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
            if let (Some(ips), Some(snips), Some(effective)) = (e.ips, e.snips, e.effective_rounds) {
                line += &format!("{}{} {effective:9.0}", cell(ips), cell(snips));
            }
            line += &match e.baseline {
                true => String::new(),
                false => format!(
                    " {:8.4} {:>8}",
                    e.deviation_of_seeds,
                    e.epsilon.map_or("-".into(), |x| format!("{x:.3}"))
                ),
            };
            lines.push(line.trim_end().into());
        }
        for Unfit { policy, reason } in &self.unfit {
            lines.push(format!("left out: {policy}: {reason}"));
        }
        lines.push(String::new());
        lines.push(self.recommendation.paragraph.clone());
        lines.push(format!("Rule: {}", self.recommendation.rule));
        lines
    }

    /// The mean of the measure up to each round, of the baselines and the best policies, with bands of 1.96
    /// standard errors, as an SVG document.
    ///
    /// # Errors
    /// [`Error::Plot`] if there is nothing to draw.
    pub fn svg(&self, title: &str) -> Result<String, Error> {
        let mut policies: Vec<&Entry> = self.entries.iter().filter(|e| !e.baseline).collect();
        policies.sort_by(|a, b| b.measured.value.total_cmp(&a.measured.value));
        let shown = policies.into_iter().take(CURVES).chain(self.entries.iter().filter(|e| e.baseline));
        let curve = |e: &'_ Entry| {
            let (mut sum, mut squares, mut points) = (0.0, 0.0, Vec::new());
            let step = (e.terms.len() / 400).max(1);
            for (t, x) in e.terms.iter().enumerate() {
                (sum, squares) = (sum + x, squares + x * x);
                let n = (t + 1) as f64;
                // The first rounds say nothing, and would set the scale of the picture.
                if t >= 20 && (t % step == 0 || t + 1 == e.terms.len()) {
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
        };
        Ok(plot::Figure { title, x_label: "round", y_label, log_x: false, log_y: false, curves }.svg()?)
    }
}
