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

/// For each of `terms` the 2.5 % and 97.5 % quantiles over [`RESAMPLES`] resamples of the rounds, and of the
/// seeds of those with several; both are drawn with replacement, and all terms see the same draws. Resample
/// number i draws from SplitMix64 of seed i: rounds first, then seeds.
///
/// Cost: O(resamples · rounds · series), on all threads.
pub(crate) fn intervals(terms: &[Terms<'_>], rounds: usize) -> Vec<[f64; 2]> {
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
    let draws: Vec<Vec<f64>> = (0..RESAMPLES).into_par_iter().map(resample).collect();
    let of = |i: usize| {
        let mut values: Vec<f64> = draws.iter().map(|draw| draw[i]).collect();
        values.sort_by(f64::total_cmp);
        let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
        [at(0.025), at(0.975)]
    };
    (0..terms.len()).map(of).collect()
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
        let got = intervals(&terms, 2500);
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
        let [low, high] = intervals(&terms, 400)[0];
        // Means of 20 draws are multiples of 1/20, which the ends can be off by.
        let half = 1.96 * (0.25f64 / 20.0).sqrt();
        assert!((0.5 - low - half).abs() < 0.06 && (high - 0.5 - half).abs() < 0.06, "{low} {high} {half}");
    }
}
