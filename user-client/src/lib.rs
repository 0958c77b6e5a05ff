//! The user's side of a round: encrypt contexts, read the decision, answer with the encrypted reward.
//!
//! For programs on the device that holds the secret key: [`Device`] does the cryptography, [`Client`]
//! the HTTP, and neither needs the other. A server must not depend on this crate.
//!
//! One round: [`Device::encrypt_contexts`] → [`Client::decide`] → [`Device::read_decision`] → play the arm →
//! [`Device::answer`] → [`Client::feedback`].

mod action;
mod answer;
mod answers;
mod context;
mod device;
mod error;
mod http;
mod pending;
mod reward;

pub use action::Decision;
pub use answers::{AnswersSpent, MOST_ANSWERS, most_answers};
pub use context::read_contexts;
pub use device::{Device, Opening};
pub use error::Error;
pub use http::Client;
pub use pending::Pending;

pub use ckks_secret::Passphrase;
use rand::SeedableRng;
use rand::rngs::SysRng;
use rand_chacha::ChaCha20Rng;

/// ChaCha20, seeded with 32 bytes from the operating system.
///
/// # Errors
/// [`Error::Randomness`] if it has none to give.
pub fn os_rng() -> Result<ChaCha20Rng, Error> {
    ChaCha20Rng::try_from_rng(&mut SysRng).map_err(|e| Error::Randomness(e.to_string()))
}
