//! Ridge regression of rewards on features, with a model for each arm, chosen by cross-validation.
//!
//! The reward of arm a is predicted as (w + v_a)·x. The first coefficient of each is an intercept. w is the
//! ridge regression of the rewards of all arms; v_a that of what it leaves of the rewards of arm a. Features
//! are standardised for the penalties, with the mean and the deviation that they have in all rows, so that
//! they are those of scikit-learn's `Ridge(alpha)` after its `StandardScaler`:
//!
//! - w minimises Σ (r - w·x)² + λ |w|², without a penalty on the intercept;
//! - v_a minimises Σ (r - w·x - v·x)² + [`OFFSET`] v₀² + μ |v|², over the rows of arm a. Where μ is infinite,
//!   arms differ in their intercepts alone.
//!
//! Rows belong to [`FOLDS`] folds. λ and then μ are those of [`PENALTIES`] with the least squared error on
//! each fold of the model that is learnt from the others. Everything is computed from the second moments of
//! each arm in each fold: one pass over the rows, and D² numbers for each.
//!
//! Rewards enter through Σ r·x of each arm in each fold, and Σ r², which shifts all errors alike.
//! [`RidgeFit::protect`] adds noise to the first and sets the second to 0. What follows are then functions of
//! noisy sums and of features.
//!
//! | symbol | here |
//! |---|---|
//! | D | `wide`, the number of features, the intercept among them |
//! | λ, μ | `penalty` of `shared`, and of `own` |

use crate::MAX_DATASET;
use nalgebra::{Cholesky, DMatrix, DVector};
use privacy::budget::{Rho, Sensitivity};
use privacy::gauss::{GaussianNoise, GridGaussian};
use rand::Rng;

/// The number of parts that a file is divided into.
pub(crate) const FOLDS: usize = 5;
/// The penalties that are tried, in units of rows.
const PENALTIES: [f64; 7] = [0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5];
/// The penalty on the square of an arm's own intercept.
const OFFSET: f64 = 10.0;
/// The penalty on the shared intercept, which makes a model of no rows 0.
const NONE: f64 = 1e-6;

/// What terms of sums that get noise are rounded to. In sums of doubles the error of a sum depends on all of
/// its terms, and would not be bounded by the change of one reward.
const TERM: f64 = 1.0 / (1u64 << 36) as f64;

/// The second moments of rows and rewards, by fold and by arm.
#[derive(Debug, Clone)]
pub(crate) struct RidgeFit {
    wide: usize,
    folds: Vec<Vec<Moments>>,
    /// The largest change of all [`Moments::rewards`], in the Euclidean norm, if the rewards of one round
    /// change within the interval from 0 to 1.
    change: f64,
}

#[derive(Debug, Clone)]
struct Moments {
    /// Sums of the products of features, of which the upper triangle is filled, by rows.
    products: Vec<f64>,
    /// Sums of features times the reward.
    rewards: Vec<f64>,
    /// As `rewards`, of terms that are rounded to [`TERM`], without an error of the sum.
    exact: Vec<i128>,
    /// Sum of the squared rewards.
    squares: f64,
}

/// Models, as coefficients of the features.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ridge {
    /// The model of all rows: a row of coefficients for each arm.
    pub(crate) model: Vec<Vec<f64>>,
    /// For each fold, the model of the rows of the other folds.
    pub(crate) crossed: Vec<Vec<Vec<f64>>>,
    /// The share of the variance of rewards that models explain on the folds that they have not seen. It is
    /// negative if the mean predicts better, and means nothing after [`RidgeFit::protect`].
    pub(crate) explained: f64,
}

/// Standardised moments of some rows: the matrix, the vector, and the sum of squared rewards.
#[derive(Clone)]
struct Standard(DMatrix<f64>, DVector<f64>, f64);

impl RidgeFit {
    /// Before the first row. `groups` is the number of arms, or 1 for a model of all. `None` if the moments
    /// would take more than [`MAX_DATASET`] bytes.
    pub(crate) fn new(wide: usize, groups: usize) -> Option<Self> {
        let bytes = [wide, wide, groups, FOLDS].iter().try_fold(8u64, |n, x| n.checked_mul(*x as u64))?;
        let none = Moments {
            products: vec![0.0; wide * wide],
            rewards: vec![0.0; wide],
            exact: vec![0; wide],
            squares: 0.0,
        };
        (bytes <= MAX_DATASET).then(|| RidgeFit { wide, folds: vec![vec![none; groups]; FOLDS], change: 0.0 })
    }

    /// Takes the rows of a round in, with their arms and rewards. The first feature of a row is 1.
    pub(crate) fn see_round<'a>(&mut self, fold: usize, rows: impl Iterator<Item = (usize, &'a [f64], f64)>) {
        let mut change = 0.0;
        for (arm, row, reward) in rows {
            let group = if self.folds[fold].len() == 1 { 0 } else { arm };
            self.see(fold, group, row, reward);
            // Each reward moves its sums by at most its row and what terms are rounded by, and all of them by
            // at most the sum.
            change += row.iter().map(|x| x * x).sum::<f64>().sqrt() + TERM * (row.len() as f64).sqrt();
        }
        self.change = self.change.max(change);
    }

    /// Adds discrete Gaussian noise to the sums with rewards, of which everything that is then learnt from
    /// rewards is a function: zero-concentrated differential privacy at the cost `rho`, for files that differ
    /// in the rewards of one round.
    ///
    /// # Source
    /// Dwork, Talwar, Thakurta, Zhang, "Analyze Gauss", 2014, for the moments of rewards alone; noise by
    /// Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", 2020, Theorem 4.
    pub(crate) fn protect(&mut self, rho: Rho, rng: &mut dyn Rng) -> Result<(), privacy::Error> {
        let mut grid = GridGaussian::new(16)?;
        // The rewards of a round are in the sums of one fold.
        let sums = self.wide * self.folds[0].len();
        // A part in a million is more than the norms of rows are off in double precision.
        let change = Sensitivity::new(self.change * (1.0 + 1e-6))?;
        let sensitivity = grid.rounded_sensitivity(change, sums)?;
        let sigma = rho.sigma(sensitivity);
        for moments in self.folds.iter_mut().flatten() {
            moments.squares = 0.0;
            for (sum, exact) in moments.rewards.iter_mut().zip(&moments.exact) {
                // The nearest step of the grid, which a double holds exactly.
                let steps = (exact + (1 << 19)) >> 20;
                *sum = grid.round(steps as f64 / 65_536.0)? + grid.draw(sigma, rng)?;
            }
        }
        Ok(())
    }

    fn see(&mut self, fold: usize, group: usize, row: &[f64], reward: f64) {
        let moments = &mut self.folds[fold][group];
        moments.squares += reward * reward;
        for (i, x) in row.iter().enumerate().filter(|(_, x)| **x != 0.0) {
            moments.rewards[i] += x * reward;
            moments.exact[i] = moments.exact[i].saturating_add((x * reward / TERM).round() as i128);
            let products = &mut moments.products[i * self.wide + i..(i + 1) * self.wide];
            products.iter_mut().zip(&row[i..]).for_each(|(p, y)| *p += x * y);
        }
    }

    /// The models. `None` if features are beyond double precision.
    pub(crate) fn finish(self) -> Option<Ridge> {
        let scale = self.scale();
        let standard = |fold: &Vec<Moments>| fold.iter().map(|m| scale.standard(m)).collect();
        let folds: Vec<Vec<Standard>> = self.folds.iter().map(standard).collect();
        let without = |left_out: usize| {
            let mut sums = vec![Standard::zero(self.wide); folds[0].len()];
            for (_, fold) in folds.iter().enumerate().filter(|(f, _)| *f != left_out) {
                sums.iter_mut().zip(fold).for_each(|(sum, part)| sum.add(part));
            }
            sums
        };
        let rest: Vec<Vec<Standard>> = (0..FOLDS).map(without).collect();
        // The squared error of each fold by the model of the others.
        let error = |shared: f64, own: f64| -> Option<f64> {
            let of_fold = |(fold, rest): (&Vec<Standard>, &Vec<Standard>)| -> Option<f64> {
                let models = fit(rest, shared, own)?;
                Some(fold.iter().zip(&models).map(|(part, w)| part.error(w)).sum())
            };
            folds.iter().zip(&rest).map(of_fold).sum()
        };
        let one = folds[0].len() == 1;
        let (_, shared) = best(PENALTIES.map(|penalty| (error(penalty, f64::INFINITY), penalty)))?;
        let own = PENALTIES.into_iter().filter(|_| !one).chain([f64::INFINITY]);
        let (least, own) = best(own.map(|penalty| (error(shared, penalty), penalty)))?;
        let all = without(FOLDS);
        let total = Standard::sum(&all);
        // The first feature is 1: its moments are the number of rows, and the sum of rewards.
        let spread = total.2 - total.1[0] * total.1[0] / total.0[(0, 0)];
        let model = |part: &Vec<Standard>| Some(scale.plain(&fit(part, shared, own)?));
        Some(Ridge {
            model: model(&all)?,
            crossed: rest.iter().map(model).collect::<Option<_>>()?,
            explained: if spread > 1e-12 * total.2 { 1.0 - least / spread } else { 0.0 },
        })
    }

    /// The mean of each feature in all rows, and 1 divided by its deviation: 0 for a constant.
    fn scale(&self) -> Scale {
        let sum = |i: usize, j: usize| -> f64 {
            self.folds.iter().flatten().map(|m| m.products[i * self.wide + j]).sum()
        };
        let n = sum(0, 0).max(1.0);
        let of = |j: usize| {
            let (mean, square) = (sum(0, j) / n, sum(j, j) / n);
            let variance = square - mean * mean;
            (mean, if variance > 1e-12 * square { variance.sqrt().recip() } else { 0.0 })
        };
        Scale([(0.0, 1.0)].into_iter().chain((1..self.wide).map(of)).collect())
    }
}

/// For each feature, what is subtracted, and what it is then multiplied by.
struct Scale(Vec<(f64, f64)>);

impl Scale {
    fn standard(&self, moments: &Moments) -> Standard {
        let wide = self.0.len();
        let product = |i: usize, j: usize| moments.products[i.min(j) * wide + i.max(j)];
        let matrix = DMatrix::from_fn(wide, wide, |i, j| {
            let ((a, f), (b, g)) = (self.0[i], self.0[j]);
            f * g * (product(i, j) - a * product(0, j) - b * product(i, 0) + a * b * product(0, 0))
        });
        let vector = |i: usize, _| {
            let (a, f) = self.0[i];
            f * (moments.rewards[i] - a * moments.rewards[0])
        };
        Standard(matrix, DVector::from_fn(wide, vector), moments.squares)
    }

    /// The coefficients of plain features, from those of standardised ones.
    fn plain(&self, models: &[DVector<f64>]) -> Vec<Vec<f64>> {
        let of = |w: &DVector<f64>| {
            let mut plain: Vec<f64> = w.iter().zip(&self.0).map(|(w, (_, f))| w * f).collect();
            plain[0] -= plain.iter().zip(&self.0).map(|(w, (a, _))| w * a).sum::<f64>();
            plain
        };
        models.iter().map(of).collect()
    }
}

impl Standard {
    fn zero(wide: usize) -> Self {
        Standard(DMatrix::zeros(wide, wide), DVector::zeros(wide), 0.0)
    }

    fn add(&mut self, other: &Standard) {
        self.0 += &other.0;
        self.1 += &other.1;
        self.2 += other.2;
    }

    fn sum(parts: &[Standard]) -> Self {
        let mut sum = Standard::zero(parts[0].1.len());
        parts.iter().for_each(|part| sum.add(part));
        sum
    }

    /// The sum of the squared errors of the coefficients `w` on the rows.
    fn error(&self, w: &DVector<f64>) -> f64 {
        self.2 - 2.0 * w.dot(&self.1) + w.dot(&(&self.0 * w))
    }

    /// The coefficients with the least squared error plus `intercept` times the square of the first and
    /// `penalty` times those of the others.
    fn solve(&self, intercept: f64, penalty: f64) -> Option<DVector<f64>> {
        let mut matrix = self.0.clone();
        for i in 0..matrix.nrows() {
            matrix[(i, i)] += if i == 0 { intercept } else { penalty };
        }
        Cholesky::new(matrix).map(|factor| factor.solve(&self.1))
    }
}

/// The least error, and its penalty; of equal errors the largest penalty. `None` if a model has none.
fn best(tries: impl IntoIterator<Item = (Option<f64>, f64)>) -> Option<(f64, f64)> {
    let mut best: Option<(f64, f64)> = None;
    for (error, penalty) in tries {
        let error = error.filter(|error| error.is_finite())?;
        if best.is_none_or(|(least, _)| error <= least) {
            best = Some((error, penalty));
        }
    }
    best
}

/// The model of each arm, from the moments of each, in standardised features.
fn fit(moments: &[Standard], shared: f64, own: f64) -> Option<Vec<DVector<f64>>> {
    let w = Standard::sum(moments).solve(NONE, shared)?;
    if moments.len() == 1 {
        return Some(vec![w]);
    }
    let of_arm = |part: &Standard| {
        let left = &part.1 - &part.0 * &w;
        if own.is_infinite() {
            let mut sum = w.clone();
            sum[0] += left[0] / (part.0[(0, 0)] + OFFSET);
            return Some(sum);
        }
        Standard(part.0.clone(), left, 0.0).solve(OFFSET, own).map(|v| v + &w)
    };
    moments.iter().map(of_arm).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use privacy::source::SplitMix64;

    /// Features and reward of row t.
    fn row(t: usize) -> ([f64; 4], f64) {
        let reward = f64::from((3 * t) % 11 < 4);
        ([1.0, (t % 7) as f64, ((t * t) % 5) as f64, f64::from(t.is_multiple_of(3))], reward)
    }

    fn seen(rows: usize, groups: usize) -> RidgeFit {
        let mut fit = RidgeFit::new(4, groups).unwrap();
        (0..rows).for_each(|t| fit.see(t % FOLDS, t / 3 % groups, &row(t).0, row(t).1));
        fit
    }

    /// The standardised moments of each arm.
    fn all(fit: &RidgeFit) -> Vec<Standard> {
        let of = |group: usize| {
            let parts: Vec<_> = fit.folds.iter().map(|fold| fit.scale().standard(&fold[group])).collect();
            Standard::sum(&parts)
        };
        (0..fit.folds[0].len()).map(of).collect()
    }

    /// Intercepts and coefficients of scikit-learn 1.9.1: `Ridge(alpha)` after `StandardScaler`, for the 40
    /// rows of [`row`]. Our penalty on the intercept lowers it by less than 10⁻⁶/40 of itself.
    #[test]
    fn coefficients_are_those_of_scikit_learn() {
        let fit = seen(40, 1);
        for (penalty, want) in [
            (0.1, [0.3693512307847755, 0.006003883908456785, -0.0007790565588012495, -0.02872652543996071]),
            (10.0, [0.3703019645535701, 0.004753988164084021, -0.000495449817693774, -0.022796516828354665]),
        ] {
            let got = fit.scale().plain(&super::fit(&all(&fit), penalty, f64::INFINITY).unwrap());
            for (got, want) in got[0].iter().zip(want) {
                assert!((got - want).abs() < 2.5e-8, "{got} {want}");
            }
        }
    }

    /// The gradient of an arm's squared errors and penalties is 0 at its coefficients, summed row by row.
    #[test]
    fn an_arm_has_its_own_least_squares() {
        let fit = seen(90, 3);
        let (mut means, mut deviations) = ([0.0; 4], [0.0; 4]);
        for i in 1..4 {
            means[i] = (0..90).map(|t| row(t).0[i]).sum::<f64>() / 90.0;
            let square = |t: usize| (row(t).0[i] - means[i]).powi(2);
            deviations[i] = ((0..90).map(square).sum::<f64>() / 90.0).sqrt();
        }
        let standard = |t: usize| {
            let x = row(t).0;
            let of = |i: usize| if i == 0 { 1.0 } else { (x[i] - means[i]) / deviations[i] };
            DVector::from_fn(4, |i, _| of(i))
        };
        let shared = Standard::sum(&all(&fit)).solve(NONE, 10.0).unwrap();
        for (arm, w) in super::fit(&all(&fit), 10.0, 1.0).unwrap().iter().enumerate() {
            let mut gradient = (w - &shared).map(|v| -v);
            gradient[0] *= OFFSET;
            for t in (0..90).filter(|t| t / 3 % 3 == arm) {
                gradient += standard(t) * (row(t).1 - w.dot(&standard(t)));
            }
            assert!(gradient.amax() < 1e-10, "{gradient}");
        }
    }

    /// What is explained is counted row by row, each by the model of the other folds, which does not change
    /// with the rewards of its own.
    #[test]
    fn a_fold_is_predicted_by_the_others() {
        let fit = seen(300, 3);
        let ridge = fit.clone().finish().unwrap();
        let predict = |w: &[f64], t: usize| w.iter().zip(row(t).0).map(|(w, x)| w * x).sum::<f64>();
        let error = |t: usize| (row(t).1 - predict(&ridge.crossed[t % FOLDS][t / 3 % 3], t)).powi(2);
        let mean = (0..300).map(|t| row(t).1).sum::<f64>() / 300.0;
        let spread: f64 = (0..300).map(|t| (row(t).1 - mean).powi(2)).sum();
        let explained = 1.0 - (0..300).map(error).sum::<f64>() / spread;
        assert!((ridge.explained - explained).abs() < 1e-10, "{} {explained}", ridge.explained);
        // With some penalties, the model of fold 2 is that of moments that have not seen its rows.
        let mut others = RidgeFit::new(4, 3).unwrap();
        (0..300).filter(|t| t % FOLDS != 2).for_each(|t| {
            others.see(t % FOLDS, t / 3 % 3, &row(t).0, row(t).1);
        });
        let scale = fit.scale();
        let of = |group: usize| {
            Standard::sum(&others.folds.iter().map(|fold| scale.standard(&fold[group])).collect::<Vec<_>>())
        };
        let others: Vec<Standard> = (0..3).map(of).collect();
        let mut own = PENALTIES.to_vec();
        own.push(f64::INFINITY);
        let same = |shared: f64, own: f64| {
            let model = scale.plain(&super::fit(&others, shared, own).unwrap());
            let mut pairs = model.iter().flatten().zip(ridge.crossed[2].iter().flatten());
            pairs.all(|(a, b)| (a - b).abs() < 1e-12)
        };
        assert!(PENALTIES.iter().any(|shared| own.iter().any(|own| same(*shared, *own))));
    }

    /// A reward that follows the features of each arm is explained, with a small penalty; noise is not, and
    /// arms are then alike.
    #[test]
    fn the_penalty_follows_the_rewards() {
        let mut fits = [RidgeFit::new(4, 2).unwrap(), RidgeFit::new(4, 2).unwrap()];
        let mut state = 1u64;
        for t in 0..2000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (x, arm, noise) = (row(t).0, (state >> 40) as usize % 2, f64::from(state >> 63 == 1));
            let clean = if arm == 0 { 0.1 * x[1] } else { 0.7 - 0.1 * x[1] };
            fits[0].see(t % FOLDS, arm, &x, clean);
            fits[1].see(t % FOLDS, arm, &x, noise);
        }
        let [clean, noise] = fits.map(|fit| fit.finish().unwrap());
        assert!(clean.explained > 0.99, "{}", clean.explained);
        assert!((clean.model[0][1] - 0.1).abs() < 1e-3 && (clean.model[1][1] + 0.1).abs() < 1e-3);
        // Its mean over draws is below 0; its deviation is some 1/2000.
        assert!(noise.explained.abs() < 0.01, "{}", noise.explained);
        assert!(noise.model[0][1].abs() < 0.01);
    }

    /// The bound on the change is reached by the longest row, and no change of a round's rewards exceeds it:
    /// of the arm that was shown, and of all arms.
    #[test]
    fn the_sensitivity_is_the_largest_change() {
        for (arms, groups) in [(1, 1), (1, 3), (3, 1), (3, 3)] {
            let round = |t: usize, flip: bool| {
                (0..arms).map(move |i| {
                    let (x, reward) = row(t + 7 * i);
                    // Rows of a round are scaled alike, so that one arm's sums can move in one direction.
                    ((t + i) % 3, x, if flip { 1.0 - reward } else { reward })
                })
            };
            let fit = |flipped: Option<usize>| {
                let mut fit = RidgeFit::new(4, groups).unwrap();
                for t in 0..40 {
                    let rows: Vec<_> = round(t, flipped == Some(t)).collect();
                    fit.see_round(t % FOLDS, rows.iter().map(|(arm, x, reward)| (*arm, &x[..], *reward)));
                }
                fit
            };
            let before = fit(None);
            let moved = |t: usize| {
                let sums = |fit: &RidgeFit| -> Vec<i128> {
                    fit.folds.iter().flatten().flat_map(|m| m.exact.clone()).collect()
                };
                let pairs = sums(&before).into_iter().zip(sums(&fit(Some(t))));
                pairs.map(|(a, b)| ((a - b) as f64 * TERM).powi(2)).sum::<f64>().sqrt()
            };
            let most = (0..40).map(moved).fold(0.0, f64::max);
            assert!(most <= before.change * (1.0 + 1e-12), "{arms} {groups}: {most} {}", before.change);
            if arms == 1 {
                assert!((most - before.change).abs() < 1e-10 * most);
            }
        }
    }

    /// The noise has the deviation that the cost demands. Over 8,000 draws the mean square is within 8 % of
    /// the variance: five deviations, √(2/8000) each, and a false alarm in 10⁶.
    #[test]
    fn the_noise_has_its_scale() {
        let rho = Rho::new(0.02).unwrap();
        let (mut n, mut squares) = (0.0, 0.0);
        let mut rng = SplitMix64::new(5);
        let before = seen(40, 2);
        while n < 8000.0 {
            let mut noisy = RidgeFit { change: 3.0, ..before.clone() };
            noisy.protect(rho, &mut rng).unwrap();
            for (clean, noisy) in before.folds.iter().flatten().zip(noisy.folds.iter().flatten()) {
                assert_eq!((&clean.products, noisy.squares), (&noisy.products, 0.0));
                for (a, b) in clean.rewards.iter().zip(&noisy.rewards) {
                    n += 1.0;
                    squares += (a - b).powi(2);
                }
            }
        }
        // 3/√(2ρ) = 15; roundings to the grid add 2⁻¹⁶·√8 to the 3, and those of doubles a millionth.
        let variance = 15.0f64.powi(2);
        assert!((squares / n / variance - 1.0).abs() < 0.08, "{}", squares / n);
    }
}
