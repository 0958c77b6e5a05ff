//! The device, which chooses the arm of its person from published values, and answers the server's tasks in
//! bits.

use super::{Batch, Estimator, ShuffleConfig, ShuffleParameters, Summation};
use crate::descent::clipped;
use crate::error::in_round;
use crate::matrix::triangle;
use crate::{Design, Error};
use bandit::Features;
use bandit::vector::{argmax, dot, norm_is_within};
use privacy::shuffle::BitSum;
use privacy::task::{Ask, DeviceBounds, Refusal, Task};
use rand::Rng;

/// The computations of a device in the batch after the published ones, which depend on public values and on
/// its own row.
///
/// [`ShuffleGlm`](super::ShuffleGlm) simulates all devices and the server with them.
#[derive(Debug, Clone, Copy)]
pub struct Device<'a> {
    config: &'a ShuffleConfig,
    published: &'a [Batch],
}

impl<'a> Device<'a> {
    /// A device of the batch after the `published` ones.
    ///
    /// # Errors
    /// [`bandit::Error::State`] if they do not have the configuration's shape, or numbers are not finite;
    /// [`bandit::Error::HorizonOver`] if no batch follows.
    pub fn new(config: &'a ShuffleConfig, published: &'a [Batch]) -> Result<Self, Error> {
        if !published.iter().all(|batch| batch.is_sound(config.problem.d)) {
            return Err(bandit::Error::State { what: "estimates that do not fit the configuration" }.into());
        }
        if published.len() >= config.batches.len() {
            return Err(bandit::Error::HorizonOver { horizon: config.problem.horizon }.into());
        }
        Ok(Self::of_sound(config, published))
    }

    pub(super) fn of_sound(config: &'a ShuffleConfig, published: &'a [Batch]) -> Self {
        Self { config, published }
    }

    /// The arm to play: one of the [`survivors`](Self::survivors), drawn by an optimal design over them.
    ///
    /// # Errors
    /// [`bandit::Error::Shape`], [`bandit::Error::FeatureTooLong`]; those of the design.
    pub fn choose(&self, set: &Features, rng: &mut dyn Rng) -> Result<usize, bandit::Error> {
        self.config.problem.check(set)?;
        let alive = self.survivors(set);
        let arms: Vec<usize> = (0..set.k()).filter(|&a| alive[a]).collect();
        let mut points = Vec::with_capacity(arms.len() * set.d());
        for x in arms.iter().filter_map(|&a| set.row(a)) {
            let root = self.weight(x).sqrt();
            points.extend(x.iter().map(|v| v * root));
        }
        let design = Design::g_optimal(points.chunks_exact(set.d()), self.config.design_factor);
        Ok(arms[design.map_err(in_round)?.sample(rng)])
    }

    /// For each arm of `set`, whether no published batch eliminates it. At least one arm remains.
    pub fn survivors(&self, set: &Features) -> Vec<bool> {
        let mut alive = vec![true; set.k()];
        let mut width = vec![0.0; set.k()];
        let mut estimate = width.clone();
        for (j, batch) in self.published.iter().enumerate() {
            for (x, (w, e)) in set.rows().zip(width.iter_mut().zip(&mut estimate)) {
                *w = self.config.width(j) * batch.inverse.norm(x);
                *e = dot(x, &batch.theta);
            }
            let lower = |a: usize| if alive[a] { estimate[a] - width[a] } else { f64::NEG_INFINITY };
            let best = argmax((0..set.k()).map(lower));
            let bar = lower(best);
            for (a, alive) in alive.iter_mut().enumerate() {
                // Rounding must not eliminate the arm with the largest lower bound.
                *alive = *alive && (a == best || estimate[a] + width[a] >= bar);
            }
        }
        alive
    }

    /// The weight of `x x^T` in the metric, at most `L_mu`; 1 in the first batch.
    pub fn weight(&self, x: &[f64]) -> f64 {
        let Some(first) = self.published.first() else { return 1.0 };
        let c = self.config;
        let shift = (2.0 * c.problem.s).min(c.width(0) * first.inverse.norm(x));
        let concordance = c.problem.link.self_concordance(c.reward_max, c.problem.s);
        let slope = c.problem.link.slope(dot(x, &first.theta)) / (concordance * shift).exp();
        slope.min(c.max_weight())
    }

    /// The summand of the row `x` in the metric: its upper triangle, row by row.
    pub fn metric(&self, x: &[f64]) -> Vec<f64> {
        let (weight, d) = (self.weight(x), x.len());
        let pairs = (0..d).flat_map(|i| (i..d).map(move |j| (i, j)));
        pairs.map(|(i, j)| self.metric_entry(weight, x[i], x[j])).collect()
    }

    /// The summand of the row `x` with its reward in the gradient at `theta`.
    pub fn gradient(&self, x: &[f64], reward: f64, theta: &[f64]) -> Vec<f64> {
        let factor = self.factor(x, reward, theta);
        x.iter().map(|v| self.gradient_entry(factor, *v)).collect()
    }

    /// The entry of a product, clamped, since a norm of 1 up to rounding must not exceed the range of the
    /// bits.
    pub(super) fn metric_entry(&self, weight: f64, a: f64, b: f64) -> f64 {
        let bound = if self.published.is_empty() { 1.0 } else { self.config.max_weight() };
        (weight * a * b).clamp(-bound, bound)
    }

    pub(super) fn factor(&self, x: &[f64], reward: f64, theta: &[f64]) -> f64 {
        clipped(self.config.problem.link, self.config.reward_max, x, reward, theta)
    }

    pub(super) fn gradient_entry(&self, factor: f64, a: f64) -> f64 {
        let bound = self.config.reward_max;
        (factor * a).clamp(-bound, bound)
    }
}

/// The values that all devices of one batch share: the configuration, the published batches, and the noise.
#[derive(Debug, Clone)]
pub struct BatchDevices {
    config: ShuffleConfig,
    published: Vec<Batch>,
    metric: BitSum,
    gradient: BitSum,
}

impl BatchDevices {
    /// The devices of the batch after those that are `published`, to which `task` belongs.
    ///
    /// - Cost: calibration of the noise takes up to some seconds for the largest batches and numbers of steps
    ///   that [`ShuffleParameters::config`] allows.
    ///
    /// # Errors
    /// As [`DeviceBounds::admit`], [`ShuffleParameters::config`], [`Device::new`] and
    /// [`ShuffleConfig::validate`]; [`Refusal::Overasked`] if the task does not follow from parameters and
    /// published batches.
    pub fn new(
        parameters: &ShuffleParameters,
        published: Vec<Batch>,
        task: &Task,
        bounds: &DeviceBounds,
    ) -> Result<Self, Error> {
        bounds.admit(parameters.epsilon.get(), parameters.delta, parameters.colluding)?;
        let (config, k) = (parameters.config()?, published.len());
        config.problem.validate()?;
        Device::new(&config, &published)?;
        if !published.iter().all(|batch| norm_is_within(&batch.theta, config.problem.s)) {
            // As in `Row::answer`.
            return Err(Refusal::Overasked { what: "an estimate outside the ball" }.into());
        }
        if config.batches.get(k) != Some(&task.users) || task.batch as usize != k + 1 {
            return Err(Refusal::Overasked { what: "another batch, or another number of users" }.into());
        }
        let (Summation::Bits(metric), Summation::Bits(gradient)) =
            (config.matrix_sum(k)?, config.gradient_sum(k)?)
        else {
            return Err(Refusal::Overasked { what: "sums that are not in bits" }.into());
        };
        Ok(Self { config, published, metric, gradient })
    }

    /// The bandit's configuration.
    pub const fn config(&self) -> &ShuffleConfig {
        &self.config
    }

    /// The computations of one device.
    pub fn device(&self) -> Device<'_> {
        Device::of_sound(&self.config, &self.published)
    }

    fn number(&self) -> u32 {
        self.published.len() as u32 + 1
    }
}

/// The row of one device, and the tasks that it has answered.
#[derive(Debug, Clone)]
pub struct Row {
    batch: u32,
    x: Vec<f64>,
    reward: f64,
    /// Number of the last exchange that it answered; 0 before the first.
    answered: u64,
    metric: bool,
    gradients: u32,
}

impl Row {
    /// The row of a device that played `arm` of `set` in `batch` and earned `reward`.
    ///
    /// # Errors
    /// [`bandit::Error::Arm`] if there is no such arm, [`bandit::Error::Reward`] for a reward outside [0, 1].
    pub fn new(batch: &BatchDevices, set: &Features, arm: usize, reward: f64) -> Result<Self, Error> {
        let x = set.row(arm).ok_or(bandit::Error::Arm { arm, k: set.k() })?.to_vec();
        let max = batch.config.reward_max;
        if !(0.0..=max).contains(&reward) {
            return Err(bandit::Error::Reward { got: reward, max }.into());
        }
        Ok(Self { batch: batch.number(), x, reward, answered: 0, metric: false, gradients: 0 })
    }

    /// For each label of `task`, the number of ones among the bits that this device sends. A device that
    /// sends again must send the same numbers: a second call, which would draw new noise, is refused.
    ///
    /// # Errors
    /// [`Refusal::Overasked`] for bits that do not follow from the parameters, a second metric, more
    /// gradients than the descent has steps, an exchange that was answered, or another batch. The row is then
    /// unchanged.
    pub fn answer(
        &mut self,
        batch: &BatchDevices,
        task: &Task,
        rng: &mut dyn Rng,
    ) -> Result<Vec<u64>, Error> {
        let refuse = |what| Err(Refusal::Overasked { what }.into());
        let (config, device) = (&batch.config, batch.device());
        let d = config.problem.d;
        if task.batch != self.batch || batch.number() != self.batch {
            return refuse("a row of another batch");
        }
        if task.exchange <= self.answered {
            return refuse("an exchange that this device has answered");
        }
        if config.batches.get(self.batch as usize - 1) != Some(&task.users) {
            return refuse("another number of users");
        }
        let (sum, asked, values) = match &task.ask {
            Ask::Metric { .. } if self.metric => return refuse("a row's metric a second time"),
            Ask::Metric { entries, .. } if *entries != triangle(d) => return refuse("another metric"),
            Ask::Metric { bits, .. } => (&batch.metric, bits, device.metric(&self.x)),
            // Outside the ball a link may overflow for some rows only, and the failure of a device would
            // reveal its row without noise.
            Ask::Gradient { at, .. } if at.len() != d || !norm_is_within(at, config.problem.s) => {
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
        if *asked != sum.bits() {
            return refuse("other bits, or another noise");
        }
        let ones = values.into_iter().map(|v| Ok(sum.randomise(v, rng)?)).collect::<Result<_, Error>>()?;
        // From here on the answer counts as sent, even if it does not arrive.
        self.answered = task.exchange;
        match task.ask {
            Ask::Metric { .. } => self.metric = true,
            _ => self.gradients += 1,
        }
        Ok(ones)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use privacy::task::{Bits, UserNoise};
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;
    use serde_json::{Value, json};

    const BOUNDS: DeviceBounds = DeviceBounds { epsilon: 8.0, delta: 0.01, colluding: 0.0 };

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
            let mut request = parameters();
            request[name] = value;
            let refused = devices(&request, &task(1, silent.clone()), &BOUNDS).unwrap_err().to_string();
            assert!(refused.contains(says), "{name}: {refused}");
        }
    }

    fn parameters() -> Value {
        json!({"arms": 2, "features": 1, "batches": [40, 50], "epsilon": 8.0, "delta": 0.01, "gamma": 1.0,
            "steps": 2})
    }

    fn task(exchange: u64, ask: Ask) -> Task {
        Task { exchange, batch: 1, users: 40, ask }
    }

    /// The devices of the first batch.
    fn devices(parameters: &Value, task: &Task, bounds: &DeviceBounds) -> Result<BatchDevices, Error> {
        BatchDevices::new(&serde_json::from_value(parameters.clone()).unwrap(), Vec::new(), task, bounds)
    }

    /// A device answers a metric and as many gradients as the descent has steps, with the noise that follows
    /// from the parameters; for whatever else is asked, it says nothing and stays as it is.
    #[test]
    fn devices_refuse_what_costs_more() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let bits = BitSum::bits;
        let silent = Bits { bound: 1.0, steps: 4, noise: 0 };
        let first = task(1, Ask::Metric { entries: 1, bits: silent });
        let batch = devices(&parameters(), &first, &BOUNDS).unwrap();
        let (metric, gradient) = (bits(&batch.metric), bits(&batch.gradient));
        assert!(metric.noise > 0 && gradient.noise > metric.noise);
        let metric = |bits| Ask::Metric { entries: 1, bits: Bits { ..bits } };
        let gradient = |at: &[f64]| Ask::Gradient { at: at.to_vec(), bits: gradient };
        let noised = bits(&batch.metric);
        let set = Features::new(vec![0.5, -0.5], 1).unwrap();
        let mut row = Row::new(&batch, &set, 0, 1.0).unwrap();
        let mut says = |exchange, ask: Ask, what: Option<&str>| {
            let said = row.answer(&batch, &task(exchange, ask), &mut rng);
            match (said, what) {
                (Ok(ones), None) => assert_eq!(ones.len(), 1),
                (Err(Error::Task(Refusal::Overasked { what: why })), Some(what)) => {
                    assert!(why.contains(what), "{why}");
                }
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
        let share = Ask::Share { arm: 0, modulus: 9, steps: 1, noise: UserNoise::Polya, epsilon: 1.0 };
        says(4, share, Some("no bits"));
        assert!(Row::new(&batch, &set, 2, 1.0).is_err() && Row::new(&batch, &set, 0, 1.5).is_err());
    }

    /// A device that asks for noise that is enough without a part of the others refuses a bandit that sizes
    /// it for all, and adds more to one that does not.
    #[test]
    fn attack_made_up_rows_are_reckoned_with() {
        let silent = Ask::Metric { entries: 1, bits: Bits { bound: 1.0, steps: 4, noise: 0 } };
        let wary = DeviceBounds { colluding: 0.25, ..BOUNDS };
        let (mut request, task) = (parameters(), task(1, silent));
        let refused = devices(&request, &task, &wary);
        assert!(matches!(refused, Err(Error::Task(Refusal::FewColluding { .. }))));
        let noise = |batch: BatchDevices| [batch.metric.noise_bits(), batch.gradient.noise_bits()];
        let all = noise(devices(&request, &task, &BOUNDS).unwrap());
        request["colluding"] = 0.25.into();
        let honest = noise(devices(&request, &task, &wary).unwrap());
        // The same sum of noise from three quarters of the users, but for rounding.
        assert!(
            (0..2).all(|i| 3 * honest[i] >= 4 * all[i] - 3 && 3 * honest[i] <= 4 * all[i] + 7),
            "{all:?} {honest:?}"
        );
        for bad in [-0.1, 1.0, f64::MAX] {
            request["colluding"] = bad.into();
            assert!(devices(&request, &task, &BOUNDS).is_err(), "{bad}");
        }
    }

    /// Far out a link leaves double precision for some rows: a device that failed there would tell which is
    /// its own. So points outside the ball of parameters are refused whatever the row, and estimates too.
    #[test]
    fn points_outside_the_ball_are_refused_by_every_row() {
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        let silent = Ask::Metric { entries: 1, bits: Bits { bound: 1.0, steps: 4, noise: 0 } };
        let (mut request, mut task) = (parameters(), task(1, silent));
        request["link"] = "poisson".into();
        let batch = devices(&request, &task, &BOUNDS).unwrap();
        let bits = batch.gradient.bits();
        for (at, inside) in [(1.0, true), (-1.0, true), (1.1, false), (2000.0, false), (-f64::MAX, false)] {
            for x in [0.5, -0.5] {
                task.ask = Ask::Gradient { at: vec![at], bits };
                let mut row = Row::new(&batch, &Features::new(vec![x], 1).unwrap(), 0, 1.0).unwrap();
                let said = row.answer(&batch, &task, &mut rng);
                match said {
                    Ok(_) => assert!(inside, "{at}"),
                    Err(Error::Task(Refusal::Overasked { what })) => {
                        assert!(!inside && what.contains("no point"), "{what}");
                    }
                    Err(other) => panic!("{at}, {x}: {other}"),
                }
            }
        }
        (task.batch, task.users) = (2, 50);
        let parameters: ShuffleParameters = serde_json::from_value(request).unwrap();
        let after = |theta: f64| {
            let unit = json!({"d": 1, "values": [1.0]});
            let estimate = json!({"theta": [theta], "metric": unit, "inverse": unit});
            let published = vec![serde_json::from_value(estimate).unwrap()];
            BatchDevices::new(&parameters, published, &task, &BOUNDS)
        };
        assert!(after(-1.0).is_ok());
        assert!(matches!(after(1.1), Err(Error::Task(Refusal::Overasked { .. }))));
    }
}
