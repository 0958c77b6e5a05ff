//! The user's side of a round: it encrypts contexts, decrypts the decision, and returns the encrypted reward.
//!
//! For programs on the device that holds the secret key. [`Device`] does the cryptography and [`Client`] the
//! HTTP, and neither depends on the other. [`Raiser`] answers tasks for other devices. A server must not
//! depend on this crate.
//!
//! One round, after [`Device::join`]: [`BanditDevice::play`] → play the arm → [`BanditDevice::feedback`] →
//! [`Client::feedback_encrypted`].

mod answers;
mod bandit;
mod context;
mod device;
mod error;
mod http;
mod pending;
mod raiser;

pub use answers::{AnswersSpent, DEFAULT_REPEATS, MOST_ANSWERS, RepeatsSpent, most_answers, most_repeats};
pub use bandit::{BanditDevice, Choice, MaskedTask, PlayedRound, ReadReply};
pub use context::read_contexts;
pub use device::{Device, Opening};
pub use error::Error;
pub use http::{AnyBandit, Client};
pub use pending::Pending;
pub use raiser::{MOST_BANDITS, MOST_WAITING, Raiser, RaiserOptions, Stop, patiently};

pub use ckks_secret::Passphrase;
pub use host::os_rng;
