//! Sums of users' messages, computed by several processes so that no single one sees a user's value.
//!
//! For servers that learn from noised sums (`bandit::distributed`, `glm::shuffle`) and must not see a user's
//! value. It cannot prove that a value is in a range, because users add noise, which no range proof fits. A
//! user who deviates can therefore shift a sum, and do nothing else. [`Batch`] states how many users may
//! withhold their noise.
//!
//! | method | parties that must not collude | bytes per user | code |
//! |---|---|---|---|
//! | two aggregators | both aggregators | 72 | [`Batch`], [`Aggregator`], [`Collector`] |
//! | ciphertexts | adder and key authority | 3342 | [`encrypted`] |
//! | shuffler | shuffler and server | 32, and 8 per label | [`Shuffler`], [`BanditTask::count`], [`BanditTask::devices`] |
//!
//! # Rounds
//! With two aggregators:
//! 1. The collector reads the [task](BanditTask) of the bandit and announces a batch to both aggregators.
//! 2. Each user computes the noise from the public parameters of the bandit, randomises its reward, and sends
//!    one share to each aggregator.
//! 3. The collector closes the batch at both aggregators, selects the users whose shares reached both, and
//!    asks both for their totals over this set.
//! 4. The collector adds the two totals and delivers the sum to the server of the bandit.
//!
//! On ciphertexts, the adder announces the batch to the key authority, which generates a key for it. Users
//! encrypt under that key. The adder adds the ciphertexts, and the authority decrypts their sum. Behind a
//! shuffler, users send numbers of ones, and the shuffler delivers their sums when all users of the batch
//! have answered.
//!
//! # What each party sees, with two aggregators
//! - An aggregator sees random ids, and for each a field element that is uniform whatever the value. Its
//!   total is uniform too.
//! - The collector sees the ids, the noised sum of the users who answered, and their number. It names the set
//!   of users once, and both aggregators refuse a set with fewer users than the noise is sized for.
//! - An aggregator and the collector together see the noised sum and no more. Both aggregators together see
//!   every value with its user's part of the noise, which protects little.
//! - All parties follow the protocol, except that the collector may ask for any set. Aggregators do not know
//!   who the users are. A proxy in front of them must, or a collector can make users up; made-up users count
//!   as colluding.
//! - Only the bearer of the collector's token announces, closes and opens batches. Users need no token.
//!
//! # What a shuffler sees
//! A shuffler sees random ids, and for each the number of ones among a user's bits, which holds little noise.
//! It delivers the sum of each label and no id. So it must not collude with the server, and users trust it
//! not to look at single numbers.
//!
//! # Source
//! Secure sums: Chowdhury, Zhou, "Distributed Differential Privacy in Multi-Armed Bandits", section on secure
//! aggregation. Two servers: Corrigan-Gibbs, Boneh, "Prio", 2017, whose field this crate uses (crate `prio`),
//! without its range proofs.

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
