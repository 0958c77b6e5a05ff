//! Logged rounds: a model of rewards, what a policy learns from a round, and estimates of what it earned.

use crate::Error;
use bandit::vector::dot;
use datasets::{DataRound, Dataset, Observed};
use privacy::source::{SplitMix64, Words};

/// Number of parts of the rounds. What is estimated from a part, and what is learnt before, is of models that
/// are fitted to other parts.
pub(crate) const PARTS: usize = 5;
/// The most candidates that have a coefficient each.
const MOST_COEFFICIENTS: usize = 64;

/// A logged round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Played {
    pub(crate) arm: usize,
    pub(crate) reward: f64,
    /// 1 if no round has a probability.
    pub(crate) propensity: f64,
}

/// Logged rounds with the expected reward q of every candidate by a model: ridge regressions (λ = 1) of
/// reward on features, 1 and, where candidates are the same in all rounds, the one-hot of the candidate. That
/// for the rounds of one of five parts is fitted to the logged actions of the others, with weights 1/(Kp), so
/// that rounds in which a candidate is shown seldom count as much as others.
pub(crate) struct Log {
    pub(crate) played: Vec<Played>,
    /// Whether probabilities are known.
    pub(crate) weighted: bool,
    /// The fold of features and the part of each round.
    cells: Vec<Cell>,
    /// By fold, coefficients of models that are fitted to its rounds without those of each part.
    models: Vec<Vec<Vec<f64>>>,
    /// The number of candidates that have a coefficient each.
    own: usize,
    /// q, round by round.
    predicted: Vec<f64>,
    k: usize,
    /// Whether each reward is 0 or 1.
    binary: bool,
    /// By fold and part, sums of 1/p up to each round of the fold that is in another part, with the round.
    weights: Vec<Vec<Vec<(f64, usize)>>>,
}

/// The rounds that a policy is judged by in one run: those of one fold of the features, and of one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) fold: usize,
    pub(crate) part: usize,
}

/// What a choice adds to the estimates in a round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Term {
    /// Doubly robust; without probabilities q.
    pub(crate) measured: f64,
    /// The reward times the weight.
    pub(crate) weighted: f64,
    /// The probability of the logged action under the choice, divided by that of the log.
    pub(crate) weight: f64,
}

impl Log {
    /// `None` if every reward is known.
    pub(crate) fn new(dataset: &Dataset, rounds: &[DataRound], keys: &[u64]) -> Result<Option<Self>, Error> {
        if rounds.iter().all(|round| matches!(round.observed, Observed::Every(_))) {
            return Ok(None);
        }
        let known =
            |round: &DataRound| matches!(round.observed, Observed::Played { propensity: Some(_), .. });
        let weighted = rounds.iter().any(known);
        let played = |(t, round): (usize, &DataRound)| match round.observed {
            Observed::Played { arm, reward, propensity } if propensity.is_some() == weighted => {
                Ok(Played { arm, reward, propensity: propensity.unwrap_or(1.0) })
            }
            _ => Err(Error::SomePropensities { round: t + 1 }),
        };
        let played: Vec<Played> = rounds.iter().enumerate().map(played).collect::<Result<_, _>>()?;
        let k = dataset.arms().len();
        let own = if dataset.fixed() && k <= MOST_COEFFICIENTS { k } else { 0 };
        let wide = dataset.d() + 1 + own;
        let folds = dataset.folds();
        let part = |t: usize| (SplitMix64::new(keys[t]).word() % PARTS as u64) as usize;
        let cells: Vec<Cell> = (0..rounds.len()).map(|t| Cell { fold: t % folds, part: part(t) }).collect();
        let none = || -> Vec<Moments> { (0..PARTS).map(|_| Moments::new(wide)).collect() };
        let mut sums: Vec<Vec<Moments>> = (0..folds).map(|_| none()).collect();
        for ((cell, round), played) in cells.iter().zip(rounds).zip(&played) {
            let Some(features) = round.features.row(played.arm) else { continue };
            let weight = if weighted { 1.0 / (k as f64 * played.propensity) } else { 1.0 };
            sums[cell.fold][cell.part].add(&row(features, played.arm, own), played.reward, weight);
        }
        let of_fold = |sums: &Vec<Moments>| (0..PARTS).map(|part| Moments::without(sums, part)).collect();
        let models: Vec<Vec<Vec<f64>>> = sums.iter().map(of_fold).collect();
        let mut predicted = Vec::with_capacity(rounds.len() * k);
        for (cell, round) in cells.iter().zip(rounds) {
            let model = &models[cell.fold][cell.part];
            predicted.extend(round.features.rows().enumerate().map(|(arm, x)| dot(model, &row(x, arm, own))));
        }
        let binary = played.iter().all(|p| p.reward == 0.0 || p.reward == 1.0);
        let mut weights: Vec<Vec<Vec<(f64, usize)>>> = vec![vec![Vec::new(); PARTS]; folds];
        for (t, (cell, played)) in cells.iter().zip(&played).enumerate() {
            let others = weights[cell.fold].iter_mut().enumerate().filter(|(part, _)| *part != cell.part);
            others.for_each(|(_, sums)| {
                let before = sums.last().map_or(0.0, |(sum, _)| *sum);
                sums.push((before + 1.0 / played.propensity, t));
            });
        }
        Ok(Some(Log { played, weighted, cells, models, own, predicted, k, binary, weights }))
    }

    /// The fold and the part of round `t`.
    pub(crate) fn cell(&self, t: usize) -> Cell {
        self.cells[t]
    }

    /// q of every candidate in round `t`.
    pub(crate) fn predicted(&self, t: usize) -> &[f64] {
        &self.predicted[t * self.k..][..self.k]
    }

    /// What a policy learns in round `t` of `arm`, if it is judged by the rounds of `cell`, whose fold round
    /// t is in: a draw around q of a model that is fitted to the fold without the part of the cell and round
    /// t's own, with `u` uniform in \[0, 1). If rewards are 0 and 1, it is 1 with probability q. Else it is q
    /// plus the logged reward less its q in a round of the fold and another part, drawn with a probability in
    /// proportion to 1/p.
    ///
    /// The logged reward itself, where the arm is the logged one, would mislead the policy: a log shows a
    /// candidate more often where it earns more, also for reasons that are not among the features.
    pub(crate) fn reward(&self, rounds: &[DataRound], cell: Cell, t: usize, arm: usize, u: f64) -> f64 {
        let q = |t: usize, arm: usize| {
            let model = &self.models[cell.fold][cell.part];
            rounds[t].features.row(arm).map_or(0.0, |x| dot(model, &row(x, arm, self.own)))
        };
        if self.binary {
            return f64::from(u8::from(u < q(t, arm)));
        }
        let weights = &self.weights[cell.fold][cell.part];
        let all = weights.last().map_or(0.0, |(sum, _)| *sum);
        let drawn = weights.partition_point(|(sum, _)| *sum <= u * all);
        let Some((_, other)) = weights.get(drawn).or(weights.last()) else {
            return q(t, arm).clamp(0.0, 1.0);
        };
        let Played { arm: shown, reward, .. } = self.played[*other];
        (q(t, arm) + reward - q(*other, shown)).clamp(0.0, 1.0)
    }

    /// The terms of round `t` of a choice with these probabilities.
    pub(crate) fn term(&self, t: usize, chances: impl Fn(usize) -> f64) -> Term {
        let Played { arm, reward, propensity } = self.played[t];
        let expected: f64 = self.predicted(t).iter().enumerate().map(|(a, q)| chances(a) * q).sum();
        if !self.weighted {
            return Term { measured: expected, weighted: 0.0, weight: 0.0 };
        }
        let weight = chances(arm) / propensity;
        let robust = expected + weight * (reward - self.predicted(t)[arm]);
        Term { measured: robust, weighted: weight * reward, weight }
    }
}

/// The features, 1, and the one-hot of `arm` among `own` candidates.
fn row(features: &[f64], arm: usize, own: usize) -> Vec<f64> {
    let mut row = features.to_vec();
    row.push(1.0);
    row.extend((0..own).map(|a| f64::from(u8::from(a == arm))));
    row
}

/// Σ w z zᵀ, row by row up to the diagonal, and Σ w r z.
struct Moments {
    design: Vec<Vec<f64>>,
    moment: Vec<f64>,
}

impl Moments {
    fn new(wide: usize) -> Self {
        Moments { design: (0..wide).map(|i| vec![0.0; i + 1]).collect(), moment: vec![0.0; wide] }
    }

    fn add(&mut self, z: &[f64], reward: f64, weight: f64) {
        for (row, a) in self.design.iter_mut().zip(z).filter(|(_, a)| **a != 0.0) {
            row.iter_mut().zip(z).for_each(|(v, b)| *v += weight * a * b);
        }
        self.moment.iter_mut().zip(z).for_each(|(g, x)| *g += weight * reward * x);
    }

    /// (I + Σ w z zᵀ)⁻¹ Σ w r z over all parts but one, by Cholesky's decomposition.
    fn without(parts: &[Moments], left_out: usize) -> Vec<f64> {
        let wide = parts[left_out].moment.len();
        let others = || parts.iter().enumerate().filter(|(i, _)| *i != left_out).map(|(_, part)| part);
        let mut l = Moments::new(wide).design;
        for i in 0..wide {
            for j in 0..=i {
                let sum: f64 = others().map(|part| part.design[i][j]).sum();
                let left = sum + f64::from(u8::from(i == j)) - dot(&l[i][..j], &l[j][..j]);
                // The matrix is at least the identity.
                l[i][j] = if i == j { left.max(0.5).sqrt() } else { left / l[j][j] };
            }
        }
        let mut theta: Vec<f64> = (0..wide).map(|i| others().map(|part| part.moment[i]).sum()).collect();
        for i in 0..wide {
            theta[i] = (theta[i] - dot(&l[i][..i], &theta[..i])) / l[i][i];
        }
        for i in (0..wide).rev() {
            let below: f64 = (i + 1..wide).map(|j| l[j][i] * theta[j]).sum();
            theta[i] = (theta[i] - below) / l[i][i];
        }
        theta
    }
}
