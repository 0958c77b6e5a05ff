//! Privacy guarantees of policies, as values that can be printed, stored and compared.

use crate::Error;
use crate::budget::{Delta, Epsilon, Neighbours};
use fault::require;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The definition of privacy in a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Definition {
    /// No privacy.
    None,
    /// `epsilon`-DP of everything released.
    Pure,
    /// `(epsilon, delta)`-DP of everything released.
    Approximate,
    /// A bound on Renyi divergences, stated as the `(epsilon, delta)`-DP that it implies.
    Renyi,
    /// `(epsilon, delta)`-DP of the outputs to all *other* people; a person's own action may depend on their
    /// data.
    Joint,
}

/// The parties that a person has to trust with their data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Trust {
    /// The server, which receives the data and adds the noise.
    Central,
    /// The party that adds the data, and enough of the other people. The server receives sums.
    Distributed,
    /// The shuffler, and enough of the other people. The server receives shuffled messages.
    Shuffler,
    /// No party: each message is private by itself.
    Local,
}

/// The privacy guarantee of a whole run of a policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PrivacyStatement {
    /// The definition met.
    pub definition: Definition,
    /// The parties that must be honest; `None` without privacy.
    pub trust: Option<Trust>,
    /// `epsilon`; `None` without privacy.
    pub epsilon: Option<Epsilon>,
    /// `delta`; 0 for [`Definition::Pure`].
    pub delta: Delta,
    /// The relation of neighbours.
    pub neighbours: Neighbours,
    /// One sentence: the protected data, the outputs, and the assumptions.
    pub sentence: String,
}

impl PrivacyStatement {
    /// The statement that there is no privacy.
    pub fn none(sentence: impl Into<String>) -> Self {
        Self {
            definition: Definition::None,
            trust: None,
            epsilon: None,
            delta: Delta::ZERO,
            neighbours: Neighbours::ReplaceOne,
            sentence: sentence.into(),
        }
    }

    /// A statement of `epsilon`-DP.
    pub fn pure(epsilon: Epsilon, trust: Trust, neighbours: Neighbours, sentence: impl Into<String>) -> Self {
        Self {
            definition: Definition::Pure,
            trust: Some(trust),
            epsilon: Some(epsilon),
            delta: Delta::ZERO,
            neighbours,
            sentence: sentence.into(),
        }
    }

    /// A statement by a definition with a `delta`: approximate, Renyi or joint.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `delta` is 0 and the definition is approximate or Renyi, or if the definition
    /// has no `delta`.
    pub fn with_delta(
        definition: Definition,
        epsilon: Epsilon,
        delta: Delta,
        trust: Trust,
        neighbours: Neighbours,
        sentence: impl Into<String>,
    ) -> Result<Self, Error> {
        let want = match definition {
            Definition::None | Definition::Pure => Some("absent under this definition"),
            Definition::Approximate | Definition::Renyi if delta.get() == 0.0 => Some("above 0"),
            _ => None,
        };
        require(want.is_none(), "delta", delta.get(), want.unwrap_or_default())?;
        Ok(Self { definition, delta, ..Self::pure(epsilon, trust, neighbours, sentence) })
    }
}

impl fmt::Display for PrivacyStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.definition {
            Definition::None => "no privacy",
            Definition::Pure => "pure DP",
            Definition::Approximate => "approximate DP",
            Definition::Renyi => "Renyi DP",
            Definition::Joint => "joint DP",
        };
        f.write_str(kind)?;
        if let Some(epsilon) = self.epsilon {
            let trust = match self.trust {
                Some(Trust::Central) => "central",
                Some(Trust::Distributed) => "distributed",
                Some(Trust::Shuffler) => "shuffled",
                Some(Trust::Local) => "local",
                None => "nobody named to trust",
            };
            let neighbours = match self.neighbours {
                Neighbours::ReplaceOne => "one replaced",
                Neighbours::AddRemove => "one added or removed",
            };
            write!(f, ", epsilon {}, delta {}, {trust}, {neighbours}", epsilon.get(), self.delta.get())?;
        }
        write!(f, ": {}", self.sentence)
    }
}
