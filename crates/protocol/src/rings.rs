//! The rings that circuits run in.

use ckks::Params;
use serde::{Deserialize, Serialize};

/// How updates are computed, which the keys of a bandit decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Updates {
    /// By circuits on slots in a deep ring, with two exchanges that any holder of the key answers.
    #[default]
    Slots,
    /// By products of matrices in the ring of scores, with an exchange after each ([`crate::products`]) that
    /// only a raiser of the owner answers. There are no keys of updates, and the statistics stay with the
    /// server.
    Products,
}

impl std::str::FromStr for Updates {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "slots" => Ok(Updates::Slots),
            "products" => Ok(Updates::Products),
            _ => Err("this must be slots or products"),
        }
    }
}

/// How often an evaluation asks a holder of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exchanging {
    /// Once for the raise of its scores, and if it has several requests once for its answers. A user of the
    /// evaluation may be asked.
    #[default]
    One,
    /// Three to eight times ([`crate::staged`]). Only holders of the key who may answer every task are asked,
    /// and no user of an evaluation.
    Staged,
}

impl std::str::FromStr for Exchanging {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "one" => Ok(Exchanging::One),
            "staged" => Ok(Exchanging::Staged),
            _ => Err("this must be one or staged"),
        }
    }
}

/// Whose keys the users of the bandits of a key pair have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserKeys {
    /// All users share the secret keys of the bandit, and so can decrypt whatever they see of each other.
    #[default]
    Shared,
    /// Each user has a key of its own, under which a holder of the bandit's keys seals its answers; it
    /// encrypts under the bandit's public key (docs/own-keys.md). Only holders who may answer every task are
    /// asked, and no user.
    Own,
}

impl std::str::FromStr for UserKeys {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "shared" => Ok(UserKeys::Shared),
            "own" => Ok(UserKeys::Own),
            _ => Err("this must be shared or own"),
        }
    }
}

/// The parameters of the rings with many levels: that of batch updates, and that of evaluations. They are one
/// ring, unless evaluations have a smaller one of their own ([`crate::KeyPlan::decisions`]).
#[derive(Debug, Clone)]
pub struct Rings {
    /// The ring of batch updates; that of evaluations if updates need none.
    pub updates: Params,
    /// The ring of evaluations.
    pub decisions: Params,
    /// How updates are computed.
    pub by: Updates,
    /// What the keys were made for. Those for stages have the ring of stages as that of evaluations, and
    /// serve no others.
    pub exchanges: Exchanging,
    /// Whose keys users have.
    pub keys: UserKeys,
}

impl From<&Params> for Rings {
    /// One ring for both.
    fn from(params: &Params) -> Self {
        let (by, exchanges, keys) = Default::default();
        Rings { updates: params.clone(), decisions: params.clone(), by, exchanges, keys }
    }
}

impl From<&Rings> for Rings {
    fn from(rings: &Rings) -> Self {
        rings.clone()
    }
}
