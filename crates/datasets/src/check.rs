//! What a schema makes of a file, in numbers.

use crate::prepare::position;
use crate::score::held_out;
use crate::{AfterOutcome, Dropped, Error, Noted, Observed, Prepared, after_outcome};
use schema::{Layout, Missing, ProjectionRule};
use serde::Serialize;

/// The share of rounds from which a feature that predicts the choice, or the correlation from which one
/// predicts the reward, is reported.
const SUSPECT: f64 = 0.95;

/// What a schema makes of a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Checked {
    /// Rounds that remain.
    pub rounds: u64,
    /// Rounds that are dropped, by reason.
    pub dropped: Vec<Dropped>,
    /// Notes on rows of the file: those left out, with a stray quote, or without a row in a joined table.
    pub notes: Vec<Noted>,
    /// Rounds that are earlier than their predecessor.
    pub out_of_order: u64,
    /// Why some times cannot be compared, such as a missing zone; `None` if all can.
    pub times: Option<String>,
    /// Names of the candidates, in the order of the arms.
    pub candidates: Vec<String>,
    /// Whether only the rewards of logged actions are known.
    pub logged: bool,
    /// Mean reward: of the logged action, or of each candidate.
    pub mean_rewards: Vec<f64>,
    /// The least and the largest reward.
    pub reward_range: [f64; 2],
    /// The smallest probability of a logged action.
    pub least_propensity: Option<f64>,
    /// Features before the projection.
    pub wide_features: usize,
    /// Features after it.
    pub features: usize,
    /// The rule of the projection, if there is one.
    pub projection: Option<ProjectionRule>,
    /// Names of the features before the projection.
    pub names: Vec<String>,
    /// What a linear model explains of rewards with the projection, and with score features.
    pub held_out: Option<HeldOut>,
    /// The share of the variance of rewards that a learnt score explains on rounds that it has not seen.
    pub score_explains: Option<f64>,
    /// What is lost.
    pub lost: Lost,
    /// Features before the projection that have one value in all rows.
    pub constant: Vec<String>,
    /// Features before the projection that all candidates of a round share, in every round.
    pub shared: Vec<String>,
    /// Features that predict choices or rewards so well that they may have been measured after them.
    pub leakage_suspects: Vec<String>,
    /// Columns that look as if they were known only after the outcome.
    pub after_outcome: Vec<AfterOutcome>,
}

/// The share of the variance of rewards that a linear model explains on rounds that it has not seen. It is
/// negative where their mean predicts better.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HeldOut {
    /// With the features after the projection.
    pub features: f64,
    /// With score features, which would take the place of the projection.
    pub scores: f64,
}

/// What is lost between the file and the features.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lost {
    /// Share of the rounds that are dropped.
    pub rounds: f64,
    /// Share of the mean square of the rows that a projection to principal components drops.
    pub mean_square: f64,
    /// Length of the longest row before rows are divided or shortened.
    pub longest: f64,
    /// The number that all rows are divided by, which keeps their proportions.
    pub divisor: f64,
    /// Share of the rows that are shortened to norm 1, which does not.
    pub shortened: f64,
    /// Share of cells without a value, by column, for columns that have some.
    pub missing: Vec<(String, f64)>,
}

/// What is counted of one feature before the projection.
#[derive(Debug, Clone, Copy)]
struct Seen {
    first: f64,
    constant: bool,
    shared: bool,
    /// Rounds in which the best arm alone has the largest value, and the smallest.
    alone: [u64; 2],
    /// Sums for the correlation with the reward of the logged action: x, x².
    sums: [f64; 2],
    product: f64,
}

/// What the range of rewards, which are from 0 to 1 by the schema, says about exploration.
fn exploration([low, high]: [f64; 2]) -> String {
    if low == high {
        return format!("every reward is {low}: there is nothing to learn");
    }
    let alpha = bandit::WidthShape::default().alpha(1.0);
    format!(
        "rewards from {low} to {high}: with --rewards 0,1, the default, `create` explores with alpha {alpha} and lambda 1"
    )
}

/// Counts what the schema of `prepared` makes of its file: two more passes.
///
/// # Errors
/// Those of [`Prepared::each`].
pub fn check(prepared: &Prepared) -> Result<Checked, Error> {
    let transform = prepared.transform();
    let (k, wide) = (transform.arms(), transform.wide());
    let new =
        Seen { first: f64::NAN, constant: true, shared: true, alone: [0; 2], sums: [0.0; 2], product: 0.0 };
    let mut seen = vec![new; wide];
    let logged = prepared.schema().is_logged();
    let mut means = vec![0.0; if logged { 1 } else { k }];
    let (mut shortened, mut decided, mut squares) = (0u64, 0u64, 0.0);
    let mut least: Option<f64> = None;
    let mut range = [f64::INFINITY, f64::NEG_INFINITY];
    prepared.each(|round| {
        let raw = &round.raw;
        let rows = transform.wide_rows(&raw.context, &raw.candidates, position(raw));
        let rows = rows.map_err(|e| Error::at(prepared.path(), raw.line, e))?;
        shortened += round.shortened as u64;
        let column = |i: usize| rows.iter().skip(i).step_by(wide).copied();
        for (i, seen) in seen.iter_mut().enumerate() {
            if seen.first.is_nan() {
                seen.first = rows[i];
            }
            seen.constant &= column(i).all(|x| x == seen.first);
            seen.shared &= column(i).all(|x| x == rows[i]);
        }
        let observed = match &raw.observed {
            Observed::Every(rewards) => &rewards[..],
            Observed::Played { reward, .. } => std::slice::from_ref(reward),
        };
        for reward in observed {
            range = [range[0].min(*reward), range[1].max(*reward)];
        }
        match &raw.observed {
            Observed::Every(rewards) => {
                means.iter_mut().zip(rewards).for_each(|(mean, reward)| *mean += reward);
                let best = bandit::vector::argmax(rewards.iter().copied());
                if rewards.iter().filter(|reward| **reward == rewards[best]).count() == 1 {
                    decided += 1;
                    for (i, seen) in seen.iter_mut().enumerate() {
                        let own = rows[best * wide + i];
                        let others = || column(i).enumerate().filter(|(arm, _)| *arm != best).map(|(_, x)| x);
                        seen.alone[0] += u64::from(others().all(|x| x < own));
                        seen.alone[1] += u64::from(others().all(|x| x > own));
                    }
                }
            }
            Observed::Played { arm, reward, propensity } => {
                means[0] += reward;
                squares += reward * reward;
                least = [least, *propensity].into_iter().flatten().reduce(f64::min);
                for (i, seen) in seen.iter_mut().enumerate() {
                    let x = rows[arm * wide + i];
                    seen.sums[0] += x;
                    seen.sums[1] += x * x;
                    seen.product += x * reward;
                }
            }
        }
        Ok(())
    })?;
    let n = prepared.rounds() as f64;
    let names = transform.wide_names();
    let of = |test: &dyn Fn(&Seen) -> bool| -> Vec<String> {
        seen.iter().zip(&names).filter(|(seen, _)| test(seen)).map(|(_, name)| name.clone()).collect()
    };
    let suspect = |(seen, name): (&Seen, &String)| {
        if logged {
            let centred = |sum_of_squares: f64, sum: f64| sum_of_squares - sum * sum / n;
            let spread = (centred(seen.sums[1], seen.sums[0]) * centred(squares, means[0])).sqrt();
            let r = (seen.product - seen.sums[0] * means[0] / n) / spread;
            return (r.abs() >= SUSPECT).then(|| format!("{name}: correlation {r:.3} with the reward"));
        }
        let [most, least] = seen.alone.map(|count| count as f64 / decided.max(1) as f64);
        let (share, which) = if most >= least { (most, "largest") } else { (least, "smallest") };
        // A feature that is another for one candidate always, and the same candidate always chosen, is none.
        (share >= SUSPECT && decided >= 20).then(|| {
            format!("{name}: the best candidate alone has the {which} in {:.1} % of rounds", 100.0 * share)
        })
    };
    let suspects = seen.iter().zip(&names).filter_map(suspect).collect();
    let dropped = prepared.dropped().to_vec();
    let lost: u64 = dropped.iter().map(|d| d.rounds).sum();
    // Absence in JSON is a value.
    let sparse = prepared.schema().layout == Layout::Dsjson && prepared.schema().missing == Missing::Zero;
    let missing = prepared.columns().iter().filter(|c| c.missing > 0 && !sparse);
    Ok(Checked {
        rounds: prepared.rounds(),
        out_of_order: prepared.late(),
        times: prepared.times().map(str::to_string),
        candidates: prepared.arms().to_vec(),
        logged,
        mean_rewards: means.iter().map(|sum| sum / n).collect(),
        reward_range: if range[0] <= range[1] { range } else { [0.0; 2] },
        least_propensity: least,
        wide_features: wide,
        features: transform.features(),
        projection: transform.projects().map(|project| project.by),
        held_out: held_out(prepared)?,
        score_explains: prepared.explained(),
        lost: Lost {
            rounds: lost as f64 / (lost as f64 + n),
            mean_square: 1.0 - transform.mean_square_kept(),
            longest: prepared.longest(),
            divisor: transform.divisor(),
            shortened: shortened as f64 / (n * k as f64),
            missing: missing
                .map(|c| (c.name.clone(), c.missing as f64 / (c.missing + c.values) as f64))
                .collect(),
        },
        dropped,
        notes: prepared.notes().to_vec(),
        // The first feature before a score is its intercept, and the bias is constant by its nature.
        constant: of(&|seen| seen.constant)
            .split_off(usize::from(transform.score().is_some()))
            .into_iter()
            .filter(|name| name != "bias")
            .collect(),
        // A score has coefficients of each fixed candidate.
        shared: of(&|seen| seen.shared && !seen.constant && transform.score_groups() == 1),
        leakage_suspects: suspects,
        after_outcome: after_outcome(prepared.path(), prepared.schema())?,
        names,
    })
}

impl Checked {
    /// The numbers as lines of text.
    pub fn lines(&self) -> Vec<String> {
        let Lost { rounds, mean_square, longest, divisor, shortened, missing } = &self.lost;
        let percent = |share: f64| format!("{:.2} %", 100.0 * share);
        let mut lines = vec![format!(
            "{} rounds of {} candidates ({}); {} rounds dropped ({})",
            self.rounds,
            self.candidates.len(),
            shown(&self.candidates),
            self.dropped.iter().map(|d| d.rounds).sum::<u64>(),
            percent(*rounds)
        )];
        for d in &self.dropped {
            lines.push(format!("  dropped {}: {} (first in line {})", d.rounds, d.reason, d.first_line));
        }
        for note in &self.notes {
            lines.push(format!("  {} rows {} (first in line {})", note.rows, note.what, note.first_line));
        }
        if self.out_of_order > 0 {
            lines.push(format!(
                "{} rounds are earlier than their predecessor: sort the file by time",
                self.out_of_order
            ));
        }
        lines.extend(self.times.clone());
        let means: Vec<String> = self.mean_rewards.iter().map(|mean| format!("{mean:.4}")).collect();
        lines.push(match self.logged {
            true => format!("rewards of logged actions only, mean {}", shown(&means)),
            false => format!("rewards of all candidates, means {}", shown(&means)),
        });
        lines.push(exploration(self.reward_range));
        match self.least_propensity {
            Some(p) => lines.push(format!(
                "probabilities of logged actions from {p:.4}: a weight of at most {:.1}",
                p.recip()
            )),
            None if self.logged => {
                lines.push("no probabilities of logged actions: no estimate corrects for the logging".into())
            }
            None => {}
        }
        let (wide, features) = (self.wide_features, self.features);
        lines.push(match self.projection {
            None if self.score_explains.is_some() => {
                format!("{wide} features of the score, {features} with it: it, and the candidate")
            }
            None => format!("{features} features"),
            Some(ProjectionRule::Random) => {
                format!("{wide} features before the projection by random signs, {features} after it")
            }
            Some(ProjectionRule::Components) => format!(
                "{wide} features before the projection, {features} after it: {} of the mean square of rows is lost",
                percent(*mean_square)
            ),
        });
        if let Some(HeldOut { features: projected, scores }) = self.held_out {
            let advice = match scores > projected {
                true => ": write score = {} in place of project",
                false => "",
            };
            lines.push(format!(
                "a linear model explains {} of the variance of rewards of rounds that it has not seen, and with score features \
                 {}{advice}",
                percent(projected),
                percent(scores)
            ));
        }
        if let Some(explained) = self.score_explains {
            lines.push(format!(
                "the score explains {} of the variance of rewards of rounds that it has not seen",
                percent(explained)
            ));
        }
        lines.push(format!(
            "longest row {longest:.4}; all rows are divided by {divisor:.4}, and {} of them are shortened",
            percent(*shortened)
        ));
        for (name, share) in missing {
            lines.push(format!("{}: {} of the cells have no value", host::visible(name), percent(*share)));
        }
        let mut list = |what: &str, names: &[String]| {
            if !names.is_empty() {
                lines.push(format!("{what}: {}", shown(names)));
            }
        };
        list("constant features", &self.constant);
        list(
            "features that all candidates share, which change no choice without an interaction",
            &self.shared,
        );
        for suspect in &self.leakage_suspects {
            lines.push(format!("leakage? {}", host::visible(suspect)));
        }
        lines.extend(self.after_outcome.iter().map(AfterOutcome::warning));
        if self.candidates.len() > 64 {
            lines.push(format!(
                "{} candidates: keys of encrypted bandits carry up to 64 arms",
                self.candidates.len()
            ));
        }
        if self.features > 16 {
            lines.push(format!(
                "{} features: keys of encrypted bandits carry up to 16; {}project = {{ features = 16 }} keeps that many, and \
                 score = {{}} makes of them a prediction of the reward",
                self.features,
                // Features of the context alone tell no candidates apart.
                if self.shared.is_empty() { "" } else { "interactions_only = true drops those that all candidates share, and " }
            ));
        }
        lines
    }
}

/// The first twelve of some names.
pub(crate) fn shown(names: &[String]) -> String {
    let mut first = names.iter().take(12).map(|name| host::visible(name)).collect::<Vec<_>>().join(", ");
    if names.len() > 12 {
        first.push_str(&format!(", … {} in all", names.len()));
    }
    first
}

/// The kind of the file, in words.
pub(crate) fn words(layout: Layout) -> &'static str {
    match layout {
        Layout::Wide => "a row is a round",
        Layout::Long => "a row is a candidate of a round",
        Layout::Dsjson => "a line is a logged decision (dsjson)",
    }
}
