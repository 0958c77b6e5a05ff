//! The rings that circuits run in.

use ckks::Params;

/// The parameters of the rings with many levels: that of batch updates, and that of evaluations. They are one
/// ring, unless evaluations have a smaller one of their own ([`crate::KeyPlan::decisions`]).
#[derive(Debug, Clone)]
pub struct Rings {
    /// The ring of batch updates.
    pub updates: Params,
    /// The ring of evaluations.
    pub decisions: Params,
}

impl From<&Params> for Rings {
    /// One ring for both.
    fn from(params: &Params) -> Self {
        Rings { updates: params.clone(), decisions: params.clone() }
    }
}

impl From<&Rings> for Rings {
    fn from(rings: &Rings) -> Self {
        rings.clone()
    }
}
