//! How policies are stored: the configuration and the state; what follows from them is computed again when
//! read.

use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stored<C, S> {
    pub(super) config: C,
    pub(super) state: S,
}

/// Stores `$policy` as [`Stored`]; reading validates the configuration (`new`) and the state (`admits`).
macro_rules! stored {
    ($policy:ty, $config:ty, $state:ty) => {
        impl TryFrom<$crate::delayed::stored::Stored<$config, $state>> for $policy {
            type Error = $crate::Error;
            fn try_from(
                stored: $crate::delayed::stored::Stored<$config, $state>,
            ) -> Result<Self, $crate::Error> {
                let mut policy = Self::new(stored.config)?;
                policy.admits(&stored.state).map_err(|what| $crate::Error::State { what })?;
                policy.state = stored.state;
                Ok(policy)
            }
        }

        impl From<$policy> for $crate::delayed::stored::Stored<$config, $state> {
            fn from(policy: $policy) -> Self {
                Self { config: policy.config, state: policy.state }
            }
        }
    };
}
pub(super) use stored;

/// Every value is a finite number and there is one for each of `arms`.
pub(super) fn one_finite_an_arm(values: &[f64], arms: usize) -> Result<(), &'static str> {
    if values.len() != arms {
        return Err("not one value an arm");
    }
    if values.iter().all(|v| v.is_finite()) { Ok(()) } else { Err("a value is not a finite number") }
}
