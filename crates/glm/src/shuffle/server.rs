//! The server, which asks for sums, and publishes an estimate and a metric for each batch.

use super::{Batch, BatchSums, Estimator, NoiseBits, ShuffleConfig, Summation};
use crate::matrix::triangle;
use crate::{Descent, Error, Symmetric, onto_ball};
use bandit::Learnt;
use privacy::PrivacyStatement;
use privacy::shuffle::BitSum;
use privacy::task::{Ask, Task};
use serde::{Deserialize, Serialize};

/// The server of ShuffleGLM. For each batch it asks for the metric and then for one sum of gradients per step
/// of the descent; the sums are counts of shuffled bits. Devices choose their arms from what it has
/// published.
///
/// # Source
/// Sarmasarkar, "Shuffle and Joint Differential Privacy for Generalized Linear Contextual Bandits", Algorithm
/// 1.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "StoredServer", into = "StoredServer")]
pub struct ShuffleGlmServer {
    config: ShuffleConfig,
    /// The sums of each batch, computed from the configuration.
    sums: Vec<BatchSums>,
    /// Number of the current exchange, from 1.
    exchange: u64,
    published: Vec<Batch>,
    /// Metric of the current batch, and the regulariser of its estimate; `None` until the metric is received.
    metric: Option<(Symmetric, f64)>,
    /// Sums of gradients of the current batch, one for each step of the descent so far.
    gradients: Vec<Vec<f64>>,
}

#[derive(Serialize, Deserialize)]
struct StoredServer {
    config: ShuffleConfig,
    /// The noise that calibration found. Deserialising computes one divergence for each number, to check that
    /// it is sufficient, in place of a new calibration.
    noise: Vec<NoiseBits>,
    exchange: u64,
    published: Vec<Batch>,
    metric: Option<(Symmetric, f64)>,
    gradients: Vec<Vec<f64>>,
}

impl TryFrom<StoredServer> for ShuffleGlmServer {
    type Error = Error;
    fn try_from(stored: StoredServer) -> Result<Self, Error> {
        let StoredServer { config, noise, exchange, published, metric, gradients } = stored;
        let (d, sums) = (config.problem.d, config.sums_with(&noise)?);
        let vector = |v: &Vec<f64>| v.len() == d && v.iter().all(|x| x.is_finite());
        let matrix = |m: &Symmetric| m.d() == d && m.is_finite();
        let regulariser = |r: f64| r.is_finite() && r >= 0.0;
        let open = metric.as_ref().map_or(gradients.is_empty(), |(m, r)| matrix(m) && regulariser(*r));
        let most = if let Estimator::Descent { steps } = config.estimator { steps as usize } else { 0 };
        let under_way = published.len() < config.batches.len() || metric.is_none();
        let exists = published.len() <= config.batches.len() && gradients.len() < most.max(1) && exchange > 0;
        let sound = published.iter().all(|b| b.is_sound(d)) && gradients.iter().all(vector);
        if !(open && under_way && exists && sound) {
            let what = "sums that do not fit the configuration or each other";
            return Err(bandit::Error::State { what }.into());
        }
        Ok(Self { config, sums, exchange, published, metric, gradients })
    }
}

impl From<ShuffleGlmServer> for StoredServer {
    fn from(server: ShuffleGlmServer) -> Self {
        let ShuffleGlmServer { config, sums, exchange, published, metric, gradients } = server;
        // `new` accepts only configurations all of whose sums are in bits.
        let noise = sums.iter().filter_map(BatchSums::noise).collect();
        Self { config, noise, exchange, published, metric, gradients }
    }
}

/// The state of a descent after the sums received.
enum Progress {
    /// The point at which the next sum of gradients is needed.
    Asks(Vec<f64>),
    /// The estimate.
    Done(Vec<f64>),
}

impl ShuffleGlmServer {
    /// The state before the first sum. Calibrates the noise of all batches.
    ///
    /// # Errors
    /// Those of [`ShuffleConfig::sums`]; [`bandit::Error::State`] if a sum is not in shuffled bits.
    pub fn new(config: ShuffleConfig) -> Result<Self, Error> {
        let (sums, published, gradients) = (config.sums()?, Vec::new(), Vec::new());
        if sums.iter().any(|sums| sums.noise().is_none()) {
            return Err(bandit::Error::State { what: "sums that are not in shuffled bits" }.into());
        }
        Ok(Self { config, sums, exchange: 1, published, metric: None, gradients })
    }

    /// The guarantee of the whole run.
    ///
    /// # Errors
    /// Those of [`ShuffleConfig::privacy`].
    pub fn privacy(&self) -> Result<PrivacyStatement, Error> {
        self.config.privacy()
    }

    /// Estimate and metric of each batch that is complete.
    pub fn published(&self) -> &[Batch] {
        &self.published
    }

    /// The estimate of the last complete batch.
    pub fn learnt(&self) -> Learnt {
        super::last_estimate(&self.published)
    }

    /// The sum that the server waits for; `None` after the last batch.
    ///
    /// # Errors
    /// Those of the descent, which is repeated with the sums received.
    pub fn task(&self) -> Result<Option<Task>, Error> {
        let k = self.published.len();
        let (Some(&users), Some(sums)) = (self.config.batches.get(k), self.sums.get(k)) else {
            return Ok(None);
        };
        let ask = match &self.metric {
            None => {
                let entries = triangle(self.config.problem.d);
                Ask::Metric { entries, bits: in_bits(&sums.matrix)?.bits() }
            }
            Some((_, regulariser)) => match self.descend(*regulariser, users)? {
                Progress::Asks(at) => Ask::Gradient { at, bits: in_bits(&sums.gradient)?.bits() },
                Progress::Done(_) => return Err(bandit::Error::State { what: "an unpublished batch" }.into()),
            },
        };
        Ok(Some(Task { exchange: self.exchange, batch: k as u32 + 1, users, ask }))
    }

    /// Takes the sums that answer the [task](Self::task): for each label the number of ones among the bits of
    /// all users. Returns the number of users whose batch is complete now: 0 unless this was its last sum.
    ///
    /// # Errors
    /// [`Error::Dimension`] for another number of labels, [`Error::Privacy`] for more ones than bits,
    /// [`bandit::Error::HorizonOver`] after the last batch. The state must then be discarded.
    pub fn report(&mut self, ones: &[u128]) -> Result<u64, Error> {
        let (k, d) = (self.published.len(), self.config.problem.d);
        let over = bandit::Error::HorizonOver { horizon: self.config.problem.horizon };
        let (Some(&users), Some(sums)) = (self.config.batches.get(k), self.sums.get(k)) else {
            return Err(over.into());
        };
        let mut complete = 0;
        match &self.metric {
            None => {
                let mut metric = Symmetric::from_upper(d, &analyse(&sums.matrix, ones, triangle(d))?);
                let (lambda, regulariser) = sums.lambda;
                metric.add_diagonal(lambda);
                self.metric = Some((metric.floored(lambda / 4.0), regulariser));
            }
            Some((metric, regulariser)) => {
                self.gradients.push(analyse(&sums.gradient, ones, d)?);
                if let Progress::Done(theta) = self.descend(*regulariser, users)? {
                    let inverse = metric.inverse().ok_or(Error::NotPositive { field: "metric" })?;
                    self.published.push(Batch { theta, metric: metric.clone(), inverse });
                    (self.metric, self.gradients) = (None, Vec::new());
                    complete = users;
                }
            }
        }
        self.exchange += 1;
        Ok(complete)
    }

    /// Repeats the descent with the sums received. It has no other state, so that it continues exactly after
    /// a restart.
    fn descend(&self, regulariser: f64, users: u64) -> Result<Progress, Error> {
        let (c, n) = (&self.config, users as f64);
        let Estimator::Descent { steps } = c.estimator else {
            return Err(bandit::Error::State { what: "an estimator that asks for no sums" }.into());
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
                // The error ends the descent here, and is discarded below.
                Err(Error::NoConvergence { what: "a descent without further sums", steps: 0 })
            }
        };
        let ended = descent.run(c.problem.d, n, sum, onto_ball(c.problem.s));
        match (ended, asks) {
            (Ok(theta), _) => Ok(Progress::Done(theta)),
            (Err(_), Some(at)) => Ok(Progress::Asks(at)),
            (Err(error), None) => Err(error),
        }
    }
}

fn in_bits(summation: &Summation) -> Result<&BitSum, Error> {
    let what = "sums that are not in shuffled bits";
    summation.in_bits().ok_or(bandit::Error::State { what }.into())
}

/// Estimates from the number of ones under each of `want` labels.
fn analyse(summation: &Summation, ones: &[u128], want: usize) -> Result<Vec<f64>, Error> {
    if ones.len() != want {
        return Err(Error::Dimension { field: "labels", got: ones.len(), want });
    }
    let bits = in_bits(summation)?;
    // A count of more than 64 bits is as far out of range as the largest count of 64 bits.
    let estimate = |ones: &u128| Ok(bits.analyse(u64::try_from(*ones).unwrap_or(u64::MAX))?);
    ones.iter().map(estimate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shuffle::{Protection, ShuffleParameters};
    use crate::{Link, Problem};
    use privacy::budget::Epsilon;

    /// Sums are read with the noise that was calibrated when the server was made, and none is calibrated
    /// later: with other noise in its place, the same counts give other estimates.
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
        let mut glm = ShuffleGlmServer::new(config).unwrap();
        let bits = |bound| Summation::Bits(BitSum::new(bound, 8, 4, 0).unwrap());
        glm.sums[0] = BatchSums { matrix: bits(64.0), gradient: bits(32.0), lambda: (3.0, 5.0) };
        // 18 steps of 32 above -512; then 4 of 16 below 256.
        glm.report(&[18]).unwrap();
        let (metric, regulariser) = glm.metric.clone().unwrap();
        assert_eq!((metric.values(), regulariser), (&[64.0 + 3.0][..], 5.0));
        // 28 steps of 16 above -256: a gradient of 24 a user sends the descent to the edge of the ball.
        glm.report(&[28]).unwrap();
        let ask = glm.task().unwrap().unwrap().ask;
        assert!(matches!(ask, Ask::Gradient { at, bits } if at == [-1.0] && bits.bound == 32.0));
        // What is shown is what is published, and nothing of a batch that is under way.
        assert_eq!(glm.learnt(), Learnt::default());
        assert_eq!(glm.report(&[16]).unwrap(), 8);
        assert_eq!(
            glm.learnt(),
            Learnt { theta: Some(glm.published()[0].theta.clone()), ..Learnt::default() }
        );
    }

    /// A stored server with less noise than its guarantee needs is refused.
    #[test]
    fn attack_stored_noise_is_checked() {
        let parameters = serde_json::json!({"arms": 2, "features": 2, "batches": [125_000], "epsilon": 4,
            "delta": 1e-6, "gamma": 1, "steps": 1000});
        let parameters: ShuffleParameters = serde_json::from_value(parameters).unwrap();
        let server = ShuffleGlmServer::new(parameters.config().unwrap()).unwrap();
        let stored = serde_json::to_value(&server).unwrap();
        assert!(serde_json::from_value::<ShuffleGlmServer>(stored.clone()).is_ok());
        for field in ["matrix", "gradient"] {
            let mut less = stored.clone();
            less["noise"][0][field] = (stored["noise"][0][field].as_u64().unwrap() - 1).into();
            let refused = serde_json::from_value::<ShuffleGlmServer>(less).err().unwrap();
            assert!(refused.to_string().contains("noise_bits"), "{refused}");
        }
    }
}
