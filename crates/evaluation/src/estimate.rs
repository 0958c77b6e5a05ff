//! Terms of every round, for every policy and baseline.

use crate::Error;
use crate::audit::{Audit, WeightTest, doubts};
use crate::candidates::{Contender, EvaluationSettings, contenders};
use crate::interval::{Crossed, TAUGHT, mean, student};
use crate::log::{Cell, Log, PARTS};
use crate::orders::{keys, order};
use crate::report::{Entry, Estimate, EvaluationReport, Measure, recommend};
use bandit::vector::argmax;
use datasets::{DataRound, Dataset, Observed};
use privacy::source::{SplitMix64, Words};
use protocol::BanditConfig;
use rayon::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// The probability with which intervals hold.
const LEVEL: f64 = 0.95;
/// The share of files in which a difference of [`Entry::detects`] would be found.
const POWER: f64 = 0.8;

/// Plays every policy that fits `dataset`, beside the uniform choice, the best fixed candidate in hindsight,
/// the logged policy, and a rule of the user's own.
///
/// - Randomness: the order of run i follows from the rounds and i, as [`crate`] says. Policies draw from the
///   noise stream of SplitMix64 of seed i, and rewards that stand for those which the log lacks from its
///   stream. This is simulation: the generator protects nobody, and the rewards are on this machine anyway.
/// - Cost: rounds · policies · runs decisions, and five times as many from a log, on all threads.
///
/// # Errors
/// [`Error::SomePropensities`]; [`Error::Policies`] for names that are none, and if no policy fits;
/// [`Error::Round`] if a policy refuses a round; [`Error::Runs`]; [`Error::Rule`].
pub fn evaluate(dataset: &Dataset, settings: &EvaluationSettings) -> Result<EvaluationReport, Error> {
    evaluate_with(dataset, settings, |_, _| ())
}

/// The same, and says how far it is: `ended` gets the number of runs that have ended and that of all runs,
/// before the first and after each, on the thread of the run.
///
/// # Errors
/// Those of [`evaluate`].
pub fn evaluate_with(
    dataset: &Dataset,
    settings: &EvaluationSettings,
    ended: impl Fn(u64, u64) + Sync,
) -> Result<EvaluationReport, Error> {
    let rounds = &dataset.rounds()[..settings.rounds.min(dataset.rounds().len())];
    if settings.seeds < 2 {
        return Err(Error::Runs);
    }
    if rounds.is_empty() {
        return Err(Error::Policies { reason: "the file has no round".into() });
    }
    let keys = keys(rounds, settings.rule.as_ref().map(|(_, picks)| &picks[..]));
    let log = Log::new(dataset, rounds, &keys)?;
    let (contenders, unfit) = contenders(dataset, rounds.len(), log.is_some(), settings)?;
    let folds = dataset.folds();
    let by_fold = |order: Vec<usize>| -> Vec<Vec<usize>> {
        (0..folds).map(|fold| order.iter().copied().filter(|t| t % folds == fold).collect()).collect()
    };
    let orders: Vec<Vec<Vec<usize>>> =
        (0..settings.seeds).into_par_iter().map(|run| by_fold(order(&keys, run))).collect();
    let audit = log.as_ref().filter(|log| log.weighted).map(|log| Audit::new(log, contenders.len()));
    let baselines = baselines(dataset, rounds, log.as_ref(), settings)?;
    let lists: Vec<&[f64]> = baselines.iter().map(|baseline| &baseline.series.measured[..]).collect();
    let taught = TAUGHT[usize::from(log.is_some())];
    let reward_range = dataset.reward_range();
    let file = File { audit: audit.as_ref(), taught, baselines: &lists, reward_range };
    let mut entries: Vec<Entry> = Vec::new();
    for Baseline { name, series, best_of } in &baselines {
        entries.push(file.entry(name, None, std::slice::from_ref(series), *best_of));
    }
    let (all, done) = (contenders.len() as u64 * settings.seeds, AtomicU64::new(0));
    ended(0, all);
    let evaluated = contenders.par_iter().map(|contender| -> Result<Entry, Error> {
        let runs = orders.par_iter().enumerate().map(|(run, order)| {
            let picks = play(contender, rounds, log.as_ref(), order, run as u64)?;
            let series = series(rounds, log.as_ref(), |t| one(picks[t] as usize));
            ended(done.fetch_add(1, Ordering::Relaxed) + 1, all);
            Ok((series, picks))
        });
        let (series, picks): (Vec<Series>, Vec<Vec<u32>>) =
            runs.collect::<Result<Vec<_>, Error>>()?.into_iter().unzip();
        let mut entry = file.entry(&contender.name, Some(contender), &series, contenders.len());
        entry.curve = curve(&series, &orders);
        if settings.keep_picks {
            entry.picks = picks;
        }
        Ok(entry)
    });
    entries.extend(evaluated.collect::<Result<Vec<_>, Error>>()?);
    let measure = match &log {
        None => Measure::Replay,
        Some(log) if log.weighted => Measure::DoublyRobust,
        Some(_) => Measure::Direct,
    };
    let mut tests: Vec<WeightTest> = entries.iter().filter_map(|entry| entry.weights.clone()).collect();
    if let (Some(audit), Some(log)) = (&audit, &log) {
        tests.extend(audit.rules(dataset, log));
    }
    let mut doubts = doubts(rounds, &tests);
    let range = range(rounds);
    if range[0] == range[1] {
        doubts.push(format!("All rewards are {}: no choice is better than another", range[0]));
    }
    if measure == Measure::Direct {
        doubts.push(
            "The file has no probabilities, so that the values are those of a model of rewards: where the log preferred what \
             earns more, or the model is wrong, they are biased by an amount that no interval here covers"
                .into(),
        );
    }
    let warning = |contender: &Contender| contender.lock_in_warning(rounds.len(), range[1] - range[0]);
    let mut warnings: Vec<String> = contenders.iter().filter_map(warning).collect();
    let config = BanditConfig::new(dataset.d(), dataset.arms().len());
    let last = rounds.len() as u64;
    if last > config.horizon && contenders.iter().any(|contender| contender.encrypted.is_some()) {
        warnings.push(format!(
            "the numbers of an encrypted bandit are scaled for {} rounds unless `create` is told another horizon, and here are {last}: to \
             play or to learn as many, give it --horizon {last} or more",
            config.horizon
        ));
    }
    let recommendation = recommend(&entries, measure, &doubts);
    let resolution = config.resolution() * config.linear.index_range(last, last);
    Ok(EvaluationReport {
        rounds: rounds.len(),
        candidates: dataset.arms().len(),
        features: dataset.d(),
        measure,
        seeds: settings.seeds,
        entries,
        unfit,
        doubts,
        warnings,
        resolution,
        reward_range,
        resolution_in_file: reward_range.map(|[zero, one]| resolution * (one - zero).abs()),
        recommendation,
    })
}

/// The probabilities of a choice that picks one arm.
fn one(picked: usize) -> impl Fn(usize) -> f64 {
    move |arm| f64::from(u8::from(arm == picked))
}

/// The least and the largest known reward.
fn range(rounds: &[DataRound]) -> [f64; 2] {
    let known = rounds.iter().flat_map(|round| match &round.observed {
        Observed::Every(rewards) => &rewards[..],
        Observed::Played { reward, .. } => std::slice::from_ref(reward),
    });
    known.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], x| [low.min(*x), high.max(*x)])
}

/// Terms of each round: of the measure, of IPS, and the weights.
#[derive(Debug, Clone, Default)]
struct Series {
    measured: Vec<f64>,
    weighted: Vec<f64>,
    weights: Vec<f64>,
}

/// A choice that learns nothing.
struct Baseline {
    name: String,
    series: Series,
    /// The number of choices of which it is the best by the same rounds.
    best_of: usize,
}

/// What is common to all entries of a report.
struct File<'a> {
    audit: Option<&'a Audit>,
    /// The share of [`TAUGHT`].
    taught: f64,
    /// Terms of the measure of the baselines.
    baselines: &'a [&'a [f64]],
    /// The numbers of reward 0 and of reward 1, if the schema of the file sets them.
    reward_range: Option<[f64; 2]>,
}

impl File<'_> {
    /// The entry with these terms, run by run: of a policy of `others` that are compared, or of a baseline
    /// that is the best of `others`, whose interval holds for all of them at a time.
    fn entry(&self, name: &str, policy: Option<&Contender>, runs: &[Series], others: usize) -> Entry {
        let share = (1.0 - LEVEL) / others.max(1) as f64;
        let level = if policy.is_some() { LEVEL } else { 1.0 - share };
        let crossed = |part: fn(&Series) -> &[f64]| {
            Crossed::new(&runs.iter().map(part).collect::<Vec<_>>(), self.taught)
        };
        let measured = crossed(|series| &series.measured);
        let estimate = |crossed: &Crossed| {
            let spread = crossed.spread();
            let [low, high] = spread.interval(level);
            Estimate { value: spread.value, low, high }
        };
        let weights = self.audit.map(|_| crossed(|series| &series.weights));
        let normalised = weights.as_ref().map(|weights| {
            let ips = crossed(|series| &series.weighted).spread().value;
            let (below, value) = (weights.spread().value, ips / weights.spread().value);
            // Where no weight is left, the estimate of nothing.
            if below <= 0.0 {
                return Estimate { value: 0.0, low: 0.0, high: 0.0 };
            }
            let of = |series: &Series| -> Vec<f64> {
                let terms = series.weighted.iter().zip(&series.weights);
                terms.map(|(wr, w)| value + (wr - value * w) / below).collect()
            };
            let terms: Vec<Vec<f64>> = runs.iter().map(of).collect();
            Estimate {
                value,
                ..estimate(&Crossed::new(&terms.iter().map(Vec::as_slice).collect::<Vec<_>>(), self.taught))
            }
        });
        let effective = |series: &Series| {
            let squares: f64 = series.weights.iter().map(|w| w * w).sum();
            if squares > 0.0 { series.weights.iter().sum::<f64>().powi(2) / squares } else { 0.0 }
        };
        let test = self.audit.zip(weights.as_ref()).filter(|_| name != LOGGED);
        let private = policy.and_then(|p| Some((p, p.privacy.epsilon?)));
        let mut entry = Entry {
            name: name.into(),
            baseline: policy.is_none(),
            measured: estimate(&measured),
            measured_in_file: self.reward_range.map(|range| estimate(&measured).in_file(range)),
            ips: self.audit.map(|_| estimate(&crossed(|series| &series.weighted))),
            snips: normalised,
            effective_rounds: self.audit.map(|_| mean(&runs.iter().map(effective).collect::<Vec<_>>())),
            weights: test.map(|(audit, weights)| audit.test(name, weights)),
            deviation_of_runs: measured.deviation(),
            epsilon: private.map(|(_, epsilon)| epsilon.get()),
            delta: private.map(|(policy, _)| policy.privacy.delta.get()),
            privacy: policy.map(|policy| policy.privacy.sentence.clone()),
            parameters: policy.map(|policy| policy.parameters.clone()),
            encrypted: policy.is_some_and(|policy| policy.encrypted.is_some()),
            no_keys: policy.and_then(|policy| policy.encrypted.clone()?.err()),
            above_baselines: None,
            detects: None,
            curve: Vec::new(),
            picks: Vec::new(),
        };
        if entry.baseline {
            entry.curve = measured.rounds().to_vec();
        } else {
            // One side of 5 %, shared by all policies: one that exceeds every baseline exceeds the best of
            // them, so that the number of baselines does not count.
            let differences = || self.baselines.iter().map(|baseline| measured.above(baseline));
            entry.above_baselines =
                differences().map(|d| d.value - d.quantile(1.0 - share) * d.error).reduce(f64::min);
            let normal = student(POWER, 1e9);
            entry.detects =
                differences().map(|d| (d.quantile(1.0 - share) + normal) * d.error).reduce(f64::max);
        }
        entry
    }
}

/// The mean term at each place of the orders, of all runs and folds.
fn curve(series: &[Series], orders: &[Vec<Vec<usize>>]) -> Vec<f64> {
    let played =
        || series.iter().zip(orders).flat_map(|(series, orders)| orders.iter().map(move |o| (series, o)));
    let places = played().map(|(_, order)| order.len()).min().unwrap_or(0);
    let count = played().count() as f64;
    let at = |place: usize| played().map(|(series, order)| series.measured[order[place]]).sum::<f64>();
    (0..places).map(|place| at(place) / count).collect()
}

/// The terms of a choice that has these probabilities of the arms in each round.
fn series<F: Fn(usize) -> f64>(
    rounds: &[DataRound],
    log: Option<&Log>,
    chances: impl Fn(usize) -> F,
) -> Series {
    let mut series = Series::default();
    for (t, round) in rounds.iter().enumerate() {
        let chances = chances(t);
        match (&round.observed, log) {
            (_, Some(log)) => {
                let term = log.term(t, chances);
                series.measured.push(term.measured);
                series.weighted.push(term.weighted);
                series.weights.push(term.weight);
            }
            (observed, None) => {
                let known =
                    (0..round.features.k()).map(|arm| chances(arm) * observed.reward(arm).unwrap_or(0.0));
                series.measured.push(known.sum());
            }
        }
    }
    series
}

/// The arms that a policy picks in a run, by round of the file. It plays the rounds of each fold of the
/// features by themselves: their scores know the rewards of the other folds. From a log it plays them once
/// for each part, taught without the rewards of that part, and what it picks in the rounds of the part is
/// kept. So what it has learnt depends on none of the rewards that it is judged by.
fn play(
    contender: &Contender,
    rounds: &[DataRound],
    log: Option<&Log>,
    orders: &[Vec<usize>],
    run: u64,
) -> Result<Vec<u32>, Error> {
    let mut picks = vec![0; rounds.len()];
    for (fold, order) in orders.iter().enumerate() {
        let Some(log) = log else {
            let played = play_once(contender, rounds, None, order, run)?;
            order.iter().for_each(|t| picks[*t] = played[*t]);
            continue;
        };
        for cell in (0..PARTS).map(|part| Cell { fold, part }) {
            // Nothing is kept of what follows the last round of the part.
            let end = order.iter().rposition(|t| log.cell(*t) == cell).map_or(0, |last| last + 1);
            let played = play_once(contender, rounds, Some((log, cell)), &order[..end], run)?;
            let kept = order.iter().filter(|t| log.cell(**t) == cell);
            kept.for_each(|t| picks[*t] = played[*t]);
        }
    }
    Ok(picks)
}

/// The arms that a policy picks in an order of rounds, taught by a log without the rewards of a cell.
fn play_once(
    contender: &Contender,
    rounds: &[DataRound],
    taught: Option<(&Log, Cell)>,
    order: &[usize],
    run: u64,
) -> Result<Vec<u32>, Error> {
    let refused = |reason: String| Error::Round { policy: contender.name.clone(), round: 0, reason };
    let mut policy = contender.of_run(run).map_err(refused)?;
    let (mut noise, mut rewards) = (SplitMix64::noise(run), SplitMix64::new(run));
    let mut picks = vec![0; rounds.len()];
    for (place, &t) in order.iter().enumerate() {
        let round = &rounds[t];
        let fault =
            |reason: String| Error::Round { policy: contender.name.clone(), round: place + 1, reason };
        let arm = policy.decide(&round.features, &mut noise).map_err(fault)?;
        let u = rewards.uniform();
        let learnt = match (&round.observed, taught) {
            (_, Some((log, cell))) => (log.reward(rounds, cell, t, arm, u), None),
            (Observed::Every(rewards), None) => (rewards[arm], Some(&rewards[..])),
            (Observed::Played { reward, .. }, None) => (*reward, None),
        };
        policy.learn(&round.features, arm, learnt, &mut noise).map_err(fault)?;
        picks[t] = arm as u32;
    }
    Ok(picks)
}

const LOGGED: &str = "logged policy";

/// The uniform choice; the best fixed candidate, if candidates are the same in all rounds; the logged policy;
/// the rule of the user.
fn baselines(
    dataset: &Dataset,
    rounds: &[DataRound],
    log: Option<&Log>,
    settings: &EvaluationSettings,
) -> Result<Vec<Baseline>, Error> {
    let k = dataset.arms().len();
    let one_of_one = |name: String, series| Baseline { name, series, best_of: 1 };
    let mut found = vec![one_of_one("uniform".into(), series(rounds, log, |_| |_| 1.0 / k as f64))];
    if dataset.fixed() {
        let fixed: Vec<Series> = (0..k).map(|best| series(rounds, log, |_| one(best))).collect();
        let best = argmax(fixed.iter().map(|series| mean(&series.measured)));
        let series = fixed.into_iter().nth(best).unwrap_or_default();
        found.push(Baseline { name: format!("always {}", dataset.arms()[best]), series, best_of: k });
    }
    if let Some(log) = log {
        let rewards: Vec<f64> = log.played.iter().map(|played| played.reward).collect();
        let weights = vec![1.0; rewards.len()];
        found.push(one_of_one(
            LOGGED.into(),
            Series { measured: rewards.clone(), weighted: rewards, weights },
        ));
    }
    if let Some((name, picks)) = &settings.rule {
        let picks = picks.get(..rounds.len()).filter(|picks| picks.iter().all(|arm| *arm < k));
        let picks = picks.ok_or_else(|| Error::Rule { name: name.clone(), rounds: rounds.len(), arms: k })?;
        found.push(one_of_one(format!("column {name}"), series(rounds, log, |t| one(picks[t]))));
    }
    Ok(found)
}
