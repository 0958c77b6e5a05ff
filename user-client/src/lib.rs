//! The user's side of a round: it encrypts contexts, decrypts the decision, and returns the encrypted reward.
//!
//! For programs on the device that holds the secret key. [`Device`] does the cryptography and [`Client`] the
//! HTTP, and neither depends on the other. [`Raiser`] answers tasks for other devices. A server must not
//! depend on this crate.
//!
//! One round, after [`Device::join`]: [`PackedDevice::play`] → play the arm → [`PackedDevice::feedback`] →
//! [`Client::feedback_packed`].

mod answers;
mod context;
mod device;
mod error;
mod http;
mod packed;
mod pending;
mod raiser;

pub use answers::{AnswersSpent, DEFAULT_REPEATS, MOST_ANSWERS, RepeatsSpent, most_answers, most_repeats};
pub use context::read_contexts;
pub use device::{Device, Opening};
pub use error::Error;
pub use http::{AnyBandit, Client};
pub use packed::{Choice, MaskedTask, PackedDevice, PackedRound, ReadReply};
pub use pending::Pending;
pub use raiser::{MOST_BANDITS, MOST_WAITING, Raiser, RaiserOptions, Stop};

pub use ckks_secret::Passphrase;
pub use host::os_rng;
