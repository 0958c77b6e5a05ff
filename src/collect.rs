//! The server's half of policies whose users answer an intermediary: it asks for a batch and learns from the sums that
//! come out. No single answer ever gets here.
//!
//! Source: Chowdhury, Zhou, "Distributed Differential Privacy in Multi-Armed Bandits", Algorithm 1 ([`Sums`]);
//! Sarmasarkar, "Shuffle and Joint Differential Privacy for Generalized Linear Contextual Bandits", Algorithm 1
//! ([`ShuffledGlm`]).

use crate::Error;
use bandit::distributed::{Config, Mechanism};
use glm::shuffle::{Batch, Estimator, ShuffleConfig, Summation};
use glm::{Descent, Symmetric, onto_ball};
use privacy::PrivacyStatement;
use rand::Rng;
use serde::{Deserialize, Serialize};
use wire::{Ask, Awaited, ShuffledBatch};

/// What came of a batch.
pub(crate) struct Received {
    /// Users that have answered all that is asked of them.
    pub(crate) users: u64,
    /// The number of the batch, if this is its first sum: whoever is in it pays now, and only once.
    pub(crate) pays: Option<u32>,
}

/// Batched successive elimination from sums of shares.
///
/// A decision names the arm of the batch under way, for as many users as ask: the intermediary closes it when it has
/// the shares of exactly n of them.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Sums {
    config: Config,
    exchange: u64,
    number: u32,
    left: Vec<usize>,
    /// Estimates of the batch, of the first arms in `left`.
    means: Vec<f64>,
    learnt: u64,
    /// Shares that users send here themselves, where each is private by itself: sum modulo m, number.
    shares: (u64, u64),
}

impl Sums {
    pub(crate) fn new(config: Config) -> Result<Self, Error> {
        // Refuses what the simulation of the whole refuses.
        bandit::distributed::Elimination::new(config.clone(), bandit::distributed::IdealSum)?;
        let left = (0..config.arms).collect();
        Ok(Sums { config, exchange: 1, number: 1, left, means: Vec::new(), learnt: 0, shares: (0, 0) })
    }

    pub(crate) fn privacy(&self) -> Result<PrivacyStatement, Error> {
        Ok(self.config.privacy()?)
    }

    /// The arm of the batch under way.
    pub(crate) fn arm(&self) -> Result<usize, Error> {
        self.left.get(self.means.len()).copied().ok_or(Error::Broken("a batch without an arm"))
    }

    fn mechanism(&self) -> Result<Mechanism, Error> {
        Ok(self.config.mechanism(self.number)?)
    }

    /// `None` when one arm is left, or a batch would pass the horizon: users then send nothing.
    pub(crate) fn awaited(&self) -> Result<Option<Awaited>, Error> {
        let mechanism = self.mechanism()?;
        let users = mechanism.users();
        if self.left.len() < 2 || self.learnt + users > self.config.horizon {
            return Ok(None);
        }
        let ask = Ask::Share { arm: self.arm()?, modulus: mechanism.modulus() };
        Ok(Some(Awaited { exchange: self.exchange, batch: self.number, users, ask }))
    }

    /// One share, under local privacy.
    pub(crate) fn learn(&mut self, share: u64, rng: &mut dyn Rng) -> Result<(), Error> {
        let mechanism = self.mechanism()?;
        let m = mechanism.modulus();
        if share >= m {
            return Err(Error::BadParameter { why: format!("share is {share}, it must be below {m}") });
        }
        let (sum, count) = self.shares;
        let sum = ((u128::from(sum) + u128::from(share)) % u128::from(m)) as u64;
        self.shares = (sum, count + 1);
        if count + 1 == mechanism.users() {
            self.close(&mechanism, sum, rng)?;
        }
        Ok(())
    }

    pub(crate) fn receive(&mut self, batch: &ShuffledBatch, rng: &mut dyn Rng) -> Result<Received, Error> {
        let mechanism = self.mechanism()?;
        let total = labels(batch, 1)?[0]; // has one label
        let (users, pays) = (mechanism.users(), Some(self.number));
        self.close(&mechanism, (total % u128::from(mechanism.modulus())) as u64, rng)?;
        Ok(Received { users, pays })
    }

    fn close(&mut self, mechanism: &Mechanism, sum: u64, rng: &mut dyn Rng) -> Result<(), Error> {
        self.means.push(mechanism.analyse(sum, rng)? / mechanism.users() as f64);
        self.learnt += mechanism.users();
        self.exchange += 1;
        self.shares = (0, 0);
        if self.means.len() == self.left.len() {
            let width = mechanism.width(self.left.len(), self.number, self.config.confidence);
            let best = self.means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mut means = std::mem::take(&mut self.means).into_iter();
            self.left.retain(|_| means.next().is_some_and(|mean| mean + width >= best - width));
            self.number += u32::from(self.left.len() > 1);
        }
        Ok(())
    }
}

/// ShuffleGLM from counts of shuffled bits: for each batch its metric, then a gradient a step. Arms are chosen on the
/// devices, from what is published.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct ShuffledGlm {
    config: ShuffleConfig,
    exchange: u64,
    published: Vec<Batch>,
    /// Of the batch under way: its metric, and the regulariser of its estimate.
    metric: Option<(Symmetric, f64)>,
    /// Gradient sums at the points asked for so far.
    gradients: Vec<Vec<f64>>,
}

enum Progress {
    Asks(Vec<f64>),
    Done(Vec<f64>),
}

impl ShuffledGlm {
    pub(crate) fn new(config: ShuffleConfig) -> Result<Self, Error> {
        config.validate()?;
        Ok(ShuffledGlm { config, exchange: 1, published: Vec::new(), metric: None, gradients: Vec::new() })
    }

    pub(crate) fn privacy(&self) -> Result<PrivacyStatement, Error> {
        Ok(self.config.privacy()?)
    }

    pub(crate) fn published(&self) -> &[Batch] {
        &self.published
    }

    /// `None` after the last batch.
    pub(crate) fn awaited(&self) -> Result<Option<Awaited>, Error> {
        let Some(&users) = self.config.batches.get(self.published.len()) else { return Ok(None) };
        let ask = match &self.metric {
            None => Ask::Metric,
            Some((_, regulariser)) => match self.descend(*regulariser, users)? {
                Progress::Asks(at) => Ask::Gradient { at },
                Progress::Done(_) => return Err(Error::Broken("a batch that was not published")),
            },
        };
        let batch = self.published.len() as u32 + 1;
        Ok(Some(Awaited { exchange: self.exchange, batch, users, ask }))
    }

    pub(crate) fn receive(&mut self, batch: &ShuffledBatch) -> Result<Received, Error> {
        let (k, d) = (self.published.len(), self.config.problem.d);
        let &users = self.config.batches.get(k).ok_or(Error::Broken("a batch after the last"))?;
        let first = self.metric.is_none();
        let mut done = 0;
        match &self.metric {
            None => {
                let entries = analyse(&self.config.matrix_sum(k)?, batch, d * (d + 1) / 2)?;
                let mut values = vec![0.0; d * d];
                let pairs = (0..d).flat_map(|i| (i..d).map(move |j| (i, j)));
                for ((i, j), entry) in pairs.zip(entries) {
                    (values[i * d + j], values[j * d + i]) = (entry, entry);
                }
                let mut metric = Symmetric::new(d, values)?;
                let (lambda, regulariser) = self.config.lambda(k)?;
                metric.add_diagonal(lambda);
                self.metric = Some((metric.floored(lambda / 4.0), regulariser));
            }
            Some((metric, regulariser)) => {
                self.gradients.push(analyse(&self.config.gradient_sum(k)?, batch, d)?);
                if let Progress::Done(theta) = self.descend(*regulariser, users)? {
                    let inverse = metric.inverse().ok_or(glm::Error::NotPositive { field: "metric" })?;
                    self.published.push(Batch { theta, metric: metric.clone(), inverse });
                    (self.metric, self.gradients) = (None, Vec::new());
                    done = users;
                }
            }
        }
        self.exchange += 1;
        Ok(Received { users: done, pays: first.then_some(k as u32 + 1) })
    }

    /// Descends along the sums there are. It holds no state but them, so that it goes on exactly after a restart.
    fn descend(&self, regulariser: f64, users: u64) -> Result<Progress, Error> {
        let (c, n) = (&self.config, users as f64);
        let Estimator::Descent { steps } = c.estimator else {
            return Err(Error::Broken("an estimator that asks for no sums"));
        };
        let descent = Descent::paper(steps, c.reward_max, c.problem.s, regulariser, n);
        let (mut known, mut asks) = (self.gradients.iter(), None);
        let sum = |theta: &[f64], sum: &mut [f64]| match known.next() {
            Some(gradient) => {
                sum.copy_from_slice(gradient);
                Ok(())
            }
            None => {
                asks = Some(theta.to_vec());
                // Any error ends the descent here.
                Err(glm::Error::NoConvergence { what: "a descent without further sums", steps: 0 })
            }
        };
        let ended = descent.run(c.problem.d, n, sum, onto_ball(c.problem.s));
        match (ended, asks) {
            (Ok(theta), _) => Ok(Progress::Done(theta)),
            (Err(_), Some(at)) => Ok(Progress::Asks(at)),
            (Err(error), None) => Err(error.into()),
        }
    }
}

/// The sums of exactly `want` labels.
fn labels(batch: &ShuffledBatch, want: usize) -> Result<Vec<u128>, Error> {
    let got = batch.labels.len();
    if got != want {
        return Err(Error::BadParameter { why: format!("labels are {got}, this exchange has {want}") });
    }
    Ok(batch.sums().collect())
}

/// Estimates from the number of ones under each label.
fn analyse(summation: &Summation, batch: &ShuffledBatch, want: usize) -> Result<Vec<f64>, Error> {
    let Summation::Bits(bits) = summation else { return Err(Error::Broken("sums that are not in bits")) };
    let estimate = |ones: u128| Ok(bits.analyse(u64::try_from(ones).unwrap_or(u64::MAX))?);
    labels(batch, want)?.into_iter().map(estimate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bandit::Policy;
    use bandit::distributed::{Elimination, IdealSum, Model, SecureSum};
    use privacy::Ratio;
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;
    use std::sync::{Arc, Mutex};

    /// Notes every sum that it lets out.
    #[derive(Clone, Default, Serialize, Deserialize)]
    struct Noting {
        #[serde(skip)]
        sums: Arc<Mutex<Vec<u64>>>,
    }

    impl SecureSum for Noting {
        fn sum(
            &mut self,
            shares: &[u64],
            users: u64,
            m: u64,
            rng: &mut dyn Rng,
        ) -> Result<u64, bandit::Error> {
            let sum = IdealSum.sum(shares, users, m, rng)?;
            self.sums.lock().unwrap().push(sum);
            Ok(sum)
        }
    }

    /// Sum after sum, the server's half does what the whole does that its crate simulates; and so it does when it is
    /// stored and read back after each.
    #[test]
    fn halves_equal_the_whole() {
        for (seed, model) in [(1, Model::Pure), (2, Model::Shuffle), (3, Model::Local)] {
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            let mut config = Config::new(4, 3000, model, Ratio::integer(4));
            config.confidence = 0.5;
            let notes = Noting::default();
            let mut whole = Elimination::new(config.clone(), notes.clone()).unwrap();
            let mut half = Sums::new(config.clone()).unwrap();
            for _ in 0..3000 {
                let arm = whole.decide(&(), &mut rng).unwrap();
                assert_eq!(half.arm().unwrap(), arm);
                whole.learn(&(), arm, &[0.9, 0.6, 0.3, 0.0][arm], &mut rng).unwrap();
                for sum in notes.sums.lock().unwrap().drain(..) {
                    let awaited = half.awaited().unwrap().unwrap();
                    assert_eq!((awaited.batch, awaited.ask), {
                        let modulus = config.mechanism(awaited.batch).unwrap().modulus();
                        (half.number, Ask::Share { arm, modulus })
                    });
                    let (exchange, users) = (awaited.exchange, awaited.users);
                    // In parts, as an intermediary may.
                    let labels = vec![vec![sum / 2, sum - sum / 2]];
                    half.receive(&ShuffledBatch { exchange, users, labels }, &mut rng).unwrap();
                    half = postcard::from_bytes(&postcard::to_stdvec(&half).unwrap()).unwrap();
                    assert_eq!((half.left.as_slice(), half.number), (whole.left(), whole.batch()));
                    assert_eq!(half.means, whole.means());
                }
            }
            assert!(whole.left().len() < 4, "{model:?} never eliminates");
        }
    }
}
