//! The noise of one batch, sized so that it is enough when some users are missing or collude.

use crate::{BatchId, Error, Sum};
use bandit::distributed::{Mechanism, Model};
use fault::OutOfRange;
use privacy::Ratio;
use rand::Rng;

/// Parameters of a [`Batch`], on which users and collector agree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// Who adds which noise. [`Model::None`] and [`Model::Central`] are refused: the collector would see a
    /// sum without noise.
    pub model: Model,
    /// Privacy of each batch, hence (users being disjoint) of the run.
    pub epsilon: Ratio,
    /// Number of users asked, n.
    pub invited: u64,
    /// Part of the users that may drop out. A batch that misses more is refused.
    pub missing: Ratio,
    /// Part of the users that may collude with the collector: they answer, and the collector knows their
    /// noise.
    pub colluding: Ratio,
    /// As for [`Mechanism::new`].
    pub confidence: f64,
    /// As for [`Mechanism::new`].
    pub horizon: u64,
}

/// The randomiser and the analyser of one batch, with noise sized for the users who are sure to answer
/// honestly.
///
/// Users who drop out take their noise with them: if half of a batch is missing, the rest has about twice the
/// epsilon that was promised. So each adds noise as if only `n - floor(missing n) - floor(colluding n)` were
/// there; whoever comes on top adds more of it, which costs accuracy and no privacy. The price is at most a
/// factor `1/(1 - missing - colluding)` in the variance of the noise.
///
/// Values are integers, **not residues**: reduced modulo `m` first and then added in a larger field, they
/// would tell how many of them had wrapped. What the sum tells is the rounded rewards plus noise, no more.
///
/// # Source
/// Chowdhury, Zhou, "Distributed Differential Privacy in Multi-Armed Bandits": randomiser and analyser.
/// Departure: the paper does not speak of users who drop out or collude.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    mechanism: Mechanism,
    at_least: u32,
}

impl Batch {
    /// Of `plan`.
    ///
    /// # Errors
    /// [`Error::NoNoise`] for a model without noise of users; [`Error::OutOfRange`] for parts that leave
    /// nobody, or `2^32` users and more; [`Error::Bandit`] as [`Mechanism::new`].
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

    /// Of users who add the noise of `mechanism`, `at_least` so many.
    pub(crate) fn of(mechanism: Mechanism, at_least: u32) -> Result<Self, Error> {
        match mechanism.model() {
            Model::None => Err(Error::NoNoise { model: "none" }),
            Model::Central => Err(Error::NoNoise { model: "central" }),
            _ => Ok(Self { mechanism, at_least }),
        }
    }

    /// Precision and noise. Its [`width`](Mechanism::width) holds for every mean of a batch that is let out:
    /// with more users the noise grows like their root, and the mean's falls.
    pub const fn mechanism(&self) -> &Mechanism {
        &self.mechanism
    }

    /// Smallest number of users whose sum is let out.
    pub const fn at_least(&self) -> u32 {
        self.at_least
    }

    /// Its id among the parties, under a `number` that no other batch has.
    pub const fn id(&self, number: u64) -> BatchId {
        BatchId { number, at_least: self.at_least }
    }

    /// User side: the reward in steps plus the user's noise. In no range: hand it to
    /// [`split`](crate::split) or [`encrypt`](crate::encrypted::encrypt) only.
    ///
    /// # Errors
    /// [`Error::Bandit`] if the reward is outside [0, 1] or an exact intermediate overflows.
    pub fn randomise(&self, reward: f64, rng: &mut dyn Rng) -> Result<i128, Error> {
        let steps = self.mechanism.encode(reward, rng)?;
        Ok(i128::from(steps) + self.mechanism.noise(rng)?)
    }

    /// Collector side: estimate of the mean reward of those who answered.
    pub fn mean(&self, sum: &Sum) -> f64 {
        sum.total as f64 / (self.mechanism.precision() as f64 * sum.users.max(1) as f64)
    }
}
