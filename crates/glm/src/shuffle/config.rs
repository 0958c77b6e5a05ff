//! Configuration of ShuffleGLM: batches, widths, and the privacy of sums.

use super::Summation;
use crate::Problem;
use crate::error::{Error, field};
use privacy::budget::{Delta, Epsilon, Neighbours};
use privacy::composition::per_release;
use privacy::shuffle::BitSum;
use privacy::{Definition, PrivacyStatement, Trust};
use serde::{Deserialize, Serialize};

/// Configuration of [`ShuffleGlm`](super::ShuffleGlm). Every field is public.
///
/// With the constants of the paper's theorems the first batch exceeds 10^7 rounds, so `lambda`, `gamma`, the
/// batch sizes and the number of descent steps are parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShuffleConfig {
    /// Shape, link, bounds. Its `delta` is also that of the guarantee.
    pub problem: Problem,
    /// Rewards lie in `[0, reward_max]`.
    pub reward_max: f64,
    /// Number of people in each batch, whose sum is the horizon. [`batch_sizes`] computes the paper's.
    pub batches: Vec<u64>,
    /// Regulariser of the metrics. A term for the noise is added, see [`lambda`](Self::lambda).
    pub lambda: f64,
    /// Width of the estimates: `gamma sqrt(kappa) ||x||_{V^-1}` of the first, `gamma ||x||_{H^-1}` of the
    /// others.
    pub gamma: f64,
    /// The factor of [`Design::g_optimal`](crate::Design::g_optimal); the paper's is 2.
    pub design_factor: f64,
    /// The computation of estimates.
    pub estimator: Estimator,
    /// The noise of sums.
    pub protection: Protection,
    /// The fraction of a batch's people, rounded up, who may collude or not exist: the noise of the others is
    /// sufficient. Must be 0 unless the protection is [`Protection::Calibrated`].
    pub colluding: f64,
}

/// The sums of one batch, see [`ShuffleConfig::sums`].
#[derive(Debug, Clone, PartialEq)]
pub struct BatchSums {
    /// [`ShuffleConfig::matrix_sum`].
    pub matrix: Summation,
    /// [`ShuffleConfig::gradient_sum`].
    pub gradient: Summation,
    /// [`ShuffleConfig::lambda`].
    pub lambda: (f64, f64),
}

/// The numbers of noise bits of each person in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoiseBits {
    /// Noise bits in each entry of the metric.
    pub matrix: u64,
    /// Noise bits in each coordinate of a gradient.
    pub gradient: u64,
}

impl BatchSums {
    /// The numbers of noise bits; `None` unless both sums are in shuffled bits.
    pub fn noise(&self) -> Option<NoiseBits> {
        let bits = |summation: &Summation| summation.in_bits().map(BitSum::noise_bits);
        Some(NoiseBits { matrix: bits(&self.matrix)?, gradient: bits(&self.gradient)? })
    }
}

/// The computation of estimates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Estimator {
    /// Maximum likelihood over the ball of radius S, without privacy.
    Exact,
    /// P_GD, each step of which takes one sum over the batch.
    Descent {
        /// Number of steps. In the paper it is of the order of the squared number of people.
        steps: u32,
    },
}

/// The noise of sums. Half of the budget pays for the metric, half for the estimate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protection {
    /// No noise, and no privacy.
    None,
    /// `factor` times the noise of [`Stated`](Self::Stated), in double precision, for simulation only. No
    /// privacy is stated.
    Scaled {
        /// Epsilon of the stated noise.
        epsilon: Epsilon,
        /// Factor of its standard deviation.
        factor: f64,
    },
    /// Shuffled bits with the published constants.
    Stated {
        /// Epsilon of all messages of one person.
        epsilon: Epsilon,
    },
    /// Shuffled bits with the least noise by the exact divergence, where each coordinate has its own share of
    /// the budget.
    Calibrated {
        /// Epsilon of all messages of one person.
        epsilon: Epsilon,
    },
}

/// The sizes of `m` batches for `horizon` rounds: `first`, then `B_2 = alpha` and `B_k = alpha sqrt(B_{k-1})`
/// with `alpha = T^(1/(2 (1 - 2^(1-m))))`. The last batch ends at the horizon.
///
/// # Errors
/// [`Error::OutOfRange`] unless `m` is from 2 to 16, `horizon` from 2 to 2^32 - 1, and `first` below it.
///
/// # Source
/// Algorithm 1. Departure: Theorem E.1 prints `2^-m` in the exponent, with which the batches would not add up
/// to `T`.
pub fn batch_sizes(horizon: u64, m: u32, first: u64) -> Result<Vec<u64>, Error> {
    field("m", m.into(), (2..=16).contains(&m), "in 2..=16")?;
    field("horizon", horizon as f64, (2..1 << 32).contains(&horizon), "in 2..2^32")?;
    field("first", first as f64, first >= 1 && first < horizon, "at least 1 and below the horizon")?;
    let alpha = (horizon as f64).powf(0.5 / (1.0 - 2f64.powi(1 - m as i32)));
    let (mut sizes, mut left, mut next) = (vec![first], horizon - first, alpha);
    for k in 2..=m {
        // A power that is a whole number may be rounded to slightly less.
        let size = if k == m { left } else { ((next + 1e-6).floor() as u64).min(left) };
        if size == 0 {
            break;
        }
        sizes.push(size);
        left -= size;
        next = alpha * next.sqrt();
    }
    Ok(sizes)
}

impl ShuffleConfig {
    /// Refuses fields outside their ranges.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] with the first such field; [`Error::Privacy`] if the noise cannot be calibrated.
    pub fn validate(&self) -> Result<(), Error> {
        self.sums().map(drop)
    }

    /// The sums of every batch, with calibrated noise.
    ///
    /// - Cost: calibration takes up to a second in all, so callers keep the result.
    ///
    /// # Errors
    /// Those of [`validate`](Self::validate).
    pub fn sums(&self) -> Result<Vec<BatchSums>, Error> {
        self.check()?;
        let sums = |k| {
            let (matrix, gradient) = (self.matrix_sum(k)?, self.gradient_sum(k)?);
            Ok(BatchSums { lambda: self.lambda_over(&matrix), matrix, gradient })
        };
        (0..self.batches.len()).map(sums).collect()
    }

    /// As [`sums`](Self::sums), with the numbers of noise bits that an earlier calibration found. One
    /// divergence for each sum checks that they are sufficient.
    ///
    /// # Errors
    /// [`Error::Privacy`] if they are not; [`bandit::Error::State`] if `noise` has another number of batches,
    /// or the protection is not calibrated; those of [`validate`](Self::validate).
    pub fn sums_with(&self, noise: &[NoiseBits]) -> Result<Vec<BatchSums>, Error> {
        self.check()?;
        let calibrated = matches!(self.protection, Protection::Calibrated { .. })
            && matches!(self.estimator, Estimator::Descent { .. });
        if noise.len() != self.batches.len() || !calibrated {
            return Err(bandit::Error::State { what: "noise of other batches" }.into());
        }
        let sums = |(k, noise): (usize, &NoiseBits)| {
            let matrix = self.matrix_sum_with(k, Some(noise.matrix))?;
            let gradient = self.gradient_sum_with(k, Some(noise.gradient))?;
            Ok(BatchSums { lambda: self.lambda_over(&matrix), matrix, gradient })
        };
        noise.iter().enumerate().map(sums).collect()
    }

    /// As [`validate`](Self::validate), without calibration.
    fn check(&self) -> Result<(), Error> {
        self.problem.validate()?;
        field("reward_max", self.reward_max, self.reward_max > 0.0, "positive")?;
        field("lambda", self.lambda, self.lambda > 0.0, "positive")?;
        field("gamma", self.gamma, self.gamma > 0.0, "positive")?;
        field("design_factor", self.design_factor, self.design_factor > 1.0, "above 1")?;
        let total = self.batches.iter().try_fold(0u64, |sum, &b| sum.checked_add(b).filter(|_| b > 0));
        let horizon = self.problem.horizon;
        field(
            "batches",
            total.unwrap_or(0) as f64,
            total == Some(horizon),
            "positive and the horizon in sum",
        )?;
        if let Estimator::Descent { steps } = self.estimator {
            field("steps", steps.into(), (1..=100_000).contains(&steps), "in 1..=100000")?;
        }
        let of_noise = matches!(self.protection, Protection::Calibrated { .. });
        let part = (0.0..1.0).contains(&self.colluding);
        let want = "at least 0 and below 1, and 0 where noise is not calibrated";
        field("colluding", self.colluding, part && (of_noise || self.colluding == 0.0), want)?;
        if let Protection::Scaled { factor, .. } = self.protection {
            field("factor", factor, factor > 0.0, "positive")?;
        }
        Ok(())
    }

    /// The guarantee for all messages of one person together.
    ///
    /// # Errors
    /// [`Error::Privacy`] if `problem.delta` is out of range.
    pub fn privacy(&self) -> Result<PrivacyStatement, Error> {
        let (epsilon, sentence) = match (self.protection, self.estimator) {
            (_, Estimator::Exact) => return Ok(PrivacyStatement::none("Estimates are exact.")),
            (Protection::None, _) => return Ok(PrivacyStatement::none("Sums are exact.")),
            (Protection::Scaled { .. }, _) => {
                return Ok(PrivacyStatement::none("Noise of a simulation, in double precision."));
            }
            (Protection::Stated { epsilon }, _) => (
                epsilon,
                "The arm set and rewards of one person, against all shuffled messages; by the published theorem.",
            ),
            (Protection::Calibrated { epsilon }, _) => (
                epsilon,
                "The arm set and rewards of one person, against all shuffled messages; by the exact divergence.",
            ),
        };
        let delta = Delta::new(self.problem.delta)?;
        let (definition, trust) = (Definition::Approximate, Trust::Shuffler);
        Ok(PrivacyStatement::with_delta(definition, epsilon, delta, trust, Neighbours::ReplaceOne, sentence)?)
    }

    /// `lambda` of batch `k`'s metric, and an upper bound on its sum with the noise, which regularises the
    /// estimate: the configured `lambda` plus `spread`, and plus `2 spread`, where `spread = sd (sqrt d + 6
    /// sqrt ln(2dMT/delta))`.
    ///
    /// # Errors
    /// Those of [`matrix_sum`](Self::matrix_sum).
    ///
    /// # Source
    /// Algorithm 1. Departures: `sd` is the standard deviation of the noise, for which the paper has an order
    /// of magnitude; the term `sd sqrt d`, which the proof needs, is part of `lambda`.
    pub fn lambda(&self, k: usize) -> Result<(f64, f64), Error> {
        Ok(self.lambda_over(&self.matrix_sum(k)?))
    }

    fn lambda_over(&self, matrix: &Summation) -> (f64, f64) {
        let Problem { d, delta, horizon, .. } = self.problem;
        let d = d as f64;
        let log = (2.0 * d * self.batches.len() as f64 * horizon as f64 / delta).ln();
        let spread = matrix.sd() * (d.sqrt() + 6.0 * log.sqrt());
        (self.lambda + spread, self.lambda + 2.0 * spread)
    }

    /// The summation of the entries of batch `k`'s metric. Absolute values are at most 1 in the first batch,
    /// and at most `L_mu` in the others.
    ///
    /// # Errors
    /// [`Error::Privacy`] if the noise cannot be calibrated.
    pub fn matrix_sum(&self, k: usize) -> Result<Summation, Error> {
        self.matrix_sum_with(k, None)
    }

    fn matrix_sum_with(&self, k: usize, noise_bits: Option<u64>) -> Result<Summation, Error> {
        let bound = if k == 0 { 1.0 } else { self.max_weight() };
        let entries = crate::matrix::triangle(self.problem.d) as u32;
        self.summation(k, bound, entries, noise_bits, |epsilon, delta| Ok((epsilon, delta)))
    }

    /// The summation of the coordinates of batch `k`'s gradients in each step of the descent.
    ///
    /// # Errors
    /// [`Error::Privacy`] if the noise cannot be calibrated.
    pub fn gradient_sum(&self, k: usize) -> Result<Summation, Error> {
        self.gradient_sum_with(k, None)
    }

    fn gradient_sum_with(&self, k: usize, noise_bits: Option<u64>) -> Result<Summation, Error> {
        let Estimator::Descent { steps } = self.estimator else { return Ok(Summation::Exact) };
        let share = |epsilon, delta| per_release(steps, epsilon, delta);
        self.summation(k, self.reward_max, self.problem.d as u32, noise_bits, share)
    }

    fn summation(
        &self,
        k: usize,
        bound: f64,
        coordinates: u32,
        noise_bits: Option<u64>,
        share: impl Fn(Epsilon, Delta) -> Result<(Epsilon, Delta), privacy::Error>,
    ) -> Result<Summation, Error> {
        let half = |epsilon: Epsilon| {
            share(Epsilon::new(epsilon.get() / 2.0)?, Delta::new(self.problem.delta / 2.0)?)
        };
        let users = self.batches.get(k).copied().unwrap_or(0);
        let honest = users.saturating_sub((self.colluding * users as f64).ceil() as u64);
        let stated = |epsilon: Epsilon| {
            let (epsilon, delta) = half(epsilon)?;
            BitSum::stated(bound, users, self.problem.d as u64, epsilon, delta)
        };
        Ok(match self.protection {
            Protection::None => Summation::Exact,
            Protection::Scaled { epsilon, factor } => {
                Summation::Gaussian(factor * stated(epsilon)?.noise_deviation())
            }
            Protection::Stated { epsilon } => Summation::Bits(stated(epsilon)?),
            Protection::Calibrated { epsilon } => {
                let (epsilon, delta) = half(epsilon)?;
                Summation::Bits(match noise_bits {
                    Some(bits) => {
                        BitSum::with_noise(bound, users, honest, coordinates, epsilon, delta, bits)?
                    }
                    None => {
                        #[cfg(test)]
                        tests::SIZED.with(|sized| sized.set(sized.get() + 1));
                        BitSum::calibrated(bound, users, honest, coordinates, epsilon, delta)?
                    }
                })
            }
        })
    }

    /// The factor of the norm in the width of batch `j`.
    pub(super) fn width(&self, j: usize) -> f64 {
        if j == 0 { self.gamma * self.problem.kappa.sqrt() } else { self.gamma }
    }

    /// `L_mu`.
    pub(super) fn max_weight(&self) -> f64 {
        self.problem.link.max_slope(self.problem.s)
    }
}

#[cfg(test)]
mod tests {
    use crate::shuffle::{Estimator, Protection, ShuffleConfig, ShuffleGlm};
    use crate::{Link, Problem};
    use bandit::{Features, Policy};
    use privacy::budget::Epsilon;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;
    use std::cell::Cell;

    thread_local! {
        /// How often this thread has sized a noise.
        pub(super) static SIZED: Cell<u32> = const { Cell::new(0) };
    }

    fn sized<T>(act: impl FnOnce() -> T) -> (u32, T) {
        let before = SIZED.get();
        let out = act();
        (SIZED.get() - before, out)
    }

    /// Noise is sized once for the metric and once for the gradients of a batch, when a policy is made or
    /// read back; what it states, stores and does in all its rounds sizes none.
    #[test]
    fn noise_is_sized_once_a_batch() {
        let config = ShuffleConfig {
            problem: Problem {
                d: 1,
                k: 1,
                link: Link::Logistic,
                s: 1.0,
                kappa: 5.1,
                delta: 0.02,
                horizon: 90,
            },
            reward_max: 1.0,
            batches: vec![40, 30, 20],
            lambda: 1.0,
            gamma: 1.0,
            design_factor: 2.0,
            estimator: Estimator::Descent { steps: 3 },
            protection: Protection::Calibrated { epsilon: Epsilon::new(8.0).unwrap() },
            colluding: 0.0,
        };
        let (found, sums) = sized(|| config.sums().unwrap());
        let noise: Vec<_> = sums.iter().map(|sums| sums.noise().unwrap()).collect();
        let (checked, again) = sized(|| config.sums_with(&noise).unwrap());
        assert_eq!((found, checked), (6, 0));
        assert_eq!(again, sums);
        let mut less = noise.clone();
        less[1].gradient -= 1;
        assert!(config.sums_with(&less).is_err() && config.sums_with(&noise[..2]).is_err());
        let (made, policy) = sized(|| ShuffleGlm::new(config));
        let mut policy = policy.unwrap();
        assert_eq!(made, 6);
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let set = Features::new(vec![0.5], 1).unwrap();
        let (played, ()) = sized(|| {
            for _ in 0..90 {
                policy.decide(&set, &mut rng).unwrap();
                policy.learn(&set, 0, &1.0, &mut rng).unwrap();
                policy.privacy();
            }
        });
        assert_eq!((played, policy.published().len()), (0, 3));
        let (stored, bytes) = sized(|| serde_json::to_vec(&policy).unwrap());
        let (read, again) = sized(|| serde_json::from_slice::<ShuffleGlm>(&bytes).unwrap());
        assert_eq!((stored, read, again.published().len()), (0, 6, 3));
    }
}
