//! Whether the probabilities of a log can be true.

use crate::interval::{Crossed, TAUGHT, student};
use crate::log::Log;
use datasets::{DataRound, Dataset};
use serde::Serialize;

/// The probability with which a log whose probabilities are true is doubted.
pub(crate) const FALSE_ALARM: f64 = 0.001;
/// The most candidates whose frequencies are compared one by one.
const MOST_CANDIDATES: usize = 64;

/// The mean weight of a choice that depends on the past and on features alone: 1, if the probabilities of the
/// log are true and each candidate that the choice picks has one above 0.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WeightTest {
    /// The choice, in words.
    pub choice: String,
    /// The mean of its weights.
    pub mean: f64,
    /// Whether so large a mean has a probability below that of a false alarm.
    pub above: bool,
    /// Whether so small a mean has.
    pub below: bool,
}

/// Tests of mean weights, which raise a false alarm with a probability of 0.001 all together, and what the
/// log contradicts besides.
pub(crate) struct Audit {
    /// How many tests share the probability.
    tests: usize,
    /// The least variance of a weight: that of a choice whose candidates all have the largest probability of
    /// the log, and the smallest.
    variances: [f64; 2],
}

impl Audit {
    pub(crate) fn new(log: &Log, policies: usize) -> Self {
        let chances = || log.played.iter().map(|played| played.propensity);
        let (least, most) = (chances().fold(1.0, f64::min), chances().fold(0.0, f64::max));
        let k = log.predicted(0).len();
        let tests = 2 * (1 + policies + if k <= MOST_CANDIDATES { 2 * k } else { 0 });
        Audit { tests, variances: [1.0 / most - 1.0, 1.0 / least - 1.0] }
    }

    /// The test of a choice with these weights, run by run.
    ///
    /// A mean that is too large is judged by the variance that the weights have, and one that is too small by
    /// no less than that which rare candidates would give it: a candidate that is shown once in a thousand
    /// rounds is easily missing among five hundred.
    pub(crate) fn test(&self, choice: impl Into<String>, weights: &Crossed) -> WeightTest {
        let spread = weights.spread();
        let n = weights.rounds().len() as f64;
        let off = student(1.0 - FALSE_ALARM / self.tests as f64, n.max(2.0));
        let error = |variance: f64| spread.error.max((variance / n).sqrt());
        WeightTest {
            choice: choice.into(),
            mean: spread.value,
            above: spread.value - 1.0 > off * error(self.variances[0]) + 1e-9,
            below: 1.0 - spread.value > off * error(self.variances[1]) + 1e-9,
        }
    }

    /// Rules that the log alone decides on: each candidate always, and the candidate that stands so many
    /// places after that of the round before in the file.
    pub(crate) fn rules(&self, dataset: &Dataset, log: &Log) -> Vec<WeightTest> {
        let k = dataset.arms().len();
        if k > MOST_CANDIDATES {
            return Vec::new();
        }
        let weights = |picks: &dyn Fn(usize) -> usize| {
            let of = |t: usize| match log.played[t].arm == picks(t) {
                true => 1.0 / log.played[t].propensity,
                false => 0.0,
            };
            Crossed::new(&[&(0..log.played.len()).map(of).collect::<Vec<f64>>()], TAUGHT[1])
        };
        let always = (0..k).map(|arm| {
            self.test(format!("the one that always picks {}", dataset.arms()[arm]), &weights(&|_| arm))
        });
        let turn = (0..k).map(|places| {
            let before = |t: usize| log.played[t.max(1) - 1].arm;
            let choice = match places {
                0 => "the one that repeats the candidate of the round before".to_string(),
                1 => {
                    "the one that follows the turn (the candidate after that of the round before)".to_string()
                }
                _ => format!("the one that goes on {places} places from the candidate of the round before"),
            };
            self.test(choice, &weights(&|t| (before(t) + places) % k))
        });
        always.chain(turn).collect()
    }
}

/// Why nothing can be recommended from these rounds, whatever the policies earned.
pub(crate) fn doubts(rounds: &[DataRound], tests: &[WeightTest]) -> Vec<String> {
    let mut doubts = Vec::new();
    let worst = tests.iter().filter(|test| test.above).max_by(|a, b| a.mean.total_cmp(&b.mean));
    if let Some(WeightTest { choice, mean, .. }) = worst {
        doubts.push(format!(
            "The probabilities of the log are not those with which candidates were shown: the weights of a choice that depends on \
             the past alone average 1, and those of {choice} average {mean:.2}"
        ));
    }
    let off = |round: &&DataRound| {
        let tolerance = 0.01 + 0.0005 * round.features.k() as f64;
        round.probabilities.is_some_and(|sum| (sum - 1.0).abs() > tolerance)
    };
    if let Some(first) = rounds.iter().position(|round| off(&round)) {
        let sum = rounds[first].probabilities.unwrap_or_default();
        doubts.push(format!(
            "The probabilities of the candidates add up to {sum:.3} in round {} and not to 1, and so they do in {} of {} rounds",
            first + 1,
            rounds.iter().filter(off).count(),
            rounds.len()
        ));
    }
    doubts
}
