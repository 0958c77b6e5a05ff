//! The problem of a policy: its shape, link, and bounds.

use crate::Link;
use crate::error::{Error, field};
use bandit::Features;
use bandit::distributed::MOST_DELTA;
use serde::{Deserialize, Serialize};

/// Shape, link and bounds of a generalised linear bandit. All fields are public: the privacy accounting does
/// not cover a `kappa` that was computed from the parameter, as in the published experiments.
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
    /// Probability that a width fails, and for private policies also the delta of the guarantee.
    pub delta: f64,
    /// Number of rounds.
    pub horizon: u64,
}

impl Problem {
    /// Refuses fields outside their ranges.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] with the first such field.
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
