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
}

impl From<&Params> for Rings {
    /// One ring for both.
    fn from(params: &Params) -> Self {
        Rings { updates: params.clone(), decisions: params.clone(), by: Updates::Slots }
    }
}

impl From<&Rings> for Rings {
    fn from(rings: &Rings) -> Self {
        rings.clone()
    }
}
