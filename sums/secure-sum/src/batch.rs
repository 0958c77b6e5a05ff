//! The noise of one batch, sized so that it is enough when some users are missing or collude.

use crate::{BatchId, Error, Sum};
use bandit::distributed::{Mechanism, Model};
use fault::OutOfRange;
use privacy::Ratio;
use rand::Rng;

/// Parameters of a [`Batch`], on which users and collector agree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// The noise that users add. [`Model::None`] and [`Model::Central`] are refused, because the collector
    /// would see a sum without noise.
    pub model: Model,
    /// Privacy parameter of each batch. It holds for the whole run, because batches have different users.
    pub epsilon: Ratio,
    /// The number n of users that are asked.
    pub invited: u64,
    /// The share of the users that may drop out. A batch that misses more users is refused.
    pub missing: Ratio,
    /// The share of the users that may collude with the collector: they answer, and the collector knows their
    /// noise.
    pub colluding: Ratio,
    /// As for [`Mechanism::new`].
    pub confidence: f64,
    /// As for [`Mechanism::new`].
    pub horizon: u64,
}

/// The randomiser and the analyser of one batch, with noise sized for the least number of users who answer
/// honestly.
///
/// The noise of a user who drops out is missing: if half of a batch is missing, the rest has about twice the
/// promised epsilon. Each user therefore adds noise as if only `n - floor(missing n) - floor(colluding n)`
/// users answered. If more answer, the sum has more noise, which costs accuracy and no privacy. The variance
/// of the noise grows by a factor of at most `1/(1 - missing - colluding)`.
///
/// Values are integers, **not residues**. Values that were reduced modulo `m` before they are added in a
/// larger field would reveal how many of them had wrapped. The sum reveals the rounded rewards plus noise,
/// and no more.
///
/// # Source
/// Chowdhury, Zhou, "Distributed Differential Privacy in Multi-Armed Bandits": randomiser and analyser.
/// Departure: the paper does not consider users who drop out or collude.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    mechanism: Mechanism,
    at_least: u32,
}

impl Batch {
    /// The batch of `plan`.
    ///
    /// # Errors
    /// [`Error::NoNoise`] for a model in which users add no noise; [`Error::OutOfRange`] if the shares leave
    /// no user, or `2^32` users or more; [`Error::Bandit`] as [`Mechanism::new`].
    pub fn new(plan: &Plan) -> Result<Self, Error> {
        let part = |r: Ratio| r.times(Ratio::integer(plan.invited)).map(Ratio::floor);
        let invited = u128::from(plan.invited);
        let at_least = invited.saturating_sub(part(plan.missing)?);
        let colluding = part(plan.colluding)?;
        let (Ok(at_least), Ok(colluding), true) =
            (u32::try_from(at_least), u64::try_from(colluding), colluding < at_least)
        else {
            let got = plan.missing.to_f64() + plan.colluding.to_f64();
            return Err(
                OutOfRange::new("missing + colluding", got, "a part that leaves 1 to 2^32 users").into()
            );
        };
        let Plan { model, epsilon, confidence, horizon, .. } = *plan;
        let users = at_least.into();
        let mechanism = Mechanism::with_colluding(model, epsilon, users, colluding, confidence, horizon)?;
        Self::of(mechanism, at_least)
    }

    /// A batch of at least `at_least` users who add the noise of `mechanism`.
    pub(crate) fn of(mechanism: Mechanism, at_least: u32) -> Result<Self, Error> {
        match mechanism.model() {
            Model::None => Err(Error::NoNoise { model: "none" }),
            Model::Central => Err(Error::NoNoise { model: "central" }),
            _ => Ok(Self { mechanism, at_least }),
        }
    }

    /// Precision and noise. Its [`width`](Mechanism::width) holds for the mean of every opened batch: with n
    /// users the noise of the sum grows like the root of n, so that the noise of the mean falls.
    pub const fn mechanism(&self) -> &Mechanism {
        &self.mechanism
    }

    /// The least number of users whose sum is opened.
    pub const fn at_least(&self) -> u32 {
        self.at_least
    }

    /// The id of the batch under a `number` that no other batch has.
    pub const fn id(&self, number: u64) -> BatchId {
        BatchId { number, at_least: self.at_least }
    }

    /// User side: the reward in steps plus the noise of the user. The value is in no range, and must be
    /// passed to [`split`](crate::split) or [`encrypt`](crate::encrypted::encrypt) only.
    ///
    /// # Errors
    /// [`Error::Bandit`] if the reward is outside [0, 1] or an exact intermediate overflows.
    pub fn randomise(&self, reward: f64, rng: &mut dyn Rng) -> Result<i128, Error> {
        let steps = self.mechanism.encode(reward, rng)?;
        Ok(i128::from(steps) + self.mechanism.noise(rng)?)
    }

    /// Collector side: the estimate of the mean reward of the users who answered.
    pub fn mean(&self, sum: &Sum) -> f64 {
        sum.total as f64 / (self.mechanism.precision() as f64 * sum.users.max(1) as f64)
    }
}
