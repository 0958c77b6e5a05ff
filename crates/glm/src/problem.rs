//! The problem that a policy is configured for.

use crate::Link;
use crate::error::{Error, field};
use bandit::Features;
use bandit::distributed::MOST_DELTA;
use serde::{Deserialize, Serialize};

/// Shape, link and the two bounds. All of it is public: a `kappa` that was computed from the parameter, as in
/// the published experiments, is not accounted for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// Dimension of the features, whose norm is up to 1.
    pub d: usize,
    /// Number of arms.
    pub k: usize,
    /// The link.
    pub link: Link,
    /// Bound on the norm of the parameter.
    pub s: f64,
    /// Upper bound on `1 / mu'`.
    pub kappa: f64,
    /// Probability that a width fails; of private policies the privacy parameter as well.
    pub delta: f64,
    /// Rounds.
    pub horizon: u64,
}

impl Problem {
    /// Refuses fields outside their ranges.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn validate(&self) -> Result<(), Error> {
        field("d", self.d as f64, (1..=256).contains(&self.d), "in 1..=256")?;
        field("k", self.k as f64, self.k >= 1, "at least 1")?;
        self.link.validate(self.s)?;
        field("kappa", self.kappa, self.kappa > 0.0, "positive")?;
        field("delta", self.delta, self.delta > 0.0 && self.delta < 1.0, "in (0, 1)")?;
        field("horizon", self.horizon as f64, (1..1 << 32).contains(&self.horizon), "in 1..2^32")
    }

    /// Refuses a delta that is too large for the guarantee of a new private policy.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] above [`MOST_DELTA`].
    pub fn check_delta(&self) -> Result<(), Error> {
        let want = "at most 0.01: at 0.01, publishing one person in a hundred would count as private";
        field("delta", self.delta, self.delta <= MOST_DELTA, want)
    }

    /// Refuses a round after the last.
    pub(crate) fn admit(&self, rounds: u64) -> Result<(), bandit::Error> {
        let horizon = self.horizon;
        if rounds < horizon { Ok(()) } else { Err(bandit::Error::HorizonOver { horizon }) }
    }

    /// Refuses features that are not `k` rows of length `d` and norm up to 1.
    pub(crate) fn check(&self, set: &Features) -> Result<(), bandit::Error> {
        set.check(self.k, self.d, 1.0)
    }
}
