//! From named values to features of candidates.
//!
//! A [`Schema`] says which values of a round are features, and how each becomes numbers. What it takes from
//! data (least and largest values, categories, principal components, the longest row) is learnt in one to
//! three passes over the rounds, by [`ColumnFit`], [`MomentFit`] and [`NormFit`], and makes it a
//! [`Transform`]. That is a value with serde: whoever has it computes the same features from the same names,
//! without the data. Programs that get named values from elsewhere than files depend on this crate alone; it
//! reads no file, knows no policy, and draws nothing at random but the signs of a projection, from a seed.
//!
//! | symbol | here |
//! |---|---|
//! | K | number of candidates of a round |
//! | D | number of features before the projection, [`Transform::wide`] |
//! | d | number of features after it, [`Transform::features`] |
//!
//! Score features take the place of a projection: a [`ScoreModel`], which other programs learn from rewards,
//! predicts the reward of each candidate from the D features.

mod cell;
mod eigen;
mod error;
mod fit;
mod layout;
mod named;
mod score;
mod transform;

pub use cell::{Cell, NumberForm, exact_json};
pub use error::Error;
pub use fit::{ColumnFit, ColumnSummary, MomentFit, NormFit};
pub use layout::{
    Encoding, JoinedTable, Layout, Missing, NormRule, Projection, ProjectionRule, Schema, ScoreRule,
    reward_in,
};
pub use named::{Named, NamedRound, OpenRound};
pub use score::{RangeFit, ScoreModel, ScorePrivacy, ScoreRange};
pub use transform::{Position, Transform};

/// The most features before a projection. The principal components of so many take some seconds.
pub const MAX_WIDE: usize = 512;
/// The most categories of a one-hot encoding.
pub const MAX_CATEGORIES: usize = 64;
/// The most features that keys of encrypted bandits carry.
pub const KEY_FEATURES: usize = 16;
/// The most candidates of a round, as for clear policies.
pub const MAX_CANDIDATES: usize = 4096;
