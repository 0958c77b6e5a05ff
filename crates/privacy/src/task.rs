//! Tasks: the messages that a server requests from each user of a batch through an intermediary, and the
//! bounds of a device.
//!
//! A task is public. It follows from the parameters of a bandit, so that a device can compute it and need not
//! trust the server. The three roles share these types: the server poses a [`Task`], each device checks it
//! against its [`DeviceBounds`] and answers, and the intermediary outputs the sum of all answers.

use serde::{Deserialize, Serialize};

/// The sum that a server requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Number of the exchange, from 1. The batch of sums that answers this task names it.
    pub exchange: u64,
    /// Number of the batch of users, from 1. The users of one batch may answer several exchanges.
    pub batch: u32,
    /// Number of users in the batch. The noise of each user is sized for exactly this number.
    pub users: u64,
    /// The message of each user.
    pub ask: Ask,
}

/// The message of each user of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Ask {
    /// The randomised reward of `arm`, as numbers that add up to it modulo `modulus`. The reward, in [0, 1],
    /// is multiplied by `steps` and rounded at random to a whole number with the same mean; `noise` is added.
    Share {
        /// The arm, from 0.
        arm: usize,
        /// The modulus of the secure sum.
        modulus: u64,
        /// Number of steps that a reward is divided into, g.
        steps: u64,
        /// The noise that the user adds.
        noise: UserNoise,
        /// The part of epsilon that the noise pays for.
        epsilon: f64,
    },
    /// The randomised reward of `arm`, as the number of ones among `steps + 2 margin` bits of one label. The
    /// reward, in [0, 1], is multiplied by `steps` and rounded at random to a whole number with the same
    /// mean; `noise` is added, the result is clamped to `-margin..=steps + margin`, and `margin` is added.
    Count {
        /// The arm, from 0.
        arm: usize,
        /// Number of steps that a reward is divided into, g.
        steps: u64,
        /// Largest noise to either side, C.
        margin: u64,
        /// The noise that the user adds.
        noise: UserNoise,
        /// The part of epsilon that the noise pays for.
        epsilon: f64,
    },
    /// The entries that the user's row adds to the metric: one label for each entry of the upper triangle,
    /// row by row.
    Metric {
        /// Number of entries, `d (d + 1)/2`.
        entries: usize,
        /// How an entry becomes bits.
        bits: Bits,
    },
    /// The user's gradient at a point: one label for each coordinate.
    Gradient {
        /// The point.
        at: Vec<f64>,
        /// How a coordinate becomes bits.
        bits: Bits,
    },
}

impl Ask {
    /// Number of labels, and number of bits that each user sends for each; `None` where users send no bits.
    pub fn labels(&self) -> Option<(usize, u64)> {
        let each = |bits: &Bits| bits.steps.saturating_add(bits.noise);
        match self {
            Self::Share { .. } => None,
            Self::Count { steps, margin, .. } => Some((1, steps.saturating_add(margin.saturating_mul(2)))),
            Self::Metric { entries, bits } => Some((*entries, each(bits))),
            Self::Gradient { at, bits } => Some((at.len(), each(bits))),
        }
    }

    /// Number of sums in the answer.
    pub fn sums(&self) -> usize {
        self.labels().map_or(1, |(labels, _)| labels)
    }
}

/// Encoding of a number x in [-bound, bound] as `steps + noise` bits, which are shuffled with those of all
/// users under the same label. `(x + bound)/(2 bound)` times `steps` is rounded at random to a whole number
/// with the same mean; that many of the `steps` bits are ones. The `noise` bits are random.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bits {
    /// Largest absolute value.
    pub bound: f64,
    /// Bits of the number.
    pub steps: u64,
    /// Bits of noise, each of which is one with probability 1/4.
    pub noise: u64,
}

/// Distribution of the whole number that each of the n users of a batch adds; g is the `steps` and `epsilon`
/// the `epsilon` of [`Ask::Share`] or [`Ask::Count`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserNoise {
    /// The difference of two Polya variates of shape 1/n and probability e^(-epsilon/g). Those of all users
    /// add up to one discrete Laplace variate of scale g/epsilon.
    Polya,
    /// A Skellam variate of variance g²/(n epsilon²).
    Skellam,
    /// A discrete Gaussian variate whose variance parameter is g²/(n epsilon²).
    DiscreteGaussian,
    /// A discrete Laplace variate of scale g/epsilon, which is private by itself.
    DiscreteLaplace,
}

/// The bounds of a device, which answers the tasks of a bandit only if the guarantee that follows from the
/// bandit's parameters is within them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceBounds {
    /// Largest epsilon, by default 10. An answer at epsilon 10 may multiply the odds of any guess about a
    /// person by e^10, about 22000.
    pub epsilon: f64,
    /// Largest delta, the probability with which the guarantee may fail; by default 1/1000. Publishing one
    /// person in 1000 would meet this delta, and a server may state its guarantee at a delta that makes its
    /// epsilon look small.
    pub delta: f64,
    /// Smallest fraction of a batch's users who may collude or not exist, such that the noise of the others
    /// is sufficient; by default 0.
    pub colluding: f64,
}

impl Default for DeviceBounds {
    fn default() -> Self {
        Self { epsilon: 10.0, delta: 1e-3, colluding: 0.0 }
    }
}

impl DeviceBounds {
    /// Refuses a guarantee of `(epsilon, delta)` for a fraction `colluding` of colluding users unless it is
    /// within these bounds. NaN is outside every bound.
    ///
    /// # Errors
    /// [`Refusal::TooDear`], [`Refusal::FewColluding`].
    pub fn admit(&self, epsilon: f64, delta: f64, colluding: f64) -> Result<(), Refusal> {
        for (what, asked, most) in [("epsilon", epsilon, self.epsilon), ("delta", delta, self.delta)] {
            if asked.is_nan() || asked > most {
                return Err(Refusal::TooDear { what, asked, most });
            }
        }
        if colluding.is_nan() || colluding < self.colluding {
            return Err(Refusal::FewColluding { sized: colluding, least: self.colluding });
        }
        Ok(())
    }
}

/// The reason why a device refuses a task. It has sent nothing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Untrusted: the task is not the one that follows from the bandit's public parameters.
    #[error("the server asks for what the bandit's parameters do not: {what}")]
    Overasked {
        /// The difference.
        what: &'static str,
    },
    /// Untrusted: the guarantee of the bandit is weaker than the device requires.
    #[error("the bandit's {what} is {asked}, and --most-{what} {most}: this device does not answer")]
    TooDear {
        /// The parameter, epsilon or delta.
        what: &'static str,
        /// The value that follows from the bandit's parameters.
        asked: f64,
        /// The largest value that the device accepts.
        most: f64,
    },
    /// Untrusted: the bandit's noise is sized for fewer colluding users than the device requires.
    #[error(
        "the bandit's noise is enough if a part of {sized} of a batch is made up, and --least-colluding \
         {least}: this device does not answer"
    )]
    FewColluding {
        /// The fraction for which the noise is sized.
        sized: f64,
        /// The fraction that the device requires.
        least: f64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guarantees_outside_the_bounds_are_refused() {
        let bounds = DeviceBounds { colluding: 0.1, ..DeviceBounds::default() };
        assert_eq!(bounds.admit(10.0, 1e-3, 0.1), Ok(()));
        let dear = |refused, of: &str| {
            assert!(matches!(refused, Err(Refusal::TooDear { what, .. }) if what == of), "{refused:?}");
        };
        dear(bounds.admit(1.0, 0.99, 0.1), "delta");
        dear(bounds.admit(10.5, 1e-3, 0.1), "epsilon");
        dear(bounds.admit(f64::NAN, 0.0, 0.1), "epsilon");
        let few = bounds.admit(1.0, 0.0, 0.05);
        assert_eq!(few, Err(Refusal::FewColluding { sized: 0.05, least: 0.1 }));
    }
}
