//! Terms of every round, for every policy and baseline.

use crate::Error;
use crate::bootstrap::{RESAMPLES, Terms, differences, interval, resample};
use crate::candidates::{Contender, EvaluationSettings, contenders};
use crate::report::{Entry, Estimate, EvaluationReport, Measure, recommend};
use bandit::vector::{argmax, dot};
use datasets::{DataRound, Dataset, Observed};
use privacy::source::SplitMix64;
use rayon::prelude::*;

/// Plays every policy that fits `dataset`, beside the uniform choice, the best fixed candidate in hindsight,
/// and the logged policy.
///
/// - Randomness: policies draw from SplitMix64, one stream a seed. This is simulation: the generator protects
///   nobody, and the rewards are on this machine anyway.
/// - Cost: rounds · policies · seeds decisions, and the bootstrap, on all threads. Where only logged actions
///   are known, a round copies the state of the policy, so that those which keep every row take time that is
///   quadratic in the rounds.
///
/// # Errors
/// [`Error::NoPropensity`]; [`Error::Policies`] for names that are none, and if no policy fits;
/// [`Error::Round`] if a policy refuses a round.
pub fn evaluate(dataset: &Dataset, settings: &EvaluationSettings) -> Result<EvaluationReport, Error> {
    let rounds = &dataset.rounds()[..settings.rounds.min(dataset.rounds().len())];
    let log = Log::new(rounds, dataset.d())?;
    let (contenders, unfit) = contenders(dataset, rounds.len(), log.is_some(), settings)?;
    let seeds = settings.seeds.max(1);
    let jobs: Vec<(usize, u64)> =
        (0..contenders.len()).flat_map(|i| (0..seeds).map(move |seed| (i, seed))).collect();
    let runs = jobs.par_iter().map(|&(i, seed)| play(&contenders[i], rounds, log.as_ref(), seed));
    let runs: Vec<Series> = runs.collect::<Result<_, Error>>()?;
    let baselines = baselines(dataset, rounds, log.as_ref());
    let names = baselines.iter().map(|(name, _)| name).chain(contenders.iter().map(|c| &c.name));
    let mut series: Vec<&[Series]> =
        baselines.iter().map(|(_, series)| std::slice::from_ref(series)).collect();
    let first = series.len();
    for runs in runs.chunks_exact(seeds as usize) {
        // Policies that draw nothing have one run.
        let same = runs.iter().all(|run| *run == runs[0]);
        series.push(if same { &runs[..1] } else { runs });
    }
    let measure = if log.is_some() { Measure::DoublyRobust } else { Measure::Replay };
    let mut terms = Vec::new();
    for runs in &series {
        let of = |part: fn(&Series) -> &[f64]| -> Vec<&[f64]> { runs.iter().map(part).collect() };
        terms.push(Terms { above: of(|s| &s.measured), below: None });
        if log.is_some() {
            terms.push(Terms { above: of(|s| &s.weighted), below: None });
            terms.push(Terms { above: of(|s| &s.weighted), below: Some(of(|s| &s.weights)) });
        }
    }
    let draws = resample(&terms, rounds.len());
    let estimate = |(i, terms): (usize, &Terms<'_>)| {
        let [low, high] = interval(&draws, i);
        Estimate { value: terms.value(), low, high }
    };
    let estimates: Vec<Estimate> = terms.iter().enumerate().map(estimate).collect();
    let each = if log.is_some() { 3 } else { 1 };
    let mut entries = Vec::new();
    for (i, (name, runs)) in names.zip(&series).enumerate() {
        let estimates = &estimates[i * each..][..each];
        let contender = i.checked_sub(first).map(|at| &contenders[at]);
        let means: Vec<f64> =
            runs.iter().map(|run| run.measured.iter().sum::<f64>() / rounds.len() as f64).collect();
        let spread =
            bandit::Summary::of(&means).map_or(0.0, |s| s.standard_error * (means.len() as f64).sqrt());
        let private = contender.and_then(|c| Some((c, c.privacy.epsilon?)));
        entries.push(Entry {
            name: name.clone(),
            baseline: contender.is_none(),
            measured: estimates[0],
            ips: estimates.get(1).copied(),
            snips: estimates.get(2).copied(),
            effective_rounds: log
                .as_ref()
                .map(|_| runs.iter().map(Series::effective).sum::<f64>() / runs.len() as f64),
            deviation_of_seeds: spread,
            epsilon: private.map(|(_, epsilon)| epsilon.get()),
            delta: private.map(|(c, _)| c.privacy.delta.get()),
            privacy: contender.map(|c| c.privacy.sentence.clone()),
            parameters: contender.map(|c| c.parameters.clone()),
            above_baselines: None,
            terms: mean_by_round(runs),
        });
    }
    let values: Vec<f64> = estimates.iter().map(|estimate| estimate.value).collect();
    let compared: Vec<usize> = (first..entries.len()).filter(|i| entries[*i].is_compared()).collect();
    let pairs: Vec<_> =
        compared.iter().flat_map(|i| (0..first).map(move |baseline| (i * each, baseline * each))).collect();
    let ends = differences(&draws, &values, &pairs);
    for (i, ends) in compared.iter().zip(ends.chunks(first.max(1))) {
        entries[*i].above_baselines = ends.iter().copied().reduce(f64::min);
    }
    let recommendation = recommend(&entries, measure);
    Ok(EvaluationReport {
        rounds: rounds.len(),
        candidates: dataset.arms().len(),
        features: dataset.d(),
        measure,
        seeds,
        resamples: RESAMPLES,
        entries,
        unfit,
        recommendation,
    })
}

/// Terms of each round: of the measure (reward, or doubly robust), of IPS, and the weights.
#[derive(Debug, Clone, Default, PartialEq)]
struct Series {
    measured: Vec<f64>,
    weighted: Vec<f64>,
    weights: Vec<f64>,
}

impl Series {
    /// (Σ w)² / Σ w²: the number of rounds with equal weights that would estimate as well.
    fn effective(&self) -> f64 {
        let sum: f64 = self.weights.iter().sum();
        let squares: f64 = self.weights.iter().map(|w| w * w).sum();
        if squares > 0.0 { sum * sum / squares } else { 0.0 }
    }
}

/// The terms of the measure, averaged by round over seeds.
fn mean_by_round(runs: &[Series]) -> Vec<f64> {
    let at = |t: usize| runs.iter().map(|run| run.measured[t]).sum::<f64>() / runs.len() as f64;
    (0..runs.first().map_or(0, |run| run.measured.len())).map(at).collect()
}

/// Logged rounds: action, reward and probability, and q_t of every arm.
struct Log {
    played: Vec<(usize, f64, f64)>,
    predicted: Vec<Vec<f64>>,
}

impl Log {
    /// `None` if every reward is known.
    fn new(rounds: &[DataRound], d: usize) -> Result<Option<Self>, Error> {
        if rounds.iter().all(|round| matches!(round.observed, Observed::Every(_))) {
            return Ok(None);
        }
        let mut log = Log { played: Vec::new(), predicted: Vec::new() };
        // V⁻¹ and V⁻¹g of V = I + Σ x xᵀ and g = Σ r x.
        let mut inverse: Vec<f64> = (0..d * d).map(|i| f64::from(u8::from(i / d == i % d))).collect();
        let mut moment = vec![0.0; d];
        for (t, round) in rounds.iter().enumerate() {
            let (arm, reward, propensity) = match round.observed {
                Observed::Played { arm, reward, propensity: Some(p) } => (arm, reward, p),
                _ => return Err(Error::NoPropensity { round: t + 1 }),
            };
            let theta: Vec<f64> = inverse.chunks_exact(d).map(|row| dot(row, &moment)).collect();
            log.predicted.push(round.features.rows().map(|x| dot(&theta, x)).collect());
            log.played.push((arm, reward, propensity));
            let Some(x) = round.features.row(arm) else { continue };
            let product: Vec<f64> = inverse.chunks_exact(d).map(|row| dot(row, x)).collect();
            let factor = 1.0 + dot(&product, x);
            for (row, a) in inverse.chunks_exact_mut(d).zip(&product) {
                row.iter_mut().zip(&product).for_each(|(v, b)| *v -= a * b / factor);
            }
            moment.iter_mut().zip(x).for_each(|(g, x)| *g += reward * x);
        }
        Ok(Some(log))
    }

    /// The doubly robust term, the IPS term and the weight of a choice with these probabilities in round `t`.
    fn terms(&self, t: usize, chances: impl Fn(usize) -> f64) -> [f64; 3] {
        let (arm, reward, propensity) = self.played[t];
        let weight = chances(arm) / propensity;
        let expected: f64 = self.predicted[t].iter().enumerate().map(|(a, q)| chances(a) * q).sum();
        [expected + weight * (reward - self.predicted[t][arm]), weight * reward, weight]
    }
}

/// The run of a policy on one seed.
fn play(contender: &Contender, rounds: &[DataRound], log: Option<&Log>, seed: u64) -> Result<Series, Error> {
    let mut policy = contender.clone();
    let mut rng = SplitMix64::noise(seed);
    let mut series = Series::default();
    for (t, round) in rounds.iter().enumerate() {
        let fault = |reason: String| Error::Round { policy: contender.name.clone(), round: t + 1, reason };
        match (&round.observed, log) {
            (Observed::Every(rewards), _) => {
                let arm = policy.decide(&round.features, &mut rng).map_err(fault)?;
                let reward = rewards[arm];
                policy.learn(&round.features, arm, (reward, Some(rewards)), &mut rng).map_err(fault)?;
                series.measured.push(reward);
            }
            (Observed::Played { arm: logged, reward, .. }, Some(log)) => {
                // A round whose action is another is none for the policy: it must not count it.
                let mut after = policy.clone();
                let arm = after.decide(&round.features, &mut rng).map_err(fault)?;
                let [measured, weighted, weight] = log.terms(t, |a| f64::from(u8::from(a == arm)));
                series.measured.push(measured);
                series.weighted.push(weighted);
                series.weights.push(weight);
                if arm == *logged {
                    after.learn(&round.features, arm, (*reward, None), &mut rng).map_err(fault)?;
                    policy = after;
                }
            }
            (Observed::Played { .. }, None) => return Err(Error::NoPropensity { round: t + 1 }),
        }
    }
    Ok(series)
}

/// The uniform choice; the best fixed candidate, if candidates are the same in all rounds; the logged policy.
fn baselines(dataset: &Dataset, rounds: &[DataRound], log: Option<&Log>) -> Vec<(String, Series)> {
    let k = dataset.arms().len();
    let of = |chances: &dyn Fn(usize) -> f64| -> Series {
        let mut series = Series::default();
        for (t, round) in rounds.iter().enumerate() {
            match (&round.observed, log) {
                (Observed::Played { .. }, Some(log)) => {
                    let [measured, weighted, weight] = log.terms(t, chances);
                    series.measured.push(measured);
                    series.weighted.push(weighted);
                    series.weights.push(weight);
                }
                (observed, _) => {
                    let mean = (0..k).map(|arm| chances(arm) * observed.reward(arm).unwrap_or(0.0)).sum();
                    series.measured.push(mean);
                }
            }
        }
        series
    };
    let mut found = vec![("uniform".to_string(), of(&|_| 1.0 / k as f64))];
    if dataset.fixed() {
        let fixed: Vec<Series> = (0..k).map(|best| of(&|arm| f64::from(u8::from(arm == best)))).collect();
        let best = argmax(fixed.iter().map(|series| series.measured.iter().sum()));
        let series = fixed.into_iter().nth(best).unwrap_or_default();
        found.push((format!("always {}", dataset.arms()[best]), series));
    }
    if let Some(log) = log {
        let rewards: Vec<f64> = log.played.iter().map(|(_, reward, _)| *reward).collect();
        let weights = vec![1.0; rewards.len()];
        found
            .push(("logged policy".into(), Series { measured: rewards.clone(), weighted: rewards, weights }));
    }
    found
}
