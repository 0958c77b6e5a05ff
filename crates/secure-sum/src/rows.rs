//! Devices of a ShuffleGLM bandit: each has one row in one batch, and answers what the server asks of it, in
//! bits.

use crate::{Awaiting, Error, Most};
use bandit::Features;
use glm::shuffle::{Batch, Device, Estimator, Parameters, ShuffleConfig, Summation};
use privacy::shuffle::BitSum;
use rand::Rng;
use serde_json::Value;
use wire::{Ask, Bits};

/// What the devices of one batch know: the bandit's public parameters, what it has published, and the noise
/// that follows.
#[derive(Debug, Clone)]
pub struct RowBatch {
    config: ShuffleConfig,
    published: Vec<Batch>,
    metric: BitSum,
    gradient: BitSum,
}

impl RowBatch {
    /// The batch under way.
    ///
    /// - Cost: its noise is calibrated, up to some seconds for the most people and steps that
    ///   [`Parameters::config`] allows.
    ///
    /// # Errors
    /// As [`Awaiting::agree`]; [`Error::Malformed`] for another policy; [`Error::Glm`] for parameters out of
    /// range; [`Error::Overasked`] if parameters, published batches and the batch asked for do not fit
    /// together; as [`ShuffleConfig::validate`].
    pub fn new(awaiting: &Awaiting, most: &Most) -> Result<Self, Error> {
        let parameters = Value::Object(awaiting.parameters.clone());
        let Ok(parameters) = serde_json::from_value::<Parameters>(parameters) else {
            return Err(Error::Malformed { what: "not a bandit whose devices choose" });
        };
        awaiting.agree(most)?;
        let published: Result<Vec<Batch>, _> =
            awaiting.published.iter().cloned().map(serde_json::from_value).collect();
        let Ok(published) = published else {
            return Err(Error::Malformed { what: "estimates that cannot be read" });
        };
        let (config, k) = (parameters.config()?, published.len());
        config.problem.validate()?;
        Device::new(&config, &published)?;
        if !published.iter().all(|batch| in_ball(&batch.theta, config.problem.s)) {
            return Err(Error::Overasked { what: "an estimate outside the ball" });
        }
        let users = config.batches.get(k).copied();
        if users != Some(awaiting.users().into()) || awaiting.batch_number() as usize != k + 1 {
            return Err(Error::Overasked { what: "another batch, or another number of users" });
        }
        let (Summation::Bits(metric), Summation::Bits(gradient)) =
            (config.matrix_sum(k)?, config.gradient_sum(k)?)
        else {
            return Err(Error::Malformed { what: "sums that are not in bits" });
        };
        Ok(Self { config, published, metric, gradient })
    }

    /// The bandit's configuration.
    pub const fn config(&self) -> &ShuffleConfig {
        &self.config
    }

    /// What a device does by itself.
    ///
    /// # Errors
    /// None for a batch that was accepted.
    pub fn device(&self) -> Result<Device<'_>, Error> {
        Ok(Device::new(&self.config, &self.published)?)
    }

    fn number(&self) -> u32 {
        self.published.len() as u32 + 1
    }
}

/// One device's row, and what it has told of it.
#[derive(Debug, Clone)]
pub struct Row {
    batch: u32,
    x: Vec<f64>,
    reward: f64,
    /// Number of the newest exchange that it answered; 0 before the first.
    answered: u64,
    metric: bool,
    gradients: u32,
}

impl Row {
    /// Of a device that played `arm` of `set` in `batch` and earned `reward`.
    ///
    /// # Errors
    /// [`bandit::Error::Arm`] without such an arm, [`bandit::Error::Reward`] for a reward outside [0, 1].
    pub fn new(batch: &RowBatch, set: &Features, arm: usize, reward: f64) -> Result<Self, Error> {
        let x = set.row(arm).ok_or(bandit::Error::Arm { arm, k: set.k() })?.to_vec();
        let max = batch.config.reward_max;
        if !(0.0..=max).contains(&reward) {
            return Err(bandit::Error::Reward { got: reward, max }.into());
        }
        Ok(Self { batch: batch.number(), x, reward, answered: 0, metric: false, gradients: 0 })
    }

    /// The number of ones for each label of what `awaiting` asks. Whoever sends again sends the same numbers:
    /// asking again is refused, since each answer has noise of its own.
    ///
    /// # Errors
    /// [`Error::Overasked`], and nothing is told: for bits without the noise that follows from the bandit's
    /// parameters, the metric a second time, more gradients than the descent has steps, an exchange that was
    /// answered, another batch.
    pub fn answer(
        &mut self,
        batch: &RowBatch,
        awaiting: &Awaiting,
        rng: &mut dyn Rng,
    ) -> Result<Vec<u64>, Error> {
        let refuse = |what| Err(Error::Overasked { what });
        let (config, device) = (&batch.config, batch.device()?);
        let d = config.problem.d;
        if awaiting.batch_number() != self.batch || batch.number() != self.batch {
            return refuse("a row of another batch");
        }
        if awaiting.exchange() <= self.answered {
            return refuse("an exchange that this device has answered");
        }
        if config.batches.get(self.batch as usize - 1) != Some(&awaiting.users().into()) {
            return refuse("another number of users");
        }
        let (bits, asked, values) = match &awaiting.awaited.ask {
            Ask::Metric { .. } if self.metric => return refuse("a row's metric a second time"),
            Ask::Metric { entries, .. } if *entries != d * (d + 1) / 2 => return refuse("another metric"),
            Ask::Metric { bits, .. } => (&batch.metric, bits, device.metric(&self.x)),
            Ask::Gradient { at, .. } if at.len() != d || !in_ball(at, config.problem.s) => {
                return refuse("a gradient at no point");
            }
            Ask::Gradient { at, bits } => {
                let Estimator::Descent { steps } = config.estimator else {
                    return refuse("a gradient for an estimate that needs none");
                };
                if self.gradients >= steps {
                    return refuse("more gradients than the descent has steps");
                }
                (&batch.gradient, bits, device.gradient(&self.x, self.reward, at))
            }
            _ => return refuse("no bits of a row"),
        };
        let follows = Bits { bound: bits.bound(), steps: bits.steps(), noise: bits.noise_bits() };
        if *asked != follows {
            return refuse("other bits, or another noise");
        }
        let ones = values.into_iter().map(|v| Ok(bits.randomise(v, rng)?)).collect::<Result<_, Error>>()?;
        // Told, from here on, whether or not it arrives.
        self.answered = awaiting.exchange();
        match awaiting.awaited.ask {
            Ask::Metric { .. } => self.metric = true,
            _ => self.gradients += 1,
        }
        Ok(ones)
    }
}

/// Whether the norm is at most `s`, up to rounding. Where it is not, a link may leave double precision for
/// some rows and not for others; a device that failed there would tell, without noise, which is its own.
fn in_ball(point: &[f64], s: f64) -> bool {
    point.iter().map(|v| v * v).sum::<f64>().sqrt() <= s * (1.0 + 1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;
    use serde_json::json;

    const MOST: Most = Most { epsilon: 8.0, delta: 0.01, colluding: 0.0 };

    /// Batches, steps and budgets for which noise would take minutes or leave its range are refused by name.
    #[test]
    fn parameters_out_of_range_are_named() {
        let silent = Ask::Metric { entries: 1, bits: Bits { bound: 1.0, steps: 4, noise: 0 } };
        for (name, value, says) in [
            ("steps", json!(0), "steps is 0"),
            ("steps", json!(1001), "steps is 1001"),
            ("steps", json!(u32::MAX), "steps is 4294967295"),
            ("batches", json!([40, u64::MAX]), "batches in sum"),
            ("batches", json!([40, 1_000_000]), "batches in sum is 1000040"),
            ("batches", json!([]), "batches is 0"),
            ("batches", json!([1, 1, 1, 1, 1, 1, 1, 1, 1]), "batches is 9"),
            ("features", json!(1u64 << 40), "d is"),
            ("epsilon", json!(0.01), "epsilon is 0.01"),
            ("epsilon", json!(8.5), "epsilon is 8.5, and --most-epsilon 8"),
            ("delta", json!(1e-40), "delta is"),
            ("delta", json!(0.011), "delta is 0.011, and --most-delta 0.01"),
            ("delta", json!(-1.0), "delta is -1"),
        ] {
            let mut awaiting = awaiting(1, silent.clone());
            awaiting.parameters.insert(name.into(), value);
            let refused = RowBatch::new(&awaiting, &MOST).unwrap_err().to_string();
            assert!(refused.contains(says), "{name}: {refused}");
        }
    }

    fn awaiting(exchange: u64, ask: Ask) -> Awaiting {
        let parameters = json!({"arms": 2, "features": 1, "batches": [40, 50], "epsilon": 8.0, "delta": 0.01,
            "gamma": 1.0, "steps": 2});
        let Value::Object(parameters) = parameters else { unreachable!() };
        Awaiting::of(exchange, 1, 40, ask, parameters)
    }

    /// A device answers a metric and as many gradients as the descent has steps, with the noise that follows
    /// from the parameters; for whatever else is asked, it says nothing and stays as it is.
    #[test]
    fn devices_refuse_what_costs_more() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let bits = |b: &BitSum| Bits { bound: b.bound(), steps: b.steps(), noise: b.noise_bits() };
        let silent = Bits { bound: 1.0, steps: 4, noise: 0 };
        let batch = RowBatch::new(&awaiting(1, Ask::Metric { entries: 1, bits: silent }), &MOST).unwrap();
        let (metric, gradient) = (bits(&batch.metric), bits(&batch.gradient));
        assert!(metric.noise > 0 && gradient.noise > metric.noise);
        let metric = |bits| Ask::Metric { entries: 1, bits: Bits { ..bits } };
        let gradient = |at: &[f64]| Ask::Gradient { at: at.to_vec(), bits: gradient };
        let noised = bits(&batch.metric);
        let set = Features::new(vec![0.5, -0.5], 1).unwrap();
        let mut row = Row::new(&batch, &set, 0, 1.0).unwrap();
        let mut says = |exchange, ask: Ask, what: Option<&str>| {
            let said = row.answer(&batch, &awaiting(exchange, ask), &mut rng);
            match (said, what) {
                (Ok(ones), None) => assert_eq!(ones.len(), 1),
                (Err(Error::Overasked { what: why }), Some(what)) => assert!(why.contains(what), "{why}"),
                other => panic!("{exchange}: {other:?}"),
            }
        };
        says(1, metric(silent), Some("another noise"));
        says(1, metric(Bits { noise: noised.noise - 1, ..noised }), Some("another noise"));
        says(1, metric(Bits { bound: 1e9, ..noised }), Some("another noise"));
        says(1, Ask::Metric { entries: 3, bits: noised }, Some("another metric"));
        says(1, metric(noised), None);
        says(1, metric(noised), Some("has answered"));
        says(2, metric(noised), Some("second time"));
        says(1, gradient(&[0.0]), Some("has answered"));
        says(2, gradient(&[f64::NAN]), Some("no point"));
        says(2, gradient(&[0.0, 0.0]), Some("no point"));
        says(2, gradient(&[0.0]), None);
        says(3, gradient(&[0.1]), None);
        says(4, gradient(&[0.2]), Some("more gradients"));
        let share = Ask::Share { arm: 0, modulus: 9, steps: 1, noise: wire::Noise::Polya, epsilon: 1.0 };
        says(4, share, Some("no bits"));
        assert!(Row::new(&batch, &set, 2, 1.0).is_err() && Row::new(&batch, &set, 0, 1.5).is_err());
    }
    /// A device that asks for noise that is enough without a part of the others refuses a bandit that sizes
    /// it for all, and adds more to one that does not.
    #[test]
    fn attack_made_up_rows_are_reckoned_with() {
        let silent = Ask::Metric { entries: 1, bits: Bits { bound: 1.0, steps: 4, noise: 0 } };
        let wary = Most { colluding: 0.25, ..MOST };
        let mut awaiting = awaiting(1, silent);
        assert!(matches!(RowBatch::new(&awaiting, &wary), Err(Error::FewColluding { .. })));
        let noise = |batch: RowBatch| [batch.metric.noise_bits(), batch.gradient.noise_bits()];
        let all = noise(RowBatch::new(&awaiting, &MOST).unwrap());
        awaiting.parameters.insert("colluding".into(), 0.25.into());
        let honest = noise(RowBatch::new(&awaiting, &wary).unwrap());
        // The same sum of noise from three quarters of the users, but for rounding.
        assert!(
            (0..2).all(|i| 3 * honest[i] >= 4 * all[i] - 3 && 3 * honest[i] <= 4 * all[i] + 7),
            "{all:?} {honest:?}"
        );
        for bad in [-0.1, 1.0, f64::MAX] {
            awaiting.parameters.insert("colluding".into(), bad.into());
            assert!(RowBatch::new(&awaiting, &MOST).is_err(), "{bad}");
        }
    }

    /// Far out a link leaves double precision for some rows: a device that failed there would tell which is
    /// its own. So points outside the ball of parameters are refused whatever the row, and estimates too.
    #[test]
    fn points_outside_the_ball_are_refused_by_every_row() {
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        let silent = Ask::Metric { entries: 1, bits: Bits { bound: 1.0, steps: 4, noise: 0 } };
        let mut awaiting = awaiting(1, silent);
        awaiting.parameters.insert("link".into(), "poisson".into());
        let batch = RowBatch::new(&awaiting, &MOST).unwrap();
        let g = &batch.gradient;
        let bits = Bits { bound: g.bound(), steps: g.steps(), noise: g.noise_bits() };
        for (at, inside) in [(1.0, true), (-1.0, true), (1.1, false), (2000.0, false), (-f64::MAX, false)] {
            for x in [0.5, -0.5] {
                awaiting.awaited.ask = Ask::Gradient { at: vec![at], bits };
                let mut row = Row::new(&batch, &Features::new(vec![x], 1).unwrap(), 0, 1.0).unwrap();
                let said = row.answer(&batch, &awaiting, &mut rng);
                match said {
                    Ok(_) => assert!(inside, "{at}"),
                    Err(Error::Overasked { what }) => assert!(!inside && what.contains("no point"), "{what}"),
                    Err(other) => panic!("{at}, {x}: {other}"),
                }
            }
        }
        let estimate = |theta: f64| {
            let unit = json!({"d": 1, "values": [1.0]});
            json!({"theta": [theta], "metric": unit, "inverse": unit})
        };
        (awaiting.awaited.batch, awaiting.awaited.users, awaiting.users) = (2, 50, 50);
        awaiting.published = vec![estimate(-1.0)];
        assert!(RowBatch::new(&awaiting, &MOST).is_ok());
        awaiting.published = vec![estimate(1.1)];
        assert!(matches!(RowBatch::new(&awaiting, &MOST), Err(Error::Overasked { .. })));
    }
}
