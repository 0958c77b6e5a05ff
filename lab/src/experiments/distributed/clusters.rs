//! Clusters of synthetic pages, in place of a learning-to-rank data set that may not be redistributed.

use bandit::sampling::standard_normal;
use bandit::{Arms, RewardLaw};
use privacy::source::{SplitMix64, Words};
use rand::Rng;

/// Number of features of a row, as in MSLR-WEB10K.
const FEATURES: usize = 136;
const TOPICS: usize = 40;
/// Number of rows of each relevance label, 0 to 4, in MSLR-WEB10K.
const LABELS: [f64; 5] = [624_263.0, 386_280.0, 159_451.0, 21_317.0, 8_881.0];

/// The distribution of rewards of arms that pay the relevance, over 4, of a random row of their cluster.
///
/// The features of a row are the centre of its topic plus standard normal noise. Its score is the quality of
/// the topic (deviation 0.6), half of the projection of the row on a random direction, and standard normal
/// noise; labels cut the scores at the quantiles of the real data. Arms are the clusters of k-means++ with a
/// few Lloyd steps, as in the paper.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Clusters {
    /// Cumulative shares of the labels 0 to 3, by arm.
    below: Vec<[f64; 4]>,
    means: Vec<f64>,
}

impl Clusters {
    /// Arms that are clusters of `rows` synthetic rows, a function of the arguments. Cost: `rows * arms *
    /// 136` operations per Lloyd step.
    pub(super) fn arms(arms: usize, rows: usize, steps: usize, seed: u64) -> Arms<Self> {
        Arms::of(Self::new(arms, rows, steps, seed))
    }

    fn new(arms: usize, rows: usize, steps: usize, seed: u64) -> Self {
        let rng = &mut SplitMix64::new(seed);
        let centres: Vec<f64> = (0..TOPICS * FEATURES).map(|_| standard_normal(rng)).collect();
        let qualities: Vec<f64> = (0..TOPICS).map(|_| 0.6 * standard_normal(rng)).collect();
        let direction: Vec<f64> =
            (0..FEATURES).map(|_| standard_normal(rng) / (FEATURES as f64).sqrt()).collect();
        let (mut features, mut scores) = (Vec::with_capacity(rows * FEATURES), Vec::with_capacity(rows));
        for _ in 0..rows {
            let topic = rng.below(TOPICS as u128) as usize;
            let start = features.len();
            features.extend(centres[topic * FEATURES..][..FEATURES].iter().map(|c| c + standard_normal(rng)));
            let share: f64 = features[start..].iter().zip(&direction).map(|(x, w)| x * w).sum();
            scores.push(qualities[topic] + 0.5 * share + standard_normal(rng));
        }
        let assigned = k_means(&features, arms, steps, rng);
        Self::of(&assigned, &labels(&scores), arms)
    }

    fn of(assigned: &[usize], labels: &[usize], arms: usize) -> Self {
        let mut counts = vec![[0.0; 5]; arms];
        assigned.iter().zip(labels).for_each(|(arm, label)| counts[*arm][*label] += 1.0);
        let (mut below, mut means) = (Vec::new(), Vec::new());
        for count in counts {
            // An empty cluster, which is rare after k-means++, pays nothing.
            let total = count.iter().sum::<f64>().max(1.0);
            let mut sum = if count.iter().sum::<f64>() == 0.0 { 1.0 } else { 0.0 };
            below.push([0, 1, 2, 3].map(|label| {
                sum += count[label] / total;
                sum
            }));
            means.push((1..5).map(|label| label as f64 * count[label]).sum::<f64>() / (4.0 * total));
        }
        Self { below, means }
    }
}

impl RewardLaw for Clusters {
    /// One uniform number, which all arms share.
    type Round = f64;

    fn means(&self) -> &[f64] {
        &self.means
    }

    fn draw(&self, rng: &mut dyn Rng) -> f64 {
        rng.uniform()
    }

    fn reward(&self, arm: usize, uniform: &f64) -> f64 {
        self.below[arm].iter().filter(|b| uniform >= *b).count() as f64 / 4.0
    }
}

/// The label of each row: scores are cut at the quantiles of [`LABELS`].
fn labels(scores: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    let (all, mut sum) = (LABELS.iter().sum::<f64>(), 0.0);
    let cuts = LABELS.map(|count| {
        sum += count;
        sum / all * scores.len() as f64
    });
    let mut labels = vec![0; scores.len()];
    for (rank, row) in order.into_iter().enumerate() {
        labels[row] = cuts[..4].iter().filter(|cut| rank as f64 >= **cut).count();
    }
    labels
}

/// The cluster of each row by k-means++ (Arthur, Vassilvitskii 2007), followed by `steps` Lloyd steps.
fn k_means(features: &[f64], k: usize, steps: usize, rng: &mut SplitMix64) -> Vec<usize> {
    let rows = features.len() / FEATURES;
    let row = |i: usize| &features[i * FEATURES..][..FEATURES];
    let distance = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum::<f64>();
    let mut centres = row(rng.below(rows as u128) as usize).to_vec();
    let mut nearest = vec![f64::INFINITY; rows];
    for _ in 1..k {
        let last = &centres[centres.len() - FEATURES..];
        nearest.iter_mut().enumerate().for_each(|(i, d)| *d = d.min(distance(row(i), last)));
        let mut left = rng.uniform() * nearest.iter().sum::<f64>();
        let drawn = nearest.iter().position(|d| {
            left -= d;
            left < 0.0
        });
        centres.extend_from_slice(row(drawn.unwrap_or(rows - 1)));
    }
    let mut assigned = vec![0; rows];
    for _ in 0..steps {
        for (i, arm) in assigned.iter_mut().enumerate() {
            let distances = centres.chunks_exact(FEATURES).map(|c| distance(row(i), c)).enumerate();
            *arm = distances.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |d| d.0);
        }
        let (mut sums, mut counts) = (vec![0.0; k * FEATURES], vec![0.0; k]);
        for (i, arm) in assigned.iter().enumerate() {
            sums[arm * FEATURES..][..FEATURES].iter_mut().zip(row(i)).for_each(|(s, x)| *s += x);
            counts[*arm] += 1.0;
        }
        // An empty cluster keeps its centre.
        for ((centre, sum), count) in
            centres.chunks_exact_mut(FEATURES).zip(sums.chunks_exact(FEATURES)).zip(counts)
        {
            if count > 0.0 {
                centre.iter_mut().zip(sum).for_each(|(c, s)| *c = s / count);
            }
        }
    }
    assigned
}

#[cfg(test)]
mod tests {
    use super::*;
    use bandit::{Environment, Error};

    /// Labels are as frequent as in the real data, and clusters differ in their relevance.
    #[test]
    fn clusters_are_like_those_of_the_data() {
        let arms = Clusters::new(12, 3000, 4, 1);
        assert_eq!((arms.means().len(), &arms), (12, &Clusters::new(12, 3000, 4, 1)));
        let (low, high) = arms.means().iter().fold((1.0f64, 0.0f64), |(a, b), m| (a.min(*m), b.max(*m)));
        assert!(low < 0.13 && high > 0.25 && high <= 1.0, "{low} {high}");
        let scores: Vec<f64> = (0..1000).map(|i| f64::from(i * 37 % 1000)).collect();
        let labels = labels(&scores);
        let count = |label| labels.iter().filter(|l| **l == label).count();
        assert_eq!([0, 1, 2, 3, 4].map(count), [521, 321, 133, 18, 7]);
        assert!(scores.iter().zip(&labels).all(|(s, l)| (*l == 0) == (*s < 521.0)));
    }

    /// Rewards have the mean that regret is reckoned by, within five standard errors.
    #[test]
    fn rewards_have_the_clusters_mean() {
        let mut arms = Arms::of(Clusters::of(&[0, 0, 0, 1, 1], &[0, 4, 1, 2, 2], 3));
        assert_eq!(arms.means(), [5.0 / 12.0, 0.5, 0.0]);
        let mut rng = SplitMix64::new(2);
        let mut rewards = vec![Vec::new(); 3];
        for _ in 0..20_000 {
            assert!(arms.begin(&mut rng));
            for (arm, rewards) in rewards.iter_mut().enumerate() {
                rewards.push(arms.play(arm, &mut rng).unwrap().reward);
            }
        }
        let s = bandit::Summary::of(&rewards[0]).unwrap();
        assert!((s.mean - 5.0 / 12.0).abs() < 5.0 * s.standard_error, "{s:?}");
        assert!(rewards[1].iter().all(|r| *r == 0.5) && rewards[2].iter().all(|r| *r == 0.0));
        assert_eq!(arms.play(3, &mut rng).unwrap_err(), Error::Arm { arm: 3, k: 3 });
    }
}
