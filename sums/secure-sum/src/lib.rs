//! Sums of users' messages among processes, no one of which is trusted with more than its share.
//!
//! For servers that learn from noised sums (`bandit::distributed`, `glm::shuffle`) and must not see a user's
//! value. Not for inputs that must be proved to be in range: users add noise, which no range proof fits, so
//! that a user who cheats can shift a sum. It can do nothing else; see [`Batch`] for how many may withhold
//! noise.
//!
//! | way | who must not collude | bytes a user | here |
//! |---|---|---|---|
//! | two aggregators | both aggregators | 72 | [`Batch`], [`Aggregator`], [`Collector`] |
//! | ciphertexts | server and key authority | 65 thousand | [`encrypted`] |
//! | shuffler | shuffler and server | 24, or 16 and 8 a label | [`Shuffler`], [`BanditTask::count`], [`BanditTask::devices`] |
//!
//! # Rounds
//! With two aggregators:
//! 1. The collector reads the bandit's [task](BanditTask) and announces a batch to both aggregators.
//! 2. Each user computes the noise from the bandit's public parameters, randomises its reward, and sends one
//!    share to each aggregator.
//! 3. The collector closes the batch at both aggregators, names the users whose shares reached both, and has
//!    both open their totals over this set.
//! 4. The collector adds the two totals and delivers the sum to the bandit's service.
//!
//! On ciphertexts the adder announces the batch to the key authority, which makes a key for it; users encrypt
//! under that key; the adder adds, and has the authority open the one sum. Behind a shuffler users send
//! numbers of ones, and the shuffler delivers their sums by itself when all users of the batch have answered.
//!
//! # What each party sees, with two aggregators
//! - An aggregator: random ids, and for each a uniform field element, whatever the value. Its total is
//!   uniform too.
//! - The collector: ids, the noised sum of those who answered, and their number. It names the set of users,
//!   once, and both aggregators refuse sets smaller than the noise is sized for.
//! - An aggregator and the collector together: the noised sum, as before. Both aggregators together: every
//!   value with its user's part of the noise, which is little protection.
//! - All parties follow the protocol, but for the collector, who may ask for any set. Aggregators do not know
//!   who users are: what stands in front of them must, or a collector can make users up (they count as
//!   colluding).
//! - Batches are announced, closed and opened by whoever shows the collector's token; users need none.
//!
//! # What a shuffler sees
//! Random ids, and for each the number of ones among a user's bits, which holds little noise. It lets out the
//! sum for each label, and no id. So it must not collude with the server, and is trusted not to look at
//! single users' numbers.
//!
//! # Source
//! Secure sums as in Chowdhury, Zhou, "Distributed Differential Privacy in Multi-Armed Bandits", section on
//! secure aggregation; two servers as in Corrigan-Gibbs, Boneh, "Prio", 2017, whose field this uses (crate
//! `prio`), without its range proofs.

pub mod aggregator;
mod batch;
pub mod client;
pub mod encrypted;
mod error;
pub mod http;
pub mod local;
pub mod register;
mod serve;
mod share;
pub mod shuffler;
mod task;

pub use aggregator::Aggregator;
pub use batch::{Batch, Plan};
pub use client::{Collector, Party};
pub use error::Error;
pub use share::{BatchId, Report, ReportId, Sum, join, reports, split};
pub use shuffler::Shuffler;
pub use task::BanditTask;
