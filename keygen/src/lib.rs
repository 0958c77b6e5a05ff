//! The key authority: makes a key pair and splits it into a public and a secret bundle.
//!
//! For the `helba-keygen` tool, and for programs and tests that play all parties ([`generate_in_memory`]). A
//! server must not depend on this crate.

mod error;
mod files;
mod generate;

pub use ckks_secret::Passphrase;
pub use error::Error;
pub use files::{create_files, create_sealed_files, create_token_file};
pub use generate::{Keys, Request, Summary, generate, generate_in_memory};

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
