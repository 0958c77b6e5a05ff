//! The server, which asks for sums, learns from them alone, and eliminates arms.

use super::{EliminationConfig, Mechanism, Model};
use crate::{Error, Learnt};
use fault::OutOfRange;
use privacy::PrivacyStatement;
use privacy::task::Task;
use rand::Rng;
use serde::{Deserialize, Serialize};

/// The server's state in the paper's Algorithm 1. It is a function of the sums received.
///
/// Each remaining arm has one batch of users, in order. Eliminations use the last batch of each arm only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredStage")]
pub struct Stage {
    config: EliminationConfig,
    number: u32,
    left: Vec<usize>,
    /// Estimates of the current batch, of the first arms in `left`, but not of all.
    means: Vec<f64>,
    #[serde(skip_serializing)]
    mechanism: Mechanism,
}

impl Stage {
    /// The state before the first sum.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] or [`Error::Privacy`] if the configuration is invalid, or its delta too large.
    pub fn new(config: EliminationConfig) -> Result<Self, Error> {
        config.check()?;
        // Only new runs are checked: a stored run continues.
        config.check_delta()?;
        let (left, mechanism) = ((0..config.arms).collect(), config.mechanism(1)?);
        Ok(Self { config, number: 1, left, means: Vec::new(), mechanism })
    }

    /// The configuration.
    pub const fn config(&self) -> &EliminationConfig {
        &self.config
    }

    /// Number of the current batch, from 1.
    pub const fn batch(&self) -> u32 {
        self.number
    }

    /// The mechanism of that batch.
    pub const fn mechanism(&self) -> &Mechanism {
        &self.mechanism
    }

    /// The remaining arms, in order; at least one.
    pub fn left(&self) -> &[usize] {
        &self.left
    }

    /// Estimates of the current batch so far, in the order of [`left`](Self::left).
    pub fn means(&self) -> &[f64] {
        &self.means
    }

    /// The remaining arms, and the estimates of the current batch so far.
    pub fn learnt(&self) -> Learnt {
        let mut means = vec![None; self.config.arms];
        for (arm, mean) in self.left.iter().zip(&self.means) {
            means[*arm] = Some(*mean); // arms left are below the number of arms
        }
        Learnt { means: Some(means), left: Some(self.left.clone()), ..Learnt::default() }
    }

    /// The arm of the current batch.
    pub fn arm(&self) -> usize {
        self.left[self.means.len()] // fewer means than arms
    }

    /// Half width of the confidence intervals of the current batch.
    pub fn width(&self) -> f64 {
        self.mechanism.width(self.left.len(), self.number, self.config.confidence)
    }

    /// Takes the sum of the batch of [`arm`](Self::arm). After the sum of the last arm, every arm whose mean
    /// plus width is below the best mean minus width is eliminated. Only [`Model::Central`] draws from `rng`.
    ///
    /// # Errors
    /// As [`Mechanism::analyse`]. The state is then unchanged.
    pub fn take(&mut self, sum: u64, rng: &mut dyn Rng) -> Result<(), Error> {
        let mean = self.mechanism.analyse(sum, rng)? / self.mechanism.users() as f64;
        if self.means.len() + 1 < self.left.len() {
            self.means.push(mean);
            return Ok(());
        }
        let means = [self.means.as_slice(), &[mean]].concat();
        let left = survivors(&self.left, &means, self.width());
        if left.len() > 1 {
            self.mechanism = self.config.mechanism(self.number + 1)?;
            self.number += 1;
        }
        (self.left, self.means) = (left, Vec::new());
        Ok(())
    }
}

/// The arms of `left` whose mean plus `width` is not below the best mean minus `width`.
pub fn survivors(left: &[usize], means: &[f64], width: f64) -> Vec<usize> {
    let best = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let stays = |mean: f64| mean + width >= best - width;
    left.iter().zip(means).filter(|(_, mean)| stays(**mean)).map(|(arm, _)| *arm).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredStage {
    config: EliminationConfig,
    number: u32,
    left: Vec<usize>,
    means: Vec<f64>,
}

impl TryFrom<StoredStage> for Stage {
    type Error = Error;
    fn try_from(StoredStage { config, number, left, means }: StoredStage) -> Result<Self, Error> {
        config.check()?;
        let in_order = left.windows(2).all(|w| w[0] < w[1]) && left.last().is_some_and(|a| *a < config.arms);
        let open = means.len() < left.len() && means.iter().all(|m| m.is_finite());
        // The batch before was whole. Batch 0 would be one user, whom every horizon holds.
        let before = number.checked_sub(1).and_then(|n| config.growth.checked_pow(n));
        if before.is_none_or(|users| users > config.horizon) || !in_order || !open {
            return Err(Error::State { what: "a batch that no run can reach" });
        }
        let mechanism = config.mechanism(number)?;
        Ok(Self { config, number, left, means, mechanism })
    }
}

privacy::stored! {
    /// The server of batched successive elimination: it poses [`Task`]s and learns from the sums that answer
    /// them.
    ///
    /// A decision names the arm of the batch under way, for any number of users: the intermediary closes the
    /// batch when it holds the shares of exactly n of them. Under [`Model::Local`] each share is private by
    /// itself, and users send theirs to the server.
    ///
    /// # Source
    /// Chowdhury, Zhou, "Distributed Differential Privacy in Multi-Armed Bandits", Algorithm 1.
    #[derive(Debug, Clone)]
    pub struct EliminationServer {
        stage: Stage,
        /// Number of the current exchange, from 1.
        exchange: u64,
        /// Number of users in the sums received.
        learnt: u64,
        /// Under [`Model::Local`]: sum modulo m of the shares of the current batch, and their number.
        shares: (u64, u64),
    }
}

impl EliminationServer {
    /// The state before the first sum.
    ///
    /// # Errors
    /// Those of [`Stage::new`].
    pub fn new(config: EliminationConfig) -> Result<Self, Error> {
        Ok(Self { stage: Stage::new(config)?, exchange: 1, learnt: 0, shares: (0, 0) })
    }

    /// The elimination so far.
    pub const fn stage(&self) -> &Stage {
        &self.stage
    }

    /// The guarantee of the whole run.
    ///
    /// # Errors
    /// Those of [`EliminationConfig::privacy`], which do not occur for a configuration that was accepted.
    pub fn privacy(&self) -> Result<PrivacyStatement, Error> {
        self.stage.config().privacy()
    }

    /// The arm to play: that of the current batch, or the last remaining one.
    ///
    /// # Errors
    /// [`Error::HorizonOver`] if several arms are left and the next batch would exceed the horizon.
    pub fn decide(&self) -> Result<usize, Error> {
        let horizon = self.stage.config().horizon;
        if self.stage.left().len() > 1 && self.task().is_none() {
            return Err(Error::HorizonOver { horizon });
        }
        Ok(self.stage.arm())
    }

    /// The sum that the server requests; `None` if one arm is left or the next batch would exceed the
    /// horizon, in which case users send nothing.
    pub fn task(&self) -> Option<Task> {
        let (mechanism, config) = (self.stage.mechanism(), self.stage.config());
        let users = mechanism.users();
        if self.stage.left().len() < 2 || self.learnt + users > config.horizon {
            return None;
        }
        let ask = mechanism.ask(self.stage.arm())?;
        Some(Task { exchange: self.exchange, batch: self.stage.batch(), users, ask })
    }

    /// The number of shares that the current batch still waits for under [`Model::Local`].
    pub fn missing(&self) -> u64 {
        self.stage.mechanism().users() - self.shares.1 // a full batch is closed at once
    }

    /// Adds one user's share under [`Model::Local`]. The last share of a batch completes it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the share is not below the modulus; as [`Stage::take`].
    pub fn share(&mut self, share: u64, rng: &mut dyn Rng) -> Result<(), Error> {
        let mechanism = self.stage.mechanism();
        let m = mechanism.modulus();
        if share >= m {
            return Err(OutOfRange::new("share", share, format!("below {m}")).into());
        }
        let (sum, count) = self.shares;
        let sum = ((u128::from(sum) + u128::from(share)) % u128::from(m)) as u64;
        self.shares = (sum, count + 1);
        if count + 1 == mechanism.users() {
            self.close(sum, rng)?;
        }
        Ok(())
    }

    /// Learns from the sum that answers the [task](Self::task): the sum of shares, as integers or as
    /// residues, or the number of ones. Returns the number of users in it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a sum that this number of users cannot send; as [`Stage::take`].
    pub fn report(&mut self, total: u128, rng: &mut dyn Rng) -> Result<u64, Error> {
        let mechanism = self.stage.mechanism();
        let (users, modulus) = (mechanism.users(), u128::from(mechanism.modulus()));
        let sum = match mechanism.model() {
            Model::Bits { .. } => mechanism.count(total)?,
            _ if total > u128::from(users) * (modulus - 1) => {
                let want = "at most the number of users times the modulus less one";
                return Err(OutOfRange::new("labels[0] in sum", total, want).into());
            }
            _ => (total % modulus) as u64,
        };
        self.close(sum, rng)?;
        Ok(users)
    }

    fn close(&mut self, sum: u64, rng: &mut dyn Rng) -> Result<(), Error> {
        let users = self.stage.mechanism().users();
        self.stage.take(sum, rng)?;
        self.learnt += users;
        self.exchange += 1;
        self.shares = (0, 0);
        Ok(())
    }

    /// Refuses sums that no run can receive.
    fn check_stored(&self) -> Result<(), Error> {
        let (mechanism, learnt) = (self.stage.mechanism(), self.learnt);
        let open = self.shares.0 < mechanism.modulus() && self.shares.1 < mechanism.users();
        // Each sum received contains at least one user.
        let received = self.exchange.checked_sub(1).is_some_and(|sums| sums <= learnt);
        if !open || !received || learnt > self.stage.config().horizon {
            return Err(Error::State { what: "sums that no run can reach" });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::distributed::{Elimination, IdealSum, SecureSum};
    use privacy::Ratio;
    use privacy::budget::Delta;
    use privacy::task::{Ask, UserNoise};
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;
    use std::sync::{Arc, Mutex};

    /// Records every sum that it lets out.
    #[derive(Clone, Default, Serialize, Deserialize)]
    struct Noting {
        #[serde(skip)]
        sums: Arc<Mutex<Vec<u64>>>,
    }

    impl SecureSum for Noting {
        fn sum(&mut self, shares: &[u64], users: u64, m: u64, rng: &mut dyn Rng) -> Result<u64, Error> {
            let sum = IdealSum.sum(shares, users, m, rng)?;
            self.sums.lock().unwrap().push(sum);
            Ok(sum)
        }
    }

    /// After each sum the server's state equals that of the policy that simulates all roles, also when the
    /// server is stored and read back after each sum.
    #[test]
    fn halves_equal_the_whole() {
        let bits = Model::Bits { delta: Delta::new(1e-6).unwrap() };
        for (seed, model) in [(1, Model::Pure), (2, bits), (3, Model::Local)] {
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            let mut config = EliminationConfig::new(4, 3000, model, Ratio::integer(4));
            config.confidence = 0.5;
            let notes = Noting::default();
            let mut whole = Elimination::new(config.clone(), notes.clone()).unwrap();
            let mut half = EliminationServer::new(config.clone()).unwrap();
            for _ in 0..3000 {
                let arm = whole.decide(&(), &mut rng).unwrap();
                assert_eq!(half.stage.arm(), arm);
                whole.learn(&(), arm, &[0.9, 0.6, 0.3, 0.0][arm], &mut rng).unwrap();
                for sum in notes.sums.lock().unwrap().drain(..) {
                    let task = half.task().unwrap();
                    let mechanism = config.mechanism(task.batch).unwrap();
                    assert_eq!(task.batch, half.stage.batch());
                    let (modulus, steps, epsilon) = (mechanism.modulus(), mechanism.precision(), 4.0);
                    let noise =
                        if model == Model::Local { UserNoise::DiscreteLaplace } else { UserNoise::Polya };
                    let (ask, sum) = if model == bits {
                        // The whole wraps a sum below 0, a count does not.
                        let below = sum > mechanism.users() * steps + mechanism.threshold();
                        let ones = mechanism.users() * mechanism.margin() + sum;
                        let margin = mechanism.margin();
                        (
                            Ask::Count { arm, steps, margin, noise, epsilon },
                            if below { ones - modulus } else { ones },
                        )
                    } else {
                        (Ask::Share { arm, modulus, steps, noise, epsilon }, sum)
                    };
                    assert_eq!(task.ask, ask);
                    let more = u128::from(mechanism.users() * mechanism.bits() + 1);
                    assert_eq!(half.clone().report(more, &mut rng).is_err(), model == bits);
                    if model != bits {
                        // No users send more than all of them at the largest residue.
                        let most = u128::from(mechanism.users()) * u128::from(modulus - 1);
                        assert!(half.clone().report(most, &mut rng).is_ok());
                        assert!(half.clone().report(most + 1, &mut rng).is_err());
                    }
                    assert_eq!(half.report(sum.into(), &mut rng).unwrap(), task.users);
                    half = serde_json::from_str(&serde_json::to_string(&half).unwrap()).unwrap();
                    assert_eq!(&half.stage, whole.stage());
                }
            }
            assert!(whole.left().len() < 4, "{model:?} never eliminates");
        }
    }
}
