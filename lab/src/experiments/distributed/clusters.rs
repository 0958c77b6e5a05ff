//! Clusters of pages: synthetic ones, in place of a learning-to-rank data set that may not be redistributed,
//! or those of a file of the user.

use anyhow::{Context, Result, bail, ensure};
use bandit::sampling::standard_normal;
use bandit::{Arms, RewardLaw};
use privacy::source::{SplitMix64, Words};
use rand::Rng;
use std::io::{BufRead, BufReader};
use std::path::Path;

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
        let assigned = k_means(&features, FEATURES, arms, steps, rng);
        Self::of(&assigned, &labels(&scores), arms)
    }

    /// Arms that are clusters of the rows of a file in the format of LETOR and SVMlight: a label from 0 to 4,
    /// then `qid:ID`, then `NUMBER:VALUE` for each feature, from 1 on. Features are scaled to mean 0 and
    /// deviation 1. Reads the first [`MAX_ROWS`] rows.
    pub(super) fn of_file(path: &Path, arms: usize, steps: usize, seed: u64) -> Result<(Arms<Self>, usize)> {
        let file = std::fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let (mut features, mut labels, mut width) = (Vec::new(), Vec::new(), 0);
        for (i, line) in BufReader::new(file).lines().take(MAX_ROWS).enumerate() {
            let line = line.with_context(|| format!("cannot read {}", path.display()))?;
            let row = row(&line).with_context(|| format!("{}, line {}", path.display(), i + 1))?;
            if i == 0 {
                width = row.1.len();
            }
            ensure!(
                row.1.len() == width,
                "line {}: {} features, the first line has {width}",
                i + 1,
                row.1.len()
            );
            labels.push(row.0);
            features.extend(row.1);
        }
        ensure!(
            labels.len() >= arms && width > 0,
            "{} rows with {width} features: {arms} clusters need more",
            labels.len()
        );
        standardise(&mut features, width);
        let assigned = k_means(&features, width, arms, steps, &mut SplitMix64::new(seed));
        Ok((Arms::of(Self::of(&assigned, &labels, arms)), labels.len()))
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

/// The most rows of a file that are read: at 136 features 272 MB.
const MAX_ROWS: usize = 250_000;
/// The most features of a row.
const MAX_FEATURES: usize = 1_000;

/// Label and features of a line.
fn row(line: &str) -> Result<(usize, Vec<f64>)> {
    // What follows a # is a comment.
    let mut words = line.split('#').next().unwrap_or_default().split_ascii_whitespace();
    let label = words.next().context("an empty line")?;
    let label = label
        .parse()
        .ok()
        .filter(|label| *label <= 4)
        .with_context(|| format!("{label:?} is no label from 0 to 4"))?;
    let mut features = Vec::new();
    for word in words.filter(|word| !word.starts_with("qid:")) {
        let (number, value) =
            word.split_once(':').with_context(|| format!("{word:?} is not NUMBER:VALUE"))?;
        let number: usize = number.parse().with_context(|| format!("{word:?} is not NUMBER:VALUE"))?;
        let value: f64 = value.parse().with_context(|| format!("{word:?} is not NUMBER:VALUE"))?;
        if number != features.len() + 1 || number > MAX_FEATURES || !value.is_finite() {
            bail!("{word:?}: features are finite, in order, and {MAX_FEATURES} at most");
        }
        features.push(value);
    }
    Ok((label, features))
}

/// Shifts and scales each column to mean 0 and deviation 1. A constant column becomes 0.
fn standardise(features: &mut [f64], width: usize) {
    let rows = (features.len() / width) as f64;
    for column in 0..width {
        let values = || features.iter().skip(column).step_by(width);
        let mean = values().sum::<f64>() / rows;
        let deviation = (values().map(|v| (v - mean).powi(2)).sum::<f64>() / rows).sqrt();
        let scale = if deviation > 0.0 { 1.0 / deviation } else { 0.0 };
        features.iter_mut().skip(column).step_by(width).for_each(|v| *v = (*v - mean) * scale);
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
fn k_means(features: &[f64], width: usize, k: usize, steps: usize, rng: &mut SplitMix64) -> Vec<usize> {
    let rows = features.len() / width;
    let row = |i: usize| &features[i * width..][..width];
    let distance = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum::<f64>();
    let mut centres = row(rng.below(rows as u128) as usize).to_vec();
    let mut nearest = vec![f64::INFINITY; rows];
    for _ in 1..k {
        let last = &centres[centres.len() - width..];
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
            let distances = centres.chunks_exact(width).map(|c| distance(row(i), c)).enumerate();
            *arm = distances.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |d| d.0);
        }
        let (mut sums, mut counts) = (vec![0.0; k * width], vec![0.0; k]);
        for (i, arm) in assigned.iter().enumerate() {
            sums[arm * width..][..width].iter_mut().zip(row(i)).for_each(|(s, x)| *s += x);
            counts[*arm] += 1.0;
        }
        // An empty cluster keeps its centre.
        for ((centre, sum), count) in
            centres.chunks_exact_mut(width).zip(sums.chunks_exact(width)).zip(counts)
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

    /// A file has the arms of its clusters; other files are refused with the line and the reason.
    #[test]
    fn files_of_pages_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pages.txt");
        let line = |i: usize| format!("{} qid:{i} 1:{} 2:{}\n", 4 * (i % 2), 100 * (i % 2), i % 7);
        std::fs::write(&path, (0..60).map(line).collect::<String>()).unwrap();
        let (arms, rows) = Clusters::of_file(&path, 2, 5, 1).unwrap();
        let mut means = arms.means().to_vec();
        means.sort_by(f64::total_cmp);
        assert_eq!((means, rows), (vec![0.0, 1.0], 60));
        for (bad, says) in [
            ("5 1:2\n", "label from 0 to 4"),
            ("1 2:2\n", "in order"),
            ("1 1:x\n", "NUMBER:VALUE"),
            ("1 1:inf\n", "finite"),
            ("1 1:1\n1 1:1 2:1\n", "the first line has 1"),
            ("1 1:1\n", "clusters need more"),
            ("\n", "an empty line"),
        ] {
            std::fs::write(&path, bad).unwrap();
            let said = format!("{:#}", Clusters::of_file(&path, 2, 5, 1).unwrap_err());
            assert!(said.contains(says), "{bad:?}: {said}");
        }
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
