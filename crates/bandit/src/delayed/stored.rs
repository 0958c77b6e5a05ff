//! Storage of policies: the configuration and the state are stored, and all that follows from the
//! configuration is computed again when they are read.

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stored<C, S> {
    pub(super) config: C,
    pub(super) state: S,
}

/// Reads `$policy` from [`Stored`] by its `new`, and refuses a state that its `admits` refuses.
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
    };
}
pub(super) use stored;

/// Refuses values unless there is one for each of `arms`, and all are finite.
pub(super) fn one_finite_an_arm(values: &[f64], arms: usize) -> Result<(), &'static str> {
    if values.len() != arms {
        return Err("not one value an arm");
    }
    if values.iter().all(|v| v.is_finite()) { Ok(()) } else { Err("a value is not a finite number") }
}
