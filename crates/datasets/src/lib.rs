//! Files of choices and logged decisions as rounds of a bandit.
//!
//! [`Prepared::fit`] learns a transformation from a file and its schema, and then hands out the rounds one
//! after the other; [`Dataset::open`] holds them in memory. [`guess()`] writes a schema for a file that has
//! none, and [`check()`] counts what a schema would lose. Where the schema asks for score features, they are
//! learnt from the rewards of the file. Files are comma-separated values (also with semicolons, tabs or
//! bars), JSON lines of VowpalWabbit's kind (`dsjson`), and Parquet. Text may be packed with gzip or zstd, be
//! UTF-16, and come from a pipe (`-` is stdin). They are read from first to last in several passes, and held
//! in memory row by row:
//!
//! | what | at most |
//! |---|---|
//! | a row | [`MAX_LINE`] bytes |
//! | columns of a table | [`MAX_COLUMNS`] |
//! | paths to the values of a JSON line | [`MAX_PATHS`] bytes |
//! | rows of a round, together | [`MAX_ROUND`] bytes |
//! | candidates of a round | [`schema::MAX_CANDIDATES`] |
//! | rounds and users whose names are kept | [`MAX_NAMES`] of each |
//! | a table that is joined | [`MAX_TABLE`] bytes and [`MAX_NAMES`] rows |
//! | what comes from a pipe, on the disk | [`MAX_PIPED`] bytes |
//! | rounds of a [`Dataset`] | [`MAX_DATASET`] bytes of features |
//!
//! Programs that get named values from elsewhere use the crate `schema` alone.

mod check;
mod convert;
mod dataset;
mod delimited;
mod dsjson;
mod error;
mod guess;
mod input;
mod join;
mod long;
mod noted;
mod outcome;
mod parquet;
mod prepare;
mod propose;
mod ridge;
mod rule;
mod score;
mod source;
mod table;
mod time;
mod wide;

pub use check::{Checked, HeldOut, Lost, check};
pub use convert::{convert, convert_with};
pub use dataset::{DataRound, Dataset, DatasetLog};
pub use error::{Error, Place};
pub use guess::{ColumnSeen, Guess, guess};
pub use noted::Noted;
pub use outcome::{AfterOutcome, after_outcome};
pub use prepare::{Prepared, TransformedRound, read_schema, read_transform};
pub use propose::{Proposal, propose};
pub use rule::rule;
pub use score::RewardNoise;
pub use source::{Dropped, Observed, RawRound, Source};

/// The most bytes of a row and of a line.
pub const MAX_LINE: usize = 1 << 20;
/// The most columns of a table.
pub const MAX_COLUMNS: usize = 1 << 16;
/// The most bytes of the paths to the values of a JSON line, all together.
pub const MAX_PATHS: usize = 8 << 20;
/// The most bytes of the rows of a round in a table with a row for each candidate.
pub const MAX_ROUND: usize = 64 << 20;
/// The most names of rounds, and of users, that are kept.
pub const MAX_NAMES: usize = 1 << 22;
/// The most bytes of features of a [`Dataset`].
pub const MAX_DATASET: u64 = 1 << 30;
/// The most bytes of a table that is joined.
pub const MAX_TABLE: usize = 1 << 28;
/// The most bytes that come from a pipe, which are kept on the disk.
pub const MAX_PIPED: u64 = 16 << 30;
