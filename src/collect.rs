//! The server's half of policies whose users answer an intermediary: it asks for a batch and learns from the sums that
//! come out. No single answer ever gets here.
//!
//! Source: Chowdhury, Zhou, "Distributed Differential Privacy in Multi-Armed Bandits", Algorithm 1 ([`Sums`]);
//! Sarmasarkar, "Shuffle and Joint Differential Privacy for Generalized Linear Contextual Bandits", Algorithm 1
//! ([`ShuffledGlm`]).

use crate::Error;
use bandit::distributed::{Config, Model, Stage};
use glm::shuffle::{Batch, BatchSums, Estimator, Noise as NoiseBits, ShuffleConfig, Summation};
use glm::{Descent, Symmetric, onto_ball};
use privacy::PrivacyStatement;
use rand::Rng;
use serde::{Deserialize, Serialize};
use wire::{Ask, Awaited, Bits, Noise, SummedBatch};

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
#[serde(try_from = "StoredSums", into = "StoredSums")]
pub(crate) struct Sums {
    stage: Stage,
    exchange: u64,
    learnt: u64,
    /// Shares that users send here themselves, where each is private by itself: sum modulo m, number.
    shares: (u64, u64),
}

impl Sums {
    pub(crate) fn new(config: Config) -> Result<Self, Error> {
        Ok(Sums { stage: Stage::new(config)?, exchange: 1, learnt: 0, shares: (0, 0) })
    }

    pub(crate) fn privacy(&self) -> Result<PrivacyStatement, Error> {
        Ok(self.stage.config().privacy()?)
    }

    /// What it was made of.
    pub(crate) fn config(&self) -> &Config {
        self.stage.config()
    }

    /// The arm of the batch under way.
    pub(crate) fn arm(&self) -> usize {
        self.stage.arm()
    }

    /// The arm to play: that of the batch under way, or the one that is left.
    ///
    /// # Errors
    /// [`bandit::Error::HorizonOver`] if arms are left that no batch within the horizon can tell apart.
    pub(crate) fn decide(&self) -> Result<usize, Error> {
        let horizon = self.stage.config().horizon;
        if self.stage.left().len() > 1 && self.awaited().is_none() {
            return Err(bandit::Error::HorizonOver { horizon }.into());
        }
        Ok(self.arm())
    }

    /// `None` when one arm is left, or a batch would pass the horizon: users then send nothing.
    pub(crate) fn awaited(&self) -> Option<Awaited> {
        let (mechanism, config) = (self.stage.mechanism(), self.stage.config());
        let users = mechanism.users();
        if self.stage.left().len() < 2 || self.learnt + users > config.horizon {
            return None;
        }
        let noise = match config.model {
            Model::Pure | Model::Shuffle | Model::Bits { .. } => Noise::Polya,
            Model::Renyi { .. } => Noise::Skellam,
            Model::Concentrated { .. } => Noise::DiscreteGaussian,
            // The others' users send nothing by themselves.
            _ => Noise::DiscreteLaplace,
        };
        let (steps, epsilon) = (mechanism.precision(), mechanism.epsilon().to_f64());
        let arm = self.arm();
        let ask = match config.model {
            Model::Bits { .. } => Ask::Count { arm, steps, margin: mechanism.margin(), noise, epsilon },
            _ => Ask::Share { arm, modulus: mechanism.modulus(), steps, noise, epsilon },
        };
        Some(Awaited { exchange: self.exchange, batch: self.stage.batch(), users, ask })
    }

    /// One share, under local privacy.
    pub(crate) fn learn(&mut self, share: u64, rng: &mut dyn Rng) -> Result<(), Error> {
        let mechanism = self.stage.mechanism();
        let m = mechanism.modulus();
        if share >= m {
            return Err(Error::BadParameter { why: format!("share is {share}, it must be below {m}") });
        }
        let (sum, count) = self.shares;
        let sum = ((u128::from(sum) + u128::from(share)) % u128::from(m)) as u64;
        self.shares = (sum, count + 1);
        if count + 1 == mechanism.users() {
            self.close(sum, rng)?;
        }
        Ok(())
    }

    pub(crate) fn receive(&mut self, batch: &SummedBatch, rng: &mut dyn Rng) -> Result<Received, Error> {
        let mechanism = self.stage.mechanism();
        let total = labels(batch, 1)?[0]; // has one label
        let (users, pays) = (mechanism.users(), Some(self.stage.batch()));
        let modulus = u128::from(mechanism.modulus());
        let sum = match self.stage.config().model {
            Model::Bits { .. } => mechanism.count(total)?,
            // Shares are residues; an intermediary may add them up as integers.
            _ if total > u128::from(users) * (modulus - 1) => {
                let why = format!(
                    "labels[0] sums to {total}, {users} shares below {modulus} sum to {} at most",
                    u128::from(users) * (modulus - 1)
                );
                return Err(Error::BadParameter { why });
            }
            _ => (total % modulus) as u64,
        };
        self.close(sum, rng)?;
        Ok(Received { users, pays })
    }

    fn close(&mut self, sum: u64, rng: &mut dyn Rng) -> Result<(), Error> {
        let users = self.stage.mechanism().users();
        self.stage.take(sum, rng)?;
        self.learnt += users;
        self.exchange += 1;
        self.shares = (0, 0);
        Ok(())
    }
}

#[derive(Serialize, Deserialize)]
struct StoredSums {
    stage: Stage,
    exchange: u64,
    learnt: u64,
    shares: (u64, u64),
}

impl TryFrom<StoredSums> for Sums {
    type Error = bandit::Error;
    fn try_from(StoredSums { stage, exchange, learnt, shares }: StoredSums) -> Result<Self, bandit::Error> {
        let mechanism = stage.mechanism();
        let open = shares.0 < mechanism.modulus() && shares.1 < mechanism.users();
        // A batch of one user at least for each sum taken.
        let taken = exchange.checked_sub(1).is_some_and(|sums| sums <= learnt);
        if !open || !taken || learnt > stage.config().horizon {
            return Err(bandit::Error::State { what: "sums that no run can reach" });
        }
        Ok(Sums { stage, exchange, learnt, shares })
    }
}

impl From<Sums> for StoredSums {
    fn from(Sums { stage, exchange, learnt, shares }: Sums) -> Self {
        StoredSums { stage, exchange, learnt, shares }
    }
}

/// ShuffleGLM from counts of shuffled bits: for each batch its metric, then a gradient a step. Arms are chosen on the
/// devices, from what is published.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "StoredGlm", into = "StoredGlm")]
pub(crate) struct ShuffledGlm {
    config: ShuffleConfig,
    /// Follows from the configuration.
    sums: Vec<BatchSums>,
    exchange: u64,
    published: Vec<Batch>,
    /// Of the batch under way: its metric, and the regulariser of its estimate.
    metric: Option<(Symmetric, f64)>,
    /// Gradient sums at the points asked for so far.
    gradients: Vec<Vec<f64>>,
}

#[derive(Serialize, Deserialize)]
struct StoredGlm {
    config: ShuffleConfig,
    /// The noise that calibration found. Reading it back computes one divergence for each value and does not
    /// search.
    noise: Vec<NoiseBits>,
    exchange: u64,
    published: Vec<Batch>,
    metric: Option<(Symmetric, f64)>,
    gradients: Vec<Vec<f64>>,
}

impl TryFrom<StoredGlm> for ShuffledGlm {
    type Error = glm::Error;
    fn try_from(stored: StoredGlm) -> Result<Self, glm::Error> {
        let StoredGlm { config, noise, exchange, published, metric, gradients } = stored;
        let (d, sums) = (config.problem.d, config.sums_with(&noise)?);
        let vector = |v: &Vec<f64>| v.len() == d && v.iter().all(|x| x.is_finite());
        let matrix = |m: &Symmetric| m.d() == d && m.values().iter().all(|x| x.is_finite());
        let regulariser = |r: f64| r.is_finite() && r >= 0.0;
        let open = metric.as_ref().map_or(gradients.is_empty(), |(m, r)| matrix(m) && regulariser(*r));
        let most = if let Estimator::Descent { steps } = config.estimator { steps as usize } else { 0 };
        let under_way = published.len() < config.batches.len() || metric.is_none();
        let exists = published.len() <= config.batches.len() && gradients.len() < most.max(1) && exchange > 0;
        let sound = published.iter().all(|b| b.is_sound(d)) && gradients.iter().all(vector);
        if !(open && under_way && exists && sound) {
            return Err(bandit::Error::State {
                what: "sums that do not fit the configuration or each other",
            }
            .into());
        }
        Ok(ShuffledGlm { config, sums, exchange, published, metric, gradients })
    }
}

impl From<ShuffledGlm> for StoredGlm {
    fn from(ShuffledGlm { config, sums, exchange, published, metric, gradients }: ShuffledGlm) -> Self {
        // Sums of a service are in bits, all of them.
        let noise = sums.iter().filter_map(BatchSums::noise).collect();
        StoredGlm { config, noise, exchange, published, metric, gradients }
    }
}

enum Progress {
    Asks(Vec<f64>),
    Done(Vec<f64>),
}

impl ShuffledGlm {
    pub(crate) fn new(config: ShuffleConfig) -> Result<Self, Error> {
        let (sums, published, gradients) = (config.sums()?, Vec::new(), Vec::new());
        Ok(ShuffledGlm { config, sums, exchange: 1, published, metric: None, gradients })
    }

    pub(crate) fn privacy(&self) -> Result<PrivacyStatement, Error> {
        Ok(self.config.privacy()?)
    }

    pub(crate) fn published(&self) -> &[Batch] {
        &self.published
    }

    /// `None` after the last batch.
    pub(crate) fn awaited(&self) -> Result<Option<Awaited>, Error> {
        let k = self.published.len();
        let (Some(&users), Some(sums)) = (self.config.batches.get(k), self.sums.get(k)) else {
            return Ok(None);
        };
        let ask = match &self.metric {
            None => {
                let d = self.config.problem.d;
                Ask::Metric { entries: d * (d + 1) / 2, bits: bits(&sums.matrix)? }
            }
            Some((_, regulariser)) => match self.descend(*regulariser, users)? {
                Progress::Asks(at) => Ask::Gradient { at, bits: bits(&sums.gradient)? },
                Progress::Done(_) => return Err(Error::Broken("a batch that was not published")),
            },
        };
        let batch = k as u32 + 1;
        Ok(Some(Awaited { exchange: self.exchange, batch, users, ask }))
    }

    pub(crate) fn receive(&mut self, batch: &SummedBatch) -> Result<Received, Error> {
        let (k, d) = (self.published.len(), self.config.problem.d);
        let after = Error::Broken("a batch after the last");
        let (Some(&users), Some(sums)) = (self.config.batches.get(k), self.sums.get(k)) else {
            return Err(after);
        };
        let first = self.metric.is_none();
        let mut done = 0;
        match &self.metric {
            None => {
                let entries = analyse(&sums.matrix, batch, d * (d + 1) / 2)?;
                let mut values = vec![0.0; d * d];
                let pairs = (0..d).flat_map(|i| (i..d).map(move |j| (i, j)));
                for ((i, j), entry) in pairs.zip(entries) {
                    (values[i * d + j], values[j * d + i]) = (entry, entry);
                }
                let mut metric = Symmetric::new(d, values)?;
                let (lambda, regulariser) = sums.lambda;
                metric.add_diagonal(lambda);
                self.metric = Some((metric.floored(lambda / 4.0), regulariser));
            }
            Some((metric, regulariser)) => {
                self.gradients.push(analyse(&sums.gradient, batch, d)?);
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
fn labels(batch: &SummedBatch, want: usize) -> Result<&[u128], Error> {
    let got = batch.labels;
    if got != want || batch.sums.len() != want {
        return Err(Error::BadParameter { why: format!("labels are {got}, this exchange has {want}") });
    }
    Ok(&batch.sums)
}

fn bits(summation: &Summation) -> Result<Bits, Error> {
    let Summation::Bits(bits) = summation else { return Err(Error::Broken("sums that are not in bits")) };
    Ok(Bits { bound: bits.bound(), steps: bits.steps(), noise: bits.noise_bits() })
}

/// Estimates from the number of ones under each label.
fn analyse(summation: &Summation, batch: &SummedBatch, want: usize) -> Result<Vec<f64>, Error> {
    let Summation::Bits(bits) = summation else { return Err(Error::Broken("sums that are not in bits")) };
    // A count of more than 64 bits is as far out of range as the largest one.
    let estimate = |ones: &u128| Ok(bits.analyse(u64::try_from(*ones).unwrap_or(u64::MAX))?);
    labels(batch, want)?.iter().map(estimate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bandit::Policy;
    use bandit::distributed::{Elimination, IdealSum, Model, SecureSum};
    use glm::shuffle::Protection;
    use glm::{Link, Problem};
    use privacy::Ratio;
    use privacy::budget::Epsilon;
    use privacy::shuffle::BitSum;
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;
    use std::sync::{Arc, Mutex};
    use wire::ShuffledBatch;

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

    /// Exchanges take the noise that was sized when the bandit was made: with other sums in its place, other ranges of bits
    /// come out of the same batch.
    #[test]
    fn exchanges_size_no_noise() {
        let config = ShuffleConfig {
            problem: Problem {
                d: 1,
                k: 2,
                link: Link::Logistic,
                s: 1.0,
                kappa: 5.1,
                delta: 0.02,
                horizon: 8,
            },
            reward_max: 1.0,
            batches: vec![8],
            lambda: 1.0,
            gamma: 1.0,
            design_factor: 2.0,
            colluding: 0.0,
            estimator: Estimator::Descent { steps: 2 },
            protection: Protection::Calibrated { epsilon: Epsilon::new(8.0).unwrap() },
        };
        let mut glm = ShuffledGlm::new(config).unwrap();
        let bits = |bound| Summation::Bits(BitSum::new(bound, 8, 4, 0).unwrap());
        glm.sums[0] = BatchSums { matrix: bits(64.0), gradient: bits(32.0), lambda: (3.0, 5.0) };
        let batch = |exchange, ones| SummedBatch { exchange, users: 8, labels: 1, sums: vec![ones] };
        // 18 steps of 32 above -512; then 4 of 16 below 256.
        glm.receive(&batch(1, 18)).unwrap();
        let (metric, regulariser) = glm.metric.clone().unwrap();
        assert_eq!((metric.values(), regulariser), (&[64.0 + 3.0][..], 5.0));
        // 28 steps of 16 above -256: a gradient of 24 a user sends the descent to the edge of the ball.
        glm.receive(&batch(2, 28)).unwrap();
        let ask = glm.awaited().unwrap().unwrap().ask;
        assert!(matches!(ask, Ask::Gradient { at, bits } if at == [-1.0] && bits.bound == 32.0));
    }

    /// Sum after sum, the server's half does what the whole does that its crate simulates; and so it does when it is
    /// stored and read back after each.
    #[test]
    fn halves_equal_the_whole() {
        let bits = Model::Bits { delta: privacy::budget::Delta::new(1e-6).unwrap() };
        for (seed, model) in [(1, Model::Pure), (2, bits), (3, Model::Local)] {
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            let mut config = Config::new(4, 3000, model, Ratio::integer(4));
            config.confidence = 0.5;
            let notes = Noting::default();
            let mut whole = Elimination::new(config.clone(), notes.clone()).unwrap();
            let mut half = Sums::new(config.clone()).unwrap();
            for _ in 0..3000 {
                let arm = whole.decide(&(), &mut rng).unwrap();
                assert_eq!(half.arm(), arm);
                whole.learn(&(), arm, &[0.9, 0.6, 0.3, 0.0][arm], &mut rng).unwrap();
                for sum in notes.sums.lock().unwrap().drain(..) {
                    let awaited = half.awaited().unwrap();
                    let mechanism = config.mechanism(awaited.batch).unwrap();
                    assert_eq!(awaited.batch, half.stage.batch());
                    let (modulus, steps, epsilon) = (mechanism.modulus(), mechanism.precision(), 4.0);
                    let noise = if model == Model::Local { Noise::DiscreteLaplace } else { Noise::Polya };
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
                    assert_eq!(awaited.ask, ask);
                    let (exchange, users) = (awaited.exchange, awaited.users);
                    // In parts, as an intermediary may.
                    let labels = vec![vec![sum / 2, sum - sum / 2]];
                    let batch = SummedBatch::from(&ShuffledBatch { exchange, users, labels });
                    let more = u128::from(users * mechanism.bits() + 1);
                    let more = SummedBatch { sums: vec![more], ..batch.clone() };
                    assert_eq!(half.clone().receive(&more, &mut rng).is_err(), model == bits);
                    half.receive(&batch, &mut rng).unwrap();
                    half = postcard::from_bytes(&postcard::to_stdvec(&half).unwrap()).unwrap();
                    assert_eq!(&half.stage, whole.stage());
                }
            }
            assert!(whole.left().len() < 4, "{model:?} never eliminates");
        }
    }
}
