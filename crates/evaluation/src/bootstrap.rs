//! Percentile intervals over resampled rounds and seeds.

use privacy::source::{SplitMix64, Words};
use rayon::prelude::*;

/// Number of resamples.
pub(crate) const RESAMPLES: u64 = 1000;

/// Terms of each round, for every seed: the statistic is the ratio of the means of `above` and `below`, or
/// the mean of `above` alone.
pub(crate) struct Terms<'a> {
    pub(crate) above: Vec<&'a [f64]>,
    pub(crate) below: Option<Vec<&'a [f64]>>,
}

impl Terms<'_> {
    /// The statistic over all rounds and seeds.
    pub(crate) fn value(&self) -> f64 {
        let sums = |of: &[&[f64]]| of.iter().map(|terms| terms.iter().sum()).collect::<Vec<f64>>();
        let every: Vec<usize> = (0..self.above.len()).collect();
        self.of(&sums(&self.above), self.below.as_deref().map(sums).as_deref(), &every)
    }

    /// The statistic from sums over rounds, for the seeds drawn.
    fn of(&self, above: &[f64], below: Option<&[f64]>, seeds: &[usize]) -> f64 {
        let mean = |sums: &[f64]| {
            // Equal sums keep their last bit.
            let first = sums[seeds[0]];
            first + seeds.iter().map(|seed| sums[*seed] - first).sum::<f64>() / seeds.len() as f64
        };
        let rounds = self.above.first().map_or(0, |terms| terms.len());
        match below.map_or(rounds as f64, mean) {
            // Where no weight is left, the estimate of nothing.
            0.0 => 0.0,
            below => mean(above) / below,
        }
    }
}

/// The statistics over [`RESAMPLES`] resamples of the rounds, and of the seeds of those with several; both
/// are drawn with replacement, and all terms see the same draws. Resample number i draws from SplitMix64 of
/// seed i: rounds first, then seeds.
///
/// - Shape: a row of as many statistics as `terms` for each resample.
/// - Cost: O(resamples · rounds · series), on all threads.
pub(crate) fn resample(terms: &[Terms<'_>], rounds: usize) -> Vec<Vec<f64>> {
    let most = terms.iter().map(|terms| terms.above.len()).max().unwrap_or(1);
    let resample = |seed: u64| -> Vec<f64> {
        let mut rng = SplitMix64::new(seed);
        // The remainder prefers low numbers by less than n/2⁶⁴.
        let mut draw = |n: usize| (rng.word() % n.max(1) as u64) as usize;
        let mut counts = vec![0.0; rounds];
        (0..rounds).for_each(|_| counts[draw(rounds)] += 1.0);
        let seeds: Vec<usize> = (0..most).map(|_| draw(most)).collect();
        let sum = |values: &&[f64]| values.iter().zip(&counts).map(|(x, n)| x * n).sum::<f64>();
        let of = |t: &Terms<'_>| {
            let above: Vec<f64> = t.above.iter().map(sum).collect();
            let below: Option<Vec<f64>> = t.below.as_ref().map(|below| below.iter().map(sum).collect());
            let seeds = if t.above.len() == most { &seeds[..] } else { &[0] };
            t.of(&above, below.as_deref(), seeds)
        };
        terms.iter().map(of).collect()
    };
    (0..RESAMPLES).into_par_iter().map(resample).collect()
}

/// The 2.5 % and 97.5 % quantiles of statistic `i`.
pub(crate) fn interval(draws: &[Vec<f64>], i: usize) -> [f64; 2] {
    let mut values: Vec<f64> = draws.iter().map(|draw| draw[i]).collect();
    values.sort_by(f64::total_cmp);
    [0.025, 0.975].map(|share| quantile(&values, share))
}

/// Lower ends of the differences of pairs of statistics, with `values` over all rounds: with a probability of
/// 95 % every difference is above its end, however many pairs there are. The ends are as many standard
/// deviations below as the largest of all studentised differences exceeds in 5 % of the resamples.
///
/// # Source
/// White, "A Reality Check for Data Snooping", 2000; studentised as in Romano and Wolf, "Stepwise Multiple
/// Testing as Formalized Data Snooping", 2005, without its steps.
pub(crate) fn differences(draws: &[Vec<f64>], values: &[f64], pairs: &[(usize, usize)]) -> Vec<f64> {
    let of = |of: &[f64], (a, b): (usize, usize)| of[a] - of[b];
    let count = draws.len().max(1) as f64;
    let deviation = |&pair: &(usize, usize)| {
        let mean = draws.iter().map(|draw| of(draw, pair)).sum::<f64>() / count;
        (draws.iter().map(|draw| (of(draw, pair) - mean).powi(2)).sum::<f64>() / count).sqrt()
    };
    let deviations: Vec<f64> = pairs.iter().map(deviation).collect();
    let largest = |draw: &Vec<f64>| {
        let studentised = pairs.iter().zip(&deviations).filter(|(_, deviation)| **deviation > 1e-12);
        let exceeds = studentised.map(|(&pair, deviation)| (of(draw, pair) - of(values, pair)) / deviation);
        exceeds.fold(0.0, f64::max)
    };
    let mut largest: Vec<f64> = draws.iter().map(largest).collect();
    largest.sort_by(f64::total_cmp);
    let wide = quantile(&largest, 0.95);
    pairs.iter().zip(&deviations).map(|(&pair, deviation)| of(values, pair) - wide * deviation).collect()
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted.get((sorted.len().saturating_sub(1) as f64 * share).round() as usize).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The interval of a mean of 0s and 1s is that of the binomial law: 1.96 standard deviations to each
    /// side, within a tenth for 1000 resamples.
    #[test]
    fn intervals_of_means_have_the_width_of_the_law() {
        let above: Vec<f64> = (0..2500).map(|i| f64::from(u8::from(i % 5 == 0))).collect();
        let below = vec![2.0; 2500];
        let one = |below| Terms { above: vec![&above[..]], below };
        let terms = [one(None), one(Some(vec![&below[..]]))];
        assert_eq!(terms.each_ref().map(Terms::value), [0.2, 0.1]);
        let draws = resample(&terms, 2500);
        let got = [0, 1].map(|i| interval(&draws, i));
        let half = 1.96 * (0.2f64 * 0.8 / 2500.0).sqrt();
        for (end, want) in got[0].iter().zip([0.2 - half, 0.2 + half]) {
            assert!((end - want).abs() < 0.1 * half, "{end} {want}");
        }
        assert_eq!(got[1], got[0].map(|end| end / 2.0));
    }

    /// Seeds whose means differ widen the interval, to that of the mean of so many draws.
    #[test]
    fn seeds_are_resampled_too() {
        let seeds: Vec<Vec<f64>> =
            (0..20).map(|seed| vec![f64::from(u8::from(seed % 2 == 0)); 400]).collect();
        let terms = [Terms { above: seeds.iter().map(Vec::as_slice).collect(), below: None }];
        assert_eq!(terms[0].value(), 0.5);
        let [low, high] = interval(&resample(&terms, 400), 0);
        // Means of 20 draws are multiples of 1/20, which the ends can be off by.
        let half = 1.96 * (0.25f64 / 20.0).sqrt();
        assert!((0.5 - low - half).abs() < 0.06 && (high - 0.5 - half).abs() < 0.06, "{low} {high} {half}");
    }

    /// Of twenty policies that are no better than a baseline, one is found to be better in at most 5 % of the
    /// files, within what 100 files tell. The control: their own intervals find one in a third of the files
    /// (1 − 0.975²⁰ is 0.40). A policy that is better by six standard deviations is found.
    #[test]
    fn many_policies_are_compared_together() {
        const ROUNDS: usize = 200;
        let mut rng = SplitMix64::new(3);
        let (mut alone, mut together) = (0, 0);
        for _ in 0..100 {
            let mut series = vec![vec![0.5; ROUNDS]];
            series.extend((0..20).map(|_| (0..ROUNDS).map(|_| (rng.word() >> 63) as f64).collect()));
            let better = (0..ROUNDS).map(|_| f64::from(u8::from(rng.word() % 100 < 71))).collect();
            series.push(better);
            let terms: Vec<Terms> =
                series.iter().map(|s| Terms { above: vec![&s[..]], below: None }).collect();
            let values: Vec<f64> = terms.iter().map(Terms::value).collect();
            let draws = resample(&terms, ROUNDS);
            let pairs: Vec<_> = (1..22).map(|i| (i, 0)).collect();
            let ends = differences(&draws, &values, &pairs);
            together += usize::from(ends[..20].iter().any(|end| *end > 0.0));
            alone += usize::from((1..21).any(|i| interval(&draws, i)[0] > 0.5));
            assert!(ends[20] > 0.0, "{} ends at {}", values[21], ends[20]);
        }
        assert!(together <= 11, "{together} of 100 files");
        assert!(alone >= 30, "{alone} of 100 files");
    }
}
