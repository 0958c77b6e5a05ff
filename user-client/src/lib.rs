//! The user's side of a round: it encrypts contexts, decrypts the decision, and returns the encrypted reward.
//!
//! For programs on the device of a user. [`Device`] does the cryptography and [`Client`] the HTTP, and
//! neither depends on the other. [`Raiser`] answers tasks for other devices. A server must not depend on this
//! crate.
//!
//! Without the feature `http`, what is left does no I/O but for files, and also runs in a browser:
//! [`BanditDevice::ask`] returns the requests of a decision one by one, and the caller sends them.
//!
//! One round, after [`Device::join`]: [`BanditDevice::play`] → play the arm → [`BanditDevice::feedback`] →
//! [`Client::feedback_encrypted`].

mod answers;
mod bandit;
#[cfg(feature = "http")]
mod committee_user;
#[cfg(feature = "http")]
mod context;
mod device;
mod error;
mod exploration;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "http")]
mod notice;
#[cfg(feature = "http")]
mod paper;
mod pending;
#[cfg(feature = "http")]
mod raiser;
#[cfg(feature = "http")]
mod server_options;

pub use answers::{
    AnswersSpent, DEFAULT_REPEATS, MOST_ANSWERS, RepeatsSpent, most_answers, most_openings, most_repeats,
};
pub use bandit::{
    Asking, BanditDevice, Choice, ExportedBonus, ExportedModel, MaskedTask, OpenedCounters, PlayedRound,
    ReadReply, Request, Target,
};
#[cfg(feature = "http")]
pub use bandit::{Learning, LoggedRound};
#[cfg(feature = "http")]
pub use context::read_contexts;
pub use device::{Device, Opening, create_user};
pub use error::Error;
pub use exploration::explore;
#[cfg(feature = "http")]
pub use http::{AnyBandit, Client, Creation, Listing, PaperRound, request_key};
#[cfg(feature = "http")]
pub use paper::PaperDevice;
pub use pending::Pending;
#[cfg(feature = "http")]
pub use raiser::{MOST_BANDITS, MOST_WAITING, Raiser, RaiserOptions, Stop, patiently, until_signal};

#[cfg(feature = "http")]
pub use committee_user::{CommitteeSession, CommitteeUser, Keep, OF_KEYS_ALONE, read_session};
#[cfg(feature = "http")]
pub use server_options::ServerOptions;
pub use shares::KeptSession;

pub use ckks_secret::Passphrase;
pub use host::os_rng;
